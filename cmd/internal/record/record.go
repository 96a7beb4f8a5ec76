package record

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"backfeed/cmd/internal/calibrate"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// drainEvery is the time between two drains of the kernel's maps, which have room
// for collect.DefaultDrain. Those of time off the processor have room for places, not for waits: each place
// is in them once for every slice of time that has passed since. At 0.5 s that is for five.
const (
	drainEvery    = 4 * time.Second
	drainOffEvery = 500 * time.Millisecond
)

// OpenSystem is collect.OpenSystem, with kinds of failure: fail.Machine where this machine
// cannot do it, fail.Usage for an event that is none.
func OpenSystem(opt collect.SystemOptions) (*collect.System, error) {
	sys, err := collect.OpenSystem(opt)
	if unavailable := (*collect.Unavailable)(nil); errors.As(err, &unavailable) {
		return nil, fail.Wrap(fail.Machine, err)
	}
	if errors.Is(err, collect.ErrEvent) {
		return nil, fail.Errorf(fail.Usage, "--event: %w", err)
	}
	if err != nil {
		return nil, err
	}
	return sys, nil
}

// Machine records the whole machine, or what opt narrows that down to, until ctx is done or
// the time limit, which 0 is none of, is up.
func Machine(ctx context.Context, opt collect.SystemOptions, limit time.Duration, live Live) (*sample.Recording, error) {
	rec, _, err := System(ctx, collect.Options{Duration: limit}, opt, live)
	return rec, err
}

func (l Live) tellWithout(sys *collect.System) {
	for _, u := range sys.Without() {
		l.Without(u)
	}
}

// drainUntil adds up what sys samples until ctx is done, and closes it. It looks every so often, and calls drained with all so far. Sampling ends
// with ctx, however long reading takes: of a machine that does much at once, a second and more.
func drainUntil(ctx context.Context, sys calibrate.Sampler, every time.Duration, drained func(sum *sample.Recording)) (*sample.Recording, error) {
	if sys, ok := sys.(interface{ Halt() error }); ok {
		defer context.AfterFunc(ctx, func() { sys.Halt() })() // Close returns its error
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	var sum sample.Recording
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
			if err := sys.Close(); err != nil {
				return nil, err
			}
		case <-tick.C:
		}
		rec, err := sys.Drain()
		if err != nil {
			sys.Close()
			return nil, err
		}
		sum.AddAll(rec)
		drained(&sum)
	}
	return sample.Merge(&sum), nil
}

// tellSystem says what was recorded of a machine, and what was not.
func (l Live) tellSystem(rec *sample.Recording, n collect.Counters, opt collect.SystemOptions) {
	if rec.Samples() > 0 {
		var events []string
		timers := 0
		for _, counts := range rec.Counts {
			events = append(events, counts.Event.Name)
			if counts.Event.Unit == "ns" && !opt.Tick {
				timers++
			}
		}
		text := fmt.Sprintf("%d samples of %s", rec.Samples(), strings.Join(events, ", "))
		if !opt.Tick {
			hz := opt.Frequency
			if timers == len(events) {
				hz = collect.TimerRate(hz)
			}
			text += fmt.Sprintf(" at %d Hz", hz)
		}
		text += fmt.Sprintf("; images: %d", len(rec.ByImage()))
		if list := report.Losses(rec.Lost(), rec.Samples()); list != "" {
			text += "; in no image: " + list
		}
		l.Notify.Warn("%s", text)
		if timers > 0 {
			l.tellTimers(opt.Frequency)
		}
	}
	if opt.OffCPU {
		l.tellOff(rec, n.Off, n.Events)
	}
	if n.Filtered > 0 {
		l.Notify.Warn("the kernel samples all processes for this: of %d samples in user mode, %d in the kernel and %d idle, %d were of others than those asked for, and are left out",
			n.User, n.Kernel, n.Idle, n.Filtered)
	}
	l.tellTimes(n.Events)
	for _, c := range rec.Counts {
		if missed := n.TimerMissed(c.Event.Period); c.Event.Unit == "ns" && !opt.Tick && missed > muchMissed {
			l.Notify.Warn("%s: %.0f%% of the times when it was to take a sample, it took none, as interrupts came late or a hypervisor ran others: shares are right, and times and executions may be too low by as much; a lower -F misses fewer", c.Event.Name, 100*missed)
		}
	}
	if n.Failed > 0 {
		l.Notify.Warn("%d samples (%s) dropped: map full; a lower -F drops fewer", n.Failed, report.Share(n.Failed, rec.Samples()+n.Failed))
	}
	if n.Bare > 0 {
		l.Notify.Warn("%d samples (%s) have no callers or branch records: ring full; they count, and a lower -F has more of them whole", n.Bare, report.Share(n.Bare, rec.Samples()))
	}
	if n.Shed > 0 {
		l.Notify.Warn("stacks of some code are by frame pointers alone: %d times there was no room for the rows of an image, or for a process", n.Shed)
	}
	l.tellLostRecords(n.LostRecords)
}

