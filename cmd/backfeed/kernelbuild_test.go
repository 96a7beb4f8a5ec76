package main

import (
	"cmp"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// kernelSource is linked as a vmlinux is: at the top of memory, without a library.
const kernelSource = `
int seen[64];
__attribute__((noinline)) int rare(int n) { seen[n & 63] = n; return n; }
__attribute__((noinline)) int common(int *a, int n)
{
	int sum = 0;
	for (int i = 0; i < n; i++) {
		if (__builtin_expect(a[i] == 42, 0))
			sum += rare(i);
		else
			sum += a[i] * 3;
		__asm__ volatile("" : "+r"(sum));
	}
	return sum;
}
int do_syscall_64(int *a, int n) { return common(a, n) + common(a + 1, n - 1); }
`

// TestEmitKernel: profiles for clang and its linker of a kernel with its samples, which have offsets from where its text starts,
// are those of a program with the same code and samples, and clang takes them.
func TestEmitKernel(t *testing.T) {
	testtool.Need(t, "clang-19", "ld.lld-19")
	dir := t.TempDir()
	source := testtool.Write(t, dir, "kernel.c", kernelSource)
	build := func(out string, more ...string) string {
		t.Helper()
		testtool.Run(t, dir, append([]string{"clang-19", "--target=x86_64-linux-gnu", "-O2", "-g", "-fdebug-info-for-profiling", "-ffreestanding", "-nostdlib", "-static", "-fno-pic", "-mcmodel=kernel",
			"-fbasic-block-address-map", "-ffunction-sections", "-fuse-ld=lld", "-Wl,--image-base=0xffffffff80000000,--section-start=.text=0xffffffff81000000,--defsym=_text=0xffffffff81000000,-e,do_syscall_64,--build-id",
			source, "-Werror", "-o", filepath.Join(dir, out)}, more...)...)
		return filepath.Join(dir, out)
	}
	vmlinux := build("vmlinux")
	im, program := openSampled(t, vmlinux)
	linux := sample.NewCounts(program.CPU, program.Event)
	linux.Image(sample.ImageID{Path: "[kernel]", Build: im.Build})
	const text = 0xffffffff81000000
	for _, name := range []string{"common", "do_syscall_64"} {
		for i, b := range proc(t, im, name).Blocks {
			off, ok := im.OffsetOf(b.Start)
			if !ok || b.Exit == image.NoReturn {
				continue
			}
			n := uint64(1000 * (1 + i%3))
			program.AddSample(0, off, n)
			linux.AddSample(0, sample.Offset(b.Start-text), n)
		}
	}
	ofProgram, ofLinux := save(t, program), save(t, linux)
	for _, format := range []string{"llvm", "propeller"} {
		emit := func(rec string, name string, args ...string) (profile, order string) {
			t.Helper()
			out, ld := filepath.Join(dir, name+"."+format), filepath.Join(dir, name+".ld")
			args = append([]string{"emit", format, rec, "-o", out}, args...)
			if format == "propeller" {
				args = append(args, "--ld", ld)
			}
			must(t, args...)
			if format == "propeller" {
				return testtool.Read(t, out), testtool.Read(t, ld)
			}
			return testtool.Read(t, out), ""
		}
		profile, order := emit(ofLinux, "linux", "--symfs", dir)
		if want, wantOrder := emit(ofProgram, "program"); profile != want || order != wantOrder {
			t.Errorf("%s of a kernel:\n%s%s\nof a program:\n%s%s", format, profile, order, want, wantOrder)
		}
		if !strings.Contains(profile, "common") || !strings.Contains(profile, "do_syscall_64") {
			t.Errorf("%s has not the functions that were sampled:\n%s", format, profile)
		}
	}
	build("by-samples", "-fprofile-sample-use="+filepath.Join(dir, "linux.llvm"))
	ordered := build("ordered", "-fbasic-block-sections=list="+filepath.Join(dir, "linux.propeller"), "-Wl,--symbol-ordering-file="+filepath.Join(dir, "linux.ld"), "-Wl,--no-warn-symbol-ordering")
	at := map[string]uint64{}
	for _, s := range testtool.Symbols(t, ordered) {
		at[s.Name] = s.Value
	}
	order := strings.Fields(testtool.Read(t, filepath.Join(dir, "linux.ld")))
	if !slices.IsSortedFunc(order, func(a, b string) int { return cmp.Compare(at[a], at[b]) }) || len(order) < 3 || at["do_syscall_64"] != text {
		t.Errorf("the linker laid out %#x; the order is %v", at, order)
	}

	// As a kernel that does not run here, and without a file of it, its samples are known by no name, and that is said.
	code, _, errs := runCLI(t, "emit", "llvm", ofLinux, "-o", filepath.Join(dir, "none"))
	if code != exitNothing || !strings.Contains(errs, "not what runs on this machine") {
		t.Errorf("without vmlinux: exit code %d: %s", code, errs)
	}
}
