package calibrate

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/probe"
)

// What a calibration arms together.
const (
	sitesPerGroup = 36 // of the most that one window takes: what later choices add has room too
	// mostOwnRate is how often sites of one procedure may run that are armed together, per
	// second of its own time, where windows shall tell how often: they slow it down more than
	// four times. What a program ran of its own in a window is told by difference, and the more it
	// is slowed the worse. As procedures share the time, this holds of any number of them.
	mostOwnRate = 4e6
	// groupCost is what a window of one group adds, about: half of it to arm its sites.
	// windowsRate is how many there are in a second at most, for the kernel's own waits.
	groupCost   = 1300 * time.Microsecond
	windowsRate = 10
	// runsShare is the part of all windows that is for how often procedures run, where walks do
	// not tell where branches go; with them it is all. runsWindows is how many a group of these
	// should come to: SQLite's, with phases of a few hundredths of a second, were known to 0.36
	// after 40 windows, to 0.24 after 80 and to 0.1 after 200.
	runsShare, runsWindows = 0.6, 200
	// outcomesWindows is how many windows a group should come to, until the next choice, that
	// tells where branches go.
	outcomesWindows = 8
	// ownShare is the part of their sites that is chosen branch by branch.
	ownShare  = 0.75
	mostSites = 4000
	// fewWindows is how many windows of a site have to say that it hardly runs.
	fewWindows = 10
	// probedImages are as many images as are looked into, by falling samples.
	probedImages = 12
	// usualTime is the processor time that a recording is thought to be of, at least.
	usualTime = time.Minute
)

// Options say how much to calibrate, and what.
type Options struct {
	Budget float64        // share of the processor time that walks and probes may take
	Dry    bool           // choose what to probe, and probe nothing
	Log    io.WriteCloser // gets a line for each window, and is closed after the last; nil is none
	PIDs   []int          // to probe; nil is all
	Notify report.Notify
}

// A Calibrator has counts observed where the samples so far say least, again and
// again as samples and counts come in.
type Calibrator struct {
	prober *collect.Prober // nil with noProbes
	run    *probe.Windows
	walker *collect.Walker
	walked map[sample.ImageID]map[int]bool // by key: the symbols that walks go through

	noWalks  error                // why there are none; nil while there are, or have not been tried
	noProbes *collect.Unavailable // why there is no prober; nil if there is one

	opt  Options
	proc string // /proc
	// allowed tells of the first bytes of an instruction whether they may be probed.
	allowed func(code []byte, cond int8) error

	images map[sample.ImageID]*probedImage // by key
	runs   []*chosen                       // groups that tell how often procedures run
	place  map[siteKey]*chosen             // of runs
	plan   []*chosen                       // what is probed now
	dense  map[siteKey]bool                // not to be asked how often they run

	samples float64 // that the last choice was made by

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
// fail.Machine if this machine can neither probe nor walk.
func New(sys *collect.System, opt Options) (_ *Calibrator, err error) {
	defer func() {
		if err != nil && opt.Log != nil {
			opt.Log.Close()
		}
	}()
	p, err := collect.OpenProber(sys)
	noProbes := (*collect.Unavailable)(nil)
	if errors.As(err, &noProbes) {
		if opt.Dry || TryWalks(sys) != nil {
			return nil, fail.Wrap(fail.Machine, &calibrateError{noProbes})
		}
		opt.Notify.Warn("--calibrate: no probes, walks alone: %s", noProbes.Reason())
		p, err = nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("--calibrate: %w", err)
	}
	k := &Calibrator{prober: p, noProbes: noProbes, opt: opt, proc: "/proc", allowed: p.Allows, images: map[sample.ImageID]*probedImage{}, place: map[siteKey]*chosen{}, walked: map[sample.ImageID]map[int]bool{}, dense: map[siteKey]bool{}, ended: make(chan error, 1)}
	k.run = probe.NewWindows(p, probe.Options{Budget: opt.forWindows(), PID: k.alone, Log: func(g *probe.Group, w *probe.Window, err error) {
		if opt.Log != nil {
			logWindow(opt.Log, g, w, err)
		}
	}})
	k.walker = collect.NewWalker(sys, collect.WalkOptions{Share: k.forWalks()})
	ctx, cancel := context.WithCancel(context.Background())
	k.cancel = cancel
	go func(ended chan<- error) { ended <- k.run.Run(ctx) }(k.ended)
	return k, nil
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
	err := errors.Join(<-k.ended, k.prober.Close(), k.walker.Close())
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
		if pi.err = input.Fileless(id); pi.err == nil {
			running := input.Running{Proc: k.proc}
			pi.file, _, pi.err = running.Open(id)
		}
		if pi.err == nil {
			if pi.im, pi.err = image.OpenFile(pi.file, image.Options{DebugDirs: []string{"/usr/lib/debug"}}); pi.err != nil {
				pi.file.Close()
			}
		}
	}
	return pi.im, pi.err
}

