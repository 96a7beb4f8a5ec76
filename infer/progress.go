package infer

import (
	"context"
	"sync"
)

// A progress says how far a long work is, and whether it is to end. It divides the work into stages,
// which take about the shares of the time that they are given. A nil progress says nothing, and goes on.
type progress struct {
	ctx    context.Context       // of the call that does the work, which it does not outlive
	report func(done, total int) // nil says nothing

	mu       sync.Mutex
	from, to float64 // of the stage, shares of all
	step, of int     // of the stage
	said     int
}

// Shares of the time of Infer at the end of its stages: the images are read and the samples placed,
// procedures are searched each alone, then all together, then their spread is found; what they call
// is the rest. They are means of gcc's cc1 and clang that compile 3000 functions.
const placingShare, aloneShare, togetherShare, spreadShare = 0.5, 0.65, 0.68, 0.73

// progressSteps is what a progress divides all work into.
const progressSteps = 1000

func newProgress(ctx context.Context, report func(done, total int)) *progress {
	return &progress{ctx: ctx, report: report, said: -1}
}

// ended reports whether the work is to end: what it would come to is of no use to anyone.
func (p *progress) ended() bool { return p != nil && p.ctx.Err() != nil }

// parallel is the function of that name, which runs f no more once the work is to end. What f would
// have made is then missing.
func (p *progress) parallel(n int, f func(i int)) {
	parallel(n, func(i int) {
		if !p.ended() {
			f(i)
		}
	})
}

// stage begins a stage of so many steps, at whose end a share of all work is done.
func (p *progress) stage(until float64, steps int) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.from, p.to, p.step, p.of = p.to, until, 0, steps
	p.say()
}

// done says that a step is done. It may be called from several goroutines at once.
func (p *progress) done() {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.step = min(p.step+1, p.of)
	p.say()
}

// say calls report if there is something new to it.
func (p *progress) say() {
	if p.report == nil || p.ended() {
		return
	}
	share := p.from
	if p.of > 0 {
		share += (p.to - p.from) * float64(p.step) / float64(p.of)
	}
	if n := int(share * progressSteps); n > p.said {
		p.said = n
		p.report(n, progressSteps)
	}
}
