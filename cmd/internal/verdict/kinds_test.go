package verdict

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"backfeed/infer/compare"
	"backfeed/internal/testtool"
)

// served writes a profile of a service, the samples of which have labels with their handler, and returns its path.
func served(t *testing.T, dir, name string, handlers map[string]int64, more ...string) string {
	t.Helper()
	app := &profile.Mapping{ID: 1, Start: 0x400000, Limit: 0x500000, File: "/bin/app"}
	loc := &profile.Location{ID: 1, Mapping: app, Address: 0x400100}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 10_000_000,
		Mapping: []*profile.Mapping{app}, Location: []*profile.Location{loc},
	}
	add := func(n int64, label map[string][]string) {
		p.Sample = append(p.Sample, &profile.Sample{Location: []*profile.Location{loc}, Value: []int64{n, n * p.Period}, Label: label})
	}
	for h, n := range handlers {
		if h == "" {
			add(n, nil)
		} else {
			add(n, map[string][]string{"handler": {h}})
		}
	}
	for _, id := range more {
		add(1, map[string][]string{"request_id": {id}})
	}
	var b bytes.Buffer
	if err := p.WriteUncompressed(&b); err != nil {
		t.Fatal(err)
	}
	return testtool.Write(t, dir, name, b.String())
}

// TestKindLabel: a service whose handlers take as much as before, and get other shares of the requests, is no worse; one that
// takes a tenth more in each is.
func TestKindLabel(t *testing.T) {
	dir := t.TempDir()
	write := func(name string, cost float64, a, b int64) (paths, snapshots []string) {
		na, nb := int64(0), int64(0)
		snap := func(i int) {
			snapshots = append(snapshots, testtool.Write(t, dir, fmt.Sprintf("%s%d.prom", name, i), fmt.Sprintf("requests_total{handler=\"/a\"} %d\nrequests_total{handler=\"/b\"} %d\n", na, nb)))
		}
		snap(0)
		for i := range int64(5) {
			jitter := 1 + 0.004*float64(i*3%5)
			n := func(units int64, each float64) int64 { return int64(float64(units) * each * cost * jitter) }
			paths = append(paths, served(t, dir, fmt.Sprintf("%s%d.pprof", name, i), map[string]int64{"/a": n(a, 0.5), "/b": n(b, 2), "": n(a+b, 0.1)}))
			na, nb = na+a, nb+b
			snap(int(i) + 1)
		}
		return paths, snapshots
	}
	judge := func(r *Request, old, new []string) (*Comparison, error) {
		r.Sides[0].Name, r.Sides[1].Name = "OLD", "NEW"
		r.Input.Symfs = []string{dir}
		if err := r.Choose(append(append(append([]string{}, old...), Versus), new...)); err != nil {
			return nil, err
		}
		return Judge(t.Context(), r)
	}
	request := func(units [2][]string, label string) *Request {
		r := &Request{Counter: "requests", Kind: "handler", KindLabel: label}
		r.Sides[0].Units.Values, r.Sides[1].Units.Values = units[0], units[1]
		return r
	}
	old, oldUnits := write("old", 1, 5000, 5000)
	for _, tt := range []struct {
		name    string
		cost    float64
		a, b    int64
		label   string
		outcome compare.Outcome
		change  float64
	}{
		{"dear", 1, 4000, 6000, "handler", compare.NotShown, 0},
		{"dear", 1, 4000, 6000, "", compare.Mixed, 0.111},
		{"worse", 1.1, 6000, 4000, "handler", compare.Worse, 0.1},
		{"same", 0.9, 5000, 5000, "handler", compare.Better, -0.1},
	} {
		paths, units := write(tt.name, tt.cost, tt.a, tt.b)
		c, err := judge(request([2][]string{oldUnits, units}, tt.label), old, paths)
		if err != nil {
			t.Fatal(err)
		}
		if c.Outcome != tt.outcome || c.Effect.Change < tt.change-0.004 || c.Effect.Change > tt.change+0.004 || (c.AtMix != nil) != (tt.label != "") {
			t.Errorf("%s, label %q: %s, %+v; want %s, %.3f", tt.name, tt.label, c.Outcome, c.Effect, tt.outcome, tt.change)
		}
	}
	// One number of units of each side, of all recordings: these are one.
	r := request([2][]string{{oldUnits[0], oldUnits[5]}, {oldUnits[0], oldUnits[5]}}, "handler")
	if c, err := judge(r, old, old); err != nil || c.AtMix == nil || c.Outcome != compare.Unsure || c.Effect.Change != 0 || c.Verdict.Sides[0].Runs != 5 {
		t.Errorf("all together: %+v, %v", c, err)
	}

	requests := make([]string, 1001)
	for i := range requests {
		requests[i] = fmt.Sprint(i)
	}
	many := served(t, dir, "many.pprof", nil, requests...)
	someIDs := served(t, dir, "some.pprof", nil, requests[:20]...)
	few := served(t, dir, "few.pprof", map[string]int64{"/other": 7})
	rec := testtool.Write(t, dir, "x.bfr", "bfrb")
	two := [2][]string{oldUnits[:2], oldUnits[:2]}
	for _, tt := range []struct {
		name     string
		request  *Request
		old, new string
		want     string
	}{
		{"request IDs alone", &Request{KindLabel: "request_id"}, many, many, "is no count of units"},
		{"request IDs as kinds", request(two, "request_id"), many, many, "more than 1000 values"},
		{"the reason", request(two, "request_id"), many, many, "is no count of units"},
		{"other handlers", request(two, "handler"), few, few, "samples have /other, the counter /a, /b"},
		{"request IDs that are few", request(two, "request_id"), someIDs, someIDs, "samples have 0, 1, 10, the counter /a, /b"},
		{"no label", request(two, "route"), few, few, "samples have none, the counter /a, /b"},
		{"recordings", request(two, "handler"), rec, few, "x.bfr"},
		{"one image", &Request{Counter: "requests", Kind: "handler", KindLabel: "handler", Image: "app"}, few, few, "about all samples"},
	} {
		if _, err := judge(tt.request, []string{tt.old}, []string{tt.new}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
