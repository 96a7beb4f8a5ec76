package main

import (
	"bufio"
	"cmp"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/store"
)

var agentCmd = &command{
	name: "agent", args: "[--store DIR] [-F HZ] [--max-cpu SHARE] [--config FILE]", short: "sample all that runs on this machine, all the time, into a store",
	long: `Runs until SIGTERM or an interrupt, and then writes what it has. Samples are gathered in memory and
written as one segment each --flush; kill -9 loses at most that. Segments of an epoch that has ended
are merged into one. Nothing leaves the machine.

The cost is kept below --max-cpu on the average: the processor time of the agent itself and what
samples take from the programs that they interrupt, as a share of all processors. -F is the highest
rate; the agent lowers it where the limit asks for that.

--tick rides on the scheduler's own tick and programs no timer: it costs next to nothing, does not
see what is in step with the tick, and is kept apart from other samples.

--config names a file with a line "name = value" for each flag, without dashes; what follows # is a
comment, lists take several lines, and flags of the command line win. SIGHUP makes the agent write
what it has, read the file again and go on by it.`,
	run: runAgent,
}

//go:embed backfeed.service
var systemdUnit string

// drainEvery is the time between two drains of the kernel's maps, which have room
// for collect.DefaultDrain.
const drainEvery = 4 * time.Second

// maxGathered bounds the places that are kept in memory while the store takes no
// segment: about 100 bytes each.
const maxGathered = 500_000

// agentFlags are what an agent is told.
type agentFlags struct {
	store      string
	what       systemFlags
	maxCPU     share
	labels     map[string]string
	epoch      time.Duration
	flush      time.Duration
	keepImages bool
	retain     retention
	metrics    string
	public     bool
	level      *choice
}

// systemFlags say what of a machine to sample.
type systemFlags struct {
	hz                    int
	tick, callers, kernel bool
	pids                  []int
	cgroups               []string
}

func (f *systemFlags) define(fs *pflag.FlagSet) {
	fs.BoolVar(&f.tick, "tick", false, "take samples at the scheduler's tick instead of a timer")
	fs.BoolVar(&f.callers, "callers", false, "record the caller of each sample too, for profiles of calls")
	fs.BoolVar(&f.kernel, "kernel", false, "record places in the kernel too")
	fs.StringArrayVar(&f.cgroups, "cgroup", nil, "sample only the cgroup at `path` below /sys/fs/cgroup, and those below it")
}

func (f *systemFlags) options() collect.SystemOptions {
	opt := collect.SystemOptions{Frequency: f.hz, Tick: f.tick, Callers: f.callers, Kernel: f.kernel, PIDs: f.pids}
	for _, path := range f.cgroups {
		if !strings.HasPrefix(path, cgroupRoot) { // as /proc/PID/cgroup and systemd name them
			path = filepath.Join(cgroupRoot, path)
		}
		opt.Cgroups = append(opt.Cgroups, path)
	}
	return opt
}

// cgroupRoot is where the one tree of cgroups (v2) is mounted.
const cgroupRoot = "/sys/fs/cgroup"

// check finds what no sampler can do.
func (f *systemFlags) check() error {
	if f.hz < 1 {
		return fmt.Errorf("-F %d: want a positive number", f.hz)
	}
	return nil
}

// A share is a flag in percent.
type share float64

func (s *share) String() string { return strconv.FormatFloat(100*float64(*s), 'g', 6, 64) + "%" }
func (s *share) Type() string   { return "percent" }
func (s *share) Set(text string) error {
	v, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(text, "%")), 64)
	if err != nil || v <= 0 || v > 100 {
		return errors.New("want a percentage above 0, at most 100")
	}
	*s = share(v / 100)
	return nil
}

// A size is a flag in bytes.
type size int64

