// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

// What a walk is on any processor: the operations that it goes through, the memory that it has seen
// and would have written, the code that it may enter, and the trail that it leaves. What an operation
// does is in walkx86.h and walkarm.h.
//
// An index into an array goes through within(): what the compiler knows of its bounds, a verifier does not
// always see (that of Linux 6.1 after | of 32 bits).

#include "op.h"

// A line is memory of the thread as a walk found it, with what the walk would have written since. To
// read it takes 100 ns, however little of it; what is here before takes 10.
struct line {
	u64 at;    // address / LINE
	u64 walk;  // number of the walk that passed through it
	u64 known; // bit by byte
	u64 wrote; // something was written to it
};

enum { LINE = 64, LINES = 256, PROBES = 8 };

// A range is a part of a file as a process maps it.
struct range {
	u64 lo, hi; // runtime addresses
	u64 bias;   // of them against addresses as linked
	u64 until;  // when it is to be looked for anew: a file may be mapped elsewhere
	u64 first;  // address as linked of its first page
	u32 pages;  // of that page, in pages
	u32 many;   // pages; 0 where its file is none of images
};

enum { RANGES = 8 };

// A space is what of a process was found mapped so far.
struct space {
	struct range ranges[RANGES];
	u32 n;
	u32 pad;
	u64 wanted; // where a walk went on to, in no range; 0 is nowhere
};

// A space_key names a version of a process.
struct space_key {
	u64 born;
	u32 tgid, pad;
};

struct state {
	u64 regs[REGS];
	u64 v[64];  // words of vector registers, VWORDS each
	u64 vknown; // bit by word
	u64 known;  // bit by register, and FLAGS_KNOWN
	u64 walk;
	u32 pc; // index of an operation
	u32 left; // operations to go
	u32 end;
	u32 guesses;
	// The flags: of x86-64, those of the last operation that set some; of AArch64, fa has them.
	u32 fkind, fsize;
	u64 fa, fb, fr;
	u64 val; // what fetch found
	u64 ea;  // where an operation accesses memory
	u64 a, b, r; // of x86-64: its operands, and what it makes of them
	u64 next; // of AArch64: what its base becomes
	u32 kea, ka, kb, kr, knext; // whether they are known
	u32 wsize; // of r
	u64 bias, lo, hi, first; // of the range where it is
	u32 pages, many;
	u64 tls;  // what addresses of the thread's own variables are relative to
	struct space_key key;
	struct space fresh; // nothing but its first range; a stack has no room for it
	struct trail trail;
	struct line lines[LINES];
	u64 words[LINES * (LINE / 8)]; // by line
};

const volatile u32 longest; // operations of a walk, at most
const volatile u32 guesses; // branches of a walk whose way may be guessed

struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct state);
} states SEC(".maps");

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct op);
} ops SEC(".maps");

// Operations by address: that at byte b of page p of an image is starts[pages[p] * PAGE + b],
// and none where pages[p] is 0.
enum { PAGE = 4096 };

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} pages SEC(".maps");

struct {
	__uint(type, ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, u32);
} starts SEC(".maps");

struct {
	__uint(type, LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct space_key);
	__type(value, struct space);
} spaces SEC(".maps");

inline_ struct state *state(void)
{
	u32 zero = 0;
	return map_lookup(&states, &zero);
}

inline_ u64 mask(u32 size) { return size >= 8 ? ~0ull : (1ull << (size * 8)) - 1; }

// within returns i & most, of an index into an array of most + 1, where the verifier sees it.
inline_ u64 within(u64 i, const u64 most)
{
#ifdef __bpf__
	__asm__ volatile("%0 &= %1" : "+r"(i) : "i"(most));
	return i;
#else
	return i & most;
#endif
}

// word returns word i, which wraps around, of the line with an index.
inline_ u64 *word(struct state *s, u32 line, u32 i)
{
	return &s->words[within(line * (LINE / 8) + (i & (LINE / 8 - 1)), LINES * (LINE / 8) - 1)];
}

