package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"backfeed/internal/testtool"
)

// buildLines runs a compiler on sources in testdata/lines; the last argument is what it writes.
func buildLines(t testing.TB, command ...string) string {
	t.Helper()
	testtool.Run(t, filepath.Join("testdata", "lines"), command...)
	return command[len(command)-1]
}

// openLines opens the image at path and its lines.
func openLines(t testing.TB, path string) (*Image, *Lines) {
	t.Helper()
	im, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	ln, err := im.Lines()
	if err != nil {
		t.Fatal(err)
	}
	return im, ln
}

// symbolize asks llvm-symbolizer for the frames at addresses.
func symbolize(t testing.TB, path string, addrs []Addr) [][]Frame {
	t.Helper()
	cmd := testtool.Command(t, "llvm-symbolizer-19", "--obj="+path, "--output-style=JSON", "--no-demangle", "--inlines")
	var in bytes.Buffer
	for _, a := range addrs {
		fmt.Fprintf(&in, "%#x\n", a)
	}
	cmd.Stdin = &in
	out, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	var all [][]Frame
	for d := json.NewDecoder(bytes.NewReader(out)); d.More(); {
		var r struct {
			Symbol []struct {
				FileName, FunctionName         string
				Line, StartLine, Discriminator int
			}
		}
		if err := d.Decode(&r); err != nil {
			t.Fatal(err)
		}
		var fs []Frame
		for _, s := range r.Symbol {
			fs = append(fs, Frame{Func: s.FunctionName, File: s.FileName, Line: s.Line, StartLine: s.StartLine, Disc: uint32(s.Discriminator)})
		}
		all = append(all, fs)
	}
	return all
}

// sameFunc reports whether llvm-symbolizer's name of a procedure may stand for
// the DWARF's. It prefers the symbol table's, where compilers mark clones by a
// suffix and constructors by the kind of copy, which GCC's DWARF leaves open.
func sameFunc(symbol, dwarf string) bool {
	symbol, _, _ = strings.Cut(symbol, ".")
	dwarf, _, _ = strings.Cut(dwarf, ".")
	for _, kind := range []string{"C", "D"} {
		for _, copy := range []string{"0", "1", "2"} {
			symbol = strings.ReplaceAll(symbol, kind+copy+"E", kind+"4E")
			dwarf = strings.ReplaceAll(dwarf, kind+copy+"E", kind+"4E")
		}
	}
	return symbol == dwarf
}

// differ describes how got differs from what llvm-symbolizer says, "" if it does not.
func differ(got, want []Frame) string {
	if len(got) == 0 && len(want) == 1 && want[0].StartLine == 0 && (want[0].Line == 0 || want[0].Func == "") {
		return "" // no more than the symbol table's name, or padding between procedures
	}
	if len(got) != len(want) {
		return fmt.Sprintf("%+v, want %+v", got, want)
	}
	for i, g := range got {
		w := want[i]
		if i == len(got)-1 && sameFunc(w.Func, g.Func) {
			w.Func = g.Func
		}
		g.File, w.File = filepath.Clean(g.File), filepath.Clean(w.File)
		if w.Line == 0 {
			w.File = g.File // unknown, or the symbol table's
		}
		g.Name = "" // llvm-symbolizer gives one name
		if g != w {
			return fmt.Sprintf("frame %d: %+v, want %+v", i, g, w)
		}
	}
	return ""
}

