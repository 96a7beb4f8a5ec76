package optimize

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
)

// make.sh stands for a compiler: the program that it makes is a script that counts, as far as the flags say. Work without flags
// is 40,000 rounds, some 40 ms.
const fakeMake = `
rounds=40000 says=done
case " $1 " in *" -falign-functions=64 "*) . ./aligned ;; esac
{
	echo '#!/bin/sh'
	echo "i=0; while [ \$i -lt $rounds ]; do i=\$((i + 1)); done"
	echo "$extra"
	echo "echo $says"
} >"$2"
chmod +x "$2"
`

// A fake is a directory with a configuration and make.sh.
type fake struct {
	t      *testing.T
	dir    string
	target string // keys of the target beside the usual ones
}

// allowShort has runs count that take a few ms, as on machines to come those of tests do.
func allowShort(t *testing.T) {
	was := shortestRun
	t.Cleanup(func() { shortestRun = was })
	shortestRun = 3 * time.Millisecond
}

// newFake is one in which the builds of align are as a piece of shell says.
func newFake(t *testing.T, aligned, keys string) *fake {
	t.Helper()
	testtool.Need(t, "sh")
	allowShort(t)
	f := &fake{t, t.TempDir(), keys}
	t.Setenv("TMPDIR", t.TempDir())
	testtool.Write(t, f.dir, "make.sh", fakeMake)
	testtool.Write(t, f.dir, "aligned", aligned)
	return f
}

func (f *fake) run(ctx context.Context, opt Options) (*report.Optimize, error) {
	f.t.Helper()
	text := `optimize: {targets: {app: {compiler: gcc, build: 'sh make.sh "{flags}" {binary} # {ldflags}', run: "{binary}", try: align, pairs: 6, output: fast, ` + f.target + `}}}`
	c, err := Parse([]byte(text), f.dir)
	if err != nil {
		f.t.Fatal(err)
	}
	opt.Notify, opt.Now = report.Quiet{}, time.Unix(1e9, 0)
	return Run(ctx, c, opt)
}

// did runs, and returns what became of the target and of its candidate.
func (f *fake) did(opt Options) (report.OptimizeTarget, report.OptimizeCandidate) {
	f.t.Helper()
	doc, err := f.run(context.Background(), opt)
	if err != nil {
		f.t.Fatal(err)
	}
	f.clean()
	t := doc.Targets[0]
	if len(t.Candidates) != 1 {
		f.t.Fatalf("%+v", t)
	}
	return t, t.Candidates[0]
}

// clean sees that nothing is left below $TMPDIR.
func (f *fake) clean() {
	f.t.Helper()
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		f.t.Errorf("left behind: %v, %v", left, err)
	}
}

func (f *fake) exists(name string) bool {
	_, err := os.Stat(filepath.Join(f.dir, name))
	return err == nil
}

// TestBetter: a candidate that takes a quarter of the time is kept, in place as a program, with a report that is by the schema.
func TestBetter(t *testing.T) {
	f := newFake(t, "rounds=10000", "")
	did, c := f.did(Options{})
	if did.State != report.OptimizeBetter || did.Kept != "align" || c.State != report.CandidateKept || c.Decided == nil || c.Decided.High >= 1 || c.Decided.Pairs != 6 {
		t.Fatalf("%+v", did)
	}
	st, err := os.Stat(filepath.Join(f.dir, "fast"))
	if err != nil || st.Mode().Perm()&0o100 == 0 {
		t.Errorf("what was put in place: %v, %v", st, err)
	}
	if text := testtool.Read(t, f.dir, "fast"); !strings.Contains(text, "10000") {
		t.Errorf("in place is %s", text)
	}
	check := testtool.Schema(t, testtool.Read(t, "../../backfeed/optimize.schema.json"))
	if err := check(testtool.Read(t, f.dir, "fast.json")); err != nil {
		t.Error(err)
	}

	// The same program, the same target: nothing to do, and what was done is said again.
	again, err := f.run(context.Background(), Options{})
	if err != nil || again.Targets[0].State != report.OptimizeUnchanged || again.Targets[0].Kept != "align" || again.Old() != 0 {
		t.Errorf("again: %+v, %v", again, err)
	}
	// It is done again where what was put in place is not there any more, the target is another, or it is to be.
	if err := os.Remove(filepath.Join(f.dir, "fast")); err != nil {
		t.Fatal(err)
	}
	if did, _ := f.did(Options{}); did.State != report.OptimizeBetter || !f.exists("fast") {
		t.Errorf("without its output: %+v", did)
	}
	if did, _ := f.did(Options{Again: true}); did.State != report.OptimizeBetter {
		t.Errorf("asked to: %+v", did)
	}
	f.target = "test: 'grep -q done {binary}'"
	if did, _ := f.did(Options{}); did.State != report.OptimizeBetter || len(did.Checked) != 2 {
		t.Errorf("with a test: %+v", did)
	}
}

