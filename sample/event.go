package sample

import (
	"slices"
	"strings"
)

// samplingTerms are those of perf's terms between slashes that say how an event is sampled, not which it is (perf-list(1),
// "Event descriptors"; tools/perf/util/parse-events.l of Linux 6.1 to 6.12).
var samplingTerms = []string{"period", "freq", "branch_type", "time", "call-graph", "stack-size", "max-stack", "nr", "inherit", "no-inherit",
	"overwrite", "no-overwrite", "percore", "aux-output", "aux-action", "aux-sample-size", "metric-id"}

// UnsampledEvent is the name of an event without how perf was told to sample it: "page-faults/period=1/u" is
// "page-faults:u", "cpu/cycles,freq=99/p" is "cpu/cycles/p".
func UnsampledEvent(name string) string {
	before, in, ok := strings.Cut(name, "/")
	last := strings.LastIndexByte(in, '/')
	if !ok || last < 0 {
		return name
	}
	terms, modifiers := strings.Split(in[:last], ","), in[last+1:]
	all := len(terms)
	terms = slices.DeleteFunc(terms, func(term string) bool {
		key, _, _ := strings.Cut(strings.TrimSpace(term), "=")
		return slices.Contains(samplingTerms, key)
	})
	switch {
	case len(terms) == all:
		return name
	case len(terms) > 0:
		return before + "/" + strings.Join(terms, ",") + "/" + modifiers
	case modifiers != "":
		return before + ":" + modifiers
	}
	return before
}

// BareEvent is the name of an event without what it is modified by: "cpu_core/cycles/u"
// and "cycles:u" are cycles.
func BareEvent(name string) string {
	name = UnsampledEvent(name)
	if _, in, ok := strings.Cut(name, "/"); ok {
		name, _, _ = strings.Cut(in, "/")
	}
	name, _, _ = strings.Cut(name, ":")
	return name
}

// OfTimer reports whether e is an event of the kernel's timers. Interrupts of counters are none: on x86-64
// nothing holds them up, and they lie in the kernel.
func (e Event) OfTimer() bool {
	switch BareEvent(e.Name) {
	case "cpu-clock", "task-clock", "tick":
		return true
	}
	return false
}
