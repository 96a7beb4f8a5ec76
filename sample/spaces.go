package sample

import (
	"iter"
	"math/rand/v2"
)

// Spaces are the address spaces of processes, as a recorder saw them change.
// Whoever reads the kernel's records tells it of each change in the order in
// which they happened; Find answers for the moment reached.
//
// Kernel records tell of no unmapping, so a range stays until another covers it
// or the process executes another program: no sample can fall on what is gone.
type Spaces struct {
	spaces map[int]*space     // by process
	begun  map[ImageID]uint64 // processes that began with an image, by its key, and were not told of yet
	pid    int                // process of last
	last   *Mapping           // what Find returned before: samples come in runs
	seen   int                // process of view
	view   View               // what View returned before
	viewed bool               // no space has changed since
}

// A View is what a process has mapped at one moment. It never changes: several goroutines may
// look places up in it while Spaces goes on. The zero View has nothing mapped.
type View struct {
	maps  *mapNode
	began uint64
}

// A Mapping is part of an image, or something that is none, at [Start, End) of
// an address space. These are the addresses of a running process.
type Mapping struct {
	Start, End uint64
	Off        Offset  // of Start in the image's file
	Image      ImageID // meaningless if Loss is set
	Loss       Loss    // why samples in this range have no image, or ""
}

type space struct {
	maps     *mapNode // they do not overlap
	threads  int
	executed bool      // its program began while recorded, and it is not ignored
	has      []ImageID // keys of the images that it has mapped since then; never changed in place
	began    uint64    // when its program did, in ns of the recorder's clock; 0 if that is not known
}

// Map says that m replaces what process pid had at its addresses.
func (s *Spaces) Map(pid int, m Mapping) {
	if m.Start >= m.End {
		return
	}
	sp := s.of(pid)
	if m.Loss == "" {
		s.begin(sp, m.Image)
	}
	before, rest := sp.maps.split(m.Start)
	covered, after := rest.split(m.End)
	// Of the mapping that m begins in, and of the one that it ends in, ends may stay.
	old := before.last()
	if old != nil && old.End > m.Start {
		before, _ = before.split(old.Start)
		left := *old
		left.End = m.Start
		before = before.join(newMapNode(&left))
	}
	if end := covered.last(); end != nil {
		old = end
	}
	if old != nil && old.End > m.End {
		right := *old
		right.Off += Offset(m.End - right.Start)
		right.Start = m.End
		after = newMapNode(&right).join(after)
	}
	sp.maps = before.join(newMapNode(&m)).join(after)
	s.changed()
}

// Fork says that process parent has made process pid, or another thread of its
// own if the two are equal.
func (s *Spaces) Fork(pid, parent int) {
	from := s.of(parent)
	if pid == parent {
		from.threads++
		return
	}
	s.spaces[pid] = &space{maps: from.maps, threads: 1, executed: from.executed, has: from.has, began: from.began}
	s.changed()
}

// Exec says that process pid has begun another program: it has one thread, and
// nothing mapped.
func (s *Spaces) Exec(pid int) {
	*s.of(pid) = space{threads: 1, executed: true}
	s.changed()
}

// Began says when the program of a process began that has just executed it, in ns
// of the recorder's clock; 0 is unknown. Its children run the same program, and
// find its code in memory, until they execute another.
func (s *Spaces) Began(pid int, at uint64) {
	sp := s.of(pid)
	sp.executed, sp.began = true, at
	s.changed()
}

// Ignore says that a process is not asked for: it is not told of by TellProcesses.
func (s *Spaces) Ignore(pid int) { s.of(pid).executed = false }

// Age is how long a process has run its program at a time, in us, if that is known.
// It is not of what ran before the recording began.
func (s *Spaces) Age(pid int, at uint64) (us uint64, known bool) { return s.View(pid).Age(at) }

// Age is that of the process of v.
func (v View) Age(at uint64) (us uint64, known bool) {
	if v.began == 0 || at < v.began {
		return 0, false
	}
	return (at - v.began) / 1000, true
}

// View returns what process pid has mapped now.
func (s *Spaces) View(pid int) View {
	if !s.viewed || s.seen != pid {
		s.seen, s.view, s.viewed = pid, View{}, true
		if sp := s.spaces[pid]; sp != nil {
			s.view = View{sp.maps, sp.began}
		}
	}
	return s.view
}

// changed forgets what was returned before.
func (s *Spaces) changed() { s.last, s.viewed = nil, false }

// A Finder looks places up in Views, and remembers the last mapping that it found.
type Finder struct {
	maps *mapNode
	last *Mapping
}

