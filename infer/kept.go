package infer

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/wire"
)

// What Infer found can be kept, and be had again without a search for the same recording, images and options. Integers,
// strings and lists are those of package wire; floats are their 64 bits, little-endian.
//
//	string   machine
//	string   event: name; integer, period; string, unit
//	floats   GHz, Common, Counted, ColdBelow, dispersion
//	integer  1 if an image is missing that may call others
//	-        Samples, then those aside: integers, total, used; list of losses: string, reason; integer, samples
//	list     names of what calls lead to: strings
//	list     images: integer, index among the recording's of that event, minus that of the entry before;
//	         integer, samples; list of procedures: integer, bytes; then their bytes, one after the other
//
// Procedure:
//
//	-        as image.Proc.Keep has it
//	integer  1 if seen, 2 if the most of its blocks is known, or their sum
//	freq     entries
//	-        for each block: integer, samples; freq; float, most, if known
//	-        for each edge, then each call: freq
//	list     blocks that more may enter: integers
//	list     blocks that less may leave: integers
//
// Freq is 2 for each of the executions of 128, with 6 bits below them for Conf, Among and Within, and a bit that is 1 if executions are a
// float, which follows.

// errKept is wrapped by all errors of Restore that blame the bytes.
var errKept = errors.New("malformed inference")

// Keepable reports whether Keep holds all that was asked for.
func (o Options) Keepable() bool { return o.Places == 0 && o.Sites == 0 && len(o.Known) == 0 }

// Keep returns p, which Infer has made with options that are Keepable, as Restore reads it.
func (p *Profile) Keep(rec *sample.Recording, opt Options) ([]byte, error) {
	_, images, err := chosen(rec, opt)
	if err != nil {
		return nil, err
	}
	k := keeper{numbers: map[string]int{}}
	var procs wire.Writer
	procs.Int(len(p.Images))
	last := -1
	for _, ip := range p.Images {
		i := slices.IndexFunc(images, func(ic *sample.ImageCounts) bool { return ic.ID.Key() == ip.ID.Key() })
		if i <= last {
			return nil, fmt.Errorf("%s: out of order", ip.ID)
		}
		procs.Int(i - max(last, 0))
		last = i
		procs.Uint(ip.Samples)
		k.image(&procs, ip)
	}
	w := wire.Writer{B: make([]byte, 0, len(procs.B)+1<<16)}
	w.String(p.Machine)
	w.String(p.Event.Name)
	w.Uint(p.Event.Period)
	w.String(p.Event.Unit)
	for _, f := range []float64{p.GHz, p.Common, p.Counted, p.ColdBelow, p.dispersion} {
		appendFloat(&w, f)
	}
	missing := 0
	if p.missing {
		missing = 1
	}
	w.Int(missing)
	for _, s := range []Samples{p.Samples, p.aside} {
		w.Uint(s.Total)
		w.Uint(s.Used)
		w.Uint(s.Faulted)
		w.Int(len(s.Lost))
		for _, why := range slices.Sorted(maps.Keys(s.Lost)) {
			w.String(string(why))
			w.Uint(s.Lost[why])
		}
	}
	w.Int(len(k.names))
	for _, name := range k.names {
		w.String(name)
	}
	w.B = append(w.B, procs.B...)
	return w.B, nil
}

// A keeper writes procedures.
type keeper struct {
	names   []string
	numbers map[string]int // by name
	procs   wire.Writer    // of one image
}

func (k *keeper) number(name string) int {
	n, ok := k.numbers[name]
	if !ok {
		n = len(k.names)
		k.numbers[name] = n
		k.names = append(k.names, name)
	}
	return n
}

func (k *keeper) image(w *wire.Writer, ip *ImageProfile) {
	k.procs.B = k.procs.B[:0]
	w.Int(len(ip.Procs))
	for _, r := range ip.Procs {
		before := len(k.procs.B)
		k.result(r)
		w.Int(len(k.procs.B) - before)
	}
	w.B = append(w.B, k.procs.B...)
}

