package calibrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/bound"
	"backfeed/sample/collect"
	"backfeed/sample/probe"
	"backfeed/sample/trace"
)

// What a calibration arms together.
const (
	sitesPerGroup = 36 // of the most that one window takes: what later choices add has room too
	// mostOwnRate is how often sites of one procedure may run that are armed together, per
	// second of its own time, where windows shall tell how often: they slow it down more than
	// four times. What a program ran of its own in a window is told by difference, and the more it
	// is slowed the worse. As procedures share the time, this holds of any number of them.
	mostOwnRate = 4e6
	// groupCost is what a window of one group takes, about: half of it the prober's.
	// windowsRate is how many there are in a second at most, for the kernel's own waits.
	groupCost   = 6 * time.Millisecond
	windowsRate = 10
	// runsShare is the part of all windows that is for how often procedures run, where walks do
	// not tell where branches go; with them it is all. runsWindows is how many a group of these
	// should come to: SQLite's, with phases of a few hundredths of a second, were known to 0.36
	// after 40 windows of 5 ms at most, to 0.24 after 80 and to 0.1 after 200. wantedWindows is that of groups that walks want, whose
	// windows are longer: the rates of four places of a Go program agreed with those of callgrind to 0.03 after 50, the standard deviation of each being 0.06;
	// those of zstd were known to 0.2 to 0.3 after 63.
	runsShare, runsWindows, wantedWindows = 0.6, 200, 50
	// outcomesWindows is how many windows a group should come to, until the next choice, that
	// tells where branches go.
	outcomesWindows = 8
	// ownShare is the part of their sites that is chosen branch by branch.
	ownShare  = 0.75
	mostSites = 4000
	// mostMemory is what this process may use when it chooses, in bytes, if nothing else is said.
	// GCC's compiler takes 0.6 GB.
	mostMemory = 2 << 30
	// fewWindows is how many windows of a site have to say that it hardly runs.
	fewWindows = 10
	// probedImages are as many images as are looked into, by falling samples.
	probedImages = 12
	// usualTime is the processor time that a recording is thought to be of, at least.
	usualTime = time.Minute
)

// Options say how much to calibrate, and what.
type Options struct {
	Budget float64        // share of the processor time of what is sampled that all of it may take
	Paths  bool           // keep a sample of the paths that walks took
	Dry    bool           // choose what to probe, and probe nothing
	Log    io.WriteCloser // gets a line for each window, and is closed after the last; nil is none
	PIDs   []int          // to probe; nil is all
	Length time.Duration  // of the recording; 0 is not known
	Whole  bool           // all that this process does from now on is for that; else its choices are
	Before time.Duration  // with Whole, processor time of this process that was not for it
	Memory int64          // bytes that this process may use when it chooses; 0 is mostMemory
	Alone  *LongAlone     // how long walks sample, where nothing else can; nil is not
	Notify report.Notify
	Style  report.Style // of WritePlan
}

