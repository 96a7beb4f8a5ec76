package perfdata

import (
	"fmt"
	"io"
	"slices"

	"backfeed/sample"
	"backfeed/sample/bound"
)

// An event is one of those that were recorded.
type event struct {
	attr
	label string // its name in the recording; "" if there is none
	ids   []uint64
	tally
	index int              // in reader.events; noIndex of an event of signals
	fpe   map[int32]*event // signals of arithmetic, by si_code, if this is the event of signals

	group groupTally // of an event that is read with the samples of another

	// samples that the kernel dropped, as told in two ways that overlap
	lost, lostSamples uint64
}

// A reader turns records into a recording.
type reader struct {
	opt   Options
	big   bool
	depth int // frames of a stack

	events   []*event
	byID     map[uint64]*event
	cpu      sample.CPU
	buildIDs map[string]sample.BuildID // of paths
	late     bool                      // some buildIDs came after mappings that lack them

	queue  queue
	timed  bool // records have times; false until the first tells
	began  bool // there was a record of the kernel's
	asked  bool // an event asked for build IDs in MMAP2 records
	spaces sample.Spaces
	ended  ended
	origin origin
	here   counter // of what is counted at once
	crew   *crew   // counts samples beside the reader; nil if that is alone

	counters map[groupKey]uint64 // of groups, as they were last read
	times    multiplexing
	stats    stats

	notes notes
}

// notes count what a user should know of before trusting the result.
type notes struct {
	throttled, unknownID, lostMaps, mapsTimeout, lostByBPF, leftOver uint64
}

func newReader(opt Options, big bool) *reader {
	r := &reader{opt: opt, big: big, byID: map[uint64]*event{}, buildIDs: map[string]sample.BuildID{}}
	switch {
	case opt.StackDepth == 0:
		r.depth = defaultStackDepth
	case opt.StackDepth > 0:
		r.depth = opt.StackDepth
	}
	r.queue.deliver = r.deliver
	r.here.copied = copied{read: opt.Unwind, depth: r.depth}
	return r
}

// addEvent adds an event with the IDs that its records carry.
func (r *reader) addEvent(a attr, ids []uint64) {
	ev := &event{attr: a, ids: ids, tally: newTally(), index: len(r.events)}
	r.events = append(r.events, ev)
	r.asked = r.asked || a.flags&flagBuildID != 0
	for _, id := range ids {
		r.byID[id] = ev
	}
}

// run reads records up to the end of s.
func (r *reader) run(s *stream) error {
	read := func(s *stream) error { return s.all(r.record) }
	if n := r.opt.workers(); n > 1 {
		r.crew = newCrew(n, r.here.copied)
		defer r.crew.end()
		r.queue.refill = r.crew.back
		read = r.readAhead
	}
	if err := read(s); err != io.EOF {
		return err
	}
	r.queue.finish()
	return nil
}

// record takes one record, which came out of another one or not.
func (r *reader) record(rec record, inside *around) error {
	var err error
	if rec.typ < recordUser {
		err = r.kernelRecord(rec)
	} else {
		err = r.perfRecord(rec)
	}
	if err == nil {
		return nil
	}
	what := offsetName
	if inside != nil {
		what = insideName
	}
	return fmt.Errorf("%s %#x: %s: %w", what, rec.off, rec.typ, err)
}

// perfRecord takes a record that perf itself wrote. They have no time, and count
// from where they are.
func (r *reader) perfRecord(rec record) error {
	c := &cursor{b: rec.body, big: r.big}
	switch rec.typ {
	case recordAttr:
		return r.attrRecord(c)
	case recordEventUpdate:
		const name = 2 // PERF_EVENT_UPDATE__NAME
		if typ, id := c.u64("type"), c.u64("id"); typ == name {
			if ev := r.byID[id]; ev != nil {
				ev.label = c.string("name")
			}
		}
	case recordBuildID:
		return r.buildID(c, rec.misc)
	case recordFeature:
		id := c.u64("feature")
		if c.err == nil {
			return r.feature(id, c.b[c.off:])
		}
	case recordRound:
		r.queue.finishRound()
	case recordIDIndex:
		return r.times.index(c)
	case recordStat:
		return r.stats.add(c)
	case recordCompressed, recordCompressed2:
		return fmt.Errorf("inside another one: %w", ErrFormat)
	}
	return c.err
}

