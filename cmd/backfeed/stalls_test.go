package main

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// alone writes what a recording in testdata has of one program, and gives the arguments
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
	return []string{file(t, t.TempDir(), "alone.bfr", string(own.Encode())), "--symfs", filepath.Join(dir, filepath.Dir(program))}
}

// mustJSON runs a command and reads what it prints as JSON.
func mustJSON(t *testing.T, doc any, args ...string) {
	t.Helper()
	if err := json.Unmarshal([]byte(must(t, append(args, "--format", "json")...)), doc); err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
}

func TestExplainerNeedsTime(t *testing.T) {
	s := &source{
		profile:   &infer.Profile{Machine: "generic-x86_64", Event: sample.Event{Name: "branch-misses", Unit: "events", Period: 1}},
		recording: &sample.Recording{},
	}
	if _, err := s.explainer(); !errors.Is(err, infer.ErrNoTime) || codeOf(err) != exitNothing {
		t.Errorf("explainer of %s: %v, exit code %d; want %v, %d", s.profile.Event.Name, err, codeOf(err), infer.ErrNoTime, exitNothing)
	}
}

func TestBlame(t *testing.T) {
	for _, tt := range []struct {
		stall infer.Stall
		want  string
	}{
		{infer.Stall{Cycles: 10, Culprits: []infer.Culprit{{Cause: infer.DCache, Most: 10}, {Cause: infer.Mispredict, Most: 1}, {Cause: infer.Lock, Most: 0.9}}}, "dp"},
		{infer.Stall{Cycles: 10, Culprits: []infer.Culprit{{Cause: infer.ITLB, Most: 2}}, Unexplained: 8}, "T?"},
		{infer.Stall{Cycles: 10, Unexplained: 10}, "?"},
		{infer.Stall{}, ""},
	} {
		if got := blame(&tt.stall); got != tt.want {
			t.Errorf("blame(%+v) = %q, want %q", tt.stall, got, tt.want)
		}
	}
}

// TestTopstalls: the golden file shows the table; the programs of testdata/stalls wait
// where they were made to.
func TestTopstalls(t *testing.T) {
	mix := alone(t, "mix/samples.bfr", "mix/mix")
	golden(t, "testdata/topstalls.txt", must(t, append([]string{"topstalls", "-n", "8"}, mix...)...))
	var all, one topstallsDoc
	mustJSON(t, &all, append([]string{"topstalls", "-n", "0"}, mix...)...)
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
		if !strings.Contains(r.Blame+"p", "p") || r.Shape < infer.Medium {
			t.Errorf("%s: blame %s, shape %s", r.Addr, r.Blame, r.Shape)
		}
	}
	for _, tt := range []struct{ kind, blame string }{{"chase", "d"}, {"divide", "/"}, {"atomic", "L"}} {
		var doc topstallsDoc
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
	golden(t, "testdata/whatcg.txt", must(t, append([]string{"whatcg"}, mix...)...))
	for _, of := range [][]string{nil, {"--image", "mix"}, {"--proc", "mix:lookup"}, {"--proc", "^quick"}} {
		var doc whatcgDoc
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
		var doc blamedDoc
		mustJSON(t, &doc, append([]string{"whatcg", "--stall", cause}, alone(t, "stalls/"+kind+".bfr", "stalls/stalls")...)...)
		if len(doc.Procedures) == 0 || doc.Procedures[0].Procedure != kind || doc.Procedures[0].Share < 0.05 {
			t.Errorf("%s: %+v, want its procedure first", kind, doc.Procedures)
		}
	}
}

// TestProcNamed: names that are known, by whatever they have in common.
func TestProcNamed(t *testing.T) {
	var ip infer.ImageProfile
	ip.ID.Path = "/opt/prog"
	for i, name := range []string{"main", "mainly", "_ZN3geo4areaEi", "_ZN3geo4areaEd", "_ZN3geo5widthEi", "pkg.(*T).get", "idle"} {
		ip.Procs = append(ip.Procs, &infer.Result{Samples: uint64(6 - i), Proc: &image.Proc{Symbol: image.Symbol{Name: name, Addr: image.Addr(16 * i)}}})
	}
	s := &source{profile: &infer.Profile{Images: []*infer.ImageProfile{&ip}}}
	for _, tt := range []struct {
		want, name string
		code       int
	}{
		{"main", "main", exitDone},
		{"^mainl", "mainly", exitDone},
		{"prog:main", "main", exitDone},
		{"_ZN3geo4areaEi", "_ZN3geo4areaEi", exitDone},
		{"geo::area(double)", "_ZN3geo4areaEd", exitDone},
		{"geo::width", "_ZN3geo5widthEi", exitDone},
		{"width", "_ZN3geo5widthEi", exitDone},
		{"(*T).get", "pkg.(*T).get", exitDone},
		{"idle", "idle", exitDone},
		{"geo::area", "", exitUsage},
		{"area", "", exitUsage},
		{"(((", "", exitNothing},
		{"main:", "", exitNothing},
		{"other:main", "", exitNothing},
	} {
		p, err := s.proc(tt.want)
		if err != nil {
			if code := codeOf(err); code != tt.code {
				t.Errorf("%s: exit code %d, want %d: %v", tt.want, code, tt.code, err)
			}
			continue
		}
		if p.r.Proc.Name != tt.name {
			t.Errorf("%s: %s, want %q", tt.want, p.r.Proc.Name, tt.name)
		}
	}
}
