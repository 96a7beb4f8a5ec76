// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0

// What x86-64's instructions do. What the operations stand for is in opx86.h.

enum { REGS = 16, VWORDS = 4 };
#define FLAGS_KNOWN (1u << 16)

#include "walk.h"
#include "opx86.h"

_Static_assert(LEAVE + 1 == CALL, "kinds of walk.h");

enum { FK_RAW, FK_LOGIC, FK_ADD, FK_SUB, FK_INC, FK_DEC, FK_CARRY };

enum { CF = 1, PF = 4, ZF = 64, SF = 128, OF = 2048 };

// flags returns the flags as the processor has them.
__attribute__((noinline)) u64 flags(void)
{
	struct state *s = state();
	if (!s)
		return 0;
	if (s->fkind == FK_RAW)
		return s->fa;
	u64 m = mask(s->fsize), r = s->fr & m, a = s->fa & m, b = s->fb & m, f = 0;
	u64 top = m ^ (m >> 1);
	if (!r)
		f |= ZF;
	if (r & top)
		f |= SF;
	u64 p = r & 0xff;
	p ^= p >> 4;
	p ^= p >> 2;
	p ^= p >> 1;
	if (!(p & 1))
		f |= PF;
	switch (s->fkind) {
	case FK_ADD:
		if (r < a)
			f |= CF;
		if (~(a ^ b) & (a ^ r) & top)
			f |= OF;
		break;
	case FK_SUB:
		if (a < b)
			f |= CF;
		if ((a ^ b) & (a ^ r) & top)
			f |= OF;
		break;
	case FK_INC:
		f |= s->fb & CF;
		if (r == top)
			f |= OF;
		break;
	case FK_DEC:
		f |= s->fb & CF;
		if (r == (top ^ m))
			f |= OF;
		break;
	case FK_CARRY:
		f |= s->fb;
		break;
	}
	return f;
}

inline_ void set_flags(struct state *s, u32 kind, u32 size, u64 a, u64 b, u64 r)
{
	s->fkind = kind;
	s->fsize = size;
	s->fa = a;
	s->fb = b;
	s->fr = r;
}

// high returns the upper half of a product.
inline_ u64 swap(u64 x, u32 size)
{
	x = (x & 0x00ff00ff00ff00ff) << 8 | (x >> 8 & 0x00ff00ff00ff00ff);
	x = (x & 0x0000ffff0000ffff) << 16 | (x >> 16 & 0x0000ffff0000ffff);
	x = x << 32 | x >> 32;
	return x >> (64 - size * 8 & 63);
}

#define VW(r) (((r) & 15) * 4)

// operand returns word j of a vector source, and whether it is known.
inline_ int operand(struct state *s, struct op *op, u64 ea, int kea, u32 j, u64 *v)
{
	if (op->flags & F_HAS_MEM) {
		int k = kea && fetch(ea + j * 8, 8);
		*v = s->val;
		return k;
	}
	u32 at = (VW(op->src) + j) & 63;
	*v = s->v[within(at, 63)];
	return s->vknown >> at & 1;
}

// spread puts zeros between the elements of w bytes of the lower half of x.
inline_ u64 spread(u64 x, u32 w)
{
	if (w < 4)
		x = (x | x << 16) & 0x0000ffff0000ffff;
	if (w < 2)
		x = (x | x << 8) & 0x00ff00ff00ff00ff;
	return x;
}

// words returns the four words of v in the order of how.
inline_ u64 words(u64 v, u32 how)
{
	u64 r = 0;
	for (int j = 0; j < 4; j++)
		r |= (v >> 16 * (how >> 2 * j & 3) & 0xffff) << 16 * j;
	return r;
}

inline_ u64 pick(u64 l, u64 h, u32 i) { return ((i & 2 ? h : l) >> ((i & 1) * 32)) & 0xffffffff; }

