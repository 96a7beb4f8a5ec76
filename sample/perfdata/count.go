package perfdata

import (
	"sync"

	"backfeed/sample"
)

// A tally counts the samples of an event.
type tally struct {
	counts *sample.Counts
	// The image looked up last saves looking up that of each sample: they come in runs.
	lastID    sample.ImageID
	lastIndex int
}

func newTally() tally {
	return tally{counts: sample.NewCounts(sample.CPU{}, sample.Event{}), lastIndex: sample.Unknown}
}

// noIndex is the index of events that are not of reader.events.
const noIndex = -1

// A located sample has all that depends on the records before it.
type located struct {
	e      *entry
	origin sample.Origin
	view   sample.View // of its process
	ns     uint64      // when it was taken, if it is timed
	timed  bool
}

// A counter counts samples, whose order does not matter to it. The zero value is one that unwinds nothing.
type counter struct {
	finder sample.Finder
	frames []sample.Frame
	copied copied
}

// count adds a sample to t.
func (ct *counter) count(t *tally, l *located) {
	c, e := t.counts, l.e
	c.AddOrigin(l.origin, 1)
	c.AddProcessor(e.cpu, 1)
	lose := func(why sample.Loss) {
		c.Lose(why, 1)
		if l.timed {
			c.LoseAt(c.SliceAt(l.ns), why, 1)
		}
	}
	if mode := e.mode(); mode != modeGuestKernel && mode != modeGuestUser {
		ct.branches(t, l)
	}
	switch e.mode() {
	case modeKernel, modeHypervisor:
		lose(sample.LostKernel)
		return
	case modeGuestKernel, modeGuestUser:
		lose(sample.LostGuest)
		return
	}
	leaf, loss := ct.frame(t, l, e.ip)
	if loss != "" {
		lose(loss)
		return
	}
	c.AddSample(leaf.Image, leaf.Off, 1)
	ct.copied.unwind(ct, t, l)
	frames := ct.stack(t, l, leaf)
	top := ct.top(t, l)
	switch stack := e.stack || top.Image != sample.Unknown; {
	case stack && l.timed:
		c.AddStackAt(frames, top, c.SliceAt(l.ns), 1)
	case stack:
		c.AddStackTop(frames, top, 1)
	case l.timed:
		c.AddMoment(leaf.Image, leaf.Off, c.SliceAt(l.ns), 1)
	}
	if us, known := l.view.Age(e.time); known {
		c.TouchStack(frames, us)
	}
}

// frame returns the place of pc in the process of a sample.
func (ct *counter) frame(t *tally, l *located, pc uint64) (sample.Frame, sample.Loss) {
	id, off, loss := ct.finder.Find(l.view, pc)
	if loss != "" {
		return sample.Frame{Image: sample.Unknown}, loss
	}
	if t.lastIndex == sample.Unknown || t.lastID != id {
		t.lastID, t.lastIndex = id, t.counts.Image(id)
	}
	return sample.Frame{Image: t.lastIndex, Off: off}, ""
}

// top returns the place of the first word at the stack pointer that names code.
func (ct *counter) top(t *tally, l *located) sample.Frame {
	for _, word := range l.e.top {
		if f, loss := ct.frame(t, l, word); loss == "" {
			return f
		}
	}
	return sample.Frame{Image: sample.Unknown}
}

// stack returns the call stack of a sample. Unknown callers at its outer end tell nothing:
// frame pointers often lead astray there.
func (ct *counter) stack(t *tally, l *located, leaf sample.Frame) []sample.Frame {
	ct.frames = append(ct.frames[:0], leaf)
	for _, pc := range l.e.chain {
		f, _ := ct.frame(t, l, pc)
		ct.frames = append(ct.frames, f)
	}
	n := len(ct.frames)
	for ct.frames[n-1].Image == sample.Unknown {
		n--
	}
	return ct.frames[:n]
}

// maxRange is the longest stretch of code without a taken branch that is
// believed, in bytes. Longer ones are where records are missing.
const maxRange = 1 << 20

