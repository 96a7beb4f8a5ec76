package replay

import (
	"math/rand/v2"
	"testing"
)

// missed returns the part of the last half of n executions that is predicted wrongly, if next says the
// branches: which one, and whether it is taken. Of all but branch 1 it is not counted.
func missed(n int, next func(i int) (pc uint64, taken bool)) float64 {
	h, c := newHistory(), &conditional{}
	wrong, all := 0, 0
	for i := range n {
		pc, taken := next(i)
		right := c.predict(h, pc*40+7, taken) == taken
		h.push(bit(taken))
		if pc == 1 && i >= n/2 {
			if all++; !right {
				wrong++
			}
		}
	}
	return float64(wrong) / float64(all)
}

// TestConditional: patterns that processors know are predicted, and chance is not.
func TestConditional(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	loop := func(trips int) func(int) (uint64, bool) {
		return func(i int) (uint64, bool) { return 1, i%trips != trips-1 }
	}
	var a, b bool
	longAgo := make([]bool, 41)
	for _, tt := range []struct {
		name     string
		next     func(i int) (uint64, bool)
		from, to float64
	}{
		{"always", func(int) (uint64, bool) { return 1, true }, 0, 0},
		{"never", func(int) (uint64, bool) { return 1, false }, 0, 0},
		{"in turn", func(i int) (uint64, bool) { return 1, i%2 == 0 }, 0, 0},
		{"7 turns", loop(7), 0, 0},
		{"30 turns", loop(30), 0, 0.001},
		{"1000 turns", loop(1000), 0.0005, 0.003}, // beyond the history: one miss at the end
		{"random", func(int) (uint64, bool) { return 1, rnd.IntN(2) == 0 }, 0.45, 0.55},
		{"1 in 10 at random", func(int) (uint64, bool) { return 1, rnd.IntN(10) == 0 }, 0.09, 0.16},
		{"both others, which are random", func(i int) (uint64, bool) {
			switch i % 3 {
			case 0:
				a = rnd.IntN(2) == 0
				return 2, a
			case 1:
				b = rnd.IntN(2) == 0
				return 3, b
			}
			return 1, a && b
		}, 0, 0.01},
		{"one 40 branches ago, among constant ones", func(i int) (uint64, bool) {
			k := i % 41
			if k == 0 {
				longAgo[0] = rnd.IntN(2) == 0
				return 2, longAgo[0]
			}
			if k == 40 {
				return 1, longAgo[0]
			}
			return uint64(k + 3), k%3 == 0
		}, 0, 0.02},
	} {
		if got := missed(60_000, tt.next); got < tt.from || got > tt.to {
			t.Errorf("%s: %.4f are mispredicted, want %g to %g", tt.name, got, tt.from, tt.to)
		}
	}
}

// TestIndirect: targets that follow a pattern are predicted, and chance is not.
func TestIndirect(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	program := make([]uint64, 60) // of an interpreter
	for i := range program {
		program[i] = 100 + rnd.Uint64N(8)
	}
	for _, tt := range []struct {
		name     string
		to       func(i int) uint64
		from, of float64
	}{
		{"one", func(int) uint64 { return 5 }, 0, 0},
		{"two in turn", func(i int) uint64 { return 5 + uint64(i%2) }, 0, 0.001},
		{"a program", func(i int) uint64 { return program[i%len(program)] }, 0, 0.01},
		{"random", func(int) uint64 { return 100 + rnd.Uint64N(8) }, 0.8, 0.95},
	} {
		h, c := newHistory(), &indirect{}
		wrong := 0
		const n = 40_000
		for i := range n {
			to := tt.to(i)
			right := c.predict(h, 77, to)
			h.pushTarget(to)
			if i >= n/2 && !right {
				wrong++
			}
		}
		if got := float64(wrong) / (n / 2); got < tt.from || got > tt.of {
			t.Errorf("%s: %.4f are mispredicted, want %g to %g", tt.name, got, tt.from, tt.of)
		}
	}
}

func TestReturns(t *testing.T) {
	var r returns
	if _, known := r.ret(1); known {
		t.Error("a return to before the walk is predicted")
	}
	for i := range uint64(returnDepth + 3) {
		r.call(i)
	}
	for i := returnDepth + 2; i >= 0; i-- {
		predicted, known := r.ret(uint64(i))
		if want := i >= 3; predicted != want || !known {
			t.Errorf("return %d: predicted %v, known %v", i, predicted, known)
		}
	}
}

func BenchmarkConditional(b *testing.B) {
	rnd := rand.New(rand.NewPCG(1, 2))
	h, c := newHistory(), &conditional{}
	for i := 0; b.Loop(); i++ {
		taken := rnd.IntN(5) == 0
		c.predict(h, uint64(i%97)*12, taken)
		h.push(bit(taken))
	}
}