// Choose has the places probed that tell most beside what rec says already, until the
// next choice after so long.
func (k *Calibrator) Choose(rec *sample.Recording, next time.Duration) error {
	known := sample.Merge(rec)
	c := Timed(known)
	if c == nil {
		return nil
	}
	k.AddTo(known)
	hot := map[sample.ImageID]bool{}
	for i, id := range report.MostFirst(rec.ByImage()) {
		hot[id.Key()] = i < probedImages
	}
	placed, err := infer.PlaceSamples(known, func(id sample.ImageID) (*image.Image, error) {
		if !hot[id.Key()] {
			return nil, input.ErrNotFound
		}
		return k.open(id)
	}, infer.Options{})
	if errors.Is(err, infer.ErrNothing) {
		return nil
	}
	if err != nil {
		return err
	}
	p := placed.Profile
	k.samples = float64(p.Samples.Used)
	k.leave(k.run.Dense())
	if !k.opt.Dry {
		k.walk(p)
	}
	if k.noProbes != nil {
		return nil
	}
	_, _, of := k.run.Spent()
	seconds := max(usualTime, 2*of).Seconds()
	rate := min(k.opt.forWindows()/groupCost.Seconds(), windowsRate)
	groups := [2]int{outcomes: groupsFor((1-k.runsShare())*rate*next.Seconds(), outcomesWindows), runs: groupsFor(k.runsShare()*rate*seconds, runsWindows)}
	if plan, ok := k.wantedPlan(p, groups[runs]); ok {
		k.setGroups(plan)
		return nil
	}
	single := int(ownShare * float64(groups[outcomes]*sitesPerGroup))
	placed.Estimate(infer.Options{
		Sites: groups[outcomes]*sitesPerGroup - single,
		Probing: infer.Probing{
			// All windows of a group together. They are as long as their hits cost what
			// arming does.
			Window: outcomesWindows * 0.5e-3, Fixed: outcomesWindows * 0.5e-3, PerHit: k.prober.HitCost().Seconds(),
		},
	})
	plan := k.groupRuns(k.mostRun(p, c, 4*groups[runs]*sitesPerGroup), groups[runs])
	if groups[outcomes] > 0 {
		plan = append(plan, k.groupOutcomes(append(unsureBranches(p, c, single), p.Sites...), groups[outcomes])...)
	}
	k.setGroups(plan)
	return nil
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
	return nil, k.walker.Totals().Walks < manyWalks
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

// secondsOf returns the time that c covers, or any if its event does not tell: order is
// what counts then.
func secondsOf(c *sample.Counts) float64 {
	if c.Event.Unit != "ns" {
		return 1
	}
	return float64(c.Weight) / 1e9
}

// sitesThat returns the sites with the most gain of those that keep keeps, of one of each
// block that ran, by what was inferred. keep sets the gain; it gets what windows counted
// there so far.
func sitesThat(p *infer.Profile, c *sample.Counts, most int, keep func(s *infer.Site, n float64, probed sample.Probed) bool) []infer.Site {
	seconds := secondsOf(c)
	var all []infer.Site
	for _, ip := range p.Images {
		probed := c.Images[c.Image(ip.ID)].Probed
		for _, r := range ip.Procs {
			sites := ip.Image.ProbeSites(r.Proc)
			for b, f := range r.Block {
				if f.N < 1 || len(sites[b]) == 0 {
					continue
				}
				s := infer.Site{Image: ip, Proc: r, Block: b, ProbeSite: sites[b][0], Rate: f.N / seconds}
				if keep(&s, f.N, probed[s.Off]) {
					all = append(all, s)
				}
			}
		}
	}
	return mostGain(all, most)
}

// mostRun returns sites of the procedures that run most, by what was inferred: of each those
// that run most and not too often for windows to tell how often. Walks, samples and outcomes
// tell how the blocks of a procedure run among one another, but procedures among one another
// only as well as the time of an execution is known.
func (k *Calibrator) mostRun(p *infer.Profile, c *sample.Counts, most int) []infer.Site {
	gain := map[*infer.Result]float64{}
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			for _, f := range r.Block {
				gain[r] += f.N
			}
		}
	}
	all := sitesThat(p, c, math.MaxInt, func(s *infer.Site, n float64, probed sample.Probed) bool {
		if k.dense[siteKey{s.Image.ID.Key(), s.Off}] || k.ownRate(*s) > mostOwnRate {
			return false
		}
		if probed.Windows >= fewWindows && probed.Covered > 0 && float64(probed.Runs) < n/10 {
			return false // it hardly runs
		}
		s.Runs, s.Gain = true, n
		return true
	})
	type runsOf struct {
		r *infer.Result
		n float64
	}
	seen := map[runsOf]bool{} // blocks that run equally often are mostly one behind another
	of := map[*infer.Result]int{}
	out := all[:0]
	for _, s := range all {
		at := runsOf{s.Proc, s.Gain}
		if seen[at] || of[s.Proc] == runsPerProc {
			continue
		}
		seen[at] = true
		of[s.Proc]++
		s.Gain = gain[s.Proc]
		out = append(out, s)
	}
	return mostGain(out, most)
}

