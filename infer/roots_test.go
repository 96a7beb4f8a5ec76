package infer

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestEnteredOnce: what is known to be called once is entered about once, though all of its samples are in a loop,
// which goes on as often; where samples outside of loops say that it is entered often, it is.
func TestEnteredOnce(t *testing.T) {
	for _, tt := range []struct {
		name, graph string
		samples     []uint64
		low, high   float64 // entries
	}{
		{"a loop", "a9>b b9>b b>c c9!", []uint64{0, 100000, 0}, 1, 30},
		{"a loop after another without samples", "a9>b b9>b b>c c9>c c>d d9!", []uint64{0, 0, 100000, 0}, 1, 30},
		{"straight code", "a30!", []uint64{100000}, 1e5, 1e9},
	} {
		r := newResult(graph(tt.graph))
		r.BlockSamples = tt.samples
		plain := solved(t, r.Proc, tt.samples...)
		pr := pose([]*Result{r}, plainCost, &outOfOrder, nil)
		pr.once = []rooted{{0, belief{0, processesSD * processesSD, true}}}
		pr.run(false)
		if n := r.Entries.N; n < tt.low || n > tt.high {
			t.Errorf("%s: entered %.4g times, want %g to %g; without being called once %.4g", tt.name, n, tt.low, tt.high, plain.Entries.N)
		}
		for b, s := range tt.samples {
			if n, was := r.Block[b].N, plain.Block[b].N; s > 0 && (n > 1.2*was || n < was/1.2) {
				t.Errorf("%s: block %d ran %.4g times, %.4g without being called once", tt.name, b, n, was)
			}
		}
	}
}

// TestEnteredHardly: a procedure with samples, which code calls that is known never to run, is entered hardly ever, and has finite executions.
func TestEnteredHardly(t *testing.T) {
	for _, mean := range []float64{-20, -175, -700} {
		r := newResult(graph("a9>b b9>b b>c c9>c c>d d9!"))
		r.BlockSamples = []uint64{1, 0, 1, 0}
		pr := pose([]*Result{r}, plainCost, &outOfOrder, nil)
		pr.once = []rooted{{0, belief{mean, callSD * callSD, true}}}
		pr.run(false)
		for b := range r.Block {
			if n := r.Block[b].N; !(n >= 0 && n < 1e8) {
				t.Errorf("entered e^%g times: block %d ran %g times", mean, b, n)
			}
		}
	}
}

// TestOnce: what each process runs once is entered as often as processes ran the image, if that is known.
func TestOnce(t *testing.T) {
	told, untold := once(20), once(0)
	if math.Abs(told.mean-math.Log(20)) > 1e-9 || untold.mean != 0 || told.variance > untold.variance/10 {
		t.Errorf("of 20 processes %+v, of an unknown number %+v", told, untold)
	}
}

// TestToldProcesses: a loop of a procedure that main calls once turns as often, and is entered once in each process.
func TestToldProcesses(t *testing.T) {
	for _, processes := range []uint64{1, 100} {
		r := newResult(graph("a9>b b9>b b>c c9!"))
		r.BlockSamples = []uint64{0, 100000, 0}
		pr := pose([]*Result{r}, plainCost, &outOfOrder, nil)
		pr.once = []rooted{{0, once(processes)}}
		pr.run(false)
		if n, want := r.Entries.N, float64(processes); n < want/2 || n > 2*want {
			t.Errorf("%d processes: entered %.4g times", processes, n)
		}
	}
}

// TestKnownTurns: how often a loop turned does not tell how often its procedure was entered; what its callers tell
// is believed. The executions of code outside of loops do tell.
func TestKnownTurns(t *testing.T) {
	for _, tt := range []struct {
		name   string
		block  int
		n      float64
		lo, hi float64 // entries
	}{
		{"the loop", 1, 1e9, 1, 30},
		{"what leads there", 0, 1e4, 8e3, 1.2e4},
	} {
		r := newResult(graph("a9>b b9>b b>c c9!"))
		r.BlockSamples, r.Samples = []uint64{0, 100000, 0}, 100000
		pr := pose([]*Result{r}, plainCost, &outOfOrder, func(pr *posed) {
			o, _ := Known{N: tt.n, RelSD: 0.05}.executions(tt.block)
			q := pr.of[r]
			q.known = append(q.known, o)
			q.loosen()
		})
		pr.once = []rooted{{0, once(1)}}
		pr.run(false)
		if n := r.Entries.N; n < tt.lo || n > tt.hi {
			t.Errorf("%s is known: entered %.4g times, want %g to %g", tt.name, n, tt.lo, tt.hi)
		}
		if n := r.Block[tt.block].N; n < 0.8*tt.n || n > 1.2*tt.n {
			t.Errorf("%s ran %.4g times, known are %g", tt.name, n, tt.n)
		}
	}
}

