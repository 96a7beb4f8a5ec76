package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"backfeed/cmd/internal/calibrate"
	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/listen"
	"backfeed/cmd/internal/record"
	"backfeed/sample"
	"backfeed/sample/bound"
	"backfeed/sample/collect"
	"backfeed/sample/store"
)

// drainEvery is the time between two drains of the kernel's maps, which have room
// for collect.DefaultDrain.
const drainEvery = 4 * time.Second

// MaxGathered bounds the places that are kept in memory while the store takes no
// segment: about 100 bytes each.
const MaxGathered = 500_000

// Places is how many places a recording has that take memory.
func Places(rec *sample.Recording) (n int) {
	for _, c := range slices.Concat(rec.Counts, rec.Off) {
		for _, ic := range c.Images {
			n += len(ic.At)
		}
		n += len(c.Stacks) + len(c.Branches) + len(c.Ranges) + len(c.Targets) // paths are bounded
	}
	return n
}

// Options are what an agent is told.
type Options struct {
	Store     string                // directory of the store to write to, or the address of one in a bucket
	Spool     string                // of one in a bucket, the directory that has what is not there yet
	System    collect.SystemOptions // Frequency is the most; Probes follows from Calibrate
	MaxCPU    float64               // share of all processor time to keep the cost below
	Calibrate calibrate.Options     // no calibration if its Budget is 0; the agent sets PIDs and Notify
	Labels    map[string]string     // of what is recorded
	Epoch     time.Duration         // what was recorded in each is merged
	Flush     time.Duration         // time from one segment to the next
	Keep      Keep
	MaxImage  int64           // bytes; nothing larger is copied
	Retain    store.Retention // zero keeps all
	HashPaths bool            // hashes are kept in place of the paths of images
	Metrics   string          // address to show the agent's figures at; "" is none
	Public    bool            // other machines may read them
	Log       *slog.Logger
	Without   func(*collect.Unavailable) // gets what the kernel refuses of what was asked for; nil is none
	FirstAim  time.Duration              // from the start to the first choice of what to probe, and on to the second; 0 is a minute
	Used      time.Duration              // processor time of this process before, which is not the agent's cost
}

// Keep is what an agent copies into its store.
type Keep string

const (
	KeepNothing Keep = "no"
	KeepFiles   Keep = "file"  // the sampled programs and libraries
	KeepDebug   Keep = "debug" // their separate debug files too
)

// A sampler is a collect.System.
type sampler interface {
	Drain() (*sample.Recording, error)
	SetFrequency(hz int) error
	StopOffCPU() error
	Counters() collect.Counters
	Close() error
}

// A counter counts executions beside the samples: a calibrate.Calibrator.
type counter interface {
	Drained(*sample.Recording)
	May() bool
	Choose(ctx context.Context, rec *sample.Recording, next time.Duration) error
	AddTo(*sample.Recording)
	Forget()
	Ended() error
	Stop() error
	Close() error // no choice may be running
}

// An Agent moves samples from a sampler to a store.
type Agent struct {
	opt     Options
	log     *slog.Logger
	sampler sampler
	probes  counter // nil without --calibrate
	used    func() int64
	ended   counter // that shed has stopped, and that is to be closed; nil is none
	into    store.Store
	up      *uploader // nil where the store is no bucket
	page    statusPage
	serving io.Closer // nil is none

	budget     budget
	complained bool // that the budget is too small
	offStopped bool // time off the processor is no longer recorded, as it cost too much
	status     status
	cpu        time.Duration // processor time of this process at the last drain
	seen       uint64        // samples at the last drain
	switches   time.Duration // of the kernel's programs at switches of threads, at the last drain
	drained    time.Time     // the last time
	aimAt      time.Time     // when to choose what to probe
	aimed      bool          // that was done once

	gathered sample.Recording // since from
	from     time.Time

	// What takes long is done beside the drains, one after another.
	chores  chan func()
	copies  chan imageFiles // which a goroutine of their own copies, slowly
	idle    sync.WaitGroup  // of the goroutines that do these
	work    context.Context // which they end with
	endWork context.CancelFunc
	ending  atomic.Bool             // there is no time to be slow
	kept    map[sample.BuildID]bool // images that were opened to be copied, or could not be had
	fresh   *input.Fresh            // those that were mapped lately, where they are copied
	inStore atomic.Int64            // bytes
	copied  atomic.Int64            // of these, of copies
}