// TestFramesAgainstLLVM compares every address of the code of real programs and of drawn ones, every second one of larger ones.
func TestFramesAgainstLLVM(t *testing.T) {
	t.Parallel()
	testtool.Need(t, "llvm-symbolizer-19")
	for _, tt := range []struct {
		name    string
		command string
	}{
		{"clang, for profiles", "clang-19 -O2 -g -fdebug-info-for-profiling words.c"},
		{"clang, DWARF 4", "clang-19 -O2 -gdwarf-4 -fdebug-info-for-profiling words.c"},
		{"clang, lines only", "clang-19 -O2 -gmlt -fdebug-info-for-profiling words.c"},
		{"clang++, DWARF 5", "clang++-19 -O2 -g -fdebug-info-for-profiling -Iinclude shapes.cc"},
		{"clang++, DWARF 4", "clang++-19 -O3 -gdwarf-4 -fdebug-info-for-profiling -Iinclude shapes.cc"},
		{"clang++, lld, sections thrown away", "clang++-19 -O2 -g -ffunction-sections -fuse-ld=lld -Wl,--gc-sections,--icf=all -Iinclude shapes.cc"},
		{"clang++, link-time optimisation", "clang++-19 -O2 -g -flto -fuse-ld=lld -Iinclude shapes.cc"},
		{"gcc, DWARF 5", "gcc -O2 -g words.c"},
		{"gcc, DWARF 4", "gcc -O2 -gdwarf-4 words.c"},
		{"gcc, DWARF 3", "gcc -O2 -gdwarf-3 -gstrict-dwarf words.c"},
		{"gcc, DWARF 2", "gcc -O2 -gdwarf-2 -gstrict-dwarf words.c"},
		{"g++, DWARF 5", "g++ -O2 -g -Iinclude shapes.cc"},
		{"g++, compressed", "g++ -O3 -g -gz=zlib -Iinclude shapes.cc"},
		{"g++, sections thrown away", "g++ -O2 -g -ffunction-sections -Wl,--gc-sections -Iinclude shapes.cc"},
		{"g++, link-time optimisation", "g++ -O2 -g -flto -Iinclude shapes.cc"},
		{"g++ for AArch64", "aarch64-linux-gnu-gcc -O2 -g words.c"},
		{"clang, drawn, DWARF 5", "clang-19 -O2 -gdwarf-5 -fdebug-info-for-profiling drawn.c"},
		{"clang, drawn, DWARF 4", "clang-19 -O2 -gdwarf-4 -fdebug-info-for-profiling drawn.c"},
		{"gcc, drawn, DWARF 5", "gcc -O2 -gdwarf-5 drawn.c"},
		{"gcc, drawn, DWARF 4", "gcc -O2 -gdwarf-4 drawn.c"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			command := strings.Replace(tt.command, "drawn.c", filepath.Join(dir, "drawn.c"), 1)
			if command != tt.command {
				testtool.Write(t, dir, "drawn.c", drawnInlining(rand.New(rand.NewPCG(1, 2)), 60))
			}
			path := buildLines(t, append(strings.Fields(command), "-o", filepath.Join(dir, "prog"))...)
			im, ln := openLines(t, path)
			var addrs []Addr
			size := Addr(0)
			for _, r := range im.regions {
				size += r.hi - r.lo
			}
			const large = 5000
			step := Addr(1)
			if size > large {
				step = 2
			}
			for _, r := range im.regions {
				for a := r.lo; a < r.hi; a += step {
					addrs = append(addrs, a)
				}
			}
			bad, deep := 0, 0
			for i, want := range symbolize(t, path, addrs) {
				got := ln.Frames(addrs[i])
				if d := differ(got, want); d != "" {
					if bad++; bad <= 5 {
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
			t.Logf("%d of %d addresses differ; %d in inlined calls", bad, len(addrs), deep)
			if deep == 0 {
				t.Error("no inlined calls")
			}
		})
	}
}

// drawnInlining is a C program of n functions drawn at random, most of them inlined into each other, at lines and in files that
// do not go by the order of the code.
func drawnInlining(r *rand.Rand, n int) string {
	var b strings.Builder
	at := func() {
		if r.IntN(3) == 0 {
			fmt.Fprintf(&b, "\n#line %d \"%s\"\n", 1+r.IntN(1<<r.IntN(20)), []string{"a.c", "sub/b.h", "/abs/c.h", "d e.c"}[r.IntN(4)])
		}
	}
	b.WriteString("volatile int x;\n")
	for i := range n {
		at()
		if r.IntN(3) > 0 {
			b.WriteString("static inline __attribute__((always_inline)) ")
		} else {
			b.WriteString("__attribute__((noinline)) ")
		}
		fmt.Fprintf(&b, "int f%d(int n) {\n", i)
		for range 1 + r.IntN(4) {
			at()
			switch k := r.IntN(4); {
			case k == 0:
				fmt.Fprintf(&b, "for (int i = 0; i < n; i++) x += i * %d;", r.IntN(100))
			case k == 1:
				fmt.Fprintf(&b, "if (x > %d) n ^= x; else\nx--;", r.IntN(100))
			case i > 0:
				fmt.Fprintf(&b, "n += f%d(x);\n", max(0, i-1-r.IntN(6)))
				at()
				fmt.Fprintf(&b, "x = n;")
			}
			b.WriteString([]string{"\n", " "}[r.IntN(2)])
		}
		b.WriteString("\nreturn n + x;\n}\n")
	}
	fmt.Fprintf(&b, "int main(void) { return f%d(x) + f%d(x); }\n", n-1, n-2)
	return b.String()
}

// TestFramesOfSeed needs no tool: what llvm-symbolizer 19 said of a seed is
// written here, innermost frame first, as function:line.discriminator(first line).
func TestFramesOfSeed(t *testing.T) {
	_, clang := openLines(t, "testdata/lines/clang5.elf")
	_, gcc := openLines(t, "testdata/lines/gcc4.elf")
	for _, tt := range []struct {
		ln   *Lines
		addr Addr
		want string
	}{
		{clang, 0x4000ef, ""}, // before the code
		{clang, 0x4000f0, "_start:14.0(14)"},
		{clang, 0x400130, "loop:0.0(8)"},
		{clang, 0x400140, "both:6.0(6) loop:11.4(8)"},
		{clang, 0x4001b8, "both:6.33(6) loop:11.4(8)"},
		{clang, 0x4001d0, "loop:11.2052(8)"},
		{gcc, 0x4000b0, "loop:11.0(8)"},
		{gcc, 0x4000c4, "twice:5.0(5) both:6.0(6) loop:11.0(8)"},
		{gcc, 0x4000f0, "_start:14.0(14)"},
		{gcc, 0x500000, ""},
	} {
		var got []string
		for _, f := range tt.ln.Frames(tt.addr) {
			got = append(got, fmt.Sprintf("%s:%d.%d(%d)", f.Func, f.Line, f.Disc, f.StartLine))
			if f.File != "/src/tiny.c" {
				t.Errorf("%#x: file %q", tt.addr, f.File)
			}
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%#x: %s, want %s", tt.addr, got, tt.want)
		}
	}
	if got, want := clang.Unit(0x400130), (Unit{Producer: "Debian clang version 19.1.7 (3~deb12u1)", Lang: "c", Name: "tiny.c"}); got != want {
		t.Errorf("unit %+v, want %+v", got, want)
	}
	if got := gcc.Unit(0x4000b0); !strings.HasPrefix(got.Producer, "GNU C17 12.2.0 ") || got.Lang != "c" {
		t.Errorf("unit %+v, want one of GNU C", got)
	}
	if got := gcc.Unit(0x500000); got != (Unit{}) {
		t.Errorf("unit %+v where there is no code", got)
	}
}

// TestSeparateDebugFile: the frames are the same whether the DWARF lies in the
// image or in another file.
func TestSeparateDebugFile(t *testing.T) {
	dir := t.TempDir()
	whole := buildLines(t, "gcc", "-O2", "-g", "words.c", "-o", filepath.Join(dir, "whole"))
	for _, args := range [][]string{
		{"objcopy", "--only-keep-debug", "whole", "stripped.debug"},
		{"objcopy", "--strip-all", "--add-gnu-debuglink=stripped.debug", "whole", "stripped"},
	} {
		testtool.Run(t, dir, args...)
	}
	im, want := openLines(t, whole)
	_, got := openLines(t, filepath.Join(dir, "stripped"))
	n := 0
	for _, r := range im.regions {
		for a := r.lo; a < r.hi; a++ {
			w := want.Frames(a)
			if g := got.Frames(a); !slices.Equal(g, w) {
				t.Fatalf("%#x: %+v, want %+v", a, g, w)
			}
			n += len(w)
		}
	}
	if n == 0 {
		t.Error("no frames")
	}
}

// TestSplitDWARF: what the entries of a unit in a .dwo or a .dwp file say is what they say in the image, and where they are
// missing there are lines and an error.
func TestSplitDWARF(t *testing.T) {
	for _, tt := range []struct{ compiler, version string }{
		{"clang-19", "-gdwarf-5"}, {"clang-19", "-gdwarf-4"}, {"gcc", "-gdwarf-5"}, {"gcc", "-gdwarf-4"},
	} {
		t.Run(tt.compiler+tt.version, func(t *testing.T) {
			testtool.Need(t, "llvm-dwp-19")
			dir := t.TempDir()
			build := func(name string, flags ...string) string {
				t.Helper()
				object := filepath.Join(dir, name+".o")
				buildLines(t, append([]string{tt.compiler, "-O2", "-g", tt.version, "-ffunction-sections", "-c", "words.c", "-o", object}, flags...)...)
				return buildLines(t, tt.compiler, tt.version, object, "-o", filepath.Join(dir, name))
			}
			_, want := openLines(t, build("whole"))
			path := build("split", "-gsplit-dwarf")
			im, got := openLines(t, path)
			sameFrames(t, im, got, want)
			main := im.symbols[im.Lookup("main")].Addr
			if g, w := got.Unit(main), want.Unit(main); g.Lang != w.Lang || g.Name != w.Name || !strings.Contains(g.Producer, w.Producer[:5]) {
				t.Errorf("unit %+v, want %+v", g, w)
			}
			if err := got.Err(); err != nil {
				t.Error(err)
			}
			testtool.Run(t, dir, "llvm-dwp-19", "-e", path, "-o", path+".dwp")
			dwo := filepath.Join(dir, "split.dwo")
			if err := os.Remove(dwo); err != nil {
				t.Fatal(err)
			}
			im, got = openLines(t, path)
			sameFrames(t, im, got, want)
			if err := got.Err(); err != nil {
				t.Error(err)
			}
			if err := os.Remove(path + ".dwp"); err != nil {
				t.Fatal(err)
			}
			im, got = openLines(t, path)
			f := got.Frames(main)
			if err := got.Err(); len(f) == 0 || f[len(f)-1].Line == 0 || !errors.Is(err, ErrNoLines) || !strings.Contains(err.Error(), dwo+", "+path+".dwp") {
				t.Errorf("without its files: frames %+v, error %v", f, err)
			}
		})
	}
}

// sameFrames compares all frames of an image with those of another of the same code.
func sameFrames(t *testing.T, im *Image, got, want *Lines) {
	t.Helper()
	inlined := 0
	for _, r := range im.regions {
		for a := r.lo; a < r.hi; a++ {
			w := want.Frames(a)
			if g := got.Frames(a); !slices.Equal(g, w) {
				t.Fatalf("%#x: %+v, want %+v", a, g, w)
			}
			if len(w) > 1 {
				inlined++
			}
		}
	}
	if inlined == 0 {
		t.Error("no inlined calls")
	}
}

// TestFSDiscriminators: clang marks images that have flow-sensitive ones.
func TestFSDiscriminators(t *testing.T) {
	for _, tt := range []struct {
		flags string
		want  bool
	}{
		{"-fdebug-info-for-profiling", false},
		{"-fdebug-info-for-profiling -mllvm -enable-fs-discriminator=true -mllvm -improved-fs-discriminator=true", true},
	} {
		path := buildLines(t, append(strings.Fields("clang-19 -O2 -g words.c "+tt.flags), "-o", filepath.Join(t.TempDir(), "prog"))...)
		if _, ln := openLines(t, path); ln.FSDiscriminators() != tt.want {
			t.Errorf("%s: %v, want %v", tt.flags, !tt.want, tt.want)
		}
	}
}

// TestPiece: functions share a piece of code if they shared a section.
func TestPiece(t *testing.T) {
	for _, tt := range []struct {
		command  string
		together bool
	}{
		{"gcc -g -O1 -fno-function-sections", true},
		{"gcc -g -O1 -ffunction-sections", false},
		{"clang-19 -g -O1 -fno-function-sections", true},
		{"clang-19 -g1 -gdwarf-4 -O1 -ffunction-sections", false},
	} {
		t.Run(tt.command, func(t *testing.T) {
			dir := t.TempDir()
			testtool.Write(t, dir, "f.c", []byte("int f(int x) { return x + 1; }\nint g(int x) { return x * x; }\nint main(int c, char **v) { return f(c) + g(c); }\n"))
			testtool.Run(t, dir, append(strings.Fields(tt.command), "-o", "p", "f.c")...)
			im, lines := openLines(t, filepath.Join(dir, "p"))
			f, g := im.Symbols()[im.Lookup("f")], im.Symbols()[im.Lookup("g")]
			lo, hi, ok := lines.Piece(f.Addr)
			if !ok || lo != f.Addr || hi < f.Addr+Addr(f.Size) || (g.Addr < hi) != tt.together {
				t.Errorf("f at %#x, g at %#x: f's piece is [%#x, %#x), %v", f.Addr, g.Addr, lo, hi, ok)
			}
			if _, _, ok := lines.Piece(im.Symbols()[im.Lookup("_start")].Addr); ok {
				t.Error("a piece around _start, which has no debug information")
			}
		})
	}
}

// TestNoLines: an image without any is an error of its own.
func TestNoLines(t *testing.T) {
	path := buildLines(t, "gcc", "-O2", "-g0", "-s", "words.c", "-o", filepath.Join(t.TempDir(), "prog"))
	im, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	for range 2 {
		if _, err := im.Lines(); !errors.Is(err, ErrNoLines) {
			t.Errorf("%v, want %v", err, ErrNoLines)
		}
	}
}

// TestLinesAtOnce asks from several goroutines, for the race detector.
func TestLinesAtOnce(t *testing.T) {
	im, err := Open("testdata/lines/clang5.elf", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			ln, err := im.Lines()
			if err != nil || len(ln.Frames(0x400140)) != 2 || ln.Unit(0x400140).Lang != "c" || ln.Err() != nil {
				t.Errorf("%v", err)
			}
		})
	}
	wg.Wait()
}

