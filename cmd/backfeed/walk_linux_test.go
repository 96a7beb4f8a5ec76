//go:build amd64 || arm64

package main

import (
	"bufio"
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/trace"
)

// A walkCheck is what testdata/walkops.c tells of one of its checks: where it begins with a
// branch, and where it goes if what it got differs.
type walkCheck struct {
	name   string
	entry  sample.Offset
	failed sample.Offset
	strict bool // else the walk may end in it
}

// walkChecks reads the section that the program names its branches in, entries of 64 bytes.
func walkChecks(t *testing.T, path string, im *image.Image) []walkCheck {
	t.Helper()
	f, err := elf.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	s := f.Section(".checks")
	b, err := s.Data()
	if err != nil {
		t.Fatal(err)
	}
	at := map[string]int{}
	var out []walkCheck
	for i := 0; i+64 <= len(b); i += 64 {
		e := b[i:][:64]
		addr := int64(s.Addr) + int64(i) + int64(int32(binary.LittleEndian.Uint32(e)))
		off, ok := im.OffsetOf(image.Addr(addr))
		if !ok {
			t.Fatalf("entry %d of .checks: %#x is no address", i/64, addr)
		}
		name, _, _ := bytes.Cut(e[8:], []byte{0})
		k, ok := at[string(name)]
		if !ok {
			k = len(out)
			at[string(name)], out = k, append(out, walkCheck{name: string(name)})
		}
		switch kind := binary.LittleEndian.Uint32(e[4:]); kind {
		case 0:
			out[k].entry = off
		default:
			out[k].failed, out[k].strict = off, kind == 1
		}
	}
	return out
}

