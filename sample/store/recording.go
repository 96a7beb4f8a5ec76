package store

import (
	"cmp"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"backfeed/sample"
	"backfeed/sample/wire"
)

// fromRecording returns a recording as a source that has not been written yet.
func fromRecording(rec *sample.Recording) source {
	if !distinct(rec.Counts) || !distinct(rec.Off) {
		rec = sample.Merge(rec)
	}
	r := &splitter{rec: rec, flows: map[flowsKey]*sample.Recording{}, pages: map[sample.ImageID][]int{}, off: map[sample.ImageID]*sample.Recording{}}
	dir := &directory{summary: summarise(rec)}
	r.events = eventIndex(rec, dir.summary)
	for _, c := range rec.Counts {
		r.split(c)
	}
	for _, c := range rec.Off {
		r.splitOff(c)
	}
	of := []source{}
	for _, c := range slices.Concat(rec.Counts, rec.Off) {
		ids := make([]sample.ImageID, len(c.Images))
		for i, ic := range c.Images {
			ids[i] = ic.ID
		}
		of = append(of, source{dir: &directory{images: ids}})
	}
	dir.images = mergeImages(of, all)
	dir.blocks = append(r.flowBlocks(none, sample.ImageID{}), r.offBlocks(none, sample.ImageID{})...)
	for i, id := range dir.images {
		b := block{image: i, kind: kindSamples}
		for _, ic := range r.image(id) {
			if ic != nil {
				b.samples = add(b.samples, ic.Samples())
				b.entries += uint64(len(ic.At))
			}
		}
		dir.blocks = append(dir.blocks, b)
		dir.blocks = append(dir.blocks, r.flowBlocks(i, id)...)
		dir.blocks = append(dir.blocks, r.offBlocks(i, id)...)
	}
	return source{dir: dir, plain: func(b block) ([]byte, error) {
		id := dir.image(b)
		switch b.kind {
		case kindFlows:
			return r.flows[flowsKey{id.Key(), b.page}].Encode(), nil
		case kindOff:
			return r.off[id.Key()].Encode(), nil
		}
		return r.samples(id), nil
	}}
}

// flowBlocks returns the blocks of flows of an image.
func (r *splitter) flowBlocks(image int, id sample.ImageID) []block {
	var blocks []block
	for _, page := range r.pages[id.Key()] {
		samples, entries := flows(r.flows[flowsKey{id.Key(), page}])
		blocks = append(blocks, block{image: image, kind: kindFlows, page: page, samples: samples, entries: entries})
	}
	slices.SortFunc(blocks, compareBlocks)
	return blocks
}

// all wants every image.
func all(sample.ImageID) bool { return true }

// distinct reports whether no two Counts have the same processor and event.
func distinct(all []*sample.Counts) bool {
	for i, c := range all {
		if slices.ContainsFunc(all[:i], func(o *sample.Counts) bool { return o.CPU == c.CPU && o.Event == c.Event }) {
			return false
		}
	}
	return true
}

// A splitter takes a recording apart by images.
type splitter struct {
	rec    *sample.Recording
	events []int                    // index in the summary of each of rec's Counts
	index  []map[sample.ImageID]int // per Counts, its images by key
	flows  map[flowsKey]*sample.Recording
	pages  map[sample.ImageID][]int             // of flows, by key of the image
	off    map[sample.ImageID]*sample.Recording // time off the processor, by key of the image; the zero one of what has no place
}

// A flowsKey is what flows have a block for.
type flowsKey struct {
	image sample.ImageID // its key; the zero one of flows of no image
	page  int
}

// image returns the samples of an image in each Counts, nil where it has none.
func (r *splitter) image(id sample.ImageID) []*sample.ImageCounts {
	if r.index == nil {
		for _, c := range r.rec.Counts {
			m := make(map[sample.ImageID]int, len(c.Images))
			for i, ic := range c.Images {
				m[ic.ID.Key()] = i
			}
			r.index = append(r.index, m)
		}
	}
	out := make([]*sample.ImageCounts, len(r.rec.Counts))
	for i, c := range r.rec.Counts {
		if k, ok := r.index[i][id.Key()]; ok {
			out[i] = c.Images[k]
		}
	}
	return out
}

