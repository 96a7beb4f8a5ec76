package collect

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"backfeed/sample"
)

// A perfEvent is an event that samples.
type perfEvent struct {
	name     string // of an Attempt
	event    string // of sample.Event
	unit     string // of sample.Event
	typ      uint32
	config   uint64
	bits     uint64 // of perf_event_attr
	branches bool   // branch records come with each sample
	precise  bool   // samples name the instruction that was counted
	beside   bool   // it is sampled for what it tells of the samples of another one: each, without stacks
}

// ladder has the events to sample, best first: branch records tell where control
// went, instructions that have retired are executions already, cycles and the
// timer say where time was spent.
//
// Samples of instructions that are not precise are no rung of it. They fall on what waits when the interrupt
// comes, tens of cycles after the counter overflowed, so that their places tell little more of executions
// than those of time do: in package infer's TestSkid the mean block overlap over four programs is 0.76 to 0.80
// at 20 to 200 cycles, and 0.75 by time. And of where time goes they tell nothing. That they tell how
// often a program ran as a whole is why they can be asked for.
var ladder = []perfEvent{
	{name: cyclesBranches, event: cycles, unit: cycles, typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_CPU_CYCLES, branches: true},
	{name: preciseInstructions, event: instructions + ":pp", unit: instructions, typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_INSTRUCTIONS,
		bits: unix.PerfBitPreciseIPBit2, precise: true}, // by PEBS
	{name: cycles, event: cycles, unit: cycles, typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_CPU_CYCLES},
	{name: cpuClock, event: cpuClock, unit: "ns", typ: unix.PERF_TYPE_SOFTWARE, config: unix.PERF_COUNT_SW_CPU_CLOCK},
}

// eventsFor returns the events that can stand for an event, by the name that SystemOptions has for
// it, best first; none if there is no such event.
func eventsFor(name string) []perfEvent {
	branches, precise, timed, timer := ladder[0], ladder[1], ladder[2], ladder[3]
	switch name {
	case "branches":
		return []perfEvent{branches}
	case instructions:
		imprecise := precise
		imprecise.name, imprecise.event, imprecise.bits, imprecise.precise = instructions, instructions, 0, false
		return []perfEvent{precise, imprecise}
	case cycles:
		return []perfEvent{timed}
	case cpuClock:
		return []perfEvent{timer}
	}
	return nil
}

// genericEvents are the events of hardware and software that the kernel has names for
// on all processors (perf-list(1), include/uapi/linux/perf_event.h).
var genericEvents = map[string]perfEvent{
	"cycles":                  {unit: cycles, typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_CPU_CYCLES},
	"instructions":            {unit: instructions, typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_INSTRUCTIONS},
	"cache-references":        {typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_CACHE_REFERENCES},
	"cache-misses":            {typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_CACHE_MISSES},
	"branches":                {unit: "branches", typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_BRANCH_INSTRUCTIONS},
	"branch-misses":           {typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_BRANCH_MISSES},
	"bus-cycles":              {typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_BUS_CYCLES},
	"stalled-cycles-frontend": {typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_STALLED_CYCLES_FRONTEND},
	"stalled-cycles-backend":  {typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_STALLED_CYCLES_BACKEND},
	"ref-cycles":              {typ: unix.PERF_TYPE_HARDWARE, config: unix.PERF_COUNT_HW_REF_CPU_CYCLES},
	"cpu-clock":               {unit: "ns", typ: unix.PERF_TYPE_SOFTWARE, config: unix.PERF_COUNT_SW_CPU_CLOCK},
	"page-faults":             {typ: unix.PERF_TYPE_SOFTWARE, config: unix.PERF_COUNT_SW_PAGE_FAULTS},
	"minor-faults":            {typ: unix.PERF_TYPE_SOFTWARE, config: unix.PERF_COUNT_SW_PAGE_FAULTS_MIN},
	"major-faults":            {typ: unix.PERF_TYPE_SOFTWARE, config: unix.PERF_COUNT_SW_PAGE_FAULTS_MAJ},
	"alignment-faults":        {typ: unix.PERF_TYPE_SOFTWARE, config: unix.PERF_COUNT_SW_ALIGNMENT_FAULTS},
}

