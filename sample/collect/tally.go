package collect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"backfeed/sample"
)

// A queue holds records back until those of all rings that may have happened
// before them have arrived, and then gives them in the order of their times.
type queue struct{ held []record }

func (q *queue) add(recs []record) { q.held = append(q.held, recs...) }

// flush calls f with all records up to time limit. Of equal times, those added first
// come first.
func (q *queue) flush(limit uint64, f func(*record) error) error {
	slices.SortStableFunc(q.held, func(a, b record) int { return cmp.Compare(a.time, b.time) })
	n, _ := slices.BinarySearchFunc(q.held, limit, func(r record, limit uint64) int {
		if r.time <= limit {
			return -1
		}
		return 1
	})
	for i := range q.held[:n] {
		if err := f(&q.held[i]); err != nil {
			return err
		}
	}
	q.held = slices.Delete(q.held, 0, n)
	return nil
}

// A tally puts samples down to images. It is told of records in the order in
// which they happened.
type tally struct {
	spaces   sample.Spaces
	counts   *sample.Counts // of the event of what is taken in
	stats    *Stats
	layout   sampleLayout                     // of its samples
	events   []tallied                        // where they are several: all of them
	ids      map[uint64]int                   // by number of an event: its index there
	identify func(*mmapRecord) sample.ImageID // may look at the file
	jit      func(pid int) *sample.ImageID    // returns the file that names the code which a process made itself, or nil
	jits     map[int]jitLook                  // by process: what it returned
	now      uint64                           // when the sample that is taken in was taken
	progress Progress
	told     map[*sample.Counts]int // how many of their images progressed has returned
	clock    clockMeter

	allFaults float64 // page faults that there were, where they were sampled beside

	threads sample.Threads
	epoch   uint64 // ns since 1970 when CLOCK_MONOTONIC began; 0 is unknown, and so is then when samples were taken

	sample sampleRecord   // of sample, kept for its slices
	frames []sample.Frame // likewise
}

// A tallied is one of several events.
type tallied struct {
	counts *sample.Counts
	layout sampleLayout
}

// A jitLook is what looking for a process's map of code made at run time found: nil if there is none yet.
type jitLook struct {
	id *sample.ImageID
	at uint64 // when the sample was taken that it was looked for
}

// lookAgain is how long samples in code without a map have it not looked for again: runtimes write it when they first
// make code, so that it is there soon or never.
const lookAgain = 100e6 // ns

// find returns the place of a pc in a process. Code that the process made itself is in the file that names it, if there
// is one, at its own address.
func (t *tally) find(pid int, pc uint64) (sample.ImageID, sample.Offset, sample.Loss) {
	id, off, loss := t.spaces.Find(pid, pc)
	if loss != sample.LostAnonymous || t.jit == nil {
		return id, off, loss
	}
	look, looked := t.jits[pid]
	if look.id == nil && (!looked || t.now >= look.at+lookAgain) {
		look = jitLook{t.jit(pid), t.now}
		if t.jits == nil {
			t.jits = map[int]jitLook{}
		}
		t.jits[pid] = look
	}
	if look.id == nil {
		return id, off, loss
	}
	return *look.id, sample.Offset(pc), ""
}

// forked takes in that a process, or a thread of its own, began. A process has no map of its own yet, whatever had its number
// before: what ended was remembered for samples of it that came late.
func (t *tally) forked(pid, parent int) {
	t.spaces.Fork(pid, parent)
	if pid != parent {
		delete(t.jits, pid)
	}
}

// executed takes in that a process began another program.
func (t *tally) executed(pid int, time uint64) {
	t.spaces.Exec(pid)
	t.spaces.Began(pid, time)
	delete(t.jits, pid)
}

// all returns the counts of all events.
func (t *tally) all() []*sample.Counts {
	if len(t.events) == 0 {
		return []*sample.Counts{t.counts}
	}
	all := make([]*sample.Counts, len(t.events))
	for i := range t.events {
		all[i] = t.events[i].counts
	}
	return all
}

