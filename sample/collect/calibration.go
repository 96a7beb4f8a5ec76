package collect

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"backfeed/sample"
)

// A ProbeGroup is sites of one file that are always armed together: their counts are
// of the same stretches of execution, so how often they ran among one another is known
// better than how often each of them ran.
type ProbeGroup struct {
	ID    sample.ImageID
	File  string // to open; the path in ID is that of the process
	PID   int    // to arm in alone; 0 is in all processes
	Sites []ProbeSite
	Rate  float64 // of all sites together, expected: executions per second of processor time
	Dense bool    // so often that a window's time cannot be told from that of the hits: only outcomes count
	Share float64 // of the windows that this group shall have, among those of all groups
}

// CalibrationOptions bound what a Calibration does.
type CalibrationOptions struct {
	Budget float64 // processor time that windows may add, as a share of what the sampled processes use
	Most   int     // windows; 0 is any number

	// Log, if not nil, is told of each window.
	Log func(g *ProbeGroup, w *ProbeWindow, err error)
}

// DefaultBudget is 1 % of the processor time.
const DefaultBudget = 0.01

// armCost is what it takes to arm and disarm one site, besides hits: 50 sites without
// a hit took 2.4 ms of the program's time on a virtual machine with two processors.
const armCost = 50 * time.Microsecond

const (
	shortestWindow = 500 * time.Microsecond
	longestWindow  = 5 * time.Millisecond
	denseWindow    = time.Millisecond

	// meanPause is the least mean time between windows. The kernel's own waits come to
	// it, 40 ms or more of each window in which nothing is armed.
	meanPause    = 5 * time.Millisecond
	longestPause = 5 * time.Second
)

// length is how long a window of g is: as long as hits cost what arming does.
func (g *ProbeGroup) length(hit time.Duration) time.Duration {
	if g.Dense {
		return denseWindow
	}
	perSecond := g.Rate * hit.Seconds() // of native time
	native := armCost.Seconds() * float64(len(g.Sites)) / max(perSecond, 1e-6)
	return min(max(time.Duration(native*(1+perSecond)*1e9), shortestWindow), longestWindow)
}

// A Calibration arms groups of sites in windows that begin at random, and adds up
// what they count.
type Calibration struct {
	opt    CalibrationOptions
	window func(file string, sites []ProbeSite, pid int, length time.Duration) (*ProbeWindow, error)
	rng    *rand.Rand

	mu     sync.Mutex
	hit    time.Duration // cost of a hit
	groups []*measured   // in use
	old    []*measured   // that had windows, in use no more
	spent  time.Duration // processor time that windows added
	first  time.Duration // of the processes when it began
	total  time.Duration // of the processes
	n      int           // windows
	start  time.Time     // of Run
}

// measured is a group with its windows.
type measured struct {
	ProbeGroup
	windows []groupWindow
	failed  int
	due     float64 // windows that it should have had by now
}

// A groupWindow is what one window gave.
type groupWindow struct {
	time        float64 // processor time while it was open, in s
	all         float64 // hits of all sites of the group
	hits, taken []uint64
}

func groupOf(w *ProbeWindow) groupWindow {
	g := groupWindow{time: w.Time.Seconds(), hits: w.Hits, taken: w.Taken}
	for _, n := range w.Hits {
		g.all += float64(n)
	}
	return g
}

// NewCalibration makes one that arms with p.
func NewCalibration(p *Prober, opt CalibrationOptions) *Calibration {
	c := &Calibration{opt: opt, window: p.Window, hit: p.HitCost()}
	c.rng = rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	return c
}

// SetGroups says what to probe from now on. A group of the same sites as one before
// goes on from its windows.
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
	c.old = slices.DeleteFunc(before, func(m *measured) bool { return len(m.windows) == 0 })
}

func (m *measured) same(g *ProbeGroup) bool {
	return m.ID == g.ID && m.File == g.File && m.Dense == g.Dense && slices.Equal(m.Sites, g.Sites)
}

