// The kernel's side of a Walker: from where a sample interrupted a thread, it emulates
// the instructions that the thread is about to run, with its registers and memory, and
// writes down where branches go. Nothing of the thread is changed: what it would store is kept
// aside. See walker_linux.go, and infer/image/walk.go for what the operations stand for.

#include "kernel.h"
#include "samples.h"

// An operation is one instruction, in the order of the fields of WalkOp.
struct op {
	u8 kind, size; // size of the operands, in bytes
	u8 dst, src;   // registers, or MEM, IMM, NONE
	u8 base, index, scale;
	u8 flags; // F_*
	u8 cond;  // condition, or what else the kind wants to know
	u8 pad[3];
	s32 disp;
	u32 target; // of a direct branch: index of an operation; 0 is outside
	s64 imm;
};

enum { MEM = 16, IMM = 17, NONE = 18 };
enum { BASE_IMAGE = 17 }; // and 16 is no register

enum {
	F_MEM = 1,  // has a memory operand
	F_RDST = 2, // reads its destination
	F_WDST = 4, // writes it
	F_RSRC = 8, // reads its source
	F_FS = 16,  // the memory operand is relative to fs
};

enum kind {
	STOP,
	MOV,
	MOVZX, // cond: bytes of the destination
	MOVSX,
	LEA,
	ADD,
	OR,
	ADC,
	SBB,
	AND,
	SUB,
	XOR,
	CMP,
	TEST,
	INC,
	DEC,
	NEG,
	NOT,
	SHL,
	SHR,
	SAR,
	ROL,
	ROR,
	SHLD, // dst, register cond; imm < 0: by cl
	SHRD,
	IMUL,  // dst = dst * src
	IMUL3, // dst = src * imm
	MULW,  // rdx:rax = rax * src
	IMULW,
	DIV,
	IDIV,
	SETCC,
	CMOV,
	BT,
	BTS,
	BTR,
	BTC,
	BSF,
	BSR,
	TZCNT,
	LZCNT,
	POPCNT,
	BSWAP,
	CBW, // cbw, cwde, cdqe, by size
	CWD, // cwd, cdq, cqo
	PUSH,
	POP,
	LEAVE,
	CALL,  // imm: address to come back to
	CALLI, // the same, to src
	RET,   // cond: bytes that it pops
	JMP,
	JMPI,
	JCC,
	XCHG,
	XADD,
	CMPXCHG,
	NOP,
	CLOBBER, // imm: registers that are not known afterwards, FLAGS, vectors from bit 32 on; size: bytes of dst
	SHLX, // dst = src shifted by register cond, without flags
	SHRX,
	SARX,
	RORX, // by imm
	ANDN, // dst = src and not register cond
	BZHI, // dst = src without bits from register cond on
	BLSR, // dst = src without its lowest bit
	BLSI, // no more than it
	BLSMSK, // up to it
	MOVBE,
	VLOAD,      // vector register dst = size bytes of memory, the rest of cond bytes 0
	VLOADLOW,   // the same, rest kept
	VHIGH,      // second word of dst = 8 bytes of memory
	VSTORE,     // size bytes of vector register src
	VSTOREHIGH, // second word of it
	VMOV,       // size bytes of dst = src, the rest of cond bytes 0
	VMOVLOW,    // the same, rest kept
	VFROM,      // vector register dst = general register src
	VTO,        // general register dst = vector register src
	VMASKB,     // general register dst = top bits of the bytes of src
	VZEROUPPER,
	VTEST,   // flags by dst and src
	VUNPACK, // dst = elements of cond and src in turn; imm: their size, from bit 8 on the word
	VSHUFD,  // by imm: double words; words of the first or the second half with bit 8 or 9
	VSHIFT,  // by imm bytes to the right
	VBCAST,  // element of size bytes of src in cond bytes
	VXOR,    // from here on word by word: dst = f(cond, src)
	VAND,
	VOR,
	VANDN,
	VCMPB,
	VCMPW,
	VCMPD,
	VCMPQ,
	VMINB,
	VADDD,
	VSUBD,
	VADDQ,
};

