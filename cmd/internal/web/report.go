package web

import (
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"slices"
	"strings"

	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
)

const (
	maxFile       = 5_000_000 // bytes of a report
	maxReport     = 3_000_000 // bytes of code after which no procedure is added
	maxFlows      = 700_000   // bytes of flow graphs with all blocks, if that much is left
	maxFlame      = 1_000_000 // bytes of flame graphs, if that much is left
	minFlame      = 200_000   // bytes that code leaves them
	maxRows       = 200       // procedures in its list
	maxItems      = 2000      // procedures that scripts list
	maxItemBytes  = 900_000   // bytes of these
	maxHotPages   = 12        // pages of memory by their cache lines, which take 9 KB each
	maxBlockProcs = 5         // procedures whose blocks are beside those before
	maxBlockBytes = 300_000   // bytes of these
)

// noRoom stands for the code of a procedure.
const noRoom = "Its code has no room in this page."

// Report makes all pages one, with the code of n procedures. It calls progress, if there
// is one, with those that are done.
func (v *View) Report(n int, progress func(done, total int)) (*report.Page, error) {
	page := report.NewPage("Where the time went", v.lead())
	page.Near = 2                                                 // the facts and the findings
	procs := &sheet{page: report.NewPage("", ""), room: maxFlows} // the hottest procedures take what they need of it first
	inside := map[*viewed]bool{}
	if v.waits() {
		n = 0 // their code says nothing of why they wait
	}
	shown := v.procs[:min(n, len(v.procs))]
	for _, p := range shown {
		inside[p] = true
	}
	at := places{
		proc: func(p *viewed) string {
			if inside[p] {
				return "#" + p.id
			}
			return ""
		},
		page: func(name string) string {
			name, _, _ = strings.Cut(name, "?")
			return map[string]string{"procedures": "#procedures", "causes": "#causes", "confidence": "#confidence", "layout": "#pages", "build": "#files"}[name]
		},
		one: true,
	}
	at.code = func(p *viewed, _ string) string { return at.proc(p) } // whose block may be left out
	if err := v.addInside(procs, shown, inside, at, progress); err != nil {
		return nil, err
	}
	list := v.procList(v.procs[:min(maxRows, len(v.procs))], at.proc)
	list.Caption = fmt.Sprintf("%d of %d procedures with samples, by cycles; the code of %d is below", len(list.Rows), len(v.procs), len(inside))
	list.All = len(v.procs)
	s := &sheet{page: page}
	o := v.overview(maxItems, at, -1)
	o.Items = fitItems(o.Items)
	s.add("recorded", "What was recorded", o.RecordedHTML)
	s.add("findings", "What matters most", report.InsightsHTML(o.Findings))
	compared, err := v.addReportCompared(s, at)
	if err != nil {
		return nil, err
	}
	s.add("procedures", "Procedures", v.listHTML(list))
	s.add("images", "Images", table(v.imageTable(), ""))
	if !v.waits() {
		v.addStalls(s, "", fewStalls, func(r *report.StallRow) string { return at.href(v.viewedOf(r.Of.Result)) })
		v.addCauses(s, nil)
		v.addImageCauses(s, nil)
		if len(v.images) > 0 {
			v.addBuildWhole(s, v.hottestImage(), at)
		}
	}
	v.addConfidence(s)
	if s.err != nil {
		return nil, s.err
	}
	if v.waits() {
		page.Data = append(page.Data, report.Datum{Name: "report", Of: o})
		if err := v.addFlames(page, at); err != nil {
			return nil, err
		}
		return page, nil
	}
	heat, _, err := v.heatMap(v.hottestImage(), maxHotPages, -1)
	if err != nil {
		return nil, err
	}
	heat.Sections[0].Title = heat.Title
	page.Append(heat)
	s.add("reading", "How to read the code below", text("%s", listingNote(v.x)))
	page.Data = append(page.Data, report.Datum{Name: "report", Of: o})
	if s.err != nil {
		return nil, s.err
	}
	page.Sections = append(page.Sections, compared...)
	if err := addCode(page, procs.page); err != nil {
		return nil, err
	}
	if err := v.addFlames(page, at); err != nil {
		return nil, err
	}
	return page, addFlows(page, procs.page.Data)
}

// addInside appends the code of procedures, as much as a report may have. What has no room is said, and no longer inside.
func (v *View) addInside(s *sheet, shown []*viewed, inside map[*viewed]bool, at places, progress func(done, total int)) error {
	written := 0
	for i, p := range shown {
		if written > maxReport {
			// Others may have led to it already.
			delete(inside, p)
			s.add(p.id, p.row.Name, text(noRoom))
			s.page.Sections[i].Quiet = true
			continue
		}
		if progress != nil {
			progress(i, len(shown))
		}
		v.addProc(s, p, p.id, true, at.proc)
		if s.err != nil {
			return s.err
		}
		s.page.Sections[i].Quiet = true
		written += len(s.page.Sections[i].Body)
	}
	return s.err
}