// turnTo has what is taken in be of the event with that number. One that nobody opened is an error.
func (t *tally) turnTo(id uint64) error {
	if len(t.events) == 0 {
		return nil
	}
	i, ok := t.ids[id]
	if !ok {
		return fmt.Errorf("event id %d of none that was opened: %w", id, errRecord)
	}
	t.counts, t.layout = t.events[i].counts, t.events[i].layout
	return nil
}

// progressed returns how far it is.
func (t *tally) progressed() Progress {
	p := t.progress
	if t.told == nil {
		t.told = map[*sample.Counts]int{}
	}
	for _, c := range t.all() {
		for _, ic := range c.Images[min(t.told[c], len(c.Images)):] {
			p.Images = append(p.Images, ic.ID)
		}
		t.told[c] = len(c.Images)
	}
	return p
}

// recording returns what was tallied.
func (t *tally) recording() *sample.Recording {
	rec := &sample.Recording{}
	for i, c := range t.all() {
		if len(t.events) > 0 && t.events[i].layout.bare {
			addFaults(t.events[0].counts, c, t.allFaults)
			continue
		}
		t.clock.weigh(c)
		t.spaces.TellProcesses(c)
		rec.Counts = append(rec.Counts, c)
	}
	t.stats.Clock = t.clock.spread()
	return sample.Merge(rec)
}

// measureClock measures the clock, if samples of time have come and it is time to: on the processor that sampled returns.
func (t *tally) measureClock(sampled func() int) {
	for _, c := range t.all() {
		if c.Event.Unit == "ns" && c.Weight > c.Clocked && t.clock.due() {
			t.clock.measure(sampled())
			t.clock.returns.measure(c.Event)
			t.clock.weigh(c)
		}
	}
}

// missedShare is the share of its events that a counter may count beyond what samples stand for: each
// pause costs half a period, and so does each thread's end.
const missedShare = 0.05

// weigh makes samples stand for what was counted, where that is clearly more than a period for each. Interrupts
// of a counter may come late by more than a period, or be lost: the kernel then begins a new period, and returns
// the sample no more than the one. On the AArch64 that QEMU emulates, from 7.2 on, an overflow of any counter
// but that of cycles is noticed when control next enters the kernel: half of the samples at 500 Hz.
// Each of so many counters may have counted the most part of a period.
func (e *EventTime) weigh(c *sample.Counts, counters int) {
	delivered, dropped := c.Delivered(), c.Lost[sample.LostDropped]
	period := c.Event.Period
	if delivered == 0 || period == 0 {
		return
	}
	share := float64(delivered) / float64(delivered+dropped)
	counted := float64(e.Counted) * share
	if counted > (1+missedShare)*float64(c.Weight)+float64(counters)*float64(period) && counted < 1<<62 {
		e.Missed = 1 - float64(c.Weight)/counted
		c.Weight = uint64(counted)
	}
}

// record takes in one record.
func (t *tally) record(rec *record) error {
	switch rec.typ {
	case typeSample:
		if err := t.turnTo(rec.id); err != nil {
			return err
		}
		return t.sampled(rec)
	case typeMmap2:
		m, err := decodeMmap(rec.body)
		if err == nil {
			t.mapped(&m)
		}
		return err
	case typeFork:
		task, err := decodeTask(rec.body)
		if err == nil {
			t.forked(task.pid, task.parent)
			t.threads.Begin(task.tid, task.parentTID)
			t.stats.Began++
		}
		return err
	case typeExit:
		task, err := decodeTask(rec.body)
		if err == nil {
			t.spaces.Exit(task.pid)
			t.threads.End(task.pid, task.tid)
		}
		return err
	case typeComm:
		pid, tid, name, err := decodeComm(rec.body)
		if err != nil {
			return err
		}
		t.threads.Name(tid, name)
		if rec.misc&miscCommExec != 0 {
			t.executed(pid, rec.time)
		}
		return nil
	case typeLost, typeLostSamples:
		return t.lost(rec)
	case typeThrottle:
		t.stats.Throttled++
	}
	return nil
}