// A Calibrator has counts observed where the samples so far say least, again and
// again as samples and counts come in.
type Calibrator struct {
	prober atomic.Pointer[collect.Prober] // nil with noProbes, and as long as there was no room for one
	run    *probe.Windows
	walker *collect.Walker                 // nil without a System, or where its kernel has no walks
	long   *longWalks                      // nil is none
	seen   *trace.Walks                    // what all walks saw
	walked map[sample.ImageID]map[int]bool // by key: the symbols that walks go through

	decoded  map[sample.ImageID]map[int]*walkedProc // likewise, with their code
	inKernel atomic.Bool                            // walker has code
	probing  atomic.Bool                            // there are groups
	refused  atomic.Bool                            // there is no prober to be had
	walkless atomic.Bool                            // the kernel has no walks

	noWalks  error                // why there are none; nil while there are, or have not been tried
	noProbes *collect.Unavailable // why there is no prober; nil if there is one

	opt     Options
	sys     *collect.System // nil: long walks alone
	budget  budget
	began   time.Time
	used    atomic.Int64  // processor time of what was sampled so far, in ns
	choices atomic.Int64  // what choices took of this process, in ns, without Options.Whole
	once    time.Duration // what was done once in this choice
	// code is what walks go through, nil before the first choice. It waits for those in the kernel where there was no room to begin them.
	code    *walksCode
	waits   bool
	before  time.Duration // processor time of this process when the choice began
	rate    atomic.Uint64 // of windows, as of rates
	pace    atomic.Uint64 // of long walks, likewise
	proc    string        // /proc
	running input.Running // what runs as the choice begins
	// allowed tells of the first bytes of an instruction whether they may be probed.
	allowed func(code []byte, cond int8) error

	images map[sample.ImageID]*probedImage // by key
	runs   []*chosen                       // groups that tell how often procedures run
	place  map[siteKey]*chosen             // of runs
	plan   []*chosen                       // what is probed now
	dense  map[siteKey]bool                // not to be asked how often they run

	samples float64         // that the last choice was made by
	sampled []*sampledImage // as of the last choice
	// samplesIn and sized are of images by key, until the first choice.
	samplesIn map[sample.ImageID]uint64
	sized     map[sample.ImageID]*sizedImage
	graphs    bool                      // there were graphs of what was sampled, which the next choices need not look for again
	outside   atomic.Pointer[[2]uint64] // of the kernel's walks when they were given code: how many there were, and those that left the code they knew

	cancel context.CancelFunc
	ended  chan error // gets what the run returned; nil once it was read
}

type siteKey struct {
	id  sample.ImageID
	off sample.Offset
}

// A chosen group is one with what its sites were chosen for.
type chosen struct {
	probe.Group
	sites []infer.Site
	own   map[image.Addr]float64 // of each procedure, how often its sites run in its own time
}

// A probedImage is a file that processes run.
type probedImage struct {
	im   *image.Image
	file *os.File
	err  error
}

// New starts to probe what sys samples, when Choose has said what. Its error is of the kind
// fail.Machine if this machine can neither probe nor walk. Without sys, there are long walks alone.
func New(sys *collect.System, opt Options) (_ *Calibrator, err error) {
	defer func() {
		if err != nil && opt.Log != nil {
			opt.Log.Close()
		}
	}()
	k := &Calibrator{opt: opt, sys: sys, began: time.Now(), budget: budget{share: opt.Budget, length: opt.Length}, proc: "/proc", seen: new(trace.Walks), images: map[sample.ImageID]*probedImage{}, place: map[siteKey]*chosen{}, samplesIn: map[sample.ImageID]uint64{}, sized: map[sample.ImageID]*sizedImage{}, walked: map[sample.ImageID]map[int]bool{}, decoded: map[sample.ImageID]map[int]*walkedProc{}, dense: map[siteKey]bool{}, ended: make(chan error, 1)}
	if opt.Paths {
		k.seen.KeepPaths()
	}
	if k.long, err = newLongWalks(k); err != nil && sys == nil {
		return nil, fail.Wrap(fail.Machine, err)
	}
	err = nil // without long walks, there is the rest
	if sys == nil {
		k.noProbes = &collect.Unavailable{Why: "ordinary users have long walks alone"}
		k.refused.Store(true)
	} else if opt.Dry {
		err = k.openProber()
	} else if k.noProbes = collect.TryProbes(); k.noProbes != nil {
		err = k.withoutProbes()
	}
	k.walkless.Store(sys == nil || k.noWalks != nil)
	if err != nil {
		return nil, err
	}
	k.run = probe.NewWindows(k.prober.Load(), probe.Options{Budget: opt.forWindows(), Rate: func() float64 { return math.Float64frombits(k.rate.Load()) }, PID: k.alone, Log: func(g *probe.Group, w *probe.Window, err error) {
		if opt.Log != nil {
			logWindow(opt.Log, g, w, err)
		}
	}})
	if sys != nil && k.noWalks == nil {
		k.walker = collect.NewWalker(sys, collect.WalkOptions{Share: opt.forWalks(), Seen: k.seen})
		k.walker.SetShare(0) // until there is code
	}
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	go func(ended chan<- error) { ended <- k.run.Run(ctx) }(k.ended)
	return k, nil
}

