package emit

import (
	"cmp"
	"fmt"
	"path/filepath"
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/perfdata"
)

// StackOptions say what branch stacks are made of.
type StackOptions struct {
	Image   string // path or build ID of an image that paths have to lead through; "" is any
	Depth   int    // branches in a sample, 2 to perfdata.MaxBranches
	Callers bool   // with the return addresses of the calls that began on the path
}

// Stacks returns the paths of src's recording as samples with branch records, of so many branches each, and
// says how many they are.
//
// Readers count each branch of a sample, and the code between each two. So a path is
// divided: no branch is in two samples. Where it is divided, the code between two branches is in none. The
// first sample of a path has from 2 branches up to all: if it always had all, a loop would be divided at
// the same place again and again.
func Stacks(src *input.Session, opt StackOptions) (*perfdata.BranchStacks, string, error) {
	want := sample.ImageID{}
	if opt.Image != "" {
		var err error
		if want, err = wantedImage(src.Recording, opt.Image); err != nil {
			return nil, "", err
		}
	}
	s := &stacker{src: src, opt: opt, images: map[sample.ImageID]*stackImage{}, base: firstBase}
	for _, c := range src.Recording.Counts {
		for i := range c.Paths {
			through := s.measure(c, &c.Paths[i])
			if opt.Image != "" && !slices.Contains(through, s.images[want]) {
				continue
			}
			s.wanted = append(s.wanted, stackPath{c, &c.Paths[i], through})
		}
		if len(c.Paths) > 0 && s.out.CPU == (sample.CPU{}) {
			s.out.CPU = c.CPU
		}
	}
	if len(s.wanted) == 0 {
		return nil, "", fail.Errorf(fail.Nothing, "no paths of walks: record with --calibrate, which keeps some; for longer, if that was done")
	}
	s.place()
	for i := range s.wanted {
		s.samples(i)
	}
	s.name()
	samples, branches := 0, 0
	for i := range s.out.Processes {
		p := &s.out.Processes[i]
		samples += len(p.Samples)
		for _, x := range p.Samples {
			branches += len(x.Branches)
		}
	}
	return &s.out, fmt.Sprintf("%d paths of walks as %d samples with %d branches", len(s.wanted), samples, branches), nil
}

// wantedImage returns the key of the image of a recording that the user means.
func wantedImage(rec *sample.Recording, want string) (sample.ImageID, error) {
	var ids []sample.ImageID
	for _, c := range rec.Counts {
		for _, ic := range c.Images {
			ids = append(ids, ic.ID)
		}
	}
	if i, _ := input.Named(want, len(ids), func(i int) sample.ImageID { return ids[i] }, nil); i >= 0 {
		return ids[i].Key(), nil
	}
	return sample.ImageID{}, fail.Errorf(fail.Nothing, "%s: no samples of such an image (`backfeed images` lists those that have some)", want)
}

// Where processes and their mappings are: images that may lie anywhere lie one after another.
const (
	firstPID  = 1000
	firstBase = 0x7f0000000000
	baseAlign = 1 << 21
	pageSize  = 4096
)

// A stacker makes samples of paths.
type stacker struct {
	src    *input.Session
	opt    StackOptions
	images map[sample.ImageID]*stackImage // by key
	all    []*stackImage                  // in the order in which paths come to them
	base   uint64                         // of the next image that may lie anywhere
	wanted []stackPath
	out    perfdata.BranchStacks
}

// A stackPath is a path, and the images that it leads through.
type stackPath struct {
	c       *sample.Counts
	path    *sample.Path
	through []*stackImage
}

// A stackImage is an image in processes.
type stackImage struct {
	id      sample.ImageID
	im      *image.Image // nil if it was not found
	hi      sample.Offset
	maps    []perfdata.StackMapping
	process int            // index of the process that has it at its fixed address
	returns *image.Returns // of im
}

// measure notes the images that a path leads through, and how far it goes in each, and returns them.
func (s *stacker) measure(c *sample.Counts, p *sample.Path) (through []*stackImage) {
	for _, b := range p.Branches {
		for _, f := range []sample.Frame{b.From, b.To} {
			if f.Image == sample.Unknown {
				continue
			}
			id := c.Images[f.Image].ID
			m := s.images[id.Key()]
			if m == nil {
				im, err := s.src.Open(id)
				if err != nil {
					im = nil // it is mapped from its beginning on: readers know no code there
				}
				m = &stackImage{id: id, im: im}
				if im != nil {
					m.returns = image.NewReturns(im)
				}
				s.images[id.Key()] = m
				s.all = append(s.all, m)
			}
			m.hi = max(m.hi, f.Off)
			if len(through) == 0 || !slices.Contains(through, m) {
				through = append(through, m)
			}
		}
	}
	return through
}

