// count.c: a plugin of QEMU's user emulation (qemu-aarch64, qemu-x86_64) that counts
// how often each instruction of a program ran, which jumps it took and which calls it
// made, and writes them where the program ends: as JSON that `backfeed verify` reads.
//
//	gcc -O2 -shared -fPIC -o count.so count.c
//	qemu-aarch64 -plugin ./count.so,out=truth.json PROGRAM
//
// Of a whole x86-64 machine (qemu-system-x86_64) with one processor, it counts Linux,
// which was linked as the file vmlinux and is where that says (nokaslr), between two
// places that a program calls:
//
//	qemu-system-x86_64 -plugin ./count.so,out=truth.json,kernel=vmlinux,from=0x50000000,to=0x50001000 ...
//
// QEMU calls a plugin where it begins to run a translation block, code that is left at
// its end only. A thread counts pairs of blocks, the one before and this one: the sum
// over the first is the executions of the second, and a pair says whether the branch at
// the end was taken. Threads count apart, so nothing is lost between them.
//
// Debian's packages have no qemu-plugin.h: what is used of it is declared here. It is
// the part that is the same from version 1 (QEMU 6.0) on. QEMU 9 and later take
// nothing below version 2: compile with -DAPI=2 for them.

#define _GNU_SOURCE
#include <elf.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef API
#define API 1
#endif

#define EXPORT __attribute__((visibility("default")))

typedef uint64_t plugin_id;
struct qemu_plugin_tb;
struct qemu_plugin_insn;
typedef struct {
	const char *target_name;
	struct {
		int min, cur;
	} version;
	bool system_emulation;
	// there is more, which is not used
} info;

void qemu_plugin_register_vcpu_init_cb(plugin_id, void (*)(plugin_id, unsigned vcpu));
void qemu_plugin_register_vcpu_tb_trans_cb(plugin_id, void (*)(plugin_id, struct qemu_plugin_tb *));
void qemu_plugin_register_vcpu_tb_exec_cb(struct qemu_plugin_tb *, void (*)(unsigned vcpu, void *), int flags, void *);
void qemu_plugin_register_vcpu_syscall_cb(plugin_id, void (*)(plugin_id, unsigned vcpu, int64_t num, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t, uint64_t));
void qemu_plugin_register_vcpu_syscall_ret_cb(plugin_id, void (*)(plugin_id, unsigned vcpu, int64_t num, int64_t ret));
void qemu_plugin_register_atexit_cb(plugin_id, void (*)(plugin_id, void *), void *);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *);
uint64_t qemu_plugin_tb_vaddr(const struct qemu_plugin_tb *);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *, size_t);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *);
void *qemu_plugin_insn_haddr(const struct qemu_plugin_insn *);

EXPORT int qemu_plugin_version = API;

static char *out_path;
static char *kernel;              // of a whole machine: its vmlinux
static uint64_t begin_at, end_at; // where a program says that counting begins and ends
static bool counting = true;
static bool arm;  // else x86-64
static pid_t pid; // of the process that began: children of fork write nothing
static bool done;

static void fail(const char *what, const char *which)
{
	fprintf(stderr, "count.so: %s %s\n", what, which);
	_exit(125);
}

// more gives room for one thing more in an array of n things.
static void *more(void *array, size_t n, size_t size)
{
	if (n & (n - 1) || n == 1)
		return array;
	array = realloc(array, (n ? 2 * n : 2) * size);
	if (!array)
		fail("out of", "memory");
	return array;
}

// ---- where code comes from ----

// An image is a file with code. Number 0 is all code of no file.
struct image {
	char *path;
	Elf64_Phdr *segments;
	size_t n_segments;
};

static struct image *images;
static size_t n_images;

