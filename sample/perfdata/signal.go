package perfdata

import (
	"fmt"
	"slices"
	"strings"

	"backfeed/sample"
)

// perf's tracepoint signal:signal_generate tells of each signal, in kernel mode. Those
// of arithmetic are attributed to the instruction in user mode that was interrupted,
// which the call chain begins with, as events of their own: one for each reason.

// signalEvent is how perf names the tracepoint.
const signalEvent = "signal:signal_generate"

// sigFPE is the signal of arithmetic (include/uapi/asm-generic/signal.h).
const sigFPE = 8

// fpeCodes are why it was sent: si_code (include/uapi/asm-generic/siginfo.h).
var fpeCodes = []string{1: "intdiv", 2: "intovf", 3: "fltdiv", 4: "fltovf", 5: "fltund", 6: "fltres", 7: "fltinv", 8: "fltsub"}

// fpeEvent returns the event of a SIGFPE with that code. Codes that are not positive
// are of signals that a program sent.
func fpeEvent(code int32) sample.Event {
	name := "sent"
	switch {
	case code > 0 && int(code) < len(fpeCodes):
		name = fpeCodes[code]
	case code > 0:
		name = fmt.Sprintf("code%d", code)
	}
	return sample.Event{Name: "sigfpe:" + name, Period: 1, Unit: "events"}
}

// decodeSignal reads what the tracepoint wrote, if it was that one (include/trace/
// events/signal.h, the same since Linux 2.6.33): 8 common fields, 4 signal, 4 errno, 4
// si_code, 16 command, 4 process, and more since.
func decodeSignal(b []byte, big bool, e *entry) {
	if len(b) < 40 {
		return
	}
	bo := order(big)
	if int32(bo.Uint32(b[8:])) == sigFPE {
		e.fpe, e.code = true, int32(bo.Uint32(b[16:]))
	}
}

// signalled takes a sample of a signal of arithmetic, and reports whether it was one.
// Whether its event is the tracepoint of signals may not be known yet.
func (r *reader) signalled(e *entry) bool {
	if !e.fpe || e.interrupted == 0 {
		return false
	}
	code := e.code
	if code < 0 {
		code = 0
	}
	if e.ev.fpe == nil {
		e.ev.fpe = map[int32]*event{}
	}
	ev := e.ev.fpe[code]
	if ev == nil {
		if len(e.ev.fpe) >= maxFPE {
			return false
		}
		ev = &event{attr: e.ev.attr, tally: newTally(), index: noIndex}
		e.ev.fpe[code] = ev
	}
	at := *e
	at.ev, at.ip, at.misc, at.fpe = ev, e.interrupted, e.misc&^miscModeMask|modeUser, false
	r.sample(&at)
	return true
}

// maxFPE bounds the codes that are told apart: more than there are.
const maxFPE = 32

// takeSignals returns the counts of signals of arithmetic that ev is of. If it turned
// out to be another event, its samples are in the kernel after all.
func (ev *event) takeSignals() map[int32]*event {
	if strings.HasPrefix(ev.label, signalEvent) {
		return ev.fpe
	}
	for _, of := range ev.fpe {
		ev.counts.Lose(sample.LostKernel, of.counts.Total)
		if ev.counts.Weight += of.counts.Weight; ev.counts.Weight < of.counts.Weight {
			ev.counts.Weight = ^uint64(0)
		}
	}
	return nil
}

// sortedCodes returns the keys of m in order.
func sortedCodes(m map[int32]*event) []int32 {
	var codes []int32
	for code := range m {
		codes = append(codes, code)
	}
	slices.Sort(codes)
	return codes
}