func (s *size) String() string { return strconv.FormatInt(int64(*s), 10) }
func (s *size) Type() string   { return "bytes" }
func (s *size) Set(text string) error {
	number := strings.TrimRight(text, "KMGTiB")
	unit, ok := map[string]int64{"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}[strings.TrimSuffix(strings.TrimSuffix(text[len(number):], "B"), "i")]
	v, err := strconv.ParseInt(number, 10, 64)
	if err != nil || !ok || v < 0 || v > (1<<62)/unit {
		return errors.New("want a number of bytes, such as 500M or 20G")
	}
	*s = size(v * unit)
	return nil
}

// parseAgent reads the command line, and the file that it names. Without error
// and flags, help was asked for.
func (c *cli) parseAgent(args []string) (*agentFlags, error) {
	f := &agentFlags{maxCPU: 0.01}
	fs := c.flags()
	fs.StringVar(&f.store, "store", defaultStore, "write to the store in `dir`")
	fs.IntVarP(&f.what.hz, "frequency", "F", collect.DefaultSystemFrequency, "take at most `HZ` samples per second on each processor")
	fs.Var(&f.maxCPU, "max-cpu", "keep the cost below this share of all processor time")
	f.what.define(fs)
	fs.IntSliceVarP(&f.what.pids, "pid", "p", nil, "sample only the processes `PID[,PID...]` and what they start")
	fs.StringToStringVar(&f.labels, "label", nil, "mark what is recorded with `name=value`")
	fs.DurationVar(&f.epoch, "epoch", time.Hour, "merge what was recorded in each `time`")
	fs.DurationVar(&f.flush, "flush", 5*time.Minute, "write a segment every `time`")
	fs.BoolVar(&f.keepImages, "keep-images", false, "copy the sampled programs and libraries into the store")
	f.retain.define(fs)
	fs.StringVar(&f.metrics, "metrics", "", "tell Prometheus of the agent itself at http://`address`/metrics")
	fs.BoolVar(&f.public, "metrics-public", false, "let --metrics listen where other machines can connect")
	f.level = c.choice("log-level", "what to log", "info", "debug", "warn", "error")
	config := fs.String("config", "", "read flags from `file`, again on SIGHUP")
	unit := fs.Bool("systemd-unit", false, "print a unit file for systemd, and do nothing else")
	if err := fs.Parse(args); err != nil || fs.NArg() > 0 {
		return nil, c.usage(err)
	}
	if *unit {
		_, err := io.WriteString(c.stdout, systemdUnit)
		return nil, err
	}
	if *config != "" {
		file, err := os.Open(*config)
		if err != nil {
			return nil, err
		}
		defer file.Close()
		if err := readConfig(file, fs); err != nil {
			return nil, failf(exitUsage, "%s: %w", *config, err)
		}
	}
	if err := f.check(); err != nil {
		return nil, c.usage(err)
	}
	return f, nil
}

func (f *agentFlags) check() error {
	switch {
	case f.epoch < time.Minute:
		return fmt.Errorf("--epoch %v: want a minute at least", f.epoch)
	case f.flush < time.Second:
		return fmt.Errorf("--flush %v: want a second at least", f.flush)
	}
	return cmp.Or(f.retain.check(), f.what.check())
}

// readConfig sets flags by a file of lines "name = value". Flags that were set
// before keep their values.
func readConfig(r io.Reader, fs *pflag.FlagSet) error {
	given := map[string]bool{"config": true, "systemd-unit": true}
	fs.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	sc := bufio.NewScanner(r)
	for n := 1; sc.Scan(); n++ {
		line, _, _ := strings.Cut(sc.Text(), "#")
		if strings.TrimSpace(line) == "" {
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		name = strings.TrimSpace(name)
		switch f := fs.Lookup(name); {
		case !ok:
			return fmt.Errorf("line %d: want name = value", n)
		case f == nil || name == "config" || name == "systemd-unit":
			return fmt.Errorf("line %d: %q is nothing to set", n, name)
		case given[name]:
			continue
		}
		if err := fs.Set(name, strings.TrimSpace(value)); err != nil {
			return fmt.Errorf("line %d: %s: %w", n, name, err)
		}
	}
	return sc.Err()
}

func runAgent(c *cli, args []string) error {
	f, err := c.parseAgent(args)
	if err != nil || f == nil {
		return err
	}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	for used := time.Duration(0); ; used = processorTime() {
		next, err := c.runAgentOnce(f, used, args, signals)
		if err != nil || next == nil {
			return err
		}
		f = next
	}
}

// runAgentOnce samples by f until a signal asks for an end, or for other flags,
// which it gives. What this process used before is not its cost.
func (c *cli) runAgentOnce(f *agentFlags, used time.Duration, args []string, signals <-chan os.Signal) (next *agentFlags, err error) {
	a, err := c.openAgent(f, used)
	if err != nil {
		return nil, err
	}
	for next == nil {
		switch sig := a.run(signals); {
		case sig != syscall.SIGHUP:
			a.log.Info("told to end", "signal", sig.String())
			return nil, a.close()
		default:
			if next, err = c.parseAgent(args); err != nil {
				a.log.Error("the old flags stay", "error", err)
			}
		}
	}
	a.log.Info("flags read again")
	return next, a.close()
}

// A sampler is a collect.System.
type sampler interface {
	Drain() (*sample.Recording, error)
	SetFrequency(hz int) error
	Counters() collect.Counters
	Close() error
}

// An agent moves samples from a sampler to a store.
type agent struct {
	*agentFlags
	log     *slog.Logger
	sampler sampler
	into    *store.Store
	page    statusPage
	serving io.Closer // nil is none

	budget  budget
	status  status
	cpu     time.Duration // processor time of this process at the last drain
	seen    uint64        // samples at the last drain
	drained time.Time     // the last time

	gathered sample.Recording // since from
	from     time.Time

	// What takes long is done beside the drains, one after another.
	chores  chan func()
	idle    sync.WaitGroup // of the goroutine that does them
	kept    map[sample.BuildID]bool
	inStore atomic.Int64 // bytes
}

// openAgent starts to sample. What this process used before is not its cost.
func (c *cli) openAgent(f *agentFlags, used time.Duration) (a *agent, err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level.value)); err != nil {
		return nil, err
	}
	a = &agent{agentFlags: f, log: slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: level}))}
	defer func() {
		if err != nil {
			a.release()
		}
	}()
	if f.metrics != "" {
		l, err := serveMetrics(f.metrics, f.public, &a.page, a.log)
		if err != nil {
			return nil, err
		}
		a.serving = l
		a.log.Info("metrics", "url", "http://"+l.Addr().String()+"/metrics")
	}
	if a.into, err = store.Create(f.store, store.Options{Warn: func(err error) { a.log.Warn("store", "error", err) }}); err != nil {
		return nil, err
	}
	a.budget = budget{limit: float64(f.maxCPU), most: f.what.hz, stolen: stolenPerSample(f.what.tick, a.log)}
	if a.sampler, err = openSystem(f.what); err != nil {
		return nil, err
	}
	a.cpu = used
	a.begin(time.Now())
	return a, nil
}

