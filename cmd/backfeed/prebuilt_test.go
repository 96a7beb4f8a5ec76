package main

import (
	"cmp"
	"debug/elf"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/testdata/qemu"
)

// A testProgram is one that tests on a live machine run: what builds it in this directory, to which -o is
// added.
type testProgram struct {
	name    string
	command string
	only    string // processor, by GOARCH; "" is any
}

var programs = []testProgram{
	{"backfeed", "go build .", ""},
	{"busy", "go build ../../sample/collect/testdata/busy.go", ""},
	{"callers", "go build -buildmode=exe ../../testdata/callers", ""},
	{"mix", "cc -O2 -Wl,--build-id ../../testdata/mix/mix.c", "arm64"},
	{"branches", "cc -O1 -g -no-pie -Wl,--build-id testdata/branches.c", ""},
	{"walkops", "cc -O1 -pie -fPIE -mno-red-zone -Wl,--build-id testdata/walkops.c", "amd64"},
	{"walkops", "cc -O1 -pie -fPIE -Wl,--build-id testdata/walkops.c", "arm64"},
}

// Where there is no compiler, as in the guests of testdata/kernels, the programs come from a directory.
// TestPrograms fills it, by the tools that the environment names: CC and GOARCH.
var (
	prebuilt = os.Getenv("BACKFEED_TEST_PROGRAMS")
	fill     = os.Getenv("BACKFEED_BUILD_PROGRAMS")
)

// targetArch is the processor that programs are for.
func targetArch() string { return cmp.Or(os.Getenv("GOARCH"), runtime.GOARCH) }

// runs reports whether there is such a program for it.
func (p *testProgram) runs() bool { return p.only == "" || p.only == targetArch() }

// mixTruth is the file of the exact counts of one round of program mix, beside it.
const mixTruth = "mix.truth.json"

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
	var args []string
	for _, p := range programs {
		if p.name == name && p.runs() {
			args = strings.Fields(p.command)
		}
	}
	rest := append([]string{"-o", file}, args[1:]...)
	if args[0] == "cc" {
		args[0] = cmp.Or(os.Getenv("CC"), "gcc")
	} else {
		rest = append([]string{"build", "-o", file}, args[2:]...)
	}
	testtool.Run(t, ".", append([]string{args[0]}, rest...)...)
	return file
}

// TestPrograms builds all the programs, for tests that run where nothing can be built.
func TestPrograms(t *testing.T) {
	if fill == "" {
		t.Skip("builds the programs of the other tests into the directory $BACKFEED_BUILD_PROGRAMS, if that is set")
	}
	for _, p := range programs {
		t.Run(p.name, func(t *testing.T) {
			if !p.runs() {
				t.Skip("not for " + targetArch())
			}
			file := programIn(t, fill, p.name)
			if p.name != "mix" {
				return
			}
			qemu.NeedCount(t, elf.EM_AARCH64)
			truth, _ := qemu.Count(t, fill, file, "1")
			b, err := os.ReadFile(truth)
			if err == nil {
				err = os.WriteFile(filepath.Join(fill, mixTruth), b, 0o644)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
}
