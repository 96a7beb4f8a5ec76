package perfdata

import (
	"fmt"
	"math"
	"strings"

	"backfeed/sample"
)

// Where events share a counter of a processor, each counts for a part of the time. A recording tells for how long in two ways, if its
// read_format asks for these times: perf record -s has the kernel write a READ record for each thread that ends, and groups read
// with a sample ('{a,b}:S', also with -s) have the times so far in each sample. perf record without -s asks for none.
//
// What counts a thread on one processor is enabled while the thread runs on any, but can run on its own alone: of the counters of
// a thread's event, the times running add up to the one time enabled. Which counters belong together the ID_INDEX record tells,
// which perf 6.1 writes into each recording.
//
// Where one thread is followed by another of the same program on a processor, the kernel has them exchange their counters, and then
// what these have counted (perf_event_sync_stat of kernel/events/core.c). It takes the counters of both in the order in which they were
// opened, which is not the same for the first thread of a program and those it begins, so that times of one event are taken for those
// of another: seen on Linux 6.18, with 4 threads on 2 processors. The times of such a thread contradict each other, and then
// nothing is said of the recording.

// A spell is how long a counter was enabled and ran, in ns.
type spell struct{ enabled, running uint64 }

func (s *spell) add(o spell) {
	s.enabled, s.running = addTime(s.enabled, o.enabled), addTime(s.running, o.running)
}

func addTime(a, b uint64) uint64 {
	if a+b < a {
		return math.MaxUint64
	}
	return a + b
}

// multiplexing is how long the counters of a recording were enabled and ran.
type multiplexing struct {
	last map[groupKey]spell   // as samples had them last, since the thread or the recording began
	sum  map[uint64]*spell    // of threads that ended, by ID
	on   map[uint64]placement // where each ID counts

	ending        map[int][]ending // READ records of threads, until these have ended
	endings       int              // how many that are
	contradictory bool             // some threads counted for longer than they ran, or their counters were not enabled together
}

// An ending is what one counter of a thread had in the end.
type ending struct {
	id uint64
	spell
}

// A placement is what a counter counts: a thread, or everyThread, on a processor or anyCPU.
type placement struct{ tid, cpu int32 }

const everyThread, anyCPU = -1, -1

// read takes the times of a counter as a sample had them. They grow until its thread ends: where they are less than
// before, that was another thread.
func (m *multiplexing) read(key groupKey, s spell) {
	before, known := m.last[key]
	switch {
	case known && s.enabled < before.enabled:
		m.end(key.id, before)
	case !known && len(m.last) == maxCounters:
		return
	}
	if m.last == nil {
		m.last = map[groupKey]spell{}
	}
	m.last[key] = s
}

// ended takes a READ record: the last times of a thread's counter.
func (m *multiplexing) ended(key groupKey, s spell) {
	delete(m.last, key)
	if m.endings == maxCounters {
		return
	}
	if m.ending == nil {
		m.ending = map[int][]ending{}
	}
	m.ending[key.tid] = append(m.ending[key.tid], ending{key.id, s})
	m.endings++
}

// gone adds up what the counters of a thread had, which are all known now. byID are the events.
func (m *multiplexing) gone(tid int, byID map[uint64]*event) {
	of, known := m.ending[tid]
	if !known {
		return
	}
	delete(m.ending, tid)
	m.endings -= len(of)
	ran := map[*event]uint64{}
	shortest, longest := of[0].enabled, of[0].enabled
	for _, one := range of {
		shortest, longest = min(shortest, one.enabled), max(longest, one.enabled)
		if ev := byID[one.id]; ev != nil {
			ran[ev] = addTime(ran[ev], one.running)
		}
		m.end(one.id, one.spell)
	}
	m.contradictory = m.contradictory || differ(longest, shortest)
	for _, running := range ran {
		m.contradictory = m.contradictory || differ(running, shortest)
	}
}

// differ reports whether a is more than b by more than switching counters on and off explains.
func differ(a, b uint64) bool {
	const switching = 20_000 // ns
	return a > addTime(b, b/100+switching)
}

func (m *multiplexing) end(id uint64, s spell) {
	sum := m.sum[id]
	if sum == nil {
		if len(m.sum) == maxCounters {
			return
		}
		if m.sum == nil {
			m.sum = map[uint64]*spell{}
		}
		sum = &spell{}
		m.sum[id] = sum
	}
	sum.add(s)
}

