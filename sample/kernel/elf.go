package kernel

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"io"
	"strings"
)

// An ELF file of the kernel's code has, in this order:
//
//	size           field
//	64             header; the type is EXEC: addresses are those that the code runs at
//	56 each        program headers: one for each part, one for the note
//	36             section .note.gnu.build-id
//	-              the parts, each at an offset that is its address modulo the size of a page
//	24 each        section .symtab: an empty symbol, local ones (t), then others (T, w, W), by address
//	-              sections .strtab and .shstrtab
//	64 each        section headers
//
// Pages that cannot be read, as those of holes between sections, are zeros.

// chunkSize is how much of memory is read at once.
const chunkSize = 64 << 10

// noteSize is that of a GNU build ID of 20 bytes.
const noteSize = 12 + 4 + 20

// An elfWriter puts a file together, whose sizes are known beforehand.
type elfWriter struct {
	c        *Code
	names    bytes.Buffer // of sections
	strings  bytes.Buffer // of symbols
	symbols  []elf.Sym64
	sections []elf.Section64
	segments []elf.Prog64
	end      uint64 // of what has its place

	pointers map[uint64]bool // by address: a pointer lies before what begins there, see findPointers
}

func up(n, align uint64) uint64 { return (n + align - 1) &^ (align - 1) }

// section puts the next section into its place.
func (w *elfWriter) section(name string, s elf.Section64) {
	s.Name = uint32(w.names.Len())
	w.names.WriteString(name + "\x00")
	s.Off = up(w.end, max(s.Addralign, 1))
	if s.Flags&uint64(elf.SHF_ALLOC) != 0 && s.Addr != 0 { // a part
		s.Off = up(w.end, pageSize) + s.Addr%pageSize
	}
	w.end = s.Off + s.Size
	w.sections = append(w.sections, s)
}

// addSymbols fills the symbol table and its strings, and returns how many are local.
func (w *elfWriter) addSymbols() (locals int) {
	w.symbols = make([]elf.Sym64, 1, len(w.c.Symbols)+1)
	w.strings.WriteByte(0)
	for _, local := range []bool{true, false} {
		for _, s := range w.c.Symbols {
			if (s.Type == 't') != local {
				continue
			}
			bind := elf.STB_GLOBAL
			switch {
			case s.Type == 't':
				bind = elf.STB_LOCAL
			case s.Type == 'w', s.Type == 'W', strings.HasPrefix(s.Name, "__ia32_"): // of a system call, which has the name __x64_ too
				bind = elf.STB_WEAK
			}
			w.symbols = append(w.symbols, elf.Sym64{Name: uint32(w.strings.Len()), Info: elf.ST_INFO(bind, elf.STT_FUNC), Shndx: textIndex, Value: s.Addr, Size: w.size(&s)})
			w.strings.WriteString(s.Name + "\x00")
		}
		if local {
			locals = len(w.symbols)
		}
	}
	return locals
}

// size is that of a symbol without what belongs to the next one.
func (w *elfWriter) size(s *Symbol) uint64 {
	if s.Size > pointerSize && w.pointers[s.Addr+s.Size] {
		return s.Size - pointerSize
	}
	return s.Size
}

// On AArch64, kernels built with DYNAMIC_FTRACE_WITH_CALL_OPS (6.3 and later) keep a pointer to what traces a procedure in the
// two words before it (ftrace_call_adjust in arch/arm64/kernel/ftrace.c). These are no code of the one before. Addresses of
// the kernel begin with 16 bits that are set.
const (
	pointerSize  = 8
	leastPointer = 0xffff << 48
)

// findPointers finds those, where symbols end in memory that can be read.
func (w *elfWriter) findPointers(m Memory) {
	if w.c.Machine != elf.EM_AARCH64 {
		return
	}
	w.pointers = map[uint64]bool{}
	var chunk []byte
	var from uint64
	for _, s := range w.c.Symbols { // by address
		end := s.Addr + s.Size
		if s.Size <= pointerSize || end%pointerSize != 0 || end < s.Addr {
			continue
		}
		if at := end - pointerSize; at < from || end > from+uint64(len(chunk)) {
			from = at
			if chunk = make([]byte, chunkSize); m.At(from, chunk) != nil { // what follows may be out of reach
				if chunk = chunk[:pointerSize]; m.At(from, chunk) != nil {
					chunk = nil
					continue
				}
			}
		}
		if binary.LittleEndian.Uint64(chunk[end-pointerSize-from:]) >= leastPointer {
			w.pointers[end] = true
		}
	}
}

// Indices of sections.
const (
	noteIndex = 1
	textIndex = 2
)