// lost takes in that records were lost. Rings hold either samples or the rest.
func (t *tally) lost(rec *record) error {
	n, err := decodeLost(rec.body, rec.typ)
	switch {
	case err != nil:
		return err
	case rec.side:
		t.stats.LostRecords += n
	default:
		if err := t.turnTo(rec.id); err != nil {
			return err
		}
		t.lose(sample.LostDropped, n)
		t.progress.Samples += n
	}
	return nil
}

// lose counts samples that belong to no image.
func (t *tally) lose(why sample.Loss, n uint64) {
	t.counts.Lose(why, n)
	t.progress.Lost += n
}

// loseAt counts a sample that belongs to no image, by its time.
func (t *tally) loseAt(why sample.Loss, time uint64) {
	t.lose(why, 1)
	if t.epoch > 0 {
		t.counts.LoseAt(t.counts.SliceAt(t.epoch+time), why, 1)
	}
}

// mapped takes in that a process mapped code.
func (t *tally) mapped(m *mmapRecord) {
	t.spaces.Map(m.pid, m.identified(t.identify))
}

// identified returns what was mapped, with the image of a file as identify knows it. A program can run from a file in memory: what has no
// build ID of these is code that a program made.
func (m *mmapRecord) identified(identify func(*mmapRecord) sample.ImageID) sample.Mapping {
	mapping := m.mapping()
	switch {
	case mapping.Loss == "":
		mapping.Image = identify(m)
	case strings.HasPrefix(m.path, memfdPath):
		if id := identify(m); !id.Build.IsZero() {
			mapping.Loss, mapping.Image = "", id
		}
	}
	return mapping
}

// mapping returns what was mapped, but for the image of a file.
func (m *mmapRecord) mapping() sample.Mapping {
	return sample.Mapping{
		Start: m.start, End: m.start + m.size,
		Off:  sample.Offset(m.fileOff),
		Loss: lossOf(m.path),
	}
}

// deleted is what the kernel adds to the path of a file that is gone.
const deleted = " (deleted)"

// imageID returns the identity of a mapped file. The kernel's mark on a deleted
// file goes if there is a build ID to tell it from its successor; otherwise the
// mark is all that does.
func imageID(path string, build sample.BuildID) sample.ImageID {
	if !build.IsZero() {
		path = strings.TrimSuffix(path, deleted)
	}
	return sample.ImageID{Build: build, Path: path}
}

// memfdPath is what the paths of files begin with that a program made in memory (memfd_create(2)).
const memfdPath = "/memfd:"

// vdsoPath is what the kernel calls its code in processes.
const vdsoPath = "[vdso]"

// lossOf says why samples in a mapping have no image, by what the kernel calls
// the mapping; "" if they have one.
func lossOf(path string) sample.Loss {
	if path == vdsoPath {
		return sample.LostVDSO
	}
	if !strings.HasPrefix(path, "/") {
		return sample.LostAnonymous // "[heap]", "[stack]", "anon_inode:..."
	}
	for _, p := range []string{"//anon", memfdPath, "/dev/zero", "/SYSV", "/anon_hugepage", "/[aio]"} {
		if strings.HasPrefix(path, p) {
			return sample.LostAnonymous
		}
	}
	return ""
}

// sampled takes in a sample of the kernel's.
func (t *tally) sampled(rec *record) error {
	if err := decodeSample(rec.body, t.layout, &t.sample); err != nil {
		return err
	}
	if t.layout.bare {
		t.faulted(&t.sample, rec.misc)
		return nil
	}
	t.sample.cpu = rec.cpu
	t.add(&t.sample, rec.misc, rec.time)
	return nil
}

