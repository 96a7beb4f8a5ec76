// Package qemu runs programs of other processors in tests, and counts exactly how
// often their instructions ran: on QEMU's user emulation, with the plugin plugin/count.c.
// Tests are skipped in -short, and where something that it needs is missing.
package qemu

import (
	"debug/elf"
	_ "embed" // count.c
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

//go:embed plugin/count.c
var counter string

// sysroot is where Debian's cross compilers have the C library of AArch64.
const sysroot = "/usr/aarch64-linux-gnu"

// emulator is the command that runs programs of a processor.
func emulator(t testing.TB, m elf.Machine) []string {
	t.Helper()
	switch m {
	case elf.EM_AARCH64:
		return []string{"qemu-aarch64", "-L", sysroot}
	case elf.EM_X86_64:
		return []string{"qemu-x86_64"}
	}
	t.Fatalf("no emulator of %v is known here", m)
	return nil
}

// Need skips a test where programs of a processor cannot be run.
func Need(t testing.TB, m elf.Machine) {
	t.Helper()
	testtool.Need(t, emulator(t, m)[0])
}

// NeedCount skips a test where their instructions cannot be counted.
func NeedCount(t testing.TB, m elf.Machine) {
	t.Helper()
	Need(t, m)
	testtool.Need(t, "gcc") // to build plugin/count.c
}

// Run runs a program in dir, which must succeed, and returns what it prints.
func Run(t testing.TB, dir string, program string, args ...string) string {
	t.Helper()
	return start(t, dir, nil, program, args)
}

// Count does as Run, and writes exact counts to a new file, which truth.Read
// and `backfeed verify` read.
func Count(t testing.TB, dir, program string, args ...string) (truth, output string) {
	t.Helper()
	out, err := os.MkdirTemp("", "qemu-count") // not t.TempDir: QEMU's options end at a comma, as tests' names may have
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(out) })
	truth = filepath.Join(out, "truth.json")
	output = start(t, dir, []string{"-plugin", plugin(t, out) + ",out=" + truth}, program, args)
	if _, err := os.Stat(truth); err != nil {
		t.Fatalf("%s was not counted: %v", program, err)
	}
	return truth, output
}

func start(t testing.TB, dir string, flags []string, program string, args []string) string {
	t.Helper()
	path := program
	if !filepath.IsAbs(path) {
		path = filepath.Join(dir, path)
	}
	m := machine(t, path)
	Need(t, m)
	argv := append(append(emulator(t, m), flags...), path)
	cmd := exec.Command(argv[0], append(argv[1:], args...)...)
	var errs strings.Builder
	cmd.Dir, cmd.Stderr = dir, &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s%s", strings.Join(cmd.Args, " "), err, out, errs.String())
	}
	return string(out)
}

// machine returns the processor that a program is for.
func machine(t testing.TB, path string) elf.Machine {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	return f.Machine
}

// plugin builds the plugin in dir.
func plugin(t testing.TB, dir string) string {
	t.Helper()
	NeedCount(t, elf.EM_X86_64)
	source, so := testtool.Write(t, dir, "count.c", counter), filepath.Join(dir, "count.so")
	cmd := exec.Command("gcc", "-O2", "-Wall", "-Werror", "-shared", "-fPIC", "-fvisibility=hidden", "-DAPI="+api(t),
		"-o", so, source)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(cmd.Args, " "), err, out)
	}
	return so
}

// api returns the version of plugins that the installed QEMU takes: those before QEMU 8.2
// know 1 only, and from 9.0 on it must be 2.
func api(t testing.TB) string {
	t.Helper()
	out, err := exec.Command("qemu-x86_64", "--version").Output()
	if err != nil {
		t.Fatalf("qemu-x86_64 --version: %v", err)
	}
	m := regexp.MustCompile(`version (\d+)\.`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("qemu-x86_64 --version prints %q", out)
	}
	if len(m[1]) == 1 && m[1][0] < '9' {
		return "1"
	}
	return "2"
}
