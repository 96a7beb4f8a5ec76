package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"backfeed/sample"
	"backfeed/sample/wire"
)

// A source is a segment to be merged: a file, or a recording that is to become one.
type source struct {
	name  string // of the file
	dir   *directory
	plain func(block) ([]byte, error) // the plain bytes of one of its blocks
}

// A packed block is one as it is written.
type packed struct {
	block
	bytes []byte
}

// merge adds up segments. It returns the blocks to emit in the order of the
// directory, which it returns without epoch and labels. Images that want refuses
// are left out; the summary is of all. Blocks are compressed by pack.
//
// Images are merged side by side, and at most a few per processor are in memory.
func merge(sources []source, want func(sample.ImageID) bool, pack func([]byte) []byte, emit func(packed) error) (*directory, error) {
	out := &directory{parts: mergeParts(sources), summary: mergeSummaries(sources), images: mergeImages(sources, want)}
	jobs := make([]job, 1+len(out.images)) // the first is of no image
	index := make(map[sample.ImageID]int, len(out.images))
	for i, id := range out.images {
		index[id.Key()] = i
	}
	if want(sample.ImageID{}) {
		index[sample.ImageID{}] = none
	}
	for s, src := range sources {
		events := eventIndex(src.dir.summary, out.summary)
		for _, b := range src.dir.blocks {
			if !b.known() {
				continue // see foreign
			}
			if i, ok := index[src.dir.image(b).Key()]; ok {
				jobs[1+i].inputs = append(jobs[1+i].inputs, input{block: b, source: &sources[s], events: events})
			}
		}
	}

	slots := make(chan struct{}, 2*runtime.GOMAXPROCS(0)) // images in memory
	results := make([]chan result, len(jobs))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	stop := make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		for i := range jobs {
			select {
			case slots <- struct{}{}:
			case <-stop:
				return
			}
			running.Go(func() {
				bs, err := jobs[i].run(i-1, pack)
				results[i] <- result{bs, err}
			})
		}
	})
	defer running.Wait()
	defer close(stop)
	at := int64(len(magic))
	for i := range jobs {
		r := <-results[i]
		if r.err != nil {
			return nil, r.err
		}
		for _, b := range r.blocks {
			b.off = at
			at += int64(b.stored)
			if err := emit(b); err != nil {
				return nil, err
			}
			out.blocks = append(out.blocks, b.block)
		}
		<-slots
	}
	return out, nil
}

type result struct {
	blocks []packed
	err    error
}

// A job is to merge the blocks of one image.
type job struct{ inputs []input }

// An input is a block of one of the segments that are merged.
type input struct {
	block
	source *source
	events []int // index of each event of the source in the merged summary
}

func (j *job) run(image int, pack func([]byte) []byte) ([]packed, error) {
	slices.SortStableFunc(j.inputs, func(a, b input) int { return compareBlocks(a.block, b.block) })
	var out []packed
	for len(j.inputs) > 0 {
		first := j.inputs[0].block
		n := 1
		for n < len(j.inputs) && compareBlocks(j.inputs[n].block, first) == 0 {
			n++
		}
		plain, b, err := mergeBlocks(first.kind, j.inputs[:n])
		if err != nil {
			return nil, err
		}
		if len(plain) > maxBlock {
			return nil, fmt.Errorf("%d bytes of samples, more than the %d that a block can have", len(plain), maxBlock)
		}
		j.inputs = j.inputs[n:]
		stored := pack(plain)
		b.image, b.kind, b.page, b.plain, b.stored = image, first.kind, first.page, len(plain), len(stored)
		b.sum = wire.Checksum(stored)
		out = append(out, packed{b, stored})
	}
	return out, nil
}

// mergeBlocks adds up blocks of one kind and image.
func mergeBlocks(kind int, in []input) ([]byte, block, error) {
	plain := make([][]byte, len(in))
	for i, b := range in {
		var err error
		if plain[i], err = b.source.plain(b.block); err != nil {
			return nil, block{}, b.source.blame(err)
		}
	}
	switch kind {
	case kindSamples:
		return mergeSamples(in, plain)
	case kindOff:
		return mergeOff(in, plain)
	}
	return mergeFlows(in, plain)
}

// blame says which segment the bytes are of that make no sense.
func (s *source) blame(err error) error {
	if s != nil && errors.Is(err, ErrFormat) {
		return &SegmentError{s.name, err}
	}
	return err
}

