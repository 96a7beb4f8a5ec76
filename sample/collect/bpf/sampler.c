// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

// The kernel's side of a System: programs that count samples by place in maps,
// from which user space takes them. See system_linux.go.

#include "kernel.h"
#include "samples.h"
#include "unwind.h"

enum { IN_KERNEL = 1u << 31, FAULTS = EVENTS }; // of key.event: the latter of page faults

// A branch record, as struct perf_branch_entry (include/uapi/linux/perf_event.h).
struct branch {
	u64 from, to, flags;
};

enum { BRANCHES = 32 }; // that a processor keeps at most: LBR of Intel since Skylake

// A trace is what goes through the ring: a call, and the branches before it that
// the processor recorded, newest first.
struct trace {
	struct call call;
	struct branch branches[BRANCHES];
};

// Counters of one processor.
struct counters {
	u64 all, user, kernel, idle, filtered, probed, failed, bare;
	u64 weight[2][EVENTS]; // of what was stored while that buffer was in use, in units of the event
	u64 stored[EVENTS];    // samples, whatever the buffer
};

struct {
	__uint(type, HASH);
	__uint(max_entries, 1);
	__type(key, struct key);
	__type(value, u64);
} counts0 SEC(".maps"), counts1 SEC(".maps");

struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct counters);
} stats SEC(".maps");

// Room for one trace, more than a stack has. No program on perf events interrupts
// another one of its processor.
struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct trace);
} traces SEC(".maps");

struct {
	__uint(type, RINGBUF);
	__uint(max_entries, 4096);
} calls SEC(".maps");

// What goes on from a sample in user mode, if a Walker put it there: see walker.c.
struct {
	__uint(type, PROG_ARRAY);
	__uint(max_entries, 1);
	__uint(key_size, 4);
	__uint(value_size, 4);
} next SEC(".maps");

volatile u32 active; // the buffer in use, 0 or 1

const volatile u8 with_calls;     // record calls
const volatile u8 with_branches;  // bit by event: record branches
const volatile u8 with_kernel;    // keep places of the kernel
const volatile u8 with_probes;    // leave out what probes disturb
const volatile u64 tick_handler; // address of the function that the tick's timer calls

inline_ int add(void *map, struct key *key, u64 more)
{
	u64 *n = map_lookup(map, key);
	if (!n) {
		if (!map_update(map, key, &more, NOEXIST))
			return 1;
		// Full, or another processor was faster.
		n = map_lookup(map, key);
		if (!n)
			return 0;
	}
	__sync_fetch_and_add(n, more);
	return 1;
}

// An interrupt is what a program was told of where it struck.
struct interrupt {
	void *ctx; // of a perf event; 0 for a tick
	u32 event;
	int user;
	struct place at; // in user mode; its ip alone is of the kernel, too
};

// unwind sends a call with the return addresses of its stack through the ring.
inline_ int unwind(struct interrupt *i, struct call *call)
{
	struct unwinding *u = unwind_stack(&i->at, call);
	if (!u)
		return 0;
	u64 n = u->n & MOST_FRAMES; // which the verifier does not know
	separate(n);
	return !ringbuf_output(&calls, &u->call, sizeof u->call + n * sizeof u->pcs[0], NO_WAKEUP);
}

// send puts a call into the ring, with the branches that were recorded.
inline_ int send(struct interrupt *i, struct call *call)
{
	if (with_calls) {
		probe_read_user(&call->frame, sizeof call->frame, (void *)(i->at.fp + 8));
#ifdef __TARGET_ARCH_x86
		probe_read_user(&call->top, sizeof call->top, (void *)i->at.sp);
#endif
	}
	// The first look at with_branches, by itself, has the verifier leave out what none of the events asks for.
	if (with_branches && i->ctx && with_branches & (1 << call->key.event)) {
		u32 zero = 0;
		struct trace *t = map_lookup(&traces, &zero);
		if (t) {
			t->call = *call;
			s64 n = read_branch_records(i->ctx, t->branches, sizeof t->branches, 0);
			if (n > 0) {
				separate(n); // the verifier of Linux 6.1 knows no lower bound of one comparison for both
				if (n <= sizeof t->branches)
					return !ringbuf_output(&calls, t, sizeof t->call + n, NO_WAKEUP);
			}
		}
	}
	return !ringbuf_output(&calls, call, sizeof *call, NO_WAKEUP);
}

// take counts one sample. Where unwound, it has the whole stack.
inline_ int take(struct interrupt *i, int unwound)
{
	u32 zero = 0, event = i->event & (EVENTS - 1);
	struct counters *c = map_lookup(&stats, &zero);
	if (!c)
		return 0;
	c->all++;
	u32 tgid = get_current_pid_tgid() >> 32;
	if (!tgid) {
		c->idle++;
		return 0;
	}
	if (i->user)
		c->user++;
	else
		c->kernel++;
	if (!wanted(tgid)) {
		c->filtered++;
		return 0;
	}
	if (with_probes && disturbed()) {
		c->probed++;
		return 0;
	}
	struct call call = {.key = {.event = event}};
	if (i->user) {
		call.key.ip = i->at.ip;
		call.key.tgid = tgid;
		call.key.born = born(tgid);
	} else {
		if (with_kernel)
			call.key.ip = i->at.ip;
		if (with_origins) {
			call.key.event |= IN_KERNEL;
			call.key.tgid = tgid;
			call.key.born = born(tgid);
		}
	}
	// Entries are still no more than samples, for which the maps have room.
	if (with_origins) {
		get_current_comm(call.key.comm, sizeof call.key.comm);
		call.key.slice = slice_at(ktime_get_ns());
	}
	u32 buffer = active & 1;
	int stored = 0;
	c->stored[event]++; // before it can be taken out
	if (i->user && (unwound || with_calls || with_branches & (1 << event))) {
		stored = unwound ? unwind(i, &call) : send(i, &call);
		if (!stored)
			c->bare++;
	}
	if (!stored)
		stored = buffer ? add(&counts1, &call.key, 1) : add(&counts0, &call.key, 1);
	if (!stored) {
		c->stored[event]--;
		c->failed++;
		return 0;
	}
	// The context holds the first period of a timer, whatever it is now.
	u32 at = get_smp_processor_id() * EVENTS + event;
	u64 *worth = map_lookup(&worths, &at);
	if (worth)
		c->weight[buffer][event] += *worth;
	return 0;
}

