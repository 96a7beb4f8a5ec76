package image

import (
	"debug/elf"
	"encoding/binary"
	"regexp"
	"slices"
	"strings"
)

// A kernelCode is what is special about the code of Linux.
type kernelCode struct {
	base   Addr           // of its text: offsets of samples count from there
	thunks map[Addr]Class // what jumps and calls to thunks are
	warns  map[Addr]bool  // traps behind which control goes on
	fixups []Addr         // where it goes on after faults, sorted
}

// openKernel finds where the text of a kernel starts. Where its code ran elsewhere than its debug file has it linked,
// as KASLR has it, it is moved there: then addresses are those of symbols, lines and tables of that file, and the same
// for each boot.
func (im *Image) openKernel() error {
	base, err := im.textOf(im.elf)
	if err != nil {
		return err
	}
	im.kernel = &kernelCode{base: base}
	if base == 0 {
		for _, s := range im.segments { // by address
			if s.exec {
				im.kernel.base = s.lo
				break
			}
		}
	}
	if im.debug == nil {
		return nil
	}
	linked, err := im.textOf(im.debug)
	if err != nil || base == 0 || linked == 0 || linked == base {
		return err
	}
	im.shift = linked - base
	im.kernel.base += im.shift
	for _, s := range im.segments {
		s.lo, s.hi = s.lo+im.shift, s.hi+im.shift
	}
	for i := range im.regions {
		im.regions[i].lo, im.regions[i].hi = im.regions[i].lo+im.shift, im.regions[i].hi+im.shift
	}
	for _, s := range im.elf.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 {
			s.Addr += uint64(im.shift)
		}
	}
	for _, p := range im.elf.Progs {
		p.Vaddr += uint64(im.shift)
	}
	return nil
}

// textOf returns the value of the symbol at which the text of a kernel starts, 0 if f has none: that of modules.
func (im *Image) textOf(f *elf.File) (Addr, error) {
	table, err := im.readTable(f, elf.SHT_SYMTAB)
	if err != nil {
		return 0, err
	}
	var stext Addr
	for i := range table {
		switch table[i].name {
		case "_text":
			return table[i].value, nil
		case "_stext":
			stext = table[i].value
		}
	}
	return stext, nil
}

// Linux is compiled to return, and to go through pointers, by thunks that it makes safe for the processor that it
// boots on (arch/x86/lib/retpoline.S). What compilers left is a jump or a call to one of these.
var (
	returnThunk   = regexp.MustCompile(`^(__x86_return_(thunk|skl)|(retbleed|zen|srso|srso_alias|call_depth|its)_return_thunk)$`)
	indirectThunk = regexp.MustCompile(`^__x86_indirect_((its|call|jump)_)?thunk_`)
)

// readKernelTables reads what tells more of code: names of thunks, __bug_table and __ex_table. Without these
// tables, as modules are, every trap is taken to be a BUG, after which nothing goes on.
func (im *Image) readKernelTables() error {
	k := im.kernel
	k.thunks = map[Addr]Class{}
	for i := range im.symbols {
		s := &im.symbols[i]
		for _, name := range append([]string{s.Name}, s.Aliases...) {
			name = strings.TrimPrefix(name, "__pi_") // the same, for code before its own mapping
			switch {
			case returnThunk.MatchString(name):
				k.thunks[s.Addr] = Ret
			case indirectThunk.MatchString(name):
				k.thunks[s.Addr] = IndJump | IndCall
			}
		}
	}
	// struct exception_table_entry: places of an instruction and of its fixup, each relative to itself, and from
	// Linux 4.6 (x86) and 5.16 (AArch64) on 4 bytes of what to do.
	err := im.readKernelTable("__ex_table", []int{12, 8}, 2, func(places []Addr, _ []byte) {
		k.fixups = append(k.fixups, places[1])
	})
	if err != nil {
		return err
	}
	k.fixups = sortedSet(k.fixups)
	// struct bug_entry: the place of the trap, relative to itself, perhaps those of a format and of a file's name, the
	// number of a line, and 2 bytes of flags. Without a file and a line, the flags come first.
	k.warns = map[Addr]bool{}
	return im.readKernelTable("__bug_table", []int{12, 16, 8}, 1, func(places []Addr, rest []byte) {
		flags := rest[len(rest)-2:]
		if len(rest) == 4 {
			flags = rest[:2]
		}
		const warning = 1 // BUGFLAG_WARNING
		if binary.LittleEndian.Uint16(flags)&warning != 0 {
			k.warns[places[0]] = true
		}
	})
}

// readKernelTable calls f with the entries of a table, each of as many relative places and the rest. The size of an
// entry is the first by which the places of most are in code; others are of code that ran at boot, and is gone. Of a table
// of none of the sizes nothing is known.
func (im *Image) readKernelTable(name string, sizes []int, places int, f func(places []Addr, rest []byte)) error {
	s := im.elf.Section(name)
	if s == nil || s.Type == elf.SHT_NOBITS {
		return nil
	}
	b, err := im.sectionData(s)
	if err != nil {
		return err
	}
	at := make([]Addr, places)
	read := func(off int) bool {
		for i := range at {
			o := off + 4*i
			at[i] = Addr(s.Addr) + Addr(o) + Addr(int64(int32(binary.LittleEndian.Uint32(b[o:]))))
			if !im.executable(at[i]) {
				return false
			}
		}
		return true
	}
	for _, size := range sizes {
		n := 0 // entries of code that is there
		for off := 0; off+size <= len(b); off += size {
			if read(off) {
				n++
			}
		}
		if n <= len(b)/size/2 {
			continue
		}
		for off := 0; off+size <= len(b); off += size {
			if read(off) {
				f(at, b[off+4*places:off+size])
			}
		}
		break
	}
	return nil
}

// asKernel makes of a jump to a return thunk a return, of one or a call to an indirect thunk an indirect one, and of
// the trap of a warning what goes on.
func (im *Image) asKernel(in Inst) Inst {
	k := im.kernel
	if k == nil || in.Class&(Jump|DirCall|Trap) == 0 {
		return in
	}
	class := k.thunks[in.Target]
	switch {
	case in.Class&Trap != 0:
		if k.warns[in.Addr] {
			in.Class = in.Class&^Trap | System
		}
	case class == Ret && in.Class&Jump != 0:
		in.Class, in.Target = in.Class&^Jump|Ret, 0
	case class&IndJump != 0 && in.Class&Jump != 0:
		in.Class, in.Target = in.Class&^Jump|IndJump, 0
	case class&IndCall != 0 && in.Class&DirCall != 0:
		in.Class, in.Target = in.Class&^DirCall|IndCall, 0
	}
	return in
}

// toThunk reports whether code, of an indirect jump, is a direct one to a thunk.
func (im *Image) toThunk(code []byte) bool {
	if im.kernel == nil || im.Arch != X86_64 {
		return false
	}
	var d x86
	d.decode(code)
	return d.class&Jump != 0
}

// fixups returns the places in s where the kernel goes on after a fault.
func (im *Image) fixups(s *Symbol) []Addr {
	if im.kernel == nil {
		return nil
	}
	all := im.kernel.fixups
	lo, _ := slices.BinarySearch(all, s.Addr)
	hi, _ := slices.BinarySearch(all, s.Addr+Addr(s.Size))
	return all[lo:hi]
}
