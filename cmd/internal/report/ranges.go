package report

import (
	"html/template"
	"math"

	"backfeed/infer/explain"
	"backfeed/infer/machine"
)

// A Range is a part of the time that is known within bounds: one bar of a chart.
type Range struct {
	Name        string
	Least, Most float64 // shares, 1 is all
	Likeliest   float64 // a share; NaN where there is no likeliest one
	Note        string
	Href        string // where its code is; "" is nowhere
}

// exactly is a Range without doubt.
func exactly(name string, share float64, note string) Range {
	return Range{Name: name, Least: share, Most: share, Likeliest: math.NaN(), Note: note}
}

// causeNotes say in a few words what a cause is; they stand beside its bar.
var causeNotes = [explain.NumCauses]string{
	explain.DCache: "data was not in the first cache", explain.DTLB: "nor the translation of its address",
	explain.StoreForward: "a load of what was just stored", explain.StoreBuffer: "too many stores under way",
	explain.Mispredict: "a branch was predicted wrongly", explain.ICache: "code was not in the first cache",
	explain.ITLB: "nor the translation of its address", explain.FrontEnd: "fetching and decoding, taken jumps",
	explain.Divider: "divisions", explain.Multiplier: "multiplications", explain.Dependency: "a chain of results from before the block",
	explain.Lock: "atomic operations and fences", explain.PageFault: "memory touched for the first time",
	explain.Assist: "subnormal numbers, floating-point traps", explain.Microcode: "string and system instructions",
	explain.KernelReturn: "the way back from a system call",
}

// staticNotes do so for what the machine model expects.
var staticNotes = [...]string{
	machine.Dispatch:   "so many instructions take so long",
	machine.Dependency: "an earlier result", machine.Unit: "a unit that others use", machine.Fetch: "code is fetched in lines",
}

// staticNote is that of s: a slow operation has the words of its cause.
func staticNote(s explain.Static) string {
	if c, ok := s.Cause(); ok {
		return causeNotes[c]
	}
	return staticNotes[s]
}

// Causes returns what the cycles of s went to, as shares of them: first what the model
// expects, then the causes of stalls that could not be ruled out. Causes of nothing are
// left out.
func Causes(s *explain.Summary) []Range {
	if !(s.Cycles > 0) {
		return nil
	}
	var rows []Range
	for i, n := range s.Expected() {
		if n > 0 {
			rows = append(rows, exactly("static: "+explain.Static(i).String(), n/s.Cycles, staticNote(explain.Static(i))))
		}
	}
	for _, c := range explain.Causes() {
		if r := s.Causes[c]; r.Most > 0 {
			rows = append(rows, Range{Name: c.String(), Least: r.Least / s.Cycles, Most: r.Most / s.Cycles, Likeliest: s.Likeliest[c] / s.Cycles, Note: causeNotes[c]})
		}
	}
	if n := s.Several(); n > 1e-9*s.Cycles {
		rows = append(rows, exactly("several", n/s.Cycles, "more than the likeliest cause explains, not more than others do"))
	}
	if s.Unexplained > 0 {
		rows = append(rows, exactly("unexplained", s.Unexplained/s.Cycles, "no cause is left"))
	}
	if s.Uncounted > 0 {
		rows = append(rows, exactly("uncounted", s.Uncounted/s.Cycles, "it is not known how often the code ran"))
	}
	if s.Kernel > 0 {
		rows = append(rows, exactly("kernel", s.Kernel/s.Cycles, "in the kernel"))
	}
	if s.Elsewhere > 0 {
		rows = append(rows, exactly("elsewhere", s.Elsewhere/s.Cycles, "samples in no known procedure"))
	}
	return rows
}

// TopDown returns the four shares of the top-down method's first level.
func TopDown(t explain.TopDown) []Range {
	row := func(name string, r explain.Range, note string) Range {
		return Range{Name: name, Least: r.Least, Most: r.Most, Likeliest: math.NaN(), Note: note}
	}
	return []Range{
		row("retiring", t.Retiring, "useful work"),
		row("bad speculation", t.BadSpeculation, "work thrown away, and beginning anew"),
		row("front-end bound", t.FrontEnd, "waiting for instructions"),
		row("back-end bound", t.BackEnd, "waiting for data or units"),
	}
}

// barUnits is the width of a bar that is all, in units of its picture.
const barUnits = 200

// A bar across most of the picture is taken for much, and says that nothing is known.
const (
	wideRange     = 0.5  // of all: what is possible is not drawn of wider ranges
	littleCertain = 0.05 // of all: of what is not drawn so, less than this is not drawn either
)

// RangesHTML draws rows as bars beside their figures. The strong part of a bar is what is
// certain, the faint part what is possible; a line marks the likeliest share. Wide ranges are drawn as far
// as they are certain, or are words.
func RangesHTML(caption string, rows []Range) (template.HTML, error) {
	type bar struct {
		Range
		Text, Likely string
		Unknown      string  // in place of a bar, which would say more than the range does
		Dark, Light  float64 // units
		Mark         float64 // units; below 0 is none
	}
	var bars []bar
	marked := false
	for _, r := range rows {
		b := bar{Range: r, Likely: Percent(r.Likeliest), Mark: -1}
		switch from, to := Percent(r.Least), Percent(r.Most); {
		case from == to:
			b.Text = from
		case r.Least < 0.0005:
			b.Text = "up to " + to
		default:
			b.Text = from + " to " + to
		}
		b.Dark, b.Light = units(r.Least), units(r.Most)
		if r.Most-r.Least > wideRange { // what is certain remains
			b.Light = b.Dark
			if r.Least < littleCertain {
				b.Unknown = "not known: 0 to " + Percent(r.Most)
			}
		}
		if !math.IsNaN(r.Likeliest) {
			b.Mark = min(units(r.Likeliest), barUnits-2)
			marked = true
		}
		bars = append(bars, b)
	}
	return markup("ranges.tmpl", map[string]any{"Caption": caption, "Bars": bars, "Units": barUnits, "Marked": marked})
}

func units(share float64) float64 {
	return math.Round(min(1, max(0, share))*barUnits*10) / 10
}
