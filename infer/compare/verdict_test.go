package compare

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"backfeed/testdata/sets"
)

// A program of a world has procedures of such costs per unit of work, of which some were changed: those before
// changed are. A procedure serves one of two handlers, or both.
type program struct {
	cost    []float64
	handler []int // 0 is both, otherwise 1 or 2
	changed int
}

func (w *world) program(procs, changed int) *program {
	p := &program{changed: changed}
	var sum float64
	for i := range procs {
		p.cost = append(p.cost, math.Exp(2*w.rnd.NormFloat64()))
		p.handler = append(p.handler, i%3)
		sum += p.cost[i]
	}
	own := 0.0
	for i := range changed {
		own += p.cost[i]
	}
	for i := range p.cost { // changed procedures take half of the time
		if i < changed {
			p.cost[i] *= 0.5 / own
		} else {
			p.cost[i] *= 0.5 / (sum - own)
		}
	}
	return p
}

func proc(i int) Thing { return Thing{Image: "server", Proc: fmt.Sprintf("p%d", i)} }

// runs are k recordings of p: changed procedures cost so many times as much, and the two handlers get such shares of
// the work. A procedure differs between recordings by half as much as all of it, too.
func (w *world) runs(k int, p *program, cost float64, first float64) []Run {
	var all []Run
	for range k {
		r := Run{Samples: map[Thing]uint64{}, Period: 2.5e-4, Units: w.samples}
		factor := w.gamma(w.sd)
		for i, c := range p.cost {
			if i < p.changed {
				c *= cost
			}
			switch p.handler[i] {
			case 1:
				c *= 2 * first
			case 2:
				c *= 2 * (1 - first)
			}
			if n := w.poisson(w.samples * c * factor * w.gamma(w.sd/2)); n > 0 {
				r.Samples[proc(i)] = uint64(n)
			}
		}
		all = append(all, r)
	}
	return all
}

func (p *program) unchanged() map[Thing]bool {
	all := map[Thing]bool{}
	for i := p.changed; i < len(p.cost); i++ {
		all[proc(i)] = true
	}
	return all
}

// TestJudge: verdicts of simulated deployments. What says how often an outcome may be, or has to be.
func TestJudge(t *testing.T) {
	const none = 0.05
	for i, tt := range []struct {
		name      string
		k         int
		sd        float64
		units     bool    // are known
		reference bool    // what is unchanged is known
		cost      float64 // of changed procedures, in new
		load      float64 // of all code per unit, in new: units that cost more
		first     float64 // share of the work of the first handler in new; it is 0.5 in old
		outcomes  []Outcome
		low, high float64 // how often it is one of these
		rows      bool    // changed rows have to be found, and no others in more than 5 of 100; otherwise no rows at all
	}{
		{"equal builds", 5, 0.02, true, true, 1, 1, 0.5, []Outcome{Better, Worse}, 0, none, false},
		{"equal builds, units only", 5, 0.02, true, false, 1, 1, 0.5, []Outcome{Better, Worse}, 0, none, false},
		{"equal builds, reference only", 5, 0.02, false, true, 1, 1, 0.5, []Outcome{Better, Worse}, 0, none, false},
		{"equal builds, shares only", 5, 0.02, false, false, 1, 1, 0.5, []Outcome{Shares}, 1, 1, false},
		{"equal builds, one recording each", 1, 0.02, true, true, 1, 1, 0.5, []Outcome{Unsure}, 1, 1, false},
		{"6 % of half, units", 5, 0.01, true, true, 0.94, 1, 0.5, []Outcome{Better}, 0.85, 1, true},
		{"6 % of half, reference only", 5, 0.01, false, true, 0.94, 1, 0.5, []Outcome{Better}, 0.85, 1, true},
		{"6 % more of half, units", 5, 0.01, true, true, 1.06, 1, 0.5, []Outcome{Worse}, 0.85, 1, true},
		{"units cost more", 5, 0.02, true, true, 1, 1.1, 0.5, []Outcome{Better, Worse}, 0, none, false},
		{"units cost more, and it is better", 5, 0.01, true, true, 0.85, 1.1, 0.5, []Outcome{Worse}, 0, none, false},
		{"other handlers, reference only", 5, 0.02, false, true, 1, 1, 0.6, []Outcome{Better, Worse}, 0, none, false},
		{"other handlers, units", 5, 0.02, true, true, 1, 1, 0.6, []Outcome{Better, Worse}, 0, 0.06, false},
	} {
		rounds := 200
		if testing.Short() {
			rounds = 100
		}
		w := &world{rnd: rand.New(rand.NewPCG(2027, uint64(i))), samples: 50_000, sd: tt.sd}
		var is, wrongRows, foundRows, known int
		for range rounds {
			p := w.program(60, 20)
			q := Question{Old: w.runs(tt.k, p, 1, 0.5), New: w.runs(tt.k, p, tt.cost, tt.first)}
			for i := range q.New {
				q.New[i].Units /= tt.load
			}
			if !tt.units {
				for _, runs := range [][]Run{q.Old, q.New} {
					for i := range runs {
						runs[i].Units = 0
					}
				}
			}
			if tt.reference {
				q.Unchanged = p.unchanged()
			}
			v := Judge(q)
			for _, o := range tt.outcomes {
				if v.Outcome == o {
					is++
				}
			}
			wrong := false
			for _, r := range v.Rows {
				var n int
				fmt.Sscanf(r.Proc, "p%d", &n)
				real := tt.cost != 1 && n < p.changed
				wrong = wrong || r.Clear && !real
				if real && r.Shares[0] > 0.05 {
					known++
					if r.Clear {
						foundRows++
					}
				}
			}
			if wrong {
				wrongRows++
			}
		}
		t.Logf("%s: %v in %d of %d; rows wrongly clear in %d; rows above 5 %% of the time found: %d of %d", tt.name, tt.outcomes, is, rounds, wrongRows, foundRows, known)
		least := rounds - atMost(rounds, 1-tt.low)
		if is < least && tt.low > 0 || is > atMost(rounds, tt.high) {
			t.Errorf("%s: %v in %d of %d", tt.name, tt.outcomes, is, rounds)
		}
		if tt.load == 1 && tt.first == 0.5 && !tt.rows && wrongRows > atMost(rounds, 0.05) {
			t.Errorf("%s: rows wrongly clear in %d of %d", tt.name, wrongRows, rounds)
		}
		if tt.rows && foundRows*2 < known {
			t.Errorf("%s: %d of %d changed procedures found", tt.name, foundRows, known)
		}
	}
}

