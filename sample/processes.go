package sample

import "slices"

// How many processes ran an image says how often it was started: main runs once in each, and what main calls
// once does. Counted are processes that began a program while recorded, by the images that they mapped from
// then on: the program itself and its libraries, which are initialised once in each. A process that ran before
// had its start before, and is not counted, whatever it maps later; one that outlives the recording is. What a
// process forks runs on with what is mapped, and starts nothing: it is not counted until it executes a program.

// maxBegun is how many images may wait in Spaces for samples. Programs that end before one falls into
// them are many on machines that build software; all are forgotten then.
const maxBegun = 1 << 14

// AddProcesses adds n processes that began with c.Images[image] mapped.
func (c *Counts) AddProcesses(image int, n uint64) {
	ic := c.Images[image]
	ic.Processes = add(ic.Processes, n)
}

// Processes returns how many processes began with an image, by the event whose Counts know most; 0 if none did, or
// that is not known.
func (r *Recording) Processes(id ImageID) (n uint64) {
	byEvent := map[string]uint64{}
	for _, c := range r.Counts {
		for _, ic := range c.Images {
			if ic.ID.Key() == id.Key() {
				byEvent[c.Event.Name] = add(byEvent[c.Event.Name], ic.Processes)
				n = max(n, byEvent[c.Event.Name])
			}
		}
	}
	return n
}

// begin counts a process that has mapped an image, if it began its program while recorded and had not mapped the
// image yet.
func (s *Spaces) begin(sp *space, id ImageID) {
	id = id.Key()
	if !sp.executed || id == (ImageID{}) || slices.Contains(sp.has, id) {
		return
	}
	sp.has = append(slices.Clip(sp.has), id) // the parent's, too, if it was forked
	if s.begun == nil || len(s.begun) >= maxBegun {
		s.begun = map[ImageID]uint64{}
	}
	s.begun[id]++
}

// TellProcesses adds to counts of events of one recording how many processes began with each of their images since
// it was last called. Those of an image without samples are told once there are some.
func (s *Spaces) TellProcesses(counts ...*Counts) {
	if len(s.begun) == 0 {
		return
	}
	told := map[ImageID]bool{}
	for _, c := range counts {
		for i, ic := range c.Images {
			if n := s.begun[ic.ID.Key()]; n > 0 {
				c.AddProcesses(i, n)
				told[ic.ID.Key()] = true
			}
		}
	}
	for id := range told {
		delete(s.begun, id)
	}
}
