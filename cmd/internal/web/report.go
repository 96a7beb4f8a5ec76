package web

import (
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"backfeed/cmd/internal/report"
)

const (
	maxFile     = 5_000_000 // bytes of a report
	maxReport   = 3_000_000 // bytes of code after which no procedure is added
	maxFlows    = 700_000   // bytes of flow graphs with all blocks, if that much is left
	maxFlame    = 1_000_000 // bytes of a flame graph, if that much is left
	maxRows     = 200       // procedures in its list
	maxItems    = 2000      // procedures that scripts list
	maxHotPages = 12        // pages of memory by their cache lines, which take 9 KB each
)

// Report makes all pages one, with the code of n procedures. It calls progress, if there
// is one, with those that are done.
func (v *View) Report(n int, progress func(done, total int)) (*report.Page, error) {
	page := report.NewPage("Where the time went", v.lead())
	page.Near = 2                                                 // the facts and the findings
	procs := &sheet{page: report.NewPage("", ""), room: maxFlows} // the hottest procedures take what they need of it first
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
		if p := v.viewedOf(r.Of.Result); p != nil {
			return href(p)
		}
		return ""
	})
	v.addCauses(s, nil)
	v.addImageCauses(s, nil)
	v.addConfidence(s)
	if s.err != nil {
		return nil, s.err
	}
	heat, _, err := v.heatMap(v.hottestImage(), maxHotPages, -1)
	if err != nil {
		return nil, err
	}
	heat.Sections[0].Title = heat.Title
	page.Append(heat)
	s.add("reading", "How to read the code below", text("%s", listingNote(v.x)))
	page.Sections = append(page.Sections, procs.page.Sections...)
	page.Data = append(page.Data, report.Datum{Name: "report", Of: o})
	if s.err == nil {
		s.err = v.addFlame(page, href)
	}
	if s.err == nil {
		s.err = addFlows(page, procs.page.Data)
	}
	return page, s.err
}

// sizeOf is how many bytes a page has.
func sizeOf(page *report.Page) (int, error) {
	var written counted
	err := page.Write(&written)
	return int(written), err
}

// addFlows puts the flow graphs with all blocks into a report, the hottest procedures' first, as far as
// there is room. The others keep the picture of their hottest blocks.
func addFlows(page *report.Page, flows []report.Datum) error {
	size, err := sizeOf(page)
	for _, d := range flows {
		const markup = 100 // bytes around a document
		n := len(d.Of.(json.RawMessage)) + markup
		if size+n < maxFile {
			size += n
			page.Data = append(page.Data, d)
			continue
		}
		for i := range page.Sections {
			body := &page.Sections[i].Body
			*body = template.HTML(strings.ReplaceAll(string(*body), ` data-flow="`+d.Name+`"`, ""))
		}
	}
	return err
}

// addFlame puts the flame graph behind the findings of a report, as large as there is room for it.
func (v *View) addFlame(page *report.Page, href func(*viewed) string) error {
	if v.callStacks().none() {
		return nil
	}
	size, err := sizeOf(page)
	if err != nil {
		return err
	}
	room := min(maxFlame, maxFile-size-1000) // less the markup around it
	doc := v.flame(flameWanted{})
	for i, k := range v.callStacks().keys {
		doc.Frames[i].Page = ""
		if p := v.callGraph().procs[k.procKey]; p != nil {
			doc.Frames[i].Page = href(p)
		}
	}
	for nodes := maxFlameNodes; nodes >= 100; nodes /= 2 {
		doc.Prune(nodes)
		doc.Compact()
		html, err := doc.HTML("flame")
		if err != nil {
			return err
		}
		b, err := json.Marshal(doc)
		if err != nil {
			return err
		}
		if len(b)+len(html) < room {
			at := slices.IndexFunc(page.Sections, func(s report.Section) bool { return s.ID == "findings" }) + 1
			page.Sections = slices.Insert(page.Sections, at, report.Section{ID: "flame", Title: "Flame graph", Body: html})
			page.Data = append(page.Data, report.Datum{Name: "flame", Of: json.RawMessage(b)})
			return nil
		}
	}
	return nil
}

// counted is how many bytes were written.
type counted int

func (c *counted) Write(b []byte) (int, error) {
	*c += counted(len(b))
	return len(b), nil
}
