package collect

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"backfeed/sample"
	"backfeed/sample/trace"
)

// A ProbeGroup is sites of one file that are always armed together.
type ProbeGroup struct {
	ID    sample.ImageID
	File  string // to open; the path in ID is that of the process
	Sites []ProbeSite
	Procs []int   // by site: those of one number are of one procedure, and run together; nil if that is not known
	Rate  float64 // of all sites together, expected: executions per second of processor time
	Gain  float64 // what it is worth, in any unit
	Alone bool    // armed without others: how often its sites run is asked for
}

// CalibrationOptions bound what a Calibration does.
type CalibrationOptions struct {
	Budget float64 // processor time that windows may add, as a share of what the sampled processes use

	// PID, if not nil, returns the process to arm the next window in alone; 0 is all that
	// map the file.
	PID func() int

	// Log, if not nil, is told of each window.
	Log func(g *ProbeGroup, w *ProbeWindow, err error)
}

// windowCost and siteCost are what it takes to arm and disarm, besides hits: a program lost
// 0.23 ms of its own time by windows of one site that it did not run, 0.46 ms by those of
// 40, and 0.4 to 0.6 ms beside the hits by those of 1 to 33 that it ran (each by 140 to 195
// windows, half a second with and half a second without; Linux 6.18, a virtual machine with
// two processors).
const (
	windowCost = 400 * time.Microsecond
	siteCost   = 6 * time.Microsecond
)

// armCost is what arming so many sites takes.
func armCost(sites int) time.Duration { return windowCost + time.Duration(sites)*siteCost }

const (
	shortestWindow = 300 * time.Microsecond
	longestWindow  = 5 * time.Millisecond

	// meanPause is the least mean time between windows. The kernel's own waits come to
	// it, 40 ms or more of each window in which nothing is armed.
	meanPause    = 5 * time.Millisecond
	longestPause = 30 * time.Second // windows also tell how much the programs run

	// lookAgain is how long a pause is kept at most before its mean is found anew.
	lookAgain = 2 * time.Second

	// mostPacked and mostStretched bound what windows do to use up a budget.
	mostPacked, mostStretched = 8, 4
)

// windowLength is how long a window of such sites is: as long as hits cost stretch times
// what arming does.
func windowLength(sites int, rate float64, hit time.Duration, stretch float64) time.Duration {
	perSecond := rate * hit.Seconds() // of native time
	native := stretch * armCost(sites).Seconds() / max(perSecond, 1e-6)
	return min(max(time.Duration(native*(1+perSecond)*1e9), shortestWindow), longestWindow)
}

// A Calibration arms groups of sites in windows that begin at random, and adds up
// what they count.
type Calibration struct {
	opt    CalibrationOptions
	window func(file string, sites []ProbeSite, pid int, length time.Duration) (*ProbeWindow, error)
	rng    *rand.Rand

	mu      sync.Mutex
	hit     time.Duration // cost of a hit
	groups  []*measured   // in use
	old     []*measured   // that had windows, in use no more
	spent   time.Duration // processor time that windows added
	first   time.Duration // of the processes at the first window
	total   time.Duration // of the processes
	n       int           // windows
	pack    int           // groups that one window may arm
	stretch float64       // see windowLength
	runs    bool          // windows tell how often code runs, and nothing of where branches go
	start   time.Time     // of Run
	late    time.Duration // from start to the first window
	last    time.Time     // when total was

	// At the last Forget.
	takenSpent, takenTotal time.Duration
}

// measured is a group with its windows.
type measured struct {
	ProbeGroup
	windows []groupWindow
	taken   int // windows[:taken] are stored, and only tell what to expect
	failed  int
	due     float64 // windows that it should have had by now
}

// worth is the share of windows that m shall have among all groups, by what it is worth
// and how much its windows differ. Of errors that fall with the root of the windows,
// each weighed by its gain, the sum is least by this power.
func (m *measured) worth() float64 { return math.Pow(m.Gain*m.differ(), 2./3) }

// rate is the hits of m per second of native time: as expected, until windows tell.
func (m *measured) rate(hit time.Duration) float64 {
	const before = 2e-3 // seconds that the expectation is worth
	hits, native := m.Rate*before, before
	for _, w := range m.windows {
		hits += w.own
		native += w.left(hit.Seconds())
	}
	return hits / native
}