static __attribute__((noinline)) int take_call(struct interrupt *i) { return take(i, 0); }
static __attribute__((noinline)) int take_stack(struct interrupt *i) { return take(i, 1); }

inline_ int sample(struct perf_event_data *ctx, u32 event, int unwound)
{
	struct interrupt i = {
		.ctx = ctx,
		.event = event,
		.user = USER(&ctx->regs),
		.at = {.ip = IP(&ctx->regs), .fp = FP(&ctx->regs), .sp = SP(&ctx->regs), .lr = LR(&ctx->regs)},
	};
	if (unwound)
		take_stack(&i);
	else
		take_call(&i);
	if (with_probes) // arm64 before Linux 6.0 refuses it in a program of several functions
		tail_call(ctx, &next, 0);
	return 0;
}

// One program for each event.
SEC("perf_event") int sample0(struct perf_event_data *ctx) { return sample(ctx, 0, 0); }
SEC("perf_event") int sample1(struct perf_event_data *ctx) { return sample(ctx, 1, 0); }
SEC("perf_event") int sample2(struct perf_event_data *ctx) { return sample(ctx, 2, 0); }
SEC("perf_event") int sample3(struct perf_event_data *ctx) { return sample(ctx, 3, 0); }

// And one that unwinds stacks.
SEC("perf_event") int unwound0(struct perf_event_data *ctx) { return sample(ctx, 0, 1); }
SEC("perf_event") int unwound1(struct perf_event_data *ctx) { return sample(ctx, 1, 1); }
SEC("perf_event") int unwound2(struct perf_event_data *ctx) { return sample(ctx, 2, 1); }
SEC("perf_event") int unwound3(struct perf_event_data *ctx) { return sample(ctx, 3, 1); }

// faulted counts page faults of user mode, as many as one of them stands for.
SEC("perf_event") int faulted(struct perf_event_data *ctx)
{
	u32 tgid = get_current_pid_tgid() >> 32;
	if (!USER(&ctx->regs) || !tgid || !wanted(tgid))
		return 0;
	if (with_probes && disturbed()) // of that time there are no samples either
		return 0;
	struct key key = {.ip = IP(&ctx->regs), .born = born(tgid), .tgid = tgid, .event = FAULTS};
	if (active & 1)
		add(&counts1, &key, ctx->sample_period);
	else
		add(&counts0, &key, ctx->sample_period);
	return 0;
}

// tick samples at the scheduler's tick. The registers that it interrupted are out
// of reach: those with which the thread left user mode tell the user's place. An
// interrupt of user mode has no number of a system call there; nor has one of
// the kernel's handling of a page fault, which is so attributed to the user's
// instruction that caused it.
inline_ int ticked(u64 *ctx, int unwound)
{
	struct hrtimer *timer = (void *)ctx[0];
	if ((u64)timer->function != tick_handler)
		return 0;
	struct interrupt i = {0};
	struct task_struct *task = get_current_task_btf();
	if (!(task->flags & PF_KTHREAD)) { // which have none
		struct regs *regs = (void *)task_pt_regs(task);
		i.user = NO_SYSCALL(regs);
		i.at.ip = IP(regs);
		i.at.fp = FP(regs);
		i.at.sp = SP(regs);
		i.at.lr = LR(regs);
	}
	if (!i.user)
		i.at.ip = 0;
	return unwound ? take_stack(&i) : take_call(&i);
}

SEC("tp_btf/hrtimer_expire_entry") int tick(u64 *ctx) { return ticked(ctx, 0); }
SEC("tp_btf/hrtimer_expire_entry") int unwoundtick(u64 *ctx) { return ticked(ctx, 1); }

SEC("tp_btf/sched_process_exec") int executed(u64 *ctx)
{
	u32 tgid = get_current_pid_tgid() >> 32;
	u64 now = ktime_get_ns();
	map_update(&execs, &tgid, &now, 0);
	map_delete(&spaces, &tgid);
	return 0;
}

SEC("tp_btf/sched_process_fork") int forked(u64 *ctx)
{
	struct task_struct *parent = (void *)ctx[0], *child = (void *)ctx[1];
	u32 from = parent->tgid, to = child->tgid;
	u8 one = 1;
	if (from != to && map_lookup(&pids, &from))
		map_update(&pids, &to, &one, 0);
	return 0;
}

SEC("tp_btf/sched_process_exit") int exited(u64 *ctx)
{
	struct task_struct *task = (void *)ctx[0];
	u32 tgid = task->tgid;
	if (task->signal->live.counter == 0) { // the last thread of its process
		map_delete(&execs, &tgid);
		map_delete(&pids, &tgid);
		map_delete(&spaces, &tgid);
	}
	return 0;
}
