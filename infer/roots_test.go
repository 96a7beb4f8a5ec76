package infer

import (
	"math"
	"testing"

	"backfeed/infer/image"
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
