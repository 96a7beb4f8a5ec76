package explain

import (
	"math"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/machine"
)

// TopDown returns the four shares of level 1 of the top-down method (Yasin, "A Top-Down
// Method for Performance Analysis and Counters Architecture", ISPASS 2014) as far as
// samples of time tell: shares of the cycles, between 0 and 1.
type TopDown struct{ Retiring, BadSpeculation, FrontEnd, BackEnd Range }

// TopDown estimates the top-down shares from samples of time: what CountedTopDown returns
// is better, where there are counters. They are ranges of what the causes allow;
// they inherit the error of the counts' scale, which Profile's confidence tells.
func (s *Summary) TopDown() (t TopDown) {
	if !(s.Cycles > 0) {
		return t
	}
	share := func(r Range) Range {
		return Range{min(1, max(0, r.Least)/s.Cycles), min(1, max(0, r.Most)/s.Cycles)}
	}
	var front, back Range
	for c, r := range s.Causes {
		switch Cause(c) {
		case Mispredict:
		case ICache, ITLB, FrontEnd, Microcode:
			front.add(r)
		default:
			back.add(r)
		}
	}
	unknown := s.Unexplained + s.Uncounted + s.Kernel + s.Elsewhere
	static := 0.0
	for _, n := range s.Static {
		static += n
	}
	retiring := Range{min(s.Dispatched.Least, static), min(s.Dispatched.Most, s.Cycles)}
	fetch := s.Static[machine.Fetch]
	t.Retiring = share(Range{retiring.Least, retiring.Most + s.Uncounted + s.Kernel + s.Elsewhere})
	t.BadSpeculation = share(Range{s.Causes[Mispredict].Least, s.Causes[Mispredict].Most + unknown})
	t.FrontEnd = share(Range{front.Least, front.Most + fetch + unknown})
	t.BackEnd = share(Range{back.Least + max(0, static-retiring.Most-fetch), back.Most + static - retiring.Least + unknown})
	return t
}

// A slotFormula makes the top-down shares of events that count places of the pipeline.
// What it needs are names of events; of each, share says what of it goes into retiring,
// bad speculation, front end and back end, and all is what the shares are of.
type slotFormula struct {
	all   []slotTerm
	share [4][]slotTerm
	rest  int // index of the share that is what the others leave; -1 if none is
}

// A slotTerm is a multiple of an event. A factor of 0 stands for as many as are dispatched in a cycle.
type slotTerm struct {
	event  string
	factor float64
}

const (
	retiring = iota
	badSpeculation
	frontEnd
	backEnd
)

// slotFormulas are the published ones.
var slotFormulas = []slotFormula{
	{ // Intel from Ice Lake on: what perf makes of the register PERF_METRICS (tools/perf/Documentation/topdown.txt of Linux 6.12)
		all: []slotTerm{{"topdown-retiring", 1}, {"topdown-bad-spec", 1}, {"topdown-fe-bound", 1}, {"topdown-be-bound", 1}},
		share: [4][]slotTerm{{{"topdown-retiring", 1}}, {{"topdown-bad-spec", 1}}, {{"topdown-fe-bound", 1}},
			{{"topdown-be-bound", 1}}},
		rest: -1,
	},
	{ // Intel before: Yasin 2014, table 1, by the names of Intel's event lists
		all: []slotTerm{{"cpu_clk_unhalted.thread", 0}},
		share: [4][]slotTerm{{{"uops_retired.retire_slots", 1}},
			{{"uops_issued.any", 1}, {"uops_retired.retire_slots", -1}, {"int_misc.recovery_cycles", 0}},
			{{"idq_uops_not_delivered.core", 1}}},
		rest: backEnd,
	},
	{ // the same, by the names of perf (arch/x86/events/intel/core.c of Linux 6.12)
		all: []slotTerm{{"topdown-total-slots", 0}},
		share: [4][]slotTerm{{{"topdown-slots-retired", 1}},
			{{"topdown-slots-issued", 1}, {"topdown-slots-retired", -1}, {"topdown-recovery-bubbles", 0}},
			{{"topdown-fetch-bubbles", 1}}},
		rest: backEnd,
	},
	{ // AMD from Zen 4 on (tools/perf/pmu-events/arch/x86/amdzen4/pipeline.json of Linux 6.12); what the other thread of a core takes is in none of the four
		all: []slotTerm{{"ls_not_halted_cyc", 0}},
		share: [4][]slotTerm{{{"ex_ret_ops", 1}},
			{{"de_src_op_disp.all", 1}, {"ex_ret_ops", -1}},
			{{"de_no_dispatch_per_slot.no_ops_from_frontend", 1}},
			{{"de_no_dispatch_per_slot.backend_stalls", 1}}},
		rest: -1,
	},
}

