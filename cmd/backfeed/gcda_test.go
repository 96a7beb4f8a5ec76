package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestGCDA: gcc finds what emit gcda writes, however its command spells the names of objects, takes it without a
// warning, and the program does as before. An object of which nothing was sampled has no file.
func TestGCDA(t *testing.T) {
	testtool.Need(t, "gcc")
	if runtime.GOARCH != "amd64" || runtime.GOOS != "linux" {
		t.Skip("the program is built for x86-64, and run")
	}
	dir := t.TempDir()
	const source = `
static int __attribute__((noinline)) %[1]s_step(unsigned x) { return x %% 7 == 3 ? x * 2 : x ^ 5; }
unsigned %[1]s(unsigned n) { unsigned s = 0; for (unsigned i = 0; i < n; i++) s += %[1]s_step(i + s); return s; }
`
	testtool.Write(t, dir, "main.c", `
#include <stdio.h>
unsigned from(unsigned), here(unsigned), whole(unsigned), never(unsigned);
int main(int argc, char **argv) {
	printf("%u %u %u\n", from(1000), here(2000), whole(3000));
	return argc > 1 ? never(4) : 0;
}
`)
	objects := map[string]string{"from": "o/from.o", "here": "./o/here.o", "whole": filepath.Join(dir, "o/whole.o"), "never": "never.o"}
	for name := range objects {
		testtool.Write(t, dir, name+".c", fmt.Sprintf(source, name))
	}
	if err := os.Mkdir(filepath.Join(dir, "o"), 0o777); err != nil {
		t.Fatal(err)
	}
	build := func(program string, flags ...string) {
		t.Helper()
		link := []string{"gcc", "-Wl,--build-id", "-o", program, "main.o"}
		testtool.Run(t, dir, append([]string{"gcc", "-O2", "-g", "-c", "main.c", "-o", "main.o"}, flags...)...)
		for _, name := range []string{"from", "here", "whole", "never"} {
			command := append([]string{"gcc", "-O2", "-g", "-c", name + ".c", "-o", objects[name]}, flags...)
			if name == "never" {
				command = append(command, "-Wno-missing-profile")
			}
			if said := testtool.Run(t, dir, command...); said != "" {
				t.Errorf("%s:\n%s", strings.Join(command, " "), said)
			}
			link = append(link, objects[name])
		}
		testtool.Run(t, dir, link...)
	}
	build("before")
	said := testtool.Output(t, dir, "./before")

	im := openImage(t, filepath.Join(dir, "before"))
	samples := testtool.Write(t, dir, "before.bfr", sampled(t, im, func(proc string) bool {
		name, _, _ := strings.Cut(proc, "_step")
		return objects[name] != "" && name != "never"
	}))

	prof := filepath.Join(dir, "prof")
	build("notes", "-fprofile-use="+prof, "-Wno-missing-profile", "-ftest-coverage")
	must(t, "emit", "gcda", samples, "--notes", dir, "-o", prof)
	build("after", "-fprofile-use="+prof, "-Wmissing-profile", "-Wcoverage-mismatch")
	if got := testtool.Output(t, dir, "./after"); got != said {
		t.Errorf("the program prints %q with the profile, %q without", got, said)
	}
	if files, _ := filepath.Glob(prof + "/*never*"); len(files) > 0 {
		t.Errorf("%s: of an object that was not sampled", files)
	}

	// Notes of another program match nothing.
	other := filepath.Join(dir, "other")
	testtool.Put(t, filepath.Join(other, "x.c"), "int elsewhere(int x) { return x ? x + 1 : 7; }")
	testtool.Run(t, other, "gcc", "-O2", "-c", "x.c", "-fprofile-use=none", "-Wno-missing-profile", "-ftest-coverage")
	none := filepath.Join(dir, "none")
	code, _, errs := runCLI(t, "emit", "gcda", samples, "--notes", other, "-o", none)
	if code != exitNothing || !strings.Contains(errs, "notes have to be of the recorded program's source") || !strings.Contains(errs, "gcda: "+im.Path) {
		t.Errorf("notes of another program: exit code %d: %s", code, errs)
	}
	if _, err := os.Lstat(none); err == nil {
		t.Error("nothing was to be written, and the directory was made")
	}
}

// sampled is a recording with samples of each instruction of the procedures of an image that are asked for.
func sampled(t *testing.T, im *image.Image, want func(proc string) bool) []byte {
	t.Helper()
	counts := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 1000000, Unit: "ns"})
	i := counts.Image(sample.ImageID{Build: im.Build, Path: im.Path})
	for j, s := range im.Symbols() {
		if !want(s.Name) {
			continue
		}
		p, err := im.Proc(j)
		if err != nil {
			t.Fatal(err)
		}
		for b := range p.Blocks {
			for _, in := range im.Insts(&p.Blocks[b]) {
				if off, ok := im.OffsetOf(in.Addr); ok {
					counts.AddSample(i, off, 100)
				}
			}
		}
	}
	rec := &sample.Recording{}
	rec.Add(counts)
	return rec.Encode()
}

// TestGCCVersion: a profile is for the gcc that built what was recorded, and one for another says so.
func TestGCCVersion(t *testing.T) {
	dir := t.TempDir()
	testtool.Write(t, dir, "app.c", `
static int __attribute__((noinline)) step(unsigned x) { return x % 7 == 3 ? x * 2 : x ^ 5; }
int main(void) { unsigned s = 0; for (unsigned i = 0; i < 1000; i++) s += step(i + s); return s == 1; }
`)
	testtool.Run(t, dir, "gcc", "-O2", "-g", "-Wl,--build-id", "-o", "app", "app.c")
	im := openImage(t, filepath.Join(dir, "app"))
	samples := testtool.Write(t, dir, "app.bfr", sampled(t, im, func(proc string) bool { return proc == "step" || proc == "main" }))
	installed, _, _ := strings.Cut(strings.TrimSpace(testtool.Run(t, dir, "gcc", "-dumpversion")), ".")
	other := "14"
	if installed == other {
		other = "15"
	}
	emit := func(flags ...string) string {
		code, _, errs := runCLI(t, append([]string{"emit", "gcc", samples, "-o", filepath.Join(dir, "app.afdo")}, flags...)...)
		if code != 0 {
			t.Errorf("%q: exit code %d: %s", flags, code, errs)
		}
		return errs
	}
	if said := emit(); !strings.Contains(said, "for gcc "+installed) || strings.Contains(said, " built ") {
		t.Errorf("for the gcc that built the program: %s", said)
	}
	want := "gcc " + installed + " built 100.0% of what ran of " + im.Path + ", and the profile is for gcc " + other
	if said := emit("--gcc-version", other); strings.Count(said, want) != 1 || !strings.Contains(said, "record what gcc "+other+" has built") {
		t.Errorf("for another gcc: %s, want %q once", said, want)
	}
}
