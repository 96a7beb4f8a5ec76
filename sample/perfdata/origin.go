package perfdata

import (
	"backfeed/sample"
	"backfeed/sample/bound"
)

// An origin knows what ran while samples were taken, when, and what perf says of the whole recording.
type origin struct {
	threads sample.Threads
	cgroups map[uint64]string // paths by number

	host    string
	command []string // perf's own, with its arguments

	dated       bool   // wall and clock are known
	wall, clock uint64 // ns since 1970, and of the clock of samples, at one moment
	first, last uint64 // times of samples; 0 if none has one
	began       uint64 // of first, in ns since 1970; 0 if the date is not known
}

// maxCgroup bounds the path of a control group: PATH_MAX of Linux.
const maxCgroup = 4096

// cgroup reads a CGROUP record: u64 number, path.
func (o *origin) cgroup(c *cursor) error {
	id, path := c.u64("id"), c.string("path")
	if c.err != nil {
		return c.err
	}
	path = path[:min(len(path), maxCgroup)]
	if err := bound.Memory(int64(len(path))); err != nil {
		return err
	}
	if o.cgroups == nil {
		o.cgroups = map[uint64]string{}
	}
	o.cgroups[id] = path
	return nil
}

// of returns the origin of a sample.
func (o *origin) of(e *entry) sample.Origin {
	return o.threads.Origin(e.pid, e.tid, o.cgroups[e.cgroup])
}

// time returns when a sample was taken, in ns since 1970 or, where the date is not known, since the first sample.
func (o *origin) time(e *entry) (ns uint64, known bool) {
	if e.time == 0 || e.time == ^uint64(0) {
		return 0, false
	}
	if o.first == 0 {
		o.first = e.time
		if o.dated && o.wall+o.first > o.clock && o.wall+o.first > o.wall {
			o.began = o.wall + o.first - o.clock
		}
	}
	o.last = max(o.last, e.time)
	if e.time < o.first { // out of order
		return o.began, true
	}
	return o.began + e.time - o.first, true
}

// clockData reads the feature that perf record -k leaves:
//
//	u32 version, 1; u32 clock; u64 ns since 1970; u64 ns of the clock at that moment
func (o *origin) clockData(c *cursor) {
	version := c.u32("version")
	c.u32("clock")
	wall, clock := c.u64("time of day"), c.u64("time of clock")
	if c.err == nil && version == 1 {
		o.dated, o.wall, o.clock = true, wall, clock
	}
}

// commandLine reads the command that perf was called by: u32 number of strings, and these.
func (o *origin) commandLine(c *cursor) {
	o.command = nil
	for range min(c.u32("arguments"), uint32(len(c.b)/4)) {
		arg := c.counted("argument")
		if c.err != nil {
			return
		}
		o.command = append(o.command, arg)
	}
}

// run returns what is known of the recording as a whole, if anything.
func (o *origin) run() (sample.Run, bool) {
	const ms = 1_000_000
	r := sample.Run{Began: o.began / ms, Lasted: (o.last - o.first) / ms, Host: o.host, Command: sample.CommandName(o.command)}
	return r, r.Host != "" || len(r.Command) > 0 || r.Lasted > 0
}
