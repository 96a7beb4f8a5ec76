package infer

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"backfeed/infer/image"
	"backfeed/infer/machine"
	"backfeed/infer/truth"
	"backfeed/sample"
	"backfeed/testdata/sets"
)

// loadSets reads the directories of -sets.
func loadSets(t *testing.T) (all []*set) {
	t.Helper()
	for _, s := range sets.Named(t) {
		all = append(all, &set{s})
	}
	return all
}

// exact returns the true executions of block b of an image.
func (s *set) exact(ip *ImageProfile, b *image.Block) float64 { return s.Exact(ip.ID.Path, b) }

// oracle returns p with one of two things right that were estimated: how often each
// procedure's blocks run among one another, or how often all of them together do.
func (s *set) oracle(p *Profile, shapes bool) *Profile {
	return remade(p, func(ip *ImageProfile, r *Result) *Result {
		o := *r
		o.Block, o.Edge = slices.Clone(r.Block), slices.Clone(r.Edge)
		var truth, est float64
		for b := range r.Block {
			truth += s.exact(ip, &r.Proc.Blocks[b])
			est += r.Block[b].N
		}
		for b := range r.Block {
			switch {
			case shapes && truth > 0:
				o.Block[b].N = 1e6 * s.exact(ip, &r.Proc.Blocks[b]) * est / truth
			case shapes:
				o.Block[b].N *= 1e6
			case est > 0:
				o.Block[b].N *= 1e6 * truth / est
			}
		}
		for e := range r.Edge {
			if !shapes && est > 0 {
				o.Edge[e].N *= 1e6 * truth / est
			}
		}
		return &o
	})
}

// simulated returns as many samples as p used, of a world where the model of params is
// exactly true: the time of an execution is what the machine model says, times a
// log-normal variable for each block and one for each procedure.
func (s *set) simulated(p *Profile, seed uint64, blockVar, procSD float64) *sample.Recording {
	model, err := machine.ByName(p.Machine)
	if err != nil {
		panic(err)
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	c := sample.NewCounts(s.Rec.Counts[0].CPU, p.Event)
	type spot struct {
		ip   *ImageProfile
		at   image.Addr
		time float64
	}
	var places []spot
	var all float64
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			common := rng.NormFloat64() * procSD
			for i := range r.Proc.Blocks {
				b := &r.Proc.Blocks[i]
				own := rng.NormFloat64() * math.Sqrt(blockVar/float64(max(1, b.Insts)))
				time := s.exact(ip, b) * outOfOrder.cycles(model.Schedule(ip.Image, b).Cycles) * math.Exp(common+own)
				places = append(places, spot{ip, b.Start, time})
				all += time
			}
		}
	}
	for _, pl := range places {
		mean := pl.time / all * float64(p.Samples.Used)
		if n := math.Round(mean + math.Sqrt(mean)*rng.NormFloat64()); n > 0 {
			off, _ := pl.ip.Image.OffsetOf(pl.at)
			c.AddSample(c.Image(pl.ip.ID), off, uint64(n))
		}
	}
	c.Weight = c.Total * p.Event.Period
	return &sample.Recording{Counts: []*sample.Counts{c}}
}

// TestBounds shows what keeps inferred counts from the truth: each stage in turn is
// given what it estimates, or a world without what disturbs it. With -v it prints the
// scores; -sets adds programs to testdata/mix.
func TestBounds(t *testing.T) {
	for _, s := range append([]*set{loadMix(t).set}, loadSets(t)...) {
		score := func(what string, p *Profile) *truth.Accuracy {
			a := s.compare(p)
			t.Logf("%-8s %-34s block overlap %.3f, within 10 %% %.3f, edge overlap %.3f", s.Name, what, a.BlockOverlap, a.Within10, a.EdgeOverlap)
			return a
		}
		p := s.infer(t, s.Rec, Options{})
		plain := score("as inferred", p)
		scale := score("procedures right among one another", s.oracle(p, false))
		shape := score("blocks right in each procedure", s.oracle(p, true))
		for seed := range uint64(6) { // worlds differ by some hundredths
			score("a world as the model has it", s.infer(t, s.simulated(p, seed, outOfOrder.blockVar, outOfOrder.procSD), Options{}))
		}
		certain := score("the same, and times certain", s.infer(t, s.simulated(p, 0, 0, 0), Options{}))
		if scale.BlockOverlap < plain.BlockOverlap || shape.BlockOverlap < plain.BlockOverlap || certain.BlockOverlap < plain.BlockOverlap {
			t.Errorf("%s: to know more makes it worse", s.Name)
		}
	}
}
