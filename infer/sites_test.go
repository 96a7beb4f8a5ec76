package infer

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"backfeed/infer/image"
	"backfeed/infer/truth"
)

// usualProbing is what probes cost on Linux 6.18.
var usualProbing = Probing{MaxRate: 500e3, Window: 4e-3, Fixed: 1e-3, PerHit: 0.6e-6}

// A prober answers for sites what probes would find out.
type prober struct {
	*set
	scale            float64 // true executions of the recording by those of truth
	relSD            float64 // of runs
	rng              *rand.Rand
	seen             map[probedSite]bool
	known            []Known
	noRuns, noShares bool
}

type probedSite struct {
	image *image.Image
	addr  image.Addr
}

func (p *prober) probe(s Site) bool {
	key := probedSite{s.Image.Image, s.Addr}
	if p.seen[key] {
		return false
	}
	p.seen[key] = true
	b := &s.Proc.Proc.Blocks[s.Block]
	k := Known{Image: s.Image.ID, Addr: s.Addr}
	n := p.exact(s.Image, b)
	ran := false // valgrind may have run another version of it, for the processor that it is
	for i := range s.Proc.Proc.Blocks {
		ran = ran || p.exact(s.Image, &s.Proc.Proc.Blocks[i]) > 0
	}
	first := 0.0
	for path, it := range p.Truth.Images {
		if truth.SamePath(path, s.Image.ID.Path) || len(p.Truth.Images) == 1 {
			first = max(first, float64(it.Insts[b.Start]))
		}
	}
	if !ran || first != n { // or has counts between instructions
		return false
	}
	if s.Runs && !p.noRuns {
		k.N, k.RelSD = n/p.scale*math.Exp(p.rng.NormFloat64()*p.relSD), math.Hypot(p.relSD, 0.02)
	}
	if s.Cond >= 0 && n > 0 && !p.noShares {
		k.Taken = p.branches(s.Image, b) / n
		k.TakenSD = math.Hypot(0.03*k.Taken*(1-k.Taken), 0.0005)
	}
	if k.RelSD == 0 && k.TakenSD == 0 {
		return false
	}
	p.known = append(p.known, k)
	return true
}

// hottestFirst returns the sites of p, hottest first.
func hottestFirst(p *Profile, seconds float64, opt Probing) (all []Site) {
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			sites := ip.Image.ProbeSites(r.Proc)
			for b := range r.Block {
				if len(sites[b]) > 0 && r.Block[b].N > 0 {
					s := Site{Image: ip, Proc: r, Block: b, ProbeSite: sites[b][0], Rate: r.Block[b].N / seconds}
					s.Runs = s.Rate <= opt.MaxRate
					if s.Runs || s.Cond >= 0 {
						all = append(all, s)
					}
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b Site) int { return cmp.Compare(b.Rate, a.Rate) })
	return all
}

// TestSites: no site is asked for twice, none of what cannot be probed or runs too
// often, and what a few find out makes counts right that were not.
func TestSites(t *testing.T) {
	m := loadMix(t)
	plain := m.infer(t)
	seconds := secondsOf(m.Rec.Counts)
	pr := &prober{set: m.set, scale: m.compare(plain).Scale, relSD: 0.05, rng: rand.New(rand.NewPCG(1, 2)), seen: map[probedSite]bool{}}
	for range 4 {
		sites := m.set.infer(t, m.Rec, Options{Known: pr.known, Sites: 10, Probing: usualProbing}).Sites
		if len(sites) == 0 {
			t.Error("no sites")
		}
		asked := map[image.Addr]bool{}
		for _, s := range sites {
			if asked[s.Addr] || s.Gain <= 0 || s.Cost <= 0 || s.Runs && s.Rate > usualProbing.MaxRate || !s.Runs && s.Cond < 0 ||
				!near(s.Rate, s.Proc.Block[s.Block].N/seconds, 0.01) && s.Rate > 1000 {
				t.Errorf("%s: %+v", s.Proc.Proc.Name, s)
			}
			asked[s.Addr] = true
			pr.probe(s)
		}
	}
	a, b := m.compare(plain), m.compare(m.set.infer(t, m.Rec, Options{Known: pr.known}))
	t.Logf("%d sites: block overlap %.3f, was %.3f; within 10 %% %.3f, was %.3f", len(pr.known), b.BlockOverlap, a.BlockOverlap, b.Within10, a.Within10)
	if b.BlockOverlap < a.BlockOverlap+0.04 {
		t.Errorf("block overlap %.3f, was %.3f", b.BlockOverlap, a.BlockOverlap)
	}
	opt := usualProbing
	opt.MaxRate = 0
	for _, s := range m.set.infer(t, m.Rec, Options{Sites: 20, Probing: opt}).Sites {
		if s.Runs || s.Cond < 0 {
			t.Errorf("%s: %+v", s.Proc.Proc.Name, s)
		}
	}
}

// TestSitesSets shows what probes of the programs of -sets would be worth: outcomes alone,
// runs of cool places alone, and both; in the order of Infer and hottest first.
func TestSitesSets(t *testing.T) {
	sets := loadSets(t)
	if len(sets) == 0 {
		t.Skip("no -sets")
	}
	for _, st := range []struct {
		name             string
		noRuns, noShares bool
		hottest          bool
		relSD            float64
	}{
		{"outcomes", true, false, false, 0},
		{"outcomes, hottest first", true, false, true, 0},
		{"runs", false, true, false, 0.05},
		{"both", false, false, false, 0.05},
		{"both, hottest first", false, false, true, 0.05},
		{"both, runs to 20 %", false, false, false, 0.2},
		{"both, runs to 40 %", false, false, false, 0.4},
	} {
		t.Run(st.name, func(t *testing.T) {
			opt := usualProbing
			if st.noRuns {
				opt.MaxRate = 0
			}
			for _, s := range sets {
				plain := s.infer(t, s.Rec, Options{})
				pr := &prober{set: s, scale: s.compare(plain).Scale, relSD: st.relSD, rng: rand.New(rand.NewPCG(1, 2)),
					seen: map[probedSite]bool{}, noRuns: st.noRuns, noShares: st.noShares}
				cost, sites := 0.0, 0
				for _, most := range []int{100, 200, 400, 800} {
					for more := true; more && sites < most; {
						list := hottestFirst(plain, secondsOf(s.Rec.Counts), opt)
						if !st.hottest {
							list = s.infer(t, s.Rec, Options{Known: pr.known, Sites: 100, Probing: opt}).Sites
						}
						more = false
						for _, x := range list {
							if sites < most && pr.probe(x) {
								more = true
								sites++
								cost += opt.cost(x.Rate)
							}
						}
					}
					a := s.compare(s.infer(t, s.Rec, Options{Known: pr.known}))
					high, medium := a.BlockProgramWide[High].Samples, a.BlockProgramWide[Medium].Samples
					t.Logf("%-8s %d sites, %.2f s: block overlap %.3f, within 10 %% %.3f, edge overlap %.3f; high %.2f, %.3f within 10 %%; medium %.2f, %.3f within a factor 2",
						s.Name, sites, cost, a.BlockOverlap, a.Within10, a.EdgeOverlap, high.Weight, high.Within10, medium.Weight, medium.Within2x)
				}
			}
		})
	}
}
