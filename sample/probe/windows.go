package probe

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

// Options bound what Windows do.
type Options struct {
	Budget float64 // processor time that windows may add, as a share of what the sampled processes use

	// Rate, if not nil, returns how much processor time windows may take now, the prober's own too, in seconds for each second.
	// Budget then only says when windows are to be made to tell more.
	Rate func() float64

	// PID, if not nil, returns the process to arm the next window in alone; 0 is all that
	// map the file.
	PID func() int

	// Log, if not nil, is told of each window.
	Log func(g *Group, w *Window, err error)
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

// usualCost is what a window takes until some have told, and usualOwn the part of it that is the prober's own time.
const usualCost, usualOwn = 6 * time.Millisecond, 2500 * time.Microsecond

const (
	// A window of 5 ms of a program whose phases take as long tells of one of them: of zstd, 114 windows of 4 ms at most told the
	// rates of most places to 0.2 to 0.6. One of places that run rarely disturbs little, and may go on for longer.
	shortestWindow = 300 * time.Microsecond
	longestWindow  = 40 * time.Millisecond

	// meanPause is the least mean time between windows. The kernel's own waits come to
	// it, 40 ms or more of each window in which nothing is armed.
	meanPause    = 5 * time.Millisecond
	longestPause = 30 * time.Second // windows also tell how much the programs run

	// lookAgain is how long a pause is kept at most before its mean is found anew.
	lookAgain = 2 * time.Second

	// mostPacked and mostStretched bound what windows do to use up a budget.
	mostPacked, mostStretched = 8, 4
)

// windowLength is how long a window is: as long as hits cost stretch times what it takes beside them.
func windowLength(fixed time.Duration, rate float64, hit time.Duration, stretch float64) time.Duration {
	perSecond := rate * hit.Seconds() // of native time
	native := stretch * fixed.Seconds() / max(perSecond, 1e-6)
	return min(max(time.Duration(native*(1+perSecond)*1e9), shortestWindow), longestWindow)
}

// Windows arm groups of sites in windows that begin at random, and add up
// what they count.
type Windows struct {
	opt    Options
	window func(file string, sites []Site, pid int, length time.Duration) (*Window, error)
	rng    *rand.Rand

	mu      sync.Mutex
	hit     time.Duration // cost of a hit
	groups  []*measured   // in use
	old     []*measured   // that had windows, in use no more
	spent   time.Duration // processor time that windows added to what is sampled
	own     time.Duration // that of the prober for them
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
	Group
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

	number     uint32
	samples    float64   // while it was open, of all that is recorded; 0 if there were none, or they have not come yet
	ownSamples []float64 // of those, by site: of its own time
}

// A Prober arms sites of one file for a time, in the process pid, or in all that map the file if
// pid is 0. HitCost is what a hit costs.
type Prober interface {
	Window(file string, sites []Site, pid int, length time.Duration) (*Window, error)
	HitCost() time.Duration
}

// NewWindows makes those that p arms.
func NewWindows(p Prober, opt Options) *Windows {
	c := &Windows{opt: opt, pack: 1, stretch: 1}
	c.SetProber(p)
	c.rng = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	return c
}

// SetProber says what arms from now on. There may be none, a nil *collect.Prober, as long as there are no groups.
func (c *Windows) SetProber(p Prober) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.window, c.hit = p.Window, time.Duration(inProgram*float64(p.HitCost()))
}

// SetGroups says what to probe from now on. A group that begins with the sites of one
// before goes on from its windows.
func (c *Windows) SetGroups(groups []Group) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := append(c.old, c.groups...)
	c.groups = nil
	for _, g := range groups {
		i := slices.IndexFunc(before, func(m *measured) bool { return m.same(&g) })
		if i < 0 {
			c.groups = append(c.groups, &measured{Group: g})
			continue
		}
		m := before[i]
		before = slices.Delete(before, i, i+1)
		m.Group, m.due = g, 0
		c.groups = append(c.groups, m)
	}
	c.old = slices.DeleteFunc(before, func(m *measured) bool { return len(m.windows) == m.taken })
}

func (m *measured) same(g *Group) bool {
	return m.ID == g.ID && m.File == g.File && len(m.Sites) <= len(g.Sites) && slices.Equal(m.Sites, g.Sites[:len(m.Sites)])
}

// RunsOnly has AddTo tell how often code runs and nothing of where branches go: something
// else does, which does not slow programs down where they run most.
func (c *Windows) RunsOnly() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs = true
}

