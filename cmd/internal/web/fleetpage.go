package web

import (
	"cmp"
	"context"
	"fmt"
	"html/template"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"backfeed/cmd/internal/emit"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
)

const (
	maxSelections  = 32  // of labels that are kept
	maxSeries      = 4   // images that are drawn apart
	maxChoices     = 24  // values of a label that are listed
	maxFleetEvents = 100 // changes that are listed
)

// fleetOf returns what the stores have of a selection; false if it is not read in time.
func (v *View) fleetOf(labels map[string]string, patience time.Duration) (*input.Fleet, error, bool) {
	key := ""
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		key += fmt.Sprintf("%q=%q ", name, labels[name])
	}
	v.fleetLock.Lock()
	l := v.fleets[key]
	if l == nil {
		if v.fleets == nil || len(v.fleets) >= maxSelections {
			v.fleets = map[string]*later[*input.Fleet]{}
		}
		l = &later[*input.Fleet]{}
		v.fleets[key] = l
	}
	v.fleetLock.Unlock()
	return l.get(patience, func() (*input.Fleet, error) {
		v.turn.Lock()
		defer v.turn.Unlock()
		return v.src.Fleet(context.Background(), labels)
	})
}

// fleetHref leads to a selection.
func fleetHref(labels map[string]string, name, value string) string {
	q := url.Values{}
	for _, n := range slices.Sorted(maps.Keys(labels)) {
		if n != name {
			q.Add("label", n+"="+labels[n])
		}
	}
	if value != "" {
		q.Add("label", name+"="+value)
	}
	if len(q) == 0 {
		return "/fleet"
	}
	return "/fleet?" + q.Encode()
}

func (s *Site) fleetPage(w http.ResponseWriter, r *http.Request) {
	if !s.src.HasStore() {
		http.Error(w, "no source is a store, which has epochs and labels: name one, as serve STORE", http.StatusNotFound)
		return
	}
	labels := map[string]string{}
	for _, l := range r.URL.Query()["label"] {
		if name, value, ok := strings.Cut(l, "="); ok && len(labels) < maxChoices {
			labels[name] = value
		}
	}
	page := report.NewPage("The store over time", "Samples by epoch and image, of all machines or of some, in UTC; the other pages are of all that was read. Labels choose what is shown here.")
	sh := &sheet{page: page}
	f, err, done := s.fleetOf(labels, s.patience)
	if s.has(w, sh, "the store's epochs", err, done) {
		s.addFleet(sh, f, labels)
	}
	s.send(w, "/fleet", page, sh.err)
}

// addFleet appends what the stores have of a selection.
func (v *View) addFleet(s *sheet, f *input.Fleet, labels map[string]string) {
	s.add("labels", "Hosts and labels", func() (template.HTML, error) { return report.FleetLabelsHTML(fleetLabels(f, labels)) })
	if len(f.Steps) == 0 {
		s.add("time", "Samples over time", text("Nothing in the store has these labels."))
		return
	}
	sums := map[string]uint64{}
	for _, st := range f.Steps {
		for name, n := range st.Images {
			sums[name] += n
		}
	}
	series := slices.SortedFunc(maps.Keys(sums), func(a, b string) int { return cmp.Or(cmp.Compare(sums[b], sums[a]), cmp.Compare(a, b)) })
	series = series[:min(maxSeries, len(series))]
	var bars []report.FleetBar
	for _, st := range f.Steps {
		b := report.FleetBar{Title: stepTitle(&st), Total: st.Samples}
		for _, name := range series {
			b.Parts = append(b.Parts, st.Images[name])
		}
		bars = append(bars, b)
	}
	first, last := f.Steps[0].Epoch.From(), f.Steps[len(f.Steps)-1].Epoch.To()
	older := ""
	if f.Older > 0 {
		older = fmt.Sprintf(" %d older ones are left out; --since and --until choose others.", f.Older)
	}
	names := make([]string, len(series))
	for i, name := range series {
		names[i] = path.Base(name)
	}
	s.add("time", "Samples over time", text("%d epochs that have samples, side by side.%s", len(f.Steps), older),
		func() (template.HTML, error) {
			return report.FleetHTML(names, bars, first.Format(time.DateTime), last.Format(time.DateTime))
		})
	v.addFleetChanges(s, f)
	v.addFleetCommands(s, f, labels)
}

