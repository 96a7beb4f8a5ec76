package collect

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// timerStep is the time between two moments at which a timer of the kernel can fire. Where it has no high-resolution
// timers, that is the time between two ticks, and a timer that is to fire sooner fires at each (hrtimer_forward in
// kernel/time/hrtimer.c of Linux, which clock_getres returns the resolution of). 0 is a kernel that has them.
var timerStep = sync.OnceValue(func() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGetres(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	if step := time.Duration(ts.Nano()); step > time.Second/maxFrequency {
		return step
	}
	return 0
})

// TimerRate is how often a second this kernel samples by a timer that is asked for hz samples a second.
func TimerRate(hz int) int {
	if step := timerStep(); step > 0 {
		hz = min(hz, int(time.Second/step))
	}
	if hz > usualRate {
		hz = max(usualRate, min(hz, int(time.Second/leastPeriod()), int(throttledAt()*belowThrottle)))
	}
	return hz
}

const (
	// usualRate is what any machine bears, in samples a second of a processor. What more would take is measured first: on a virtual
	// machine of two processors, a program that took 0.5 s took 1.4 s at 10,000 Hz, and at 100,000 Hz it did not end: each
	// interrupt took longer than there was time between two, and next to nothing else ran on the machine for a quarter of an hour.
	usualRate = 5000
	// mostOfTime is the part of a processor's time that samples may take, as the kernel has it for counters (perf_cpu_time_max_percent).
	mostOfTime = 0.25
	// belowThrottle keeps a rate below what the kernel throttles at: it counts samples by ticks, and a tick may have one more.
	belowThrottle = 0.75
)

// sampleTakes measures what a sample takes from the program that it interrupts. Of a machine that is too busy to tell, it is what
// makes the usual rate the most.
var sampleTakes = sync.OnceValue(func() time.Duration {
	d, err := ownSampleTakes()
	if err != nil {
		return time.Duration(mostOfTime * float64(time.Second/usualRate))
	}
	return d
})

// leastPeriod is the least time between two samples of a timer that leaves the program its part of the processor.
func leastPeriod() time.Duration { return time.Duration(float64(sampleTakes()) / mostOfTime) }

// throttledAt is how many samples a second the kernel lets an event take, as it is set now.
var throttledAt = func() float64 {
	b, err := os.ReadFile("/proc/sys/kernel/perf_event_max_sample_rate")
	n, e := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || e != nil || n <= 0 {
		return maxFrequency
	}
	return float64(n)
}

// SlowTimers says why TimerRate is less than hz, and what would help; nil where it is not.
func SlowTimers(hz int) *Unavailable {
	most := TimerRate(hz)
	if most == hz {
		return nil
	}
	if step := timerStep(); step > 0 && most == int(time.Second/step) {
		return &Unavailable{
			Why: fmt.Sprintf("this kernel has no high-resolution timers: they fire at its tick, %d times a second and not %d, and each sample stands for the %v between two ticks, or more",
				most, hz, step.Round(time.Microsecond)),
			Fix: "For more samples record for longer, or boot without highres=off a kernel with CONFIG_HIGH_RES_TIMERS",
		}
	}
	if most == int(throttledAt()*belowThrottle) {
		return &Unavailable{
			Why: fmt.Sprintf("samples are taken at %d Hz and not %d: the kernel throttles events that are sampled more often (kernel.perf_event_max_sample_rate is %.0f)", most, hz, throttledAt()),
			Fix: "For more samples record for longer, or raise that by sysctl",
		}
	}
	return &Unavailable{
		Why: fmt.Sprintf("samples are taken at %d Hz and not %d: at a higher rate they would take more than %.0f%% of a processor, as each takes %v here",
			most, hz, 100*mostOfTime, sampleTakes().Round(time.Microsecond)),
		Fix: "For more samples record for longer",
	}
}

// steppedTick is the refusal of SystemOptions.Tick by such a kernel, whose tick is no timer that a program could be run at; nil on others.
func steppedTick() *Unavailable {
	step := timerStep()
	if step == 0 {
		return nil
	}
	return &Unavailable{
		Why: "this kernel has no high-resolution timers, of which its tick would be one",
		Fix: fmt.Sprintf("Leave out --tick and ask for -F %d: cpu-clock then samples at the tick", int(time.Second/step)),
	}
}
