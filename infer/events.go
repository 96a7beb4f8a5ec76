package infer

import (
	"strings"

	"backfeed/sample"
)

// BareEvent is the name of an event without what it is modified by: "cpu_core/cycles/u"
// and "cycles:u" are cycles.
func BareEvent(name string) string {
	if _, in, ok := strings.Cut(name, "/"); ok {
		name, _, _ = strings.Cut(in, "/")
	}
	name, _, _ = strings.Cut(name, ":")
	return name
}

// PreciseEvent reports whether e is an event whose samples name the instruction that was waited for:
// counters with perf's modifier p. Perf gives timers that modifier, too, where it falls back
// to one; to them it means nothing.
func PreciseEvent(e sample.Event) bool {
	return e.Unit == "cycles" && precision(e) > 0
}

// zeroSkid reports whether e is an event of which each sample names the instruction that was counted: two
// modifiers p ask for that (perf_event_open(2), precise_ip).
func zeroSkid(e sample.Event) bool { return precision(e) >= 2 }

// precision is how many modifiers p perf has given an event: "instructions:upp", "cpu_core/cycles/p".
func precision(e sample.Event) int {
	modifiers := e.Name[strings.LastIndexAny(e.Name, ":/")+1:]
	if len(modifiers) == len(e.Name) || strings.Trim(modifiers, "ukhGHIpPSDWeb") != "" {
		return 0
	}
	return strings.Count(modifiers, "p")
}
