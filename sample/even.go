package sample

import (
	"maps"
	"math"
	"slices"
)

// alikePeriods is the ratio of what samples stand for up to which they are taken to stand for the same. Recordings of all processes at one rate, which is
// drawn anew all the time, differ by a tenth if they are of some seconds. To even that out would cost more than it brings: samples that are
// scaled tell less.
const alikePeriods = 1.2

// An Uneven is an event whose samples stood for more in some Counts than in others.
type Uneven struct {
	Event       Event // its Period is what a sample stands for in the mean
	Least, Most float64
}

// Even returns r with as many samples of each event as it had, each of which stands for equally much: shares of samples are those of time
// then, where recordings of several rates were added up. Samples are scaled, so that Excess says how much less they tell; what was not sampled but
// observed, and the time that all of it took, stays. Where it is not known what some samples stand for, those of the event stay as they are,
// and so does r where there is nothing to do. If of is not nil, it is the samples of such images alone that matter, so that they become the same, but for rounding, whatever
// else r has.
func (r *Recording) Even(of func(ImageID) bool) (*Recording, []Uneven) {
	type part struct {
		counts  []*Counts
		samples []float64 // that matter
	}
	events := map[string]part{}
	for _, c := range r.Counts {
		n := c.Total
		if of != nil {
			n = 0
			for _, ic := range c.Images {
				if of(ic.ID) {
					n += ic.Samples()
				}
			}
		}
		if n > 0 && c.Delivered() > 0 {
			e := events[c.Event.Name]
			events[c.Event.Name] = part{append(e.counts, c), append(e.samples, float64(n))}
		}
	}
	mean := map[string]uint64{}
	var all []Uneven
	for _, name := range slices.Sorted(maps.Keys(events)) {
		if u, ok := unevenOf(events[name].counts, events[name].samples); ok {
			all = append(all, u)
			mean[name] = u.Event.Period
		}
	}
	if len(all) == 0 {
		return r, nil
	}
	out := Recording{Off: r.Off}
	for _, c := range r.Counts {
		if period := mean[c.Event.Name]; period > 0 {
			c = c.even(period)
		}
		out.Add(c)
	}
	out.addRuns(r.Runs, r.Unlisted)
	return Merge(&out), all
}

// unevenOf reports whether samples of counts of one event, so many of each, stand for unlike amounts, and for how much.
func unevenOf(cs []*Counts, n []float64) (u Uneven, uneven bool) {
	var sum, samples float64
	for i, c := range cs {
		p := c.MeanPeriod()
		if p == 0 || c.Event.Unit != cs[0].Event.Unit {
			return u, false
		}
		if u.Most = max(u.Most, p); u.Least == 0 || p < u.Least {
			u.Least = p
		}
		sum += p * n[i]
		samples += n[i]
	}
	u.Event = Event{cs[0].Event.Name, uint64(max(1, math.Round(sum/samples))), cs[0].Event.Unit}
	return u, u.Most > alikePeriods*u.Least
}

// even returns c with samples that each stand for period.
func (c *Counts) even(period uint64) *Counts {
	c = sumOf(c)
	w := c.MeanPeriod() / float64(period)
	if w == 0 { // there are no samples
		w = 1
	}
	out := c.scaleSum(w)
	for i, ic := range c.Images {
		to := out.Images[i]
		to.Processes, to.Probed, to.Replayed, to.Counted, to.Faults = ic.Processes, ic.Probed, ic.Replayed, ic.Counted, ic.Faults
	}
	out.Paths, out.Targets = c.Paths, c.Targets
	excess := out.Excess
	out.Measure(c)
	out.Excess, out.Event.Period = excess, period
	switch {
	case out.Delivered() == 0:
		out.Weight = 0
	case c.Weight == 0: // known by the event alone
		out.Weight = uint64(math.Round(c.MeanPeriod() * float64(c.Delivered())))
	}
	c.scaleSplit(out, w)
	return out
}

// scaleSplit says who ran where, and when, while samples of out were taken, which are w times those of c.
func (c *Counts) scaleSplit(out *Counts, w float64) {
	rest := out.Total
	origins := scaler{w: w}
	for _, o := range slices.SortedFunc(maps.Keys(c.Origins), Origin.Compare) {
		n := min(origins.scale(c.Origins[o]), rest)
		rest -= n
		out.AddOrigin(o, n)
	}
	rest = out.Total
	processors := scaler{w: w}
	for _, cpu := range slices.Sorted(maps.Keys(c.Processors)) {
		n := min(processors.scale(c.Processors[cpu]), rest)
		rest -= n
		out.AddProcessor(cpu, n)
	}
	c.scaleSlices(out, w)
}

// Apart returns r with the periods of its events as they were in the mean, to within a few percent, where quite others were asked for, or none: so that
// samples that stand for unlike amounts stay apart in a sum. It changes r.
func (r *Recording) Apart() *Recording {
	return r.withPeriods(func(c *Counts) float64 {
		p, asked := c.MeanPeriod(), float64(c.Event.Period)
		if p == 0 || asked > 0 && max(p/asked, asked/p) <= alikePeriods {
			return 0
		}
		return p
	})
}

// Slowed is Apart of what was sampled so many times more seldom than was asked for.
func (r *Recording) Slowed(by float64) *Recording {
	return r.withPeriods(func(c *Counts) float64 { return by * float64(c.Event.Period) })
}

// periodSteps is how many steps there are up to twice a period: each is by 4 %.
const periodSteps = 18

// withPeriods changes the periods that are asked for to the next of few; 0 is to leave one.
func (r *Recording) withPeriods(of func(*Counts) float64) *Recording {
	var all []*Counts
	for _, c := range r.Counts {
		if p := of(c); p > 0 && c.Event.Unit != "events" {
			c.Event.Period = uint64(max(1, math.Round(math.Exp2(math.Round(math.Log2(p)*periodSteps)/periodSteps))))
		}
		all = append(all, c)
	}
	slices.SortStableFunc(all, compareCounts)
	r.Counts = all
	for i := range all[min(1, len(all)):] {
		if compareCounts(all[i], all[i+1]) == 0 { // periods that were two are one
			r.Counts = sumsOf(all)
			break
		}
	}
	return r
}
