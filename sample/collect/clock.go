package collect

import (
	"slices"
	"time"

	"backfeed/sample"
)

// A clockMeter measures the clock of processors while samples of time are taken on them: the time of a chain of additions
// of two registers, each of which takes one cycle on all processors there are, and which none folds or leaves
// out, as some do with moves and with small constants. (Golden Cove does; the throughput of
// "add r64, r64" behind itself is 1 for all processors of uops.info.)
//
// The time is that of CLOCK_MONOTONIC, as the kernel's timers go by it. Whatever else happens to the thread makes the
// chain longer, not shorter, be it interrupts or time that another guest of the host has: the least of some runs counts. Clocks
// change, so it is measured anew, on the processor that samples came from: one that idles may run slower.
type clockMeter struct {
	next   time.Time
	recent []float64 // cycles per ns, the last ones measured

	least, most float64 // of all
	times       int
	returns     returnMeter
	now         func() time.Duration // since some moment
	chain       func(turns int) int
}

const (
	chainLength = 64  // additions in each turn of chain
	chainTurns  = 800 // 51,200 cycles: 14 µs at 3.7 GHz
	chainRuns   = 8   // 0.1 ms in all
	clockEvery  = time.Second
	recentClock = 5 // so many of the last ones have a say, of which the middle counts
)

// due reports whether the clock is to be measured again.
func (m *clockMeter) due() bool { return haveChain && !time.Now().Before(m.next) }

// measure measures the clock on a processor that samples came from; -1 is any.
func (m *clockMeter) measure(cpu int) {
	m.next = time.Now().Add(clockEvery)
	on(cpu, func() { m.take(m.time()) })
}

// take takes in what was measured, if it can be a clock.
func (m *clockMeter) take(ghz float64) {
	if !(ghz >= sample.LeastClock && ghz <= sample.MostClock) {
		return
	}
	if m.recent = append(m.recent, ghz); len(m.recent) > recentClock {
		m.recent = m.recent[1:]
	}
	if m.times++; m.times == 1 {
		m.least = ghz
	}
	m.least, m.most = min(m.least, ghz), max(m.most, ghz)
}

// time returns the cycles per ns of the fastest of some runs, less the time that reading the time takes; 0 if
// time goes in steps too large for that.
func (m *clockMeter) time() float64 {
	now, chain := m.now, m.chain
	if now == nil {
		start := time.Now()
		now, chain = func() time.Duration { return time.Since(start) }, addChain
	}
	var best, reading time.Duration
	for i := range chainRuns {
		before := now()
		begin := now()
		chain(chainTurns)
		took := now() - begin
		if i == 0 || took < best {
			best = took
		}
		if i == 0 || begin-before < reading {
			reading = begin - before
		}
	}
	if best -= reading; best <= 0 || reading > best/10 {
		return 0
	}
	return chainLength * chainTurns / float64(best.Nanoseconds())
}

// spread returns what was measured in all.
func (m *clockMeter) spread() Clock { return Clock{m.least, m.most, m.times} }

// weigh says of the weight that c has got since it was last told of the clock how many cycles that was. Where it
// was not measured yet, nothing is said.
func (m *clockMeter) weigh(c *sample.Counts) {
	m.returns.tell(c)
	if c.Event.Unit != "ns" || len(m.recent) == 0 || c.Weight <= c.Clocked {
		return
	}
	sorted := slices.Sorted(slices.Values(m.recent))
	fresh := c.Weight - c.Clocked
	c.Clocked = c.Weight
	c.Cycles += max(1, uint64(float64(fresh)*sorted[len(sorted)/2]))
}