static void read_segments(struct image *im)
{
	Elf64_Ehdr h;
	int fd = open(im->path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (pread(fd, &h, sizeof h, 0) == sizeof h && !memcmp(h.e_ident, ELFMAG, SELFMAG) &&
	    h.e_ident[EI_CLASS] == ELFCLASS64 && h.e_phentsize == sizeof(Elf64_Phdr)) {
		size_t size = h.e_phnum * sizeof(Elf64_Phdr);
		im->segments = malloc(size);
		if (im->segments && pread(fd, im->segments, size, h.e_phoff) == (ssize_t)size)
			im->n_segments = h.e_phnum;
	}
	close(fd);
}

static unsigned image_of(const char *path)
{
	for (size_t i = 0; i < n_images; i++)
		if (!strcmp(images[i].path, path))
			return i;
	images = more(images, n_images, sizeof *images);
	images[n_images] = (struct image){.path = strdup(path)};
	read_segments(&images[n_images]);
	return n_images++;
}

// A mapping is a line of /proc/self/maps.
struct mapping {
	uintptr_t start, end;
	uint64_t offset;
	unsigned image;
};

static struct mapping *mappings;
static size_t n_mappings;
static bool stale = true; // mappings have changed since they were read

static void read_mappings(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char *line = NULL;
	size_t room = 0;
	if (!f)
		fail("cannot read", "/proc/self/maps");
	n_mappings = 0;
	stale = false;
	while (getline(&line, &room, f) > 0) {
		struct mapping m;
		int at = 0;
		line[strcspn(line, "\n")] = 0;
		if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " %*s %" SCNx64 " %*s %*s %n", &m.start, &m.end, &m.offset, &at) < 3 || line[at] != '/')
			continue;
		m.image = image_of(line + at);
		mappings = more(mappings, n_mappings, sizeof *mappings);
		mappings[n_mappings++] = m;
	}
	free(line);
	fclose(f);
}

// locate finds the image of a place in memory, and its address as linked.
static unsigned locate(uintptr_t host, uint64_t *addr)
{
	if (stale)
		read_mappings();
	for (size_t i = 0; i < n_mappings; i++) {
		struct mapping *m = &mappings[i];
		if (host < m->start || host >= m->end)
			continue;
		uint64_t off = host - m->start + m->offset;
		struct image *im = &images[m->image];
		for (int pass = 0; pass < 2; pass++) // code first: a page may belong to two segments
			for (size_t j = 0; j < im->n_segments; j++) {
				Elf64_Phdr *p = &im->segments[j];
				if (p->p_type == PT_LOAD && (pass || p->p_flags & PF_X) && off >= p->p_offset && off < p->p_offset + p->p_filesz) {
					*addr = off - p->p_offset + p->p_vaddr;
					return m->image;
				}
			}
	}
	return 0;
}

// TOP_HALF is where Linux has its own addresses.
#define TOP_HALF (UINT64_C(1) << 63)

// locate_kernel finds out whether an address is in the kernel's code: in image 1, else 0.
static unsigned locate_kernel(uint64_t addr)
{
	for (size_t j = 0; addr >= TOP_HALF && j < images[1].n_segments; j++) {
		Elf64_Phdr *p = &images[1].segments[j];
		if (p->p_type == PT_LOAD && p->p_flags & PF_X && addr >= p->p_vaddr && addr < p->p_vaddr + p->p_memsz)
			return 1;
	}
	return 0;
}

// A handler is where a signal makes a thread go on: no branch leads there.
struct handler {
	unsigned image;
	uint64_t addr;
};

static struct handler *handlers;
static size_t n_handlers;

static bool is_handler(unsigned image, uint64_t addr)
{
	for (size_t i = 0; i < n_handlers; i++)
		if (handlers[i].image == image && handlers[i].addr == addr)
			return true;
	return false;
}

// ---- translation blocks ----

enum end { OTHER, JUMP, CALL, INDIRECT_JUMP, INDIRECT_CALL, RETURN };

// A block is what QEMU translated: instructions one behind the other.
struct block {
	unsigned image;
	uint64_t addr, after; // its first byte, and the one behind its last
	uint64_t last;        // address of its last instruction
	enum end end;         // what that is
	uint64_t to;          // where a direct jump or call leads
	unsigned n;
	uint8_t *sizes; // of the instructions
};

static struct block *blocks; // number 0 is none
static size_t n_blocks;
static uint32_t *block_table; // numbers, by hash
static size_t block_room;
static uintptr_t guest_base; // what QEMU adds to the program's addresses
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; // of the above

static uint64_t hash(uint64_t x)
{
	x *= 0x9e3779b97f4a7c15;
	return x ^ x >> 32;
}

