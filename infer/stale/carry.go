package stale

import (
	"cmp"
	"slices"

	"backfeed/sample"
)

// Carried says what became of the samples of older builds.
type Carried struct {
	Samples  [NumTies]uint64 // by what ties their place to one in the newer build; NoTie: lost
	Procs    []LostProc      // of which samples were lost, those with the most first
	Branches [2]uint64       // branch records and straight runs between them: kept, lost
	Observed [2]uint64       // places with observed counts: kept, lost
}

// Total is the number of samples that older builds had.
func (c *Carried) Total() uint64 {
	var n uint64
	for _, k := range c.Samples {
		n += k
	}
	return n
}

// A LostProc is a procedure of an older build of which samples were lost.
type LostProc struct {
	Name          string // "" for places in no procedure, and of images that were not found
	Image         sample.ImageID
	Samples, Lost uint64
	Gone          bool // the newer build has no such procedure
}

// Carry returns rec with the samples of the images that are keys of builds, by their
// Key, moved to where the same code is in image to, which is the newer build of
// each. Samples of a nil Builds, and of code that the newer build lacks, are lost as
// LostStale. Callers that it lacks become unknown; branch records are kept if
// both ends are, and the branch can still be taken; paths up to the first that is not. Observed counts are kept of
// instructions that are the same in a block of the same ones, and outcomes of
// branches if these lead to the same code.
func Carry(rec *sample.Recording, to sample.ImageID, builds map[sample.ImageID]*Builds) (*sample.Recording, *Carried) {
	out, report := &sample.Recording{}, &Carried{}
	procs := map[LostProc][2]uint64{} // samples and those lost
	for _, c := range rec.Counts {
		m := newMover(c, to, builds)
		m.samples(report, procs)
		m.stacks()
		m.branches(report)
		m.paths()
		m.targets()
		m.observed(report)
		m.out.Measure(c)
		out.Add(m.out)
	}
	for _, c := range rec.Off { // stays with the build that waited: nothing is made of it for a newer one
		out.AddOff(c)
	}
	for p, n := range procs {
		if n[1] > 0 {
			p.Samples, p.Lost = n[0], n[1]
			report.Procs = append(report.Procs, p)
		}
	}
	slices.SortFunc(report.Procs, func(a, b LostProc) int {
		if c := cmp.Or(cmp.Compare(b.Lost, a.Lost), cmp.Compare(a.Name, b.Name), a.Image.Compare(b.Image)); c != 0 || a.Gone == b.Gone {
			return c
		}
		if a.Gone { // of several procedures of one name, those without partners first
			return -1
		}
		return 1
	})
	return sample.Merge(out), report
}

// A mover makes Counts of others.
type mover struct {
	in, out *sample.Counts
	index   []int     // of out's image by that of in
	builds  []*Builds // by image of in; nil where stale is false, or nothing is known
	stale   []bool    // by image of in
}

func newMover(c *sample.Counts, to sample.ImageID, builds map[sample.ImageID]*Builds) *mover {
	m := &mover{in: c, out: sample.NewCounts(c.CPU, c.Event)}
	for _, ic := range c.Images {
		id := ic.ID
		b, stale := builds[id.Key()]
		if stale {
			id = to
		}
		m.builds, m.stale, m.index = append(m.builds, b), append(m.stale, stale), append(m.index, m.out.Image(id))
	}
	return m
}

// place returns where the instruction at f is.
func (m *mover) place(f sample.Frame) (sample.Frame, Tie) {
	switch {
	case f.Image == sample.Unknown:
		return f, SameProc
	case !m.stale[f.Image]:
		return sample.Frame{Image: m.index[f.Image], Off: f.Off}, SameProc
	case m.builds[f.Image] == nil:
		return sample.Frame{Image: sample.Unknown}, NoTie
	}
	off, t := m.builds[f.Image].Place(f.Off)
	if t == NoTie {
		return sample.Frame{Image: sample.Unknown}, NoTie
	}
	return sample.Frame{Image: m.index[f.Image], Off: off}, t
}

// by returns where f is by a method of Builds.
func (m *mover) by(f sample.Frame, find func(*Builds, sample.Offset) (sample.Offset, bool)) (sample.Frame, bool) {
	if f.Image == sample.Unknown || !m.stale[f.Image] || m.builds[f.Image] == nil {
		g, t := m.place(f)
		return g, t != NoTie
	}
	off, ok := find(m.builds[f.Image], f.Off)
	if !ok {
		return sample.Frame{Image: sample.Unknown}, false
	}
	return sample.Frame{Image: m.index[f.Image], Off: off}, true
}

func (m *mover) samples(report *Carried, procs map[LostProc][2]uint64) {
	for why, n := range m.in.Lost {
		m.out.Lose(why, n)
	}
	for i, ic := range m.in.Images {
		m.out.AddProcesses(m.index[i], ic.Processes)
		for off, n := range ic.At {
			f, t := m.place(sample.Frame{Image: i, Off: off})
			if t == NoTie {
				m.out.Lose(sample.LostStale, n)
			} else {
				m.out.AddSample(f.Image, f.Off, n)
			}
			if !m.stale[i] {
				continue
			}
			report.Samples[t] += n
			p := LostProc{Image: ic.ID}
			p.Name, p.Gone = m.builds[i].nameOf(off)
			k := procs[p]
			k[0] += n
			if t == NoTie {
				k[1] += n
			}
			procs[p] = k
		}
		for off, n := range ic.Faults {
			if f, t := m.place(sample.Frame{Image: i, Off: off}); t != NoTie {
				m.out.AddFaults(f.Image, f.Off, n)
			}
		}
		for off, us := range ic.First {
			if f, t := m.place(sample.Frame{Image: i, Off: off}); t != NoTie {
				m.out.Touch(f.Image, f.Off, us)
			}
		}
	}
}