// withoutProbes says that there are none. The error is that there is nothing else either.
func (k *Calibrator) withoutProbes() error {
	if k.noWalks = TryWalks(k.sys); k.opt.Dry || k.noWalks != nil && k.long == nil {
		return fail.Wrap(fail.Machine, &calibrateError{k.noProbes})
	}
	k.refused.Store(true)
	kind := "walks"
	if k.noWalks != nil {
		kind = "long walks"
	}
	k.opt.Notify.Warn("--calibrate: no probes, %s alone: %s", kind, k.noProbes.Reason())
	return nil
}

// openProber starts the prober. That it cannot be had is no error if there is something else.
func (k *Calibrator) openProber() error {
	p, err := collect.OpenProber(k.sys)
	if errors.As(err, &k.noProbes) {
		return k.withoutProbes()
	}
	if err != nil {
		return fmt.Errorf("--calibrate: %w", err)
	}
	k.allowed = p.Allows
	k.prober.Store(p)
	return nil
}

// Ended returns the error that probing ended with, once: nil while it goes on.
func (k *Calibrator) Ended() error {
	select {
	case err := <-k.ended:
		k.ended <- nil // told
		return err
	default:
		return nil
	}
}

// TryWalks returns why the kernel does not take the program that walks; nil if it does.
func TryWalks(sys *collect.System) error {
	w := collect.NewWalker(sys, collect.WalkOptions{})
	return errors.Join(w.SetImages(nil), w.Close())
}

// A calibrateError says why there is no calibration.
type calibrateError struct{ why *collect.Unavailable }

func (e *calibrateError) Error() string { return "--calibrate: " + e.why.Reason() }
func (e *calibrateError) Unwrap() error { return e.why }

// logWindow writes a line for one window.
func logWindow(w io.Writer, g *probe.Group, win *probe.Window, err error) {
	offs := make([]string, len(g.Sites))
	for i, s := range g.Sites {
		offs[i] = fmt.Sprintf("%#x", uint64(s.Off))
		if win != nil {
			offs[i] += fmt.Sprintf("=%d", win.Hits[i])
			if s.Cond != probe.NoCond {
				offs[i] += fmt.Sprintf("/%d", win.Taken[i])
			}
		}
	}
	at := time.Now().UTC().Format("2006-01-02T15:04:05.000Z")
	if err != nil {
		fmt.Fprintf(w, "%s\t%s\tfailed: %v\t%s\n", at, g.File, err, strings.Join(offs, " "))
		return
	}
	fmt.Fprintf(w, "%s\t%s\topen %v\tarmed %v\ttime %v\thits %d\t%s\n", at, g.File, win.Open, win.Armed, win.Time, win.All, strings.Join(offs, " "))
}

// Stop ends all windows. Nothing is armed when it returns.
func (k *Calibrator) Stop() error {
	if k.ended == nil {
		return nil
	}
	k.cancel()
	k.long.stop()
	err := errors.Join(<-k.ended, k.prober.Load().Close())
	if k.walker != nil {
		err = errors.Join(err, k.walker.Close())
	}
	k.ended = nil
	if k.opt.Log != nil {
		err = errors.Join(err, k.opt.Log.Close())
	}
	return err
}

// Close is Stop, and lets go of the images too: no choice may be running.
func (k *Calibrator) Close() error {
	err := k.Stop()
	for _, pi := range k.images {
		if pi.err == nil {
			pi.im.Close()
			pi.file.Close()
		}
	}
	k.images = nil
	return err
}

