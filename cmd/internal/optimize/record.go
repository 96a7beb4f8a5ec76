package optimize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"backfeed/cmd/internal/calibrate"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/record"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// What a recording should have, of how many runs at most, and at which rates.
const (
	enoughSamples = 20000
	mostRecorded  = 8
	mostHz        = 4001
)

// A recording with walks and probes has so much processor time for these, of which 0.2 s are for them to begin, and takes so long at most, as
// far as so many runs do. A run that is recorded is not measured: they may take more of its time than in production.
const (
	UsualCalibrate = 0.1
	forCalibrating = 2 * time.Second
	longestRecord  = time.Minute
	mostCalibrated = 1000
)

// recordMaxCPU is what sampling by ptrace may take.
const recordMaxCPU = 0.25

// recorded records runs of a program, and infers nothing yet.
func (j *job) recorded(ctx context.Context, s *stage) (*input.Session, error) {
	j.notify.Progress("recording %s", j.Name)
	var rec *sample.Recording
	var err error
	if j.Calibrate > 0 {
		if rec, err = j.calibrated(ctx, s); err != nil && s == j.sampled {
			j.doc.Notes = append(j.doc.Notes, "not calibrated: "+report.Brief(j.says(err)))
		}
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if rec == nil { // not asked for, or not to be had: samples will do
		if rec, err = j.samples(ctx, s); err != nil {
			return nil, err
		}
	}
	if s == j.sampled {
		j.tellRecording(rec, s)
	}
	return input.Of(rec, input.Options{Images: []string{s.binary}, Infer: infer.Options{Executions: true}, Notify: report.Quiet{}})
}

// recording is what to record of a program at a rate that brings enough samples in the time that its run takes so often.
func (j *job) recording(s *stage, times int) collect.Options {
	opt := collect.Options{Dir: j.dir, Group: true, MaxCPU: recordMaxCPU}
	opt.Frequency = min(max(int(enoughSamples/(j.seconds()*float64(times))), collect.DefaultFrequency), mostHz)
	opt.Command = []string{"/bin/sh", "-c", repeated(filled(j.Run, s.binary, flags{}), times)}
	return opt
}

// seconds is what a run takes, of processor time.
func (j *job) seconds() float64 { return max(j.doc.Base.Seconds, 0.01) }

// repeated is a command of a shell that runs another one so many times, until it fails.
func repeated(run string, times int) string {
	if times == 1 {
		return run
	}
	return fmt.Sprintf("n=%d\nwhile [ $n -gt 0 ]; do\n(\n%s\n) || exit\nn=$((n-1))\ndone", times, run)
}

// samples records runs until there are enough samples, or it were enough of them.
func (j *job) samples(ctx context.Context, s *stage) (*sample.Recording, error) {
	opt := j.recording(s, 1)
	var sum sample.Recording
	for range mostRecorded {
		rec, stats, err := record.Processes(ctx, opt, j.live())
		if err != nil {
			return nil, err
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if err := record.CommandError(opt, stats); err != nil {
			return nil, fmt.Errorf("run `%s`, while it was recorded: %s", j.Run, stats.Command)
		}
		sum.AddAll(rec)
		if sum.Delivered() >= enoughSamples {
			break
		}
	}
	return sample.Merge(&sum), nil
}

// calibrated records runs with walks and probes. It returns an error where the machine has neither, or a run fails that way.
func (j *job) calibrated(ctx context.Context, s *stage) (*sample.Recording, error) {
	wanted := min(forCalibrating.Seconds()/j.Calibrate, longestRecord.Seconds())
	times := min(int(math.Ceil(wanted/j.seconds())), mostCalibrated)
	opt := j.recording(s, times)
	ko := calibrate.Options{Budget: j.Calibrate, Length: time.Duration(j.seconds() * float64(times) * 1e9), Notify: report.Quiet{}}
	rec, state, err := record.Calibrated(ctx, opt, collect.SystemOptions{Frequency: opt.Frequency}, ko, io.Discard, j.live())
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	case state != nil && !state.Success():
		return nil, fmt.Errorf("run, while it was: %v", state)
	case rec.Delivered() == 0:
		return nil, errors.New("no samples")
	}
	return rec, nil
}

// live says nothing of a recording while it goes on.
func (j *job) live() record.Live {
	return record.Live{Notify: report.Quiet{}, Without: func(*collect.Unavailable) {}}
}

// tellRecording notes what was recorded, and how much of it is the program's.
func (j *job) tellRecording(rec *sample.Recording, s *stage) {
	r := report.OptimizeRecording{Samples: rec.Samples()}
	if len(rec.Counts) > 0 {
		r.Event = rec.Counts[0].Event.Name
	}
	own := input.BuildsOf(s.binary, s.binary)
	for id, n := range rec.ByImage() {
		if own(id) {
			r.Program += n
		}
	}
	observed := rec.Observed(own)
	r.Walked, r.Probed, r.Counted = observed.Walked, observed.Probed, observed.Counted
	j.doc.Recording = &r
}
