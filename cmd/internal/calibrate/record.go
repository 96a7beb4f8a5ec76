package calibrate

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/sample"
	"backfeed/sample/probe"
)

// rounds are when a recording is looked at to choose anew, since its start.
// At the first walks begin, at the second they tell what to probe.
var rounds = []time.Duration{time.Second, 4 * time.Second, 9 * time.Second, 20 * time.Second}

// roundAfter returns the time of the round after one.
func roundAfter(t time.Duration) time.Duration {
	for _, r := range rounds {
		if r > t {
			return r
		}
	}
	return 3 * t
}

// drainEvery is how often samples are taken in, of a recording of that length; 0 is not known. The first choice is soon.
func drainEvery(length time.Duration) time.Duration {
	if length == 0 {
		return time.Second / 2
	}
	return min(max(length/10, time.Second/4), time.Second)
}

// A Sampler is what samples come from while they are calibrated: a collect.System.
type Sampler interface {
	Drain() (*sample.Recording, error)
	Close() error
}

// Record samples until ctx is done or ended is closed, and chooses what to probe. With Options.Alone, it does so itself,
// and sys is nil. Each time that samples came in, drained is called with all so far.
func (k *Calibrator) Record(ctx context.Context, sys Sampler, ended <-chan struct{}, drained func(sum *sample.Recording)) (*sample.Recording, error) {
	tick := time.NewTicker(drainEvery(k.opt.Length))
	defer tick.Stop()
	if k.mayBeginLong() {
		k.beginLong()
	}
	if k.opt.Alone != nil {
		if k.long.err != nil {
			return nil, fail.Wrap(fail.Machine, k.long.err)
		}
		sys = k.long.own
	}
	start, round := time.Now(), roundAfter(0)
	var sum sample.Recording
	chosen := make(chan error, 1)
	choice, giveUp := context.WithCancel(ctx) // which a command that ends does not wait for
	defer giveUp()
	choosing := false
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
		case <-ended:
			done = true
		case err := <-chosen:
			k.complain(err)
			choosing = false
			k.share() // what it chose need not wait
			continue
		case <-tick.C:
		}
		if done {
			if giveUp(); choosing {
				<-chosen
			}
			k.complain(k.Stop())
			if err := sys.Close(); err != nil {
				return nil, err
			}
		}
		rec, err := sys.Drain()
		if err != nil {
			return nil, err
		}
		sum.AddAll(rec)
		drained(&sum)
		k.Drained(rec)
		if !done && !choosing && k.mayBeginLong() {
			k.beginLong()
		}
		if at := time.Since(start); !done && !choosing && k.mayBeginWalks() {
			choosing = true
			go func() { chosen <- k.beginWalks() }()
		} else if !done && !choosing && (at >= round || k.wants()) && k.May() {
			choosing, round = true, roundAfter(at)
			k.budget.due(round)
			so := k.toChoose(&sum)
			next := round - at
			go func() { chosen <- k.Choose(choice, so, next) }()
		} else if !done && !choosing && k.lacksCode() {
			choosing = true
			go func() { chosen <- k.extend() }()
		}
	}
	k.AddTo(&sum)
	return sample.Merge(&sum), nil
}

// toChoose copies what a choice looks at. Where walks tell of what calls what, stacks are no part of that.
func (k *Calibrator) toChoose(sum *sample.Recording) *sample.Recording {
	if k.walkless.Load() {
		return sample.Merge(sum)
	}
	return sample.Merge(sum.WithoutStacks())
}

// complain tells of an error of the probes. Samples are worth keeping all the same.
func (k *Calibrator) complain(err error) {
	if err != nil {
		k.opt.Notify.Warn("--calibrate: %v", err)
	}
}

// Tell says what was probed and walked for rec, and what that cost.
func (k *Calibrator) Tell(rec *sample.Recording) {
	k.tellWindows(rec)
	k.tellWalks()
	k.tellCost()
}

// tellWindows says what was probed, and what that cost.
func (k *Calibrator) tellWindows(rec *sample.Recording) {
	windows, added, of := k.run.Spent()
	if k.prober.Load() == nil {
		return // which was said, or there was no room for one
	}
	if windows == 0 {
		k.opt.Notify.Warn("no executions were counted: %s", noWindows(len(k.plan), time.Duration(k.used.Load())))
		return
	}
	probed := rec.Observed(nil).Probed
	k.opt.Notify.Warn("executions were counted at %d places, in %d windows, which took about %v of %s, at %v a hit",
		probed, windows, added.Round(time.Millisecond), shareOf(added, of), k.prober.Load().HitCost())
}

// longEnough is processor time in which places to probe are chosen, and some are probed, with a share of 1 % or more.
const longEnough = 10 * time.Second

// noWindows says why there was no window, though so many groups of places had been chosen to be probed in so much processor time, and what helps.
func noWindows(groups int, used time.Duration) string {
	switch {
	case used < longEnough:
		return "the time was too short, or no place was worth it; record for 10s of the program's processor time and more, or with a larger share for --calibrate"
	case groups > 0:
		return fmt.Sprintf("the rest of --calibrate left none of its share for the %s chosen, see below; a larger share has room", report.Plural(groups, "group"))
	}
	return "no place was worth it"
}

// WritePlan prints what would be probed.
func (k *Calibrator) WritePlan(w io.Writer) error {
	t := report.NewTable(report.Right("group"), report.Right("hits/s"), report.Left("counts").Drop(2), report.Left("address"), report.Procedures("procedure").Main(), report.Paths("file").Drop(1))
	for i, g := range k.plan {
		for j, s := range g.sites {
			number, rate, what := "", "", "runs, outcomes"
			if j == 0 {
				number, rate = strconv.Itoa(i+1), fmt.Sprintf("%.3g", g.Rate)
			}
			if !s.Runs {
				what = "outcomes"
			} else if s.Cond == probe.NoCond {
				what = "runs"
			}
			t.Row(number, rate, what, fmt.Sprintf("%#x", uint64(s.Addr)), k.opt.Style.NameOf(s.Proc.Proc.Name), g.File)
		}
	}
	return t.Print(w, k.opt.Style)
}
