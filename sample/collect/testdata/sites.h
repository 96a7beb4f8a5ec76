// sites.h: code that has, with a counter beside it, each conditional branch and one of
// each other instruction that can be probed.
#include <stdint.h>

#ifdef __aarch64__
enum { SITES = 26, BRANCHES = 22, FLAGS = 32 };
#else
enum { SITES = 44, BRANCHES = 32, FLAGS = 32 };
#endif

// What the instruction at the symbol site_0, site_1, ... did. Those before BRANCHES
// are the 16 conditions, short and then near; of AArch64 the 14 conditions, and branches that
// test a register.
struct counts {
	uint64_t passed[SITES]; // fell through, or is no branch
	uint64_t taken[SITES];
};

// run runs all of them n times, with each combination of flags in turn, and adds to c.
// What it returns is not 0 if an instruction did not do what it is for.
int run(uint64_t n, struct counts *c);
