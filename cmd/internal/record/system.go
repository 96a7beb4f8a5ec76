package record

import (
	"context"
	"os"
	"sync"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// System records a command or processes by the programs in the kernel, as so says how, until ctx is done, the time is up
// or what is recorded has ended; of neither, what so says. State is that of the command. A recording without samples is an error.
func System(ctx context.Context, opt collect.Options, so collect.SystemOptions, live Live) (rec *sample.Recording, state *os.ProcessState, err error) {
	held, err := hold(opt)
	if err != nil {
		return nil, nil, err
	}
	if held != nil {
		defer held.Stop()
		so.PIDs = []int{held.PID()}
	} else if len(opt.PIDs) > 0 {
		so.PIDs = opt.PIDs
	}
	so.Origins = true
	so.Opened, so.Maps = live.Opened, live.Maps
	sys, err := OpenSystem(so)
	if err != nil {
		return nil, nil, err
	}
	live.tellWithout(sys)
	began := time.Now()
	lasted := clocked(began)
	if opt.Duration > 0 { // from now on: it may have taken a while to get here
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opt.Duration)
		defer cancel()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := endOf(opt.PIDs)
	if held != nil {
		ended = held.Ended()
		if err := held.Release(); err != nil {
			sys.Close()
			return nil, nil, err
		}
	}
	go func() {
		select {
		case <-ended:
			stop()
		case <-ctx.Done():
		}
	}()
	defer context.AfterFunc(ctx, func() { lasted() })()
	rec, state, err = live.ended(ctx, held, func(ctx context.Context) (*sample.Recording, error) {
		every := drainEvery
		if so.OffCPU {
			every = drainOffEvery
		}
		return drainUntil(ctx, sys, live.every(every), live.drained(opt.Duration))
	})
	if err != nil {
		return nil, nil, err
	}
	live.tellSystem(rec, sys.Counters(), so)
	if rec.Delivered() == 0 && len(rec.Off) == 0 {
		return nil, nil, fail.Errorf(fail.Nothing, "no samples: nothing that was to be sampled ran; see that it has something to do, or record for longer")
	}
	rec.AddRun(collect.RunOf(began, lasted(), opt.Command, state))
	return rec, state, nil
}

// clocked returns what returns how long a recording that began then has lasted, until it is first called: what is read and written after
// its end is no part of it.
func clocked(began time.Time) (lasted func() time.Duration) {
	return sync.OnceValue(func() time.Duration { return time.Since(began) })
}
