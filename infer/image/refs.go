package image

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"runtime"
	"slices"
	"strings"
	"sync"
)

// refs are the places that code and data of an image refer to.
type refs struct {
	taken    []bool         // by symbol: its address is taken
	exports  []bool         // by symbol: others can link with it
	entries  map[int][]Addr // by symbol: where others jump to behind its start, by address
	labels   map[int]bool   // symbols into whose middle data or code points
	slots    map[int][]Addr // by symbol: words of data that point into its middle, by address
	points   map[int][]Addr // by symbol: places behind its start whose address instructions compute, by address
	data     []Addr         // addresses outside code that instructions compute, sorted
	calls    []callRef      // by callee, then caller
	through  []slotRef      // by slot, then caller
	loaded   []Addr         // slots of the GOT that hold addresses of functions and are read by more than calls and jumps, sorted
	chosen   []callRef      // by resolver of indirect functions, then what it computes the address of
	resolved map[int32]bool // what chosen leads to
	starts   []Addr         // addresses in arrays of what runs at the start or the end

	findOnce sync.Once
	runOnce  map[int]bool // by symbol: see Once
}

// references scans the image once. It costs a pass over all code: a second for
// 70 MB of it on one core.
func (im *Image) references() *refs {
	im.flow.refs.Do(func() { im.flow.refs.refs = im.scan() })
	return im.flow.refs.refs
}

// entriesOf returns the addresses inside s, but for its start, at which other
// procedures enter it, by increasing address.
func (im *Image) entriesOf(s *Symbol) []Addr {
	return im.references().entries[im.Find(s.Addr)]
}

// pointsIn returns the addresses inside s, but for its start, that instructions of the image compute, by increasing
// address: where a procedure of Haskell goes on after a call, and one of OCaml after an exception, is kept on the stack.
func (im *Image) pointsIn(s *Symbol) []Addr { return im.references().points[im.Find(s.Addr)] }

// hasPoints reports whether control may come to such addresses. Go has none but one in the middle of an instruction that nothing
// jumps to (runtime.systemstack_switch+8).
func (im *Image) hasPoints() bool { return im.Go == "" }

// hasLabels reports whether data points into the middle of s: a jump table, or
// labels that are values.
func (im *Image) hasLabels(s *Symbol) bool { return im.references().labels[im.Find(s.Addr)] }

// labelsOf returns the labels of a procedure that tables hold, and those of the same tables that lead into other parts of it, by
// address. Fewer than fewLabels in a row are no table: those that OCaml keeps are where calls return to.
func (im *Image) labelsOf(s *Symbol) []Addr {
	var labels []Addr
	var end Addr // of the last run
	for _, at := range im.references().slots[im.Find(s.Addr)] {
		if at < end {
			continue
		}
		for im.isLabelAt(s, at-wordSize) {
			at -= wordSize
		}
		var run []Addr
		for end = at; im.isLabelAt(s, end); end += wordSize {
			a, _ := im.pointer(end)
			run = append(run, a)
		}
		if len(run) >= fewLabels {
			labels = append(labels, run...)
		}
	}
	return sortedSet(labels)
}

// wordSize is that of addresses, of both processors.
const wordSize = 8

// isLabelAt reports whether data at slot points into the middle of procedure s, or into another part of what may be one procedure with it.
func (im *Image) isLabelAt(s *Symbol, slot Addr) bool {
	a, ok := im.pointer(slot)
	if !ok {
		return false
	}
	j := im.Find(a)
	if j < 0 {
		return false
	}
	if t := &im.Symbols()[j]; t != s {
		return im.isPart(t) || im.isPart(s) && t.Addr != a
	}
	return s.Addr != a || im.isPart(s)
}

// AddressTaken reports whether code or data of the image refers to the start of symbol i other
// than by direct calls and jumps, and by what the dynamic linker looks up for calls alone: whether
// the image can reach it as Calls do not show. See Exported, ImportsTaken for what others can. What resolvers of indirect functions
// choose from is reached by calls of these: see Resolved.
func (im *Image) AddressTaken(i int) bool { return im.references().taken[i] }

// Exported reports whether other images can link with symbol i.
func (im *Image) Exported(i int) bool { return im.references().exports[i] }

// scanPart is how many symbols one goroutine scans at a time.
const scanPart = 4096

