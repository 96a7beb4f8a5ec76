package main

import (
	"bufio"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// A waited is how long a program says that it was off the processor in a function, in ns.
type waited struct{ least, most float64 }

// recordWaits records the program "waits", and returns what it says.
func recordWaits(t *testing.T, exe, what string) (*sample.Recording, map[string]waited) {
	t.Helper()
	dir := t.TempDir()
	if u := collect.OffCPU.Refusal(collect.ThisHost()); u != nil {
		t.Skip(designed + u.Why)
	}
	path := filepath.Join(dir, "waits.bfr")
	// What it prints goes to a file: it has the streams of this process.
	said := filepath.Join(dir, "said")
	stole := stolen(t)
	code, _, errs := runCLI(t, "record", "--off-cpu", "-o", path, "--", "sh", "-c", `exec "$0" "$1" >"$2"`, exe, what, said)
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	rec, err := sample.Decode([]byte(testtool.Read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]waited{}
	for _, line := range strings.Split(strings.TrimSpace(testtool.Read(t, said)), "\n") {
		f := strings.Fields(line)
		var n [2]float64
		for i := range n {
			if n[i], err = strconv.ParseFloat(f[1+i], 64); err != nil {
				t.Fatal(err)
			}
		}
		if f[0] == "all" || f[0] == "wall" {
			n[1] += float64(rec.Runs[0].Lasted+1) * 1e6 // as long as this, its first thread
		}
		all[f[0]] = waited{n[0], max(n[0], n[1])} // whom others hold up beside its calls waits for longer than in them
	}
	// What a hypervisor took while a thread was on the processor is none of the thread's own time, and not off the processor.
	stole = stolen(t) - stole
	for name, w := range all {
		if name != "wall" {
			all[name] = waited{w.least - stole, w.most}
		}
	}
	return rec, all
}

// stolen is how long the hypervisor has had all processors run something else, in ns.
func stolen(t *testing.T) float64 {
	t.Helper()
	f := strings.Fields(testtool.Read(t, "/proc/stat"))
	ticks, err := strconv.ParseFloat(f[8], 64)
	if err != nil {
		t.Fatal(err)
	}
	return ticks * 1e7 // proc_stat(5): 100 a second
}

// offIn adds up the ns off the processor below each function of an image, by reason, and all by "".
func offIn(rec *sample.Recording, im *image.Image, exe string) map[string]map[string]float64 {
	sum := map[string]map[string]float64{}
	add := func(name, why string, n uint64) {
		if sum[name] == nil {
			sum[name] = map[string]float64{}
		}
		sum[name][why] += float64(n) * sample.OffPeriod
		sum[name][""] += float64(n) * sample.OffPeriod
	}
	for _, c := range rec.Off {
		why := strings.TrimPrefix(c.Event.Name, sample.OffCPU+":")
		for _, s := range c.Stacks {
			names := framesOf(c, im, exe, s.Frames)
			for i, name := range names {
				if !slices.Contains(names[:i], name) {
					add(name, why, s.N)
				}
			}
		}
		add("all", why, c.Total)
	}
	return sum
}

// near reports whether n lies within what was said, give or take 2 % and 5 ms. On an emulated processor, programs take
// long to start and end, which nobody says, and threads to run once they are woken.
func (w waited) near(n float64) bool {
	part, more := 0.02, 5e6
	if testtool.Prebuilt() != "" {
		part, more = 0.1, 300e6
	}
	return n > (1-part)*w.least-more && n < (1+part)*w.most+more
}

// TestOffCPU records a program that waits in known ways: for a timer, a lock, a pipe, a child and the processor. Of
// each the time, its stack and the reason have to be right, and all of it with the time on the processor has to be what
// its threads lived.
func TestOffCPU(t *testing.T) {
	testtool.Live(t, "records")
	exe := program(t, "waits")
	im := openImage(t, exe)
	rec, said := recordWaits(t, exe, "ways")
	sum := offIn(rec, im, exe)
	for name, why := range map[string]string{"way_sleep": "interruptible", "take_lock": "interruptible", "way_pipe": "interruptible", "way_run": "runnable", "all": ""} {
		if name == "way_sleep" && testtool.Prebuilt() != "" { // it comes first, when emulated processors have no rows of stacks yet, and then callers lack
			said[name] = waited{0, said[name].most}
		}
		got := sum[name][""]
		t.Logf("%s: %.1f ms, %v; it says %.1f to %.1f", name, got/1e6, sum[name], said[name].least/1e6, said[name].most/1e6)
		if !said[name].near(got) {
			t.Errorf("%s: %.1f ms off the processor; it says %.1f to %.1f", name, got/1e6, said[name].least/1e6, said[name].most/1e6)
		}
		// A thread that is woken is runnable for a moment, for longer where much else runs.
		if of := sum[name][why]; why != "" && of < 0.9*(got-sum[name]["runnable"]) {
			t.Errorf("%s: %.1f of %.1f ms are %s: %v", name, of/1e6, got/1e6, why, sum[name])
		}
	}
	// Its stack is not to be found: vfork has its return address in a register.
	if got, w := sum["all"]["uninterruptible"], said["uninterruptible"]; !w.near(got) {
		t.Errorf("%.1f ms uninterruptible; it says %.1f to %.1f", got/1e6, w.least/1e6, w.most/1e6)
	}
	all, err := rec.Waits(sample.Wall)
	if err != nil {
		t.Fatal(err)
	}
	wall := 0.0
	for _, c := range all.Counts {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		wall += float64(c.Total) * sample.OffPeriod
	}
	if w := said["wall"]; !w.near(wall) {
		t.Errorf("%.1f ms on the processor and off it; threads lived %.1f to %.1f", wall/1e6, w.least/1e6, w.most/1e6)
	}
}

// TestOffCPUOften records threads that switch too often for all stacks to be unwound: totals are of all
// switches still, and stacks have them in proportion.
func TestOffCPUOften(t *testing.T) {
	testtool.Live(t, "records")
	exe := program(t, "waits")
	im := openImage(t, exe)
	rec, said := recordWaits(t, exe, "pipes")
	sum := offIn(rec, im, exe)
	for _, name := range []string{"way_short", "way_long"} {
		got, w := sum[name][""], said[name]
		t.Logf("%s: %.1f ms; it says %.1f to %.1f", name, got/1e6, w.least/1e6, w.most/1e6)
		// Chance decides which stacks are unwound: of a thousand a second, for 3 s.
		if !w.near(got) && (got < 0.85*w.least || got > 1.15*w.most) {
			t.Errorf("%s: %.1f ms off the processor; it says %.1f to %.1f", name, got/1e6, w.least/1e6, w.most/1e6)
		}
	}
	both := waited{said["way_short"].least + said["way_long"].least, said["way_short"].most + said["way_long"].most}
	if got := sum["way_short"][""] + sum["way_long"][""]; !both.near(got) && (got < 0.9*both.least || got > 1.1*both.most) {
		t.Errorf("%.1f ms off the processor in both ways; they say %.1f to %.1f", got/1e6, both.least/1e6, both.most/1e6)
	}
}

// TestOffCPUAsleep records threads of which none runs: all of the time they are off the processor, and why is not known.
func TestOffCPUAsleep(t *testing.T) {
	testtool.Live(t, "records")
	if u := collect.OffCPU.Refusal(collect.ThisHost()); u != nil {
		t.Skip(designed + u.Why)
	}
	exe := program(t, "waits")
	cmd := exec.Command(exe, "asleep")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("%q, %v", line, err)
	}
	path := filepath.Join(t.TempDir(), "asleep.bfr")
	if code, _, errs := runCLI(t, "record", "--off-cpu", "-d", "2s", "-o", path, "-p", fmt.Sprint(cmd.Process.Pid)); code != exitDone {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	rec, err := sample.Decode([]byte(testtool.Read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	var total, placed uint64
	for _, c := range rec.Off {
		total += c.Total
		for _, ic := range c.Images {
			placed += ic.Samples()
		}
	}
	if n := byThread(rec.Off)["waits"]; n < total*9/10 {
		t.Errorf("of %d us off the processor, %d have a process and a thread", total, n)
	}
	lived := 4 * rec.Runs[0].Lasted * 1000 * 21 / 20 // us, of four threads; it ends a while after 2 s, and switches are seen a moment before it begins
	t.Logf("%d us off the processor, %d of them in images; recorded for %d us", total, placed, lived)
	if total < 4*1_900_000 || total > lived || placed < total*9/10 {
		t.Errorf("%d us off the processor, %d of them in images; four threads slept for %d", total, placed, lived)
	}
}
