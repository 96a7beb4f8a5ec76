package explain

import (
	"cmp"
	"math"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/machine"
)

// TopDown returns the four shares of level 1 of the top-down method (Yasin, "A Top-Down
// Method for Performance Analysis and Counters Architecture", ISPASS 2014) as far as
// samples of time tell: shares of the cycles, between 0 and 1.
type TopDown struct{ Retiring, BadSpeculation, FrontEnd, BackEnd Range }

// TopDown estimates the top-down shares from samples of time: what CountedTopDown returns
// is better, where there are counters. They are ranges of what the causes allow;
// they inherit the error of the counts' scale, which Profile's confidence tells.
func (s *Summary) TopDown() (t TopDown) {
	if !(s.Cycles > 0) {
		return t
	}
	share := func(r Range) Range {
		return Range{min(1, max(0, r.Least)/s.Cycles), min(1, max(0, r.Most)/s.Cycles)}
	}
	var front, back Range
	for c, r := range s.Causes {
		switch Cause(c) {
		case Mispredict, KernelReturn:
		case ICache, ITLB, FrontEnd, Microcode:
			front.add(r)
		default:
			back.add(r)
		}
	}
	unknown := s.Unexplained + s.Uncounted + s.Kernel + s.Elsewhere + s.Causes[KernelReturn].Most
	static := 0.0
	for _, n := range s.Static {
		static += n
	}
	retiring := Range{min(s.Dispatched.Least, static), min(s.Dispatched.Most, s.Cycles)}
	fetch := s.Static[machine.Fetch]
	t.Retiring = share(Range{retiring.Least, retiring.Most + s.Uncounted + s.Kernel + s.Elsewhere})
	t.BadSpeculation = share(Range{s.Causes[Mispredict].Least, s.Causes[Mispredict].Most + unknown})
	t.FrontEnd = share(Range{front.Least, front.Most + fetch + unknown})
	t.BackEnd = share(Range{back.Least + max(0, static-retiring.Most-fetch), back.Most + static - retiring.Least + unknown})
	return t
}

// A Metric is a share of the top-down method that was counted.
type Metric struct {
	Name, Parent string // as their maker calls them; of level 1, Parent is ""
	Level        int    // 1 to 3
	Of           string // what Share is of: "slots" of the pipeline, "cycles" of the thread, "stalls" of the parent's part of the pipeline; "branches", "accesses" and "translations" are no part of the parent
	Share        float64
	Range        Range   // of Share, with 95 % confidence: what chance makes of the samples
	Threshold    float64 // above this it is high by its maker, if its parent is, too; 0 where nothing is published
	High         High
	Reliability  float64 // of the event that was counted least of the time; 0 is unknown
	Follow       bool    // it is what to look at first: high without parts that are, or the largest but Retiring where no thresholds are published
	Next         string  // what to do, if it is high
}

// High says whether a metric is above its threshold.
type High uint8

const (
	NoThreshold High = iota // nothing is published
	NotHigh
	MaybeHigh // the threshold is within the range
	IsHigh
)

// String returns "", "no", "maybe" or "yes".
func (h High) String() string { return [...]string{"", "no", "maybe", "yes"}[h] }

// Missing is what the events of a recording did not suffice for.
type Missing struct {
	Parent  string   // of the metrics; "" is level 1
	Metrics []string // by name
	Events  []string // that were not recorded
	Record  string   // a command that records what there is and these
}

// Metrics are those of a processor, as far as they were counted.
type Metrics struct {
	Processor, Source string
	Metrics           []Metric  // each followed by its parts
	Missing           []Missing // what is most worth knowing first
}

// CountedTopDown returns the top-down shares by the events of the recording that count
// places of the pipeline: of p, a procedure of ip; of all of ip, where p is nil; of all user
// code, where ip is nil too. It is not ok where the recording does not have them. The ranges
// are those of chance: with 95 % confidence the share is within.
func (x *Explainer) CountedTopDown(ip *infer.ImageProfile, p *image.Proc) (t TopDown, ok bool) {
	return x.CountedMetrics(ip, p).TopDown()
}

