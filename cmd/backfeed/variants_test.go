package main

import (
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// The program of TestVariants: a loop over items, with calls that are inlined, by pointer and into the other file, a switch, and code that
// never runs.
const (
	variantsMain = `
#include <stdio.h>
#include <stdlib.h>
long work(const int *v, int n);
int main(int argc, char **argv) {
	static int v[5000];
	long sum = 0;
	unsigned x = 7;
	for (int i = 0; i < 5000; i++) {
		x = x * 1664525 + 1013904223;
		v[i] = (int)(x >> 8);
	}
	for (int i = 0; i < 40; i++)
		sum += work(v, 5000);
	printf("%ld\n", sum);
	return argc > 5 ? abs(argc) : 0;
}
`
	variantsWork = `
#include <stdlib.h>
static inline int scaled(int x, int kind) {
	switch (kind) {
	case 0: return x / 5;
	case 1: return x ^ 0x55;
	case 2: return x * 3;
	case 3: return x - 7;
	case 4: return x / 7;
	default: return x;
	}
}
static inline int weighed(int x) {
	if (x % 64 == 2)
		return scaled(x, x & 7) * 2;
	return scaled(x, x & 3);
}
__attribute__((noinline)) static long odd(int x) { return weighed(x) + 1; }
__attribute__((noinline)) static long even(int x) { return x / 2; }
__attribute__((noinline)) long work(const int *v, int n) {
	static long (*const by[])(int) = {even, odd, odd, odd};
	long sum = 0;
	for (int i = 0; i < n; i++) {
		if (v[i] < 0)
			abort();
		sum += by[v[i] & 3](v[i]);
	}
	return sum;
}
`
)

// A variantCompiler is a compiler of TestVariants, with what makes profiles of it.
type variantCompiler struct {
	compiler string
	flags    string // of all builds
	emit     string
	use      string // flag that takes the profile
	tools    []string
}

// A variant is a way to build the program.
type variant struct {
	name   string
	flags  string                         // to compile and link with
	after  func(t *testing.T, dir string) // what becomes of the files then
	shared bool                           // work.c is a library
	same   bool                           // the code is that of the first: so must the profile be
	only   string                         // the compiler that has it
	lacks  string                         // what the error says that is lacking
}

// TestVariants: of a program built in any of these ways the profile is that of the plain build where the code is the same, and the compiler
// uses it; where what the profile is made of is missing, it is said what.
func TestVariants(t *testing.T) {
	t.Parallel() // it counts exactly, and samples nothing
	tool := func(command ...string) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			for part := range strings.SplitSeq(strings.Join(command, " "), " && ") {
				testtool.Run(t, dir, strings.Fields(part)...)
			}
		}
	}
	const separate = "objcopy --only-keep-debug app app.debug && objcopy --strip-all --add-gnu-debuglink=app.debug app"
	all := []variant{
		{name: "plain", flags: "-gdwarf-4", same: true},
		{name: "DWARF 5", flags: "-gdwarf-5", same: true},
		{name: "compressed by zlib", flags: "-gdwarf-5 -gz=zlib", same: true},
		{name: "compressed by zstd", flags: "-gdwarf-5", after: tool("llvm-objcopy-19 --compress-debug-sections=zstd app"), same: true},
		{name: "split DWARF 5", flags: "-gdwarf-5 -gsplit-dwarf", same: true},
		{name: "split DWARF 4", flags: "-gdwarf-4 -gsplit-dwarf", same: true},
		// llvm-dwp 19 does not come to an end with these files of gcc 12.
		{name: "split DWARF 5, one file", flags: "-gdwarf-5 -gsplit-dwarf", after: tool("llvm-dwp-19 main.dwo work.dwo -o app.dwp && rm main.dwo work.dwo"), same: true, only: "clang-19"},
		{name: "split DWARF 4, one file", flags: "-gdwarf-4 -gsplit-dwarf", after: tool("llvm-dwp-19 main.dwo work.dwo -o app.dwp && rm main.dwo work.dwo"), same: true},
		{name: "split DWARF, missing", flags: "-gdwarf-5 -gsplit-dwarf", after: tool("rm main.dwo work.dwo"), lacks: "is in none of "},
		{name: "debug file by link", flags: "-gdwarf-5", after: tool(separate), same: true},
		{name: "debug file by link, in .debug", flags: "-gdwarf-5", after: tool(separate + " && mkdir .debug && mv app.debug .debug/app.debug"), same: true},
		{name: "debug file by build ID", flags: "-gdwarf-5", after: func(t *testing.T, dir string) {
			tool("objcopy --only-keep-debug app app.debug && strip --strip-all app")(t, dir)
			id, err := image.ReadBuildID(filepath.Join(dir, "app"))
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(dir, "usr/lib/debug/.build-id", id.String()[:2])
			if err := os.MkdirAll(to, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(filepath.Join(dir, "app.debug"), filepath.Join(to, id.String()[2:]+".debug")); err != nil {
				t.Fatal(err)
			}
		}, same: true},
		{name: "stripped", flags: "-gdwarf-5", after: tool("strip --strip-all app"), lacks: "no .debug_info and .debug_line, and no debug file .build-id/"},
		{name: "debug file by link, missing", flags: "-gdwarf-5", after: tool(separate + " && rm app.debug"), lacks: "no .debug_info and .debug_line, and its debug file app.debug was not found"},
		{name: "-O3", flags: "-gdwarf-5 -O3"},
		{name: "PIE", flags: "-gdwarf-5 -fPIE -pie"},
		{name: "no PIE", flags: "-gdwarf-5 -fno-pie -no-pie"},
		{name: "shared library", flags: "-gdwarf-5 -fPIC", shared: true},
		{name: "ThinLTO", flags: "-gdwarf-5 -flto=thin -fuse-ld=lld", only: "clang-19"},
		{name: "LTO", flags: "-gdwarf-5 -flto"},
	}
	for _, c := range []variantCompiler{
		{"clang-19", "-O2 -fdebug-info-for-profiling -ffunction-sections -fuse-ld=lld", "llvm", "-fprofile-sample-use=", []string{"llvm-profdata-19", "llvm-bolt-19", "ld.lld-19"}},
		{"gcc", "-O2", "gcc", "-fauto-profile=", nil},
	} {
		t.Run(c.compiler, func(t *testing.T) {
			testtool.Need(t, append(c.tools, c.compiler, "valgrind", "objcopy", "strip", "llvm-objcopy-19", "llvm-dwp-19")...)
			if runtime.GOARCH != "amd64" || runtime.GOOS != "linux" {
				t.Skip("the program is built for x86-64, and run")
			}
			plain := ""
			for i, v := range all {
				if v.only != "" && v.only != c.compiler {
					continue
				}
				t.Run(v.name, func(t *testing.T) {
					if i > 0 { // the others are compared with the first, which is the plain build
						t.Parallel()
					}
					profile := c.profile(t, v, plain)
					switch {
					case i == 0:
						plain = profile
					case v.same && profile != plain:
						t.Errorf("the profile is not that of the plain build:\n%s\nwant\n%s", profile, plain)
					}
				})
			}
		})
	}
}

