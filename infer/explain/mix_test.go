package explain

import (
	"math"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/testdata/sets"
)

// TestKinds: what instructions of each kind are.
func TestKinds(t *testing.T) {
	for _, tt := range []struct {
		class image.Class
		op    image.Op
		want  Kind
	}{
		{image.Load, image.OpNone, KindLoad},
		{image.Store, image.OpNone, KindStore},
		{image.Load, image.OpALU, KindInteger},
		{image.Load | image.Store, image.OpALU, KindInteger},
		{image.Load | image.Store | image.Locked, image.OpAtomic, KindAtomic},
		{image.Push, image.OpNone, KindPush},
		{image.IndCall | image.Load, image.OpCall, KindIndirectCall},
		{image.DirCall, image.OpCall, KindCall},
		{image.CondJump, image.OpBranch, KindBranch},
		{image.IndJump, image.OpJumpIndirect, KindIndirectJump},
		{image.Ret, image.OpReturn, KindReturn},
		{image.Float, image.OpFMA, KindFloat},
		{image.Div | image.Float, image.OpSqrt64, KindFloatDivide},
		{image.Rep | image.Load, image.OpString, KindString},
		{image.Nop, image.OpNop, KindNop},
	} {
		if got := kindOf(image.Inst{Class: tt.class}, tt.op); got != tt.want {
			t.Errorf("class %x, %s: %s, want %s", uint32(tt.class), tt.op, got, tt.want)
		}
	}
	for op := image.OpNone + 1; op < image.NumOps; op++ {
		if kindOfOp[op] == KindLoad {
			t.Errorf("%s is a load", op)
		}
	}
}

// mixOf is the mix of all of a profile.
func mixOf(p *infer.Profile) *Mix {
	m := &Mix{}
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			m.Add(ip.Image, r)
		}
	}
	return m
}

// TestMix compares the mix of instructions that is inferred with that of the exact counts: of testdata/mix and of -sets. Parts of all
// instructions are off by a few hundredths.
func TestMix(t *testing.T) {
	for _, s := range append([]*sets.Set{sets.Load(t, "../../testdata/mix")}, sets.Named(t)...) {
		p, err := infer.Infer(t.Context(), s.Rec, s.Open, infer.Options{})
		if err != nil {
			t.Fatal(err)
		}
		got, want := mixOf(p), mixOf(exactly(s, p))
		sum := 0.0
		for _, n := range got.Kinds {
			sum += n
		}
		if math.Abs(sum-got.Instructions) > 1e-9*sum || got.Decided > got.Kinds[KindBranch]*(1+1e-9) || got.Taken > got.Decided {
			t.Errorf("%s: kinds of %g instructions of %g; %g of %g branches taken, of %g", s.Dir, sum, got.Instructions, got.Taken, got.Decided, got.Kinds[KindBranch])
		}
		worst, of := 0.0, ""
		far := func(name string, a, b float64) {
			t.Logf("%s: %-24s %6.3f inferred, %6.3f exact", s.Dir, name, a, b)
			if d := math.Abs(a - b); d > worst {
				worst, of = d, name
			}
		}
		for k := range NumKinds {
			if want.Kinds[k] > 0 {
				far(k.String(), got.Kinds[k]/got.Instructions, want.Kinds[k]/want.Instructions)
			}
		}
		far("reads", got.Reads/got.Instructions, want.Reads/want.Instructions)
		far("writes", got.Writes/got.Instructions, want.Writes/want.Instructions)
		far("transfers", got.Transfers()/got.Instructions, want.Transfers()/want.Instructions)
		t.Logf("%s: of branches, %.3f taken, %.3f exact; at most %.3f off, %s", s.Dir, got.Taken/got.Decided, want.Taken/want.Decided, worst, of)
		if worst > 0.1 {
			t.Errorf("%s: %s are off by %.3f of all instructions", s.Dir, of, worst)
		}
	}
}