// useful is the share of level 1 that is no loss.
const useful = "Retiring"

// TopDown returns the four shares of level 1; it is not ok where not all were counted.
func (m *Metrics) TopDown() (t TopDown, ok bool) {
	if m == nil {
		return t, false
	}
	shares := map[string]*Range{useful: &t.Retiring, "Bad Speculation": &t.BadSpeculation, "Frontend Bound": &t.FrontEnd, "Backend Bound": &t.BackEnd}
	n := 0
	for _, metric := range m.Metrics {
		if r := shares[metric.Name]; r != nil {
			*r = metric.Range
			n++
		}
	}
	return t, n == len(shares)
}

// family returns the metrics of the recording's processor, nil where none are published.
func (x *Explainer) family() *family {
	for i := range families {
		if slices.Contains(families[i].models, x.model.Name) {
			return &families[i]
		}
	}
	return neoverse(x.cpu, x.model.Name)
}

// events are the names, in lower case, of what the formulas are made of.
func (f *family) events() map[string]bool {
	names := map[string]bool{}
	for _, m := range f.metrics {
		for _, text := range m.formulas {
			for _, e := range namesIn(text, false) {
				names[e] = true
				for _, other := range spellings[e] {
					names[other] = true
				}
			}
		}
	}
	return names
}

// CountedMetrics returns the metrics of top-down that the events of the recording suffice for, of what
// CountedTopDown says. None is without its parent. It is nil where nothing is published for the processor.
func (x *Explainer) CountedMetrics(ip *infer.ImageProfile, p *image.Proc) *Metrics {
	f := x.family()
	if f == nil {
		return nil
	}
	c := &counting{x: x, f: f, ip: ip, p: p, known: map[string]*counted{}, in: map[*eventCounts]uint64{}}
	m := &Metrics{Processor: f.title, Source: f.source}
	c.judge("", NoThreshold)
	c.list(m, "", 1)
	c.follow(m)
	c.missing(m)
	return m
}

// counting is the metrics of a part of the code.
type counting struct {
	x     *Explainer
	f     *family
	ip    *infer.ImageProfile
	p     *image.Proc
	known map[string]*counted     // by name; nil where events are missing
	in    map[*eventCounts]uint64 // samples; those of events that no formula has asked for are not there
}

// samples returns how many samples of an event there are.
func (c *counting) samples(e *eventCounts) float64 {
	n, ok := c.in[e]
	if !ok {
		n = e.in(c.ip, c.p)
		c.in[e] = n
	}
	return float64(n)
}

type counted struct {
	q    quantity
	high High
}

// value returns the value of a word of a formula.
func (c *counting) value(word string) (quantity, bool) {
	switch {
	case word == "#slots":
		return quantity{n: float64(c.f.slots)}, true
	case word[0] >= 'A' && word[0] <= 'Z':
		m := c.metric(strings.ReplaceAll(word, "_", " "))
		if m == nil {
			return quantity{}, false
		}
		return m.q, true
	}
	e := c.x.countedEvent(word)
	if e == nil {
		return quantity{}, false
	}
	return quantity{c.samples(e) * e.period, map[*eventCounts]float64{e: 1}}, true
}

// countedEvent returns the samples of an event, by whatever name it was recorded; nil if it was not.
func (x *Explainer) countedEvent(name string) *eventCounts {
	for _, n := range append([]string{name}, spellings[name]...) {
		if e := x.counted[n]; e != nil {
			return e
		}
	}
	return nil
}