// branches counts the branch stack of a sample.
func (ct *counter) branches(t *tally, l *located) {
	c, e := t.counts, l.e
	all := e.ev.branchType&branchAny != 0 // with a filter, branches between two recorded ones are missing
	var newer sample.Frame
	for i := 0; i < len(e.branches); i += 3 {
		from, _ := ct.frame(t, l, e.branches[i])
		to, _ := ct.frame(t, l, e.branches[i+1])
		if from.Image != sample.Unknown || to.Image != sample.Unknown {
			c.AddBranch(sample.Branch{From: from, To: to}, 1, e.branches[i+2])
		}
		if all && i > 0 && to.Image != sample.Unknown && to.Image == newer.Image && to.Off <= newer.Off && newer.Off-to.Off < maxRange {
			c.AddRange(sample.Range{Image: to.Image, First: to.Off, Last: newer.Off}, 1)
		}
		newer = from
	}
}

// A crew are goroutines that count. Samples with the same addresses go to the same one, so that
// what they hold together is about what one would.
type crew struct {
	of   []*worker
	used chan []located // batches that were counted
	wg   sync.WaitGroup
}

// Of samples on their way there are a few batches for each worker.
const (
	sampleBatch      = 256
	sampleBatchBytes = 256 << 10
	sampleBatches    = 4
)

type worker struct {
	counter
	tallies []*tally // by index of the event
	in      chan []located
	fill    []located // not sent yet
	size    int       // of fill, in bytes
}

func newCrew(n int, of copied) *crew {
	w := &crew{used: make(chan []located, n*(sampleBatches+2))}
	for range n {
		wk := &worker{in: make(chan []located, sampleBatches)}
		wk.copied = of
		w.of = append(w.of, wk)
		w.wg.Go(func() { wk.run(w.used) })
	}
	return w
}

func (wk *worker) run(used chan<- []located) {
	for all := range wk.in {
		for i := range all {
			wk.count(wk.tally(all[i].e.ev), &all[i])
			all[i].e.empty()
		}
		select {
		case used <- all:
		default:
		}
	}
}

// tally returns that of an event.
func (wk *worker) tally(ev *event) *tally {
	for len(wk.tallies) <= ev.index {
		wk.tallies = append(wk.tallies, nil)
	}
	if wk.tallies[ev.index] == nil {
		t := newTally()
		wk.tallies[ev.index] = &t
	}
	return wk.tallies[ev.index]
}

// count has a sample counted. It keeps the entry of l.
func (w *crew) count(l located) {
	h := l.e.ip
	for _, pc := range l.e.chain {
		h = (h ^ h>>32 ^ pc) * 0x9e3779b97f4a7c15 // Fibonacci hashing: Knuth, volume 3, section 6.4
	}
	wk := w.of[(h*0x9e3779b97f4a7c15>>32)%uint64(len(w.of))]
	wk.fill = append(wk.fill, l)
	if wk.size += l.e.size(); len(wk.fill) == sampleBatch || wk.size > sampleBatchBytes {
		wk.send()
	}
}

func (wk *worker) send() {
	wk.in <- wk.fill
	wk.fill, wk.size = nil, 0
}

// back saves the entries of a batch that was counted.
func (w *crew) back(save func(*entry)) {
	select {
	case all := <-w.used:
		for _, l := range all {
			save(l.e)
		}
	default:
	}
}

// end waits for the samples that are on their way.
func (w *crew) end() {
	for _, wk := range w.of {
		wk.send()
		close(wk.in)
	}
	w.wg.Wait()
}

// parts returns what was counted of an event; nothing if there is no crew.
func (w *crew) parts(ev *event) (parts []*sample.Counts) {
	if w == nil {
		return nil
	}
	for _, wk := range w.of {
		if ev.index < len(wk.tallies) && wk.tallies[ev.index] != nil {
			parts = append(parts, wk.tallies[ev.index].counts)
		}
	}
	return parts
}
