package infer

import (
	"math"
	"testing"

	"backfeed/infer/image"
)

// TestCountedLoops: loops that the code counts turn as often as it says, by the exact counts of the programs of -sets.
func TestCountedLoops(t *testing.T) {
	all := loadSets(t)
	if len(all) == 0 {
		t.Skip("no -sets")
	}
	right, ran := 0, 0
	for _, s := range all {
		found, rightHere, ranHere := 0, 0, 0
		p, err := PlaceSamples(t.Context(), s.Rec, s.Open, Options{})
		if err != nil {
			t.Fatal(err)
		}
		for _, ip := range p.Profile.Images {
			for _, r := range ip.Procs {
				for _, trip := range ip.Image.Trips(r.Proc) {
					found++
					b := &r.Proc.Blocks[trip.Block]
					tested := s.exact(ip, b)
					if tested == 0 {
						continue
					}
					left := s.Taken(ip.ID.Path, b, r.Proc.Blocks[r.Proc.Edges[trip.Edge].To].Start)
					if r.Proc.Edges[trip.Edge].Kind == image.FallThrough {
						left = tested
						for _, e := range b.Out {
							if e != trip.Edge {
								left -= s.Taken(ip.ID.Path, b, r.Proc.Blocks[r.Proc.Edges[e].To].Start)
							}
						}
					}
					ranHere++
					if math.Abs(tested-left*trip.Turns) <= 0.01*tested {
						rightHere++
					} else {
						t.Logf("%s: %s: block %#x: %.0f tests, left %.0f times, by the code at every %.0fth", s.Name, r.Proc.Name, uint64(b.Start), tested, left, trip.Turns)
					}
				}
			}
		}
		t.Logf("%-10s %d loops, %d ran, %d as often as the code says", s.Name, found, ranHere, rightHere)
		right, ran = right+rightHere, ran+ranHere
	}
	if ran > 0 && float64(right) < 0.97*float64(ran) {
		t.Errorf("%d of %d loops turn as often as the code says", right, ran)
	}
}

// TestTurn: a loop that the code counts turns so often, whatever samples say, and is left by either out-edge.
func TestTurn(t *testing.T) {
	for _, of := range []string{"a9>b b9>b b>c c9!", "a9>b b9>c b>b c9!"} {
		p := graph(of)
		edge := -1
		for e := range p.Edges {
			if p.Edges[e].From == 1 && p.Edges[e].To == 2 {
				edge = e
			}
		}
		for _, turns := range []float64{0, 1000} {
			r := newResult(p)
			r.BlockSamples = []uint64{0, 100000, 0}
			pr := pose([]*Result{r}, plainCost, &outOfOrder, func(pr *posed) {
				if turns > 0 {
					pr.of[r].turn([]image.Trip{{Block: 1, Edge: edge, Turns: turns}})
				}
			})
			pr.run(false)
			got := r.Block[1].N / r.Entries.N
			if told := got > 0.8*turns && got < 1.25*turns; told != (turns > 0) {
				t.Errorf("%s: told %g turns, it has %.4g", of, turns, got)
			}
		}
	}
}
