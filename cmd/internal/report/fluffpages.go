package report

import (
	"cmp"
	"html/template"
	"slices"

	"backfeed/infer/image"
	"backfeed/layout"
)

// A coldPage is a page with hot code, and what of it is cold.
type coldPage struct {
	picture
	Addr, Share, Cold, Names string

	at    image.Addr
	heat  float64
	bytes uint64
	items []int // of the fluff
}

// hotPagesShare is the share of the execution that hot pages have.
const hotPagesShare = 0.999

// FluffPages draws the n hot pages of an image, those with 99.9 % of the execution, that have the most bytes of code that is cold by
// evidence, by their cache lines.
func FluffPages(heat *layout.Heat, f *layout.Fluff, n int, names Style) (template.HTML, error) {
	one := &side{Heat: heat, Names: names}
	sc := newScale([]*side{one}, (*side).lines)
	pages, hot := coldPages(heat, f)
	shown := pages[:min(n, len(pages))]
	for i := range shown {
		shown[i].draw(one, f, sc)
	}
	return markup("fluffpages.tmpl", map[string]any{"Pages": shown, "Hot": hot})
}

// coldPages returns the hot pages that have cold code, those with the most first, and how many pages are hot.
func coldPages(heat *layout.Heat, f *layout.Fluff) (cold []coldPage, hot int) {
	byHeat, all, sum := slices.Clone(heat.Pages), 0.0, 0.0
	slices.SortStableFunc(byHeat, func(a, b layout.Spot) int { return cmp.Compare(b.N, a.N) })
	for _, p := range byHeat {
		all += p.N
	}
	at := map[image.Addr]*coldPage{}
	for _, p := range byHeat {
		if sum >= hotPagesShare*all {
			break
		}
		sum += p.N
		hot++
		at[p.Addr] = &coldPage{at: p.Addr, heat: p.N, Addr: hex(p.Addr), Share: share(p.N, all)}
	}
	for i := range f.Items {
		it := &f.Items[i]
		for page := it.Start &^ (layout.PageBytes - 1); page < it.End; page += layout.PageBytes {
			if p := at[page]; p != nil {
				p.bytes += uint64(min(it.End, page+layout.PageBytes) - max(it.Start, page))
				p.items = append(p.items, i)
			}
		}
	}
	for _, p := range at {
		if p.bytes > 0 {
			p.Cold = Integer(p.bytes)
			cold = append(cold, *p)
		}
	}
	slices.SortFunc(cold, func(a, b coldPage) int { return cmp.Or(cmp.Compare(b.bytes, a.bytes), cmp.Compare(a.at, b.at)) })
	return cold, hot
}

// draw draws the cache lines of p: those that ran by their heat, those that may have run, and not those that are cold.
func (p *coldPage) draw(one *side, f *layout.Fluff, sc *scale) {
	var ran [linesPerPage]float64
	for _, l := range spotsIn(one.Heat.Lines, p.at, p.at+layout.PageBytes-1) {
		ran[(l.Addr-p.at)/layout.LineBytes] = l.N
	}
	var cold [linesPerPage]uint64 // bytes
	slices.SortFunc(p.items, func(a, b int) int {
		return cmp.Or(cmp.Compare(f.Items[b].Bytes(), f.Items[a].Bytes()), cmp.Compare(a, b))
	})
	for k, i := range p.items {
		it := &f.Items[i]
		for n := range cold {
			from := p.at + image.Addr(n*layout.LineBytes)
			if lo, hi := max(it.Start, from), min(it.End, from+layout.LineBytes); lo < hi {
				cold[n] += uint64(hi - lo)
			}
		}
		switch {
		case k < maxNames && k > 0:
			p.Names += ", " + shorten(fluffName(it, one.Names))
		case k == 0:
			p.Names = shorten(fluffName(it, one.Names))
		case k == maxNames:
			p.Names += " and others"
		}
	}
	p.picture = newPicture(p.at, layout.LineBytes, linesPerPage, 1, sc, func(n int) int {
		from := p.at + image.Addr(n*layout.LineBytes)
		if ran[n] == 0 && (2*cold[n] > layout.LineBytes || !holdsCode(one.Code, from, from+layout.LineBytes-1)) {
			return -1
		}
		return sc.class(ran[n])
	})
}
