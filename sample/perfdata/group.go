package perfdata

import (
	"math/bits"

	"backfeed/sample"
)

// Where a group of events is read with each sample of one of them (perf record -e '{a,b,c}:S'), the others have no samples
// of their own. What they counted since the sample before is attributed to this one, as perf does. So that they are samples
// like others, each stands for one number of events. A read is as many samples as that goes into it, and one more as often
// as what is left over is a part of it: chance decides, as what is left over would fall on the same places again and again where
// a program repeats itself. The chance is the same whenever a file is read.

// A groupKey names the counter of an event. Where it is inherited, each thread has one.
type groupKey struct {
	id  uint64
	tid int
}

// maxCounters is how many counters of groups are kept; those of further threads are left out.
const maxCounters = 1 << 20

// A groupTally makes samples of an event that was read.
type groupTally struct {
	period uint64 // of events that a sample stands for; 0 until some were read
	chance uint64 // state of the generator
	first  []groupRead
}

// A groupRead is how many events passed before a sample, and where that was.
type groupRead struct {
	at   sample.Frame // of the image in the counts of the event
	lost sample.Loss  // why it is nowhere; "" if it is somewhere
	n    uint64
}

// firstReads is how many reads decide what a sample stands for: about as many events as pass between two.
const firstReads = 16

// readGroup takes what was read of the other events of a group with a sample.
func (r *reader) readGroup(l *located) {
	for i := 0; i+1 < len(l.e.reads); i += 2 {
		id, value := l.e.reads[i], l.e.reads[i+1]
		ev := r.byID[id]
		if ev == nil || ev == l.e.ev || ev.period > 0 || ev.carrier() { // with a period, it is sampled
			continue
		}
		key := groupKey{id: id}
		if l.e.ev.flags&flagInherit != 0 {
			key.tid = l.e.tid
		}
		before, known := r.counters[key]
		if !known && len(r.counters) == maxCounters {
			continue
		}
		if r.counters == nil {
			r.counters = map[groupKey]uint64{}
		}
		r.counters[key] = value
		if value <= before {
			continue
		}
		read := groupRead{n: value - before}
		switch l.e.mode() {
		case modeKernel, modeHypervisor:
			read.lost = sample.LostKernel
		case modeGuestKernel, modeGuestUser:
			read.lost = sample.LostGuest
		default:
			read.at, read.lost = r.here.frame(&ev.tally, l, l.e.ip)
		}
		ev.group.add(ev.counts, read)
	}
}

// add adds a read to c, once it is known what a sample stands for.
func (g *groupTally) add(c *sample.Counts, read groupRead) {
	if g.period > 0 {
		g.count(c, read)
		return
	}
	if g.first = append(g.first, read); len(g.first) == firstReads {
		g.begin(c)
	}
}

// begin decides what a sample stands for, and counts what was read so far.
func (g *groupTally) begin(c *sample.Counts) {
	if len(g.first) == 0 {
		return
	}
	for _, read := range g.first {
		g.period += min(read.n, 1<<48) / uint64(len(g.first))
	}
	g.period = max(1, g.period)
	for _, read := range g.first {
		g.count(c, read)
	}
	g.first = nil
}

// count adds samples for a read. k samples of one read are one by chance: the square of k is their part of the variance.
func (g *groupTally) count(c *sample.Counts, read groupRead) {
	k := read.n / g.period
	if g.draw()%g.period < read.n%g.period {
		k++
	}
	if k == 0 {
		return
	}
	if read.lost != "" {
		c.Lose(read.lost, k)
	} else {
		c.AddSample(read.at.Image, read.at.Off, k)
	}
	hi, events := bits.Mul64(k, g.period)
	weight, carry := bits.Add64(c.Weight, events, 0)
	if hi+carry > 0 {
		weight = ^uint64(0)
	}
	c.Weight = weight
	c.Excess = c.Excess.Add(sample.SquareOf(float64(k) * float64(k-1)))
}

// draw returns a number by chance: splitmix64 (Steele, Lea and Flood, OOPSLA 2014).
func (g *groupTally) draw() uint64 {
	g.chance += 0x9e3779b97f4a7c15
	z := g.chance
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