// find returns the index of the line at n * LINE, which is read if the walk did not pass through it before;
// LINES if there is no room for it. Bytes that cannot be read are not known until they are written.
inline_ u32 find(struct state *s, u64 n)
{
	// Neighbours, of which there are many, lie apart, and so do the places where one is looked for.
	u32 h = n * 0x9e3779b97f4a7c15 >> 40, way = h / LINES | 1, room = LINES;
	for (int i = 0; i < PROBES; i++) {
		u32 at = (h + i * way) & (LINES - 1);
		struct line *l = &s->lines[at];
		if (l->walk != s->walk) {
			room = at;
			break;
		}
		if (l->at == n)
			return at;
		if (!l->wrote)
			room = at; // it can be read once more
	}
	if (room >= LINES)
		return LINES;
	struct line *l = &s->lines[room];
	l->at = n;
	l->walk = s->walk;
	l->wrote = 0;
	l->known = probe_read_user(word(s, room, 0), LINE, (void *)(n * LINE)) ? 0 : ~0ull;
	return room;
}

// fetch reads size bytes of memory into val; it gives 1 if all of them are known.
__attribute__((noinline)) int fetch(u64 addr, u32 size)
{
	struct state *s = state();
	if (!s)
		return 0;
	s->val = 0;
	u32 off = addr & (LINE - 1), at = find(s, addr / LINE), shift = off % 8 * 8;
	if (at >= LINES)
		return 0;
	u64 v = *word(s, at, off / 8) >> shift, known = s->lines[at].known >> off;
	if (off + size > LINE) {
		if ((at = find(s, addr / LINE + 1)) >= LINES)
			return 0;
		known |= s->lines[at].known << (LINE - off);
	}
	if (shift + size * 8 > 64)
		v |= *word(s, at, off / 8 + 1) << (64 - shift);
	s->val = v & mask(size);
	u64 all = (1ull << size) - 1;
	return (known & all) == all;
}

// put writes those bits of word i of a line that are in m.
inline_ void put(struct state *s, u32 line, u32 i, u64 m, u64 v)
{
	u64 *w = word(s, line, i);
	*w = (*w & ~m) | (v & m);
}

// write notes that bytes of a line are written, which from then on stays.
inline_ void write(struct line *l, u64 bytes, int known)
{
	l->known = known ? l->known | bytes : l->known & ~bytes;
	l->wrote = 1;
}

inline_ int no_room(struct state *s)
{
	s->end = END_ROOM;
	return 0;
}

// store keeps what would be stored; 0 if there is no room for it.
__attribute__((noinline)) int store(u64 addr, u32 size, u64 v, int known)
{
	struct state *s = state();
	if (!s)
		return 0;
	u32 off = addr & (LINE - 1), at = find(s, addr / LINE), shift = off % 8 * 8;
	if (at >= LINES)
		return no_room(s);
	u64 m = mask(size), bytes = (1ull << size) - 1;
	write(&s->lines[at], bytes << off, known);
	put(s, at, off / 8, m << shift, v << shift);
	if (off + size > LINE) {
		if ((at = find(s, addr / LINE + 1)) >= LINES)
			return no_room(s);
		write(&s->lines[at], bytes >> (LINE - off), known);
	}
	if (shift + size * 8 > 64)
		put(s, at, off / 8 + 1, m >> (64 - shift), v >> (64 - shift));
	return 1;
}

inline_ void know_flags(struct state *s, int known)
{
	if (known & 1)
		s->known |= FLAGS_KNOWN;
	else
		s->known &= ~FLAGS_KNOWN;
}

inline_ s64 extend(u64 v, u32 size)
{
	u32 shift = 64 - size * 8;
	return (s64)(v << (shift & 63)) >> (shift & 63);
}