// Run opens windows until ctx is done. When it returns, nothing is armed. An error is
// that of the prober, which is of no more use then.
func (c *Calibration) Run(ctx context.Context) error {
	c.start = time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(c.rng.ExpFloat64() * float64(c.pause()))):
		}
		m := c.next()
		if m == nil {
			continue
		}
		w, err := c.window(m.File, m.Sites, m.PID, m.length(c.hit))
		if c.opt.Log != nil {
			c.opt.Log(&m.ProbeGroup, w, err)
		}
		if err != nil {
			if m.failed++; c.failed() {
				return fmt.Errorf("probes: %w", err)
			}
			continue
		}
		c.add(m, w)
	}
}

// failed tells whether no group works.
func (c *Calibration) failed() bool {
	for _, m := range c.groups {
		if m.failed < maxFailures {
			return false
		}
	}
	return true
}

// maxFailures is how often in all a group may fail to arm before it is left alone.
const maxFailures = 3

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
	used, spent := (c.total - c.first).Seconds(), c.spent.Seconds()
	rate := c.opt.Budget*used/time.Since(c.start).Seconds() + (c.opt.Budget*used-spent)/ahead // s of windows per s
	if rate <= 0 {
		return longestPause
	}
	return min(max(time.Duration(spent/float64(c.n)/rate*1e9), meanPause), longestPause)
}

// next gives the group that lags most behind the share of windows that it shall have.
func (c *Calibration) next() *measured {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.opt.Most > 0 && c.n >= c.opt.Most {
		return nil
	}
	var sum float64
	for _, m := range c.groups {
		if m.failed < maxFailures {
			sum += m.Share
		}
	}
	if sum == 0 {
		return nil
	}
	var best *measured
	for _, m := range c.groups {
		if m.failed >= maxFailures {
			continue
		}
		m.due += m.Share / sum
		if best == nil || m.due > best.due {
			best = m
		}
	}
	best.due--
	return best
}

func (c *Calibration) add(m *measured, w *ProbeWindow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	g := groupOf(w)
	// The least time per hit of all windows bounds what one costs.
	if g.all >= 1000 {
		c.hit = min(c.hit, time.Duration(w.Time.Seconds()/g.all*1e9))
	}
	m.windows = append(m.windows, g)
	c.n++
	c.spent += time.Duration(w.All)*c.hit + armCost*time.Duration(len(m.Sites))
	if c.first == 0 {
		c.first = w.Total
	}
	c.total = w.Total
}

// Spent is how many windows there were, the processor time that they added, and that
// of the sampled processes, in all.
func (c *Calibration) Spent() (windows int, added, of time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.n, c.spent, c.total
}

// AddTo adds what the windows counted to counts, the samples of the same processes.
func (c *Calibration) AddTo(counts *sample.Counts) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := append(slices.Clone(c.old), c.groups...)
	// A file whose code was never hit may be another one than the processes run.
	alive := map[string]bool{}
	for _, m := range all {
		for _, w := range m.windows {
			alive[m.File] = alive[m.File] || w.all > 0
		}
	}
	type place struct {
		id  sample.ImageID
		off sample.Offset
	}
	sum := map[place]*estimate{}
	for _, m := range all {
		if !alive[m.File] || len(m.windows) == 0 {
			continue
		}
		for i, e := range m.estimates(c.hit.Seconds()) {
			at := place{m.ID.Key(), m.Sites[i].Off}
			if sum[at] == nil {
				sum[at] = &estimate{id: m.ID}
			}
			sum[at].add(e)
		}
	}
	native := max(0, c.total-c.spent).Seconds()
	for at, e := range sum {
		counts.AddProbed(counts.Image(e.id), at.off, e.probed(native, counts.Weight))
	}
}

// An estimate is what windows tell of one site.
type estimate struct {
	id              sample.ImageID
	windows         int
	rate            float64 // executions per second of processor time
	variance        float64 // of rate
	common          float64 // of it, what all sites of the group have in common
	known           bool    // the three above
	outcomes, taken uint64
	spread          float64 // variance of taken
}

