package agent

import (
	"time"
)

// A budget keeps the agent's cost below a share of the machine: its own processor
// time, and what samples take from whatever they interrupt.
type budget struct {
	limit  float64       // share of all processor time
	most   int           // samples of each event per second and processor, if the limit allows
	events int           // that are sampled at the same time
	stolen time.Duration // that one sample takes from its processor, the interrupt included

	own  float64       // moving average of the agent's own processor time, as a share of all
	over time.Duration // processor time of the machine that own is the average over
	debt time.Duration // processor time spent beyond the limit and not yet saved
}

const (
	// memory is how far back the moving average reaches, in processor time of the
	// machine, so that the lump of a flush does not drive the rate up and down.
	memory = 5 * time.Minute
	// payback is the processor time of the machine in which a debt is to be saved.
	payback = time.Minute
)

// A spending is what an interval cost.
type spending struct {
	own     time.Duration // processor time of this process, in user and system mode
	samples uint64        // taken, the idle ones included
	machine time.Duration // processor time that there was: the interval times the processors
}

// total is the processor time of s, that of the interrupted programs included.
func (b *budget) total(s spending) time.Duration {
	return s.own + time.Duration(s.samples)*b.stolen
}

// next returns the rate of the next interval, after one that cost s. What is not
// spent is not saved up: the average of any long time keeps the limit, not only
// that since the start.
func (b *budget) next(s spending) int {
	if s.machine <= 0 {
		return b.rate()
	}
	if b.over == 0 {
		b.over = payback // at no cost: what it takes to start says little
	}
	b.over = min(b.over+s.machine, max(memory, s.machine))
	b.own += (s.own.Seconds() - b.own*s.machine.Seconds()) / b.over.Seconds()
	allowed := time.Duration(b.limit * float64(s.machine))
	b.debt = max(0, b.debt+b.total(s)-allowed)
	return b.rate()
}

// rate is the highest rate at which samples on every processor, the agent's own
// time and a payment of the debt stay below the limit; at least 1 Hz.
func (b *budget) rate() int {
	if b.stolen <= 0 {
		return b.most
	}
	left := b.limit - b.own - b.debt.Seconds()/payback.Seconds()
	return max(1, min(b.most, int(left/b.stolen.Seconds()/float64(b.events))))
}

// hopeless reports whether more is spent than ten minutes of the machine allow,
// though nearly nothing is sampled.
func (b *budget) hopeless() bool {
	return b.rate() == 1 && b.debt.Seconds() > b.limit*600
}
