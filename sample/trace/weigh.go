package trace

import (
	"math"
	"slices"

	"backfeed/sample"
)

// A Rate is how often a site runs, as windows tell.
type Rate struct {
	ID     sample.ImageID
	Off    sample.Offset
	PerSec float64 // executions per second of processor time
	SD     float64 // standard deviation of its logarithm
}

// A weigher finds the weights of walks, by the region where they began.
//
// Walks begin where time is spent, and so the more often the slower the code is there; what
// they see should weigh as much as instructions that ran. Two things tell the weights. Where a
// program is, counted by instructions, does not change by its running so many instructions
// more: of walks with the right weights, as many begin in a region as end in it. And what they
// pass through runs as often, one place beside another, as windows tell. The former goes from
// region to region as far as walks lead, the latter from one phase of a program to another.
//
// The most probable logarithms of the weights are searched for by Gauss and Newton's method. They
// are thought to be near what the code tells of how slow it is, and as far above or below that as
// those of other regions of their procedure and of the regions that walks lead to and from: code
// of one phase is mostly slow together.
type weigher struct {
	starts []float64 // walks, by region
	slow   []float64 // by region: logarithm of the time of an instruction, as slowness returns it
	proc   []int32   // by region: number of its procedure
	procs  int       // so many
	out    [][]cell  // by region: walks that began there and ended in another one, by that
	in     [][]cell  // by region: walks that ended there and began in another one, by that
	steps  float64   // instructions of all walks
	rates  []rated
}

// A cell is what walks that began in a region did: n in all, nn the sum of squares over walks.
type cell struct {
	region       int32
	walks, n, nn float64
}

// rated is a place of which windows tell how often it runs.
type rated struct {
	visits []cell
	log    float64 // logarithm of executions per second
	sd     float64
}

const (
	// weightSD is the standard deviation of the logarithm of a weight, before anything is known,
	// and nearSD that beside the mean of the regions that walks lead to and from. Over four programs,
	// each with the walks and windows of two recordings of a minute at 1 %, the mean block overlap is
	// 0.893 with 1 and 0.5, 0.892 with 1 and 0.8 or 0.8 and 0.4, 0.889 with 2 and 0.8, and 0.891 with
	// all regions by themselves, with 0.8.
	weightSD, nearSD = 1, 0.5
	// levelSD is that of what all regions of a procedure have in common: the more regions one has, the
	// surer they would be, taken together, if each were by itself. Over four programs, with the walks and
	// windows of nine recordings of a minute at 1 % each, the mean block overlap is 0.888 without it, 0.892
	// with 0.3, 0.889 with 0.6 and 0.876 with 1; of three at 3 %, 0.896, 0.896, 0.893 and 0.889.
	levelSD = 0.3
	// balanceSD is that of the walks that end in a region beside those that begin there, beyond
	// chance, and rateSD that of visits beside rates.
	balanceSD, rateSD = 0.1, 0.2
	// heldWalks more, of the mean weight of all, are taken to have begun and ended in each region.
	heldWalks = 1
	// usualSpeed is in instructions per second, speedSD the standard deviation of its logarithm.
	usualSpeed, speedSD = 2.5e9, 0.7
	// farRate is from how many standard deviations on a rate counts less: Huber's.
	farRate = 2
)

// A row is one thing that is known: a sum of unknowns that should be zero, off by residual, in
// standard deviations.
type row struct {
	at       []int32
	d        []float64
	residual float64
}

func (r *row) add(at int32, d float64) { r.at, r.d = append(r.at, at), append(r.d, d) }

// speed is the index of the unknown that is no region's: the logarithm of the executions per
// second that one visit stands for.
func (w *weigher) speed() int32 { return int32(len(w.starts)) }

// level is the index of the unknown that is common to all regions of the procedure of g.
func (w *weigher) level(g int) int32 { return w.speed() + 1 + w.proc[g] }

// at returns the weights, not scaled, of the unknowns u: their logarithms, and that of the speed.
func (w *weigher) at(u []float64) []float64 {
	weight := make([]float64, len(w.starts))
	for g := range weight {
		weight[g] = math.Exp(u[g])
	}
	return weight
}

// usual is what the speed is expected to be.
func (w *weigher) usual() float64 { return math.Log(usualSpeed / max(w.steps, 1)) }

