package main

import (
	"math"
	"os"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/infer/source"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// withEvents adds events to what alone writes: so many samples of 100,000 events each, at the places of the samples of time, in the
// same proportions. The last of the arguments for the command are those of alone.
func withEvents(t *testing.T, events map[string]uint64, running map[string]uint64) []string {
	t.Helper()
	args := alone(t, "mix/samples.bfr", "mix/mix")
	b, err := os.ReadFile(args[0])
	if err != nil {
		t.Fatal(err)
	}
	rec, err := sample.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	time := rec.Counts[0]
	for name, n := range events {
		c := sample.NewCounts(time.CPU, sample.Event{Name: name, Period: 100_000, Unit: "events"})
		i := c.Image(time.Images[0].ID)
		all, given := float64(time.Images[0].Samples()), uint64(0)
		most := sample.Offset(0)
		for off, k := range time.Images[0].At {
			part := uint64(float64(k) / all * float64(n))
			if given += part; part > 0 {
				c.AddSample(i, off, part)
			}
			if k > time.Images[0].At[most] || k == time.Images[0].At[most] && off < most {
				most = off
			}
		}
		c.AddSample(i, most, n-given)
		if running[name] > 0 {
			c.Enabled, c.Running = 1000, running[name]
		}
		rec.Add(c)
	}
	args[0] = testtool.Write(t, t.TempDir(), "events.bfr", string(rec.Encode()))
	return args
}

// zen5Events are those of a program that waits for memory; round numbers make round shares.
func zen5Events() map[string]uint64 {
	return map[string]uint64{"ls_not_halted_cyc": 10000, "ex_ret_ops": 16000, "de_src_op_disp.all": 20000, "de_no_dispatch_per_slot.no_ops_from_frontend": 20000,
		"de_no_dispatch_per_slot.backend_stalls": 40000, "ex_no_retire.load_not_complete": 3200, "ex_no_retire.not_complete": 4000}
}

// goldenCoveEvents are those of another, with three levels of what waits for memory.
func goldenCoveEvents() map[string]uint64 {
	return map[string]uint64{"topdown-retiring": 40000, "topdown-bad-spec": 10000, "topdown-fe-bound": 8000, "topdown-be-bound": 42000,
		"topdown-heavy-ops": 4000, "topdown-br-mispredict": 8000, "topdown-fetch-lat": 5000, "topdown-mem-bound": 25000, "cycles": 20000,
		"exe_activity.bound_on_loads": 8000, "memory_activity.stalls_l1d_miss": 7000, "memory_activity.stalls_l2_miss": 6700, "memory_activity.stalls_l3_miss": 4500, "exe_activity.bound_on_stores": 1000}
}

// TestTopDown: what whatcg, its JSON and pages say of counted metrics, and of those that are not.
func TestTopDown(t *testing.T) {
	shared := map[string]uint64{"ex_no_retire.load_not_complete": 400, "ex_no_retire.not_complete": 400, "ex_ret_ops": 1000}
	for _, tt := range []struct {
		golden string
		args   []string
	}{
		{"topdown-zen5.txt", withEvents(t, zen5Events(), nil)},
		{"topdown-shared.txt", withEvents(t, zen5Events(), shared)},
		{"topdown-goldencove.txt", append(withEvents(t, goldenCoveEvents(), nil), "--model", "intel-sapphirerapids", "--event", "cpu-clock")},
	} {
		out := must(t, append([]string{"whatcg"}, tt.args...)...)
		at := strings.Index(out, "Top-down")
		if at < 0 {
			t.Fatalf("%s: %s", tt.golden, out)
		}
		golden(t, "testdata/"+tt.golden, out[at:])
		for line := range strings.SplitSeq(strings.ReplaceAll(out[at:], "\n\n", "\n"), "\n") {
			if n := len([]rune(line)); n > 80 && strings.ContainsAny(line[:1], " 0123456789p'") { // of the table and the command: sentences are divided where there is a width
				t.Errorf("%s: %d columns: %s", tt.golden, n, line)
			}
		}
	}

	var doc report.WhatCG
	mustJSON(t, &doc, append([]string{"whatcg"}, withEvents(t, zen5Events(), nil)...)...)
	td := doc.TopDown
	if middle := (td.BackEnd[0] + td.BackEnd[1]) / 2; td.Estimated || math.Abs(middle-0.5) > 1e-6 || len(td.Metrics) != 6 || td.Processor != "AMD Zen 5" {
		t.Errorf("%+v", td)
	}
	for _, m := range td.Metrics {
		if !(m.Range[0] < m.Share && m.Share < m.Range[1]) || m.Threshold != 0 || m.High != "" || m.First != (m.Metric == "Backend Bound Memory") {
			t.Errorf("%+v", m)
		}
	}
	// Of one procedure, chance leaves more open than of all.
	var one report.WhatCG
	mustJSON(t, &one, append([]string{"whatcg", "--proc", "mix:lookup"}, withEvents(t, zen5Events(), nil)...)...)
	wide := func(m report.MetricRow) float64 { return m.Range[1] - m.Range[0] }
	if len(one.TopDown.Metrics) != 6 || wide(one.TopDown.Metrics[0]) <= wide(td.Metrics[0]) {
		t.Errorf("of a procedure %+v, of all %+v", one.TopDown.Metrics, td.Metrics)
	}

	_, _, errs := runCLI(t, append([]string{"whatcg"}, withEvents(t, zen5Events(), nil)...)...)
	if strings.Count(errs, "are not mixed") != 1 || !strings.Contains(errs, "samples of 7 other events are not mixed with those of cpu-clock: de_no_dispatch_per_slot.backend_stalls, ") {
		t.Errorf("of many events: %s", errs)
	}

	page := must(t, append([]string{"report", "--html", "-"}, withEvents(t, zen5Events(), nil)...)...)
	for _, want := range []string{"Backend Bound Memory is the largest loss.", "amdzen5/pipeline.json", "no_ops_from_frontend,cmask=0x8"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

// TestListEvents: a listing has columns of other events, as parts of their samples in the procedure.
func TestListEvents(t *testing.T) {
	args := withEvents(t, map[string]uint64{"cache-misses": 9000, "branch-misses:u": 4000, "memory_activity.stalls_l3_miss": 500}, map[string]uint64{"branch-misses:u": 250})
	list := append([]string{"list", "lookup"}, args...)
	out := must(t, list...)
	at := strings.Index(out, "lookup of")
	table := strings.Index(out, "samples   time")
	if at < 0 || table < 0 {
		t.Fatal(out)
	}
	var kept []string // without what is inferred, which may change
	for _, line := range strings.Split(out[at:table], "\n") {
		if strings.Contains(line, "samples here") {
			kept = append(kept, line)
		}
	}
	const unsaid = ", if it was counted all the time: the recording does not say"
	want := []string{"cache-misses: 1991 samples here, 22.1% of all, which stand for 199M events" + unsaid,
		"branch-misses:u: 924 samples here, 23.1% of all, which stand for 370M events; counted for 25.0% of the time (multiplexing reliability), and scaled to all of it",
		"memory_activity.stalls_l3_miss: 160 samples here, 32.0% of all, which stand for 16.0M events" + unsaid}
	for i := range want {
		if i >= len(kept) || kept[i] != want[i] {
			t.Errorf("got  %q\nwant %q", kept, want)
			break
		}
	}
	for _, tt := range []struct {
		flag, head string
	}{{"", "samples   time  cache-misses  branch-misses  executions"}, {"--all-events", "samples   time  cache-misses  branch-misses  memory…l3_miss  executions"}} {
		args := list
		if tt.flag != "" {
			args = append(args[:len(args):len(args)], tt.flag)
		}
		if out := must(t, args...); !strings.Contains(out, tt.head) {
			t.Errorf("%s: no head %q in %s", tt.flag, tt.head, out)
		}
	}

	var doc report.List
	mustJSON(t, &doc, list...)
	sums := map[string]uint64{}
	for _, r := range doc.Insts {
		for name, n := range r.Events {
			sums[name] += n
		}
	}
	if len(doc.Events) != 3 || doc.Events[1].Reliability != 0.25 || doc.Events[1].Events != 4*100_000*float64(doc.Events[1].Samples) {
		t.Errorf("%+v", doc.Events)
	}
	for _, e := range doc.Events {
		if sums[e.Event] != e.Samples {
			t.Errorf("%s: %d samples at instructions, %d in all", e.Event, sums[e.Event], e.Samples)
		}
	}
	text, err := source.NewText(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	var narrow strings.Builder
	if err := doc.Text(&narrow, report.Style{Width: 120}, &report.ListView{Source: text}); err != nil {
		t.Fatal(err)
	}
	_, shown, _ := strings.Cut(narrow.String(), "samples   time")
	if !strings.HasPrefix(shown, "  cache-misses  branch-misses  executions  cyc/exec") {
		t.Errorf("in 120 columns: %s", shown)
	}
	for line := range strings.Lines(shown) {
		if n := len([]rune(strings.TrimSuffix(line, "\n"))); n > 120 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if code, _, stderr := runCLI(t, append(list, "--all-events", "--format", "csv")...); code != exitUsage {
		t.Errorf("--all-events with CSV: exit code %d: %s", code, stderr)
	}
	page := must(t, append([]string{"report", "--html", "-"}, args...)...)
	for _, want := range []string{`title="cache-misses: 1991 samples here`, `<col class="ce"/><col class="ce"/><col class="c4"/>`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}
