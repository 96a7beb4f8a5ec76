package optimize

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample/collect"
)

// live runs a target, with notes in the log, and returns what became of it.
func live(t *testing.T, dir, keys string) (*report.OptimizeTarget, map[string]*report.OptimizeCandidate) {
	t.Helper()
	allowShort(t)
	if !strings.Contains(keys, "calibrate: ") {
		keys = "calibrate: 0, " + keys // which takes longer
	}
	c, err := Parse([]byte("optimize: {targets: {app: {output: fast, pairs: 6, "+keys+"}}}"), dir)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Run(context.Background(), c, Options{Notify: report.Quiet{}})
	if doc == nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := doc.Text(&b, report.Style{}); err != nil {
		t.Error(err)
	}
	t.Logf("\n%s", &b)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]*report.OptimizeCandidate{}
	for i := range doc.Targets[0].Candidates {
		c := &doc.Targets[0].Candidates[i]
		by[c.Name] = c
	}
	return &doc.Targets[0], by
}

// made reports whether a candidate was made, works, and was measured.
func made(c *report.OptimizeCandidate) bool {
	return c != nil && (c.State == report.CandidateMeasured || c.State == report.CandidateKept) && c.First != nil
}

// TestClang makes all candidates of a C program by clang, lld and llvm-bolt. Which is fastest is not for a test to say; that what
// is in place is what the report has is.
func TestClang(t *testing.T) {
	testtool.Live(t, "records a program, and builds it ten times")
	testtool.Need(t, "clang-19", "ld.lld-19", "llvm-bolt-19")
	dir := t.TempDir()
	testtool.Write(t, dir, "machine.c", testtool.Read(t, "testdata/machine.c"))
	did, by := live(t, dir, `compiler: clang, build: 'clang-19 -O2 {flags} {ldflags} -o {binary} machine.c', run: '{binary} 1000000', try: [pgo, order, bolt, propeller, align, huge-pages, pgo+bolt, pgo+propeller]`)
	for name, c := range by {
		if !made(c) {
			t.Errorf("%s: %+v", name, c)
		}
	}
	if did.Recording == nil || did.Recording.Program == 0 || did.Recording.Program > did.Recording.Samples {
		t.Errorf("recorded: %+v", did.Recording)
	}
	sum, err := sumOf(filepath.Join(dir, "fast"))
	if want := did.Base.SHA256; err != nil || sum != did.SHA256 || did.Kept == "" && sum != want || did.Kept != "" && sum != by[did.Kept].SHA256 {
		t.Errorf("in place is %s, %v; report: %+v", sum, err, did)
	}
	if old := testtool.Output(t, dir, filepath.Join(dir, "fast"), "1000"); old != testtool.Output(t, dir, filepath.Join(dir, "fast"), "1000") || old == "" {
		t.Errorf("what is in place prints %q", old)
	}
	for name, want := range map[string]string{"pgo": "inlined call sites", "order": "functions", "bolt": "procedures", "propeller": "in order"} {
		if c := by[name]; made(c) && !strings.Contains(strings.Join(c.Holds, " "), want) {
			t.Errorf("%s holds %q", name, c.Holds)
		}
	}
}

// TestCalibrated: profiles are of what walks saw, where the machine has walks.
func TestCalibrated(t *testing.T) {
	testtool.Live(t, "records a program, and builds it")
	testtool.Need(t, "clang-19")
	if no := collect.Walks.Refusal(collect.ThisHost()); no != nil {
		if no := collect.LongWalks.Refusal(collect.ThisHost()); no != nil {
			t.Skip(no.Why)
		}
	}
	dir := t.TempDir()
	testtool.Write(t, dir, "machine.c", testtool.Read(t, "testdata/machine.c"))
	did, by := live(t, dir, `calibrate: 40%, compiler: clang, build: 'clang-19 -O2 {flags} {ldflags} -o {binary} machine.c', run: '{binary} 1000000', try: [pgo]`)
	if !made(by["pgo"]) {
		t.Errorf("pgo: %+v", by["pgo"])
	}
	if r := did.Recording; r == nil || r.Program == 0 || r.Walked == 0 {
		t.Errorf("recorded: %+v", r)
	}
}

