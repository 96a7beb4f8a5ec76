package collect

import (
	"cmp"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"backfeed/internal/testtool"
)

// programs are those that tests run. A library that a program is linked with comes before it, and lies
// beside it.
var programs = testtool.Programs{Dir: "testdata", Flags: []string{"-O2", "-pthread"}, List: []testtool.Program{
	{Name: "busy-a", Command: "go build -ldflags=-X=main.version=a busy.go"},
	{Name: "busy-b", Command: "go build -ldflags=-X=main.version=b busy.go"}, // has another build ID
	{Name: "goroutines", Command: "go build goroutines.go"},
	{Name: "stretch", Command: "cc stretch.c sites.c"},
	{Name: "stretch-fixed", Command: "cc -no-pie stretch.c sites.c"},
	{Name: "libsites.so", Command: "cc -shared -fPIC -Wl,-soname,libsites.so sites.c"},
	{Name: "stretch-linked", Command: "cc stretch.c libsites.so -Wl,-rpath,$ORIGIN"},
	{Name: "unit", Command: "cc unit.c"},
	{Name: "churn", Command: "cc -Wl,--build-id churn.c"},
	{Name: "gap", Command: "cc -Wl,--build-id gap.c"},
	{Name: "rounds", Command: "cc -Wl,--build-id rounds.c"},
	{Name: "phase", Command: "cc -Wl,--build-id phase.c"},
	{Name: "speeds", Command: "cc -no-pie speeds.c"},
	{Name: "vectors", Command: "cc vectors.c"},
	{Name: "traced", Command: "cc -Wl,--build-id traced.c"},
	{Name: "faults", Command: "cc -Wl,--build-id faults.c"},
}}

// disassembled are the programs that tests find instructions in, and goDisassembled the function of one.
var (
	disassembled   = []string{"goroutines", "stretch", "unit"}
	goDisassembled = map[string]string{"goroutines": "main.count"}
)

// program builds one of the programs for this test alone.
func program(t *testing.T, name string) (file string) {
	t.Helper()
	return programs.Build(t, name)
}

// disassembly returns what objdump says of the code of a program.
func disassembly(t *testing.T, file string) string {
	t.Helper()
	return testtool.Listed(t, file, ".dis", cmp.Or(os.Getenv("OBJDUMP"), "objdump"), "-d", "-w", "-j", ".text", file)
}

// goDisassembly returns what Go's objdump says of one function, with its lines.
func goDisassembly(t *testing.T, file, function string) string {
	t.Helper()
	return testtool.Listed(t, file, "."+function+".dis", "go", "tool", "objdump", "-s", "^"+function+"$", file)
}

// TestPrograms builds all the programs, for tests that run where nothing can be built.
func TestPrograms(t *testing.T) {
	programs.Fill(t, func(t *testing.T, name, file string) {
		if slices.Contains(disassembled, name) {
			testtool.Write(t, filepath.Dir(file), name+".dis", disassembly(t, file))
		}
		if f := goDisassembled[name]; f != "" {
			testtool.Write(t, filepath.Dir(file), name+"."+f+".dis", goDisassembly(t, file, f))
		}
	})
}
