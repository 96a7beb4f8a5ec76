//go:build linux

package main

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// starter is a program of n functions that run at its start, strewn over the image
// with 64 KiB between each two of them, in an order that has nothing to do with that
// of their calls. It ends at once if it is given an argument.
func starter(n int) string {
	var src strings.Builder
	src.WriteString("volatile unsigned sum;\n")
	for i := range n {
		// What one fault maps is 64 KiB: one function lies in it.
		fmt.Fprintf(&src, "__attribute__((noinline)) void start%d(void) { for (int i = 0; i < 30000; i++) sum = sum * %d + i; }\n", i, 2*i+3)
		fmt.Fprintf(&src, "__attribute__((used)) void cold%d(void) { __asm__(\".skip 65536, 0x90\"); }\n", i)
	}
	src.WriteString("int main(int argc, char **argv) {\n\tif (argc > 1) return 0;\n")
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
		fmt.Fprintf(&src, "\tstart%d();\n", i)
	}
	src.WriteString("\treturn 0;\n}\n")
	return src.String()
}

// leastFaults runs a program several times and returns its least number of page faults
// that needed no disk.
func leastFaults(t *testing.T, program string, args ...string) int64 {
	t.Helper()
	least := int64(1 << 62)
	for range 10 {
		cmd := exec.Command(program, args...)
		if err := cmd.Run(); err != nil {
			t.Fatal(err)
		}
		least = min(least, cmd.ProcessState.SysUsage().(*syscall.Rusage).Minflt)
	}
	return least
}

// TestStartup records starts of a program, links it in the order by them, and counts
// the page faults that are left. The order is that of the calls, as far as it was seen.
func TestStartup(t *testing.T) {
	testtool.Live(t, "records")
	if _, err := collect.Probe(); err != nil {
		t.Skip(err)
	}
	testtool.Need(t, "clang-19", "ld.lld-19")
	const n = 40
	dir := t.TempDir()
	source, object := testtool.Write(t, dir, "start.c", starter(n)), filepath.Join(dir, "start.o")
	testtool.Run(t, dir, "clang-19", "-O1", "-ffunction-sections", "-c", source, "-o", object)
	link := func(name string, flags ...string) string {
		path := filepath.Join(dir, name)
		testtool.Run(t, dir, append([]string{"clang-19", "-fuse-ld=lld", "-Wl,--build-id", "-o", path, object}, flags...)...)
		return path
	}
	program, rec := link("start"), filepath.Join(dir, "start.bfr")
	must(t, "record", "-F", "10000", "-o", rec, "--", "sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do "+program+"; done")
	order := filepath.Join(dir, "order")
	must(t, "layout", program, rec, "--for", "lld", "--startup", "-o", order)

	listed := strings.Fields(testtool.Read(t, order))
	seen := 0
	for _, name := range listed {
		if strings.HasPrefix(name, "cold") {
			t.Errorf("%s never ran, and is in the order", name)
		}
		if strings.HasPrefix(name, "start") {
			seen++
		}
	}
	if seen < n*3/4 {
		t.Fatalf("%d of %d functions that run at the start are in the order: %v", seen, n, listed)
	}
	var called []string // as main does
	for _, i := range rand.New(rand.NewPCG(1, 1)).Perm(n) {
		called = append(called, fmt.Sprintf("start%d", i))
	}
	inversions, pairs := 0, 0
	for i, a := range called {
		for _, b := range called[i+1:] {
			x, y := slices.Index(listed, a), slices.Index(listed, b)
			if x >= 0 && y >= 0 {
				pairs++
				if x > y {
					inversions++
				}
			}
		}
	}
	if 3*inversions > pairs { // by chance it would be half of them, with a standard deviation of a tenth of that; 12 to 20 % are usual, 29 % where ten others want two processors
		t.Errorf("%d of %d pairs are the other way round than they are called", inversions, pairs)
	}

	random := slices.Clone(listed) // with what never ran in between
	for i := range n {
		random = append(random, fmt.Sprintf("cold%d", i))
	}
	rand.New(rand.NewPCG(2, 2)).Shuffle(len(random), func(i, j int) { random[i], random[j] = random[j], random[i] })
	chance := testtool.Write(t, dir, "random", strings.Join(random, "\n")+"\n")

	faults := map[string]int64{} // at the start, beyond those of the program that does nothing
	for name, flags := range map[string][]string{"as linked": nil, "by the start": {"-Wl,--symbol-ordering-file=" + order}, "at random": {"-Wl,--symbol-ordering-file=" + chance}} {
		p := link(strings.ReplaceAll(name, " ", "-"), flags...)
		faults[name] = leastFaults(t, p) - leastFaults(t, p, "end")
	}
	t.Logf("page faults: %v; %d of %d functions seen; %d of %d pairs the other way round", faults, seen, n, inversions, pairs)
	if faults["by the start"] > int64(n-seen+n/8) || faults["as linked"] < n/2 || faults["at random"] < n/4 {
		t.Errorf("page faults that the start makes: %v", faults)
	}
}

// TestStartupNeedsTimes: what has none gets no order, but is told what it lacks.
func TestStartupNeedsTimes(t *testing.T) {
	program := compile(t)
	rec := recordOfCall(t, program, "drive", "work")
	code, stdout, stderr := runCLI(t, "layout", program, rec, "--startup")
	if code != exitNothing || stdout != "" || !strings.Contains(stderr, "backfeed record -- CMD") {
		t.Errorf("exit code %d, output %q, messages %q", code, stdout, stderr)
	}
	if code, _, stderr := runCLI(t, "layout", program, rec, "--startup=-1s"); code != exitUsage {
		t.Errorf("negative time: exit code %d, %s", code, stderr)
	}
	if code, _, stderr := runCLI(t, "layout", program, rec, "--startup", "--for", "go"); code != exitUsage {
		t.Errorf("for Go: exit code %d, %s", code, stderr)
	}
}

// TestStartupSources: each source is a start of its own, and other images have no part
// in it.
func TestStartupSources(t *testing.T) {
	program := compile(t)
	rec := recordOfCall(t, program, "drive", "work")
	im, counts := openSampled(t, program)
	off, _ := im.OffsetOf(proc(t, im, "main").Addr)
	i := counts.Image(sample.ImageID{Build: im.Build, Path: program})
	counts.AddSample(i, off, 50)
	counts.Touch(i, off, 300_000)
	timed := save(t, counts)
	text := must(t, "layout", program, timed, "--startup", "--for", "json")
	if err := checkLayout(t, text); err != nil || !strings.Contains(text, `"seen": 1`) {
		t.Errorf("%v in\n%s", err, text)
	}
	if text := must(t, "layout", program, timed, "--startup", "--for", "text"); !strings.HasPrefix(text, "start") || !strings.Contains(text, "1 functions were seen") {
		t.Error(text)
	}
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{timed, "--startup"}, exitDone, "start: 1 functions seen, "},
		{[]string{timed, "--startup=299ms"}, exitNothing, "no function of"},
		{[]string{timed, rec, "--startup"}, exitDone, "1 of 2 sources do not say"},
	} {
		code, out, stderr := runCLI(t, append([]string{"layout", program, "--for", "lld"}, tt.args...)...)
		if code != tt.code || !strings.Contains(stderr, tt.says) {
			t.Errorf("%v: exit code %d, %s; want %d, %q", tt.args, code, stderr, tt.code, tt.says)
		}
		if code == exitDone && !strings.HasPrefix(out, "main\n") {
			t.Errorf("%v: the order does not begin with what ran first:\n%.300s", tt.args, out)
		}
	}
}
