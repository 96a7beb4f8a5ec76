// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

// The unwinder of stacks: by rows of .eh_frame where user space has put some, else by frame pointers. See
// unwinder_linux.go, and package unwind for rows.
//
// What the loops change lies in maps, of which the verifier follows no values: all passes of a
// loop then look the same to it. Linux before 6.2 would tell scalars apart, and never come to an end.

enum { ARRAY_OF_MAPS = 12, INNER_MAP = 1 << 12 }; // of include/uapi/linux/bpf.h
#define __array(name, val) typeof(val) *name[]

enum { MOST_FRAMES = 127, MOST_MAPPINGS = 255, MOST_ROWS = 1 << 22 };

// A key is a place: a pc of one version of a process. Kernel samples have no
// process.
struct key {
	u64 ip;   // 0: in the kernel, place not asked for
	u64 born; // time of the last exec, odd, or of the fork, even, in ns of CLOCK_MONOTONIC
	u32 tgid; // 0: in the kernel, process not asked for
	u32 event; // with IN_KERNEL, if tgid is of a sample there; of offcpu.c, the reason
	char comm[16]; // name of the thread; "": not asked for
	u64 slice; // of time; 0: not asked for, or the date is not known
};

enum { SLICE = 125000000 }; // ns, as sample.LeastSlice

const volatile u8 with_origins; // keep the names of threads, slices, and whose samples of the kernel are
const volatile u64 epoch; // ns since 1970 when CLOCK_MONOTONIC began; 0: not asked for, or unknown

// slice_at is the slice of time that a moment of CLOCK_MONOTONIC is in, as package sample numbers them.
inline_ u64 slice_at(u64 ns)
{
	return epoch ? (ns + epoch) / SLICE : 0;
}

// A call is a user sample with the words where its caller may be.
struct call {
	struct key key;
	u64 frame;  // above the frame pointer
	u64 top[2]; // at the stack pointer; arm64 has no return address there
};

// A place is where a thread is in user mode.
struct place {
	u64 ip, fp, sp, lr;
};

// An outcome is what became of a thread that left the processor.
struct outcome {
	u64 waited; // until it could run, in ns
	u64 queued; // from then on, until it did
	u64 counts; // for so many like it
};

// A mapping is code of a process.
struct mapping {
	u64 lo, hi;
	u32 page;  // of the file, that lo has
	u32 table; // index in tables plus 1, or 0; FRAMES is set if code without a row keeps frame pointers
};

#define FRAMES (1u << 31)

// A space is what a version of a process has mapped.
struct space {
	u64 born; // as in struct key
	u64 n;
	struct mapping mappings[MOST_MAPPINGS]; // by lo
};

struct {
	__uint(type, HASH);
	__uint(max_entries, 1);
	__type(key, u32); // process
	__type(value, struct space);
} spaces SEC(".maps");

// Processes whose mappings, or some of them, were missing.
struct {
	__uint(type, HASH);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u64); // born
} wants SEC(".maps");

struct table {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__uint(map_flags, INNER_MAP);
	__type(key, u32);
	__type(value, u64); // a row
};

struct {
	__uint(type, ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, u32);
	__array(values, struct table);
} tables SEC(".maps");

// An unwinding is the state of one, and what goes through the ring of it.
struct unwinding {
	u64 pc, sp, fp;
	u64 lr; // of arm64, while exact
	u64 row;
	u32 tgid;
	u32 at;   // of a search
	u32 n;    // of pcs
	u8 lost;  // fp is not the frame's
	u8 bound; // the frame's stack pointer may be above sp
	u8 exact; // pc is that of an instruction, not the one after a call
	u8 rows;  // the last step was by a row
	struct outcome outcome; // of offcpu.c, which keeps all from here on
	struct call call;
	u64 pcs[MOST_FRAMES + 1]; // return addresses, innermost first
};

struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct unwinding);
} unwindings SEC(".maps");

const volatile u32 with_frames; // unwind so many frames at most

const volatile u64 address_bits; // of code in user mode: the others of a return address may be a signature

// Kind of package unwind.
enum { BY_NONE, BY_SP, BY_FP, BY_PLT, BY_SIGNAL, BY_END, BY_LINK = 1 << 4, BY_PAIR = 1 << 5, BY_ALONE = 1 << 6, BY_UP = 1 << 7 };
enum { BY_FLAGS = BY_LINK | BY_PAIR | BY_ALONE | BY_UP };
enum { FP_SAME = 0, FP_LOST = 255 };

