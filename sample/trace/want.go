package trace

import (
	"cmp"
	"math"
	"slices"

	"backfeed/sample"
)

// A Wanted is a site of which it should be known how often it runs.
type Wanted struct {
	Off  sample.Offset
	Rate float64 // expected, per second of processor time
}

// A WantedGroup is sites of one image to be armed together.
type WantedGroup struct {
	ID    sample.ImageID
	Sites []Wanted
}

// WantOptions say which sites may be wanted.
type WantOptions struct {
	Able          func(id sample.ImageID, off sample.Offset) bool // id by key
	Groups, Sites int                                             // at most, of these in each group
	Rate          float64                                         // of a group at most, per second, while the code around one of its sites runs
}

const (
	// fewWalks are as many as have to pass through a place for its rate to say something. askedSD is
	// how far off windows are taken to be, in the logarithm: a hundred or two are mostly surer.
	fewWalks, askedSD = 4, 0.1
	// mostAsked are as many places as are compared, of those that walks of the same regions do not pass through equally often. To compare
	// one takes a millisecond or two of a program of many regions.
	mostAsked = 100
	// mostWanting is how many walks are gone through. What that takes is the more the more they are, and so was always more than there was
	// room for where walks are many and short: of fib of testdata/programs, 18,498 in 26 s at 10 %, and not one window.
	mostWanting = 2000
	// usualSteps of all walks are added to the instructions of those of a region.
	usualSteps = 1000
)

// Want returns the sites whose rates would tell most of how slow code is where walks began,
// beside rates, best group first. There are none before walks tell anything.
func (w *Walks) Want(rates []Rate, opt WantOptions) []WantedGroup {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rates = rates
	w = w.some(mostWanting)
	region, worths := w.regions(), w.worths()
	p := &wanting{WantOptions: opt, weigher: w.weigher(region, worths)}
	p.u = p.solve()
	p.weight = p.at(p.u)
	p.ran = make([]float64, len(p.starts))
	most := w.longMost()
	for _, s := range w.walks {
		p.ran[region[s.start]] += s.share(most) * float64(s.steps)
	}
	walks := w.walksBy()
	places, visits := w.visits(region, worths, func(i int32) bool {
		return walks[i] >= fewWalks && !w.places[i].to.known && opt.Able(w.places[i].id, w.places[i].off)
	})
	for i, cells := range visits {
		at := w.places[places[i]]
		p.add(w.ids[at.id], at.off, cells)
	}
	p.chooseAll()
	return p.groups
}

// Wanting is how many walks of so many Want goes through.
func Wanting(walks int) int { return min(walks, mostWanting) }

// some returns w with so many of its walks at most, evenly spread over time. It is for reading, while w.mu is held.
func (w *Walks) some(most int) *Walks {
	if len(w.walks) <= most {
		return w
	}
	out := &Walks{ids: w.ids, place: w.place, places: w.places, spot: w.spot, rates: w.rates}
	for i := range most {
		out.walks = append(out.walks, w.walks[i*len(w.walks)/most])
	}
	return out
}

// walksBy returns how many walks passed through each place.
func (w *Walks) walksBy() []int {
	n, last := make([]int, len(w.places)), make([]int, len(w.places))
	for i := range w.walks {
		through := func(at via) {
			if place := at.place(); last[place] <= i {
				n[place]++
				last[place] = i + 1
			}
		}
		for _, at := range w.walks[i].at {
			through(at)
		}
		for _, r := range w.walks[i].rest {
			through(r.via)
		}
	}
	return n
}

// A wanting chooses what is wanted.
type wanting struct {
	WantOptions
	*weigher
	u      []float64 // of weigher
	weight []float64 // by region
	ran    []float64 // instructions of walks, by region
	groups []WantedGroup
	load   [][]float64 // of each group, hits per second while code of a region runs
	all    []candidate
}

// A candidate is a place that walks pass through.
type candidate struct {
	id    sample.ImageID
	off   sample.Offset
	cells []cell
	walks float64
	n     float64   // visits
	rate  float64   // per second
	own   []float64 // likewise while code of a region runs, by cell
}

// add makes a candidate of a place.
func (p *wanting) add(id sample.ImageID, off sample.Offset, cells []cell) {
	c := candidate{id: id, off: off, cells: cells}
	for _, v := range cells {
		c.walks, c.n = c.walks+v.walks, c.n+v.n
	}
	speed := math.Exp(p.u[p.speed()])
	for _, v := range cells {
		weight := p.weight[v.region]
		c.rate += weight * v.n * speed
		perStep := (v.n + c.n*usualSteps/p.steps) / (p.ran[v.region] + usualSteps)
		c.own = append(c.own, perStep*p.steps*weight*speed)
	}
	if c.around(c.own) <= p.Rate {
		p.all = append(p.all, c)
	}
}

// mostLike is how many of those before a candidate is compared with, which walks pass through as often or more.
const mostLike = 32

// like reports whether walks pass through o as through c, region by region: one is mostly a few instructions behind the other, and its rate
// tells the same.
func (c *candidate) like(o candidate) bool {
	return c.id == o.id && c.walks == o.walks && slices.Equal(c.cells, o.cells)
}

// around returns the mean of something by cell over the visits.
func (c *candidate) around(by []float64) (sum float64) {
	for i, v := range c.cells {
		sum += v.n / c.n * by[i]
	}
	return sum
}

// chooseAll puts the best candidates into groups.
func (p *wanting) chooseAll() {
	slices.SortStableFunc(p.all, func(a, b candidate) int { return cmp.Compare(b.walks, a.walks) })
	kept := p.all[:0]
	for i := range p.all {
		if len(kept) == mostAsked {
			break
		}
		if c := &p.all[i]; !slices.ContainsFunc(kept[max(0, len(kept)-mostLike):], c.like) {
			kept = append(kept, *c)
		}
	}
	p.all = kept
	of := make([][]cell, len(p.all))
	for i := range p.all {
		of[i] = p.all[i].cells
	}
	p.choose(p.u, of, askedSD, func(i int) bool { return p.take(&p.all[i]) })
}

// take puts c into a group, if there is one for it.
func (p *wanting) take(c *candidate) bool {
	at := 0
	for ; at < len(p.groups); at++ {
		g := &p.groups[at]
		load := make([]float64, len(c.cells))
		for i, v := range c.cells {
			load[i] = c.own[i] + p.load[at][v.region]
		}
		if g.ID.Key() == c.id.Key() && len(g.Sites) < p.Sites && c.around(load) <= p.Rate {
			break
		}
	}
	if at >= p.Groups {
		return false
	}
	if at == len(p.groups) {
		p.groups, p.load = append(p.groups, WantedGroup{ID: c.id}), append(p.load, make([]float64, len(p.starts)))
	}
	g := &p.groups[at]
	g.Sites = append(g.Sites, Wanted{c.off, c.rate})
	for i, v := range c.cells {
		p.load[at][v.region] += c.own[i]
	}
	return true
}
