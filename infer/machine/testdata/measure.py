#!/usr/bin/env python3
"""Measures latencies and throughputs of the x86-64 processor that it runs on.

Each kernel is some dozens of instructions, independent of each other or in a
chain, repeated 2000 times; the fastest of 25 runs counts. The unit is the time of
one addition in a chain, which is one cycle. Needs gcc, and a quiet machine.
"""
import subprocess, tempfile

GENERAL = "rax rbx rcx rdx rsi r8 r9 r10 r11 r12 r13 r14".split()
BYTES = "al bl cl dl sil r8b r9b r10b r11b r12b r13b r14b".split()

# Name, instructions in the kernel, the i-th of them. {r} is a new general register
# each time, {b} a byte of it, {x} a vector register, {o} an offset in the data that
# %rdi leads to; %r15 is 3, %r8 is 7.
KERNELS = [
    ("addition latency", 120, "add $1, %rax"),
    ("addition", 120, "add $1, %{r}"),
    ("nop", 120, "nop"),
    ("move", 120, "mov %r15, %{r}"),
    ("move and addition latency", 60, "mov %rax, %rbx; lea 1(%rbx), %rax"),
    ("shift", 120, "shl $3, %{r}"),
    ("shift variable", 120, "shl %cl, %{r}"),
    ("shift variable latency", 120, "shl %cl, %rax"),
    ("lea", 120, "lea 8(%r15), %{r}"),
    ("lea latency", 120, "lea 8(%rax), %rax"),
    ("lea complex", 120, "lea 8(%r15,%rdi,4), %{r}"),
    ("lea complex latency", 120, "lea 8(%rax,%rdi,4), %rax"),
    ("carry latency", 120, "adc $1, %rax"),
    ("select", 120, "cmovne %r15, %{r}"),
    ("select latency", 120, "cmovne %r15, %rax"),
    ("setcc", 120, "sete %{b}"),
    ("bits", 120, "tzcnt %r15, %{r}"),
    ("bits latency", 120, "tzcnt %rax, %rax"),
    ("mul", 120, "imul %r15, %{r}"),
    ("mul latency", 120, "imul %rax, %rax"),
    ("mul wide latency", 120, "mul %r15"),
    ("mul wide latency, high half", 60, "mul %r15; mov %rdx, %rax"),
    ("div32", 40, "xor %edx, %edx; mov $1234567, %eax; div %r8d"),
    ("div32 latency, and or", 40, "xor %edx, %edx; div %r8d; or $1000000, %eax"),
    ("div64", 40, "xor %edx, %edx; mov $1234567, %eax; div %r8"),
    ("div64 latency, and or", 40, "xor %edx, %edx; div %r8; or $1000000, %rax"),
    ("div64 signed", 40, "mov $1234567, %eax; cqto; idiv %r8"),
    ("div64 signed latency, cqto and or", 40, "cqto; idiv %r8; or $1000000, %rax"),
    ("div64 of 128 bits", 40, "mov $2, %edx; mov $1234567, %eax; div %r8"),
    ("load", 120, "mov {o}(%rdi), %{r}"),
    ("load latency", 120, "mov (%rdi), %rdi"),
    ("load and addition latency", 60, "mov (%rdi), %rdi; add $0, %rdi"),
    ("load vector", 120, "movups {o}(%rdi), %{x}"),
    ("store", 120, "mov %rax, {o}(%rdi)"),
    ("store vector", 120, "movups %xmm0, {o}(%rdi)"),
    ("div64 of 64 bits latency, or and bts", 40, "xor %edx, %edx; div %r15; or %r8, %rax; bts $63, %rax"),
    ("atomic", 40, "lock addq $1, 64(%rdi)"),
    ("atomic xadd", 40, "lock xaddq %rax, 64(%rdi)"),
    ("atomic exchange", 40, "xchg %rax, 64(%rdi)"),
    ("atomic compare and exchange", 40, "lock cmpxchgq %r15, 64(%rdi)"),
    ("fence", 40, "mfence"),
    ("branch not taken", 120, "jc 9f"),
    ("float add", 120, "addsd %xmm15, %{x}"),
    ("float add latency", 120, "addsd %xmm15, %xmm0"),
    ("float mul", 120, "mulsd %xmm15, %{x}"),
    ("float mul latency", 120, "mulsd %xmm15, %xmm0"),
    ("fma", 120, "vfmadd213sd %xmm15, %xmm14, %{x}"),
    ("fma latency", 120, "vfmadd213sd %xmm15, %xmm14, %xmm0"),
    ("float div64", 40, "divsd %xmm15, %{x}"),
    ("float div64 latency", 40, "divsd %xmm15, %xmm0"),
    ("float div32", 40, "divss %xmm15, %{x}"),
    ("float div32 latency", 40, "divss %xmm15, %xmm0"),
    ("sqrt64", 40, "sqrtsd %xmm15, %{x}"),
    ("sqrt64 latency", 40, "sqrtsd %xmm0, %xmm0"),
    ("sqrt32", 40, "sqrtss %xmm15, %{x}"),
    ("sqrt32 latency", 40, "sqrtss %xmm0, %xmm0"),
    ("vector int", 120, "paddd %xmm15, %{x}"),
    ("vector int latency", 120, "paddd %xmm15, %xmm0"),
    ("vector mul", 120, "pmullw %xmm15, %{x}"),
    ("vector mul latency", 120, "pmullw %xmm15, %xmm0"),
    ("shuffle", 120, "pshufd $3, %xmm15, %{x}"),
    ("shuffle latency", 120, "pshufd $3, %xmm0, %xmm0"),
    ("vector move", 120, "movaps %xmm15, %{x}"),
    ("vector moves, two, and int latency", 60, "movaps %xmm0, %xmm1; paddd %xmm15, %xmm1; movaps %xmm1, %xmm0"),
    ("float compare", 120, "ucomisd %xmm15, %xmm14"),
    ("convert", 120, "cvttsd2si %xmm15, %{r}"),
    ("convert and back latency", 60, "cvttsd2si %xmm0, %rax; cvtsi2sd %rax, %xmm0"),
    ("to vector", 120, "movq %r15, %{x}"),
    ("from vector", 120, "movq %xmm15, %{r}"),
    ("to vector and back latency", 60, "movq %xmm0, %rax; movq %rax, %xmm0"),
    ("crypto", 120, "aesenc %xmm15, %{x}"),
    ("crypto latency", 120, "aesenc %xmm15, %xmm0"),
    ("push and pop", 60, "push %rax; pop %rbx"),
]

