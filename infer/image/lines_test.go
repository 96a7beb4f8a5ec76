package image

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// tool gives the path of a program that a test needs; without it, the test skips.
func tool(t testing.TB, name string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("needs %s", name)
	}
	return path
}

// build runs a compiler, which is to write its last argument.
func build(t testing.TB, command ...string) string {
	t.Helper()
	cmd := exec.Command(tool(t, command[0]), command[1:]...)
	cmd.Dir = filepath.Join("testdata", "lines")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
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
	cmd := exec.Command(tool(t, "llvm-symbolizer-19"), "--obj="+path, "--output-style=JSON", "--no-demangle", "--inlines")
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

// sameFunc tells whether llvm-symbolizer's name of a procedure may stand for
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
		if g != w {
			return fmt.Sprintf("frame %d: %+v, want %+v", i, g, w)
		}
	}
	return ""
}

// TestFramesAgainstLLVM compares every address of the code of real programs.
func TestFramesAgainstLLVM(t *testing.T) {
	tool(t, "llvm-symbolizer-19")
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			path := build(t, append(strings.Fields(tt.command), "-o", filepath.Join(t.TempDir(), "prog"))...)
			im, ln := openLines(t, path)
			var addrs []Addr
			for _, r := range im.regions {
				for a := r.lo; a < r.hi; a++ {
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
