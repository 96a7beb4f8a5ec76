package perfdata

import (
	"cmp"
	"slices"
	"unsafe"
)

// maxQueued bounds the memory of the records that wait for their turn. perf's
// rounds stay far below it: two times the ring buffers, 0.5 MB per processor, of
// which less than that is kept here.
const maxQueued = 128 << 20

// A queue puts records into the order of time. Each processor's are in order in
// the file, but perf copies one ring buffer after the other.
//
// When perf record has been round all buffers, it says so. What was written
// before the first of them was visited is then all in the file after one round
// more: at the end of a round, everything up to the latest time of the round
// before can go (process_finished_round in perf's session.c).
type queue struct {
	deliver func(*entry) (kept bool)
	refill  func(save func(*entry)) // saves entries that were kept and are not needed any more; nil if none are
	waiting []queued
	seq     uint64 // keeps records of equal time in the order of the file
	sorted  bool   // waiting is in order
	size    int    // of the waiting entries, in bytes
	latest  uint64 // time of the latest record
	round   uint64 // the value of latest at the end of the round before
	passed  uint64 // time of the latest record delivered
	late    uint64 // records that came after a later one had been delivered
	spare   []*entry
	dumps   int // room for stacks of the spare entries, in bytes
}

type queued struct {
	time, seq uint64
	e         *entry
}

// entry returns an empty entry to fill and add.
func (q *queue) entry() *entry {
	if len(q.spare) == 0 && q.refill != nil {
		q.refill(q.save)
	}
	if n := len(q.spare); n > 0 {
		e := q.spare[n-1]
		q.spare = q.spare[:n-1]
		q.dumps -= cap(e.dump)
		return e
	}
	return new(entry)
}

// add delivers e in its turn, at once if it has no time.
func (q *queue) add(e *entry) {
	if e.time == 0 || e.time == ^uint64(0) {
		q.hand(e)
		return
	}
	if e.time < q.passed {
		q.late++
	}
	n := len(q.waiting)
	q.sorted = n == 0 || q.sorted && q.waiting[n-1].time <= e.time
	q.seq++
	q.waiting = append(q.waiting, queued{e.time, q.seq, e})
	q.latest = max(q.latest, e.time)
	q.size += e.size()
	if q.size > maxQueued {
		q.sort()
		q.flush(q.waiting[len(q.waiting)/2].time)
	}
}

// finishRound delivers what nothing can come before any more.
func (q *queue) finishRound() {
	q.flush(q.round)
	q.round = q.latest
}

// finish delivers all that waits.
func (q *queue) finish() { q.flush(^uint64(0)) }

func (q *queue) sort() {
	if !q.sorted {
		slices.SortFunc(q.waiting, func(a, b queued) int {
			return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.seq, b.seq))
		})
		q.sorted = true
	}
}

// flush delivers the records up to a time.
func (q *queue) flush(until uint64) {
	q.sort()
	n := 0
	for n < len(q.waiting) && q.waiting[n].time <= until {
		e := q.waiting[n].e
		q.passed = e.time
		q.size -= e.size()
		q.hand(e)
		n++
	}
	q.waiting = slices.Delete(q.waiting, 0, n)
}

// hand delivers e, and saves it for another record unless it is kept.
func (q *queue) hand(e *entry) {
	if !q.deliver(e) {
		e.empty()
		q.save(e)
	}
}

// save keeps an empty entry for another record.
func (q *queue) save(e *entry) {
	if q.dumps+cap(e.dump) > maxSpareDumps {
		e.dump = nil
	}
	q.dumps += cap(e.dump)
	q.spare = append(q.spare, e)
}

// maxSpare is how many addresses of a chain or a branch stack an empty entry has room for.
// Those of default depths, and what processors record, fit.
const maxSpare = 256

// maxSpareDump is likewise of the bytes of a stack: those that perf copies by itself fit. maxSpareDumps is of all spare entries: where
// hundreds of thousands waited, most of them for something else, each would come to have such room in time.
const (
	maxSpareDump  = 8 << 10
	maxSpareDumps = 16 << 20
)

// keepDump copies a stack into e. Room that it had is used unless that is more than twice what it takes: who bounds entries by
// their size has not counted it.
func (e *entry) keepDump(b []byte) {
	if n := cap(e.dump); n > 2*len(b) || n < len(b) {
		e.dump = make([]byte, 0, len(b))
	}
	e.dump = append(e.dump[:0], b...)
}

// empty makes e fit to be filled again.
func (e *entry) empty() {
	*e = entry{chain: spare(e.chain), branches: spare(e.branches), reads: spare(e.reads), dump: e.dump[:0]}
	if cap(e.dump) > maxSpareDump {
		e.dump = nil
	}
}

func spare(b []uint64) []uint64 {
	if cap(b) > maxSpare {
		return nil
	}
	return b[:0]
}

// size is the memory that an entry takes, in bytes, up to the room that it had before: which one
// that was depends on who counts. It does not change while the entry waits.
func (e *entry) size() int {
	return int(unsafe.Sizeof(*e)) + int(unsafe.Sizeof(queued{})) + 8*(len(e.chain)+len(e.branches)+len(e.reads)) + len(e.dump) + len(e.mapping.Image.Path)
}