// Find returns the image that a process has at pc and the offset in its file, or the
// reason why there is none, as Spaces does.
func (f *Finder) Find(v View, pc uint64) (ImageID, Offset, Loss) {
	if m := f.last; m == nil || f.maps != v.maps || pc < m.Start || pc >= m.End {
		if m = v.maps.find(pc); m == nil {
			return ImageID{}, 0, LostUnmapped
		}
		f.maps, f.last = v.maps, m
	}
	return f.last.at(pc)
}

// at is what is at pc, which is in m.
func (m *Mapping) at(pc uint64) (ImageID, Offset, Loss) {
	if m.Loss != "" {
		return ImageID{}, 0, m.Loss
	}
	return m.Image, m.Off + Offset(pc-m.Start), ""
}

// Exit says that a thread of process pid has ended. The process ends with its
// last thread, which need not be its first.
func (s *Spaces) Exit(pid int) {
	sp := s.of(pid)
	if sp.threads--; sp.threads <= 0 {
		delete(s.spaces, pid)
		s.changed()
	}
}

// Find returns the image that process pid has at pc and the offset in its file,
// or the reason why there is none.
func (s *Spaces) Find(pid int, pc uint64) (ImageID, Offset, Loss) {
	if m := s.last; m == nil || s.pid != pid || pc < m.Start || pc >= m.End {
		if m = s.find(pid, pc); m == nil {
			return ImageID{}, 0, LostUnmapped
		}
		s.pid, s.last = pid, m
	}
	return s.last.at(pc)
}

// Mapping returns what process pid has mapped at pc, if that is known.
func (s *Spaces) Mapping(pid int, pc uint64) (Mapping, bool) {
	if m := s.find(pid, pc); m != nil {
		return *m, true
	}
	return Mapping{}, false
}

// Mappings returns what process pid has mapped, as far as that is known, by ascending address.
func (s *Spaces) Mappings(pid int) iter.Seq[Mapping] {
	return func(yield func(Mapping) bool) {
		if sp := s.spaces[pid]; sp != nil {
			sp.maps.each(yield)
		}
	}
}

// each calls yield for all of the tree in order, until it returns false, and reports whether it did not.
func (n *mapNode) each(yield func(Mapping) bool) bool {
	return n == nil || n.left.each(yield) && yield(*n.Mapping) && n.right.each(yield)
}

func (s *Spaces) find(pid int, pc uint64) *Mapping {
	sp := s.spaces[pid]
	if sp == nil {
		return nil
	}
	return sp.maps.find(pc)
}

// of returns the space of a process, a new one if it was not heard of before.
func (s *Spaces) of(pid int) *space {
	sp := s.spaces[pid]
	if sp == nil {
		if s.spaces == nil {
			s.spaces = map[int]*space{}
		}
		sp = &space{threads: 1}
		s.spaces[pid] = sp
	}
	return sp
}

// A mapNode is the root of a tree of mappings, by Start; nil is an empty one. Nodes
// never change: what a process maps after a fork takes a few new ones, and all others
// stay in the trees of both. It is a treap (Seidel and Aragon, Randomized Search Trees,
// 1996): no node has a lower priority than those below it, which is drawn at random, so that
// no recording can be made to have a deep tree.
type mapNode struct {
	*Mapping
	priority    uint64
	left, right *mapNode
}

func newMapNode(m *Mapping) *mapNode { return &mapNode{Mapping: m, priority: rand.Uint64()} }

// split returns the mappings that start before an address, and the others.
func (n *mapNode) split(at uint64) (before, rest *mapNode) {
	if n == nil {
		return nil, nil
	}
	root := *n
	if n.Start < at {
		root.right, rest = n.right.split(at)
		return &root, rest
	}
	before, root.left = n.left.split(at)
	return before, &root
}

// join returns the mappings of n and of more, all of which start after those of n.
func (n *mapNode) join(more *mapNode) *mapNode {
	switch {
	case n == nil:
		return more
	case more == nil:
		return n
	case n.priority >= more.priority:
		root := *n
		root.right = n.right.join(more)
		return &root
	}
	root := *more
	root.left = n.join(more.left)
	return &root
}

// last returns the mapping with the highest addresses, nil if there is none.
func (n *mapNode) last() *Mapping {
	if n == nil {
		return nil
	}
	for n.right != nil {
		n = n.right
	}
	return n.Mapping
}

// find returns the mapping that contains pc, or nil.
func (n *mapNode) find(pc uint64) *Mapping {
	for n != nil {
		switch {
		case pc < n.Start:
			n = n.left
		case pc >= n.End:
			n = n.right
		default:
			return n.Mapping
		}
	}
	return nil
}
