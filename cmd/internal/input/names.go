package input

import (
	"bufio"
	"cmp"
	"errors"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"backfeed/infer/compare"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/kernel"
)

// Some code is in no ELF file that blocks could be read from: what programs made at run time, and the kernel's where
// neither the kernel that runs nor a copy has it. Its samples are shown by name, as far as names are known, and nothing
// is inferred from them.

var (
	errKernel = errors.New("kernel code, which is counted and no more")
	errVDSO   = errors.New("code that the kernel maps into processes, which is counted and no more")
	errJIT    = errors.New("code made at run time, which is counted and no more")
)

// perfMap is where a runtime tells perf the names of the code that it makes.
var perfMap = regexp.MustCompile(`/perf-\d+\.map$`)

// Fileless returns why an image has no ELF file, or nil: a kernel whose build is known may have one, by
// Running.Open or in a copy.
func Fileless(id sample.ImageID) error {
	switch {
	case id.Path == "[vdso]":
		return errVDSO
	case strings.HasPrefix(id.Path, "[") && (id.Build.IsZero() || !id.OfKernel()):
		return errKernel
	case perfMap.MatchString(id.Path):
		return errJIT
	}
	return nil
}

// A symbol is a name and where its code begins and ends.
type symbol struct {
	start, end sample.Offset
	name       string
}

// symbols are sorted by start.
type symbols []symbol

// name returns the symbol at off, or "".
func (ss symbols) name(off sample.Offset) string {
	i, ok := slices.BinarySearchFunc(ss, off, func(s symbol, off sample.Offset) int { return cmp.Compare(s.start, off) })
	if !ok {
		i--
	}
	if i < 0 || off >= ss[i].end {
		return ""
	}
	return ss[i].name
}

// symbolsOf reads the names in an image without a file, as far as they are known
// on this machine now.
func symbolsOf(id sample.ImageID) symbols {
	switch {
	case perfMap.MatchString(id.Path):
		return readNames(id.Path, readPerfMap)
	case id.Path == "[vdso]":
		return nil
	}
	module := strings.Trim(id.Path, "[]")
	if module == "kernel" {
		module = ""
	}
	if id.Build.IsZero() || kernel.BuildID(module) != id.Build {
		return nil // another kernel, or another build of the module
	}
	base := uint64(0)
	if module != "" {
		if base = kernel.ModuleBase(module); base == 0 {
			return nil
		}
	}
	return readNames("/proc/kallsyms", func(r io.Reader) symbols { return readKallsyms(r, module, base) })
}

// NamesKernel reports whether code of the kernel, or of a module, has names here: of the build that runs, or from a file.
func (s *Session) NamesKernel(id sample.ImageID) bool {
	named, ok := s.named[id]
	if !ok {
		_, err := s.Open(id)
		named = err == nil || len(symbolsOf(id)) > 0
		if s.named == nil {
			s.named = map[sample.ImageID]bool{}
		}
		s.named[id] = named
	}
	return named
}

func readNames(path string, read func(io.Reader) symbols) symbols {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	return read(f)
}

// readKallsyms reads the code of module at base, or that of the kernel itself for
// "", which begins at _text, or at _stext where that is not listed. Lines: address, type, name, and the module in
// brackets. Without the right to see addresses all are 0.
func readKallsyms(r io.Reader, module string, base uint64) symbols {
	var ss symbols
	named := false // that base is _text
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		f := strings.Fields(sc.Text())
		if len(f) < 3 || len(f) > 3 && strings.Trim(f[3], "[]") != module || len(f) == 3 && module != "" {
			continue
		}
		a, err := strconv.ParseUint(f[0], 16, 64)
		if err != nil || a == 0 {
			continue
		}
		if module == "" && (f[2] == "_text" || f[2] == "_stext" && !named) {
			base, named = a, f[2] == "_text"
		}
		if strings.ContainsAny(f[1], "tTwW") {
			ss = append(ss, symbol{start: sample.Offset(a), name: f[2]})
		}
	}
	ss = slices.DeleteFunc(ss, func(s symbol) bool { return uint64(s.start) < base })
	slices.SortFunc(ss, func(a, b symbol) int { return cmp.Or(cmp.Compare(a.start, b.start), cmp.Compare(a.name, b.name)) })
	ss = slices.CompactFunc(ss, func(a, b symbol) bool { return a.start == b.start })
	for i := range ss {
		ss[i].start -= sample.Offset(base)
		ss[i].end = ^sample.Offset(0)
		if i > 0 {
			ss[i-1].end = ss[i].start
		}
	}
	return ss
}

// readPerfMap reads lines "START SIZE NAME", hexadecimal, as runtimes write them
// to /tmp/perf-PID.map (tools/perf/Documentation/jit-interface.txt of Linux).
// Code that took the place of older code is further down.
func readPerfMap(r io.Reader) symbols {
	var ss symbols
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		f := strings.SplitN(sc.Text(), " ", 3)
		if len(f) < 3 {
			continue
		}
		start, err := strconv.ParseUint(strings.TrimPrefix(f[0], "0x"), 16, 64)
		n, err2 := strconv.ParseUint(strings.TrimPrefix(f[1], "0x"), 16, 64)
		if err == nil && err2 == nil && n > 0 && start+n > start {
			ss = append(ss, symbol{sample.Offset(start), sample.Offset(start + n), f[2]})
		}
	}
	slices.Reverse(ss)
	slices.SortStableFunc(ss, func(a, b symbol) int { return cmp.Compare(a.start, b.start) })
	return slices.CompactFunc(ss, func(a, b symbol) bool { return a.start == b.start })
}

// TakeNamed returns the samples of images without a file by name, and puts them
// down as losses in rec: of kernel code that open has no image of, and of anonymous memory.
func TakeNamed(rec *sample.Recording, open func(sample.ImageID) (*image.Image, error)) map[compare.Named]uint64 {
	all := map[compare.Named]uint64{}
	known := map[sample.ImageID]symbols{}
	for _, c := range rec.Counts {
		gone := map[int]bool{}
		for i, ic := range c.Images {
			why := Fileless(ic.ID)
			if why == nil && ic.ID.OfKernel() {
				if _, err := open(ic.ID); err != nil {
					why = errKernel
				}
			}
			if why == nil {
				continue
			}
			gone[i] = true
			ss, ok := known[ic.ID]
			if !ok {
				ss = symbolsOf(ic.ID)
				known[ic.ID] = ss
			}
			loss := map[error]sample.Loss{errKernel: sample.LostKernel, errVDSO: sample.LostVDSO, errJIT: sample.LostAnonymous}[why]
			for off, n := range ic.At {
				all[compare.Named{Event: c.Event.Name, Image: ic.ID, Name: ss.name(off), Loss: loss}] += n
			}
			n := ic.Samples()
			for _, when := range ic.When {
				loseAt(c, loss, when)
			}
			for _, s := range c.Stacks {
				if s.Frames[0].Image == i {
					loseAt(c, loss, s.When)
				}
			}
			ic.At, ic.When = map[sample.Offset]uint64{}, nil
			c.Total -= n // Lose adds it again
			c.Lose(loss, n)
		}
		c.Stacks = slices.DeleteFunc(c.Stacks, func(s sample.Stack) bool { return gone[s.Frames[0].Image] })
	}
	return all
}

// loseAt loses samples in the slices of time that they were taken in.
func loseAt(c *sample.Counts, why sample.Loss, when []sample.Moment) {
	for _, m := range when {
		c.LoseAt(m.Slice, why, m.N)
	}
}
