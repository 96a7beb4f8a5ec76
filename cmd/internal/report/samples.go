package report

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"backfeed/infer"
	"backfeed/sample"
)

// MostFirst returns the keys of n by falling numbers, then by name.
func MostFirst[K comparable, N cmp.Ordered](n map[K]N) []K {
	return slices.SortedFunc(maps.Keys(n), func(a, b K) int {
		return cmp.Or(cmp.Compare(n[b], n[a]), strings.Compare(fmt.Sprint(a), fmt.Sprint(b)))
	})
}

// Few lists so many of names at most, and says how many more there are.
func Few(names []string, most int) string {
	if more := len(names) - most; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), more)
	}
	return strings.Join(names, ", ")
}

// Losses lists samples that belong to no code, by reason and with their shares of total: "192
// unmapped (0.2%)"; "" if there are none. Where they matter, it says what to do.
func Losses(lost map[sample.Loss]uint64, total uint64) string { return LossesOf("", lost, total) }

// LossesOf is Losses of samples of an event, which may be time.
func LossesOf(event string, lost map[sample.Loss]uint64, total uint64) string {
	var parts, todo []string
	for _, why := range MostFirst(lost) {
		n := lost[why]
		if n == 0 {
			continue
		}
		amount := strconv.FormatUint(n, 10)
		if sample.IsOff(event) {
			amount = Amount(event, n)
		}
		parts = append(parts, fmt.Sprintf("%s %s (%s)", amount, why, Share(n, total)))
		if do := lossAdvice[why]; do != "" && float64(n) >= muchLost*float64(total) {
			todo = append(todo, fmt.Sprintf("%s: %s", why, do))
		}
	}
	text := strings.Join(parts, ", ")
	if len(todo) > 0 {
		text += "; " + strings.Join(todo, "; ")
	}
	return text
}

// muchLost is the share of all samples from which on a loss is worth doing something about.
const muchLost = 0.05

// lossAdvice says what to do about a loss, or why there is nothing to do.
var lossAdvice = map[sample.Loss]string{
	sample.LostDropped:   "a lower -F, or a machine with less to do, loses none",
	sample.LostKernel:    "the time of system calls and page faults; record -a --kernel has it, and counts of the program need it not",
	sample.LostUnmapped:  "processes began or mapped code before sampling did; start the program with record -- CMD",
	sample.LostAnonymous: "code that was made at run time (JIT), which no profile is for; its runtime can write names for perf to /tmp/perf-PID.map (node --perf-basic-prof), which are then shown",
	sample.LostGuest:     "record inside of the virtual machine",
	sample.LostStale:     "record the new build for a while",
	infer.LostNoImage:    "keep the binaries that were recorded, as record --copy-to DIR does, and name where they are with --symfs DIR",
	infer.LostNoProc:     "the image is stripped or has code between its functions; keep its symbol table or debug file",

	sample.LostNoAddress: "the profile has names and lines only; use one that the program wrote itself",
	sample.LostOutsideGo: "in C code and the kernel; record -- CMD or record -p sees it",
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
