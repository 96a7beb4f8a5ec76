// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

// The kernel's side of time off the processor: from when a thread leaves a processor to when it is back on one, by the
// place in user mode that it left from, and why it did. See offcpu_linux.go.
//
// A wait has the name that its thread had as it left, and belongs to the slice of time in which it ended.
//
// All such time is counted. Stacks are of some of it, so that their cost is bounded however often threads switch: see pick.

#include "kernel.h"
#include "samples.h"
#include "unwind.h"

// Why a thread is off the processor, as the event of a key says.
enum {
	INTERRUPTIBLE, // it waits
	UNINTERRUPTIBLE, // likewise, and not even a signal ends that: for a disk, mostly
	STOPPED, // by a signal or a tracer
	RUNNABLE, // it could run, and another one does
	BEFORE, // it was off when all this began, and nobody saw why
};

// States of a thread: include/linux/sched.h.
enum { TASK_INTERRUPTIBLE = 1, TASK_UNINTERRUPTIBLE = 2, TASK_STOPPED = 4, TASK_TRACED = 8, TASK_DEAD = 0x80 };

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct task_struct___state { // before Linux 5.14
	long state;
};

struct task_struct___underlined {
	u32 __state;
};

struct task_struct___named {
	char comm[16];
};
#pragma clang attribute pop

enum { FIELD_EXISTS = 2 }; // of __builtin_preserve_field_info

enum { NO_STACK = ~0u };

// A wait is what is known of a thread.
struct wait {
	u64 left; // when it left the processor; 0: it is on one
	u64 last; // when it left, though it may be back
	u64 gap; // ns from one leaving to the next, as of late
	u64 woken; // when it could run again; 0: not yet
	struct key key;
	u32 n; // return addresses of its stack, which is in stacks
	u32 shift; // the stack counts for 1 << shift of them, or is NO_STACK
};

struct {
	__uint(type, HASH);
	__uint(max_entries, 1);
	__type(key, u32); // thread
	__type(value, struct wait);
} waits SEC(".maps");

struct stack {
	struct outcome outcome;
	struct call call;
	u64 pcs[MOST_FRAMES + 1];
};

struct {
	__uint(type, HASH);
	__uint(max_entries, 1);
	__type(key, u32); // thread
	__type(value, struct stack);
} stacks SEC(".maps");

// A total is of all that left from one place for one reason.
struct total {
	u64 ns;
	u64 times;
	u64 squares; // sum of squares of times, in units of SQUARED ns
};

enum { SQUARED = 15 }; // as a power of two: 33 us, so that the sum has room for a million times of an hour

struct {
	__uint(type, HASH);
	__uint(max_entries, 1);
	__type(key, struct key);
	__type(value, struct total);
} totals0 SEC(".maps"), totals1 SEC(".maps");

struct {
	__uint(type, RINGBUF);
	__uint(max_entries, 4096);
} waited SEC(".maps");

// Counters of one processor, and its pace.
struct switches {
	u64 times; // that threads of those that are asked for were off, until now
	u64 failed; // of them, those that were not stored
	u64 failed_ns;
	u64 unknown; // threads that there was no room for, as they left
	u64 bare; // stacks that there was no room for
	u64 unwound; // stacks
	u64 began; // the interval
	u64 in_it; // stacks in the interval
	u64 bar; // ns: threads that left so long ago before are all unwound
};

struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct switches);
} switches SEC(".maps");

volatile u32 active_totals; // the buffer in use, 0 or 1
volatile u64 begun; // when all this began; 0: not yet

const volatile u8 with_helper; // there is task_pt_regs
const volatile u8 with_state; // sched_switch is told the state
const volatile u32 stack_size; // of a thread in the kernel
const volatile u32 unwinds; // stacks of a processor in an interval, about

enum { INTERVAL = 1 << 27, FIRST_BAR = 1 << 14, MOST_SHIFT = 20 };
enum { MOST_BAR = 1 << 30, MOST_GAP = 1 << 30 };

#ifdef __TARGET_ARCH_x86
enum { REGS_SIZE = 168 };
#else
enum { REGS_SIZE = 336 }; // struct pt_regs of Linux 5.10
#endif

