package compare

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
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
		rounds := 400
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
