package sample

import "strings"

// BareEvent is the name of an event without what it is modified by: "cpu_core/cycles/u"
// and "cycles:u" are cycles.
func BareEvent(name string) string {
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
