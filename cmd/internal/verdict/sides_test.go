package verdict

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/cmd/internal/input"
	"backfeed/infer/compare"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

const mixDir = "../../../testdata/mix"

// twoBuilds writes mix and another build of it, in which an instruction of lookup differs, and returns
// what recordings of them have to be made of.
func twoBuilds(t *testing.T) (dir string, ims [2]*image.Image) {
	t.Helper()
	dir = t.TempDir()
	program := []byte(testtool.Read(t, mixDir, "mix"))
	im, err := image.Open(filepath.Join(mixDir, "mix"), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	off, ok := im.OffsetOf(im.Symbols()[im.Lookup("lookup")].Addr)
	if !ok {
		t.Fatal("lookup is not in the file")
	}
	other := bytes.Clone(program)
	at := bytes.Index(other[off:], []byte{0x9e, 0x37, 0x79, 0xb1}[:]) // as the multiplier stands: little-endian below
	if at < 0 {
		at = bytes.Index(other[off:], []byte{0xb1, 0x79, 0x37, 0x9e})
	}
	if at < 0 || at > 64 {
		t.Fatal("lookup has no multiplication")
	}
	other[int(off)+at] ^= 0x40
	id := im.Build
	id[0] ^= 0xff
	other = bytes.Replace(other, im.Build[:], id[:], 1)
	testtool.Put(t, filepath.Join(dir, "old", "mix"), program)
	testtool.Put(t, filepath.Join(dir, "new", "mix"), other)
	for i, name := range []string{"old", "new"} {
		if ims[i], err = image.Open(filepath.Join(dir, name, "mix"), image.Options{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ims[i].Close() })
	}
	if ims[0].Build == ims[1].Build {
		t.Fatal("both have one build ID")
	}
	return dir, ims
}

// recording writes one that has so many samples of procedures, and returns its path.
func recording(t *testing.T, dir, name string, im *image.Image, procs map[string]uint64) string {
	t.Helper()
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Period: 1_000_000, Unit: "ns"})
	path := "/srv/" + name[:3] + "/mix"
	if strings.HasPrefix(name, "v") {
		path = "/srv/" + strings.TrimSuffix(name, ".bfr")
	}
	i := c.Image(sample.ImageID{Build: im.Build, Path: path})
	for proc, n := range procs {
		off, ok := im.OffsetOf(im.Symbols()[im.Lookup(proc)].Addr)
		if !ok {
			t.Fatalf("%s is not in the file", proc)
		}
		c.AddSample(i, off, n)
	}
	rec := &sample.Recording{}
	rec.Add(c)
	return testtool.Write(t, dir, name, string(rec.Encode()))
}

// TestPer: units are counted executions of a procedure, whose error widens the interval; inferred ones are none.
func TestPer(t *testing.T) {
	dir, ims := twoBuilds(t)
	im := ims[0]
	off, ok := im.OffsetOf(im.Symbols()[im.Lookup("lookup")].Addr)
	if !ok {
		t.Fatal("lookup is not in the file")
	}
	write := func(name string, runs uint64, sd float64) string {
		path := recording(t, dir, name, im, map[string]uint64{"lookup": 40_000, "main": 40_000})
		rec, err := sample.Decode([]byte(testtool.Read(t, path)))
		if err != nil {
			t.Fatal(err)
		}
		c := rec.Counts[0]
		c.Weight = 80_000 * 1_000_000
		c.AddProbed(0, off, sample.Probed{Windows: 9, Covered: c.Weight / 2, Runs: runs / 2, Variance: sample.SquareOf(sd * sd * float64(runs) * float64(runs) / 4)})
		testtool.Put(t, path, string(rec.Encode()))
		return path
	}
	judge := func(old, new, proc string) (*Comparison, error) {
		r := &Request{Sides: [2]Side{{Name: "OLD"}, {Name: "NEW"}}, Input: input.Options{Symfs: []string{filepath.Join(dir, "old")}}, Noise: 0.001, Per: proc}
		if err := r.Choose([]string{old, new}); err != nil {
			t.Fatal(err)
		}
		return Judge(t.Context(), r)
	}
	old, sure, unsure := write("old1.bfr", 1_000_000, 0.001), write("old2.bfr", 1_100_000, 0.001), write("old3.bfr", 1_100_000, 0.2)
	for _, tt := range []struct {
		new     string
		outcome compare.Outcome
	}{{sure, compare.Better}, {unsure, compare.NotShown}} {
		c, err := judge(old, tt.new, "lookup")
		if err != nil {
			t.Fatal(err)
		}
		if c.Outcome != tt.outcome || c.Effect.Change < -0.092 || c.Effect.Change > -0.090 || c.Sides[0].Units < 999_000 || c.Sides[0].Units > 1_001_000 {
			t.Errorf("%s: %s, %+v, %+v", tt.new, c.Outcome, c.Effect, c.Sides)
		}
	}
	if _, err := judge(old, sure, "main"); err == nil || !strings.Contains(err.Error(), "executions of main were not counted") {
		t.Errorf("%v", err)
	}
}