// differ is the coefficient of variation of the rate of m from window to window, with
// a few windows of a usual program added.
func (m *measured) differ() float64 {
	const usual, before = 1.5, 3.
	var sum, squares float64
	for _, w := range m.windows {
		r := w.own / max(w.time, 1e-9)
		sum += r
		squares += r * r
	}
	n := float64(len(m.windows))
	mean := sum / max(n, 1)
	v := squares/max(n, 1) - mean*mean
	cv2 := min(v/max(mean*mean, 1e-9), 4)
	return math.Sqrt((n*cv2 + before*usual*usual) / (n + before))
}

// A groupWindow is what one window observed.
type groupWindow struct {
	time        float64 // processor time while it was open, in s
	all         float64 // hits of all sites that were armed
	own         float64 // of those of the group
	hits, taken []uint64
}

// NewCalibration makes one that arms with p.
func NewCalibration(p *Prober, opt CalibrationOptions) *Calibration {
	c := &Calibration{opt: opt, window: p.Window, hit: time.Duration(inProgram * float64(p.HitCost())), pack: 1, stretch: 1}
	c.rng = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	return c
}

// SetGroups says what to probe from now on. A group that begins with the sites of one
// before goes on from its windows.
func (c *Calibration) SetGroups(groups []ProbeGroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := append(c.old, c.groups...)
	c.groups = nil
	for _, g := range groups {
		i := slices.IndexFunc(before, func(m *measured) bool { return m.same(&g) })
		if i < 0 {
			c.groups = append(c.groups, &measured{ProbeGroup: g})
			continue
		}
		m := before[i]
		before = slices.Delete(before, i, i+1)
		m.ProbeGroup, m.due = g, 0
		c.groups = append(c.groups, m)
	}
	c.old = slices.DeleteFunc(before, func(m *measured) bool { return len(m.windows) == m.taken })
}

func (m *measured) same(g *ProbeGroup) bool {
	return m.ID == g.ID && m.File == g.File && len(m.Sites) <= len(g.Sites) && slices.Equal(m.Sites, g.Sites[:len(m.Sites)])
}

// RunsOnly has AddTo tell how often code runs and nothing of where branches go: something
// else does, which does not slow programs down where they run most.
func (c *Calibration) RunsOnly() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = true
}

// Run opens windows until ctx is done. When it returns, nothing is armed. An error is
// that of the prober, which is of no more use then.
func (c *Calibration) Run(ctx context.Context) error {
	c.start = time.Now()
	for {
		wait, open := c.wait()
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
		if !open {
			continue
		}
		ms := c.next()
		if len(ms) == 0 {
			continue
		}
		if err := c.open(ms); err != nil {
			return err
		}
	}
}

// open has one window for some groups of one file.
func (c *Calibration) open(ms []*measured) error {
	c.mu.Lock()
	all, sites := together(ms, c.hit), sitesOf(ms) // groups may grow while the window is open
	if len(all.Sites) > MaxSites {                 // or have grown since they were put together
		ms = ms[:1]
		all, sites = together(ms, c.hit), sitesOf(ms)
	}
	stretch := c.stretch
	c.mu.Unlock()
	pid := 0
	if c.opt.PID != nil {
		pid = c.opt.PID()
	}
	w, err := c.window(all.File, all.Sites, pid, windowLength(len(all.Sites), all.Rate, c.hit, stretch))
	if c.opt.Log != nil {
		c.opt.Log(all, w, err)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil {
		c.add(ms, sites, w)
		return nil
	}
	for _, m := range ms {
		m.failed++
	}
	if c.failed() {
		return fmt.Errorf("probes: %w", err)
	}
	return nil
}

// together returns groups as one.
func together(ms []*measured, hit time.Duration) *ProbeGroup {
	all := ms[0].ProbeGroup
	all.Sites = slices.Clip(all.Sites)
	for _, m := range ms[1:] {
		all.Sites = append(all.Sites, m.Sites...)
	}
	all.Rate = 0
	for _, m := range ms {
		all.Rate += m.rate(hit)
	}
	return &all
}

// sitesOf is how many sites each of ms has.
func sitesOf(ms []*measured) (n []int) {
	for _, m := range ms {
		n = append(n, len(m.Sites))
	}
	return n
}

// failed reports whether there are groups, and none works.
func (c *Calibration) failed() bool {
	return len(c.groups) > 0 && !slices.ContainsFunc(c.groups, func(m *measured) bool { return m.failed < maxFailures })
}

// maxFailures is how often in all a group may fail to arm before it is left alone.
const maxFailures = 3

// wait returns a random time, and whether a window then opens or the next wait begins.
// Windows begin at random with the mean of pause: such pauses have no memory, so that
// one may be broken off to begin anew.
func (c *Calibration) wait() (time.Duration, bool) {
	d := time.Duration(c.rng.ExpFloat64() * float64(c.pause()))
	return min(d, lookAgain), d <= lookAgain
}

// pause is the mean time between windows. It follows from what the windows so far cost
// on the average, never from what the last one did: starts would not be random else.
func (c *Calibration) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.n < 5 {
		return 10 * meanPause
	}
	// What is left of the budget so far is spent over the next ten seconds.
	const ahead = 10
	// What the processes used is known from the first window to the last one; before and since,
	// they are taken to have used as much.
	since := time.Since(c.start).Seconds()
	used := (c.total - c.first).Seconds() * since / max((c.last.Sub(c.start)-c.late).Seconds(), 1e-3)
	spent := c.spent.Seconds()
	rate := c.opt.Budget*used/since + (c.opt.Budget*used-spent)/ahead // s of windows per s
	if rate <= 0 {
		return longestPause
	}
	return min(max(time.Duration(spent/float64(c.n)/rate*1e9), meanPause), longestPause)
}