#define FLAGS_KNOWN (1u << 16)

// A line is memory of the thread as a walk found it, with what the walk would have written since. To
// read it takes 100 ns, however little of it; what is here before takes 10.
struct line {
	u64 at;    // address / LINE
	u64 walk;  // number of the walk that came by it
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
#define KEPT 10000000000 // ns that a range is kept

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

// How walks ended.
enum {
	END_LENGTH,
	END_OP,       // an instruction that is not emulated
	END_BRANCH,   // it is not known where a branch goes, and too much was guessed
	END_OUTSIDE,  // left the code that is known
	END_ADDRESS,  // not known where something is stored
	END_ROOM,
	END_START, // nothing is known of the code where it begins
	ENDS
};

enum { OUTCOMES = 512, TARGETS = 256 };

// A trail is what a walk tells: the code tells the rest of the way.
struct trail {
	u32 start; // operation
	u32 steps;
	u32 end;
	u32 outcomes, targets;
	u32 pages; // of the image that left is in
	u64 left;  // with END_OUTSIDE, by an indirect branch: the address, as linked, that it went to; 0 is in no image
	u64 taken[OUTCOMES / 64]; // bit by conditional branch
	u64 guessed[OUTCOMES / 64]; // likewise: it is not known whether it is taken
	u32 target[TARGETS];      // operations that indirect branches and returns went to
};

struct state {
	u64 regs[16];
	u64 v[64]; // vector registers, four words each
	u64 vknown; // bit by word
	u32 known; // bit by register, and FLAGS_KNOWN
	u64 walk;
	u32 pc; // index of an operation
	u32 left; // operations to go
	u32 end;
	u32 guesses;
	// The flags are those of the last operation that set some.
	u32 fkind, fsize;
	u64 fa, fb, fr;
	u64 val; // what fetch gives
	u64 bias, lo, hi, first; // of the range where it is
	u32 pages, many;
	u64 fs;
	struct space_key key;
	struct trail trail;
	struct line lines[LINES];
	u64 words[LINES * (LINE / 8)]; // by line
};

const volatile u32 longest; // operations of a walk, at most
const volatile u32 guesses; // branches of a walk whose way may be guessed

enum { FK_RAW, FK_LOGIC, FK_ADD, FK_SUB, FK_INC, FK_DEC, FK_CARRY };

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

struct {
	__uint(type, RINGBUF);
	__uint(max_entries, 1 << 21);
} trails SEC(".maps");

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

struct {
	__uint(type, LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct space_key);
	__type(value, struct space);
} spaces SEC(".maps");

// Totals of one processor.
struct totals {
	u64 walks, steps;
	u64 spent;  // ns that walks took
	u64 earned; // ns that they may take
	u64 ends[ENDS];
	u64 walk; // number of the last one
	u64 lost; // whose trails there was no room for
};

struct {
	__uint(type, PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, u32);
	__type(value, struct totals);
} totals SEC(".maps");

volatile u32 share;         // of the processor time that walks may take, in 1 / 2^20
const volatile u32 unit;     // of the event, in 1 / 1024 ns

// OVERHEAD is what a walk takes beside what the clock sees of it. What was not used up is
// good for so much at once.
enum { OVERHEAD = 300, SAVED = 1000000 }; // ns

static long (*loop)(u32 n, void *f, void *ctx, u64 flags) = (void *)181;
static long (*probe_read_kernel)(void *to, u32 size, const void *from) = (void *)113;
static long (*find_vma)(struct task_struct *task, u64 addr, void *f, void *ctx, u64 flags) = (void *)180;

inline_ struct state *state(void)
{
	u32 zero = 0;
	return map_lookup(&states, &zero);
}

inline_ u64 mask(u32 size) { return size >= 8 ? ~0ull : (1ull << (size * 8)) - 1; }

// word gives word i, which wraps around, of the line with an index.
inline_ u64 *word(struct state *s, u32 line, u32 i)
{
	return &s->words[(line * (LINE / 8) + (i & (LINE / 8 - 1))) & (LINES * (LINE / 8) - 1)];
}

// find gives the index of the line at n * LINE, which is read if the walk did not come by it before;
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

enum { CF = 1, PF = 4, ZF = 64, SF = 128, OF = 2048 };

// flags gives the flags as the processor has them.
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

// know_flags says whether the flags are known from now on.
inline_ void know_flags(struct state *s, int known)
{
	if (known & 1)
		s->known |= FLAGS_KNOWN;
	else
		s->known &= ~FLAGS_KNOWN;
}

inline_ void set_flags(struct state *s, u32 kind, u32 size, u64 a, u64 b, u64 r)
{
	s->fkind = kind;
	s->fsize = size;
	s->fa = a;
	s->fb = b;
	s->fr = r;
}

// high gives the upper half of a product.
inline_ u64 high(u64 a, u64 b)
{
	u64 al = a & 0xffffffff, ah = a >> 32, bl = b & 0xffffffff, bh = b >> 32;
	u64 mid = ah * bl + (al * bl >> 32), mid2 = al * bh + (mid & 0xffffffff);
	return ah * bh + (mid >> 32) + (mid2 >> 32);
}

inline_ s64 extend(u64 v, u32 size)
{
	u32 shift = 64 - size * 8;
	return (s64)(v << (shift & 63)) >> (shift & 63);
}

inline_ u64 swap(u64 x, u32 size)
{
	x = (x & 0x00ff00ff00ff00ff) << 8 | (x >> 8 & 0x00ff00ff00ff00ff);
	x = (x & 0x0000ffff0000ffff) << 16 | (x >> 16 & 0x0000ffff0000ffff);
	x = x << 32 | x >> 32;
	return x >> (64 - size * 8 & 63);
}

#define VW(r) (((r) & 15) * 4)

inline_ void set_word(struct state *s, u32 at, u64 v, int known)
{
	at &= 63;
	s->v[at] = v;
	s->vknown = (s->vknown & ~(1ull << at)) | (u64)(known & 1) << at;
}

// operand gives word j of a vector source, and whether it is known.
inline_ int operand(struct state *s, struct op *op, u64 ea, int kea, u32 j, u64 *v)
{
	if (op->flags & F_MEM) {
		int k = kea && fetch(ea + j * 8, 8);
		*v = s->val;
		return k;
	}
	u32 at = (VW(op->src) + j) & 63;
	*v = s->v[at];
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

// words gives the four words of v in the order of how.
inline_ u64 words(u64 v, u32 how)
{
	u64 r = 0;
	for (int j = 0; j < 4; j++)
		r |= (v >> 16 * (how >> 2 * j & 3) & 0xffff) << 16 * j;
	return r;
}

inline_ u64 pick(u64 l, u64 h, u32 i) { return ((i & 2 ? h : l) >> ((i & 1) * 32)) & 0xffffffff; }

// equal gives all ones in the elements that are equal; top is their top bits.
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
		s->regs[r] = v & mask(size);
		if (known)
			s->known |= 1u << r;
		else
			s->known &= ~(1u << r);
		return;
	}
	u64 m = mask(size);
	s->regs[r] = (s->regs[r] & ~m) | (v & m);
	if (!known)
		s->known &= ~(1u << r);
}

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
struct thread_struct {
	u64 fsbase;
};
struct task_struct___walk {
	struct thread_struct thread;
};
#pragma clang attribute pop

