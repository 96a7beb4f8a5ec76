package main

import (
	"bufio"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/infer/truth"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestFloors holds what each consumer makes of a profile of samples: of a small program's taken
// branches, by callgrind, each takes off so many percent at least. (With these versions, clang, llvm-bolt and Propeller take
// off 75 %, gcc 92 %.) The samples are made of exact counts, one for
// so many executions of an instruction, so that neither chance nor how fast the machine is has a part in it. testdata/consumers
// measures programs that people use; TestGoARM holds Go's compiler.
func TestFloors(t *testing.T) {
	testtool.Need(t, "valgrind", "llvm-objcopy-19")
	if runtime.GOARCH != "amd64" || runtime.GOOS != "linux" {
		t.Skip("the program is built for x86-64, and run")
	}
	clang := strings.Fields("clang-19 -O2 -g -fdebug-info-for-profiling -fuse-ld=lld -fbasic-block-address-map -Wl,-q,--build-id")
	gcc := strings.Fields("gcc -O2 -g -Wl,--build-id")
	for _, tt := range []struct {
		name  string
		tools []string
		build []string
		with  func(f *floor) []string // emits the profile, and returns the command that makes ./after
		least float64                 // percent of the taken branches
	}{
		{"clang", nil, clang, func(f *floor) []string {
			return append(f.build, "-fprofile-sample-use="+f.emit("llvm"), "-o", "after")
		}, 70},
		{"llvm-bolt", []string{"llvm-bolt-19"}, clang, func(f *floor) []string {
			return []string{"llvm-bolt-19", "before", "-data", f.emit("bolt"), "-o", "after", "-reorder-blocks=ext-tsp", "-reorder-functions=cdsort", "-split-functions"}
		}, 70},
		{"Propeller", nil, clang, func(f *floor) []string {
			order := filepath.Join(f.dir, "order")
			return append(f.build, "-fbasic-block-sections=list="+f.emit("propeller", "--ld", order),
				"-Wl,--symbol-ordering-file="+order, "-Wl,--no-warn-symbol-ordering", "-o", "after")
		}, 70},
		{"gcc", nil, gcc, func(f *floor) []string {
			return append(f.build, "-fauto-profile="+f.emit("gcc"), "-fno-tracer", "-o", "after")
		}, 85},
		{"gcc, counters", nil, gcc, func(f *floor) []string {
			use := append(slices.Clone(f.build), "-Werror", "-Wmissing-profile", "-Wcoverage-mismatch", "-fprofile-use="+filepath.Join(f.dir, "profile"), "-o", "after")
			testtool.Run(f.t, f.dir, append(slices.Clone(use), "-ftest-coverage", "-Wno-missing-profile")...)
			f.emit("gcda", "--notes", f.dir)
			return use
		}, 85},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			testtool.Need(t, append(tt.tools, tt.build[0])...)
			if slices.Contains(tt.build, "-fuse-ld=lld") {
				testtool.Need(t, "ld.lld-19")
			}
			f := &floor{t: t, dir: t.TempDir()}
			source := testtool.Write(t, f.dir, "floors.c", floorsProgram)
			f.build = append(slices.Clone(tt.build), source)
			testtool.Run(t, f.dir, append(slices.Clone(f.build), "-o", "before")...)
			said, before := f.count("before")
			f.sample()
			testtool.Run(t, f.dir, tt.with(f)...)
			again, after := f.count("after")
			if again != said {
				t.Errorf("the program prints %q with the profile, %q without", again, said)
			}
			less := 100 * (1 - float64(after)/float64(before))
			t.Logf("%d taken branches, %d with the profile: %.1f %% fewer", before, after, less)
			if less < tt.least {
				t.Errorf("%.1f %% fewer taken branches with the profile, want %g", less, tt.least)
			}
		})
	}
}