// What a sample takes from the interrupted program where it cannot be measured:
// the interrupt of a timer in a virtual machine, and on the tick, which comes in
// any case, the run of the program alone.
const (
	usualStolen = 21 * time.Microsecond
	tickStolen  = time.Microsecond
)

func stolenPerSample(tick bool, log *slog.Logger) time.Duration {
	if tick {
		return tickStolen
	}
	d, err := collect.CalibrateCost()
	if err != nil || d <= 0 {
		log.Warn("the cost of a sample could not be measured", "assumed", usualStolen, "error", err)
		return usualStolen
	}
	log.Info("cost of a sample", "time", d)
	return d
}

// begin sets all clocks to now.
func (a *agent) begin(now time.Time) {
	a.from, a.drained = now, now
	a.chores, a.kept = make(chan func(), 16), map[sample.BuildID]bool{}
	a.idle.Go(func() {
		for chore := range a.chores {
			chore()
		}
	})
	a.status.rate, a.status.limit = a.what.hz, a.budget.limit
	a.log.Info("sampling", "store", a.store, "hz", a.what.hz, "tick", a.what.tick, "max-cpu", a.maxCPU.String())
	a.setRate(a.budget.rate())
	a.page.set(a.status)
}

// run works until a signal comes.
func (a *agent) run(signals <-chan os.Signal) os.Signal {
	tick := time.NewTicker(min(drainEvery, a.flush))
	defer tick.Stop()
	for {
		select {
		case sig := <-signals:
			return sig
		case now := <-tick.C:
			a.step(now)
		}
	}
}

// step does what is due at the time now.
func (a *agent) step(now time.Time) {
	a.drain()
	a.adjust(now)
	ended := sample.EpochAt(a.from, a.epoch) != sample.EpochAt(now, a.epoch)
	if ended || now.Sub(a.from) >= a.flush {
		a.write(now)
	}
	if ended {
		a.later(func() { a.tidy(now) })
	}
	a.status.stored = a.inStore.Load()
	a.page.set(a.status)
}

// later does a chore when those before are done. If there are too many, it is left
// out: whatever it was comes up again.
func (a *agent) later(chore func()) {
	select {
	case a.chores <- chore:
	default:
		a.log.Warn("the store is slow: work on it is put off")
	}
}

// drain adds what was sampled to what is gathered.
func (a *agent) drain() {
	rec, err := a.sampler.Drain()
	if err != nil {
		a.log.Error("drain", "error", err)
		return
	}
	addTo(&a.gathered, rec)
	a.status.counters = a.sampler.Counters()
	a.log.Debug("drain", "samples", rec.Samples())
}