// profile builds the program, counts what it runs, makes samples of that, and returns the profile of these after the consumers took it.
func (c *variantCompiler) profile(t *testing.T, v variant, plain string) string {
	dir := t.TempDir()
	testtool.Write(t, dir, "main.c", variantsMain)
	testtool.Write(t, dir, "work.c", variantsWork)
	flags := strings.Fields("-g " + c.flags + " " + v.flags)
	cc := func(args ...string) string {
		t.Helper()
		return testtool.Run(t, dir, slices.Concat([]string{c.compiler}, args, flags)...)
	}
	cc("-c", "main.c", "-o", "main.o")
	cc("-c", "work.c", "-o", "work.o")
	files := []string{"app"}
	if v.shared {
		files = append(files, "libwork.so")
		cc("-shared", "work.o", "-o", "libwork.so", "-Wl,-q,--build-id")
		cc("main.o", "libwork.so", "-o", "app", "-Wl,-rpath,$ORIGIN", "-Wl,-q,--build-id")
	} else {
		cc("main.o", "work.o", "-o", "app", "-Wl,-q,--build-id")
	}
	counted := countVariant(t, dir, files)
	if v.after != nil {
		v.after(t, dir)
	}
	counts := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 1000000, Unit: "ns"})
	for _, name := range files {
		im := openImage(t, filepath.Join(dir, name))
		i := counts.Image(sample.ImageID{Build: im.Build, Path: im.Path})
		const executions = 40 // for a sample
		for a, n := range counted[name].Insts {
			if off, ok := im.OffsetOf(a); ok {
				counts.AddSample(i, off, n/executions)
			}
		}
	}
	rec := &sample.Recording{}
	rec.Add(counts)
	recording := testtool.Write(t, dir, "app.bfr", rec.Encode())

	profile := filepath.Join(dir, "app.prof")
	main := files[len(files)-1] // which has work
	emit := []string{"emit", c.emit, recording, "--symfs", dir, "-o", profile}
	if c.emit == "gcc" { // whose profiles are of one image
		emit = append(emit, "--image", filepath.Join(dir, main))
	}
	code, _, errs := runCLI(t, emit...)
	if v.lacks != "" {
		if code != exitNothing || !strings.Contains(errs, v.lacks) {
			t.Errorf("exit code %d, want %d and word of %s: %s", code, exitNothing, v.lacks, errs)
		}
		return ""
	}
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	c.used(t, v, dir, profile, flags, plain)
	order := must(t, "layout", filepath.Join(dir, main), recording, "--symfs", dir, "--for", "lld", "--always")
	if !regexp.MustCompile(`(?m)^work\b`).MatchString(order) { // work.constprop.0 with LTO
		t.Errorf("the order of functions lacks work:\n%s", order)
	}
	if v.after == nil && slices.Contains(c.tools, "llvm-bolt-19") {
		fdata := filepath.Join(dir, "app.fdata")
		must(t, "emit", "bolt", recording, "--image", filepath.Join(dir, main), "-o", fdata)
		said := testtool.Run(t, dir, "llvm-bolt-19", main, "-o", main+".bolt", "--data="+fdata, "--reorder-blocks=ext-tsp", "--reorder-functions=cdsort")
		m := regexp.MustCompile(`(\d+) out of \d+ functions in the binary .* have non-empty execution profile`).FindStringSubmatch(said)
		if m == nil || strings.Contains(said, "invalid (possibly stale)") {
			t.Fatalf("llvm-bolt could not use the profile:\n%s", said)
		}
		if n, _ := strconv.Atoi(m[1]); n < 3 { // work, odd and even
			t.Errorf("llvm-bolt has a profile of %d functions:\n%s", n, said)
		}
	}
	return testtool.Read(t, profile)
}

