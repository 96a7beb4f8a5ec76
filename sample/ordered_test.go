package sample

import (
	"bytes"
	"errors"
	"maps"
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
		for range 2 { // it stays
			if got := sum.Encode(); !bytes.Equal(got, want) {
				t.Errorf("seed %d: the sum is written as\n%s\nwant\n%s", seed, Dump(got), Dump(want))
			}
		}
		samples, lost, byImage, observed := sum.Samples(), sum.Lost(), sum.ByImage(), sum.Observed(nil)
		odd := func(id ImageID) bool { return id.Build[0]%2 == 1 }
		someObserved := sum.Observed(odd)
		got := sum.Recording()
		check(t, got)
		if samples != got.Samples() || !maps.Equal(lost, got.Lost()) || !maps.Equal(byImage, got.ByImage()) || observed != got.Observed(nil) || someObserved != got.Observed(odd) {
			t.Errorf("seed %d: of the sum: %d samples, lost %v, by image %v, observed %v and %v; of its recording %d, %v, %v, %v and %v", seed,
				samples, lost, byImage, observed, someObserved, got.Samples(), got.Lost(), got.ByImage(), got.Observed(nil), got.Observed(odd))
		}
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

// TestEncodeUnordered: a recording is written alike in whatever order there are its parts, and stays as it was.
func TestEncodeUnordered(t *testing.T) {
	for seed := range uint64(100) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		r := Merge([]*Recording{withOff(), withSplit(), random(rnd, 1+rnd.IntN(30))}[:1+rnd.IntN(3)]...)
		for rank := range uint64(9) {
			r.Counts[0].AddPaths([]Path{{Rank: rank, Insts: 1 + rank, Branches: []Branch{{Frame{0, Offset(rank)}, Frame{0, 16}}}}})
		}
		want := r.Encode()
		if again := r.Encode(); !bytes.Equal(again, want) {
			t.Fatalf("seed %d: written twice, it is\n%s\nwant\n%s", seed, Dump(again), Dump(want))
		}
		for _, all := range [][]*Counts{r.Counts, r.Off} {
			for _, c := range all {
				rnd.Shuffle(len(c.Stacks), func(i, j int) { c.Stacks[i], c.Stacks[j] = c.Stacks[j], c.Stacks[i] })
				rnd.Shuffle(len(c.Paths), func(i, j int) { c.Paths[i], c.Paths[j] = c.Paths[j], c.Paths[i] })
			}
		}
		rnd.Shuffle(len(r.Runs), func(i, j int) { r.Runs[i], r.Runs[j] = r.Runs[j], r.Runs[i] })
		rnd.Shuffle(len(r.Counts), func(i, j int) { r.Counts[i], r.Counts[j] = r.Counts[j], r.Counts[i] })
		if got := r.Encode(); !bytes.Equal(got, want) {
			t.Errorf("seed %d: in another order, it is\n%s\nwant\n%s", seed, Dump(got), Dump(want))
		}
	}
}
