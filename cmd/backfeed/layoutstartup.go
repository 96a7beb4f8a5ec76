package main

import (
	"fmt"
	"time"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/layout"
	"backfeed/sample"
)

const startupHelp = `With --startup, what runs at the start of a program comes first, together with what runs at the same
time, so that fewer pages are read before it is up; --startup=200ms takes in what runs within that time.
The recordings must have seen processes begin: ` + "`backfeed record -- CMD`" + ` and ` + "`perf record -- CMD`" + ` do, -p and
-a of backfeed do not. One start has few samples, so record many: CMD may be a loop of a shell, and
recordings add up. Each SRC is one way to start: what runs in the same of them lies together. Page faults
that perf recorded beside a timer (-F max -e cpu-clock -e page-faults/period=1/) show code that no timer sees;
the counts are then best taken from the timer, with --event cpu-clock.`

// startup defines the flag that asks for an order by what runs first. It is 0 if
// nobody asks.
func (c *cli) startup() *time.Duration {
	within := c.fs.Duration("startup", 0, "put first what runs within `duration` of a process's start")
	c.fs.Lookup("startup").NoOptDefVal = (sample.MaxFirst * time.Microsecond).String()
	return within
}

// checkStartup reports what is wrong with the flag for a target.
func checkStartup(target string, within time.Duration) error {
	if within > 0 && (target == "propeller" || target == "go") {
		return fmt.Errorf("--startup orders whole functions: nothing for --for %s", target)
	}
	return nil
}

// order orders the functions of an image for a target, by their first touches if within is not 0.
func (c *cli) order(src *input.Session, ip *infer.ImageProfile, target string, within time.Duration) (*layout.Order, error) {
	c.progress("ordering %d functions of %s", len(ip.Procs), ip.ID.Path)
	defer c.clearProgress()
	progress := func(done, total int) {
		c.progress("ordering %d functions of %s: %d%%", total, ip.ID.Path, 100*done/max(total, 1))
	}
	if within == 0 {
		order := layout.FunctionsProgress(ip, progress)
		order.Beside(src.Profile.Images)
		if emit.Settles(target) {
			order.Settle(func(done, total int) {
				c.progress("moving functions of %s: %d%%", ip.ID.Path, 100*done/max(total, 1))
			})
		}
		return order, nil
	}
	var seen []layout.Start
	for _, s := range src.Starts {
		if start := layout.NewStart(ip.Image, s[ip.ID.Key()]); len(start) > 0 {
			seen = append(seen, start)
		}
	}
	if len(seen) == 0 {
		return nil, fail.Errorf(fail.Nothing, "--startup: no sample says when code of %s first ran; record how it starts with `backfeed record -- CMD` or `perf record -- CMD`, which see processes begin", report.Clean(ip.ID.Path))
	}
	order := layout.Startup(ip, seen, uint64(within.Microseconds()), progress)
	order.Beside(src.Profile.Images)
	if order.Start.Seen == 0 {
		return nil, fail.Errorf(fail.Nothing, "--startup=%v: no function of %s was seen to run so early; give more time, or raise -F of record", within, report.Clean(ip.ID.Path))
	}
	if least := len(src.Starts) - len(seen); least > 0 {
		c.warn("%d of %d sources do not say when code of %s first ran: their counts alone are used", least, len(src.Starts), report.Clean(ip.ID.Path))
	}
	return order, nil
}

// tellStart says the same in a sentence.
func (c *cli) tellStart(start *layout.StartScores) {
	if start == nil {
		return
	}
	c.warn("start: %d functions seen, %d called by them; page faults of 4 KiB: %d, was %d; of 64 KiB: %d, was %d",
		start.Seen, start.Called, start.After.Single, start.Before.Single, start.After.Around, start.Before.Around)
}