// image_of gives what is known of a file; 0 if nothing.
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

// opened gives the inode of a mapped file for those who opened it, which for a file of
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
	u64 off = vma->vm_pgoff << 12, end = off + vma->vm_end - vma->vm_start;
	if (end <= im->lo || off >= im->hi)
		return 0;
	r->bias = vma->vm_start - off - im->delta;
	r->first = im->first;
	r->pages = im->pages;
	r->many = im->many;
	return 0;
}

// range gives the range of pc, if it was found already.
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

// step emulates one instruction; 0 is to go on. As a global function it is verified by
// itself, once.
// guess says which way a branch goes of which that is not known: as often one way as the other,
// and most of the time back.
inline_ int guess(struct state *s, int back)
{
	u64 h = (s->walk << 16 ^ s->trail.outcomes) * 0x9e3779b97f4a7c15;
	return (h >> 60) < (back ? 14 : 8);
}

__attribute__((noinline)) int step(void)
{
	struct state *s = state();
	if (!s)
		return 1;
	u32 pc = s->pc;
	struct op *op = map_lookup(&ops, &pc);
	if (!op)
		return stop(s, END_OP);
	u32 kind = op->kind, size = op->size, f = op->flags;
	u64 ea = 0, a = 0, b = 0, r = 0;
	int kea = 1, ka = 1, kb = 1;
	if (f & F_MEM) {
		ea = (s64)op->disp;
		if (op->base == BASE_IMAGE) {
			ea = s->bias + (u32)op->disp;
		} else if (op->base < 16) {
			ea += s->regs[op->base & 15];
			kea = s->known >> (op->base & 15) & 1;
		}
		if (op->index < 16) {
			ea += s->regs[op->index & 15] << (op->scale & 3);
			kea &= s->known >> (op->index & 15);
		}
		if (f & F_FS)
			ea += s->fs;
	}
	if (f & F_RSRC) {
		u32 src = op->src;
		if (src < 16) {
			b = s->regs[src & 15];
			kb = s->known >> (src & 15) & 1;
		} else if (src == IMM) {
			b = op->imm;
		} else {
			kb = kea && fetch(ea, size);
			b = s->val;
		}
		b &= mask(size);
	}
	if (f & F_RDST) {
		u32 dst = op->dst;
		if (dst < 16) {
			a = s->regs[dst & 15];
			ka = s->known >> (dst & 15) & 1;
		} else {
			ka = kea && fetch(ea, size);
			a = s->val;
		}
		a &= mask(size);
	}
	int known = ka & kb;
	u32 wsize = size;
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
		u64 other = s->regs[op->cond & 15] & mask(size);
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
	case MULW:
	case IMULW: {
		u64 x = s->regs[0] & mask(size), h, over;
		known &= s->known & 1;
		if (size == 1) {
			known = 0;
			set_reg(s, 0, 2, 0, 0);
			set_flags(s, FK_CARRY, size, 0, 0, 0);
			goto flags;
		}
		if (kind == MULW) {
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
	case CALLI:
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
		if (f & F_WDST) { // memory of any size
			if (!kea)
				return stop(s, END_ADDRESS);
			for (u32 j = 0; j < 8; j++) {
				if (j * 8 >= size)
					break;
				if (!store(ea + j * 8, size - j * 8 >= 8 ? 8 : size - j * 8, 0, 0))
					return 1;
			}
			f &= ~F_WDST;
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
		n = s->regs[op->cond & 15] & (bits - 1);
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
		r = b & ~s->regs[op->cond & 15] & mask(size);
		known &= s->known >> (op->cond & 15);
		set_flags(s, FK_LOGIC, size, 0, 0, r);
		goto flags;
	case BZHI: {
		u32 n = s->regs[op->cond & 15] & 0xff;
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
	case VLOADLOW: {
		u32 to = VW(op->dst);
		int k = kea && fetch(ea, size > 8 ? 8 : size);
		u64 v = s->val;
		if (kind == VLOADLOW && size < 8) {
			v |= s->v[to] & ~mask(size);
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
	case VSTOREHIGH: {
		u32 from = VW(op->src) + (kind == VSTOREHIGH);
		if (!kea)
			return stop(s, END_ADDRESS);
		if (!store(ea, size > 8 ? 8 : size, s->v[from & 63], s->vknown >> from & 1))
			return 1;
		for (u32 j = 1; j < 4; j++)
			if (j * 8 < size && !store(ea + j * 8, 8, s->v[(from + j) & 63], s->vknown >> (from + j) & 1))
				return 1;
		break;
	}
	case VMOV:
	case VMOVLOW: {
		u32 to = VW(op->dst), from = VW(op->src);
		for (u32 j = 0; j < 4; j++) {
			u64 v = s->v[(from + j) & 63];
			int k = s->vknown >> (from + j) & 1;
			if (j * 8 + 8 <= size) {
				set_word(s, to + j, v, k);
			} else if (j * 8 < size) {
				v = (v & mask(size)) | (s->v[(to + j) & 63] & ~mask(size));
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
		r = s->v[VW(op->src)];
		known = s->vknown >> VW(op->src) & 1;
		break;
	case VMASKB: {
		u32 from = VW(op->src);
		for (u32 j = 0; j < 4; j++) {
			if (j * 8 >= op->cond)
				break;
			u64 v = s->v[(from + j) & 63] & 0x8080808080808080;
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
			u64 x = s->v[(VW(op->dst) + j) & 63], y;
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
		u64 x = s->v[(VW(op->cond) + half) & 63], y;
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
		u64 l = s->v[from], h = s->v[(from + 1) & 63];
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
		if (f & F_MEM) {
			k = kea && fetch(ea, size);
			v = s->val;
		} else {
			v = s->v[VW(op->src)] & mask(size);
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
	case VADDQ: {
		u32 to = VW(op->dst), from = VW(op->cond);
		int same = !(f & F_MEM) && op->cond == op->src;
		for (u32 j = 0; j < 4; j++) {
			u64 y, z;
			if (j * 8 >= size) {
				if (op->imm) // VEX: no more than size bytes stay
					set_word(s, to + j, 0, 1);
				continue;
			}
			int k = operand(s, op, ea, kea, j, &y);
			u64 x = s->v[(from + j) & 63];
			k &= s->vknown >> (from + j);
			z = lanes(kind, x, y);
			if (same && (kind == VXOR || kind == VCMPB || kind == VCMPD || kind == VSUBD))
				k = 1;
			set_word(s, to + j, z, k);
		}
		break;
	}
	case JCC:
	case JMP:
	case JMPI:
		break;
	default:
		return stop(s, END_OP);
	flags:
		know_flags(s, known);
	}
	known &= 1;
	if (f & F_WDST) {
		if (op->dst < 16) {
			set_reg(s, op->dst, wsize, r, known);
		} else {
			if (!kea)
				return stop(s, END_ADDRESS);
			if (!store(ea, wsize, r & mask(wsize), known))
				return 1;
		}
	}
	s->left--;
	if (kind < CALL || kind > JCC) {
		s->pc = pc + 1;
		return 0;
	}
	// Control goes elsewhere, or may.
	int to = 1;
	if (kind == JCC) {
		u32 n = s->trail.outcomes++;
		if (n >= OUTCOMES)
			return stop(s, END_ROOM);
		if (s->known & FLAGS_KNOWN) {
			to = taken(flags(), op->cond);
		} else {
			if (s->guesses++ >= guesses) {
				s->trail.outcomes = n;
				return stop(s, END_BRANCH);
			}
			to = guess(s, op->target <= pc);
			s->trail.guessed[n / 64 & (OUTCOMES / 64 - 1)] |= 1ull << (n & 63);
		}
		if (to)
			s->trail.taken[n / 64 & (OUTCOMES / 64 - 1)] |= 1ull << (n & 63);
	}
	if (!to) {
		s->pc = pc + 1;
		return 0;
	}
	if (kind == CALL || kind == JMP || kind == JCC) {
		s->pc = op->target;
		if (!op->target)
			return stop(s, END_OUTSIDE);
		return 0;
	}
	if (!kb)
		return stop(s, END_BRANCH);
	if (!enter(s, b))
		return stop(s, END_OUTSIDE);
	u32 n = s->trail.targets;
	if (n >= TARGETS)
		return stop(s, END_ROOM);
	s->trail.target[n & (TARGETS - 1)] = s->pc;
	s->trail.targets = n + 1;
	return 0;
}

enum { STRIDE = 16 }; // steps for each call of the helper that loops

static long stride(u32 i, void *ctx)
{
	for (int j = 0; j < STRIDE; j++)
		if (step())
			return 1;
	return 0;
}

static __attribute__((noinline)) int walk(struct regs *regs, struct totals *t)
{
	struct state *s = state();
	if (!s)
		return END_START;
	struct task_struct *task = get_current_task_btf();
	u32 tgid = task->tgid;
	struct space_key key = {.born = born(tgid), .tgid = tgid};
	u64 pc = regs->ip, now = ktime_get_ns();
	struct space *sp = map_lookup(&spaces, &key);
	struct range *r = sp ? range(sp, pc) : 0;
	if (!r || r->until < now) {
		// There can be but one look in an interrupt: what a walk goes on to has to be known.
		struct range found = {.until = now + KEPT};
		if (find_vma(task, pc, look, &found, 0))
			return END_START;
		if (!sp) {
			struct space fresh = {.n = 1};
			fresh.ranges[0] = found;
			map_update(&spaces, &key, &fresh, 0);
		} else if (r) {
			*r = found;
		} else {
			// Without a lock: at worst a range is looked for once more.
			sp->ranges[sp->n++ & (RANGES - 1)] = found;
		}
	} else if (sp->wanted) {
		struct range found = {.until = now + KEPT};
		if (!range(sp, sp->wanted) && !find_vma(task, sp->wanted, look, &found, 0))
			sp->ranges[sp->n++ & (RANGES - 1)] = found;
		sp->wanted = 0;
	}
	s->key = key;
	s->lo = s->hi = 0;
	if (!enter(s, pc))
		return END_START;
	s->walk = ++t->walk;
	s->regs[0] = regs->ax;
	s->regs[1] = regs->cx;
	s->regs[2] = regs->dx;
	s->regs[3] = regs->bx;
	s->regs[4] = regs->sp;
	s->regs[5] = regs->bp;
	s->regs[6] = regs->si;
	s->regs[7] = regs->di;
	s->regs[8] = regs->r8;
	s->regs[9] = regs->r9;
	s->regs[10] = regs->r10;
	s->regs[11] = regs->r11;
	s->regs[12] = regs->r12;
	s->regs[13] = regs->r13;
	s->regs[14] = regs->r14;
	s->regs[15] = regs->r15;
	s->known = 0x1ffff;
	s->vknown = 0;
	s->fs = ((struct task_struct___walk *)task)->thread.fsbase;
	set_flags(s, FK_RAW, 8, regs->flags, 0, 0);
	__builtin_memset(&s->trail, 0, __builtin_offsetof(struct trail, target));
	s->trail.start = s->pc;
	s->left = longest;
	s->end = END_LENGTH;
	s->guesses = 0;
	loop(longest / STRIDE, stride, 0, 0);
	s->trail.steps = longest - s->left;
	s->trail.end = s->end;
	t->steps += s->trail.steps;
	u32 n = s->trail.targets & (2 * TARGETS - 1);
	// Who wants to know looks now and then.
	if (n <= TARGETS && ringbuf_output(&trails, &s->trail, __builtin_offsetof(struct trail, target) + n * 4, NO_WAKEUP))
		t->lost++;
	return s->end;
}

struct perf_event_data {
	struct regs regs;
};

// earn gives walks their share of the time that a sample stands for; it tells whether there
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
	u32 end = walk(&ctx->regs, t);
	t->spent += ktime_get_ns() - from + OVERHEAD;
	t->walks++;
	if (end < ENDS)
		t->ends[end]++;
	return 0;
}
