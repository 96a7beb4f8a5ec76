package trace

import (
	"math"
	"math/rand/v2"
	"testing"

	"backfeed/sample"
)

// TestSlowness: branches slow down the code around them that go now one way and now another, and
// not those that always go the same way or that turns tell.
func TestSlowness(t *testing.T) {
	const walks, branches, steps = 400, 50, 500
	rng := rand.New(rand.NewPCG(1, 2))
	kinds := []struct {
		goes    func(i int) bool
		guessed bool
		missed  float64 // of a branch
	}{
		{func(int) bool { return true }, false, 0},
		{func(i int) bool { return i%3 == 0 }, false, 0},
		{func(int) bool { return rng.IntN(2) == 0 }, false, 0.5},
		{func(int) bool { return rng.IntN(10) == 0 }, false, 0.1},
		{func(int) bool { return rng.IntN(2) == 0 }, true, 0}, // it is not known which way
	}
	id := sample.ImageID{Path: "/app"}
	w := &Walks{spot: map[endpoint]int32{}}
	for i := range walks * len(kinds) {
		k := i % len(kinds)
		at := uint64(k) * 0x100
		s := seenWalk{steps: steps, head: steps, start: number(w.spot, endpoint{id, at, 0, at}), end: -1}
		if i < len(kinds) {
			w.places = append(w.places, branchKey{id: id, off: sample.Offset(at), cond: true})
		}
		for n := range branches {
			how := via(k) * viaPlace
			if kinds[k].goes(n) {
				how |= viaTaken
			}
			if kinds[k].guessed {
				how |= viaGuessed
			}
			s.at = append(s.at, how)
		}
		w.walks = append(w.walks, s)
	}
	region := w.regions()
	slow := w.slowness(region, len(kinds))
	of := func(k int) float64 { return slow[region[k]] }
	for k, kind := range kinds {
		want := math.Log1p(missedCost * kind.missed * branches / steps)
		if got := of(k) - of(0); math.Abs(got-want) > 0.1 {
			t.Errorf("kind %d: %.2f slower than code without such branches, want %.2f", k, got, want)
		}
	}
	// Without more than that, walks weigh the less the slower the code is.
	weights := w.weigher(region, w.worths()).weights()
	for k := range kinds {
		got, want := math.Log(weights[region[k]]/weights[region[0]]), of(0)-of(k)
		if math.Abs(got-want) > 1e-6 {
			t.Errorf("kind %d: the logarithm of the weight is %.3f, want %.3f", k, got, want)
		}
	}
}
