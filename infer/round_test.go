package infer

import (
	"math"
	"slices"
	"testing"
)

// TestSampledRan: what has a sample has an execution, be it block or procedure, however few samples there are.
func TestSampledRan(t *testing.T) {
	m := loadMix(t)
	for _, left := range []float64{200, 2000, math.Inf(1)} {
		p := m.set.infer(t, thinned(m.Rec, 1, left), Options{})
		for _, ip := range p.Images {
			for _, r := range ip.Procs {
				if r.Samples > 0 && r.Entries.N < 1 {
					t.Errorf("%g samples: %s has %d samples and %g executions", left, r.Proc.Name, r.Samples, r.Entries.N)
				}
				for b, n := range r.BlockSamples {
					if n > 0 && r.Block[b].N < 1 {
						t.Errorf("%g samples: %s: block %#x has %d samples and %g executions", left, r.Proc.Name, uint64(r.Proc.Blocks[b].Start), n, r.Block[b].N)
					}
				}
			}
		}
	}
}

// TestRanIsEntered: a procedure whose loop has samples was entered where that leads to the loop, also if something else enters
// it elsewhere, as recovery from a panic enters the end of a function in Go.
func TestRanIsEntered(t *testing.T) {
	for _, tt := range []struct {
		name, code string
		want       []int64
	}{
		{"recovery leaves", "a>b b>b b>c c! d!", []int64{1, 1000}},
		{"recovery goes on", "a>b b>b b>c c! d>b", []int64{0, 1000}},
		{"recovery is where samples are", "a>c b>b b>c c!", []int64{0, 1000}},
	} {
		r := newResult(graph(tt.code))
		r.BlockSamples = make([]uint64, len(r.Block))
		r.BlockSamples[1] = 50
		q := pose([]*Result{r}, plainCost, &outOfOrder, nil).probs[0]
		x := make([]float64, q.unknowns())
		q.alone(x)
		x[0], x[1] = math.Log(0.3), math.Log(1000)
		q.forward(x)
		if _, entries := q.round(); !slices.Equal(entries, tt.want) {
			t.Errorf("%s: entered %d times, want %d", tt.name, entries, tt.want)
		}
	}
}

// TestEntryFactorInLoops: samples in a loop that turns a thousand times for each entry do not tell how often it was entered.
func TestEntryFactorInLoops(t *testing.T) {
	r := newResult(graph("a>b b>b b>c c!"))
	r.Entries = Freq{N: 30, Conf: Low}
	r.Block[0], r.Block[1], r.Block[2] = Freq{N: 30, Conf: Low}, Freq{N: 3e5, Conf: Low}, Freq{N: 30, Conf: Low}
	p := &Profile{Common: TimeFactor, Samples: Samples{Total: 1e5, Used: 1e5}}
	for _, tt := range []struct {
		entry, loop, leave uint64
		want               float64
	}{
		{0, 5000, 0, 500},
		{1, 5000, 3, 80},
		{5, 5000, 3, 12},
		{8, 0, 0, 12},
	} {
		r.BlockSamples = []uint64{tt.entry, tt.loop, tt.leave}
		if got := p.EntryFactor(r); got != tt.want {
			t.Errorf("%d samples before a loop, %d in it, %d behind: executions within a factor of %g, want %g", tt.entry, tt.loop, tt.leave, got, tt.want)
		}
	}
}

// TestEntryFactorSeen: where walks or windows told how often code runs, the factor is beside the common one, and less where confidence says so.
func TestEntryFactorSeen(t *testing.T) {
	r := newResult(graph("a!"))
	p := &Profile{Samples: Samples{Total: 1e5, Used: 1e5}}
	for _, tt := range []struct {
		common, counted float64
		conf            Confidence
		samples         uint64
		want            float64
	}{
		{TimeFactor, 0, Low, 500, 12},
		{TimeFactor, 0, Medium, 500, 12}, // as a loop that waits for nothing
		{2.5, 0, Low, 2, 500},
		{2.5, 0, Low, 7, 80},
		{2.5, 0, Low, 8, 20},
		{2.5, 0, Low, 127, 20},
		{2.5, 0, Low, 128, 5},
		{1.2, 0, Medium, 0, 2},
		{1.2, 0, High, 0, 1.1},
		{2.5, 0.5, Low, 500, 0}, // another run's counts
		{0, 0, Low, 500, 0},     // the event tells
		{2.5, 0, None, 0, 0},
	} {
		p.Common, p.Counted = tt.common, tt.counted
		r.Entries, r.Block[0], r.BlockSamples = Freq{N: 30, Conf: tt.conf}, Freq{N: 30, Conf: tt.conf}, []uint64{tt.samples}
		if got := p.EntryFactor(r); got != tt.want {
			t.Errorf("common factor %g, counted %g, confidence %s, %d samples: within %g, want %g", tt.common, tt.counted, tt.conf, tt.samples, got, tt.want)
		}
	}
}
