package refresh

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/fetch"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/report"
	"backfeed/feedback/gate"
	"backfeed/infer/image"
	"backfeed/infer/stale"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/testdata/sets"
)

const mix = "../../../testdata/mix"

// noLimits has no flags: targets of these tests have usual limits.
func noLimits() (*flagset.Set, *gate.Limits) {
	lim := gate.Usual
	fs := flagset.New("check")
	fs.Uint64Var(&lim.MinSamples, "min-samples", lim.MinSamples, "")
	return fs, &lim
}

// A repo is a directory with a configuration, the program mix and its recording.
type repo struct {
	t   *testing.T
	dir string
}

func newRepo(t *testing.T, config string) *repo {
	t.Helper()
	r := &repo{t, t.TempDir()}
	for _, name := range []string{"mix", "samples.bfr"} {
		r.put(name, testtool.Read(t, filepath.Join(mix, name)))
	}
	r.put("backfeed.yaml", config)
	return r
}

func (r *repo) put(name, text string) {
	r.t.Helper()
	path := filepath.Join(r.dir, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o777); err != nil {
		r.t.Fatal(err)
	}
}

func (r *repo) run(opt Options) (*report.Refresh, error) {
	r.t.Helper()
	return run1(r.dir, opt)
}

func run1(dir string, opt Options) (*report.Refresh, error) {
	text, err := os.ReadFile(filepath.Join(dir, "backfeed.yaml"))
	if err != nil {
		return nil, err
	}
	c, err := Parse(text, dir, noLimits)
	if err != nil {
		return nil, err
	}
	opt.Now, opt.Tool = time.Unix(1e9, 0), "test"
	if opt.Notify == nil {
		opt.Notify = report.Quiet{}
	}
	return Run(context.Background(), c, opt)
}