// Open starts to sample. Its error is of the kind fail.Machine where the machine cannot be
// sampled.
func Open(opt Options) (_ *Agent, err error) {
	a := &Agent{opt: opt, log: opt.Log, used: bound.Used}
	calibrating := false
	defer func() {
		if err != nil {
			a.release()
		}
		if err != nil && !calibrating && opt.Calibrate.Log != nil {
			opt.Calibrate.Log.Close()
		}
	}()
	if opt.Metrics != "" {
		l, err := listen.Metrics(opt.Metrics, opt.Public, &a.page, a.log)
		if err != nil {
			return nil, err
		}
		a.serving = l
		a.log.Info("metrics are served", "url", "http://"+l.Addr().String()+"/metrics")
	}
	if err := a.openStore(); err != nil {
		return nil, err
	}
	a.budget = budget{limit: opt.MaxCPU, most: opt.System.Frequency, events: max(1, len(opt.System.Events)), stolen: stolenPerSample(opt.System.Tick, a.log),
		window: max(shortestWindow, 2*opt.Flush) * time.Duration(runtime.NumCPU())}
	opt.System.Probes = opt.Calibrate.Budget > 0
	if opt.Keep != KeepNothing {
		a.fresh = new(input.Fresh)
		opt.System.Opened = a.fresh.Add
	}
	sys, err := record.OpenSystem(opt.System)
	if err != nil {
		return nil, err
	}
	for _, u := range sys.Without() {
		a.log.Warn("sampling goes on without a part", "why", u.Reason())
		if opt.Without != nil {
			opt.Without(u)
		}
	}
	if why := sys.Counters().Off.Untimed; why != "" {
		a.log.Warn("what the kernel's programs take at switches of threads is not counted, and comes on top of --max-cpu", "why", why)
	}
	if slow := collect.SlowTimers(opt.System.Frequency); slow != nil && sys.Timer() {
		a.log.Warn("fewer samples than asked for", "why", slow.Reason())
		a.opt.System.Frequency = collect.TimerRate(opt.System.Frequency)
		a.budget.most = a.opt.System.Frequency
	}
	a.sampler = sys
	if opt.Calibrate.Budget > 0 {
		calibrating = true // New closes the log
		opt.Calibrate.PIDs, opt.Calibrate.Notify, opt.Calibrate.Memory = opt.System.PIDs, logged{a.log}, mostMemory
		probes, err := calibrate.New(sys, opt.Calibrate)
		if err != nil {
			sys.Close()
			return nil, err
		}
		a.probes = probes
	}
	a.cpu = opt.Used
	a.begin(time.Now())
	return a, nil
}

// openStore opens the store, or the spool of one in a bucket.
func (a *Agent) openStore() (err error) {
	opts := store.Options{Warn: func(err error) {
		a.log.Warn("part of the store is not used; backfeed store fsck says what can be repaired", "error", err)
	}}
	if !store.InBucket(a.opt.Store) {
		a.into, err = store.Create(a.opt.Store, opts)
		return err
	}
	bucket, err := store.OpenBucket(a.opt.Store, opts)
	if err != nil {
		return fail.Wrap(fail.Usage, err)
	}
	spool, err := store.CreateDir(a.opt.Spool, opts)
	if err != nil {
		return err
	}
	a.into, a.up = spool, newUploader(spool, bucket, a.opt.Epoch, a.opt.Retain.MaxBytes, a.log)
	return nil
}

// logged has notices of a calibration in the agent's log.
type logged struct{ log *slog.Logger }

func (l logged) Warn(format string, args ...any) { l.log.Info(fmt.Sprintf(format, args...)) }
func (l logged) Progress(string, ...any)         {}
func (l logged) Done()                           {}

