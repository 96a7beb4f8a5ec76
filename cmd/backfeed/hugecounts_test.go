package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// hugeParts set a number of a kind in Counts of images that were sampled, to n.
var hugeParts = map[string]func(c *sample.Counts, at []sample.Frame, n uint64){
	"samples of one place": func(c *sample.Counts, at []sample.Frame, n uint64) { c.AddSample(at[0].Image, at[0].Off, n) },
	"samples of each place": func(c *sample.Counts, at []sample.Frame, n uint64) {
		for _, f := range at {
			c.AddSample(f.Image, f.Off, n/uint64(len(at))-1<<12)
		}
	},
	"samples lost": func(c *sample.Counts, at []sample.Frame, n uint64) { c.Lose(sample.LostDropped, n) },
	"stacks": func(c *sample.Counts, at []sample.Frame, n uint64) {
		c.AddSample(at[0].Image, at[0].Off, n)
		c.AddStack(at[:min(len(at), 3)], n)
	},
	"branches": func(c *sample.Counts, at []sample.Frame, n uint64) {
		for i, f := range at[1:] {
			c.AddBranch(sample.Branch{From: at[i], To: f}, n, n)
		}
	},
	"ranges": func(c *sample.Counts, at []sample.Frame, n uint64) {
		for i, f := range at[1:] {
			if f.Image == at[i].Image {
				c.AddRange(sample.Range{Image: f.Image, First: at[i].Off, Last: f.Off}, n)
			}
		}
	},
	"targets": func(c *sample.Counts, at []sample.Frame, n uint64) {
		c.AddTarget(sample.Branch{From: at[0], To: at[len(at)-1]}, n)
	},
	"weight": func(c *sample.Counts, at []sample.Frame, n uint64) { c.Weight = n },
	"period": func(c *sample.Counts, at []sample.Frame, n uint64) { c.Event.Period, c.Weight = n, 0 },
	"clock": func(c *sample.Counts, at []sample.Frame, n uint64) {
		if c.Event.Unit == "ns" {
			c.Weight, c.Clocked, c.Cycles = n, n, n
		}
	},
	"processes": func(c *sample.Counts, at []sample.Frame, n uint64) { c.AddProcesses(at[0].Image, n) },
	"places counted": func(c *sample.Counts, at []sample.Frame, n uint64) {
		for _, f := range at {
			c.AddCounted(f.Image, f.Off, n)
		}
	},
	"places probed": func(c *sample.Counts, at []sample.Frame, n uint64) {
		s := sample.Square{Hi: n, Lo: n}
		for _, f := range at {
			c.AddProbed(f.Image, f.Off, sample.Probed{Windows: n, Covered: n, Runs: n, Variance: s, Outcomes: n, Taken: n, Spread: s, Visits: n, Timed: n})
		}
	},
	"places replayed": func(c *sample.Counts, at []sample.Frame, n uint64) {
		for _, f := range at {
			c.AddReplayed(f.Image, f.Off, sample.Replayed{Walks: n, Accesses: n, Near: n - n/2, Far: n / 2, Branches: n, Missed: n})
		}
	},
}

// hugeLines are what each of these recordings is read by, as hostileLines are; {rec} is one of them.
var hugeLines = []string{
	"infer {rec} --stalls --format json", "infer {rec} --places 3", "prof {rec}", "prof {rec} --by line", "prof {rec} --experiment ideal", "prof {rec} --experiment ideal --inclusive", "prof {rec} --experiment usertime", "list main {rec}", "topstalls {rec}",
	"whatcg {rec}", "stats {rec} {mix} {rec}", "diff {rec} {mix}", "verdict {rec} {mix}", "check {rec}", "report --html - {rec}", "images {rec}",
	"emit llvm {rec} -o {out}", "emit gcc {rec} -o {out}", "emit bolt {rec} -o {out}", "emit go {rec} -o {out}", "emit propeller {rec} --ld {out} -o {out}",
	"layout {image} {rec}", "layout {image} {rec} --fluff", "layout {image} {rec} --align", "layout {image} {rec} --huge-pages", "layout {image} {rec} --startup", "layout {image} {rec} --for json",
	"export {rec} -o {out}", "import {rec} -o {out}", "merge {rec}@7 {mix} {rec} -o {out}", "merge {rec}@0.001 {mix} --normalise -o {out}", "merge {rec} --onto {image} -o {out}",
}

