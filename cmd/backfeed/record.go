package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/prose"
	"backfeed/cmd/internal/record"
	"backfeed/cmd/internal/report"
	"backfeed/cmd/internal/terminal"
	"backfeed/sample"
	"backfeed/sample/collect"
)

var recordCmd = &command{
	name: "record", args: "[-F HZ|--event NAME] [-d TIME] [-p PID] [-a] [--pprof URL] [--max-cpu SHARE] [--calibrate[=SHARE]] [-o FILE|--store DIR] [-- CMD ARG...]", short: "sample a command, running processes or the whole machine",
	long: `CMD, or the processes of -p with their threads and children, are sampled in user mode. -a samples all
that runs on the machine; -p and --cgroup then narrow that down.

The best that the machine has is used (` + "`backfeed doctor`" + ` says what that is): hardware cycles with branch
records, precise samples of retired instructions, hardware cycles, or the timer of event cpu-clock. A
user's own processes need no privilege. -a needs root, or the capabilities that doctor names.

Where the kernel refuses perf events, as in containers, event ptrace-clock takes their place: ptrace stops
threads that run for a moment. It costs more; its rate is lowered until it costs no more than --max-cpu.
Programs that use ptrace themselves, or are set-user-ID, do not work under it.

CMD keeps its standard streams; with -o - its standard output goes to standard error. If CMD fails, the
recording is written all the same, and the exit code is 1. SIGTERM to backfeed, or the end of -d,
ends CMD by SIGTERM. Processes of -p run on.

Where -F is beyond 5000, what a sample takes here is measured first, and timers take no more than fill a quarter of a
processor: record says so then.

On a terminal, a line shows samples, rate, losses and the time left. It is not shown while CMD writes
to the same terminal.

--pprof has a Go program that serves net/http/pprof profile itself, such as http://localhost:6060, here or on
another machine. That takes 100 samples for each second of processor time, and nothing of the kernel.

--event samples another event, by its name (cache-misses, branch-misses, page-faults), by the kernel's name
for one of this processor (inst_retired; an unknown name lists them), or by its number (r1c2), once
in --period of them. ` + "`backfeed prof --event`" + ` then shows where it occurred; read together with a recording of
time, its counts bound what stalls are explained by. Several events are sampled at once; where they share a
counter, samples are of the share of the time that is printed, which the recording keeps but for -a. With -a,
events are branches, instructions, cycles or cpu-clock, and --tick is the scheduler's tick.

Where a page fault takes 3us or more, as on virtual machines whose host looks at changes of page tables, faults are
watched beside the timer, too: samples of what they take tell of no executions.

--calibrate watches which way branches go, and how often code runs, for 1% of the processor time or the share
given. All of it needs the privileges of -a, and Linux 6.6 or later; of your own processes, a part needs neither.
` + "`backfeed help calibrate`" + ` says how, and what it costs the program. --dry-run lists what would be probed.

--callers has the kernel unwind whole stacks, of code without frame pointers, too. It needs the privileges of
-a; ` + "`backfeed help recordings`" + ` says more. Without, a command has 8 frames by frame pointers.

--off-cpu records where threads were off the processor too, for how long and why, with whole stacks, of a command,
of processes or with -a: ` + "`backfeed prof --event off-cpu`" + ` shows it, and ` + "`--event wall`" + ` all time. It takes some
1us of each switch of threads on the machine, and 5us of up to 1000 stacks a second of each processor. Without a
budget: what switches most would be left out by one. record says what it took; agent keeps --max-cpu.

--copy-to and, with --store, --keep-images copy what was sampled, so that the recording can be used when its files
were replaced; with --kernel, the kernel's code as it runs, too.

Of programs that begin while they are sampled, the recording has when their code was first seen, for
up to 10 seconds: layout --startup needs it. With -a it has not.

What a kernel is too old for is said with the release that has it; ` + collect.VerifierVar + `=1 in the
environment also prints what its verifier says of a program that it refuses.`,
	examples: `backfeed record -o app.bfr -- ./app input
backfeed record -p 1234 -d 30 --calibrate 1%
backfeed record -a -d 1m --store /var/lib/backfeed --label role=web
backfeed record --event cache-misses -- ./app input
backfeed record --off-cpu -o app.bfr -- ./app input
backfeed record --pprof http://localhost:6060 -d 30`,
	run: runRecord,
}