// stepTitle says in a line what a stretch of time has.
func stepTitle(st *input.FleetStep) string {
	hosts := ""
	if st.Hosts > 0 {
		hosts = fmt.Sprintf(", hosts: %d", st.Hosts)
	}
	return fmt.Sprintf("%s, %v: %d samples%s", st.Epoch.From().Format(time.DateTime), st.Epoch.To().Sub(st.Epoch.From()), st.Samples, hosts)
}

// fleetLabels are the labels of all that was read, the host first.
func fleetLabels(f *input.Fleet, chosen map[string]string) (all []report.FleetLabel) {
	names := slices.SortedFunc(maps.Keys(f.Labels), func(a, b string) int {
		return cmp.Or(cmp.Compare(btoi(a != input.HostLabel), btoi(b != input.HostLabel)), cmp.Compare(a, b))
	})
	for _, name := range names[:min(maxChoices, len(names))] {
		l := report.FleetLabel{Name: name}
		if _, ok := chosen[name]; ok {
			l.Any = fleetHref(chosen, name, "")
		}
		values := slices.SortedFunc(maps.Keys(f.Labels[name]), func(a, b string) int {
			return cmp.Or(cmp.Compare(f.Labels[name][b], f.Labels[name][a]), cmp.Compare(a, b))
		})
		l.More = max(0, len(values)-maxChoices)
		for _, value := range values[:len(values)-l.More] {
			l.Choices = append(l.Choices, report.FleetChoice{Value: value, Href: fleetHref(chosen, name, value), Samples: f.Labels[name][value], Chosen: chosen[name] == value})
		}
		all = append(all, l)
	}
	return all
}

// addFleetChanges appends what changed from one epoch to the next.
func (v *View) addFleetChanges(s *sheet, f *input.Fleet) {
	all := f.Changes()
	t := report.NewTable(report.Left("since"), report.Left("what"), report.Right("before"), report.Right("then"), report.Right("difference, with 95 % confidence").Less(), report.Paths("image").Main())
	shown := slices.Clone(all)
	slices.SortStableFunc(shown, func(a, b input.FleetChange) int { // builds first, then the largest
		size := func(ch *input.FleetChange) float64 { return max(ch.Shares[0]-ch.Shares[1], ch.Shares[1]-ch.Shares[0]) }
		return cmp.Or(cmp.Compare(btoi(!a.OtherBuild()), btoi(!b.OtherBuild())), cmp.Compare(size(&b), size(&a)))
	})
	shown = shown[:min(maxFleetEvents, len(shown))]
	slices.SortStableFunc(shown, func(a, b input.FleetChange) int { return cmp.Compare(b.At.Start, a.At.Start) })
	for i := range shown {
		ch := &shown[i]
		what := "share"
		if ch.OtherBuild() {
			what = "another build: " + shortBuilds(ch.Old) + " -> " + shortBuilds(ch.New)
		}
		t.Row(ch.At.From().Format(time.DateTime), what, report.Percent(ch.Shares[0]), report.Percent(ch.Shares[1]), fmt.Sprintf("%+.2f to %+.2f %%", 100*ch.Low, 100*ch.High), ch.Image)
	}
	s.add("changes", "What changed when", text("%d changes from one epoch to the next, the newest first, at most %d: other builds of an image, and shares of all samples by more than chance of sampling. Load, and not the program alone, changes shares.", len(all), maxFleetEvents), table(t, ""))
}

// shortBuilds abbreviates build IDs.
func shortBuilds(ids []string) string {
	var all []string
	for _, id := range ids {
		all = append(all, id[:min(10, len(id))])
	}
	return strings.Join(all, ", ")
}

// addFleetCommands appends the commands that go on from here.
func (v *View) addFleetCommands(s *sheet, f *input.Fleet, labels map[string]string) {
	first, last := f.Steps[0].Epoch.From(), f.Steps[len(f.Steps)-1].Epoch.To()
	all := []string{emit.Again(v.src, "serve", labels, first, last), emit.Again(v.src, "stats", labels, first, last) + " --epochs"}
	s.add("go-on", "To go on", text("All pages for what is chosen here; which procedures vary, epoch by epoch; and, of a change of build, whether the new one takes less:"), commands(all...))
	for _, ch := range slices.Backward(f.Changes()) {
		if ch.OtherBuild() {
			s.add("deploy", "After the newest build", commands(emit.Again(v.src, "verdict", labels, time.Time{}, time.Time{})+" --deploy "+ch.At.From().Format(time.RFC3339)))
			return
		}
	}
}
