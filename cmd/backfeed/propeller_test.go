package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/testdata/qemu"
)

// TestPropeller builds a program with the clusters made from its samples: it lies
// as they say, and still runs.
func TestPropeller(t *testing.T) {
	t.Run("x86-64", func(t *testing.T) {
		testPropeller(t, nil, func(dir, program string) string { return testtool.Run(t, dir, "./"+program) })
	})
	t.Run("AArch64", func(t *testing.T) {
		testtool.Need(t, "aarch64-linux-gnu-gcc") // whose C library clang links
		testPropeller(t, []string{"--target=aarch64-linux-gnu"}, func(dir, program string) string { return qemu.Run(t, dir, program) })
	})
}

func testPropeller(t *testing.T, target []string, runProgram func(dir, program string) string) {
	testtool.Need(t, "clang-19", "ld.lld-19", "llvm-nm-19")
	source, err := filepath.Abs("../../feedback/testdata/shop.c")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	run := func(args ...string) string {
		t.Helper()
		return testtool.Run(t, dir, args...)
	}
	flags := append([]string{"clang-19", "-O2", "-g", "-Wl,--build-id", "-fuse-ld=lld", source}, target...)
	run(append(flags, "-o", "plain")...)
	flags = append(flags, "-fbasic-block-address-map")
	run(append(flags, "-o", "mapped")...)
	clusters, order := filepath.Join(dir, "cc.txt"), filepath.Join(dir, "ld.txt")
	emit := func(program string) (code int, stderr string) {
		rec := recordBlocks(t, filepath.Join(dir, program), "main")
		code, _, stderr = runCLI(t, "emit", "propeller", rec, "-o", clusters, "--ld", order)
		return code, stderr
	}
	if code, stderr := emit("plain"); code != exitNothing || !strings.Contains(stderr, "-fbasic-block-address-map") {
		t.Errorf("without a map: exit code %d, %q, want %d and the flag that makes one", code, stderr, exitNothing)
	}
	if code, stderr := emit("mapped"); code != exitDone {
		t.Fatalf("exit code %d: %s", code, stderr)
	}
	run(append(flags, "-fbasic-block-sections=list="+clusters, "-Wl,--symbol-ordering-file="+order, "-Wl,--no-warn-symbol-ordering", "-o", "ordered")...)

	again, againLD := filepath.Join(dir, "again.txt"), filepath.Join(dir, "again.ld")
	must(t, "layout", filepath.Join(dir, "mapped"), recordBlocks(t, filepath.Join(dir, "mapped"), "main"), "--for", "propeller", "-o", again, "--ld", againLD)
	if testtool.Read(t, again) != testtool.Read(t, clusters) || testtool.Read(t, againLD) != testtool.Read(t, order) {
		t.Error("layout --for propeller writes other files than emit propeller")
	}

	text, err := os.ReadFile(order)
	if err != nil {
		t.Fatal(err)
	}
	var laid []string
	for _, line := range strings.Split(run("llvm-nm-19", "-n", "ordered"), "\n") {
		if f := strings.Fields(line); len(f) == 3 {
			laid = append(laid, f[2])
		}
	}
	want := strings.Fields(string(text))
	if got := slices.DeleteFunc(laid, func(name string) bool { return !slices.Contains(want, name) }); !slices.Equal(got, want) || !slices.Contains(got, "total.cold") {
		t.Errorf("the linker laid out\n%s\nthe order is\n%s", strings.Join(got, " "), strings.Join(want, " "))
	}
	if got, want := runProgram(dir, "ordered"), runProgram(dir, "plain"); got != want {
		t.Errorf("the ordered program prints %q, the plain one %q", got, want)
	}
}

// recordBlocks writes a recording with many samples in each block of a procedure
// that goes on.
func recordBlocks(t *testing.T, path, name string) string {
	t.Helper()
	im, c := openSampled(t, path)
	for _, b := range proc(t, im, name).Blocks {
		if off, ok := im.OffsetOf(b.Start); ok && b.Exit != image.NoReturn {
			c.AddSample(0, off, 100000)
		}
	}
	return save(t, c)
}

// clonesSource has a block, where both sides of an if come together, that goes on to where they say.
const clonesSource = `
#include <stdio.h>
#include <stdlib.h>
__attribute__((noinline)) unsigned twice(const unsigned char *a, const unsigned char *b, int n) {
	unsigned sum = 0;
	for (int i = 0; i < n; i++) {
		if (a[i] > 3) { sum += 3; __asm__ volatile("" : "+r"(sum)); } else { sum ^= 5; __asm__ volatile("" : "+r"(sum)); }
		sum = sum * 7 + i;
		__asm__ volatile("" : "+r"(sum));
		if (b[i] > 3) { sum -= 9; __asm__ volatile("" : "+r"(sum)); } else { sum ^= 11; __asm__ volatile("" : "+r"(sum)); }
	}
	return sum;
}
int main(void) {
	static unsigned char a[1000], b[1000];
	for (int i = 0; i < 1000; i++)
		a[i] = b[i] = rand() % 7;
	printf("%u\n", twice(a, b, 1000));
}
`

