package web

import (
	"fmt"
	"html/template"
	"net/http"
	"strconv"

	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/explain"
)

const (
	listedStalls = 30 // listed of a recording, and of a cause
	fewStalls    = 10 // listed before the causes
)

// A stallSearch finds the longest stalls of all, and those that each cause may explain.
type stallSearch struct {
	all     *report.StallFinder
	byCause [explain.NumCauses]*report.StallFinder
}

func newStallSearch(v *View) *stallSearch {
	find := func(pick report.StallFilter) *report.StallFinder {
		return report.NewStallFinder(v.src.Profile, v.x, pick, listedStalls)
	}
	s := &stallSearch{all: find(report.StallFilter{})}
	for c := range s.byCause {
		s.byCause[c] = find(report.StallFilter{Cause: explain.Cause(c), One: true})
	}
	return s
}

func (s *stallSearch) add(ip *infer.ImageProfile, e *explain.Explanation) {
	s.all.Add(ip, e)
	for _, f := range s.byCause {
		f.Add(ip, e)
	}
}

// found returns the stalls by the name of the cause that was asked for; "" is any.
func (s *stallSearch) found() map[string]*report.TopStalls {
	found := map[string]*report.TopStalls{"": s.all.Top()}
	for c, f := range s.byCause {
		found[explain.Cause(c).String()] = f.Top()
	}
	return found
}

// idOf names the procedure of an image in addresses of pages.
func idOf(image int, r *infer.Result) string {
	return fmt.Sprintf("p%d-%x", image, uint64(r.Proc.Addr))
}

// stallHref leads to the code of a stall.
func (v *View) stallHref(r *report.StallRow) string {
	if p := v.viewedOf(r.Of.Result); p != nil {
		return procHref(p) + "#" + r.BlockID()
	}
	return ""
}

// addStalls appends the n longest stalls, of a cause or of any.
func (v *View) addStalls(s *sheet, cause string, n int, href func(*report.StallRow) string) {
	doc := v.stalls[cause]
	rows := doc.Stalls[:min(n, len(doc.Stalls))]
	title, about := "Largest stalls", fmt.Sprintf("Stalls, the time beyond the least that instructions can take, are %s of the time, at %d instructions; the %d largest:", report.Percent(doc.Stalled), doc.Instructions, len(rows))
	if cause != "" {
		title = "Largest stalls that " + cause + " may explain"
		about = fmt.Sprintf("%s may explain %s of the time at most, at %d instructions; the %d largest, with what it may explain of each as their share. Another cause may be likelier.", cause, report.Percent(doc.Chosen), doc.Instructions, len(rows))
	}
	s.add("stalls", title, text("%s", about), func() (template.HTML, error) { return report.StallsHTML("", rows, v.names, href) })
}

func (s *Site) causesPage(w http.ResponseWriter, r *http.Request) {
	cause := r.URL.Query().Get("cause")
	if s.stalls[cause] == nil {
		http.Error(w, "no such cause", http.StatusNotFound)
		return
	}
	page := report.NewPage("What the cycles went to", s.lead())
	sh := &sheet{page: page}
	n := listedStalls
	if cause == "" {
		n = fewStalls
	}
	if r.URL.Query().Get("n") == "all" {
		n = listedStalls
	}
	s.addStalls(sh, cause, n, s.stallHref)
	if all := len(s.stalls[""].Stalls); cause == "" && n < all {
		sh.more("/causes?n=all", "the "+strconv.Itoa(all)+" largest")
	} else if cause != "" {
		sh.more("/causes", "stalls of all causes")
	}
	s.addCauses(sh, causeHref)
	s.addImageCauses(sh, causeHref)
	s.send(w, "/causes", page, sh.err)
}

// causeHref leads to the stalls that a cause may explain; "" for what is no cause.
func causeHref(name string) string {
	if _, err := report.CauseNamed(name); err != nil || len(name) == 1 {
		return ""
	}
	return "/causes?cause=" + name + "#stalls"
}