// split deals the samples of a tally out to k recordings of either side, whose lengths differ by sd beyond chance, each a
// recording of as many units of work. The new side loses a share of its samples in what is changed.
func (w *world) split(tally map[Thing]uint64, k int, changed map[Thing]bool, less float64) (old, new []Run) {
	all := make([]Run, 2*k)
	upTo := make([]float64, 2*k)
	sum := 0.0
	for i := range all {
		all[i] = Run{Samples: map[Thing]uint64{}, Period: 1, Units: 1000}
		sum += w.gamma(w.sd)
		upTo[i] = sum
	}
	for _, t := range slices.SortedFunc(maps.Keys(tally), Thing.Compare) {
		for range tally[t] {
			i, _ := slices.BinarySearch(upTo, w.rnd.Float64()*sum)
			if i >= k && changed[t] && w.rnd.Float64() < less {
				continue
			}
			all[i].Samples[t]++
		}
	}
	return all[:k], all[k:]
}

// TestThinned deals the samples of real recordings out to 5 of either side: of equal builds a difference is found in at most
// 5 of 100, by units, by unchanged code and by procedure; planted ones are found as often as the simulation has it. With -sets,
// all programs there.
func TestThinned(t *testing.T) {
	const k, sd = 5, 0.01
	var equal, equalCode, rows, all int
	plants := []float64{0.01, 0.03, 0.10}
	found := make([]int, len(plants))
	tried := make([]int, len(plants))
	for i, s := range append([]*sets.Set{sets.Load(t, "../../testdata/mix")}, sets.Named(t)...) {
		set := &Set{Name: s.Name, Recording: s.Rec}
		if _, err := ChooseEvent([]*Set{set}, ""); err != nil {
			t.Fatal(err)
		}
		tally := set.Tally(s.Open, NamesOf([]*Set{set}), nil, false)
		if set.Total < 2000 || len(tally) < 4 {
			continue
		}
		// Every other procedure was changed, the largest first.
		things := slices.SortedFunc(maps.Keys(tally), func(a, b Thing) int { return cmp.Or(cmp.Compare(tally[b], tally[a]), a.Compare(b)) })
		changed, same := map[Thing]bool{}, map[Thing]bool{}
		var part uint64
		for i, th := range things {
			if i%2 == 0 {
				changed[th] = true
				part += tally[th]
			} else {
				same[th] = true
			}
		}
		w := &world{rnd: rand.New(rand.NewPCG(27, uint64(i))), sd: sd}
		for range 20 {
			all++
			old, new := w.split(tally, k, nil, 0)
			v := Judge(Question{Old: old, New: new, Unchanged: same})
			if v.Effect.Clear() {
				equal++
			}
			if v.Code != nil && v.Code.Equal.Clear() {
				equalCode++
			}
			if v.Clear > 0 {
				rows++
			}
			for n, less := range plants {
				share := float64(part) / float64(set.Total)
				if less > share/2 {
					continue
				}
				tried[n]++
				old, new := w.split(tally, k, changed, less/share)
				if v := Judge(Question{Old: old, New: new, Unchanged: same}); v.Outcome == Better {
					found[n]++
				}
			}
		}
		t.Logf("%s: %d samples in each of %d recordings a side, %d procedures: equal builds %d, by code %d, by procedure %d of %d so far; 1, 3 and 10 %% less found in %v of %v",
			s.Name, set.Total/2/k, k, len(tally), equal, equalCode, rows, all, found, tried)
	}
	most := atMost(all, 0.05)
	if all == 0 || equal > most || equalCode > most || rows > most {
		t.Errorf("equal builds: a difference in %d by units, %d by unchanged code, %d by procedure, of %d; want at most %d", equal, equalCode, rows, all, most)
	}
	if found[2] < tried[2]*9/10 {
		t.Errorf("10 %% less: found in %d of %d", found[2], tried[2])
	}
}
