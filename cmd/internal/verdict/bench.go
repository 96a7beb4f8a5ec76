package verdict

import (
	"bufio"
	"bytes"
	"cmp"
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/perf/benchfmt"
	"golang.org/x/perf/benchmath"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer/compare"
)

// sniffed is how much of a file is looked at for a benchmark: tests print other things before.
const sniffed = 1 << 16

// AreBenchmarks reports whether files are results of benchmarks in Go's format, which benchstat
// reads. It is an error if only some are.
func AreBenchmarks(paths []string) (bool, error) {
	var are []bool
	for _, path := range paths {
		are = append(are, isBenchmark(path))
	}
	if i := slices.Index(are, true); i >= 0 && slices.Contains(are, false) {
		return false, fail.Errorf(fail.Usage, "verdict: %s is results of benchmarks, and %s is not", paths[i], paths[slices.Index(are, false)])
	}
	return slices.Contains(are, true), nil
}

func isBenchmark(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false // what is wrong, the reader will say
	}
	defer f.Close()
	sc := bufio.NewScanner(io.LimitReader(f, sniffed))
	for sc.Scan() {
		line := sc.Bytes()
		if bytes.IndexByte(line, 0) >= 0 {
			return false
		}
		if f := bytes.Fields(line); len(f) >= 4 && bytes.HasPrefix(f[0], []byte("Benchmark")) {
			return true
		}
	}
	return false
}

// A result is what of which benchmark results are.
type result struct{ pkg, name, unit string }

// Benchmarks compares the results in files of benchstat's format, unit by unit.
func Benchmarks(old, new []string, notify report.Notify) ([]report.Benchmarks, error) {
	var values [2]map[result][]float64
	better := map[string]int{}
	for i, paths := range [][]string{old, new} {
		values[i] = map[result][]float64{}
		for _, path := range paths {
			_, err := input.File(path, func(r io.Reader) (struct{}, error) {
				return struct{}{}, readBenchmarks(r, path, values[i], better, notify)
			})
			if err != nil {
				return nil, err
			}
		}
	}
	var both, alone []result
	for r := range values[0] {
		if values[1][r] == nil {
			alone = append(alone, r)
			continue
		}
		both = append(both, r)
	}
	for r := range values[1] {
		if values[0][r] == nil {
			alone = append(alone, r)
		}
	}
	if len(alone) > 0 {
		notify.Warn("%d results of benchmarks are on one side only, and not compared", len(alone))
	}
	if len(both) == 0 {
		return nil, fail.Errorf(fail.Nothing, "verdict: no benchmark has results in %s and in %s", strings.Join(old, ", "), strings.Join(new, ", "))
	}
	slices.SortFunc(both, func(a, b result) int {
		return cmp.Or(cmp.Compare(unitRank(a.unit), unitRank(b.unit)), cmp.Compare(a.unit, b.unit), cmp.Compare(a.pkg, b.pkg), cmp.Compare(a.name, b.name))
	})
	var all []report.Benchmarks
	for len(both) > 0 {
		n := slices.IndexFunc(both, func(r result) bool { return r.unit != both[0].unit })
		if n < 0 {
			n = len(both)
		}
		all = append(all, judge(both[:n], values, better[both[0].unit] > 0))
		both = both[n:]
	}
	return all, nil
}

// unitRank has time first, as go test prints it.
func unitRank(unit string) int {
	return -slices.Index([]string{"allocs/op", "B/op", "B/s", "sec/op"}, unit)
}

// judge compares benchmarks of one unit.
func judge(of []result, values [2]map[result][]float64, more bool) report.Benchmarks {
	b := report.Benchmarks{Unit: of[0].unit, More: more}
	var all []compare.Repeated
	for _, r := range of {
		old, new := values[0][r], values[1][r]
		p := benchmath.AssumeNothing.Compare(benchmath.NewSample(slices.Clone(old), &benchmath.DefaultThresholds), benchmath.NewSample(slices.Clone(new), &benchmath.DefaultThresholds)).P
		all = append(all, compare.Repeated{Old: old, New: new, P: p, More: more})
		b.Rows = append(b.Rows, report.Benchmark{Package: r.pkg, Name: r.name, Results: [2]int{len(old), len(new)}})
	}
	each, mean := compare.Repeats(all)
	for i, e := range each {
		b.Rows[i].Repeat = e
	}
	b.Mean = mean
	return b
}

// readBenchmarks adds the results of a file. Lines that look like results and are none are told of.
func readBenchmarks(in io.Reader, path string, to map[result][]float64, better map[string]int, notify report.Notify) error {
	r := benchfmt.NewReader(in, path)
	for r.Scan() {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			notify.Warn("%s:%d: %s; the line is left out", path, rec.Line, rec.Msg)
		case *benchfmt.Result:
			for _, v := range rec.Values {
				key := result{rec.GetConfig("pkg"), rec.Name.String(), v.Unit}
				to[key] = append(to[key], v.Value)
				better[v.Unit] = r.Units().GetBetter(v.Unit)
			}
		}
	}
	return r.Err()
}
