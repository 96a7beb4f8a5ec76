package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/truth"
	"backfeed/sample"
)

// simulations are the causes of stalls that callgrind's simulations count the like of.
var simulations = []struct {
	cause  Cause
	events []string
	name   string
	paper  map[string]float64 // r in DCPI, by estimate
}{
	{ICache, []string{"I1mr"}, "misses of the first instruction cache", map[string]float64{"most": 0.91, "least": 0.86, "middle": 0.90}},
	{DCache, []string{"D1mr"}, "reads that miss the first data cache", nil},
	{Mispredict, []string{"Bcm", "Bim"}, "mispredicted branches", nil},
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
	{"expected", func(e *Explanation, c Cause) float64 {
		if c == Mispredict {
			return e.Mispredicted
		}
		return 0
	}},
}

// expected is the number of the estimate that is of events, not of cycles.
const expected = 5

// A stalled program has one point for each of its procedures, by number of the simulation and, of cycles, of the estimate.
type stalled struct {
	*program
	misses [][]float64   // per 1000 instructions of the program
	cycles [][][]float64 // percent of the program's cycles; of the estimate expected, events per 1000 instructions
}

// stalls pairs the stalls of the procedures of prof with what was simulated.
func (p *program) stalls(prof *infer.Profile, rec *sample.Recording) (*stalled, error) {
	x, err := New(prof, rec)
	if err != nil {
		return nil, err
	}
	s := &stalled{program: p, misses: make([][]float64, len(simulations)), cycles: make([][][]float64, len(simulations))}
	for i := range s.cycles {
		s.cycles[i] = make([][]float64, len(estimates))
	}
	var cycles, inferred, insts float64
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
			inferred += e.Result.Instructions()
			for i, sim := range simulations {
				s.misses[i] = append(s.misses[i], 1000*eventsOf(it, sim.events, e.Result)/insts)
				for j, est := range estimates {
					s.cycles[i][j] = append(s.cycles[i][j], est.of(e, sim.cause))
				}
			}
		}
	}
	for _, by := range s.cycles {
		for j, all := range by {
			scale := 100 / cycles
			if j == expected {
				scale = 1000 / inferred
			}
			for k := range all {
				all[k] *= scale
			}
		}
	}
	return s, nil
}