func (im *Image) scan() *refs {
	syms := im.Symbols()
	r := &refs{taken: make([]bool, len(syms)), exports: make([]bool, len(syms)), entries: make(map[int][]Addr), labels: make(map[int]bool), slots: make(map[int][]Addr), points: make(map[int][]Addr)}
	for i := range syms {
		if syms[i].Source == FromDynsym {
			r.exports[i] = true
		}
	}
	parts := im.scanCode(false)
	for i := range parts {
		r.loaded = append(r.loaded, parts[i].loaded...)
		r.through = append(r.through, parts[i].through...)
	}
	r.loaded = sortedSet(r.loaded)
	slices.SortFunc(r.through, func(a, b slotRef) int { return cmp.Or(cmp.Compare(a.slot, b.slot), cmp.Compare(a.from, b.from)) })
	r.through = slices.Clip(slices.Compact(r.through))
	im.scanExports(r)
	im.scanData(r)
	for i := range parts {
		for _, a := range parts[i].code {
			if j := r.take(im, a); j >= 0 {
				r.points[j] = append(r.points[j], a)
			}
		}
		for _, a := range parts[i].entered {
			j := im.Find(a)
			r.entries[j] = append(r.entries[j], a)
		}
		r.data = append(r.data, parts[i].data...)
		r.calls = append(r.calls, parts[i].calls...)
		r.chosen = append(r.chosen, parts[i].chosen...)
	}
	slices.SortFunc(r.chosen, func(a, b callRef) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	r.chosen = slices.Clip(slices.Compact(r.chosen))
	r.resolved = make(map[int32]bool, len(r.chosen))
	for _, c := range r.chosen {
		r.resolved[c.to] = true
	}
	slices.SortFunc(r.calls, func(a, b callRef) int { return cmp.Or(cmp.Compare(a.to, b.to), cmp.Compare(a.from, b.from)) })
	r.calls = slices.Clip(slices.Compact(r.calls))
	for _, places := range []map[int][]Addr{r.entries, r.points, r.slots} {
		for j, as := range places {
			places[j] = sortedSet(as)
		}
	}
	r.data = sortedSet(r.data)
	return r
}

// scanCode decodes all code, and keeps the single references if it shall.
func (im *Image) scanCode(keep bool) []codeRefs {
	syms := im.Symbols()
	got, resolvers := im.globalSlots(), im.resolvers()
	parts := make([]codeRefs, (len(syms)+scanPart-1)/scanPart)
	var wg sync.WaitGroup
	limit := make(chan struct{}, runtime.GOMAXPROCS(0))
	for part := range parts {
		wg.Add(1)
		limit <- struct{}{}
		go func() {
			defer func() { <-limit; wg.Done() }()
			p := &parts[part]
			p.keep, p.got, p.resolvers = keep, got, resolvers
			lo := part * scanPart
			for i := lo; i < min(lo+scanPart, len(syms)); i++ {
				p.scan(im, i, &syms[i])
			}
			p.data, p.refs = sortedSet(p.data), slices.Clone(p.refs)
			p.buf = nil
		}()
	}
	wg.Wait()
	return parts
}

func sortedSet(as []Addr) []Addr {
	slices.Sort(as)
	return slices.Compact(as)
}

// objectEnd bounds the object at a: by the first address behind it that some
// instruction computes, as another object begins there, and by its section.
func (im *Image) objectEnd(a Addr) Addr {
	end := ^Addr(0)
	for _, s := range im.elf.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && uint64(a) >= s.Addr && uint64(a)-s.Addr < s.Size {
			end = Addr(s.Addr + s.Size)
		}
	}
	data := im.references().data
	i, found := slices.BinarySearch(data, a)
	if found {
		i++
	}
	if i < len(data) {
		end = min(end, data[i])
	}
	return end
}

// take notes that a is referred to. It returns the symbol that a lies in, but not at the start of, or -1.
func (r *refs) take(im *Image, a Addr) int {
	switch j := im.Find(a); {
	case j < 0:
	case im.Symbols()[j].Addr == a:
		r.taken[j] = true
	default:
		r.labels[j] = true
		return j
	}
	return -1
}

// scanExports notes the dynamic symbols that others can link with, and takes the entry point.
func (im *Image) scanExports(r *refs) {
	for _, a := range im.exports {
		if j := im.Find(a); j >= 0 && im.Symbols()[j].Addr == a {
			r.exports[j] = true
		} else {
			r.take(im, a)
		}
	}
	r.take(im, Addr(im.elf.Entry))
}

