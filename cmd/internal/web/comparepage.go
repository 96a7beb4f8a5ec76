package web

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"time"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/compare"
	"backfeed/infer/image"
)

// maxCompared is how many procedures a comparison lists.
const maxCompared = 200

// Against has v compared with an older recording, of the same event, which has to stay open while the view is in use.
func (v *View) Against(old *input.Session) { v.old = old }

// errNothingOlder says that there is nothing to compare with.
var errNothingOlder = errors.New("nothing to compare with: start serve with --against OLD")

// sideOf is a recording as package compare takes it.
func sideOf(s *input.Session) compare.Side {
	return compare.Side{Recording: s.Recording, Profile: s.Profile, Named: s.Named}
}

// compared returns what differs by procedure; false if it is not worked out in time.
func (v *View) compared(patience time.Duration) (*compare.Difference, error, bool) {
	return v.difference.get(patience, func() (*compare.Difference, error) {
		v.turn.Lock()
		defer v.turn.Unlock()
		return compare.Recordings(sideOf(v.old), sideOf(v.src), compare.What{}), nil
	})
}

// viewedOf returns the procedure of a result; nil if it has no page.
func (v *View) viewedOf(r *infer.Result) *viewed {
	return v.byResult[r]
}

func (s *Site) comparePage(w http.ResponseWriter, r *http.Request) {
	if s.old == nil {
		http.Error(w, errNothingOlder.Error(), http.StatusNotFound)
		return
	}
	if id := r.URL.Query().Get("proc"); id != "" {
		s.compareProc(w, id)
		return
	}
	page := report.NewPage("What differs", s.compareLead())
	sh := &sheet{page: page}
	d, err, done := s.compared(s.patience)
	if s.has(w, sh, "the comparison", err, done) {
		f, err, done := s.flameDifference(s.patience)
		switch {
		case !s.has(w, sh, "the difference by stack", err, done):
		case f.flame == nil: // the note comes last
			s.addCompared(sh, "procedures", "Procedures", d, compareHref)
			s.addFlameDifference(sh, f, compareHref)
		default:
			s.addFlameDifference(sh, f, compareHref)
			s.addCompared(sh, "procedures", "Procedures", d, compareHref)
		}
	}
	s.send(w, "/compare", page, sh.err)
}

// compareLead says what is compared.
func (v *View) compareLead() string {
	return fmt.Sprintf("Before: %d samples of %s. Now: %d samples. Shares are of all samples of each; two runs of one program differ for other reasons than chance and change.",
		v.old.Profile.Samples.Total, v.src.Profile.Event.Name, v.src.Profile.Samples.Total)
}

// compareHref leads to what differs in a procedure.
func compareHref(p *viewed) string { return "/compare?proc=" + p.id }

// addCompared appends what differs by procedure; href leads to what differs in one.
func (v *View) addCompared(s *sheet, id, title string, d *compare.Difference, href func(*viewed) string) {
	n := min(maxCompared, len(d.Rows))
	s.add(id, title, text("%s. Ranges are of the difference, with 95 %% confidence, by the chance of sampling alone; of all that are called more than chance, one in twenty is expected to be chance. Runs (executions) and CPI are inferred; all runs of a recording share one unknown factor. A name leads to the blocks of both.", report.Summary(d)),
		table(report.CompareTable(d, n, v.names, func(r *compare.Row) string {
			if p := v.viewedOf(r.Procs[1]); p != nil {
				return href(p)
			}
			return ""
		}), ""))
}

// compareProc shows the blocks of a procedure beside those before.
func (s *Site) compareProc(w http.ResponseWriter, id string) {
	p := s.byID[id]
	if p == nil {
		http.Error(w, "no such procedure with samples", http.StatusNotFound)
		return
	}
	all, err, done := s.compared(s.patience)
	page := report.NewPage(p.row.Name, s.compareLead())
	sh := &sheet{page: page}
	if s.has(w, sh, "the comparison", err, done) {
		s.addComparedProc(sh, all, p)
	}
	s.send(w, "", page, sh.err)
}

// addComparedProc appends what differs in a procedure.
func (v *View) addComparedProc(s *sheet, all *compare.Difference, p *viewed) {
	if i := slices.IndexFunc(all.Rows, func(r compare.Row) bool { return r.Procs[1] == p.r }); i >= 0 {
		s.add("facts", "Figures", func() (template.HTML, error) { return report.FactsHTML(report.DifferenceFacts(&all.Rows[i])) })
	}
	d := v.comparedBlocks(p)
	s.add("blocks", "Blocks, before and now", text("%d blocks, those with samples in either recording first. Blocks are matched by their instructions, their operations or their source lines.", len(d.Rows)),
		func() (template.HTML, error) {
			return report.BlocksHTML(d, func(a image.Addr) string { return procHref(p) + "#" + report.BlockIDOf(a) })
		})
	s.more(procHref(p), "The procedure as it is now")
	s.more("/compare", "All procedures")
}

// comparedBlocks returns what differs by block of a procedure.
func (v *View) comparedBlocks(p *viewed) *compare.Difference {
	v.turn.Lock()
	d := compare.Recordings(sideOf(v.old), sideOf(v.src), compare.What{Proc: func(name string) bool { return name == p.r.Proc.Name }})
	v.turn.Unlock()
	d.Rows = slices.DeleteFunc(d.Rows, func(r compare.Row) bool { return r.Procs[1] != p.r }) // another of that name
	slices.SortStableFunc(d.Rows, func(a, b compare.Row) int { return cmp.Compare(orderOf(&a), orderOf(&b)) })
	return d
}

// orderOf puts blocks that have samples before others; among them the order is kept.
func orderOf(r *compare.Row) int {
	if r.Old.Samples+r.New.Samples > 0 {
		return 0
	}
	return 1
}

// diffDocument is what diff prints of both recordings as JSON.
func diffDocument(v *View, _ url.Values) (any, error) {
	if v.old == nil {
		return nil, errNothingOlder
	}
	d, err, _ := v.compared(-1)
	if err != nil {
		return nil, err
	}
	return report.NewRecordingDiff(d, 0), nil
}