// scatter is figure 10 of DCPI.
func (r *papers) scatter() {
	r.printf("## DCPI's figure 10: stall cycles and events of procedures\n\n")
	inferred := r.inferred
	if len(inferred) == 0 {
		r.printf("Needs one of `-sets` with `simulated.gz`, of callgrind with `--cache-sim=yes --branch-sim=yes`.\n\n")
		return
	}
	procs := 0
	for _, s := range inferred {
		procs += len(s.misses[0])
	}
	r.printf("Each point is one of %d procedures of %d programs: the cycles that a cause may explain of its stalls, *most* and *least*, the *middle* of both, and *plain time*, all cycles of the procedure, and, of branches, how many are *expected* to be mispredicted by where they go alone; beside what callgrind simulates, which knows nothing of prefetching or of this processor's predictor. r is Pearson's correlation over the procedures of all programs. DCPI compared with events that the processor had counted, of 1310 procedures, and gave inference the exact counts, so that culprits alone were at stake: the rows of exact counts are the like of it. If *plain time* does as well as a cause, then the cause adds nothing.\n\n", procs, len(inferred))
	r.printf("| r | most | least | middle | likeliest | plain time | expected |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n| DCPI, I-cache misses, exact counts | 0.91 | 0.86 | 0.90 | | | |\n")
	for i, sim := range simulations {
		for _, by := range []struct {
			name string
			all  []*stalled
		}{{"exact counts", r.exact}, {"inferred counts", inferred}, {fmt.Sprintf("counts of %d calibrated recordings", len(r.calibrated)), r.calibrated}} {
			if len(by.all) == 0 {
				continue
			}
			r.printf("| %s: %s, %s |", sim.cause, sim.name, by.name)
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
	r.printf("The reasons why r is lower here: a simulated miss costs little where the next cache has the line and the core has other work, so that misses of the first cache are no time to be explained; callgrind's predictor is simpler than this processor's, and its misses are others; and time is caught late, in another block or procedure.\n\n")
	r.printf("By exact counts, as in DCPI, and then by inferred ones:\n\n")
	r.draw("figure10.svg", "figure 10: stall cycles of procedures by cause against simulated events, by exact counts", scatterPlots(r.exact))
	r.draw("figure10inferred.svg", "the same by inferred counts", scatterPlots(inferred))
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
	p := &picture{w: 40 + 245*float64(len(shown)), h: 225 * float64(len(simulations))}
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
			left, top := 62+245*float64(k), 8+225*float64(i)
			x, y := axis{from: left, to: left + 175, most: max(xMost, 1e-3)}, axis{from: top + 165, to: top + 30, most: max(yMost, 1e-3)}
			p.title(left+4, top+9, fmt.Sprintf("%s, %s: r = %s", sim.cause, estimates[j].name, figure(pooled(all, i, j))))
			if theirs := sim.paper[estimates[j].name]; theirs > 0 {
				p.text(left+4, top+22, "start", fmt.Sprintf("DCPI: r = %.2f", theirs))
			}
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

// idealTimes are those of a program's procedures whose executions are known exactly.
type idealTimes struct {
	*program
	all                []idealTime
	sum                idealTime
	insts, exactInsts  float64 // executed
	worst              string  // the procedure whose share is furthest off
	overlap, timeAlike float64 // of ideal time, inferred and exact; of sampled time and exact ideal time
	r                  float64
}

// ideals are the ideal times of the procedures of prof.
func (p *program) ideals(prof *infer.Profile) (*idealTimes, error) {
	x, err := New(prof, p.Rec)
	if err != nil {
		return nil, err
	}
	out := &idealTimes{program: p}
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
		out.all = append(out.all, times...)
		for _, n := range counts {
			out.insts, out.exactInsts = out.insts+n[0], out.exactInsts+n[1]
		}
	}
	t := totalIdeal(out.all)
	out.sum = t
	var x1, y1 []float64
	most := 0.0
	for _, q := range out.all {
		a, b, c := q.inferred/t.inferred, q.exact/t.exact, q.cycles/t.cycles
		out.overlap, out.timeAlike = out.overlap+min(a, b), out.timeAlike+min(c, b)
		x1, y1 = append(x1, b), append(y1, a)
		if off := math.Abs(a - b); off > most {
			most, out.worst = off, fmt.Sprintf("`%s` %s for %s", q.name, percent(a), percent(b))
		}
	}
	out.r = correlation(x1, y1)
	return out, nil
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
	r.printf("SpeedShop's experiment `ideal` instruments the program and multiplies exact counts by the least time of each instruction; its table puts that beside the time by samples. `backfeed prof --experiment ideal` infers the counts instead. *Exact* are callgrind's counts of instructions through the same machine model, so that only the counts are at stake. A procedure's share of the ideal time is compared, as the runs may differ in number: the overlap is the sum of the smaller share of each, r Pearson's correlation of the shares. The last column is the procedure whose share is furthest off, in %% inferred and exact.\n\n")
	r.printf("| program | procedures | ideal cycles per instruction, inferred | exact | inferred/exact | overlap of ideal time, inferred and exact | r | overlap of sampled time and exact ideal time | sampled/ideal time, inferred | furthest off |\n|%s --- |\n", " --- |"+strings.Repeat(" ---: |", 8))
	if len(r.ideals) == 0 {
		r.t.Error("no ideal time")
		return
	}
	type share struct{ x, y float64 }
	var shares []share
	var sum [6]float64
	shown := r.ideals[0]
	better := 0
	for _, p := range r.ideals {
		t := p.sum
		for _, q := range p.all {
			if a, b := q.inferred/t.inferred, q.exact/t.exact; a > 0 && b > 0 {
				shares = append(shares, share{100 * b, 100 * a})
			}
		}
		perInst, exactPerInst := t.inferred/p.insts, t.exact/p.exactInsts
		row := [6]float64{perInst, exactPerInst, perInst / exactPerInst, p.overlap, p.timeAlike, t.cycles / t.inferred}
		r.printf("| %s | %d | %.3f | %.3f | %.3f | %.3f | %s | %.3f | %.2f | %s |\n", p.Name, len(p.all), row[0], row[1], row[2], row[3], figure(p.r), row[4], row[5], p.worst)
		for i, v := range row {
			sum[i] += v / float64(len(r.ideals))
		}
		if p.overlap < 0 || p.overlap > 1+1e-9 || p.timeAlike > 1+1e-9 {
			r.t.Errorf("%s: overlaps of %g and %g", p.Name, p.overlap, p.timeAlike)
		}
		if p.overlap > p.timeAlike {
			better++
		}
		if strings.Contains(p.Name, "sqlite") && !strings.Contains(shown.Name, "sqlite") {
			shown = p
		}
	}
	r.printf("| mean | | %.3f | %.3f | %.3f | %.3f | | %.3f | %.2f | |\n\n", sum[0], sum[1], sum[2], sum[3], sum[4], sum[5])
	r.printf("SpeedShop's counts are exact, so that its overlap is 1. Inferred ideal time is nearer to the exact one than sampled time is in %d of %d programs. What it lacks is how often one procedure runs beside another; the cycles per instruction, which hang on how often blocks of a procedure run, are closer.\n\n", better, len(r.ideals))
	p := &picture{w: 420, h: 360}
	x, y := axis{from: 60, to: 400, least: 0.001, most: 100, log: true}, axis{from: 310, to: 20, least: 0.001, most: 100, log: true}
	p.frame(x, y, "ideal time by exact counts (% of the program)", "ideal time, inferred (% of the program)")
	var at [][2]float64
	for _, q := range shares {
		at = append(at, [2]float64{x.at(q.x), y.at(q.y)})
	}
	p.dots(at, "#3b82d6")
	p.line(x.from, y.from, x.to, y.to, inkColor)
	r.draw("ideal.svg", "inferred ideal time of procedures against that by exact counts", p)
	r.printf("The procedures of %s with the most ideal time, as the table of the guide has them:\n\n| procedure | samples, %% of the time | ideal, inferred, %% | ideal, exact, %% |\n| --- | ---: | ---: | ---: |\n", shown.Name)
	slices.SortFunc(shown.all, func(a, b idealTime) int {
		return cmp.Or(cmp.Compare(b.exact, a.exact), strings.Compare(a.name, b.name))
	})
	for _, q := range shown.all[:min(12, len(shown.all))] {
		r.printf("| `%s` | %.1f | %.1f | %.1f |\n", q.name, 100*q.cycles/shown.sum.cycles, 100*q.inferred/shown.sum.inferred, 100*q.exact/shown.sum.exact)
	}
	r.printf("\n")
}
