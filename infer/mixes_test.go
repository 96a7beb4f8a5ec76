package infer

import (
	"hash/fnv"
	"math"
	"math/rand/v2"
	"testing"

	"backfeed/sample"
	"backfeed/testdata/sets"
)

// hosts is how many machines a fleet of TestMixes has, beside the odd one.
const hosts = 10

// A mixing is a way in which the recordings of several machines come together.
type mixing struct {
	name string
	of   func(*set) (parts []*sample.Recording, mix *sample.Recording) // nil where the set lacks what it needs

	// most is by how much the block overlap of the mix may be below that of the best part, in the mean over programs.
	most float64
}

var mixings = []mixing{
	{"ten hosts", func(s *set) ([]*sample.Recording, *sample.Recording) {
		parts := fleet(s)
		return parts[:1], sample.Merge(parts...) // parts are alike
	}, 0},
	{"ten hosts, one of them at weight 9", func(s *set) ([]*sample.Recording, *sample.Recording) {
		parts := fleet(s)
		return parts[:1], sample.Merge(append(parts[1:], parts[0].Scale(9))...)
	}, 0},
	{"ten hosts, an odd one with 100 times the samples of each", func(s *set) ([]*sample.Recording, *sample.Recording) {
		whole := sample.Merge(fleet(s)...)
		return []*sample.Recording{whole}, sample.Merge(whole, odd(s).Scale(100))
	}, math.Inf(1)},
	{"the same, where no host may have more than a tenth", func(s *set) ([]*sample.Recording, *sample.Recording) {
		whole := sample.Merge(fleet(s)...)
		return []*sample.Recording{whole}, sample.Merge(whole, odd(s).Scale(100).Scale(float64(whole.Samples())/9/float64(100*odd(s).Samples())))
	}, 0.02},
	{"nine hosts with timers, one calibrated", func(s *set) ([]*sample.Recording, *sample.Recording) {
		if s.Calibrated == nil {
			return nil, nil
		}
		parts := []*sample.Recording{sample.Merge(fleet(s)[1:]...), s.Calibrated}
		return parts, sample.Merge(parts...)
	}, 0.02},
	{"hosts of two processors", func(s *set) ([]*sample.Recording, *sample.Recording) {
		if s.Other == nil {
			return nil, nil
		}
		parts := []*sample.Recording{s.Rec, s.Other}
		return parts, sample.Merge(parts...)
	}, 0.03},
}

// fleet returns what ten machines that run the program of s would have recorded: a tenth of the samples each.
func fleet(s *set) (all []*sample.Recording) {
	for i := range uint64(hosts) {
		r := sets.Resampled(s.Rec, i, float64(s.Rec.Samples())/hosts, func(sample.Offset) float64 { return 1 })
		for k, c := range r.Counts {
			for j, ic := range s.Rec.Counts[k].Images {
				c.AddProcesses(j, max(1, ic.Processes/hosts)*min(1, ic.Processes))
			}
		}
		all = append(all, r)
	}
	return all
}

// odd returns what a machine recorded with another workload, as much as one of the fleet: each procedure has another share of
// the time, by a factor whose logarithm has the standard deviation 1.5.
func odd(s *set) *sample.Recording {
	out := &sample.Recording{}
	for _, c := range s.Rec.Counts {
		n := sample.NewCounts(c.CPU, c.Event)
		for _, ic := range c.Images {
			at, im := n.Image(ic.ID), s.Images[ic.ID.Key()]
			for off, k := range ic.At {
				sym := -1
				if im != nil {
					if a, ok := im.AddrOf(off); ok {
						sym = im.Find(a)
					}
				}
				h := fnv.New64a()
				h.Write([]byte{byte(sym), byte(sym >> 8), byte(sym >> 16)})
				other := math.Exp(1.5 * rand.New(rand.NewPCG(h.Sum64(), 1)).NormFloat64())
				n.AddSample(at, off, uint64(math.Ceil(float64(k)*other)))
			}
		}
		out.Add(n)
	}
	return sets.Resampled(out, hosts, float64(s.Rec.Samples())/hosts, func(sample.Offset) float64 { return 1 })
}

// fewest is how many programs a mean has to be of to be held to anything: where a search ends moves single ones by 0.03.
const fewest = 4

// TestMixes: what machines recorded together is about as good as the best of it, over the programs of -sets. With -v it prints the
// table of testdata/fleet/README.md.
func TestMixes(t *testing.T) {
	all := loadSets(t)
	if len(all) == 0 {
		t.Skip("no -sets")
	}
	defer func(usual, known int) { usualEffort.draws, knownEffort.draws = usual, known }(usualEffort.draws, knownEffort.draws)
	usualEffort.draws, knownEffort.draws = 1, 1 // they tell confidence, which is not looked at
	known := map[string]float64{}               // overlap by the bytes of the recording
	overlap := func(s *set, r *sample.Recording) float64 {
		key := s.Dir + string(r.Encode())
		o, ok := known[key]
		if !ok {
			o = s.compare(s.infer(t, r, Options{})).BlockOverlap
			known[key] = o
		}
		return o
	}
	for _, m := range mixings {
		var best, mixed, n float64
		for _, s := range all {
			parts, mix := m.of(s)
			if mix == nil {
				continue
			}
			var scores []float64
			top := 0.0
			for _, r := range parts {
				o := overlap(s, r)
				scores, top = append(scores, o), max(top, o)
			}
			got := overlap(s, mix)
			t.Logf("%s: %s: parts %.3f, mixed %.3f", m.name, s.Name, scores, got)
			best, mixed, n = best+top, mixed+got, n+1
		}
		if n == 0 {
			t.Logf("%s: no set has what it needs", m.name)
			continue
		}
		t.Logf("| %s | %.0f | %.3f | %.3f |", m.name, n, best/n, mixed/n)
		if n >= fewest && mixed < best-n*m.most {
			t.Errorf("%s: a block overlap of %.3f in the mean over %.0f programs, of the best parts %.3f", m.name, mixed/n, n, best/n)
		}
	}
}