// equal returns all ones in the elements that are equal; top is their top bits.
inline_ u64 equal(u64 x, u64 y, u64 top, u32 bits)
{
	u64 z = x ^ y;
	z = ~(((z & ~top) + ~top) | z) & top;
	return (z >> (bits - 1)) * ((1ull << bits) - 1);
}

static __attribute__((noinline)) u64 lanes(u32 kind, u64 x, u64 y)
{
	u64 top = 0x8080808080808080, ge;
	switch (kind) {
	case VXOR: return x ^ y;
	case VAND: return x & y;
	case VOR: return x | y;
	case VANDN: return ~x & y;
	case VCMPB: return equal(x, y, top, 8);
	case VCMPW: return equal(x, y, 0x8000800080008000, 16);
	case VCMPD: return equal(x, y, 0x8000000080000000, 32);
	case VCMPQ: return x == y ? ~0ull : 0;
	case VMINB:
		ge = ((x & ~y) | (~(x ^ y) & ((x | top) - (y & ~top)))) & top;
		ge = (ge >> 7) * 0xff;
		return (y & ge) | (x & ~ge);
	case VADDD: return ((x + y) & 0xffffffff) | ((x >> 32) + (y >> 32)) << 32;
	case VSUBD: return ((x - y) & 0xffffffff) | ((x >> 32) - (y >> 32)) << 32;
	case VADDQ: return x + y;
	}
	return 0;
}

inline_ void set_reg(struct state *s, u32 r, u32 size, u64 v, int known)
{
	r &= 15;
	if (size >= 4) {
		s->regs[within(r, 15)] = v & mask(size);
		if (known)
			s->known |= 1u << r;
		else
			s->known &= ~(1u << r);
		return;
	}
	u64 m = mask(size);
	u64 *to = &s->regs[within(r, 15)];
	*to = (*to & ~m) | (v & m);
	if (!known)
		s->known &= ~(1u << r);
}

// The verifier goes through what follows a branch once for each way there, unless it knows the same then: operands,
// effects and results took it 25 times as long as their code is. Of what is read from a map it knows nothing. So what the parts
// of step tell each other goes through the state.
#define FORGET() __asm__ volatile("" ::: "memory")

// lane does word j of an operation of vectors.
__attribute__((noinline)) int lane(u32 j)
{
	struct state *s = state();
	if (!s)
		return 0;
	u32 pc = s->pc;
	struct op *op = map_lookup(&ops, &pc);
	if (!op)
		return 0;
	u32 kind = op->kind, at = VW(op->dst) + j;
	if (j * 8 >= op->size) {
		if (op->imm) // VEX: no more than size bytes stay
			set_word(s, at, 0, 1);
		return 0;
	}
	u64 y;
	u32 from = VW(op->cond) + j & 63;
	int k = operand(s, op, s->ea, s->kea, j, &y) & s->vknown >> from;
	if (!(op->flags & F_HAS_MEM) && op->cond == op->src && (kind == VXOR || kind == VCMPB || kind == VCMPD || kind == VSUBD))
		k = 1;
	set_word(s, at, lanes(kind, s->v[within(from, 63)], y), k);
	return 0;
}

