package collect

import (
	"fmt"
	"math"
	"os/exec"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"backfeed/sample"
)

// Live tests of hardware counters: on a machine that has them, as the AArch64 guests of testdata/kernels.

// counter skips a test where an event does not open.
func counter(t *testing.T, name string) {
	t.Helper()
	w, err := eventNamed(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := try(samplerAttr(w, 1_000_000, false), 0, -1); err != nil {
		t.Skipf("this machine has no counter of %s: %v", name, err)
	}
}

// alone is the least share of the time that an event which shares its counter with none is counted for. The command
// takes one that is counted for less than 0.98 for one that shares it.
const alone = 0.98

// roundsRun are the rounds of testdata/rounds.c that tests run, of 16 instructions each.
const roundsRun, roundInsts = 20_000_000, 16

// counted records rounds, and returns its samples in the program by place in a round.
func counted(t *testing.T, opt Options) (*sample.Counts, *Stats, [roundInsts]uint64) {
	t.Helper()
	exe := program(t, "rounds")
	opt.Command = []string{exe, fmt.Sprint(roundsRun)}
	rec, stats, err := Record(t.Context(), opt)
	if err != nil {
		t.Fatal(err)
	}
	c := rec.Counts[0]
	if err := c.Check(); err != nil {
		t.Error(err)
	}
	places := map[sample.Offset]uint64{}
	for _, ic := range c.Images {
		if ic.ID.Path == exe {
			places = ic.At
		}
	}
	// The loop lies where most samples do.
	var first sample.Offset
	var most uint64
	size := map[string]sample.Offset{"amd64": 14 + 3 + 2, "arm64": 4 * roundInsts}[runtime.GOARCH]
	for at := range places {
		var n uint64
		for off, k := range places {
			if off >= at && off < at+size {
				n += k
			}
		}
		if n > most || n == most && at < first {
			first, most = at, n
		}
	}
	var by [roundInsts]uint64
	for off, n := range places {
		if off >= first && off < first+size {
			by[(off-first)*roundInsts/size] += n
		}
	}
	if 10*most < 9*c.Delivered() {
		t.Errorf("of %d samples, %d are in a loop that takes all of the time", c.Delivered(), most)
	}
	return c, stats, by
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got/want-1) > tolerance {
		t.Errorf("%s: %.5g, want %.5g within %.0f %%", what, got, want, 100*tolerance)
	}
}

// TestCounterCycles: there are as many samples as periods were counted, and the period of a frequency is right
// although nothing tells the clock of the processor.
func TestCounterCycles(t *testing.T) {
	counter(t, "cycles")
	const period = 200_003
	c, stats, _ := counted(t, Options{Events: []string{"cycles"}, Period: period})
	near(t, "samples times period", float64(c.Delivered()*period), float64(stats.Times[0].Counted), 0.05)
	if c.Weight < c.Delivered()*period {
		t.Errorf("weight %d of %d samples of period %d", c.Weight, c.Delivered(), period)
	}
	if float64(stats.Times[0].Running) < alone*float64(stats.Times[0].Enabled) || stats.Times[0].Running == 0 {
		t.Errorf("a counter of its own was counted for %v of %v", stats.Times[0].Running, stats.Times[0].Enabled)
	}
	if mhz := measureClock(); mhz > 0 {
		near(t, "clock in MHz", float64(mhz), 1000*float64(stats.Times[0].Counted)/float64(stats.Times[0].Running), 0.25)
	} else {
		t.Error("the clock cannot be measured")
	}
	c, stats, _ = counted(t, Options{Events: []string{"cycles"}, Frequency: 499})
	near(t, "samples a second of processor time", float64(c.Delivered())/stats.Command.UserTime().Seconds(), 499, 0.3)
}

// TestCounterInstructions: what samples of instructions stand for is what ran, whether each overflow
// brought its sample in time or not, and no instruction of straight code has more of them.
func TestCounterInstructions(t *testing.T) {
	counter(t, "instructions")
	c, stats, by := counted(t, Options{Events: []string{"instructions"}, Period: 100_003})
	const ran = roundsRun * roundInsts
	// Samplers pause at random: on this emulator for 3 to 12 % of the time, as switching them on and off takes long.
	near(t, "instructions counted", float64(stats.Times[0].Counted), ran*float64(stats.Times[0].Running)/float64(stats.Command.UserTime()), 0.05)
	near(t, "instructions that samples stand for", float64(c.Weight), float64(stats.Times[0].Counted), 0.05)
	if float64(stats.Times[0].Running) < alone*float64(stats.Times[0].Enabled) {
		t.Errorf("a counter of its own was counted for %v of %v", stats.Times[0].Running, stats.Times[0].Enabled)
	}
	t.Logf("enabled %v, counted for %v; processor time %v", stats.Times[0].Enabled, stats.Times[0].Running, stats.Command.UserTime())
	t.Logf("%d samples of %d instructions, %.0f%% brought none; by place in the loop %d", c.Delivered(), stats.Times[0].Counted, 100*stats.Times[0].Missed, by)
	if name, unit := c.Event.Name, c.Event.Unit; name != "instructions" || unit != "instructions" {
		t.Errorf("event %s in %s", name, unit)
	}
}