static int64_t field(uint32_t word, int at, int bits)
{
	return (int64_t)((uint64_t)word << (64 - at - bits)) >> (64 - bits);
}

static void end_arm(struct block *b, const uint8_t *code)
{
	uint32_t w;
	memcpy(&w, code, 4);
	if ((w & 0x7c000000) == 0x14000000) { // b, bl
		b->end = w >> 31 ? CALL : JUMP;
		b->to = b->last + 4 * field(w, 0, 26);
	} else if ((w & 0xff000000) == 0x54000000 || (w & 0x7e000000) == 0x34000000) { // b.cond, cbz, cbnz
		b->end = JUMP;
		b->to = b->last + 4 * field(w, 5, 19);
	} else if ((w & 0x7e000000) == 0x36000000) { // tbz, tbnz
		b->end = JUMP;
		b->to = b->last + 4 * field(w, 5, 14);
	} else if ((w & 0xfe000000) == 0xd6000000) { // br, blr, ret and those with a key
		static const enum end by_opc[8] = {INDIRECT_JUMP, INDIRECT_CALL, RETURN};
		b->end = by_opc[w >> 21 & 7];
	}
}

static void end_x86(struct block *b, const uint8_t *code, size_t size)
{
	size_t i = 0;
	while (i < size && (memchr("\x66\xf2\xf3\x2e\x36\x3e\x26\x64\x65\xf0", code[i], 10) || (code[i] & 0xf0) == 0x40))
		i++;
	if (i + 1 > size)
		return;
	uint8_t op = code[i];
	int8_t rel8 = code[size - 1];
	int32_t rel32 = 0;
	if (size >= 4)
		memcpy(&rel32, code + size - 4, 4);
	if (op == 0xe8 || op == 0xe9) {
		b->end = op == 0xe8 ? CALL : JUMP;
		b->to = b->after + rel32;
	} else if (op == 0x0f && i + 1 < size && (code[i + 1] & 0xf0) == 0x80) {
		b->end = JUMP;
		b->to = b->after + rel32;
	} else if (op == 0xeb || (op & 0xf0) == 0x70 || (op & 0xfc) == 0xe0) {
		b->end = JUMP;
		b->to = b->after + rel8;
	} else if (op == 0xff && i + 1 < size) {
		int reg = code[i + 1] >> 3 & 7;
		b->end = reg == 2 ? INDIRECT_CALL : reg == 4 ? INDIRECT_JUMP : OTHER;
	} else if (op == 0xc3 || op == 0xc2) {
		b->end = RETURN;
	}
}

static void grow_block_table(void)
{
	free(block_table);
	block_room = block_room ? 2 * block_room : 1 << 14;
	block_table = calloc(block_room, sizeof *block_table);
	if (!block_table)
		fail("out of", "memory");
	for (size_t i = 1; i < n_blocks; i++) {
		size_t h = hash(blocks[i].addr);
		while (block_table[h & (block_room - 1)])
			h++;
		block_table[h & (block_room - 1)] = i;
	}
}

// number gives the number of a block; QEMU may translate one many times.
static uint32_t number(const struct block *b)
{
	if (2 * n_blocks >= block_room)
		grow_block_table();
	size_t h = hash(b->addr);
	for (uint32_t i; (i = block_table[h & (block_room - 1)]); h++) {
		struct block *o = &blocks[i];
		if (o->image == b->image && o->addr == b->addr && o->after == b->after && o->end == b->end && o->n == b->n) {
			free(b->sizes);
			return i;
		}
	}
	blocks = more(blocks, n_blocks, sizeof *blocks);
	blocks[n_blocks] = *b;
	block_table[h & (block_room - 1)] = n_blocks;
	return n_blocks++;
}

// ---- counting ----

// A pair is two blocks that ran one after the other in a thread.
struct pair {
	uint64_t key; // numbers of the blocks; 0 is a free place
	uint64_t n;
};

struct thread {
	uint32_t last; // block
	struct pair *pairs;
	size_t n, room;
};

#define MAX_VCPUS 65536
static struct thread *threads[MAX_VCPUS];