// scanData takes the addresses that data holds, but for those that are there for calls alone.
func (im *Image) scanData(r *refs) {
	calls := map[Addr]bool{} // slots
	for _, rel := range im.relocs().all {
		if im.onlyCalls(rel) {
			_, loaded := slices.BinarySearch(r.loaded, rel.slot)
			calls[rel.slot] = !loaded
		}
	}
	starts := im.startArrays()
	im.dataRefs(func(at, target Addr) {
		if !calls[at] {
			if j := r.take(im, target); j >= 0 {
				r.slots[j] = append(r.slots[j], at)
			}
		}
		if within(starts, at) {
			r.starts = append(r.starts, target)
		}
	})
}

// dataRefs calls f for the addresses in relocated slots and, in images that are linked
// at a fixed address, in all words of data, with the place of each.
func (im *Image) dataRefs(f func(at, target Addr)) {
	for _, rel := range im.relocs().all {
		if rel.target != 0 {
			f(rel.slot, rel.target)
		}
	}
	if im.elf.Type != elf.ET_EXEC {
		return
	}
	for _, s := range im.elf.Sections {
		if s.Flags&elf.SHF_ALLOC == 0 || s.Flags&elf.SHF_EXECINSTR != 0 || s.Type == elf.SHT_NOBITS || isMetadata(s.Name) {
			continue
		}
		var buf []byte
		for at, end := Addr(s.Addr), Addr(s.Addr+s.Size); at < end; at += scanWindow {
			buf = im.peek(at, min(scanWindow, end-at), buf)
			if len(buf) == 0 {
				break // of what the file does not have, there may be more than can be gone through
			}
			for i := 0; i+8 <= len(buf); i += 8 {
				if w := Addr(binary.LittleEndian.Uint64(buf[i:])); w != 0 && im.executable(w) {
					f(at+Addr(i), w)
				}
			}
		}
	}
}

const scanWindow = 1 << 20

// peek reads the n bytes at a into buf. Unlike read it keeps nothing: a scan of all
// code would leave all of it in memory. It is empty if the file has less.
func (im *Image) peek(a, n Addr, buf []byte) []byte {
	seg := im.segment(a)
	if seg == nil || n > seg.hi-a {
		return buf[:0]
	}
	buf = slices.Grow(buf[:0], int(n))[:n]
	if _, err := seg.file.ReadAt(buf, int64(seg.off)+int64(a-seg.lo)); err != nil {
		return buf[:0]
	}
	return buf
}

// isMetadata reports sections whose addresses of code do not make it reachable.
func isMetadata(name string) bool {
	return strings.HasPrefix(name, ".eh_frame") || strings.HasPrefix(name, ".debug") || strings.HasPrefix(name, ".note") ||
		name == ".gopclntab" || name == ".dynsym" || name == ".dynamic" || name == ".gcc_except_table"
}

// codeRefs are what a part of the code refers to.
type codeRefs struct {
	code    []Addr // addresses of code that instructions compute
	data    []Addr // other addresses that they compute
	entered []Addr // targets of jumps and calls into the middle of other procedures
	calls   []callRef
	through []slotRef
	loaded  []Addr // slots of functions that others than calls and jumps read

	chosen []callRef // from resolvers of indirect functions to what they compute the addresses of

	got       extent // slots that may be of functions
	resolvers []Addr // sorted

	keep bool // whether to fill refs, and nothing else
	refs []Ref

	lo  Addr   // of buf
	buf []byte // code that was read last
}

// codeWindow is how much code a scan reads at once: most procedures are smaller by far.
const codeWindow = 1 << 18

// codeOf returns the bytes of s, valid until the next call.
func (c *codeRefs) codeOf(im *Image, s *Symbol) []byte {
	n := Addr(s.Size)
	if s.Addr < c.lo || s.Addr+n > c.lo+Addr(len(c.buf)) {
		window := n
		if seg := im.segment(s.Addr); seg != nil {
			window = max(n, min(codeWindow, seg.hi-s.Addr))
		}
		c.lo, c.buf = s.Addr, im.peek(s.Addr, window, c.buf)
	}
	if len(c.buf) == 0 {
		return nil
	}
	return c.buf[s.Addr-c.lo:][:n]
}