// tellTimers says that the kernel's timers fire less often than was asked for, where they do.
func (l Live) tellTimers(hz int) {
	if slow := collect.SlowTimers(hz); slow != nil {
		l.Notify.Warn("%s", slow.Reason())
	}
}

// tellOff says how much time threads were off the processor, and what is not known of it.
func (l Live) tellOff(rec *sample.Recording, n collect.OffCounters, sampled []collect.EventTime) {
	by := map[string]uint64{}
	var all, lost uint64
	for _, c := range rec.Off {
		by[strings.TrimPrefix(c.Event.Name, sample.OffCPU+":")] += c.Total
		all, lost = all+c.Total, lost+c.Lost[sample.LostDropped]
	}
	var why []string
	for _, name := range report.MostFirst(by) {
		why = append(why, name+" "+report.Amount(sample.OffCPU, by[name]))
	}
	text := fmt.Sprintf("threads were off the processor for %s in all, in %d waits: %s", report.Amount(sample.OffCPU, all), n.Times, strings.Join(why, ", "))
	if n.Times > 0 && n.Stacks < n.Times/2 {
		text += fmt.Sprintf("; %s of them have a stack, and how the time of a place divides among its stacks is estimated from those", report.Share(n.Stacks, n.Times))
	}
	if n.Untimed == "" {
		text += fmt.Sprintf("; the kernel's programs took %s of processor time at switches", report.Seconds(n.Took.Seconds()))
		if len(sampled) > 0 && sampled[0].Running > 0 { // of all processors, while they were sampled
			text += fmt.Sprintf(", %s of all there was", report.Percent(n.Took.Seconds()/sampled[0].Running.Seconds()))
		}
	} else {
		text += "; what the kernel's programs took at switches is not known: " + n.Untimed
	}
	l.Notify.Warn("%s; prof --event %s shows it", text, sample.OffCPU)
	if n.Failed > 0 {
		l.Notify.Warn("%d waits dropped: map full; %s of time off the processor have no place for it, and what was not seen to begin is not counted", n.Failed, report.Amount(sample.OffCPU, lost))
	}
	if n.Bare > 0 {
		l.Notify.Warn("%d waits have no stack: there was no room; their time is divided as that of others from the same place", n.Bare)
	}
}

// Processes records a command or processes, and tells how it went. A recording without
// samples is an error.
func Processes(ctx context.Context, opt collect.Options, live Live) (*sample.Recording, *collect.Stats, error) {
	if line := live.line(opt.Duration); line != nil || live.Images != nil {
		opt.Progress = func(p collect.Progress) {
			line.show(p)
			if live.Images != nil {
				live.Images(p.Images)
			}
		}
	}
	opt.Opened, opt.Maps = live.Opened, live.Maps
	ctx, end := live.guarded(ctx, mostMemory)
	began := time.Now()
	rec, stats, err := collect.Record(ctx, opt)
	lasted := time.Since(began)
	live.Notify.Done()
	end()
	if unavailable := (*collect.Unavailable)(nil); errors.As(err, &unavailable) {
		return nil, nil, fail.Wrap(fail.Machine, err)
	}
	if errors.Is(err, collect.ErrEvent) {
		return nil, nil, fail.Errorf(fail.Usage, "--event: %w", err)
	}
	if err != nil {
		return nil, nil, err
	}
	live.tellRecording(rec, stats, opt.Frequency)
	if rec.Delivered() == 0 {
		return nil, nil, fail.Errorf(fail.Nothing, "no samples: %s", whyNone(opt, stats))
	}
	rec.AddRun(collect.RunOf(began, lasted, opt.Command, stats.Command))
	return rec, stats, nil
}

