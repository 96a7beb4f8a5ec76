package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/truth"
)

// simulations are the causes of stalls that callgrind's simulations count the like of.
var simulations = []struct {
	cause  Cause
	events []string
	name   string
}{
	{ICache, []string{"I1mr"}, "misses of the first instruction cache"},
	{DCache, []string{"D1mr"}, "reads that miss the first data cache"},
	{Mispredict, []string{"Bcm", "Bim"}, "mispredicted branches"},
}

// estimates are the ends and the middle of the range of stall cycles, and what they must be better than.
var estimates = []struct {
	name string
	of   func(*Explanation, Cause) float64
}{
	{"most", func(e *Explanation, c Cause) float64 { return e.Causes[c].Most }},
	{"least", func(e *Explanation, c Cause) float64 { return e.Causes[c].Least }},
	{"middle", func(e *Explanation, c Cause) float64 { return (e.Causes[c].Least + e.Causes[c].Most) / 2 }},
	{"likeliest", func(e *Explanation, c Cause) float64 { return e.Likeliest[c] }},
	{"plain time", func(e *Explanation, _ Cause) float64 { return e.Cycles }},
}

// A stalled program has one point for each of its procedures, by number of the simulation and, of cycles, of the estimate.
type stalled struct {
	*program
	misses [][]float64   // per 1000 instructions of the program
	cycles [][][]float64 // percent of the program's cycles
}

// stalls pairs the stalls of the procedures of prof with what was simulated.
func (p *program) stalls(prof *infer.Profile) (*stalled, error) {
	x, err := New(prof, p.Rec)
	if err != nil {
		return nil, err
	}
	s := &stalled{program: p, misses: make([][]float64, len(simulations)), cycles: make([][][]float64, len(simulations))}
	for i := range s.cycles {
		s.cycles[i] = make([][]float64, len(estimates))
	}
	var cycles, insts float64
	for _, it := range p.simulated.Images {
		for _, n := range it.Insts {
			insts += float64(n)
		}
	}
	for ip, e := range x.All() {
		for path, it := range p.simulated.Images {
			if !truth.SamePath(path, ip.ID.Path) {
				continue
			}
			cycles += e.Cycles
			for i, sim := range simulations {
				s.misses[i] = append(s.misses[i], 1000*eventsOf(it, sim.events, e.Result)/insts)
				for j, est := range estimates {
					s.cycles[i][j] = append(s.cycles[i][j], est.of(e, sim.cause))
				}
			}
		}
	}
	for _, by := range s.cycles {
		for _, all := range by {
			for k := range all {
				all[k] *= 100 / cycles
			}
		}
	}
	return s, nil
}

// scatter is figure 10 of DCPI.
func (r *papers) scatter() {
	r.printf("## DCPI's figure 10: stall cycles and events of procedures\n\n")
	var inferred, exact []*stalled
	for _, p := range r.programs {
		if p.simulated == nil {
			continue
		}
		prof := p.infer(r.t, p.Rec, infer.Options{})
		if prof == nil {
			continue
		}
		for _, by := range []struct {
			prof *infer.Profile
			to   *[]*stalled
		}{{prof, &inferred}, {exactly(p.Set, prof), &exact}} {
			s, err := p.stalls(by.prof)
			if err != nil {
				r.t.Errorf("%s: %v", p.Name, err)
				continue
			}
			*by.to = append(*by.to, s)
		}
	}
	if len(inferred) == 0 {
		r.printf("Needs one of `-sets` with `simulated.gz`, of callgrind with `--cache-sim=yes --branch-sim=yes`.\n\n")
		return
	}
	r.printf("Each point is a procedure of one of %d programs: the cycles that a cause may explain of its stalls, and what callgrind\nsimulates, which knows nothing of prefetching or of this processor's predictor. r is Pearson's correlation over the\nprocedures of all programs. DCPI compared with events that the processor had counted, of %s procedures, and gave\ninference the exact counts. If *plain time* does as well as a cause, then the cause adds nothing.\n\n", len(inferred), "1310")
	r.printf("| r | most | least | middle | likeliest | plain time |\n| --- | ---: | ---: | ---: | ---: | ---: |\n| DCPI, I-cache misses, exact counts | 0.91 | 0.86 | 0.90 | | |\n")
	for i, sim := range simulations {
		for _, by := range []struct {
			name string
			all  []*stalled
		}{{"exact", exact}, {"inferred", inferred}} {
			r.printf("| %s: %s, %s counts |", sim.cause, sim.name, by.name)
			for j := range estimates {
				r.printf(" %s |", figure(pooled(by.all, i, j)))
			}
			r.printf("\n")
		}
	}
	r.printf("\nPer program, by inferred counts; *middle* and, in brackets, plain time:\n\n| program | procedures |")
	for _, sim := range simulations {
		r.printf(" %s |", sim.cause)
	}
	r.printf("\n| --- | ---: |%s\n", strings.Repeat(" ---: |", len(simulations)))
	for _, s := range inferred {
		r.printf("| %s | %d |", s.Name, len(s.misses[0]))
		for i := range simulations {
			one := []*stalled{s}
			r.printf(" %s (%s) |", figure(pooled(one, i, 2)), figure(pooled(one, i, 4)))
		}
		r.printf("\n")
	}
	r.printf("\n")
	r.printf("The reasons why r is lower here: a simulated miss costs little where the next cache has the line and the core has other\nwork, so that misses of the first cache are no time to be explained; callgrind's predictor is simpler than this\nprocessor's, and its misses are others; and time is caught late, in another block or procedure.\n\n")
	r.draw("figure10.svg", "figure 10: stall cycles of procedures by cause against simulated events", scatterPlots(inferred))
}