PROLOGUE = "mov $3, %r15d; lea data(%rip), %rdi; mov $7, %r8d; push %rbp; mov $2000, %ebp; mov $1, %eax; clc; .p2align 6; 1:"
EPILOGUE = "dec %ebp; jnz 1b; 9: pop %rbp"


def kernel(count, pattern):
    body = [pattern.format(r=GENERAL[i % 12], b=BYTES[i % 12], x="xmm%d" % (i % 12), o=16 * (i % 16)) for i in range(count)]
    return "; ".join([PROLOGUE, *body, EPILOGUE]).replace("%", "%%")


def main():
    clobbers = ", ".join('"%s"' % r for r in GENERAL + ["rdi", "r15", "memory", "cc"] + ["xmm%d" % i for i in range(16)])
    code = ["#include <stdint.h>", "#include <stdio.h>", "#include <x86intrin.h>", "uint64_t data[64] __attribute__((aligned(64)));"]
    calls = []
    for n, (name, count, pattern) in enumerate(KERNELS):
        code.append('static void k%d(void) { data[0] = (uint64_t)data; __asm__ volatile("%s" ::: %s); }' % (n, kernel(count, pattern), clobbers))
        calls.append('run("%s", k%d, %d);' % (name, n, count))
    code.append("""
static double cycle;
static void run(const char *name, void (*f)(void), int n) {
	uint64_t best = ~0ull;
	for (int i = 0; i < 25; i++) {
		uint64_t t = __rdtsc();
		f();
		t = __rdtsc() - t;
		if (t < best) best = t;
	}
	double ticks = best / (2000.0 * n);
	if (!cycle) cycle = ticks;
	printf("%-36s %.2f\\n", name, ticks / cycle);
}
int main(void) {""" + "\n".join(calls) + "}")
    with tempfile.TemporaryDirectory() as tmp:
        with open(tmp + "/m.c", "w") as f:
            f.write("\n".join(code))
        subprocess.run(["gcc", "-O1", "-mno-red-zone", "-fomit-frame-pointer", "-o", tmp + "/m", tmp + "/m.c"], check=True)
        subprocess.run([tmp + "/m"], check=True)


if __name__ == "__main__":
    main()
