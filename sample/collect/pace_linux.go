//go:build amd64 || arm64

package collect

import (
	"math/rand/v2"
	"slices"
	"sync"
	"time"
)

const (
	// redrawEvery is the time between two periods of a processor. A change takes
	// 28 to 64 us, an interrupt of the other processor included, so each
	// processor costs 0.05 % of one.
	redrawEvery = tendEvery
	// redrawSamples is how many samples a period is kept for at the least: a
	// change begins the period anew, and so costs half a sample.
	redrawSamples = 10
	// spread is how far the rate goes up and down. It is drawn evenly: so is its
	// mean the rate asked for, which an even period would exceed.
	spread = 0.3

	// A processor of which less than 1 in idleShare samples was at work for
	// idleAfter is sampled idleFactor times less often, until one is.
	idleAfter  = time.Second
	idleShare  = 50
	idleFactor = 8
)

// A pace changes the periods of all processors at random, so that samples keep
// no step with what they sample, nor processors with each other, and slows down
// on those that are idle.
type pace struct {
	of    paced
	units []float64 // by event: how many pass in a second
	rand  *rand.Rand
	cpus  []cpuPace

	mu sync.Mutex
	hz int
}

// paced is what a pace changes: a sampler.
type paced interface {
	processors() []int
	perCPU() ([]processorCounters, error)
	setPeriod(i, event int, period, worth uint64) // on the processor of index i
}

// cpuPace is the state of a processor.
type cpuPace struct {
	next  time.Time // to draw a period
	idle  bool
	since time.Time // of the samples below
	busy  uint64    // samples that were at work, and all
	all   uint64
}

func newPace(of paced, units []float64, hz int) *pace {
	p := &pace{
		of: of, units: units, hz: hz,
		rand: rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())),
	}
	for range of.processors() {
		p.add()
	}
	return p
}

// add paces one more processor.
func (p *pace) add() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.cpus = append(p.cpus, cpuPace{since: now, next: now.Add(time.Duration(p.rand.Int64N(int64(redrawEvery))))})
	p.draw(len(p.cpus)-1, p.hz)
}

// drop forgets the processor of index i.
func (p *pace) drop(i int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if i < len(p.cpus) {
		p.cpus = slices.Delete(p.cpus, i, i+1)
	}
}

// set changes the mean rate.
func (p *pace) set(hz int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hz = hz
	for i := range p.cpus {
		p.draw(i, hz)
	}
}

// mean is the mean rate.
func (p *pace) mean() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hz
}

// draw assigns a processor another period, and says what a sample is worth from now
// on: what passes between two samples on average, changes of period included.
func (p *pace) draw(i, hz int) {
	rate := drawRate(float64(hz), p.rand.Float64())
	again := 0.5 / interval(hz).Seconds() // changes of a second, each at the cost of half a sample
	if p.cpus[i].idle {
		rate, again = rate/idleFactor, 0
	}
	for e, unit := range p.units {
		p.of.setPeriod(i, e, uint64(unit/(rate+again)), uint64(unit/rate))
	}
}

// interval is how long to keep a period.
func interval(hz int) time.Duration {
	return max(redrawEvery, redrawSamples*time.Second/time.Duration(hz))
}

// drawRate returns a rate about hz, for u in [0, 1).
func drawRate(hz, u float64) float64 { return hz * (1 - spread + 2*spread*u) }

// step draws periods for the processors whose time has come.
func (p *pace) step(now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	counters, err := p.of.perCPU()
	if err != nil {
		return
	}
	for i, cpu := range p.of.processors() {
		c := &p.cpus[i]
		if cpu < len(counters) && c.observe(now, counters[cpu].User+counters[cpu].Kernel, counters[cpu].All) || !c.idle && now.After(c.next) {
			p.draw(i, p.hz)
			c.next = now.Add(interval(p.hz) - tendEvery/2) // tend may come early
		}
	}
}

// observe takes in how many samples a processor has had. It reports whether that
// makes it idle, or busy again.
func (c *cpuPace) observe(now time.Time, busy, all uint64) (changed bool) {
	switch {
	case c.idle && busy > c.busy:
		c.idle = false
	case !c.idle && now.Sub(c.since) >= idleAfter && all > c.all && (busy-c.busy)*idleShare < all-c.all:
		c.idle = true
	case !c.idle && now.Sub(c.since) < idleAfter:
		return false
	default:
		c.since, c.busy, c.all = now, busy, all
		return false
	}
	c.since, c.busy, c.all = now, busy, all
	return true
}
