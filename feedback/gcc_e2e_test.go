package feedback

import (
	"bytes"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// gccProfile builds a program of testdata with gcc, and returns the directory with
// it and the profile of its exact counts, PROGRAM.afdo.
func gccProfile(t *testing.T, compiler, source string) (dir, src string, stats GCCStats) {
	t.Helper()
	dir = t.TempDir()
	src, err := filepath.Abs(filepath.Join("testdata", source))
	if err != nil {
		t.Fatal(err)
	}
	testtool.Run(t, dir, compiler, "-O2", "-g", "-gdwarf-4", src, "-o", "base") // valgrind 3.19 knows no DWARF 5
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
	onEach(t, func(c *processor) []string { return []string{c.gcc, c.objdump, "readelf"} }, testGCCExact)
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

// TestGCCConstructor: the profile makes gcc inline a constructor early, and know
// how often each of its blocks runs.
func TestGCCConstructor(t *testing.T) {
	onEach(t, func(c *processor) []string { return []string{c.gxx} }, testGCCConstructor)
}

func testGCCConstructor(t *testing.T, c *processor) {
	dir, src, _ := gccProfile(t, c.gxx, "box.cc")
	const inlined = "Inlining Box::Box(long int)"
	if said := testtool.Run(t, dir, c.gxx, "-O2", "-c", src, "-fopt-info-inline-optimized"); strings.Contains(said, inlined) {
		t.Skipf("gcc inlines the constructor without a profile:\n%s", said)
	}
	said := testtool.Run(t, dir, c.gxx, "-O2", "-c", src, "-fopt-info-inline-optimized", "-fauto-profile=base.afdo", "-fdump-tree-optimized-blocks-details=dump")
	if !strings.Contains(said, inlined) {
		t.Errorf("gcc does not inline the constructor:\n%s", said)
	}
	dump := testtool.Read(t, dir, "dump")
	_, work, _ := strings.Cut(dump, ";; Function work ")
	work, _, _ = strings.Cut(work, ";; Function")
	// Where gcc inlines the constructor but finds no counts for it, only the two
	// blocks of the loop around it run.
	ran := regexp.MustCompile(`basic block \d+, loop depth [12], count [1-9]\d* \(auto FDO\)`).FindAllString(work, -1)
	if len(ran) < 5 {
		t.Errorf("%d blocks of loops run: %q", len(ran), ran)
	}
}
