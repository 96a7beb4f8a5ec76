package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/explain"
	"backfeed/infer/image"
	"backfeed/infer/source"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// alone writes what a recording in testdata has of one program, and returns the arguments
// that read it: nothing is looked for elsewhere.
func alone(t *testing.T, recording, program string) []string {
	t.Helper()
	dir := filepath.Join(root, "testdata")
	b, err := os.ReadFile(filepath.Join(dir, recording))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := sample.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	build, err := image.ReadBuildID(filepath.Join(dir, program))
	if err != nil || build.IsZero() {
		t.Fatalf("%s: build ID %s, %v", program, build, err)
	}
	own := &sample.Recording{}
	for _, c := range rec.Counts {
		n := sample.NewCounts(c.CPU, c.Event)
		n.Image(sample.ImageID{Build: build, Path: "/opt/" + filepath.Base(program)})
		for _, ic := range c.Images {
			if filepath.Base(ic.ID.Path) != filepath.Base(program) {
				continue
			}
			for off, k := range ic.At {
				n.AddSample(0, off, k)
			}
		}
		own.Add(n)
	}
	return []string{testtool.Write(t, t.TempDir(), "alone.bfr", string(own.Encode())), "--symfs", filepath.Join(dir, filepath.Dir(program))}
}

// mustJSON runs a command and reads what it prints as JSON.
func mustJSON(t *testing.T, doc any, args ...string) {
	t.Helper()
	if err := json.Unmarshal([]byte(must(t, append(args, "--format", "json")...)), doc); err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
}

// itemsOf reads a list that a command printed as JSON.
func itemsOf[T any](t *testing.T, schema, out string) []T {
	t.Helper()
	var doc report.Items[T]
	if err := json.Unmarshal([]byte(out), &doc); err != nil || doc.Schema != schema {
		t.Fatalf("%v, schema %q, want %q: %s", err, doc.Schema, schema, out)
	}
	return doc.Items
}