// attrRecord takes the description of an event in pipe mode: its perf_event_attr,
// then its IDs.
func (r *reader) attrRecord(c *cursor) error {
	if len(c.b) < minAttrSize {
		return fmt.Errorf("attr: %d bytes, less than %d: %w", len(c.b), minAttrSize, ErrFormat)
	}
	size := attrSize(c.b, r.big)
	if size < minAttrSize || size > maxAttrSize {
		return fmt.Errorf("attr: size: %d: %w", size, ErrFormat)
	}
	b := c.bytes(size, "attr")
	if c.err != nil {
		return c.err
	}
	a := decodeAttr(b, r.big)
	var ids []uint64
	for c.off+8 <= len(c.b) {
		ids = append(ids, c.u64("id"))
	}
	r.addEvent(a, ids)
	return nil
}

// recordMemory is what a record may leave behind, in bytes, as a place, a stack or a
// mapping that was not known before. Most leave nothing.
const recordMemory = 1 << 10

// kernelRecord takes a record that the kernel wrote, or perf in the kernel's
// place: it waits for its turn.
func (r *reader) kernelRecord(rec record) error {
	if len(r.events) == 0 {
		return fmt.Errorf("no event was described before it: %w", ErrFormat)
	}
	if !r.began {
		r.began = true
		r.timed = true
		for _, ev := range r.events {
			r.timed = r.timed && ev.sampleIDAll() && ev.sampleType&hasTime != 0
		}
	}
	switch rec.typ {
	case recordMmap, recordMmap2, recordComm, recordFork, recordExit, recordRead, recordSample, recordLost, recordLostSamples, recordCgroup:
	case recordThrottle:
		r.notes.throttled++
		return nil
	default:
		return nil
	}
	ev, err := r.eventOf(rec)
	if err != nil {
		return err
	}
	if ev == nil {
		r.notes.unknownID++
		return nil
	}
	if err := bound.Memory(recordMemory); err != nil {
		return err
	}
	e := r.queue.entry()
	e.typ, e.misc, e.ev = rec.typ, rec.misc, ev
	if err := r.decode(rec, e); err != nil {
		return err
	}
	if !r.timed {
		e.time = 0
	}
	r.queue.add(e)
	return nil
}

// decode fills e from a record.
func (r *reader) decode(rec record, e *entry) error {
	if rec.typ == recordSample {
		c := &cursor{b: rec.body, big: r.big}
		rest, err := decodeSample(c, &e.ev.attr, r.depth, r.opt.Unwind != nil, e)
		if rest > 0 {
			r.notes.leftOver++
		}
		return err
	}
	size, time := e.ev.trailer()
	if size > len(rec.body) {
		return fmt.Errorf("sample_id: %d bytes, %d are left: %w", size, len(rec.body), ErrFormat)
	}
	c := &cursor{b: rec.body, big: r.big}
	if time >= 0 {
		c.off = len(rec.body) - size + time
		e.time = c.u64("time")
	}
	*c = cursor{b: rec.body[:len(rec.body)-size], big: r.big}
	switch rec.typ {
	case recordMmap, recordMmap2:
		return decodeMmap(c, r.asked, e)
	case recordFork, recordExit:
		return decodeTask(c, e)
	case recordComm:
		return decodeComm(c, e)
	case recordRead:
		return decodeReadRecord(c, e)
	case recordCgroup:
		return r.origin.cgroup(c)
	case recordLost:
		c.u64("id")
		e.n = c.u64("lost")
	case recordLostSamples:
		e.n = c.u64("lost")
	}
	return c.err
}

// eventOf returns the event that a record belongs to, or nil if nobody knows it.
func (r *reader) eventOf(rec record) (*event, error) {
	first := r.events[0]
	at := -1
	if rec.typ == recordSample {
		at = first.idFromStart()
	} else if n := first.idFromEnd(); n >= 0 {
		at = len(rec.body) - n
		if at < 0 {
			return nil, fmt.Errorf("sample_id: %d bytes, %d are left: %w", n, len(rec.body), ErrFormat)
		}
	}
	if len(r.events) == 1 || at < 0 {
		return first, nil
	}
	c := cursor{b: rec.body, off: min(at, len(rec.body)), big: r.big}
	id := c.u64("id")
	if c.err != nil {
		return nil, c.err
	}
	if ev := r.byID[id]; ev != nil {
		return ev, nil
	}
	if id == 0 || rec.typ != recordSample { // perf made it, of no event in particular
		return first, nil
	}
	return nil, nil
}