// place decides where images are, and makes a process for each that cannot lie anywhere, or one
// for all.
func (s *stacker) place() {
	s.out.Processes = []perfdata.StackProcess{{PID: firstPID}}
	alone := 0 // images so far that cannot lie anywhere
	for _, m := range s.all {
		segments := []image.CodeSegment{{Size: uint64(m.hi) + 1}}
		if m.im != nil {
			if build, err := image.ReadBuildID(m.id.Path); err != nil || build != m.im.Build {
				m.id.Path = m.im.Path // what perf keeps of it, or a copy elsewhere
			}
			segments = m.im.CodeSegments()
		}
		fixed := m.im != nil && m.im.Fixed()
		base := s.base
		if fixed {
			base = 0
			if m.process = alone; alone > 0 {
				s.out.Processes = append(s.out.Processes, perfdata.StackProcess{PID: firstPID + alone})
			}
			alone++
		}
		for _, g := range segments {
			first := uint64(g.Addr) &^ (pageSize - 1)
			last := (uint64(g.Addr) + g.Size + pageSize - 1) &^ (pageSize - 1)
			m.maps = append(m.maps, perfdata.StackMapping{ID: m.id, Addr: base + first, Size: last - first, Off: g.Off &^ (pageSize - 1)})
			if !fixed {
				s.base = max(s.base, (base+last+baseAlign)&^(baseAlign-1))
			}
		}
	}
	for _, m := range s.all {
		for i := range s.out.Processes {
			if p := &s.out.Processes[i]; m.im == nil || !m.im.Fixed() || m.process == i {
				p.Maps = append(p.Maps, m.maps...)
			}
		}
	}
	for i := range s.out.Processes {
		slices.SortFunc(s.out.Processes[i].Maps, func(a, b perfdata.StackMapping) int { return cmp.Compare(a.Addr, b.Addr) })
	}
}

// name calls each process by the image in which most branches of its paths are.
func (s *stacker) name() {
	for i := range s.out.Processes {
		p := &s.out.Processes[i]
		most, seen := 0, map[string]int{}
		for _, x := range p.Samples {
			for _, b := range x.Branches {
				k, _ := slices.BinarySearchFunc(p.Maps, b.From, func(m perfdata.StackMapping, pc uint64) int { return cmp.Compare(m.Addr+m.Size-1, pc) })
				name := filepath.Base(p.Maps[k].ID.Path)
				if seen[name]++; seen[name] > most {
					most, p.Name = seen[name], name
				}
			}
		}
	}
}

// pc returns where a place is in processes.
func (s *stacker) pc(c *sample.Counts, f sample.Frame) (uint64, bool) {
	if f.Image == sample.Unknown {
		return 0, false
	}
	for _, g := range s.images[c.Images[f.Image].ID.Key()].maps {
		if f.Off >= g.Off && uint64(f.Off-g.Off) < g.Size {
			return g.Addr + uint64(f.Off-g.Off), true
		}
	}
	return 0, false
}

// samples adds those of path i. It is divided where a branch has no place, too.
func (s *stacker) samples(i int) {
	w := &s.wanted[i]
	process := &s.out.Processes[0]
	for _, m := range w.through {
		if m.im != nil && m.im.Fixed() {
			process = &s.out.Processes[m.process]
		}
	}
	var calls callStack
	var now []perfdata.StackBranch
	room := firstDepth(i, s.opt.Depth)
	end := func() {
		if len(now) > 0 {
			slices.Reverse(now)
			x := perfdata.StackSample{IP: now[0].To, Branches: now}
			if s.opt.Callers {
				x.Callers = calls.innermost()
			}
			process.Samples = append(process.Samples, x)
		}
		now, room = nil, s.opt.Depth
	}
	for _, b := range w.path.Branches {
		from, ok := s.pc(w.c, b.From)
		to, known := s.pc(w.c, b.To)
		if !ok || !known {
			end()
			calls = nil
			continue
		}
		if len(now) == room {
			end()
		}
		now = append(now, perfdata.StackBranch{From: from, To: to})
		if s.opt.Callers {
			calls.branch(to, s.returnOf(w.c, b.From, from))
		}
	}
	end()
}

// firstDepth returns how many branches the first sample of path i has: numbers from 2 to most, evenly spread over any
// stretch of paths.
func firstDepth(i, most int) int {
	const golden = 0x9e3779b97f4a7c15 // 2^64 / golden ratio
	return 2 + int(uint64(i)*golden>>32%uint64(most-1))
}

// A callStack is the return addresses of the calls that began on a path, and have not returned.
type callStack []uint64

// mostCalls bounds them as perf does, to 127 frames.
const mostCalls = 127

// branch follows a branch to an address; back is where it will return to, 0 if it is no call.
func (s *callStack) branch(to, back uint64) {
	switch n := len(*s); {
	case back != 0:
		*s = append(*s, back)
	case n > 0 && (*s)[n-1] == to:
		*s = (*s)[:n-1]
	}
}

func (s callStack) innermost() []uint64 {
	out := slices.Clone(s[max(0, len(s)-mostCalls):])
	slices.Reverse(out)
	return out
}

// returnOf returns the address that the call at a place, which is at pc, returns to; 0 if there is none.
func (s *stacker) returnOf(c *sample.Counts, f sample.Frame, pc uint64) uint64 {
	m := s.images[c.Images[f.Image].ID.Key()]
	if m.im == nil {
		return 0
	}
	at, ok := m.im.AddrOf(f.Off)
	if !ok {
		return 0
	}
	if back := m.returns.Of(at); back != 0 {
		return pc + uint64(back-at)
	}
	return 0
}