// next returns the group that lags most behind the share of windows that it shall have,
// and others of its file that may be armed with it, if windows alone do not use up the
// budget.
func (c *Calibration) next() []*measured {
	c.mu.Lock()
	defer c.mu.Unlock()
	var sum float64
	var able []*measured
	for _, m := range c.groups {
		if m.failed < maxFailures {
			sum += m.worth()
			able = append(able, m)
		}
	}
	if sum == 0 {
		return nil
	}
	for _, m := range able {
		m.due += m.worth() / sum
	}
	slices.SortStableFunc(able, func(a, b *measured) int { return cmp.Compare(b.due, a.due) })
	out := able[:1:1]
	first := able[0]
	sites := len(first.Sites)
	for _, m := range able[1:] {
		if len(out) >= c.pack || first.Alone {
			break
		}
		if !m.Alone && m.File == first.File && sites+len(m.Sites) <= MaxSites && !m.overlaps(out) {
			out = append(out, m)
			sites += len(m.Sites)
		}
	}
	for _, m := range out {
		m.due--
	}
	return out
}

// overlaps reports whether m has a site of one of others.
func (m *measured) overlaps(others []*measured) bool {
	return slices.ContainsFunc(others, func(o *measured) bool {
		return slices.ContainsFunc(m.Sites, func(s ProbeSite) bool { return slices.Contains(o.Sites, s) })
	})
}

// add adds a window that armed so many sites of each of ms, one after another.
func (c *Calibration) add(ms []*measured, sites []int, w *ProbeWindow) {
	var all float64
	for _, n := range w.Hits {
		all += float64(n)
	}
	at := 0
	for i, m := range ms {
		end := at + sites[i]
		g := groupWindow{time: w.Time.Seconds(), all: all, hits: w.Hits[at:end:end], taken: w.Taken[at:end:end]}
		for _, n := range g.hits {
			g.own += float64(n)
		}
		m.windows = append(m.windows, g)
		at = end
	}
	c.n++
	c.spent += time.Duration(w.All)*c.hit + armCost(len(w.Hits))
	now := time.Now()
	if c.first == 0 {
		c.first, c.late = w.Total, now.Sub(c.start)
	}
	c.total, c.last = w.Total, now
	if c.n%50 == 0 { // windows that follow one another at once, and still leave something of the budget
		switch used := c.opt.Budget * (c.total - c.first).Seconds(); {
		case c.spent.Seconds() < 0.8*used && c.pack < min(mostPacked, len(c.groups)):
			c.pack++
		case c.spent.Seconds() < 0.8*used:
			c.stretch = min(c.stretch+1, mostStretched)
		case c.spent.Seconds() > used && c.stretch > 1:
			c.stretch--
		case c.spent.Seconds() > used && c.pack > 1:
			c.pack--
		}
	}
}

// Spent is how many windows there were, the processor time that they added, and that
// of the sampled processes, in all.
func (c *Calibration) Spent() (windows int, added, of time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n, c.spent, c.total
}

// windowsKept is how many windows of a group are kept to tell what to expect of it.
const windowsKept = 64

// Forget begins anew, when what AddTo returned is stored: counts are of the time from now on.
func (c *Calibration) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.old = nil
	for _, m := range c.groups {
		m.windows = slices.Clone(m.windows[max(0, len(m.windows)-windowsKept):])
		m.taken = len(m.windows)
	}
	c.takenSpent, c.takenTotal = c.spent, c.total
}