// startChecks runs the program until it has said which checks it makes.
func startChecks(t *testing.T, path string) (cmd *exec.Cmd, printed *bufio.Reader, runs map[string]bool) {
	t.Helper()
	cmd = exec.Command(path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	printed, runs = bufio.NewReader(out), map[string]bool{}
	for {
		line, err := printed.ReadString('\n')
		if err != nil {
			t.Fatalf("the program: %v", err)
		}
		if line == "ready\n" {
			return cmd, printed, runs
		}
		runs[line[:len(line)-1]] = true
	}
}

// walking skips where there is no sampling that walks go on from.
func walking(t *testing.T) {
	t.Helper()
	testtool.Live(t, "records and walks")
	s, err := collect.OpenSystem(collect.SystemOptions{Probes: true, PIDs: []int{os.Getpid()}})
	if u := (*collect.Unavailable)(nil); errors.As(err, &u) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
}

// startWalked runs a program until the test ends, and opens its file.
func startWalked(t *testing.T, path string) (*exec.Cmd, *image.Image) {
	t.Helper()
	im := openImage(t, path)
	cmd := exec.Command(path)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, im
}

// walkImage returns the code of a file.
func walkImage(path string, im *image.Image) trace.Image {
	var insts []trace.Inst
	for i := range im.Symbols() {
		if p, err := im.Proc(i); err == nil {
			insts = append(insts, im.WalkInsts(p)...)
		}
	}
	return trace.Image{ID: sample.ImageID{Path: path}, File: path, Procs: [][]trace.Inst{insts}}
}

// walkOver has a running program walked for so long, through its file and libraries, and returns what
// walks saw of its file.
func walkOver(t *testing.T, cmd *exec.Cmd, path string, im *image.Image, hz int, opt collect.WalkOptions, lasts time.Duration, libraries ...trace.Image) (map[sample.Offset]sample.Probed, collect.WalkTotals) {
	t.Helper()
	// By the timer: where an interrupt of a counter takes as long as a walk on an emulated processor, the kernel
	// lowers the rate of counters.
	sys, err := collect.OpenSystem(collect.SystemOptions{Probes: true, Events: []string{"cpu-clock"}, Frequency: hz, PIDs: []int{cmd.Process.Pid}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { sys.Close() })
	w := collect.NewWalker(sys, opt)
	t.Cleanup(func() { w.Close() })
	program := walkImage(path, im)
	t.Logf("%d operations", len(program.Procs[0]))
	if err := w.SetImages(append(libraries, program)); err != nil {
		if u := (*collect.Unavailable)(nil); errors.As(err, &u) {
			t.Skip(err)
		}
		t.Fatal(err)
	}
	time.Sleep(lasts)
	c := sample.NewCounts(sample.CPU{}, sample.Event{})
	w.AddTo(c, nil)
	return c.Images[c.Image(program.ID)].Probed, w.Totals()
}

// TestWalkOps holds what walks think that instructions do to what the processor does: the
// program of testdata/walkops.c checks its own results, so that a walk which sees a check
// fail, as the program never does, got it wrong, and one that ends there does not know.
func TestWalkOps(t *testing.T) {
	walking(t)
	path := program(t, "walkops")
	im := openImage(t, path)
	checks := walkChecks(t, path, im)
	cmd, printed, runs := startChecks(t, path)

	const share = 0.5
	lasts, few := 8*time.Second, uint64(5000)
	if testtool.Prebuilt() != "" { // in a guest, on an emulated processor
		lasts, few = 3*time.Second, 300
	}
	before := time.Now()
	seen, totals := walkOver(t, cmd, path, im, 4999, collect.WalkOptions{Share: share, Known: true}, lasts)
	passed := time.Since(before)

	// It checks itself, and says so before it ends.
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Errorf("the program does not run on: %v", err)
	}
	said, _ := io.ReadAll(printed)
	if err := cmd.Wait(); err != nil || len(said) > 0 {
		t.Errorf("the program: %v, %q", err, said)
	}

	t.Logf("%d of %d checks; %+v", len(runs), len(checks), totals)
	for i, n := range totals.Ends {
		t.Logf("%d walks ended %s", n, trace.End(i))
	}
	// What was saved up, and a walk begun, come on top of the share.
	if most := time.Duration(share*float64(passed)) + 10*time.Millisecond; totals.Time > most {
		t.Errorf("walks took %v of %v, more than their share of %v", totals.Time, passed, share)
	}
	if totals.Walks == 0 {
		t.Fatal("no walks")
	} else if totals.Walks < few {
		t.Skipf("needs a less busy machine: %d walks", totals.Walks)
	}
	// Walks begin and end in the midst of checks, too: some one in seven does, as checks have
	// some 70 of the 500 instructions of a walk. What is never known is far less.
	for _, k := range checks {
		if !runs[k.name] {
			continue
		}
		entry, failed := seen[k.entry], seen[k.failed]
		switch {
		case failed.Taken > 0:
			t.Errorf("%s: %d of %d results were wrong", k.name, failed.Taken, failed.Outcomes)
		case entry.Outcomes == 0:
			t.Errorf("%s: never reached", k.name)
		case k.strict && float64(failed.Outcomes) < 0.7*float64(entry.Outcomes)-4*math.Sqrt(0.3*float64(entry.Outcomes)):
			t.Errorf("%s: %d of %d walks knew the result", k.name, failed.Outcomes, entry.Outcomes)
		}
	}
}

// TestWalkOverlay: of a program on overlayfs, as those of containers are, the kernel maps
// another file than the one that its path names.
func TestWalkOverlay(t *testing.T) {
	walking(t)
	dir := t.TempDir()
	if err := syscall.Mount("none", dir, "tmpfs", 0, ""); err != nil {
		t.Skipf("mount of a tmpfs: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	for _, d := range []string{"lower", "upper", "work", "merged"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	source := testtool.Write(t, t.TempDir(), "spin.c", "int main() { volatile unsigned x = 1; for (;;) { x = x * 1664525 + 1013904223; if (x >> 31) x ^= 5; } }\n")
	testtool.Run(t, ".", "gcc", "-O1", "-o", filepath.Join(dir, "lower/spin"), source)
	merged := filepath.Join(dir, "merged")
	layers := fmt.Sprintf("lowerdir=%[1]s/lower,upperdir=%[1]s/upper,workdir=%[1]s/work", dir)
	if err := syscall.Mount("overlay", merged, "overlay", 0, layers); err != nil {
		t.Skipf("mount of an overlayfs: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(merged, syscall.MNT_DETACH) })

	path := filepath.Join(merged, "spin")
	cmd, im := startWalked(t, path)
	at, totals := walkOver(t, cmd, path, im, 999, collect.WalkOptions{Share: 0.2}, 2*time.Second)
	var seen, taken, outcomes uint64
	for _, p := range at {
		seen, taken, outcomes = seen+p.Visits, taken+p.Taken, outcomes+p.Outcomes
	}
	if seen == 0 || outcomes == 0 {
		t.Errorf("walks saw nothing of it: %+v", totals)
	} else if share := float64(taken) / float64(outcomes); share < 0.3 || share > 0.7 {
		t.Errorf("its branch went one way in %.2f of %d outcomes, want half", share, outcomes)
	}
}

// TestWalkLibrary: walks go on into a library in which hardly a sample is.
func TestWalkLibrary(t *testing.T) {
	walking(t)
	dir := t.TempDir()
	library, path := filepath.Join(dir, "libfew.so"), filepath.Join(dir, "many")
	testtool.Run(t, ".", "gcc", "-O1", "-shared", "-fPIC", "-o", library, testtool.Write(t, dir, "few.c", "int few(int n) { return n + 1; }\n"))
	source := testtool.Write(t, dir, "many.c", "int few(int); int main() { volatile unsigned x = 1; for (;;) { for (int i = 0; i < 2000; i++) x += i; x = few(x); } }\n")
	testtool.Run(t, ".", "gcc", "-O1", "-o", path, source, library, "-Wl,-rpath,"+dir)
	lib := openImage(t, library)
	cmd, im := startWalked(t, path)
	at, totals := walkOver(t, cmd, path, im, 4999, collect.WalkOptions{Share: 0.5}, time.Second, walkImage(library, lib))
	var left uint64 // by a call, through the procedure linkage table, and back to the loop
	for _, p := range at {
		if p.Outcomes == 0 {
			left = max(left, p.Visits)
		}
	}
	t.Logf("%d walks left the program; %+v", left, totals)
	const few = 20
	if left < few {
		t.Skipf("needs a less busy machine: %d walks left the program", left)
	}
	if n := totals.Ends[trace.EndOutside]; n > 10 {
		t.Errorf("%d of %d walks that left the program ended there", n, left)
	}
}

// TestWalkGuesses: where a branch depends on floating-point numbers, walks go on, and say nothing
// of which way it goes; or they end there, if that is wanted.
func TestWalkGuesses(t *testing.T) {
	walking(t)
	dir := t.TempDir()
	source := testtool.Write(t, dir, "real.c", "int main() { volatile unsigned n = 0; volatile double x = 1; for (;;) { x = x * 1.5; if (x > 1e9) x = x / 1e9; if (++n & 1) n += 3; } }\n")
	path := filepath.Join(dir, "real")
	testtool.Run(t, ".", "gcc", "-O1", "-o", path, source)
	cmd, im := startWalked(t, path)
	for _, known := range []bool{false, true} {
		at, totals := walkOver(t, cmd, path, im, 999, collect.WalkOptions{Share: 0.2, Known: known}, 2*time.Second)
		if totals.Walks == 0 {
			t.Fatal("no walks")
		}
		var visits, outcomes uint64 // of branches with outcomes: a walk may begin at any of them
		for _, p := range at {
			if p.Outcomes > 0 {
				visits, outcomes = visits+p.Visits, outcomes+p.Outcomes
			}
		}
		each := float64(totals.Steps) / float64(totals.Walks)
		t.Logf("known %v: %d of %d outcomes known, %.0f instructions a walk; %v", known, outcomes, visits, each, totals.Ends)
		if outcomes == 0 || known != (outcomes == visits) || known != (each < 30) {
			t.Errorf("known %v: %d of %d outcomes known, %.0f instructions a walk", known, outcomes, visits, each)
		}
	}
}

// TestWalkRoom: a walk keeps what a hundred lines of memory would hold, though they are in runs as far
// apart as tables often are.
func TestWalkRoom(t *testing.T) {
	walking(t)
	dir := t.TempDir()
	source := testtool.Write(t, dir, "runs.c", `static volatile int runs[4][4096] __attribute__((aligned(16384)));
int main() {
	for (unsigned n = 0;; n++)
		for (int run = 0; run < 4; run++)
			for (int line = 0; line < 25; line++)
				runs[run][(n + line) * 16 & 4095] = n;
}
`)
	path := filepath.Join(dir, "runs")
	testtool.Run(t, ".", "gcc", "-O1", "-o", path, source)
	cmd, im := startWalked(t, path)
	_, totals := walkOver(t, cmd, path, im, 999, collect.WalkOptions{Share: 0.2, Known: true}, 2*time.Second)
	if totals.Walks == 0 || float64(totals.Steps) < 450*float64(totals.Walks) {
		t.Errorf("%d walks of %d instructions", totals.Walks, totals.Steps)
	}
	if n := totals.Ends[trace.EndRoom]; float64(n) > 0.02*float64(totals.Walks) {
		t.Errorf("%d of %d walks had no room", n, totals.Walks)
	}
	t.Logf("%+v", totals)
}
