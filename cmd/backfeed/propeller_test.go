package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
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
