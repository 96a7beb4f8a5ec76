package image

import (
	"bufio"
	"debug/elf"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// readelfFile is what readelf prints of a file.
type readelfFile struct {
	segments []elf.ProgHeader
	symbols  map[string][]string // of each table, but for its first entry
	build    string
	program  bool
}

// readelf runs it on files, once.
func readelf(t *testing.T, paths []string) map[string]*readelfFile {
	t.Helper()
	out := testtool.Output(t, "", append([]string{"readelf", "-W", "-s", "-l", "-n"}, paths...)...)
	all := map[string]*readelfFile{}
	f, table := &readelfFile{}, ""
	if len(paths) == 1 {
		all[paths[0]] = f
		f.symbols = map[string][]string{}
	}
	types := map[string]elf.ProgType{"LOAD": elf.PT_LOAD, "NOTE": elf.PT_NOTE}
	scan := bufio.NewScanner(strings.NewReader(out))
	scan.Buffer(nil, 1<<20)
	for scan.Scan() {
		line := scan.Text()
		words := strings.Fields(line)
		switch {
		case strings.HasPrefix(line, "File: "):
			f, table = &readelfFile{symbols: map[string][]string{}}, ""
			all[strings.TrimPrefix(line, "File: ")] = f
		case strings.HasPrefix(line, "Symbol table '"):
			table = strings.Split(line, "'")[1]
		case len(words) == 0:
			table = ""
		case table != "" && words[0] != "Num:" && words[0] != "0:":
			f.symbols[table] = append(f.symbols[table], symbolLine(words, f.program))
		case table == "" && len(words) > 6 && types[words[0]] != 0 && strings.HasPrefix(words[1], "0x"):
			p := elf.ProgHeader{Type: types[words[0]]}
			for i, v := range []*uint64{&p.Off, &p.Vaddr, &p.Paddr, &p.Filesz, &p.Memsz} {
				*v, _ = strconv.ParseUint(words[1+i], 0, 64)
			}
			flags := strings.Join(words[6:len(words)-1], "")
			for c, bit := range map[string]elf.ProgFlag{"R": elf.PF_R, "W": elf.PF_W, "E": elf.PF_X} {
				if strings.Contains(flags, c) {
					p.Flags |= bit
				}
			}
			p.Align, _ = strconv.ParseUint(words[len(words)-1], 0, 64)
			f.segments = append(f.segments, p)
		case strings.Contains(line, "Build ID: ") && f.build == "":
			_, f.build, _ = strings.Cut(line, "Build ID: ")
		case len(words) > 0 && words[0] == "INTERP":
			f.program = true
		}
	}
	return all
}

// symbolLine puts what readelf prints of a symbol as shown does: of dynamic ones, the version
// that is not the default of the name stays, and that of what is not defined here goes. Nor are variables that a program
// has a copy of its own of, for its libraries to use: they have the version that the library defines.
//
//	1: 0000000000001139    32 FUNC    GLOBAL DEFAULT   14 name@VERSION (2)
func symbolLine(w []string, program bool) string {
	size, _ := strconv.ParseUint(w[2], 0, 64)
	rest := w[6:]
	for len(rest) > 0 && strings.HasPrefix(rest[0], "[") { // of AArch64: [VARIANT_PCS]
		rest = rest[1:]
	}
	index, name := rest[0], ""
	if len(rest) > 1 {
		name = rest[1]
	}
	if before, _, ok := strings.Cut(name, "@@"); ok && before != "" {
		name = before
	} else if before, _, ok := strings.Cut(name, "@"); ok && (index == "UND" || program && w[3] == "OBJECT") {
		name = before
	}
	return fmt.Sprintf("%s %d %s %s %s %s", strings.TrimLeft(w[1], "0"), size, w[3], w[4], index, name)
}

// shown puts a symbol as symbolLine does.
func shown(s *tableSymbol) string {
	typ := map[elf.SymType]string{
		elf.STT_NOTYPE: "NOTYPE", elf.STT_OBJECT: "OBJECT", elf.STT_FUNC: "FUNC", elf.STT_SECTION: "SECTION", elf.STT_FILE: "FILE",
		elf.STT_COMMON: "COMMON", elf.STT_TLS: "TLS", elf.STT_GNU_IFUNC: "IFUNC",
	}[elf.ST_TYPE(s.info)]
	bind := map[elf.SymBind]string{elf.STB_LOCAL: "LOCAL", elf.STB_GLOBAL: "GLOBAL", elf.STB_WEAK: "WEAK", 10: "UNIQUE"}[elf.ST_BIND(s.info)]
	index := fmt.Sprint(int(s.index))
	switch s.index {
	case elf.SHN_UNDEF:
		index = "UND"
	case elf.SHN_ABS:
		index = "ABS"
	case elf.SHN_COMMON:
		index = "COM"
	}
	name := unversioned(s)
	if s.index == elf.SHN_UNDEF {
		name, _, _ = strings.Cut(name, "@")
	}
	if typ == "SECTION" && name == "" && s.section != nil {
		name = s.section.Name // readelf says which
	}
	address := ""
	if s.value != 0 {
		address = fmt.Sprintf("%x", uint64(s.value))
	}
	return fmt.Sprintf("%s %d %s %s %s %s", address, s.size, typ, bind, index, name)
}

// TestReadelf: of thousands of symbols drawn at random, and of the programs and libraries of this machine, the symbols,
// segments and build IDs that are read are those that readelf prints.
func TestReadelf(t *testing.T) {
	t.Parallel()
	testtool.Need(t, "readelf", "gcc")
	dir := t.TempDir()
	paths := drawnLibraries(t, dir)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	paths = append(paths, self)
	for _, pattern := range []string{"testdata/elf/*.elf", "testdata/lines/*.elf", "/usr/lib/*-linux-gnu/*.so.*", "/usr/bin/*", "/usr/aarch64-linux-gnu/lib/*.so.*"} {
		found, _ := filepath.Glob(pattern)
		slices.Sort(found)
		n := 0
		for _, path := range found {
			const enough, large = 60, 1 << 20
			if st, err := os.Lstat(path); err != nil || !st.Mode().IsRegular() || st.Size() > large || n == enough {
				continue
			}
			if im, err := Open(path, Options{DebugDirs: []string{}}); err == nil {
				im.Close()
				paths = append(paths, path)
				n++
			}
		}
	}
	symbols, builds := 0, 0
	for path, want := range readelf(t, paths) {
		differ := func(what string, got, want any) { t.Errorf("%s: %s: %v, readelf has %v", path, what, got, want) }
		f, err := os.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		e, err := sample.ReadELF(f)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		if got := e.Build.String(); !e.Build.IsZero() && got != want.build || e.Build.IsZero() && want.build != "" {
			differ("build ID", got, want.build)
		}
		if want.build != "" {
			builds++
		}
		got := slices.DeleteFunc(slices.Clone(e.Segments), func(p elf.ProgHeader) bool { return p.Type != elf.PT_LOAD && p.Type != elf.PT_NOTE })
		if !slices.Equal(got, want.segments) {
			differ("segments", got, want.segments)
		}
		im, err := Open(path, Options{DebugDirs: []string{}})
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		defer im.Close()
		if im.Build != e.Build {
			differ("build ID of the image", im.Build, want.build)
		}
		for _, p := range want.segments {
			if off, ok := im.OffsetOf(Addr(p.Vaddr)); p.Type == elf.PT_LOAD && p.Filesz > 0 && (!ok || uint64(off) != p.Off) {
				differ("offset", off, p)
			}
		}
		for name, typ := range map[string]elf.SectionType{".symtab": elf.SHT_SYMTAB, ".dynsym": elf.SHT_DYNSYM} {
			table, err := im.readTable(im.elf, typ)
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if len(table) != len(want.symbols[name]) {
				differ("number of symbols of "+name, len(table), len(want.symbols[name]))
				continue
			}
			for i := range table {
				if got := shown(&table[i]); got != want.symbols[name][i] {
					differ(fmt.Sprint("symbol ", i+1, " of ", name), got, want.symbols[name][i])
					break
				}
			}
			symbols += len(table)
		}
	}
	if symbols < 5000 || builds < 10 {
		t.Errorf("%d symbols and %d build IDs in %d files: too few to tell", symbols, builds, len(paths))
	}
	t.Logf("%d files, %d symbols, %d build IDs", len(paths), symbols, builds)
}

// drawnLibraries links libraries of symbols drawn at random, with versions and without.
func drawnLibraries(t *testing.T, dir string) (paths []string) {
	t.Helper()
	r := rand.New(rand.NewPCG(3, 4))
	for lib := range 2 {
		var b strings.Builder
		kinds := []string{"@function", "@object", "@notype", "@gnu_indirect_function", "@tls_object"}
		for i := range 1500 {
			name, kind := fmt.Sprint("s", i), kinds[r.IntN(len(kinds))]
			section := []string{`.text,"ax"`, `.text.cold,"ax"`, `.text.x,"ax"`}[r.IntN(3)]
			switch kind {
			case "@object":
				section = `.data,"aw"`
			case "@tls_object":
				section = `.tdata,"awT"`
			}
			bind := []string{".local", ".globl", ".weak"}[r.IntN(3)]
			if kind == "@gnu_indirect_function" {
				bind = ".globl"
			}
			fmt.Fprintf(&b, ".section %s,@progbits\n%s %s\n.type %s,%s\n", section, bind, name, name, kind)
			if bind != ".local" && r.IntN(4) == 0 {
				fmt.Fprintf(&b, ".hidden %s\n", name)
			}
			fmt.Fprintf(&b, "%s: .fill %d,1,0x90\n", name, 1+r.IntN(40))
			if size := r.IntN(3); size > 0 {
				fmt.Fprintf(&b, ".size %s,%d\n", name, r.IntN(1<<(10*size)))
			}
			if lib == 1 && bind == ".globl" && r.IntN(3) == 0 {
				// An old version and a default one of the same code.
				fmt.Fprintf(&b, ".globl old%[1]d\n.set old%[1]d,%[2]s\n.symver old%[1]d,v%[1]d@V1\n.globl new%[1]d\n.set new%[1]d,%[2]s\n.symver new%[1]d,v%[1]d@@V2\n", i, name)
			}
			if r.IntN(20) == 0 {
				fmt.Fprintf(&b, ".globl absolute%[1]d\n.set absolute%[1]d,%[1]d\n.comm common%[1]d,%[2]d,8\n", i, 1+r.IntN(100))
			}
		}
		name := fmt.Sprint("lib", lib, ".so")
		testtool.Write(t, dir, name+".s", b.String())
		testtool.Write(t, dir, "versions", "V1 { };\nV2 { } V1;\n")
		args := []string{"gcc", "-shared", "-nostdlib", "-Wl,-z,notext", "-Wl,--build-id=sha1", "-o", name, name + ".s"}
		if lib == 1 {
			args = append(args, "-Wl,--version-script=versions")
		}
		testtool.Run(t, dir, args...)
		paths = append(paths, filepath.Join(dir, name))
	}
	return paths
}