// TestWorse: a candidate that takes longer is not kept: the program is in place as it is built.
func TestWorse(t *testing.T) {
	f := newFake(t, "rounds=160000", "")
	did, c := f.did(Options{})
	if did.State != report.OptimizeKeptOld || did.Kept != "" || c.State != report.CandidateMeasured || c.First == nil || c.First.Median < 1 {
		t.Errorf("%+v", did)
	}
	if text := testtool.Read(t, f.dir, "fast"); !strings.Contains(text, "40000") {
		t.Errorf("in place is %s", text)
	}
	doc := &report.Optimize{Targets: []report.OptimizeTarget{did}}
	if doc.Old() != 1 {
		t.Errorf("%d programs stay", doc.Old())
	}
}

// TestWrong: what prints something else, fails, fails its test, or does not end is refused, however fast it is.
func TestWrong(t *testing.T) {
	for _, tt := range []struct{ name, aligned, keys, why string }{
		{"prints something else", "rounds=1 says=nothing", "", "run prints something else"},
		{"fails", "rounds=1 extra='echo broken >&2; exit 3'", "", "broken"},
		{"fails its test", "rounds=1 extra='# slow'", "test: '! grep slow {binary}'", "slow"},
		{"does not end", "rounds=1 extra='sleep 600'", "", "did not end"},
		{"leaves a process", "rounds=1 extra='sleep 600 &'", "", "left processes running"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, tt.aligned, tt.keys)
			if tt.name == "does not end" {
				defer func(p time.Duration) { patienceLeast = p }(patienceLeast)
				patienceLeast = time.Second
			}
			did, c := f.did(Options{})
			if did.State != report.OptimizeKeptOld || c.State != report.CandidateWrong || !strings.Contains(c.Why, tt.why) || c.First != nil {
				t.Errorf("%+v", did)
			}
			if strings.Contains(c.Why, os.TempDir()) {
				t.Errorf("it names the directory that goes: %s", c.Why)
			}
		})
	}
}

// TestSkipped: a candidate whose build fails, or makes the same program, is skipped with the reason, and the others go on.
func TestSkipped(t *testing.T) {
	for _, tt := range []struct{ name, aligned, why string }{
		{"build fails", "echo no such flag; exit 1", "no such flag"},
		{"the same program", "", "made the same program"},
		{"no program", "set -- x /dev/null", "made no file"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, tt.aligned, "")
			did, c := f.did(Options{})
			if did.State != report.OptimizeKeptOld || c.State != report.CandidateSkipped || !strings.Contains(c.Why, tt.why) {
				t.Errorf("%+v", did)
			}
		})
	}
	f := newFake(t, "rounds=1", "budget: 1ns")
	if did, c := f.did(Options{}); did.State != report.OptimizeKeptOld || !strings.Contains(c.Why, "budget") {
		t.Errorf("beyond the budget: %+v", did)
	}
}

