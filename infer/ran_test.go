package infer

import "testing"

// TestSamplesRan: nearly all samples of the programs of -sets are at instructions that ran while they were counted.
// Where they are not, another routine of libc was chosen or other data read, and the program judges nothing.
func TestSamplesRan(t *testing.T) {
	all := loadSets(t)
	if len(all) == 0 {
		t.Skip("no -sets")
	}
	for _, s := range all {
		var samples, ran uint64
		for _, ic := range s.Rec.Counts[0].Images {
			samples += ic.Samples()
		}
		for path, at := range s.Samples {
			for a, n := range at {
				if s.Ran(path, a) {
					ran += n
				}
			}
		}
		share := float64(ran) / float64(max(samples, 1))
		t.Logf("%-12s %7d samples, %.3f of them at instructions that ran", s.Name, samples, share)
		if share < 0.95 || samples < 2000 {
			t.Errorf("%s: %d samples, %.3f of them at instructions that ran; want 2000 and 0.95", s.Name, samples, share)
		}
	}
}
