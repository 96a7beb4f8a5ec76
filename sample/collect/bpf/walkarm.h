// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

// What A64's instructions do. What the operations stand for is in oparm.h.

enum { REGS = 32, VWORDS = 2 }; // register 31 is the stack pointer
#define FLAGS_KNOWN (1ull << 32)
#define EXCLUSIVE (1ull << 33) // beside what is known: a load began an exclusive access, at fb

#include "walk.h"
#include "oparm.h"

_Static_assert(CLOBBER < CALL, "kinds of walk.h");

enum { NF = 1u << 31, ZF = 1u << 30, CF = 1u << 29, VF = 1u << 28 };

// The bits of an address of user space, of 48 bits; others are a tag or a signature.
#define USER_ADDRESS ((1ull << 48) - 1)

inline_ u64 ones(u32 bits) { return bits >= 64 ? ~0ull : (1ull << (bits & 63)) - 1; }

// shifted returns a second operand.
static __attribute__((noinline)) u64 shifted(u64 v, u32 how, u32 n, u32 size)
{
	u32 bits = size * 8;
	n &= bits - 1 & 63;
	if (how <= ROR)
		v &= mask(size);
	switch (how) {
	case LSL: case UXTX: case SXTX: return v << n;
	case LSR: return v >> n;
	case ASR: return extend(v, size) >> n;
	case ROR: return n ? v >> n | v << (bits - n & 63) : v;
	case UXTB: return (v & 0xff) << n;
	case UXTH: return (v & 0xffff) << n;
	case UXTW: return (v & 0xffffffff) << n;
	case SXTB: return (u64)extend(v, 1) << n;
	case SXTH: return (u64)extend(v, 2) << n;
	case SXTW: return (u64)extend(v, 4) << n;
	}
	return v;
}

// reg returns a register, and whether it is known.
inline_ u64 reg(struct state *s, u32 r, int *known)
{
	*known = 1;
	if (r >= ZERO)
		return 0;
	*known = s->known >> (r & 31) & 1;
	return s->regs[within(r, 31)];
}

inline_ void set_reg(struct state *s, u32 r, u64 v, int known)
{
	if (r >= ZERO)
		return;
	r &= 31;
	s->regs[within(r, 31)] = v;
	s->known = (s->known & ~(1ull << r)) | (u64)(known & 1) << r;
}

// flags_of returns the flags of the sum of a, b and a carry, which is r.
inline_ u64 flags_of(u64 a, u64 b, u32 carry, u64 r, u32 size)
{
	u64 top = 1ull << (size * 8 - 1 & 63);
	return (r & top ? NF : 0) | (!r ? ZF : 0) | (r < a || (carry && r == a) ? CF : 0) | (~(a ^ b) & (a ^ r) & top ? VF : 0);
}

inline_ u32 leading_zeros(u64 x)
{
	u32 n = 0;
	if (!x)
		return 64;
	if (!(x >> 32)) { n += 32; x <<= 32; }
	if (!(x >> 48)) { n += 16; x <<= 16; }
	if (!(x >> 56)) { n += 8; x <<= 8; }
	if (!(x >> 60)) { n += 4; x <<= 4; }
	if (!(x >> 62)) { n += 2; x <<= 2; }
	if (!(x >> 63)) n++;
	return n;
}

// swapped reverses the bytes of each size of them.
inline_ u64 swapped(u64 x, u32 size)
{
	if (size >= 2)
		x = (x & 0x00ff00ff00ff00ff) << 8 | (x >> 8 & 0x00ff00ff00ff00ff);
	if (size >= 4)
		x = (x & 0x0000ffff0000ffff) << 16 | (x >> 16 & 0x0000ffff0000ffff);
	if (size >= 8)
		x = x << 32 | x >> 32;
	return x;
}

inline_ u64 reversed(u64 x)
{
	x = (x & 0x5555555555555555) << 1 | (x >> 1 & 0x5555555555555555);
	x = (x & 0x3333333333333333) << 2 | (x >> 2 & 0x3333333333333333);
	x = (x & 0x0f0f0f0f0f0f0f0f) << 4 | (x >> 4 & 0x0f0f0f0f0f0f0f0f);
	return swapped(x, 8);
}

