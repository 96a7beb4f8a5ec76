package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"backfeed/cmd/internal/calibrate"
	"backfeed/cmd/internal/report"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// calibrateFlags are those of commands that may calibrate.
type calibrateFlags struct {
	budget share // 0 is no calibration
	dry    bool
	log    string
}

// define adds the flags; dry is one where something else is done than to record.
func (f *calibrateFlags) define(fs *flagSet, dry bool) {
	fs.Var(&f.budget, "calibrate", "see exactly where branches go and how often code runs, by walks and probes, which may take `percent` of the processor time")
	fs.Lookup("calibrate").NoOptDefVal = "1%"
	fs.Lookup("calibrate").DefValue = ""
	fs.StringVar(&f.log, "calibrate-log", "", "write to `file` what was probed when, and what was counted")
	if dry {
		fs.BoolVar(&f.dry, "dry-run", false, "with --calibrate, say what would be probed, and probe nothing")
	}
}

// check finds what does not go together.
func (f *calibrateFlags) check() error {
	switch {
	case f.budget == 0 && (f.dry || f.log != ""):
		return errors.New("--dry-run and --calibrate-log go with --calibrate")
	case f.dry && f.log != "":
		return errors.New("want --dry-run or --calibrate-log, not both")
	}
	return nil
}

// options opens the log, and makes options of the flags.
func (f *calibrateFlags) options(pids []int, notify report.Notify) (calibrate.Options, error) {
	opt := calibrate.Options{Budget: float64(f.budget), Dry: f.dry, PIDs: pids, Notify: notify}
	if f.log != "" {
		log, err := appendTo(f.log)
		if err != nil {
			return opt, fmt.Errorf("--calibrate-log: %w", err)
		}
		opt.Log = log
	}
	return opt, nil
}

// calibrated records a command, processes or the machine with probes, until the time is
// up, a signal comes or what is recorded has ended. State is that of the command.
func (c *cli) calibrated(opt collect.Options, what systemFlags, flags calibrateFlags) (rec *sample.Recording, state *os.ProcessState, err error) {
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
		what.pids = []int{held.PID()}
	}
	ctx, stop := untilSignal(held != nil)
	defer stop()
	so := what.options()
	so.Probes, so.Callers = true, true
	sys, err := openSystem(so)
	if err != nil {
		return nil, nil, err
	}
	c.tellWithout(sys)
	defer sys.Close()
	ko, err := flags.options(what.pids, notices{c})
	if err != nil {
		return nil, nil, err
	}
	k, err := calibrate.New(sys, ko)
	if err != nil {
		return nil, nil, err
	}
	defer k.Close()
	if opt.Duration > 0 {
		ctx, stop = context.WithTimeout(ctx, opt.Duration)
		defer stop()
	}
	ended := endOf(what.pids)
	if held != nil {
		ended = held.Ended()
		if err := held.Release(); err != nil {
			return nil, nil, err
		}
	}
	rec, err = k.Record(ctx, sys, ended, c.recordingLine(opt.Duration, held != nil).showSum)
	c.clearProgress()
	if err != nil {
		return nil, nil, err
	}
	if held != nil {
		held.Stop()
		state = held.State()
	}
	c.tellSystem(rec, sys.Counters(), what)
	if flags.dry {
		return rec, state, k.WritePlan(c.stdout)
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
