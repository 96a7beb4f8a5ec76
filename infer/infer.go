package infer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"backfeed/infer/image"
	"backfeed/infer/machine"
	"backfeed/sample"
)

// Options change what Infer does. The zero Options are the usual ones.
type Options struct {
	Event string // name of the event to use; "" is the one with the most samples that counts time, instructions or branches, if there is one

	// Executions says that counts are wanted, and not where the time went. Then an event with branch records is used before
	// one with more samples: see counted.
	Executions bool

	Model string // name of the machine model; "" is that of the recording's processor
	Known []Known

	// Only reports whether an image is asked for, by its ID; nil is all. No other is opened, decoded or estimated, and the
	// samples that are not in one that is asked for are none of the Profile's.
	Only func(sample.ImageID) bool

	Places int // how many places worth counting exactly Profile.Places shall list

	Sites   int     // how many sites worth probing Profile.Sites shall list
	Probing Probing // what these may find out

	// NoCallers leaves out procedures that only stacks tell of. Of 3,000 samples of gcc's cc1, they are half of all that is decoded.
	NoCallers bool

	// Part is how much of each image's samples is enough, from 0 to 1: of its procedures, those with the most samples that have so
	// much of them are decoded, and samples of others are lost (LostAside). 0 is all. Of 55,000 samples of CPython, 1,172 procedures
	// have all and 567 of them 0.98, with 0.6 of the instructions.
	Part float64

	// Progress is called as the work goes on, by one goroutine at a time: done of total is the share
	// of the time that has passed, about. It should return soon. nil is not called.
	Progress func(done, total int)
}

// A Known is what is known of a block beside its samples: from a probe, from an
// instrumented run. Known executions of one Infer must be of the same run, or
// scaled to it; they fix the scale of all others too.
type Known struct {
	Image sample.ImageID
	Addr  image.Addr // any instruction of a block
	N     float64    // executions
	RelSD float64    // standard deviation of N, relative to it; 0 if N is not known

	// CommonSD is the least standard deviation, relative to them, of what all N of a procedure may
	// be off by together.
	CommonSD float64

	// Of a block that ends in a conditional branch, the share of its executions that
	// takes it, and the standard deviation of that share; 0 if it is not known.
	Taken, TakenSD float64

	// Visits are executions that walks passed through (see collect.Walker); 0 says nothing.
	Visits float64
}

// ErrNothing is wrapped where the input holds nothing to infer from.
var ErrNothing = errors.New("nothing to infer from")

// Infer estimates how often the code in rec's images ran. open returns an image of
// the recording, or an error, which costs the samples of that image and nothing
// else. Samples are placed, procedures decoded, and then one search finds the
// executions of all of them together. ctx ends it soon, between two images, procedures
// or steps of the search; the error is that of ctx then.
func Infer(ctx context.Context, rec *sample.Recording, open func(sample.ImageID) (*image.Image, error), opt Options) (*Profile, error) {
	p, err := PlaceSamples(ctx, rec, open, opt)
	if err != nil {
		return nil, err
	}
	if err := p.Estimate(ctx, opt); err != nil {
		return nil, err
	}
	return p.Profile, nil
}

// A Placed is what executions are estimated from.
type Placed struct {
	Profile *Profile // its samples are placed; its executions are all unknown before Estimate

	counts []*sample.Counts
	exact  *exactCounts
	model  *machine.Model

	progress *progress // of both parts
}

// Estimate finds the executions of the procedures of Profile. It does not heed Event, Model and
// Progress of opt: those are of PlaceSamples. If ctx ended it, Profile is of no use.
func (p *Placed) Estimate(ctx context.Context, opt Options) error {
	p.progress.ctx = ctx
	estimate(p, opt)
	return ctx.Err()
}