// step emulates one instruction; 0 is to go on.
__attribute__((noinline)) int step(void)
{
	struct state *s = state();
	if (!s)
		return 1;
	u32 pc = s->pc;
	struct op *op = map_lookup(&ops, &pc);
	if (!op)
		return stop(s, END_OP);
	u32 size = op->size, f = op->flags;
	u64 ea = 0, a = 0, b = 0;
	int kea = 1, ka = 1, kb = 1;
	if (f & F_HAS_MEM) {
		ea = (s64)op->disp;
		if (op->base == BASE_IMAGE) {
			ea = s->bias + (u32)op->disp;
		} else if (op->base < 16) {
			ea += s->regs[within(op->base, 15)];
			kea = s->known >> (op->base & 15) & 1;
		}
		if (op->index < 16) {
			ea += s->regs[within(op->index, 15)] << (op->scale & 3);
			kea &= s->known >> (op->index & 15);
		}
		if (f & F_FS)
			ea += s->tls;
	}
	if (f & F_READS_SRC) {
		u32 src = op->src;
		if (src < 16) {
			b = s->regs[within(src, 15)];
			kb = s->known >> (src & 15) & 1;
		} else if (src == IMM) {
			b = op->imm;
		} else {
			kb = kea && fetch(ea, size);
			b = s->val;
		}
		b &= mask(size);
	}
	if (f & F_READS_DST) {
		u32 dst = op->dst;
		if (dst < 16) {
			a = s->regs[within(dst, 15)];
			ka = s->known >> (dst & 15) & 1;
		} else {
			ka = kea && fetch(ea, size);
			a = s->val;
		}
		a &= mask(size);
	}
	s->ea = ea;
	s->a = a;
	s->b = b;
	s->kea = kea & 1;
	s->ka = ka & 1;
	s->kb = kb & 1;
	FORGET();
	ea = s->ea;
	a = s->a;
	b = s->b;
	kea = s->kea;
	ka = s->ka;
	kb = s->kb;
	size = op->size;
	f = op->flags;
	u32 kind = op->kind, wsize = size;
	u64 r = 0;
	int known = ka & kb;
	switch (kind) {
	case STOP:
		return stop(s, END_OP);
	case NOP:
		break;
	case MOV:
		r = b;
		break;
	case MOVZX:
		r = b;
		wsize = op->cond;
		break;
	case MOVSX:
		r = extend(b, size);
		wsize = op->cond;
		break;
	case LEA:
		r = ea;
		known = kea;
		break;
	case ADD:
		r = a + b;
		set_flags(s, FK_ADD, size, a, b, r);
		goto flags;
	case OR:
		r = a | b;
		// All ones are known whatever they are combined with.
		set_flags(s, FK_LOGIC, size, 0, 0, r);
		goto flags;
	case AND:
		r = a & b;
		if ((ka && !a) || (kb && !b)) {
			r = 0;
			known = 1;
		}
		set_flags(s, FK_LOGIC, size, 0, 0, r);
		goto flags;
	case TEST:
		r = a & b;
		set_flags(s, FK_LOGIC, size, 0, 0, r);
		goto flags;
	case XOR:
		r = a ^ b;
		if (op->dst == op->src) {
			r = 0;
			known = 1;
		}
		set_flags(s, FK_LOGIC, size, 0, 0, r);
		goto flags;
	case SUB:
	case CMP:
		r = a - b;
		if (op->dst == op->src) {
			r = 0;
			a = b;
			known = 1;
		}
		set_flags(s, FK_SUB, size, a, b, r);
		goto flags;
	case NEG:
		r = -a;
		set_flags(s, FK_SUB, size, 0, a, r);
		goto flags;
	case NOT:
		r = ~a;
		break;
	case ADC:
	case SBB: {
		int kf = s->known >> 16 & 1;
		u64 c = flags() & CF, m = mask(size), top = m ^ (m >> 1), fl;
		if (kind == ADC) {
			r = (a + b + c) & m;
			fl = (r < a || (c && r == a) ? CF : 0) | (~(a ^ b) & (a ^ r) & top ? OF : 0);
		} else {
			if (op->dst == op->src) {
				a = b = 0;
				known = 1;
			}
			r = (a - b - c) & m;
			fl = (a < b || (c && a == b) ? CF : 0) | ((a ^ b) & (a ^ r) & top ? OF : 0);
		}
		known &= kf;
		set_flags(s, FK_CARRY, size, 0, fl, r);
		goto flags;
	}
	case INC:
	case DEC: {
		u64 c = flags() & CF;
		r = kind == INC ? a + 1 : a - 1;
		set_flags(s, kind == INC ? FK_INC : FK_DEC, size, a, c, r);
		goto flags;
	}
	case SHL:
	case SHR:
	case SAR: {
		u32 n = b & (size == 8 ? 63 : 31);
		if (!n) {
			r = a;
			if (!kb)
				s->known &= ~FLAGS_KNOWN;
			break;
		}
		u64 c, m = mask(size), top = m ^ (m >> 1), of = 0;
		if (kind == SHL) {
			r = a << n & m;
			c = n <= size * 8 ? a >> (size * 8 - n) & 1 : 0;
			of = (r & top ? 1 : 0) ^ c;
		} else if (kind == SHR) {
			r = a >> n;
			c = a >> (n - 1) & 1;
			of = a & top ? 1 : 0;
		} else {
			s64 x = extend(a, size);
			r = x >> n & m;
			c = x >> (n - 1) & 1;
		}
		set_flags(s, FK_CARRY, size, 0, (c ? CF : 0) | (of ? OF : 0), r);
		goto flags;
	}
	case ROL:
	case ROR: {
		u32 bits = size * 8, n = b & (size == 8 ? 63 : 31) & (bits - 1);
		if (kind == ROR)
			n = (bits - n) & (bits - 1);
		r = n ? (a << n | a >> (bits - n)) : a;
		s->known &= ~FLAGS_KNOWN;
		break;
	}
	case SHLD:
	case SHRD: {
		u64 other = s->regs[within(op->cond, 15)] & mask(size);
		known &= s->known >> (op->cond & 15);
		u32 bits = size * 8, n = b & (size == 8 ? 63 : 31);
		if (n == 0 || n >= bits)
			r = a;
		else if (kind == SHLD)
			r = a << n | other >> (bits - n);
		else
			r = a >> n | other << (bits - n);
		s->known &= ~FLAGS_KNOWN;
		break;
	}
	case IMUL:
	case IMUL3: {
		s64 x = extend(kind == IMUL ? a : (u64)op->imm, size == 8 ? 8 : size), y = extend(b, size);
		r = (u64)x * (u64)y;
		u64 over;
		if (size == 8) {
			u64 h = high(x, y) - (x < 0 ? (u64)y : 0) - (y < 0 ? (u64)x : 0);
			over = h != (u64)((s64)r >> 63);
		} else {
			over = (s64)r != extend(r, size);
		}
		set_flags(s, FK_CARRY, size, 0, over ? CF | OF : 0, r);
		goto flags;
	}
	case MUL_WIDE:
	case IMUL_WIDE: {
		u64 x = s->regs[0] & mask(size), h, over;
		known &= s->known & 1;
		if (size == 1) {
			known = 0;
			set_reg(s, 0, 2, 0, 0);
			set_flags(s, FK_CARRY, size, 0, 0, 0);
			goto flags;
		}
		if (kind == MUL_WIDE) {
			r = x * b;
			h = size == 8 ? high(x, b) : r >> (size * 8);
			over = (h & mask(size)) != 0;
		} else {
			s64 sx = extend(x, size), sb = extend(b, size);
			r = (u64)sx * (u64)sb;
			h = size == 8 ? high(sx, sb) - (sx < 0 ? (u64)sb : 0) - (sb < 0 ? (u64)sx : 0) : r >> (size * 8);
			over = size == 8 ? h != (u64)((s64)r >> 63) : (s64)r != extend(r, size);
		}
		set_reg(s, 0, size, r, known);
		set_reg(s, 2, size, h, known);
		set_flags(s, FK_CARRY, size, 0, over ? CF | OF : 0, r);
		goto flags;
	}
	case DIV:
	case IDIV: {
		u64 x = s->regs[0] & mask(size), hi = s->regs[2] & mask(size), q = 0, rem = 0;
		known &= s->known & (s->known >> 2) & 1;
		if (size < 4 || !b) {
			known = 0;
		} else if (kind == DIV) {
			if (size == 4)
				x |= hi << 32;
			else if (hi)
				known = 0;
			q = x / b;
			rem = x % b;
		} else {
			s64 n = size == 4 ? (s64)(x | hi << 32) : (s64)x, d = extend(b, size);
			if (size == 8 && hi != (u64)(n >> 63))
				known = 0;
			u64 un = n < 0 ? -(u64)n : n, ud = d < 0 ? -(u64)d : d;
			if (ud) {
				q = un / ud;
				rem = un % ud;
			}
			if ((n < 0) != (d < 0))
				q = -q;
			if (n < 0)
				rem = -rem;
		}
		set_reg(s, 0, size < 4 ? 4 : size, q, known);
		set_reg(s, 2, size < 4 ? 4 : size, rem, known);
		s->known &= ~FLAGS_KNOWN;
		break;
	}
	case SETCC:
		known = s->known >> 16 & 1;
		r = known ? taken(flags(), op->cond) : 0;
		break;
	case CMOV: {
		int kf = s->known >> 16 & 1;
		int t = kf ? taken(flags(), op->cond) : 0;
		r = t ? b : a;
		known = kf & (t ? kb : ka);
		break;
	}
	case BT:
	case BTS:
	case BTR:
	case BTC: {
		u32 n = b & (size * 8 - 1);
		u64 bit = 1ull << n;
		r = a;
		if (kind == BTS)
			r = a | bit;
		else if (kind == BTR)
			r = a & ~bit;
		else if (kind == BTC)
			r = a ^ bit;
		set_flags(s, FK_RAW, size, (a & bit ? CF : 0), 0, 0);
		goto flags;
	}
	case BSF:
	case TZCNT: {
		u64 x = b;
		u32 n = 0;
		if (!x) {
			n = size * 8;
			if (kind == BSF)
				known = 0;
		} else {
			if (!(x & 0xffffffff)) { n += 32; x >>= 32; }
			if (!(x & 0xffff)) { n += 16; x >>= 16; }
			if (!(x & 0xff)) { n += 8; x >>= 8; }
			if (!(x & 15)) { n += 4; x >>= 4; }
			if (!(x & 3)) { n += 2; x >>= 2; }
			if (!(x & 1)) n++;
		}
		r = n;
		set_flags(s, FK_RAW, size, kind == BSF ? (!b ? ZF : 0) : (!b ? CF : 0) | (!n ? ZF : 0), 0, 0);
		know_flags(s, kb);
		break;
	}
	case BSR:
	case LZCNT: {
		u64 x = b;
		u32 n = 0;
		if (x) {
			if (x >> 32) { n += 32; x >>= 32; }
			if (x >> 16) { n += 16; x >>= 16; }
			if (x >> 8) { n += 8; x >>= 8; }
			if (x >> 4) { n += 4; x >>= 4; }
			if (x >> 2) { n += 2; x >>= 2; }
			if (x >> 1) n++;
		}
		if (kind == BSR) {
			r = n;
			if (!b)
				known = 0;
			set_flags(s, FK_RAW, size, !b ? ZF : 0, 0, 0);
		} else {
			r = b ? size * 8 - 1 - n : size * 8;
			set_flags(s, FK_RAW, size, (!b ? CF : 0) | (!r ? ZF : 0), 0, 0);
		}
		know_flags(s, kb);
		break;
	}
	case POPCNT: {
		u64 x = b;
		x -= x >> 1 & 0x5555555555555555;
		x = (x & 0x3333333333333333) + (x >> 2 & 0x3333333333333333);
		x = (x + (x >> 4)) & 0x0f0f0f0f0f0f0f0f;
		r = x * 0x0101010101010101 >> 56;
		set_flags(s, FK_RAW, size, !b ? ZF : 0, 0, 0);
		goto flags;
	}
	case BSWAP:
		r = swap(a, size);
		break;
	case CBW:
		r = extend(s->regs[0], size / 2);
		known = s->known & 1;
		break;
	case CWD:
		r = extend(s->regs[0], size) >> 63;
		known = s->known & 1;
		break;
	case POP:
		r = b;
		s->regs[4] += 8;
		break;
	case LEAVE:
		s->regs[4] = s->regs[5] + 8;
		if (!(s->known >> 5 & 1))
			s->known &= ~(1u << 4);
		r = b;
		break;
	case PUSH:
	case CALL:
	case CALL_IND:
		r = b;
		if (kind != PUSH) {
			r = s->bias + op->imm;
			known = 1;
		}
		s->regs[4] -= 8;
		if (!(s->known >> 4 & 1))
			return stop(s, END_ADDRESS);
		if (!store(s->regs[4], 8, r, known))
			return 1;
		break;
	case RET:
		s->regs[4] += 8 + op->cond;
		break;
	case XCHG:
		r = b;
		set_reg(s, op->src, size, a, ka);
		known = kb;
		break;
	case XADD:
		r = a + b;
		set_flags(s, FK_ADD, size, a, b, r);
		set_reg(s, op->src, size, a, ka);
		goto flags;
	case CMPXCHG: {
		u64 x = s->regs[0] & mask(size);
		known = s->known & ka;
		set_flags(s, FK_SUB, size, x, a, x - a);
		know_flags(s, known);
		if (!(known & 1)) {
			set_reg(s, 0, size, 0, 0);
		} else if (x == a) {
			r = b;
			known = kb;
		} else {
			r = a;
			set_reg(s, 0, size, a, 1);
		}
		break;
	}
	case CLOBBER:
		s->known &= ~(u32)(op->imm & 0x1ffff);
		for (u32 j = 0; j < 16; j++)
			if (op->imm >> (32 + j) & 1)
				s->vknown &= ~(15ull << (4 * j));
		known = 0;
		if (f & F_WRITES_DST) { // memory of any size
			if (!kea)
				return stop(s, END_ADDRESS);
			for (u32 j = 0; j < 8; j++) {
				if (j * 8 >= size)
					break;
				if (!store(ea + j * 8, size - j * 8 >= 8 ? 8 : size - j * 8, 0, 0))
					return 1;
			}
		}
		break;
	case SHLX:
	case SHRX:
	case SARX:
	case RORX: {
		u32 bits = size * 8, n;
		if (kind == RORX) {
			n = op->imm & (bits - 1);
			r = n ? (b >> n | b << (bits - n)) : b;
			break;
		}
		n = s->regs[within(op->cond, 15)] & (bits - 1);
		known &= s->known >> (op->cond & 15);
		if (kind == SHLX)
			r = b << n;
		else if (kind == SHRX)
			r = b >> n;
		else
			r = extend(b, size) >> n;
		break;
	}
	case ANDN:
		r = b & ~s->regs[within(op->cond, 15)] & mask(size);
		known &= s->known >> (op->cond & 15);
		set_flags(s, FK_LOGIC, size, 0, 0, r);
		goto flags;
	case BZHI: {
		u32 n = s->regs[within(op->cond, 15)] & 0xff;
		known &= s->known >> (op->cond & 15);
		r = n < size * 8 ? b & ((1ull << (n & 63)) - 1) : b;
		set_flags(s, FK_CARRY, size, 0, n >= size * 8 ? CF : 0, r);
		goto flags;
	}
	case BLSR:
		r = b & (b - 1);
		set_flags(s, FK_CARRY, size, 0, !b ? CF : 0, r);
		goto flags;
	case BLSI:
		r = b & -b;
		set_flags(s, FK_CARRY, size, 0, b ? CF : 0, r);
		goto flags;
	case BLSMSK:
		r = b ^ (b - 1);
		set_flags(s, FK_CARRY, size, 0, !b ? CF : 0, r);
		goto flags;
	case MOVBE:
		r = swap(b, size);
		break;
	case VLOAD:
	case VLOAD_LOW: {
		u32 to = VW(op->dst);
		int k = kea && fetch(ea, size > 8 ? 8 : size);
		u64 v = s->val;
		if (kind == VLOAD_LOW && size < 8) {
			v |= s->v[within(to, 63)] & ~mask(size);
			k &= s->vknown >> to;
		}
		set_word(s, to, v, k);
		for (u32 j = 1; j < 4; j++) {
			if (j * 8 < size) {
				k = kea && fetch(ea + j * 8, 8);
				set_word(s, to + j, s->val, k);
			} else if (kind == VLOAD && j * 8 < op->cond) {
				set_word(s, to + j, 0, 1);
			}
		}
		break;
	}
	case VHIGH: {
		int k = kea && fetch(ea, 8);
		set_word(s, VW(op->dst) + 1, s->val, k);
		break;
	}
	case VSTORE:
	case VSTORE_HIGH: {
		u32 from = VW(op->src) + (kind == VSTORE_HIGH);
		if (!kea)
			return stop(s, END_ADDRESS);
		if (!store(ea, size > 8 ? 8 : size, s->v[within(from, 63)], s->vknown >> from & 1))
			return 1;
		for (u32 j = 1; j < 4; j++)
			if (j * 8 < size && !store(ea + j * 8, 8, s->v[within(from + j, 63)], s->vknown >> (from + j) & 1))
				return 1;
		break;
	}
	case VMOV:
	case VMOV_LOW: {
		u32 to = VW(op->dst), from = VW(op->src);
		for (u32 j = 0; j < 4; j++) {
			u64 v = s->v[within(from + j, 63)];
			int k = s->vknown >> (from + j) & 1;
			if (j * 8 + 8 <= size) {
				set_word(s, to + j, v, k);
			} else if (j * 8 < size) {
				v = (v & mask(size)) | (s->v[within(to + j, 63)] & ~mask(size));
				set_word(s, to + j, v, k & s->vknown >> (to + j));
			} else if (kind == VMOV && j * 8 < op->cond) {
				set_word(s, to + j, 0, 1);
			}
		}
		break;
	}
	case VFROM: {
		u32 to = VW(op->dst);
		set_word(s, to, b, kb);
		set_word(s, to + 1, 0, 1);
		if (op->cond > 16) {
			set_word(s, to + 2, 0, 1);
			set_word(s, to + 3, 0, 1);
		}
		break;
	}
	case VTO:
		r = s->v[within(VW(op->src), 63)];
		known = s->vknown >> VW(op->src) & 1;
		break;
	case VMASKB: {
		u32 from = VW(op->src);
		for (u32 j = 0; j < 4; j++) {
			if (j * 8 >= op->cond)
				break;
			u64 v = s->v[within(from + j, 63)] & 0x8080808080808080;
			r |= ((v >> 7) * 0x0102040810204080 >> 56) << (8 * j);
			known &= s->vknown >> (from + j);
		}
		break;
	}
	case VZEROUPPER:
		for (u32 j = 0; j < 16; j++) {
			set_word(s, 4 * j + 2, 0, 1);
			set_word(s, 4 * j + 3, 0, 1);
		}
		break;
	case VTEST: {
		u64 both = 0, only = 0;
		for (u32 j = 0; j < 4; j++) {
			if (j * 8 >= size)
				break;
			u64 x = s->v[within(VW(op->dst) + j, 63)], y;
			known &= s->vknown >> (VW(op->dst) + j);
			known &= operand(s, op, ea, kea, j, &y);
			both |= x & y;
			only |= ~x & y;
		}
		set_flags(s, FK_RAW, 8, (both ? 0 : ZF) | (only ? 0 : CF), 0, 0);
		goto flags;
	}
	case VUNPACK: {
		u32 to = VW(op->dst), w = op->imm & 15, half = op->imm >> 8 & 1;
		u64 x = s->v[within(VW(op->cond) + half, 63)], y;
		int kx = s->vknown >> (VW(op->cond) + half) & 1, ky = operand(s, op, ea, kea, half, &y);
		if (w < 8) {
			set_word(s, to, spread(x & 0xffffffff, w) | spread(y & 0xffffffff, w) << (w * 8), kx & ky);
			set_word(s, to + 1, spread(x >> 32, w) | spread(y >> 32, w) << (w * 8), kx & ky);
		} else {
			set_word(s, to, x, kx);
			set_word(s, to + 1, y, ky);
		}
		break;
	}
	case VSHUFD: {
		u64 l, h;
		int kl = operand(s, op, ea, kea, 0, &l), kh = operand(s, op, ea, kea, 1, &h);
		u32 to = VW(op->dst), how = op->imm;
		if (how >> 8) {
			set_word(s, to, how & 256 ? words(l, how) : l, kl);
			set_word(s, to + 1, how & 512 ? words(h, how) : h, kh);
			break;
		}
		set_word(s, to, pick(l, h, how) | pick(l, h, how >> 2) << 32, kl & kh);
		set_word(s, to + 1, pick(l, h, how >> 4) | pick(l, h, how >> 6) << 32, kl & kh);
		break;
	}
	case VSHIFT: {
		u32 to = VW(op->dst), from = VW(op->cond), n = op->imm & 31;
		u64 l = s->v[within(from, 63)], h = s->v[within(from + 1, 63)];
		int k = s->vknown >> from & s->vknown >> (from + 1) & 1;
		if (n >= 16)
			l = h = 0;
		else if (n >= 8) {
			l = h >> ((n - 8) * 8);
			h = 0;
		} else if (n) {
			l = l >> (n * 8) | h << (64 - n * 8);
			h >>= n * 8;
		}
		set_word(s, to, l, k);
		set_word(s, to + 1, h, k);
		break;
	}
	case VBCAST: {
		u64 v;
		int k;
		if (f & F_HAS_MEM) {
			k = kea && fetch(ea, size);
			v = s->val;
		} else {
			v = s->v[within(VW(op->src), 63)] & mask(size);
			k = s->vknown >> VW(op->src) & 1;
		}
		if (size == 1)
			v *= 0x0101010101010101;
		else if (size == 2)
			v *= 0x0001000100010001;
		else if (size == 4)
			v *= 0x0000000100000001;
		for (u32 j = 0; j < 4; j++) {
			int in = j * 8 < op->cond;
			set_word(s, VW(op->dst) + j, in ? v : 0, in ? k : 1);
		}
		break;
	}
	case VXOR:
	case VAND:
	case VOR:
	case VANDN:
	case VCMPB:
	case VCMPW:
	case VCMPD:
	case VCMPQ:
	case VMINB:
	case VADDD:
	case VSUBD:
	case VADDQ:
		for (u32 j = 0; j < 4; j++)
			lane(j);
		break;
	case COND_JUMP:
	case JUMP:
	case JUMP_IND:
		break;
	default:
		return stop(s, END_OP);
	flags:
		know_flags(s, known);
	}
	s->r = r;
	s->wsize = wsize;
	s->kr = known & 1;
	FORGET();
	kind = op->kind;
	r = s->r;
	wsize = s->wsize;
	known = s->kr;
	if (op->flags & F_WRITES_DST && kind != CLOBBER) {
		if (op->dst < 16) {
			set_reg(s, op->dst, wsize, r, known);
		} else {
			if (!s->kea)
				return stop(s, END_ADDRESS);
			if (!store(s->ea, wsize, r & mask(wsize), known))
				return 1;
		}
	}
	s->left--;
	if (kind < CALL || kind > COND_JUMP)
		return go_on(s);
	if (kind == COND_JUMP) {
		int k = s->known >> 16 & 1, to = decide(s, op, k, k ? taken(flags(), op->cond) : 0);
		if (to != 1)
			return to ? 1 : go_on(s);
	}
	if (kind == CALL || kind == JUMP || kind == COND_JUMP)
		return jump(s, op);
	return jump_to(s, s->b, s->kb);
}

// one emulates one instruction; 0 is to go on.
inline_ int one(void) { return step(); }
