package image

import (
	"debug/elf"
	"slices"
	"strings"
)

// References are all places of an image that refer to its procedures.
type References struct {
	Reach []Reach // by symbol

	refs  []Ref
	start []int // by symbol: of its part of refs
}

// Reach says how a procedure can be reached without any code of the image
// that names it. References that leave no address behind are not seen: what dlsym finds by
// name is exported, but offsets in tables of the program's own are not known.
type Reach uint8

const (
	Exported Reach = 1 << iota // other images can link with it
	Start                      // the entry point of the image, or run when it is loaded or unloaded
	Pointed                    // data holds its address
)

// A Ref is an instruction that refers to a procedure from another one.
type Ref struct {
	From    Addr
	To      int32 // symbol
	Address bool  // it computes the address of the procedure; otherwise it calls it, or jumps into it
}

// To returns the instructions that refer to symbol i, by address.
func (r *References) To(i int) []Ref { return r.refs[r.start[i]:r.start[i+1]] }

// References scans the image. It costs a pass over all code, a second for 70 MB of
// it on one core, and nothing of it is kept.
func (im *Image) References() *References {
	syms := im.Symbols()
	r := &References{Reach: make([]Reach, len(syms)), start: make([]int, len(syms)+1)}
	mark := func(a Addr, how Reach) {
		if j := im.Find(a); j >= 0 && syms[j].Addr == a {
			r.Reach[j] |= how
		}
	}
	for i := range syms {
		if syms[i].atStart() {
			r.Reach[i] |= Start
		}
	}
	for _, a := range im.exports {
		mark(a, Exported)
	}
	mark(Addr(im.elf.Entry), Start)
	im.startRefs(func(target Addr, start bool) {
		if start {
			mark(target, Start)
		} else {
			mark(target, Pointed)
		}
	})
	r.sort(im.scanCode(true))
	return r
}

// sort takes the references of the parts, and orders them by symbol, then by address, as they are in each part.
func (r *References) sort(parts []codeRefs) {
	n := 0
	for i := range parts {
		n += len(parts[i].refs)
		for _, ref := range parts[i].refs {
			r.start[ref.To+1]++
		}
	}
	for i := range r.Reach {
		r.start[i+1] += r.start[i]
	}
	r.refs = make([]Ref, n)
	at := slices.Clone(r.start)
	for i := range parts {
		for _, ref := range parts[i].refs {
			r.refs[at[ref.To]] = ref
			at[ref.To]++
		}
		parts[i].refs = nil
	}
}

// atStart reports whether s is code that runs at the start or the end of a process as its section says.
func (s *Symbol) atStart() bool { return s.Section == ".init" || s.Section == ".fini" }

// startRefs calls f for the addresses that dataRefs finds; start is for those in an array of what runs at the start or
// the end.
func (im *Image) startRefs(f func(target Addr, start bool)) {
	starts := im.startArrays()
	im.dataRefs(func(at, target Addr) { f(target, within(starts, at)) })
}

// within reports whether a is in one of es.
func within(es []extent, a Addr) bool {
	return slices.ContainsFunc(es, func(e extent) bool { return a >= e.lo && a < e.hi })
}

// startArrays returns the sections with pointers to what runs at the start and the end.
func (im *Image) startArrays() (es []extent) {
	for _, s := range im.elf.Sections {
		array := s.Type == elf.SHT_INIT_ARRAY || s.Type == elf.SHT_FINI_ARRAY || s.Type == elf.SHT_PREINIT_ARRAY ||
			strings.HasPrefix(s.Name, ".ctors") || strings.HasPrefix(s.Name, ".dtors")
		if array && s.Flags&elf.SHF_ALLOC != 0 {
			es = append(es, extent{Addr(s.Addr), Addr(s.Addr + s.Size)})
		}
	}
	return es
}

// refer notes that the instruction at a in s refers to target.
func (c *codeRefs) refer(im *Image, s *Symbol, a, target Addr, address bool) {
	if target >= s.Addr && target-s.Addr < Addr(s.Size) {
		return
	}
	j := im.Find(target)
	if j < 0 || address && im.Symbols()[j].Addr != target {
		return
	}
	c.refs = append(c.refs, Ref{From: a, To: int32(j), Address: address})
}