// variantCounts are what countVariant has counted, by the bytes of the files that ran: variants that differ in what describes
// their code run the same.
var variantCounts struct {
	sync.Mutex
	of map[string]map[string]*truth.Image
}

// countVariant returns what the program runs, by file.
func countVariant(t *testing.T, dir string, files []string) map[string]*truth.Image {
	run := filepath.Join(dir, "run")
	if err := os.Mkdir(run, 0o755); err != nil {
		t.Fatal(err)
	}
	ran := ""
	for _, name := range files { // valgrind 3.19 reads neither images with relocations nor DWARF 5; the build ID is of the DWARF, too
		testtool.Run(t, dir, "llvm-strip-19", "--strip-all", "--remove-section=.note.gnu.build-id", "-o", filepath.Join(run, name), name)
		ran += testtool.Read(t, run, name)
	}
	variantCounts.Lock() // so that who has the same files waits
	defer variantCounts.Unlock()
	if counted := variantCounts.of[ran]; counted != nil {
		return counted
	}
	testtool.Run(t, run, "valgrind", "-q", "--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--callgrind-out-file=counts", "./app")
	f, err := os.Open(filepath.Join(run, "counts"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	exact, err := truth.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]*truth.Image{}
	for _, name := range files {
		if counted[name] = exact.Images[filepath.Join(run, name)]; counted[name] == nil {
			t.Fatalf("there are no counts of %s", name)
		}
	}
	if variantCounts.of == nil {
		variantCounts.of = map[string]map[string]*truth.Image{}
	}
	variantCounts.of[ran] = counted
	t.Log("counted")
	return counted
}

// used holds the compiler to use the profile, for the hot functions.
func (c *variantCompiler) used(t *testing.T, v variant, dir, profile string, flags []string, plain string) {
	again := slices.Concat([]string{c.compiler}, flags, []string{c.use + profile, "-c", "work.c", "-o", "again.o"})
	if c.emit == "gcc" {
		if strings.Contains(v.flags, "-flto") {
			again = append(again, "-fno-lto")
		}
		if said := testtool.Run(t, dir, again...); said != "" {
			t.Errorf("gcc complains:\n%s", said)
		}
		if sections := testtool.Run(t, dir, "readelf", "-SW", "again.o"); !strings.Contains(sections, ".text.hot") {
			t.Errorf("gcc knows of no hot function:\n%s", sections)
		}
		return
	}
	said := testtool.Run(t, dir, append(again, "-Rpass-analysis=sample-profile")...)
	if n := strings.Count(said, "Applied"); n < 8 {
		t.Errorf("clang applied %d lines:\n%s", n, said)
	}
	if plain == "" {
		return
	}
	reference := testtool.Write(t, dir, "plain.prof", plain)
	overlap := testtool.Run(t, dir, "llvm-profdata-19", "overlap", "--sample", reference, profile)
	m := regexp.MustCompile(`Whole program profile similarity: ([0-9.]+)%`).FindStringSubmatch(overlap)
	if m == nil {
		t.Fatalf("llvm-profdata says nothing of similarity:\n%s", overlap)
	}
	least := 70.0
	if v.same {
		least = 100
	}
	if got, _ := strconv.ParseFloat(m[1], 64); got < least {
		t.Errorf("the profile is like the plain build's by %g%%, want %g%%", got, least)
	} else {
		t.Logf("like the plain build's by %g%%", got)
	}
}
