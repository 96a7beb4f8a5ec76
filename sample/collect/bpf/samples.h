// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

// What programs that run with samples share: what they are told of probes, what a sample
// is worth, and which version of a process it is of.

#include "window.h"

enum { DISTURBED = 1000000 }; // ns

// disturbed reports whether probes slow programs down now, or did just before: an
// armed probe that is in the way of anything is hit again within that time.
inline_ int disturbed()
{
	u32 zero = 0;
	struct window *w = map_lookup(&windows, &zero);
	return w && w->hit && ktime_get_ns() - w->hit < DISTURBED;
}

enum { EVENTS = 4 };

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);   // processor * EVENTS + event
	__type(value, u64); // what a sample is worth, in units of the event
} worths SEC(".maps");

struct {
	__uint(type, LRU_HASH);
	__uint(max_entries, 1);
	__type(key, u32);   // process
	__type(value, u64); // time of its last exec
} execs SEC(".maps");

// born is when the version of the current process began: the time of its last exec, odd, or
// of its fork, even. Linux 5.10 gives no task that may be looked into, but its address.
inline_ u64 born(u32 tgid)
{
	struct task_struct *task = (void *)get_current_task(), *leader = 0;
	u64 start = 0;
	probe_read_kernel(&leader, sizeof leader, &task->group_leader);
	probe_read_kernel(&start, sizeof start, &leader->start_time);
	u64 *exec = map_lookup(&execs, &tgid);
	if (exec && *exec > start)
		return *exec | 1;
	return start & ~1ull;
}