func (k *keeper) result(r *Result) {
	w := &k.procs
	r.Proc.Keep(w, k.number)
	flags := 0
	if r.Seen {
		flags |= 1
	}
	if r.Most != nil {
		flags |= 2
	}
	if r.faulted != nil {
		flags |= 4
	}
	w.Int(flags)
	w.Uint(r.held)
	keepFreq(w, r.Entries)
	for b := range r.Block {
		w.Uint(r.BlockSamples[b])
		if r.faulted != nil {
			w.Uint(r.faulted[b])
		}
		keepFreq(w, r.Block[b])
		if r.Most != nil {
			appendFloat(w, r.Most[b])
		}
	}
	for _, f := range r.Edge {
		keepFreq(w, f)
	}
	for _, f := range r.Call {
		keepFreq(w, f)
	}
	for _, blocks := range [][]int32{r.entered, r.trapped} {
		w.Int(len(blocks))
		for _, b := range blocks {
			w.Int(int(b))
		}
	}
}

func appendFloat(w *wire.Writer, f float64) {
	w.B = binary.LittleEndian.AppendUint64(w.B, math.Float64bits(f))
}

// freqShift is how many bits of what is kept of a Freq are below its executions.
const freqShift = 7

func keepFreq(w *wire.Writer, f Freq) {
	conf := uint64(f.Conf)<<5 | uint64(f.Among)<<3 | uint64(f.Within)<<1
	if n := uint64(f.N); f.N >= 0 && f.N <= 2*maxExecutions && math.Float64bits(float64(n)) == math.Float64bits(f.N) {
		w.Uint(n<<freqShift | conf)
		return
	}
	w.Uint(conf | 1)
	appendFloat(w, f.N)
}

// chosen returns the counts that Infer uses, and their images in the order in which it opens them.
func chosen(rec *sample.Recording, opt Options) ([]*sample.Counts, []*sample.ImageCounts, error) {
	counts, err := choose(rec, opt.Event, opt.Only, opt.Executions)
	if err != nil {
		return nil, nil, err
	}
	images := imagesOf(counts)
	if opt.Only != nil {
		images = slices.DeleteFunc(images, func(ic *sample.ImageCounts) bool { return !opt.Only(ic.ID) })
	}
	return counts, images, nil
}

// Chosen returns the event whose samples Infer uses, and the images that it opens, in that order. Equal ones are all that Event, Executions and Only
// of opt bring about.
func Chosen(rec *sample.Recording, opt Options) (event string, images []sample.ImageID, err error) {
	counts, of, err := chosen(rec, opt)
	if err != nil {
		return "", nil, err
	}
	for _, ic := range of {
		images = append(images, ic.ID)
	}
	return counts[0].Event.Name, images, nil
}

// Restore returns the Profile that Keep was called of, as equal arguments have Infer make it. That they are equal is for the
// caller to see to: Restore refuses only what is not well-formed.
func Restore(ctx context.Context, b []byte, rec *sample.Recording, open func(sample.ImageID) (*image.Image, error), opt Options) (*Profile, error) {
	counts, images, err := chosen(rec, opt)
	if err != nil {
		return nil, err
	}
	faults := pageFaultsIn(rec, counts)
	r := &wire.Reader{B: b, Format: errKept}
	p := &Profile{Machine: r.String("machine")}
	p.Event = sample.Event{Name: r.String("event"), Period: r.Uint(math.MaxUint64, "period"), Unit: r.String("unit")}
	for _, f := range []*float64{&p.GHz, &p.Common, &p.Counted, &p.ColdBelow, &p.dispersion} {
		*f = floatKept(r)
	}
	p.missing = r.Uint(1, "missing") == 1
	p.Samples, p.aside = samplesKept(r), samplesKept(r)
	if opt.Only == nil { // nothing is set aside
		p.aside = Samples{}
	}
	names := make([]string, r.Len(1, "names"))
	for i := range names {
		names[i] = r.String("name")
	}
	i := 0
	for range r.Len(3, "images") {
		at := r.Off
		if i += int(r.Uint(uint64(len(images)), "image")); i >= len(images) {
			r.Fail(at, "image")
		}
		used := r.Uint(math.MaxUint64, "samples")
		procs := procsKept(r)
		if r.Err != nil {
			return nil, r.Err
		}
		ip := &ImageProfile{ID: images[i].ID, Counts: images[i], Samples: used, faults: faults}
		if ip.Image, err = open(ip.ID); err != nil {
			return nil, err
		}
		if err := ip.restore(ctx, procs, names, p.ColdBelow); err != nil {
			return nil, err
		}
		p.Images = append(p.Images, ip)
	}
	if r.Left() > 0 {
		r.Fail(r.Off, "end")
	}
	if r.Err != nil {
		return nil, r.Err
	}
	return p, nil
}