static struct pair *find(struct pair *pairs, size_t room, uint64_t key)
{
	size_t h = hash(key);
	for (;; h++) {
		struct pair *p = &pairs[h & (room - 1)];
		if (p->key == key || !p->key)
			return p;
	}
}

static void grow(struct thread *t)
{
	size_t room = t->room ? 2 * t->room : 1 << 12;
	struct pair *pairs = calloc(room, sizeof *pairs);
	if (!pairs)
		fail("out of", "memory");
	for (size_t i = 0; i < t->room; i++)
		if (t->pairs[i].key)
			*find(pairs, room, t->pairs[i].key) = t->pairs[i];
	// The old ones are kept: another thread may be writing the result.
	t->pairs = pairs;
	t->room = room;
}

static struct thread *thread(unsigned vcpu)
{
	if (vcpu >= MAX_VCPUS)
		fail("too many", "threads");
	if (!threads[vcpu]) {
		struct thread *t = calloc(1, sizeof *t);
		if (!t)
			fail("out of", "memory");
		grow(t);
		threads[vcpu] = t;
	}
	return threads[vcpu];
}

static void executed(unsigned vcpu, void *block)
{
	struct thread *t = thread(vcpu);
	if (done)
		return;
	if (!counting) {
		t->last = 0;
		return;
	}
	uint32_t now = (uintptr_t)block;
	uint64_t key = (uint64_t)t->last << 32 | now;
	struct pair *p = find(t->pairs, t->room, key);
	if (!p->key) {
		p->key = key;
		if (++t->n > t->room / 2) {
			grow(t);
			p = find(t->pairs, t->room, key);
		}
	}
	p->n++;
	t->last = now;
}

static void started(plugin_id id, unsigned vcpu)
{
	thread(vcpu)->last = 0; // it may have been another thread's
}

// marked begins or ends counting.
static void marked(unsigned vcpu, void *begins)
{
	counting = begins != NULL;
}

static void translated(plugin_id id, struct qemu_plugin_tb *tb)
{
	struct block b = {.n = qemu_plugin_tb_n_insns(tb), .addr = qemu_plugin_tb_vaddr(tb)};
	if (!b.n)
		return;
	if (kernel && (b.addr == begin_at || b.addr == end_at))
		qemu_plugin_register_vcpu_tb_exec_cb(tb, marked, 0, b.addr == begin_at ? &counting : NULL);
	const uint8_t *host = qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(tb, 0));
	b.sizes = malloc(b.n);
	if (!b.sizes)
		fail("out of", "memory");
	pthread_mutex_lock(&lock);
	guest_base = (uintptr_t)host - b.addr;
	b.image = kernel ? locate_kernel(b.addr) : locate((uintptr_t)host, &b.addr);
	b.after = b.addr;
	for (unsigned i = 0; i < b.n; i++) {
		b.last = b.after;
		b.sizes[i] = qemu_plugin_insn_size(qemu_plugin_tb_get_insn(tb, i));
		b.after += b.sizes[i];
	}
	// Pages of a machine that follow one another lie anywhere.
	const uint8_t *code = qemu_plugin_insn_haddr(qemu_plugin_tb_get_insn(tb, b.n - 1));
	if (arm)
		end_arm(&b, code);
	else if (code)
		end_x86(&b, code, b.after - b.last);
	uint32_t n = number(&b);
	pthread_mutex_unlock(&lock);
	qemu_plugin_register_vcpu_tb_exec_cb(tb, executed, 0, (void *)(uintptr_t)n);
}

static void called(plugin_id id, unsigned vcpu, int64_t num, uint64_t sig, uint64_t action, uint64_t a3, uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
	if (num != (arm ? 134 : 13) || !action) // rt_sigaction
		return;
	struct handler h;
	memcpy(&h.addr, (void *)(action + guest_base), 8);
	if (h.addr <= 1) // the default, or ignored
		return;
	pthread_mutex_lock(&lock);
	h.image = locate(h.addr + guest_base, &h.addr);
	if (!is_handler(h.image, h.addr)) {
		handlers = more(handlers, n_handlers, sizeof *handlers);
		handlers[n_handlers++] = h;
	}
	pthread_mutex_unlock(&lock);
}