// recordFlags are those of commands that record.
type recordFlags struct {
	hz     *int
	limit  *time.Duration
	pids   *[]int
	maxCPU flagset.Share // of sampling by ptrace
	events *[]string     // nil where time is what is wanted
	period *uint64

	callers   callersFlag // "" is as frame pointers have them
	offCPU    bool
	calibrate calibrateFlags
}

func (c *cli) recordFlags() *recordFlags {
	// What follows CMD is its own.
	c.fs.SetInterspersed(false)
	f := &recordFlags{
		maxCPU: collect.DefaultMaxCPU,
		hz:     c.fs.IntP("frequency", "F", collect.DefaultFrequency, "take `HZ` samples per second of processor time"),
		limit:  c.fs.SecondsP("duration", "d", "stop after `duration`, such as 30s or 5m (default: when CMD or the processes end)"),
		pids:   c.fs.IntSliceP("pid", "p", nil, "sample the running processes `PID`; may be given several times"),
	}
	c.fs.Var(&f.maxCPU, "max-cpu", "where ptrace has to do, keep its cost below this share of a processor, or of the program's time if that is more")
	f.calibrate.define(c.fs, true)
	return f
}

// ofKernel reports whether a process is a thread of the kernel; false where that is not known.
func ofKernel(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	return kernelThread(string(b))
}

// kernelThread reports whether a line of /proc/PID/stat is of a thread of the kernel: PID (NAME) STATE, five numbers and the flags, of which
// PF_KTHREAD says so (include/linux/sched.h of Linux 6.1).
func kernelThread(stat string) bool {
	const flags, kthread = 6, 0x00200000
	fields := collect.StatFields(stat)
	if len(fields) <= flags {
		return false
	}
	n, err := strconv.ParseUint(fields[flags], 10, 64)
	return err == nil && n&kthread != 0
}

// options makes recording options of the flags and the command line's rest.
func (f *recordFlags) options(command []string) (collect.Options, error) {
	switch {
	case len(command) > 0 && len(*f.pids) > 0:
		return collect.Options{}, errors.New("want a command or -p, not both")
	case len(command) == 0 && len(*f.pids) == 0:
		return collect.Options{}, errors.New("nothing to record: want a command or -p")
	case *f.hz <= 0:
		return collect.Options{}, fmt.Errorf("-F %d: want a positive number", *f.hz)
	}
	for _, pid := range *f.pids {
		if ofKernel(pid) {
			return collect.Options{}, fmt.Errorf("-p %d: a thread of the kernel, which has no code in user mode; record -a --kernel samples the kernel, and that thread with -p", pid)
		}
	}
	opt := collect.Options{Command: command, PIDs: *f.pids, Frequency: *f.hz, Duration: *f.limit, MaxCPU: float64(f.maxCPU)}
	if f.events != nil {
		opt.Events, opt.Period = *f.events, *f.period
	}
	switch {
	case opt.Period > 0 && len(opt.Events) == 0:
		return collect.Options{}, errors.New("--period goes with --event")
	case opt.Period > 0 && len(opt.Events) > 1:
		return collect.Options{}, errors.New("--period goes with one --event: of several, each has the period of its kind")
	}
	return opt, nil
}