// adjust sets the rate for the next interval by what the last one cost.
func (a *agent) adjust(now time.Time) {
	cpu, seen := processorTime(), a.status.counters.All
	s := spending{own: cpu - a.cpu, samples: seen - a.seen, machine: now.Sub(a.drained) * time.Duration(runtime.NumCPU())}
	a.cpu, a.seen, a.drained = cpu, seen, now
	if s.machine <= 0 {
		return
	}
	a.status.own += s.own
	a.status.stolen += a.budget.total(s) - s.own
	a.status.cost = a.budget.total(s).Seconds() / s.machine.Seconds()
	a.setRate(a.budget.next(s))
}

// setRate changes the rate. A small step up is not worth it.
func (a *agent) setRate(hz int) {
	old := a.status.rate
	if a.what.tick || hz == old || hz > old && hz < old+old/10 && hz < a.what.hz {
		return
	}
	if err := a.sampler.SetFrequency(hz); err != nil {
		a.log.Error("rate", "hz", hz, "error", err)
		return
	}
	a.log.Info("rate", "hz", hz, "was", old, "cost", fmt.Sprintf("%.2f%%", 100*a.status.cost))
	a.status.rate = hz
}

// write makes a segment of what is gathered. What the store does not take, for
// want of space, stays for the next time.
func (a *agent) write(now time.Time) error {
	n := a.gathered.Samples()
	if n > 0 {
		if err := a.into.Put(sample.EpochAt(a.from, a.epoch), &a.gathered, a.labels); err != nil {
			a.log.Error("segment not written", "error", err, "samples", n)
			a.status.failures++
			a.bound()
			return err
		}
		a.status.segments++
		a.status.samples += n
		a.status.flushed = now
		a.log.Info("segment written", "samples", n, "images", len(sampled(&a.gathered)))
		images := sampled(&a.gathered)
		a.later(func() { a.lookAfter(images) })
	}
	a.gathered, a.from = sample.Recording{}, now
	return nil
}

// lookAfter copies the images of a segment, if that is asked for, and measures the
// store.
func (a *agent) lookAfter(images map[sample.ImageID]uint64) {
	if a.keepImages {
		var p places
		for _, id := range mostFirst(images) {
			if id.Build.IsZero() || a.kept[id.Build] || fileless(id) != nil {
				continue
			}
			a.kept[id.Build] = true // or not to be had: no second try
			if err := a.keep(id, &p); err != nil {
				a.log.Warn("no copy", "image", id.String(), "error", err)
			}
		}
	}
	if st, err := a.into.Stats(); err == nil {
		a.inStore.Store(st.Bytes + st.CopyBytes)
	}
}

// keep copies an image into the store.
func (a *agent) keep(id sample.ImageID, p *places) error {
	if _, err := a.into.OpenImage(id, store.KindFile); err == nil {
		return nil
	}
	f, err := p.open(id)
	if err != nil {
		return err
	}
	defer f.Close()
	return a.into.KeepImage(id, f, store.KindFile)
}

// tidy merges the segments of epochs that have ended, and drops what is not to be
// kept. Another agent or command that is at it does the same.
func (a *agent) tidy(now time.Time) {
	n, err := a.into.Compact(now)
	if err == nil {
		a.log.Info("epoch ended", "merged", n)
	} else if !errors.Is(err, store.ErrBusy) {
		a.log.Error("compaction", "error", err)
	}
	if a.retain.isZero() {
		return
	}
	dropped, err := a.into.GC(a.retain.of(), now)
	if err == nil && dropped.Bytes > 0 {
		a.log.Info("dropped by age or size", "epochs", dropped.Epochs, "copies", dropped.Copies, "bytes", dropped.Bytes)
	} else if err != nil && !errors.Is(err, store.ErrBusy) {
		a.log.Error("retention", "error", err)
	}
}

// bound gives up what is gathered if it has grown too large.
func (a *agent) bound() {
	places := 0
	for _, c := range a.gathered.Counts {
		for _, ic := range c.Images {
			places += len(ic.At)
		}
		places += len(c.Stacks) + len(c.Branches) + len(c.Ranges)
	}
	if places <= maxGathered {
		return
	}
	n := a.gathered.Samples()
	a.log.Error("samples given up: the store took none of them for too long", "samples", n)
	a.status.dropped += n
	a.gathered = sample.Recording{}
}

// close stops sampling and writes what is left.
func (a *agent) close() error {
	defer a.release()
	if err := a.sampler.Close(); err != nil {
		a.log.Error("end of sampling", "error", err)
	}
	a.drain()
	err := a.write(time.Now())
	close(a.chores)
	a.idle.Wait()
	return err
}

// release lets go of all but samples.
func (a *agent) release() {
	if a.serving != nil {
		a.serving.Close()
	}
}