// Before windows tell how much they differ, they are taken to differ as much as their
// mean, and the sites of a group among one another by half as much: one window more of
// that kind is thought to have been.
const (
	priorCommon = 1
	priorOwn    = 0.5
)

// costSD is the relative standard deviation of what a hit costs, from one place to
// another: a window's native time is off by that share of the time of its hits.
const costSD = 0.05

// mostDilated bounds what is believed of how much slower a window ran.
const mostDilated = 20

// estimates gives those of the sites of m, for a cost of hits in s.
//
// A window begins at a random moment of native time, whatever goes on then, and lasts
// for a fixed time, of which less is native the denser hits are. So it is the rates of
// windows, hits per native time, that are averaged. Sums of hits over sums of native
// time would stand for less of the dense phases than there is of them.
func (m *measured) estimates(hit float64) []estimate {
	out := make([]estimate, len(m.Sites))
	n := float64(len(m.windows))
	var time, dilated float64 // sums over windows
	weight, native := make([]float64, len(m.windows)), make([]float64, len(m.windows))
	for k, w := range m.windows {
		native[k] = max(w.time-w.all*hit, w.time/mostDilated)
		weight[k] = w.time
		time += w.time
		dilated += w.time * (w.time/max(native[k], 1e-9) - 1)
	}
	rate := func(k int, hits float64) float64 { return hits / max(native[k], 1e-9) }
	var all float64 // rate of the whole group
	for k, w := range m.windows {
		all += weight[k] / time * rate(k, w.all)
	}
	var between float64
	for k, w := range m.windows {
		d := weight[k] / time * (rate(k, w.all) - all)
		between += d * d
	}
	between = (between + sq(priorCommon*all/n)) * n / max(n-0.5, 1)
	common := between/max(sq(all), 1e-300) + sq(costSD*dilated/max(time, 1e-9))
	for i := range out {
		e := &out[i]
		e.id, e.windows = m.ID, len(m.windows)
		var hits, nat float64
		for k, w := range m.windows {
			e.rate += weight[k] / time * rate(k, float64(w.hits[i]))
			hits += float64(w.hits[i])
			nat += native[k]
			if m.Sites[i].Cond != NoCond {
				e.outcomes += w.hits[i]
				e.taken += w.taken[i]
			}
		}
		e.known = !m.Dense && time > 0
		share := e.rate / max(all, 1e-300)
		for k, w := range m.windows {
			d := weight[k] / time * (rate(k, float64(w.hits[i])) - share*rate(k, w.all))
			e.variance += d * d
			d = float64(w.taken[i]) - float64(e.taken)/max(float64(e.outcomes), 1)*float64(w.hits[i])
			e.spread += d * d
		}
		e.variance = (e.variance + sq(priorOwn*e.rate/n)) * n / max(n-0.5, 1)
		e.variance = max(e.variance, sq(e.rate)/max(hits, 1), sq(1/max(nat, 1e-9))) // chance alone
		e.common = common * sq(e.rate)
		e.variance += e.common
		e.spread *= n / max(n-0.5, 1)
	}
	return out
}

func sq(x float64) float64 { return x * x }

// add adds what another group tells of the same site: each counts by how sure it is.
func (e *estimate) add(o estimate) {
	e.windows += o.windows
	e.outcomes, e.taken, e.spread = e.outcomes+o.outcomes, e.taken+o.taken, e.spread+o.spread
	switch {
	case !o.known:
	case !e.known:
		e.rate, e.variance, e.common, e.known = o.rate, o.variance, o.common, true
	default:
		w := 1 / e.variance / (1/e.variance + 1/o.variance)
		e.rate = w*e.rate + (1-w)*o.rate
		e.variance = sq(w)*e.variance + sq(1-w)*o.variance
		e.common = sq(w)*e.common + sq(1-w)*o.common
	}
}

// probed gives e for so many seconds of processor time, which samples of that weight
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
		p.Common = sample.SquareOf(math.Floor(e.common * sq(seconds)))
	}
	return p
}