// isSlotEvent tells of events that a formula needs.
func isSlotEvent(name string) bool {
	is := func(t slotTerm) bool { return t.event == name }
	return slices.ContainsFunc(slotFormulas, func(f slotFormula) bool {
		return slices.ContainsFunc(f.all, is) || slices.ContainsFunc(f.share[:], func(ts []slotTerm) bool { return slices.ContainsFunc(ts, is) })
	})
}

// CountedTopDown returns the top-down shares by the events of the recording that count
// places of the pipeline: of p, a procedure of ip; of all of ip, where p is nil; of all user
// code, where ip is nil too. It is not ok where the recording does not have them. The ranges
// are those of chance: with 95 % confidence the share is within.
func (x *Explainer) CountedTopDown(ip *infer.ImageProfile, p *image.Proc) (t TopDown, ok bool) {
	for i := range slotFormulas {
		f := &slotFormulas[i]
		all, _, has := x.slots(f.all, ip, p)
		if !has || !(all > 0) {
			continue
		}
		var shares [4]Range
		rest := Range{1, 1}
		for k, terms := range f.share {
			if k == f.rest {
				continue
			}
			n, sd, has2 := x.slots(terms, ip, p)
			if has = has && has2; !has {
				break
			}
			shares[k] = Range{min(1, max(0, (n-2*sd)/all)), min(1, max(0, (n+2*sd)/all))}
			rest.Least, rest.Most = rest.Least-shares[k].Most, rest.Most-shares[k].Least
		}
		if !has {
			continue
		}
		if f.rest >= 0 {
			shares[f.rest] = Range{max(0, rest.Least), max(0, rest.Most)}
		}
		return TopDown{shares[retiring], shares[badSpeculation], shares[frontEnd], shares[backEnd]}, true
	}
	return t, false
}

// slots adds up terms. It returns the standard deviation, too, and whether all of the
// events were recorded.
func (x *Explainer) slots(terms []slotTerm, ip *infer.ImageProfile, p *image.Proc) (n, sd float64, ok bool) {
	variance := 0.0
	for _, t := range terms {
		e := x.counted[t.event]
		if e == nil {
			return 0, 0, false
		}
		factor := t.factor
		if factor == 0 {
			factor = float64(x.model.Width.Dispatch)
		}
		factor *= e.period
		samples := float64(e.in(ip, p))
		n += factor * samples
		variance += factor * factor * samples
	}
	return n, math.Sqrt(variance), true
}

// in counts the samples in p, in all of ip or in all images.
func (e *eventCounts) in(ip *infer.ImageProfile, p *image.Proc) (n uint64) {
	if ip == nil {
		for _, at := range e.at {
			for _, k := range at {
				n += k
			}
		}
		return n
	}
	for off, k := range e.at[ip.ID.Key()] {
		if p != nil {
			if a, ok := ip.Image.AddrOf(off); !ok || a < p.Addr || a-p.Addr >= image.Addr(p.Size) {
				continue
			}
		}
		n += k
	}
	return n
}
