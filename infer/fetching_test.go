package infer

import (
	"cmp"
	"math"
	"testing"

	"backfeed/infer/image"
	"backfeed/infer/machine"
	"backfeed/infer/truth"
)

// TestFetches: what brings samples by each execution and by being fetched brings as many as runs says, more
// the more it runs, and less each time; the derivative is that of the logarithm.
func TestFetches(t *testing.T) {
	par := outOfOrder.fetched(100_000, 300_000)
	q := newProblem(graph("a4>b b9>b b>c c5"), []uint64{0, 1000, 0}, func(*image.Block) float64 { return 1e-5 }, par)
	for b := range q.fetch {
		q.fetch[b] = 2 * par.line
	}
	last, each := 0.0, math.Inf(1)
	for n := 1.0; n < 1e9; n *= 3 {
		got := q.brings(0, n)
		if got <= last || got/n > each {
			t.Errorf("%g executions bring %g samples, a third of them %g", n, got, last)
		}
		last, each = got, got/n
		const d = 1e-5
		fetches, power := q.fetches(0, n)
		more, _ := q.fetches(0, n*(1+d))
		if slope := math.Log(more/fetches) / math.Log(1+d); math.Abs(slope-power) > 1e-3 {
			t.Errorf("%g executions: slope %g, want %g", n, power, slope)
		}
	}
	if n := runs(0.5, 1e-5, 2e-3); math.Abs(n*1e-5+2e-3*math.Sqrt(n)-0.5) > 1e-9 {
		t.Errorf("%g executions bring half a sample", n)
	}
	if n := runs(0.5, 1e-5, 0); math.Abs(n-5e4) > 1e-6 {
		t.Errorf("without fetching %g", n)
	}
}

// TestFetching measures, over the programs of -sets, what the time since code last ran adds to its own.
func TestFetching(t *testing.T) {
	all := loadSets(t)
	if len(all) == 0 {
		t.Skip("no -sets")
	}
	type sum struct{ executions, lines, cycles float64 }
	var by [2][12]sum // blocks, and entries of procedures; by power of ten of cycles between executions
	for _, s := range all {
		p := s.infer(t, s.Rec, Options{})
		period := p.cyclesApart()
		_, costOf := costModel(p, machine.For(s.Rec.Counts[0].CPU))
		total := float64(p.Samples.Used) * period
		for _, ip := range p.Images {
			s.addRan(ip)
			for _, r := range ip.Procs {
				cost := costOf(r)
				for b := range r.Proc.Blocks {
					block := &r.Proc.Blocks[b]
					n := s.exact(ip, block) * cmp.Or(s.Runs, 1)
					if n == 0 {
						continue
					}
					kind := 0
					if b == 0 {
						kind = 1
					}
					at := &by[kind][int(clamp(math.Log10(total/n), 0, 11))]
					at.executions += n
					at.lines += n * float64(block.End-block.Start) / lineBytes
					at.cycles -= n * cost(block) * period
					if b < len(r.BlockSamples) {
						at.cycles += float64(r.BlockSamples[b]) * period
					}
				}
			}
		}
	}
	var perLine [12]float64
	for e, a := range by[0] {
		if a.executions == 0 {
			continue
		}
		perLine[e] = a.cycles / a.lines
		more := 0.0
		if entry := by[1][e]; entry.executions > 0 {
			more = (entry.cycles - perLine[e]*entry.lines) / entry.executions
		}
		t.Logf("run every 10^%d to 10^%d cycles: %6.1f cycles for each line, and %6.1f where a procedure is entered", e, e+1, perLine[e], more)
	}
	if perLine[7] < 2*perLine[6] || perLine[6] < 2*perLine[5] {
		t.Errorf("cycles for each line at 10^5, 10^6 and 10^7: %.1f, %.1f, %.1f; want them to grow", perLine[5], perLine[6], perLine[7])
	}
}

// addRan adds to ip the procedures that ran, with samples or without.
func (s *set) addRan(ip *ImageProfile) {
	syms := map[int]bool{}
	for path, ti := range s.Truth.Images {
		if truth.SamePath(path, ip.ID.Path) || len(s.Truth.Images) == 1 {
			for a := range ti.Insts {
				syms[ip.Image.Find(a)] = true
			}
		}
	}
	ip.addNew(syms)
}