func TestFlatten(t *testing.T) {
	for _, tt := range []struct {
		in   []interval
		want string // id of each address from 0 on, . for none
	}{
		{nil, "......"},
		{[]interval{{1, 3, 0}}, ".00..."},
		{[]interval{{1, 3, 0}, {3, 5, 0}}, ".0000."},
		{[]interval{{0, 6, 0}, {1, 5, 1}, {2, 3, 2}, {3, 4, 3}}, "012310"},
		{[]interval{{0, 6, 0}, {1, 2, 1}, {3, 4, 1}}, "010100"},
		{[]interval{{2, 4, 1}, {0, 3, 0}}, "0011.."}, // they overlap: the greater one has it
		{[]interval{{2, 4, 0}, {0, 3, 1}}, "1110.."},
		{[]interval{{0, 2, 0}, {4, 6, 0}}, "00..00"},
		{[]interval{{0, 9, 3}, {0, 2, 2}, {0, 4, 1}}, "333333"},
	} {
		pieces := flatten(slices.Clone(tt.in))
		got := ""
		for a := range Addr(6) {
			if id := pieceAt(pieces, a); id < 0 {
				got += "."
			} else {
				got += fmt.Sprint(id)
			}
		}
		if got != tt.want {
			t.Errorf("%v: %s, want %s", tt.in, got, tt.want)
		}
		for i := 1; i < len(pieces); i++ {
			if pieces[i].lo <= pieces[i-1].lo || pieces[i].id == pieces[i-1].id {
				t.Errorf("%v: %v", tt.in, pieces)
			}
		}
	}
}