// rows returns all that is known near u.
func (w *weigher) rows(u []float64) []row {
	weight := w.at(u)
	var rows []row
	for g := range weight {
		rows = append(rows, row{[]int32{int32(g), w.level(g)}, []float64{1 / weightSD, -1 / weightSD}, (u[g] + w.slow[g] - u[w.level(g)]) / weightSD}, w.near(g, u))
	}
	for p := range w.procs {
		at := w.speed() + 1 + int32(p)
		rows = append(rows, row{[]int32{at}, []float64{1 / levelSD}, u[at] / levelSD})
	}
	rows = append(rows, row{[]int32{w.speed()}, []float64{1 / speedSD}, (u[w.speed()] - w.usual()) / speedSD})
	held := heldWalks * w.mean(weight)
	for g := range weight {
		if len(w.in[g]) > 0 || len(w.out[g]) > 0 {
			rows = append(rows, w.balance(g, weight, held))
		}
	}
	for i := range w.rates {
		rows = append(rows, w.rates[i].row(weight, u[w.speed()], w.speed()))
	}
	return rows
}

// near tells that the weight of g is as far from what is expected as those of the regions that
// walks lead to and from.
func (w *weigher) near(g int, u []float64) (r row) {
	cells := slices.Concat(w.in[g], w.out[g])
	all := walksOf(cells)
	r.add(int32(g), 1/nearSD)
	for _, c := range cells {
		r.add(c.region, -c.n/all/nearSD)
	}
	r.residual = r.dot(u) + r.dot(w.slow)
	return r
}

// balance tells that as many walks end in g as begin there, held more of them.
func (w *weigher) balance(g int, weight []float64, held float64) (r row) {
	in, chance := sumCells(w.in[g], weight)
	in += held
	n := walksOf(w.out[g])
	out := weight[g]*n + held
	v := (chance+sq(held))/sq(in) + (sq(weight[g])*n+sq(held))/sq(out)
	sd := math.Sqrt(v + sq(balanceSD))
	r.residual = math.Log(in/out) / sd
	for _, c := range w.in[g] {
		r.add(c.region, weight[c.region]*c.n/in/sd)
	}
	r.add(int32(g), -weight[g]*n/out/sd)
	return r
}

// row tells that p has as many visits as it should.
func (p *rated) row(weight []float64, speed float64, at int32) (r row) {
	sum, sd := p.visited(weight)
	r.residual = (math.Log(sum) + speed - p.log) / sd
	if far := math.Abs(r.residual) / farRate; far > 1 {
		sd *= math.Sqrt(far)
		r.residual /= math.Sqrt(far)
	}
	for _, c := range p.visits {
		r.add(c.region, weight[c.region]*c.n/sum/sd)
	}
	r.add(at, 1/sd)
	return r
}

// visited returns the visits of p, and the standard deviation of their logarithm beside its rate.
func (p *rated) visited(weight []float64) (sum, sd float64) {
	sum, chance := sumCells(p.visits, weight)
	return sum, math.Sqrt(sq(p.sd) + sq(rateSD) + chance/sq(sum))
}

// walksOf adds up walks from region to region.
func walksOf(cells []cell) (sum float64) {
	for _, c := range cells {
		sum += c.n
	}
	return sum
}

// sumCells returns the sum of what walks did by their weights, and its variance by chance.
func sumCells(cells []cell, weight []float64) (sum, chance float64) {
	for _, c := range cells {
		sum += weight[c.region] * c.n
		chance += sq(weight[c.region]) * c.nn
	}
	return sum, chance
}

// solve finds the most probable unknowns.
func (w *weigher) solve() []float64 {
	const rounds, longest, near = 30, 0.7, 1e-3
	u := make([]float64, len(w.starts)+1+w.procs)
	u[w.speed()] = w.firstSpeed()
	for range rounds {
		rows := w.rows(u)
		b := make([]float64, len(u))
		for i := range rows {
			rows[i].addTo(b, -rows[i].residual)
		}
		far := 0.0
		for i, step := range normal(rows).near(b, exactly) {
			step = min(max(step, -longest), longest)
			u[i] += step
			far = max(far, math.Abs(step))
		}
		if far < near {
			break
		}
	}
	return u
}