// TestFails: where the program as it is does not work, nothing is put in place.
func TestFails(t *testing.T) {
	for _, tt := range []struct {
		name, keys, why string
		kind            fail.Kind
	}{
		{"build", "build: 'echo no compiler; exit 1; # {flags} {binary} {ldflags}'", "no compiler", fail.Other},
		{"run", "run: 'echo no input >&2; exit 1; # {binary}'", "no input", fail.Other},
		{"test", "test: 'echo not so; exit 1; # {binary}'", "fails", fail.Other},
		{"short", "run: 'true {binary}'", "have it do more", fail.Usage},
		{"prints something else", "run: '{binary} && cat /proc/sys/kernel/random/uuid'", "name a command that does, as test", fail.Usage},
		{"prints nothing", "run: '{binary} >&2'", "prints nothing to standard output", fail.Usage},
		{"leaves a process", "run: '{binary}; sleep 600 &'", "left processes", fail.Other},
		{"dir", "dir: gone", "no directory", fail.Usage},
		{"report", "report: make.sh/x", "make.sh/x: not a directory", fail.Other},
	} {
		t.Run(tt.name, func(t *testing.T) {
			key, _, _ := strings.Cut(tt.keys, ":")
			f := newFake(t, "", "")
			if tt.name == "short" {
				shortestRun = time.Hour // of a process's start, there is no knowing
			}
			text := strings.Join(slices.DeleteFunc([]string{`build: 'sh make.sh "{flags}" {binary} {ldflags}'`, `run: "{binary}"`}, func(s string) bool { return strings.HasPrefix(s, key+":") }), ", ")
			c, err := Parse([]byte(`optimize: {targets: {app: {compiler: gcc, try: align, pairs: 6, output: fast, `+text+", "+tt.keys+`}}}`), f.dir)
			if err != nil {
				t.Fatal(err)
			}
			doc, err := Run(context.Background(), c, Options{Notify: report.Quiet{}})
			if err == nil || fail.KindOf(err) != tt.kind || doc == nil || doc.Failed != 1 || !strings.Contains(doc.Targets[0].Reason, tt.why) {
				t.Errorf("%v (kind %d): %+v", err, fail.KindOf(err), doc)
			}
			if f.exists("fast") || f.exists("fast.json") {
				t.Error("something was put in place")
			}
			f.clean()
		})
	}
}

// TestTree: a build that does not say where its program goes runs in a copy, with times and links, and leaves its directory alone.
func TestTree(t *testing.T) {
	f := newFake(t, "rounds=10000", `dir: src, binary: bin/app`)
	for _, name := range []string{"make.sh", "aligned"} {
		testtool.Write(t, filepath.Join(f.dir, "src"), name, testtool.Read(t, f.dir, name))
	}
	testtool.Write(t, filepath.Join(f.dir, "src", "bin"), "app", "#!/bin/sh\necho old")
	long := time.Unix(1e9, 0)
	if err := errors.Join(os.Symlink("make.sh", filepath.Join(f.dir, "src", "link.sh")), os.Chtimes(filepath.Join(f.dir, "src", "make.sh"), long, long)); err != nil {
		t.Fatal(err)
	}
	before := tree(t, filepath.Join(f.dir, "src"))
	text := `optimize: {targets: {app: {compiler: gcc, build: 'test make.sh -ot aligned && sh link.sh "{flags}" bin/app {ldflags}', run: "{binary}", try: align, pairs: 6, output: fast, ` + f.target + `}}}`
	c, err := Parse([]byte(text), f.dir)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := Run(context.Background(), c, Options{Notify: report.Quiet{}, DryRun: true})
	if err != nil || doc.Targets[0].Kept != "align" || f.exists("fast") || f.exists("fast.json") {
		t.Fatalf("%+v, %v", doc, err)
	}
	if after := tree(t, filepath.Join(f.dir, "src")); after != before {
		t.Errorf("the directory was\n%s and is\n%s", before, after)
	}
	f.clean()
}