// samplesKept reads what became of samples.
func samplesKept(r *wire.Reader) Samples {
	s := Samples{Total: r.Uint(math.MaxUint64, "samples"), Used: r.Uint(math.MaxUint64, "samples used"), Faulted: r.Uint(math.MaxUint64, "samples of page faults"), Lost: map[sample.Loss]uint64{}}
	for range r.Len(2, "losses") {
		why := sample.Loss(r.String("loss"))
		s.Lost[why] = r.Uint(math.MaxUint64, "samples lost")
	}
	return s
}

// procsKept returns the bytes of each procedure of an image.
func procsKept(r *wire.Reader) []wire.Reader {
	lengths := make([]int, r.Len(1, "procedures"))
	for i := range lengths {
		lengths[i] = r.Len(1, "size of a procedure")
	}
	procs := make([]wire.Reader, len(lengths))
	for i, n := range lengths {
		at := r.Off
		procs[i] = wire.Reader{B: r.Bytes(n, "procedure"), Base: int64(at), Format: r.Format}
	}
	return procs
}

// restore reads the procedures of ip.
func (ip *ImageProfile) restore(ctx context.Context, procs []wire.Reader, names []string, coldBelow float64) error {
	ip.Procs = make([]*Result, len(procs))
	(&progress{ctx: ctx}).parallel(len(procs), func(i int) { ip.Procs[i] = restored(&procs[i], ip.Image, names, coldBelow) })
	if err := ctx.Err(); err != nil {
		return err
	}
	for i := range procs {
		r := &procs[i]
		switch {
		case r.Err == nil && r.Left() > 0:
			r.Fail(r.Off, "end of a procedure")
		case r.Err == nil && i > 0 && ip.Procs[i-1].Proc.Addr >= ip.Procs[i].Proc.Addr:
			r.Fail(0, "order of procedures")
		}
		if r.Err != nil {
			return r.Err
		}
	}
	return nil
}

// restored reads one procedure.
func restored(r *wire.Reader, im *image.Image, names []string, coldBelow float64) *Result {
	p := im.Restore(r, names)
	if p == nil {
		return nil
	}
	flags := r.Uint(7, "flags of a result")
	res := newResult(p)
	res.Seen = flags&1 != 0
	if flags&2 != 0 {
		res.Most = make([]float64, len(p.Blocks))
	}
	res.held = r.Uint(sample.MostSamples, "samples where system calls return")
	res.Entries = freqKept(r)
	if flags&4 != 0 {
		res.faulted = make([]uint64, len(p.Blocks))
	}
	for b := range res.Block {
		n := r.Uint(sample.MostSamples, "samples of a block")
		res.BlockSamples[b] = n
		if res.faulted != nil {
			res.faulted[b] = r.Uint(n, "samples of page faults")
		}
		res.Samples += n
		res.Block[b] = freqKept(r)
		if res.Most != nil {
			res.Most[b] = floatKept(r)
			res.Cold[b] = res.Most[b] < coldBelow
		}
	}
	for e := range res.Edge {
		res.Edge[e] = freqKept(r)
	}
	for c := range res.Call {
		res.Call[c] = freqKept(r)
	}
	res.entered, res.trapped = blocksKept(r, len(p.Blocks)), blocksKept(r, len(p.Blocks))
	return res
}

func blocksKept(r *wire.Reader, most int) []int32 {
	n := r.Len(1, "blocks")
	if n == 0 {
		return nil
	}
	blocks := make([]int32, n)
	for i := range blocks {
		blocks[i] = int32(r.Uint(uint64(most), "block"))
	}
	return blocks
}

func floatKept(r *wire.Reader) float64 {
	b := r.Bytes(8, "float")
	if b == nil {
		return 0
	}
	return math.Float64frombits(binary.LittleEndian.Uint64(b))
}

func freqKept(r *wire.Reader) Freq {
	v := r.Uint(math.MaxUint64, "executions")
	f := Freq{N: float64(v >> freqShift), Conf: Confidence(v >> 5 & 3), Among: Confidence(v >> 3 & 3), Within: Confidence(v >> 1 & 3)}
	if v&1 != 0 {
		f.N = floatKept(r)
	}
	return f
}
