package store

import (
	"slices"
	"time"

	"backfeed/sample"
)

// A Segment is what a store says of one of its files.
type Segment struct {
	Name    string
	Epoch   sample.Epoch
	Labels  map[string]string
	Puts    int // that it is made of
	Bytes   int64
	Images  int
	Samples uint64 // the lost ones included
	Lost    map[sample.Loss]uint64
}

// Segments lists the segments that count, by epoch.
func (s *Dir) Segments() ([]Segment, error) {
	l, err := s.list()
	if err != nil {
		return nil, err
	}
	s.warn(l)
	out := make([]Segment, len(l.live))
	for i, e := range l.live {
		out[i] = e.segment(len(e.parts))
	}
	return out, nil
}

// A Window is the time of epochs, and how many values a label has in them.
type Window struct {
	From, To time.Time // start of the first, end of the last; zero if there is none
	Values   map[string]bool
}

// Add extends w by another window.
func (w *Window) Add(o Window) {
	if w.From.IsZero() || !o.From.IsZero() && o.From.Before(w.From) {
		w.From = o.From
	}
	if o.To.After(w.To) {
		w.To = o.To
	}
	for v := range o.Values {
		if w.Values == nil {
			w.Values = map[string]bool{}
		}
		w.Values[v] = true
	}
}

// Window returns the time of the epochs of which q asks for samples and the store has some, and the values that a label
// has in their segments.
func (s *Dir) Window(q Query, label string) (Window, error) {
	var w Window
	l, err := s.list()
	if err != nil {
		return w, err
	}
	wants := q.wants()
	for _, e := range l.live {
		if q.matches(e) {
			w.add(e, wants, label)
		}
	}
	return w, nil
}

// add extends w by a segment, if it has samples of a wanted image.
func (w *Window) add(e entry, wants func(sample.ImageID) bool, label string) {
	if !slices.ContainsFunc(e.blocks, func(b block) bool {
		return b.kind == kindSamples && b.image != none && b.samples > 0 && wants(e.image(b))
	}) {
		return
	}
	of := Window{From: e.epoch.From(), To: e.epoch.To()}
	if v := e.labels[label]; v != "" {
		of.Values = map[string]bool{v: true}
	}
	w.Add(of)
}

// Stats are sums over a store.
type Stats struct {
	Segments  int
	Epochs    int
	Images    int
	Copies    int    // of images
	Places    uint64 // (image, event, offset) with samples, each counted in each segment
	Flows     uint64 // stacks, branches, ranges and paths, likewise, and places and stacks of time off the processor
	Samples   uint64 // the lost ones included
	Lost      map[sample.Loss]uint64
	Bytes     int64     // of segments
	CopyBytes int64     // of copies of images
	Unused    int       // files that do not count: unfinished, superseded or damaged
	From, To  time.Time // of the first and the last epoch
}

// Stats adds up what is in the store.
func (s *Dir) Stats() (*Stats, error) {
	l, err := s.list()
	if err != nil {
		return nil, err
	}
	copies, err := s.copies()
	if err != nil {
		return nil, err
	}
	st := statsOf(l.live, copies)
	st.Unused = len(l.bad) + len(l.superseded) + len(l.overlap)
	return st, nil
}

// statsOf adds up segments, which are sorted by epoch.
func statsOf(live []entry, copies []imageCopy) *Stats {
	st := &Stats{
		Segments: len(live), Epochs: len(byEpoch(live)), Copies: len(copies), Lost: map[sample.Loss]uint64{}, Bytes: size(live),
	}
	for _, c := range copies {
		st.CopyBytes += c.size
	}
	images := map[sample.ImageID]bool{}
	for i, e := range live {
		if i == 0 {
			st.From = e.epoch.From()
		}
		if to := e.epoch.To(); st.To.Before(to) {
			st.To = to
		}
		for _, id := range e.images {
			images[id.Key()] = true
		}
		for _, b := range e.blocks {
			switch b.kind {
			case kindSamples:
				st.Places = add(st.Places, b.entries)
			case kindFlows, kindOff:
				st.Flows = add(st.Flows, b.entries)
			}
		}
		st.Samples = add(st.Samples, e.summary.Samples())
		for _, c := range e.summary.Counts {
			for why, n := range c.Lost {
				st.Lost[why] = add(st.Lost[why], n)
			}
		}
	}
	st.Images = len(images)
	return st
}

// size is the size of segments, in bytes.
func size(entries []entry) int64 {
	var n int64
	for _, e := range entries {
		n += e.size
	}
	return n
}
