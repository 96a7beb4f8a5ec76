package trace

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"backfeed/sample"
)

// weighed is a program of five regions that goes from one to another by chance; the last two
// are a phase of their own. A walk goes from where time is spent to one region more.
type weighed struct {
	next [5][5]float64
	slow [5]float64 // time of an instruction
	run  [5]float64 // instructions that run
}

func newWeighed(slow [5]float64) *weighed {
	p := &weighed{slow: slow, run: [5]float64{1, 1, 1, 1, 1}, next: [5][5]float64{
		{0.5, 0.3, 0.2, 0, 0}, {0.2, 0.7, 0.1, 0, 0}, {0.4, 0, 0.6, 0, 0}, {0, 0, 0, 0.6, 0.4}, {0, 0, 0, 0.4, 0.6},
	}}
	for range 1000 {
		var to [5]float64
		for f, n := range p.run {
			for g, q := range p.next[f] {
				to[g] += n * q
			}
		}
		p.run = to
	}
	return p
}

// time is what is spent in a region.
func (p *weighed) time(g int) float64 { return p.run[g] * p.slow[g] }

func pick(rng *rand.Rand, of []float64) int32 {
	sum := 0.0
	for _, v := range of {
		sum += v
	}
	x := rng.Float64() * sum
	for i, v := range of {
		if x -= v; x < 0 {
			return int32(i)
		}
	}
	return int32(len(of) - 1)
}

// walked returns walks of p. Each region is a procedure of its own, with a branch that runs in
// one of ten walks that begin or end there.
func (p *weighed) walked(walks int) *Walks {
	rng := rand.New(rand.NewPCG(1, 2))
	id := sample.ImageID{Path: "/app"}
	w := &Walks{ids: map[sample.ImageID]sample.ImageID{id: id}, place: map[branchKey]int32{}, spot: map[endpoint]int32{}}
	time := make([]float64, 5)
	for g := range time {
		at := uint64(g) * 0x100
		time[g] = p.time(g)
		number(w.spot, endpoint{id, at, 0, at})
		place := branchKey{id: id, off: sample.Offset(at), cond: true}
		number(w.place, place)
		w.places = append(w.places, place)
	}
	for i := range walks {
		s := seenWalk{steps: 500, start: pick(rng, time)}
		if s.end = pick(rng, p.next[s.start][:]); i%10 == 0 {
			s.end = -1 // cut short
		}
		for _, g := range []int32{s.start, s.end} {
			if g >= 0 && rng.IntN(10) == 0 {
				s.at = append(s.at, via(g)*viaPlace)
			}
		}
		w.walks = append(w.walks, s)
	}
	return w
}

// rates returns the rates of the branches of some regions.
func (p *weighed) rates(regions ...int) (rates []Rate) {
	all := 0.0
	for g := range p.run {
		all += p.time(g)
	}
	for _, g := range regions {
		rates = append(rates, Rate{sample.ImageID{Path: "/app"}, sample.Offset(g * 0x100), 1e6 * p.run[g] / all, 0.05})
	}
	return rates
}

// TestWeights: with their weights, walks begin in each region as often as instructions of it run.
func TestWeights(t *testing.T) {
	p := newWeighed([5]float64{1, 3, 1, 1, 2})
	apart := newWeighed([5]float64{1, 3, 1, 5, 10}) // the last phase is slower
	for _, tt := range []struct {
		name  string
		p     *weighed
		rates []Rate
		pairs [][2]int
	}{
		{"as walks lead", p, nil, [][2]int{{1, 0}, {2, 0}, {4, 3}}},
		{"rates that are right anyway", p, p.rates(0, 3), [][2]int{{1, 0}, {2, 0}, {4, 3}}},
		{"phases", apart, apart.rates(0, 3), [][2]int{{1, 0}, {2, 0}, {4, 3}, {3, 0}, {4, 1}}},
	} {
		w := tt.p.walked(40000)
		w.rates = tt.rates
		region := w.regions()
		wr := w.weigher(region, w.worths())
		weights := wr.weights()
		of := func(i int) int32 { return region[i] }
		mean := 0.0
		for g, n := range wr.starts {
			mean += weights[g] * n / float64(len(w.walks))
		}
		if math.Abs(mean-1) > 1e-9 {
			t.Errorf("%s: the mean weight is %g", tt.name, mean)
		}
		for _, at := range tt.pairs {
			a, b := of(at[0]), of(at[1])
			was := wr.starts[a] / wr.starts[b]
			got, want := was*weights[a]/weights[b], tt.p.run[at[0]]/tt.p.run[at[1]]
			if math.Abs(math.Log(got/want)) > 0.25*math.Abs(math.Log(was/want))+0.05 {
				t.Errorf("%s: region %d beside %d: %.2f, %.2f without weights, want %.2f", tt.name, at[0], at[1], got, was, want)
			}
		}
	}
	// Of what nothing leads to or from, nothing is known.
	w := newWeighed([5]float64{1, 1, 1, 1, 1}).walked(100)
	for i := range w.walks {
		w.walks[i].end = -1
	}
	for g, v := range w.weigher(w.regions(), w.worths()).weights() {
		if math.Abs(v-1) > 1e-9 {
			t.Errorf("region %d, of which nothing is known, weighs %g", g, v)
		}
	}
}