// TestCounterShared: where there are more events than counters, each is counted for a part of the time, which is
// said, and by which the whole can be found.
func TestCounterShared(t *testing.T) {
	counter(t, "instructions")
	const rounds = 4 * roundsRun // so that what runs before the recording begins is little of it
	cmd := exec.Command(program(t, "rounds"), fmt.Sprint(rounds))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go cmd.Wait()
	defer cmd.Process.Kill()
	const others = 16 // more than any processor has counters: 4 to 10
	for range others {
		fd, err := open(&unix.PerfEventAttr{
			Type: unix.PERF_TYPE_HARDWARE, Config: unix.PERF_COUNT_HW_INSTRUCTIONS, Size: unix.PERF_ATTR_SIZE_VER1,
			Bits: unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
		}, cmd.Process.Pid, -1)
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(fd)
	}
	rec, stats, err := Record(t.Context(), Options{PIDs: []int{cmd.Process.Pid}, Events: []string{"instructions"}, Period: 100_003})
	if err != nil {
		t.Fatal(err)
	}
	c := rec.Counts[0]
	share := float64(stats.Times[0].Running) / float64(stats.Times[0].Enabled)
	t.Logf("with %d others: counted for %.2f of %v, %d samples", others, share, stats.Times[0].Enabled, c.Delivered())
	if share > 0.9 || share < 0.1 {
		t.Errorf("with %d others the event was counted for %.2f of the time", others, share)
	}
	near(t, "instructions by the share of the time", float64(stats.Times[0].Counted)/share, rounds*roundInsts, 0.25)
	near(t, "instructions that samples stand for", float64(c.Weight), float64(stats.Times[0].Counted), 0.15)
}

// TestCounterNames: events of the processor are known by the kernel's names for them, and are those of their
// numbers.
func TestCounterNames(t *testing.T) {
	names := processorEvents(pmuDevices)
	for _, name := range []string{"cpu_cycles", "inst_retired"} { // those of PMUv3
		if !slices.Contains(names, name) {
			t.Logf("no %s among %q", name, names)
			continue
		}
		counter(t, name)
		_, stats, _ := counted(t, Options{Events: []string{name}, Period: 200_003})
		if stats.Times[0].Counted < roundsRun*roundInsts/2 {
			t.Errorf("%s: counted %d", name, stats.Times[0].Counted)
		}
	}
}

// TestCounterSystem: several events are sampled at once on the whole machine, all of the time if there are
// counters enough.
func TestCounterSystem(t *testing.T) {
	counter(t, "cycles")
	counter(t, "instructions")
	opt := SystemOptions{Events: []string{cycles, instructions, cpuClock}, Frequency: 499}
	s, err := OpenSystem(opt)
	if err != nil {
		t.Skip(err)
	}
	exe := program(t, "rounds")
	for _, e := range runFor(t, s, exe) {
		if e.Running == 0 || float64(e.Running) < 0.95*float64(e.Enabled) {
			t.Errorf("%s was counted for %v of %v", e.Name, e.Running, e.Enabled)
		}
	}
	rec, err := s.Drain()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]uint64{}
	for _, c := range rec.Counts {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		for _, ic := range c.Images {
			if ic.ID.Path == exe {
				found[c.Event.Name] += ic.Samples()
			}
		}
	}
	for _, name := range []string{cycles, instructions, cpuClock} {
		if found[name] < 10 {
			t.Errorf("%d samples of %s in the program: %v", found[name], name, found)
		}
	}
}

// runFor runs rounds, closes s, and returns the times of its events.
func runFor(t *testing.T, s *System, exe string) []EventTime {
	t.Helper()
	_, _, err := Record(t.Context(), Options{Command: []string{exe, fmt.Sprint(roundsRun)}, Events: []string{"page-faults"}})
	time.Sleep(tendEvery)
	times := s.Counters().Events
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return times
}
