package perfdata

import (
	"fmt"
	"math/bits"
	"strings"

	"backfeed/sample"
)

// Bits of perf_event_attr.sample_type, from include/uapi/linux/perf_event.h.
const (
	hasIP           = 1 << 0
	hasTID          = 1 << 1
	hasTime         = 1 << 2
	hasAddr         = 1 << 3
	hasRead         = 1 << 4
	hasCallchain    = 1 << 5
	hasID           = 1 << 6
	hasCPU          = 1 << 7
	hasPeriod       = 1 << 8
	hasStreamID     = 1 << 9
	hasRaw          = 1 << 10
	hasBranches     = 1 << 11
	hasRegsUser     = 1 << 12
	hasStackUser    = 1 << 13
	hasWeight       = 1 << 14
	hasDataSrc      = 1 << 15
	hasIdentifier   = 1 << 16
	hasTransaction  = 1 << 17
	hasRegsIntr     = 1 << 18
	hasPhysAddr     = 1 << 19
	hasAux          = 1 << 20
	hasCgroup       = 1 << 21
	hasDataPageSize = 1 << 22
	hasCodePageSize = 1 << 23
	hasWeightStruct = 1 << 24

	knownSampleType = 1<<25 - 1
)

// Bits of read_format, branch_sample_type and the flags of perf_event_attr.
const (
	readEnabled = 1 << 0
	readRunning = 1 << 1
	readID      = 1 << 2
	readGroup   = 1 << 3
	readLost    = 1 << 4

	branchAny       = 1 << 3
	branchCallStack = 1 << 11
	branchHwIndex   = 1 << 17
	branchCounters  = 1 << 19

	flagInherit     = 1 << 1
	flagFreq        = 1 << 10
	flagSampleIDAll = 1 << 18
	flagBuildID     = 1 << 34
)

// Event types, and configs of the first two.
const (
	typeHardware   = 0
	typeSoftware   = 1
	typeTracepoint = 2
	typeHWCache    = 3
	typeRaw        = 4
	typeBreakpoint = 5

	hwCycles       = 0
	hwInstructions = 1
	hwBranches     = 4
	swCPUClock     = 0
	swTaskClock    = 1
	swDummy        = 9
)

// An attr is what is needed of a perf_event_attr.
//
//	offset  size  field
//	0       4     type
//	4       4     size of the structure: 64 in Linux 2.6.31, 128 or more now
//	8       8     config
//	16      8     sample_period, or sample_freq if the flag freq is set
//	24      8     sample_type
//	32      8     read_format
//	40      8     flags, a bit field: its first bit is the lowest of a little-endian
//	              number, but the highest of a big-endian one
//	48      8     wakeup_events, bp_type
//	56      8     bp_addr or config1
//	64      8     bp_len or config2
//	72      8     branch_sample_type
//	80      8     sample_regs_user
//	88      8     sample_stack_user, clockid
//	96      8     sample_regs_intr
type attr struct {
	typ        uint32
	config     uint64
	period     uint64
	sampleType uint64
	readFormat uint64
	flags      uint64
	bpAddr     uint64
	branchType uint64
	regsUser   uint64
	regsIntr   uint64
}

const (
	minAttrSize = 64      // PERF_ATTR_SIZE_VER0
	maxAttrSize = 1 << 12 // far above any kernel's so far
)

// attrSize returns the size that a perf_event_attr states of itself; 0 is that of
// the first version, which did not state it.
func attrSize(b []byte, big bool) uint64 {
	if n := order(big).Uint32(b[4:]); n != 0 {
		return uint64(n)
	}
	return minAttrSize
}

// decodeAttr reads as much of a perf_event_attr as b holds, at least its first
// version. Later fields that are missing are 0, as for the kernel.
func decodeAttr(b []byte, big bool) attr {
	var full [104]byte
	copy(full[:], b[:min(uint64(len(b)), attrSize(b, big))])
	bo := order(big)
	a := attr{
		typ:        bo.Uint32(full[0:]),
		config:     bo.Uint64(full[8:]),
		period:     bo.Uint64(full[16:]),
		sampleType: bo.Uint64(full[24:]),
		readFormat: bo.Uint64(full[32:]),
		flags:      bo.Uint64(full[40:]),
		bpAddr:     bo.Uint64(full[56:]),
		branchType: bo.Uint64(full[72:]),
		regsUser:   bo.Uint64(full[80:]),
		regsIntr:   bo.Uint64(full[96:]),
	}
	if big {
		a.flags = bits.Reverse64(a.flags)
	}
	return a
}

// sampleIDAll reports whether records other than samples end in a trailer that
// says when and where they were written.
func (a *attr) sampleIDAll() bool { return a.flags&flagSampleIDAll != 0 }