// Where a signal's frame has registers.
#ifdef __TARGET_ARCH_x86
enum { SAVED_FP = 120, SAVED_SP = 160, SAVED_PC = 168 }; // arch/x86/include/uapi/asm/sigcontext.h
#else
enum { SAVED_FP = 544, SAVED_LR = 552, SAVED_SP = 560, SAVED_PC = 568 }; // struct rt_sigframe of arch/arm64/kernel/signal.c
#endif

// What the handler of a signal returns to on arm64: mov x8, #139; svc #0. Few say so by rows.
#define SIGRETURN 0xd4000001d2801168

// How far below the stack pointer a frame pointer may be: on AArch64, Go keeps that of a function a word below it
// (Frame layout of src/cmd/compile/abi-internal.md).
#ifdef __TARGET_ARCH_x86
enum { FP_BELOW = 0 };
#else
enum { FP_BELOW = 8 };
#endif

inline_ int read(u64 *to, u64 from)
{
	return probe_read_user(to, sizeof *to, (void *)from);
}

// find_row sets row to the last of a table that begins at off or before; 0 if there is none. It counts those
// that do: beyond the table's end, a look finds nothing.
__attribute__((noinline)) int find_row(u32 table, u32 off)
{
	u32 zero = 0;
	struct unwinding *u = map_lookup(&unwindings, &zero);
	if (!u)
		return 0;
	u->row = 0;
	u->at = 0;
	void *rows = map_lookup(&tables, &table);
	if (!rows)
		return 0;
	for (u32 step = MOST_ROWS; step; step >>= 1) {
		u32 i = u->at + step - 1;
		u64 *row = map_lookup(rows, &i);
		if (row && (u32)*row <= off) {
			u->at += step;
			u->row = *row;
		}
	}
	return 0;
}

// by_signal goes from a signal's frame to where it struck, and reports whether it could not.
inline_ int by_signal(struct unwinding *u)
{
	u64 pc, fp, sp;
	if (read(&pc, u->sp + SAVED_PC) || read(&fp, u->sp + SAVED_FP) || read(&sp, u->sp + SAVED_SP))
		return 1;
#ifndef __TARGET_ARCH_x86
	if (read(&u->lr, u->sp + SAVED_LR))
		return 1;
#endif
	u->pc = pc;
	u->fp = fp;
	u->sp = sp;
	u->lost = 0;
	u->exact = 1;
	u->rows = 1;
	return 0;
}

// by_row goes to the caller as a row of the kinds by a register says, or that of a PLT, and reports whether it could not.
// exact is what u->exact was.
#ifdef __TARGET_ARCH_x86
inline_ int by_row(struct unwinding *u, u64 pc, u32 exact)
{
	u32 kind = u->row >> 56, saved = u->row >> 48 & 255;
	u64 words = u->row >> 32 & 0xffff, ra, fp, cfa = u->sp + words * 8;
	if (kind == BY_FP) {
		if (u->lost)
			return 1;
		cfa = u->fp + words * 8;
	} else if (kind == BY_PLT) {
		cfa = u->sp + 8 + (((pc & 15) >= words) << 3);
	}
	if (cfa <= u->sp || read(&ra, cfa - 8) || !ra)
		return 1;
	if (saved == FP_LOST) {
		u->lost = 1;
	} else if (saved != FP_SAME) {
		if (read(&fp, cfa - saved * 8))
			return 1;
		u->fp = fp;
		u->lost = 0;
	}
	u->pc = ra;
	u->sp = cfa;
	u->rows = 1;
	return 0;
}
#else
inline_ int by_row(struct unwinding *u, u64 pc, u32 exact)
{
	u32 kind = u->row >> 56;
	u64 saved = (u->row >> 48 & 255) * 8, size = (u->row >> 32 & 0xffff) * 8, ra, fp, cfa, at;
	u64 above = kind & BY_UP ? saved : size - saved; // the place that is told of, from the register on
	if ((kind & ~BY_FLAGS) == BY_FP || u->bound) {
		// Where the frame pointer is known alone, it points to the pair, unless the row says that it does otherwise.
		if (u->lost || ((kind & ~BY_FLAGS) != BY_FP && !(kind & BY_PAIR)))
			return 1;
		at = u->fp;
		if ((kind & ~BY_FLAGS) == BY_FP)
			at += above;
	} else {
		at = u->sp + above;
	}
	cfa = at - above + size;
	if (kind & BY_LINK) {
		if (!exact) // it has called since, and so has another return address in the register
			return 1;
		ra = u->lr;
	} else if (read(&ra, kind & BY_PAIR ? at + 8 : at) || cfa == u->sp) {
		return 1;
	}
	ra &= address_bits;
	if (cfa < u->sp || !ra)
		return 1;
	if (kind & BY_LINK && !(kind & BY_UP) && saved == FP_LOST * 8) {
		u->lost = 1;
	} else if (kind & BY_PAIR || (kind & BY_LINK && (kind & BY_UP || saved != FP_SAME))) {
		if (read(&fp, at))
			return 1;
		u->fp = fp;
		u->lost = 0;
	}
	u->pc = ra;
	u->sp = cfa;
	u->bound = 0;
	u->rows = 1;
	return 0;
}
#endif

