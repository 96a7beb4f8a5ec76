package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"backfeed/infer/image"
)

// TestCopyLoop is the worked example of the DCPI paper, a copy loop: the issue points
// it lists, each of one cycle at least. The stores wait for the write buffer.
func TestCopyLoop(t *testing.T) {
	var ps []point
	for _, s := range []float64{3126, 1636, 1482, 27766, 1493, 174727, 1548, 1586} {
		ps = append(ps, point{s, 1})
	}
	e := estimatePoints(ps)
	const truth, paper = 1575.1, 1527 // the paper leaves out 1636 as well, by a rule that it does not give
	if e.points != 5 || e.pooled || math.Abs(e.f-truth) > truth-paper {
		t.Errorf("%.1f from %d points, true is %.1f and the paper has %d", e.f, e.points, truth, paper)
	}
}

func TestEstimatePoints(t *testing.T) {
	for _, tt := range []struct {
		name   string
		points []point
		f      float64
		n      int // points that are believed
		pooled bool
	}{
		{"no issue point, no estimate", nil, 0, 0, false},
		{"those that agree at the low end", []point{{100, 1}, {210, 2}, {330, 3}, {900, 1}}, 640. / 6, 3, false},
		{"half as wide again is too wide", []point{{100, 1}, {149, 1}, {151, 1}}, 124.5, 2, false},
		{"few samples: all together", []point{{1, 1}, {2, 1}, {9, 1}, {8, 1}}, 5, 4, true},
		{"one low of many is an accident", []point{{10, 1}, {100, 1}, {101, 1}, {102, 1}, {103, 1}, {104, 1}}, 102, 5, false},
		{"a stall longer than any means that the low ones are wrong", []point{{1, 1}, {1, 1}, {1000, 1}, {1000, 1}}, 1000, 2, false},
	} {
		e := estimatePoints(tt.points)
		if !near(e.f, tt.f, 1e-9) || e.points != tt.n || e.pooled != tt.pooled {
			t.Errorf("%s: %+v", tt.name, e)
		}
	}
}

// TestIssuePoints: what waits for a result is judged from where that was begun.
func TestIssuePoints(t *testing.T) {
	samples := map[image.Addr]uint64{0: 100, 4: 7, 8: 500, 12: 20, 16: 100}
	got := issuePoints([]issue{
		{0, 1, 3},  // waits for the last but one of the execution before
		{4, 0, -1}, // issues with the first
		{8, 1, -1}, // stalled
		{12, 3, 0}, // waits for the first, but not for as long as that
		{16, 1, -1},
	}, func(a image.Addr) uint64 { return samples[a] })
	want := []point{{200, 2}, {500, 1}, {527, 4}, {100, 1}}
	if !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// inOrderCore runs p's blocks, n executions each, on a core that issues in order,
// two instructions at a time at best, and gives the static schedule of each block
// and the samples, one per period cycles.
func inOrderCore(rng *rand.Rand, p *image.Proc, n []float64, period float64) (schedule [][]issue, samples map[image.Addr]uint64) {
	samples = map[image.Addr]uint64{}
	for b := range p.Blocks {
		bl := &p.Blocks[b]
		var is []issue
		stalled := []float64{0} // by instruction: cycles of stalls in the block before it
		for a := bl.Start; a < bl.End; a += 4 {
			in := issue{addr: a, least: 1, after: -1}
			i := len(is)
			switch k := rng.IntN(20); {
			case k < 7 && i > 0 && is[i-1].least > 0:
				in.least = 0 // issues with the one before
			case k < 10 && i > 0: // waits for a result
				in.after = max(0, i-1-rng.IntN(3))
				in.least = 1 + float64(rng.IntN(3))
			}
			stall := 0.0
			if rng.IntN(10) == 0 {
				stall = math.Exp(1 + 1.5*rng.NormFloat64()) // mean of all executions
			}
			wait := in.least
			if in.after >= 0 {
				wait = max(0, wait-(stalled[i]-stalled[in.after+1]))
			}
			samples[a] = poisson(rng, n[b]*(wait+stall)/period)
			stalled = append(stalled, stalled[i]+stall)
			is = append(is, in)
		}
		schedule = append(schedule, is)
	}
	return schedule, samples
}

func poisson(rng *rand.Rand, mean float64) uint64 {
	if mean > 100 {
		return uint64(max(0, math.Round(mean+math.Sqrt(mean)*rng.NormFloat64())))
	}
	n, limit := uint64(0), math.Exp(-mean)
	for p := rng.Float64(); p > limit; p *= rng.Float64() {
		n++
	}
	return n
}

// TestInOrder: most samples are in blocks whose estimate is within 10 % of the truth
// (DCPI had 73, 87 and 92 % within 5, 10 and 15 %, on real programs), and a plain
// average is far worse. The estimates are as sure as they say.
func TestInOrder(t *testing.T) {
	const period = 1000
	for _, tt := range []struct {
		scale    float64 // of executions
		within10 float64 // least share of samples
	}{
		{3, 0.35},
		{30, 0.85},
		{1000, 0.9},
	} {
		rng := rand.New(rand.NewPCG(13, 14))
		var total, observed, one, two float64
		var within, plain [3]float64 // samples by error
		tally := func(w *[3]float64, estimate, truth, samples float64) {
			for i, tol := range []float64{0.05, 0.1, 0.15} {
				if math.Abs(estimate/truth-1) <= tol {
					w[i] += samples
				}
			}
		}
		for range 200 {
			p := laidOut(rng, 4+rng.IntN(30))
			n := walk(rng, p, newLBR(takenBranches, 1, false), 30_000).block
			for b := range n {
				n[b] *= tt.scale
			}
			schedule, samples := inOrderCore(rng, p, n, period)
			c := classesOf(p)
			est := inOrderEstimates(c, p, func(b int) []issue { return schedule[b] }, func(a image.Addr) uint64 { return samples[a] })
			for b := range p.Blocks {
				var s, least float64
				for _, in := range schedule[b] {
					s += float64(samples[in.addr])
					least += in.least
				}
				total += s
				tally(&within, est[c.block[b]].f*period, n[b], s)
				tally(&plain, s/least*period, n[b], s)
			}
			for _, ob := range inOrderObservations(est, c, period) {
				if n[ob.block] < period {
					continue // hardly a sample expected
				}
				z := math.Abs(math.Log(n[ob.block])-ob.logN) / ob.sd
				observed++
				if z < 1 {
					one++
				}
				if z < 2 {
					two++
				}
			}
		}
		for i := range within {
			within[i], plain[i] = within[i]/total, plain[i]/total
		}
		t.Logf("%.0f samples per procedure: %.3f within 5, 10 and 15 %%, plain average %.3f; %.3f within one standard deviation, %.3f within two",
			total/200, within, plain, one/observed, two/observed)
		if within[1] < tt.within10 || within[1] < 1.5*plain[1] {
			t.Errorf("%.0f samples: within 10 %%: %.3f, plain average %.3f", total, within[1], plain[1])
		}
		if one/observed < 0.65 || two/observed < 0.9 {
			t.Errorf("%.0f samples: %.3f within one standard deviation, %.3f within two", total, one/observed, two/observed)
		}
	}
}