inline_ u64 high(u64 a, u64 b)
{
	u64 al = a & 0xffffffff, ah = a >> 32, bl = b & 0xffffffff, bh = b >> 32;
	u64 mid = ah * bl + (al * bl >> 32), mid2 = al * bh + (mid & 0xffffffff);
	return ah * bh + (mid >> 32) + (mid2 >> 32);
}

// set_word sets word at of the vector registers.
inline_ void set_word(struct state *s, u32 at, u64 v, int known)
{
	at &= 63;
	s->v[within(at, 63)] = v;
	s->vknown = (s->vknown & ~(1ull << at)) | (u64)(known & 1) << at;
}

// range returns the range of pc, if it was found already.
inline_ struct range *range(struct space *sp, u64 pc)
{
	for (int i = 0; i < RANGES; i++)
		if (pc >= sp->ranges[i].lo && pc < sp->ranges[i].hi)
			return &sp->ranges[i];
	return 0;
}

// enter finds the operation at a runtime address.
inline_ int enter(struct state *s, u64 pc)
{
	if (pc - s->lo >= s->hi - s->lo) {
		struct space *sp = map_lookup(&spaces, &s->key);
		struct range *r = sp ? range(sp, pc) : 0;
		if (sp && !r)
			sp->wanted = pc;
		s->trail.left = 0;
		if (!r || !r->many)
			return 0;
		s->lo = r->lo;
		s->hi = r->hi;
		s->bias = r->bias;
		s->first = r->first;
		s->pages = r->pages;
		s->many = r->many;
	}
	s->trail.left = pc - s->bias;
	s->trail.pages = s->pages;
	u64 at = s->trail.left - s->first;
	if (at >> 12 >= s->many)
		return 0;
	u32 p = s->pages + (at >> 12);
	u32 *page = map_lookup(&pages, &p);
	if (!page || !*page)
		return 0;
	u32 b = *page * PAGE + (at & (PAGE - 1));
	u32 *op = map_lookup(&starts, &b);
	if (!op || !*op)
		return 0;
	s->pc = *op;
	return 1;
}

inline_ int stop(struct state *s, u32 why)
{
	s->end = why;
	return 1;
}

// guess says whether a branch is taken of which that is not known: as often taken as not,
// and most of the time back.
inline_ int guess(struct state *s, int back)
{
	u64 h = (s->walk << 16 ^ s->trail.outcomes) * 0x9e3779b97f4a7c15;
	return (h >> 60) < (back ? 14 : 8);
}

// decide says whether the conditional branch op is taken, of which to is it if it is known; 2 is no further.
inline_ int decide(struct state *s, struct op *op, int known, int to)
{
	u32 n = s->trail.outcomes++;
	if (n >= MOST_OUTCOMES) {
		s->end = END_ROOM;
		return 2;
	}
	u64 bit = 1ull << (n & 63), at = within(n / 64, MOST_OUTCOMES / 64 - 1);
	if (!known) {
		if (s->guesses++ >= guesses) {
			s->trail.outcomes = n;
			s->end = END_BRANCH;
			return 2;
		}
		to = guess(s, op->to <= s->pc);
		s->trail.guessed[at] |= bit;
	}
	if (to)
		s->trail.taken[at] |= bit;
	return to;
}

// go_on is for what control just passes.
inline_ int go_on(struct state *s)
{
	s->pc++;
	return 0;
}

// jump goes to the target of a direct branch.
inline_ int jump(struct state *s, struct op *op)
{
	s->pc = op->to;
	return op->to ? 0 : stop(s, END_OUTSIDE);
}

// jump_to goes to a runtime address, if it is known.
inline_ int jump_to(struct state *s, u64 to, int known)
{
	if (!known)
		return stop(s, END_BRANCH);
	if (!enter(s, to))
		return stop(s, END_OUTSIDE);
	u32 n = s->trail.targets;
	if (n >= MOST_TARGETS)
		return stop(s, END_ROOM);
	s->trail.target[within(n, MOST_TARGETS - 1)] = s->pc;
	s->trail.targets = n + 1;
	return 0;
}
