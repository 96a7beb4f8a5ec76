package feedback

import (
	"bytes"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestGoExact compares profiles with one of exact counts: of the same samples,
// executions that are inferred, at Low confidence for the most part, are nearer to
// them than runtime/pprof's weights, which are the time of callees.
//
// It runs in parallel with others: both profiles are of the same samples, which are taken by the program's
// own processor time.
func TestGoExact(t *testing.T) {
	t.Parallel()
	testtool.Need(t, "go", "valgrind")
	if testing.Short() {
		t.Skip("samples programs for ten seconds, and counts what they run")
	}
	for _, tt := range []struct{ name, module, input, times, counted string }{
		{"goldmark", "github.com/yuin/goldmark@v1.8.7", "input", "800", "8"},
		{"lua", "github.com/yuin/gopher-lua@v1.1.1", "script.lua", "1000", "8"},
		{"gojq", "github.com/itchyny/gojq@v0.12.17", "script.jq", "2500", "10"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := copyModule(t, "../testdata/"+tt.name, []string{tt.module})
			testtool.Run(t, dir, "go", "build", "-pgo=off", "-tags=valgrind", "-o", "base", ".")
			testtool.Run(t, dir, "./base", tt.input, tt.times, "cpu.pprof")
			stats := emitGoProfile(t, dir, "cpu.pprof", "ours.pprof")

			p, rec := unchecked(t, dir, "base", tt.input, tt.counted)
			var out bytes.Buffer
			if _, err := WriteGo(&out, p, rec, GoOptions{NoTime: true}); err != nil {
				t.Fatal(err)
			}
			testtool.Write(t, dir, "exact.pprof", out.String())

			exact := decisionsOf(t, dir, "exact.pprof")
			ours, theirs := decisionsOf(t, dir, "ours.pprof"), decisionsOf(t, dir, "cpu.pprof")
			t.Logf("of our weight, %.2f is executions of Low confidence", stats.Flowed/(float64(stats.Weight)*stats.Scale))
			t.Logf("weight on the same calls as exact counts: ours %.2f, runtime/pprof's %.2f", Overlap(ours, exact), Overlap(theirs, exact))
			t.Logf("of the weight of calls that exact counts call hot, ours calls hot %.2f, runtime/pprof's %.2f", hotToo(exact, ours), hotToo(exact, theirs))
			if Overlap(ours, exact) <= Overlap(theirs, exact) {
				t.Error("runtime/pprof's profile is nearer to exact counts")
			}
		})
	}
}

func decisionsOf(t *testing.T, dir, name string) *Decisions {
	t.Helper()
	d, err := DecideGo(strings.NewReader(testtool.Read(t, dir, name)))
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// hotToo returns the share of the weight of the calls hot in d that is of calls hot in o.
func hotToo(d, o *Decisions) float64 {
	var all, both float64
	for c, made := range d.made {
		if c.Kind != Inline || !made.hot {
			continue
		}
		all += made.share
		if o.made[c].hot {
			both += made.share
		}
	}
	return both / all
}
