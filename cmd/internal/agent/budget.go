package agent

import (
	"time"
)

// A budget keeps the agent's cost below a share of the machine: its own processor
// time, that of the kernel's programs at switches of threads, and what samples take from whatever they interrupt.
type budget struct {
	limit  float64       // share of all processor time
	most   int           // samples of each event per second and processor, if the limit allows
	events int           // that are sampled at the same time
	stolen time.Duration // that one sample takes from its processor, the interrupt included

	// window is the processor time of the machine that the limit is kept over, so long that the lump
	// of writing a segment is a small part of what may be spent in it.
	window time.Duration

	switches float64       // the part of own that is taken at switches of threads
	own      float64       // moving average of what the agent takes at any rate, its own processor time and that at switches, as a share of all
	over     time.Duration // processor time of the machine that own is the average over
	balance  time.Duration // processor time that may be spent beside the limit; below 0, what was spent beyond it
	all      spending      // since the start
}

// shortestWindow is that of a budget in wall time; a longer time from one segment to the next
// makes it longer.
const shortestWindow = 10 * time.Minute

// atFirst is what a moving average is taken over before anything was spent, at no cost: what it
// takes to start says little.
const atFirst = time.Minute

// A spending is what an interval cost.
type spending struct {
	own      time.Duration // processor time of this process, in user and system mode
	switches time.Duration // of the kernel's programs at switches of threads
	samples  uint64        // taken, the idle ones included
	machine  time.Duration // processor time that there was: the interval times the processors
}

// total is the processor time of s, that of the interrupted programs included.
func (b *budget) total(s spending) time.Duration {
	return s.own + s.switches + time.Duration(s.samples)*b.stolen
}

// next returns the rate of the next interval, after one that cost s. What is not spent in a
// window is there for a lump, such as the writing of a segment, and never for a higher rate; what was
// spent beyond is saved in the window that follows. So the average of any long time keeps the limit,
// not only that since the start.
func (b *budget) next(s spending) int {
	if s.machine <= 0 {
		return b.rate()
	}
	if b.over == 0 {
		b.over = min(atFirst, b.window)
	}
	b.over = min(b.over+s.machine, max(b.window, s.machine))
	b.own += ((s.own + s.switches).Seconds() - b.own*s.machine.Seconds()) / b.over.Seconds()
	b.switches += (s.switches.Seconds() - b.switches*s.machine.Seconds()) / b.over.Seconds()
	b.all.own, b.all.switches, b.all.machine = b.all.own+s.own, b.all.switches+s.switches, b.all.machine+s.machine
	b.balance = min(b.balance+b.allowed(s.machine)-b.total(s), b.allowed(b.window))
	return b.rate()
}

// allowed is what may be spent in some processor time of the machine.
func (b *budget) allowed(machine time.Duration) time.Duration {
	return time.Duration(b.limit * float64(machine))
}

// debt is what was spent beyond the limit and not saved since.
func (b *budget) debt() time.Duration { return max(0, -b.balance) }

// rate is the highest rate at which samples on every processor, the agent's own
// time and a payment of the debt stay below the limit; at least 1 Hz.
func (b *budget) rate() int {
	if b.stolen <= 0 {
		return b.most
	}
	left := b.limit - b.own - b.debt().Seconds()/b.window.Seconds()
	return max(1, min(b.most, int(left/b.stolen.Seconds()/float64(b.events))))
}

// hopeless reports whether more is spent than a window beside this one allows,
// though nearly nothing is sampled.
func (b *budget) hopeless() bool {
	return b.rate() == 1 && b.debt() > b.allowed(b.window)
}

// sampling is what samples take at a rate, as a share of all processor time.
func (b *budget) sampling(hz int) float64 {
	return float64(hz*b.events) * b.stolen.Seconds()
}

// fewest is the part of the rate that was asked for that samples are to have at the least beside time off the processor, and mostOff that of
// the limit from which on what is taken at switches of threads is a reason why they have not. To read what comes of these takes the
// agent's own time, as much again where stacks are many.
const fewest, mostOff = 0.25, 0.25

// crowdedOut reports whether what is taken at switches of threads leaves samples less than that part, on the average of a fourth of the
// window: what it takes to start is no such reason.
func (b *budget) crowdedOut() bool {
	return b.over >= b.window/4 && b.switches >= mostOff*b.limit && b.own+b.sampling(int(fewest*float64(b.most))) > b.limit
}

// offEnded begins anew, as what was spent while time off the processor was recorded says nothing of what comes: samples would pay for
// what is over.
func (b *budget) offEnded() { b.own, b.switches, b.over, b.balance = 0, 0, 0, 0 }