// layOut puts everything into its place.
func (w *elfWriter) layOut() {
	locals := w.addSymbols()
	w.end = 64 + 56*uint64(len(w.c.Parts)+1)
	w.sections = append(w.sections, elf.Section64{})
	w.names.WriteByte(0)
	w.section(".note.gnu.build-id", elf.Section64{Type: uint32(elf.SHT_NOTE), Size: noteSize, Addralign: 4})
	for _, p := range w.c.Parts {
		flags := elf.SHF_ALLOC
		rights := elf.PF_R
		if p.Exec {
			flags |= elf.SHF_EXECINSTR
			rights |= elf.PF_X
		}
		w.section(p.Name, elf.Section64{Type: uint32(elf.SHT_PROGBITS), Flags: uint64(flags), Addr: p.Start, Size: p.End - p.Start, Addralign: 1})
		w.segments = append(w.segments, elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(rights), Off: w.sections[len(w.sections)-1].Off,
			Vaddr: p.Start, Paddr: p.Start, Filesz: p.End - p.Start, Memsz: p.End - p.Start, Align: pageSize})
	}
	w.segments = append(w.segments, elf.Prog64{Type: uint32(elf.PT_NOTE), Flags: uint32(elf.PF_R), Off: w.sections[noteIndex].Off, Filesz: noteSize, Memsz: noteSize, Align: 4})
	strtab := uint32(len(w.sections) + 1)
	w.section(".symtab", elf.Section64{Type: uint32(elf.SHT_SYMTAB), Size: uint64(24 * len(w.symbols)), Link: strtab, Info: uint32(locals), Addralign: 8, Entsize: 24})
	w.section(".strtab", elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: uint64(w.strings.Len()), Addralign: 1})
	const last = ".shstrtab"
	w.section(last, elf.Section64{Type: uint32(elf.SHT_STRTAB), Size: uint64(w.names.Len() + len(last) + 1), Addralign: 1})
	w.end = up(w.end, 8)
}

// header returns the file's header. Section headers come last.
func (w *elfWriter) header() elf.Header64 {
	h := elf.Header64{Type: uint16(elf.ET_EXEC), Machine: uint16(w.c.Machine), Version: uint32(elf.EV_CURRENT), Phoff: 64, Shoff: w.end,
		Ehsize: 64, Phentsize: 56, Phnum: uint16(len(w.segments)), Shentsize: 64, Shnum: uint16(len(w.sections)), Shstrndx: uint16(len(w.sections) - 1)}
	copy(h.Ident[:], elf.ELFMAG)
	h.Ident[elf.EI_CLASS], h.Ident[elf.EI_DATA], h.Ident[elf.EI_VERSION] = byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), byte(elf.EV_CURRENT)
	return h
}

func (w *elfWriter) note() []byte {
	le := binary.LittleEndian
	b := le.AppendUint32(le.AppendUint32(le.AppendUint32(nil, 4), 20), 3) // sizes of name and ID, NT_GNU_BUILD_ID
	return append(append(b, "GNU\x00"...), w.c.ID.Build[:]...)
}

// WriteELF writes an ELF file of the code, with what m has of it now.
func (c *Code) WriteELF(out io.Writer, m Memory) error {
	if err := c.Readable(m); err != nil {
		return err
	}
	w := &elfWriter{c: c}
	w.findPointers(m)
	w.layOut()
	to := &counted{w: bufio.NewWriterSize(out, 1<<16)}
	to.values(w.header(), w.segments, w.note())
	for i, p := range c.Parts {
		to.pad(w.sections[textIndex+i].Off)
		to.memory(m, p)
	}
	n := len(w.sections)
	to.pad(w.sections[n-3].Off)
	to.values(w.symbols, w.strings.Bytes(), w.names.Bytes())
	to.pad(w.end)
	to.values(w.sections)
	if to.err == nil {
		to.err = to.w.Flush()
	}
	return to.err
}

// A counted writer knows where it is. Its first error stays.
type counted struct {
	w   *bufio.Writer
	n   uint64
	err error
}

func (c *counted) Write(b []byte) (int, error) {
	if c.err == nil {
		_, c.err = c.w.Write(b)
	}
	c.n += uint64(len(b))
	return len(b), c.err
}

func (c *counted) values(all ...any) {
	for _, v := range all {
		if err := binary.Write(c, binary.LittleEndian, v); c.err == nil && err != nil {
			c.err = err
		}
	}
}

func (c *counted) pad(to uint64) {
	if c.err == nil && c.n > to {
		c.err = fmt.Errorf("offset %#x is past %#x", c.n, to)
	}
	for c.err == nil && c.n < to {
		c.Write(make([]byte, min(to-c.n, chunkSize)))
	}
}

// memory copies a part: what cannot be read in one go by pages, of which those that cannot be read are zeros.
func (c *counted) memory(m Memory, p Part) {
	b := make([]byte, chunkSize)
	for at := p.Start; at < p.End && c.err == nil; {
		n := min(chunkSize-at%chunkSize, p.End-at)
		if m.At(at, b[:n]) != nil {
			for q := at; q < at+n; {
				page := min(pageSize-q%pageSize, at+n-q)
				if piece := b[q-at:][:page]; m.At(q, piece) != nil {
					clear(piece)
				}
				q += page
			}
		}
		c.Write(b[:n])
		at += n
	}
}