func runRecord(c *cli, args []string) error {
	defer unread()()
	fs := c.flags()
	flags := c.recordFlags()
	flags.calibrate.definePaths(fs, true)
	var what systemFlags
	all := fs.BoolP("all", "a", false, "sample all that runs on this machine")
	what.define(fs, "sample event `name`, or number (rNNN), rather than the best for time; may be given several times")
	flags.events = &what.events
	fs.BoolVar(&what.offCPU, "off-cpu", false, "record the time that threads are off the processor, too, with whole stacks")
	flags.period = fs.Uint64("period", 0, "with --event, take a sample every `N` events (default: by the kind of event)")
	pprof := fs.String("pprof", "", "have the Go program that serves net/http/pprof at `URL` profile itself, for 30s or the time of -d")
	out := fs.StringP("output", "o", "backfeed.bfr", "write the recording to `file`")
	into := fs.String("store", "", "write the recording to the store in `dir` instead")
	labels := fs.StringToString("label", nil, "in the store, mark the recording with `name=value`")
	copyTo := fs.String("copy-to", "", "copy the sampled programs and libraries, and their debug files, below `dir`, where --symfs finds them")
	keep := c.keepImages()
	if err := fs.Parse(args); err != nil {
		return c.usage(err)
	}
	if err := flags.calibrate.check(); err != nil {
		return c.usage(err)
	}
	if flags.calibrate.dry {
		if err := fs.Refuse("--dry-run records nothing", "output", "store"); err != nil {
			return c.usage(err)
		}
	}
	if *into != "" && fs.Changed("output") {
		return c.usage(errors.New("want -o or --store, not both"))
	}
	if *into == "" && len(*labels) > 0 {
		return c.usage(errors.New("--label goes with --store"))
	}
	if *into == "" && keep.Value != "no" {
		return c.usage(errors.New("--keep-images goes with --store; --copy-to DIR keeps the images of a file"))
	}
	var hold *input.Running // what is to be copied, which may be deleted meanwhile
	if *copyTo != "" || keep.Value != "no" {
		hold = &input.Running{Proc: "/proc", Fresh: new(input.Fresh)}
		defer hold.Close()
	}
	to := recordTo{file: *out, store: *into, copies: *copyTo}
	start := time.Now()
	save := func(rec *sample.Recording) error {
		path, err := *out, error(nil)
		if *into != "" {
			path, err = *into, c.putInto(*into, start, rec, *labels)
		} else {
			err = c.writeFile(path, rec.Encode())
		}
		if err == nil {
			c.tellWritten(path)
			if hold != nil {
				err = c.keep(rec, hold, *copyTo, *into, keep.Value)
			}
		}
		return err
	}
	if fs.Changed("period") && *flags.period == 0 {
		return c.usage(errors.New("--period 0: want 1 or more"))
	}
	if *pprof != "" {
		for _, name := range []string{"all", "pid", "event", "period", "frequency", "max-cpu", "calibrate", "tick", "callers", "off-cpu", "kernel", "cgroup", "keep-images", "copy-to"} {
			if fs.Changed(name) || fs.NArg() > 0 {
				return c.usage(errors.New("--pprof goes alone, but for -d and where to write to: the program profiles itself"))
			}
		}
		ctx, stop := untilSignal(false)
		defer stop()
		rec, err := c.recordedPprof(ctx, *pprof, *flags.limit, to)
		if err != nil {
			return err
		}
		return save(rec)
	}
	if what.offCPU {
		if err := fs.Refuse("--off-cpu samples by the kernel's timer, in its programs", "event", "period", "calibrate", "max-cpu", "tick"); err != nil {
			return c.usage(err)
		}
		if fs.Changed("callers") && !what.callers.stacks() {
			return c.usage(fmt.Errorf("--off-cpu has whole stacks; want --callers or --callers=N, not --callers=%s", &what.callers))
		}
	}
	if *all {
		if *flags.period > 0 {
			return c.usage(errors.New("--period goes with a command or -p, not with -a"))
		}
		if err := cmp.Or(fs.Refuse("-a never samples by ptrace", "max-cpu"), what.refuse(fs)); err != nil {
			return c.usage(err)
		}
		what.hz, what.pids = *flags.hz, *flags.pids
		rec, err := c.recordedSystem(what, *flags.limit, to, flags.calibrate, hold)
		if err != nil || flags.calibrate.dry {
			return err
		}
		return save(rec)
	}
	switch {
	case what.tick || what.kernel || len(what.cgroups) > 0:
		return c.usage(errors.New("--tick, --kernel and --cgroup go with -a"))
	case fs.Changed("callers") && !what.callers.stacks():
		return c.usage(fmt.Errorf("--callers=%s goes with -a; --callers and --callers=N are of a command and -p, too", &what.callers))
	}
	if flags.calibrate.budget > 0 && len(what.events) > 0 {
		return c.usage(errors.New("--calibrate goes with the event of time"))
	}
	if fs.Changed("callers") {
		if err := fs.Refuse("--callers samples by the kernel's timer, in its programs", "event", "period", "calibrate", "max-cpu"); err != nil {
			return c.usage(err)
		}
		flags.callers = what.callers
	}
	if flags.offCPU = what.offCPU; flags.offCPU && !flags.callers.stacks() {
		flags.callers = "all"
	}
	rec, opt, stats, err := c.recorded(flags, to, "record: a recording", hold)
	if err != nil || flags.calibrate.dry {
		return err
	}
	c.tellFew(rec, opt, stats)
	if err := save(rec); err != nil {
		return err
	}
	return record.CommandError(opt, stats)
}

