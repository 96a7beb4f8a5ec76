package main

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/store"
)

// TestVerdict: a deployment that takes a tenth more is worse by recordings, by labels of a store and by time, and
// --fail-on says so; one recording each claims nothing.
func TestVerdict(t *testing.T) {
	dir := t.TempDir()
	symfs := "--symfs=" + filepath.Dir(statsELF)
	db := filepath.Join(dir, "db")
	into, err := store.Create(db, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	begin := time.Date(2026, 11, 25, 8, 0, 0, 0, time.UTC)
	var metrics strings.Builder
	fmt.Fprintf(&metrics, "requests_total %d %d\n", 0, begin.Unix())
	var files [2][]string
	for i := range 16 {
		side := i / 8
		n := uint64(10_000 + 1000*side + 40*(i*5%8))
		name := fmt.Sprintf("%d.bfr", i)
		rec := tinyRecording(t, dir, name, "/srv/tiny", map[string]uint64{"exported": n, "twice": n / 2}, 100)
		files[side] = append(files[side], filepath.Join(dir, name))
		if err := into.Put(sample.EpochAt(begin.Add(time.Duration(i)*time.Hour), time.Hour), rec, map[string]string{"version": fmt.Sprint(side + 1)}); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&metrics, "requests_total %d %d\n", 5000*(i+1), begin.Add(time.Duration(i+1)*time.Hour).Unix())
	}
	metrics.WriteString("# EOF\n")
	om := testtool.Write(t, dir, "requests.om", metrics.String())
	each := strings.Repeat(",5000", 8)[1:]
	recordings := append(append([]string{"verdict"}, files[0]...), append([]string{"vs"}, files[1]...)...)
	for _, args := range [][]string{
		append([]string{"verdict", symfs, "--old-units", each, "--new-units", each}, recordings[1:]...),
		{"verdict", db, symfs, "--old", "version=1", "--new", "version=2", "--units", om, "--counter", "requests"},
		{"verdict", db, symfs, "--deploy", "2026-11-25T16:00:00Z", "--units", om, "--counter", "requests_total"},
	} {
		var doc report.Deployed
		if err := json.Unmarshal([]byte(must(t, append(args[:1:1], append([]string{"--format=json", "--unit=request"}, args[1:]...)...)...)), &doc); err != nil {
			t.Fatal(err)
		}
		if doc.Outcome != "worse" || *doc.Change.Change < 0.08 || *doc.Change.Change > 0.11 || doc.Sides[0].Recordings != 8 || *doc.Sides[1].Units != 40_000 ||
			!strings.Contains(doc.Sentence, "more processor time per request than OLD (95 % interval") {
			t.Errorf("%q: %+v", args, doc)
		}
		code, out, errs := runCLI(t, append(args[:1:1], append([]string{"--fail-on=worse"}, args[1:]...)...)...)
		if code != exitChanged || !strings.Contains(errs, "NEW is worse") || !strings.HasPrefix(out, "NEW takes 9.8 % more") {
			t.Errorf("%q: exit code %d: %s\n%s", args, code, errs, out)
		}
	}
	// The epoch that a deployment falls into is of neither side.
	_, out, errs := runCLI(t, "verdict", db, symfs, "--deploy", "2026-11-25T16:20:00Z", "--units", om, "--counter", "requests_total", "--format=json")
	var amid report.Deployed
	if err := json.Unmarshal([]byte(out), &amid); err != nil || amid.Sides[0].Recordings != 8 || amid.Sides[1].Recordings != 7 ||
		strings.Count(errs, "the epoch from 2026-11-25T16:00:00Z to 2026-11-25T17:00:00Z is of before and after the deployment") != 1 {
		t.Errorf("%v: %+v: %s", err, amid.Sides, errs)
	}
	// So is what is marked as both: segments, for the others of their epochs stay.
	for i := range 4 {
		for _, at := range []int{0, 24} {
			rec := tinyRecording(t, dir, "both.bfr", "/srv/tiny", map[string]uint64{"exported": 700}, 100)
			if err := into.Put(sample.EpochAt(begin.Add(time.Duration(i+at)*time.Hour), time.Hour), rec, map[string]string{"version": "1", "canary": "yes"}); err != nil {
				t.Fatal(err)
			}
			rec = tinyRecording(t, dir, "canary.bfr", "/srv/tiny", map[string]uint64{"exported": 10_000}, 100)
			if err := into.Put(sample.EpochAt(begin.Add(time.Duration(i+at)*time.Hour), time.Hour), rec, map[string]string{"version": "2", "canary": "yes"}); err != nil {
				t.Fatal(err)
			}
		}
	}
	_, out, errs = runCLI(t, "verdict", db, symfs, "--old", "version=1", "--new", "canary=yes", "--format=json")
	if err := json.Unmarshal([]byte(out), &amid); err != nil || amid.Sides[0].Recordings != 8 || amid.Sides[1].Recordings != 8 || amid.Sides[1].Samples != 80_800 ||
		strings.Count(errs, "6400 samples marked version=1 are marked canary=yes, too, so that both sides would have them: they are left out") != 1 {
		t.Errorf("%v: %+v: %s", err, amid.Sides, errs)
	}
	if code, _, errs := runCLI(t, "verdict", db, symfs, "--old", "version=2", "--new", "version=2,canary=yes"); code != exitNothing || !strings.Contains(errs, "80800 samples marked version=2 are marked canary=yes, marked version=2, too") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	out = must(t, "verdict", files[0][0], files[1][0], symfs, "--units=5000,5000", "--fail-on=any", "--predicted=-3%")
	for _, want := range []string{"so nothing is claimed", "interval of sampling alone", "Predicted: 3.0 % less, which is outside the interval", "same build"} {
		if !strings.Contains(strings.Join(strings.Fields(out), " "), want) {
			t.Errorf("one recording each: want %q:\n%s", want, out)
		}
	}
	// Units of all recordings together say nothing of each: as many recordings as there are, and nothing claimed.
	out = strings.Join(strings.Fields(must(t, append([]string{"verdict", symfs, "--units=40000,40000"}, recordings[1:]...)...)), " ")
	for _, want := range []string{"units are known of all of a side together", "nothing is claimed", "OLD 8 ", "Give the units of each recording"} {
		if !strings.Contains(out, want) {
			t.Errorf("units together: want %q:\n%s", want, out)
		}
	}
	golden(t, "testdata/verdict.txt", must(t, append([]string{"verdict", symfs, "--old-units", each, "--new-units", each, "--unit", "request"}, recordings[1:]...)...))
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"nothing that says what of it is OLD", []string{db}},
		{"the units of work are known of one side only", []string{files[0][0], files[1][0], "--old-units=5"}},
		{"want OLD and NEW", files[0][:3]},
		{"before vs", []string{"vs", files[0][0]}},
		{"no samples marked version=3", []string{db, "--old=version=1", "--new=version=3"}},
		{"executions of exported were not counted", []string{files[0][0], files[1][0], "--per=exported"}},
		{"no counter nothing", []string{db, "--deploy=2026-11-25T16:00:00Z", "--units=" + om, "--counter=nothing"}},
	} {
		if code, _, errs := runCLI(t, append([]string{"verdict", symfs}, tt.args...)...); code != exitUsage && code != exitNothing || !strings.Contains(errs, tt.want) {
			t.Errorf("%q: exit code %d: %s; want %q", tt.args, code, errs, tt.want)
		}
	}
}

