package image

import (
	"bufio"
	"cmp"
	"debug/dwarf"
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// A dumpedTable is a line table as llvm-dwarfdump prints it.
type dumpedTable struct {
	version int
	dirs    map[int]string
	files   map[int]dumpedFile
	seqs    [][]dumpedRow // the last row of each ends it
}

type dumpedFile struct {
	name string
	dir  int
}

type dumpedRow struct {
	addr             Addr
	line, file, disc int
	end              bool
}

// dumpLines runs llvm-dwarfdump on the line tables of a file. They are by their offsets.
func dumpLines(t *testing.T, path string) map[int64]*dumpedTable {
	t.Helper()
	all := map[int64]*dumpedTable{}
	var table *dumpedTable
	var seq []dumpedRow
	file := 0
	lines := bufio.NewScanner(strings.NewReader(testtool.Output(t, "", "llvm-dwarfdump-19", "--debug-line", path)))
	for lines.Scan() {
		// scan reads a line, which has to have all that the format says.
		scan := func(format string, into ...any) {
			t.Helper()
			if _, err := fmt.Sscanf(lines.Text(), format, into...); err != nil {
				t.Fatalf("%q: %v", lines.Text(), err)
			}
		}
		text := strings.TrimSpace(lines.Text())
		var i int
		var s string
		switch word, _, _ := strings.Cut(text, " "); {
		case strings.HasPrefix(word, "debug_line["):
			var at int64
			scan("debug_line[0x%x]", &at)
			table = &dumpedTable{dirs: map[int]string{}, files: map[int]dumpedFile{}}
			all[at] = table
		case word == "version:":
			scan(" version: %d", &table.version)
		case strings.HasPrefix(word, "include_directories["):
			scan("include_directories[%d] = %q", &i, &s)
			table.dirs[i] = s
		case strings.HasPrefix(word, "file_names["):
			scan("file_names[%d]:", &file)
		case word == "name:":
			scan(" name: %q", &s)
			table.files[file] = dumpedFile{name: s}
		case word == "dir_index:":
			scan(" dir_index: %d", &i)
			table.files[file] = dumpedFile{table.files[file].name, i}
		case strings.HasPrefix(word, "0x"):
			var row dumpedRow
			var column, isa, op int
			scan("0x%x %d %d %d %d %d %d", &row.addr, &row.line, &column, &row.file, &isa, &row.disc, &op)
			row.end = slices.Contains(strings.Fields(text)[7:], "end_sequence")
			if seq = append(seq, row); row.end {
				table.seqs, seq = append(table.seqs, seq), nil
			}
		}
	}
	if lines.Err() != nil || len(seq) > 0 {
		t.Fatalf("llvm-dwarfdump: %v; %d rows without an end", lines.Err(), len(seq))
	}
	return all
}

// file is the path of a file of the table, in a unit that was compiled in dir: since version 5, directory 0 is that one.
func (d *dumpedTable) file(i int, dir string) string {
	f, ok := d.files[i]
	if !ok {
		return ""
	}
	name := f.name
	if !path.IsAbs(name) {
		name = path.Join(d.dirs[f.dir], name)
	}
	if !path.IsAbs(name) && (d.version < 5 || f.dir != 0) {
		name = path.Join(dir, name)
	}
	return path.Clean(name)
}

// compareRows compares the rows of a unit with those of llvm-dwarfdump: what holds at each row's address, and at the byte
// before it, where the row before still holds or a sequence has ended. It returns how many addresses it compared.
func compareRows(t *testing.T, im *Image, u *dwarfUnit, c *unitCode, table *dumpedTable) (compared int) {
	t.Helper()
	bad := 0
	differ := func(format string, args ...any) {
		if bad++; bad <= 3 {
			t.Errorf("unit at %#x: %s: %s", u.entry.Offset, u.Name, fmt.Sprintf(format, args...))
		}
	}
	dir, _ := u.entry.Val(dwarf.AttrCompDir).(string)
	var seqs [][]dumpedRow
	there := map[Addr]bool{}
	for _, seq := range table.seqs {
		if !im.executable(seq[0].addr) {
			continue // the linker threw the code away
		}
		for _, row := range seq {
			there[row.addr] = true
		}
		rows := slices.Clone(seq[:len(seq)-1])
		slices.SortStableFunc(rows, func(a, b dumpedRow) int { return cmp.Compare(a.addr, b.addr) })
		seqs = append(seqs, append(rows, seq[len(seq)-1]))
	}
	slices.SortStableFunc(seqs, func(a, b []dumpedRow) int { return cmp.Compare(a[0].addr, b[0].addr) })
	// at returns what the table says of an address: of two sequences that have it, the first.
	at := func(a Addr) (row dumpedRow, ok bool) {
		i, _ := slices.BinarySearchFunc(seqs, a+1, func(s []dumpedRow, a Addr) int { return cmp.Compare(s[0].addr, a) })
		for i--; i >= 0; i-- {
			if seq := seqs[i]; a < seq[len(seq)-1].addr {
				n, _ := slices.BinarySearchFunc(seq, a+1, func(r dumpedRow, a Addr) int { return cmp.Compare(r.addr, a) })
				row, ok = seq[n-1], true
			}
			if i == 0 || a >= seqs[i-1][len(seqs[i-1])-1].addr && (i == 1 || seqs[i-1][0].addr != seqs[i-2][0].addr) {
				break // the code of a table is in pieces that hardly ever overlap: the last two decide
			}
		}
		return row, ok
	}
	for a := range there {
		for _, a := range []Addr{a - 1, a} {
			compared++
			want, known := at(a)
			got, ok := c.row(a)
			if ok != known {
				differ("%#x: has a line: %v, llvm-dwarfdump: %v", a, ok, known)
				continue
			}
			if !known {
				continue
			}
			file := c.file(got.file)
			if file != "" {
				file = path.Clean(file)
			}
			if wantFile := table.file(want.file, dir); int(got.line) != want.line || int(got.disc) != want.disc || file != wantFile {
				differ("%#x: %s:%d.%d, llvm-dwarfdump: %s:%d.%d", a, file, got.line, got.disc, wantFile, want.line, want.disc)
			}
		}
	}
	for _, row := range c.rows {
		if !there[row.addr] {
			differ("a row at %#x, where llvm-dwarfdump has none", row.addr)
		}
	}
	return compared
}

// procedures returns the addresses of those of files by name: one may have several versions.
func procedures(t *testing.T, paths ...string) map[string][]uint64 {
	t.Helper()
	addrs := map[string][]uint64{}
	for _, path := range paths {
		f, err := elf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		all, err1 := f.Symbols()
		dynamic, err2 := f.DynamicSymbols()
		if err1 != nil && err2 != nil {
			t.Fatal(err1, err2)
		}
		for _, s := range append(all, dynamic...) {
			if typ := elf.ST_TYPE(s.Info); typ == elf.STT_FUNC || typ == elf.STT_GNU_IFUNC {
				addrs[s.Name] = append(addrs[s.Name], s.Value)
			}
		}
	}
	return addrs
}

// TestRowsAgainstLLVM compares every row of every line table of real and generated programs with what llvm-dwarfdump prints, and
// the inlined frames at some of their addresses with those of llvm-symbolizer.
func TestRowsAgainstLLVM(t *testing.T) {
	t.Parallel()
	testtool.Need(t, "llvm-dwarfdump-19", "llvm-symbolizer-19")
	// built is a program of testdata/lines, or of what is drawn.
	built := func(command string) func(t *testing.T) string {
		return func(t *testing.T) string {
			dir := t.TempDir()
			testtool.Write(t, dir, "drawn.c", drawnInlining(rand.New(rand.NewPCG(3, 4)), 100))
			command := strings.ReplaceAll(command, "drawn.c", filepath.Join(dir, "drawn.c"))
			return buildLines(t, append(strings.Fields(command), "-o", filepath.Join(dir, "prog"))...)
		}
	}
	// mixed has units whose strings by number are of both widths.
	mixed := func(t *testing.T) string {
		dir := t.TempDir()
		words := filepath.Join(dir, "words.o")
		buildLines(t, "clang-19", "-O2", "-gdwarf-5", "-c", "-Dmain=other_main", "words.c", "-o", words)
		testtool.Write(t, dir, "drawn.c", drawnInlining(rand.New(rand.NewPCG(3, 4)), 20))
		return buildLines(t, "clang-19", "-O2", "-gdwarf-5", "-gdwarf64", filepath.Join(dir, "drawn.c"), words, "-o", filepath.Join(dir, "prog"))
	}
	for _, tt := range []struct {
		name     string
		build    func(t *testing.T) string
		versions []int // of DWARF that there must be
	}{
		{"Go", func(t *testing.T) string { return buildGo(t, "", "CGO_ENABLED=0") }, []int{5}},
		{"Go and C", func(t *testing.T) string {
			testtool.Need(t, "gcc")
			return buildGoFile(t, "both.go", "", "CGO_ENABLED=1")
		}, []int{5}},
		{"rustc, its library of DWARF 4", func(t *testing.T) string {
			out := filepath.Join(t.TempDir(), "shop")
			testtool.Run(t, filepath.Join("..", "..", "feedback", "testdata"), "rustc", "-O", "-g", "-Cdwarf-version=5", "shop.rs", "-o", out)
			return out
		}, []int{4, 5}},
		{"the C library", func(*testing.T) string { return "/lib/x86_64-linux-gnu/libc.so.6" }, []int{5}},
		{"gcc, DWARF 5", built("gcc -O2 -gdwarf-5 drawn.c"), []int{5}},
		{"gcc, DWARF 4", built("gcc -O2 -gdwarf-4 drawn.c"), []int{4}},
		{"gcc, DWARF 3", built("gcc -O2 -gdwarf-3 -gstrict-dwarf drawn.c"), []int{3}},
		{"gcc, DWARF 2", built("gcc -O2 -gdwarf-2 -gstrict-dwarf drawn.c"), []int{3}},
		{"gcc, DWARF 5 of 64 bits", built("gcc -O2 -gdwarf-5 -gdwarf64 drawn.c"), []int{5}},
		{"gcc, DWARF 4 of 64 bits", built("gcc -O2 -gdwarf-4 -gdwarf64 drawn.c"), []int{4}},
		{"g++, link-time optimisation", built("g++ -O2 -g -flto -Iinclude shapes.cc"), []int{5}},
		{"clang, DWARF 5", built("clang-19 -O2 -gdwarf-5 -fdebug-info-for-profiling drawn.c"), []int{5}},
		{"clang, DWARF 4", built("clang-19 -O2 -gdwarf-4 -fdebug-info-for-profiling drawn.c"), []int{4}},
		{"clang, DWARF 5 of 64 bits", built("clang-19 -O2 -gdwarf-5 -gdwarf64 -fdebug-info-for-profiling drawn.c"), []int{5}},
		{"clang, DWARF 4 of 64 bits", built("clang-19 -O2 -gdwarf-4 -gdwarf64 -fdebug-info-for-profiling drawn.c"), []int{4}},
		{"clang, DWARF of 64 bits and of 32", mixed, []int{5}},
		{"clang, split, of 64 bits", built("clang-19 -O2 -gdwarf-5 -gdwarf64 -gsplit-dwarf -ffunction-sections drawn.c"), []int{5}},
		{"clang++, sections thrown away and folded", built("clang++-19 -O2 -g -ffunction-sections -fuse-ld=lld -Wl,--gc-sections,--icf=all -Iinclude shapes.cc"), []int{5}},
		{"clang, split", built("clang-19 -O2 -g -gsplit-dwarf -ffunction-sections drawn.c"), []int{5}},
		{"AArch64", built("aarch64-linux-gnu-gcc -O2 -g drawn.c"), []int{5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			file := tt.build(t)
			im, ln := openLines(t, file)
			tab := ln.dwarf()
			if tab == nil {
				t.Skipf("needs the debug information of %s: %v", file, ln.err)
			}
			from := file
			if im.debug != nil {
				from = im.debugFile.Name()
			}
			tables := dumpLines(t, from)
			versions := map[int]int{}
			compared, rows := 0, 0
			var addrs []Addr
			for _, u := range tab.units {
				c := tab.lockedCodeOf(u)
				rows += len(c.rows)
				off, ok := u.entry.Val(dwarf.AttrStmtList).(int64)
				table := tables[off]
				switch {
				case !ok && len(c.rows) > 0:
					t.Errorf("unit at %#x: %d rows, and no line table", u.entry.Offset, len(c.rows))
				case ok && table == nil:
					t.Errorf("unit at %#x: llvm-dwarfdump has no line table at %#x", u.entry.Offset, off)
				case ok:
					versions[table.version]++
					compared += compareRows(t, im, u, c, table)
				}
				for _, row := range c.rows {
					addrs = append(addrs, row.addr)
				}
			}
			for _, v := range tt.versions {
				if versions[v] == 0 {
					t.Errorf("no line table of version %d", v)
				}
			}
			r := rand.New(rand.NewPCG(5, 6))
			r.Shuffle(len(addrs), func(i, j int) { addrs[i], addrs[j] = addrs[j], addrs[i] })
			addrs = addrs[:min(len(addrs), 4000)]
			names := procedures(t, from, file)
			bad, deep := 0, 0
			for i, want := range symbolize(t, file, addrs) {
				got := tab.frames(addrs[i])
				// Of the names of one address, any may be the procedure's.
				if n := len(want); n > 0 && n == len(got) && slices.ContainsFunc(names[want[n-1].Func], func(a uint64) bool { return slices.Contains(names[got[n-1].Func], a) }) {
					want[n-1].Func = got[n-1].Func
				}
				if d := differ(got, want); d != "" {
					if bad++; bad <= 3 {
						t.Errorf("%#x: %s", addrs[i], d)
					}
				}
				if len(got) > 1 {
					deep++
				}
			}
			if err := ln.Err(); err != nil {
				t.Error(err)
			}
			t.Logf("%d tables by version: %v; %d rows, %d addresses compared; %d frames, of which %d in inlined calls, %d differ",
				len(tables), versions, rows, compared, len(addrs), deep, bad)
			if compared == 0 || len(addrs) == 0 {
				t.Error("nothing to compare")
			}
		})
	}
}
