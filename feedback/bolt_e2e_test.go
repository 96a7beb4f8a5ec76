package feedback

import (
	"bytes"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestBOLTExact writes exact counts and holds them to what llvm-bolt makes of
// them.
func TestBOLTExact(t *testing.T) {
	onEach(t, func(*processor) []string { return []string{"clang-19", "ld.lld-19", "llvm-strip-19", "llvm-bolt-19"} }, testBOLTExact)
}

func testBOLTExact(t *testing.T, c *processor) {
	dir := t.TempDir()
	// valgrind 3.19 cannot read images with relocations: the same without them
	// has the same code at the same addresses.
	c.build(t, dir, "shop.q", "-fuse-ld=lld", "-Wl,-q")
	testtool.Run(t, dir, "llvm-strip-19", "-g", "-o", "shop", "shop.q")
	p, rec := exact(t, dir, "shop")
	var out bytes.Buffer
	stats, err := WriteBOLT(&out, p, rec, BOLTOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", stats)
	testtool.Write(t, dir, "shop.fdata", out.String())
	log := testtool.Run(t, dir, "llvm-bolt-19", "shop.q", "-o", "shop.bolt", "--data=shop.fdata",
		"--reorder-blocks=ext-tsp", "--reorder-functions=cdsort", "--split-functions", "--dyno-stats")
	if strings.Contains(log, "invalid (possibly stale)") {
		t.Errorf("llvm-bolt could not use the profile of some function:\n%s", log)
	}
	const ofSource = 8 // functions in shop.c that run, beside those of the C library's start files
	if m := regexp.MustCompile(`(\d+) out of \d+ functions in the binary .* have non-empty execution profile`).FindStringSubmatch(log); m == nil {
		t.Errorf("llvm-bolt says nothing of profiles:\n%s", log)
	} else if n, _ := strconv.Atoi(m[1]); n < ofSource || stats.Procs < ofSource {
		t.Errorf("llvm-bolt has a profile of %d functions, the file of %d procedures, want %d:\n%s", n, stats.Procs, ofSource, log)
	}
	if m := regexp.MustCompile(`: taken branches \((-[0-9.]+)%\)`).FindStringSubmatch(log); m == nil {
		t.Errorf("taken branches did not fall:\n%s", log)
	}
	if got, want := c.run(t, dir, "shop.bolt"), c.run(t, dir, "shop"); got != want {
		t.Errorf("the program prints %q after llvm-bolt, was %q", got, want)
	}
}

// TestBOLTLocals: a constant and functions of one name, all local, in four files.
func TestBOLTLocals(t *testing.T) {
	testtool.Need(t, "clang-19", "ld.lld-19", "llvm-bolt-19", "valgrind")
	dir := t.TempDir()
	testtool.Write(t, dir, "main.c", `
static const int same = 3;
int run1(int), run2(int), run3(int);
int main(void) { const volatile int *p = &same; return run1(*p) + run2(200) + run3(20) == 0; }
`)
	testtool.Write(t, dir, "part.c", `
static volatile int x;
__attribute__((noinline)) static int same(int n) {
	int s = 0;
	for (int i = 0; i < n; i++)
		if (i % 7 == N) s += i; else s ^= x;
	return s;
}
int RUN(int n) { return same(n) + 1; }
`)
	objects := []string{"main.o"}
	testtool.Run(t, dir, "clang-19", "-O2", "-c", "main.c")
	for _, n := range []string{"1", "2", "3"} {
		testtool.Run(t, dir, "clang-19", "-O2", "-c", "part.c", "-DN="+n, "-DRUN=run"+n, "-o", n+".o")
		objects = append(objects, n+".o")
	}
	testtool.Run(t, dir, append([]string{"clang-19", "-fuse-ld=lld", "-Wl,-q", "-o", "locals.q"}, objects...)...)
	testtool.Run(t, dir, "strip", "-g", "-o", "locals", "locals.q")
	p, rec := exact(t, dir, "locals")
	var out bytes.Buffer
	if _, err := WriteBOLT(&out, p, rec, BOLTOptions{}); err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, dir, "locals.fdata", out.String())
	log := testtool.Run(t, dir, "llvm-bolt-19", "locals.q", "-o", "locals.bolt", "--data=locals.fdata", "--print-profile")
	var counts []string
	for _, m := range regexp.MustCompile(`Binary Function "(same/\d)[^{]*{[^}]*?Branch Count *: (\d+)`).FindAllStringSubmatch(log, -1) {
		counts = append(counts, m[1]+":"+m[2])
	}
	// One call each, with 3, 200 and 20 rounds.
	if got, want := strings.Join(counts, " "), "same/2:10 same/3:504 same/4:54"; got != want || strings.Contains(log, "stale") {
		t.Errorf("llvm-bolt has branches of %q, want %q:\n%s", got, want, log)
	}
}