// add notes an address that the instruction at from in s computes.
func (c *codeRefs) add(im *Image, s *Symbol, from, a Addr) {
	if c.keep {
		if im.executable(a) {
			c.refer(im, s, from, a, true)
		}
	} else if im.executable(a) {
		if _, resolves := slices.BinarySearch(c.resolvers, s.Addr); resolves {
			if j := im.Find(a); j >= 0 && im.Symbols()[j].Addr == a {
				c.chosen = append(c.chosen, callRef{int32(im.Find(s.Addr)), int32(j)})
				return
			}
		}
		c.code = append(c.code, a)
	} else {
		c.data = append(c.data, a)
	}
}

// scan decodes s, which is symbol i, from end to end.
func (c *codeRefs) scan(im *Image, i int, s *Symbol) {
	code := c.codeOf(im, s)
	if im.Arch == AArch64 {
		c.scanARM(im, i, s, code)
		return
	}
	var d x86
	for off := 0; off < len(code); {
		a := s.Addr + Addr(off)
		in := im.inst(&d, code[off:], a)
		off += in.Len
		if d.mem && d.base == ripReg && !c.keep {
			c.readSlot(im, i, a+Addr(in.Len)+Addr(d.disp), in.Class&(IndCall|IndJump) != 0)
		}
		if in.Class&(CondJump|Jump|DirCall) != 0 {
			c.lead(im, i, s, a, in.Target)
		} else if t := im.computes(&d, in); t != 0 {
			c.add(im, s, a, t)
		}
	}
}

// computes returns the address that an instruction computes which d holds, or 0.
func (im *Image) computes(d *x86, in Inst) Addr {
	fixed := im.elf.Type == elf.ET_EXEC
	switch {
	case in.Class&(CondJump|Jump|DirCall|Bad) != 0 || d.vex:
	case d.op == 0x8d && d.base == ripReg: // lea
		return in.Addr + Addr(in.Len) + Addr(d.disp)
	case fixed && d.imm > 0 && (d.op >= 0xb8 && d.op <= 0xbf || d.op == 0xc7 || d.op == 0x68): // mov, push
		if t := Addr(d.imm) + im.shift; im.segment(t) != nil {
			return t
		}
	case fixed && d.mem && d.base == noReg && d.index != noReg && d.disp > 0: // table(,%rax,8)
		return Addr(d.disp) + im.shift
	}
	return 0
}

// scanARM is scan for AArch64, where an address is made by ADR, or by ADRP and an
// ADD that follows while the register holds the page.
func (c *codeRefs) scanARM(im *Image, i int, s *Symbol, code []byte) {
	var page [32]Addr
	var held uint32 // registers with a page
	for off := 0; off+4 <= len(code); off += 4 {
		a := s.Addr + Addr(off)
		in := armInst(code[off:], a)
		if in.Class&(CondJump|Jump|DirCall) != 0 {
			c.lead(im, i, s, a, in.Target)
			continue
		}
		w := binary.LittleEndian.Uint32(code[off:])
		switch {
		case w&0x9f000000 == 0x90000000: // adrp
			page[w&31] = armPage(w, a)
			held |= armMask(w & 31)
			continue
		case w&0x9f000000 == 0x10000000: // adr
			c.add(im, s, a, a+armPCRel(w))
		case w&0xffc00000 == 0x91000000: // add
			if held>>(w>>5&31)&1 != 0 {
				c.add(im, s, a, page[w>>5&31]+Addr(w>>10&0xfff))
			}
		}
		if held != 0 {
			e := armEffect(code[off:], a, false)
			if held &^= e.clob; e.dst != noReg {
				held &^= armMask(uint32(e.dst))
			}
		}
	}
}

// isColdPart reports whether name is that of a part which the compiler split off a
// procedure: its other blocks are entered from there.
func isColdPart(name string) bool {
	return strings.HasSuffix(name, ".cold") || strings.Contains(name, ".cold.") || strings.Contains(name, ".__part.")
}

// isPart reports whether s is such a part: by its name or, where names are lost, by its frame description, which begins with the frame
// that the other part has made. Of a part that has none by then nothing tells.
func (im *Image) isPart(s *Symbol) bool {
	if s.Source != FromEhFrame {
		return isColdPart(s.Name)
	}
	e := im.unwindEntry(s.Addr)
	return e != nil && e.lo == s.Addr && e.framed(im.dwarfRegisters())
}
