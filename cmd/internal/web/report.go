package web

import (
	"fmt"

	"backfeed/cmd/internal/report"
)

const (
	maxReport = 4 << 20 // bytes of a report after which no procedure is added
	maxRows   = 200     // procedures in its list
	maxItems  = 3000    // procedures that scripts list
)

// Report makes all pages one, with the code of n procedures. It calls progress, if there
// is one, with those that are done.
func (v *View) Report(n int, progress func(done, total int)) (*report.Page, error) {
	page := report.NewPage("Where the time went", v.lead())
	procs := &sheet{page: report.NewPage("", "")}
	written := 0
	inside := map[*viewed]bool{}
	for _, p := range v.procs[:min(n, len(v.procs))] {
		inside[p] = true
	}
	href := func(p *viewed) string {
		if inside[p] {
			return "#" + p.id
		}
		return ""
	}
	for i, p := range v.procs[:min(n, len(v.procs))] {
		if written > maxReport {
			// Others may have led to it already.
			delete(inside, p)
			procs.add(p.id, p.row.Name, text("Its code has no room in this page."))
			procs.page.Sections[len(procs.page.Sections)-1].Quiet = true
			continue
		}
		if progress != nil {
			progress(i, min(n, len(v.procs)))
		}
		v.addProc(procs, p, p.id, true, href)
		if procs.err != nil {
			return nil, procs.err
		}
		section := &procs.page.Sections[len(procs.page.Sections)-1]
		section.Quiet = true
		written += len(section.Body)
	}
	list := v.procList(v.procs[:min(maxRows, len(v.procs))], href)
	list.Caption = fmt.Sprintf("%d of %d procedures with samples, by cycles; the code of %d is below", len(list.Rows), len(v.procs), len(inside))
	s := &sheet{page: page}
	o := v.overview(maxItems, places{
		proc: href,
		code: func(p *viewed, _ string) string { return href(p) }, // whose block may be left out
		page: func(name string) string {
			return map[string]string{"procedures": "#procedures", "causes": "#causes", "confidence": "#confidence", "layout": "#pages", "build": "#procedures"}[name]
		},
	}, -1)
	s.add("recorded", "What was recorded", o.RecordedHTML)
	s.add("findings", "What matters most", report.InsightsHTML(o.Findings))
	s.add("procedures", "Procedures", v.listHTML(list))
	s.add("images", "Images", table(v.imageTable(), ""))
	v.addStalls(s, "", fewStalls, func(r *report.StallRow) string {
		for p := range inside {
			if p.r == r.Of.Result {
				return "#" + p.id
			}
		}
		return ""
	})
	v.addCauses(s, nil)
	v.addImageCauses(s, nil)
	v.addConfidence(s)
	if s.err != nil {
		return nil, s.err
	}
	heat, _, err := v.heatMap(v.hottestImage(), -1)
	if err != nil {
		return nil, err
	}
	heat.Sections[0].Title = heat.Title
	page.Append(heat)
	s.add("reading", "How to read the code below", text("%s", listingNote(v.x)))
	page.Sections = append(page.Sections, procs.page.Sections...)
	page.Data = append(page.Data, report.Datum{Name: "report", Of: o})
	return page, s.err
}
