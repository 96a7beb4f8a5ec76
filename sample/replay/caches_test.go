package replay

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// A simpleLRU is a list of what was used, the last first.
type simpleLRU []uint64

// use returns how many others were used since x was; how many there are if it was not used.
func (l *simpleLRU) use(x uint64) (others int, known bool) {
	i := slices.Index(*l, x)
	if known = i >= 0; known {
		*l = slices.Delete(*l, i, i+1)
	} else {
		i = len(*l)
	}
	*l = slices.Insert(*l, 0, x)
	return i, known
}

// pieces are uses that come again soon, and some that do not.
func pieces(rnd *rand.Rand, n int) []uint64 {
	var all []uint64
	for i := range n {
		switch {
		case i == 0 || rnd.IntN(4) == 0:
			all = append(all, rnd.Uint64N(6000))
		case rnd.IntN(40) == 0:
			all = append(all, all[rnd.IntN(i)])
		default:
			all = append(all, all[max(0, i-1-rnd.IntN(30))])
		}
	}
	return all
}

// TestDistances: stack distances are those of a list.
func TestDistances(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var d distances
	for range 2 { // which begins anew
		d.begin()
		var list simpleLRU
		for i, x := range pieces(rnd, 20_000) {
			others, known := d.use(x)
			if want, seen := list.use(x); others != want || known != seen {
				t.Fatalf("use %d: %d others, %v; want %d, %v", i, others, known, want, seen)
			}
		}
	}
}

// TestFirstCache: what is known of a set is what a list of its lines says, up to so many.
func TestFirstCache(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	var c firstCache
	for range 2 {
		c.begin()
		var lists [sets]simpleLRU
		for i, x := range pieces(rnd, 20_000) {
			others, known := c.use(x, x)
			want, seen := lists[x%sets].use(x)
			if want >= ways {
				want, seen = ways, false
			}
			if others != want || known != seen {
				t.Fatalf("use %d: %d others, %v; want %d, %v", i, others, known, want, seen)
			}
		}
	}
}

func BenchmarkDistances(b *testing.B) {
	all := pieces(rand.New(rand.NewPCG(1, 2)), 20_000)
	var d distances
	for b.Loop() {
		d.begin()
		for _, x := range all {
			d.use(x)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(all)), "ns/use")
}
