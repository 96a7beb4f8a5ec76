package report

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"

	"backfeed/infer/compare"
)

// Benchmarks are the benchmarks of one unit, compared.
type Benchmarks struct {
	Unit string
	More bool // more of it is better
	Rows []Benchmark
	Mean compare.Effect // of the geometric mean
}

// A Benchmark is one of them.
type Benchmark struct {
	Package, Name string
	Results       [2]int // how many
	compare.Repeat
}

// A BenchmarkVerdict is what verdict prints of results of benchmarks.
type BenchmarkVerdict struct {
	Schema   string          `json:"schema"`
	Sentence string          `json:"sentence"`
	Means    []BenchmarkMean `json:"geometric_means"`
	Rows     []BenchmarkRow  `json:"items"`
	Better   int             `json:"better"` // how many of them clearly are
	Worse    int             `json:"worse"`
}

// A BenchmarkMean is the geometric mean of the benchmarks of a unit.
type BenchmarkMean struct {
	Unit       string `json:"unit"`
	Benchmarks int    `json:"benchmarks"`
	Change     Effect `json:"change"`
}

// A BenchmarkRow is one benchmark in one unit.
type BenchmarkRow struct {
	Package    string   `json:"package,omitempty"`
	Name       string   `json:"benchmark"`
	Unit       string   `json:"unit"`
	Old        *float64 `json:"old"` // the median
	New        *float64 `json:"new"`
	OldResults int      `json:"old_results"`
	NewResults int      `json:"new_results"`
	Change     *float64 `json:"change"`
	Low        *float64 `json:"low"`
	High       *float64 `json:"high"`
	P          *float64 `json:"p"`
	Detectable *float64 `json:"detectable"`
	Verdict    string   `json:"verdict"` // "better", "worse", "not shown", or "equal" where all results are
}

// equalResults is what is said of results that are all one number, as of allocations.
const equalResults = "equal"

// NewBenchmarkVerdict returns benchmarks as verdict prints them.
func NewBenchmarkVerdict(all []Benchmarks) *BenchmarkVerdict {
	doc := &BenchmarkVerdict{Schema: "backfeed.verdict.benchmarks/1", Means: []BenchmarkMean{}, Rows: []BenchmarkRow{}}
	for _, b := range all {
		for i := range b.Rows {
			r := &b.Rows[i]
			row := BenchmarkRow{Package: r.Package, Name: r.Name, Unit: b.Unit, Old: finite(r.Centers[0]), New: finite(r.Centers[1]), OldResults: r.Results[0], NewResults: r.Results[1],
				Change: finite(r.Change), Low: finite(r.Low), High: finite(r.High), P: finite(r.P), Detectable: finite(r.Detectable), Verdict: string(compare.NotShown)}
			switch {
			case r.Clear && r.Repeat.Better:
				row.Verdict = string(compare.Better)
				doc.Better++
			case r.Clear:
				row.Verdict = string(compare.Worse)
				doc.Worse++
			case r.Low == 0 && r.High == 0:
				row.Verdict = equalResults
			}
			doc.Rows = append(doc.Rows, row)
		}
		doc.Means = append(doc.Means, BenchmarkMean{b.Unit, len(b.Rows), newEffect(&b.Mean)})
	}
	doc.Sentence = doc.sentence()
	return doc
}

func (doc *BenchmarkVerdict) sentence() string {
	var means []string
	for _, m := range doc.Means {
		if c := &m.Change; c.Change != nil && (*c.Change != 0 || c.Low == nil || *c.Low != 0) {
			means = append(means, fmt.Sprintf("%s %s (%s)", m.Unit, less(*c.Change), c.interval()))
		}
	}
	s := fmt.Sprintf("NEW is clearly better in %d and worse in %d of %d results", doc.Better, doc.Worse, len(doc.Rows))
	if len(means) == 0 {
		return s + "."
	}
	return s + ". Geometric means: " + strings.Join(means, "; ") + "."
}

// Text writes the sentence and the table.
func (doc *BenchmarkVerdict) Text(w io.Writer, style Style) error {
	if _, err := Fprintf(w, style, "%s\n\n", doc.Sentence); err != nil {
		return err
	}
	t := NewTable(Right("old"), Right("new"), Left("unit"), Right("change"), Right("from").Drop(3), Right("to").Drop(3), Left("verdict"), Right("p").Drop(2), Right("n").Drop(1),
		Right("detectable").Drop(4), Left("benchmark").Main())
	fewest, equal := math.MaxInt, 0
	for _, r := range doc.Rows {
		fewest = min(fewest, r.OldResults, r.NewResults)
		if r.Verdict == equalResults {
			equal++
			continue
		}
		name := r.Name
		if r.Package != "" && doc.packages() > 1 {
			name = r.Package + "." + name
		}
		t.Row(measured(r.Old, r.Unit), measured(r.New, r.Unit), r.Unit, signed(r.Change), signed(r.Low), signed(r.High), r.Verdict,
			strconv.FormatFloat(orNaN(r.P), 'f', 3, 64), fmt.Sprintf("%d+%d", r.OldResults, r.NewResults), signed(r.Detectable), name)
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	text := "By the test of Mann and Whitney; of the results of a unit that are called better or worse, at most one in twenty is expected to be chance. The interval is of 95 %; a change as large as the one called detectable is found in 8 of 10 comparisons."
	if equal > 0 {
		text += fmt.Sprintf(" Not listed are %d that are equal on both sides.", equal)
	}
	if fewest < leastResults {
		text += fmt.Sprintf(" With fewer than %d results on each side, nothing can be found: go test -count=10.", leastResults)
	}
	_, err := Fprintf(w, style, "\n%s\n", text)
	return err
}

// leastResults is how many results of a benchmark on each side have an interval of 95 %: two of 70 orders of 4 and 4 are
// the ones that are not in it, and two of 20 of 3 and 3 are more than one in twenty.
const leastResults = 4

// packages is how many the benchmarks are of.
func (doc *BenchmarkVerdict) packages() int {
	all := map[string]bool{}
	for _, r := range doc.Rows {
		all[r.Package] = true
	}
	return len(all)
}

// measured is a number in a unit of benchmarks: seconds have a prefix.
func measured(x *float64, unit string) string {
	v := orNaN(x)
	if unit != "sec/op" || !(v > 0) {
		return Count(v)
	}
	for _, u := range []struct {
		least float64
		name  string
	}{{1, " s"}, {1e-3, " ms"}, {1e-6, " us"}} {
		if round3(v) >= u.least {
			return Ratio(v/u.least) + u.name
		}
	}
	return Ratio(v*1e9) + " ns"
}

// signed is a change in percent, with its sign.
func signed(x *float64) string {
	if x == nil {
		return "-"
	}
	return fmt.Sprintf("%+.2f%%", 100**x)
}