// open returns the image of a running process that id names.
func (k *Calibrator) open(id sample.ImageID) (*image.Image, error) {
	pi := k.images[id.Key()]
	if pi == nil {
		pi = &probedImage{}
		k.images[id.Key()] = pi
		if pi.err = input.Fileless(id); pi.err == nil && id.OfKernel() {
			pi.err = errors.New("code of the kernel, which is not probed")
		}
		if pi.err == nil {
			pi.file, _, pi.err = k.running.Open(id)
		}
		if pi.err == nil {
			if pi.im, pi.err = image.OpenFile(pi.file, image.Options{DebugDirs: []string{"/usr/lib/debug"}}); pi.err != nil {
				pi.file.Close()
			}
		}
	}
	return pi.im, pi.err
}

// Choose has the places probed that tell most beside what rec says already, which it adds to, until the
// next choice after so long. Once ctx is done, it chooses nothing and returns soon; so it does where
// it takes too much memory, which its error tells.
func (k *Calibrator) Choose(ctx context.Context, rec *sample.Recording, next time.Duration) (err error) {
	ctx, end := bound.Watch(ctx, cmp.Or(k.opt.Memory, mostMemory))
	defer end()
	defer func() {
		if why := context.Cause(ctx); errors.Is(why, bound.ErrBeyond) {
			err = fmt.Errorf("what to probe could not be chosen: %w", why)
		}
	}()
	k.once = 0
	took := k.timed(func() { err = k.choose(ctx, rec, next) })
	k.budget.chose(took, k.once)
	return err
}

// timed does something for a choice, and returns what it took of this process.
func (k *Calibrator) timed(do func()) time.Duration {
	k.budget.chooses()
	k.before = collect.ProcessorTime()
	do()
	took := collect.ProcessorTime() - k.before
	k.choices.Add(int64(took))
	return took
}

func (k *Calibrator) choose(ctx context.Context, known *sample.Recording, next time.Duration) error {
	c := Timed(known)
	if c == nil {
		return nil
	}
	k.running = input.Running{Proc: k.proc}
	k.sampled = k.bySymbol(known)
	if len(k.sampled) == 0 {
		return nil
	}
	if !k.opt.Dry {
		k.walk()
	}
	prober := k.prober.Load()
	if prober == nil {
		if !k.mayProbe() {
			return nil
		}
		if err := k.openProber(); err != nil {
			return err
		}
		if prober = k.prober.Load(); prober == nil {
			return nil
		}
		k.run.SetProber(prober)
	}
	placed, err := k.placed(ctx, known)
	if placed == nil || err != nil {
		return err
	}
	p := placed.Profile
	k.samples = float64(p.Samples.Used + p.Samples.Lost[infer.LostAside])
	k.leave(k.run.Dense())
	_, _, of := k.run.Spent()
	seconds := max(usualTime, 2*of).Seconds()
	rate := min(k.opt.forWindows()/groupCost.Seconds(), windowsRate)
	groups := [2]int{outcomes: groupsFor((1-k.runsShare())*rate*next.Seconds(), outcomesWindows), runs: groupsFor(k.runsShare()*rate*seconds, runsWindows)}
	if plan, ok := k.wantedPlan(p, groupsFor(rate*seconds, wantedWindows)); ok {
		k.setGroups(plan)
		return nil
	}
	if !k.opt.Dry && !k.budget.mayOnce(k.toEstimate(p)+k.sofar()) {
		return nil
	}
	single := int(ownShare * float64(groups[outcomes]*sitesPerGroup))
	err = placed.Estimate(ctx, infer.Options{
		Sites: groups[outcomes]*sitesPerGroup - single,
		Probing: infer.Probing{
			// All windows of a group together. They are as long as their hits cost what
			// arming does.
			Window: outcomesWindows * 0.5e-3, Fixed: outcomesWindows * 0.5e-3, PerHit: prober.HitCost().Seconds(),
		},
	})
	if err != nil {
		return notEnded(err)
	}
	plan := k.groupRuns(k.mostRun(p, c, 4*groups[runs]*sitesPerGroup), groups[runs])
	if groups[outcomes] > 0 {
		plan = append(plan, k.groupOutcomes(append(unsureBranches(p, c, single), p.Sites...), groups[outcomes])...)
	}
	k.setGroups(plan)
	return nil
}

