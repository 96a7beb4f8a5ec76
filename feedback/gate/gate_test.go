package gate

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/source"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// failing are the names of the gates that fail.
func failing(gates ...Gate) string {
	var names []string
	for _, g := range gates {
		if !g.OK() {
			names = append(names, g.Name)
		}
	}
	return strings.Join(names, ", ")
}

// recorded is a Go program of which 600 of 1000 samples are in blocks of medium confidence
// within their procedures, 300 in the runtime, and 100 have no place.
func recorded() (*infer.Profile, *infer.ImageProfile) {
	proc := func(name string, within infer.Confidence, n uint64) *infer.Result {
		return &infer.Result{
			Proc: &image.Proc{Symbol: image.Symbol{Name: name}, Blocks: make([]image.Block, 1)}, Samples: n,
			Block: []infer.Freq{{N: 1, Conf: infer.Low, Among: infer.Low, Within: within}}, BlockSamples: []uint64{n},
		}
	}
	ip := &infer.ImageProfile{Image: &image.Image{Go: "go1.26"}, Samples: 900, Procs: []*infer.Result{
		proc("main.work", infer.Medium, 600), proc("runtime.mallocgc", infer.Low, 200), proc("internal/runtime/maps.grow", infer.Low, 100),
	}}
	return &infer.Profile{Samples: infer.Samples{Total: 1000, Used: 900}, Images: []*infer.ImageProfile{ip}}, ip
}

// TestRecording: each limit fails alone, and a value that is as large as its limit passes.
func TestRecording(t *testing.T) {
	none := Limits{MaxOtherID: 1}
	for _, tt := range []struct {
		name string
		set  func(l *Limits, by float64) // beyond the value by so much
	}{
		{"samples", func(l *Limits, by float64) { l.MinSamples = uint64(1000 + by) }},
		{"used", func(l *Limits, by float64) { l.MinUsed = 0.9 + by }},
		{"other build ID", func(l *Limits, by float64) { l.MaxOtherID = 0.25 - by }},
		{"own code", func(l *Limits, by float64) { l.MinOwn = 0.6 + by }},
		{"known to a factor of 2", func(l *Limits, by float64) { l.MinKnown = 600./900 + by }},
	} {
		for by, want := range map[float64]string{0: "", 1: tt.name} {
			p, ip := recorded()
			lim := none
			tt.set(&lim, by)
			if got := failing(Recording(p, ip, 300, 1200, lim)...); got != want {
				t.Errorf("%s, by %v: %q fails, want %q", tt.name, by, got, want)
			}
		}
	}
	// A recording that has the kernel's time as well, as calibrated ones do, is judged as one without.
	served, of := recorded()
	served.Samples.Total += 4000
	served.Samples.Lost = map[sample.Loss]uint64{sample.LostKernel: 4000}
	if got := failing(Recording(served, of, 0, 5200, Limits{MinSamples: 1000, MinUsed: 0.9, MinOwn: 0.6})...); got != "" {
		t.Errorf("beside the kernel's samples, %q fails", got)
	}
	if got := failing(Recording(served, of, 0, 5200, Limits{MinSamples: 1001})...); got != "samples" {
		t.Errorf("samples of the kernel count: %q fails, want samples", got)
	}
	served.Samples.Lost = map[sample.Loss]uint64{sample.LostOutsideGo: 4000}
	if got := failing(Recording(served, of, 0, 5200, Limits{MinSamples: 1000, MinUsed: 0.9, MinOwn: 0.6})...); got != "" {
		t.Errorf("beside the samples of C that Go called, %q fails", got)
	}
	p, ip := recorded()
	ip.Image.Go = "" // then these are procedures of any program
	if got := failing(Recording(p, ip, 0, 1200, Limits{MinOwn: 0.9})...); got != "" {
		t.Errorf("in C, %q fails", got)
	}
	if got := failing(Recording(&infer.Profile{}, &infer.ImageProfile{Image: &image.Image{}}, 0, 0, Usual)...); got != "samples, used, own code, known to a factor of 2" {
		t.Errorf("of nothing, %q fails", got)
	}
}

