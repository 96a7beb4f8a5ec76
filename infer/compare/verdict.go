package compare

import (
	"cmp"
	"maps"
	"math"
	"slices"
)

// A Run is what one recording, or one epoch of a store, says of a side of a verdict.
type Run struct {
	Samples map[Thing]uint64
	Period  float64            // spent between two samples, in the unit of the event
	Each    float64            // how many times as large the variance of Samples is as that of single ones, as sample.Dispersion; less than 1 is 1
	Units   float64            // of work done meanwhile; 0 is unknown
	Chance  float64            // the variance of Units; 0 if they were counted
	Kinds   map[string]float64 // units by kind; nil if that is not known
	Of      int                // recordings that it is the sum of, where Units are known of all of them together alone; 0 is one
	ByKind  map[string]uint64  // samples by kind, those of no kind left out or by ""; nil if that is not known
}

// variance is that of what is spent, for each sample.
func (r *Run) variance() float64 { return r.Period * r.Period * max(1, r.Each) }

// variance is that of what is spent by a side, for each sample.
func (m *table) variance(side int) (v float64) {
	all := 0.0
	for i := range m.runs[side] {
		for _, n := range m.n[side][i] {
			v, all = v+n*m.runs[side][i].variance(), all+n
		}
	}
	return v / max(1, all)
}

// A Question is what Judge answers: does new code spend less than old code for the same work?
type Question struct {
	Old, New  []Run          // of one recording or more, which have samples
	Serial    bool           // the runs of a side follow each other in time
	Unchanged map[Thing]bool // what is the same code in both builds; nil if that is not known
	OneBuild  bool           // both sides are the same build: what differs is the load, the machine or settings
	Noise     float64        // as Compare takes it
	SameLoad  bool           // the load of both sides is known to be the same: nothing that differs is its doing
}

// An Outcome is what a Verdict says.
type Outcome string

const (
	Better   Outcome = "better"        // new spends less
	Worse    Outcome = "worse"         // new spends more
	NotShown Outcome = "not shown"     // nothing that would not be seen of two equal builds
	Unsure   Outcome = "noise unknown" // one recording a side: how those of one build differ is not known
	Mixed    Outcome = "load differs"  // the load, or the machines, may explain what differs
	Shares   Outcome = "shares only"   // nothing is known of the work, so only parts of the time can be compared
)

// A Verdict says whether one side spends less than the other.
type Verdict struct {
	Outcome Outcome
	PerUnit bool       // Effect is per unit of work; otherwise, unless Outcome is Shares, for as much work in unchanged code
	Effect  Effect     // its Change is NaN of Shares
	Sides   [2]Sum     // old, new
	Code    *Reference // nil if there is too little unchanged code
	Kinds   *Mix       // of units by kind; nil if they are not known, or all of one
	AtMix   *AtMix     // nil unless Effect weighs the kinds of units alike on both sides
	Rows    []Moved    // clear ones first, the largest first
	Clear   int        // how many of Rows are clear
	Beyond  int        // how many of Rows sampling does not explain, whether or not it is known how recordings differ

	OneBuild bool // as in the Question
}

// A Sum is all runs of a side.
type Sum struct {
	Runs    int
	Samples uint64
	Spent   float64 // in the unit of the event
	Units   float64 // 0 is unknown
}

// A Reference is what unchanged code says of the load. For the same work it spends the same in
// both builds, except where changed code asks less or more of it.
type Reference struct {
	Shares [2]float64 // of all that is spent: old, new
	Work   *Effect    // spent in it per unit of work; nil if units are not known
	Equal  Effect     // all that is spent, for as much as is spent in it
	Mix    Mix        // of its procedures
}

// A Mix is how the parts of a whole differ between two sides.
type Mix struct {
	Distance float64 // half the sum of what the shares differ by: 0 is equal, 1 has nothing in common
	Chance   float64 // the most that chance explains, with 95 % confidence
}

// Differs reports whether chance does not explain the difference.
func (m *Mix) Differs() bool { return m != nil && m.Distance > m.Chance }

// parted is m where it acts on a part of what is spent alone.
func (m *Mix) parted(part float64) *Mix {
	if m == nil {
		return nil
	}
	return &Mix{m.Distance * part, m.Chance * part}
}