// metric returns a metric of the family by its name.
func (c *counting) metric(name string) *counted {
	if m, done := c.known[name]; done {
		return m
	}
	c.known[name] = nil
	i := slices.IndexFunc(c.f.metrics, func(m metric) bool { return m.name == name })
	if i < 0 {
		return nil
	}
	m := &c.f.metrics[i]
	if m.parent != "" && c.metric(m.parent) == nil {
		return nil
	}
	for _, text := range m.formulas {
		if q, ok := calculate(text, c.value); ok {
			q.n = min(1, max(0, q.n)) // as the formulas have it: what is below is chance
			c.known[name] = &counted{q: q}
			break
		}
	}
	return c.known[name]
}

// spread returns the standard deviation of q by what chance makes of the numbers of samples. That of n samples is taken for
// 1 + sqrt(n + 3/4), which is right for few, and for none, too (Gehrels, Astrophysical Journal 303, 1986, equation 7).
func (c *counting) spread(q quantity) float64 {
	var variances []float64
	for e, d := range q.by {
		sd := (1 + math.Sqrt(c.samples(e)+0.75)) * e.period * d
		variances = append(variances, sd*sd*e.dispersion)
	}
	slices.Sort(variances) // so that their sum is the same in each run
	variance := 0.0
	for _, v := range variances {
		variance += v
	}
	return math.Sqrt(variance)
}

func (c *counting) span(q quantity) Range {
	sd := c.spread(q)
	return Range{max(0, q.n-2*sd), min(1, q.n+2*sd)}
}

// judge compares the parts of a metric with their thresholds.
func (c *counting) judge(parent string, above High) {
	for i := range c.f.metrics {
		m := &c.f.metrics[i]
		k := c.metric(m.name)
		if m.parent != parent || k == nil {
			continue
		}
		if m.high > 0 {
			switch r := c.span(k.q); {
			case r.Least > m.high:
				k.high = IsHigh
			case r.Most <= m.high:
				k.high = NotHigh
			default:
				k.high = MaybeHigh
			}
			if !m.alone && above != NoThreshold {
				k.high = min(k.high, above)
			}
		}
		c.judge(m.name, k.high)
	}
	// Intel's Retiring is high where heavy operations are, too.
	if retiring, heavy := c.known["Retiring"], c.known["Heavy Operations"]; parent == "" && retiring != nil && heavy != nil {
		retiring.high = max(retiring.high, heavy.high)
	}
}

// list appends the parts of a metric, each followed by its own.
func (c *counting) list(to *Metrics, parent string, level int) {
	for i := range c.f.metrics {
		m := &c.f.metrics[i]
		if k := c.known[m.name]; m.parent == parent && k != nil {
			out := Metric{Name: m.name, Parent: parent, Level: level, Of: m.of, Share: k.q.n, Range: c.span(k.q), Threshold: m.high, High: k.high, Next: m.next}
			for e := range k.q.by {
				if e.reliability > 0 && (out.Reliability == 0 || e.reliability < out.Reliability) {
					out.Reliability = e.reliability
				}
			}
			to.Metrics = append(to.Metrics, out)
			c.list(to, m.name, level+1)
		}
	}
}

// follow marks what to look at first.
func (c *counting) follow(to *Metrics) {
	maybe := func(m *Metric) bool { return m.High >= MaybeHigh }
	largest := ""
	for i := range to.Metrics {
		m := &to.Metrics[i]
		m.Follow = maybe(m) && !slices.ContainsFunc(to.Metrics, func(o Metric) bool { return o.Parent == m.Name && maybe(&o) })
	}
	if slices.ContainsFunc(to.Metrics, func(m Metric) bool { return m.Threshold > 0 }) {
		return
	}
	for at := -1; ; largest = to.Metrics[at].Name {
		most := -1
		for i, m := range to.Metrics {
			if m.Parent == largest && m.Name != useful && comparable(m.Of) && (most < 0 || m.Share > to.Metrics[most].Share) {
				most = i
			}
		}
		if most < 0 {
			if at >= 0 {
				to.Metrics[at].Follow = true
			}
			return
		}
		at = most
	}
}

// comparable reports whether the larger of shares of that kind costs more: not of ratios, which are of different things.
func comparable(of string) bool { return of == ofSlots || of == ofCycles || of == ofStalls }