func TestJoinRows(t *testing.T) {
	for _, tt := range []struct{ name, in, want string }{
		{"one sequence", "1:10 3:11 5:-", "1:10 3:11 5:-"},
		{"the last row of an address counts", "1:10 1:11 1:12 5:-", "1:12 5:-"},
		{"a row that repeats says nothing", "1:10 3:10 5:-", "1:10 5:-"},
		{"line 0 is kept", "1:10 3:0 4:10 5:-", "1:10 3:0 4:10 5:-"},
		{"sequences in any order", "5:20 7:- 1:10 3:-", "1:10 3:- 5:20 7:-"},
		{"one starts where another ends", "3:20 5:- 1:10 3:-", "1:10 3:20 5:-"},
		{"twice the same code", "1:10 5:- 1:20 5:-", "1:10 5:-"},
		{"overlap", "1:10 5:- 3:20 4:21 6:22 8:-", "1:10 5:21 6:22 8:-"},
		{"backwards", "1:10 4:12 3:11 5:-", "1:10 3:11 4:12 5:-"},
		{"behind the end", "1:10 7:11 5:-", "1:10 5:-"},
	} {
		var all [][]lineRow
		var seq []lineRow
		for _, s := range strings.Fields(tt.in) {
			var row lineRow
			if n, _ := fmt.Sscanf(s, "%d:%d", &row.addr, &row.line); n == 2 {
				seq = append(seq, row)
				continue
			}
			row.file = noCode
			all, seq = append(all, append(seq, row)), nil
		}
		var got []string
		for _, row := range joinRows(all) {
			if row.file == noCode {
				got = append(got, fmt.Sprintf("%d:-", row.addr))
			} else {
				got = append(got, fmt.Sprintf("%d:%d", row.addr, row.line))
			}
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// BenchmarkLines reads all units of a C++ program and asks about every address.
func BenchmarkLines(b *testing.B) {
	path := buildLines(b, "clang++-19", "-O2", "-g", "-Iinclude", "shapes.cc", "-o", filepath.Join(b.TempDir(), "prog"))
	known, asked := 0, 0
	for b.Loop() {
		im, err := Open(path, Options{})
		if err != nil {
			b.Fatal(err)
		}
		ln, err := im.Lines()
		if err != nil {
			b.Fatal(err)
		}
		known, asked = 0, 0
		for _, s := range im.Symbols() {
			for a := s.Addr; a < s.Addr+Addr(s.Size); a++ {
				if asked++; ln.Frames(a) != nil {
					known++
				}
			}
		}
		im.Close()
	}
	b.ReportMetric(float64(b.N*asked)/b.Elapsed().Seconds(), "addrs/s")
	b.ReportMetric(100*float64(known)/float64(asked), "%known")
}
