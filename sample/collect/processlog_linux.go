//go:build amd64 || arm64

package collect

import (
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"backfeed/sample"
)

// systemSidePages is the size of the ring of a processor. 1000 execs a second
// fill 660 KB/s in all; the ring holds 256 KB and is read every tendEvery.
const systemSidePages = 64

// A processLog gathers what becomes of all processes from the time that it is
// opened. Files are read for their build IDs when the record is, while the process
// lives, if it lives that long.
type processLog struct {
	identify func(*mmapRecord) sample.Mapping
	made     func(pid int) // is told who made code at run time; nil is nobody
	origins  bool          // names of processes and control groups are told

	mu      sync.Mutex
	rings   []*ring // by processor
	changes []change
	cgroups map[int]string // of processes that made others
	lost    uint64         // records
	err     error
}

// add follows one more processor.
func (b *processLog) add(cpu int) error {
	fd, err := open(systemSideband(), -1, cpu)
	if err != nil {
		return err
	}
	r, err := newRing(fd, systemSidePages, true, -1)
	if err != nil {
		unix.Close(fd)
		return mapError(err)
	}
	if err := ioctlAll([]int{fd}, unix.PERF_EVENT_IOC_ENABLE); err != nil {
		r.close()
		unix.Close(fd)
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.rings = append(b.rings, r)
	return nil
}

// drop lets go the processor of index i. What it told is kept.
func (b *processLog) drop(i int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = b.readRing(b.rings[i])
	}
	b.rings[i].close()
	unix.Close(b.rings[i].fd)
	b.rings = slices.Delete(b.rings, i, i+1)
}

// systemSideband returns the attributes of an event that reports on a whole processor.
func systemSideband() *unix.PerfEventAttr {
	a := sideband()
	a.Bits &^= unix.PerfBitInherit
	return a
}

// gather reads the rings before they are full. An error is kept for drain.
func (b *processLog) gather() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.err == nil {
		b.err = b.read()
	}
}

func (b *processLog) close() {
	for _, r := range b.rings {
		r.close()
		unix.Close(r.fd)
	}
}

// read takes what is in the rings.
func (b *processLog) read() error {
	for _, r := range b.rings {
		if err := b.readRing(r); err != nil {
			return err
		}
	}
	return nil
}

func (b *processLog) readRing(r *ring) error {
	recs, err := r.read()
	if err != nil {
		return err
	}
	for i := range recs {
		if err := b.take(&recs[i]); err != nil {
			return err
		}
	}
	return nil
}

func (b *processLog) take(rec *record) (err error) {
	c := change{time: rec.time, typ: rec.typ}
	switch rec.typ {
	case typeMmap2:
		m, err := decodeMmap(rec.body)
		if err != nil {
			return err
		}
		c.pid, c.m = m.pid, b.identify(&m)
		if c.m.Loss == sample.LostAnonymous && b.made != nil {
			b.made(m.pid)
		}
	case typeFork:
		var t task
		t, err = decodeTask(rec.body)
		if c.pid, c.parent = t.pid, t.parent; c.pid == c.parent {
			return err // a thread
		}
		c.cgroup = b.cgroupOf(c.parent)
	case typeExit:
		var t task
		t, err = decodeTask(rec.body)
		if c.pid = t.pid; err == nil && t.tid != t.pid {
			return nil // not the first thread
		}
		delete(b.cgroups, c.pid)
	case typeComm:
		var tid int
		c.exec = rec.misc&miscCommExec != 0
		if c.pid, tid, c.name, err = decodeComm(rec.body); err == nil && !c.exec && (tid != c.pid || !b.origins) {
			return nil // another name of a thread
		}
	case typeLost:
		var n uint64
		n, err = decodeLost(rec.body, rec.typ)
		b.lost += n
		return err
	default:
		return nil
	}
	b.changes = append(b.changes, c)
	return err
}

// mostParents is of how many processes that made others control groups are remembered.
const mostParents = 1 << 14

// cgroupOf returns the control group of a process that has made another one, which may end before it is sampled: read once
// for all that it makes.
func (b *processLog) cgroupOf(pid int) string {
	if !b.origins {
		return ""
	}
	path, ok := b.cgroups[pid]
	if !ok {
		if b.cgroups == nil || len(b.cgroups) >= mostParents {
			b.cgroups = map[int]string{}
		}
		path = cgroupOfProcess(pid)
		b.cgroups[pid] = path
	}
	return path
}

// drain calls f with the changes up to now, in order, and returns how many records
// were lost since the start.
func (b *processLog) drain(f func(*change)) (lost uint64, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	// What is older than this is in the rings, all of it. Of what is younger, one
	// ring may have some and another not yet.
	limit := monotonic()
	if b.err == nil {
		b.err = b.read()
	}
	slices.SortStableFunc(b.changes, compareChanges)
	n := 0
	for n < len(b.changes) && b.changes[n].time <= limit {
		f(&b.changes[n])
		n++
	}
	b.changes = slices.Delete(b.changes, 0, n)
	return b.lost, b.err
}