// missing lists what events are missing for: parts of metrics that are high first, and of the larger.
func (c *counting) missing(to *Metrics) {
	parents := []*Metric{{}}
	for i := range to.Metrics {
		parents = append(parents, &to.Metrics[i])
	}
	slices.SortStableFunc(parents, func(a, b *Metric) int {
		worth := func(m *Metric) float64 {
			if m.Name == useful && m.Threshold == 0 {
				return 0
			}
			return m.Share
		}
		return cmp.Or(cmp.Compare(min(a.Level, 1), min(b.Level, 1)), cmp.Compare(b.High, a.High), cmp.Compare(worth(b), worth(a)))
	})
	for _, parent := range parents {
		lacks := Missing{Parent: parent.Name}
		var need []string
		for _, m := range c.f.metrics {
			if m.parent != parent.Name {
				continue
			}
			events := c.eventsOf(&m)
			need = append(need, events...)
			if c.known[m.name] != nil {
				continue
			}
			lacks.Metrics = append(lacks.Metrics, m.name)
			for _, e := range events {
				if c.x.countedEvent(e) == nil && !slices.Contains(lacks.Events, e) {
					lacks.Events = append(lacks.Events, e)
				}
			}
		}
		if len(lacks.Events) == 0 {
			continue
		}
		for name := parent.Name; name != ""; {
			i := slices.IndexFunc(c.f.metrics, func(m metric) bool { return m.name == name })
			need = append(c.eventsOf(&c.f.metrics[i]), need...)
			name = c.f.metrics[i].parent
		}
		lacks.Record = c.f.record(append(c.levelOne(), need...))
		to.Missing = append(to.Missing, lacks)
	}
}

// levelOne lists the events of level 1: of the four shares, or of fewer.
func (c *counting) levelOne() (events []string) {
	for i := range c.f.metrics[:4] {
		if m := &c.f.metrics[i]; m.parent == "" {
			events = append(events, c.eventsOf(m)...)
		}
	}
	return events
}

// eventsOf lists the events of the published formula of m, and of the metrics in it.
func (c *counting) eventsOf(m *metric) []string {
	events := namesIn(m.formulas[0], false)
	for _, name := range namesIn(m.formulas[0], true) {
		if i := slices.IndexFunc(c.f.metrics, func(o metric) bool { return o.name == strings.ReplaceAll(name, "_", " ") }); i >= 0 {
			events = append(events, c.eventsOf(&c.f.metrics[i])...)
		}
	}
	return events
}

// record returns the command that records events beside cycles.
func (f *family) record(events []string) string {
	var group, others []string
	for _, e := range events {
		switch {
		case slices.Contains(f.group, e):
			if !slices.Contains(group, e) {
				group = append(group, e)
			}
			continue
		case slices.Contains(spellings[e], "cycles"):
			continue
		case slices.Contains(spellings[e], "instructions"):
			e = "instructions"
		case strings.Contains(e, ","):
			e = "cpu/" + e + "/"
		}
		if !slices.Contains(others, e) {
			others = append(others, e)
		}
	}
	list := "cycles"
	if len(group) > 0 { // the second of the group is what is sampled
		list = "{" + strings.Join(append([]string{f.group[0], "cycles"}, group...), ",") + "}:S"
	}
	return "perf record -e '" + strings.Join(append([]string{list}, others...), ",") + "' -- CMD"
}

// in counts the samples in p, in all of ip or in all images.
func (e *eventCounts) in(ip *infer.ImageProfile, p *image.Proc) (n uint64) {
	if ip == nil {
		for _, at := range e.at {
			for _, k := range at {
				n += k
			}
		}
		return n
	}
	for off, k := range e.at[ip.ID.Key()] {
		if p != nil {
			if a, ok := ip.Image.AddrOf(off); !ok || a < p.Addr || a-p.Addr >= image.Addr(p.Size) {
				continue
			}
		}
		n += k
	}
	return n
}