// eventNamed returns an event by its name, by its number on this
// processor: rNNN, hexadecimal, as perf takes it, or by the name that the kernel has for it on this processor.
func eventNamed(name string) (*perfEvent, error) {
	w, ok := genericEvents[name]
	if number, raw := strings.CutPrefix(name, "r"); !ok && raw {
		config, err := strconv.ParseUint(number, 16, 64)
		if ok = err == nil; ok {
			w = perfEvent{typ: unix.PERF_TYPE_RAW, config: config}
		}
	}
	if own := (*perfEvent)(nil); !ok {
		own, ok = processorEvent(pmuDevices, name)
		if ok {
			w = *own
		}
	}
	if !ok {
		list := slices.Sorted(maps.Keys(genericEvents))
		if own := processorEvents(pmuDevices); len(own) > 0 {
			list = append(list, "of this processor "+strings.Join(own, ", "))
		}
		return nil, fmt.Errorf("%q: %w: want a number such as r1c2, or %s", name, ErrEvent, strings.Join(list, ", "))
	}
	w.name, w.event, w.unit = name, name, cmp.Or(w.unit, "events")
	return &w, nil
}

// eventPeriod returns the events between two samples where nobody says: of cycles and
// time by the frequency, of what software counts each one, of the rest one in a
// hundred thousand and three, which is a prime.
func (w *perfEvent) eventPeriod(hz, mhz int) uint64 {
	switch {
	case w.unit == "ns" || w.unit == cycles || w.unit == instructions:
		return w.period(hz, mhz)
	case w.typ == unix.PERF_TYPE_SOFTWARE:
		return 1
	}
	return 100_003
}

// sampled is the Event of w, sampled once in period.
func (w *perfEvent) sampled(period uint64) sample.Event {
	return sample.Event{Name: w.event, Period: period, Unit: w.unit}
}

// period returns the events between two samples. Of instructions, one is expected to
// retire per cycle.
func (w *perfEvent) period(hz, mhz int) uint64 {
	if w.unit == "ns" {
		return w.stands(uint64(time.Second) / uint64(hz))
	}
	if mhz == 0 {
		mhz = 2000 // the true rate is then off by as much as the clock is
	}
	return uint64(mhz) * 1e6 / uint64(hz)
}

// stands returns what a sample stands for that is asked for once in period: of a timer, no less than lies
// between two moments at which timers fire, or than leaves the program time to run.
func (w *perfEvent) stands(period uint64) uint64 {
	if w.unit != "ns" {
		return period
	}
	if hz := int(uint64(time.Second) / max(period, 1)); hz > usualRate {
		period = max(period, uint64(time.Second)/uint64(TimerRate(hz)))
	}
	return max(period, uint64(timerStep()))
}

// sooner is what part of a step a timer is asked for that is to fire at each. It must have passed since the timer was
// started, so of a whole step each start would cost a sample.
const sooner = 8

// asked is the period to ask the kernel for where a sample is to stand for period.
func (w *perfEvent) asked(period uint64) uint64 {
	if w.stepped(period) {
		return uint64(timerStep()) / sooner
	}
	return period
}

// stepped reports whether there is a sample at each step of the kernel's timers, if it is to be once in period.
func (w *perfEvent) stepped(period uint64) bool {
	return w.unit == "ns" && period <= uint64(timerStep())
}

// attr returns the attributes of w that do not depend on what is sampled.
func (w *perfEvent) attr(a unix.PerfEventAttr) *unix.PerfEventAttr {
	a.Type, a.Config = w.typ, w.config
	a.Bits |= w.bits
	if w.branches {
		a.Sample_type |= unix.PERF_SAMPLE_BRANCH_STACK
		a.Branch_sample_type = unix.PERF_SAMPLE_BRANCH_USER | unix.PERF_SAMPLE_BRANCH_ANY
	}
	return &a
}

// heedsPrecise reports whether the kernel opens a precise event only where samples will be precise. On x86-64
// it does (x86_pmu_hw_config in arch/x86/events/core.c of Linux). On Arm it takes any precise_ip, and
// then samples as if none had been asked for (drivers/perf/arm_pmu.c).
var heedsPrecise = runtime.GOARCH == "amd64"

var errImprecise = errors.New("samples of instructions are not precise on this architecture, whatever the kernel says")

// climb opens the events one after another until one works, which is the last of the
// attempts.
func climb(kinds []perfEvent, open func(*perfEvent) error) (*perfEvent, []Attempt) {
	var tried []Attempt
	for i := range kinds {
		err := error(errImprecise)
		if heedsPrecise || !kinds[i].precise {
			err = open(&kinds[i])
		}
		tried = append(tried, Attempt{Name: kinds[i].name, Err: err})
		if err == nil {
			return &kinds[i], tried
		}
	}
	return nil, tried
}
