// Instructions of AArch64, for walkops.c: a is in x0, b in x1 and c in x2; x3 points to the inputs, x4 to what is
// written. They are what a walk needs beside single instructions, which infer/image/testdata/walkarm.c checks by
// the thousand: that they go on from the registers and memory of a thread, and from one to the next.

#include <sys/auxv.h>

// Branches, at 1, where %0 is 0 or not.
#define IF_ZERO "1: cbz %0, %l1\n"
#define IF_NOT_ZERO "1: cbnz %0, %l1\n"

#define TEXT(text) \
	register u64 ra __asm__("x0") = a, rb __asm__("x1") = b, rc __asm__("x2") = c; \
	register const struct in *s __asm__("x3") = p; \
	register u64 *d __asm__("x4") = m; \
	__asm__ volatile(".arch armv8.2-a+sve\n" text : "+r"(ra), "+r"(rb), "+r"(rc), "+r"(s), "+r"(d) : : "x5", "x6", "x7", "x9", "x10", "x11", "x12", \
		"x16", "x17", "x30", "v0", "v1", "v2", "v3", "v4", "memory", "cc"); \
	a = ra, b = rb, c = rc;

static void init(void) {}
static int has_lse(void) { return getauxval(AT_HWCAP) >> 8 & 1; }
static int has_sve(void) { return getauxval(AT_HWCAP) >> 22 & 1; }

#define ALL "mrs x9, nzcv\nstr x9, [x4, #40]\n" // flags to memory
#define CARRY "cmp x2, #5\n"                    // so that what comes in differs