// firstSpeed returns the speed without weights.
func (w *weigher) firstSpeed() float64 {
	one := make([]float64, len(w.starts))
	for i := range one {
		one[i] = 1
	}
	of := 1 / sq(speedSD)
	sum := of * w.usual()
	for i := range w.rates {
		visits, sd := w.rates[i].visited(one)
		sum += (w.rates[i].log - math.Log(visits)) / sq(sd)
		of += 1 / sq(sd)
	}
	return sum / of
}

// weights returns those of walks, by the region where they began. Their mean over all walks is
// one.
func (w *weigher) weights() []float64 {
	weight := w.at(w.solve())
	mean := w.mean(weight)
	for g := range weight {
		weight[g] /= max(mean, 1e-300)
	}
	return weight
}

// mean returns the mean weight of all walks.
func (w *weigher) mean(weight []float64) float64 {
	var sum, all float64
	for g, n := range w.starts {
		sum += weight[g] * n
		all += n
	}
	return sum / max(all, 1)
}

// choose offers places to take, by index, in the order of how much their rates would take off
// what the instructions of all regions are expected to be off by, beside those of the places
// that were taken before. u is what solve returns, visits are by place; what windows will tell is
// taken to be off by asked.
func (w *weigher) choose(u []float64, visits [][]cell, asked float64, take func(place int) bool) {
	known := normal(w.rows(u))
	weight, share := w.at(u), make([]float64, len(u))
	all := 0.0
	for g, n := range w.starts {
		share[g] = weight[g] * n
		all += share[g]
	}
	for g := range share {
		share[g] /= max(all, 1e-300)
	}
	rows, told := make([]row, len(visits)), make([][]float64, len(visits))
	for i, cells := range visits {
		p := rated{visits: cells, sd: asked}
		sum, _ := p.visited(weight)
		p.log = math.Log(sum) + u[w.speed()]
		rows[i] = p.row(weight, u[w.speed()], w.speed())
		b := make([]float64, len(u))
		rows[i].addTo(b, 1)
		told[i] = known.near(b, roughly)
	}
	for {
		at, gain := -1, 0.0
		for i, t := range told {
			if t == nil {
				continue
			}
			sum := 0.0
			for g, v := range t {
				sum += share[g] * sq(v)
			}
			if sum /= 1 + rows[i].dot(t); sum > gain {
				at, gain = i, sum
			}
		}
		if at < 0 {
			return
		}
		t := told[at]
		told[at] = nil
		if !take(at) {
			continue
		}
		of := 1 + rows[at].dot(t)
		for i := range told {
			if told[i] != nil {
				part := rows[at].dot(told[i]) / of
				for g := range t {
					told[i][g] -= part * t[g]
				}
			}
		}
	}
}

func (r *row) dot(x []float64) (sum float64) {
	for i, at := range r.at {
		sum += r.d[i] * x[at]
	}
	return sum
}

// addTo adds r times n to x.
func (r *row) addTo(x []float64, n float64) {
	for i, at := range r.at {
		x[at] += n * r.d[i]
	}
}

// normal is the matrix of the normal equations of rows.
type normal []row

// times returns it times x.
func (m normal) times(x []float64) []float64 {
	y := make([]float64, len(x))
	for i := range m {
		m[i].addTo(y, m[i].dot(x))
	}
	return y
}

// What near may leave, by squares: roughly serves to tell which of some places would tell more.
const exactly, roughly = 1e-10, 1e-4

// near returns the x of which m is b times, but for so much of it, by conjugate gradients.
func (m normal) near(b []float64, part float64) []float64 {
	const rounds = 500
	x, left := make([]float64, len(b)), slices.Clone(b)
	step := slices.Clone(b)
	off := dot(left, left)
	end := part * off
	for range rounds {
		if off <= end {
			break
		}
		of := m.times(step)
		length := off / dot(step, of)
		for i := range x {
			x[i] += length * step[i]
			left[i] -= length * of[i]
		}
		was := off
		off = dot(left, left)
		for i := range step {
			step[i] = left[i] + off/was*step[i]
		}
	}
	return x
}

func dot(x, y []float64) (sum float64) {
	for i := range x {
		sum += x[i] * y[i]
	}
	return sum
}

func sq(x float64) float64 { return x * x }
