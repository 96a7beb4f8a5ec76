package explain

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"backfeed/sample/wire"
	"backfeed/testdata/sets"
)

// kept is a Keeper of one result.
type kept struct{ b []byte }

func (k *kept) Load() []byte   { return k.b }
func (k *kept) Store(b []byte) { k.b = b }

// TestStallsKept: stalls are those of All, found or kept, and what was kept is used, if it is whole.
func TestStallsKept(t *testing.T) {
	x := explainerOf(t, sets.Load(t, "../../testdata/mix"))
	var want []ProcStalls
	for ip, e := range x.All() {
		want = append(want, ProcStalls{ip, e.Result, e.stalled()})
	}
	if !slices.ContainsFunc(want, func(s ProcStalls) bool { return len(s.Stalls) > 1 }) {
		t.Fatal("nothing stalls")
	}
	stalls := func() []ProcStalls { return slices.Collect(x.Stalls()) }
	if !reflect.DeepEqual(stalls(), want) {
		t.Error("without a Keeper, stalls are not those of All")
	}
	k := &kept{}
	x.Kept = k
	for _, name := range []string{"found", "kept"} {
		if !reflect.DeepEqual(stalls(), want) {
			t.Errorf("%s, stalls are not those of All", name)
		}
	}
	whole := k.b
	for n := range whole {
		if _, err := x.restore(whole[:n]); !errors.Is(err, errKept) {
			t.Fatalf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
	k.b = append(slices.Clone(whole), 0)
	if !reflect.DeepEqual(stalls(), want) || !slices.Equal(k.b, whole) {
		t.Error("what is malformed is used, or not kept anew")
	}
	some := slices.IndexFunc(want, func(s ProcStalls) bool { return len(s.Stalls) > 0 })
	var w wire.Writer
	for i, s := range want {
		if s.Stalls = slices.Clone(s.Stalls); i == some {
			s.Stalls[0].Cycles++
		}
		s.keep(&w)
	}
	k.b = w.B
	if got := stalls(); got[some].Stalls[0].Cycles != want[some].Stalls[0].Cycles+1 {
		t.Error("what was kept is not used")
	}
}

// FuzzStallsKept: any bytes are an error, or stalls of instructions that there are, which are kept and restored as they are.
func FuzzStallsKept(f *testing.F) {
	x := explainerOf(f, sets.Load(f, "../../testdata/mix"))
	k := &kept{}
	x.Kept = k
	for range x.Stalls() {
	}
	f.Add(k.b)
	f.Fuzz(func(t *testing.T, b []byte) {
		all, err := x.restore(b)
		if err != nil {
			return
		}
		var w wire.Writer
		for _, s := range all {
			n := 0
			for i := range s.Result.Proc.Blocks {
				n += s.Result.Proc.Blocks[i].Insts
			}
			for i, of := range s.Stalls {
				if of.At >= n || i > 0 && of.At <= s.Stalls[i-1].At {
					t.Fatalf("%s: instruction %d of %d", s.Result.Proc.Name, of.At, n)
				}
				if math.IsNaN(of.Cycles) {
					return // and is no equal of itself
				}
			}
			s.keep(&w)
		}
		if again, err := x.restore(w.B); err != nil || !reflect.DeepEqual(again, all) {
			t.Errorf("kept and restored, stalls are others: %v", err)
		}
	})
}