// TestHugeCounts: whatever numbers a recording has, every command that reads one ends, does not panic, and prints numbers.
func TestHugeCounts(t *testing.T) {
	t.Parallel() // it records nothing
	dir := t.TempDir()
	symfs, err := filepath.Abs("../../testdata/mix")
	if err != nil {
		t.Fatal(err)
	}
	mix := filepath.Join(symfs, "samples.bfr")
	share := 7 // each of the recordings is tried with one command line of so many, another one each time
	if testing.Short() {
		share = 16
	}
	tried, turn, codes := 0, 0, map[int]int{}
	for _, part := range slices.Sorted(maps.Keys(hugeParts)) {
		for _, n := range []uint64{1<<53 - 1, math.MaxUint64} {
			what := fmt.Sprintf("%s %#x", part, n)
			turn++
			rec := testtool.Write(t, dir, "huge.bfr", huge(t, mix, hugeParts[part], n))
			fill := strings.NewReplacer("{rec}", rec, "{mix}", mix, "{image}", filepath.Join(symfs, "mix"), "{out}", filepath.Join(dir, "out"), "{gone}", filepath.Join(dir, "gone"))
			for i, line := range hugeLines {
				if i%share != turn%share {
					continue
				}
				args := strings.Fields(fill.Replace(line))
				if args[0] != "import" && args[0] != "merge" || strings.Contains(line, "--onto") {
					args = append(args, "--symfs", symfs)
				}
				code, stdout, stderr := endsCLI(t, what+": "+line, args...)
				tried++
				if codes[code]++; code == exitUsage {
					t.Errorf("%s: %s", line, stderr)
				}
				if strings.Contains(stderr, "internal error") || noNumber.MatchString(pageScripts.ReplaceAllString(stdout, "")) || noNumber.MatchString(stderr) {
					t.Errorf("%s: %s: %s\n%.4000s", what, line, stderr, stdout)
				}
				if strings.HasSuffix(line, "json") && code == exitDone && !json.Valid([]byte(stdout)) {
					t.Errorf("%s: %s: the JSON is none: %.400s", what, line, stdout)
				}
			}
		}
	}
	t.Logf("%d command lines, by exit code: %v", tried, codes)
}

// pageScripts are those of an HTML page, which are the same in all of them; its data are of a type of their own.
var pageScripts = regexp.MustCompile(`(?s)<script>.*?</script>`)

// noNumber is what Go prints of what is none, and of what went below 0 where nothing can.
var noNumber = regexp.MustCompile(`\bNaN\b|[+-]Inf\b|-[0-9]{15}`)

// endsCLI is runCLI of what has to end: it is given so long that a busy machine is no reason.
func endsCLI(t *testing.T, what string, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		code, stdout, stderr = runCLI(t, args...)
	}()
	select {
	case <-done:
	case <-time.After(3 * time.Minute): // a tenth of a second is usual
		t.Fatalf("%s: it does not end", what)
	}
	return code, stdout, stderr
}

// huge returns the recording at path with numbers of a part that are n, or as much of it as a recording may hold.
func huge(t *testing.T, path string, part func(*sample.Counts, []sample.Frame, uint64), n uint64) string {
	t.Helper()
	rec, err := sample.Decode([]byte(testtool.Read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	out := &sample.Recording{}
	for _, c := range rec.Counts {
		var at []sample.Frame
		for i, ic := range c.Images {
			for _, off := range slices.Sorted(maps.Keys(ic.At)) {
				at = append(at, sample.Frame{Image: i, Off: off})
			}
		}
		if len(at) > 1 {
			part(c, at, n)
		}
		out.Add(c)
	}
	out = sample.Merge(out)
	for _, c := range out.Counts {
		if err := c.Check(); err != nil {
			t.Fatal(err)
		}
	}
	return string(out.Encode())
}