// nameOf returns the procedure of the old build at off, and whether the new one
// lacks it.
func (b *Builds) nameOf(off sample.Offset) (name string, gone bool) {
	if b == nil {
		return "", true
	}
	a, ok := b.old.AddrOf(off)
	i := -1
	if ok {
		i = b.old.Find(a)
	}
	if i < 0 {
		return "", true
	}
	return b.old.Symbols()[i].Name, b.partner[i] < 0
}

func (m *mover) stacks() {
	var frames []sample.Frame
	for _, s := range m.in.Stacks {
		leaf, t := m.place(s.Frames[0])
		if t == NoTie {
			continue
		}
		frames = append(frames[:0], leaf)
		for _, f := range s.Frames[1:] {
			f, _ = m.by(f, (*Builds).AfterCall)
			frames = append(frames, f)
		}
		top, _ := m.by(s.Top, (*Builds).AfterCall)
		m.out.AddStackTop(frames, top, s.N)
	}
}

// branch returns where a branch is, if both ends are there and it can be taken.
func (m *mover) branch(br sample.Branch) (sample.Branch, bool) {
	to, ok := m.by(br.To, (*Builds).Target)
	from, possible := m.by(br.From, func(b *Builds, off sample.Offset) (sample.Offset, bool) {
		from, target, ok := b.Branch(off)
		if ok && target != 0 { // a direct one leads to one place
			place, known := b.new.OffsetOf(target)
			ok = known && place == to.Off
		}
		return from, ok
	})
	return sample.Branch{From: from, To: to}, ok && possible
}

func (m *mover) paths() {
	var paths []sample.Path
	for _, p := range m.in.Paths {
		all := p.Branches
		p.Branches = nil
		for _, br := range all {
			moved, ok := m.branch(br)
			if !ok {
				break
			}
			p.Branches = append(p.Branches, moved)
		}
		if len(p.Branches) > 0 {
			p.Insts = p.Insts / uint64(len(all)) * uint64(len(p.Branches))
			paths = append(paths, p)
		}
	}
	m.out.AddPaths(paths)
}

func (m *mover) targets() {
	for br, n := range m.in.Targets {
		if moved, ok := m.branch(br); ok {
			m.out.AddTarget(moved, n)
		}
	}
}

func (m *mover) branches(report *Carried) {
	for br, n := range m.in.Branches {
		moved, ok := m.branch(br)
		if ok {
			m.out.AddBranch(moved, n.N, n.Mispredicted)
		}
		m.tally(report, ok, n.N, br.From.Image, br.To.Image)
	}
	for r, n := range m.in.Ranges {
		first, last, ok := r.First, r.Last, true
		if m.stale[r.Image] {
			if ok = m.builds[r.Image] != nil; ok {
				first, last, ok = m.builds[r.Image].Straight(first, last)
			}
		}
		if ok {
			m.out.AddRange(sample.Range{Image: m.index[r.Image], First: first, Last: last}, n)
		}
		m.tally(report, ok, n, r.Image)
	}
}

func (m *mover) observed(report *Carried) {
	for i, ic := range m.in.Images {
		for off, p := range ic.Probed {
			to, turns, ok := m.same(i, off)
			if !turns {
				p.Outcomes, p.Taken, p.Spread = 0, 0, sample.Square{}
			}
			if ok = ok && (!m.stale[i] || p.Covered > 0 || p.Outcomes > 0); ok {
				m.out.AddProbed(m.index[i], to, p)
			}
			m.tallyObserved(report, i, ok)
		}
		for off, r := range ic.Replayed {
			to, turns, ok := m.same(i, off)
			if m.stale[i] { // code lies elsewhere
				r.Fetches, r.NearFetches, r.FarFetches = 0, 0, 0
			}
			if !turns {
				r.Branches, r.Missed = 0, 0
			}
			if ok = ok && r.Branches+r.Accesses+r.Fetches > 0; ok {
				m.out.AddReplayed(m.index[i], to, r)
			}
			m.tallyObserved(report, i, ok)
		}
		for off, n := range ic.Counted {
			to, _, ok := m.same(i, off)
			if ok {
				m.out.AddCounted(m.index[i], to, n)
			}
			m.tallyObserved(report, i, ok)
		}
	}
}

// same returns where the instruction at off of an image is, as Builds.Exact does.
func (m *mover) same(image int, off sample.Offset) (to sample.Offset, turns, ok bool) {
	switch {
	case !m.stale[image]:
		return off, true, true
	case m.builds[image] == nil:
		return 0, false, false
	}
	return m.builds[image].Exact(off)
}

// tallyObserved counts a place of an image that has observed counts.
func (m *mover) tallyObserved(report *Carried, image int, kept bool) {
	switch {
	case !m.stale[image]:
	case kept:
		report.Observed[0]++
	default:
		report.Observed[1]++
	}
}

// tally counts n records that have an end in one of the images.
func (m *mover) tally(report *Carried, kept bool, n uint64, images ...int) {
	if !slices.ContainsFunc(images, func(i int) bool { return i != sample.Unknown && m.stale[i] }) {
		return
	}
	if kept {
		report.Branches[0] += n
	} else {
		report.Branches[1] += n
	}
}