inline_ u64 atomic(u32 what, u64 old, u64 v, u32 size)
{
	s64 a = extend(old, size), b = extend(v, size);
	switch (what) {
	case ATOMIC_ADD: return old + v;
	case ATOMIC_CLR: return old & ~v;
	case ATOMIC_EOR: return old ^ v;
	case ATOMIC_SET: return old | v;
	case ATOMIC_SMAX: return a > b ? old : v;
	case ATOMIC_SMIN: return a < b ? old : v;
	case ATOMIC_UMAX: return old > v ? old : v;
	case ATOMIC_UMIN: return old < v ? old : v;
	}
	return v;
}

// The two words of a vector register.
#define VW(r) (((r) & 31) * 2)

inline_ u64 vword(struct state *s, u32 at, int *known)
{
	at &= 63;
	*known = s->vknown >> at & 1;
	return s->v[within(at, 63)];
}

// vload loads size bytes into a vector register, the rest of which becomes 0.
__attribute__((noinline)) int vload(u32 r, u64 addr, u32 size, int known)
{
	struct state *s = state();
	if (!s)
		return 0;
	int k = known && fetch(addr, size > 8 ? 8 : size);
	set_word(s, VW(r), s->val, k);
	if (size > 8) {
		k = known && fetch(addr + 8, 8);
		set_word(s, VW(r) + 1, s->val, k);
	} else {
		set_word(s, VW(r) + 1, 0, 1);
	}
	return 1;
}

__attribute__((noinline)) int vstore(u32 r, u64 addr, u32 size)
{
	struct state *s = state();
	if (!s)
		return 0;
	int k;
	u64 v = vword(s, VW(r), &k);
	if (!store(addr, size > 8 ? 8 : size, v, k))
		return 0;
	if (size <= 8)
		return 1;
	v = vword(s, VW(r) + 1, &k);
	return store(addr + 8, 8, v, k);
}

// every returns a word all elements of which are the lowest one of v.
inline_ u64 every(u64 v, u32 size)
{
	switch (size) {
	case 1: return (v & 0xff) * 0x0101010101010101;
	case 2: return (v & 0xffff) * 0x0001000100010001;
	case 4: return (v & 0xffffffff) * 0x0000000100000001;
	}
	return v;
}

// set_vector sets bytes of a vector register, the rest of which becomes 0.
inline_ void set_vector(struct state *s, u32 r, u64 l, int kl, u64 h, int kh, u32 bytes)
{
	set_word(s, VW(r), l & mask(bytes), kl);
	set_word(s, VW(r) + 1, bytes > 8 ? h : 0, bytes > 8 ? kh : 1);
}

// put_element sets the element at a byte of a vector register.
inline_ void put_element(struct state *s, u32 r, u32 at, u32 size, u64 v, int known)
{
	int k;
	u32 w = VW(r) + (at >> 3 & 1), shift = (at & 7) * 8;
	u64 old = vword(s, w, &k), m = mask(size) << shift;
	set_word(s, w, (old & ~m) | (v << shift & m), size == 8 ? known : k & known);
}

inline_ u64 element(struct state *s, u32 r, u32 at, u32 size, int *known)
{
	return vword(s, VW(r) + (at >> 3 & 1), known) >> ((at & 7) * 8) & mask(size);
}

// full returns all ones in those elements of which the top bit is set.
inline_ u64 full(u64 tops, u32 size) { return size >= 8 ? (u64)((s64)tops >> 63) : (tops >> (size * 8 - 1 & 63)) * mask(size); }

// at_least returns the top bits of the elements where x is at least y, as unsigned numbers.
inline_ u64 at_least(u64 x, u64 y, u64 top) { return ((x & ~y) | (~(x ^ y) & ((x | top) - (y & ~top)))) & top; }

// plus adds element by element.
inline_ u64 plus(u64 x, u64 y, u64 top) { return ((x & ~top) + (y & ~top)) ^ ((x ^ y) & top); }

