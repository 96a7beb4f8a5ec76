package sample

import (
	"slices"
	"sort"
)

// Spaces are the address spaces of processes, as a recorder saw them change.
// Whoever reads the kernel's records tells it of each change in the order in
// which they happened; Find answers for the moment reached.
//
// Kernel records tell of no unmapping, so a range stays until another covers it
// or the process executes another program: no sample can fall on what is gone.
type Spaces struct {
	spaces map[int]*space // by process
	pid    int            // process of last
	last   *Mapping       // what Find gave before: samples come in runs
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
	maps    []Mapping // by Start; they do not overlap
	shared  bool      // maps is another process's too: copy it before a change
	threads int
	began   uint64 // when its program did, in ns of the recorder's clock; 0 if that is not known
}

// Map says that m replaces what process pid had at its addresses.
func (s *Spaces) Map(pid int, m Mapping) {
	if m.Start >= m.End {
		return
	}
	sp := s.of(pid)
	if sp.shared {
		sp.maps, sp.shared = slices.Clone(sp.maps), false
	}
	// maps[i:j] overlap m; of the first and the last, ends may stay.
	i := sort.Search(len(sp.maps), func(i int) bool { return sp.maps[i].End > m.Start })
	j := i + sort.Search(len(sp.maps)-i, func(k int) bool { return sp.maps[i+k].Start >= m.End })
	parts := make([]Mapping, 0, 3)
	if i < j && sp.maps[i].Start < m.Start {
		left := sp.maps[i]
		left.End = m.Start
		parts = append(parts, left)
	}
	parts = append(parts, m)
	if i < j && sp.maps[j-1].End > m.End {
		right := sp.maps[j-1]
		right.Off += Offset(m.End - right.Start)
		right.Start = m.End
		parts = append(parts, right)
	}
	sp.maps = slices.Replace(sp.maps, i, j, parts...)
	s.last = nil
}

// Fork says that process parent has made process pid, or another thread of its
// own if the two are equal.
func (s *Spaces) Fork(pid, parent int) {
	from := s.of(parent)
	if pid == parent {
		from.threads++
		return
	}
	from.shared = true
	s.spaces[pid] = &space{maps: from.maps, shared: true, threads: 1, began: from.began}
	s.last = nil
}

// Exec says that process pid has begun another program: it has one thread, and
// nothing mapped.
func (s *Spaces) Exec(pid int) {
	*s.of(pid) = space{threads: 1}
	s.last = nil
}

// Began says when the program of a process began that has just executed it, in ns
// of the recorder's clock; 0 is unknown. Its children run the same program, and
// find its code in memory, until they execute another.
func (s *Spaces) Began(pid int, at uint64) { s.of(pid).began = at }

// Age is how long a process has run its program at a time, in us, if that is known.
// It is not of what ran before the recording began.
func (s *Spaces) Age(pid int, at uint64) (us uint64, known bool) {
	sp := s.spaces[pid]
	if sp == nil || sp.began == 0 || at < sp.began {
		return 0, false
	}
	return (at - sp.began) / 1000, true
}

// Exit says that a thread of process pid has ended. The process ends with its
// last thread, which need not be its first.
func (s *Spaces) Exit(pid int) {
	sp := s.of(pid)
	if sp.threads--; sp.threads <= 0 {
		delete(s.spaces, pid)
		s.last = nil
	}
}

// Find gives the image that process pid has at pc and the offset in its file,
// or the reason why there is none.
func (s *Spaces) Find(pid int, pc uint64) (ImageID, Offset, Loss) {
	if m := s.last; m == nil || s.pid != pid || pc < m.Start || pc >= m.End {
		if m = s.find(pid, pc); m == nil {
			return ImageID{}, 0, LostUnmapped
		}
		s.pid, s.last = pid, m
	}
	if s.last.Loss != "" {
		return ImageID{}, 0, s.last.Loss
	}
	return s.last.Image, s.last.Off + Offset(pc-s.last.Start), ""
}

func (s *Spaces) find(pid int, pc uint64) *Mapping {
	sp := s.spaces[pid]
	if sp == nil {
		return nil
	}
	i := sort.Search(len(sp.maps), func(i int) bool { return sp.maps[i].End > pc })
	if i == len(sp.maps) || sp.maps[i].Start > pc {
		return nil
	}
	return &sp.maps[i]
}

// of gives the space of a process, a new one if it was not heard of before.
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