// user_place finds where a thread is in user mode, as the registers say that it left that with.
inline_ void user_place(struct task_struct *task, struct place *p)
{
	p->ip = p->fp = p->sp = p->lr = 0;
	if (with_helper) {
		struct regs *regs = (void *)task_pt_regs(task);
		if (!USER(regs))
			return;
		p->ip = IP(regs);
		p->fp = FP(regs);
		p->sp = SP(regs);
		p->lr = LR(regs);
		return;
	}
	// One by one: all of them have no room on the stack.
	struct regs *regs = task->stack + stack_size - REGS_SIZE;
	u64 mode;
	if (probe_read_kernel(&mode, sizeof mode, &MODE(regs)) || !USER_MODE(mode))
		return;
	probe_read_kernel(&p->ip, sizeof p->ip, &IP(regs));
	probe_read_kernel(&p->fp, sizeof p->fp, &FP(regs));
	probe_read_kernel(&p->sp, sizeof p->sp, &SP(regs));
#ifndef __TARGET_ARCH_x86
	probe_read_kernel(&p->lr, sizeof p->lr, &LR(regs));
#endif
}

// born_of is born of another task than the current one.
inline_ u64 born_of(struct task_struct *task, u32 tgid)
{
	u64 start = task->group_leader->start_time;
	u64 *exec = map_lookup(&execs, &tgid);
	if (exec && *exec > start)
		return *exec | 1;
	return start & ~1ull;
}

inline_ void count(struct switches *s, struct key *key, u64 ns)
{
	struct total *t, none = {};
	// Two maps in one expression would be a pointer that the verifier does not know.
	if (active_totals & 1) {
		t = map_lookup(&totals1, key);
		if (!t) {
			map_update(&totals1, key, &none, NOEXIST);
			t = map_lookup(&totals1, key);
		}
	} else {
		t = map_lookup(&totals0, key);
		if (!t) {
			map_update(&totals0, key, &none, NOEXIST);
			t = map_lookup(&totals0, key);
		}
	}
	if (!t) {
		s->failed++;
		s->failed_ns += ns;
		return;
	}
	u64 units = ns >> SQUARED;
	__sync_fetch_and_add(&t->ns, ns);
	__sync_fetch_and_add(&t->times, 1);
	__sync_fetch_and_add(&t->squares, units * units);
}

// send puts the stack of a thread that is back into the ring.
inline_ void send(struct switches *s, u32 tid, struct wait *w, u64 waited_ns, u64 queued_ns)
{
	struct stack *k = map_lookup(&stacks, &tid);
	if (!k)
		return;
	k->call.key.slice = w->key.slice;
	k->outcome.waited = waited_ns;
	k->outcome.queued = queued_ns;
	k->outcome.counts = 1ull << (w->shift & 31);
	u64 n = w->n & MOST_FRAMES;
	separate(n);
	if (ringbuf_output(&waited, k, sizeof k->outcome + sizeof k->call + n * sizeof k->pcs[0], NO_WAKEUP))
		s->bare++;
	map_delete(&stacks, &tid);
}

// came takes in that a thread is on the processor.
inline_ void came(struct switches *s, struct task_struct *task, u64 now)
{
	u32 tid = task->pid, tgid = task->tgid;
	struct wait *w = map_lookup(&waits, &tid);
	if (!w) {
		// It was off all the while that it could have been seen.
		if (task->flags & PF_KTHREAD || !tid || by_cgroup || (by_pid && !map_lookup(&pids, &tgid)))
			return;
		struct wait fresh = {.last = now};
		if (!begun || now < begun || map_update(&waits, &tid, &fresh, NOEXIST))
			return;
		struct place p;
		user_place(task, &p);
		struct key key = {.ip = p.ip, .born = born_of(task, tgid), .tgid = tgid, .event = BEFORE, .slice = slice_at(now)};
		if (with_origins)
			probe_read_kernel(key.comm, sizeof key.comm, ((struct task_struct___named *)task)->comm);
		s->times++;
		count(s, &key, now - begun);
		return;
	}
	if (!w->left || now < w->left)
		return;
	u64 ns = now - w->left, queued = ns;
	if (w->key.event != RUNNABLE)
		queued = w->woken > w->left && w->woken < now ? now - w->woken : 0;
	w->left = 0;
	w->key.slice = slice_at(now);
	s->times++;
	if (ns > queued)
		count(s, &w->key, ns - queued);
	if (queued) {
		struct key key = w->key;
		key.event = RUNNABLE;
		count(s, &key, queued);
	}
	if (w->shift != NO_STACK)
		send(s, tid, w, ns - queued, queued);
}