static void returned(plugin_id id, unsigned vcpu, int64_t num, int64_t ret)
{
	// mmap, mprotect and munmap. By the time code runs there, they have returned.
	if (arm ? num == 222 || num == 226 || num == 215 : num >= 9 && num <= 11) {
		pthread_mutex_lock(&lock);
		stale = true;
		pthread_mutex_unlock(&lock);
	}
}

// ---- the result ----

// A count is how often something ran: an instruction, if it leads nowhere.
struct count {
	unsigned image;
	uint64_t from, to;
	int64_t n;
};

struct counts {
	struct count *all;
	size_t n;
};

static void count(struct counts *c, unsigned image, uint64_t from, uint64_t to, int64_t n)
{
	c->all = more(c->all, c->n, sizeof *c->all);
	c->all[c->n++] = (struct count){image, from, to, n};
}

static int compare(const void *x, const void *y)
{
	const struct count *a = x, *b = y;
	if (a->image != b->image)
		return a->image < b->image ? -1 : 1;
	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return a->to < b->to ? -1 : a->to > b->to;
}

// sum sorts counts and adds up those of the same thing.
static void sum(struct counts *c)
{
	size_t n = 0;
	if (c->n)
		qsort(c->all, c->n, sizeof *c->all, compare);
	for (size_t i = 0; i < c->n; i++)
		if (n && !compare(&c->all[n - 1], &c->all[i]))
			c->all[n - 1].n += c->all[i].n;
		else
			c->all[n++] = c->all[i];
	c->n = n;
}

static struct counts insts, jumps, calls;

// ran counts the instructions of a block from the one at an address on.
static void ran(const struct block *b, uint64_t from, int64_t n)
{
	uint64_t a = b->addr;
	for (unsigned i = 0; i < b->n; a += b->sizes[i++])
		if (a >= from)
			count(&insts, b->image, a, 0, n);
}

// went counts what led from one block to the next.
static void went(const struct block *from, const struct block *to, uint64_t n)
{
	if (is_handler(to->image, to->addr))
		return;
	bool same = from->image == to->image;
	bool direct = same && from->to == to->addr;
	switch (from->end) {
	case JUMP:
		if (direct && to->addr != from->after) // callgrind does not call that a jump either
			count(&jumps, from->image, from->last, to->addr, n);
		break;
	case INDIRECT_JUMP:
		if (same)
			count(&jumps, from->image, from->last, to->addr, n);
		break;
	case CALL:
		if (direct)
			count(&calls, from->image, from->last, to->addr, n);
		break;
	case INDIRECT_CALL:
		if (same)
			count(&calls, from->image, from->last, to->addr, n);
		break;
	default:;
	}
	// A string instruction that repeats: Linux puts some in place of calls, so that readers cannot tell by its file.
	if (kernel && same && to->addr == from->last && from->end == OTHER) {
		ran(to, to->addr, -(int64_t)n);
		return;
	}
	// QEMU leaves a block in its middle where an instruction has to run alone, an atomic one
	// for instance, and goes on with a block that begins with it.
	if (same && to->addr > from->addr && to->addr <= from->last && from->end < INDIRECT_JUMP && !direct &&
	    !(to->addr == from->last && !arm)) // rep movs, which QEMU runs again from its own address
		ran(from, to->addr, -(int64_t)n);
}

static void string(FILE *f, const char *s)
{
	putc('"', f);
	for (; *s; s++)
		if (*s == '"' || *s == '\\' || (unsigned char)*s < ' ')
			fprintf(f, "\\u%04x", *s);
		else
			putc(*s, f);
	putc('"', f);
}

static void transfers(FILE *f, const char *name, const struct counts *c, unsigned image)
{
	const char *comma = "";
	fprintf(f, ", \"%s\": [", name);
	for (size_t i = 0; i < c->n; i++)
		if (c->all[i].image == image && c->all[i].n > 0) {
			fprintf(f, "%s[\"%#" PRIx64 "\", \"%#" PRIx64 "\", %" PRId64 "]", comma, c->all[i].from, c->all[i].to, c->all[i].n);
			comma = ", ";
		}
	fputc(']', f);
}

