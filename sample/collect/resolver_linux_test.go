package collect

import "testing"

// TestWeighCounts: no weight is lost, and counts with samples have some.
func TestWeighCounts(t *testing.T) {
	for _, tt := range []struct {
		name                  string
		delivered, all, later uint64
		now, carried          uint64
	}{
		{"all is placed", 9, 9000, 0, 9000, 0},
		{"some waits", 6, 9000, 3000, 6000, 3000},
		{"all waits", 0, 9000, 9000, 0, 9000},
		{"nothing came", 0, 0, 0, 0, 0},
		{"a sample before its weight", 1, 0, 0, 1, 0},
		{"one that waited, and all that is new waits", 1, 9000, 9000, 1, 9000},
	} {
		now, carried := weigh(tt.delivered, tt.all, tt.later)
		if now != tt.now || carried != tt.carried {
			t.Errorf("%s: %d now and %d later, want %d and %d", tt.name, now, carried, tt.now, tt.carried)
		}
	}
}