// fitItems returns the first items that have room.
func fitItems(items []report.ProcItem) []report.ProcItem {
	size := 0
	for i := range items {
		b, err := json.Marshal(items[i])
		if size += len(b) + 1; err != nil || size > maxItemBytes { // one that cannot be written fails with the page
			return items[:i]
		}
	}
	return items
}

// addCode appends code to a report. What has no room beside the rest is said to have none, the coldest first.
func addCode(page, code *report.Page) error {
	size, err := sizeOf(page)
	if err != nil {
		return err
	}
	for i := range code.Sections {
		const markup = 200 // bytes around a section, without its title
		size += len(code.Sections[i].Body) + len(code.Sections[i].Title)*6 + markup
	}
	for i := range slices.Backward(code.Sections) {
		if size <= maxFile-minFlame {
			break
		}
		body, err := text(noRoom)()
		if err != nil {
			return err
		}
		size += len(body) - len(code.Sections[i].Body)
		code.Sections[i].Body = body
	}
	page.Sections = append(page.Sections, code.Sections...)
	return nil
}

// addReportCompared appends what differs from the older recording, if there is one, and returns sections of the blocks of
// the procedures that changed most.
func (v *View) addReportCompared(s *sheet, at places) (blocks []report.Section, err error) {
	if v.old == nil {
		return nil, nil
	}
	d, err, _ := v.compared(-1)
	if err != nil {
		return nil, err
	}
	parts, size := &sheet{page: report.NewPage("", "")}, 0
	to := map[*viewed]string{}
	for i := range d.Rows {
		r := &d.Rows[i]
		p := v.viewedOf(r.Procs[1])
		if p == nil || !r.Real || r.Procs[0] == nil {
			continue
		}
		pairs := v.comparedBlocks(p)
		parts.add("before-"+p.id, p.row.Name+", before and now", text("%d blocks, those with samples in either recording first.", len(pairs.Rows)),
			func() (template.HTML, error) { return report.FactsHTML(report.DifferenceFacts(r)) },
			func() (template.HTML, error) {
				return report.BlocksHTML(pairs, func(image.Addr) string { return at.proc(p) })
			})
		if parts.err != nil {
			return nil, parts.err
		}
		last := &parts.page.Sections[len(parts.page.Sections)-1]
		if size += len(last.Body); size > maxBlockBytes {
			parts.page.Sections = parts.page.Sections[:len(parts.page.Sections)-1]
			break
		}
		last.Quiet = true
		to[p] = "#" + last.ID
		if len(parts.page.Sections) == maxBlockProcs {
			break
		}
	}
	s.page.Lead += " " + v.compareLead()
	v.addCompared(s, "compared", "What differs", d, func(p *viewed) string { return cmp.Or(to[p], at.proc(p)) })
	if bare := [2]bool{v.olderStacks().none(), v.callStacks().none()}; bare[0] || bare[1] {
		v.addFlameDifference(s, flameDifference{bare: bare}, at.proc)
	}
	return parts.page.Sections, nil
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

// addFlames puts the flame graph behind the findings of a report, and behind it that of what differs, as large as there is
// room for them.
func (v *View) addFlames(page *report.Page, at places) error {
	size, err := sizeOf(page)
	if err != nil || v.callStacks().none() {
		return err
	}
	room := min(maxFlame, maxFile-size-2000) // less the markup around them
	inside := func(doc *report.Flame) {
		for i := range doc.Frames {
			doc.Frames[i].Page = at.href(v.procOf(&doc.Frames[i]))
		}
		doc.Compact()
	}
	if v.old != nil && !v.olderStacks().none() {
		d, err, _ := v.compared(-1)
		if err != nil {
			return err
		}
		room /= 2
		err = addFlame(page, room, func(nodes int) (*report.Flame, *sheet) {
			doc := v.newFlameDifference(d, v.olderStacks(), v.callStacks(), nodes)
			s := &sheet{page: report.NewPage("", "")}
			v.addFlameDifference(s, flameDifference{flame: doc}, at.proc)
			inside(doc)
			return doc, s
		})
		if err != nil {
			return err
		}
	}
	return addFlame(page, room, func(nodes int) (*report.Flame, *sheet) {
		doc := v.flame(flameWanted{})
		doc.Prune(nodes)
		inside(doc)
		s := &sheet{page: report.NewPage("", "")}
		s.add("flame", "Flame graph", func() (template.HTML, error) { return doc.HTML("flame") })
		return doc, s
	})
}

// addFlame puts what draw returns, of not many more nodes than it is asked for, behind the findings of a report, with as many
// as there is room for.
func addFlame(page *report.Page, room int, draw func(nodes int) (*report.Flame, *sheet)) error {
	for nodes := maxFlameNodes; nodes >= 100; nodes /= 2 {
		doc, s := draw(nodes)
		if s.err != nil {
			return s.err
		}
		b, err := json.Marshal(doc)
		if err != nil {
			return err
		}
		section := s.page.Sections[0]
		if len(b)+len(section.Body) < room {
			at := slices.IndexFunc(page.Sections, func(s report.Section) bool { return s.ID == "findings" }) + 1
			page.Sections = slices.Insert(page.Sections, at, section)
			page.Data = append(page.Data, report.Datum{Name: section.ID, Of: json.RawMessage(b)})
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