// trailer returns the size of that trailer and where in it the time is.
//
//	{ u32 pid, tid; }  if hasTID
//	{ u64 time; }      if hasTime
//	{ u64 id; }        if hasID
//	{ u64 stream_id; } if hasStreamID
//	{ u32 cpu, res; }  if hasCPU
//	{ u64 id; }        if hasIdentifier
func (a *attr) trailer() (size, time int) {
	if !a.sampleIDAll() {
		return 0, -1
	}
	const fields = hasTID | hasTime | hasID | hasStreamID | hasCPU | hasIdentifier
	size = 8 * bits.OnesCount64(a.sampleType&fields)
	if a.sampleType&hasTime == 0 {
		return size, -1
	}
	return size, 8 * bits.OnesCount64(a.sampleType&hasTID)
}

// idFromStart returns where the event's ID is in a SAMPLE record after its header,
// or -1. It is the same for all events of a recording, or nobody could find it.
func (a *attr) idFromStart() int {
	switch {
	case a.sampleType&hasIdentifier != 0:
		return 0
	case a.sampleType&hasID != 0:
		return 8 * bits.OnesCount64(a.sampleType&(hasIP|hasTID|hasTime|hasAddr))
	}
	return -1
}

// idFromEnd returns how far before the end of any other record the event's ID is,
// or -1.
func (a *attr) idFromEnd() int {
	switch {
	case !a.sampleIDAll():
	case a.sampleType&hasIdentifier != 0:
		return 8
	case a.sampleType&hasID != 0:
		return 8 + 8*bits.OnesCount64(a.sampleType&(hasStreamID|hasCPU))
	}
	return -1
}

// event returns the event under its name in the recording, if it has one there.
func (a *attr) event(name string) sample.Event {
	if name == "" {
		name = a.name()
	}
	ev := sample.Event{Name: plainName(name), Unit: a.unit(name)}
	if a.flags&flagFreq == 0 {
		ev.Period = a.period
	}
	return ev
}

// plainName leaves out of an event's name how it was sampled, as the period has that, and which levels of
// privilege it was counted at: what was not user mode is among the losses anyway. Modifiers that
// change where samples fall, as p does, stay.
func plainName(name string) string {
	name = sample.UnsampledEvent(strings.TrimRight(name, ", ")) // perf 6.1 leaves these behind
	i := max(strings.LastIndexByte(name, ':'), strings.LastIndexByte(name, '/'))
	if i <= 0 || strings.Trim(name[i+1:], "ukhGHIpPSDWeb") != "" {
		return name
	}
	keep := strings.Map(func(r rune) rune {
		if strings.ContainsRune("pP", r) {
			return r
		}
		return -1
	}, name[i+1:])
	if name[i] == ':' && keep == "" {
		return name[:i]
	}
	return name[:i+1] + keep
}

var hwNames = []string{"cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses",
	"bus-cycles", "stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles"}

var swNames = []string{"cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults",
	"major-faults", "alignment-faults", "emulation-faults", "dummy", "bpf-output", "cgroup-switches"}

// name returns the name that perf would make up of the numbers.
func (a *attr) name() string {
	switch a.typ {
	case typeHardware:
		// The upper half is the PMU's type on machines with several kinds of cores.
		if i := a.config & 0xffffffff; i < uint64(len(hwNames)) {
			return hwNames[i]
		}
	case typeSoftware:
		if a.config < uint64(len(swNames)) {
			return swNames[a.config]
		}
	case typeRaw:
		return fmt.Sprintf("raw 0x%x", a.config)
	case typeHWCache:
		return fmt.Sprintf("cache 0x%x", a.config)
	case typeTracepoint:
		return fmt.Sprintf("tracepoint %d", a.config)
	case typeBreakpoint:
		return fmt.Sprintf("mem:0x%x", a.bpAddr)
	}
	return fmt.Sprintf("type %d config 0x%x", a.typ, a.config)
}

// unit returns the unit of what an event counts. Those of particular processors
// are known by name alone.
func (a *attr) unit(name string) string {
	switch a.typ {
	case typeHardware:
		switch a.config & 0xffffffff {
		case hwCycles:
			return "cycles"
		case hwInstructions:
			return "instructions"
		case hwBranches:
			return "branches"
		}
		return "events"
	case typeSoftware:
		if a.config == swCPUClock || a.config == swTaskClock {
			return "ns"
		}
		return "events"
	case typeTracepoint, typeHWCache, typeBreakpoint:
		return "events"
	}
	name = strings.ToLower(sample.BareEvent(name))
	switch {
	case name == "cycles", name == "cpu-cycles", name == "cpu_cycles", strings.HasPrefix(name, "cpu_clk_unhalted.thread"):
		return "cycles"
	case name == "instructions", strings.HasPrefix(name, "inst_retired"):
		return "instructions"
	case name == "branches", name == "branch-instructions", name == "br_retired", strings.HasPrefix(name, "br_inst_retired"):
		return "branches"
	}
	return "events"
}
