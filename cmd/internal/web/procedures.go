package web

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
)

const (
	perPage      = 200 // procedures that a page lists
	leastSamples = 10  // of a procedure that is listed, unless fewer are asked for: what has one sample has no CPI worth sorting by
)

// procOrders are the orders of a list of procedures, by the word that asks for one: each has
// what people look for first. They are those of the columns of report.ProcHeads.
var procOrders = []struct {
	name string
	less func(a, b *report.ProcRow) int
}{
	{"procedure", func(a, b *report.ProcRow) int { return cmp.Compare(a.Name, b.Name) }},
	{"", nil},
	{"lost", func(a, b *report.ProcRow) int { return cmp.Compare(b.Lost, a.Lost) }},
	{"time", func(a, b *report.ProcRow) int { return cmp.Compare(b.Cycles, a.Cycles) }},
	{"", nil},
	{"samples", func(a, b *report.ProcRow) int { return cmp.Compare(b.Samples, a.Samples) }},
	{"executions", func(a, b *report.ProcRow) int { return falling(a.Executions, b.Executions) }},
	{"cpi", func(a, b *report.ProcRow) int { return falling(a.CPI, b.CPI) }},
	{"ratio", func(a, b *report.ProcRow) int { return falling(a.Ratio, b.Ratio) }},
	{"cause", func(a, b *report.ProcRow) int {
		return cmp.Or(cmp.Compare(btoi(a.Cause == ""), btoi(b.Cause == "")), cmp.Compare(a.Cause, b.Cause), falling(a.Share*a.CauseShare, b.Share*b.CauseShare))
	}},
	{"causeshare", func(a, b *report.ProcRow) int { return falling(a.CauseShare, b.CauseShare) }},
	{"confidence", func(a, b *report.ProcRow) int { return cmp.Compare(b.Within, a.Within) }},
	{"image", func(a, b *report.ProcRow) int { return cmp.Compare(a.Image, b.Image) }},
}

// firstOrder is that of a list that nobody asked for another of.
const firstOrder = "lost"

// rises are the orders that have the least first unless asked for otherwise.
var rises = []string{"procedure", "cause", "image"}

// falling compares numbers, the larger first and what is unknown last.
func falling(a, b float64) int {
	if math.IsNaN(a) || math.IsNaN(b) {
		return cmp.Compare(btoi(math.IsNaN(a)), btoi(math.IsNaN(b)))
	}
	return cmp.Compare(b, a)
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// A wanted is what of the procedures is asked for. Its zero value is not the first page: see askedFor.
type wanted struct {
	find  string
	image int // an index into the images; -1 is all
	min   uint64
	order string
	back  bool // the other way round
	from  int
}

// askedFor reads what a query wants; what makes no sense there is as if it were not there.
func (v *View) askedFor(q url.Values) wanted {
	w := wanted{find: q.Get("find"), image: -1, min: v.leastListed(), order: firstOrder, back: q.Get("up") != ""}
	if i, err := strconv.Atoi(q.Get("image")); err == nil && i >= 0 && i < len(v.images) {
		w.image = i
	}
	if n, err := strconv.ParseUint(q.Get("min"), 10, 64); err == nil && n > 0 {
		w.min = n
	}
	for _, o := range procOrders {
		if o.less != nil && o.name == q.Get("sort") {
			w.order = o.name
		}
	}
	w.from, _ = strconv.Atoi(q.Get("from")) // what is no number is the start
	return w
}

// query asks for what w is.
func (v *View) query(w wanted) string {
	q := url.Values{}
	set := func(name, value string, is bool) {
		if is {
			q.Set(name, value)
		}
	}
	set("find", w.find, w.find != "")
	set("image", strconv.Itoa(w.image), w.image >= 0)
	set("min", strconv.FormatUint(w.min, 10), w.min != v.leastListed())
	set("sort", w.order, w.order != firstOrder)
	set("up", "1", w.back)
	set("from", strconv.Itoa(w.from), w.from > 0)
	if len(q) == 0 {
		return "/procedures"
	}
	return "/procedures?" + q.Encode()
}

// leastListed is leastSamples, or less where no procedure has as many.
func (v *View) leastListed() uint64 {
	most := uint64(1)
	for _, p := range v.procs {
		most = max(most, min(p.row.Samples, leastSamples))
	}
	return most
}

// listed returns the procedures that are wanted, and how many more there would be with fewer samples.
func (v *View) listed(w wanted) (procs []*viewed, fewer int) {
	find := strings.ToLower(w.find)
	has := func(name string) bool { return strings.Contains(strings.ToLower(name), find) }
	for _, p := range v.procs {
		switch {
		case w.image >= 0 && p.ip != v.src.Profile.Images[w.image]:
		case find != "" && !has(p.row.Name) && !has(p.r.Proc.Name) && !has(image.Demangle(p.r.Proc.Name)):
		case p.row.Samples < w.min:
			fewer++
		default:
			procs = append(procs, p)
		}
	}
	for _, o := range procOrders {
		if o.name == w.order && o.less != nil {
			slices.SortStableFunc(procs, func(a, b *viewed) int {
				c := o.less(&a.row, &b.row)
				if w.back {
					return -c
				}
				return c
			})
		}
	}
	return procs, fewer
}

func (s *Site) procsPage(w http.ResponseWriter, r *http.Request) {
	want := s.askedFor(r.URL.Query())
	procs, fewer := s.listed(want)
	from := min(max(0, want.from), max(0, len(procs)-1))
	to := min(len(procs), from+perPage)
	list := s.procList(procs[from:to], procHref)
	list.Form = &report.Choices{Find: want.find, Image: want.image, Min: want.min, Order: want.order, Up: want.back}
	for _, ip := range s.src.Profile.Images {
		list.Form.Images = append(list.Form.Images, path.Base(ip.ID.Path))
	}
	for i, o := range procOrders {
		if o.less == nil {
			continue
		}
		other := want
		other.from, other.order, other.back = 0, o.name, false
		if o.name == want.order {
			other.back = !want.back
			list.Heads[i].Sorted = "descending"
			if want.back != slices.Contains(rises, o.name) {
				list.Heads[i].Sorted = "ascending"
			}
		}
		list.Heads[i].Href = s.query(other)
	}
	part := want
	if from > 0 {
		part.from = max(0, from-perPage)
		list.Before = s.query(part)
	}
	if to < len(procs) {
		part.from = to
		list.After = s.query(part)
	}
	list.Caption = fmt.Sprintf("%d to %d of %d procedures", min(from+1, to), to, len(procs))
	if fewer > 0 {
		list.Caption += fmt.Sprintf("; %d more have fewer than %d samples:", fewer, want.min)
		part.from, part.min = 0, 1
		list.Fewer = s.query(part)
	}
	page := report.NewPage("Procedures", s.lead())
	sh := &sheet{page: page}
	sh.add("procedures", "Procedures", s.listHTML(list))
	sh.add("images", "Images", table(s.imageTable(), ""))
	s.send(w, "/procedures", page, sh.err)
}