// TestGCC does so with gcc and GNU ld, counts by callgrind, and then has llvm-bolt rewrite what is there, without a build. gcc reads
// counters without a warning, also where another step follows, and nothing of them stays where the build runs.
func TestGCC(t *testing.T) {
	testtool.Live(t, "records a program, and builds it")
	testtool.Need(t, "gcc", "valgrind", "llvm-bolt-19")
	dir := t.TempDir()
	testtool.Write(t, dir, "machine.c", testtool.Read(t, "testdata/machine.c"))
	testtool.Write(t, dir, "build.sh", `
case "$1" in *-ftest-coverage*) found= ;; *) found=-Werror=missing-profile ;; esac # where gcc finds no counters
gcc -O2 -Wall -Werror $1 $found -c machine.c -o machine.o && gcc $1 $2 -o "$3" machine.o && rm machine.o
`)
	did, by := live(t, dir, `compiler: gcc, build: 'sh build.sh "{flags}" "{ldflags}" {binary}', run: '{binary} 1000000', count: '{binary} 20000', try: [pgo, afdo, order, pgo+order, pgo+bolt]`)
	for name, c := range by {
		if !made(c) || c.Counts == nil || c.Counts.Instructions == 0 || c.Counts.Taken == 0 {
			t.Errorf("%s: %+v", name, c)
			continue
		}
		holds := strings.Join(c.Holds, "\n")
		if n := strings.Count(holds, ", in 1 of 1 objects, for gcc "); strings.HasPrefix(name, "pgo") != (n == 1) {
			t.Errorf("%s holds %d times what gcc's graphs are given: %q", name, n, holds)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*.gc*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	if n := did.Base.Counts; n == nil || n.Instructions < 20000*20 {
		t.Errorf("counted of the base: %+v", n)
	}
	testtool.Run(t, dir, "gcc", "-O2", "-fno-reorder-blocks-and-partition", "-Wl,--emit-relocs", "-o", "app", "machine.c")
	_, by = live(t, dir, `binary: app, run: '{binary} 1000000'`)
	if !made(by["bolt"]) {
		t.Errorf("without a build: %+v", by["bolt"])
	}
}

// TestBoltFails: where llvm-bolt fails with a function, that is left alone: it is named, or found.
func TestBoltFails(t *testing.T) {
	testtool.Live(t, "records a program, and rewrites it several times")
	testtool.Need(t, "gcc", "llvm-bolt-19")
	bin := t.TempDir()
	t.Setenv("PATH", bin+":"+os.Getenv("PATH"))
	for _, tt := range []struct{ name, fails, note string }{
		{"finds", `*rotate*) ;; *) echo "PLEASE submit a bug report: rotate" >&2; kill -SEGV $$`, "llvm-bolt left rotate"},
		{"is told", `*rotate*main*) ;; *) echo "BOLT-INFO: x" >&2
			names=rotate; case "$skip" in *rotate*) names="main(*2)" ;; esac
			echo "BOLT-ERROR: unable to get new address corresponding to input address 0x10390 in function $names. Consider adding this function to --skip-funcs=..." >&2
			exit 1`, "llvm-bolt left alone what it says that it cannot take: rotate, main"},
	} {
		dir := t.TempDir()
		testtool.Write(t, dir, "machine.c", testtool.Read(t, "testdata/machine.c"))
		testtool.Run(t, dir, "gcc", "-O2", "-fno-reorder-blocks-and-partition", "-Wl,--emit-relocs", "-o", "app", "machine.c")
		// It fails unless these are to be skipped.
		testtool.Write(t, bin, "llvm-bolt", `#!/bin/sh
skip=
for a; do case $a in -skip-funcs-file=*) skip=$(cat "${a#*=}") ;; esac; done
case "$skip" in `+tt.fails+` ;; esac
exec llvm-bolt-19 "$@"
`)
		if err := os.Chmod(filepath.Join(bin, "llvm-bolt"), 0o755); err != nil {
			t.Fatal(err)
		}
		_, by := live(t, dir, `binary: app, run: '{binary} 1000000'`)
		if c := by["bolt"]; !made(c) || !strings.Contains(strings.Join(c.Notes, "\n"), tt.note) {
			t.Errorf("%s: %+v", tt.name, c)
		}
	}
}

// TestGo builds a Go program by its profile, and counts what it executes.
func TestGo(t *testing.T) {
	testtool.Live(t, "records a program, and builds Go's runtime with its profile")
	testtool.Need(t, "go", "valgrind")
	dir := t.TempDir()
	testtool.Write(t, dir, "main.go", testtool.Read(t, "testdata/walker/main.go"))
	testtool.Write(t, dir, "go.mod", "module walker\n\ngo 1.22\n")
	did, by := live(t, dir, `compiler: go, build: 'CGO_ENABLED=0 go build {flags} -o {binary} .', run: '{binary}', count: '{binary}'`)
	if !made(by["pgo"]) || !strings.Contains(strings.Join(by["pgo"].Holds, " "), "call edges") {
		t.Errorf("%+v", did)
	}
	if n, base := by["pgo"].Counts, did.Base.Counts; n == nil || base == nil || n.Instructions >= base.Instructions {
		t.Errorf("counted %+v, and %+v of the base: %q", n, base, did.Notes)
	}
}

// TestCargo builds a Rust program by cargo, with the flags of its environment alone: its release profile strips lines, which pgo needs. The linker is
// told of its order among them, and finds the functions.
func TestCargo(t *testing.T) {
	testtool.Live(t, "records a program, and builds it by cargo")
	testtool.Need(t, "cargo", "rustc")
	dir := t.TempDir()
	testtool.Write(t, dir, "Cargo.toml", "[package]\nname = \"turn\"\nversion = \"1.0.0\"\nedition = \"2021\"\n")
	if err := os.Mkdir(filepath.Join(dir, "src"), 0o777); err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, filepath.Join(dir, "src"), "main.rs", `
#[inline(never)]
fn turn(mut x: u64, n: u64) -> u64 {
    for i in 0..n {
        x = if x & 1 == 0 { x / 2 ^ i } else { x.wrapping_mul(3).wrapping_add(i) };
    }
    x
}
fn main() {
    let mut x = 27;
    for i in 0..40 {
        x = turn(x, 1_000_000 + i);
    }
    println!("{x}");
}
`)
	did, by := live(t, dir, `compiler: rustc, try: [pgo, order, align, huge-pages, pgo+order], run: '{binary}',
		build: 'RUSTC_BOOTSTRAP=1 RUSTFLAGS="{flags}" cargo build -q --release --offline --target-dir {binary}.target && cp {binary}.target/release/turn {binary} && rm -r {binary}.target'`)
	for name, c := range by {
		if same := strings.Contains(c.Why, "the build with it made the same program"); !made(c) && (!same || !strings.HasPrefix(name, "pgo")) {
			t.Errorf("%s: %+v\n%+v", name, c, did.Recording)
		}
	}
	if c := by["order"]; made(c) && !strings.Contains(strings.Join(c.Holds, " "), "functions") {
		t.Errorf("order holds %q", c.Holds)
	}
}