// clockAlike is the ratio of clocks below which they are not told apart.
const clockAlike = 1.02

// tellRecording says what was recorded and what was lost.
func (l Live) tellRecording(rec *sample.Recording, stats *collect.Stats, hz int) {
	if n := rec.Samples(); n > 0 {
		var parts []string
		timers := false
		for _, c := range rec.Counts {
			timers = timers || c.Event.Unit == "ns"
			name, rate := c.Event.Name, every(c.Event) // how many that is in a second, the program decides
			if !stats.Chosen {
				if name = stats.Event(); c.Event.Unit == "ns" {
					rate = fmt.Sprintf(" at %d Hz", collect.TimerRate(hz))
				}
			}
			parts = append(parts, fmt.Sprintf("%d samples of %s%s", c.Total, name, rate))
		}
		text := fmt.Sprintf("%s; images: %d", strings.Join(parts, "; "), len(rec.ByImage()))
		if list := report.Losses(rec.Lost(), n); list != "" {
			text += "; in no image: " + list
		}
		if c := stats.Clock; c.Times > 0 {
			text += fmt.Sprintf("; clock %.2f GHz", c.Most)
			if c.Most > clockAlike*c.Least {
				text += fmt.Sprintf(" at most, %.2f at least", c.Least)
			}
		}
		l.Notify.Warn("%s", text)
		if timers {
			l.tellTimers(hz)
		}
	}
	l.tellBegan(rec, stats)
	l.tellTimes(stats.Times)
	for _, e := range stats.Times {
		if e.Missed > 0 {
			l.Notify.Warn("%s: %.0f%% of what was counted brought no sample, as interrupts came late, sampling paused or threads ended before; those there are stand for it: nothing to do", e.Name, 100*e.Missed)
		}
	}
	l.tellTraced(stats.Traced)
	l.tellLostRecords(stats.LostRecords)
	if stats.Throttled > 0 {
		l.Notify.Warn("the kernel stopped sampling %d times until its next tick, as there were more samples than kernel.perf_event_max_sample_rate: there are fewer than asked for; a lower -F avoids that", stats.Throttled)
	}
}

// muchMissed is the share of a timer's samples from which on it is said that they are missing.
const muchMissed = 0.05

// manyBegan is how many threads may begin for each sample before it matters that the first period of each has none: where
// each ran for that long or longer, they miss half a period each, an eighth of what samples stand for.
const manyBegan = 0.25

// tellBegan says that short processes have fewer samples than their share, where there are many. The kernel begins a
// thread's timer with a whole period: of `make`, whose 2400 children run for half a millisecond each, 997 Hz took a
// tenth of the samples that there was time for.
func (l Live) tellBegan(rec *sample.Recording, stats *collect.Stats) {
	for _, c := range rec.Counts {
		if c.Event.Unit == "ns" && float64(stats.Began) > manyBegan*float64(c.Delivered()) && c.Delivered() > 0 {
			period := time.Duration(c.Event.Period)
			l.Notify.Warn("%d threads and processes began meanwhile, and the kernel takes the first sample of each after %v of its time: shares lean to those that run for longer; a higher -F misses less, and record -a or --calibrate, as root, sample processors, not threads",
				stats.Began, period.Round(max(period/1000, 1)))
			return
		}
	}
}

