package image

import (
	"cmp"
	"slices"
	"strings"
)

// A callRef is a direct call, or a jump, from one symbol to the start of another.
type callRef struct{ from, to int32 }

// Callers returns the symbols that call symbol i directly, or jump to its start, by address.
// Those that do so by a pointer are not known; AddressTaken reports whether there may be any.
func (im *Image) Callers(i int) []int32 {
	r := im.references()
	lo, _ := slices.BinarySearchFunc(r.calls, i, func(c callRef, i int) int { return cmp.Compare(int(c.to), i) })
	var from []int32
	for _, c := range r.calls[lo:] {
		if int(c.to) != i {
			break
		}
		from = append(from, c.from)
	}
	return from
}

// lead notes that the instruction at from in s, which is symbol i, calls or jumps to target.
func (c *codeRefs) lead(im *Image, i int, s *Symbol, from, target Addr) {
	if c.keep {
		c.refer(im, s, from, target, false)
		return
	}
	if target >= s.Addr && target-s.Addr < Addr(s.Size) {
		return
	}
	switch j := im.Find(target); {
	case j < 0:
	case im.Symbols()[j].Addr != target:
		c.entered = append(c.entered, target)
	default:
		if n := len(c.calls); n == 0 || c.calls[n-1] != (callRef{int32(i), int32(j)}) {
			c.calls = append(c.calls, callRef{int32(i), int32(j)})
		}
	}
}

// Once reports whether symbol i is run once by every process that runs the image, or loads it: the
// entry point, main, and what initialises and ends it. Other code may call it besides.
func (im *Image) Once(i int) bool {
	r := im.references()
	r.findOnce.Do(func() { r.runOnce = im.findRoots() })
	return r.runOnce[i]
}

// findRoots returns the symbols that a process runs once.
func (im *Image) findRoots() map[int]bool {
	roots := map[int]bool{}
	syms := im.Symbols()
	add := func(a Addr) {
		if j := im.Find(a); j >= 0 && syms[j].Addr == a {
			roots[j] = true
		}
	}
	if im.elf.Entry != 0 {
		add(Addr(im.elf.Entry))
		if j := im.Find(Addr(im.elf.Entry)); j >= 0 {
			// It hands main to the C library, in older ones what runs before and after it, too.
			var c codeRefs
			c.scan(im, j, &syms[j])
			for _, a := range c.code {
				add(a)
			}
		}
	}
	for _, a := range im.references().starts {
		add(a)
	}
	for i := range syms {
		if s := &syms[i]; s.atStart() || runsOnce(s.Name) {
			roots[i] = true
		}
	}
	return roots
}

// runsOnce reports whether a name is that of what a process runs once: main in C, Go and Rust, and
// initialisers.
func runsOnce(name string) bool {
	switch {
	case name == "main", name == "main.main", name == "runtime.main":
		return true
	case strings.HasPrefix(name, "_GLOBAL__sub_I_"): // initialisers of a C++ file
		return true
	case strings.HasPrefix(name, "_R") || strings.HasPrefix(name, "_ZN"):
		if !strings.Contains(name, "4main") {
			return false
		}
		crate, fn, ok := strings.Cut(DemangleShort(name), "::")
		return ok && crate != "" && fn == "main"
	}
	// Go's of a package: strings.init, and time.init.0 of its source.
	pkg, fn, ok := strings.Cut(name[strings.LastIndexByte(name, '/')+1:], ".")
	return ok && pkg != "" && (fn == "init" || strings.HasPrefix(fn, "init.") && strings.Trim(fn[len("init."):], "0123456789") == "")
}