// deliver takes a record whose turn has come, and reports whether it keeps e.
func (r *reader) deliver(e *entry) (kept bool) {
	switch e.typ {
	case recordSample:
		return r.sample(e)
	case recordMmap, recordMmap2:
		r.mapped(e)
	case recordComm:
		r.origin.threads.Name(e.tid, e.name)
		if e.misc&miscExec != 0 {
			r.ended.alive(e.pid)
			r.spaces.Exec(e.pid)
			r.spaces.Began(e.pid, e.time)
		}
	case recordFork:
		r.origin.threads.Begin(e.tid, e.begun)
		// A process that perf found running has its own MMAP records.
		if e.pid != e.parent && e.misc&miscSyntheticFork == 0 {
			r.ended.alive(e.pid)
			r.ended.alive(e.parent)
			r.spaces.Fork(e.pid, e.parent)
		}
	case recordExit:
		r.origin.threads.End(e.pid, e.tid)
		r.times.gone(e.tid, r.byID)
		r.ended.add(e.pid, &r.spaces)
	case recordRead:
		r.times.of(e, r.times.ended)
	case recordLost:
		e.ev.lost += e.n
	case recordLostSamples:
		if e.misc&miscLostByBPF != 0 {
			r.notes.lostByBPF += e.n
		} else {
			e.ev.lostSamples += e.n
		}
	}
	return false
}

// mapped takes a change of an address space.
func (r *reader) mapped(e *entry) {
	if e.misc&miscMapsTimeout != 0 {
		r.notes.mapsTimeout++
	}
	switch e.mode() {
	case modeKernel, modeHypervisor, modeGuestKernel, modeGuestUser:
		return
	}
	if e.pid == noPID { // the kernel's
		return
	}
	m := e.mapping
	if m.Loss == "" && m.Image.Build.IsZero() {
		m.Image.Build = r.buildIDs[m.Image.Path]
	}
	r.ended.alive(e.pid)
	r.spaces.Map(e.pid, m)
}

// sample takes what depends on the order of samples, has the rest counted, and reports
// whether e is kept for that.
func (r *reader) sample(e *entry) (kept bool) {
	if r.signalled(e) {
		return false
	}
	c := e.ev.counts
	c.Weight += e.weight
	if c.Weight < e.weight {
		c.Weight = ^uint64(0)
	}
	r.ended.alive(e.pid)
	ns, timed := r.origin.time(e)
	l := located{e, r.origin.of(e), r.spaces.View(e.pid), ns, timed}
	r.readGroup(&l)
	r.times.of(e, r.times.read)
	if r.crew == nil || e.ev.index == noIndex {
		r.here.count(&e.ev.tally, &l)
		return false
	}
	r.crew.count(l)
	return true
}

// ended are processes of which a thread has ended. Whether it was the last cannot
// be known: perf record -p does not tell of threads that were there before. The
// address spaces of those that nothing is heard of any more go in the end, lest
// they fill the memory.
type ended struct {
	waiting map[int]bool
	order   []int
	last    int // process that was alive last
}

const maxEnded = 1024

func (d *ended) add(pid int, spaces *sample.Spaces) {
	if d.waiting[pid] {
		return
	}
	if d.waiting == nil {
		d.waiting = map[int]bool{}
	}
	d.waiting[pid] = true
	d.last = noPID
	d.order = append(d.order, pid)
	if len(d.order) > maxEnded {
		oldest := d.order[0]
		d.order = d.order[1:]
		if d.waiting[oldest] {
			delete(d.waiting, oldest)
			spaces.Exec(oldest) // leaves one thread, whatever there were
			spaces.Exit(oldest)
		}
	}
}

func (d *ended) alive(pid int) {
	if pid != d.last {
		delete(d.waiting, pid)
		d.last = pid
	}
}