// percent prints a share, with as many digits as it has.
func percent(share float64) string { return fmt.Sprintf("%.6g%%", 100*share) }

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
func (a *Agent) begin(now time.Time) {
	a.from, a.drained, a.aimAt = now, now, now.Add(cmp.Or(a.opt.FirstAim, firstRounds))
	a.chores, a.copies, a.kept = make(chan func(), 16), make(chan imageFiles, input.MostHeld), map[sample.BuildID]bool{}
	a.work, a.endWork = context.WithCancel(context.Background())
	a.idle.Go(a.copyAll)
	a.idle.Go(func() {
		for chore := range a.chores {
			chore()
		}
	})
	a.status.rate, a.status.limit = a.opt.System.Frequency, a.budget.limit
	a.log.Info("sampling", "store", store.Name(a.opt.Store), "hz", a.opt.System.Frequency, "tick", a.opt.System.Tick, "max-cpu", percent(a.opt.MaxCPU))
	a.setRate(a.budget.rate())
	a.page.set(a.status)
}

// Run works until a signal comes.
func (a *Agent) Run(signals <-chan os.Signal) os.Signal {
	return Until(signals, stepEvery(a.opt.Flush), a.step)
}

// stepEvery is the time between two drains: a whole number of them is the time from one segment to the next.
func stepEvery(flush time.Duration) time.Duration {
	return flush / max(1, (flush+drainEvery-1)/drainEvery)
}

// due reports whether it is time for a segment: a step that comes a little early is not put off to the next.
func (a *Agent) due(now time.Time) bool {
	return now.Sub(a.from) >= a.opt.Flush-stepEvery(a.opt.Flush)/2
}

// Until takes a step every so often, until a signal comes.
func Until(signals <-chan os.Signal, every time.Duration, step func(now time.Time)) os.Signal {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case sig := <-signals:
			return sig
		case now := <-tick.C:
			step(now)
		}
	}
}

// step does what is due at the time now.
func (a *Agent) step(now time.Time) {
	a.drain()
	a.adjust(now)
	a.aim(now)
	a.shed()
	ended := sample.EpochAt(a.from, a.opt.Epoch) != sample.EpochAt(now, a.opt.Epoch)
	if ended || a.due(now) || Places(&a.gathered) > MaxGathered {
		a.write(now)
	}
	if ended {
		a.later(func() { a.tidy(now) })
	}
	a.status.stored = a.inStore.Load()
	if a.up != nil {
		now := a.up.status()
		a.status.uploads = &now
	}
	a.page.set(a.status)
}

// later does a chore when those before are done. If there are too many, it is left
// out: whatever it was comes up again.
func (a *Agent) later(chore func()) {
	select {
	case a.chores <- chore:
	default:
		a.log.Warn("the store is slow: merging and dropping are put off; if this goes on, use a faster disk or a longer --flush")
	}
}

// drain adds what was sampled to what is gathered.
func (a *Agent) drain() {
	rec, err := a.sampler.Drain()
	if err != nil {
		a.log.Error("samples could not be read; it is tried again with the next ones", "error", err)
		return
	}
	if most, rate := a.opt.System.Frequency, a.status.rate; a.probes == nil && !a.opt.System.Tick && rate > 0 && rate < most {
		rec.Slowed(float64(most) / float64(rate)) // probes count beside samples that are one sum
	}
	a.gathered.AddAll(rec)
	if a.probes != nil {
		a.probes.Drained(rec)
	}
	a.hold(rec)
	a.status.counters = a.sampler.Counters()
	a.log.Debug("drain", "samples", rec.Samples())
}

// agentRounds is the time between two choices of what to probe: the inference that they
// take is the dearest thing that an agent does. The first two are after firstRounds each: at the
// first walks begin, which tell at the second what to probe.
const agentRounds, firstRounds = time.Hour, time.Minute

// aim chooses what to probe, if that is due.
func (a *Agent) aim(now time.Time) {
	if a.probes == nil {
		return
	}
	if err := a.probes.Ended(); err != nil {
		a.log.Error("no executions are counted from here on; sampling goes on, and a restart tries again", "error", err)
	}
	if now.Before(a.aimAt) || !a.probes.May() {
		return
	}
	next := agentRounds
	if !a.aimed {
		a.aimed, next = true, cmp.Or(a.opt.FirstAim, firstRounds)
	}
	a.aimAt = now.Add(next)
	so, probes := sample.Merge(&a.gathered), a.probes
	a.later(func() {
		if err := probes.Choose(a.work, so, next); err != nil {
			a.log.Error("what to probe could not be chosen; it is tried again later", "error", err)
		}
	})
}

// mostMemory is what an agent may use, in bytes, where it could have that much. It mostly uses a
// thirtieth; with --calibrate, large programs take half.
const mostMemory = 1 << 30

