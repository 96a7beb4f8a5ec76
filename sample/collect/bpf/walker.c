// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

// The kernel's side of a Walker: from where a sample interrupted a thread, it emulates
// the instructions that the thread is about to run, with its registers and memory, and
// writes down where branches go. Nothing of the thread is changed: what it would store is kept
// aside. See walker_linux.go; walk.h, walkx86.h and walkarm.h are the emulator.

#include "kernel.h"
#include "samples.h"
#ifdef __TARGET_ARCH_x86
#include "walkx86.h"
#else
#include "walkarm.h"
#endif

#define KEPT 10000000000 // ns that a range is kept

struct {
	__uint(type, RINGBUF);
	__uint(max_entries, 1 << 21);
} trails SEC(".maps");

struct file_key {
	u64 ino;
	u32 dev, pad;
};

// An image is a file with the part of it that is code.
struct image {
	u64 lo, hi; // offsets in the file
	u64 delta;  // address as linked, less offset
	u64 first;  // address as linked of its first page
	u32 pages;  // of that page, in pages
	u32 many;   // pages
};

struct {
	__uint(type, HASH);
	__uint(max_entries, 1);
	__type(key, struct file_key);
	__type(value, struct image);
} images SEC(".maps");

// Totals of one processor.
struct totals {
	u64 walks, steps;
	u64 spent;  // ns that walks took
	u64 earned; // ns that they may take
	u64 ends[ENDS];
	u64 walk; // number of the last one
	u64 lost; // whose trails were dropped: ring full
};

struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct totals);
} totals SEC(".maps");

volatile u32 share;         // of the processor time that walks may take, in 1 / 2^20
const volatile u32 unit;     // of the event, in 1 / 1024 ns
const volatile u32 page_shift; // of the kernel's pages, which need not be those of images here

// OVERHEAD is what a walk takes beside what the clock sees of it. What was not used up is
// good for so much at once.
enum { OVERHEAD = 300, SAVED = 1000000 }; // ns

static long (*loop)(u32 n, void *f, void *ctx, u64 flags) = (void *)181;
static long (*find_vma)(struct task_struct *task, u64 addr, void *f, void *ctx, u64 flags) = (void *)180;

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
struct super_block {
	u32 s_dev;
};
struct inode {
	u64 i_ino;
	struct super_block *i_sb;
};
struct dentry {
	struct inode *d_inode;
};
struct path {
	struct dentry *dentry;
};
struct file {
	u32 f_mode;
	struct inode *f_inode;
};
struct backing_file { // since Linux 6.5
	struct path user_path;
};
struct vm_area_struct {
	u64 vm_start, vm_end, vm_pgoff;
	struct file *vm_file;
};
#ifdef __TARGET_ARCH_x86
struct thread_struct {
	u64 fsbase;
};
#define TLS_OF(task) ((struct task_struct___walk *)(task))->thread.fsbase
#else
struct thread_words {
	u64 tp_value; // when the thread was last taken off a processor; 0 if it never was
};
struct thread_struct {
	struct thread_words uw;
};
#define TLS_OF(task) ((struct task_struct___walk *)(task))->thread.uw.tp_value
#endif
struct task_struct___walk {
	struct thread_struct thread;
};
#pragma clang attribute pop

// image_of returns what is known of a file; 0 if nothing.
inline_ struct image *image_of(struct inode *inode)
{
	struct super_block *sb = 0;
	struct file_key key = {};
	if (probe_read_kernel(&key.ino, sizeof key.ino, &inode->i_ino) || probe_read_kernel(&sb, sizeof sb, &inode->i_sb) ||
	    probe_read_kernel(&key.dev, sizeof key.dev, &sb->s_dev))
		return 0;
	return map_lookup(&images, &key);
}

enum { OFFSET = 0, EXISTS = 2 }; // enum bpf_field_info_kind

// FMODE_BACKING was bit 25 before Linux 6.14. A file that has the wrong one of them is
// looked at for nothing.
enum { BACKING = 1 << 24 | 1 << 25 };

// opened returns the inode of a mapped file for those who opened it, which for a file of
// overlayfs is not the one that it is kept in; 0 if they are the same.
inline_ struct inode *opened(struct file *file)
{
	struct dentry *dentry = 0;
	struct inode *inode = 0;
	if (!(file->f_mode & BACKING) || !__builtin_preserve_field_info(((struct backing_file *)0)->user_path, EXISTS))
		return 0;
	u32 at = __builtin_preserve_field_info(((struct backing_file *)0)->user_path.dentry, OFFSET);
	if (!probe_read_kernel(&dentry, sizeof dentry, (void *)file + at))
		probe_read_kernel(&inode, sizeof inode, &dentry->d_inode);
	return inode;
}

// look fills in the range of a mapping.
static long look(struct task_struct *task, struct vm_area_struct *vma, struct range *r)
{
	r->lo = vma->vm_start;
	r->hi = vma->vm_end;
	struct file *file = vma->vm_file;
	if (!file)
		return 0;
	struct image *im = image_of(file->f_inode);
	if (!im) {
		struct inode *inode = opened(file);
		im = inode ? image_of(inode) : 0;
	}
	if (!im)
		return 0;
	u64 off = vma->vm_pgoff << page_shift, end = off + vma->vm_end - vma->vm_start;
	if (end <= im->lo || off >= im->hi)
		return 0;
	r->bias = vma->vm_start - off - im->delta;
	r->first = im->first;
	r->pages = im->pages;
	r->many = im->many;
	return 0;
}

