package infer

import (
	"math"
	"slices"
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/testdata/sets"
)

// cyclesApart of what these tests sample: a timer's at 997 Hz, 3.1 GHz.
const testApart = 3.1e6

// systemResult is a result of a procedure whose block b ends in a system call; so many samples lie in the blocks, and held where it returns.
func systemResult(p *image.Proc, b int, held uint64, samples ...uint64) *Result {
	r := newResult(p)
	r.system = newSystemCalls(len(p.Blocks))
	r.system.of[b] = 1
	r.system.calls = []systemCall{{b, p.Blocks[b].End}}
	r.system.follow(p)
	copy(r.BlockSamples, samples)
	if held > 0 {
		r.BlockSamples[b+1] += held
		r.system.returns(b+1, hit{addr: p.Blocks[b].End, n: held})
	}
	for _, n := range r.BlockSamples {
		r.Samples += n
	}
	return r
}

func testCost(*Result) func(*image.Block) float64 {
	return func(b *image.Block) float64 { return outOfOrder.cycles(cyclesPerInst*float64(b.Insts)) / testApart }
}

// timerParams are those of samples of a timer, whose interrupts are held up or not.
func timerParams(held bool) *params {
	par := outOfOrder
	if held {
		par.heldUp, par.returns = 1/testApart, systemCycles
	}
	return &par
}

// wrapper is read of glibc: it tests a flag, calls, tests the result and returns, or sets errno.
const wrapper = "a2>b b3>c c2>d c>e d1! e5!"

// TestSystemCalls: samples where calls return tell how often they were made, whatever their neighbours wait for.
func TestSystemCalls(t *testing.T) {
	for _, tt := range []struct {
		name        string
		interrupts  bool
		held        uint64
		samples     []uint64
		least, most float64
	}{
		// As read of glibc had them, the first reading /dev/zero, the others in memcached: see README.
		{"5M calls that do next to nothing", true, 172, []uint64{1, 1, 0, 25}, 5e6 / 3, 5e6 * 3},
		{"75k calls of a server that slept", true, 4, []uint64{5, 0, 1, 0}, 75e3 / 4, 75e3 * 4},
		{"59k that wait, to cold code", true, 13, []uint64{1, 0, 3, 7}, 59e3 / 10, 59e3 * 10},
		{"signals tell nothing of calls", false, 4000, []uint64{0, 0, 1, 0}, 0, 1e7},
	} {
		r := systemResult(graph(wrapper), 1, tt.held, tt.samples...)
		pose([]*Result{r}, testCost, timerParams(tt.interrupts), nil).run(false)
		if err := r.Check(); err != nil {
			t.Fatal(err)
		}
		if n := r.Block[1].N; n < tt.least || n > tt.most {
			t.Errorf("%s: %.3g calls, want %.3g to %.3g", tt.name, n, tt.least, tt.most)
		}
		if !near(r.Block[0].N, r.Block[1].N, 1e-6) {
			t.Errorf("%s: entered %.3g times, called %.3g", tt.name, r.Block[0].N, r.Block[1].N)
		}
	}
}

// TestFarSystemCalls: a procedure whose samples are all of signals, where system calls return, was called as often as what has none itself calls it,
// however many calls that is from what has; of one that nothing is found to call, nothing is known: it is not 0.
func TestFarSystemCalls(t *testing.T) {
	mix := sets.Load(t, "../testdata/mix")
	im, err := mix.Open(mix.Rec.Counts[0].Images[0].ID)
	if err != nil {
		t.Fatal(err)
	}
	sym := 0
	for im.Once(sym) {
		sym++
	}
	all := []*Result{newResult(graph("a4!"))}
	all[0].BlockSamples[0], all[0].Samples = 700, 700
	for range 4 { // the chain
		all = append(all, systemResult(graph(wrapper), 1, 0, 0, 0, 0, 0))
	}
	last, alone := all[4], systemResult(graph(wrapper), 1, 9, 0, 0, 0, 0)
	last.BlockSamples[2], last.Samples = 30, 30
	last.system.returns(2, hit{addr: last.Proc.Blocks[1].End, n: 30})
	all = append(all, alone)
	for i, r := range all {
		r.Proc.Index, r.Proc.Addr = sym, image.Addr(0x1000*(i+1))
		if i < 4 {
			r.Proc.Calls, r.Call = []image.Call{{To: image.Addr(0x1000 * (i + 2))}}, make([]Freq, 1)
		}
	}
	pr := pose(all, testCost, timerParams(false), nil)
	pr.run(false)
	pr.follow(followed(&ImageProfile{Image: im, Procs: all, Counts: &sample.ImageCounts{}}))
	for i, r := range all[:5] {
		if n := r.Entries; n.Conf == None || !near(n.N, all[0].Entries.N, 0.5) {
			t.Errorf("%d calls far: entered %+v, want about as often as %g", i, n, all[0].Entries.N)
		}
	}
	if alone.Entries.Conf != None {
		t.Errorf("called by nothing: entered %+v", alone.Entries)
	}
}

