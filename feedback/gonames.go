package feedback

import (
	"fmt"
	"io"
	"math"

	"backfeed/sample"
)

// namesOnly marks a Go profile that nothing was inferred for.
const namesOnly = "made of functions and lines of a profile without addresses: weights are samples, nothing was inferred"

// GoNamesStats say what WriteGoNames wrote.
type GoNamesStats struct {
	Edges   int    // call edges, by caller, line and callee
	Weight  uint64 // sum of their weights, in samples before rounding
	Skipped Skipped
	Dropped map[Reason]float64 // samples of the calls in Skipped
}

// SkipUnplacedLine is of calls whose line the compiler cannot count from anywhere.
const SkipUnplacedLine Reason = "calls from functions without a first line"

// WriteGoNames writes a pprof profile for `go build -pgo` of a profile that has functions and lines and no addresses. The
// weights are its samples, at the calls that the compiler would give them to: they are about as good as those of the
// profile itself, no better, in a file of a fraction of its size. It fails with ErrUnfit where the compiler would refuse
// or ignore the profile.
func WriteGoNames(w io.Writer, calls *sample.NamedCalls) (GoNamesStats, error) {
	stats := GoNamesStats{Skipped: Skipped{}, Dropped: map[Reason]float64{}}
	if calls.Go*2 < calls.Samples {
		return stats, fmt.Errorf("go: %d of %d samples by functions and lines alone are in Go code: %w: not of a Go program, and for other compilers addresses are needed", calls.Go, calls.Samples, ErrUnfit)
	}
	var largest uint64
	for _, n := range calls.Calls {
		largest = max(largest, n)
	}
	scale := max(1, float64(largest)*float64(len(calls.Calls))/maxWeight)
	edges, starts := map[goEdge]uint64{}, false
	for call, n := range calls.Calls {
		starts = starts || call.Caller.Start > 0
		why := Reason("")
		switch {
		case !fitsGo(call.Caller.Name) || !fitsGo(call.Callee.Name):
			why = SkipName
		case call.Line == 0:
			why = SkipNoLine
		case call.Caller.Start == 0:
			why = SkipUnplacedLine
		}
		if why != "" {
			stats.Skipped[why]++
			stats.Dropped[why] += float64(n)
			continue
		}
		e := goEdge{namedGo(call.Caller), call.Line, namedGo(call.Callee)}
		edges[e] += n
		stats.Weight += n
	}
	switch {
	case len(calls.Calls) > 0 && !starts:
		return stats, fmt.Errorf("go: no function has its first line, which go build counts lines from and refuses a profile without: %w: have the program's own runtime/pprof profiles sent, not those of a profiler that names functions later", ErrUnfit)
	case len(edges) == 0:
		return stats, stats.Skipped.empty("go: no calls")
	}
	out := newPprof(sample.ImageID{Path: "[by functions and lines]"})
	out.p.Comments = []string{withCallers, namesOnly}
	for _, e := range sortedKeys(edges, compareEdges) {
		n := quantise(uint64(math.Round(float64(edges[e]) / scale)))
		if n == 0 {
			continue
		}
		stats.Edges++
		out.edge(e, &goWeight{n: int64(n)})
	}
	return stats, out.write(w)
}

func namedGo(f sample.NamedFunc) goFunc { return goFunc{f.Name, f.Start, f.File} }
