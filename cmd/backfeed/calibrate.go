package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/pflag"

	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// What a calibration arms together.
const (
	sitesPerGroup = 24 // half of what one window takes: arming dear as it is, more cost little more
	// runsRate bounds the hits per second of processor time of a group that shall tell
	// how often its sites run: at 0.7 us a hit, a program runs 3 times slower then. What
	// it ran of its own in a window is told by difference, and the more it is slowed the
	// worse. Branches that run oftener tell where they went.
	runsRate = 3e6
	// windowsOfGroup is how many windows a group should come to.
	windowsOfGroup = 20
	// hottestShare is the part of all groups that is for the branches that run most.
	// Where these go helps in every program; how often a site runs is uncertain by a third
	// or more after a minute, and comes to its own as recordings add up.
	hottestShare = 0.75
	// groupCost is what a window of one group adds, about: half of it to arm 24 sites.
	groupCost = 3 * time.Millisecond
	mostSites = 4000
	// probedImages are as many images as are looked into, by falling samples.
	probedImages = 12
	// usualTime is the processor time that a recording is thought to be of, at least.
	usualTime = time.Minute
)

// A calibrator has exact counts taken where the samples so far say least, again and
// again as samples and counts come in.
type calibrator struct {
	prober *collect.Prober
	run    *collect.Calibration
	calibrateFlags
	windows *os.File // of --calibrate-log; nil is none
	log     func(format string, args ...any)
	pids    []int  // to probe; nil is all
	proc    string // /proc
	// allowed tells of the first bytes of an instruction whether they may be probed.
	allowed func(code []byte, cond int8) error

	images map[sample.ImageID]*probedImage // by key
	groups []collect.ProbeGroup            // all that there have been
	sites  [][]infer.Site                  // of groups
	place  map[siteKey]int                 // index into groups

	last map[groupKind]int // group that takes more sites, during a choice

	cancel context.CancelFunc
	ended  chan error // gets what the run gave; nil once it was read
}

type siteKey struct {
	id  sample.ImageID
	off sample.Offset
}

// A probedImage is a file that processes run.
type probedImage struct {
	im   *image.Image
	file *os.File
	err  error
}

// calibrateFlags are those of commands that may calibrate.
type calibrateFlags struct {
	budget share // 0 is no calibration
	dry    bool
	log    string
}

