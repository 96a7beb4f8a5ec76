package sample

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestGather: counts that are divided among parts in any way add up to the bytes that Merge makes of them,
// but for the weight, which only the first part knows. Events of one name become one.
func TestGather(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 9))
		var events [][]*Counts
		want := &Recording{}
		for ev := range 1 + rnd.IntN(3) {
			var parts []*Counts
			for range 1 + rnd.IntN(4) {
				c := random(rnd, 8).Counts[0]
				c.CPU, c.Event = CPU{}, Event{Name: []string{"a", "b", "a"}[ev], Unit: "cycles"}
				parts = append(parts, c)
			}
			sum := Merge(&Recording{Counts: parts})
			sum.Counts[0].Weight = parts[0].Weight
			for _, c := range parts[1:] {
				c.Weight = 0
			}
			want.Counts = append(want.Counts, sum.Counts...)
			events = append(events, parts)
		}
		want = Merge(want)
		got := &Recording{Counts: Gather(events...)}
		if !bytes.Equal(got.Encode(), want.Encode()) {
			t.Fatalf("seed %d: other bytes than Merge makes", seed)
		}
		if got.Samples() != want.Samples() {
			t.Errorf("seed %d: %d samples, want %d", seed, got.Samples(), want.Samples())
		}
		// What is gathered can be added to.
		got.AddAll(want)
		if want = Merge(want, want); !bytes.Equal(Merge(got).Encode(), want.Encode()) {
			t.Errorf("seed %d: other bytes when more is added", seed)
		}
	}
}
