package image

import (
	"bytes"
	"compress/zlib"
	"debug/elf"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample/bound"
)

// A bombSection is a section of a file that somebody made to do harm.
type bombSection struct {
	name  string // shared by sections of the same name, as linkers do
	typ   elf.SectionType
	flags elf.SectionFlag
	data  []byte
	size  uint64 // uncompressed, if data are compressed
	link  uint32
}

const bombBase, bombCode = 0x400000, 1 << 16

// bombFile is an ELF executable with bombCode bytes of returns, and sections, the first of which
// has index 3.
func bombFile(t testing.TB, sections []bombSection) string {
	t.Helper()
	le := binary.LittleEndian
	names, nameOf := []byte("\x00.text\x00.shstrtab\x00"), map[string]uint32{".text": 1, ".shstrtab": 7}
	for _, s := range sections {
		if _, ok := nameOf[s.name]; !ok {
			nameOf[s.name] = uint32(len(names))
			names = append(append(names, s.name...), 0)
		}
	}
	const head = 64 + 56
	b := make([]byte, head)
	b = append(b, bytes.Repeat([]byte{0xc3}, bombCode)...)
	table := make([]byte, 64) // the first header is empty
	add := func(s bombSection, addr uint64) {
		off := uint64(len(b))
		data := s.data
		if s.flags&elf.SHF_COMPRESSED != 0 {
			data = le.AppendUint64(le.AppendUint64(le.AppendUint64(nil, uint64(elf.COMPRESS_ZLIB)), s.size), 1)
			data = append(data, s.data...)
		}
		size := uint64(len(data))
		if addr != 0 {
			off, size = head, bombCode
		}
		b = append(b, data...)
		table = le.AppendUint32(table, nameOf[s.name])
		table = le.AppendUint32(table, uint32(s.typ))
		for _, v := range []uint64{uint64(s.flags), addr, off, size} {
			table = le.AppendUint64(table, v)
		}
		table = le.AppendUint32(le.AppendUint32(table, s.link), 0)
		table = append(table, make([]byte, 16)...)
	}
	add(bombSection{name: ".text", typ: elf.SHT_PROGBITS, flags: elf.SHF_ALLOC | elf.SHF_EXECINSTR}, bombBase)
	add(bombSection{name: ".shstrtab", typ: elf.SHT_STRTAB, data: names}, 0)
	for _, s := range sections {
		add(s, 0)
	}
	copy(b, "\x7fELF\x02\x01\x01")
	for _, f := range []struct {
		off, size int
		v         uint64
	}{
		{16, 2, uint64(elf.ET_EXEC)}, {18, 2, uint64(elf.EM_X86_64)}, {20, 4, 1}, {24, 8, bombBase}, {ehPhoff, 8, 64}, {ehShoff, 8, uint64(len(b))},
		{52, 2, 64}, {ehPhentsize, 2, 56}, {ehPhnum, 2, 1}, {58, 2, 64}, {ehShnum, 2, uint64(len(table) / 64)}, {ehShstrndx, 2, 2},
		{64, 4, uint64(elf.PT_LOAD)}, {64 + phFlags, 4, 5}, {64 + phOffset, 8, head}, {64 + phVaddr, 8, bombBase}, {64 + phFilesz, 8, bombCode}, {64 + 40, 8, bombCode},
	} {
		put(b, f.off, f.size, f.v)
	}
	path := filepath.Join(t.TempDir(), "bomb")
	if err := os.WriteFile(path, append(b, table...), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// deflated compresses the data of a section.
func deflated(name string, data []byte) bombSection {
	var out bytes.Buffer
	z, _ := zlib.NewWriterLevel(&out, zlib.BestSpeed)
	z.Write(data)
	z.Close()
	return bombSection{name: name, typ: elf.SHT_PROGBITS, flags: elf.SHF_COMPRESSED, data: out.Bytes(), size: uint64(len(data))}
}

func plainSection(name string, data []byte) bombSection {
	return bombSection{name: name, typ: elf.SHT_PROGBITS, data: data}
}

// defused holds f to an error about proportions, and to memory of less than 256 MB in all.
func defused(t *testing.T, path, field string, f func() error) {
	t.Helper()
	st, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	used := testtool.Allocated(func() { err = f() })
	t.Logf("%d bytes: %d MiB allocated: %v", st.Size(), used>>20, err)
	if err == nil || !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), field) {
		t.Errorf("error %v, want a malformed image's that says %q", err, field)
	}
	if used > 256<<20 {
		t.Errorf("%d MiB allocated for a file of %d KiB", used>>20, st.Size()>>10)
	}
}

