package store

import (
	"fmt"

	"backfeed/sample"
)

// splitOff puts time off the processor to the images that threads left it in. Who waited and when is not kept.
func (r *splitter) splitOff(c *sample.Counts) {
	parts := make([]*part, len(c.Images))
	of := func(image int) *part {
		p := parts[image]
		if p == nil {
			p = &part{from: c, to: sample.NewCounts(c.CPU, c.Event), index: map[int]int{}}
			parts[image] = p
		}
		return p
	}
	for i, ic := range c.Images {
		for off, n := range ic.At {
			p := of(i)
			p.to.AddSample(p.image(i), off, n)
		}
	}
	for _, s := range c.Stacks {
		p := of(s.Frames[0].Image)
		frames := make([]sample.Frame, len(s.Frames))
		for i, f := range s.Frames {
			frames[i] = p.frame(f)
		}
		p.to.Stacks = append(p.to.Stacks, sample.Stack{Frames: frames, Top: p.frame(s.Top), N: s.N})
	}
	for i, p := range parts {
		if p != nil {
			r.addOff(c.Images[i].ID.Key(), c, p.to)
		}
	}
	if len(c.Lost) > 0 {
		lost := sample.NewCounts(c.CPU, c.Event)
		for why, n := range c.Lost {
			lost.Lose(why, n)
		}
		r.addOff(sample.ImageID{}, c, lost)
	}
}

// addOff adds a part of c to what an image has.
func (r *splitter) addOff(key sample.ImageID, c, part *sample.Counts) {
	part.Weight = part.Delivered() * sample.OffPeriod
	part.Excess = c.ExcessOf(part.Total)
	if r.off[key] == nil {
		r.off[key] = &sample.Recording{}
	}
	r.off[key].AddOff(part)
}

// offBlocks returns the block of time off the processor of an image, if it has one.
func (r *splitter) offBlocks(image int, id sample.ImageID) []block {
	off := r.off[id.Key()]
	if off == nil {
		return nil
	}
	b := block{image: image, kind: kindOff}
	b.samples, b.entries = offSums(off)
	return []block{b}
}

// offSums counts what is in a block of time off the processor.
func offSums(r *sample.Recording) (microseconds, entries uint64) {
	for _, c := range r.Off {
		microseconds = add(microseconds, c.Total)
		entries += uint64(len(c.Stacks))
		for _, ic := range c.Images {
			entries += uint64(len(ic.At))
		}
	}
	return microseconds, entries
}

// decodeOff reads a block of time off the processor.
func decodeOff(plain []byte) (*sample.Recording, error) {
	rec, err := sample.Decode(plain)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", err, ErrFormat)
	}
	if len(rec.Counts) > 0 || len(rec.Runs) > 0 || len(rec.Off) == 0 {
		return nil, fmt.Errorf("time off the processor, and what else there is: %w", ErrFormat)
	}
	return rec, nil
}

// mergeOff adds up the time off the processor of one image.
func mergeOff(in []input, plain [][]byte) ([]byte, block, error) {
	var sum sample.Recording
	for i, b := range plain {
		rec, err := decodeOff(b)
		if err != nil {
			return nil, block{}, in[i].source.blame(err)
		}
		for _, c := range rec.Off {
			sum.AddOff(c)
		}
	}
	microseconds, entries := offSums(&sum)
	return sum.Encode(), block{samples: microseconds, entries: entries}, nil
}

func (b block) verifyOff(plain []byte) error {
	rec, err := decodeOff(plain)
	if err != nil {
		return err
	}
	return b.verifySums(offSums(rec))
}