// shed ends the calibration if the agent uses too much memory: samples are worth more. Its images are let go of beside the
// drains, after a choice that is going on.
func (a *Agent) shed() {
	if a.ended != nil {
		a.closeEnded()
	}
	most := min(mostMemory, bound.Most())
	if a.probes == nil || a.used() <= most {
		return
	}
	runtime.GC() // garbage may be most of it
	used := a.used()
	if used <= most {
		return
	}
	a.log.Error("too much memory is used: no executions are counted from here on; sampling goes on, and a restart tries again", "bytes", used)
	if err := a.probes.Stop(); err != nil {
		a.log.Error("probes did not end as they should; what they counted last may be missing", "error", err)
	}
	a.probes, a.ended = nil, a.probes
	a.gathered = *sample.Merge(&a.gathered)
	a.ended.AddTo(&a.gathered)
	a.closeEnded()
}

// closeEnded has what shed has stopped closed. If there are too many chores, it is for the next step to do.
func (a *Agent) closeEnded() {
	probes := a.ended
	select {
	case a.chores <- func() { probes.Close(); debug.FreeOSMemory() }:
		a.ended = nil
	default:
	}
}

// adjust sets the rate for the next interval by what the last one cost.
func (a *Agent) adjust(now time.Time) {
	cpu, seen, switches := collect.ProcessorTime(), a.status.counters.All, a.status.counters.Off.Took
	s := spending{own: cpu - a.cpu, switches: switches - a.switches, samples: seen - a.seen, machine: now.Sub(a.drained) * time.Duration(runtime.NumCPU())}
	a.cpu, a.seen, a.switches, a.drained = cpu, seen, switches, now
	if s.machine <= 0 {
		return
	}
	a.status.own += s.own
	a.status.stolen += a.budget.total(s) - s.own - s.switches
	a.status.cost = a.budget.total(s).Seconds() / s.machine.Seconds()
	if a.opt.System.Tick {
		a.status.rate = int(math.Round(float64(s.samples) / s.machine.Seconds())) // the kernel's; less where it is idle
		return
	}
	a.setRate(a.budget.next(s))
	if a.opt.System.OffCPU && !a.offStopped && a.budget.crowdedOut() {
		a.stopOffCPU()
	}
	if !a.complained && a.budget.hopeless() {
		a.complained = true
		a.log.Warn("the limit of the cost cannot be kept, even at 1 Hz; raise --max-cpu", "limit", percent(a.opt.MaxCPU), "own", fmt.Sprintf("%.2f%%", 100*a.budget.own), "of it at switches of threads", fmt.Sprintf("%.2f%%", 100*s.switches.Seconds()/s.machine.Seconds()))
	}
}

// stopOffCPU ends what takes the limit and leaves nothing to samples, of which all else is made.
func (a *Agent) stopOffCPU() {
	a.offStopped = true
	machine := a.budget.all.machine.Seconds() // the mean of all of it: a moving average begins with nothing spent
	at, own := a.budget.all.switches.Seconds()/machine, a.budget.all.own.Seconds()/machine
	need := at + own + a.budget.sampling(a.budget.most)
	a.log.Warn("time off the processor is not recorded from here on: what it takes at switches of threads leaves too little of --max-cpu to samples, which go on; a restart tries again",
		"at switches", fmt.Sprintf("%.2f%%", 100*at), "limit", percent(a.opt.MaxCPU), "for both, --max-cpu", fmt.Sprintf("%.1f%%", math.Ceil(1000*need)/10))
	if err := a.sampler.StopOffCPU(); err != nil {
		a.log.Error("the kernel's programs at switches of threads did not end as they should", "error", err)
	}
	a.budget.offEnded()
}

// setRate changes the rate. A small step up is not worth it.
func (a *Agent) setRate(hz int) {
	old := a.status.rate
	if a.opt.System.Tick || hz == old || hz > old && hz < old+old/10 && hz < a.opt.System.Frequency {
		return
	}
	if err := a.sampler.SetFrequency(hz); err != nil {
		a.log.Error("the rate could not be changed", "hz", hz, "error", err)
		return
	}
	a.log.Info("rate", "hz", hz, "was", old, "cost", fmt.Sprintf("%.2f%%", 100*a.status.cost))
	a.status.rate = hz
}

