// Instructions of x86-64, for walkops.c: a is in %rax, b in %rdx and c in %rcx; %rsi points to the inputs, %rdi
// to what is written.

// Branches, at 1, where %0 is 0 or not.
#define IF_ZERO "test %0, %0\n1: jz %l1\n"
#define IF_NOT_ZERO "test %0, %0\n1: jnz %l1\n"

static void init(void) { __builtin_cpu_init(); }

#define TEXT(text) \
	const struct in *s = p; \
	u64 *d = m; \
	__asm__ volatile(text : "+a"(a), "+d"(b), "+c"(c), "+S"(s), "+D"(d) : : "rbx", "r8", "r9", "r10", "r11", "r12", \
		"xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm9", "xmm12", "st", "st(1)", "st(2)", "st(3)", "st(4)", "st(5)", "st(6)", "st(7)", "mm0", "memory", "cc")

static int has_avx2(void) { return __builtin_cpu_supports("avx2"); }
static int has_bmi(void) { return __builtin_cpu_supports("bmi"); }
static int has_bmi2(void) { return __builtin_cpu_supports("bmi2"); }
static int has_popcnt(void) { return __builtin_cpu_supports("popcnt"); }
static int has_lzcnt(void) { return __builtin_cpu_supports("lzcnt"); }
static int has_sse41(void) { return __builtin_cpu_supports("sse4.1"); }
static int has_sse42(void) { return __builtin_cpu_supports("sse4.2"); }
static int has_ssse3(void) { return __builtin_cpu_supports("ssse3"); }
static int has_movbe(void) { return __builtin_cpu_supports("movbe"); }
static int has_adx(void) { return __builtin_cpu_supports("adx"); }
static int has_aes(void) { return __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul"); }
static int has_fma(void) { return __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c"); }
static int has_cx16(void) { return __builtin_cpu_supports("cmpxchg16b"); }

// Flags to memory.
#define FC "setc 40(%%rdi)\n"
#define FO "seto 41(%%rdi)\n"
#define FZ "setz 42(%%rdi)\n"
#define FS "sets 43(%%rdi)\n"
#define FP "setp 44(%%rdi)\n"
#define ALL FC FO FZ FS FP
#define CARRY "mov %%ecx, %%ebx\nshl $31, %%ebx\nadd %%ebx, %%ebx\n" // so that what comes in differs

// Forms of an operation on two operands.
#define ALU1(op, n, s, A, B, C, IMM)                                        \
	CHECK(op##n##_rr, CARRY #op #s " %%" #B ", %%" #A "\n" ALL)              \
	CHECK(op##n##_rm, CARRY #op #s " 37(%%rsi), %%" #A "\n" ALL)             \
	CHECK(op##n##_mr, CARRY #op #s " %%" #B ", 3(%%rdi)\n" ALL)              \
	CHECK(op##n##_ai, CARRY #op #s " $" #IMM ", %%" #A "\n" ALL)             \
	CHECK(op##n##_ri, CARRY #op #s " $-7, %%" #B "\n" ALL)                   \
	CHECK(op##n##_Ri, CARRY #op #s " $" #IMM ", %%" #B "\n" ALL)             \
	CHECK(op##n##_mi, CARRY #op #s " $" #IMM ", 6(%%rdi)\n" ALL)             \
	CHECK(op##n##_self, CARRY #op #s " %%" #A ", %%" #A "\n" ALL)
#define TEST1(op, n, s, A, B, C, IMM)                                       \
	CHECK(op##n##_rr, #op #s " %%" #B ", %%" #A "\n" ALL)                    \
	CHECK(op##n##_mr, #op #s " %%" #B ", 3(%%rdi)\n" ALL)                    \
	CHECK(op##n##_ai, #op #s " $" #IMM ", %%" #A "\n" ALL)                   \
	CHECK(op##n##_Ri, #op #s " $" #IMM ", %%" #B "\n" ALL)                   \
	CHECK(op##n##_mi, #op #s " $" #IMM ", 6(%%rdi)\n" ALL)                   \
	CHECK(op##n##_self, #op #s " %%" #A ", %%" #A "\n" ALL)
#define MOV1(op, n, s, A, B, C, IMM)                                        \
	CHECK(op##n##_rr, #op #s " %%" #B ", %%" #A "\n")                        \
	CHECK(op##n##_rm, #op #s " 37(%%rsi), %%" #A "\n")                       \
	CHECK(op##n##_mr, #op #s " %%" #B ", 3(%%rdi)\n")                        \
	CHECK(op##n##_Ri, #op #s " $" #IMM ", %%" #B "\n")                       \
	CHECK(op##n##_mi, #op #s " $" #IMM ", 6(%%rdi)\n")
#define UNARY1(op, n, s, A, B, C, IMM)                                      \
	CHECK(op##n##_r, CARRY #op #s " %%" #A "\n" ALL)                         \
	CHECK(op##n##_m, CARRY #op #s " 7(%%rdi)\n" ALL)
// Beyond one bit the overflow is not defined, nor is the carry beyond the size.
#define SHIFT1(op, n, s, A, B, C, IMM)                                      \
	CHECK(op##n##_cl, "and $" #n " - 1, %%ecx\ncmp %%rdx, %%rax\n" #op #s " %%cl, %%" #A "\n" FC FZ FS FP) \
	CHECK(op##n##_mcl, "and $" #n " - 1, %%ecx\ncmp %%rdx, %%rax\n" #op #s " %%cl, 5(%%rdi)\n" FC FZ FS FP) \
	CHECK(op##n##_any, #op #s " %%cl, %%" #A "\n")                            \
	CHECK(op##n##_1, "cmp %%rdx, %%rax\n" #op #s " %%" #A "\n" ALL)            \
	CHECK(op##n##_i, "cmp %%rdx, %%rax\n" #op #s " $5, %%" #A "\n" FC FZ FS FP) \
	CHECK(op##n##_mi, "cmp %%rdx, %%rax\n" #op #s " $" #n " - 1, 5(%%rdi)\n" FC FZ FS FP) \
	CHECK(op##n##_0, "cmp %%rdx, %%rax\n" ".byte 0x90\n" #op #s " $32, %%" #A "\n" ) \
	CHECK(op##n##_same, "xor %%ecx, %%ecx\ncmp %%rdx, %%rax\n" #op #s " %%cl, %%" #A "\n" ALL)
#define ROTATE1(op, n, s, A, B, C, IMM)                                     \
	CHECK(op##n##_cl, #op #s " %%cl, %%" #A "\n")                             \
	CHECK(op##n##_m, #op #s " %%cl, 5(%%rdi)\n")                              \
	CHECK(op##n##_1, #op #s " %%" #A "\n")                                    \
	CHECK(op##n##_i, #op #s " $3, %%" #A "\n")                                \
	MAYBE(op##n##_flags, "cmp %%rdx, %%rax\n" #op #s " $3, %%" #A "\n" FC FZ FS FP)
#define DOUBLE1(op, n, s, A, B, C, IMM)                                     \
	CHECK(op##n##_cl, "and $" #n " - 1, %%ecx\n" #op #s " %%cl, %%" #B ", %%" #A "\n") \
	CHECK(op##n##_m, "and $" #n " - 1, %%ecx\n" #op #s " %%cl, %%" #B ", 5(%%rdi)\n") \
	CHECK(op##n##_i, #op #s " $3, %%" #B ", %%" #A "\n")                      \
	MAYBE(op##n##_flags, "and $" #n " - 1, %%ecx\ncmp %%rdx, %%rax\n" #op #s " %%cl, %%" #B ", %%" #A "\n" FC FZ FS FP)
#define XCHG1(op, n, s, A, B, C, IMM)                                       \
	CHECK(op##n##_rr, #op #s " %%" #B ", %%" #C "\n")                         \
	CHECK(op##n##_ar, #op #s " %%" #B ", %%" #A "\n")                         \
	CHECK(op##n##_rm, #op #s " %%" #B ", 5(%%rdi)\n")
#define XADD1(op, n, s, A, B, C, IMM)                                       \
	CHECK(op##n##_rr, #op #s " %%" #B ", %%" #A "\n" ALL)                     \
	CHECK(op##n##_rm, "lock " #op #s " %%" #B ", 8(%%rdi)\n" ALL)
#define CMPXCHG1(op, n, s, A, B, C, IMM)                                    \
	MAYBE(op##n##_rr, #op #s " %%" #B ", %%" #C "\n" ALL)                     \
	CHECK(op##n##_rm, "lock " #op #s " %%" #B ", 8(%%rdi)\n" ALL)             \
	CHECK(op##n##_yes, "mov 8(%%rdi), %%rax\nlock " #op #s " %%" #B ", 8(%%rdi)\n" ALL)
#define IMUL1(op, n, s, A, B, C, IMM)                                       \
	CHECK(op##n##_rr, #op #s " %%" #B ", %%" #A "\n" FC FO)                   \
	CHECK(op##n##_rm, #op #s " 37(%%rsi), %%" #A "\n" FC FO)                  \
	CHECK(op##n##_rri, #op #s " $-7, %%" #B ", %%" #A "\n" FC FO)             \
	CHECK(op##n##_rmi, #op #s " $" #IMM ", 5(%%rdi), %%" #A "\n" FC FO)
#define WIDE1(op, n, s, A, B, C, IMM)                                       \
	CHECK(wide##op##n##_r, #op #s " %%" #C "\n" FC FO)                        \
	CHECK(wide##op##n##_m, #op #s " 3(%%rdi)\n" FC FO)
#define BIT1(op, n, s, A, B, C, IMM)                                        \
	CHECK(op##n##_rr, #op #s " %%" #C ", %%" #A "\n" FC)                      \
	CHECK(op##n##_ri, #op #s " $9, %%" #A "\n" FC)                            \
	CHECK(op##n##_mi, #op #s " $11, 8(%%rdi)\n" FC)                           \
	MAYBE(op##n##_mr, "and $63, %%ecx\n" #op #s " %%" #C ", (%%rdi)\n" FC)
#define COUNT1(op, n, s, A, B, C, IMM)                                      \
	CHECK(op##n##_r, #op #s " %%" #A ", %%" #A "\n" FC FZ)                    \
	CHECK(op##n##_m, #op #s " 3(%%rdi), %%" #A "\n" FC FZ)
// Of 0 there is no result.
#define SCAN1(op, n, s, A, B, C, IMM)                                       \
	CHECK(op##n##_r, #op #s " %%" #A ", %%" #B "\n" FZ "cmovzq %%rcx, %%rdx\n") \
	CHECK(op##n##_m, "mov %%rcx, %%rdx\n" #op #s " 3(%%rdi), %%" #B "\n" FZ "cmovzq %%rcx, %%rdx\n")

#define BYTE(X, op) X(op, 8, b, al, dl, cl, 0x71)
#define WORD(X, op) X(op, 16, w, ax, dx, cx, 0x7ff1)
#define LONG(X, op) X(op, 32, l, eax, edx, ecx, 0x7ffffff1)
#define QUAD(X, op) X(op, 64, q, rax, rdx, rcx, -0x7ffffff1)
#define ALL4(X, op) BYTE(X, op) WORD(X, op) LONG(X, op) QUAD(X, op)
#define ALL3(X, op) WORD(X, op) LONG(X, op) QUAD(X, op)

ALL4(ALU1, add)
ALL4(ALU1, or)
ALL4(ALU1, adc)
ALL4(ALU1, sbb)
ALL4(ALU1, and)
ALL4(ALU1, sub)
ALL4(ALU1, xor)
ALL4(ALU1, cmp)
ALL4(TEST1, test)
ALL4(MOV1, mov)
ALL4(UNARY1, inc)
ALL4(UNARY1, dec)
ALL4(UNARY1, neg)
ALL4(UNARY1, not)
ALL4(SHIFT1, shl)
ALL4(SHIFT1, shr)
ALL4(SHIFT1, sar)
ALL4(ROTATE1, rol)
ALL4(ROTATE1, ror)
ALL3(DOUBLE1, shld)
ALL3(DOUBLE1, shrd)
ALL4(XCHG1, xchg)
ALL4(XADD1, xadd)
ALL4(CMPXCHG1, cmpxchg)
ALL3(IMUL1, imul)
ALL3(WIDE1, mul)
ALL3(WIDE1, imul)
ALL3(BIT1, bt)
ALL3(BIT1, bts)
ALL3(BIT1, btr)
ALL3(BIT1, btc)
ALL3(SCAN1, bsf)
ALL3(SCAN1, bsr)
#undef CHECK
#define CHECK(name, text) HAVING(bmi, name, text)
ALL3(COUNT1, tzcnt)
#undef CHECK
#define CHECK(name, text) HAVING(lzcnt, name, text)
ALL3(COUNT1, lzcnt)
#undef CHECK
#define CHECK(name, text) HAVING(popcnt, name, text)
ALL3(COUNT1, popcnt)
#undef CHECK
#define CHECK(name, text) MAKE(name, STRICT, any, TEXT(text))
CHECK(tzcnt_zero, "xor %%eax, %%eax\nbsf %%rax, %%rcx\n" FZ "mov $0, %%ecx\n")

// With registers that need REX.
CHECK(rex_bytes, "mov %%rax, %%r8\nmov %%rdx, %%r9\nadd %%r9b, %%r8b\n" ALL "xor %%r8b, %%sil\nmov %%r8, %%rax\nmov %%sil, %%dl\n"
	"sub %%sil, %%sil\nmovzbl %%sil, %%ecx\n")
CHECK(rex_words, "mov %%rax, %%r12\nmov %%rdx, %%r9\nsub %%r12w, %%r9w\n" ALL "mov %%r9, %%rax\nmov $-1, %%r10\nmov %%r9d, %%r10d\nmov %%r10, %%rcx\n")
CHECK(lock_add, "lock addl %%eax, 4(%%rdi)\n" ALL "lock subq $3, 8(%%rdi)\nlock incb 16(%%rdi)\nlock orb %%dl, 17(%%rdi)\n")

// Conversions.
CHECK(movzx, "movzbw %%al, %%dx\nmov %%dx, (%%rdi)\nmovzbl %%cl, %%edx\nmov %%rdx, 8(%%rdi)\nmovzwl %%ax, %%edx\nmov %%rdx, 16(%%rdi)\nmovzwq %%cx, %%rdx\nmov %%rdx, 24(%%rdi)\nmovzbq %%al, %%rdx\n")
CHECK(movzx_m, "movzbw 32(%%rsi), %%dx\nmov %%dx, (%%rdi)\nmovzbl 33(%%rsi), %%ecx\nmov %%rcx, 8(%%rdi)\nmovzwl 39(%%rsi), %%eax\n")
CHECK(movsx, "movsbw %%al, %%dx\nmov %%dx, (%%rdi)\nmovsbl %%cl, %%edx\nmov %%rdx, 8(%%rdi)\nmovswl %%ax, %%edx\nmov %%rdx, 16(%%rdi)\nmovswq %%cx, %%rdx\nmov %%rdx, 24(%%rdi)\nmovsbq %%al, %%rdx\nmovslq %%ecx, %%rcx\n")
CHECK(movsx_m, "movsbw 32(%%rsi), %%dx\nmov %%dx, (%%rdi)\nmovsbl 33(%%rsi), %%ecx\nmov %%rcx, 8(%%rdi)\nmovswl 39(%%rsi), %%eax\nmovslq 41(%%rsi), %%rdx\n")
MAYBE(movsxd_w, ".byte 0x63, 0xd0\n") // movsxd %eax, %edx
CHECK(cbw, "cbtw\n")
CHECK(cwde, "cwtl\n")
CHECK(cdqe, "cltq\n")
CHECK(cwd, "cwtd\n")
CHECK(cdq, "cltd\n")
CHECK(cqo, "cqto\n")
CHECK(bswap, "bswap %%eax\nbswap %%rdx\nmov %%rcx, %%r9\nbswap %%r9\nmov %%r9, (%%rdi)\n")
HAVING(movbe, movbe, "movbe 35(%%rsi), %%rax\nmovbe 33(%%rsi), %%edx\nmovbe 41(%%rsi), %%cx\n")
HAVING(movbe, movbe_store, "movbe %%rax, 3(%%rdi)\nmovbe %%edx, 13(%%rdi)\nmovbe %%cx, 23(%%rdi)\n")
CHECK(movabs, "movabs $0x123456789abcdef0, %%rbx\nadd %%rbx, %%rax\nmov $0x89abcdef, %%edx\nmov $-5, %%rcx\n")

CHECK(lea, "lea 5(%%rax, %%rdx, 4), %%rbx\nmov %%rbx, (%%rdi)\nlea -300(, %%rcx, 8), %%rbx\nmov %%rbx, 8(%%rdi)\nlea (%%rax, %%rdx), %%ebx\nmov %%rbx, 16(%%rdi)\nlea 7(%%rcx), %%ax\nlea 0x12345678(%%rdx, %%rdx, 2), %%rdx\n")
CHECK(lea_rip, "lea 3f(%%rip), %%rbx\nlea 3f+8(%%rip), %%rax\nsub %%rbx, %%rax\n3:\n")
CHECK(address, "and $1, %%eax\nmov 32(%%rsi, %%rax, 8), %%rdx\nneg %%rax\nmov 48(%%rsi, %%rax, 4), %%ecx\nmov %%rcx, 16(%%rdi, %%rax, 2)\n")
MAYBE(address32, "and $1, %%eax\nlea (%%eax, %%eax, 2), %%edx\n")

// Stores that are loaded again, in part, and across words.
CHECK(overlap, "mov %%rax, 5(%%rdi)\nmov %%dl, 9(%%rdi)\nmov 3(%%rdi), %%rbx\nmov %%rbx, 16(%%rdi)\nmov %%cx, 15(%%rdi)\nmov 8(%%rdi), %%rax\nmov 13(%%rdi), %%edx\nmovzwl 23(%%rdi), %%ecx\n")
CHECK(overlap_fresh, "sub $64, %%rsp\nmov %%rax, 5(%%rsp)\nmov %%rdx, 13(%%rsp)\nmov %%ecx, 10(%%rsp)\nmov 7(%%rsp), %%rax\nmov 9(%%rsp), %%edx\nmovzbl 20(%%rsp), %%ecx\nadd $64, %%rsp\n")
CHECK(overlap_lines, "sub $192, %%rsp\nlea 127(%%rsp), %%rbx\nand $-64, %%rbx\nmov %%rdx, -8(%%rbx)\nmov %%rdx, (%%rbx)\nmov %%rax, -3(%%rbx)\nmov %%ecx, -2(%%rbx)\n"
	"mov %%dx, -1(%%rbx)\nmov -5(%%rbx), %%rax\nmov -1(%%rbx), %%edx\nmovzwl -1(%%rbx), %%ecx\nmovdqu 33(%%rsi), %%xmm0\nmovdqu %%xmm0, -9(%%rbx)\nxor -6(%%rbx), %%rdx\nadd $192, %%rsp\n")
CHECK(overlap_vector, "movdqu 33(%%rsi), %%xmm0\nmovdqu %%xmm0, 5(%%rdi)\nmov %%rax, 11(%%rdi)\nmovdqu 7(%%rdi), %%xmm1\nmovdqu %%xmm1, 17(%%rdi)\nmov 15(%%rdi), %%rdx\n")

// Stack and control.
CHECK(push, "push %%rax\npush %%r8\nmov %%rdx, %%r9\npush %%r9\npush $-5\npush $0x12345\npush 8(%%rdi)\npop %%rax\npop %%rdx\npop %%rcx\npop %%r12\npop %%r8\npop %%rbx\n"
	"mov %%r12, (%%rdi)\nmov %%rbx, 16(%%rdi)\n")
CHECK(push_rsp, "mov %%rsp, %%rbx\npush %%rsp\npop %%rax\nsub %%rbx, %%rax\n")
CHECK(pop_rsp, "mov %%rsp, %%rbx\npush %%rsp\npop %%rsp\nmov %%rsp, %%rax\nsub %%rbx, %%rax\nmov %%rbx, %%rsp\n")
CHECK(push_m, "mov %%rdi, %%rbx\npush %%rax\npush (%%rsp)\npop %%rdx\npop %%rcx\n")
CHECK(leave, "push %%rbp\nmov %%rsp, %%rbp\nsub $32, %%rsp\nmov %%rax, -8(%%rbp)\nmov -8(%%rbp), %%rdx\nleave\n")
__asm__(".pushsection .text\n"
	".type helper, @function\nhelper: lea 3(%rax), %rdx\nret\n.size helper, . - helper\n"
	".type helper2, @function\nhelper2: mov 8(%rsp), %rdx\nret $8\n.size helper2, . - helper2\n"
	".type helper3, @function\nhelper3: add $5, %rax\nrep ret\n.size helper3, . - helper3\n"
	".popsection");
CHECK(rep_ret, "call helper3\nmov %%rax, %%rcx\nbnd call helper3\n")
CHECK(call_notrack, "lea helper3(%%rip), %%rbx\nnotrack call *%%rbx\n")
CHECK(xchg_r8, "mov %%rdx, %%r8\nxchg %%r8, %%rax\nmov %%r8, %%rcx\nxchg %%r8d, %%eax\nmov %%r8, (%%rdi)\npause\nnop\nnopw 8(%%rax, %%rcx, 2)\nlfence\nmfence\nsfence\nprefetcht0 (%%rsi)\nendbr64\n")
MAYBE(absolute, "movabs %%fs:0x28, %%rax\n")
MAYBE(fnsave, "sub $128, %%rsp\nmov %%rax, 60(%%rsp)\nmovq $5, 100(%%rsp)\nfldz\nfldz\nfldz\nfldz\nfldz\nfldz\nfldz\nfldz\nfnsave (%%rsp)\nmov 60(%%rsp), %%edx\nmov 100(%%rsp), %%rcx\nadd $128, %%rsp\n")
CHECK(call, "call helper\nmov %%rdx, %%rcx\ncall helper\n")
CHECK(call_pop, "mov %%rdi, %%r12\npush %%rcx\ncall helper2\n")
CHECK(call_reg, "lea helper(%%rip), %%rbx\ncall *%%rbx\n")
CHECK(call_mem, "lea helper(%%rip), %%rbx\npush %%rbx\ncall *(%%rsp)\npop %%rbx\n")
CHECK(jmp, "jmp 3f\n3: add $1, %%rax\njmp 4f\n.skip 200, 0x90\n4: add $2, %%rdx\n")
#define SWITCH switch (a & 7) {                                          \
	case 0: c += 3; break; case 1: c ^= b; break; case 2: c -= b; break;    \
	case 3: c *= 5; break; case 4: c = b; break; case 5: c >>= 3; break;    \
	case 6: c = ~c; break; default: c = 0x1234; }
MAKE(jump_table, STRICT, any, SWITCH)
static __thread u64 local[2];
MAKE(fs, STRICT, any, TEXT("mov %%fs:0x28, %%rax\nmov %%fs:0, %%rdx\nmov $0x10, %%ebx\nmov %%fs:(%%rbx), %%rcx\n"))
MAKE(fs_local, STRICT, any, local[b & 1] = a; __asm__ volatile("" ::: "memory"); c ^= local[a & 1]; local[0] = 0; local[1] = 0)

#define CC(X) X(o) X(no) X(b) X(ae) X(e) X(ne) X(be) X(a) X(s) X(ns) X(p) X(np) X(l) X(ge) X(le) X(g)
#define SET(cc)                                                                                                                        \
	CHECK(set##cc, "cmp %%rdx, %%rax\nset" #cc " (%%rdi)\ncmp %%dl, %%al\nset" #cc " 8(%%rdi)\nadd %%ecx, %%eax\nset" #cc " 9(%%rdi)\n"   \
		"test %%ax, %%dx\nset" #cc " %%al\nincl 16(%%rdi)\nset" #cc " %%dl\ndecb 24(%%rdi)\nset" #cc " %%cl\n")                      \
	CHECK(cmov##cc, "cmp %%rdx, %%rax\nmov %%rax, %%rbx\ncmov" #cc " %%rcx, %%rax\nmov $-1, %%r8\nmov $-1, %%r9\ncmov" #cc " %%edx, %%r8d\n" \
		"cmov" #cc " (%%rdi), %%r9w\nmov %%r8, 8(%%rdi)\nmov %%r9, 16(%%rdi)\n")                                                     \
	CHECK(j##cc, "cmp %%rdx, %%rax\nj" #cc " 3f\nadd $2, %%rcx\n3: cmp %%cx, %%dx\nj" #cc " 4f\nadd $8, %%rcx\n.skip 150, 0x90\n4:\n")
CC(SET)

// Division: nothing that does not fit.
CHECK(div64, "or $1, %%rcx\nxor %%edx, %%edx\ndiv %%rcx\n")
CHECK(div32, "or $1, %%ecx\nmov %%rdx, %%rbx\nxor %%edx, %%edx\ndiv %%ecx\nmov %%eax, (%%rdi)\nmov %%ebx, %%eax\ndiv %%ecx\n")
CHECK(idiv64, "or $1, %%rcx\nsar %%rax\ncqto\nidiv %%rcx\n")
CHECK(idiv32, "or $1, %%ecx\nsar %%eax\ncltd\nidiv %%ecx\n")
CHECK(idiv32_wide, "or $1, %%ecx\nmov %%ecx, %%ebx\nsar $31, %%ebx\nimul $0x12345, %%rdx, %%rdx\nmov %%edx, %%eax\nmovslq %%ecx, %%r8\nsar $1, %%eax\nmovslq %%eax, %%rax\nimul %%r8, %%rax\nmov %%rax, %%rdx\nshr $32, %%rdx\nidiv %%ecx\n")
CHECK(div_m, "orq $1, (%%rdi)\nxor %%edx, %%edx\ndivq (%%rdi)\nxor %%edx, %%edx\norl $1, 8(%%rdi)\ndivl 8(%%rdi)\n")
MAYBE(div64_wide, "or $1, %%rcx\nmov %%rdx, %%rbx\nxor %%edx, %%edx\ndiv %%rcx\nmov %%rbx, %%rax\ndiv %%rcx\n")
MAYBE(div16, "or $1, %%ecx\nxor %%edx, %%edx\ndiv %%cx\n")
MAYBE(div8, "or $1, %%ecx\nmovzbl %%al, %%eax\ndiv %%cl\n")
MAYBE(mul8, "mul %%dl\n" FC FO)
MAYBE(imul8, "imul %%dl\n" FC FO)

// BMI. The parity flag is not defined after it: processors differ.
#define BMI1(feature, op, form, flags) \
	HAVING(feature, op##32_##form, "mov $-1, %%rbx\n" #op " " form##32 ", %%ebx\n" flags "mov %%rbx, (%%rdi)\n") \
	HAVING(feature, op##64_##form, "mov $-1, %%rbx\n" #op " " form##64 ", %%rbx\n" flags "mov %%rbx, (%%rdi)\n")
#define shiftr32 "%%ecx, %%eax"
#define shiftr64 "%%rcx, %%rax"
#define shiftm32 "%%ecx, 33(%%rsi)"
#define shiftm64 "%%rcx, 33(%%rsi)"
#define rori32 "$7, %%eax"
#define rori64 "$57, %%rax"
#define rorm32 "$31, 33(%%rsi)"
#define rorm64 "$1, 33(%%rsi)"
#define andr32 "%%edx, %%eax"
#define andr64 "%%rdx, %%rax"
#define andm32 "33(%%rsi), %%eax"
#define andm64 "33(%%rsi), %%rax"
#define one32 "%%eax"
#define one64 "%%rax"
#define onem32 "33(%%rsi)"
#define onem64 "33(%%rsi)"
BMI1(bmi2, shlx, shiftr, "") BMI1(bmi2, shlx, shiftm, "")
BMI1(bmi2, shrx, shiftr, "") BMI1(bmi2, shrx, shiftm, "")
BMI1(bmi2, sarx, shiftr, "") BMI1(bmi2, sarx, shiftm, "")
BMI1(bmi2, rorx, rori, "") BMI1(bmi2, rorx, rorm, "")
BMI1(bmi2, bzhi, shiftr, FC FO FZ FS) BMI1(bmi2, bzhi, shiftm, FC FO FZ FS)
BMI1(bmi, andn, andr, FC FO FZ FS) BMI1(bmi, andn, andm, FC FO FZ FS)
BMI1(bmi, blsr, one, FC FO FZ FS) BMI1(bmi, blsr, onem, FC FO FZ FS)
BMI1(bmi, blsi, one, FC FO FZ FS) BMI1(bmi, blsi, onem, FC FO FZ FS)
BMI1(bmi, blsmsk, one, FC FO FZ FS) BMI1(bmi, blsmsk, onem, FC FO FZ FS)
HAVING(bmi2, shift_self, "shlx %%rcx, %%rcx, %%rcx\nandn %%rdx, %%rax, %%rax\nbzhi %%rdx, %%rax, %%rdx\n")

// Vectors: x0 is v, x1 is w; what is in x0 afterwards counts.
#define LOAD "movdqu 32(%%rsi), %%xmm0\nmovdqu 64(%%rsi), %%xmm1\n"
#define SAVE "movdqu %%xmm0, (%%rdi)\n"
CHECK(movups, "movups 33(%%rsi), %%xmm3\nmovaps %%xmm3, %%xmm4\nmovups %%xmm4, 3(%%rdi)\nmovaps 64(%%rsi), %%xmm9\nmovapd %%xmm9, %%xmm12\nmovupd %%xmm12, 23(%%rdi)\n")
CHECK(movdqa, "movdqa 64(%%rsi), %%xmm3\nmovdqa %%xmm3, %%xmm12\nmovdqa %%xmm12, 16(%%rdi)\nmovdqu %%xmm12, %%xmm2\nmovdqu %%xmm2, 1(%%rdi)\n")
CHECK(movnt, LOAD "movntdq %%xmm0, (%%rdi)\nmovntps %%xmm1, 16(%%rdi)\n")
MAYBE(movnti, "movntiq %%rax, (%%rdi)\nmovntil %%eax, 16(%%rdi)\n")
CHECK(movd, LOAD "movd %%eax, %%xmm0\nmovd %%xmm1, %%edx\n" SAVE "movd 33(%%rsi), %%xmm2\nmovdqu %%xmm2, 16(%%rdi)\nmovd %%xmm1, 37(%%rdi)\n")
CHECK(movq, LOAD "movq %%rax, %%xmm0\nmovq %%xmm1, %%rdx\n" SAVE "movq 33(%%rsi), %%xmm2\nmovdqu %%xmm2, 16(%%rdi)\nmovq %%xmm1, 27(%%rdi)\n")
CHECK(movq_rr, LOAD "movq %%xmm1, %%xmm0\n" SAVE)
CHECK(movq_d6, LOAD ".byte 0x66, 0x0f, 0xd6, 0xc8\n" SAVE) // movq %xmm1, %xmm0
CHECK(movq_6e, LOAD ".byte 0x66, 0x48, 0x0f, 0x6e, 0x46, 0x21\n" SAVE) // movq 33(%rsi), %xmm0
CHECK(movq_7e, LOAD ".byte 0x66, 0x48, 0x0f, 0x7e, 0x47, 0x03\n") // movq %xmm0, 3(%rdi)
CHECK(movss, LOAD "movss %%xmm1, %%xmm0\n" SAVE "movss 33(%%rsi), %%xmm2\nmovdqu %%xmm2, 16(%%rdi)\nmovss %%xmm1, 37(%%rdi)\n")
CHECK(movsd, LOAD "movsd %%xmm1, %%xmm0\n" SAVE "movsd 33(%%rsi), %%xmm2\nmovdqu %%xmm2, 16(%%rdi)\nmovsd %%xmm1, 27(%%rdi)\n")
CHECK(movss_11, LOAD ".byte 0xf3, 0x0f, 0x11, 0xc8\n" SAVE) // movss %xmm1, %xmm0
CHECK(movlps, LOAD "movlps 33(%%rsi), %%xmm0\n" SAVE "movlps %%xmm1, 19(%%rdi)\n")
CHECK(movhps, LOAD "movhps 33(%%rsi), %%xmm0\n" SAVE "movhps %%xmm1, 19(%%rdi)\n")
CHECK(movlpd, LOAD "movlpd 33(%%rsi), %%xmm0\n" SAVE "movlpd %%xmm1, 19(%%rdi)\n")
CHECK(movhpd, LOAD "movhpd 33(%%rsi), %%xmm0\n" SAVE "movhpd %%xmm1, 19(%%rdi)\n")
CHECK(movlhps, LOAD "movlhps %%xmm1, %%xmm0\n" SAVE)
CHECK(movlhps_self, LOAD "movlhps %%xmm0, %%xmm0\n" SAVE)
MAYBE(movhlps, LOAD "movhlps %%xmm1, %%xmm0\n" SAVE)
#define LANES(op)                                                           \
	CHECK(op##_rr, LOAD #op " %%xmm1, %%xmm0\n" SAVE)                        \
	CHECK(op##_rm, LOAD #op " 64(%%rsi), %%xmm0\n" SAVE)                     \
	CHECK(op##_self, LOAD #op " %%xmm0, %%xmm0\n" SAVE)
LANES(pxor) LANES(pand) LANES(por) LANES(pandn)
LANES(xorps) LANES(andps) LANES(orps) LANES(andnps)
LANES(xorpd) LANES(andpd) LANES(orpd) LANES(andnpd)
LANES(pcmpeqb) LANES(pcmpeqw) LANES(pcmpeqd) LANES(pminub) LANES(paddd) LANES(psubd) LANES(paddq)
LANES(punpcklbw) LANES(punpcklwd) LANES(punpckldq) LANES(punpcklqdq)
LANES(punpckhbw) LANES(punpckhwd) LANES(punpckhdq) LANES(punpckhqdq)
CHECK(fresh, "pxor %%xmm5, %%xmm5\nmovdqu %%xmm5, (%%rdi)\npcmpeqd %%xmm4, %%xmm4\nmovdqu %%xmm4, 16(%%rdi)\n")
CHECK(pmovmskb, LOAD "pmovmskb %%xmm0, %%eax\npcmpeqb %%xmm1, %%xmm0\npmovmskb %%xmm0, %%r9d\nmov %%r9, %%rdx\n")
CHECK(pshufd, LOAD "pshufd $0x1b, %%xmm1, %%xmm0\n" SAVE "pshufd $0, %%xmm1, %%xmm1\nmovdqu %%xmm1, 16(%%rdi)\n")
CHECK(pshufd_m, LOAD "pshufd $0x8d, 64(%%rsi), %%xmm0\n" SAVE "pshufd $0xe4, %%xmm1, %%xmm9\nmovdqu %%xmm9, 16(%%rdi)\n")
CHECK(pshuflw, LOAD "pshuflw $0x1b, %%xmm1, %%xmm0\n" SAVE "pshuflw $0, 64(%%rsi), %%xmm1\nmovdqu %%xmm1, 16(%%rdi)\n")
CHECK(pshufhw, LOAD "pshufhw $0x8d, %%xmm1, %%xmm0\n" SAVE "pshufhw $0xe4, 64(%%rsi), %%xmm9\nmovdqu %%xmm9, 16(%%rdi)\n")
CHECK(broadcast, LOAD "movd %%ecx, %%xmm0\npunpcklbw %%xmm0, %%xmm0\npshuflw $0, %%xmm0, %%xmm0\npshufd $0, %%xmm0, %%xmm0\npcmpeqb %%xmm0, %%xmm1\npmovmskb %%xmm1, %%eax\n" SAVE)
CHECK(psrldq, LOAD "psrldq $3, %%xmm0\n" SAVE "psrldq $8, %%xmm1\nmovdqu %%xmm1, 16(%%rdi)\n")
CHECK(psrldq_more, LOAD "psrldq $11, %%xmm0\n" SAVE "psrldq $16, %%xmm1\nmovdqu %%xmm1, 16(%%rdi)\n")
CHECK(psrldq_none, LOAD "psrldq $0, %%xmm0\n" SAVE "psrldq $33, %%xmm1\nmovdqu %%xmm1, 16(%%rdi)\n")
HAVING(sse41, ptest, LOAD "ptest %%xmm1, %%xmm0\n" ALL "ptest %%xmm0, %%xmm0\nsetz (%%rdi)\nsetc 1(%%rdi)\nptest 64(%%rsi), %%xmm0\nsetc 2(%%rdi)\n")
HAVING(sse41, pcmpeqq, LOAD "pcmpeqq %%xmm1, %%xmm0\n" SAVE "movdqu 64(%%rsi), %%xmm2\npcmpeqq 32(%%rsi), %%xmm2\nmovdqu %%xmm2, 16(%%rdi)\n")
CHECK(scan, LOAD "pcmpeqb %%xmm1, %%xmm0\npmovmskb %%xmm0, %%eax\nor $0x10000, %%eax\nbsf %%eax, %%ecx\nmovzbl 64(%%rsi, %%rcx), %%edx\n")

#define VLOAD "vmovdqu 32(%%rsi), %%ymm0\nvmovdqu 64(%%rsi), %%ymm1\nvmovdqu 32(%%rsi), %%ymm2\n"
#define VSAVE "vmovdqu %%ymm2, (%%rdi)\nvzeroupper\n"
HAVING(avx2, vmovdqu, "vmovdqu 35(%%rsi), %%ymm0\nvmovdqu %%ymm0, %%ymm9\nvmovdqu %%ymm9, 5(%%rdi)\nvzeroupper\n")
HAVING(avx2, vmovdqu128, VLOAD "vmovdqu 35(%%rsi), %%xmm2\nvmovdqu %%xmm1, 24(%%rdi)\n" VSAVE)
HAVING(avx2, vmovdqa128, VLOAD "vmovdqa %%xmm1, %%xmm2\n" VSAVE)
HAVING(avx2, vmovaps, VLOAD "vmovaps 64(%%rsi), %%ymm2\nvmovaps %%ymm2, %%ymm12\nvmovups %%ymm12, %%ymm2\n" VSAVE)
HAVING(avx2, vmovd, VLOAD "vmovd %%eax, %%xmm2\nvmovd %%xmm1, %%edx\n" VSAVE)
HAVING(avx2, vmovd_m, VLOAD "vmovd 33(%%rsi), %%xmm2\n" VSAVE)
HAVING(avx2, vmovq, VLOAD "vmovq %%rax, %%xmm2\nvmovq %%xmm1, %%rdx\n" VSAVE)
HAVING(avx2, vmovq_m, VLOAD "vmovq 33(%%rsi), %%xmm2\nvmovq %%xmm1, %%rax\n" VSAVE "vmovq %%xmm1, 17(%%rdi)\n")
HAVING(avx2, vmovq_rr, VLOAD "vmovq %%xmm1, %%xmm2\n" VSAVE)
HAVING(avx2, vmovss, VLOAD "vmovss 33(%%rsi), %%xmm2\n" VSAVE "vmovss %%xmm1, 17(%%rdi)\n")
HAVING(avx2, vmovsd, VLOAD "vmovsd 33(%%rsi), %%xmm2\n" VSAVE "vmovsd %%xmm1, 17(%%rdi)\n")
HAVING(avx2, vmovntdq, VLOAD "vmovntdq %%ymm1, (%%rdi)\nvmovntdq %%xmm0, 16(%%rdi)\nvzeroupper\n")
HAVING(avx2, vmovlps, VLOAD "vmovlps %%xmm1, 3(%%rdi)\nvmovhps %%xmm1, 13(%%rdi)\nvzeroupper\n")
MAYBE_HAVING(avx2, vmovss_rrr, VLOAD "vmovss %%xmm1, %%xmm0, %%xmm2\n" VSAVE)
MAYBE_HAVING(avx2, vmovlps_load, VLOAD "vmovlps 33(%%rsi), %%xmm0, %%xmm2\n" VSAVE)
MAYBE_HAVING(avx2, vmovlhps, VLOAD "vmovlhps %%xmm1, %%xmm0, %%xmm2\n" VSAVE)
#define VLANES(op)                                                                           \
	HAVING(avx2, op##_256, VLOAD #op " %%ymm1, %%ymm0, %%ymm2\n" VSAVE)                       \
	HAVING(avx2, op##_256m, VLOAD #op " 65(%%rsi), %%ymm0, %%ymm2\n" VSAVE)                   \
	HAVING(avx2, op##_128, VLOAD #op " %%xmm1, %%xmm0, %%xmm2\n" VSAVE)                       \
	HAVING(avx2, op##_128m, VLOAD #op " 65(%%rsi), %%xmm0, %%xmm2\n" VSAVE)             \
	HAVING(avx2, op##_self, VLOAD #op " %%xmm1, %%xmm1, %%xmm2\n" VSAVE)                      \
	HAVING(avx2, op##_onto, VLOAD #op " %%ymm2, %%ymm1, %%ymm2\n" VSAVE)
VLANES(vpxor) VLANES(vpand) VLANES(vpor) VLANES(vpandn) VLANES(vxorps) VLANES(vandps) VLANES(vorps) VLANES(vandnps)
VLANES(vpcmpeqb) VLANES(vpcmpeqw) VLANES(vpcmpeqd) VLANES(vpcmpeqq) VLANES(vpminub) VLANES(vpaddd) VLANES(vpsubd) VLANES(vpaddq)
HAVING(avx2, vpmovmskb, VLOAD "vpmovmskb %%ymm0, %%eax\nvpcmpeqb %%ymm1, %%ymm0, %%ymm0\nvpmovmskb %%ymm0, %%edx\nvpmovmskb %%xmm0, %%ecx\nvzeroupper\n")
#define BROADCAST(op)                                                                         \
	HAVING(avx2, op##_256, VLOAD #op " %%xmm1, %%ymm2\n" VSAVE)                               \
	HAVING(avx2, op##_256m, VLOAD #op " 65(%%rsi), %%ymm2\n" VSAVE)                           \
	HAVING(avx2, op##_128, VLOAD #op " %%xmm1, %%xmm2\n" VSAVE)                               \
	HAVING(avx2, op##_128m, VLOAD #op " 65(%%rsi), %%xmm2\n" VSAVE)
BROADCAST(vpbroadcastb) BROADCAST(vpbroadcastw) BROADCAST(vpbroadcastd) BROADCAST(vpbroadcastq)
HAVING(avx2, vptest, VLOAD "vptest %%ymm1, %%ymm0\n" ALL "vptest 65(%%rsi), %%ymm1\nsetz (%%rdi)\nsetc 1(%%rdi)\nvptest %%xmm0, %%xmm0\nsetz 2(%%rdi)\nsetc 3(%%rdi)\n"
	"vpandn %%ymm1, %%ymm0, %%ymm2\nvptest %%ymm2, %%ymm0\nsetz 4(%%rdi)\nvzeroupper\n")
HAVING(avx2, vzeroupper, VLOAD "vzeroupper\nvmovdqu %%ymm0, (%%rdi)\n")
HAVING(avx2, sse_keeps, VLOAD "pxor %%xmm1, %%xmm2\npaddd %%xmm0, %%xmm2\nmovdqa %%xmm2, %%xmm3\nmovd %%eax, %%xmm2\nmovss 32(%%rsi), %%xmm2\npshufd $3, %%xmm2, %%xmm2\n" VSAVE)

// What need not be emulated has to leave unknown what it writes.
MAYBE(high_mov, "mov %%ah, %%dl\nmov %%cl, %%ah\n")
MAYBE(high_alu, "add %%dl, %%ah\n" ALL "add %%ah, %%cl\nmovzbl %%dh, %%ebx\nmov %%rbx, 8(%%rdi)\n")
MAYBE(high_imm, "mov $5, %%ah\n")
MAYBE(high_store, "mov %%ah, 3(%%rdi)\nadd %%dh, 9(%%rdi)\n" ALL)
MAYBE(high_set, "cmp %%rdx, %%rax\nsetc %%ah\nshl $1, %%dh\nxchg %%ch, 3(%%rdi)\n")
MAYBE(rcl, CARRY "rcl $3, %%rax\nrcr $1, %%edx\n" FC)
MAYBE(rcl_m, CARRY "rclq 3(%%rdi)\nrcrl 13(%%rdi)\n" FC)
MAYBE(lahf, "cmp %%rdx, %%rax\nlahf\nand $0xd500, %%eax\n")
MAYBE(sahf, "cmp %%rdx, %%rcx\nsahf\n" FC FZ FS FP)
MAYBE(carry, "cmp %%rdx, %%rax\ncmc\n" FC "stc\nsetc (%%rdi)\nclc\nsetc 1(%%rdi)\n")
MAYBE(pushf, "cmp %%rdx, %%rax\npushfq\npop %%rax\nand $0x8c5, %%eax\n")
MAYBE(popf, "cmp %%rdx, %%rax\npushfq\ncmp %%rax, %%rdx\npopfq\n" ALL)
MAYBE(stosb, "mov %%rdi, %%rbx\nstosb\nmov %%al, %%dl\nstosq\nsub %%rbx, %%rdi\nmov %%rdi, %%rcx\n")
MAYBE(rep_stos, "mov $9, %%ecx\nrep stosb\n")
MAYBE(rep_movs, "mov $3, %%ecx\nrep movsq\n")
MAYBE(lods, "lodsq\nlodsb\n")
MAYBE(scas, "mov $20, %%ecx\nrepne scasb\n" FC FZ)
MAYBE(cmps, "lea 64(%%rsi), %%rdi\nmov $32, %%ecx\nrepe cmpsb\nmov %%rsi, %%rax\nsub %%rdi, %%rax\nsetb %%dl\n")
MAYBE(xlat, "lea 32(%%rsi), %%rbx\nand $31, %%al\nxlat\n")
MAYBE(loop, "mov $3, %%ecx\n3: add $5, %%rax\nloop 3b\njrcxz 4f\ninc %%rax\n4:\n")
MAYBE(enter, "push %%rbp\nmov %%rsp, %%rbx\nenter $16, $0\nmov %%rbp, %%rax\nsub %%rbx, %%rax\nmov %%rsp, %%rdx\nsub %%rbx, %%rdx\nleave\npop %%rbp\n")
MAYBE(pushw, "mov %%rsp, %%rbx\npushw %%ax\npushw %%dx\nmov (%%rsp), %%ecx\npopw %%dx\npopw %%ax\nsub %%rsp, %%rbx\n")
MAYBE(pop_m, "push %%rax\npush %%rdx\nmov %%rsp, %%rbx\npopq 3(%%rdi)\npopq 16(%%rdi)\nsub %%rsp, %%rbx\nmov %%rbx, %%rcx\n")
MAYBE(fpu, "fildq 32(%%rsi)\nfadd %%st(0), %%st(0)\nfstpl 3(%%rdi)\nfildl 32(%%rsi)\nfstps 15(%%rdi)\nfld1\nfstpt 20(%%rdi)\n")
MAYBE(fpu_int, "fildl 32(%%rsi)\nfistpll 3(%%rdi)\nfildl 36(%%rsi)\nfistpl 15(%%rdi)\nfnstcw 30(%%rdi)\nfnstsw %%ax\nand $0x3800, %%eax\nstmxcsr 20(%%rdi)\nandl $0x1f80, 20(%%rdi)\n")
MAYBE(fcomi, "fldl 32(%%rsi)\nfldl 64(%%rsi)\ncmp %%rax, %%rdx\nfcomip %%st(1), %%st(0)\n" FC FZ FP "fstp %%st(0)\n")
MAYBE(comisd, LOAD "cmp %%rax, %%rdx\nucomisd %%xmm1, %%xmm0\n" FC FZ FP "cvtsi2sd %%rax, %%xmm0\n" SAVE "cvttsd2si %%xmm0, %%rdx\n")
MAYBE(addsd, LOAD "cvtsi2sd %%edx, %%xmm1\nmulsd %%xmm1, %%xmm1\nsqrtsd %%xmm1, %%xmm0\n" SAVE "cvtsd2ss %%xmm1, %%xmm1\nmovss %%xmm1, 17(%%rdi)\n")
MAYBE(shuffles, LOAD "shufps $0x1b, %%xmm1, %%xmm0\n" SAVE "pshuflw $0x1b, %%xmm1, %%xmm0\npshufhw $0x1b, %%xmm0, %%xmm1\nmovdqu %%xmm1, 16(%%rdi)\n")
MAYBE(shifts, LOAD "psllq $3, %%xmm0\n" SAVE "psrad $2, %%xmm1\nmovd %%eax, %%xmm2\npsrlw %%xmm2, %%xmm1\npslldq $3, %%xmm1\nmovdqu %%xmm1, 16(%%rdi)\n")
MAYBE(arith, LOAD "paddb %%xmm1, %%xmm0\npsubw %%xmm1, %%xmm0\npmuludq %%xmm1, %%xmm0\npcmpgtb %%xmm0, %%xmm1\npmaxub %%xmm1, %%xmm0\npsubq %%xmm1, %%xmm0\n" SAVE)
MAYBE(packs, LOAD "packuswb %%xmm1, %%xmm0\npavgb %%xmm1, %%xmm0\npsadbw %%xmm1, %%xmm0\n" SAVE "movmskps %%xmm1, %%eax\nmovmskpd %%xmm1, %%edx\n")
MAYBE(pextrw, LOAD "pextrw $3, %%xmm1, %%eax\npinsrw $5, %%edx, %%xmm0\n" SAVE)
MAYBE(maskmov, LOAD "maskmovdqu %%xmm0, %%xmm1\n")
MAYBE(mmx, "movq %%rax, %%mm0\npaddb %%mm0, %%mm0\nmovq %%mm0, 3(%%rdi)\nmovd %%mm0, %%edx\nmovq2dq %%mm0, %%xmm0\nmovdqu %%xmm0, 16(%%rdi)\nemms\n")
MAYBE(mmx_lanes, LOAD "movq 33(%%rsi), %%mm0\npxor 64(%%rsi), %%mm0\nmovntq %%mm0, 5(%%rdi)\nmovdq2q %%xmm0, %%mm0\nmovd %%mm0, 17(%%rdi)\nemms\n")
MAYBE_HAVING(ssse3, pshufb, LOAD "pshufb %%xmm1, %%xmm0\n" SAVE "palignr $3, %%xmm0, %%xmm1\nmovdqu %%xmm1, 16(%%rdi)\n")
MAYBE_HAVING(sse41, pextr, LOAD "pextrq $1, %%xmm0, 3(%%rdi)\npextrb $5, %%xmm0, 17(%%rdi)\npextrd $2, %%xmm1, 20(%%rdi)\npextrq $1, %%xmm1, %%rax\npinsrq $1, %%rdx, %%xmm1\nmovdqu %%xmm1, 24(%%rdi)\n")
MAYBE_HAVING(sse41, pmovzx, LOAD "pmovzxbw %%xmm1, %%xmm0\n" SAVE "pminud %%xmm0, %%xmm1\npblendw $0x35, %%xmm0, %%xmm1\nmovdqu %%xmm1, 16(%%rdi)\nextractps $1, %%xmm1, %%eax\n")
MAYBE_HAVING(sse42, pcmpstr, LOAD "cmp %%rax, %%rdx\npcmpistri $0x1a, %%xmm1, %%xmm0\n" FC FZ FS FO "pcmpistrm $0x4a, %%xmm1, %%xmm0\n" SAVE "crc32q %%rdx, %%rax\n")
MAYBE_HAVING(bmi2, pext, "pext %%rdx, %%rax, %%rbx\npdep %%rdx, %%rax, %%r8\nmulx %%rcx, %%r9, %%r10\nadd %%r8, %%rbx\nmov %%rbx, (%%rdi)\nmov %%r9, 8(%%rdi)\nmov %%r10, 16(%%rdi)\n")
MAYBE_HAVING(bmi, bextr, "cmp %%rax, %%rdx\nbextr %%rdx, %%rax, %%rbx\n" FZ "mov %%rbx, (%%rdi)\n")
MAYBE_HAVING(adx, adcx, CARRY "adcx %%rdx, %%rax\nadox %%rdx, %%rcx\n" FC FO)
MAYBE_HAVING(cx16, cmpxchg16b, "mov %%rax, %%rbx\ncmp %%rax, %%rdx\nlock cmpxchg16b 16(%%rdi)\n" FZ)
MAYBE(cmpxchg8b, "mov %%rax, %%rbx\ncmp %%rax, %%rdx\nlock cmpxchg8b 16(%%rdi)\n" FZ)
MAYBE_HAVING(avx2, vshift, VLOAD "vpslldq $3, %%ymm0, %%ymm2\nvpsrldq $3, %%ymm2, %%ymm2\n" VSAVE)
MAYBE_HAVING(avx2, vshuffle, VLOAD "vpshufd $0x1b, %%ymm0, %%ymm2\nvpshufb %%ymm1, %%ymm2, %%ymm2\nvpunpcklbw %%ymm1, %%ymm2, %%ymm2\n" VSAVE)
MAYBE_HAVING(avx2, vshuffle128, VLOAD "vpshufd $0x1b, %%xmm0, %%xmm2\nvpshufb %%xmm1, %%xmm2, %%xmm2\nvpunpckhbw %%xmm1, %%xmm2, %%xmm2\n" VSAVE)
MAYBE_HAVING(avx2, vlane, VLOAD "vextracti128 $1, %%ymm0, 3(%%rdi)\nvextracti128 $1, %%ymm1, %%xmm2\nvinserti128 $1, %%xmm1, %%ymm0, %%ymm3\nvmovdqu %%ymm3, 8(%%rdi)\nvpextrq $1, %%xmm0, (%%rdi)\nvzeroupper\n")
MAYBE_HAVING(avx2, vperm, VLOAD "vpermq $0x1b, %%ymm0, %%ymm2\nvperm2i128 $1, %%ymm1, %%ymm2, %%ymm2\nvpblendd $0x5a, %%ymm1, %%ymm2, %%ymm2\n" VSAVE)
MAYBE_HAVING(avx2, vmask, VLOAD "vpmaskmovd %%ymm0, %%ymm1, 4(%%rdi)\nvpmaskmovd 32(%%rsi), %%ymm1, %%ymm2\nvmovdqu %%xmm2, (%%rdi)\nvzeroupper\n")
MAYBE_HAVING(avx2, vbroadcast, VLOAD "vbroadcastss 33(%%rsi), %%ymm2\nvbroadcasti128 32(%%rsi), %%ymm3\nvpaddb %%ymm3, %%ymm2, %%ymm2\n" VSAVE)
MAYBE_HAVING(avx2, vmovmsk, VLOAD "vmovmskps %%ymm0, %%eax\nvmovmskpd %%ymm0, %%edx\nvpsubb %%ymm1, %%ymm0, %%ymm2\nvpcmpgtb %%ymm1, %%ymm2, %%ymm2\n" VSAVE)
MAYBE_HAVING(avx2, vzeroall, VLOAD "vzeroall\nvmovdqu %%ymm0, (%%rdi)\n")
MAYBE(string_once, "mov %%rdi, %%rbx\nmov %%rsi, %%r8\nmovsb\nmovsq\ncmpsb\nsetz 40(%%rbx)\nsub %%r8, %%rsi\nmov %%rsi, %%rax\nscasw\nsetz (%%rbx)\nstosw\nsub %%rbx, %%rdi\nmov %%rdi, %%rcx\n")
MAYBE(backwards, "std\nadd $20, %%rdi\nstosb\nmov %%rdi, %%rbx\ncld\nsub $19, %%rdi\nsub %%rdi, %%rbx\n")
MAYBE(maskmovq, LOAD "movq 32(%%rsi), %%mm0\nmovq2dq %%mm0, %%xmm0\nmovdq2q %%xmm1, %%mm0\nmaskmovq %%mm0, %%mm0\npinsrw $1, %%eax, %%mm0\npextrw $2, %%mm0, %%edx\npmovmskb %%mm0, %%ecx\nemms\n")
MAYBE(fisttp, "fildl 32(%%rsi)\nfisttpll 3(%%rdi)\nfildl 40(%%rsi)\nfbstp 20(%%rdi)\nfldpi\nfxtract\nfstpl (%%rdi)\nfstpl 8(%%rdi)\n")
MAYBE(segments, "mov %%ds, %%eax\nmov %%ss, %%edx\nlsl %%dx, %%ecx\n" FZ)
MAYBE_HAVING(aes, crypto, LOAD "aesenc %%xmm1, %%xmm0\npclmulqdq $1, %%xmm1, %%xmm0\n" SAVE "aeskeygenassist $3, %%xmm1, %%xmm0\nmovdqu %%xmm0, 16(%%rdi)\n")
MAYBE_HAVING(fma, fma, VLOAD "vpxor %%ymm0, %%ymm0, %%ymm0\nvfmadd231pd %%ymm1, %%ymm0, %%ymm0\nvcvtdq2ps %%ymm1, %%ymm3\nvcvtps2ph $0, %%ymm3, 4(%%rdi)\nvcvtph2ps 32(%%rsi), %%ymm0\nvextractf128 $1, %%ymm1, 20(%%rdi)\nvzeroupper\n")
MAYBE_HAVING(avx2, vpextr, VLOAD "vpextrb $3, %%xmm1, (%%rdi)\nvpextrw $3, %%xmm1, %%eax\nvpinsrd $1, %%edx, %%xmm1, %%xmm2\nvpalignr $3, %%xmm0, %%xmm2, %%xmm2\nvtestps %%ymm0, %%ymm1\n" FC FZ VSAVE)
MAYBE_HAVING(avx2, vmovdup, VLOAD "vmovddup %%ymm1, %%ymm2\nvmovshdup %%xmm2, %%xmm2\nvlddqu 33(%%rsi), %%ymm3\nvmovdqu %%xmm3, 24(%%rdi)\nvpmovzxbd %%xmm1, %%ymm0\nvmovdqu %%xmm0, 32(%%rdi)\nmovq $0, 40(%%rdi)\n" VSAVE)
MAYBE(unknown, "mov %%ah, %%bl\nmov %%al, %%bh\nand $0, %%ebx\n" FZ "mov %%ah, %%bl\nor %%rbx, %%rdx\nsub %%rdx, %%rdx\nmov %%ah, %%cl\nxor %%ecx, %%ecx\n")
MAYBE(cpuid, "xor %%eax, %%eax\nxor %%ecx, %%ecx\ncpuid\nmov %%ebx, (%%rdi)\n")
MAYBE(rdtsc, "rdtsc\nshr $63, %%rax\nshr $63, %%rdx\n")
MAYBE(fxsave, "sub $1200, %%rsp\nmov %%rsp, %%rbx\nand $-64, %%rbx\nmov %%rax, 200(%%rbx)\nmov %%rax, 80(%%rbx)\nmovdqu 32(%%rsi), %%xmm2\nmovdqu 64(%%rsi), %%xmm1\nfxsave (%%rbx)\n"
	"mov 200(%%rbx), %%rdx\nmov 176(%%rbx), %%rcx\nadd $1200, %%rsp\n")
MAYBE(fcmov, "fldl 32(%%rsi)\nfldl 64(%%rsi)\ncmp %%rax, %%rdx\nfcmovb %%st(1), %%st(0)\nfstpl (%%rdi)\nfcomip %%st(0), %%st(0)\n" FZ)
MAYBE_HAVING(sse42, pcmpestr, LOAD "mov $5, %%eax\nmov $7, %%edx\ncmp %%rax, %%rdx\npcmpestri $0xc, %%xmm1, %%xmm0\n" FC FZ FS FO "pcmpestrm $0x4c, %%xmm1, %%xmm0\n" SAVE)
MAYBE_HAVING(sse41, blendv, LOAD "movdqu 48(%%rsi), %%xmm2\npblendvb %%xmm0, %%xmm1, %%xmm2\nmovdqu %%xmm2, 16(%%rdi)\nroundsd $0, %%xmm1, %%xmm0\nmpsadbw $3, %%xmm1, %%xmm0\npcmpgtq %%xmm1, %%xmm0\n" SAVE)
MAYBE_HAVING(avx2, vgather, VLOAD "vpxor %%xmm3, %%xmm3, %%xmm3\nvpcmpeqd %%xmm4, %%xmm4, %%xmm4\nvpgatherdd %%xmm4, 32(%%rsi, %%xmm3, 4), %%xmm2\nvmovdqu %%xmm4, 16(%%rdi)\nvmovdqu %%xmm2, (%%rdi)\nvzeroupper\n")
MAYBE_HAVING(avx2, vconvert, VLOAD "vcvtsi2sd %%rax, %%xmm1, %%xmm2\nvucomisd %%xmm2, %%xmm0\n" FC FZ FP VSAVE)
