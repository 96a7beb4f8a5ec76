package collect

import (
	"cmp"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// programs are those that tests run: what builds each in testdata, to which -o is added. A library that
// a program is linked with comes before it, and lies beside it.
var programs = []struct {
	name    string
	command string
	only    string // processor, by GOARCH; "" is any
}{
	{"busy-a", "go build -ldflags=-X=main.version=a busy.go", ""},
	{"busy-b", "go build -ldflags=-X=main.version=b busy.go", ""}, // has another build ID
	{"goroutines", "go build goroutines.go", ""},
	{"stretch", "cc stretch.c sites.c", ""},
	{"stretch-fixed", "cc -no-pie stretch.c sites.c", ""},
	{"libsites.so", "cc -shared -fPIC -Wl,-soname,libsites.so sites.c", ""},
	{"stretch-linked", "cc stretch.c libsites.so -Wl,-rpath,$ORIGIN", ""},
	{"unit", "cc unit.c", ""},
	{"churn", "cc -Wl,--build-id churn.c", ""},
	{"gap", "cc -Wl,--build-id gap.c", ""},
	{"rounds", "cc -Wl,--build-id rounds.c", ""},
	{"phase", "cc -Wl,--build-id phase.c", ""},
	{"traced", "cc -Wl,--build-id traced.c", ""},
}

// disassembled are the programs that tests find instructions in, and goDisassembled the function of one.
var (
	disassembled   = []string{"goroutines", "stretch", "unit"}
	goDisassembled = map[string]string{"goroutines": "main.count"}
)

// Where there is no compiler, as in the guests of testdata/kernels, the programs come from a directory,
// with a disassembly of each. TestPrograms fills it, by the tools that the environment names: CC, OBJDUMP
// and GOARCH.
var (
	prebuilt = os.Getenv("BACKFEED_TEST_PROGRAMS")
	fill     = os.Getenv("BACKFEED_BUILD_PROGRAMS")
)

// program builds one of the programs for this test alone, or copies it.
func program(t *testing.T, name string) (file string) {
	t.Helper()
	return programIn(t, t.TempDir(), name)
}

func programIn(t *testing.T, dir, name string) (file string) {
	t.Helper()
	file = filepath.Join(dir, name)
	if prebuilt != "" {
		b, err := os.ReadFile(filepath.Join(prebuilt, name))
		if err != nil {
			t.Skip(err)
		}
		if err := os.WriteFile(file, b, 0o755); err != nil {
			t.Fatal(err)
		}
		return file
	}
	command := ""
	for _, p := range programs {
		if p.name == name {
			command = p.command
		}
	}
	args := strings.Fields(strings.ReplaceAll(command, " libsites.so", " "+filepath.Join(dir, "libsites.so")))
	rest := args[1:]
	if args[0] == "cc" {
		args[0] = cmp.Or(os.Getenv("CC"), "gcc")
		rest = append([]string{"-O2", "-pthread", "-o", file}, rest...)
	} else {
		rest = append([]string{"build", "-o", file}, rest[1:]...)
	}
	testtool.Run(t, "testdata", append([]string{args[0]}, rest...)...)
	return file
}

// disassembly returns what objdump says of the code of a program.
func disassembly(t *testing.T, file string) string {
	t.Helper()
	return listed(t, file, ".dis", cmp.Or(os.Getenv("OBJDUMP"), "objdump"), "-d", "-w", "-j", ".text", file)
}

// goDisassembly returns what Go's objdump says of one function, with its lines.
func goDisassembly(t *testing.T, file, function string) string {
	t.Helper()
	return listed(t, file, "."+function+".dis", "go", "tool", "objdump", "-s", "^"+function+"$", file)
}

func listed(t *testing.T, file, suffix, tool string, args ...string) string {
	t.Helper()
	if prebuilt != "" {
		b, err := os.ReadFile(filepath.Join(prebuilt, filepath.Base(file)+suffix))
		if err != nil {
			t.Skip(err)
		}
		return string(b)
	}
	return testtool.Output(t, ".", append([]string{tool}, args...)...)
}

// TestPrograms builds all the programs, for tests that run where nothing can be built.
func TestPrograms(t *testing.T) {
	if fill == "" {
		t.Skip("builds the programs of the other tests into the directory $BACKFEED_BUILD_PROGRAMS, if that is set")
	}
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			if arch := cmp.Or(os.Getenv("GOARCH"), runtime.GOARCH); p.only != "" && p.only != arch {
				t.Skip("not for " + arch)
			}
			file := programIn(t, fill, p.name)
			if slices.Contains(disassembled, p.name) {
				if err := os.WriteFile(file+".dis", []byte(disassembly(t, file)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			if f := goDisassembled[p.name]; f != "" {
				if err := os.WriteFile(file+"."+f+".dis", []byte(goDisassembly(t, file, f)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