// ringWeigher has a procedure of n regions that walks lead around, and another one that is alike,
// of which windows tell that it runs so many times more often than walks pass through.
func ringWeigher(n int, more float64) *weigher {
	w := &weigher{procs: 2, steps: 1e6}
	for p := range 2 {
		place := rated{sd: 0.05, log: math.Log(usualSpeed/w.steps) + math.Log(100*float64(n))}
		if p == 1 {
			place.log += math.Log(more)
		}
		for g := range n {
			at := func(g int) int32 { return int32(p*n + (g+n)%n) }
			w.starts, w.slow, w.proc = append(w.starts, 100), append(w.slow, 0), append(w.proc, int32(p))
			w.in = append(w.in, []cell{{at(g - 1), 50, 50, 50}})
			w.out = append(w.out, []cell{{at(g + 1), 50, 50, 50}})
			place.visits = append(place.visits, cell{at(g), 100, 100, 100})
		}
		w.rates = append(w.rates, place)
	}
	return w
}

// TestLevel: what windows tell of a procedure counts no less the more regions it has.
func TestLevel(t *testing.T) {
	told := func(n int) float64 {
		w := ringWeigher(n, 2)
		weights := w.weights()
		return math.Log(weights[n] / weights[0])
	}
	few, many := told(2), told(30)
	if few < 0.2 || few > math.Log(2) || many < 0.75*few {
		t.Errorf("that a procedure runs twice as often changes its weights by e^%.2f in 2 regions, e^%.2f in 30", few, many)
	}
}

// TestBalance: only what weights are beside one another says whether as many walks begin in a
// region as end there.
func TestBalance(t *testing.T) {
	w := newWeighed([5]float64{1, 3, 1, 1, 2}).walked(1000)
	wr := w.weigher(w.regions(), w.worths())
	weight := make([]float64, len(wr.starts))
	for g := range weight {
		weight[g] = 1 + float64(g)
	}
	for g := range weight {
		one := wr.balance(g, weight, wr.mean(weight))
		less := slices.Clone(weight)
		for i := range less {
			less[i] /= 1000
		}
		if small := wr.balance(g, less, wr.mean(less)); math.Abs(small.residual-one.residual) > 1e-9 {
			t.Errorf("region %d is off by %g, with weights of a thousandth by %g", g, one.residual, small.residual)
		}
	}
}

func TestLoopOf(t *testing.T) {
	for _, tt := range []struct {
		at    []via
		ahead int
		back  int
	}{
		{nil, 0, 0},
		{slices.Repeat([]via{viaPlace}, 11), 0, 0},
		{slices.Repeat([]via{viaPlace, viaPlace | viaTaken}, 6), 1, 1}, // one place, taken and not
		{slices.Repeat([]via{viaPlace, 2 * viaPlace}, 60), 0, 0},
		{slices.Concat(slices.Repeat([]via{viaPlace}, 12), slices.Repeat([]via{2 * viaPlace}, 39)), 1, 1},
		{slices.Concat([]via{2 * viaPlace}, slices.Repeat([]via{viaPlace}, 40)), 0, 2},
	} {
		if ahead, back := loopOf(slices.Values(tt.at)), loopOf(backward(tt.at)); ahead != tt.ahead || back != tt.back {
			t.Errorf("%v: %d and %d, want %d and %d", tt.at, ahead, back, tt.ahead, tt.back)
		}
	}
}
