package compare

import (
	"errors"
	"math"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/testdata/tiny"
)

// tinyELF is an image of testdata/elf/tiny.c.
const tinyELF = "../image/testdata/elf/x86.elf"

func openTiny(t *testing.T) *image.Image {
	t.Helper()
	im, err := image.Open(tinyELF, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	return im
}

// TestVariation: every sample is of one thing, whether or not its image can be opened, and
// what varies comes first.
func TestVariation(t *testing.T) {
	im := openTiny(t)
	found := func(sample.ImageID) (*image.Image, error) { return im, nil }
	lost := func(sample.ImageID) (*image.Image, error) { return nil, errors.New("gone") }
	for _, tt := range []struct {
		name    string
		open    func(sample.ImageID) (*image.Image, error)
		byImage bool
		named   map[Named]uint64
		want    string // things, those that vary before the bar
	}{
		{"by procedure", found, false, nil, "never twice | alias (kernel)"},
		{"by image", found, true, nil, "| /v1/tiny (kernel)"},
		{"without images", lost, false, nil, "| (image not found) (kernel)"},
		{"with names", lost, false, map[Named]uint64{
			{"cpu-clock", sample.ImageID{Path: "[kernel]"}, "do_idle", sample.LostKernel}: 10,
			{"cpu-clock", sample.ImageID{Path: "[kernel]"}, "", sample.LostKernel}:        1,
			{"cycles", sample.ImageID{Path: "[kernel]"}, "do_exit", sample.LostKernel}:    5,
		}, "| (image not found) [kernel]:do_idle (kernel)"},
	} {
		sets := []*Set{
			{Name: "/v1/tiny", Recording: tiny.Recording(t, im, "/v1/tiny", map[string]uint64{"exported": 500, "twice": 400}, 10)},
			{Name: "/v1/tiny", Recording: tiny.Recording(t, im, "/v1/tiny", map[string]uint64{"exported": 510, "twice": 200, "never": 150}, 12)},
			{Name: "/v2/tiny", Recording: tiny.Recording(t, im, "/v2/tiny", map[string]uint64{"exported": 1000, "twice": 800, "never": 1}, 20)},
		}
		if _, err := ChooseEvent(sets, ""); err != nil {
			t.Fatal(err)
		}
		names := ImageNames(sets[0].Recording, sets[1].Recording, sets[2].Recording)
		var tallies []map[Thing]uint64
		for _, s := range sets {
			n := s.Tally(tt.open, names, tt.named, tt.byImage)
			var sum uint64
			for _, k := range n {
				sum += k
			}
			if sum != s.Total {
				t.Errorf("%s: %d of %d samples are of a thing", tt.name, sum, s.Total)
			}
			tallies = append(tallies, n)
		}
		rows := Variation(sets, tallies, true)
		var got []string
		bar := false
		for _, r := range rows {
			if !r.Varies && !bar {
				got, bar = append(got, "|"), true
			}
			switch {
			case r.Lost != "":
				got = append(got, "("+r.Lost+")")
			case r.Proc == "":
				got = append(got, r.Image)
			case strings.HasPrefix(r.Image, "["):
				got = append(got, r.Image+":"+r.Proc)
			default:
				got = append(got, r.Proc)
			}
			if len(r.Values) != 3 || r.Least > r.Mean || r.Most < r.Mean {
				t.Errorf("%s: %+v", tt.name, r)
			}
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s:\ngot  %s\nwant %s", tt.name, got, tt.want)
		}
	}
}

// TestChooseEvent: the event is one that all sets have samples of.
func TestChooseEvent(t *testing.T) {
	set := func(name string, n map[string]uint64) *Set {
		rec := &sample.Recording{}
		for event, k := range n {
			c := sample.NewCounts(sample.CPU{}, sample.Event{Name: event})
			c.Lose(sample.LostKernel, k)
			rec.Add(c)
		}
		return &Set{Name: name, Recording: rec}
	}
	for _, tt := range []struct {
		name string
		a, b map[string]uint64
		want string // an event, or part of the error
	}{
		{"", map[string]uint64{"cycles": 100, "misses": 900}, map[string]uint64{"cycles": 50, "misses": 40}, "cycles"},
		{"misses", map[string]uint64{"cycles": 100, "misses": 900}, map[string]uint64{"cycles": 50, "misses": 40}, "misses"},
		{"", map[string]uint64{"cycles": 7, "misses": 7}, map[string]uint64{"cycles": 7, "misses": 7}, "cycles"},
		{"", map[string]uint64{"cycles": 7}, map[string]uint64{"misses": 7}, "a has cycles; b has misses"},
		{"misses", map[string]uint64{"cycles": 7}, map[string]uint64{"cycles": 7}, `samples of event "misses"`},
		{"", nil, nil, "no event"},
	} {
		sets := []*Set{set("a", tt.a), set("b", tt.b)}
		ev, err := ChooseEvent(sets, tt.name)
		switch {
		case err != nil && !strings.Contains(err.Error(), tt.want), err == nil && ev.Name != tt.want:
			t.Errorf("%q of %v and %v: %s, %v; want %s", tt.name, tt.a, tt.b, ev.Name, err, tt.want)
		case err == nil && (sets[0].Total != tt.a[tt.want] || sets[1].Total != tt.b[tt.want]):
			t.Errorf("%q: %d and %d samples", tt.name, sets[0].Total, sets[1].Total)
		}
	}
}

// TestRecordings: shares of each side add up to 1, and a recording does not differ from itself.
func TestRecordings(t *testing.T) {
	im := openTiny(t)
	side := func(path string, procs map[string]uint64, kernel uint64) Side {
		rec := tiny.Recording(t, im, path, procs, kernel)
		p, err := infer.Infer(t.Context(), rec, func(sample.ImageID) (*image.Image, error) { return im, nil }, infer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return Side{Recording: rec, Profile: p}
	}
	a := side("/v1/tiny", map[string]uint64{"exported": 500, "twice": 400}, 10)
	b := side("/v1/tiny", map[string]uint64{"exported": 510, "twice": 200, "never": 150}, 12)
	for _, byBlock := range []bool{false, true} {
		what := What{ByBlock: byBlock}
		d := Recordings(a, b, what)
		var old, new float64
		real := 0
		for _, r := range d.Rows {
			old, new = old+r.Old.Share, new+r.New.Share
			if r.Real {
				real++
			}
		}
		if math.Abs(old-1) > 1e-9 || math.Abs(new-1) > 1e-9 || real != d.Real || real < 2 {
			t.Errorf("by block %v: shares are %v and %v, %d of %d differ: %+v", byBlock, old, new, real, d.Real, d.Rows)
		}
		if same := Recordings(a, a, what); same.Real != 0 || same.Blocks.Gone+same.Blocks.New+same.Blocks.Moved > 0 {
			t.Errorf("by block %v: differs from itself: %+v", byBlock, same)
		}
	}
	d := Recordings(a, b, What{Proc: func(name string) bool { return name == "twice" }})
	for _, r := range d.Rows {
		if r.Proc != "twice" || r.Old.Addr == nil && r.New.Addr == nil {
			t.Errorf("%+v", r)
		}
	}
	if !d.ByBlock || d.Blocks.Tied != len(d.Rows) || len(d.Rows) == 0 {
		t.Errorf("blocks of a procedure: %+v of %d", d.Blocks, len(d.Rows))
	}
}

// TestImageNames: what is one program in two recordings, by names alone.
func TestImageNames(t *testing.T) {
	im := openTiny(t)
	for _, tt := range []struct{ name, old, new, want string }{
		{"the same path", "/a/app", "/a/app", "/a/app"},
		{"the same file name", "/a/app", "/b/app", "/a/app"},
		{"what llvm-bolt wrote", "/a/app", "/a/app.bolt", "/a/app"},
		{"numbers", "/a/svc1", "/a/svc2", "/a/svc1"},
		{"versions", "/a/app-v1", "/b/app-v12.bolt", "/a/app-v1"},
		{"of a library", "/lib/libfoo-1.2.so", "/lib/libfoo.so.3", "/lib/libfoo-1.2.so"},
		{"other programs", "/bin/systemd-logind", "/bin/systemd-journald", "/bin/systemd-journald"},
		{"of one family", "/bin/cc1", "/bin/cc1plus", "/bin/cc1plus"},
		{"two that were sampled at once", "/a/app", "/a/app.new /a/app.old", "/a/app.new /a/app.old"},
		{"not the kernel", "[kernel]", "[kernel1]", "[kernel1]"},
	} {
		var recs []*sample.Recording
		for _, paths := range []string{tt.old, tt.new} {
			rec := &sample.Recording{Counts: []*sample.Counts{{}}}
			for _, path := range strings.Fields(paths) {
				ic := tiny.Recording(t, im, path, map[string]uint64{"exported": 5}, 0).Counts[0].Images[0]
				ic.ID.Build = sample.BuildID{} // told by their names
				rec.Counts[0].Images = append(rec.Counts[0].Images, ic)
			}
			recs = append(recs, rec)
		}
		names := ImageNames(recs...)
		var got []string
		for _, ic := range recs[1].Counts[0].Images {
			got = append(got, names[ic.ID])
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s: %v, want %s", tt.name, got, tt.want)
		}
	}
}