// tree lists a directory with what is in its files.
func tree(t *testing.T, dir string) string {
	var b strings.Builder
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if path != dir { // whose time a look at whether files can be written there changes
			b.WriteString(info.ModTime().String() + " ")
		}
		b.WriteString(info.Mode().String() + " " + path + "\n")
		if d.Type().IsRegular() {
			b.WriteString(testtool.Read(t, path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestInterrupted: wherever it is interrupted, nothing is left but the directory as it was, and what was in place before.
func TestInterrupted(t *testing.T) {
	for _, tt := range []struct{ name, aligned, keys string }{
		{"build", "sleep 600", ""},
		{"run", "extra='sleep 600 & sleep 600'", ""},
		{"test", "", "test: 'sleep 600 # {binary}'"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := newFake(t, tt.aligned, tt.keys)
			testtool.Write(t, f.dir, "fast", "what was there")
			before := tree(t, f.dir)
			ctx, stop := context.WithTimeout(context.Background(), time.Second)
			defer stop()
			start := time.Now()
			if doc, err := f.run(ctx, Options{}); !errors.Is(err, context.DeadlineExceeded) || doc != nil {
				t.Errorf("%+v, %v", doc, err)
			}
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("it took %v", took)
			}
			if after := tree(t, f.dir); after != before {
				t.Errorf("the directory was\n%s and is\n%s", before, after)
			}
			f.clean()
		})
	}
}

// TestSweep: what a run that was killed has left goes with the next run; what another holds stays.
func TestSweep(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	held, done, err := newWork()
	if err != nil {
		t.Fatal(err)
	}
	left := filepath.Join(os.TempDir(), workPrefix+"1")
	testtool.Write(t, left, "sub/file", "x")
	long := time.Now().Add(-time.Hour)
	if err := errors.Join(os.Chmod(filepath.Join(left, "sub"), 0o500), os.Chtimes(left, long, long), os.Chtimes(held, long, long)); err != nil {
		t.Fatal(err)
	}
	fresh := filepath.Join(os.TempDir(), workPrefix+"2")
	testtool.Write(t, fresh, "file", "x")
	sweep()
	for path, want := range map[string]bool{left: false, held: true, fresh: true} {
		if _, err := os.Stat(path); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", path, err, want)
		}
	}
	done()
	if _, err := os.Stat(held); err == nil {
		t.Error("what was held is left")
	}
}

// TestIdle: what this process starts once it is idle is idle too.
func TestIdle(t *testing.T) {
	if os.Getenv("BACKFEED_TEST_IDLE") != "" {
		if err := Idle(); err != nil {
			t.Fatal(err)
		}
		out := filepath.Join(t.TempDir(), "out")
		// The 41st field of stat is the policy, of which 5 is SCHED_IDLE, the 19th how nice it is.
		if _, err := (command{what: "run", text: "cat /proc/self/stat", stdout: out}).run(context.Background()); err != nil {
			t.Fatal(err)
		}
		fields := strings.Fields(testtool.Read(t, out))
		if len(fields) < 41 || fields[18] != "19" || fields[40] != "5" {
			t.Errorf("a command has %q", fields)
		}
		return
	}
	testtool.Need(t, "cat")
	if runtime.GOOS != "linux" {
		t.Skip("of Linux")
	}
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestIdle$", "-test.v")
	cmd.Env = append(os.Environ(), "BACKFEED_TEST_IDLE=1")
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "PASS") {
		t.Errorf("%v: %s", err, out)
	}
}

// TestParts: a jump to the cold part of the same function is none to another.
func TestParts(t *testing.T) {
	for name, want := range map[string]string{"f": "f", "f.cold": "f", "f.cold.1": "f", "f.__part.2": "f", "f.isra.0.cold": "f.isra.0", ".cold": ".cold"} {
		if got := whole(name); got != want {
			t.Errorf("%s is part of %s, want %s", name, got, want)
		}
	}
}