// A Moved is what one procedure spends, before and after.
type Moved struct {
	Thing
	Unchanged bool // its code
	Samples   [2]uint64
	Shares    [2]float64 // of all that the side spends
	// Change is what it adds to what is spent per unit of work (or for as much work in unchanged code,
	// or, of Shares, in all), in parts of what the old side spends in all. Low and High are its interval.
	Change, Low, High float64
	P                 float64 // NaN of too few samples
	Clear             bool    // chance does not explain it, as in Changes, and how recordings differ is known
}

// enoughReference is the share of what a side spends that unchanged code needs to be asked.
const enoughReference = 0.05

// Judge compares what two sides spend.
func Judge(q Question) *Verdict {
	m := tableOf(&q)
	v := &Verdict{Sides: m.sums(), OneBuild: q.OneBuild}
	v.PerUnit = v.Sides[0].Units > 0 && v.Sides[1].Units > 0
	unchanged, all := m.chosen(func(t Thing) bool { return q.Unchanged[t] }), m.chosen(func(Thing) bool { return true })
	v.Code = m.reference(unchanged, all, v.PerUnit)
	work := m.spentIn(all)
	switch {
	case v.PerUnit:
		work = m.units()
		v.Effect = m.compare(all, work)
		v.Kinds = q.kinds()
		if a, e := m.atMix(); a != nil {
			a.Raw, v.Effect, v.AtMix = v.Effect, *e, a
		}
	case v.Code != nil:
		work = m.spentIn(unchanged)
		v.Effect = v.Code.Equal
	default:
		v.Effect = Effect{Change: math.NaN(), Low: math.NaN(), High: math.NaN(), P: math.NaN(), Detectable: math.NaN()}
		v.Effect.Runs = m.compare(all, work).Runs
	}
	v.Outcome = v.outcome(q.SameLoad)
	m.rows(v, work, unchanged)
	return v
}

// outcome weighs what was found.
func (v *Verdict) outcome(sameLoad bool) Outcome {
	e := &v.Effect
	switch {
	case math.IsNaN(e.Change):
		return Shares
	case !e.Runs:
		return Unsure
	case !e.Clear():
		return NotShown
	case v.PerUnit && !sameLoad && v.explained():
		return Mixed
	case e.Change < 0:
		return Better
	}
	return Worse
}

// mixExplains is how large a change, in parts of the distance of two mixes of work, the mix may
// explain: work of which some costs much more than other work. Where a tenth of the work moves
// from one of two handlers to the other, by TestJudge, the cost of a unit that changes only for
// that is called a change in 5 of 100; with 1 in its place in 24, with 2 in 8.
const mixExplains = 3

// explained reports whether the load may explain a clear change per unit of work.
func (v *Verdict) explained() bool {
	e := &v.Effect
	explains := func(m *Mix) bool { return m.Differs() && mixExplains*m.Distance > math.Abs(e.Change) }
	same := func(o *Effect) bool { return o.Change > 0 == (e.Change > 0) }
	switch {
	case v.AtMix == nil && explains(v.Kinds):
		return true
	case v.AtMix != nil && explains(v.Kinds.parted(max(v.AtMix.Rest[0], v.AtMix.Rest[1]))): // what is of no kind is as the units came
		return true
	case v.Code == nil:
		return false
	case v.Code.Equal.Clear() && same(&v.Code.Equal): // even for as much work in unchanged code
		return false
	}
	// Code that is the same may take less than before per unit, or more, as all does; or some of it more and some less.
	return v.Code.Work.outside() && same(v.Code.Work) || explains(&v.Code.Mix)
}

// A table is the runs of a question as numbers.
type table struct {
	q      *Question
	runs   [2][]Run
	things []Thing
	n      [2][][]float64 // samples by side, run and thing
}

func tableOf(q *Question) *table {
	m := &table{q: q, runs: [2][]Run{q.Old, q.New}}
	at := map[Thing]int{}
	for _, runs := range m.runs {
		for i := range runs {
			for t := range runs[i].Samples {
				at[t] = 0
			}
		}
	}
	m.things = slices.SortedFunc(maps.Keys(at), Thing.Compare)
	for i, t := range m.things {
		at[t] = i
	}
	for side, runs := range m.runs {
		for i := range runs {
			n := make([]float64, len(m.things))
			for t, k := range runs[i].Samples {
				n[at[t]] = float64(k)
			}
			m.n[side] = append(m.n[side], n)
		}
	}
	return m
}

