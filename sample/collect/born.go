package collect

import (
	"cmp"
	"slices"

	"backfeed/sample"
)

// Processes are all processes of the machine, each in one version for every
// program that it ran. The counts of the kernel's side come long after the
// fact: they name the version by when it was born.
//
// A process is born by a fork, and again by every exec. The sampler reports the
// time of the last exec, taken at its end, odd; or the time of the fork, taken at
// its start, even. The kernel's records of the two carry a time in between: that
// of an exec comes before the first, that of a fork after the second.
type processes struct {
	spaces sample.Spaces
	some   bool               // only some processes are asked for
	asked  []int              // those, and what they start
	of     map[int][]*version // by process, by time
	made   int                // versions so far: their identities
	round  int                // drains so far
	old    []retired          // versions that have ended, by round
}

// A version is what a process is from a fork or an exec to the next exec.
type version struct {
	id   int    // in processes.spaces
	time uint64 // of the record that tells of it
	exec bool
	ours bool // it is asked for

	name   string // of its first thread; "" if unknown, or not asked for
	cgroup string // path of its control group, once placed
	placed bool   // cgroup was looked up

	jit    *sample.ImageID // image of the code that the process made itself; nil if unknown
	looked int             // round in which it was last looked for
}

// A retired version is kept until that round is over, for samples on their way.
type retired struct {
	round, pid int
	v          *version
}

// keepRounds is how many drains see a version after it has ended: the one that
// learns of it; the next, for a sample taken while that one ran; and one more,
// as what has no mapping waits for one.
const keepRounds = 3

// born is the version that the sampler saw; nil if there is none.
func (p *processes) born(pid int, born uint64) *version {
	vs := p.of[pid]
	if born&1 == 1 {
		for _, v := range slices.Backward(vs) {
			if v.exec && v.time <= born {
				return v
			}
		}
		// It ran before this System did: the first version is that of the start.
		if len(vs) > 0 && vs[0].time >= born {
			return vs[0]
		}
		return nil
	}
	for _, v := range vs {
		if !v.exec && v.time >= born {
			return v
		}
	}
	// Its exec fell out of the sampler's memory.
	if len(vs) > 0 {
		return vs[len(vs)-1]
	}
	return nil
}

// at is the version of a process at a time, new if the process is.
func (p *processes) at(pid int, time uint64) *version {
	vs := p.of[pid]
	for _, v := range slices.Backward(vs) {
		if v.time <= time {
			return v
		}
	}
	if len(vs) > 0 {
		return vs[0]
	}
	return p.add(pid, time, false)
}

func (p *processes) add(pid int, time uint64, exec bool) *version {
	p.made++
	v := &version{id: p.made, time: time, exec: exec, ours: p.ours(pid)}
	if p.of == nil {
		p.of = map[int][]*version{}
	}
	vs := p.of[pid]
	i, _ := slices.BinarySearchFunc(vs, time, func(v *version, t uint64) int {
		if v.time <= t {
			return -1
		}
		return 1
	})
	if i > 0 && i == len(vs) {
		p.retire(pid, vs[i-1])
	}
	p.of[pid] = slices.Insert(vs, i, v)
	return v
}

// ours reports whether a process is asked for: what it was before says so, too.
func (p *processes) ours(pid int) bool {
	if vs := p.of[pid]; len(vs) > 0 {
		return vs[len(vs)-1].ours
	}
	return !p.some || slices.Contains(p.asked, pid)
}

// fork says that a process of a control group has made another. "" is that of the last one that it made.
func (p *processes) fork(pid, parent int, time uint64, cgroup string) {
	from, v := p.at(parent, time), p.add(pid, time, false)
	if cgroup != "" && !from.placed {
		from.cgroup = cgroup
	}
	v.ours, v.name, v.cgroup = from.ours, from.name, from.cgroup
	p.spaces.Fork(v.id, from.id)
}

// exec says that a process has begun another program, and what it is called now.
func (p *processes) exec(pid int, time uint64, name string) {
	cgroup := ""
	if vs := p.of[pid]; len(vs) > 0 {
		cgroup = vs[len(vs)-1].cgroup
	}
	v := p.add(pid, time, true)
	v.name, v.cgroup = name, cgroup
	p.spaces.Exec(v.id)
	if !v.ours {
		p.spaces.Ignore(v.id)
	}
}

// mapped says that a process has mapped something.
func (p *processes) mapped(pid int, time uint64, m sample.Mapping) {
	p.spaces.Map(p.at(pid, time).id, m)
}

// gone says that a process has ended.
func (p *processes) gone(pid int) {
	if vs := p.of[pid]; len(vs) > 0 {
		p.retire(pid, vs[len(vs)-1])
	}
}

func (p *processes) retire(pid int, v *version) {
	p.old = append(p.old, retired{p.round + keepRounds, pid, v})
}

// next begins another round, and forgets what no sample can be of any more.
func (p *processes) next() {
	p.round++
	n := 0
	for _, r := range p.old {
		if r.round > p.round {
			break
		}
		n++
		p.spaces.Exit(r.v.id)
		vs := slices.DeleteFunc(p.of[r.pid], func(v *version) bool { return v == r.v })
		if p.of[r.pid] = vs; len(vs) == 0 {
			delete(p.of, r.pid)
		}
	}
	p.old = slices.Delete(p.old, 0, n)
}

// A change is what a record tells of a process.
type change struct {
	time        uint64
	typ         uint32
	pid, parent int
	m           sample.Mapping
	name        string // after typeComm
	exec        bool   // likewise: it executed a program; otherwise it has another name
	cgroup      string // after typeFork: the parent's, "" if it is not known
}

func compareChanges(a, b change) int { return cmp.Compare(a.time, b.time) }