// pick decides whether the stack of a thread is unwound as it leaves, and how many times like this it counts for, as a
// power of two: NO_STACK is not at all. Where a processor has more than its share of stacks, there is a bar: of threads
// that leave less often than that all are unwound, of others the fewer the oftener they do. What is not unwound
// is so decided by chance before anybody knows how long the thread is off: sums are as they would be with all.
inline_ u32 pick(struct switches *s, u64 gap, u64 now)
{
	if (now - s->began > INTERVAL) {
		if (s->in_it > unwinds && unwinds)
			s->bar = (s->bar ? s->bar : FIRST_BAR) * (1 + s->in_it / unwinds);
		else if (s->in_it < unwinds / 4)
			s->bar = s->bar > FIRST_BAR ? s->bar / 2 : 0;
		if (s->bar > MOST_BAR)
			s->bar = MOST_BAR;
		s->began = now;
		s->in_it = 0;
	}
	u32 shift = 0;
	for (; shift < MOST_SHIFT && gap < s->bar; shift++)
		gap <<= 1;
	if (get_prandom_u32() & ((1u << shift) - 1))
		return NO_STACK;
	s->in_it++;
	s->unwound++;
	if (unwinds && s->in_it % (4 * unwinds) == 0 && s->bar < MOST_BAR)
		s->bar = s->bar ? s->bar * 2 : FIRST_BAR;
	return shift;
}

inline_ u32 state_of(u64 *ctx, struct task_struct *task)
{
	if (with_state)
		return ctx[3];
	struct task_struct___underlined *new = (void *)task;
	if (__builtin_preserve_field_info(new->__state, FIELD_EXISTS))
		return new->__state;
	return ((struct task_struct___state *)task)->state;
}

// left takes in that the current thread leaves the processor.
inline_ void left(struct switches *s, struct task_struct *task, int preempted, u32 state, u64 now)
{
	u32 tid = task->pid, tgid = task->tgid;
	if (!tid || task->flags & PF_KTHREAD)
		return;
	if (state & TASK_DEAD) {
		map_delete(&waits, &tid);
		map_delete(&stacks, &tid);
		return;
	}
	if (!wanted(tgid))
		return;
	struct wait *w = map_lookup(&waits, &tid);
	if (!w) {
		struct wait fresh = {};
		map_update(&waits, &tid, &fresh, NOEXIST);
		w = map_lookup(&waits, &tid);
		if (!w) {
			s->unknown++;
			return;
		}
	}
	u32 reason = RUNNABLE;
	if (!preempted) {
		if (state & (TASK_STOPPED | TASK_TRACED))
			reason = STOPPED;
		else if (state & TASK_UNINTERRUPTIBLE)
			reason = UNINTERRUPTIBLE;
		else if (state & TASK_INTERRUPTIBLE)
			reason = INTERRUPTIBLE;
	}
	struct place p;
	user_place(task, &p);
	u64 gap = w->last ? now - w->last : MOST_GAP;
	if (gap > MOST_GAP)
		gap = MOST_GAP;
	w->gap = w->gap ? (7 * w->gap + gap) / 8 : gap;
	struct call call = {.key = {.ip = p.ip, .born = born(tgid), .tgid = tgid, .event = reason}};
	if (with_origins)
		get_current_comm(call.key.comm, sizeof call.key.comm);
	w->last = now;
	w->woken = 0;
	w->key = call.key;
	w->shift = NO_STACK;
	w->left = now;
	if (!p.ip || !with_frames)
		return;
	u32 shift = pick(s, w->gap, now);
	if (shift == NO_STACK)
		return;
	struct unwinding *u = unwind_stack(&p, &call);
	if (!u || map_update(&stacks, &tid, &u->outcome, 0)) {
		s->bare++;
		return;
	}
	w->n = u->n;
	w->shift = shift;
}

SEC("tp_btf/sched_switch") int off_switched(u64 *ctx)
{
	struct task_struct *prev = (void *)ctx[1], *next = (void *)ctx[2];
	u32 zero = 0;
	struct switches *s = map_lookup(&switches, &zero);
	if (!s)
		return 0;
	u64 now = ktime_get_ns();
	left(s, prev, ctx[0] & 1, state_of(ctx, prev), now);
	came(s, next, now);
	return 0;
}

// off_woken takes in that a thread could run.
SEC("tp_btf/sched_wakeup") int off_woken(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tid = task->pid;
	struct wait *w = map_lookup(&waits, &tid);
	if (w && w->left && !w->woken)
		w->woken = ktime_get_ns();
	return 0;
}

// off_forked takes in that there is a new thread, which could run, and is where its parent is.
SEC("tp_btf/sched_process_fork") int off_forked(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 tid = child->pid, tgid = child->tgid;
	if (child->flags & PF_KTHREAD || !wanted(parent->tgid))
		return 0;
	struct place p;
	user_place(parent, &p);
	u64 now = ktime_get_ns();
	struct wait w = {.left = now, .last = now, .shift = NO_STACK,
		.key = {.ip = p.ip, .born = born_of(child, tgid), .tgid = tgid, .event = RUNNABLE}};
	if (with_origins)
		get_current_comm(w.key.comm, sizeof w.key.comm); // it has the name of its parent
	map_update(&waits, &tid, &w, 0);
	return 0;
}