// runsPerProc is how many places of a procedure are asked how often they run.
const runsPerProc = 2

// ownRate is how often s runs per second of its procedure's own time.
func (k *Calibrator) ownRate(s infer.Site) float64 {
	return s.Rate * max(k.samples, 1) / float64(max(s.Proc.Samples, 1))
}

// mostGain returns the sites with the most gain.
func mostGain(all []infer.Site, most int) []infer.Site {
	slices.SortStableFunc(all, func(a, b infer.Site) int { return cmp.Compare(b.Gain, a.Gain) })
	return all[:min(len(all), most)]
}

// unsureBranches returns the conditional branches of which it matters most, by what was
// inferred and by what windows counted so far, that it is not known where they go.
func unsureBranches(p *infer.Profile, c *sample.Counts, most int) []infer.Site {
	return sitesThat(p, c, most, func(s *infer.Site, n float64, probed sample.Probed) bool {
		if s.Cond < 0 {
			return false
		}
		s.Gain = n * unsure(probed, loops(s.Proc.Proc, s.Block))
		return true
	})
}

// unsure is how much what a branch leads to is off, relative to its executions, if it went
// so: of the rarer outcome one standard deviation. What runs in a loop is as far off as the
// exit.
func unsure(p sample.Probed, loop bool) float64 {
	few := float64(min(p.Taken, p.Outcomes-min(p.Taken, p.Outcomes))) + 0.5
	off := min(1, 1/math.Sqrt(few))
	if loop {
		return off
	}
	return 2 * off * few / (float64(p.Outcomes) + 1)
}