// tellFew says that a command has few samples for a profile, and what brings more: it cannot be recorded for longer than it runs.
func (c *cli) tellFew(rec *sample.Recording, opt collect.Options, stats *collect.Stats) {
	if n := rec.InUser(); stats.Command != nil && opt.Duration == 0 && opt.Period == 0 && isThin(n, rec) {
		c.warn("%d samples are enough to see where time goes, and few for a profile: have the program run longer%s", n, record.OrRaise(opt.Frequency))
	}
}

// keep copies what was sampled, as processes have it or p holds it, below dir, if it is not "", and into a store, if kind is not "no".
func (c *cli) keep(rec *sample.Recording, p *input.Running, dir, into, kind string) error {
	places := map[string]input.Keeper{}
	if dir != "" {
		places[dir] = input.BuildDir(dir)
	}
	if kind != "no" {
		s, err := input.OpenStore(into, notices{c})
		if err != nil {
			return err
		}
		places[into] = input.StoreKeeper{Store: s, FilesOnly: kind == "file"}
	}
	for _, path := range slices.Sorted(maps.Keys(places)) {
		copies, err := input.KeepSampled(context.Background(), rec, p, places[path], notices{c})
		if err != nil {
			return err
		}
		c.warn("%s: %v", path, copies)
	}
	return nil
}

// recordedSystem records the whole machine until an interrupt comes or the time
// limit is up. Images are held by hold, which may be nil.
func (c *cli) recordedSystem(what systemFlags, limit time.Duration, to recordTo, calibrate calibrateFlags, hold *input.Running) (*sample.Recording, error) {
	switch err := what.check(); {
	case err != nil:
		return nil, c.usage(err)
	case c.fs.NArg() > 0:
		return nil, c.usage(errors.New("want a command or -a, not both"))
	case to.file == "-" && terminal.Is(c.stdout):
		return nil, fail.Errorf(fail.Usage, "record: a recording is not for a terminal; name a file with -o")
	}
	if !calibrate.dry {
		if err := c.check(to); err != nil {
			return nil, err
		}
	}
	ctx, stop := untilSignal(false)
	defer stop()
	live := c.live(false, hold)
	of := what.options()
	if calibrate.budget > 0 {
		opt, err := calibrate.options(what.pids, notices{c}, c.style("-"))
		if err != nil {
			return nil, err
		}
		rec, _, err := record.Calibrated(ctx, collect.Options{Duration: limit}, of, opt, c.stdout, live)
		return rec, err
	}
	return record.Machine(ctx, of, limit, live)
}

// live says how a recording goes on, on a terminal that the recorded command does not have:
// what it prints would be torn apart. Images that are seen are held by hold, which may be nil.
func (c *cli) live(command bool, hold *input.Running) record.Live {
	live := record.Live{Show: terminal.Is(c.stderr) && !(command && terminal.Is(c.stdout)), Notify: notices{c}, Without: c.tellWithout}
	live.Maps = mapsDir(time.Now())
	if hold != nil {
		live.Images, live.Opened = hold.HoldImages, hold.Fresh.Add
	}
	return live
}

