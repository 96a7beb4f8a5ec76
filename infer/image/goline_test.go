package image

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// buildGo builds testdata/lines/gopher.go.
func buildGo(t testing.TB, flags string, env ...string) string {
	t.Helper()
	return buildGoFile(t, "gopher.go", flags, env...)
}

func buildGoFile(t testing.TB, file, flags string, env ...string) string {
	t.Helper()
	out := filepath.Join(t.TempDir(), strings.TrimSuffix(file, ".go"))
	args := append([]string{"build", "-o", out}, strings.Fields(flags)...)
	cmd := testtool.Command(t, "go", append(args, file)...)
	cmd.Dir = filepath.Join("testdata", "lines")
	cmd.Env = append(append(os.Environ(), "GOOS=linux"), env...)
	if msg, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build %s: %v\n%s", flags, err, msg)
	}
	return out
}

// TestTracebackAgainstPprof holds Traceback to what a program says of itself:
// at each location of a CPU profile, the functions, their first lines and the
// lines in them that runtime/pprof wrote.
func TestTracebackAgainstPprof(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs linux")
	}
	for _, flags := range []string{"-buildmode=exe", "-ldflags=-s", "-buildmode=pie", "-buildmode=pie -ldflags=-s", "-trimpath -gcflags=-l"} {
		t.Run(flags, func(t *testing.T) {
			path := buildGo(t, flags)
			prof := filepath.Join(t.TempDir(), "cpu.pprof")
			if out, err := exec.Command(path, prof).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			im, ln := openLines(t, path)
			comparePprof(t, im, ln, readProfile(t, prof))
		})
	}
}

func readProfile(t *testing.T, path string) *profile.Profile {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p, err := profile.Parse(f)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func comparePprof(t *testing.T, im *Image, ln *Lines, p *profile.Profile) {
	n, bad, inlined := 0, 0, 0
	for _, loc := range p.Location {
		if loc.Mapping == nil || !strings.HasSuffix(loc.Mapping.File, "gopher") {
			continue // the vdso
		}
		var want []Frame
		for _, l := range loc.Line {
			want = append(want, Frame{Func: l.Function.SystemName, File: l.Function.Filename, Line: int(l.Line), StartLine: int(l.Function.StartLine)})
		}
		a, _ := im.AddrOf(sample.Offset(loc.Address - loc.Mapping.Start + loc.Mapping.Offset))
		got := ln.Traceback(a)
		ok := len(got) == len(want)
		for i := range min(len(got), len(want)) {
			g := got[i]
			// A function is written once, with the file of where it was seen first.
			g.File = want[i].File
			ok = ok && g == want[i]
		}
		if n++; !ok {
			bad++
			t.Errorf("%#x: %+v, want %+v", a, got, want)
		}
		if len(want) > 1 {
			inlined++
		}
	}
	t.Logf("%d locations, %d in inlined calls, %d differ", n, inlined, bad)
	if n == 0 {
		t.Error("no locations")
	}
}

// TestGoFramesAgainstDWARF compares the two sources that a Go program has, at
// each byte of code. They agree but for what the DWARF leaves out: the first line of
// assembly and of functions that the compiler made up, and the lines of the latter.
func TestGoFramesAgainstDWARF(t *testing.T) {
	for _, tt := range []struct{ arch, flags string }{{"amd64", ""}, {"arm64", "-trimpath"}} { // as .ci/run has compiled the library for AArch64
		t.Run(tt.arch, func(t *testing.T) {
			im, ln := openLines(t, buildGo(t, tt.flags, "GOARCH="+tt.arch, "CGO_ENABLED=0"))
			if ln.goTab == nil {
				t.Fatal(ln.Err())
			}
			n, bad, inlined := 0, 0, 0
			for _, s := range im.Symbols() {
				for a := s.Addr; a < s.Addr+Addr(s.Size); a++ {
					want := ln.dwarf().frames(a)
					if len(want) == 0 {
						continue
					}
					got := ln.Frames(a)
					ok := len(got) == len(want)
					for i := range min(len(got), len(want)) {
						g, w := got[i], want[i]
						g.File, w.File = strings.TrimPrefix(g.File, "./"), strings.TrimPrefix(w.File, "./") // by -trimpath, units were compiled in "."
						ok = ok && sameGo(g, w)
					}
					if n++; !ok {
						if bad++; bad <= 5 {
							t.Errorf("%#x: %+v, DWARF has %+v", a, got, want)
						}
					}
					if len(got) > 1 {
						inlined++
					}
				}
			}
			t.Logf("%d bytes of code, %d in inlined calls, %d differ", n, inlined, bad)
			if inlined == 0 {
				t.Error("no inlined calls")
			}
		})
	}
}

func sameGo(f, dwarf Frame) bool {
	dwarf.Name = "" // pclntab gives one name
	if dwarf.StartLine == 0 {
		dwarf.StartLine = f.StartLine
	}
	if dwarf.Line == 0 {
		dwarf.File, dwarf.Line = f.File, f.Line
	}
	return f == dwarf
}

// TestCgo: pclntab answers for the Go code of a program, DWARF for its C code.
func TestCgo(t *testing.T) {
	testtool.Need(t, "gcc")
	for _, flags := range []string{"", "-buildmode=pie", "-buildmode=c-shared"} {
		im, ln := openLines(t, buildGoFile(t, "both.go", flags, "CGO_ENABLED=1", "CGO_CFLAGS=-O2 -g", "CC=gcc"))
		for _, tt := range []struct {
			symbol, lang, file string
			start              int
		}{
			{"main.main", "go", "both.go", 11},
			{"loop", "c", "both.go", 6},
		} {
			i := im.Lookup(tt.symbol)
			if i < 0 {
				t.Fatalf("%s: no symbol %s", flags, tt.symbol)
			}
			a := im.symbols[i].Addr
			fs := ln.Frames(a)
			if len(fs) == 0 {
				t.Errorf("%s: %s: unknown: %v", flags, tt.symbol, ln.Err())
				continue
			}
			f := fs[len(fs)-1]
			if f.Func != tt.symbol || filepath.Base(f.File) != tt.file || f.StartLine != tt.start || ln.Unit(a).Lang != tt.lang {
				t.Errorf("%s: %s: %+v of %+v, want %+v", flags, tt.symbol, f, ln.Unit(a), tt)
			}
		}
	}
}