#define ALU(op) \
	CHECK(op##64, CARRY #op " x0, x1, x2\n" ALL) \
	CHECK(op##32, CARRY #op " w0, w1, w2\n" ALL)
#define SHIFTED(op) \
	ALU(op) \
	CHECK(op##_lsl, CARRY #op " x0, x1, x2, lsl #5\n" ALL) \
	CHECK(op##_asr, CARRY #op " w0, w1, w2, asr #7\n" ALL)
SHIFTED(add) SHIFTED(adds) SHIFTED(sub) SHIFTED(subs) SHIFTED(and) SHIFTED(ands) SHIFTED(bic) SHIFTED(bics) SHIFTED(orr) SHIFTED(orn)
SHIFTED(eor) SHIFTED(eon)
ALU(adc) ALU(adcs) ALU(sbc) ALU(sbcs) ALU(mul) ALU(sdiv) ALU(udiv) ALU(lsl) ALU(lsr) ALU(asr) ALU(ror)
CHECK(add_sxtb, "add x0, x1, w2, sxtb #3\n")
CHECK(cmp_uxth, "cmp w1, w2, uxth\n" ALL)
CHECK(immediates, "add x0, x1, #0xfff\nsub w1, w1, #1, lsl #12\nand x2, x2, #0x0ff00ff00ff00ff0\n")
CHECK(constants, "mov x5, #0x1234\nmovk x5, #0x5678, lsl #16\nmovn w6, #7, lsl #16\nadd x0, x5, x6\neor x1, x1, x5\n")
CHECK(fields, "ubfx x0, x0, #7, #9\nsbfx w1, w1, #3, #20\nbfi x2, x0, #11, #6\nextr x5, x1, x2, #13\nstr x5, [x4]\n")
CHECK(counts, "clz x0, x0\ncls w1, w1\nrbit x2, x2\nrev x5, x2\nrev16 w6, w2\nstp x5, x6, [x4]\n")
CHECK(select, "cmp x0, x1\ncsel x0, x1, x2, lt\ncsinc w1, w1, w2, hi\ncsneg x2, x2, x0, vs\ncset w5, eq\nstr w5, [x4]\n")
CHECK(ccmp, "cmp x0, x1\nccmp w1, w2, #5, ne\n" ALL "ccmn x1, #3, #10, ge\nmrs x9, nzcv\nstr x9, [x4, #32]\n")
CHECK(products, "madd x0, x1, x2, x0\nsmull x5, w1, w2\numulh x6, x1, x2\nsmulh x7, x1, x2\nstp x5, x6, [x4]\nstr x7, [x4, #16]\nmsub w1, w1, w2, w0\n")
CHECK(loads, "ldrsb x0, [x3, #33]\nldrh w1, [x3, #35]\nldrsw x2, [x3, #37]\nldur x5, [x3, #39]\nstr x5, [x4, #3]\n")
CHECK(indexed, "and x5, x0, #31\nldr w0, [x3, x5]\nneg w5, w5\nadd x6, x3, #64\nldrb w1, [x6, w5, sxtw]\nand x5, x2, #3\nldr x2, [x3, x5, lsl #3]\nstrh w2, [x4, x5, lsl #1]\n")
CHECK(writeback, "mov x5, x3\nldr x0, [x5, #8]!\nldr w1, [x5], #24\nldrh w2, [x5]\nsub x5, x5, x3\nmov x6, x4\nstr x5, [x6], #5\nstrb w0, [x6, #9]!\nsub x6, x6, x4\nstr x6, [x4, #32]\n")
CHECK(pairs, "ldp x0, x1, [x3, #32]\nldpsw x2, x5, [x3, #64]\nstp w5, w0, [x4, #4]\nstp x2, x5, [sp, #-32]!\nldp x6, x7, [sp], #32\neor x6, x6, x7\nstr x6, [x4, #24]\n")
CHECK(vectors, "ldr q0, [x3, #32]\nldp q1, q2, [x3, #64]\nstr q0, [x4, #16]\nstp d1, d2, [x4]\nldr b3, [x3, #33]\nstr q3, [x4, #24]\nstr x0, [x4, #40]\n")
CHECK(structures, "add x5, x3, #32\nld1 {v0.16b, v1.16b}, [x5], #32\nst1 {v1.8b}, [x4]\nsub x5, x5, x3\nmov x0, x5\nld1r {v2.2s}, [x3]\nstr q2, [x4, #8]\n")
CHECK(elements, "dup v0.8h, w0\nins v0.s[1], w1\numov w2, v0.h[3]\nsmov x5, v0.b[5]\nfmov d1, x1\nfmov x6, d1\nmov v0.d[1], v1.d[0]\nstr q0, [x4]\nstp x5, x6, [x4, #16]\n")
CHECK(search, "ldr q0, [x3, #32]\nldr q1, [x3, #64]\ncmeq v2.16b, v0.16b, v1.16b\nshrn v3.8b, v2.8h, #4\nfmov x0, d3\numinp v4.16b, v2.16b, v2.16b\nfmov x1, d4\n"
	"cmhs v2.16b, v0.16b, v1.16b\numaxv b2, v2.16b\numov w2, v2.b[0]\n")
CHECK(lanes, "ldp q0, q1, [x3, #32]\nadd v2.4s, v0.4s, v1.4s\nsub v3.8b, v0.8b, v1.8b\nbif v2.16b, v1.16b, v3.16b\next v4.16b, v2.16b, v0.16b, #5\nstr q4, [x4]\naddv b4, v2.16b\nfmov w0, s4\n"
	"movi v4.4s, #5\ncmhi v4.4s, v0.4s, v4.4s\nstr q4, [x4, #16]\n")
CHECK(exclusive, "5: ldaxr x5, [x4]\nadd x5, x5, x0\nstlxr w6, x5, [x4]\ncbnz w6, 5b\n6: ldxp x9, x10, [x4]\nstxp w6, x10, x9, [x4]\ncbnz w6, 6b\nldar w0, [x4]\nstlr w1, [x4, #0]\ndmb ish\n")
CHECK(no_exclusive, "clrex\nstxr w0, x1, [x4]\n")
HAVING(lse, atomics, "ldadd x0, x5, [x4]\nswpal w1, w6, [x4, #0]\nldclrb w2, w7, [x4]\nldsmax x2, x9, [x4]\nstp x5, x6, [x4, #8]\nstr x9, [x4, #24]\n")
HAVING(lse, cas, "ldr x5, [x4]\nmov x6, x5\ncas x5, x0, [x4]\ncas x6, x1, [x4]\ncasb w2, w1, [x4, #0]\nstp x5, x6, [x4, #8]\n")
CHECK(branches, "mov x5, #0\ntbz x0, #3, 5f\nadd x5, x5, #1\n5: tbnz w1, #31, 6f\nadd x5, x5, #2\n6: cbz w2, 7f\nadd x5, x5, #4\n7: cmp x0, x1\nb.hi 8f\nadd x5, x5, #8\n8: b.le 9f\nadd x5, x5, #16\n9: str x5, [x4]\n")
CHECK(calls, "mov x12, x30\nbl 5f\nadr x5, 6f\nblr x5\nb 7f\n5: add x0, x0, #1\nret\n6: mov x16, x30\nadd x1, x1, #3\nret x16\n7: adr x17, 8f\nbr x17\nmov x0, #0\n8: mov x30, x12\n")
// Signatures are hints, which processors without them ignore.
CHECK(signatures, "mov x12, x30\nbl 5f\nb 6f\n5: paciasp\nstp x29, x30, [sp, #-16]!\nadd x0, x0, #1\nldp x29, x30, [sp], #16\nautiasp\nret\n6: bti j\nmov x30, x12\n")
CHECK(thread, "mrs x5, tpidr_el0\nldr x6, [x5]\nldr x7, [x5]\nsub x0, x6, x7\n")
CHECK(literal, "ldr x0, 5f\nb 6f\n5: .quad 0x123456789abcdef0\n6: nop\n")
CHECK(loop, "mov x5, #7\nmov x6, x0\n5: eor x6, x6, x6, ror #3\nsubs x5, x5, #1\nb.ne 5b\nmov x0, x6\n")
MAYBE(real, "scvtf d0, x0\nscvtf d1, x1\nfadd d0, d0, d1\nfcmp d0, d1\ncset w0, mi\nfcvtzs x1, d0\nstr d0, [x4]\n")
MAYBE(crc, ".arch_extension crc\ncrc32x w0, w0, x1\n")
MAYBE(many, "ld2 {v0.8h, v1.8h}, [x3]\nst2 {v0.16b, v1.16b}, [x4]\nsqadd v2.16b, v0.16b, v1.16b\nstr q2, [x4, #8]\nmla v1.4s, v0.4s, v2.4s\nstr q1, [x4, #24]\nstr x0, [x4, #40]\n")
MAYBE(table, "ldp q0, q1, [x3, #32]\ntbl v2.16b, {v0.16b}, v1.16b\nzip1 v3.8h, v1.8h, v0.8h\nstp q2, q3, [x4]\n")
MAYBE_HAVING(sve, sve, "ptrue p0.b\nld1b {z0.b}, p0/z, [x3]\nadd z0.b, z0.b, z0.b\nstr q0, [x4]\ncntb x5\nmov x0, #0\n")
MAYBE(counter, "mrs x5, cntvct_el0\nlsr x5, x5, #63\nmov x0, x5\n")