// step goes from a frame to that of its caller, and reports whether it could not.
__attribute__((noinline)) int step(u64 born)
{
	u32 zero = 0;
	struct unwinding *u = map_lookup(&unwindings, &zero);
	if (!u)
		return 1;
	u64 ra, fp, pc = u->pc - !u->exact; // into the call
	u32 tgid = u->tgid, table = 0, off = 0, kind = BY_NONE, exact = u->exact;
	struct space *s = map_lookup(&spaces, &tgid);
	u->row = 0;
	u->at = 0;
	u->exact = 0;
	u->rows = 0;
	if (s && s->born == born) {
		for (u32 step = 128; step; step >>= 1) {
			u32 i = u->at + step - 1;
			if (i < MOST_MAPPINGS && i < s->n && s->mappings[i].lo <= pc)
				u->at += step;
		}
		u32 i = u->at - 1;
		if (i < MOST_MAPPINGS && pc < s->mappings[i].hi) {
			struct mapping *m = &s->mappings[i];
			table = m->table;
			off = pc - m->lo + ((u64)m->page << 12);
		} else {
			map_update(&wants, &tgid, &born, 0);
		}
	} else {
		map_update(&wants, &tgid, &born, 0);
	}
	if (table & ~FRAMES) {
		find_row((table & ~FRAMES) - 1, off);
		kind = u->row >> 56;
	}
#ifndef __TARGET_ARCH_x86
	u64 code;
	if (kind == BY_NONE && !read(&code, u->pc) && code == SIGRETURN)
		kind = BY_SIGNAL;
#endif
	if (kind == BY_END)
		return 1;
	if (kind == BY_SIGNAL && !u->bound)
		return by_signal(u);
	if (kind != BY_NONE && kind != BY_SIGNAL)
		return by_row(u, pc, exact);
	if (table & ~FRAMES && !(table & FRAMES))
		return 1;
	if (u->lost || u->fp + FP_BELOW < u->sp || read(&fp, u->fp) || read(&ra, u->fp + 8))
		return 1;
	ra &= address_bits;
	if (!ra)
		return 1;
	u->sp = u->fp + 16;
	u->fp = fp;
	u->pc = ra;
#ifndef __TARGET_ARCH_x86
	u->bound = 1; // what else is in a frame lies above the pair
#endif
	return 0;
}

// unwind_stack finds the return addresses of the stack of the current thread, which a process of that birth runs. It
// returns nothing where there is no room to put them.
inline_ struct unwinding *unwind_stack(struct place *p, struct call *call)
{
	u32 zero = 0;
	struct unwinding *u = map_lookup(&unwindings, &zero);
	if (!u)
		return 0;
	u->pc = p->ip;
	u->sp = p->sp;
	u->fp = p->fp;
	u->lr = p->lr;
	u->tgid = call->key.tgid;
	u->n = 0;
	u->lost = 0;
	u->bound = 0;
	u->exact = 1;
	u->call = *call;
	for (u32 k = 0; k < MOST_FRAMES && k < with_frames; k++) {
		if (step(call->key.born))
			break;
		// Where a row told of the caller, the words at the stack pointer need not be looked through for it.
		if (k == 0 && !u->rows) {
#ifdef __TARGET_ARCH_x86
			probe_read_user(&u->call.top, sizeof u->call.top, (void *)p->sp);
#endif
		}
		u->pcs[k] = u->pc;
		u->n = k + 1;
	}
	return u;
}