// TestSystemCallsOutweighFew: a caller with two samples does not say how often a procedure calls the system whose calls have their own.
func TestSystemCallsOutweighFew(t *testing.T) {
	few, callee := newResult(graph("a4!")), systemResult(graph(wrapper), 1, 40, 20, 0, 0, 0)
	few.BlockSamples[0], few.Samples = 7, 7 // 7M executions, by them alone
	pr := pose([]*Result{few, callee}, testCost, timerParams(true), nil)
	pr.ties = []tie{{callee: 1, sites: []site{{q: pr.probs[0], out: -1, share: 1}}, sd: pr.tieSD, above: pr.tieSD}}
	pr.run(false)
	const want = 40 * testApart / systemCycles
	if n := callee.Entries.N; math.Abs(math.Log(n/want)) > math.Log(3) {
		t.Errorf("entered %.3g times, want about %.3g", n, float64(want))
	}
	if n := few.Entries.N; math.Abs(math.Log(n/callee.Entries.N)) > math.Log(2) {
		t.Errorf("its one caller ran %.3g times, it %.3g", n, callee.Entries.N)
	}
}

// TestHeldUp: of which events interrupts are held up.
func TestHeldUp(t *testing.T) {
	here := sample.CPU{Arch: "x86_64"}
	for _, tt := range []struct {
		event string
		cpu   sample.CPU
		want  bool
	}{
		{"cpu-clock", here, true}, {"cpu-clock:u", here, true}, {"task-clock", here, true}, {"tick", here, true},
		{"cpu-clock", sample.CPU{}, false}, // of runtime/pprof
		{"ptrace-clock", here, false}, {"cycles", here, false}, {"cycles:u", here, false}, {"page-faults", here, false},
	} {
		if got := heldUp([]*sample.Counts{{CPU: tt.cpu, Event: sample.Event{Name: tt.event}}}); got != tt.want {
			t.Errorf("%s, processor %q: %v, want %v", tt.event, tt.cpu.Arch, got, tt.want)
		}
	}
	both := []*sample.Counts{{CPU: here, Event: sample.Event{Name: "cpu-clock"}}, {Event: sample.Event{Name: "cpu-clock"}}}
	if heldUp(both) {
		t.Error("a timer's samples with those of signals are taken for a timer's alone")
	}
}

// TestReturnsHold: the cycles of a return are those of the recordings, by samples, where it is known.
func TestReturnsHold(t *testing.T) {
	counts := func(n, returns, held uint64) *sample.Counts {
		return &sample.Counts{Event: sample.Event{Name: "cpu-clock", Unit: "ns"}, Total: n, Returns: returns, Held: held}
	}
	for _, tt := range []struct {
		name string
		of   []*sample.Counts
		want float64
	}{
		{"not known", []*sample.Counts{counts(1000, 0, 0)}, systemCycles},
		{"measured", []*sample.Counts{counts(1000, 3000, 4_200_000)}, 1400 + coldCycles},
		{"of one of two machines", []*sample.Counts{counts(1000, 3000, 4_200_000), counts(3000, 0, 0)}, (1400+3*(systemCycles-coldCycles))/4 + coldCycles},
		{"no samples", []*sample.Counts{counts(0, 3000, 4_200_000)}, systemCycles},
	} {
		if got := returnsHold(tt.of); !near(got, tt.want, 1e-9) {
			t.Errorf("%s: %g cycles, want %g", tt.name, got, tt.want)
		}
	}
}

// TestBesideSystemCalls: which blocks are next to a call, and which run only after one.
func TestBesideSystemCalls(t *testing.T) {
	r := systemResult(graph(wrapper), 1, 0)
	if want := []bool{true, false, true, false, false}; !slices.Equal(r.system.beside, want) {
		t.Errorf("beside: %v, want %v", r.system.beside, want)
	}
	if want := []bool{false, false, true, false, false}; !slices.Equal(r.system.after, want) {
		t.Errorf("after: %v, want %v", r.system.after, want)
	}
}