// figure writes a correlation; one of less than two different points is unknown.
func figure(r float64) string {
	if math.IsNaN(r) {
		return ""
	}
	return fmt.Sprintf("%.2f", r)
}

// pooled is the correlation of an estimate with a simulation over all procedures.
func pooled(all []*stalled, simulation, estimate int) float64 {
	var x, y []float64
	for _, s := range all {
		x, y = append(x, s.misses[simulation]...), append(y, s.cycles[simulation][estimate]...)
	}
	return correlation(x, y)
}

func scatterPlots(all []*stalled) *picture {
	shown := []int{0, 1, 2, 4}
	p := &picture{w: 40 + 245*float64(len(shown)), h: 215 * float64(len(simulations))}
	for i, sim := range simulations {
		xMost := 0.0
		for _, s := range all {
			xMost = max(xMost, slices.Max(s.misses[i]))
		}
		for k, j := range shown {
			yMost := 0.0
			for _, s := range all {
				yMost = max(yMost, slices.Max(s.cycles[i][j]))
			}
			left, top := 58+245*float64(k), 8+215*float64(i)
			x, y := axis{from: left, to: left + 175, most: max(xMost, 1e-3)}, axis{from: top + 155, to: top + 20, most: max(yMost, 1e-3)}
			p.title(left+4, top+9, fmt.Sprintf("%s, %s: r = %s", sim.cause, estimates[j].name, figure(pooled(all, i, j))))
			p.frame(x, y, shortEvents(sim.events)+" per 1000 instructions", "cycles (% of all)")
			var at [][2]float64
			for _, s := range all {
				for n := range s.misses[i] {
					at = append(at, [2]float64{x.at(s.misses[i][n]), y.at(s.cycles[i][j][n])})
				}
			}
			p.dots(at, "#3b82d6")
		}
	}
	return p
}

func shortEvents(events []string) string { return strings.Join(events, " + ") }

// An idealTime is that of one procedure: cycles of its samples, and its ideal time by inferred and by exact counts.
type idealTime struct {
	name                    string
	cycles, inferred, exact float64
}

// ideals are the procedures of a program whose executions are known exactly, and the instructions that they executed.
func (p *program) ideals(prof *infer.Profile) (all []idealTime, insts, exactInsts float64, err error) {
	x, err := New(prof, p.Rec)
	if err != nil {
		return nil, 0, 0, err
	}
	for _, ip := range prof.Images {
		counted := false
		for path := range p.Truth.Images {
			counted = counted || truth.SamePath(path, ip.ID.Path)
		}
		if !counted {
			continue
		}
		times := make([]idealTime, len(ip.Procs))
		counts := make([][2]float64, len(ip.Procs))
		InParallel(len(ip.Procs), func(i int) {
			r := ip.Procs[i]
			e, exact := x.Explain(ip, r), x.Explain(ip, exactResult(p.Set, ip, r))
			a, b := e.Ideal(), exact.Ideal()
			times[i] = idealTime{r.Proc.Name, e.Cycles, a.Ideal, b.Ideal}
			counts[i] = [2]float64{a.Instructions, b.Instructions}
		})
		all = append(all, times...)
		for _, n := range counts {
			insts, exactInsts = insts+n[0], exactInsts+n[1]
		}
	}
	return all, insts, exactInsts, nil
}