// AddTo adds what the windows counted to counts, the samples of the same processes.
func (c *Calibration) AddTo(counts *sample.Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	native := max(0, c.total-c.takenTotal-(c.spent-c.takenSpent)).Seconds()
	for at, e := range c.estimates() {
		if c.runs {
			e.outcomes, e.taken, e.spread = 0, 0, 0
		}
		counts.AddProbed(counts.Image(e.id), at.off, e.probed(native, counts.Weight))
	}
}

// Rates returns how often sites run, of those of which windows tell that they do.
func (c *Calibration) Rates() []trace.Rate {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rates []trace.Rate
	for at, e := range c.estimates() {
		if e.known && e.rate > 0 && e.windows >= fewRated {
			rates = append(rates, trace.Rate{ID: e.id, Off: at.off, PerSec: e.rate, SD: math.Sqrt(e.variance) / e.rate})
		}
	}
	slices.SortFunc(rates, func(a, b trace.Rate) int {
		return cmp.Or(a.ID.Compare(b.ID), cmp.Compare(a.Off, b.Off))
	})
	return rates
}

// fewRated is how many windows tell how much windows differ.
const fewRated = 3

// A probedPlace is a place that was armed.
type probedPlace struct {
	id  sample.ImageID // by key
	off sample.Offset
}

// estimates returns what all windows since the last Forget tell.
func (c *Calibration) estimates() map[probedPlace]*estimate {
	all := append(slices.Clone(c.old), c.groups...)
	// A file whose code was never hit may be another one than the processes run.
	alive := map[string]bool{}
	for _, m := range all {
		for _, w := range m.windows {
			alive[m.File] = alive[m.File] || w.all > 0
		}
	}
	all = slices.DeleteFunc(all, func(m *measured) bool { return !alive[m.File] || len(m.windows) == m.taken })
	sum := map[probedPlace]*estimate{}
	for _, m := range all {
		for i, e := range m.estimates(c.hit.Seconds()) {
			at := probedPlace{m.ID.Key(), m.Sites[i].Off}
			if sum[at] == nil {
				sum[at] = &estimate{id: m.ID}
			}
			sum[at].add(e)
		}
	}
	for _, m := range all {
		if m.Procs == nil {
			continue
		}
		known := make([]*estimate, len(m.Sites))
		for i, s := range m.Sites {
			known[i] = sum[probedPlace{m.ID.Key(), s.Off}]
		}
		m.link(known, c.hit.Seconds())
	}
	return sum
}

// An estimate is what windows tell of one site.
type estimate struct {
	id              sample.ImageID
	windows         int
	rate            float64 // executions per second of processor time
	variance        float64 // of rate
	known           bool    // the two above
	of              float64 // windows that they are of
	outcomes, taken uint64
	spread          float64 // variance of taken
}

// Before windows tell how much they differ, they are taken to differ as much as their
// mean: one window more of that kind is thought to have been.
const priorSpread = 1

// inProgram is what a hit costs in a program, relative to a loop of nothing else: in
// SQLite 0.74 to 0.93 us, in the mean 0.86, at twelve places each of which was armed all
// the time, in the loop 0.70. costSD is the standard deviation from one place to another:
// a window's native time is off by that share of the time of its hits.
const inProgram, costSD = 1.2, 0.15

// mostDilated is how many times slower a window may run for its native time to be
// known. Where more than a tenth of the executions of a site are from slower ones, it is
// not known how often it runs: left out, they would be missed as the densest.
const mostDilated, fewDilated = 6, 0.1

// left is the native time of a window: what hits left of its time, as far as that is known.
func (w *groupWindow) left(hit float64) float64 {
	return max(w.time-w.all*hit, w.time/mostDilated)
}

// dense tells that a window runs slower than that.
func (w *groupWindow) dense(hit float64) bool {
	return w.time-(1+costSD)*w.all*hit < w.time/mostDilated
}

// Dense returns the sites by themselves that made windows too dense for how often sites run
// to be known, at least twice.
func (c *Calibration) Dense() map[ProbeSite]bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	sites := map[ProbeSite]bool{}
	for _, m := range c.groups {
		times := make([]int, len(m.Sites))
		for _, w := range m.windows {
			if !w.dense(c.hit.Seconds()) {
				continue
			}
			most := 0
			for i, n := range w.hits {
				if n > w.hits[most] {
					most = i
				}
			}
			if times[most]++; times[most] > 1 {
				sites[m.Sites[most]] = true
			}
		}
	}
	return sites
}