// samples returns the block of samples of an image.
func (r *splitter) samples(id sample.ImageID) []byte {
	type part struct {
		event int
		at    map[sample.Offset]uint64
	}
	var parts []part
	for i, ic := range r.image(id) {
		if ic != nil {
			parts = append(parts, part{r.events[i], ic.At})
		}
	}
	slices.SortFunc(parts, func(a, b part) int { return cmp.Compare(a.event, b.event) })
	var e wire.Writer
	e.Int(len(parts))
	last := 0
	for _, p := range parts {
		places := make([]entryCount, 0, len(p.at))
		for off, n := range p.at {
			places = append(places, entryCount{uint64(off), n})
		}
		slices.SortFunc(places, func(a, b entryCount) int { return cmp.Compare(a.off, b.off) })
		w := columnWriter{offs: make([]byte, 0, 2*len(places)), counts: make([]byte, 0, 2*len(places))}
		for _, p := range places {
			w.add(p.off, p.n)
		}
		w.appendTo(&e, p.event-last)
		last = p.event
	}
	return e.B
}

type entryCount struct{ off, n uint64 }

// split puts the stacks, branches, ranges, paths, first touches, observed counts and processes of c to the
// flows of their images. A path goes to where its first branch is, with all of it.
func (r *splitter) split(c *sample.Counts) {
	parts := map[sample.Frame]*part{} // by image and page
	of := func(first sample.Frame) *part {
		first.Off >>= pageShift
		p := parts[first]
		if p == nil {
			p = &part{from: c, to: sample.NewCounts(c.CPU, c.Event), index: map[int]int{}}
			parts[first] = p
		}
		return p
	}
	for _, s := range c.Stacks {
		p := of(s.Frames[0])
		frames := make([]sample.Frame, len(s.Frames))
		for i, f := range s.Frames {
			frames[i] = p.frame(f)
		}
		p.to.AddSample(frames[0].Image, frames[0].Off, s.N)
		p.to.Stacks = append(p.to.Stacks, sample.Stack{Frames: frames, Top: p.frame(s.Top), N: s.N})
	}
	branch := func(b sample.Branch) (*part, sample.Branch) {
		first := b.From
		if first.Image == sample.Unknown {
			first = b.To
		}
		p := of(first)
		return p, sample.Branch{From: p.frame(b.From), To: p.frame(b.To)}
	}
	for b, n := range c.Branches {
		p, own := branch(b)
		p.to.AddBranch(own, n.N, n.Mispredicted)
	}
	for b, n := range c.Targets {
		p, own := branch(b)
		p.to.AddTarget(own, n)
	}
	for rg, n := range c.Ranges {
		p := of(sample.Frame{Image: rg.Image, Off: rg.First})
		rg.Image = p.image(rg.Image)
		p.to.AddRange(rg, n)
	}
	paths := map[*part][]sample.Path{}
	for _, path := range c.Paths {
		p := of(path.Branches[0].From)
		own := path
		own.Branches = make([]sample.Branch, len(path.Branches))
		for i, b := range path.Branches {
			own.Branches[i] = sample.Branch{From: p.frame(b.From), To: p.frame(b.To)}
		}
		paths[p] = append(paths[p], own)
	}
	for p, of := range paths {
		p.to.AddPaths(of)
	}
	for i, ic := range c.Images {
		if ic.Processes > 0 { // with the first page
			p := of(sample.Frame{Image: i})
			p.to.AddProcesses(p.image(i), ic.Processes)
		}
		for off, us := range ic.First {
			p := of(sample.Frame{Image: i, Off: off})
			p.to.Touch(p.image(i), off, us)
		}
		for off, n := range ic.Probed {
			p := of(sample.Frame{Image: i, Off: off})
			p.to.AddProbed(p.image(i), off, n)
		}
		for off, n := range ic.Replayed {
			p := of(sample.Frame{Image: i, Off: off})
			p.to.AddReplayed(p.image(i), off, n)
		}
		for off, n := range ic.Counted {
			p := of(sample.Frame{Image: i, Off: off})
			p.to.AddCounted(p.image(i), off, n)
		}
		for off, n := range ic.Faults {
			p := of(sample.Frame{Image: i, Off: off})
			p.to.AddFaults(p.image(i), off, n)
		}
	}
	for first, p := range parts {
		key := flowsKey{page: int(first.Off)}
		if first.Image != sample.Unknown {
			key.image = c.Images[first.Image].ID.Key()
		}
		if r.flows[key] == nil {
			r.flows[key] = &sample.Recording{}
			r.pages[key.image] = append(r.pages[key.image], key.page)
		}
		r.flows[key].Counts = append(r.flows[key].Counts, p.to)
	}
}

// A part is what the flows of one image take of Counts.
type part struct {
	from, to *sample.Counts
	index    map[int]int // of images in to, by that in from
}

func (p *part) image(i int) int {
	k, ok := p.index[i]
	if !ok {
		k = p.to.Image(p.from.Images[i].ID.Key())
		p.index[i] = k
	}
	return k
}

func (p *part) frame(f sample.Frame) sample.Frame {
	if f.Image != sample.Unknown {
		f.Image = p.image(f.Image)
	}
	return f
}

