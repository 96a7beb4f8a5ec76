package collect

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// pmuDevices is where the kernel lists its PMUs, each with the events that it has names for
// (Documentation/ABI/testing/sysfs-bus-event_source-devices-events and -format of Linux).
const pmuDevices = "/sys/bus/event_source/devices"

// processorPMUs are the directories of the PMUs of processors: "cpu" on x86-64, and any that says which
// processors it is of, as those of Arm and of the kinds of cores of hybrid machines do. PMUs that say it by a
// cpumask count for a whole socket, and sample nothing.
func processorPMUs(devices string) (dirs []string) {
	all, _ := filepath.Glob(filepath.Join(devices, "*"))
	for _, dir := range all {
		_, err := os.Stat(filepath.Join(dir, "cpus"))
		if err == nil || filepath.Base(dir) == "cpu" {
			dirs = append(dirs, dir)
		}
	}
	return dirs
}

// processorEvents are the names of the events of all such PMUs.
func processorEvents(devices string) (names []string) {
	for _, dir := range processorPMUs(devices) {
		files, _ := filepath.Glob(filepath.Join(dir, "events", "*"))
		for _, f := range files {
			if name := filepath.Base(f); !strings.Contains(name, ".") { // beside NAME there may be NAME.scale and NAME.unit
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// processorEvent returns an event by the name that the kernel has for it on this processor.
// Of machines with several kinds of cores, it is that of the first that has it.
func processorEvent(devices, name string) (*perfEvent, bool) {
	if name == "" || strings.ContainsAny(name, "/.") {
		return nil, false
	}
	for _, dir := range processorPMUs(devices) {
		terms, err1 := os.ReadFile(filepath.Join(dir, "events", name))
		typ, err2 := os.ReadFile(filepath.Join(dir, "type"))
		if err1 != nil || err2 != nil {
			continue
		}
		number, err1 := strconv.ParseUint(strings.TrimSpace(string(typ)), 10, 32)
		config, err2 := encodeEvent(strings.TrimSpace(string(terms)), func(field string) string {
			b, _ := os.ReadFile(filepath.Join(dir, "format", field))
			return strings.TrimSpace(string(b))
		})
		if err1 == nil && err2 == nil {
			return &perfEvent{typ: uint32(number), config: config, unit: processorUnits[name]}, true
		}
	}
	return nil, false
}

// processorUnits are the units of events whose samples package infer has a model of.
var processorUnits = map[string]string{
	"cpu-cycles": cycles, "cpu_cycles": cycles,
	"inst_retired": instructions,
	"br_retired":   "branches", "branch-instructions": "branches",
}

// encodeEvent returns the config of an event by its terms, such as "event=0xc0,umask=0x1", where format says which
// bits a field takes, such as "config:0-7,32-35". Terms of other words than config are refused.
func encodeEvent(terms string, format func(field string) string) (config uint64, err error) {
	for term := range strings.SplitSeq(terms, ",") {
		field, text, given := strings.Cut(term, "=")
		value := uint64(1)
		if given {
			if value, err = strconv.ParseUint(text, 0, 64); err != nil {
				return 0, fmt.Errorf("event %q: %s: %q is not a number of at most 64 bits", terms, field, text)
			}
		}
		bits, ok := strings.CutPrefix(format(field), "config:")
		if !ok {
			return 0, fmt.Errorf("event %q: %s: the kernel has it in %q, want config", terms, field, format(field))
		}
		for part := range strings.SplitSeq(bits, ",") {
			first, last, ranged := strings.Cut(part, "-")
			if !ranged {
				last = first
			}
			lo, err1 := strconv.ParseUint(first, 10, 6)
			hi, err2 := strconv.ParseUint(last, 10, 6)
			if err1 != nil || err2 != nil || hi < lo {
				return 0, fmt.Errorf("event %q: %s: the kernel has it in bits %q, want numbers below 64", terms, field, bits)
			}
			width := hi - lo + 1
			config |= value & (1<<width - 1) << lo
			value >>= width // 0 if width is 64
		}
		if value != 0 {
			return 0, fmt.Errorf("event %q: %s: too large for its bits %q", terms, field, bits)
		}
	}
	return config, nil
}