// lanes returns a word of elements of size bytes; d is that of the destination.
static __attribute__((noinline)) u64 lanes(struct op *op, u64 x, u64 y, u64 d)
{
	u32 size = op->size, n = op->imm & 127;
	u64 top = every(1ull << (size * 8 - 1 & 63), size), low = every(1, size), m;
	if (op->flags & F_NOT)
		y = ~y;
	if (op->flags & F_SIGN) { // as unsigned numbers in the same order
		x ^= top;
		y ^= top;
	}
	switch (op->kind) {
	case VAND: return x & y;
	case VORR: return x | y;
	case VEOR: return x ^ y;
	case VBSL: return (x & d) | (y & ~d);
	case VBIT: return (x & y) | (d & ~y);
	case VBIF: return (x & ~y) | (d & y);
	case VADD: return plus(x, y, top);
	case VSUB: return plus(plus(x, ~y, top), low, top);
	case VCMEQ: case VCMTST:
		m = op->kind == VCMEQ ? x ^ y : x & y;
		m = (((m & ~top) + ~top) | m) & top; // of those that are not 0
		return full(op->kind == VCMEQ ? m ^ top : m, size);
	case VCMHS: return full(at_least(x, y, top), size);
	case VCMHI: return ~full(at_least(y, x, top), size);
	case VMAX: case VMIN:
		m = full(at_least(x, y, top), size);
		if (op->kind == VMIN)
			m = ~m;
		m = (x & m) | (y & ~m);
		return op->flags & F_SIGN ? m ^ top : m;
	case VSHL: return x << (n & 63) & low * (mask(size) << (n & 63) & mask(size));
	case VSHR:
		return n >= size * 8 ? 0 : x >> (n & 63) & low * (mask(size) >> (n & 63));
	}
	return 0;
}

// pairs returns half a word of elements, one of each two of x.
static __attribute__((noinline)) u64 pairs(u32 kind, u64 x, u32 size)
{
	u32 bits = size * 8 & 63;
	u64 even = size == 1 ? 0x00ff00ff00ff00ff : size == 2 ? 0x0000ffff0000ffff : 0xffffffff;
	u64 a = x & even, b = x >> bits & even, r, m;
	// Between the elements there is room for a carry.
	u64 top = size == 1 ? 0x0100010001000100 : size == 2 ? 0x0001000000010000 : 0x100000000;
	m = ((a | top) - b) & top; // where a is at least b
	m = m - (m >> bits);
	if (kind == VADDP)
		r = (a + b) & even;
	else if (kind == VUMAXP)
		r = (a & m) | (b & ~m & even);
	else
		r = (b & m) | (a & ~m & even);
	if (size == 1)
		r = (r | r >> 8) & 0x0000ffff0000ffff;
	if (size <= 2)
		r = (r | r >> 16) & 0xffffffff;
	return r;
}

// narrow returns half a word of elements of size bytes, the lower halves of those of x, shifted to the right.
inline_ u64 narrow(u64 x, u32 size, u32 n)
{
	x >>= n & 63;
	switch (size) {
	case 1:
		x &= 0x00ff00ff00ff00ff;
		x = (x | x >> 8) & 0x0000ffff0000ffff;
		return (x | x >> 16) & 0xffffffff;
	case 2:
		x &= 0x0000ffff0000ffff;
		return (x | x >> 16) & 0xffffffff;
	}
	return x & 0xffffffff;
}