// define adds the flags; dry is one where something else is done than to record.
func (f *calibrateFlags) define(fs *pflag.FlagSet, dry bool) {
	fs.Var(&f.budget, "calibrate", "count executions at some places exactly, by probes that may take this `share` of the processor time")
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

// newCalibrator starts to probe what sys samples, when choose has said what.
func newCalibrator(sys *collect.System, flags calibrateFlags, pids []int, log func(string, ...any)) (_ *calibrator, err error) {
	var windows *os.File
	if flags.log != "" {
		if windows, err = os.OpenFile(flags.log, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644); err != nil {
			return nil, fmt.Errorf("--calibrate-log: %w", err)
		}
		defer func() {
			if err != nil {
				windows.Close()
			}
		}()
	}
	p, err := collect.OpenProber(sys)
	if unavailable := (*collect.Unavailable)(nil); errors.As(err, &unavailable) {
		return nil, withCode(exitMachine, fmt.Errorf("--calibrate: %s. %s", unavailable.Why, unavailable.Fix))
	}
	if err != nil {
		return nil, fmt.Errorf("--calibrate: %w", err)
	}
	k := &calibrator{prober: p, calibrateFlags: flags, windows: windows, pids: pids, proc: "/proc", allowed: p.Allows, log: log, images: map[sample.ImageID]*probedImage{}, place: map[siteKey]int{}, last: map[groupKind]int{}, ended: make(chan error, 1)}
	k.run = collect.NewCalibration(p, collect.CalibrationOptions{Budget: float64(flags.budget), PID: k.alone, Log: func(g *collect.ProbeGroup, w *collect.ProbeWindow, err error) {
		if windows != nil {
			logWindow(windows, g, w, err)
		}
	}})
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	go func(ended chan<- error) { ended <- k.run.Run(ctx) }(k.ended)
	return k, nil
}

// logWindow writes a line for one window.
func logWindow(w io.Writer, g *collect.ProbeGroup, win *collect.ProbeWindow, err error) {
	offs := make([]string, len(g.Sites))
	for i, s := range g.Sites {
		offs[i] = fmt.Sprintf("%#x", uint64(s.Off))
		if win != nil {
			offs[i] += fmt.Sprintf("=%d", win.Hits[i])
			if s.Cond != collect.NoCond {
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

// stop ends all windows. Nothing is armed when it returns.
func (k *calibrator) stop() error {
	if k.ended == nil {
		return nil
	}
	k.cancel()
	err := errors.Join(<-k.ended, k.prober.Close())
	k.ended = nil
	if k.windows != nil {
		err = errors.Join(err, k.windows.Close())
	}
	return err
}

// close is stop, and lets go of the images too: no choice may be under way.
func (k *calibrator) close() error {
	err := k.stop()
	for _, pi := range k.images {
		if pi.err == nil {
			pi.im.Close()
			pi.file.Close()
		}
	}
	k.images = nil
	return err
}

// open gives the image of a running process that id names.
func (k *calibrator) open(id sample.ImageID) (*image.Image, error) {
	pi := k.images[id.Key()]
	if pi == nil {
		pi = &probedImage{}
		k.images[id.Key()] = pi
		if pi.err = fileless(id); pi.err == nil {
			p := places{proc: k.proc}
			pi.file, _, pi.err = p.open(id)
		}
		if pi.err == nil {
			if pi.im, pi.err = image.Open(pi.file.Name(), image.Options{DebugDirs: []string{"/usr/lib/debug"}}); pi.err != nil {
				pi.file.Close()
			}
		}
	}
	return pi.im, pi.err
}

// choose has the places probed that tell most beside what rec says already.
func (k *calibrator) choose(rec *sample.Recording) error {
	known := sample.Merge(rec)
	c := timed(known)
	if c == nil {
		return nil
	}
	k.run.AddTo(c)
	hot := map[sample.ImageID]bool{}
	for i, id := range mostFirst(sampled(rec)) {
		hot[id.Key()] = i < probedImages
	}
	_, _, of := k.run.Spent()
	seconds := max(usualTime, 2*of).Seconds()
	most := max(2, int(float64(k.budget)*seconds/groupCost.Seconds()/windowsOfGroup))
	places := min(most*sitesPerGroup, mostSites)
	p, err := infer.Infer(known, func(id sample.ImageID) (*image.Image, error) {
		if !hot[id.Key()] {
			return nil, errNotFound
		}
		return k.open(id)
	}, infer.Options{
		Sites: max(1, places-int(hottestShare*float64(places))),
		Probing: infer.Probing{
			// All windows of a group together. They are as long as their hits cost what
			// arming does.
			MaxRate: runsRate, Window: windowsOfGroup * 0.5e-3, Fixed: windowsOfGroup * 0.5e-3, PerHit: k.prober.HitCost().Seconds(),
		},
	})
	if errors.Is(err, infer.ErrNothing) {
		return nil
	}
	if err != nil {
		return err
	}
	k.setGroups(k.group(append(hottestBranches(p, c, int(hottestShare*float64(places))), p.Sites...), most))
	return nil
}

// hottestBranches gives the conditional branches that run most, by what was inferred.
func hottestBranches(p *infer.Profile, c *sample.Counts, most int) []infer.Site {
	seconds := float64(c.Weight) / 1e9
	if c.Event.Unit != "ns" {
		seconds = 1 // any: order is what counts
	}
	var all []infer.Site
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			sites := ip.Image.ProbeSites(r.Proc)
			for b, f := range r.Block {
				if f.N < 1 || len(sites[b]) == 0 || sites[b][0].Cond < 0 {
					continue
				}
				all = append(all, infer.Site{Image: ip, Proc: r, Block: b, ProbeSite: sites[b][0], Rate: f.N / seconds, Gain: f.N})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b infer.Site) int { return cmp.Compare(b.Gain, a.Gain) })
	return all[:min(len(all), most)]
}

// timed gives the counts of rec that windows are added to: those of the event with the
// most samples.
func timed(rec *sample.Recording) (most *sample.Counts) {
	for _, c := range rec.Counts {
		if c.Weight > 0 && (most == nil || c.Total > most.Total) {
			most = c
		}
	}
	return most
}

// group puts sites into groups, those of one procedure together as far as may be: what
// windows missed of a procedure is then off in all its counts alike. A group stays as it
// is once it is made, for its windows are of all its sites; what a later choice leaves
// out of it only makes it less important. There are at most so many of them at a time.
func (k *calibrator) group(sites []infer.Site, most int) []collect.ProbeGroup {
	gains := make([]float64, len(k.groups))
	for _, s := range sites {
		if i, ok := k.place[siteKey{s.Image.ID.Key(), s.Off}]; ok {
			gains[i] += s.Gain
		}
	}
	for _, g := range gains {
		if g > 0 {
			most--
		}
	}
	of := map[*infer.Result]int{} // sites of a procedure
	for _, s := range sites {
		of[s.Proc]++
	}
	for _, s := range sites {
		key := siteKey{s.Image.ID.Key(), s.Off}
		if _, ok := k.place[key]; ok {
			continue
		}
		pi := k.images[key.id]
		if pi == nil || pi.err != nil || k.allows(pi, s.ProbeSite) != nil {
			continue
		}
		kind := groupKind{id: key.id, hot: !s.Runs}
		if of[s.Proc] >= sitesPerGroup/2 {
			kind.proc = s.Proc.Proc.Addr
		}
		i, ok := k.last[kind]
		if !ok || len(k.groups[i].Sites) >= sitesPerGroup || s.Runs && k.groups[i].Rate+s.Rate > runsRate {
			if most <= 0 {
				continue
			}
			most--
			i = len(k.groups)
			k.groups = append(k.groups, collect.ProbeGroup{ID: s.Image.ID, File: pi.file.Name()})
			k.sites = append(k.sites, nil)
			gains = append(gains, 0)
			k.last[kind] = i
		}
		g := &k.groups[i]
		g.Sites = append(slices.Clip(g.Sites), collect.ProbeSite{ID: s.Image.ID, Off: s.Off, Cond: s.Cond})
		k.sites[i] = append(k.sites[i], s)
		g.Rate += s.Rate
		gains[i] += s.Gain
		k.place[key] = i
	}
	clear(k.last) // windows have begun: from here on they are as they are
	var out []collect.ProbeGroup
	traced := tracedFiles(k.proc)
	for i, g := range k.groups {
		if gains[i] > 0 && !traced[g.File] && !traced[g.ID.Path] {
			g.Gain = gains[i]
			out = append(out, g)
		}
	}
	return out
}

// A groupKind is what the sites of a group have in common.
type groupKind struct {
	id   sample.ImageID
	proc image.Addr // of the procedure; 0 if they are of several
	hot  bool       // they are branches whose outcomes alone are asked for
}

func (k *calibrator) setGroups(groups []collect.ProbeGroup) {
	if !k.dry {
		k.run.SetGroups(groups)
	}
	n, windows := 0, 0
	for _, g := range groups {
		n += len(g.Sites)
	}
	windows, _, _ = k.run.Spent()
	k.log("probing %d places in %d groups; windows so far: %d", n, len(groups), windows)
}

// allows tells whether the kernel emulates the instruction that is really there.
func (k *calibrator) allows(pi *probedImage, s image.ProbeSite) error {
	var b [8]byte
	n, err := pi.file.ReadAt(b[:], int64(s.Off))
	if err != nil && err != io.EOF {
		return err
	}
	return k.allowed(b[:n], s.Cond)
}

// alone gives the process to arm probes in alone: the only one that is asked for, if it
// has no children. Others that run the same files then notice nothing.
func (k *calibrator) alone() int {
	if len(k.pids) != 1 {
		return 0
	}
	tasks, err := filepath.Glob(fmt.Sprintf("%s/%d/task/*/children", k.proc, k.pids[0]))
	if err != nil || len(tasks) == 0 {
		return 0
	}
	for _, path := range tasks {
		if b, err := os.ReadFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) || len(b) > 0 {
			return 0
		}
	}
	return k.pids[0]
}

// tracedFiles gives the files that processes under a debugger have mapped: probes and a
// debugger's breakpoints do not go together.
func tracedFiles(proc string) map[string]bool {
	files := map[string]bool{}
	all, _ := filepath.Glob(filepath.Join(proc, "[0-9]*/status"))
	for _, path := range all {
		b, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		_, line, _ := strings.Cut(string(b), "\nTracerPid:")
		line, _, _ = strings.Cut(line, "\n")
		if tracer, err := strconv.Atoi(strings.TrimSpace(line)); err != nil || tracer == 0 {
			continue
		}
		maps, err := os.ReadFile(filepath.Join(filepath.Dir(path), "maps"))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(maps)) {
			if i := strings.IndexByte(line, '/'); i >= 0 {
				files[strings.TrimSpace(line[i:])] = true
			}
		}
	}
	return files
}

// rounds are when a recording is looked at to choose anew, since its start.
var rounds = []time.Duration{2 * time.Second, 15 * time.Second}

// roundAfter gives the time of the round after one.
func roundAfter(t time.Duration) time.Duration {
	for _, r := range rounds {
		if r > t {
			return r
		}
	}
	return 3 * t
}

// calibrated records a command, processes or the machine with probes, until the time is
// up, a signal comes or what is recorded has ended. State is that of the command.
func (c *cli) calibrated(opt collect.Options, what systemFlags, flags calibrateFlags) (rec *sample.Recording, state *os.ProcessState, err error) {
	for _, pid := range opt.PIDs {
		if syscall.Kill(pid, 0) == syscall.ESRCH {
			return nil, nil, fmt.Errorf("there is no process %d", pid)
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
	defer sys.Close()
	k, err := newCalibrator(sys, flags, what.pids, c.warn)
	if err != nil {
		return nil, nil, err
	}
	defer k.close()
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
	if rec, err = k.record(ctx, sys, ended); err != nil {
		return nil, nil, err
	}
	if held != nil {
		held.Stop()
		state = held.State()
	}
	c.tellSystem(rec, sys.Counters(), what)
	if flags.dry {
		return rec, state, c.tellPlan(k)
	}
	c.tellCalibration(k, rec)
	return rec, state, nil
}

// record samples until ctx is done or ended is closed, and chooses what to probe.
func (k *calibrator) record(ctx context.Context, sys sampler, ended <-chan struct{}) (*sample.Recording, error) {
	const drainEvery = time.Second // the first choice is soon
	tick := time.NewTicker(drainEvery)
	defer tick.Stop()
	start, round := time.Now(), roundAfter(0)
	var sum sample.Recording
	chosen := make(chan error, 1)
	choosing := false
	for done := false; !done; {
		select {
		case <-ctx.Done():
			done = true
		case <-ended:
			done = true
		case err := <-chosen:
			k.complain(err)
			choosing = false
			continue
		case <-tick.C:
		}
		if done {
			if choosing {
				<-chosen
			}
			k.complain(k.stop())
			if err := sys.Close(); err != nil {
				return nil, err
			}
		}
		rec, err := sys.Drain()
		if err != nil {
			return nil, err
		}
		addTo(&sum, rec)
		if at := time.Since(start); !done && !choosing && at >= round {
			choosing, round = true, roundAfter(at)
			so := sample.Merge(&sum)
			go func() { chosen <- k.choose(so) }()
		}
	}
	if c := timed(&sum); c != nil {
		k.run.AddTo(c)
	}
	return sample.Merge(&sum), nil
}

// complain tells of an error of the probes. Samples are worth keeping all the same.
func (k *calibrator) complain(err error) {
	if err != nil {
		k.log("--calibrate: %v", err)
	}
}

// endOf is closed when none of some processes is there any more; of none it never is.
func endOf(pids []int) <-chan struct{} {
	if len(pids) == 0 {
		return nil
	}
	ended := make(chan struct{})
	go func() {
		for slices.ContainsFunc(pids, func(pid int) bool { return syscall.Kill(pid, 0) != syscall.ESRCH }) {
			time.Sleep(100 * time.Millisecond)
		}
		close(ended)
	}()
	return ended
}

// tellCalibration says what was probed, and what that cost.
func (c *cli) tellCalibration(k *calibrator, rec *sample.Recording) {
	windows, added, of := k.run.Spent()
	if windows == 0 {
		c.warn("nothing was probed")
		return
	}
	probed, _ := rec.Exact(nil)
	c.warn("%d windows counted at %d places; they took about %v of %v of processor time (%.2f%%), at %v a hit",
		windows, probed, added.Round(time.Millisecond), of.Round(time.Millisecond), 100*added.Seconds()/max(of.Seconds(), 1e-9), k.prober.HitCost())
}

// tellPlan says what would be probed.
func (c *cli) tellPlan(k *calibrator) error {
	t := report.NewTable(report.Right("group"), report.Right("hits/s"), report.Left("counts"), report.Left("address"), report.Left("procedure"), report.Left("file"))
	for i, sites := range k.sites {
		for j, s := range sites {
			number, rate, what := "", "", "runs, outcomes"
			if j == 0 {
				number, rate = strconv.Itoa(i+1), fmt.Sprintf("%.3g", k.groups[i].Rate)
			}
			if !s.Runs {
				what = "outcomes"
			} else if s.Cond == collect.NoCond {
				what = "runs"
			}
			t.Row(number, rate, what, fmt.Sprintf("%#x", uint64(s.Addr)), s.Proc.Proc.Name, k.groups[i].File)
		}
	}
	return t.Write(c.stdout, false)
}