// loops reports whether an out-edge of block b leads back, up the code.
func loops(p *image.Proc, b int) bool {
	return slices.ContainsFunc(p.Blocks[b].Out, func(e int) bool { return p.Edges[e].To <= b })
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

// Two kinds of sites are armed apart from one another: those that tell where branches
// went, and those that tell how often procedures run.
const (
	outcomes = iota
	runs
)

// groupRuns puts sites that tell how often procedures run into groups, so many of each
// file, and returns the most important ones. Sites join groups as long as there is room,
// and never leave them: windows are of all that a group had.
func (k *Calibrator) groupRuns(sites []infer.Site, most int) []*chosen {
	used := map[*chosen]float64{}
	first := len(k.runs)
	for _, s := range sites {
		key := siteKey{s.Image.ID.Key(), s.Off}
		g := k.place[key]
		if g == nil {
			own, proc := k.ownRate(s), s.Proc.Proc.Addr
			of := 0 // groups of that file
			for j, r := range k.runs {
				if r.ID.Key() != key.id {
					continue
				}
				room := probe.MaxSites
				if j >= first {
					room = sitesPerGroup
				}
				if of++; len(r.Sites) < room && r.own[proc]+own <= mostOwnRate {
					g = r
					break
				}
			}
			switch {
			case g == nil && of >= most:
				continue
			case g == nil:
				g = &chosen{Group: probe.Group{Alone: true}, own: map[image.Addr]float64{}}
			}
			if !k.add(g, s) {
				continue
			}
			if len(g.Sites) == 1 {
				k.runs = append(k.runs, g)
			}
			g.own[proc] += own
			k.place[key] = g
		}
		used[g] += s.Gain
	}
	var out []*chosen
	for _, g := range k.runs {
		if g.Gain = used[g]; g.Gain > 0 {
			out = append(out, g)
		}
	}
	return k.important(out, most, k.runsShare())
}

// setRuns has groups alone tell how often code runs. If walks want no places later, others join
// them.
func (k *Calibrator) setRuns(groups []*chosen) {
	k.runs = slices.Clone(groups)
	clear(k.place)
	for _, g := range groups {
		for _, s := range g.sites {
			k.place[siteKey{g.ID.Key(), s.Off}] = g
			g.own[s.Proc.Proc.Addr] += k.ownRate(s)
		}
	}
}

// leave ends the groups that tell how often procedures run whose windows some of their
// sites fill: the others join new ones.
func (k *Calibrator) leave(dense map[probe.Site]bool) {
	k.runs = slices.DeleteFunc(k.runs, func(g *chosen) bool {
		ends := false
		for _, s := range g.Sites {
			if dense[s] {
				ends, k.dense[siteKey{g.ID.Key(), s.Off}] = true, true
			}
		}
		if ends {
			maps.DeleteFunc(k.place, func(_ siteKey, of *chosen) bool { return of == g })
		}
		return ends
	})
}

// groupOutcomes puts branches into new groups, and returns the most important ones.
func (k *Calibrator) groupOutcomes(sites []infer.Site, most int) []*chosen {
	var all []*chosen
	last := map[sample.ImageID]*chosen{} // that takes more sites
	seen := map[siteKey]bool{}
	for _, s := range sites {
		key := siteKey{s.Image.ID.Key(), s.Off}
		if seen[key] || s.Cond == probe.NoCond {
			continue
		}
		seen[key] = true
		g := last[key.id]
		if g == nil || len(g.Sites) == sitesPerGroup {
			g = &chosen{}
		}
		if !k.add(g, s) {
			continue
		}
		if g.Gain += s.Gain; len(g.Sites) == 1 {
			last[key.id] = g
			all = append(all, g)
		}
	}
	all = k.important(all, most+1, 1-runsShare) // one more: libraries have theirs apart
	for _, g := range all {
		k.link(g)
	}
	return all
}

// linksPerProc is how many sites of a procedure that tell how often it runs are armed
// beside its branches, which run too often to tell that by themselves: they do among one
// another, in the same windows.
const linksPerProc = 2

// link adds to g what its procedures have in the groups that tell how often they run: those
// that run most.
func (k *Calibrator) link(g *chosen) {
	procs := map[image.Addr]int{}
	for _, s := range g.sites {
		procs[s.Proc.Proc.Addr] = 0
	}
	var links []infer.Site
	for _, r := range k.runs {
		if r.ID.Key() == g.ID.Key() {
			links = append(links, r.sites...)
		}
	}
	for _, s := range mostGain(links, len(links)) {
		n, ok := procs[s.Proc.Proc.Addr]
		if !ok || n == linksPerProc || len(g.Sites) == probe.MaxSites {
			continue
		}
		if procs[s.Proc.Proc.Addr]++; !slices.ContainsFunc(g.Sites, func(o probe.Site) bool { return o.Off == s.Off }) {
			k.add(g, s)
		}
	}
	number := map[image.Addr]int{}
	for _, s := range g.sites {
		at := s.Proc.Proc.Addr
		if _, ok := number[at]; !ok {
			number[at] = len(number)
		}
		g.Procs = append(g.Procs, number[at])
	}
}

// add adds s to g, if it can be probed.
func (k *Calibrator) add(g *chosen, s infer.Site) bool {
	pi := k.images[s.Image.ID.Key()]
	if pi == nil || pi.err != nil || k.allows(pi, s.ProbeSite) != nil {
		return false
	}
	if len(g.Sites) == 0 {
		g.ID, g.File = s.Image.ID, pi.file.Name()
	}
	g.Sites = append(slices.Clip(g.Sites), probe.Site{ID: s.Image.ID, Off: s.Off, Cond: s.Cond})
	g.sites = append(g.sites, s)
	g.Rate += s.Rate
	return true
}

// important returns so many groups with the most gain, and their gain as parts of share.
func (k *Calibrator) important(all []*chosen, most int, share float64) []*chosen {
	traced := tracedFiles(k.proc)
	all = slices.DeleteFunc(all, func(g *chosen) bool { return traced[g.File] || traced[g.ID.Path] })
	slices.SortStableFunc(all, func(a, b *chosen) int { return cmp.Compare(b.Gain, a.Gain) })
	all = all[:min(len(all), most)]
	var sum float64
	for _, g := range all {
		sum += g.Gain
	}
	for _, g := range all {
		g.Gain *= share / sum
	}
	return all
}

func (k *Calibrator) setGroups(plan []*chosen) {
	k.plan = plan
	groups := make([]probe.Group, len(plan))
	n := 0
	for i, g := range plan {
		groups[i] = g.Group
		n += len(g.Sites)
	}
	if !k.opt.Dry {
		k.run.SetGroups(groups)
	}
	windows, _, _ := k.run.Spent()
	k.opt.Notify.Warn("counting executions at %d places, in %d groups; windows so far: %d", n, len(groups), windows)
}

// allows reports whether the kernel emulates the instruction that is really there.
func (k *Calibrator) allows(pi *probedImage, s image.ProbeSite) error {
	var b [8]byte
	n, err := pi.file.ReadAt(b[:], int64(s.Off))
	if err != nil && err != io.EOF {
		return err
	}
	return k.allowed(b[:n], s.Cond)
}

// alone returns the process to arm probes in alone: the only one that is asked for, if it
// has no children. Others that run the same files then notice nothing.
func (k *Calibrator) alone() int {
	if len(k.opt.PIDs) != 1 {
		return 0
	}
	tasks, err := filepath.Glob(fmt.Sprintf("%s/%d/task/*/children", k.proc, k.opt.PIDs[0]))
	if err != nil || len(tasks) == 0 {
		return 0
	}
	for _, path := range tasks {
		if b, err := os.ReadFile(path); err != nil && !errors.Is(err, fs.ErrNotExist) || len(b) > 0 {
			return 0
		}
	}
	return k.opt.PIDs[0]
}

// tracedFiles returns the files that processes under a debugger have mapped: probes and a
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
// At the first walks begin, at the second they tell what to probe.
var rounds = []time.Duration{time.Second, 4 * time.Second, 9 * time.Second, 20 * time.Second}

// roundAfter returns the time of the round after one.
func roundAfter(t time.Duration) time.Duration {
	for _, r := range rounds {
		if r > t {
			return r
		}
	}
	return 3 * t
}

// A Sampler is what samples come from while they are calibrated: a collect.System.
type Sampler interface {
	Drain() (*sample.Recording, error)
	Close() error
}

// Record samples until ctx is done or ended is closed, and chooses what to probe. Each time
// that samples came in, drained is called with all so far.
func (k *Calibrator) Record(ctx context.Context, sys Sampler, ended <-chan struct{}, drained func(sum *sample.Recording)) (*sample.Recording, error) {
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
			k.complain(k.Stop())
			if err := sys.Close(); err != nil {
				return nil, err
			}
		}
		rec, err := sys.Drain()
		if err != nil {
			return nil, err
		}
		sum.AddAll(rec)
		drained(&sum)
		if at := time.Since(start); !done && !choosing && at >= round {
			choosing, round = true, roundAfter(at)
			so := sample.Merge(&sum)
			next := round - at
			go func() { chosen <- k.Choose(so, next) }()
		}
	}
	k.AddTo(&sum)
	return sample.Merge(&sum), nil
}

