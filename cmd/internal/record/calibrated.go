package record

import (
	"context"
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
	defer func() {
		if !begun && ko.Log != nil {
			ko.Log.Close()
		}
	}()
	for _, pid := range opt.PIDs {
		if !collect.Alive(pid) {
			return nil, nil, fmt.Errorf("there is no process %d, or it has ended", pid)
		}
	}
	var held *collect.Held
	if len(opt.Command) > 0 {
		if held, err = collect.StartHeld(opt); err != nil {
			return nil, nil, err
		}
		defer held.Stop()
		so.PIDs = []int{held.PID()}
	}
	so.Probes, so.Callers = true, true
	sys, err := OpenSystem(so)
	if err != nil {
		return nil, nil, err
	}
	live.tellWithout(sys)
	defer sys.Close()
	ko.PIDs, begun = so.PIDs, true // New closes the log
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
	ended := endOf(so.PIDs)
	if held != nil {
		ended = held.Ended()
		if err := held.Release(); err != nil {
			return nil, nil, err
		}
	}
	rec, err = k.Record(ctx, sys, ended, live.line(opt.Duration).showSum)
	live.Notify.Done()
	if err != nil {
		return nil, nil, err
	}
	if held != nil {
		held.Stop()
		state = held.State()
	}
	live.tellSystem(rec, sys.Counters(), so)
	if ko.Dry {
		return rec, state, k.WritePlan(plan)
	}
	k.Tell(rec)
	return rec, state, nil
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