func opens(path string) func() error {
	return func() error {
		im, err := Open(path, Options{})
		if err == nil {
			im.Close()
		}
		return err
	}
}

// TestSectionNamesBomb: debug/elf makes a copy of the name for each section.
func TestSectionNamesBomb(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	path := bombFile(t, slices.Repeat([]bombSection{{name: long, typ: elf.SHT_PROGBITS}}, 5000))
	defused(t, path, "names of 5003 sections", opens(path))
	defused(t, path, "names of 5003 sections", func() error {
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = DebugFile(f, Options{})
		return err
	})
}

// TestSectionNames: what is checked before is what debug/elf reads.
func TestSectionNames(t *testing.T) {
	path := bombFile(t, []bombSection{{name: "x", typ: elf.SHT_PROGBITS}, {name: "yy", typ: elf.SHT_PROGBITS}, {name: "x", typ: elf.SHT_PROGBITS}})
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ef, err := elf.NewFile(f)
	if err != nil {
		t.Fatal(err)
	}
	names := 0
	for _, s := range ef.Sections {
		names += len(s.Name)
	}
	const strtab = len("\x00.text\x00.shstrtab\x00x\x00yy\x00")
	in, want := &bound.Input{}, int64(names+2*strtab+len(ef.Sections)*sectionMemory)
	if err := checkSections(f, in); err != nil {
		t.Fatal(err)
	}
	if got := in.Held(); got != want {
		t.Errorf("%d bytes drawn, want %d", got, want)
	}
}

// TestSymbolNamesBomb has symbols that share a name.
func TestSymbolNamesBomb(t *testing.T) {
	const n = 20_000
	strtab := append([]byte{0}, strings.Repeat("_Z1x", 50_000)...)
	symtab := make([]byte, symbolSize)
	for i := range uint64(n) {
		symtab = append(symtab, 1, 0, 0, 0, 0x12, 0, 1, 0)
		symtab = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(symtab, bombBase+i), 1)
	}
	path := bombFile(t, []bombSection{
		{name: ".symtab", typ: elf.SHT_SYMTAB, data: symtab, link: 4}, {name: ".strtab", typ: elf.SHT_STRTAB, data: append(strtab, 0)},
	})
	defused(t, path, ".symtab: symbol", opens(path))
}

// A dwarfBomb is the sections of one compilation unit in DWARF 4: abbreviations beyond those of
// the unit, and what its entries hold.
func dwarfBomb(abbrev, entries, line []byte) []bombSection {
	le := binary.LittleEndian
	unit := append([]byte{4, 0, 0, 0, 0, 0, 8}, 1, 0, 0, 0, 0) // version, abbreviations, pointers; stmt_list
	unit = append(le.AppendUint64(unit, bombBase), "n\x00"...)
	unit = le.AppendUint32(unit, bombCode)
	unit = append(unit, entries...)
	unit = append(unit, 0)
	info := append(le.AppendUint32(nil, uint32(len(unit))), unit...)
	abbrev = append([]byte{1, 0x11, 1, 0x10, 0x17, 0x11, 0x01, 0x03, 0x08, 0x12, 0x06, 0, 0}, append(abbrev, 0)...)
	return []bombSection{plainSection(".debug_abbrev", abbrev), plainSection(".debug_info", info), deflated(".debug_line", line)}
}