// mergeFlows adds up the flows of one image. One of the segments is decoded at a
// time.
func mergeFlows(in []input, plain [][]byte) ([]byte, block, error) {
	var sum sample.Recording
	for i, b := range plain {
		rec, err := sample.Decode(b)
		if err != nil {
			return nil, block{}, in[i].source.blame(fmt.Errorf("%w: %w", err, ErrFormat))
		}
		for _, c := range rec.Counts {
			sum.Add(c)
		}
	}
	samples, entries := flows(&sum)
	return sum.Encode(), block{samples: samples, entries: entries}, nil
}

// flows counts what is in a block of flows.
func flows(r *sample.Recording) (samples, entries uint64) {
	for _, c := range r.Counts {
		entries += uint64(len(c.Stacks) + len(c.Branches) + len(c.Ranges) + len(c.Paths) + len(c.Targets))
		for _, ic := range c.Images {
			entries += uint64(len(ic.First) + len(ic.Probed) + len(ic.Replayed) + len(ic.Counted) + len(ic.Faults))
		}
		for _, s := range c.Stacks {
			samples = add(samples, s.N)
		}
		for _, b := range c.Branches {
			samples = add(samples, b.N)
		}
		for _, n := range c.Ranges {
			samples = add(samples, n)
		}
	}
	return samples, entries
}

// A column is the samples of one event in one image, still encoded. It is read
// place by place, by increasing offset.
type column struct {
	source *source // that it is of, if that is to be blamed
	event  int
	n      int    // places left
	offs   []byte // of the places left
	counts []byte
	off    uint64 // of the place that next read
	count  uint64
	first  bool
}

// next reads a place. It returns false at the end, and where the bytes make no sense.
func (c *column) next() (ok bool, err error) {
	if c.n == 0 {
		if len(c.offs)+len(c.counts) > 0 {
			return false, fmt.Errorf("length of a column: %w", ErrFormat)
		}
		return false, nil
	}
	delta, i := binary.Uvarint(c.offs)
	count, j := binary.Uvarint(c.counts)
	if i <= 0 || delta > math.MaxUint64-c.off || delta == 0 && !c.first || i > 1 && c.offs[i-1] == 0 {
		return false, fmt.Errorf("offset after %#x: %w", c.off, ErrFormat)
	}
	if j <= 0 || count == 0 || j > 1 && c.counts[j-1] == 0 {
		return false, fmt.Errorf("samples at %#x: %w", c.off+delta, ErrFormat)
	}
	c.offs, c.counts = c.offs[i:], c.counts[j:]
	c.off += delta
	c.count = count
	c.n--
	c.first = false
	return true, nil
}

// columns returns what is in a block of samples.
func columns(plain []byte, events int) ([]column, error) {
	d := newDecoder(plain, 0)
	var cols []column
	last := 0
	for i := range d.List(4, "events") {
		off := d.Off
		event := last + int(d.Uint(uint64(events), "event"))
		if event >= events || i > 0 && event == last {
			d.Fail(off, "event")
		}
		c := column{event: event, first: true}
		c.n = int(d.Uint(uint64(len(plain)), "places"))
		c.offs = d.Bytes(int(d.Uint(uint64(len(plain)), "bytes of offsets")), "offsets")
		c.counts = d.Bytes(int(d.Uint(uint64(len(plain)), "bytes of samples")), "samples")
		if d.Err != nil {
			return nil, d.Err
		}
		cols = append(cols, c)
		last = event
	}
	if d.Off != len(plain) {
		d.Fail(d.Off, "end of the block")
	}
	return cols, d.Err
}

// A columnWriter encodes the places of one event in one image.
type columnWriter struct {
	n            int
	offs, counts []byte
	last         uint64
	samples      uint64
}

// add appends a place, whose offset is larger than that of the one before.
func (w *columnWriter) add(off, count uint64) {
	w.offs = binary.AppendUvarint(w.offs, off-w.last)
	w.counts = binary.AppendUvarint(w.counts, count)
	w.last = off
	w.n++
	w.samples = add(w.samples, count)
}

// appendTo appends the column to those of a block.
func (w *columnWriter) appendTo(e *wire.Writer, delta int) {
	e.Int(delta)
	e.Int(w.n)
	e.Int(len(w.offs))
	e.B = append(e.B, w.offs...)
	e.Int(len(w.counts))
	e.B = append(e.B, w.counts...)
}