// PlaceSamples does the first part of Infer, which takes the least time.
func PlaceSamples(ctx context.Context, rec *sample.Recording, open func(sample.ImageID) (*image.Image, error), opt Options) (*Placed, error) {
	counts, err := choose(rec, opt.Event, opt.Only, opt.Executions)
	if err != nil {
		return nil, err
	}
	if err := checkSums(counts); err != nil {
		return nil, err
	}
	model := machine.For(mostSampled(counts))
	if opt.Model != "" {
		if model, err = machine.ByName(opt.Model); err != nil {
			return nil, err
		}
	}
	prof := newProfile(counts, model)
	faults := pageFaultsIn(rec, counts)
	images := imagesOf(counts)
	if opt.Only != nil {
		images = prof.setAside(images, opt.Only)
	}
	var all []*ImageProfile
	progress := newProgress(ctx, opt.Progress)
	progress.stage(placingShare, len(images))
	for _, ic := range images {
		im, err := open(ic.ID)
		progress.done()
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		if err != nil {
			prof.lose(LostNoImage, ic.Samples())
			prof.missing = prof.missing || !callsNothing(ic.ID)
			continue
		}
		ip := &ImageProfile{ID: ic.ID, Image: im, Counts: ic, faults: faults}
		prof.place(ip, ic, opt.Part, progress)
		all = append(all, ip)
	}
	exact := exactOf(rec)
	if !opt.NoCallers {
		callers := callersIn(counts, all)
		for _, ip := range all {
			ip.addCallers(callers[ip.ID.Key()])
		}
	}
	for _, ip := range all {
		ip.addNew(exact.symbols(ip))
		if len(ip.Procs) > 0 {
			prof.Images = append(prof.Images, ip)
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if prof.Samples.Used == 0 {
		return nil, fmt.Errorf("%w: none of %d samples of %s lies in a procedure of a known image", ErrNothing, prof.Samples.Total, prof.Event.Name)
	}
	// From here on every sample is in a block of a Result, or counted as lost.
	return &Placed{prof, counts, exact, model, progress}, nil
}

// checkSums refuses so many samples that sums of them stay where they are.
func checkSums(counts []*sample.Counts) error {
	room := uint64(sample.MostSamples)
	for _, c := range counts {
		if c.Total >= room {
			return fmt.Errorf("%w: 2^53 samples of %s or more, which no recording has; a weight of a merge may be wrong", ErrNothing, c.Event.Name)
		}
		room -= c.Total
	}
	return nil
}

// choose picks the counts of one event; if only some images are asked for, those with samples of these.
func choose(rec *sample.Recording, name string, only func(sample.ImageID) bool, executions bool) ([]*sample.Counts, error) {
	asked, total, rank := name, map[string]uint64{}, map[string]int{}
	for _, c := range rec.Counts {
		total[c.Event.Name] += samplesOf(c, only)
		if c.Event.Unit == "events" {
			rank[c.Event.Name] = 1 // page faults and the like tell of executions only where nothing else does
		}
	}
	if total[name] == 0 { // "instructions" is instructions:pp, too, if there is but one
		var like []string
		for n := range total {
			if name != "" && sample.BareEvent(n) == name {
				like = append(like, n)
			}
		}
		if len(like) == 1 {
			name = like[0]
		}
	}
	if name == "" {
		for n, t := range total {
			if d := cmp.Or(cmp.Compare(rank[name], rank[n]), cmp.Compare(t, total[name]), cmp.Compare(name, n)); name == "" || d > 0 {
				name = n
			}
		}
	}
	if asked == "" && executions {
		name = counted(rec, name, only)
	}
	var cs []*sample.Counts
	for _, c := range rec.Counts {
		if c.Event.Name == name && (only == nil || samplesOf(c, only) > 0) {
			cs = append(cs, c)
		}
	}
	if total[name] == 0 {
		return nil, fmt.Errorf("%w: no samples of event %q", ErrNothing, name)
	}
	return cs, nil
}

// An event with branch records, of some hosts of many, is used before that with the most samples if it has so many samples
// of an image, for images with such a share of the others' samples. Branches are seen, where samples of time are only
// divided by how long code should take, which more of them does not mend: of zstd, 75,609 of a timer overlap the truth by
// 76 %, and 165 of 32 branches by 88 %. Not so walks that were exported for other tools, whose event counts nothing: 2000
// paths are a choice, by which gawk's overlap was 47 %, and 58 % by the timer.
const fewestCounted, leastCovered = 1000, 0.9

// counted returns the event with branch records that tells more of what ran than the event most; most if there is none.
func counted(rec *sample.Recording, most string, only func(sample.ImageID) bool) string {
	samples, records := map[string]map[sample.ImageID]uint64{}, map[string]uint64{}
	for _, c := range rec.Counts {
		by := samples[c.Event.Name]
		if by == nil {
			by = map[sample.ImageID]uint64{}
			samples[c.Event.Name] = by
		}
		for _, ic := range c.Images {
			if only == nil || only(ic.ID) {
				by[ic.ID.Key()] += ic.Samples()
			}
		}
		if c.Event.Unit == "events" {
			continue
		}
		for _, b := range c.Branches {
			records[c.Event.Name] += b.N
		}
	}
	if records[most] > 0 {
		return most
	}
	best := most
	for _, name := range slices.Sorted(maps.Keys(records)) {
		var covered, all float64
		for id, n := range samples[most] {
			all += float64(n)
			if samples[name][id] >= fewestCounted {
				covered += float64(n)
			}
		}
		if covered >= leastCovered*all && records[name] > records[best] {
			best = name
		}
	}
	return best
}

// mostSampled returns the processor that most samples were taken on: a model is of one, and those of a mix differ less from
// it than from any other.
func mostSampled(counts []*sample.Counts) sample.CPU {
	total := map[sample.CPU]uint64{}
	best := counts[0].CPU
	for _, c := range counts { // which are sorted by processor
		if total[c.CPU] += c.Total; total[c.CPU] > total[best] {
			best = c.CPU
		}
	}
	return best
}

// samplesOf returns how many samples c has of those images; nil is all that it has.
func samplesOf(c *sample.Counts, only func(sample.ImageID) bool) (n uint64) {
	if only == nil {
		return c.Total
	}
	for _, ic := range c.Images {
		if only(ic.ID) {
			n += ic.Samples()
		}
	}
	return n
}

// setAside leaves p the samples of those images that are asked for, and returns these.
func (p *Profile) setAside(images []*sample.ImageCounts, only func(sample.ImageID) bool) (asked []*sample.ImageCounts) {
	p.aside, p.Samples = p.Samples, Samples{Lost: map[sample.Loss]uint64{}}
	for _, ic := range images {
		if only(ic.ID) {
			asked = append(asked, ic)
			p.Samples.Total += ic.Samples()
			continue
		}
		p.missing = p.missing || !callsNothing(ic.ID)
	}
	p.aside.Total -= p.Samples.Total
	return asked
}

// callsNothing reports whether code of an image is known not to call that of others.
func callsNothing(id sample.ImageID) bool { return id.Path == "[vdso]" }

func newProfile(cs []*sample.Counts, model *machine.Model) *Profile {
	p := &Profile{Machine: model.Name, Event: cs[0].Event, Samples: Samples{Lost: map[sample.Loss]uint64{}}, dispersion: sample.Dispersion(cs)}
	var weight, delivered, clocked, cycles float64
	for _, c := range cs {
		p.Samples.Total += c.Total
		for why, n := range c.Lost {
			p.lose(why, n)
		}
		if c.Weight > 0 {
			weight += float64(c.Weight)
			delivered += float64(c.Delivered())
		}
		clocked += float64(c.Clocked)
		cycles += float64(c.Cycles)
	}
	if clocked > 0 { // of the rest, where the clock is not known, it is taken to be the same
		p.GHz = cycles / clocked
	}
	if delivered > 0 {
		p.Event.Period = uint64(math.Round(weight / delivered))
	}
	return p
}

func (p *Profile) lose(why sample.Loss, n uint64) {
	if n > 0 {
		p.Samples.Lost[why] += n
	}
}

// imagesOf adds up the images of several counts, by path and build ID.
func imagesOf(cs []*sample.Counts) []*sample.ImageCounts {
	if len(cs) == 1 {
		return sorted(cs[0].Images)
	}
	byID := map[sample.ImageID]*sample.ImageCounts{}
	var all []*sample.ImageCounts
	for _, c := range cs {
		for _, ic := range c.Images {
			key := ic.ID.Key()
			sum := byID[key]
			if sum == nil {
				sum = &sample.ImageCounts{ID: ic.ID, At: map[sample.Offset]uint64{}}
				byID[key] = sum
				all = append(all, sum)
			}
			sum.Processes += ic.Processes
			for off, n := range ic.At {
				sum.At[off] += n
			}
		}
	}
	return sorted(all)
}

func sorted(ics []*sample.ImageCounts) []*sample.ImageCounts {
	ics = slices.Clone(ics)
	slices.SortFunc(ics, func(a, b *sample.ImageCounts) int {
		return cmp.Or(cmp.Compare(a.ID.Path, b.ID.Path), slices.Compare(a.ID.Build[:], b.ID.Build[:]))
	})
	return ics
}

// A hit is the samples of one place.
type hit struct {
	addr    image.Addr
	n       uint64
	faulted uint64  // of n, of page faults
	faults  float64 // these
}

// resultOf decodes the procedure of a symbol for its hits, which are by address. It
// returns the number of samples that are in none of its blocks, too.
func resultOf(im *image.Image, sym int, hits []hit) (r *Result, lost uint64) {
	proc, err := im.Proc(sym)
	if err == nil && len(proc.Blocks) > 0 {
		r = resultIn(im, proc)
		r.squares = make([]float64, len(proc.Blocks))
	} else {
		proc = &image.Proc{}
	}
	b := 0
	for _, h := range hits {
		for b < len(proc.Blocks) && proc.Blocks[b].End <= h.addr {
			b++
		}
		if b == len(proc.Blocks) || h.addr < proc.Blocks[b].Start {
			lost += h.n
			continue
		}
		r.BlockSamples[b] += h.n
		if h.faulted > 0 {
			if r.faulted == nil {
				r.faulted = make([]uint64, len(proc.Blocks))
			}
			r.faulted[b] += h.faulted
			r.faults = max(r.faults, h.faults)
		}
		own := float64(h.n - h.faulted)
		r.squares[b] += own * own
		r.Samples += h.n
		r.Seen = true
		r.held += r.system.returns(b, h)
	}
	return r, lost
}

// place puts the samples of ic into the procedures of its image. If the work is to end, it leaves some out.
func (p *Profile) place(ip *ImageProfile, ic *sample.ImageCounts, part float64, progress *progress) {
	im := ip.Image
	hits := make([]hit, 0, len(ic.At))
	for off, n := range ic.At {
		if a, ok := im.AddrOf(off); ok {
			hits = append(hits, hit{a, n, ip.faults.brought(ic.ID, off, n), ip.faults.seen(ic.ID, off)})
		} else {
			p.lose(LostNoProc, n)
		}
	}
	slices.SortFunc(hits, func(a, b hit) int { return cmp.Compare(a.addr, b.addr) })
	// From here on, the hits of a procedure are neighbours.
	var syms []int
	var of [][]hit
	for len(hits) > 0 {
		i, n := im.Find(hits[0].addr), 1
		if i < 0 {
			p.lose(LostNoProc, hits[0].n)
		} else {
			s := &im.Symbols()[i]
			for n < len(hits) && hits[n].addr-s.Addr < image.Addr(s.Size) {
				n++
			}
			syms, of = append(syms, i), append(of, hits[:n])
		}
		hits = hits[n:]
	}
	if part > 0 {
		syms, of = p.weightiest(syms, of, part)
	}
	results := make([]*Result, len(syms))
	lost := make([]uint64, len(syms))
	progress.parallel(len(syms), func(k int) { results[k], lost[k] = resultOf(im, syms[k], of[k]) })
	for k, r := range results {
		p.lose(LostNoProc, lost[k])
		if r != nil {
			ip.Procs = append(ip.Procs, r)
			ip.Samples += r.Samples
			p.Samples.Faulted += sumOf(r.faulted)
		}
	}
	p.Samples.Used += ip.Samples
}

// weightiest returns the procedures with the most samples, in their order, that have such a part of all hits, and loses the others' samples.
func (p *Profile) weightiest(syms []int, of [][]hit, part float64) (most []int, hits [][]hit) {
	sums := make(map[int]uint64, len(syms))
	for k, of := range of {
		for _, h := range of {
			sums[k] += h.n
		}
	}
	in := Weightiest(sums, part, cmp.Compare[int])
	for _, k := range in {
		delete(sums, k)
	}
	for _, n := range sums {
		p.lose(LostAside, n)
	}
	slices.Sort(in)
	for _, k := range in {
		most, hits = append(most, syms[k]), append(hits, of[k])
	}
	return most, hits
}

// Weightiest returns the keys with the most samples that together have such a part of all, from 0 to 1, by falling samples; of as many, in
// the order that compare says.
func Weightiest[K comparable](samples map[K]uint64, part float64, compare func(a, b K) int) []K {
	all := slices.SortedFunc(maps.Keys(samples), func(a, b K) int { return cmp.Or(cmp.Compare(samples[b], samples[a]), compare(a, b)) })
	sum, have := uint64(0), uint64(0)
	for _, n := range samples {
		sum += n
	}
	for i, k := range all {
		if float64(have) >= part*float64(sum) {
			return all[:i]
		}
		have += samples[k]
	}
	return all
}

// callersIn returns the places that stacks return to, by key of their image.
func callersIn(counts []*sample.Counts, images []*ImageProfile) map[sample.ImageID]map[sample.Offset]bool {
	callers := map[sample.ImageID]map[sample.Offset]bool{}
	for _, c := range counts {
		returns := make([]map[sample.Offset]bool, len(c.Images))
		for i, ic := range c.Images {
			key := ic.ID.Key()
			if callers[key] == nil {
				callers[key] = map[sample.Offset]bool{}
			}
			returns[i] = callers[key]
		}
		for _, s := range stacks(c, images) {
			for _, f := range s.Frames[1:] {
				if f.Image != sample.Unknown && f.Off > 0 {
					returns[f.Image][f.Off] = true
				}
			}
		}
	}
	return callers
}

// addCallers adds the procedures of ip that only the stacks name: they ran, even
// if no sample lies in them.
func (ip *ImageProfile) addCallers(returns map[sample.Offset]bool) {
	syms := map[int]bool{}
	for off := range returns {
		if a, ok := ip.Image.AddrOf(off - 1); ok { // the call ends where it returns to
			if i := ip.Image.Find(a); i >= 0 {
				syms[i] = true
			}
		}
	}
	for _, r := range ip.Procs {
		delete(syms, r.Proc.Index)
	}
	for _, r := range ip.add(slices.Sorted(maps.Keys(syms))) {
		r.Seen = true
	}
}

// add decodes the procedures of some symbols, and returns the results that it added.
func (ip *ImageProfile) add(syms []int) []*Result {
	made := make([]*Result, len(syms))
	parallel(len(syms), func(k int) {
		if p, err := ip.Image.Proc(syms[k]); err == nil && len(p.Blocks) > 0 {
			made[k] = resultIn(ip.Image, p)
		}
	})
	made = slices.DeleteFunc(made, func(r *Result) bool { return r == nil })
	ip.Procs = append(ip.Procs, made...)
	slices.SortFunc(ip.Procs, func(a, b *Result) int { return cmp.Compare(a.Proc.Addr, b.Proc.Addr) })
	return made
}

// resultIn is newResult of a procedure of im.
func resultIn(im *image.Image, p *image.Proc) *Result {
	r := newResult(p)
	r.system = systemCallsOf(im, p)
	return r
}

func newResult(p *image.Proc) *Result {
	return &Result{
		Proc:         p,
		Block:        make([]Freq, len(p.Blocks)),
		Cold:         make([]bool, len(p.Blocks)),
		BlockSamples: make([]uint64, len(p.Blocks)),
		Edge:         make([]Freq, len(p.Edges)),
		Call:         make([]Freq, len(p.Calls)),
	}
}
