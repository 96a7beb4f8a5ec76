package feedback

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// gccProfile builds a program of testdata with gcc, by these flags besides, and returns the directory with
// it and the profile of its exact counts, PROGRAM.afdo.
func gccProfile(t *testing.T, compiler, source string, flags ...string) (dir, src string, stats GCCStats) {
	t.Helper()
	dir = t.TempDir()
	src, err := filepath.Abs(filepath.Join("testdata", source))
	if err != nil {
		t.Fatal(err)
	}
	testtool.Run(t, dir, append([]string{compiler, "-O2", "-g", "-gdwarf-4", src, "-o", "base"}, flags...)...) // valgrind 3.19 knows no DWARF 5
	p, rec := exact(t, dir, "base")
	var out bytes.Buffer
	if stats, err = WriteGCC(&out, p, rec, GCCOptions{}); err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", stats)
	testtool.Write(t, dir, "base.afdo", out.String())
	return dir, src, stats
}

// TestGCCExact: gcc takes a profile of exact counts without complaint, promotes the
// indirect call to its most frequent target, and tells hot functions from others.
func TestGCCExact(t *testing.T) {
	onGCC(t, func(c *processor) []string { return []string{c.gcc, c.objdump, "readelf"} }, testGCCExact)
}

// onGCC runs a test on each processor, and with each newer gcc that is here, by its name.
func onGCC(t *testing.T, tools func(*processor) []string, test func(*testing.T, *processor)) {
	onEach(t, tools, test)
	for _, version := range []string{"-13", "-14", "-15", "-16"} {
		c := processors[0]
		if c.gcc, c.gxx = c.gcc+version, c.gxx+version; !testtool.Has(c.gcc) || !testtool.Has(c.gxx) {
			continue
		}
		t.Run(c.gcc, func(t *testing.T) {
			t.Parallel()
			testtool.Need(t, append(tools(&c), "valgrind")...)
			test(t, &c)
		})
	}
}

func testGCCExact(t *testing.T, c *processor) {
	dir, src, stats := gccProfile(t, c.gcc, "shop.c")
	if stats.Inlined == 0 || stats.Targets == 0 {
		t.Errorf("%d inlined calls and %d targets of indirect ones, want some", stats.Inlined, stats.Targets)
	}
	if said := testtool.Run(t, dir, c.gcc, "-O2", src, "-o", "again", "-save-temps=obj", "-fauto-profile=base.afdo"); said != "" {
		t.Errorf("gcc complains:\n%s", said)
	}
	const object = "again-shop.o"
	for _, section := range []string{".text.hot", ".text.unlikely"} {
		if sections := testtool.Run(t, dir, "readelf", "-SW", object); !strings.Contains(sections, section) {
			t.Errorf("no %s:\n%s", section, sections)
		}
	}
	if code := testtool.Run(t, dir, c.objdump, "-dr", "--disassemble=total", object); !strings.Contains(code, "both") {
		t.Errorf("the indirect call has no direct one to its most frequent target beside it:\n%s", code)
	}
	if got, want := c.run(t, dir, "again"), c.run(t, dir, "base"); got != want {
		t.Errorf("the program prints %q, want %q", got, want)
	}
}

// TestGCCConstructor: the profile makes gcc inline a constructor early (gcc 16, later), and know
// how often each of its blocks runs.
func TestGCCConstructor(t *testing.T) {
	onGCC(t, func(c *processor) []string { return []string{c.gxx} }, testGCCConstructor)
}

func testGCCConstructor(t *testing.T, c *processor) {
	dir, src, stats := gccProfile(t, c.gxx, "box.cc")
	const inlined = "Inlining Box::Box(long int)"
	if said := testtool.Run(t, dir, c.gxx, "-O2", "-c", src, "-fopt-info-inline-optimized"); strings.Contains(said, inlined) {
		t.Skipf("gcc inlines the constructor without a profile:\n%s", said)
	}
	said := testtool.Run(t, dir, c.gxx, "-O2", "-c", src, "-fopt-info-inline-optimized", "-fauto-profile=base.afdo", "-fdump-tree-optimized-blocks-details=dump")
	if !strings.Contains(said, inlined) && !(stats.Version >= 16 && strings.Contains(said, "Inlined Box::Box(long int)")) {
		t.Errorf("gcc does not inline the constructor:\n%s", said)
	}
	dump := testtool.Read(t, dir, "dump")
	_, work, _ := strings.Cut(dump, ";; Function work ")
	work, _, _ = strings.Cut(work, ";; Function")
	// Where gcc inlines the constructor but finds no counts for it, only the two
	// blocks of the loop around it run.
	ran := regexp.MustCompile(`basic block \d+, loop depth [12], count [1-9]\d* \(auto FDO\b`).FindAllString(work, -1)
	if len(ran) < 5 {
		t.Errorf("%d blocks of loops run: %q", len(ran), ran)
	}
}

// TestGCCCopies: a loop of which gcc makes several, each of which does the work of several turns, has in the profile as many turns as
// in the source. That is what gcc says of copies since 16.
func TestGCCCopies(t *testing.T) {
	const gcc = "gcc-16"
	testtool.Need(t, gcc, "valgrind")
	dir, _, _ := gccProfile(t, gcc, "turns.c", "-O3")
	_, funcs, err := decodeAFDO([]byte(testtool.Read(t, dir, "base.afdo")))
	if err != nil {
		t.Fatal(err)
	}
	turns := funcs["turns"]
	if turns == nil {
		t.Fatalf("functions %v, want turns", funcs)
	}
	// 50 calls of 1003 turns. Of one or two of each call, gcc may find that they are like others.
	if got := brief(turns); turns.body[spot{offset: 2}] < 49_000 || turns.body[spot{offset: 2}] > 51_000 {
		t.Errorf("turns: %s, want 50150 executions of line 2", got)
	}
}
