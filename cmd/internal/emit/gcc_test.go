package emit

import (
	"slices"
	"testing"

	"backfeed/feedback"
	"backfeed/sample"
)

// TestOtherGCC: a profile for another gcc than the one that built what ran says so, with both versions and what to do, unless that is little of
// it, or the reader is gcc 12, which does not tell the blocks of a line apart.
func TestOtherGCC(t *testing.T) {
	const (
		way    = ", which numbers the blocks of a line in another way and finds a part of the counts: "
		other  = "gcc 12 built 100.0% of what ran of /bin/app, and the profile is for gcc 14" + way + "record what gcc 14 has built, or leave --gcc-version out, for a profile that gcc 12 is to read"
		mixed  = "gcc 12 built 30.0% of what ran of /bin/app, and the profile is for gcc 14" + way + "record what gcc 14 has built"
		three  = "gcc 15 and 12 built 40.0% of what ran of /bin/app, and the profile is for gcc 14" + way + "record what gcc 14 has built"
		beside = "gcc 12 built 30.0% of what ran of /bin/app, and the profile is for gcc 14" + way + "record what gcc 14 has built, or leave --gcc-version out, for a profile that gcc 12 is to read"
		newer  = "gcc 14 built 100.0% of what ran of /bin/app, and the profile is for gcc 16" + way + "record what gcc 16 has built, or leave --gcc-version out, for a profile that gcc 14 is to read"
	)
	for _, tt := range []struct {
		name         string
		made         map[int]float64 // executed instructions, by version
		executed     float64         // in all, assembly and other compilers' code, too
		reads, asked int
		want         []string
	}{
		{"the same", map[int]float64{14: 10}, 10, 14, 0, nil},
		{"the same, asked for", map[int]float64{14: 10}, 10, 14, 14, nil},
		{"another", map[int]float64{12: 10}, 10, 14, 14, []string{other}},
		{"a newer one", map[int]float64{14: 10}, 10, 16, 16, []string{newer}},
		{"gcc 12 reads lines alone", map[int]float64{14: 10}, 10, 12, 12, nil},
		{"little", map[int]float64{12: 4, 14: 96}, 100, 14, 0, nil},
		{"several", map[int]float64{12: 3, 14: 7}, 10, 14, 0, []string{mixed}},
		{"several, asked for", map[int]float64{12: 3, 14: 7}, 10, 14, 14, []string{mixed}},
		{"three", map[int]float64{12: 1, 15: 3, 14: 6}, 10, 14, 0, []string{three}},
		{"nothing ran", map[int]float64{12: 0}, 0, 14, 14, nil},
		{"beside others", map[int]float64{12: 3}, 10, 14, 14, []string{beside}},
		{"unknown", nil, 5, 14, 14, nil},
	} {
		st := feedback.GCCStats{Image: sample.ImageID{Path: "/bin/app"}, Version: tt.reads, Made: tt.made, Executed: tt.executed}
		if got := otherGCC(st, tt.asked); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}