// shows holds what a command prints as text to a golden file, for the document in another:
// that one is from testdata too, and what is inferred may change without it. -update makes both.
func shows(t *testing.T, command string, doc any, text func(io.Writer) error, args ...string) {
	t.Helper()
	name := "testdata/" + command
	if *testtool.Update {
		out := must(t, append([]string{command, "--format", "json"}, args...)...)
		if err := os.WriteFile(name+".json", []byte(out), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(name + ".json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, doc); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	if err := text(&got); err != nil {
		t.Fatal(err)
	}
	golden(t, name+".txt", got.String())
}

func TestBlame(t *testing.T) {
	for _, tt := range []struct {
		stall explain.Stall
		want  string
	}{
		{explain.Stall{Cycles: 10, Culprits: []explain.Culprit{{Cause: explain.DCache, Most: 10}, {Cause: explain.Mispredict, Most: 1}, {Cause: explain.Lock, Most: 0.9}}}, "dp"},
		{explain.Stall{Cycles: 10, Culprits: []explain.Culprit{{Cause: explain.ITLB, Most: 2}}, Unexplained: 8}, "T?"},
		{explain.Stall{Cycles: 10, Unexplained: 10}, "?"},
		{explain.Stall{}, ""},
	} {
		if got := report.Blame(&tt.stall); got != tt.want {
			t.Errorf("blame(%+v) = %q, want %q", tt.stall, got, tt.want)
		}
	}
}

// TestTopstalls: the programs of testdata/stalls wait
// where they were made to.
func TestTopstalls(t *testing.T) {
	mix := alone(t, "mix/samples.bfr", "mix/mix")
	var few report.TopStalls
	shows(t, "topstalls", &few, func(w io.Writer) error { return few.Text(w, report.Style{}) }, append([]string{"-n", "8"}, mix...)...)
	var all, first, one report.TopStalls
	mustJSON(t, &all, append([]string{"topstalls", "-n", "0"}, mix...)...)
	mustJSON(t, &first, append([]string{"topstalls", "-n", "8"}, mix...)...) // whose causes alone are looked for
	if !reflect.DeepEqual(first.Stalls, all.Stalls[:8]) || first.Instructions != all.Instructions || first.Chosen != all.Chosen || first.Stalled != all.Stalled {
		t.Errorf("the first 8 of %d stalls are not those of all", len(all.Stalls))
	}
	sum := 0.0
	for i, r := range all.Stalls {
		if sum += r.Share; math.Abs(sum-r.Sum) > 1e-9 || i > 0 && r.Share > all.Stalls[i-1].Share {
			t.Errorf("row %d: share %g, sum %g after %g", i, r.Share, r.Sum, sum)
		}
	}
	if len(all.Stalls) == 0 || len(all.Stalls) != all.Instructions || math.Abs(sum-all.Chosen) > 1e-9 || all.Chosen > all.Stalled || all.Stalled > 1 {
		t.Errorf("%d rows of %d instructions, %g of %g of %g", len(all.Stalls), all.Instructions, sum, all.Chosen, all.Stalled)
	}
	mustJSON(t, &one, append([]string{"topstalls", "-n", "0", "--cause", "mispredict", "--conf", "medium"}, mix...)...)
	if one.Instructions == 0 || one.Instructions >= all.Instructions || one.Chosen >= all.Chosen || one.Stalled != all.Stalled {
		t.Errorf("one cause: %d of %d instructions, %g of %g", one.Instructions, all.Instructions, one.Chosen, all.Chosen)
	}
	for _, r := range one.Stalls {
		if !strings.Contains(r.Blame+"p", "p") || r.Within < infer.Medium {
			t.Errorf("%s: blame %s, shape %s", r.Addr, r.Blame, r.Within)
		}
	}
	for _, tt := range []struct{ kind, blame string }{{"chase", "d"}, {"divide", "/"}, {"atomic", "L"}} {
		var doc report.TopStalls
		mustJSON(t, &doc, append([]string{"topstalls", "-n", "1"}, alone(t, "stalls/"+tt.kind+".bfr", "stalls/stalls")...)...)
		if len(doc.Stalls) != 1 || doc.Stalls[0].Procedure != tt.kind || !strings.HasPrefix(doc.Stalls[0].Blame, tt.blame) {
			t.Errorf("%s: %+v, want its procedure, blame %s first", tt.kind, doc.Stalls, tt.blame)
		}
	}
	if code, _, stderr := runCLI(t, append([]string{"topstalls", "--cause", "bad luck"}, mix...)...); code != exitUsage || !strings.Contains(stderr, "mispredict") {
		t.Errorf("--cause that there is none: exit code %d: %s", code, stderr)
	}
}

// TestWhatcg: what time went to adds up to all, of whatever.
func TestWhatcg(t *testing.T) {
	mix := alone(t, "mix/samples.bfr", "mix/mix")
	var whole report.WhatCG
	shows(t, "whatcg", &whole, func(w io.Writer) error { return whole.Text(w, report.Style{}) }, mix...)
	for _, of := range [][]string{nil, {"--image", "mix"}, {"--proc", "mix:lookup"}, {"--proc", "^quick"}} {
		var doc report.WhatCG
		mustJSON(t, &doc, append(append([]string{"whatcg"}, mix...), of...)...)
		sum, least, most, stalls := 0.0, 0.0, 0.0, 0.0
		for _, r := range doc.Spent {
			sum, least, most = sum+r.Share, least+r.Least, most+r.Most
			switch r.Kind {
			case "stall", "several":
				stalls += r.Share
			}
			if r.Least > r.Most || r.Most > 1 {
				t.Errorf("%v: %+v", of, r)
			}
		}
		if math.Abs(sum-1) > 1e-6 || least > stalls+1e-6 || most < stalls-1e-6 {
			t.Errorf("%v: shares add up to %g; stalls are %g, least %g, most %g", of, sum, stalls, least, most)
		}
		if td := doc.TopDown; !td.Estimated || td.Retiring[0] > td.Retiring[1] {
			t.Errorf("%v: %+v", of, td)
		}
	}
	for kind, cause := range map[string]string{"chase": "d", "branch": "mispredict", "divide": "divider", "atomic": "lock", "stores": "w"} {
		var doc report.Blamed
		mustJSON(t, &doc, append([]string{"whatcg", "--cause", cause}, alone(t, "stalls/"+kind+".bfr", "stalls/stalls")...)...)
		if len(doc.Procedures) == 0 || doc.Procedures[0].Procedure != kind || doc.Procedures[0].Share < 0.05 {
			t.Errorf("%s: %+v, want its procedure first", kind, doc.Procedures)
		}
	}
}

// TestList: all samples and all time of a procedure are listed.
func TestList(t *testing.T) {
	mix := alone(t, "mix/samples.bfr", "mix/mix")
	tree := filepath.Join(root, "testdata/mix")
	text, err := source.NewText([]string{tree}, nil)
	if err != nil {
		t.Fatal(err)
	}
	var shown, doc report.List
	shows(t, "list", &shown, func(w io.Writer) error { return shown.Text(w, report.Style{}, &report.ListView{Source: text}) }, append([]string{"lookup"}, mix...)...)
	mustJSON(t, &doc, append([]string{"list", "lookup"}, mix...)...)
	var samples uint64
	time, sum := 0.0, 0.0
	for i, r := range doc.Insts {
		samples, time = samples+r.Samples, time+r.Time
		if r.Each != nil && *r.Each < r.Stall*(1-1e-12) || len(r.Culprits) > 0 && r.Stall == 0 || i > 0 && r.Addr <= doc.Insts[i-1].Addr {
			t.Errorf("%+v", r)
		}
	}
	for _, r := range doc.Spent {
		sum += r.Share
	}
	if samples != doc.ProcSamples || math.Abs(time-1) > 1e-6 || math.Abs(sum-1) > 1e-6 || doc.Callers != 1 || doc.Ideal > doc.Cycles {
		t.Errorf("%d of %d samples, %g of the time, %g by cause, %d callers, %g of %g cycles are ideal",
			samples, doc.ProcSamples, time, sum, doc.Callers, doc.Ideal, doc.Cycles)
	}
}

// TestOnlyIn: prof --image and topstalls --image and --proc list what the whole list has of an image or a procedure, with the same shares.
func TestOnlyIn(t *testing.T) {
	args := func(more ...string) []string {
		return append([]string{more[0], mixDir + "/samples.bfr", "--symfs", mixDir, "-n", "0", "--format", "json"}, more[1:]...)
	}
	profOf := func(more ...string) (rows []report.ProfRow) {
		return itemsOf[report.ProfRow](t, "backfeed.prof/2", must(t, args(append([]string{"prof"}, more...)...)...))
	}
	stallsOf := func(more ...string) (doc report.TopStalls) {
		if err := json.Unmarshal([]byte(must(t, args(append([]string{"topstalls"}, more...)...)...)), &doc); err != nil {
			t.Fatal(err)
		}
		return doc
	}
	shares := func(rows []report.ProfRow, in string) (all []string) {
		for _, r := range rows {
			if strings.Contains(r.Image, in) {
				all = append(all, fmt.Sprint(r.Procedure, r.Share))
			}
		}
		return all
	}
	if got, want := shares(profOf("--image", "mix"), ""), shares(profOf(), "/mix"); len(want) == 0 || !slices.Equal(got, want) {
		t.Errorf("prof --image mix: %q, want %q", got, want)
	}
	stalls := func(doc report.TopStalls, in, proc string) (all []string) {
		for _, r := range doc.Stalls {
			if strings.Contains(r.Image, in) && (proc == "" || r.Procedure == proc) {
				all = append(all, fmt.Sprint(r.Addr, r.Share))
			}
		}
		return all
	}
	whole := stallsOf()
	for _, tt := range []struct{ flag, value, image, proc string }{{"--image", "mix", "/mix", ""}, {"--proc", "lookup", "/mix", "lookup"}} {
		part := stallsOf(tt.flag, tt.value)
		if got, want := stalls(part, "", ""), stalls(whole, tt.image, tt.proc); len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("topstalls %s %s: %q, want %q", tt.flag, tt.value, got, want)
		}
		if part.Stalled != whole.Stalled || !(part.Chosen < whole.Chosen) || part.Instructions != len(part.Stalls) {
			t.Errorf("topstalls %s %s: %g of the time is stalls, %g of it chosen in %d instructions; of all %g, %g", tt.flag, tt.value,
				part.Stalled, part.Chosen, part.Instructions, whole.Stalled, whole.Chosen)
		}
	}
	for _, wrong := range [][]string{{"topstalls", "--image", "mix", "--proc", "lookup"}, {"prof", "--image", "mix", "--by", "line"}, {"prof", "--image", "mix", "--experiment", "ideal"}} {
		if code, _, errs := runCLI(t, args(wrong...)...); code != exitUsage || !strings.Contains(errs, "--image") {
			t.Errorf("%q: exit code %d: %s", wrong, code, errs)
		}
	}
}