// tellWithout says what the kernel refuses of what was asked for.
func (c *cli) tellWithout(u *collect.Unavailable) {
	c.warn("sampling goes on, without a part: %s", u.Reason())
	c.verifierLog(u)
}

// recorded records what the parsed command line asks for. What is made of it, called product, will be written
// to where to says: if that is standard output, it is not for the command. Images are held by hold, which may be nil.
func (c *cli) recorded(flags *recordFlags, to recordTo, product string, hold *input.Running) (*sample.Recording, collect.Options, *collect.Stats, error) {
	none := collect.Options{}
	opt, err := flags.options(c.fs.Args())
	if err != nil {
		return nil, none, nil, c.usage(err)
	}
	if to.file == "-" && terminal.Is(c.stdout) {
		return nil, none, nil, fail.Errorf(fail.Usage, "%s is not for a terminal; name a file with -o", product)
	}
	if !flags.calibrate.dry {
		if err := c.check(to); err != nil {
			return nil, none, nil, err
		}
	}
	c.lendStreams(&opt)
	if to.file == "-" {
		opt.Stdout = opt.Stderr
	}
	ctx, stop := untilSignal(len(opt.Command) > 0)
	defer stop()
	live := c.live(len(opt.Command) > 0, hold)
	if flags.calibrate.budget > 0 {
		what := systemFlags{hz: opt.Frequency, pids: opt.PIDs}
		ko, err := flags.calibrate.options(opt.PIDs, notices{c}, c.style("-"))
		if err != nil {
			return nil, none, nil, err
		}
		rec, state, err := record.Calibrated(ctx, opt, what.options(), ko, c.stdout, live)
		if err == nil && rec.Delivered() == 0 {
			err = fail.Errorf(fail.Nothing, "no samples: nothing that was to be sampled ran; see that it has something to do, or record for longer")
		}
		return rec, opt, &collect.Stats{Command: state}, err
	}
	if flags.callers.stacks() {
		what := systemFlags{hz: opt.Frequency, callers: flags.callers, offCPU: flags.offCPU}
		rec, state, err := record.System(ctx, opt, what.options(), live)
		return rec, opt, &collect.Stats{Command: state}, err
	}
	rec, stats, err := record.Processes(ctx, opt, live)
	return rec, opt, stats, err
}

// lendStreams lends the recorded command those of this process.
func (c *cli) lendStreams(opt *collect.Options) {
	opt.Stdin, _ = c.stdin.(*os.File)
	opt.Stdout, _ = c.stdout.(*os.File)
	opt.Stderr, _ = c.stderr.(*os.File)
}

// untilSignal returns a context that ends with the first signal to end. A terminal
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

// unread has a broken pipe end no recording: where nobody reads any more what it says, as behind head, it goes on until it is
// written. A command that is recorded has the signal as it is.
func unread() (stop func()) {
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	return func() { signal.Stop(broken) }
}

// recordedPprof has a Go program profile itself, and reads that.
func (c *cli) recordedPprof(ctx context.Context, address string, d time.Duration, to recordTo) (*sample.Recording, error) {
	d = cmp.Or(d, record.PprofTime)
	u, err := record.PprofURL(address, d)
	if err != nil {
		return nil, c.usage(fmt.Errorf("--pprof: %w", err))
	}
	if err := c.check(to); err != nil {
		return nil, err
	}
	return record.Pprof(ctx, u, d, c.live(false, nil))
}

// tellWritten names the file that a recording was written to, and what to do with it.
func (c *cli) tellWritten(path string) {
	if path == "-" {
		return
	}
	size := ""
	if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
		size = fmt.Sprintf(" (%s bytes)", report.Count(float64(st.Size())))
	}
	c.warn("wrote %s%s; next, see where the time went: backfeed prof %s", path, size, prose.ShellWord(path))
}