// TestBuildSame: a build has all lines of itself, where symbols share a name too, as a function of Go's assembly and its wrapper do
// in a stripped program.
func TestBuildSame(t *testing.T) {
	dir := t.TempDir()
	src, program := filepath.Join(dir, "main.go"), filepath.Join(dir, "program")
	if err := os.WriteFile(src, []byte("package main\n\nfunc main() { println() }\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	build := testtool.Command(t, "go", "build", "-ldflags=-s -w", "-o", program, src)
	build.Env = append(os.Environ(), "GOOS=linux", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	im, err := image.Open(program, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	named, twice := map[string]int{}, 0
	for _, s := range im.Symbols() {
		named[s.Name]++
	}
	ip := &infer.ImageProfile{Image: im}
	for i, s := range im.Symbols() {
		p, err := im.Proc(i)
		if named[s.Name] < 2 || err != nil || len(p.Blocks) == 0 {
			continue
		}
		twice++
		r := &infer.Result{Proc: p, Samples: uint64(len(p.Blocks))}
		for range p.Blocks {
			r.BlockSamples = append(r.BlockSamples, 1)
		}
		ip.Procs = append(ip.Procs, r)
	}
	gates, err := Build(ip, im, Limits{MinProcedures: 1, MinLines: 1})
	if err != nil || twice == 0 || failing(gates...) != "" {
		t.Errorf("%d procedures of one name: %+v, %v", twice, gates, err)
	}
}

func TestAge(t *testing.T) {
	lim := Limits{MaxAge: time.Hour}
	for age, ok := range map[time.Duration]bool{
		-time.Minute: true, // of another clock
		time.Hour:    true, time.Hour + 29*time.Second: true, time.Hour + 31*time.Second: false, 30 * 24 * time.Hour: false,
	} {
		if g := Age(age, lim); g.OK() != ok || g.Unit != Seconds || g.Value < 0 {
			t.Errorf("%v: %+v", age, g)
		}
	}
}

// TestTree: shares are of the program's own samples.
func TestTree(t *testing.T) {
	n := &source.Fates{}
	n[source.Outside], n[source.InPlace], n[source.MovedLines], n[source.BeyondEnd], n[source.FunctionGone], n[source.FileGone] = 900, 40, 30, 15, 10, 5
	lim := Limits{MinSource: 0.1, MaxFilesGone: 0.05, MaxFunctionsGone: 0.1, MaxBeyond: 0.15, MaxMoved: 0.3}
	if got := failing(Tree(n, "src", lim)...); got != "" {
		t.Errorf("%q fails", got)
	}
	lim = Limits{MinSource: 0.11, MaxFilesGone: 0.04, MaxFunctionsGone: 0.09, MaxBeyond: 0.14, MaxMoved: 0.29}
	if got := failing(Tree(n, "src", lim)...); got != "source tree, files gone, functions gone, functions moved, lines beyond" {
		t.Errorf("%q fails", got)
	}
}

// TestCarriedSays: what a build by a profile has inlined is not lost for good, and the gate says how to go on.
func TestCarriedSays(t *testing.T) {
	if g := Carried(0.95, Usual); !g.OK() {
		t.Errorf("95 %% fail: %+v", g)
	}
	g := Carried(0.8, Usual)
	if g.OK() {
		t.Fatal("80 % pass")
	}
	for _, want := range []string{"inlined", "image", "leave older recordings out"} {
		if !strings.Contains(g.Reason, want) {
			t.Errorf("no %q in %q", want, g.Reason)
		}
	}
}

// TestLoading: time in the dynamic loader is nobody's own code, and a failure says that it is there; of a library that has more, that is said.
func TestLoading(t *testing.T) {
	of := func(path string, n uint64) *infer.ImageProfile {
		return &infer.ImageProfile{ID: sample.ImageID{Path: path}, Image: &image.Image{}, Samples: n, Procs: []*infer.Result{{Proc: &image.Proc{}, Samples: n}}}
	}
	app, libc := of("/bin/app", 20), of("/lib/libc.so.6", 70)
	for path, want := range map[string]string{
		"/lib64/ld-linux-x86-64.so.2": "77.8% of the samples are in the dynamic loader, which runs before main",
		"/lib/ld-musl-x86_64.so.1":    "77.8% of the samples are in the dynamic loader",
		"/lib/libc.so.6":              "was it idle? 77.8% of the samples are in /lib/libc.so.6 (--image checks another image)",
	} {
		other := of(path, 70)
		p := &infer.Profile{Samples: infer.Samples{Total: 90, Used: 90}, Images: []*infer.ImageProfile{other, app}}
		for _, g := range Recording(p, app, 0, 90, Limits{MinOwn: 0.3, MaxOtherID: 1}) {
			if g.Name == "own code" && (g.OK() || !strings.Contains(g.Reason, want)) {
				t.Errorf("%s: %+v, want %q", path, g, want)
			}
		}
		if got := failing(Recording(p, other, 0, 90, Limits{MinOwn: 0.3, MaxOtherID: 1})...); (got == "own code") != IsLoader(path) {
			t.Errorf("%s by itself: %q fails", path, got)
		}
	}
	if IsLoader("/bin/ld") || IsLoader(libc.ID.Path) || IsLoader("/usr/lib/libldap.so.2") || !IsLoader("/lib/ld-2.31.so") {
		t.Error("loaders are not told by their names")
	}
}