// TestVerdictUserTime: of recordings without the kernel it is user time that is compared, and what commands used with the kernel's part is said
// beside it; of pprof profiles it is both.
func TestVerdictUserTime(t *testing.T) {
	dir := t.TempDir()
	symfs := "--symfs=" + filepath.Dir(statsELF)
	var files [2][]string
	for i := range 4 {
		n := uint64(10_000 - 2000*(i/2) + 40*(i%2))
		rec := tinyRecording(t, dir, "", "/srv/tiny", map[string]uint64{"exported": n}, 0)
		rec.Counts[0].Weight = n * 1e6                                                                  // ns
		rec.Runs = []sample.Run{{Usage: sample.Usage{User: n * 1000, System: uint64(5e6 + 4e6*(i/2))}}} // us
		files[i/2] = append(files[i/2], testtool.Write(t, dir, fmt.Sprintf("%d.bfr", i), string(rec.Encode())))
	}
	args := append(append(append([]string{"verdict", symfs, "--old-units=1000,1000", "--new-units=1000,1000", "--unit=request", "--same-load"}, files[0]...), "vs"), files[1]...)
	out := strings.Join(strings.Fields(must(t, args...)), " ")
	for _, want := range []string{"less user time per request than OLD", "side recordings samples user time units per request", "OLD 2 20040 20.0 s 2.00k 10.0 ms",
		"User and system time that the recorded commands used per request: 15.0 ms before, 17.0 ms after, +13.3%."} {
		if !strings.Contains(out, want) {
			t.Errorf("want %q:\n%s", want, out)
		}
	}
	// What the commands used in all is not known of one image, and not told of one kind of time as if it were another.
	if out := must(t, append(args, "--image=tiny")...); !strings.Contains(out, "less user time per request") || strings.Contains(out, "commands used") {
		t.Errorf("of one image:\n%s", out)
	}
	var doc report.Deployed
	if err := json.Unmarshal([]byte(must(t, append(args, "--format=json")...)), &doc); err != nil || !doc.UserOnly || doc.Used == nil {
		t.Errorf("%v: %+v", err, doc)
	}
}

