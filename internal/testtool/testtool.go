// Package testtool holds what tests of several packages share: the programs of others that they
// run (compilers, linkers, perf, valgrind, a browser that they click and type in), files that they write, golden files, schemas of
// documents, what holds of every page, memory that is allocated, and requests to servers of ours with what
// they answer.
//
// It keeps the promise of `go test -short`: a test that runs such a program, or says with Live
// that it records, is skipped there. Where a program is missing, the test is skipped with the
// Debian package to install.
//
// Only tests may import it, and it knows nothing of our own formats: a recording that tests of
// one package need is made by a helper of that package. Programs of other processors are run by
// testdata/qemu.
package testtool

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

// packages are the Debian packages of the programs that tests run.
var packages = map[string]string{
	"clang-19":           "clang-19",
	"clang++-19":         "clang-19",
	"ld.lld-19":          "lld-19",
	"llvm-bolt-19":       "bolt-19",
	"merge-fdata-19":     "bolt-19",
	"llvm-mc-19":         "llvm-19",
	"llvm-mca-19":        "llvm-19",
	"llvm-nm-19":         "llvm-19",
	"llvm-profdata-19":   "llvm-19",
	"llvm-profgen-19":    "llvm-19",
	"llvm-readobj-19":    "llvm-19",
	"llvm-strip-19":      "llvm-19",
	"llvm-dwarfdump-19":  "llvm-19",
	"llvm-symbolizer-19": "llvm-19",

	"/usr/lib/llvm-19/bin/perf2bolt": "bolt-19",

	"gcc":      "gcc",
	"g++":      "g++",
	"ld.bfd":   "binutils",
	"ld.gold":  "binutils",
	"objcopy":  "binutils",
	"objdump":  "binutils",
	"readelf":  "binutils",
	"strip":    "binutils",
	"perf":     "linux-perf",
	"valgrind": "valgrind",
	"zstd":     "zstd",

	"gcov-dump": "gcc",

	"aarch64-linux-gnu-gcc":     "gcc-aarch64-linux-gnu",
	"aarch64-linux-gnu-g++":     "g++-aarch64-linux-gnu",
	"aarch64-linux-gnu-objdump": "gcc-aarch64-linux-gnu", // which brings the binutils of AArch64
	"aarch64-linux-gnu-strip":   "gcc-aarch64-linux-gnu",
	"qemu-aarch64":              "qemu-user",
	"qemu-x86_64":               "qemu-user",

	"ccache": "ccache",
	"cmake":  "cmake",
	"make":   "make",
	"meson":  "meson",
	"ninja":  "ninja-build",

	"chromium":        "chromium",
	"systemd-analyze": "systemd",
	"zsh":             "zsh",
	"fish":            "fish",
}

// elsewhere says what brings those that .ci/run does not install: they are in no package of Debian 12, are
// too old there, or show no more than another does.
var elsewhere = map[string]string{
	"bash":             "apt-get install bash",
	"bzip2":            "apt-get install bzip2",
	"create_llvm_prof": "it is built from github.com/google/autofdo",
	"curl":             "apt-get install curl",
	"git":              "apt-get install git",
	"gzip":             "apt-get install gzip",
	"man":              "apt-get install man-db",
	"mawk":             "apt-get install mawk",
	"perl":             "apt-get install perl",
	"sha256sum":        "apt-get install coreutils",
	"sort":             "apt-get install coreutils",
	"sqlite3":          "apt-get install sqlite3",
	"true":             "apt-get install coreutils",
	"xz":               "apt-get install xz-utils",
	"go":               "https://go.dev/dl",
	"cargo":            "https://rustup.rs",
	"tsc":              "npm install -g typescript",
	"rustc":            "https://rustup.rs",
}

// Live skips a test in -short: what says what it does that takes time, as in "records a program".
func Live(t testing.TB, what string) {
	t.Helper()
	if testing.Short() {
		t.Skipf("left out of -short: %s", what)
	}
}

// Need skips a test in -short, and where one of the programs that it runs is missing.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	Live(t, "runs "+strings.Join(programs, ", "))
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			t.Skip(missing(p))
		}
	}
}