// TestUntoldEntries: where no caller tells, entries are believed between one in each process and what code without samples
// may have; with samples outside of loops, or known callers, as they are.
func TestUntoldEntries(t *testing.T) {
	for _, tt := range []struct {
		name    string
		samples []uint64
		tied    bool
		moves   bool
	}{
		{"nothing but a loop", []uint64{0, 100000, 0}, false, true},
		{"samples before the loop", []uint64{5000, 100000, 5000}, false, false},
		{"known callers", []uint64{0, 100000, 0}, true, false},
	} {
		r := newResult(graph("a9>b b9>b b>c c9!"))
		r.BlockSamples = tt.samples
		pr := pose([]*Result{r}, plainCost, &outOfOrder, nil)
		if tt.tied {
			pr.ties = []tie{{callee: 0, sd: 0.1, above: 0.1}}
		}
		pr.untold = []rooted{{0, once(10)}}
		q := pr.probs[0]
		x := make([]float64, q.unknowns())
		q.alone(x)
		q.reenter(x, slices.Clone(x), 9, q.exits(q.busyLoops())) // as a search of few steps may leave it
		q.forward(x)
		was, upper := math.Exp(x[0]), math.Exp(x[0]+q.unseenMore())
		all := pr.bounded(x)
		if len(all) > 0 != tt.moves {
			t.Errorf("%s: believed %+v", tt.name, all)
		}
		if !tt.moves {
			continue
		}
		if b, s := all[0].mean, q.brings(0, upper)+q.brings(2, upper); math.Abs(b-math.Log(10*upper)/2) > 1e-9 || s < 3 || s > 30 {
			t.Errorf("%s: believed to be entered %.4g times, at most %.4g, which bring %.2g samples", tt.name, math.Exp(b), upper, s)
		}
		pr.settle(x)
		if n := q.enter[0]; n < 10 || n > was/10 {
			t.Errorf("%s: entered %.4g times after %.4g", tt.name, n, was)
		}
	}
}

// TestClimb: beliefs come of roots by callers without samples, and of nothing else.
func TestClimb(t *testing.T) {
	p := graph("a9>b b9>b b>c c9!")
	p.Calls = []image.Call{{Block: 0, To: 0x2000}, {Block: 1, To: 0x2000}, {Block: 2, To: 0x3000}}
	l, ip := &links{}, &ImageProfile{Image: loadMix(t).image}
	if once, looped := l.callsOf(ip, p, target{ip, 0x2000}); once != 1 || looped != 1 {
		t.Errorf("%d calls outside of loops and %d in them, want 1 and 1", once, looped)
	}
	if once, looped := l.callsOf(ip, p, target{ip, 0x3000}); once != 1 || looped != 0 {
		t.Errorf("%d calls outside of loops and %d in them, want 1 and 0", once, looped)
	}
}

// TestClimbRecursion: what calls itself is entered as often as it does so, whoever calls it once.
func TestClimbRecursion(t *testing.T) {
	im := loadMix(t).image
	ip := &ImageProfile{Image: im, Counts: &sample.ImageCounts{Processes: 1}}
	c := &climber{newLinks([]*ImageProfile{ip}, false), map[caller]bool{}, map[caller]belief{}}
	recursive := 0
	for i := range im.Symbols() {
		at := caller{ip, i}
		if b := c.entered(at, maxUp); c.recurs(at) && !im.Once(i) {
			recursive++
			if b.ok {
				t.Errorf("%s: %+v", im.Symbols()[i].Name, b)
			}
		}
	}
	if recursive == 0 {
		t.Error("testdata/mix has no recursive procedure")
	}
}

