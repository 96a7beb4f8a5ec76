package verdict

import (
	"fmt"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
)

// results are lines of ten runs: Fast takes so many ns, Same what it takes on both sides, Rate is MB/s.
func results(fast float64) string {
	var b strings.Builder
	b.WriteString("goos: linux\npkg: example.com/a\n")
	for i := range 10 {
		jitter := 1 + 0.002*float64(i*7%10)
		fmt.Fprintf(&b, "BenchmarkFast-8 \t 1000 \t %.3f ns/op \t %.3f MB/s \t 16 B/op\n", fast*jitter, 5000/fast/jitter)
		fmt.Fprintf(&b, "BenchmarkSame-8 \t 1000 \t %.3f ns/op\n", 77*jitter)
	}
	b.WriteString("PASS\nok  \texample.com/a\t2.0s\n")
	return b.String()
}

type told struct {
	report.Quiet
	text *strings.Builder
}

func (n told) Warn(format string, args ...any) { fmt.Fprintf(n.text, format+"\n", args...) }

func TestBenchmarks(t *testing.T) {
	dir := t.TempDir()
	old := testtool.Write(t, dir, "old.txt", results(100)+"BenchmarkGone 1 5 ns/op\n")
	new := testtool.Write(t, dir, "new.txt", results(90)+"BenchmarkBad 1 five ns/op\n")
	var warned strings.Builder
	all, err := Benchmarks([]string{old}, []string{new}, told{text: &warned})
	if err != nil {
		t.Fatal(err)
	}
	doc := report.NewBenchmarkVerdict(all)
	var got []string
	for _, r := range doc.Rows {
		got = append(got, r.Unit+" "+r.Name+" "+r.Verdict)
	}
	if want := "sec/op Fast-8 better, sec/op Same-8 not shown, B/s Fast-8 better, B/op Fast-8 equal"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", got, want)
	}
	if c := doc.Rows[0]; *c.Change < -0.105 || *c.Change > -0.095 || *c.High > -0.08 || c.OldResults != 10 {
		t.Errorf("%+v", c)
	}
	if m := doc.Means[0]; m.Unit != "sec/op" || m.Benchmarks != 2 || *m.Change.Change > -0.045 || *m.Change.Change < -0.06 {
		t.Errorf("geometric mean %+v", m)
	}
	if !strings.Contains(doc.Sentence, "better in 2 and worse in 0 of 4 results. Geometric means: sec/op 5.1 % less (95 % interval") {
		t.Errorf("%s", doc.Sentence)
	}
	for _, want := range []string{"1 results of benchmarks are on one side only", "new.txt:", "the line is left out"} {
		if !strings.Contains(warned.String(), want) {
			t.Errorf("told %q, want %q", warned.String(), want)
		}
	}
	text := testtool.Write(t, dir, "words.txt", "Benchmarks are\nno results\n")
	for _, tt := range []struct {
		paths []string
		are   bool
		fail  string
	}{
		{[]string{old, new}, true, ""}, {[]string{text, text}, false, ""}, {[]string{old, text}, false, "old.txt is results of benchmarks, and"},
		{[]string{dir, dir}, false, ""}, {[]string{dir + "/none"}, false, ""},
	} {
		are, err := AreBenchmarks(tt.paths)
		if are != tt.are || (err == nil) != (tt.fail == "") || err != nil && !strings.Contains(err.Error(), tt.fail) {
			t.Errorf("%q: %v, %v", tt.paths, are, err)
		}
	}
	if _, err := Benchmarks([]string{text}, []string{new}, report.Quiet{}); err == nil || !strings.Contains(err.Error(), "no benchmark has results in") {
		t.Errorf("%v", err)
	}
}