// missing says what brings a program that is not here.
func missing(program string) string {
	if p := packages[program]; p != "" {
		return fmt.Sprintf("needs %s: apt-get install %s", program, p)
	}
	if from := elsewhere[program]; from != "" {
		return fmt.Sprintf("needs %s: %s", program, from)
	}
	return "needs " + program
}

// Has reports whether a program may be run: it is here, and this is not -short. It is for
// tests that have more to check where it does; others call Need.
func Has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil && !testing.Short()
}

// Path does as Need, and returns where the program is.
func Path(t testing.TB, program string) string {
	t.Helper()
	Need(t, program)
	path, err := exec.LookPath(program)
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// Command is exec.Command for a program that Need looks for.
func Command(t testing.TB, program string, args ...string) *exec.Cmd {
	t.Helper()
	return exec.Command(Path(t, program), args...)
}

// GoBuild is the environment of go build: its compilers and linkers, which end soon, collect no garbage until they have a GiB of it.
// They take a sixth less processor time then. What they write is the same.
var GoBuild = []string{"GOGC=off", "GOMEMLIMIT=1GiB"}

// Run runs a command in dir, which has to succeed, and returns all that it prints. A program
// without a slash in its name is one that Need looks for.
func Run(t testing.TB, dir string, command ...string) string {
	t.Helper()
	return run(t, dir, nil, (*exec.Cmd).CombinedOutput, command)
}

// RunWith does as Run, with variables added to the environment. Unlike those of t.Setenv they are the
// command's alone, so that the test may run in parallel with others.
func RunWith(t testing.TB, dir string, env []string, command ...string) string {
	t.Helper()
	return run(t, dir, env, (*exec.Cmd).CombinedOutput, command)
}

// Output does as Run, and returns what is printed to standard output alone.
func Output(t testing.TB, dir string, command ...string) string {
	t.Helper()
	return run(t, dir, nil, (*exec.Cmd).Output, command)
}

func run(t testing.TB, dir string, env []string, output func(*exec.Cmd) ([]byte, error), command []string) string {
	t.Helper()
	program := command[0]
	if filepath.Base(program) == program {
		program = Path(t, program)
	}
	cmd := exec.Command(program, command[1:]...)
	cmd.Dir = dir
	cmd.Env = cmd.Environ()
	if len(command) > 1 && command[0] == "go" && command[1] == "build" {
		cmd.Env = append(cmd.Env, GoBuild...)
	}
	cmd.Env = append(cmd.Env, env...)
	out, err := output(cmd)
	if exit := (*exec.ExitError)(nil); errors.As(err, &exit) {
		out = append(out, exit.Stderr...)
	}
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(command, " "), err, out)
	}
	return string(out)
}

// Write writes a file into dir, and returns its path.
func Write[Text string | []byte](t testing.TB, dir, name string, text Text) string {
	t.Helper()
	path := filepath.Join(dir, name)
	Put(t, path, text)
	return path
}

// OpenBelow lists what this process has open below a directory.
func OpenBelow(t testing.TB, dir string) (open []string) {
	t.Helper()
	links, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(links) == 0 {
		t.Skip("no /proc/self/fd")
	}
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil && strings.HasPrefix(to, dir) {
			open = append(open, to)
		}
	}
	return open
}

// Put writes a file, and makes its directory if need be.
func Put[Text string | []byte](t testing.TB, path string, text Text) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// Read returns a file.
func Read(t testing.TB, path ...string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(path...))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Symbols returns those of an ELF file.
func Symbols(t testing.TB, path string) []elf.Symbol {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		t.Fatal(err)
	}
	return symbols
}

// Golden compares got with a file, byte by byte; with -update it writes the file first.
func Golden[Text string | []byte](t testing.TB, path string, text Text) {
	t.Helper()
	got := []byte(text)
	if *Update {
		Put(t, path, got)
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Errorf("%v; got:\n%s", err, got)
		return
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: %s", path, difference(got, want))
		if len(got) < 10000 && utf8.Valid(got) {
			t.Logf("got:\n%s", got)
		}
	}
}

// difference says where two texts differ first.
func difference(got, want []byte) string {
	g, w := strings.SplitAfter(string(got), "\n"), strings.SplitAfter(string(want), "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			return fmt.Sprintf("line %d is %q, want %q", i+1, g[i], w[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}
