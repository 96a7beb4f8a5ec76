package sample

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSum: a Sum of recordings, stored or not, in any order, is what Merge returns, and what is not added leaves it as it was.
func TestSum(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		rs := []*Recording{three(), withOff(), withSplit()}[:rnd.IntN(4)]
		for range 1 + rnd.IntN(9) { // of several sizes, so that parts stay
			rs = append(rs, random(rnd, 1+rnd.IntN(30)))
		}
		want := Merge(rs...).Encode()
		var sum Sum
		rnd.Shuffle(len(rs), func(i, j int) { rs[i], rs[j] = rs[j], rs[i] })
		for _, r := range rs {
			if rnd.IntN(3) == 0 {
				sum.Add(r)
				continue
			}
			file := r.Encode()
			if _, err := sum.Decode(file); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if _, err := sum.Decode(file[:len(file)-1]); !errors.Is(err, ErrFormat) {
				t.Fatalf("seed %d: of a file that is cut off: %v", seed, err)
			}
		}
		got := sum.Recording()
		check(t, got)
		if !bytes.Equal(got.Encode(), want) {
			t.Errorf("seed %d: the sum is\n%s\nwant\n%s", seed, Dump(got.Encode()), Dump(want))
		}
		if got := sum.Recording(); len(got.Counts)+len(got.Off)+len(got.Runs) > 0 {
			t.Errorf("seed %d: after its sum was taken, there is left %+v", seed, got)
		}
	}
}

// TestSumParts: parts of a sum grow by more than a factor of two, so that they are few.
func TestSumParts(t *testing.T) {
	var sum Sum
	for seed := range uint64(200) {
		sum.Add(random(rand.New(rand.NewPCG(seed, 5)), 1+int(seed%40)))
	}
	for _, r := range sum.counts {
		for i := 1; i < len(r.parts); i++ {
			if a, b := r.parts[i-1].size(), r.parts[i].size(); a <= 2*b {
				t.Errorf("part %d has %d entries, the one after it %d", i-1, a, b)
			}
		}
	}
}

func TestMergeSorted(t *testing.T) {
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 6))
		draw := func() (list []int) {
			for range rnd.IntN(12) {
				list = append(list, 10*rnd.IntN(12))
			}
			slices.Sort(list)
			return slices.Compact(list)
		}
		a, b := draw(), draw()
		var want []int // what both have with a minus
		for _, n := range append(slices.Clone(a), b...) {
			if slices.Contains(a, n) && slices.Contains(b, n) {
				n *= -1
			}
			want = append(want, n)
		}
		abs := func(n int) int { return max(n, -n) }
		slices.SortFunc(want, func(x, y int) int { return abs(x) - abs(y) })
		want = slices.Compact(want)
		got := mergeSorted(slices.Clone(a), slices.Clone(b), func(x, y *int) int { return abs(*x) - abs(*y) }, func(x, y *int) { *x = -*y }, nil)
		if !slices.Equal(got, want) {
			t.Errorf("of %v and %v: %v, want %v", a, b, got, want)
		}
	}
}