// recording returns the sum of all that was read.
func (r *reader) recording() *sample.Recording {
	for _, ev := range r.events {
		ev.group.begin(ev.counts)
	}
	r.countLost()
	r.times.finish(r.byID)
	if r.opt.Warn != nil {
		r.warn()
	}
	var all []*sample.Counts
	for _, ev := range r.events {
		for _, part := range r.crew.parts(ev) {
			for _, ic := range part.Images {
				ev.counts.Image(ic.ID)
			}
		}
		all = append(all, ev.counts)
	}
	r.spaces.TellProcesses(all...) // before images get the build IDs that came after their mappings
	var events [][]*sample.Counts
	add := func(of sample.Event, parts ...*sample.Counts) {
		for _, c := range parts {
			if r.late {
				r.identify(c)
			}
			c.CPU, c.Event = r.cpu, of
		}
		events = append(events, parts)
	}
	for _, ev := range r.events {
		if ev.carrier() {
			continue
		}
		signals := ev.takeSignals()
		for _, code := range sortedCodes(signals) {
			add(fpeEvent(code), signals[code].counts)
		}
		of := ev.event(ev.label)
		if ev.group.period > 0 {
			of.Period, of.Unit = ev.group.period, "events" // its samples tell where events passed, and no time of their own
		}
		parts := append([]*sample.Counts{ev.counts}, r.crew.parts(ev)...)
		if slices.ContainsFunc(parts, func(c *sample.Counts) bool { return c.Total > 0 }) {
			ev.counts.Enabled, ev.counts.Running = r.times.counted(ev)
		}
		add(of, parts...)
	}
	out := &sample.Recording{Counts: sample.Gather(events...)}
	if run, ok := r.origin.run(); ok {
		out.AddRun(run)
	}
	return out
}

// carrier reports whether an event is there only to carry MMAP and other records.
func (ev *event) carrier() bool { return ev.typ == typeSoftware && ev.config == swDummy }

// countLost adds what the kernel dropped. LOST records tell of each gap in a
// buffer, in the name of whichever event was next. Where the kernel counts lost
// samples per event as well (PERF_FORMAT_LOST, Linux 6.0), perf ends with one
// LOST_SAMPLES record for each: the same losses again.
func (r *reader) countLost() {
	var lost, lostSamples, carried uint64
	twice := true
	for _, ev := range r.events {
		lost += ev.lost
		lostSamples += ev.lostSamples
		twice = twice && ev.readFormat&readLost != 0
		if ev.carrier() {
			carried += ev.lost
			r.notes.lostMaps += ev.lostSamples
		}
	}
	for _, ev := range r.events {
		if ev.carrier() {
			continue
		}
		ev.lost += carried // to the first event that has samples to lose
		carried = 0
		switch {
		case !twice:
			ev.counts.Lose(sample.LostDropped, ev.lost+ev.lostSamples)
		case lostSamples >= lost:
			ev.counts.Lose(sample.LostDropped, ev.lostSamples)
		default:
			ev.counts.Lose(sample.LostDropped, ev.lost)
		}
	}
}

// identify adds the build IDs of images that were learnt too late.
func (r *reader) identify(c *sample.Counts) {
	for _, ic := range c.Images {
		if ic.ID.Build.IsZero() {
			ic.ID.Build = r.buildIDs[ic.ID.Path]
		}
	}
}

// warn tells of what was noted.
func (r *reader) warn() {
	for _, w := range []struct {
		n    uint64
		what string
	}{
		{r.notes.throttled, "times the kernel throttled an event: samples are missing there"},
		{r.notes.unknownID, "samples belong to no event of the recording: not counted"},
		{r.notes.lostMaps, "records of mappings were lost: samples may be unmapped"},
		{r.notes.mapsTimeout, "processes were too slow to list for perf: their samples may be unmapped"},
		{r.notes.lostByBPF, "samples were filtered out by a BPF program: not counted"},
		{r.notes.leftOver, "samples are longer than their description"},
		{r.queue.late, "records were out of order: samples near them may be attributed to the wrong image"},
	} {
		if w.n > 0 {
			r.opt.Warn(fmt.Sprintf("%d %s", w.n, w.what))
		}
	}
	if said := r.stats.say(r.events); said != "" {
		r.opt.Warn(said)
	}
}