// toRecording returns the recording that a segment holds. Where whole is false, it
// is of some images of what was sampled: without losses, and with the share of
// the weight that their samples have.
func toRecording(src source, paths map[sample.ImageID]string, whole bool) (*sample.Recording, error) {
	dir := src.dir
	recs := []*sample.Recording{{}}
	for _, c := range dir.summary.Counts { // the images first, so that they are sorted with their paths
		recs[0].Counts = append(recs[0].Counts, sample.NewCounts(c.CPU, c.Event))
	}
	at := make([]map[sample.ImageID]map[sample.Offset]uint64, len(dir.summary.Counts))
	for i := range at {
		at[i] = map[sample.ImageID]map[sample.Offset]uint64{}
	}
	for _, b := range dir.blocks {
		if !b.known() {
			continue
		}
		plain, err := src.plain(b)
		if err != nil {
			return nil, err
		}
		if b.kind == kindFlows || b.kind == kindOff {
			rec, err := sample.Decode(plain)
			if err != nil {
				return nil, err
			}
			recs = append(recs, rec)
			continue
		}
		cols, err := columns(plain, len(at))
		if err != nil {
			return nil, err
		}
		for _, col := range cols {
			recs[0].Counts[col.event].Image(dir.images[b.image])
			m := make(map[sample.Offset]uint64, min(col.n, len(col.offs)))
			if err := mergeColumns([]column{col}, func(off, n uint64) { m[sample.Offset(off)] = n }); err != nil {
				return nil, err
			}
			at[col.event][dir.images[b.image].Key()] = m
		}
	}
	sum := sample.Merge(recs...)
	for i, c := range sum.Counts {
		c.Total = 0
		for _, ic := range c.Images {
			ic.At = at[i][ic.ID.Key()]
			if ic.At == nil {
				ic.At = map[sample.Offset]uint64{}
			}
			if ic.ID.Path == "" {
				ic.ID.Path = paths[ic.ID.Key()]
			}
			c.Total = add(c.Total, ic.Samples())
		}
		if whole {
			c.Measure(dir.summary.Counts[i])
			for why, n := range dir.summary.Counts[i].Lost {
				c.Lose(why, n)
			}
		} else {
			all := dir.summary.Counts[i].Delivered()
			c.Weight = share(dir.summary.Counts[i].Weight, c.Total, all)
			shareClock(c, dir.summary.Counts[i], all)
			c.Enabled, c.Running = share(dir.summary.Counts[i].Enabled, c.Total, all), share(dir.summary.Counts[i].Running, c.Total, all)
			c.Returns, c.Held = dir.summary.Counts[i].Returns, dir.summary.Counts[i].Held
			c.Excess = dir.summary.Counts[i].ExcessOf(c.Total)
			shareProbed(c, all)
		}
	}
	for _, c := range sum.Off {
		for _, ic := range c.Images {
			if ic.ID.Path == "" {
				ic.ID.Path = paths[ic.ID.Key()]
			}
		}
	}
	for _, c := range slices.Concat(sum.Counts, sum.Off) {
		if err := c.Check(); err != nil { // flows that do not fit the samples
			return nil, fmt.Errorf("%w: %w", err, ErrFormat)
		}
	}
	if !whole {
		sum.Counts = slices.DeleteFunc(sum.Counts, func(c *sample.Counts) bool { return len(c.Images) == 0 })
	}
	return sum, nil
}

// shareClock has c, of whose delivered samples there are so many in all, clocked as long as its share of the time that they
// were. The clock is that of all.
func shareClock(c, of *sample.Counts, all uint64) {
	if c.Clocked = share(of.Clocked, c.Total, all); c.Clocked > 0 {
		c.Cycles = max(1, share(of.Cycles, c.Clocked, of.Clocked))
	}
}

// shareProbed reduces what probes counted to the share of the weight that the samples of
// c have: executions are a rate of it. Of a share of nothing, the rate is not known.
func shareProbed(c *sample.Counts, all uint64) {
	for _, ic := range c.Images {
		for off, p := range ic.Probed {
			if p.Covered = share(p.Covered, c.Total, all); p.Covered == 0 {
				p.Runs, p.Variance = 0, sample.Square{}
			}
			ic.Probed[off] = p
		}
	}
}

// share returns n parts of all of a weight, rounded up so that it stays known.
func share(weight, n, all uint64) uint64 {
	if weight == 0 || n == 0 {
		return 0
	}
	hi, lo := bits.Mul64(weight, n)
	lo, carry := bits.Add64(lo, all-1, 0)
	hi += carry
	if hi >= all {
		return math.MaxUint64
	}
	q, _ := bits.Div64(hi, lo, all)
	return q
}