inline_ u64 counted(u64 x)
{
	x -= x >> 1 & 0x5555555555555555;
	x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
	return (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
}

// across reduces the elements of a vector to one.
inline_ u64 across(u32 kind, u64 l, u64 h, u32 size, u32 bytes)
{
	u32 pair = kind == VADDV ? VADDP : kind == VMAXV ? VUMAXP : VUMINP;
	u64 x = l;
	if (size == 8)
		return l + h;
	if (bytes > 8)
		x = pairs(pair, l, size) | pairs(pair, h, size) << 32;
	for (u32 n = 8; n > 1; n /= 2)
		if (n > size)
			x = pairs(pair, x, size);
	return x & mask(size);
}

// compute does what an instruction on vector registers does, alone or with a general one; 0 is to go on.
__attribute__((noinline)) int compute(void)
{
	struct state *s = state();
	if (!s)
		return 1;
	struct op *op = map_lookup(&ops, &s->pc);
	if (!op)
		return 1;
	u32 kind = op->kind, size = op->size, bytes = op->cond, to = VW(op->dst);
	u64 v, l, h, dl, dh;
	int k, kl, kh, kd;
	switch (kind) {
	case VFROM:
		v = every(reg(s, op->src, &k), size);
		set_vector(s, op->dst, v, k, v, k, bytes);
		return 0;
	case VTO:
		v = element(s, op->src, op->imm, size, &k);
		if (op->flags & F_SIGN)
			v = extend(v, size) & mask(bytes);
		set_reg(s, op->dst, v, k);
		return 0;
	case VPUT:
		v = reg(s, op->src, &k);
		put_element(s, op->dst, op->imm, size, v, k);
		return 0;
	case VDUP:
		v = every(element(s, op->src, op->imm, size, &k), size);
		set_vector(s, op->dst, v, k, v, k, bytes);
		return 0;
	case VINS:
		v = element(s, op->src, op->cond, size, &k);
		put_element(s, op->dst, op->imm, size, v, k);
		return 0;
	case VIMM:
		set_vector(s, op->dst, op->imm, 1, op->imm, 1, bytes);
		return 0;
	case VEXT: {
		u64 w[4];
		int kw[4];
		u32 at = op->imm & 15, n = at & 7;
		w[0] = vword(s, VW(op->src), &kw[0]);
		w[1] = vword(s, VW(op->src) + 1, &kw[1]);
		w[2] = vword(s, VW(op->index), &kw[2]);
		w[3] = vword(s, VW(op->index) + 1, &kw[3]);
		if (bytes == 8) {
			w[1] = w[2];
			kw[1] = kw[2];
		}
		k = at >= 8;
		l = n ? (k ? w[1] : w[0]) >> n * 8 | (k ? w[2] : w[1]) << (64 - n * 8) : k ? w[1] : w[0];
		kl = (k ? kw[1] : kw[0]) & (n ? (k ? kw[2] : kw[1]) : 1);
		h = n ? (k ? w[2] : w[1]) >> n * 8 | (k ? w[3] : w[2]) << (64 - n * 8) : k ? w[2] : w[1];
		kh = (k ? kw[2] : kw[1]) & (n ? (k ? kw[3] : kw[2]) : 1);
		set_vector(s, op->dst, l, kl, h, kh, bytes);
		return 0;
	}
	}
	l = vword(s, VW(op->src), &kl);
	h = vword(s, VW(op->src) + 1, &kh);
	switch (kind) {
	case VNARROW:
		v = narrow(l, size, op->imm) | narrow(h, size, op->imm) << 32;
		k = kl & kh;
		if (op->flags & F_INC)
			set_word(s, to + 1, v, k);
		else
			set_vector(s, op->dst, v, k, 0, 1, 8);
		return 0;
	case VADDV: case VMAXV: case VMINV:
		v = across(kind, l, h, size, bytes);
		set_vector(s, op->dst, v, kl & (bytes > 8 ? kh : 1), 0, 1, 8);
		return 0;
	case VCNT:
		set_vector(s, op->dst, counted(l), kl, counted(h), kh, bytes);
		return 0;
	case VADDP: case VUMAXP: case VUMINP: {
		u64 ml, mh;
		int kml, kmh;
		ml = vword(s, VW(op->index), &kml);
		mh = vword(s, VW(op->index) + 1, &kmh);
		if (size == 8) {
			set_vector(s, op->dst, l + h, kl & kh, ml + mh, kml & kmh, bytes);
		} else if (bytes > 8) {
			l = pairs(kind, l, size) | pairs(kind, h, size) << 32;
			ml = pairs(kind, ml, size) | pairs(kind, mh, size) << 32;
			set_vector(s, op->dst, l, kl & kh, ml, kml & kmh, 16);
		} else {
			l = pairs(kind, l, size) | pairs(kind, ml, size) << 32;
			set_vector(s, op->dst, l, kl & kml, 0, 1, 8);
		}
		return 0;
	}
	}
	if (kind < VAND || kind > VSHR)
		return 1;
	u64 yl = op->imm, yh = op->imm;
	int ky = 1, kyh = 1;
	if (!(op->flags & F_IMM)) {
		yl = vword(s, VW(op->index), &ky);
		yh = vword(s, VW(op->index) + 1, &kyh);
		if (kind == VEOR && op->index == op->src) // known, whatever it is
			kl = kh = ky = kyh = 1;
	}
	dl = vword(s, to, &kd);
	if (kind < VBSL || kind > VBIF)
		kd = 1;
	l = lanes(op, l, yl, dl);
	kl &= ky & kd;
	dh = vword(s, to + 1, &kd);
	if (kind < VBSL || kind > VBIF)
		kd = 1;
	h = lanes(op, h, yh, dh);
	kh &= kyh & kd;
	set_vector(s, op->dst, l, kl, h, kh, bytes);
	return 0;
}

// vector is for those that step leaves to it.
inline_ int vector(void)
{
	struct state *s = state();
	if (!s)
		return 1;
	if (compute())
		return stop(s, END_OP);
	s->left--;
	return go_on(s);
}

// access does what a load, store or atomic does with memory at s->ea; 0 is to go on.
__attribute__((noinline)) int access(void)
{
	struct state *s = state();
	if (!s)
		return 1;
	struct op *op = map_lookup(&ops, &s->pc);
	if (!op)
		return 1;
	u64 ea = s->ea;
	int kea = s->kea;
	u32 kind = op->kind, size = op->size, f = op->flags;
	u64 v, old;
	int k, k2, ok;
	if (!kea && kind != LOAD && kind != LOADP && kind != LOADX && kind != VLOAD && kind != VLOADP && kind != VLOADN && kind != VLOADR)
		return stop(s, END_ADDRESS);
	switch (kind) {
	case LOADX:
		s->fb = ea;
		s->known = kea ? s->known | EXCLUSIVE : s->known & ~EXCLUSIVE;
	case LOAD:
	case LOADP:
		k = kea && fetch(ea, size);
		v = s->val;
		if (f & F_SIGN)
			v = extend(v, size) & (kind == LOAD ? mask(op->cond) : ~0ull);
		if (kind != LOAD && op->cond < NONE) {
			k2 = kea && fetch(ea + size, size);
			set_reg(s, op->cond, f & F_SIGN ? extend(s->val, size) : s->val, k2);
		}
		set_reg(s, op->dst, v, k);
		return 0;
	case STOREX:
		// What interrupted the thread has ended an access that began before.
		ok = s->known & EXCLUSIVE && s->fb == ea;
		s->known &= ~EXCLUSIVE;
		if (!ok) {
			set_reg(s, op->dst, 1, 1);
			return 0;
		}
	case STORE:
	case STOREP:
		v = reg(s, op->src, &k);
		if (!store(ea, size, v, k))
			return 1;
		if (kind != STORE && op->cond < NONE) {
			v = reg(s, op->cond, &k);
			if (!store(ea + size, size, v, k))
				return 1;
		}
		if (kind == STOREX)
			set_reg(s, op->dst, 0, 1);
		return 0;
	case ATOMIC:
		k = fetch(ea, size);
		old = s->val;
		v = reg(s, op->src, &k2) & mask(size);
		if (!store(ea, size, atomic(op->cond, old, v, size), op->cond == ATOMIC_SWAP ? k2 : k & k2))
			return 1;
		set_reg(s, op->dst, old, k);
		return 0;
	case CAS:
		k = fetch(ea, size);
		old = s->val;
		v = reg(s, op->dst, &k2) & mask(size);
		ok = k & k2;
		if (!ok || v == old) {
			v = reg(s, op->src, &k2);
			if (!store(ea, size, v, ok & k2))
				return 1;
		}
		set_reg(s, op->dst, old, k);
		return 0;
	case VLOAD:
		vload(op->dst, ea, size, kea);
		return 0;
	case VLOADP:
		vload(op->dst, ea, size, kea);
		vload(op->cond, ea + size, size, kea);
		return 0;
	case VLOADN:
		for (u32 j = 0; j < 4; j++)
			if (j < op->cond)
				vload(op->dst + j, ea + j * size, size, kea);
		return 0;
	case VLOADR:
		k = kea && fetch(ea, size);
		v = every(s->val, size);
		set_vector(s, op->dst, v, k, v, k, op->cond);
		return 0;
	case VSTORE:
		return !vstore(op->src, ea, size);
	case VSTOREP:
		return !vstore(op->src, ea, size) || !vstore(op->cond, ea + size, size);
	case VSTOREN:
		for (u32 j = 0; j < 4; j++)
			if (j < op->cond && !vstore(op->src + j, ea + j * size, size))
				return 1;
		return 0;
	case CLOBBER:
		for (u32 j = 0; j < 8; j++)
			if (j * 8 < size && !store(ea + j * 8, 8, 0, 0))
				return 1;
		return 0;
	}
	return stop(s, END_OP);
}

// memory is for those that step leaves to it.
inline_ int memory(void)
{
	struct state *s = state();
	if (!s || access())
		return 1;
	struct op *op = map_lookup(&ops, &s->pc);
	if (!op)
		return 1;
	if (op->flags & (F_PRE | F_POST))
		set_reg(s, op->base, s->next, s->knext);
	s->left--;
	return go_on(s);
}

// What step leaves to others, for which the stack has no room below it.
enum { MEMORY = 2, VECTOR };

// step emulates one instruction, or begins to; 0 is to go on. As a global function it is verified by
// itself, once.
__attribute__((noinline)) int step(void)
{
	struct state *s = state();
	if (!s)
		return 1;
	struct op *op = map_lookup(&ops, &s->pc);
	if (!op)
		return stop(s, END_OP);
	u32 kind = op->kind, size = op->size, f = op->flags;
	u64 a, b = op->imm, r = 0, m = mask(size);
	int ka, kb = 1, known, kf = (s->known & FLAGS_KNOWN) != 0;
	if (f & F_HAS_MEM) {
		u64 ea = s->bias + op->imm, next;
		int kea = 1;
		if (op->base != BASE_IMAGE)
			ea = reg(s, op->base, &kea);
		next = ea + (s64)op->disp;
		if (op->index < ZERO) {
			b = reg(s, op->index, &kb);
			next += shifted(b, op->ext, op->scale, 8);
			kb &= kea;
		} else {
			kb = kea;
		}
		if (!(f & F_POST)) {
			ea = next;
			kea = kb;
		}
		s->ea = ea;
		s->kea = kea;
		s->next = next;
		s->knext = kb;
		if (kind != CLOBBER)
			return MEMORY;
	} else if (!(f & F_IMM)) {
		b = reg(s, op->index, &kb);
		b = shifted(b, op->ext, op->scale, size) & m;
	}
	a = reg(s, op->src, &ka) & m;
	if (f & F_NOT)
		b = ~b;
	b &= m;
	known = ka & kb;
	switch (kind) {
	case STOP:
		return stop(s, END_OP);
	case LEA:
		r = s->bias + op->imm;
		known = 1;
		break;
	case ADD:
	case ADC:
	case CCMP: {
		u32 carry = f & F_INC ? 1 : 0;
		if (kind == ADC) {
			carry = s->fa & CF ? 1 : 0;
			known &= kf;
		}
		r = (a + b + carry) & m;
		u64 fl = flags_of(a, b, carry, r, size);
		if (kind == CCMP) {
			int t = kf && taken(s->fa, op->cond);
			s->fa = t ? fl : (u64)(op->base & 15) << 28;
			know_flags(s, kf & (t ? known : 1));
		} else if (f & F_FLAGS) {
			s->fa = fl;
			know_flags(s, known);
		}
		break;
	}
	case AND:
		r = a & b;
		if ((ka && !a) || (kb && !b)) // whatever the other one is
			known = 1;
		if (f & F_FLAGS) {
			s->fa = flags_of(0, r, 0, r, size) & (NF | ZF);
			know_flags(s, known);
		}
		break;
	case ORR:
		r = a | b;
		break;
	case EOR:
		r = a ^ b;
		break;
	case MOVK:
		r = (reg(s, op->dst, &known) & ~(0xffffull << (op->scale & 63))) | (u64)op->imm << (op->scale & 63);
		r &= m;
		break;
	case UBF:
	case SBF:
	case BFI: {
		u32 width = op->imm & 127, at = op->scale & 63;
		u64 field = a >> (op->cond & 63) & ones(width);
		known = ka;
		if (kind == SBF)
			field = (u64)((s64)(field << (64 - width & 63)) >> (64 - width & 63));
		r = field << at;
		if (kind == BFI) {
			int kd;
			u64 d = reg(s, op->dst, &kd), bits = ones(width) << at;
			r = (d & ~bits) | (r & bits);
			known &= kd;
		}
		break;
	}
	case EXTR: {
		u32 n = op->imm & 63;
		b = reg(s, op->index, &kb) & m;
		known = ka & kb;
		r = n ? b >> n | a << (size * 8 - n & 63) : b;
		break;
	}
	case CSEL: {
		int t = kf && taken(s->fa, op->cond);
		r = t ? a : b + (f & F_INC ? 1 : 0);
		known = kf & (t ? ka : kb);
		break;
	}
	case MADD: {
		int kc;
		u64 c = reg(s, op->base, &kc), y = reg(s, op->index, &kb);
		if (op->cond == 4) {
			a = f & F_SIGN ? extend(a, 4) : a & 0xffffffff;
			y = f & F_SIGN ? extend(y, 4) : y & 0xffffffff;
		}
		r = f & F_NOT ? c - a * y : c + a * y;
		known = ka & kb & kc;
		break;
	}
	case MULH:
		r = high(a, b);
		if (f & F_SIGN)
			r -= ((s64)a < 0 ? b : 0) + ((s64)b < 0 ? a : 0);
		break;
	case DIV:
		if (f & F_SIGN) {
			s64 n = extend(a, size), d = extend(b, size);
			u64 un = n < 0 ? -(u64)n : n, ud = d < 0 ? -(u64)d : d;
			r = ud ? un / ud : 0;
			if ((n < 0) != (d < 0))
				r = -r;
		} else {
			r = b ? a / b : 0;
		}
		break;
	case SHIFT:
		r = shifted(a, op->cond, b, size);
		break;
	case RBIT:
		r = reversed(a) >> (64 - size * 8 & 63);
		known = ka;
		break;
	case REV:
		r = swapped(a, op->cond);
		known = ka;
		break;
	case CLZ:
	case CLS:
		if (kind == CLS)
			a = (a ^ (u64)(extend(a, size) >> 1)) & m;
		r = leading_zeros(a) - (64 - size * 8) - (kind == CLS ? 1 : 0);
		known = ka;
		break;
	case STRIP:
		r = a & USER_ADDRESS;
		known = ka;
		break;
	case TLS:
		r = s->tls;
		known = r != 0;
		break;
	case GETF:
		r = s->fa;
		known = kf;
		break;
	case SETF:
		s->fa = a & (NF | ZF | CF | VF);
		know_flags(s, ka);
		break;
	case CLREX:
		s->known &= ~EXCLUSIVE;
		break;
	case CLOBBER:
		s->known &= ~(op->imm & 0xffffffff);
		if (f & F_FLAGS)
			know_flags(s, 0);
		for (u32 j = 0; j < 32; j++)
			if (op->imm >> (32 + j) & 1)
				s->vknown &= ~(3ull << (2 * j));
		if (f & F_HAS_MEM)
			return MEMORY;
		break;
	case NOP:
	case CALL:
	case CALL_IND:
	case RET:
	case JUMP:
	case JUMP_IND:
	case COND_JUMP:
		break;
	default:
		return kind < VFROM || kind > VSHR ? stop(s, END_OP) : VECTOR;
	}
	if (kind > STOP && kind < NOP)
		set_reg(s, op->dst, r & m, known);
	s->left--;
	if (kind < CALL || kind > COND_JUMP)
		return go_on(s);
	if (kind == COND_JUMP) {
		int k = op->ext == IF_FLAGS ? kf : ka, to = 0;
		switch (op->ext) {
		case IF_FLAGS: to = kf && taken(s->fa, op->cond); break;
		case IF_ZERO: to = !a; break;
		case IF_NOT_ZERO: to = a != 0; break;
		case IF_CLEAR: to = !(a >> (op->scale & 63) & 1); break;
		case IF_SET: to = a >> (op->scale & 63) & 1; break;
		}
		to = decide(s, op, k, to);
		if (to != 1)
			return to ? 1 : go_on(s);
	}
	if (kind == CALL || kind == CALL_IND)
		set_reg(s, 30, s->bias + op->imm, 1);
	if (kind == CALL || kind == JUMP || kind == COND_JUMP)
		return jump(s, op);
	return jump_to(s, a & USER_ADDRESS, ka);
}

// one emulates one instruction; 0 is to go on.
inline_ int one(void)
{
	int what = step();
	if (what == MEMORY)
		return memory();
	if (what == VECTOR)
		return vector();
	return what;
}
