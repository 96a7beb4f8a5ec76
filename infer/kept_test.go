package infer

import (
	"bytes"
	"context"
	"errors"
	"reflect"
	"testing"

	"backfeed/sample"
	"backfeed/testdata/sets"
)

// roundTrip keeps p and restores it.
func roundTrip(tb testing.TB, s *sets.Set, p *Profile, opt Options) (b []byte, q *Profile) {
	tb.Helper()
	b, err := p.Keep(s.Rec, opt)
	if err != nil {
		tb.Fatal(err)
	}
	if q, err = Restore(context.Background(), b, s.Rec, s.Open, opt); err != nil {
		tb.Fatal(err)
	}
	return b, q
}

// TestRestore: what is kept and restored is all that Infer returned, whatever was asked for.
func TestRestore(t *testing.T) {
	s := sets.Load(t, "../testdata/mix")
	for _, c := range s.Rec.Counts {
		for i, ic := range c.Images {
			for off, n := range ic.At {
				if off%3 == 0 {
					c.AddFaults(i, off, 10*n)
				}
			}
		}
	}
	only := func(id sample.ImageID) bool { return s.Images[id.Key()] != nil }
	for name, opt := range map[string]Options{"all": {}, "one image": {Only: only}, "without callers, in part": {NoCallers: true, Part: 0.9}} {
		if !opt.Keepable() {
			t.Errorf("%s: not keepable", name)
		}
		p, err := Infer(context.Background(), s.Rec, s.Open, opt)
		if err != nil {
			t.Fatal(err)
		}
		b, q := roundTrip(t, s, p, opt)
		if err := q.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for _, r := range p.results() {
			r.system = nil // which nobody asks for afterwards
		}
		if !reflect.DeepEqual(p, q) {
			t.Errorf("%s: restored, it is another", name)
			for i, r := range p.results() {
				if of := q.results(); i < len(of) && !reflect.DeepEqual(r, of[i]) {
					t.Errorf("%s: %+v\nrestored: %+v", r.Proc.Name, r, of[i])
					break
				}
			}
		}
		for n := 0; n < len(b); n += 1 + len(b)/97 { // whatever is cut off is missed
			if _, err := Restore(context.Background(), b[:n], s.Rec, s.Open, opt); !errors.Is(err, errKept) {
				t.Fatalf("%s: %d of %d bytes: %v", name, n, len(b), err)
			}
		}
	}
	if (Options{Places: 1}).Keepable() || (Options{Sites: 1}).Keepable() || (Options{Known: make([]Known, 1)}).Keepable() {
		t.Error("what is not kept is said to be")
	}
}

// FuzzRestore: any bytes are an error, or a profile that is kept and restored as it is.
func FuzzRestore(f *testing.F) {
	s := sets.Load(f, "../testdata/mix")
	p, err := Infer(context.Background(), s.Rec, s.Open, Options{})
	if err != nil {
		f.Fatal(err)
	}
	b, _ := roundTrip(f, s, p, Options{})
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := Restore(context.Background(), b, s.Rec, s.Open, Options{})
		if err != nil {
			return
		}
		for _, r := range p.results() {
			if len(r.Block) != len(r.Proc.Blocks) || len(r.Edge) != len(r.Proc.Edges) || len(r.Call) != len(r.Proc.Calls) {
				t.Fatalf("%s: %d, %d and %d counts of %d, %d and %d", r.Proc.Name, len(r.Block), len(r.Edge), len(r.Call), len(r.Proc.Blocks), len(r.Proc.Edges), len(r.Proc.Calls))
			}
		}
		once, q := roundTrip(t, s, p, Options{})
		if again, _ := roundTrip(t, s, q, Options{}); !bytes.Equal(once, again) {
			t.Error("kept twice, it is another")
		}
	})
}
