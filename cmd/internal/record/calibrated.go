package record

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"backfeed/cmd/internal/calibrate"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// Calibrated records a command or processes as opt says, or else the machine, with walks and
// probes, until ctx is done, the time is up or what is recorded has ended. With ko.Dry, it
// prints to plan what would be probed. State is that of the command.
func Calibrated(ctx context.Context, opt collect.Options, so collect.SystemOptions, ko calibrate.Options, plan io.Writer, live Live) (rec *sample.Recording, state *os.ProcessState, err error) {
	begun := false
	ko.Whole, ko.Before, ko.Length = true, collect.ProcessorTime(), cmp.Or(opt.Duration, ko.Length)
	defer func() {
		if !begun && ko.Log != nil {
			ko.Log.Close()
		}
	}()
	held, err := hold(opt)
	if err != nil {
		return nil, nil, err
	}
	if held != nil {
		defer held.Stop()
		so.PIDs = []int{held.PID()}
	}
	so.Probes, so.Callers, so.Origins = true, collect.CallersOfAll, true
	ko.PIDs = so.PIDs
	so.Opened, so.Maps = live.Opened, live.Maps
	sys, err := OpenSystem(so)
	var from calibrate.Sampler
	if refused := (*collect.Unavailable)(nil); errors.As(err, &refused) && calibrate.Alone(ko) {
		live.Notify.Warn("--calibrate: long walks alone, of these processes: %s", refused.Reason())
		from, err = openOwn(opt, so.PIDs)
		if errors.As(err, &refused) {
			ko.Alone, err = &calibrate.LongAlone{Frequency: opt.Frequency, MaxCPU: opt.MaxCPU}, nil
		}
		sys = nil
	} else if err == nil {
		live.tellWithout(sys)
		from = sys
	}
	if err != nil {
		return nil, nil, err
	}
	if from != nil {
		defer from.Close()
	}
	begun = true // New closes the log
	began := time.Now()
	lasted := clocked(began)
	k, err := calibrate.New(sys, ko)
	if err != nil {
		return nil, nil, err
	}
	defer k.Close()
	if opt.Duration > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, opt.Duration)
		defer stop()
	}
	var ended <-chan struct{}
	if held == nil {
		ended = endOf(so.PIDs)
	} else {
		ended = held.Ended()
		if err := k.Release(held); err != nil {
			return nil, nil, err
		}
	}
	defer context.AfterFunc(ctx, func() { lasted() })()
	go func() {
		select {
		case <-ended:
			lasted()
		case <-ctx.Done():
		}
	}()
	rec, state, err = live.ended(ctx, held, func(ctx context.Context) (*sample.Recording, error) {
		return k.Record(ctx, from, ended, live.drained(opt.Duration))
	})
	if err != nil {
		return nil, nil, err
	}
	if sys != nil {
		live.tellSystem(rec, sys.Counters(), so)
	} else {
		live.tellSystem(rec, collect.Counters{}, so)
		if why := privileged(opt); why != "" {
			live.Notify.Warn("%sran without these privileges, as programs do that a user without them traces; record it as root", why)
		}
	}
	if ko.Dry {
		return rec, state, k.WritePlan(plan)
	}
	k.Tell(rec)
	rec.AddRun(collect.RunOf(began, lasted(), opt.Command, state))
	return rec, state, nil
}

// hold starts the command, which waits to be released, or sees that the processes run. Of these, it returns nil.
func hold(opt collect.Options) (*collect.Held, error) {
	for _, pid := range opt.PIDs {
		if !collect.Alive(pid) {
			return nil, fmt.Errorf("there is no process %d, or it has ended", pid)
		}
	}
	if len(opt.Command) == 0 {
		return nil, nil
	}
	return collect.StartHeld(opt)
}

// ended returns what record makes within bounds of memory, and how the held command ended, which is no more then; held may be nil.
func (l Live) ended(ctx context.Context, held *collect.Held, record func(ctx context.Context) (*sample.Recording, error)) (*sample.Recording, *os.ProcessState, error) {
	ctx, end := l.guarded(ctx, mostMemory)
	rec, err := record(ctx)
	l.Notify.Done()
	end()
	if err != nil || held == nil {
		return rec, nil, err
	}
	held.Stop()
	return rec, held.State(), nil
}

// openOwn samples the processes of a user without privileges.
func openOwn(opt collect.Options, pids []int) (calibrate.Sampler, error) {
	s, err := collect.OpenOwn(collect.Options{PIDs: pids, Frequency: opt.Frequency})
	if err != nil {
		return nil, err
	}
	return s, nil
}

// endOf is closed when all of some processes have ended; of none it never is.
func endOf(pids []int) <-chan struct{} {
	if len(pids) == 0 {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		for slices.ContainsFunc(pids, collect.Alive) {
			time.Sleep(100 * time.Millisecond)
		}
		close(ended)
	}()
	return ended
}