// complain tells of an error of the probes. Samples are worth keeping all the same.
func (k *Calibrator) complain(err error) {
	if err != nil {
		k.opt.Notify.Warn("--calibrate: %v", err)
	}
}

// Tell says what was probed and walked for rec, and what that cost.
func (k *Calibrator) Tell(rec *sample.Recording) {
	k.tellWindows(rec)
	k.tellWalks()
}

// tellWindows says what was probed, and what that cost.
func (k *Calibrator) tellWindows(rec *sample.Recording) {
	windows, added, of := k.run.Spent()
	if k.noProbes != nil {
		return // which was said
	}
	if windows == 0 {
		k.opt.Notify.Warn("no executions were counted, as no place was worth it or the time was too short: record for 10s and more, with a larger share for --calibrate")
		return
	}
	probed := rec.Observed(nil).Probed
	k.opt.Notify.Warn("executions were counted at %d places, in %d windows, which took about %v of %v of processor time (%.2f%%), at %v a hit",
		probed, windows, added.Round(time.Millisecond), of.Round(time.Millisecond), 100*added.Seconds()/max(of.Seconds(), 1e-9), k.prober.HitCost())
}

// WritePlan prints what would be probed.
func (k *Calibrator) WritePlan(w io.Writer) error {
	t := report.NewTable(report.Right("group"), report.Right("hits/s"), report.Left("counts").Drop(2), report.Left("address"), report.Procedures("procedure").Main(), report.Paths("file").Drop(1))
	for i, g := range k.plan {
		for j, s := range g.sites {
			number, rate, what := "", "", "runs, outcomes"
			if j == 0 {
				number, rate = strconv.Itoa(i+1), fmt.Sprintf("%.3g", g.Rate)
			}
			if !s.Runs {
				what = "outcomes"
			} else if s.Cond == probe.NoCond {
				what = "runs"
			}
			t.Row(number, rate, what, fmt.Sprintf("%#x", uint64(s.Addr)), report.NameOf(s.Proc.Proc.Name).Procedure, g.File)
		}
	}
	return t.Write(w, false)
}
