package infer

import (
	"strings"

	"backfeed/sample"
)

// NeedsCounter reports whether an event is counted by a processor, whose counters it may share with others: events of the kernel's
// software are not (perf_event_open(2)), nor are times, tracepoints ("sched:sched_switch") and signals ("sigfpe:").
func NeedsCounter(e sample.Event) bool {
	switch sample.BareEvent(e.Name) {
	case "page-faults", "faults", "minor-faults", "major-faults", "context-switches", "cs", "cpu-migrations", "migrations", "cgroup-switches",
		"alignment-faults", "emulation-faults", "dummy", "bpf-output":
		return false
	}
	group, name, named := strings.Cut(e.Name, ":")
	tracepoint := named && group != "mem" && !strings.Contains(group, "/") && strings.Trim(name, "ukhGHIpPSDWeb") != ""
	return e.Unit != "ns" && !tracepoint
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
