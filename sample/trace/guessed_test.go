package trace

import (
	"math"
	"math/rand/v2"
	"testing"

	"backfeed/sample"
)

// TestGuessed: a loop ends in one of 100 turns. Walks that go through it know that in the half of its tests, and guess
// in the others, as often one way as the other; a way that was guessed wrongly leads to the end of the loop all the same.
func TestGuessed(t *testing.T) {
	const walks, turns, ends = 5000, 8, 0.01
	rng := rand.New(rand.NewPCG(1, 2))
	loop := NewCode([]Image{{ID: sample.ImageID{Path: "/g"}, Procs: [][]Inst{{
		{Addr: 0x1000, Off: 0x1000, Proc: 0x1000},
		{Addr: 0x1001, Off: 0x1001, Proc: 0x1000, Target: 0x1005, Op: Op{Kind: CondJump}}, // leaves the loop
		{Addr: 0x1003, Off: 0x1003, Proc: 0x1000, Target: 0x1000, Op: Op{Kind: Jump}},
		{Addr: 0x1005, Off: 0x1005, Proc: 0x1000, Target: 0x1000, Op: Op{Kind: Jump}}, // and another one begins
		{},
	}}}})
	for _, tt := range []struct {
		name        string
		known       float64 // share of the tests
		alike       float64 // share of the guesses that go as the one before in their walk
		least, most float64 // share of turns that lead to the end
	}{
		{"all are known", 1, 0, 0.008, 0.012},
		{"half", 0.5, 0, 0.005, 0.02},
		{"half, and guesses of a walk hang together", 0.5, 0.8, 0.005, 0.02},
		{"half, and guesses of a walk are the same", 0.5, 1, 0.005, 0.02},
		{"none: guesses are all there is", 0, 0, 0.48, 0.52},
	} {
		var w Walks
		w.SetCode(loop)
		for range walks {
			p, guess := path{start: 1}, rng.IntN(2) == 0
			for range turns {
				how, taken := via(0), rng.Float64() < ends
				if rng.Float64() >= tt.known {
					if rng.Float64() >= tt.alike {
						guess = rng.IntN(2) == 0
					}
					how, taken = viaGuessed, guess
				}
				if taken {
					how |= viaTaken
				}
				p.outcomes = append(p.outcomes, how)
				p.steps += 3
			}
			w.add(&p, 0)
		}
		counts := sample.NewCounts(sample.CPU{}, sample.Event{})
		w.AddTo(counts, nil)
		if err := counts.Check(); err != nil {
			t.Error(err)
		}
		seen := counts.Images[0].Probed
		// All walks together are worth what they are.
		if got, want := float64(seen[0x1001].Visits), float64(turns*walks); math.Abs(got-want) > 0.05*want {
			t.Errorf("%s: %g visits of the loop's test, want %g", tt.name, got, want)
		}
		share := float64(seen[0x1005].Visits) / float64(seen[0x1001].Visits)
		if share < tt.least || share > tt.most || math.IsNaN(share) {
			t.Errorf("%s: %.4f of the turns end the loop, want %g to %g", tt.name, share, tt.least, tt.most)
		}
	}
}