// lineTable is a line table of DWARF 4 with directories, files and a program.
func lineTable(dirs, files, program []byte) []byte {
	le := binary.LittleEndian
	head := []byte{1, 1, 1, 1, 4, 13, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0, 0, 1} // of special opcodes from 13 on: 4 line steps from 1
	head = append(append(append(head, dirs...), 0), append(files, 0)...)
	b := append([]byte{4, 0}, le.AppendUint32(nil, uint32(len(head)))...)
	b = append(append(b, head...), 0, 9, 2)
	b = le.AppendUint64(b, bombBase)
	b = append(append(b, program...), 0, 1, 1)
	return append(le.AppendUint32(nil, uint32(len(b))), b...)
}

// linesOf asks for the lines of the code of a file.
func linesOf(path string) func() error {
	return func() error {
		im, err := Open(path, Options{})
		if err != nil {
			return err
		}
		defer im.Close()
		ln, err := im.Lines()
		if err != nil {
			return err
		}
		ln.Frames(bombBase)
		return ln.Err()
	}
}

// TestLineBombs are files of which the line table is much more than they are.
func TestLineBombs(t *testing.T) {
	nothing := bytes.Repeat([]byte{13}, 8<<20) // rows for one address
	rows := bytes.Repeat([]byte{17}, 8<<20)    // one for each byte of code
	long := append(bytes.Repeat([]byte{'d'}, 100_000), 0)
	file := []byte("f\x00\x01\x00\x00")
	define := []byte{0, 6, 3, 'f', 0, 1, 0, 0}
	call := []byte{2, 0x1d, 1, 0x11, 0x01, 0x12, 0x06, 0x03, 0x08, 0, 0} // an inlined call: low_pc, high_pc, name
	nested := binary.LittleEndian.AppendUint64([]byte{2}, bombBase)
	nested = append(binary.LittleEndian.AppendUint32(nested, bombCode), 'f', 0)
	proc := []byte{3, 0x2e, 1, 0x11, 0x01, 0x12, 0x06, 0x03, 0x08, 0, 0}
	outer := append([]byte{3}, nested[1:]...)
	for _, tt := range []struct {
		name, field string // no field: the file is read
		sections    []bombSection
	}{
		{"unpacks to much", "section .debug_line", dwarfBomb(nil, nil, lineTable(nil, nil, bytes.Repeat([]byte{17}, 32<<20)))},
		{"rows", "rows of a line table", dwarfBomb(nil, nil, lineTable(nil, nil, rows))},
		{"rows of one address", "", dwarfBomb(nil, nil, lineTable(nil, nil, nothing))},
		{"files of a long directory", "names of files", dwarfBomb(nil, nil, lineTable(long, bytes.Repeat(file, 50_000), nil))},
		{"files that the program defines", "names of files", dwarfBomb(nil, nil, lineTable(long, nil, bytes.Repeat(define, 50_000)))},
		{"inlined calls", "inlined through", dwarfBomb(append(call, proc...), append(outer, bytes.Repeat(nested, 20_000)...), lineTable(nil, nil, rows[:10]))},
		{"siblings", "", dwarfBomb(append(call, proc...), append(outer, bytes.Repeat(append(nested[:len(nested):len(nested)], 0), 2000)...), lineTable(nil, nil, rows[:10]))},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := bombFile(t, tt.sections)
			if tt.field != "" {
				defused(t, path, tt.field, linesOf(path))
			} else if err := linesOf(path)(); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestAbbrevBomb has units whose tables of abbreviations lie in each other.
func TestAbbrevBomb(t *testing.T) {
	le := binary.LittleEndian
	var abbrev, info []byte
	const n = 5000
	for i := range uint64(n) {
		abbrev = append(binary.AppendUvarint(abbrev, i+1), 0x11, 0, 0, 0)
	}
	abbrev = append(abbrev, 0)
	for i, off := 0, 0; i < n; i++ {
		info = le.AppendUint32(append(le.AppendUint32(info, 8), 4, 0), uint32(off))
		info = append(info, 8, 1)
		off += len(binary.AppendUvarint(nil, uint64(i)+1)) + 4
	}
	path := bombFile(t, []bombSection{plainSection(".debug_abbrev", abbrev), plainSection(".debug_info", info), plainSection(".debug_line", []byte{0})})
	defused(t, path, "tables that lie in each other", linesOf(path))
}