// faulted takes in a page fault.
func (t *tally) faulted(s *sampleRecord, misc uint16) {
	if misc&miscModeMask != miscUser {
		return
	}
	id, off, loss := t.find(s.pid, s.ip)
	if loss != "" {
		t.counts.Lose(loss, 1)
		return
	}
	t.counts.AddSample(t.counts.Image(id), off, 1)
}

// add takes in a sample, by its mode and its time.
func (t *tally) add(s *sampleRecord, misc uint16, time uint64) {
	t.now = time
	t.counts.Weight += max(s.period, t.counts.Event.Period) // a timer may have been asked for sooner: see perfEvent.asked
	t.progress.Samples++
	t.counts.AddOrigin(t.threads.Origin(s.pid, s.tid, ""), 1)
	t.counts.AddProcessor(s.cpu, 1)
	switch misc & miscModeMask {
	case miscUser:
	case miscGuestKernel, miscGuestUser:
		t.loseAt(sample.LostGuest, time)
		return
	default:
		t.loseAt(sample.LostKernel, time)
		return
	}
	addBranches(t.counts, s.branches, func(pc uint64) sample.Frame { return t.frame(s.pid, pc) })
	id, off, loss := t.find(s.pid, s.ip)
	if loss != "" {
		t.loseAt(loss, time)
		return
	}
	im := t.counts.Image(id)
	t.counts.AddSample(im, off, 1)
	t.frames = append(t.frames[:0], sample.Frame{Image: im, Off: off})
	t.callers(s)
	if top := t.top(s); t.epoch > 0 {
		t.counts.AddStackAt(t.frames, top, t.counts.SliceAt(t.epoch+time), 1)
	} else {
		t.counts.AddStackTop(t.frames, top, 1)
	}
	if us, known := t.spaces.Age(s.pid, time); known {
		t.counts.TouchStack(t.frames, us)
	}
}

// callers adds the return addresses of a sample to t.frames. The kernel follows
// frame pointers; code that keeps none ends the chain or bends it, so trailing
// frames of no image go.
func (t *tally) callers(s *sampleRecord) {
	user, first := false, true
	for _, pc := range s.chain {
		switch {
		case pc >= contextMax:
			user = pc == contextUser
		case user && first:
			first = false // the sampled instruction itself
		case user && len(t.frames) < MaxStack:
			t.frames = append(t.frames, t.frame(s.pid, pc))
		}
	}
	for len(t.frames) > 1 && t.frames[len(t.frames)-1].Image == sample.Unknown {
		t.frames = t.frames[:len(t.frames)-1]
	}
}

// top returns the place of the first word at the stack pointer that names code.
func (t *tally) top(s *sampleRecord) sample.Frame {
	for _, word := range s.top {
		if f := t.frame(s.pid, word); f.Image != sample.Unknown {
			return f
		}
	}
	return sample.Frame{Image: sample.Unknown}
}

// frame returns the place of a pc.
func (t *tally) frame(pid int, pc uint64) sample.Frame {
	id, off, loss := t.find(pid, pc)
	if loss != "" {
		return sample.Frame{Image: sample.Unknown}
	}
	return sample.Frame{Image: t.counts.Image(id), Off: off}
}

// addBranches adds the branch records of a sample, newest first, and the code
// between each two of them: it ran straight from the target of the older one to the
// newer one. frame returns the place of a pc.
func addBranches(c *sample.Counts, records []branchRecord, frame func(pc uint64) sample.Frame) {
	var newer sample.Branch
	for i, b := range records {
		pair := sample.Branch{From: frame(b.from), To: frame(b.to)}
		if pair.From.Image != sample.Unknown || pair.To.Image != sample.Unknown {
			c.AddBranch(pair, 1, b.flags&branchMispredict)
		}
		from, to := pair.To, newer.From
		if i > 0 && from.Image != sample.Unknown && from.Image == to.Image && from.Off <= to.Off {
			c.AddRange(sample.Range{Image: from.Image, First: from.Off, Last: to.Off}, 1)
		}
		newer = pair
	}
}
