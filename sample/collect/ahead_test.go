package collect

import (
	"testing"
	"time"
)

// TestFixedCost: the cost is the median of the last ones, and few that were disturbed do not count.
func TestFixedCost(t *testing.T) {
	var f fixedCost
	if median, sd := f.cost(); median != 0 || sd != 0 {
		t.Errorf("of none: %v, %v", median, sd)
	}
	for i := range 100 {
		f.add(time.Duration(50+i%10) * time.Millisecond) // long ago
	}
	for i := range fixedKept {
		d := time.Duration(20+i%3) * time.Microsecond
		if i%8 == 0 {
			d = time.Second
		}
		f.add(d)
	}
	if median, sd := f.cost(); median != 21*time.Microsecond || sd <= 0 || sd > 2*time.Microsecond {
		t.Errorf("%v, standard deviation %v", median, sd)
	}
}
