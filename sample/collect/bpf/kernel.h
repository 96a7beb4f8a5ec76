// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

// What programs of the kernel's side share: types, helpers and what is used of the
// kernel's own types.
//
// Declared by hand is only what is used of the kernel's types; offsets of the
// running kernel are put in when the programs are loaded (CO-RE).

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define inline_ static inline __attribute__((always_inline))
// separate keeps the compiler from making one comparison of those before and after.
#define separate(v) __asm__ volatile("" : "+r"(v))
#define __uint(name, val) int(*name)[val]
#define __type(name, val) typeof(val) *name

// The kernel lends most helpers to programs that say one of its words for the GPL; none of them names
// Apache-2.0 beside it.
char LICENSE[] SEC("license") = "GPL";

// Numbers of helpers and flags: include/uapi/linux/bpf.h.
enum { HASH = 1, ARRAY = 2, PROG_ARRAY = 3, PERCPU_ARRAY = 6, LRU_HASH = 9, RINGBUF = 27 };
enum { NOEXIST = 1, NO_WAKEUP = 1, MMAPABLE = 1 << 10 };

static void *(*map_lookup)(void *map, const void *key) = (void *)1;
static long (*map_update)(void *map, const void *key, const void *value, u64 flags) = (void *)2;
static long (*map_delete)(void *map, const void *key) = (void *)3;
static u64 (*ktime_get_ns)(void) = (void *)5;
static u32 (*get_prandom_u32)(void) = (void *)7;
static long (*tail_call)(void *ctx, void *map, u32 index) = (void *)12;
static u32 (*get_smp_processor_id)(void) = (void *)8;
static u64 (*get_current_pid_tgid)(void) = (void *)14;
static long (*get_current_comm)(void *to, u32 size) = (void *)16;
static u64 (*get_current_task)(void) = (void *)35;
static long (*probe_read_user)(void *to, u32 size, const void *from) = (void *)112;
static long (*probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*read_branch_records)(void *ctx, void *to, u32 size, u64 flags) = (void *)119;
static u64 (*get_current_ancestor_cgroup_id)(int level) = (void *)123;
static long (*ringbuf_output)(void *ring, void *data, u64 size, u64 flags) = (void *)130;
static struct task_struct *(*get_current_task_btf)(void) = (void *)158;
static u64 (*get_attach_cookie)(void *ctx) = (void *)174;
static long (*task_pt_regs)(struct task_struct *task) = (void *)175;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
typedef struct {
	s32 counter;
} atomic_t;

struct signal_struct {
	atomic_t live; // threads
};

struct task_struct {
	void *stack;
	u32 flags;
	s32 pid;
	s32 tgid;
	u64 start_time; // CLOCK_MONOTONIC
	struct task_struct *group_leader;
	struct signal_struct *signal;
};

struct hrtimer {
	void *function;
};
#pragma clang attribute pop

enum { PF_KTHREAD = 0x00200000 };

// Registers as user space sees them (arch/*/include/uapi/asm/ptrace.h). A field
// of a context is loaded whole: the verifier refuses less.
#ifdef __TARGET_ARCH_x86
struct regs {
	u64 r15, r14, r13, r12, bp, bx, r11, r10, r9, r8, ax, cx, dx, si, di;
	u64 orig_ax, ip, cs, flags, sp, ss;
};
#define IP(r) (r)->ip
#define FP(r) (r)->bp
#define MODE(r) (r)->cs
#define USER_MODE(mode) (((mode) & 3) == 3)
#define NO_SYSCALL(r) ((s64)(r)->orig_ax == -1)
#define SP(r) (r)->sp
#define LR(r) 0
#else
struct regs {
	u64 x[31], sp, pc, pstate;
	u64 orig_x0; // from here on for task_pt_regs alone
	s32 syscallno;
};
#define IP(r) (r)->pc
#define FP(r) (r)->x[29]
#define MODE(r) (r)->pstate
#define USER_MODE(mode) (((mode) & 15) == 0)
#define NO_SYSCALL(r) ((r)->syscallno == -1)
#define SP(r) (r)->sp
#define LR(r) (r)->x[30]
#endif
#define USER(r) USER_MODE(MODE(r))

// What is asked for. Both are empty, and the flags 0, where all processes are.
struct {
	__uint(type, HASH);
	__uint(max_entries, 1);
	__type(key, u32); // process
	__type(value, u8);
} pids SEC(".maps");

struct {
	__uint(type, HASH);
	__uint(max_entries, 1);
	__type(key, u64); // ID of a cgroup
	__type(value, u8);
} cgroups SEC(".maps");

const volatile u8 by_pid;    // only processes in pids
const volatile u8 by_cgroup; // only what is below cgroups

enum { MAX_LEVEL = 16 }; // of cgroups

inline_ int wanted(u32 tgid)
{
	if (!by_pid && !by_cgroup)
		return 1;
	if (by_pid && map_lookup(&pids, &tgid))
		return 1;
	if (by_cgroup)
		for (int level = 0; level < MAX_LEVEL; level++) {
			u64 id = get_current_ancestor_cgroup_id(level);
			if (!id)
				break;
			if (map_lookup(&cgroups, &id))
				return 1;
		}
	return 0;
}

// The start of struct bpf_perf_event_data. Of its regs, those from orig_x0 on do
// not exist.
struct perf_event_data {
#ifdef __TARGET_ARCH_x86
	struct regs regs;
#else
	struct {
		u64 x[31], sp, pc, pstate;
	} regs;
#endif
	u64 sample_period; // of an event of software, what it stands for
};

#ifdef __TARGET_ARCH_x86
// The condition codes of a branch's opcode (Intel SDM 2, appendix B.1.4.7): bit 0
// negates what the others say.
inline_ int taken(u64 flags, u32 cond)
{
	u32 cf = flags & 1, pf = flags >> 2 & 1, zf = flags >> 6 & 1, sf = flags >> 7 & 1, of = flags >> 11 & 1, r;
	switch (cond >> 1) {
	case 0: r = of; break;
	case 1: r = cf; break;
	case 2: r = zf; break;
	case 3: r = cf | zf; break;
	case 4: r = sf; break;
	case 5: r = pf; break;
	case 6: r = sf ^ of; break;
	case 7: r = zf | (sf ^ of); break;
	default: return 0;
	}
	return r ^ (cond & 1);
}
#define FLAGS(r) (r)->flags
#else
// The conditions of A64 (Arm ARM, C1.2.4): bit 0 negates what the others say, but for those of always.
inline_ int taken(u64 flags, u32 cond)
{
	u32 n = flags >> 31 & 1, z = flags >> 30 & 1, c = flags >> 29 & 1, v = flags >> 28 & 1, r;
	switch (cond >> 1) {
	case 0: r = z; break;
	case 1: r = c; break;
	case 2: r = n; break;
	case 3: r = v; break;
	case 4: r = c & ~z; break;
	case 5: r = n == v; break;
	case 6: r = n == v && !z; break;
	default: return 1;
	}
	return r ^ (cond & 1);
}
#define FLAGS(r) (r)->pstate
#endif