func (m *table) sums() (sums [2]Sum) {
	for side, runs := range m.runs {
		s := &sums[side]
		known := true
		for i := range runs {
			r := &runs[i]
			s.Runs += max(1, r.Of)
			for _, n := range r.Samples {
				s.Samples += n
				s.Spent += float64(n) * r.Period
			}
			s.Units += r.Units
			known = known && r.Units > 0
		}
		if !known {
			s.Units = 0
		}
	}
	return sums
}

// A choice is some things of a table.
type choice []bool

func (m *table) chosen(is func(Thing) bool) choice {
	c := make(choice, len(m.things))
	for i, t := range m.things {
		c[i] = is(t)
	}
	return c
}

// A measure is what the time of each run is divided by: Trials without what was spent.
type measure struct {
	trials [2][]Trial
	in     choice // the things whose time it is; nil if it is no time
}

// units measure by units of work.
func (m *table) units() (w measure) {
	for side, runs := range m.runs {
		for i := range runs {
			w.trials[side] = append(w.trials[side], Trial{Work: runs[i].Units, WorkChance: runs[i].Chance})
		}
	}
	return w
}

// spentIn measures by what is spent in some things.
func (m *table) spentIn(in choice) measure {
	w := measure{in: in}
	for side, runs := range m.runs {
		for i := range runs {
			var t Trial
			for k, n := range m.n[side][i] {
				if in[k] {
					t.Work += n * runs[i].Period
					t.WorkChance += n * runs[i].variance()
				}
			}
			w.trials[side] = append(w.trials[side], t)
		}
	}
	return w
}

// work is the sum of a side.
func (w *measure) work(side int) (sum float64) {
	for _, t := range w.trials[side] {
		sum += t.Work
	}
	return sum
}

// rate is what a side spends in some things by a measure; of one alone if only is not negative.
func (m *table) rate(side int, what choice, only int, w measure) rate {
	trials := slices.Clone(w.trials[side])
	for i := range trials {
		run := &m.runs[side][i]
		add := func(k int) {
			n := m.n[side][i][k]
			trials[i].Spent += n * run.Period
			trials[i].Chance += n * run.variance()
			if w.in != nil && w.in[k] {
				trials[i].Common += n * run.variance()
			}
		}
		if only >= 0 {
			add(only)
			continue
		}
		for k := range what {
			if what[k] {
				add(k)
			}
		}
	}
	return rateOf(trials, m.q.Serial)
}

// compare compares what both sides spend in some things.
func (m *table) compare(what choice, w measure) Effect {
	return effectOf(m.rate(0, what, -1, w), m.rate(1, what, -1, w), m.q.Noise)
}

// reference asks unchanged code of the load; nil if there is too little of it.
func (m *table) reference(unchanged, all choice, perUnit bool) *Reference {
	c := &Reference{}
	total := m.spentIn(all)
	for side := range c.Shares {
		if c.Shares[side] = m.rate(side, unchanged, -1, total).y; !(c.Shares[side] >= enoughReference) {
			return nil
		}
	}
	// Its procedures need not all do as much more as the others. What they differ by is what is not
	// known of the load: they are taken for a sample of all work.
	parts := m.partsOf(unchanged)
	v, df := parts.clusters()
	c.Mix = parts.mix()
	c.Equal = m.compare(all, m.spentIn(unchanged)).widened(v, df)
	if perUnit {
		work := m.compare(unchanged, m.units()).widened(v, df)
		c.Work = &work
	}
	return c
}

// parts are the shares of things, of both sides, and the variance that chance gives each.
type parts []struct{ share, chance [2]float64 }

// partsOf divides what is spent in some things among them.
func (m *table) partsOf(in choice) parts {
	whole := m.spentIn(in)
	var all parts
	for k := range in {
		if !in[k] {
			continue
		}
		all = append(all, struct{ share, chance [2]float64 }{})
		p := &all[len(all)-1]
		for side := range m.runs {
			r := m.rate(side, nil, k, whole)
			p.share[side], p.chance[side] = r.y, r.v
		}
	}
	return all
}

