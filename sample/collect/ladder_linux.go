package collect

import (
	"time"

	"golang.org/x/sys/unix"

	"backfeed/sample"
)

// A way is an event that samples.
type way struct {
	name     string // of an Attempt
	event    string // of sample.Event
	unit     string // of sample.Event
	typ      uint32
	config   uint64
	bits     uint64 // of perf_event_attr
	branches bool   // branch records come with each sample
}

// ladder has the ways to sample, best first: branch records tell which way control
// went, instructions that have retired are executions already, cycles and the
// timer say where time was spent.
var ladder = []way{
	{name: cyclesBranches, event: cycles, unit: cycles, typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_CPU_CYCLES, branches: true},
	{name: preciseInstructions, event: instructions, unit: instructions, typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_INSTRUCTIONS,
		bits: unix.PerfBitPreciseIPBit2}, // the sampled instruction itself, by PEBS
	{name: cycles, event: cycles, unit: cycles, typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_CPU_CYCLES},
	{name: cpuClock, event: cpuClock, unit: "ns", typ: unix.PERF_TYPE_SOFTWARE, config: unix.PERF_COUNT_SW_CPU_CLOCK},
}

// waysTo gives the ways to sample an event by the name that SystemOptions has for
// it, best first; none if there is no such event.
func waysTo(name string) []way {
	branches, precise, timed, timer := ladder[0], ladder[1], ladder[2], ladder[3]
	switch name {
	case "branches":
		return []way{branches}
	case instructions:
		imprecise := precise
		imprecise.name, imprecise.bits = instructions, 0
		return []way{precise, imprecise}
	case cycles:
		return []way{timed}
	case cpuClock:
		return []way{timer}
	}
	return nil
}

// sampled is the Event of w, sampled once in period.
func (w *way) sampled(period uint64) sample.Event {
	return sample.Event{Name: w.event, Period: period, Unit: w.unit}
}

// period gives the events between two samples. Of instructions, one is expected to
// retire per cycle.
func (w *way) period(hz, mhz int) uint64 {
	if w.unit == "ns" {
		return uint64(time.Second) / uint64(hz)
	}
	if mhz == 0 {
		mhz = 2000 // the true rate is then off by as much as the clock is
	}
	return uint64(mhz) * 1e6 / uint64(hz)
}

// attr gives the attributes of w that do not depend on what is sampled.
func (w *way) attr(a unix.PerfEventAttr) *unix.PerfEventAttr {
	a.Type, a.Config = w.typ, w.config
	a.Bits |= w.bits
	if w.branches {
		a.Sample_type |= unix.PERF_SAMPLE_BRANCH_STACK
		a.Branch_sample_type = unix.PERF_SAMPLE_BRANCH_USER | unix.PERF_SAMPLE_BRANCH_ANY
	}
	return &a
}

// climb opens the ways one after another until one works, which is the last of the
// attempts.
func climb(ways []way, open func(*way) error) (*way, []Attempt) {
	var tried []Attempt
	for i := range ways {
		err := open(&ways[i])
		tried = append(tried, Attempt{ways[i].name, err})
		if err == nil {
			return &ways[i], tried
		}
	}
	return nil, tried
}