enum { STRIDE = 16 }; // steps for each call of the helper that loops

static long stride(u32 i, void *ctx)
{
	for (int j = 0; j < STRIDE; j++)
		if (one())
			return 1;
	return 0;
}

// begin takes over the registers of a thread.
#ifdef __TARGET_ARCH_x86
inline_ void begin(struct state *s, struct perf_event_data *ctx)
{
	s->regs[0] = ctx->regs.ax;
	s->regs[1] = ctx->regs.cx;
	s->regs[2] = ctx->regs.dx;
	s->regs[3] = ctx->regs.bx;
	s->regs[4] = ctx->regs.sp;
	s->regs[5] = ctx->regs.bp;
	s->regs[6] = ctx->regs.si;
	s->regs[7] = ctx->regs.di;
	s->regs[8] = ctx->regs.r8;
	s->regs[9] = ctx->regs.r9;
	s->regs[10] = ctx->regs.r10;
	s->regs[11] = ctx->regs.r11;
	s->regs[12] = ctx->regs.r12;
	s->regs[13] = ctx->regs.r13;
	s->regs[14] = ctx->regs.r14;
	s->regs[15] = ctx->regs.r15;
	s->known = 0x1ffff;
	set_flags(s, FK_RAW, 8, ctx->regs.flags, 0, 0);
}
#else
inline_ void begin(struct state *s, struct perf_event_data *ctx)
{
#pragma unroll
	for (int i = 0; i < 31; i++) // a field of a context is loaded by itself
		s->regs[i] = ctx->regs.x[i];
	s->regs[31] = ctx->regs.sp;
	s->fa = ctx->regs.pstate & (NF | ZF | CF | VF);
	s->known = 0xffffffff | FLAGS_KNOWN;
}
#endif

static __attribute__((noinline)) int walk(struct perf_event_data *ctx, struct totals *t)
{
	struct state *s = state();
	if (!s)
		return END_START;
	struct task_struct *task = get_current_task_btf();
	u32 tgid = task->tgid;
	struct space_key key = {.born = born(tgid), .tgid = tgid};
	u64 pc = IP(&ctx->regs), now = ktime_get_ns();
	struct space *sp = map_lookup(&spaces, &key);
	struct range *r = sp ? range(sp, pc) : 0;
	struct range found = {.until = now + KEPT};
	if (!r || r->until < now) {
		// There can be but one look in an interrupt: what a walk goes on to has to be known.
		if (find_vma(task, pc, look, &found, 0))
			return END_START;
		if (!sp) {
			s->fresh.ranges[0] = found;
			s->fresh.n = 1;
			map_update(&spaces, &key, &s->fresh, 0);
		} else if (r) {
			*r = found;
		} else {
			// Without a lock: at worst a range is looked for once more.
			sp->ranges[sp->n++ & (RANGES - 1)] = found;
		}
	} else if (sp->wanted) {
		if (!range(sp, sp->wanted) && !find_vma(task, sp->wanted, look, &found, 0))
			sp->ranges[sp->n++ & (RANGES - 1)] = found;
		sp->wanted = 0;
	}
	s->key = key;
	s->lo = s->hi = 0;
	if (!enter(s, pc))
		return END_START;
	s->walk = ++t->walk;
	s->vknown = 0;
	s->tls = TLS_OF(task);
	begin(s, ctx);
	__builtin_memset(&s->trail, 0, __builtin_offsetof(struct trail, target));
	s->trail.start = s->pc;
	s->left = longest;
	s->end = END_LENGTH;
	s->guesses = 0;
	loop(longest / STRIDE, stride, 0, 0);
	s->trail.steps = longest - s->left;
	s->trail.end = s->end;
	t->steps += s->trail.steps;
	u32 n = s->trail.targets & (2 * MOST_TARGETS - 1);
	// Who wants to know looks now and then.
	if (n <= MOST_TARGETS && ringbuf_output(&trails, &s->trail, __builtin_offsetof(struct trail, target) + n * 4, NO_WAKEUP))
		t->lost++;
	return s->end;
}

// earn gives walks their share of the time that a sample stands for; it reports whether there
// may be one.
inline_ int earn(struct totals *t)
{
	u32 at = get_smp_processor_id() * EVENTS; // the first event is that of time
	u64 *worth = map_lookup(&worths, &at);
	if (!worth)
		return 0;
	t->earned += (*worth * unit >> 10) * share >> 20;
	if (t->spent > t->earned)
		return 0;
	if (t->earned - t->spent > SAVED)
		t->earned = t->spent + SAVED;
	return 1;
}

SEC("perf_event") int walker(struct perf_event_data *ctx)
{
	u32 zero = 0;
	struct totals *t = map_lookup(&totals, &zero);
	if (!t || !USER(&ctx->regs) || !share)
		return 0;
	u32 tgid = get_current_pid_tgid() >> 32;
	if (!tgid || !wanted(tgid))
		return 0;
	if (!earn(t) || disturbed())
		return 0;
	u64 from = ktime_get_ns();
	u32 end = walk(ctx, t);
	t->spent += ktime_get_ns() - from + OVERHEAD;
	t->walks++;
	if (end < ENDS)
		t->ends[end]++;
	return 0;
}