// write makes a segment of what is gathered. What the store does not take, for
// want of space, stays for the next time.
func (a *Agent) write(now time.Time) error {
	n := a.gathered.Samples()
	if n > 0 || len(a.gathered.Off) > 0 {
		rec := &a.gathered
		if a.probes != nil {
			rec = sample.Merge(rec) // what windows counted is added to what is written alone
			a.probes.AddTo(rec)
		}
		if a.opt.HashPaths {
			rec = rec.HashPaths()
		}
		if err := a.into.Put(sample.EpochAt(a.from, a.opt.Epoch), rec, a.opt.Labels); err != nil {
			a.log.Error("segment not written; its samples stay in memory for the next time", "error", err, "samples", n)
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
		a.later(a.measure)
	}
	a.gathered, a.from = sample.Recording{}, now
	return nil
}

// measure measures the store.
func (a *Agent) measure() {
	if st, err := a.into.Stats(); err == nil {
		a.inStore.Store(st.Bytes + st.CopyBytes)
		a.copied.Store(st.CopyBytes)
	}
}

// tidy merges the segments of epochs that have ended, and drops what is not to be kept, or sends it.
func (a *Agent) tidy(now time.Time) {
	if a.up == nil {
		Tidy(a.into, a.opt.Retain, now, a.log)
		return
	}
	Tidy(a.into, store.Retention{}, now, a.log)
	if err := a.up.ended(now); err != nil && !errors.Is(err, store.ErrBusy) {
		a.log.Error("what is to be sent could not be moved to the outbox; it is tried again later", "error", err)
	}
}

// Tidy merges the segments of epochs of a store that have ended by now, and drops what is not to be
// kept. Another agent or command that is at it does the same.
func Tidy(into store.Store, retain store.Retention, now time.Time, log *slog.Logger) {
	n, err := into.Compact(now)
	if err == nil {
		log.Info("epoch ended", "merged", n)
	} else if !errors.Is(err, store.ErrBusy) {
		log.Error("segments could not be merged; it is tried again later", "error", err)
	}
	if retain == (store.Retention{}) {
		return
	}
	dropped, err := into.GC(retain, now)
	if errors.Is(err, store.ErrMost) {
		log.Warn("nothing was dropped", "error", err, "do", "if the clock is right, `backfeed store gc --most`")
		err = nil
	}
	if err == nil && dropped.Bytes > 0 {
		log.Info("dropped by age or size", "epochs", dropped.Epochs, "copies", dropped.Copies, "bytes", dropped.Bytes)
	} else if err != nil && !errors.Is(err, store.ErrBusy) {
		log.Error("old samples could not be dropped; it is tried again later", "error", err)
	}
}

// bound drops what is gathered if it has grown too large.
func (a *Agent) bound() {
	if Places(&a.gathered) <= MaxGathered {
		return
	}
	n := a.gathered.Samples()
	a.log.Error("samples were dropped: the store took none for too long; make room or see to its permissions", "samples", n)
	a.status.dropped += n
	a.gathered = sample.Recording{}
}

// Close stops sampling and writes what is left.
func (a *Agent) Close() error {
	defer a.release()
	if a.probes != nil {
		if err := a.probes.Stop(); err != nil {
			a.log.Error("probes did not end as they should; what they counted last may be missing", "error", err)
		}
	}
	if err := a.sampler.Close(); err != nil {
		a.log.Error("sampling did not end as it should; the last samples may be missing", "error", err)
	}
	a.drain()
	err := a.write(time.Now())
	a.ending.Store(true)
	close(a.chores)
	close(a.copies)
	a.fresh.Close()
	end := time.AfterFunc(maxEnd, a.endWork)
	a.idle.Wait()
	end.Stop()
	a.endWork()
	if a.up != nil {
		ctx, cancel := context.WithTimeout(context.Background(), maxEnd)
		a.up.close(ctx)
		cancel()
	}
	for _, probes := range []counter{a.probes, a.ended} {
		if probes != nil {
			probes.Close()
		}
	}
	return err
}

// maxEnd is how long chores may go on once the agent was told to end. Copies of files can
// take longer; they are made when the images are seen again.
const maxEnd = 5 * time.Second

// release lets go of all but samples.
func (a *Agent) release() {
	if a.up != nil {
		a.up.end()
	}
	if a.serving != nil {
		a.serving.Close()
	}
}