// TestPropellerClones: clang clones the blocks that paths say to, and the clones do not hinder the next profile.
func TestPropellerClones(t *testing.T) {
	t.Run("C", func(t *testing.T) { testClones(t, "clang-19", clonesSource) })
	// With exceptions, clang clones no block with a call.
	t.Run("C++", func(t *testing.T) {
		testClones(t, "clang++-19", strings.NewReplacer("unsigned twice(", `extern "C" unsigned twice(`, "sum = sum * 7 + i;", `
		struct counted { ~counted() { ended++; } } c;
		sum = sum * 7 + leaf(i);`,
			"__attribute__((noinline)) unsigned twice", `static volatile unsigned ended;
__attribute__((noinline)) unsigned leaf(unsigned x) { if (x == 123456) throw 1; return x; }
__attribute__((noinline)) extern "C" unsigned twice`).Replace(clonesSource))
	})
}

func testClones(t *testing.T, clang, source string) {
	testtool.Need(t, clang, "ld.lld-19")
	dir := t.TempDir()
	testtool.Write(t, dir, "twice.c", source)
	build := func(name string, flags ...string) string {
		return testtool.Run(t, dir, append([]string{clang, "-O2", "-fno-unroll-loops", "-g", "-Wl,--build-id", "-fuse-ld=lld", "-fbasic-block-address-map", "-Wno-deprecated", "twice.c", "-o", name}, flags...)...)
	}
	build("mapped")
	want := testtool.Run(t, dir, "./mapped")
	for _, from := range []string{"mapped", "cloned"} {
		clusters, order := filepath.Join(dir, from+".cc"), filepath.Join(dir, from+".ld")
		must(t, "emit", "propeller", recordPath(t, filepath.Join(dir, from), "twice", 2000), "-o", clusters, "--ld", order)
		cc := testtool.Read(t, clusters)
		if !strings.Contains(cc, "f twice\np ") {
			t.Errorf("clusters of %s have no clone:\n%s", from, cc)
		}
		if said := build("cloned", "-fbasic-block-sections=list="+clusters, "-Wl,--symbol-ordering-file="+order, "-Wl,--no-warn-symbol-ordering"); said != "" {
			t.Errorf("clang, with the clusters of %s: %s", from, said)
		}
		if got := testtool.Run(t, dir, "./cloned"); got != want {
			t.Errorf("the program of %s's clusters prints %q, want %q", from, got, want)
		}
		im := openImage(t, filepath.Join(dir, "cloned"))
		funcs, err := im.MachineFuncs()
		if err != nil {
			t.Fatal(err)
		}
		repeated, seen := 0, map[[2]uint64]bool{}
		for _, f := range funcs {
			for _, b := range f.Blocks {
				key := [2]uint64{uint64(f.Parts[0]), uint64(b.ID)}
				if seen[key] {
					repeated++
				}
				seen[key] = true
			}
		}
		if want := strings.Count(cc, "\np "); repeated != want {
			t.Errorf("%d clones in the program of %s's clusters, want %d", repeated, from, want)
		}
	}
}

// recordPath writes a recording of a walk through so many blocks of a procedure, in which every branch goes now
// one way and now the other, and returns where.
func recordPath(t *testing.T, path, name string, blocks int) string {
	t.Helper()
	im, c := openSampled(t, path)
	at := func(a image.Addr) sample.Frame {
		off, ok := im.OffsetOf(a)
		if !ok {
			t.Fatalf("%#x is not in the file", uint64(a))
		}
		return sample.Frame{Off: off}
	}
	p := proc(t, im, name)
	times, now, walk := map[image.Addr]int{}, 0, sample.Path{}
	loop := slices.IndexFunc(p.Edges, func(e image.Edge) bool { return e.To <= e.From && e.Kind != image.FallThrough })
	if loop < 0 {
		t.Fatalf("%s has no loop", name)
	}
	head := p.Edges[loop].To
	for range blocks {
		b := &p.Blocks[now]
		c.AddSample(0, at(b.Start).Off, 100)
		var out []image.Edge
		for _, e := range p.Edges {
			if e.From == now {
				out = append(out, e)
			}
		}
		to := head // once more, where it would end
		taken := true
		if len(out) > 0 {
			slices.SortFunc(out, func(x, y image.Edge) int { return int(p.Blocks[x.To].Start) - int(p.Blocks[y.To].Start) })
			e := out[times[b.Start]%len(out)]
			times[b.Start]++
			to, taken = e.To, e.Kind != image.FallThrough
		}
		if taken {
			walk.Branches = append(walk.Branches, sample.Branch{From: at(b.Last), To: at(p.Blocks[to].Start)})
		}
		now = to
	}
	for rest := walk.Branches; len(rest) > 0; {
		n := min(len(rest), sample.MaxPathBranches)
		c.AddPaths([]sample.Path{{Rank: uint64(len(rest)), Branches: rest[:n]}})
		rest = rest[n:]
	}
	return save(t, c)
}