// clusters is the relative variance of the sum of the parts: how differently they changed beyond
// what sampling and the difference of recordings explain. Of few parts little is known of it.
func (all parts) clusters() (v, df float64) {
	var squares float64
	for _, p := range all {
		d := p.share[1] - p.share[0]
		v += d*d - p.chance[0] - p.chance[1]
		h := (p.share[0] + p.share[1]) / 2
		squares += h * h
	}
	n := 1 / squares // as many equal parts would be as good
	if !(n > 1.01) {
		return 0, math.Inf(1)
	}
	return max(0, v) * n / (n - 1), max(1, n-1)
}

// mix is how the shares differ.
func (all parts) mix() (m Mix) {
	var sd float64
	for _, p := range all {
		v := p.chance[0] + p.chance[1]
		m.Distance += math.Abs(p.share[1]-p.share[0]) / 2
		m.Chance += math.Sqrt(v*2/math.Pi) / 2 // the mean of the absolute value of a normal number
		sd += v * (1 - 2/math.Pi) / 4
	}
	m.Chance += studentQuantile(confident, math.Inf(1)) * math.Sqrt(sd)
	return m
}

// kinds is how the units of work differ by kind; nil if that is not known, or there is one.
func (q *Question) kinds() *Mix {
	k := Question{Serial: q.Serial}
	for _, side := range []struct{ from, to *[]Run }{{&q.Old, &k.Old}, {&q.New, &k.New}} {
		for _, r := range *side.from {
			if len(r.Kinds) == 0 {
				return nil
			}
			n := map[Thing]uint64{}
			for kind, units := range r.Kinds {
				n[Thing{Proc: kind}] = uint64(math.Round(units))
			}
			*side.to = append(*side.to, Run{Samples: n, Period: 1})
		}
	}
	m := tableOf(&k)
	if len(m.things) < 2 {
		return nil
	}
	mix := m.partsOf(m.chosen(func(Thing) bool { return true })).mix()
	return &mix
}

// enoughRow is how many samples a procedure has, of both sides together, for its change to be tested.
const enoughRow = 5

// rows adds to v what each thing spends by a measure.
func (m *table) rows(v *Verdict, w measure, unchanged choice) {
	all := m.chosen(func(Thing) bool { return true })
	whole := [2]rate{m.rate(0, all, -1, w), m.rate(1, all, -1, w)}
	var ps []float64
	for k, t := range m.things {
		row := Moved{Thing: t, Unchanged: unchanged[k], P: math.NaN()}
		var rates [2]rate
		for side := range rates {
			for _, n := range m.n[side] {
				row.Samples[side] += uint64(n[k])
			}
			r := m.rate(side, nil, k, w)
			row.Shares[side] = r.y / whole[side].y
			if row.Samples[side] == 0 { // no sample is not no time: half a sample is as likely to be none as one
				r.v = m.variance(side) / 2 / math.Pow(w.work(side), 2)
			}
			rates[side] = r
		}
		variance, df, runs := both(rates[0], rates[1], m.q.Noise)
		d, se := (rates[1].y-rates[0].y)/whole[0].y, math.Sqrt(variance)/whole[0].y
		width := studentQuantile(1-(1-confident)/2, df) * se
		row.Change, row.Low, row.High, row.Clear = d, d-width, d+width, runs
		if row.Samples[0]+row.Samples[1] >= enoughRow && se > 0 {
			row.P = studentTail(d/se, df)
		}
		v.Rows, ps = append(v.Rows, row), append(ps, row.P)
	}
	for i, real := range discoveries(ps) {
		row := &v.Rows[i]
		if real {
			v.Beyond++
		}
		if row.Clear = row.Clear && real; row.Clear {
			v.Clear++
		}
	}
	slices.SortStableFunc(v.Rows, func(a, b Moved) int {
		if a.Clear != b.Clear {
			if a.Clear {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(math.Abs(b.Change), math.Abs(a.Change)), a.Thing.Compare(b.Thing))
	})
}
