package record

import (
	"context"
	"fmt"
	"os"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// Stacks records a command or processes with whole stacks, as so says how, until ctx is done, the time is up or
// what is recorded has ended. State is that of the command. A recording without samples is an error.
func Stacks(ctx context.Context, opt collect.Options, so collect.SystemOptions, live Live) (rec *sample.Recording, state *os.ProcessState, err error) {
	for _, pid := range opt.PIDs {
		if !collect.Alive(pid) {
			return nil, nil, fmt.Errorf("there is no process %d, or it has ended", pid)
		}
	}
	so.PIDs = opt.PIDs
	var held *collect.Held
	if len(opt.Command) > 0 {
		if held, err = collect.StartHeld(opt); err != nil {
			return nil, nil, err
		}
		defer held.Stop()
		so.PIDs = []int{held.PID()}
	}
	sys, err := OpenSystem(so)
	if err != nil {
		return nil, nil, err
	}
	live.tellWithout(sys)
	began := time.Now()
	if opt.Duration > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, opt.Duration)
		defer cancel()
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	ended := endOf(so.PIDs)
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
	ctx, end := live.guarded(ctx, mostMemory)
	rec, err = drainUntil(ctx, sys, live.line(opt.Duration))
	live.Notify.Done()
	end()
	if err != nil {
		return nil, nil, err
	}
	if held != nil {
		held.Stop()
		state = held.State()
	}
	live.tellSystem(rec, sys.Counters(), so)
	if rec.Delivered() == 0 {
		return nil, nil, fail.Errorf(fail.Nothing, "no samples: nothing that was to be sampled ran; see that it has something to do, or record for longer")
	}
	rec.AddRun(collect.RunOf(began, opt.Command, state))
	return rec, state, nil
}
