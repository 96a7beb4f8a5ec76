package feedback

import (
	"bytes"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const llvmBOLT = "/usr/lib/llvm-19/bin/llvm-bolt" // by argv[0] it knows which tool it is

// TestBOLTExact writes exact counts and holds them to what llvm-bolt makes of
// them.
func TestBOLTExact(t *testing.T) {
	need(t, "clang-19", "ld.lld-19", "valgrind")
	if _, err := os.Stat(llvmBOLT); err != nil {
		t.Skipf("needs llvm-bolt: %v", err)
	}
	dir := t.TempDir()
	// valgrind 3.19 cannot read images with relocations: the same without them
	// has the same code at the same addresses.
	build(t, dir, "shop.q", "-fuse-ld=lld", "-Wl,-q")
	run(t, dir, "strip", "-g", "-o", "shop", "shop.q")
	p, rec := exact(t, dir, "shop")
	var out bytes.Buffer
	stats, err := WriteBOLT(&out, p, rec, BOLTOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", stats)
	writeFile(t, dir, "shop.fdata", out.String())
	log := run(t, dir, llvmBOLT, "shop.q", "-o", "shop.bolt", "--data=shop.fdata",
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
	if got, want := run(t, dir, "./shop.bolt"), run(t, dir, "./shop"); got != want {
		t.Errorf("the program prints %q after llvm-bolt, was %q", got, want)
	}
}
