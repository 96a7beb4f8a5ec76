package layout

// A progress says how far a work of many steps is. Nil says nothing.
type progress struct {
	done, total int
	report      func(done, total int)
}

// newProgress returns that of a work of so many steps; report may be nil.
func newProgress(total int, report func(done, total int)) *progress {
	if report == nil {
		return nil
	}
	return &progress{total: total, report: report}
}

// step says that one more is done.
func (p *progress) step() {
	if p != nil {
		p.done++
		p.report(p.done, p.total)
	}
}

// skip begins after so many steps.
func (p *progress) skip(n int) {
	if p != nil {
		p.done = n
	}
}
