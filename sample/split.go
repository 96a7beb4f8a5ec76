package sample

import (
	"cmp"
	"fmt"
)

// An Origin says what ran while a sample was taken: names, not numbers, so that the
// threads of a pool and the runs of a command add up. What is "" is unknown.
type Origin struct {
	Process string // name of the first thread of the process, as Linux keeps it: 15 bytes at most
	Thread  string // name of the thread
	Cgroup  string // path of the control group
}

// Compare orders origins as stored forms have them.
func (o Origin) Compare(p Origin) int {
	return cmp.Or(cmp.Compare(o.Process, p.Process), cmp.Compare(o.Thread, p.Thread), cmp.Compare(o.Cgroup, p.Cgroup))
}

// AddOrigin says that n samples, which are counted elsewhere, were taken while o ran. Of the zero Origin nothing is known.
func (c *Counts) AddOrigin(o Origin, n uint64) {
	if n == 0 || o == (Origin{}) {
		return
	}
	if c.Origins == nil {
		c.Origins = map[Origin]uint64{}
	}
	c.Origins[o] = addSamples(c.Origins[o], n)
}

// AddProcessor says that n samples, which are counted elsewhere, were taken on a processor, by the number that the system
// has for it. Of a negative number nothing is known.
func (c *Counts) AddProcessor(cpu int, n uint64) {
	if n == 0 || cpu < 0 || cpu > MostProcessor {
		return
	}
	if c.Processors == nil {
		c.Processors = map[int]uint64{}
	}
	c.Processors[cpu] = addSamples(c.Processors[cpu], n)
}

// MostProcessor bounds the numbers of processors. Linux can be built for 8192.
const MostProcessor = 1<<16 - 1

// mergeSplit adds by what o's samples are split.
func (c *Counts) mergeSplit(o *Counts) {
	for from, n := range o.Origins {
		c.AddOrigin(from, n)
	}
	for cpu, n := range o.Processors {
		c.AddProcessor(cpu, n)
	}
}

// split reports whether anything is known of who ran where, and when.
func (c *Counts) split() bool {
	return len(c.Origins) > 0 || len(c.Processors) > 0 || len(c.Slices) > 0
}

func (c *Counts) checkSplit() error {
	var n uint64
	for o, k := range c.Origins {
		if k == 0 || o == (Origin{}) {
			return fmt.Errorf("%d samples of origin %+v", k, o)
		}
		n = addSamples(n, k)
	}
	if n > c.Total {
		return fmt.Errorf("%d samples in all, but %d have an origin", c.Total, n)
	}
	n = 0
	for cpu, k := range c.Processors {
		if k == 0 || cpu < 0 || cpu > MostProcessor {
			return fmt.Errorf("%d samples on processor %d", k, cpu)
		}
		n = addSamples(n, k)
	}
	if n > c.Total {
		return fmt.Errorf("%d samples in all, but %d have a processor", c.Total, n)
	}
	return nil
}

// Threads know the names of threads while a recording is made. The zero value knows none.
type Threads struct {
	names map[int]string // by number of the thread
	seen  OriginBound
}

// An OriginBound holds how many origins one recording tells apart. The zero value has seen none.
type OriginBound struct{ seen map[Origin]bool }

// Of returns an origin; the zero one if there are too many.
func (b *OriginBound) Of(o Origin) Origin {
	if o == (Origin{}) || b.seen[o] {
		return o
	}
	if len(b.seen) >= maxOrigins {
		return Origin{}
	}
	if b.seen == nil {
		b.seen = map[Origin]bool{}
	}
	b.seen[o] = true
	return o
}

const (
	// maxThreads is how many names are remembered: above any number of threads that run at once on all but the largest
	// machines. Beyond it all are forgotten, and their samples have no origin until they are named anew.
	maxThreads = 1 << 16
	// maxOrigins is how many origins one recording tells apart, so that programs that number their threads do not make
	// it large: at 40 bytes each, 40 KB. Samples of further ones have none.
	maxOrigins = 1 << 10
)

// Name says that a thread has a name from now on.
func (t *Threads) Name(tid int, name string) {
	if t.names == nil || len(t.names) >= maxThreads {
		t.names = map[int]string{}
	}
	t.names[tid] = name
}

// Begin says that a thread began another one, of its process or as a new one: it has the name of the first until it is named.
func (t *Threads) Begin(tid, parent int) {
	if name, ok := t.names[parent]; ok && tid != parent {
		t.Name(tid, name)
	}
}

// End says that a thread has ended. The first one of a process leaves its name to the process.
func (t *Threads) End(pid, tid int) {
	if tid != pid {
		delete(t.names, tid)
	}
}

// Origin returns that of a sample; the zero one if nothing is known, or there are too many.
func (t *Threads) Origin(pid, tid int, cgroup string) Origin {
	return t.seen.Of(Origin{Process: t.names[pid], Thread: t.names[tid], Cgroup: cgroup})
}
