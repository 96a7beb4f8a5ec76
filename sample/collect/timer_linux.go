package collect

import (
	"fmt"
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
		return min(hz, int(time.Second/step))
	}
	return hz
}

// SlowTimers says why TimerRate is less than hz, and what would help; nil where it is not.
func SlowTimers(hz int) *Unavailable {
	most := TimerRate(hz)
	if most == hz {
		return nil
	}
	return &Unavailable{
		Why: fmt.Sprintf("this kernel has no high-resolution timers: they fire at its tick, %d times a second and not %d, and each sample stands for the %v between two ticks, or more",
			most, hz, timerStep().Round(time.Microsecond)),
		Fix: "For more samples record for longer, or boot without highres=off a kernel with CONFIG_HIGH_RES_TIMERS",
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