// tellTimes says which events were not counted all of the time.
func (l Live) tellTimes(times []collect.EventTime) {
	for _, e := range times {
		if float64(e.Running) < sample.AlwaysCounted*float64(e.Enabled) {
			l.Notify.Warn("%s was counted for %s of the time (multiplexing reliability): it shares a counter with others, and its counts are of that time, not scaled to all of it; shares are right all the same, and fewer events at once have a counter each",
				e.Name, report.Share(uint64(e.Running), uint64(e.Enabled)))
		}
	}
}

// every says how many events there are to a sample, in words that follow the name of the event.
func every(ev sample.Event) string {
	switch {
	case ev.Unit == "ns":
		return fmt.Sprintf(", one for each %v of processor time", time.Duration(ev.Period).Round(time.Microsecond))
	case ev.Period == 1:
		return ", one for each"
	}
	return fmt.Sprintf(", one of every %d", ev.Period)
}

// tellTraced says that ptrace was used, why, what it cost, and what would be better.
func (l Live) tellTraced(t *collect.Traced) {
	if t == nil {
		return
	}
	var text strings.Builder
	text.WriteString("sampled by ptrace")
	if t.Why != "" {
		fmt.Fprintf(&text, ", as %s,", t.Why)
	}
	fmt.Fprintf(&text, " once in %v: stopping threads %d times took %v and backfeed itself %v, beside %v of the program",
		t.Period.Round(time.Microsecond), t.Stops, t.Stopped.Round(time.Millisecond), t.Own.Round(time.Millisecond), t.Program.Round(time.Millisecond))
	if t.Fix != "" {
		text.WriteString("; for less cost and no stops: " + lowerFirst(t.Fix))
	}
	l.Notify.Warn("%s", text.String())
	if t.Interrupted > 0 {
		l.Notify.Warn("%d system calls of the program returned EINTR for being sampled: see that it took that well", t.Interrupted)
	}
	for _, name := range t.Setuid {
		l.Notify.Warn("%s ran without the privileges of its file, as programs do that a user without them traces; record it as root", report.Clean(name))
	}
}

func lowerFirst(s string) string { return strings.ToLower(s[:1]) + s[1:] }

func (l Live) tellLostRecords(n uint64) {
	if n > 0 {
		l.Notify.Warn("the kernel dropped %d records of mappings and processes: if many samples are unmapped, record again with less running beside", n)
	}
}

// whyNone guesses why a recording has no samples.
func whyNone(opt collect.Options, stats *collect.Stats) string {
	if why := privileged(opt); why != "" {
		return why + "the kernel has no samples of such a program for a user without its privileges; record it as root"
	}
	if stats.Command != nil {
		text := fmt.Sprintf("%s used %v of processor time in user mode; run it longer", opt.Command[0], stats.Command.UserTime().Round(time.Millisecond))
		return text + OrRaise(opt.Frequency)
	}
	return "the processes used next to no processor time in user mode; record for longer, or while they have something to do"
}

// privileged begins a sentence on a command that runs with more privileges than this user has; "" if it does not.
func privileged(opt collect.Options) string {
	if len(opt.Command) == 0 {
		return ""
	}
	if why := collect.Privileged(opt.Command[0]); why != "" {
		return report.Clean(opt.Command[0]) + " " + why + ", and "
	}
	return ""
}

// OrRaise is what else helps against few samples than to record for longer: a higher rate, where the kernel's timers have one.
func OrRaise(hz int) string {
	if collect.SlowTimers(hz) != nil {
		return ""
	}
	return fmt.Sprintf(", or raise -F from %d Hz", hz)
}

// CommandError returns the error for a recorded command that failed.
func CommandError(opt collect.Options, stats *collect.Stats) error {
	if stats.Command == nil || stats.Command.Success() {
		return nil
	}
	ended := stats.Command.String()
	if opt.Duration > 0 && strings.HasPrefix(ended, "signal: terminated") {
		return nil // as was asked for
	}
	return fmt.Errorf("%s: %s; what was recorded until then is written", report.Clean(opt.Command[0]), ended)
}