// TestCulprits: the functions that llvm-bolt fails with are found among many, within the bound.
func TestCulprits(t *testing.T) {
	var funcs []string
	for c := 'a'; c <= 'z'; c++ {
		funcs = append(funcs, string(c), string(c)+string(c))
	}
	for _, tt := range []struct {
		bad  string
		want bool
	}{{"a", true}, {"zz", true}, {"q", true}, {"c m", true}, {"a b zz", true}, {"a b c d", false}, {"none of them", false}} {
		runs := 0
		skip, ok := culprits(funcs, mostSkipped, func(skip []string) error {
			if runs++; runs > mostBolts {
				return errTooMany
			}
			for bad := range strings.FieldsSeq(tt.bad) {
				if !slices.Contains(skip, bad) {
					return errors.New("it fails")
				}
			}
			return nil
		})
		slices.Sort(skip)
		if ok != tt.want || ok && strings.Join(skip, " ") != tt.bad {
			t.Errorf("of %s: %v, %v, after %d runs", tt.bad, skip, ok, runs)
		}
	}
}

// TestAlternate: each program runs as often, in every second round in reverse, and what drifts cancels out.
func TestAlternate(t *testing.T) {
	var order []int
	clock := 100 * time.Millisecond
	times, err := Alternate(3, 4, func(program, round int) (time.Duration, error) {
		order = append(order, program)
		clock += time.Millisecond // the machine slows down
		return clock, nil
	})
	if err != nil || !slices.Equal(order, []int{0, 1, 2, 2, 1, 0, 0, 1, 2, 2, 1, 0}) {
		t.Errorf("%v, %v", order, err)
	}
	if c := times.Against(2); c.Pairs != 4 || c.Median < 0.995 || c.Median > 1.005 {
		t.Errorf("of equal programs: %+v", c)
	}
	if noise, ok := times.Noise(); !ok || noise.Pairs != 1 {
		t.Errorf("noise: %+v, %v", noise, ok)
	}
	broken := errors.New("broken")
	if _, err := Alternate(2, 2, func(program, round int) (time.Duration, error) { return 0, broken }); err != broken {
		t.Error(err)
	}
}

// TestRustcLines: a rustc that calls the flag for lines otherwise is asked by its own name for it, and so are the builds that follow.
func TestRustcLines(t *testing.T) {
	testtool.Need(t, "sh")
	dir := t.TempDir()
	testtool.Write(t, dir, "make.sh", "case \"$1\" in *-Zdebug-info-*) echo 'error: unknown unstable option: `debug-info-for-profiling`' >&2; exit 1 ;; esac\necho \"$1\" >\"$2\"\n")
	j := &job{Target: &Target{Name: "app", Compiler: "rustc", Build: `sh make.sh "{flags}" {binary}`, Output: "fast"}, dir: dir, work: t.TempDir()}
	f := j.sampledFlags(Candidate{"pgo"})
	if !strings.Contains(f.compile, "-Zdebug-info-for-profiling") || !strings.Contains(f.compile, "-Cstrip=none") {
		t.Fatalf("flags %q", f.compile)
	}
	s, err := j.build(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Replace(f.compile, "-Zdebug-info-for", "-Zdebuginfo-for", 1)
	if got := testtool.Read(t, s.binary); strings.TrimSpace(got) != want || s.flags.compile != want {
		t.Errorf("built with %q, and kept %q; want %q", got, s.flags.compile, want)
	}
	testtool.Write(t, dir, "make.sh", "echo 'error: something else' >&2; exit 1")
	if _, err := j.build(t.Context(), f); err == nil {
		t.Error("a build that fails otherwise is no error")
	}
}

// TestRepeated: a run is repeated as often as is said, whatever shell it is, and not after it failed.
func TestRepeated(t *testing.T) {
	for _, tt := range []struct {
		run   string
		times int
		want  string
		fails bool
	}{
		{"echo a; n=7", 1, "a\n", false},
		{"echo a; n=7", 3, "a\na\na\n", false},
		{"cat <<E\na\nE", 2, "a\na\n", false},
		{"echo a # and a comment", 2, "a\na\n", false},
		{"echo a; exit 3", 2, "a\n", true},
		{"echo a; false", 2, "a\n", true},
	} {
		out, err := exec.Command("/bin/sh", "-c", repeated(tt.run, tt.times)).Output()
		if string(out) != tt.want || (err != nil) != tt.fails {
			t.Errorf("%q, %d times: %q, %v; want %q", tt.run, tt.times, out, err, tt.want)
		}
	}
}