// TestPairFiles: the programs of both sides are one, whatever their files are called.
func TestPairFiles(t *testing.T) {
	dir, ims := twoBuilds(t)
	for _, tt := range []struct{ old, new, told string }{
		{"vmix-v1.bfr", "vmix-v2.bfr", ""}, // names that are one program's anyway
		{"vold.bfr", "vnew.bfr", "/srv/vold and /srv/vnew are taken for builds of one program"},
	} {
		old := recording(t, dir, tt.old, ims[0], map[string]uint64{"lookup": 8000, "main": 4000})
		new := recording(t, dir, tt.new, ims[1], map[string]uint64{"lookup": 6000, "main": 4000})
		var warned strings.Builder
		c, err := Judge(t.Context(), &Request{Sides: [2]Side{{Paths: []string{old}}, {Paths: []string{new}}},
			Input: input.Options{Symfs: []string{filepath.Join(dir, "old"), filepath.Join(dir, "new")}, Notify: told{text: &warned}}})
		if err != nil {
			t.Fatal(err)
		}
		if len(c.Rows) != 2 || c.Rows[0].Proc != "lookup" || c.Rows[0].Samples != [2]uint64{8000, 6000} || c.Code == nil ||
			!strings.Contains(warned.String(), tt.told) || tt.told == "" && strings.Contains(warned.String(), "are taken for") {
			t.Errorf("%s, %s: %+v; told %s", tt.old, tt.new, c.Verdict, &warned)
		}
	}
}

// TestJudge: a procedure that changed and takes a quarter less is better with units and without them; more units that cost
// less are not.
func TestJudge(t *testing.T) {
	dir, ims := twoBuilds(t)
	var paths [2][]string
	jitter := []uint64{0, 80, 30, 110, 60}
	for i, j := range jitter {
		paths[0] = append(paths[0], recording(t, dir, fmt.Sprintf("old%d.bfr", i), ims[0], map[string]uint64{"lookup": 8000 + j, "main": 4000 + j/2, "ackermann": 6000 - j}))
		paths[1] = append(paths[1], recording(t, dir, fmt.Sprintf("new%d.bfr", i), ims[1], map[string]uint64{"lookup": 6000 + j, "main": 4010 + j/2, "ackermann": 5990 - j}))
	}
	opt := Request{Input: input.Options{Symfs: []string{filepath.Join(dir, "old"), filepath.Join(dir, "new")}}}
	judge := func(units [2][]string, opt Request, n int) *Comparison {
		t.Helper()
		opt.Sides = [2]Side{{Name: "OLD", Paths: paths[0][:n], Units: Units{Values: units[0]}}, {Name: "NEW", Paths: paths[1][:n], Units: Units{Values: units[1]}}}
		c, err := Judge(t.Context(), &opt)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	each := []string{"1000", "1000", "1000", "1000", "1000"}
	for _, tt := range []struct {
		name    string
		units   [2][]string
		noise   float64
		n       int
		outcome compare.Outcome
		change  float64
	}{
		{"units", [2][]string{each, each}, 0, 5, compare.Better, -2000. / 18000},
		{"no units", [2][]string{}, 0, 5, compare.Better, -2000. / 18000},
		{"one recording", [2][]string{}, 0, 1, compare.Unsure, -2000. / 18000},
		{"one recording, noise known", [2][]string{}, 0.01, 1, compare.Better, -2000. / 18000},
		{"units of all together", [2][]string{{"5000"}, {"5000"}}, 0, 5, compare.Unsure, -2000. / 18000},
		{"units that cost less", [2][]string{each, {"1500", "1500", "1500", "1500", "1500"}}, 0, 5, compare.Better, -0.407},
		{"units that cost more", [2][]string{each, {"800", "800", "800", "800", "800"}}, 0, 5, compare.Mixed, 0.111},
		{"units that cost more, of the same load", [2][]string{each, {"800", "800", "800", "800", "800"}}, 0, 5, compare.Worse, 0.111},
	} {
		o := opt
		o.SameLoad = strings.HasSuffix(tt.name, "same load")
		o.Noise = tt.noise
		c := judge(tt.units, o, tt.n)
		if c.Outcome != tt.outcome || c.Effect.Change < tt.change-0.005 || c.Effect.Change > tt.change+0.005 {
			t.Errorf("%s: %s, %+v; want %s, %.3f", tt.name, c.Outcome, c.Effect, tt.outcome, tt.change)
		}
		if c.Unit != "s" || c.Event != "cpu-clock" || c.OneBuild || c.Code == nil || len(c.Rows) != 3 {
			t.Fatalf("%s: %+v", tt.name, c)
		}
		for _, r := range c.Rows {
			if r.Unchanged != (r.Proc != "lookup") || tt.name == "units" && r.Clear != (r.Proc == "lookup") {
				t.Errorf("%s: %+v", tt.name, r)
			}
		}
	}
	// Without the images, nothing stands for the work.
	c := judge([2][]string{}, Request{Input: input.Options{Symfs: []string{t.TempDir()}}}, 5)
	if c.Outcome != compare.Shares {
		t.Errorf("without images: %s", c.Outcome)
	}
	for _, tt := range []struct {
		units [2][]string
		want  string
	}{
		{[2][]string{{"1", "2"}, each}, "OLD has 5 recordings, and 2 numbers of units"},
		{[2][]string{each, {"1", "2", "3", "4", "0"}}, "NEW: 0 units of work"},
		{[2][]string{each, {"a.prom"}}, "a.prom is no number: name the counter"},
	} {
		opt.Sides = [2]Side{{Name: "OLD", Paths: paths[0], Units: Units{Values: tt.units[0]}}, {Name: "NEW", Paths: paths[1], Units: Units{Values: tt.units[1]}}}
		_, err := Judge(t.Context(), &opt)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%v: %v, want %q", tt.units, err, tt.want)
		}
	}
}
