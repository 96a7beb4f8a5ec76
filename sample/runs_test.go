package sample

import (
	"math"
	"testing"
)

// TestSplitSD: user and system time are as uncertain as the share of ticks that met the kernel.
func TestSplitSD(t *testing.T) {
	for _, tt := range []struct {
		user, system uint64
		want         float64
	}{
		{0, 0, 0}, {1e6, 0, 0}, {0, 1e6, 0},
		{500_000, 500_000, 50_000}, // 100 ticks, half of which met it: 5 more or less
		{50e6, 50e6, 500_000},
	} {
		u := Usage{User: tt.user, System: tt.system}
		if got := u.SplitSD(); math.Abs(got-tt.want) > 1e-6*tt.want {
			t.Errorf("%d and %d us: %g, want %g", tt.user, tt.system, got, tt.want)
		}
	}
}
