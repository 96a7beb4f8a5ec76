package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/sample"
	"backfeed/sample/collect"
)

var recordCmd = &command{
	name: "record", args: "[-F HZ] [-d TIME] [-p PID] [-o FILE] [-- CMD ARG...]", short: "sample a command or running processes",
	long: `Samples are taken in user mode only, with the best the machine has (` + "`backfeed doctor`" + ` says what
that is): hardware cycles with branch records, hardware cycles, or the timer of event cpu-clock.
Threads and children are sampled with their parents. A user's own processes need no privilege.

CMD keeps its standard streams; with -o - its standard output goes to standard error. If CMD fails,
the recording is written all the same, and the exit code is 1. SIGTERM to backfeed, or the end of
the time of -d, ends CMD by SIGTERM; processes named by -p run on.`,
	run: runRecord,
}

// recordFlags are those of commands that record.
type recordFlags struct {
	hz    *int
	limit *time.Duration
	pids  *[]int
}

func (c *cli) recordFlags() recordFlags {
	// What follows CMD is its own.
	c.fs.SetInterspersed(false)
	return recordFlags{
		hz:    c.fs.IntP("frequency", "F", collect.DefaultFrequency, "take `HZ` samples per second of processor time"),
		limit: c.fs.DurationP("duration", "d", 0, "stop after `TIME`, such as 30s (default: when CMD or the processes end)"),
		pids:  c.fs.IntSliceP("pid", "p", nil, "sample the running processes `PID[,PID...]`"),
	}
}

// options makes recording options of the flags and the command line's rest.
func (f recordFlags) options(command []string) (collect.Options, error) {
	switch {
	case len(command) > 0 && len(*f.pids) > 0:
		return collect.Options{}, errors.New("want a command or -p, not both")
	case len(command) == 0 && len(*f.pids) == 0:
		return collect.Options{}, errors.New("nothing to record: want a command or -p")
	case *f.hz <= 0:
		return collect.Options{}, fmt.Errorf("-F %d: want a positive number", *f.hz)
	case *f.limit < 0:
		return collect.Options{}, fmt.Errorf("-d %v: want a positive time", *f.limit)
	}
	return collect.Options{Command: command, PIDs: *f.pids, Frequency: *f.hz, Duration: *f.limit}, nil
}

func runRecord(c *cli, args []string) error {
	fs := c.flags()
	flags := c.recordFlags()
	out := fs.StringP("output", "o", "backfeed.bfr", "write the recording to `file`")
	rec, opt, stats, err := c.recorded(args, flags, out, "record: a recording")
	if err != nil || rec == nil {
		return err
	}
	err = c.write(*out, func(w io.Writer) error {
		_, err := w.Write(rec.Encode())
		return err
	})
	if err != nil {
		return err
	}
	return commandError(opt, stats)
}

// recorded parses args and records what they ask for. What is made of it, called
// product, will be written to out: then standard output is not for the command.
// There is no recording, and no error, where help was asked for.
func (c *cli) recorded(args []string, flags recordFlags, out *string, product string) (*sample.Recording, collect.Options, *collect.Stats, error) {
	none := collect.Options{}
	if err := c.fs.Parse(args); err != nil {
		return nil, none, nil, c.usage(err)
	}
	opt, err := flags.options(c.fs.Args())
	if err != nil {
		return nil, none, nil, c.usage(err)
	}
	if *out == "-" && isTerminal(c.stdout) {
		return nil, none, nil, failf(exitUsage, "%s is not for a terminal; name a file with -o", product)
	}
	c.lendStreams(&opt)
	if *out == "-" {
		opt.Stdout = opt.Stderr
	}
	rec, stats, err := c.record(opt)
	return rec, opt, stats, err
}

// lendStreams gives the recorded command those of this process.
func (c *cli) lendStreams(opt *collect.Options) {
	opt.Stdin, _ = c.stdin.(*os.File)
	opt.Stdout, _ = c.stdout.(*os.File)
	opt.Stderr, _ = c.stderr.(*os.File)
}

// record records, and tells how it went. A recording without samples is an
// error.
func (c *cli) record(opt collect.Options) (*sample.Recording, *collect.Stats, error) {
	ctx, stop := untilSignal(len(opt.Command) > 0)
	defer stop()
	rec, stats, err := collect.Record(ctx, opt)
	if unavailable := (*collect.Unavailable)(nil); errors.As(err, &unavailable) {
		return nil, nil, withCode(exitMachine, err)
	}
	if err != nil {
		return nil, nil, err
	}
	c.tellRecording(rec, stats, opt.Frequency)
	if delivered(rec) == 0 {
		return nil, nil, failf(exitNothing, "no samples: %s", whyNone(opt, stats))
	}
	return rec, stats, nil
}

// untilSignal gives a context that ends with the first signal to end. A terminal
// sends its interrupt to the recorded command too, which decides for itself:
// backfeed then waits for it.
func untilSignal(command bool) (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGHUP)
	if !command {
		return signal.NotifyContext(ctx, os.Interrupt)
	}
	interrupts := make(chan os.Signal, 1)
	signal.Notify(interrupts, os.Interrupt)
	return ctx, func() {
		signal.Stop(interrupts)
		stop()
	}
}

// delivered is the number of samples that the kernel did not drop.
func delivered(rec *sample.Recording) uint64 {
	var n uint64
	for _, counts := range rec.Counts {
		n += counts.Delivered()
	}
	return n
}

// tellRecording says what was recorded and what was lost.
func (c *cli) tellRecording(rec *sample.Recording, stats *collect.Stats, hz int) {
	if n := rec.Samples(); n > 0 {
		text := fmt.Sprintf("%d samples of %s at %d Hz; images: %d", n, stats.Event(), hz, len(sampled(rec)))
		if list := lossList(lost(rec), n); list != "" {
			text += "; lost: " + list
		}
		c.warn("%s", text)
	}
	if stats.LostRecords > 0 {
		c.warn("the kernel dropped %d records of mappings and processes: samples may be called unmapped for that", stats.LostRecords)
	}
	if stats.Throttled > 0 {
		c.warn("the kernel stopped sampling %d times to save time; a lower -F avoids that", stats.Throttled)
	}
}

// whyNone guesses why a recording has no samples.
func whyNone(opt collect.Options, stats *collect.Stats) string {
	if stats.Command != nil {
		return fmt.Sprintf("%s used %v of processor time in user mode; run it longer, or raise -F from %d Hz",
			opt.Command[0], stats.Command.UserTime().Round(time.Millisecond), opt.Frequency)
	}
	return "the processes used next to no processor time in user mode"
}

// commandError is the error for a recorded command that failed.
func commandError(opt collect.Options, stats *collect.Stats) error {
	if stats.Command == nil || stats.Command.Success() {
		return nil
	}
	ended := stats.Command.String()
	if opt.Duration > 0 && strings.HasPrefix(ended, "signal: terminated") {
		return nil // as was asked for
	}
	return fmt.Errorf("%s: %s; what was recorded until then is written", report.Clean(opt.Command[0]), ended)
}