// estimates returns those of the sites of m, for a cost of hits in s.
//
// A window begins at a random moment of native time, whatever goes on then, and lasts
// for a fixed time, of which less is native the denser hits are. So it is the rates of
// windows, hits per native time, that are averaged. Sums of hits over sums of native
// time would stand for less of the dense phases than there is of them.
func (m *measured) estimates(hit float64) []estimate {
	out := make([]estimate, len(m.Sites))
	for i := range out {
		// Sites join a group in their order, and count from then on.
		windows := m.windows[m.taken:]
		since := slices.IndexFunc(windows, func(w groupWindow) bool { return len(w.hits) > i })
		if since < 0 {
			since = len(windows)
		}
		windows = windows[since:]
		out[i].id, out[i].windows, out[i].of = m.ID, len(windows), float64(len(windows))
		out[i].estimateRuns(windows, i, hit)
		if m.Sites[i].Cond != NoCond {
			out[i].outcomes, out[i].taken, out[i].spread = outcomesOf(windows, i, hit)
		}
	}
	return out
}

// estimateRuns finds how often site i runs.
func (e *estimate) estimateRuns(windows []groupWindow, i int, hit float64) {
	var time, hits, met, own, native float64 // sums over windows; met is the number of those with hits
	rates := make([]float64, len(windows))
	slower := make([]float64, len(windows)) // how many times, less 1
	for k := range windows {
		w := &windows[k]
		left := max(w.left(hit), 1e-9)
		rates[k], slower[k] = float64(w.hits[i])/left, w.time/left-1
		time += w.time
		hits += float64(w.hits[i])
		if w.hits[i] > 0 {
			met++
		}
		if w.own > 0 {
			own, native = own+w.own, native+left
		}
	}
	e.known = time > 0
	if hits == 0 {
		// What was not seen may run in a phase that no window met, unless the windows
		// met its procedure. Then its rate is that of what happened half a time less
		// (Jeffreys' prior): the mean of its logarithm is that of 1/time less 1.96,
		// its standard deviation 2.22.
		e.known = e.known && own > 0
		e.rate = math.Exp(-1.96) / native
		e.variance = sq(2.22 * e.rate)
		return
	}
	var slow, dense float64 // in the mean of the executions
	for k := range windows {
		w := &windows[k]
		r := w.time / time * rates[k]
		e.rate += r
		slow += r * slower[k]
		if w.dense(hit) {
			dense += r
		}
	}
	e.known = dense <= fewDilated*e.rate
	n := float64(len(windows))
	for k, w := range windows {
		e.variance += sq(w.time / time * (rates[k] - e.rate))
	}
	e.variance = (e.variance + sq(priorSpread*e.rate/n)) * n / max(n-0.5, 1)
	// Few windows with hits say little of how much they differ.
	e.variance = max(e.variance, sq(e.rate)/hits) * (1 + 2/met)
	e.variance += sq(costSD * slow)
}

// nativeHit is the least time that a program takes from one hit to the next without
// probes, in s: branches of a tight loop are a few instructions apart.
const nativeHit = 1.5e-9

// native returns about the native time of a window of which hits took nearly all: the
// mean, of logarithms, of the least and the most that it can be, if hits cost up to a
// tenth more or less than they did where that was tried.
func (w *groupWindow) native(hit float64) float64 {
	least := max(w.time-1.1*w.all*hit, w.all*nativeHit, 1e-12)
	return math.Sqrt(least * max(w.time-0.9*w.all*hit, least))
}

// outcomesOf returns the outcomes of the branch of site i, and how many of them were
// taken. A window sees the less of a phase the denser that is with hits, so each
// weighs as much as there was of its kind: by its time over its native time. Without
// that, a loop of bzip2 that ends in 6 of 10 cases was seen to end in none of 105,
// all of them in another phase. How dense the densest are is not known well; where it
// matters, the share is as uncertain as it is changed by these weights.
func outcomesOf(windows []groupWindow, i int, hit float64) (outcomes, taken uint64, spread float64) {
	weight := func(w *groupWindow) float64 { return w.time / w.native(hit) }
	var seen float64
	var of, took, met float64
	for k := range windows {
		w := &windows[k]
		outcomes += w.hits[i]
		of += weight(w) * float64(w.hits[i])
		took += weight(w) * float64(w.taken[i])
		seen += float64(w.taken[i])
		if w.hits[i] > 0 {
			met++
		}
	}
	if outcomes == 0 {
		return 0, 0, 0
	}
	n := float64(outcomes)
	p := took / of
	for k := range windows {
		w := &windows[k]
		d := weight(w) / of * (float64(w.taken[i]) - p*float64(w.hits[i]))
		spread += d * d
	}
	// One window more, of which nothing is known.
	prior := (p*n + 0.5) / (n + 1)
	spread = (spread + sq(priorSpread/met)*prior*(1-prior)) * met / max(met-0.5, 1)
	spread += sq(p - seen/n)
	return outcomes, uint64(math.Round(p * n)), spread * n * n
}

