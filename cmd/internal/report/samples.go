package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"backfeed/sample"
)

// MostFirst returns the keys of n by falling numbers, then by name.
func MostFirst[K comparable, N cmp.Ordered](n map[K]N) []K {
	return slices.SortedFunc(maps.Keys(n), func(a, b K) int {
		return cmp.Or(cmp.Compare(n[b], n[a]), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
}

// Losses lists losses by reason, with their shares of total samples: "192 unmapped (0.2%)";
// "" if there are none.
func Losses(lost map[sample.Loss]uint64, total uint64) string {
	var parts []string
	for _, why := range MostFirst(lost) {
		if n := lost[why]; n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s (%s)", n, why, Share(n, total)))
		}
	}
	return strings.Join(parts, ", ")
}

// Observed lists how many places have more than samples: "400 places probed, 12 counted"; ""
// if none has.
func Observed(n sample.ObservedPlaces) string {
	var list []string
	for _, of := range []struct {
		n    int
		what string
	}{{n.Probed, "probed"}, {n.Walked, "seen by walks"}, {n.Counted, "counted"}} {
		switch {
		case of.n > 0 && len(list) == 0:
			list = append(list, fmt.Sprintf("%d places %s", of.n, of.what))
		case of.n > 0:
			list = append(list, fmt.Sprintf("%d %s", of.n, of.what))
		}
	}
	return strings.Join(list, ", ")
}
