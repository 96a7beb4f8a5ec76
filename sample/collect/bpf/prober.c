// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

// The kernel's side of a Prober: one program counts what probed instructions do,
// another one the processor time that the counts stand for. See prober_linux.go.

#include "kernel.h"
#include "samples.h"

enum { SITES = 64 };
enum { OURS = 1, EVERYONES = 2 }; // hits: of what is asked for, of all processes

// A cookie says which site was hit, and under which condition its branch is taken. Of AArch64, where conditions
// beyond ALWAYS are of a register, it says of which one, of which bit, and whether all 64 bits of it count.
#define SITE(cookie) ((cookie) & (SITES - 1))
#define COND(cookie) ((cookie) >> 8 & 31)
#define REG(cookie) ((cookie) >> 16 & 31)
#define BIT(cookie) ((cookie) >> 21 & 63)
#define WIDE(cookie) ((cookie) >> 27 & 1)
enum { ALWAYS = 16, ZERO, NOT_ZERO, CLEAR, SET }; // ALWAYS: no condition

struct site {
	u64 hits, taken;
};

// Sites of the window, by index.
struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, SITES);
	__type(key, u32);
	__type(value, struct site);
} sites SEC(".maps");

// What a processor did.
struct processor {
	u64 hits;   // of all sites, counted or not
	u64 since;  // when it took up what it runs now; 0 is unknown
	u64 total;  // time of processes that are asked for
	u64 window; // of it, in the last window that it knows of
	u32 number; // of that window
	u32 runs;   // process that it runs now, if it is asked for
};

struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct processor);
} processors SEC(".maps");

// goes reports whether a branch is taken.
inline_ int goes(struct regs *ctx, u64 cookie)
{
	u32 cond = COND(cookie);
	if (cond < ALWAYS)
		return taken(FLAGS(ctx), cond);
#ifndef __TARGET_ARCH_x86
	u64 v = 0;
	u32 r = REG(cookie);
	if (r < 31 && probe_read_kernel(&v, sizeof v, (void *)ctx + r * sizeof v))
		return 0;
	if (!WIDE(cookie))
		v = (u32)v;
	switch (cond) {
	case ZERO: return !v;
	case NOT_ZERO: return v != 0;
	case CLEAR: return !(v >> BIT(cookie) & 1);
	case SET: return v >> BIT(cookie) & 1;
	}
#endif
	return 0;
}

SEC("uprobe.multi") int hit(struct regs *ctx)
{
	u32 zero = 0;
	struct window *w = map_lookup(&windows, &zero);
	struct processor *p = map_lookup(&processors, &zero);
	if (!w || !p)
		return 0;
	// Nothing keeps this program from being preempted by a thread that runs it too, on
	// the same processor: each count is one atomic addition.
	__sync_fetch_and_add(&p->hits, 1);
	// The time of a hit need not be exact, and a look at the clock is dear.
	if (!(p->hits & 31))
		w->hit = ktime_get_ns();
	if (!w->open)
		return 0;
	if ((by_pid || by_cgroup) && w->open == OURS && !wanted(get_current_pid_tgid() >> 32))
		return 0;
	u64 cookie = get_attach_cookie(ctx);
	u32 index = SITE(cookie);
	struct site *s = map_lookup(&sites, &index);
	if (!s)
		return 0;
	__sync_fetch_and_add(&s->hits, 1);
	if (goes(ctx, cookie))
		__sync_fetch_and_add(&s->taken, 1);
	return 0;
}

// A moment is where a process was found while a window was open.
struct moment {
	u64 ip; // 0: in the kernel, as in a hit
	u64 born;
	u32 tgid;
	u32 number; // of the window
};

enum { MOMENTS = 4096 }; // of windows whose samples were not taken out yet

struct {
	__uint(type, HASH);
	__uint(max_entries, MOMENTS);
	__type(key, struct moment);
	__type(value, u64);
} moments SEC(".maps");

// meanwhile samples while a window is open.
SEC("perf_event") int meanwhile(struct perf_event_data *ctx)
{
	u32 zero = 0;
	struct window *w = map_lookup(&windows, &zero);
	u32 tgid = get_current_pid_tgid() >> 32;
	if (!w || w->open != OURS || !tgid || !wanted(tgid))
		return 0;
	struct moment m = {.tgid = tgid, .number = w->number};
	if (USER(&ctx->regs)) {
		m.ip = IP(&ctx->regs);
		m.born = born(tgid);
	}
	u64 one = 1;
	u64 *n = map_lookup(&moments, &m);
	if (!n) {
		if (!map_update(&moments, &m, &one, NOEXIST))
			return 0;
		n = map_lookup(&moments, &m);
		if (!n)
			return 0;
	}
	__sync_fetch_and_add(n, 1);
	return 0;
}

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct kernfs_node {
	u64 id;
};

struct cgroup;

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct css_set {
	struct cgroup *dfl_cgrp; // of cgroup v2
};

struct task_struct___cgroups {
	struct css_set *cgroups;
};
#pragma clang attribute pop

// in_cgroups is what wanted asks of the current task, of any other one.
inline_ int in_cgroups(struct task_struct *task)
{
	struct cgroup *c = ((struct task_struct___cgroups *)task)->cgroups->dfl_cgrp;
	for (int level = 0; level < MAX_LEVEL && c; level++) {
		u64 id = c->kn->id;
		if (map_lookup(&cgroups, &id))
			return 1;
		struct cgroup_subsys_state *parent = c->self.parent;
		if (!parent)
			break;
		c = parent->cgroup;
	}
	return 0;
}

// A window's time is that of the processes whose hits count.
inline_ u32 timed(struct task_struct *task)
{
	u32 tgid = task->tgid;
	if (task->flags & PF_KTHREAD)
		return 0;
	if (!by_pid && !by_cgroup)
		return tgid;
	if (by_pid && map_lookup(&pids, &tgid))
		return tgid;
	if (by_cgroup && in_cgroups(task))
		return tgid;
	return 0;
}

SEC("tp_btf/sched_switch") int switched(u64 *ctx)
{
	u32 zero = 0;
	struct window *w = map_lookup(&windows, &zero);
	struct processor *p = map_lookup(&processors, &zero);
	if (!w || !p)
		return 0;
	u64 now = ktime_get_ns();
	if (p->since && p->runs) {
		p->total += now - p->since;
		u64 from = p->since > w->opened ? p->since : w->opened;
		u64 to = w->closed && w->closed < now ? w->closed : now;
		if (w->opened && to > from) {
			if (p->number != w->number) {
				p->number = w->number;
				p->window = 0;
			}
			p->window += to - from;
		}
	}
	p->since = now;
	p->runs = timed((struct task_struct *)ctx[2]);
	return 0;
}