// placed puts the samples of known, and what was counted, into the blocks of the images that were looked into; nil if none of them lies there, or
// ctx is done.
func (k *Calibrator) placed(ctx context.Context, known *sample.Recording) (*infer.Placed, error) {
	before := collect.ProcessorTime()
	k.addTo(known, k.seen.AddCounts)
	hot := map[sample.ImageID]bool{}
	for _, s := range k.sampled {
		hot[s.id.Key()] = true
	}
	placed, err := infer.PlaceSamples(ctx, known, func(id sample.ImageID) (*image.Image, error) {
		if !hot[id.Key()] {
			return nil, input.ErrNotFound
		}
		return k.open(id)
	}, k.toPlace())
	if errors.Is(err, infer.ErrNothing) {
		return nil, nil
	}
	if err != nil {
		return nil, notEnded(err)
	}
	if !k.graphs {
		k.once += (collect.ProcessorTime() - before) * (opened - 1) / opened
		k.graphs = true
	}
	return placed, nil
}

// toGraph is what the next graphs of what was sampled take beside choices that had some before.
func (k *Calibrator) toGraph() (cost time.Duration) {
	if k.graphs {
		return 0
	}
	for _, s := range k.sampled {
		cost += perMB(scanCost, k.sized[s.id.Key()].codeSize())
		for i := range s.procs {
			if d := k.decoded[s.id.Key()][i]; d != nil {
				cost += time.Duration(len(d.insts)) * graphCost
			}
		}
	}
	return cost
}

// toPlace says what a choice is made of.
func (k *Calibrator) toPlace() (opt infer.Options) {
	if opt.NoCallers = !k.walkless.Load(); opt.NoCallers && !k.opt.Dry {
		opt.Part = enoughSamples
	}
	return opt
}

// toEstimate is what it takes to infer all of p.
func (k *Calibrator) toEstimate(p *infer.Profile) (cost time.Duration) {
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			cost += time.Duration(len(r.Block)) * estimateCost
		}
	}
	return cost
}

// notEnded is err, or nil if it is that of a context that is done: whoever ended a choice does not wait for it.
func notEnded(err error) error {
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// wantedPlan returns up to most groups that tell how often code runs, as walks want it; it is not ok
// if they do not tell, and will not.
func (k *Calibrator) wantedPlan(p *infer.Profile, most int) (plan []*chosen, ok bool) {
	if k.noWalks != nil || k.opt.Dry {
		return nil, false
	}
	if groups := k.wantedByWalks(p, most); len(groups) > 0 {
		k.setRuns(groups)
		return k.important(groups, len(groups), 1), true
	}
	return nil, k.kernelWalks().Walks < manyWalks
}

// manyWalks is how many walks tell which sites to ask how often they run, if they ever do.
const manyWalks = 200

// runsShare is the part of all windows that is for how often code runs.
func (k *Calibrator) runsShare() float64 {
	if k.noWalks == nil {
		return 1
	}
	return runsShare
}

// groupsFor is how many groups can come to so many windows each.
func groupsFor(windows, each float64) int {
	if windows == 0 {
		return 0
	}
	return min(max(1, int(math.Round(windows/each))), mostSites/sitesPerGroup)
}

// Timed returns the counts of rec that windows and walks are added to: those of the event of
// time with the most samples; nil if there are none.
func Timed(rec *sample.Recording) (most *sample.Counts) {
	for _, c := range rec.Counts {
		if c.Weight > 0 && (most == nil || c.Total > most.Total) {
			most = c
		}
	}
	return most
}
