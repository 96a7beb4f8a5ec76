package sample

import (
	"bytes"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
)

// withReplayed is a recording of which some was replayed.
func withReplayed() *Recording {
	r := withPaths()
	c := r.Counts[0]
	app := c.Image(ImageID{Build: id(0xb1, 0xd0)})
	c.AddReplayed(app, 0x1150, Replayed{Walks: 7, Accesses: 900, Near: 100, Far: 700, Steady: 20, Beyond: 3, NearPages: 1, FarPages: 800, BeyondPages: 2, Fetches: 40, NearFetches: 39, FarFetches: 1})
	c.AddReplayed(app, 0x1170, Replayed{Walks: 2, Branches: 50, Missed: 24})
	c.AddReplayed(app, 0x1180, Replayed{Walks: 3}) // says nothing
	return r
}

// randomReplayed is what models may have counted.
func randomReplayed(rnd *rand.Rand) Replayed {
	upTo := func(n uint64) uint64 { return rnd.Uint64N(n + 1) }
	r := Replayed{Walks: 1 + upTo(9), Branches: upTo(99), Accesses: upTo(99), Fetches: upTo(99)}
	r.Missed = upTo(r.Branches)
	r.Near = upTo(r.Accesses)
	r.Far = upTo(r.Accesses - r.Near)
	r.Steady, r.Beyond = upTo(r.Far), upTo(r.Accesses)
	r.NearPages = upTo(r.Accesses)
	r.FarPages = upTo(r.Accesses - r.NearPages)
	r.BeyondPages = upTo(r.FarPages)
	r.NearFetches = upTo(r.Fetches)
	r.FarFetches = upTo(r.Fetches - r.NearFetches)
	return r
}

// TestDumpReplayed pins what replayed walks add to the format, and that a recording without any has the
// bytes that it had before there were some.
func TestDumpReplayed(t *testing.T) {
	r := withReplayed()
	check(t, r)
	checkDump(t, r, "testdata/replayed.dump")
	if b := withPaths().Encode(); string(b[:4]) != "bfr6" {
		t.Errorf("a recording of which nothing was replayed begins with %q", b[:4])
	}
}

// TestReplayedSums: parts stay within the whole when they are added, scaled and too large to hold.
func TestReplayedSums(t *testing.T) {
	rnd := rand.New(rand.NewPCG(5, 6))
	for range 2000 {
		a, b := randomReplayed(rnd), randomReplayed(rnd)
		sum := a.Plus(b)
		if sum.Accesses != a.Accesses+b.Accesses || sum.Walks != a.Walks+b.Walks || sum.FarPages != a.FarPages+b.FarPages {
			t.Fatalf("%+v and %+v are %+v", a, b, sum)
		}
		for _, w := range []float64{0.01, 0.3, 0.5, 1, 2.7, 1e18} {
			if s := sum.scale(w); s.says() && s.fault() != "" {
				t.Fatalf("%+v times %g is %+v: %s", sum, w, s, s.fault())
			}
		}
	}
	most := Replayed{Walks: 1, Accesses: math.MaxUint64, Near: math.MaxUint64 - 5, Far: 5}
	if f := most.Plus(most).fault(); f != "" {
		t.Error(f)
	}
}

func TestReplayedFaults(t *testing.T) {
	for _, tt := range []struct {
		r    Replayed
		want string
	}{
		{Replayed{Branches: 1}, "no walk"},
		{Replayed{Walks: 1}, "no walk"},
		{Replayed{Walks: 1, Branches: 1, Missed: 2}, "mispredicted"},
		{Replayed{Walks: 1, Accesses: 3, Near: 2, Far: 2}, "near and far"},
		{Replayed{Walks: 1, Accesses: 3, Far: 2, Steady: 3}, "near and far"},
		{Replayed{Walks: 1, Accesses: 3, NearPages: 2, FarPages: 2}, "pages"},
		{Replayed{Walks: 1, Accesses: 3, BeyondPages: 1}, "pages"},
		{Replayed{Walks: 1, Fetches: 3, NearFetches: 2, FarFetches: 2}, "fetches"},
	} {
		if got := tt.r.fault(); !strings.Contains(got, tt.want) {
			t.Errorf("%+v: %q, want %q", tt.r, got, tt.want)
		}
	}
}

// TestDecodeReplayed: malformed sections are refused, with where and which field.
func TestDecodeReplayed(t *testing.T) {
	image := func(fields ...any) []byte { // with a sample at 8, and what was replayed
		f := head().put(0, 1, id(0xa), "/a", 1, 8, 1, 0, 0, 0).put(fields...).put(0, 0, 0, 0, 0, 0)
		copy(f.B, magicReplayed)
		return seal(f.B)
	}
	for _, tt := range []struct {
		name string
		b    []byte
		want string
	}{
		{"nothing", image(0), "replayed walks, of which there are none"},
		{"no walks", image(1, 8, 0, 1, 5, 0), "walks"},
		{"nothing replayed", image(1, 8, 1, 0, 0, 0), "what was replayed"},
		{"something else", image(1, 8, 1, 8, 5, 0), "what was replayed"},
		{"branches of none", image(1, 8, 1, 1, 0, 0), "executions replayed"},
		{"more mispredicted", image(1, 8, 1, 1, 5, 6), "more mispredicted"},
		{"twice", image(2, 8, 1, 1, 5, 0, 0, 1, 1, 5, 0), "file offset"},
		{"too many", image(90, 8, 1, 1, 5, 0), "places replayed"},
	} {
		_, err := Decode(tt.b)
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
	b := image(1, 8, 1, 1, 5, 2)
	if r, err := Decode(b); err != nil || !bytes.Equal(r.Encode(), b) {
		t.Errorf("%v", err)
	}
}