// Run opens windows until ctx is done. When it returns, nothing is armed. An error is
// that of the prober, which is of no more use then.
func (c *Windows) Run(ctx context.Context) error {
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
func (c *Windows) open(ms []*measured) error {
	c.mu.Lock()
	all, sites := together(ms, c.hit), sitesOf(ms) // groups may grow while the window is open
	if len(all.Sites) > MaxSites {                 // or have grown since they were put together
		ms = ms[:1]
		all, sites = together(ms, c.hit), sitesOf(ms)
	}
	stretch, window, hit := c.stretch, c.window, c.hit
	fixed := armCost(len(all.Sites)) + c.ownCost()
	c.mu.Unlock()
	pid := 0
	if c.opt.PID != nil {
		pid = c.opt.PID()
	}
	w, err := window(all.File, all.Sites, pid, windowLength(fixed, all.Rate, hit, stretch))
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

// ownCost is what a window takes of the prober's own time, if that counts. c.mu is held.
func (c *Windows) ownCost() time.Duration {
	switch {
	case c.opt.Rate == nil:
		return 0
	case c.n < 5:
		return usualOwn
	}
	return c.own / time.Duration(c.n)
}

// together returns groups as one.
func together(ms []*measured, hit time.Duration) *Group {
	all := ms[0].Group
	all.Sites, all.Own = slices.Clip(all.Sites), nil
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
func (c *Windows) failed() bool {
	return len(c.groups) > 0 && !slices.ContainsFunc(c.groups, func(m *measured) bool { return m.failed < maxFailures })
}

// maxFailures is how often in all a group may fail to arm before it is left alone.
const maxFailures = 3

// wait returns a random time, and whether a window then opens or the next wait begins.
// Windows begin at random with the mean of pause: such pauses have no memory, so that
// one may be broken off to begin anew.
func (c *Windows) wait() (time.Duration, bool) {
	d := time.Duration(c.rng.ExpFloat64() * float64(c.pause()))
	return min(d, lookAgain), d <= lookAgain
}

// pause is the mean time between windows. It follows from what the windows so far cost
// on the average, never from what the last one did: starts would not be random else.
func (c *Windows) pause() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opt.Rate != nil {
		switch rate := c.opt.Rate(); {
		case rate <= 0:
			return longestPause
		case c.n < 5:
			return max(10*meanPause, time.Duration(float64(usualCost)/rate))
		default:
			return min(max(time.Duration((c.spent+c.own).Seconds()/float64(c.n)/rate*1e9), meanPause), longestPause)
		}
	}
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
func (c *Windows) next() []*measured {
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
		return slices.ContainsFunc(m.Sites, func(s Site) bool { return slices.Contains(o.Sites, s) })
	})
}

// add adds a window that armed so many sites of each of ms, one after another.
func (c *Windows) add(ms []*measured, sites []int, w *Window) {
	var all float64
	for _, n := range w.Hits {
		all += float64(n)
	}
	at := 0
	for i, m := range ms {
		end := at + sites[i]
		g := groupWindow{number: w.Number, time: w.Time.Seconds(), all: all, hits: w.Hits[at:end:end], taken: w.Taken[at:end:end]}
		for _, n := range g.hits {
			g.own += float64(n)
		}
		m.windows = append(m.windows, g)
		at = end
	}
	c.n++
	c.spent += c.Cost(w.All, len(w.Hits)) + w.Sampling
	c.own += w.Own
	now := time.Now()
	if c.first == 0 {
		c.first, c.late = w.Total, now.Sub(c.start)
	}
	c.total, c.last = w.Total, now
	if c.n%50 == 0 { // windows that follow one another at once, and still leave something of the budget
		used, spent := c.opt.Budget*(c.total-c.first).Seconds(), c.spent.Seconds()
		if c.opt.Rate != nil {
			spent += c.own.Seconds()
		}
		switch {
		case spent < 0.8*used && c.pack < min(mostPacked, len(c.groups)):
			c.pack++
		case spent < 0.8*used:
			c.stretch = min(c.stretch+1, mostStretched)
		case spent > used && c.stretch > 1:
			c.stretch--
		case spent > used && c.pack > 1:
			c.pack--
		}
	}
}

// Cost is the processor time that a window takes which arms so many sites and sees so many hits.
func (c *Windows) Cost(hits uint64, sites int) time.Duration {
	return time.Duration(hits)*c.hit + armCost(sites)
}

// Spent is how many windows there were, the processor time that they added, and that
// of the sampled processes, in all.
func (c *Windows) Spent() (windows int, added, of time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n, c.spent, c.total
}

// windowsKept is how many windows of a group are kept to tell what to expect of it.
const windowsKept = 64

// Forget begins anew, when what AddTo added is stored: counts are of the time from now on.
func (c *Windows) Forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.old = nil
	for _, m := range c.groups {
		m.windows = slices.Clone(m.windows[max(0, len(m.windows)-windowsKept):])
		m.taken = len(m.windows)
	}
	c.takenSpent, c.takenTotal = c.spent, c.total
}

// native is the time of the processes that counts are samples of, without what windows added, in s. Samples of time tell it: the prober
// knows of it from when it began until the last window, and began late where it was saved for. In half a minute of gzip, of which it
// knew 8.6 of 16.5 s, executions were taken to be half as many as they were.
func (c *Windows) native(counts *sample.Counts) float64 {
	seconds := (c.total - c.takenTotal).Seconds()
	if counts.Event.Unit == "ns" {
		seconds = float64(counts.Weight) / 1e9
	}
	return max(0, seconds-(c.spent-c.takenSpent).Seconds())
}

// AddTo adds what the windows counted to counts, the samples of the same processes.
func (c *Windows) AddTo(counts *sample.Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	native := c.native(counts)
	for at, e := range c.estimates() {
		if c.runs {
			e.outcomes, e.taken, e.spread = 0, 0, 0
		}
		e := e.with(counts, native)
		counts.AddProbed(counts.Image(e.id), at.off, e.probed(native, counts.Weight))
	}
}

// Rates returns how often sites run, of those of which windows tell that they do, and of counts, the samples of the same
// processes; nil if these are not known.
func (c *Windows) Rates(counts *sample.Counts) []trace.Rate {
	c.mu.Lock()
	defer c.mu.Unlock()
	var rates []trace.Rate
	native := 0.0
	if counts != nil {
		native = c.native(counts)
	}
	for at, e := range c.estimates() {
		e := e.with(counts, native)
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
