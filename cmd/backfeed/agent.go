package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"backfeed/cmd/internal/calibrate"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/record"
	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
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

--calibrate has walks from samples on tell where branches go, and probes, now and then and for
milliseconds, how often code runs (see ` + "`backfeed help record`" + `). They may take that share of the
processor time of all programs beside --max-cpu. What to probe is chosen a minute after the start, and
every hour.

--tick rides on the scheduler's own tick and programs no timer: it costs next to nothing, does not
see what is in step with the tick, and is kept apart from other samples.

` + configHelp + ` SIGHUP
makes the agent write what it has, read the file again and go on by it:

    agent:
      max-cpu: 0.5%
      retain: 30d
      label: {role: web}`,
	examples: `backfeed agent --store /var/lib/backfeed --max-cpu 1% --retain 30d
backfeed agent --config /etc/backfeed.yaml
backfeed agent --systemd-unit >/etc/systemd/system/backfeed.service`,
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

func runAgent(c *cli, args []string) error {
	f, err := c.parseAgent(args)
	if err != nil || f == nil {
		return err
	}
	// On more processors the Go scheduler wakes others for work that one does: at
	// 997 Hz the agent then takes 0.38 % of a core, and 0.30 % on one.
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	a, err := c.openAgent(f, 0)
	for err == nil {
		if sig := a.run(signals); sig != syscall.SIGHUP {
			a.log.Info("told to end", "signal", sig.String())
			return a.close()
		}
		next, bad := c.parseAgent(args)
		if bad != nil {
			a.log.Error("the old flags stay", "error", bad)
			continue
		}
		a.log.Info("flags read again")
		a.close() // which has logged what went wrong
		used := processorTime()
		last := a
		if a, err = c.openAgent(next, used); err != nil {
			last.log.Error("the old flags come back", "error", err)
			a, err = c.openAgent(last.agentFlags, used)
		}
	}
	return err
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
	probes  *calibrate.Calibrator // nil without --calibrate
	into    *store.Store
	page    statusPage
	serving io.Closer // nil is none

	budget     budget
	complained bool // that the budget is too small
	status     status
	cpu        time.Duration // processor time of this process at the last drain
	seen       uint64        // samples at the last drain
	drained    time.Time     // the last time
	aimAt      time.Time     // when to choose what to probe
	aimed      bool          // that was done once

	gathered sample.Recording // since from
	from     time.Time

	// What takes long is done beside the drains, one after another.
	chores  chan func()
	idle    sync.WaitGroup  // of the goroutine that does them
	work    context.Context // which they end with
	endWork context.CancelFunc
	kept    map[sample.BuildID]bool
	inStore atomic.Int64 // bytes
}

// openAgent starts to sample. What this process used before is not its cost.
func (c *cli) openAgent(f *agentFlags, used time.Duration) (_ *agent, err error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.level.value)); err != nil {
		return nil, err
	}
	a := &agent{agentFlags: f, log: slog.New(slog.NewTextHandler(c.stderr, &slog.HandlerOptions{Level: level}))}
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
	a.budget = budget{limit: float64(f.maxCPU), most: f.what.hz, events: max(1, len(f.what.events)), stolen: stolenPerSample(f.what.tick, a.log)}
	opt := f.what.options()
	opt.Probes = f.calibrate.budget > 0
	sys, err := record.OpenSystem(opt)
	if err != nil {
		return nil, err
	}
	for _, u := range sys.Without() {
		a.log.Warn("sampling goes on without a part", "why", u.Reason())
		c.verifierLog(u)
	}
	a.sampler = sys
	if f.calibrate.budget > 0 {
		opt, err := f.calibrate.options(f.what.pids, logged{a.log})
		if err == nil {
			a.probes, err = calibrate.New(sys, opt)
		}
		if err != nil {
			sys.Close()
			return nil, err
		}
	}
	a.cpu = used
	a.begin(time.Now())
	return a, nil
}

// logged has notices of a calibration in the agent's log.
type logged struct{ log *slog.Logger }

func (l logged) Warn(format string, args ...any) { l.log.Info(fmt.Sprintf(format, args...)) }
func (l logged) Progress(string, ...any)         {}
func (l logged) Done()                           {}

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
		log.Info("the cost of a sample could not be measured", "assumed", usualStolen, "error", err)
		return usualStolen
	}
	log.Info("cost of a sample", "time", d)
	return d
}

// begin sets all clocks to now.
func (a *agent) begin(now time.Time) {
	a.from, a.drained, a.aimAt = now, now, now.Add(firstRounds)
	a.chores, a.kept = make(chan func(), 16), map[sample.BuildID]bool{}
	a.work, a.endWork = context.WithCancel(context.Background())
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
	a.aim(now)
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
	a.gathered.AddAll(rec)
	a.status.counters = a.sampler.Counters()
	a.log.Debug("drain", "samples", rec.Samples())
}

// agentRounds is the time between two choices of what to probe: the inference that they
// take is the dearest thing that an agent does. The first two are after firstRounds each: at the
// first walks begin, which tell at the second what to probe.
const agentRounds, firstRounds = time.Hour, time.Minute

// aim chooses what to probe, if that is due.
func (a *agent) aim(now time.Time) {
	if a.probes == nil {
		return
	}
	if err := a.probes.Ended(); err != nil {
		a.log.Error("probes end", "error", err)
	}
	if now.Before(a.aimAt) {
		return
	}
	next := agentRounds
	if !a.aimed {
		a.aimed, next = true, firstRounds
	}
	a.aimAt = now.Add(next)
	so := sample.Merge(&a.gathered)
	a.later(func() {
		if err := a.probes.Choose(so, next); err != nil {
			a.log.Error("choice of what to probe", "error", err)
		}
	})
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
	if a.what.tick {
		a.status.rate = int(math.Round(float64(s.samples) / s.machine.Seconds())) // the kernel's; less where it is idle
		return
	}
	a.setRate(a.budget.next(s))
	if !a.complained && a.budget.hopeless() {
		a.complained = true
		a.log.Warn("the limit of the cost cannot be kept, even at 1 Hz", "limit", a.maxCPU.String(), "own", fmt.Sprintf("%.2f%%", 100*a.budget.own))
	}
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
		rec := &a.gathered
		if a.probes != nil {
			rec = sample.Merge(rec) // what windows counted is added to what is written alone
			a.probes.AddTo(rec)
		}
		if err := a.into.Put(sample.EpochAt(a.from, a.epoch), rec, a.labels); err != nil {
			a.log.Error("segment not written", "error", err, "samples", n)
			a.status.failures++
			a.bound()
			return err
		}
		if a.probes != nil {
			a.probes.Forget()
		}
		a.status.segments++
		a.status.samples += n
		a.status.flushed = now
		a.log.Info("segment written", "samples", n, "images", len(a.gathered.ByImage()))
		images := a.gathered.ByImage()
		a.later(func() { a.lookAfter(images) })
	}
	a.gathered, a.from = sample.Recording{}, now
	return nil
}

// lookAfter copies the images of a segment, if that is asked for, and measures the
// store.
func (a *agent) lookAfter(images map[sample.ImageID]uint64) {
	if a.keepImages.value != "no" {
		p := input.Running{Proc: "/proc"}
		for _, id := range report.MostFirst(images) {
			if id.Build.IsZero() || a.kept[id.Build] || input.Fileless(id) != nil {
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

// keep copies an image into the store, and its separate debug file if that is asked
// for.
func (a *agent) keep(id sample.ImageID, p *input.Running) error {
	has := func(kind store.Kind) bool {
		_, err := a.into.OpenImage(id, kind)
		return err == nil
	}
	debug := a.keepImages.value == "debug" && !has(store.KindDebug)
	if !debug && has(store.KindFile) {
		return nil
	}
	f, root, err := p.Open(id)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := a.copy(id, f, store.KindFile); err != nil || !debug {
		return err
	}
	g, err := image.DebugFile(f, image.Options{Root: root, OpenFile: func(path string) (*os.File, error) {
		below, err := filepath.Rel(root, path)
		if err != nil {
			return nil, err
		}
		return collect.OpenInRoot(root, below)
	}})
	if err != nil || g == nil {
		return err
	}
	defer g.Close()
	return a.copy(id, g, store.KindDebug)
}

// copy copies an open file into the store, if it is not too large.
func (a *agent) copy(id sample.ImageID, f *os.File, kind store.Kind) error {
	st, err := f.Stat()
	if err != nil {
		return err
	}
	n := st.Size()
	if n > int64(a.maxImage) {
		return fmt.Errorf("%d bytes, which is more than --max-image-size %s", n, a.maxImage.String())
	}
	if room := int64(a.retain.size) - a.inStore.Load(); a.retain.size > 0 && n > room {
		return fmt.Errorf("%d bytes, and --retain-size leaves %d", n, max(room, 0))
	}
	// What grows meanwhile is not followed.
	if err := a.into.KeepImage(a.work, id, io.NewSectionReader(f, 0, n), kind); err != nil {
		return err
	}
	a.inStore.Add(n)
	return nil
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
	if errors.Is(err, store.ErrMost) {
		a.log.Warn("retention", "error", err, "do", "if the clock is right, `backfeed store gc --most`")
		err = nil
	}
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
	if a.probes != nil {
		if err := a.probes.Stop(); err != nil {
			a.log.Error("end of probes", "error", err)
		}
	}
	if err := a.sampler.Close(); err != nil {
		a.log.Error("end of sampling", "error", err)
	}
	a.drain()
	err := a.write(time.Now())
	close(a.chores)
	end := time.AfterFunc(maxEnd, a.endWork)
	a.idle.Wait()
	end.Stop()
	a.endWork()
	if a.probes != nil {
		a.probes.Close()
	}
	return err
}

// maxEnd is how long chores may go on once the agent was told to end. Copies of files can
// take longer; they are made when the images are seen again.
const maxEnd = 5 * time.Second

// release lets go of all but samples.
func (a *agent) release() {
	if a.serving != nil {
		a.serving.Close()
	}
}