// floorsProgram looks through records in which next to all is as it was: what its tests for a difference
// lead to comes first in the source, and compilers expect differences.
const floorsProgram = `
#include <stdio.h>
#include <stdlib.h>
enum { N = 2000 };
typedef struct { unsigned kind, size, owner, mode; } record;
static record records[N];
static unsigned renamed, grown, moved, opened;
__attribute__((noinline)) static void note(unsigned *what, unsigned by) { *what = *what * 31 + by; }
__attribute__((noinline)) static unsigned changes(const record *r, const record *as) {
	unsigned n = 0;
	if (r->kind != as->kind) {
		note(&renamed, r->kind);
		n++;
	}
	if (r->size != as->size) {
		note(&grown, r->size);
		n += 2;
	}
	if (r->owner != as->owner) {
		note(&moved, r->owner);
		n += 3;
	}
	if (r->mode != as->mode) {
		note(&opened, r->mode);
		n += 4;
	}
	return n;
}
int main(int argc, char **argv) {
	static const record usual = {1, 2, 3, 4};
	unsigned x = 7, sum = 0;
	for (int i = 0; i < N; i++) {
		unsigned *field = &records[i].kind;
		records[i] = usual;
		x = x * 1664525 + 1013904223;
		if (x >> 24 < 30)
			field[x >> 16 & 3]++;
	}
	for (int round = 0; round < 100; round++)
		for (int i = 0; i < N; i++)
			sum += changes(&records[i], &usual);
	printf("%u %u %u %u %u\n", sum, renamed, grown, moved, opened);
	return argc > 5 ? atoi(argv[1]) : 0;
}
`

// A floor is the program, in a directory.
type floor struct {
	t     *testing.T
	dir   string
	build []string // the command that builds it
}

// count counts a run of a build, and returns what it printed and its taken branches: of its own code, to which belongs
// what llvm-bolt moved, and a jump to a cold part, both of which callgrind does not understand.
func (f *floor) count(name string) (printed string, taken uint64) {
	f.t.Helper()
	// valgrind 3.19 reads neither images with relocations nor DWARF 5.
	testtool.Run(f.t, f.dir, "llvm-objcopy-19", "-g", name, name+".counted")
	printed = testtool.Output(f.t, f.dir, "valgrind", "-q", "--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--collect-jumps=yes",
		"--compress-strings=no", "--compress-pos=no", "--callgrind-out-file="+name+".callgrind", "./"+name+".counted")
	file, err := os.Open(filepath.Join(f.dir, name+".callgrind"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	whole := regexp.MustCompile(`('\d+)?$|\.(cold|__part).*`)
	var own bool
	var caller, callee string
	for s := bufio.NewScanner(file); s.Scan(); {
		key, value, _ := strings.Cut(s.Text(), "=")
		first, _, _ := strings.Cut(value, " ")
		first, _, _ = strings.Cut(first, "/")
		n, _ := strconv.ParseUint(first, 10, 64)
		switch {
		case key == "ob":
			own = strings.HasSuffix(value, "/"+name+".counted") || value == "???"
		case key == "fn":
			caller = value
		case key == "cfn":
			callee = value
		case own && (key == "jcnd" || key == "jump"):
			taken += n
		case own && key == "calls" && caller != callee && whole.ReplaceAllString(caller, "") == whole.ReplaceAllString(callee, ""):
			taken += n
		}
	}
	if taken == 0 {
		f.t.Fatalf("callgrind counted no branches of %s", name)
	}
	return printed, taken
}

// sample makes a recording of what was counted of ./before.
func (f *floor) sample() {
	f.t.Helper()
	file, err := os.Open(filepath.Join(f.dir, "before.callgrind"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer file.Close()
	exact, err := truth.Read(file)
	if err != nil {
		f.t.Fatal(err)
	}
	counted := exact.Images[filepath.Join(f.dir, "before.counted")]
	if counted == nil {
		f.t.Fatal("there are no counts of the program")
	}
	im := openImage(f.t, filepath.Join(f.dir, "before"))
	counts := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 1000000, Unit: "ns"})
	i := counts.Image(sample.ImageID{Build: im.Build, Path: im.Path})
	for a, n := range counted.Insts {
		if off, ok := im.OffsetOf(a); ok {
			counts.AddSample(i, off, n/400)
		}
	}
	rec := &sample.Recording{}
	rec.Add(counts)
	testtool.Write(f.t, f.dir, "before.bfr", rec.Encode())
}

// emit writes the profile of the samples, and returns its path.
func (f *floor) emit(format string, flags ...string) string {
	f.t.Helper()
	profile := filepath.Join(f.dir, "profile")
	must(f.t, slices.Concat([]string{"emit", format, filepath.Join(f.dir, "before.bfr"), "--image", filepath.Join(f.dir, "before"), "-o", profile}, flags)...)
	return profile
}