// index reads an ID_INDEX record: u64 number of entries; u64 id, index, cpu, tid of each. Later perf appends more, which is
// of virtual machines.
func (m *multiplexing) index(c *cursor) error {
	n := c.u64("entries")
	b := cursor{b: c.array(n, 32, "entries"), big: c.big}
	for b.off < len(b.b) && len(m.on) < maxCounters {
		id := b.u64("id")
		b.u64("idx")
		cpu, tid := b.u64("cpu"), b.u64("tid")
		if m.on == nil {
			m.on = map[uint64]placement{}
		}
		m.on[id] = placement{int32(tid), int32(cpu)}
	}
	return c.err
}

// times returns how long the event of these IDs was enabled and ran; zero is unknown.
func (m *multiplexing) times(ids []uint64) (all spell) {
	threads := map[int32]spell{}
	var order []int32
	for _, id := range ids {
		s := m.sum[id]
		if s == nil {
			continue
		}
		on, known := m.on[id]
		switch {
		case !known && len(ids) > 1:
			return spell{} // whether they add up or are one nobody knows
		case !known || on.tid == everyThread || on.cpu == anyCPU:
			all.add(*s)
			continue
		}
		t, again := threads[on.tid]
		if !again {
			order = append(order, on.tid)
			t.enabled = s.enabled
		}
		t.enabled = min(t.enabled, s.enabled) // they are equal, but for what switching them takes
		t.running = addTime(t.running, s.running)
		threads[on.tid] = t
	}
	for _, tid := range order {
		t := threads[tid]
		t.running = min(t.running, t.enabled)
		all.add(t)
	}
	all.running = min(all.running, all.enabled)
	return all
}

// finish counts what threads and samples had last.
func (m *multiplexing) finish(byID map[uint64]*event) {
	for tid := range m.ending {
		m.gone(tid, byID)
	}
	for key, s := range m.last {
		m.end(key.id, s)
	}
	m.last = nil
}

// of hands the times that a record has of its counters to take.
func (m *multiplexing) of(e *entry, take func(groupKey, spell)) {
	if !e.timed {
		return
	}
	key := groupKey{}
	if e.typ == recordRead || e.ev.flags&flagInherit != 0 {
		key.tid = e.tid
	}
	for i := 0; i+1 < len(e.reads); i += 2 {
		key.id = e.reads[i]
		take(key, e.spell)
	}
}

// counted returns how long an event was enabled and counted. Those of the kernel's own software need no counter of the processor.
func (m *multiplexing) counted(ev *event) (enabled, running uint64) {
	if ev.typ == typeSoftware || ev.typ == typeTracepoint || m.contradictory {
		return 0, 0
	}
	t := m.times(ev.ids)
	return t.enabled, t.running
}

// stats are the sums that perf stat record leaves in place of samples, by counter, processor and thread: the last of each, as each has
// all before.
type stats struct {
	last map[statKey]stat
}

type statKey struct {
	id          uint64
	cpu, thread uint32
}

type stat struct {
	value uint64
	spell
}

// add reads a STAT record: u64 id; u32 cpu, thread; u64 value, enabled, running.
func (s *stats) add(c *cursor) error {
	key := statKey{c.u64("id"), c.u32("cpu"), c.u32("thread")}
	one := stat{c.u64("value"), spell{c.u64("time enabled"), c.u64("time running")}}
	if c.err != nil {
		return c.err
	}
	if s.last == nil {
		s.last = map[statKey]stat{}
	}
	if _, known := s.last[key]; known || len(s.last) < maxCounters {
		s.last[key] = one
	}
	return nil
}

// say says what was counted, and for how long, as nothing else of such a file can be used; "" where there is nothing.
func (s *stats) say(events []*event) string {
	if len(s.last) == 0 {
		return ""
	}
	byID := map[uint64]stat{}
	for key, one := range s.last {
		sum := byID[key.id]
		sum.value = addTime(sum.value, one.value)
		sum.add(one.spell)
		byID[key.id] = sum
	}
	var all []string
	for _, ev := range events {
		var sum stat
		for _, id := range ev.ids {
			sum.value = addTime(sum.value, byID[id].value)
			sum.add(byID[id].spell)
		}
		of := ev.event(ev.label)
		what := fmt.Sprintf("%s %d", of.Name, sum.value)
		if of.Unit == "ns" {
			what += " ns"
		}
		switch {
		case sum.enabled > 0 && sum.running == 0:
			what = of.Name + " never counted"
		case float64(sum.running) < sample.AlwaysCounted*float64(sum.enabled):
			what += fmt.Sprintf(" (counted for %.1f %% of the time)", 100*float64(sum.running)/float64(sum.enabled))
		}
		all = append(all, what)
	}
	return "made by perf stat, which counts and takes no samples; perf record takes some. It counted " + strings.Join(all, ", ")
}