// mustRun runs, and wants each target in that state.
func (r *repo) mustRun(state string) *report.Refresh {
	r.t.Helper()
	doc, err := r.run(Options{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, t := range doc.Targets {
		if t.State != state {
			r.t.Fatalf("%s is %s, want %s: %+v", t.Name, t.State, state, t.Outputs)
		}
	}
	return doc
}

// files are the names and contents of all files but the sources.
func (r *repo) files() map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(r.dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, _ := filepath.Rel(r.dir, path)
		if !slices.Contains([]string{"mix", "samples.bfr", "backfeed.yaml"}, rel) {
			all[rel] = testtool.Read(r.t, path)
		}
		return nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
	return all
}

func (r *repo) wantFiles(want map[string]string) {
	r.t.Helper()
	got := r.files()
	for name := range got {
		if got[name] != want[name] {
			r.t.Errorf("%s is another file now, or new", name)
		}
	}
	for name := range want {
		if _, ok := got[name]; !ok {
			r.t.Errorf("%s is gone", name)
		}
	}
}

const all = `
refresh:
  targets:
    mix:
      sources: "sam*.bfr"
      image: mix
      outputs:
        - llvm: mix.prof
        - bolt: out/mix.fdata
        - {layout: mix.order, for: lld}
        - gcc: "out/mix.{hash}.afdo"
`

// names returns the keys of files, sorted.
func fileNames(files map[string]string) []string {
	var all []string
	for name := range files {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// TestAgain: equal input changes nothing, also where the files are new; each has an entry in the lock with its sum.
func TestAgain(t *testing.T) {
	t.Parallel()
	r := newRepo(t, all)
	doc := r.mustRun(report.RefreshChanged)
	first := r.files()
	if len(first) != 5 {
		t.Fatalf("wrote %q", fileNames(first))
	}
	for _, o := range doc.Targets[0].Outputs {
		if o.State != report.RefreshNew {
			t.Errorf("%s is %s", o.Path, o.State)
		}
	}
	lock, err := ParseLock([]byte(first["backfeed.lock"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range lock.Outputs {
		name := k.Path
		if strings.Contains(name, Hash) {
			name = filepath.Join(filepath.Dir(name), k.Name)
		}
		if text := first[name]; sumOf([]byte(text)) != k.SHA256 || int64(len(text)) != k.Bytes {
			t.Errorf("%s: %d bytes, not those of the lock", name, len(text))
		}
		if k.Samples == 0 || len(k.Builds) != 1 || k.Image == "" || k.Tool != "test" || (k.Format != "llvm") != (k.Hot != nil) {
			t.Errorf("the lock has %+v", k)
		}
	}
	if err := testtool.Schema(t, string(lockJSONSchema))(first["backfeed.lock"]); err != nil {
		t.Error(err)
	}
	if err := testtool.Schema(t, testtool.Read(t, "../../backfeed/refresh.schema.json"))(asJSON(t, doc)); err != nil {
		t.Error(err)
	}
	r.mustRun(report.RefreshUnchanged)
	r.wantFiles(first)

	// Whoever has no lock, or an older file in place of one, gets the same.
	if err := os.Remove(filepath.Join(r.dir, "backfeed.lock")); err != nil {
		t.Fatal(err)
	}
	r.put("mix.order", "main\n")
	doc, err = r.run(Options{})
	if err != nil {
		t.Fatal(err)
	}
	got := r.files()
	if got["backfeed.lock"] != first["backfeed.lock"] || got["mix.order"] != first["mix.order"] {
		t.Errorf("without a lock: %+v", doc.Targets[0].Outputs)
	}
}

// resampled returns the recording of mix with other samples of the same distribution, each procedure weighed.
func resampled(t *testing.T, seed uint64, total float64, weigh func(off sample.Offset) float64) string {
	t.Helper()
	rec, err := sample.Decode([]byte(testtool.Read(t, filepath.Join(mix, "samples.bfr"))))
	if err != nil {
		t.Fatal(err)
	}
	return string(sets.Resampled(rec, seed, total, weigh).Encode())
}

func asJSON(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func plain(sample.Offset) float64 { return 1 }

// TestUnchangedWorkload: thirty recordings of one workload, each with samples of its own, leave the files of the first
// alone; so do the builds that are cached by them.
func TestUnchangedWorkload(t *testing.T) {
	t.Parallel()
	for _, samples := range []float64{3000, 30000} {
		r := newRepo(t, all)
		r.put("samples.bfr", resampled(t, 0, samples, plain))
		r.mustRun(report.RefreshChanged)
		first := r.files()
		changed := 0
		for seed := range uint64(30) {
			r.put("samples.bfr", resampled(t, seed+1, samples, plain))
			doc, err := r.run(Options{DryRun: true})
			if err != nil {
				t.Fatal(err)
			}
			if changed += doc.Changed; doc.Changed > 0 {
				t.Errorf("%.0f samples, recording %d: %+v", samples, seed, doc.Targets[0].Outputs)
			}
		}
		t.Logf("%.0f samples: %d of 30 recordings of the same workload changed files", samples, changed)
		r.wantFiles(first)
	}
}

// hotter makes a part of the code of mix run more often.
func hotter(from, to sample.Offset, by float64) func(sample.Offset) float64 {
	return func(off sample.Offset) float64 {
		if off >= from && off < to {
			return by
		}
		return 1
	}
}

// procAt returns where the code of a procedure of mix lies in the file.
func procAt(t *testing.T, name string) (from, to sample.Offset) {
	t.Helper()
	im, err := image.Open(filepath.Join(mix, "mix"), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	s := im.Symbols()[im.Lookup(name)]
	off, ok := im.OffsetOf(s.Addr)
	if !ok {
		t.Fatalf("%s is not in the file", name)
	}
	return off, off + sample.Offset(s.Size)
}

// TestPlanted: a procedure that hardly ran and runs now is seen in each format; the report says which.
func TestPlanted(t *testing.T) {
	t.Parallel()
	from, to := procAt(t, "ackermann")
	r := newRepo(t, all)
	r.put("samples.bfr", resampled(t, 1, 20000, hotter(from, to, 0.001)))
	r.mustRun(report.RefreshChanged)
	before := r.files()
	r.put("samples.bfr", resampled(t, 2, 20000, hotter(from, to, 8)))
	doc := r.mustRun(report.RefreshChanged)
	after := r.files()
	for _, o := range doc.Targets[0].Outputs {
		if o.State != report.RefreshChanged || o.Changes == nil || o.Changes.Clear == 0 {
			t.Errorf("%s is %s: %s", o.Path, o.State, o.Why)
		}
	}
	if before["mix.prof"] == after["mix.prof"] || len(before) != len(after) {
		t.Errorf("files are now %q", fileNames(after))
	}
	var text bytes.Buffer
	if err := doc.Text(&text, report.Style{Markdown: true}); err != nil || !strings.Contains(text.String(), "ackermann") {
		t.Errorf("%v: %s", err, &text)
	}
	testtool.Golden(t, "testdata/planted.md", text.Bytes())
	r.mustRun(report.RefreshUnchanged)
}

// TestFailures: what fails leaves all files of its target alone, and the others go on. The error has the kind of the worst.
func TestFailures(t *testing.T) {
	t.Parallel()
	r := newRepo(t, `
refresh:
  targets:
    gone: {sources: nothing.bfr, image: mix, outputs: [llvm: a.prof]}
    thin: {sources: samples.bfr, image: mix, limits: {min-samples: 1000000}, outputs: [llvm: b.prof]}
    half: {sources: samples.bfr, image: mix, outputs: [llvm: c.prof, go: c.pgo]}
    good: {sources: [samples.bfr, samples.bfr@0.5], image: mix, outputs: [llvm: d.prof]}
    other: {sources: samples.bfr, image: backfeed.yaml, outputs: [llvm: e.prof]}
    broken: {sources: [samples.bfr, backfeed.yaml], failure-mode: all, image: mix, outputs: [llvm: f.prof]}
    aged: {sources: samples.bfr, half-life: 2d, image: mix, outputs: [llvm: g.prof]}
    moved: {sources: samples.bfr, image: mix, builds: [elsewhere], outputs: [llvm: h.prof]}
`)
	r.put("b.prof", "as it was\n")
	doc, err := r.run(Options{})
	if fail.KindOf(err) != fail.Other {
		t.Errorf("kind %d: %v", fail.KindOf(err), err)
	}
	want := map[string]string{"gone": "no such file", "thin": "at least 1000000", "half": "c.pgo", "other": "backfeed.yaml", "aged": "no source is one", "moved": "builds: " + filepath.Join(r.dir, "elsewhere") + ": no such", "good": "", "broken": ""}
	for _, t1 := range doc.Targets {
		if (t1.State == report.RefreshFailed) != (want[t1.Name] != "") || !strings.Contains(t1.Reason, want[t1.Name]) {
			t.Errorf("%s is %s: %s", t1.Name, t1.State, t1.Reason)
		}
	}
	got := r.files()
	if names := fileNames(got); !slices.Equal(names, []string{"b.prof", "backfeed.lock", "d.prof", "f.prof"}) || got["b.prof"] != "as it was\n" {
		t.Errorf("files are now %q", names)
	}
	for name, kind := range map[string]fail.Kind{"thin": fail.Gate, "half": fail.Nothing, "good": fail.Other} {
		_, err := r.run(Options{Targets: []string{name}, DryRun: true})
		if (err == nil) != (name == "good") || fail.KindOf(err) != kind {
			t.Errorf("%s alone: kind %d, %v", name, fail.KindOf(err), err)
		}
	}
	if _, err := r.run(Options{Targets: []string{"nobody"}}); fail.KindOf(err) != fail.Usage {
		t.Errorf("a target that is not there: %v", err)
	}
}

// TestTwoAtOnce: runs at the same time come to the same files.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	r := newRepo(t, all)
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			if _, err := r.run(Options{}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	first := r.files()
	r.mustRun(report.RefreshUnchanged)
	r.wantFiles(first)
}

// killAt is the variable that has a run of this test binary die at one of its steps.
const killAt = "BACKFEED_TEST_KILL"

// TestKilled: a run that is killed, at each step, leaves whole files, and the next one makes good what is not.
func TestKilled(t *testing.T) {
	if dir, at, ok := strings.Cut(os.Getenv(killAt), ":"); ok {
		n := 0
		step = func() {
			if n++; fmt.Sprint(n) == at {
				p, _ := os.FindProcess(os.Getpid())
				p.Kill()
				select {}
			}
		}
		if _, err := run1(dir, Options{}); err != nil {
			t.Fatal(err)
		}
		return
	}
	testtool.Live(t, "kills a run at each step")
	t.Parallel()
	want := newRepo(t, all)
	want.put("samples.bfr", resampled(t, 2, 20000, plain))
	want.mustRun(report.RefreshChanged)
	for n := 1; ; n++ {
		r := newRepo(t, all)
		r.put("mix.prof", "an old one\n")
		r.put("samples.bfr", resampled(t, 2, 20000, plain))
		cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
		cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%s:%d", killAt, r.dir, n))
		out, err := cmd.CombinedOutput()
		for name, text := range r.files() {
			if w := want.files()[name]; !strings.HasSuffix(name, ".tmp") && text != w && text != "an old one\n" {
				t.Errorf("killed at step %d: %s is neither old nor new", n, name)
			}
		}
		if err == nil {
			if n < 8 {
				t.Fatalf("only %d steps: %s", n-1, out)
			}
			t.Logf("killed at %d steps", n-1)
			return
		}
		if _, err := r.run(Options{}); err != nil {
			t.Fatal(err)
		}
		r.wantFiles(want.files())
	}
}

// TestPin: profiles of mode pin lie in a store, and fetch brings those that the lock means, whole, from there, from a server
// or from the cache.
func TestPin(t *testing.T) {
	t.Parallel()
	r := newRepo(t, "refresh: {targets: {mix: {sources: samples.bfr, image: mix, mode: pin, store: shelf, outputs: [llvm: p/mix.prof]}}}")
	r.mustRun(report.RefreshChanged)
	files := fileNames(r.files())
	if len(files) != 2 || files[0] != "backfeed.lock" || !strings.HasPrefix(files[1], "shelf/mix-") {
		t.Fatalf("files are now %q", files)
	}
	r.mustRun(report.RefreshUnchanged)
	lock, profile := filepath.Join(r.dir, "backfeed.lock"), filepath.Join(r.dir, "p/mix.prof")
	shelf := filepath.Join(r.dir, files[1])
	text := testtool.Read(t, shelf)
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Join(r.dir, "shelf"))))
	defer server.Close()
	cache := t.TempDir()
	opt := FetchOptions{Notify: report.Quiet{}, Get: fetch.Fetcher{Tries: 1}}
	bring := func(name string, opt FetchOptions, want string) {
		t.Helper()
		os.RemoveAll(filepath.Dir(profile))
		err := Fetch(context.Background(), lock, opt)
		b, _ := os.ReadFile(profile)
		if want == "" && (err != nil || string(b) != text) || want != "" && (err == nil || !strings.Contains(err.Error(), want) || b != nil) {
			t.Errorf("%s: %v, %d bytes", name, err, len(b))
		}
	}
	bring("from the store", opt, "")
	opt.Cache, opt.Store = cache, server.URL
	bring("from a server", opt, "")
	server.Close()
	bring("from the cache", opt, "")
	opt.Offline, opt.Cache = true, t.TempDir()
	bring("offline without a cache", opt, "not in the cache")
	r.put(files[1], text+"x")
	bring("another file", FetchOptions{Notify: report.Quiet{}}, "the lock wants")
	os.Remove(shelf)
	bring("no file", FetchOptions{Notify: report.Quiet{}}, "no such file")
	bring("no output", FetchOptions{Notify: report.Quiet{}, Paths: []string{"q"}}, "no such output")
}

// TestPending: of what a branch proposes, a run makes the same files again as long as the build would decide by them as by its
// own; it makes others where it would not, and those of here where these may stay.
func TestPending(t *testing.T) {
	t.Parallel()
	from, to := procAt(t, "ackermann")
	cold, hot := hotter(from, to, 0.001), hotter(from, to, 8)
	from2, to2 := procAt(t, "gcd_sum.constprop.0")
	other := func(off sample.Offset) float64 { return hot(off) * hotter(from2, to2, 0.0001)(off) }
	r := newRepo(t, all)
	refresh := func(seed uint64, weigh func(sample.Offset) float64, pending map[string]string) map[string]string {
		t.Helper()
		r.put("samples.bfr", resampled(t, seed, 20000, weigh))
		files := map[string][]byte{}
		for name, text := range pending {
			files[name] = []byte(text)
		}
		if pending == nil {
			files = nil
		}
		if _, err := r.run(Options{Pending: files}); err != nil {
			t.Fatal(err)
		}
		return r.files()
	}
	base := refresh(1, cold, nil)
	checkout := func() {
		for name := range r.files() {
			os.Remove(filepath.Join(r.dir, name))
		}
		for name, text := range base {
			r.put(name, text)
		}
	}
	proposed := refresh(2, hot, nil)
	for i, tt := range []struct {
		name  string
		weigh func(sample.Offset) float64
		want  map[string]string // nil is neither
	}{
		{"the same workload", hot, proposed},
		{"as before", cold, base},
		{"another one", other, nil},
	} {
		checkout()
		got := refresh(uint64(10+i), tt.weigh, proposed)
		switch {
		case tt.want != nil && !maps.Equal(got, tt.want):
			t.Errorf("%s: other files than those wanted", tt.name)
		case tt.want == nil && (got["mix.prof"] == base["mix.prof"] || got["mix.prof"] == proposed["mix.prof"]):
			t.Errorf("%s: mix.prof stays", tt.name)
		}
	}
}

// TestTwoImages: a target of two programs, or of builds for two processors, is one merge: each output is about its own image, judged by
// its own samples.
func TestTwoImages(t *testing.T) {
	t.Parallel()
	r := newRepo(t, `
refresh:
  targets:
    both:
      sources: ["samples.bfr", "other.bfr"]
      image: mix
      outputs: [{llvm: a.prof}, {llvm: b.prof, image: other}, {bolt: b.fdata, image: other}]
`)
	im, err := image.Open(filepath.Join(mix, "mix"), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	own := string(im.Build[:20]) // of gcc's build, a SHA-1
	program := testtool.Read(t, filepath.Join(mix, "mix"))
	if strings.Count(program, own) != 1 {
		t.Fatalf("the build ID is %d times in the program", strings.Count(program, own))
	}
	r.put("other", strings.Replace(program, own, "another build: no. 2", 1))
	rec, err := sample.Decode([]byte(resampled(t, 3, 5000, plain)))
	if err != nil {
		t.Fatal(err)
	}
	if other, err := image.ReadBuildID(filepath.Join(r.dir, "other")); err != nil {
		t.Fatal(err)
	} else {
		rec.Counts[0].Images[0].ID = sample.ImageID{Path: "/opt/other", Build: other}
	}
	r.put("other.bfr", string(rec.Encode()))
	doc := r.mustRun(report.RefreshChanged)
	var samples []uint64
	lock, err := ReadLock(filepath.Join(r.dir, "backfeed.lock"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range lock.Outputs {
		samples = append(samples, k.Samples)
		if len(k.Builds) != 1 || k.Builds[0].ID != k.Image {
			t.Errorf("%s is of builds %+v", k.Path, k.Builds)
		}
	}
	if len(samples) != 3 || samples[0] < 30000 || samples[1] > 6000 || samples[1] != samples[2] || doc.Targets[0].Samples < 35000 {
		t.Errorf("outputs are of %d samples, the target of %d", samples, doc.Targets[0].Samples)
	}
	if r.files()["a.prof"] == r.files()["b.prof"] {
		t.Error("both programs have one profile")
	}
	r.mustRun(report.RefreshUnchanged)
}

// TestSlowShift: a load that shifts slowly, too little at a time for two recordings to tell, is followed in some steps: what is
// there never falls far behind, as each recording is held against the file and not against the recording before.
func TestSlowShift(t *testing.T) {
	t.Parallel()
	from, to := procAt(t, "gcd_sum.constprop.0")
	r := newRepo(t, all)
	r.put("samples.bfr", resampled(t, 0, 20000, plain))
	r.mustRun(report.RefreshChanged)
	changed, weight := 0, 1.0
	for step := range uint64(20) {
		weight *= 0.6
		r.put("samples.bfr", resampled(t, step+1, 20000, hotter(from, to, weight)))
		doc, err := r.run(Options{})
		if err != nil {
			t.Fatal(err)
		}
		changed += doc.Changed
	}
	lock, err := ReadLock(filepath.Join(r.dir, "backfeed.lock"))
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d of 20 refreshes changed files while one procedure went from a tenth to nothing", changed)
	if hot := lock.Find("mix.order").Hot["gcd_sum.constprop.0"]; changed == 0 || changed > 10 || hot > 0.01 {
		t.Errorf("%d changes; the order has it at %g", changed, hot)
	}
}

// TestBolted: samples of a build that llvm-bolt has rewritten make no profile for it, and one for compilers.
func TestBolted(t *testing.T) {
	t.Parallel()
	testtool.Need(t, "llvm-bolt-19")
	r := newRepo(t, `
refresh:
  targets:
    mix: {sources: b.bfr, image: mix, builds: builds, limits: {min-samples: 1}, outputs: [bolt: mix.fdata]}
    prof: {sources: b.bfr, image: mix, builds: builds, limits: {min-samples: 1}, outputs: [llvm: mix.prof]}
`)
	r.put("builds/mix", "")
	testtool.Run(t, r.dir, "llvm-bolt-19", "mix", "-o", "builds/mix", "-reorder-blocks=none")
	build, err := image.ReadBuildID(filepath.Join(r.dir, "builds/mix"))
	if err != nil {
		t.Fatal(err)
	}
	im, err := image.Open(filepath.Join(r.dir, "builds/mix"), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	rec := &sample.Recording{}
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Period: 1000000, Unit: "ns"})
	for _, name := range []string{"lookup", "tokenize.constprop.0"} {
		off, ok := im.OffsetOf(im.Symbols()[im.Lookup(name)].Addr)
		if !ok {
			t.Fatalf("%s has no place", name)
		}
		c.AddSample(c.Image(sample.ImageID{Path: "/opt/mix/mix", Build: build}), off, 5000)
	}
	rec.Add(c)
	r.put("b.bfr", string(rec.Encode()))
	doc, err := r.run(Options{})
	if doc == nil {
		t.Fatal(err)
	}
	for _, target := range doc.Targets {
		if refused := strings.Contains(target.Reason, "llvm-bolt has rewritten"); refused != (target.Name == "mix") {
			t.Errorf("%s is %s: %s", target.Name, target.State, target.Reason)
		}
	}
}

// heard keeps what is said.
type heard struct {
	report.Quiet
	lines []string
}

func (h *heard) Warn(format string, args ...any) {
	h.lines = append(h.lines, fmt.Sprintf(format, args...))
}

// TestKeep: it is said where the file that the next build replaces is all that tells what the samples are of: once files were
// written that ask for a build, and not where builds has a copy.
func TestKeep(t *testing.T) {
	const builds = "      builds: [kept]\n      outputs:"
	for _, tt := range []struct {
		name, config, copied string
		twice, want          bool
	}{
		{"no copy", all, "", false, true},
		{"nothing changed", all, "", true, false},
		{"copy", strings.Replace(all, "      outputs:", builds, 1), "kept/old/mix.1", false, false},
		{"copy of another build", strings.Replace(all, "      outputs:", builds, 1), "kept/mix.txt", false, true},
		{"link to the file", strings.Replace(all, "      outputs:", builds, 1), "kept/link", false, true},
	} {
		r := newRepo(t, tt.config)
		switch tt.copied {
		case "kept/old/mix.1":
			r.put(tt.copied, testtool.Read(t, filepath.Join(mix, "mix")))
		case "kept/mix.txt":
			r.put(tt.copied, "something else")
		case "kept/link":
			r.put("kept/mix.txt", "something else")
			if err := os.Link(filepath.Join(r.dir, "mix"), filepath.Join(r.dir, "kept/link")); err != nil {
				t.Fatal(err)
			}
		}
		if tt.twice {
			r.mustRun(report.RefreshChanged)
		}
		var h heard
		if _, err := r.run(Options{Notify: &h}); err != nil {
			t.Fatal(err)
		}
		said := slices.ContainsFunc(h.lines, func(l string) bool {
			return strings.Contains(l, "no other file has the build that was sampled than "+filepath.Join(r.dir, "mix"))
		})
		if said != tt.want {
			t.Errorf("%s: said %v, want %v: %q", tt.name, said, tt.want, h.lines)
		}
	}
}

// TestChanged: samples that only lines or order tie to the newer build, or nothing, make a profile that is warned of.
func TestChanged(t *testing.T) {
	for _, tt := range []struct {
		name string
		c    stale.Carried
		want bool
	}{
		{"nothing moved", stale.Carried{}, false},
		{"unchanged", stale.Carried{Samples: [stale.NumTies]uint64{stale.SameProc: 99, stale.SamePart: 1}}, false},
		{"by a profile, ninja", stale.Carried{Samples: [stale.NumTies]uint64{66, 1054, 390, 2238, 1}}, true},
		{"most lost", stale.Carried{Samples: [stale.NumTies]uint64{stale.NoTie: 60, stale.SameProc: 40}}, true},
	} {
		if got := changed(&tt.c); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestOtherForm: where the newest build has the sampled code in another form, what compilers and linkers take by functions and lines is of the
// recorded build, as if that were named. Of what needs the newest build's own blocks, it is warned.
func TestOtherForm(t *testing.T) {
	t.Parallel()
	testtool.Need(t, "gcc")
	const outputs = "outputs: [gcc: mix.afdo, {layout: mix.order, for: lld}%s]\n"
	config := func(image, more string) string {
		return "\nrefresh:\n  targets:\n    mix:\n      sources: samples.bfr\n      image: " + image + "\n      builds: builds\n      limits: {min-samples: 1}\n      " + fmt.Sprintf(outputs, more)
	}
	was, err := image.ReadBuildID(filepath.Join(mix, "mix"))
	if err != nil {
		t.Fatal(err)
	}
	made := map[string]string{}
	for _, tt := range []struct{ name, image, more, said string }{
		{"named", was.String(), "", ""},
		{"newest", "mix", "", "so what is written is of the functions and lines of the recorded build, "},
		{"by blocks too", "mix", ", bolt: mix.fdata", "a profile made so may be worse than none; sample that build, or name the recorded one by its build ID: image: " + was.String()},
	} {
		r := newRepo(t, config(tt.image, tt.more))
		r.put("builds/mix", testtool.Read(t, filepath.Join(mix, "mix")))
		r.put("mix.c", testtool.Read(t, filepath.Join(mix, "mix.c")))
		testtool.Run(t, r.dir, "gcc", "-O3", "-fno-inline", "-funroll-all-loops", "-g", "-gdwarf-4", "-o", "mix", "mix.c")
		var h heard
		doc, err := r.run(Options{Notify: &h})
		if err != nil {
			t.Fatalf("%s: %v, %q", tt.name, err, h.lines)
		}
		said := slices.ContainsFunc(h.lines, func(l string) bool { return tt.said != "" && strings.Contains(l, tt.said) })
		if said != (tt.said != "") {
			t.Errorf("%s: not said %q: %q", tt.name, tt.said, h.lines)
		}
		made[tt.name] = testtool.Read(t, filepath.Join(r.dir, "mix.afdo"))
		if target := doc.Targets[0]; tt.name == "newest" && (target.Carried != 1 || target.Builds[0].ID != was.String() || target.Builds[0].Newest) {
			t.Errorf("%s: %+v", tt.name, target)
		}
	}
	if made["newest"] != made["named"] || made["by blocks too"] == made["named"] {
		t.Error("the profile is not of the build that it is to be of")
	}
}
