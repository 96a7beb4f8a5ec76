package feedback

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/google/pprof/profile"

	"backfeed/infer/image"
	"backfeed/sample"
)

// A pprof is a profile that is being built.
type pprof struct {
	p     *profile.Profile
	funcs map[goFunc]*profile.Function
	locs  map[string]*profile.Location
	spent map[*profile.Location]float64 // nanoseconds
}

// newPprof makes an empty profile. It has no time, host or directory in it.
func newPprof(id sample.ImageID) *pprof {
	count := &profile.ValueType{Type: "samples", Unit: "count"}
	cpu := &profile.ValueType{Type: "cpu", Unit: "nanoseconds"}
	m := &profile.Mapping{
		ID: 1, File: strings.ToValidUTF8(path.Base(id.Path), "\ufffd"),
		HasFunctions: true, HasFilenames: true, HasLineNumbers: true, HasInlineFrames: true, // so that nobody symbolises it again
	}
	if !id.Build.IsZero() {
		m.BuildID = id.Build.String()
	}
	return &pprof{
		p: &profile.Profile{
			SampleType:        []*profile.ValueType{count, cpu}, // the compiler takes the first
			DefaultSampleType: "cpu",
			PeriodType:        cpu,
			Mapping:           []*profile.Mapping{m},
		},
		funcs: map[goFunc]*profile.Function{},
		locs:  map[string]*profile.Location{},
		spent: map[*profile.Location]float64{},
	}
}

// copiesFile names the mapping of calls in what the compiler will inline, which are nowhere yet.
const copiesFile = "[calls in code that will be inlined]"

// Comments of profiles of Go programs, for who compares two of them.
const (
	withCallers    = "indirect calls: by callers, branches or walks that were recorded"
	withoutCallers = "indirect calls: none, no callers were recorded"
)

// edge adds the weight of a call edge.
func (o *pprof) edge(e goEdge, w *goWeight) {
	// The callee has no line: with one, a function that calls itself in its
	// first line would be one node of the compiler's graph, without an edge.
	callee := o.location([]profile.Line{{Function: o.function(e.callee)}})
	at := o.p.Mapping[0]
	if w.copied {
		at = o.copies()
	}
	caller := o.in(at, []profile.Line{{Function: o.function(e.caller), Line: int64(e.line)}})
	o.p.Sample = append(o.p.Sample, &profile.Sample{
		Location: []*profile.Location{callee, caller},
		Value:    []int64{w.n, 0},
	})
}

// copies returns the mapping of calls in what the compiler will inline.
func (o *pprof) copies() *profile.Mapping {
	if len(o.p.Mapping) == 1 {
		m := *o.p.Mapping[0]
		m.ID, m.File, m.BuildID = 2, copiesFile, ""
		o.p.Mapping = append(o.p.Mapping, &m)
	}
	return o.p.Mapping[1]
}

// isCopy reports whether a sample is of a call in what the compiler will inline.
func isCopy(s *profile.Sample) bool {
	return len(s.Location) == 2 && s.Location[1].Mapping != nil && s.Location[1].Mapping.File == copiesFile
}

// stack returns the location of an inlined stack.
func (o *pprof) stack(frames []image.Frame) *profile.Location {
	lines := make([]profile.Line, len(frames))
	for i, f := range frames {
		lines[i] = profile.Line{Function: o.function(funcOf(f)), Line: int64(f.Line)}
	}
	return o.location(lines)
}

func (o *pprof) function(f goFunc) *profile.Function {
	pf := o.funcs[f]
	if pf == nil {
		pf = &profile.Function{Name: f.name, SystemName: f.name, Filename: strings.ToValidUTF8(f.file, "\ufffd"), StartLine: int64(f.start)}
		o.funcs[f] = pf
	}
	return pf
}

func (o *pprof) location(lines []profile.Line) *profile.Location { return o.in(o.p.Mapping[0], lines) }

// in returns the location of a stack in a mapping.
func (o *pprof) in(m *profile.Mapping, lines []profile.Line) *profile.Location {
	var key strings.Builder
	if m != o.p.Mapping[0] {
		key.WriteString(m.File)
	}
	for _, l := range lines {
		fmt.Fprintf(&key, "%s\x00%s\x00%d\x00%d\x00", l.Function.Name, l.Function.Filename, l.Function.StartLine, l.Line)
	}
	loc := o.locs[key.String()]
	if loc == nil {
		loc = &profile.Location{Mapping: m, Line: lines}
		o.locs[key.String()] = loc
	}
	return loc
}

// write numbers functions and locations in the order of their names and lines,
// so that equal input gives equal bytes, and writes the profile.
func (o *pprof) write(w io.Writer) error {
	for _, f := range sortedKeys(o.funcs, compareFuncs) {
		pf := o.funcs[f]
		pf.ID = uint64(len(o.p.Function) + 1)
		o.p.Function = append(o.p.Function, pf)
	}
	for _, key := range sortedKeys(o.locs, cmp.Compare) {
		loc := o.locs[key]
		loc.ID = uint64(len(o.p.Location) + 1)
		o.p.Location = append(o.p.Location, loc)
		if ns := o.spent[loc]; ns > 0 {
			o.p.Sample = append(o.p.Sample, &profile.Sample{
				Location: []*profile.Location{loc},
				Value:    []int64{0, int64(whole(ns))},
			})
		}
	}
	if err := o.p.CheckValid(); err != nil {
		return err
	}
	return o.p.Write(w)
}

// times adds the CPU time of each inlined stack of source lines.
func (g *goWriter) times(out *pprof) {
	for _, c := range g.counts {
		ns := nanoseconds(c)
		if ns == 0 {
			continue
		}
		out.p.Period = int64(math.Round(ns))
		samples := map[*profile.Location]uint64{}
		for a, n := range g.samplesByAddr(c) {
			fs := g.lines.Frames(a)
			if len(fs) > 0 && !slices.ContainsFunc(fs, func(f image.Frame) bool { return !g.fits(f.Func) }) {
				samples[out.stack(fs)] += n
			}
		}
		for loc, n := range samples {
			out.spent[loc] += float64(n) * ns
		}
	}
}

// nanoseconds returns the CPU time that a sample of c stands for; 0 if its event
// does not measure time.
func nanoseconds(c *sample.Counts) float64 {
	period := c.MeanPeriod()
	switch {
	case c.Event.Unit == "ns":
		return period
	case c.Event.Unit == "cycles" && c.CPU.MHz > 0:
		return period * 1000 / float64(c.CPU.MHz)
	}
	return 0
}