// mergeSamples adds up the samples of one image.
func mergeSamples(in []input, plain [][]byte) ([]byte, block, error) {
	var cols []column
	size := 0
	for i, b := range in {
		cs, err := columns(plain[i], len(b.events))
		if err != nil {
			return nil, block{}, b.source.blame(err)
		}
		for _, c := range cs {
			c.source = b.source
			c.event = b.events[c.event]
			cols = append(cols, c)
		}
		size = max(size, len(plain[i]))
	}
	slices.SortStableFunc(cols, func(a, b column) int { return cmp.Compare(a.event, b.event) })
	var e wire.Writer
	var sum block
	events := 0
	for i := range cols {
		if i == 0 || cols[i].event != cols[i-1].event {
			events++
		}
	}
	e.B = make([]byte, 0, size+size/4)
	e.Int(events)
	last := 0
	for len(cols) > 0 {
		event, n := cols[0].event, 1
		for n < len(cols) && cols[n].event == event {
			n++
		}
		var w columnWriter
		if err := mergeColumns(cols[:n], w.add); err != nil {
			return nil, block{}, err
		}
		w.appendTo(&e, event-last)
		sum.samples = add(sum.samples, w.samples)
		sum.entries += uint64(w.n)
		cols, last = cols[n:], event
	}
	return e.B, sum, nil
}

// mergeColumns returns the places of all columns by increasing offset, and the
// samples at each.
func mergeColumns(cols []column, place func(off, count uint64)) error {
	heap := make([]*column, 0, len(cols)) // the place with the smallest offset first
	for i := range cols {
		ok, err := cols[i].next()
		if err != nil {
			return cols[i].source.blame(err)
		}
		if ok {
			heap = append(heap, &cols[i])
		}
	}
	slices.SortFunc(heap, func(a, b *column) int { return cmp.Compare(a.off, b.off) })
	for len(heap) > 0 {
		off, count := heap[0].off, uint64(0)
		for len(heap) > 0 && heap[0].off == off {
			c := heap[0]
			count = add(count, c.count)
			ok, err := c.next()
			if err != nil {
				return c.source.blame(err)
			}
			if !ok {
				heap[0] = heap[len(heap)-1]
				heap = heap[:len(heap)-1]
			}
			sink(heap)
		}
		place(off, count)
	}
	return nil
}

// sink puts the first column of a heap where it belongs.
func sink(heap []*column) {
	i := 0
	for {
		least := 2*i + 1
		if least >= len(heap) {
			return
		}
		if r := least + 1; r < len(heap) && heap[r].off < heap[least].off {
			least = r
		}
		if heap[i].off <= heap[least].off {
			return
		}
		heap[i], heap[least] = heap[least], heap[i]
		i = least
	}
}

func mergeSummaries(sources []source) *sample.Recording {
	all := make([]*sample.Recording, len(sources))
	for i, s := range sources {
		all[i] = s.dir.summary
	}
	return sample.Merge(all...)
}

// eventIndex returns the index in all of each event of one.
func eventIndex(one, all *sample.Recording) []int {
	index := make([]int, len(one.Counts))
	for i, c := range one.Counts {
		index[i] = slices.IndexFunc(all.Counts, func(o *sample.Counts) bool { return o.CPU == c.CPU && o.Event == c.Event })
	}
	return index
}

// addPath adds an image to paths by keys. Of the paths of one with a build ID, the
// smallest is kept, as package sample does.
func addPath(paths map[sample.ImageID]string, id sample.ImageID) {
	if old, ok := paths[id.Key()]; !ok || old == "" || id.Path != "" && id.Path < old {
		paths[id.Key()] = id.Path
	}
}

// mergeImages returns the wanted images of all sources.
func mergeImages(sources []source, want func(sample.ImageID) bool) []sample.ImageID {
	all := map[sample.ImageID]string{} // the path of each image, by its key
	for _, s := range sources {
		for _, id := range s.dir.images {
			if !want(id) {
				continue
			}
			addPath(all, id)
		}
	}
	ids := make([]sample.ImageID, 0, len(all))
	for key, path := range all {
		ids = append(ids, sample.ImageID{Build: key.Build, Path: path})
	}
	slices.SortFunc(ids, sample.ImageID.Compare)
	return ids
}

func mergeParts(sources []source) []partID {
	var all []partID
	for _, s := range sources {
		all = append(all, s.dir.parts...)
	}
	slices.SortFunc(all, compareIDs)
	return slices.Compact(all)
}