static void write_image(FILE *f, unsigned image)
{
	const char *comma = "";
	string(f, images[image].path);
	fprintf(f, ": {\"insn\": {");
	for (size_t i = 0; i < insts.n; i++)
		if (insts.all[i].image == image && insts.all[i].n > 0) {
			fprintf(f, "%s\"%#" PRIx64 "\": %" PRId64, comma, insts.all[i].from, insts.all[i].n);
			comma = ", ";
		}
	fputc('}', f);
	transfers(f, "jump", &jumps, image);
	transfers(f, "call", &calls, image);
	fputc('}', f);
}

static void finish(plugin_id id, void *data)
{
	if (getpid() != pid || done)
		return;
	pthread_mutex_lock(&lock);
	done = true;
	int64_t *executions = calloc(n_blocks, sizeof *executions);
	if (!executions)
		fail("out of", "memory");
	for (size_t v = 0; v < MAX_VCPUS; v++)
		for (size_t i = 0; threads[v] && i < threads[v]->room; i++) {
			struct pair *p = &threads[v]->pairs[i];
			uint32_t from = p->key >> 32, to = (uint32_t)p->key;
			if (!p->key)
				continue;
			executions[to] += p->n;
			if (from)
				went(&blocks[from], &blocks[to], p->n);
		}
	for (size_t i = 1; i < n_blocks; i++)
		if (executions[i])
			ran(&blocks[i], 0, executions[i]);
	sum(&insts);
	sum(&jumps);
	sum(&calls);
	FILE *f = fopen(out_path, "w");
	if (!f)
		fail("cannot write", out_path);
	const char *comma = "{";
	for (unsigned i = 0; i < n_images; i++) {
		bool any = false;
		for (size_t j = 0; j < insts.n && !any; j++)
			any = insts.all[j].image == i && insts.all[j].n > 0;
		if (!any)
			continue;
		fprintf(f, "%s", comma);
		write_image(f, i);
		comma = ",\n";
	}
	fprintf(f, "}\n");
	if (ferror(f) | fclose(f))
		fail("cannot write", out_path);
	pthread_mutex_unlock(&lock);
}

EXPORT int qemu_plugin_install(plugin_id id, const info *info, int argc, char **argv)
{
	arm = !strcmp(info->target_name, "aarch64");
	if (!arm && strcmp(info->target_name, "x86_64")) {
		fprintf(stderr, "count.so: counts aarch64 and x86_64, not %s\n", info->target_name);
		return 1;
	}
	for (int i = 0; i < argc; i++)
		if (!strncmp(argv[i], "out=", 4))
			out_path = argv[i] + 4;
		else if (!strncmp(argv[i], "kernel=", 7))
			kernel = argv[i] + 7;
		else if (!strncmp(argv[i], "from=", 5))
			begin_at = strtoull(argv[i] + 5, NULL, 0);
		else if (!strncmp(argv[i], "to=", 3))
			end_at = strtoull(argv[i] + 3, NULL, 0);
	if (!out_path) {
		fprintf(stderr, "count.so: say where the counts go: -plugin count.so,out=FILE\n");
		return 1;
	}
	pid = getpid();
	image_of("???"); // number 0, as callgrind calls it
	if (info->system_emulation != (kernel != NULL) || (kernel && arm)) {
		fprintf(stderr, "count.so: whole machines are counted with kernel=VMLINUX, of x86-64\n");
		return 1;
	}
	if (kernel) {
		counting = false;
		if (image_of(kernel) != 1 || !images[1].n_segments || !begin_at || !end_at) {
			fprintf(stderr, "count.so: no vmlinux, or no from= and to=\n");
			return 1;
		}
		images[1].path = "[kernel]"; // as recordings call it
	}
	blocks = more(blocks, n_blocks, sizeof *blocks);
	blocks[n_blocks++] = (struct block){0}; // number 0
	qemu_plugin_register_vcpu_init_cb(id, started);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	if (!kernel) {
		qemu_plugin_register_vcpu_syscall_cb(id, called);
		qemu_plugin_register_vcpu_syscall_ret_cb(id, returned);
	}
	qemu_plugin_register_atexit_cb(id, finish, NULL);
	return 0;
}
