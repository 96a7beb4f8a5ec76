package infer

import (
	"debug/elf"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/internal/testtool"
	"backfeed/testdata/qemu"
	"backfeed/testdata/sets"
)

// TestQEMU: counts of QEMU's plugin equal callgrind's for the same program of x86-64: it
// sorts, matches, decodes and calls through tables and pointers.
func TestQEMU(t *testing.T) {
	qemu.NeedCount(t, elf.EM_X86_64)
	program, err := filepath.Abs("../testdata/mix/mix")
	if err != nil {
		t.Fatal(err)
	}
	out := filepath.Join(t.TempDir(), "callgrind.out")
	// By default what runs in the linkage table is added to the call that leads there.
	testtool.Run(t, ".", "valgrind", "-q", "--tool=callgrind", "--skip-plt=no", "--dump-instr=yes", "--dump-line=no",
		"--collect-jumps=yes", "--callgrind-out-file="+out, program, "1")
	path, _ := qemu.Count(t, ".", program, "1")
	want, got := sets.Truth(t, out).Images[program], sets.Truth(t, path).Images[program]
	if got == nil || want == nil {
		t.Fatalf("%s was counted by QEMU: %t, by callgrind: %t", program, got != nil, want != nil)
	}
	if want.Total() < 1e8 {
		t.Errorf("callgrind counted %d instructions only", want.Total())
	}
	im, err := image.Open(program, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	text := sectionOf(t, program, ".text") // callgrind takes what is in .init, .plt and .fini for code of no file
	insts := maps.Clone(got.Insts)
	maps.DeleteFunc(insts, func(a image.Addr, _ uint64) bool { return !text(a) })
	equalCounts(t, "instructions", insts, want.Insts)
	// Callgrind calls what jumps out of a function a call. Within functions both have jumps.
	within := func(it *truth.Image) map[truth.Transfer]uint64 {
		jumps := maps.Clone(it.Jumps)
		maps.DeleteFunc(jumps, func(j truth.Transfer, _ uint64) bool { return !text(j.From) || im.Find(j.From) != im.Find(j.To) })
		return jumps
	}
	equalCounts(t, "jumps", within(got), within(want))
	if len(got.Calls) == 0 {
		t.Error("no calls were counted")
	}
	for c, n := range got.Calls {
		if text(c.To) && want.Calls[c] != n {
			t.Errorf("%#x called %#x %d times, by callgrind %d", c.From, c.To, n, want.Calls[c])
		}
	}
}

// sectionOf returns whether an address is in a section of a file.
func sectionOf(t *testing.T, path, name string) func(image.Addr) bool {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.Section(name)
	if s == nil {
		t.Fatalf("%s has no section %s", path, name)
	}
	return func(a image.Addr) bool { return a >= image.Addr(s.Addr) && a < image.Addr(s.Addr+s.Size) }
}

// equalCounts reports where two maps of counts differ.
func equalCounts[K comparable](t *testing.T, what string, got, want map[K]uint64) {
	t.Helper()
	if maps.Equal(got, want) {
		return
	}
	var diffs []string
	for k := range got {
		if got[k] != want[k] {
			diffs = append(diffs, fmt.Sprintf("%+v: %d, want %d", k, got[k], want[k]))
		}
	}
	for k := range want {
		if _, ok := got[k]; !ok {
			diffs = append(diffs, fmt.Sprintf("%+v: none, want %d", k, want[k]))
		}
	}
	slices.Sort(diffs)
	t.Errorf("%d %s differ:\n%s", len(diffs), what, strings.Join(diffs[:min(len(diffs), 20)], "\n"))
}

// threads is a program whose executions are known: four threads call step 10000 times
// each, all adding to one sum; every third call goes to one of two through a pointer.
const threads = `
#include <pthread.h>
#include <stdio.h>
static _Atomic long sum;
static volatile int three = 3;
__attribute__((noinline)) void odd(int i) { sum += i; }
__attribute__((noinline)) void even(int i) { sum -= i; }
static void (*volatile by[2])(int) = {even, odd};
__attribute__((noinline)) void step(int i) { sum += 1; if (i % three == 0) by[i & 1](i); }
static void *work(void *arg) { for (int i = 0; i < 10000; i++) step(i); return arg; }
int main(void) {
	pthread_t t[4];
	for (int i = 0; i < 4; i++) pthread_create(&t[i], NULL, work, NULL);
	for (int i = 0; i < 4; i++) pthread_join(t[i], NULL);
	printf("%ld\n", sum);
}
`

// TestQEMUThreads: nothing is lost between threads, for both processors, in programs that
// are static and not, with atomic instructions and without them.
func TestQEMUThreads(t *testing.T) {
	for _, tt := range []struct {
		name    string
		machine elf.Machine
		compile []string
	}{
		{"x86-64", elf.EM_X86_64, []string{"gcc"}},
		{"x86-64 static", elf.EM_X86_64, []string{"gcc", "-static"}},
		{"AArch64", elf.EM_AARCH64, []string{"aarch64-linux-gnu-gcc"}},
		{"AArch64 static", elf.EM_AARCH64, []string{"aarch64-linux-gnu-gcc", "-static"}},
		{"AArch64 LSE", elf.EM_AARCH64, []string{"aarch64-linux-gnu-gcc", "-march=armv8.1-a"}},
		{"AArch64 exclusives", elf.EM_AARCH64, []string{"aarch64-linux-gnu-gcc", "-mno-outline-atomics"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testtool.Need(t, tt.compile[0])
			qemu.NeedCount(t, tt.machine)
			dir := t.TempDir()
			source, program := testtool.Write(t, dir, "threads.c", threads), filepath.Join(dir, "threads")
			testtool.Run(t, dir, append(tt.compile, "-O1", "-pthread", "-o", program, source)...)
			path, output := qemu.Count(t, dir, program)
			if output != "60004\n" { // 40000 steps; of what 3 divides, odd numbers less even ones are 5001, four times
				t.Errorf("the program printed %q", output)
			}
			checkThreads(t, program, sets.Truth(t, path).Images[program])
		})
	}
}

func checkThreads(t *testing.T, program string, it *truth.Image) {
	t.Helper()
	if it == nil {
		t.Fatal("nothing was counted")
	}
	im, err := image.Open(program, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	start := func(name string) image.Addr {
		i := im.Lookup(name)
		if i < 0 {
			t.Fatalf("no symbol %s", name)
		}
		return im.Symbols()[i].Addr
	}
	odd, even, step := start("odd"), start("even"), start("step")
	for _, tt := range []struct {
		name string
		at   image.Addr
		want uint64
	}{{"step", step, 40000}, {"odd", odd, 4 * 1667}, {"even", even, 4 * 1667}} {
		if got := it.Insts[tt.at]; got != tt.want {
			t.Errorf("%s began %d times, want %d", tt.name, got, tt.want)
		}
	}
	// Whether a call or a jump leads there, the pointer went to each half of the time.
	into := map[image.Addr]uint64{}
	for _, m := range []map[truth.Transfer]uint64{it.Calls, it.Jumps} {
		for tr, n := range m {
			if im.Find(tr.From) != im.Find(tr.To) {
				into[tr.To] += n
			}
		}
	}
	for _, a := range []image.Addr{odd, even, step} {
		if into[a] != it.Insts[a] {
			t.Errorf("%#x began %d times, calls and jumps lead there %d times", a, it.Insts[a], into[a])
		}
	}
}
