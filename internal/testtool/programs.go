package testtool

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// A Program is one that live tests of a package run. "cc" in its command is gcc, or what $CC names.
type Program struct {
	Name    string
	Command string // builds it, in the directory of Programs; -o is added
	Only    string // processor, by GOARCH; "" is any
	Here    bool   // only where it can be built: tests that run elsewhere do without
}

// Programs are those of a package. Where there is no compiler, as in the guests of testdata/kernels, they
// come from the directory $BACKFEED_TEST_PROGRAMS, with what was found out of them beside them; a test
// that calls Fill puts them there first, by the tools that $CC, $OBJDUMP and $GOARCH name.
//
// A program is built for the first test that asks for it; others have copies of that file.
type Programs struct {
	Dir   string   // where commands run
	Flags []string // of the C compiler
	List  []Program

	mu    sync.Mutex
	built map[string][]byte // by name
}

// Prebuilt returns the directory with programs; "" where tests build them.
func Prebuilt() string { return os.Getenv("BACKFEED_TEST_PROGRAMS") }

// Arch is the processor that programs are for, as GOARCH has it.
func Arch() string { return cmp.Or(os.Getenv("GOARCH"), runtime.GOARCH) }

// Build makes a file of a program that is this test's alone.
func (p *Programs) Build(t testing.TB, name string) (file string) {
	t.Helper()
	return p.In(t, t.TempDir(), name)
}

// In does as Build, in dir. A library that the program is linked with is there already.
func (p *Programs) In(t testing.TB, dir, name string) (file string) {
	t.Helper()
	if Prebuilt() != "" {
		Live(t, "runs "+name)
		return executable(t, dir, name, beside(t, name))
	}
	i := slices.IndexFunc(p.List, func(q Program) bool { return q.Name == name && (q.Only == "" || q.Only == Arch()) })
	if i < 0 {
		t.Fatalf("no program %s for %s", name, Arch())
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, name)
	words, linked := strings.Fields(p.List[i].Command), false
	for i, w := range words {
		if strings.HasSuffix(w, ".so") && w[0] != '-' { // built before
			words[i], linked = filepath.Join(dir, w), true
		}
	}
	p.mu.Lock() // so that who asks at the same time waits
	defer p.mu.Unlock()
	if b := p.built[name]; b != nil {
		return executable(t, dir, name, b)
	}
	if words[0] == "cc" {
		words = slices.Concat([]string{cmp.Or(os.Getenv("CC"), "gcc")}, p.Flags, words[1:], []string{"-o", file})
	} else { // go build, whose flags come first
		words = slices.Insert(words, 2, "-o", file)
	}
	Run(t, p.Dir, words...)
	if linked { // with the library of this directory
		return file
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if p.built == nil {
		p.built = map[string][]byte{}
	}
	p.built[name] = b
	return file
}

// executable writes a program into dir. No process starts meanwhile: it would have the file open to write until it is another
// program, and Linux runs no file that is.
func executable(t testing.TB, dir, name string, b []byte) (file string) {
	t.Helper()
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	file = Write(t, dir, name, b)
	if err := os.Chmod(file, 0o755); err != nil {
		t.Fatal(err)
	}
	return file
}

// beside returns a file of the directory with programs.
func beside(t testing.TB, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(Prebuilt(), name))
	if err != nil {
		t.Skip(err)
	}
	return b
}

// Listed returns what a command prints of a program that Build made, or what Fill had it print.
func Listed(t testing.TB, file, suffix string, command ...string) string {
	t.Helper()
	if Prebuilt() != "" {
		return string(beside(t, filepath.Base(file)+suffix))
	}
	return Output(t, ".", command...)
}

// Fill builds all programs into the directory $BACKFEED_BUILD_PROGRAMS, if that is set, and calls with for
// each, which may put more there.
func (p *Programs) Fill(t *testing.T, with func(t *testing.T, name, file string)) {
	dir := os.Getenv("BACKFEED_BUILD_PROGRAMS")
	if dir == "" {
		t.Skip("builds the programs of the other tests into the directory $BACKFEED_BUILD_PROGRAMS, if that is set")
	}
	for _, q := range p.List {
		t.Run(q.Name, func(t *testing.T) {
			if q.Only != "" && q.Only != Arch() {
				t.Skip("not for " + Arch())
			}
			if q.Here {
				t.Skip("no test asks for it elsewhere")
			}
			with(t, q.Name, p.In(t, dir, q.Name))
		})
	}
}