// TestHeed: a procedure without samples calls another as often as this one is entered, although by static guesses it hardly
// ever does, and is itself entered as often as is believed.
func TestHeed(t *testing.T) {
	one := func(*image.Block) float64 { return 0.01 }
	// As strcmp after strcmp in main: a, d and g go on to the next one, or call at h.
	main := newProblem(graph("a>h a>b b>h b>c c>h c>d d>h d>e e>g e>h g! h!"), make([]uint64, 8), one, &outOfOrder)
	called := newProblem(graph("a>b b>b b>c c!"), []uint64{0, 10000, 0}, one, &outOfOrder)
	main.center[0], main.sure[0] = math.Log(30), 10
	pr := newProgram([]*problem{main, called}, []tie{{callee: 1, sites: []site{{q: main, block: 6, out: -1, share: 1}}, sd: 0.1, above: 0.1}}, 0.1)
	x := make([]float64, pr.at[2])
	for i, q := range pr.probs {
		copy(pr.part(x, i), q.center)
	}
	pr.part(x, 1)[0] = math.Log(30)
	for i, q := range pr.probs {
		q.forward(pr.part(x, i))
	}
	if calls := pr.ties[0].calls(); calls > 10 {
		t.Fatalf("%.1f calls before", calls)
	}
	pr.heed(x)
	if calls := pr.ties[0].calls(); calls < 24 || calls > 37 {
		t.Errorf("%.1f calls of what is entered 30 times", calls)
	}
	if n := math.Exp(x[0]); n < 25 || n > 40 {
		t.Errorf("%.1f entries of what is entered 30 times", n)
	}
	if n := math.Exp(pr.part(x, 1)[0]); math.Abs(n-30) > 1e-9 {
		t.Errorf("what has samples is entered %g times, and was 30", n)
	}
}

// TestStart: main and an initialiser without samples, which only stacks tell of, ran once in each process, though one calls the
// other.
func TestStart(t *testing.T) {
	testtool.Need(t, "gcc")
	dir := t.TempDir()
	testtool.Write(t, dir, "p.c", `
volatile int v;
__attribute__((noinline)) void work(void) { for (int i = 0; i < 1000; i++) v++; }
__attribute__((noinline)) void init(void) __asm__("pkg.init.0");
void init(void) { work(); v = 1; }
int main(void) { init(); v = 2; return 0; }
`)
	testtool.Run(t, dir, "gcc", "-O2", "-o", "p", "p.c", "-Wl,--build-id")
	im, err := image.Open(filepath.Join(dir, "p"), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Period: 1000000, Unit: "ns"})
	prog := c.Image(sample.ImageID{Build: im.Build, Path: "/usr/bin/p"})
	at := func(a image.Addr) sample.Frame {
		off, ok := im.OffsetOf(a)
		if !ok {
			t.Fatalf("%#x is not in the file", a)
		}
		return sample.Frame{Image: prog, Off: off}
	}
	stack := []sample.Frame{at(im.Symbols()[im.Lookup("work")].Addr)}
	for _, name := range []string{"pkg.init.0", "main"} {
		p, err := im.Proc(im.Lookup(name))
		if err != nil || len(p.Calls) == 0 {
			t.Fatalf("%s: %v, %d calls", name, err, len(p.Calls))
		}
		stack = append(stack, at(p.Calls[0].Return))
	}
	c.AddSample(prog, stack[0].Off, 1000)
	c.AddStack(stack, 1000)
	c.AddProcesses(prog, 7)
	rec := &sample.Recording{}
	rec.Add(c)
	prof, err := Infer(context.Background(), rec, func(sample.ImageID) (*image.Image, error) { return im, nil }, Options{})
	if err != nil {
		t.Fatal(err)
	}
	entries := map[string]Freq{}
	for _, r := range prof.Images[0].Procs {
		entries[r.Proc.Name] = r.Entries
	}
	for _, name := range []string{"pkg.init.0", "main"} {
		if n, ok := entries[name]; !ok || math.Abs(n.N-7) > 1 || n.Conf > Low {
			t.Errorf("%s is entered %v; want 7", name, n)
		}
	}
}