// totalIdeal adds up ideal times.
func totalIdeal(all []idealTime) (sum idealTime) {
	for _, p := range all {
		sum.cycles, sum.inferred, sum.exact = sum.cycles+p.cycles, sum.inferred+p.inferred, sum.exact+p.exact
	}
	return sum
}

// ideal is table 4-2 of SpeedShop's guide.
func (r *papers) ideal() {
	r.printf("## SpeedShop's table 4-2: ideal time\n\n")
	r.printf("SpeedShop's experiment `ideal` instruments the program and multiplies exact counts by the least time of each\ninstruction; its table puts that beside the time by samples. `backfeed prof --experiment ideal` infers the counts\ninstead. *Exact* are callgrind's counts through the same machine model, so that only the counts are at stake. A\nprocedure's share of the ideal time is compared, as the runs may differ in number: the overlap is the sum of the smaller\nshare of each, r Pearson's correlation of the shares.\n\n")
	r.printf("| program | procedures | ideal cycles per instruction, inferred | exact | inferred/exact | overlap of ideal time, inferred and exact | r | overlap of sampled time and exact ideal time | sampled/ideal time, inferred |\n|%s\n", " --- |"+strings.Repeat(" ---: |", 8))
	type point struct{ x, y float64 }
	var points []point
	var shown []idealTime
	var shownName string
	var sum [6]float64
	n := 0.0
	for _, p := range r.programs {
		prof := p.infer(r.t, p.Rec, infer.Options{})
		if prof == nil {
			continue
		}
		all, insts, exactInsts, err := p.ideals(prof)
		t := totalIdeal(all)
		if err != nil || t.inferred == 0 || t.exact == 0 {
			r.t.Logf("%s: no ideal time: %v", p.Name, err)
			continue
		}
		var both, time float64
		var x, y []float64
		for _, q := range all {
			a, b, c := q.inferred/t.inferred, q.exact/t.exact, q.cycles/t.cycles
			both, time = both+min(a, b), time+min(c, b)
			x, y = append(x, b), append(y, a)
			if a > 0 && b > 0 {
				points = append(points, point{100 * b, 100 * a})
			}
		}
		row := [6]float64{t.inferred / insts, t.exact / exactInsts, t.inferred / insts / (t.exact / exactInsts), both, time, t.cycles / t.inferred}
		r.printf("| %s | %d | %.3f | %.3f | %.3f | %.3f | %s | %.3f | %.2f |\n", p.Name, len(all), row[0], row[1], row[2], row[3], figure(correlation(x, y)), row[4], row[5])
		for i, v := range row {
			sum[i] += v
		}
		n++
		if both < 0 || both > 1+1e-9 || time > 1+1e-9 {
			r.t.Errorf("%s: overlaps of %g and %g", p.Name, both, time)
		}
		if shown == nil || strings.Contains(p.Name, "sqlite") {
			shown, shownName = all, p.Name
		}
	}
	r.printf("| mean | | %.3f | %.3f | %.3f | %.3f | | %.3f | %.2f |\n\n", sum[0]/n, sum[1]/n, sum[2]/n, sum[3]/n, sum[4]/n, sum[5]/n)
	if len(points) == 0 {
		return
	}
	p := &picture{w: 420, h: 360}
	x, y := axis{from: 60, to: 400, least: 0.001, most: 100, log: true}, axis{from: 310, to: 20, least: 0.001, most: 100, log: true}
	p.frame(x, y, "ideal time by exact counts (% of the program)", "ideal time, inferred (% of the program)")
	p.line(x.from, y.from, x.to, y.to, gridColor)
	var at [][2]float64
	for _, q := range points {
		at = append(at, [2]float64{x.at(q.x), y.at(q.y)})
	}
	p.dots(at, "#3b82d6")
	r.draw("ideal.svg", "inferred ideal time of procedures against that by exact counts", p)
	r.printf("The procedures of %s with the most ideal time, as the table of the guide has them:\n\n| procedure | samples, %% of the time | ideal, inferred, %% | ideal, exact, %% |\n| --- | ---: | ---: | ---: |\n", shownName)
	slices.SortFunc(shown, func(a, b idealTime) int {
		return cmp.Or(cmp.Compare(b.exact, a.exact), strings.Compare(a.name, b.name))
	})
	t := totalIdeal(shown)
	for _, q := range shown[:min(12, len(shown))] {
		r.printf("| `%s` | %.1f | %.1f | %.1f |\n", q.name, 100*q.cycles/t.cycles, 100*q.inferred/t.inferred, 100*q.exact/t.exact)
	}
	r.printf("\n")
}