// link finds how often those sites of m run of which all windows do not tell, for they are
// too dense: as often as they did in the windows of m for each execution of others of their
// procedure. All that one window counts is of the same stretch of time, however slow it is.
// Windows see less of the denser stretches, but if each weighs as much as there was of its
// kind, few hits in the densest decide all: the root of that weight is between the two. Of
// four programs, it was the worst of the three for none.
func (m *measured) link(sites []*estimate, hit float64) {
	var windows []groupWindow // that armed all sites
	var weights []float64
	for _, w := range m.windows[m.taken:] {
		if len(w.hits) == len(sites) {
			windows = append(windows, w)
			weights = append(weights, math.Sqrt(w.time/w.native(hit)))
		}
	}
	links := make([]bool, len(sites)) // a site that is linked is no link for others
	for i, e := range sites {
		links[i] = e.known && e.rate > 0 && e.variance < sq(unsureLink*e.rate)
	}
	for i, e := range sites {
		if e.known {
			continue
		}
		var rate, sd float64 // of all links; what they are off by is mostly the same
		hits := make([]float64, len(windows))
		for j, l := range sites {
			if !links[j] || m.Procs[j] != m.Procs[i] {
				continue
			}
			rate += l.rate
			sd += math.Sqrt(l.variance)
			for k := range windows {
				hits[k] += float64(windows[k].hits[j])
			}
		}
		var own, of, met, seen float64
		for k := range windows {
			own += weights[k] * float64(windows[k].hits[i])
			of += weights[k] * hits[k]
			if seen += hits[k]; hits[k] > 0 {
				met++
			}
		}
		if own == 0 || of == 0 || met < 2 {
			continue
		}
		ratio := own / of
		var v float64
		for k := range windows {
			v += sq(weights[k] * (float64(windows[k].hits[i]) - ratio*hits[k]) / own)
		}
		v = max(v, 1/seen)*(1+2/met) + sq(priorLink/met) + sq(sd/rate)
		e.rate, e.variance, e.known = ratio*rate, v*sq(ratio*rate), true
	}
}

// unsureLink is the standard deviation of the executions of a site, relative to them, from
// which on nothing is linked to it. priorLink is that of one window more, of which nothing
// is known: with it and what windows differ by, links of four programs were off by 0.45 to
// 2.1 of what was claimed.
const unsureLink, priorLink = 0.5, 0.5

func sq(x float64) float64 { return x * x }

// add adds what another group tells of the same site. Windows of all groups are at random, and
// count alike: to go by how sure each group is would favor those that met less of a phase.
func (e *estimate) add(o estimate) {
	switch {
	case !o.known:
	case !e.known:
		e.rate, e.variance, e.known, e.of = o.rate, o.variance, true, o.of
	default:
		w := e.of / (e.of + o.of)
		e.rate = w*e.rate + (1-w)*o.rate
		e.variance = sq(w)*e.variance + sq(1-w)*o.variance
		e.of += o.of
	}
	e.windows += o.windows
	e.outcomes, e.taken, e.spread = e.outcomes+o.outcomes, e.taken+o.taken, e.spread+o.spread
}

// probed returns e for so many seconds of processor time, which samples of that weight
// cover.
func (e *estimate) probed(seconds float64, weight uint64) sample.Probed {
	p := sample.Probed{Windows: uint64(e.windows), Outcomes: e.outcomes, Taken: e.taken}
	if p.Outcomes > 0 {
		p.Spread = sample.SquareOf(math.Ceil(e.spread))
	}
	if e.known && weight > 0 {
		p.Covered = weight
		p.Runs = uint64(min(math.Round(e.rate*seconds), math.MaxInt64))
		p.Variance = sample.SquareOf(math.Ceil(e.variance * sq(seconds)))
	}
	return p
}