// TestVerdictBenchmarks: results of go test -bench are judged benchmark by benchmark.
func TestVerdictBenchmarks(t *testing.T) {
	dir := t.TempDir()
	results := func(name string, ns ...int) string {
		var b strings.Builder
		for i, mean := range ns {
			for k := range 8 {
				fmt.Fprintf(&b, "BenchmarkB%d-2 \t 1000 \t %d ns/op\t 8 B/op\n", i, mean*1000+mean*(k*5%8))
			}
		}
		return testtool.Write(t, dir, name, b.String())
	}
	old, new, short := results("old.txt", 100, 200, 300), results("new.txt", 95, 200, 310), testtool.Write(t, dir, "short.txt", "BenchmarkB0-2 1 5 ns/op\n")
	golden(t, "testdata/verdictbench.txt", must(t, "verdict", old, new))
	if code, _, errs := runCLI(t, "verdict", old, new, "--fail-on=worse"); code != exitChanged || !strings.Contains(errs, "worse in 1 and better in 1 of 6") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if out := must(t, "verdict", old, short, "--fail-on=any"); !strings.Contains(strings.Join(strings.Fields(out), " "), "fewer than 4 results on each side, nothing can be found") {
		t.Errorf("one result:\n%s", out)
	}
	if out := must(t, "verdict", old, new, "--format=csv"); !strings.HasPrefix(out, "package,benchmark,unit,old,new,") {
		t.Errorf("CSV:\n%s", out)
	}
	for _, tt := range []struct {
		want string
		args []string
	}{
		{"is results of benchmarks, and", []string{old, filepath.Join(mixDir, "samples.bfr")}},
		{"these are results of benchmarks", []string{old, new, "--per=main"}},
	} {
		if code, _, errs := runCLI(t, append([]string{"verdict"}, tt.args...)...); code != exitUsage || !strings.Contains(errs, tt.want) {
			t.Errorf("%q: exit code %d: %s", tt.args, code, errs)
		}
	}
}

// TestVerdictKinds: handlers that get other shares of the requests are no change for the worse, where samples say of which they are.
func TestVerdictKinds(t *testing.T) {
	dir := t.TempDir()
	app := &profile.Mapping{ID: 1, Start: 0x400000, Limit: 0x500000, File: "/bin/app"}
	loc := &profile.Location{ID: 1, Mapping: app, Address: 0x400100}
	side := func(name string, a, b int64) (paths []string, units string) {
		var snapshots []string
		for i := range int64(4) {
			snapshots = append(snapshots, testtool.Write(t, dir, fmt.Sprintf("%s%d.prom", name, i), fmt.Sprintf("requests_total{handler=\"/a\"} %d\nrequests_total{handler=\"/b\"} %d\n", i*a, i*b)))
			if i == 3 {
				break
			}
			p := &profile.Profile{
				SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}}, PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}, Period: 10_000_000,
				Mapping: []*profile.Mapping{app}, Location: []*profile.Location{loc},
			}
			for kind, n := range map[string]int64{"/a": a * (50 + i) / 100, "/b": b * (200 + 4*i) / 100, "": (a + b) / 10} {
				s := &profile.Sample{Location: []*profile.Location{loc}, Value: []int64{n}}
				if kind != "" {
					s.Label = map[string][]string{"handler": {kind}}
				}
				p.Sample = append(p.Sample, s)
			}
			var b strings.Builder
			if err := p.Write(&b); err != nil {
				t.Fatal(err)
			}
			paths = append(paths, testtool.Write(t, dir, fmt.Sprintf("%s%d.pprof", name, i), b.String()))
		}
		return paths, strings.Join(snapshots, ",")
	}
	old, oldUnits := side("old", 5000, 5000)
	new, newUnits := side("new", 4000, 6000)
	args := append([]string{"verdict", "--unit=request", "--fail-on=any", "--counter=requests", "--kind=handler", "--symfs=" + dir, "--old-units", oldUnits, "--new-units", newUnits}, append(append(old, "vs"), new...)...)
	golden(t, "testdata/verdictkinds.txt", must(t, append(args, "--kind-label=handler")...))
	if out := must(t, args...); !strings.Contains(out, "which the load may explain") {
		t.Errorf("without --kind-label: %s", out)
	}
	if code, _, errs := runCLI(t, "verdict", old[0], new[0], "--kind-label=handler"); code != exitUsage || !strings.Contains(errs, "no count of units") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}
