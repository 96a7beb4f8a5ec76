package main

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestFigures: what README.md says of consumers is what figures.tsv holds.
func TestFigures(t *testing.T) {
	consumers := filepath.Join(root, "testdata", "consumers")
	figures, err := os.ReadFile(filepath.Join(consumers, "figures.tsv"))
	if err != nil {
		t.Fatal(err)
	}
	sum, n := map[string]float64{}, map[string]int{} // of changes of taken branches in percent, by build
	change := map[[2]string]float64{}                // likewise of single programs, by program and build
	for i, line := range strings.Split(strings.TrimSpace(string(figures)), "\n") {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(line, "\t")
		if len(fields) != 4 {
			t.Fatalf("figures.tsv:%d: %d fields, not 4", i+1, len(fields))
		}
		if strings.HasPrefix(fields[0], "go/") {
			continue
		}
		for what, text := range fields[2:] { // instructions, taken branches
			if text == "-" {
				continue
			}
			x, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatalf("figures.tsv:%d: %v", i+1, err)
			}
			if what == 1 {
				sum[fields[1]] += x
				n[fields[1]]++
				change[[2]string{fields[0], fields[1]}] = x
			}
		}
	}
	mean := func(build string) string { return fmt.Sprintf("%.1f %%", sum[build]/float64(n[build])) }
	// Counters for gcc are there of some of the programs that gcc builds, and compared on these.
	counted := func(build string) string {
		sum, n := 0.0, 0
		for k := range change {
			if k[1] != "gcc-gcda" {
				continue
			}
			x, ok := change[[2]string{k[0], build}]
			if !ok {
				t.Errorf("figures.tsv: %s has gcc-gcda, and no %s", k[0], build)
			}
			sum, n = sum+math.Round(10*x), n+1 // whole numbers: the order of the sum does not matter
		}
		return fmt.Sprintf("%.1f %%", sum/10/float64(n))
	}
	readme := pagesOfHelp(t)[filepath.Join(root, "README.md")]
	for _, want := range []string{
		fmt.Sprintf("| taken branches, clang and rustc, mean of %d programs; calibrated | %s (`emit llvm`); %s | %s (instrumented builds) |",
			n["sample"], mean("sample"), mean("sample-calibrated"), mean("exact")),
		fmt.Sprintf("| taken branches, llvm-bolt, mean of %d; calibrated | %s (`emit bolt`); %s | %s (`perf2bolt -nl`, same samples) |",
			n["bolt"], mean("bolt"), mean("bolt-calibrated"), mean("bolt-nl")),
		fmt.Sprintf("| taken branches, gcc, mean of %d; calibrated | %s (`emit gcda`); %s | %s (instrumented builds), %s (`emit gcc`) |",
			n["gcc-gcda"], counted("gcc-gcda"), counted("gcc-gcda-calibrated"), counted("gcc-exact"), counted("gcc-afdo")),
	} {
		if !strings.Contains(readme, want) {
			t.Errorf("README.md lacks what figures.tsv comes to: %s", want)
		}
	}
	// Means are compared of the same programs only.
	for _, builds := range [][]string{{"sample", "sample-calibrated", "exact"}, {"bolt", "bolt-calibrated", "bolt-nl"}, {"gcc-afdo", "gcc-exact"}} {
		for _, build := range builds {
			if n[build] != n[builds[0]] {
				t.Errorf("figures.tsv: %d programs have %s, %d have %s", n[builds[0]], builds[0], n[build], build)
			}
		}
	}
}

// TestFigureTables: the tables of testdata/consumers/README.md are those that table.sh makes of figures.tsv.
func TestFigureTables(t *testing.T) {
	testtool.Need(t, "bash")
	consumers := filepath.Join(root, "testdata", "consumers")
	text, err := os.ReadFile(filepath.Join(consumers, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`(?s)<!-- table\.sh -->\n\n(.*)<!-- end -->`).FindSubmatch(text)
	if made == nil {
		t.Fatal("testdata/consumers/README.md: no tables of table.sh")
	}
	want := testtool.Output(t, consumers, "bash", "table.sh")
	if string(made[1]) != want {
		t.Error("testdata/consumers/README.md: the tables are not what table.sh makes of figures.tsv")
	}
}
