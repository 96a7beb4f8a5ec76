package main

import (
	"context"
	"flag"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample/collect"
)

var (
	curveLengths = []int{512, 2000, 8000, 20_000, 50_000, 100_000}
	curveWalks   = []int{50, 200, 400}
	curveCounts  = flag.String("curve-counts", "", "exact counts `file` of the command of -speeds, as callgrind writes it")
)

// shares returns the executions of branches as parts of one, by what beginnings of some walks passed through.
func (p *speedProgram) shares(walks []int, length int, weight func(i int) float64) map[uint32]float64 {
	got, all := map[uint32]float64{}, 0.0
	for _, i := range walks {
		of := &p.walks[i].first[length]
		for op, n := range of.passed {
			n *= weight(i) / float64(of.steps)
			got[op] += n
			all += n
		}
	}
	for op := range got {
		got[op] /= all
	}
	return got
}

// exactShares are those of the exact counts.
func (p *speedProgram) exactShares() map[uint32]float64 {
	out, all := map[uint32]float64{}, 0.0
	for _, n := range p.exact {
		all += n
	}
	for op, n := range p.exact {
		out[op] = n / all
	}
	return out
}

func shareOverlap(a, b map[uint32]float64) (sum float64) {
	for op, x := range a {
		sum += min(x, b[op])
	}
	return sum
}

// every returns each n-th of the walks from the first on.
func every(first, n, of int) (all []int) {
	for i := first; i < of; i += n {
		all = append(all, i)
	}
	return all
}

// weights returns what walks weigh by their own speed, and by the mean speed of their procedure; false if too few were timed.
func (p *speedProgram) weights() (own, ofProc func(i int) float64, ok bool) {
	const fewTimed = 20
	speeds, byProc := make([]float64, len(p.walks)), map[speedProc][]float64{}
	var all []float64
	for i, w := range p.walks {
		if s := speedOf(w.parts(p.hit), w.steps/10, w.steps/5); s > 0 {
			speeds[i] = s
			byProc[w.start] = append(byProc[w.start], s)
			all = append(all, s)
		}
	}
	mean, _ := meanOf(all)
	ofProc = func(i int) float64 {
		m, _ := meanOf(append([]float64{mean}, byProc[p.walks[i].start]...))
		return m
	}
	own = func(i int) float64 {
		if speeds[i] == 0 {
			return ofProc(i)
		}
		return min(max(speeds[i], mean/4), 4*mean)
	}
	return own, ofProc, len(all) >= fewTimed
}

// curves prints how near the walks are to the exact counts, by length and by how many they are.
func (p *speedProgram) curves() {
	t, exact, of := p.t, p.exactShares(), len(p.walks)
	one := func(int) float64 { return 1 }
	all := every(0, 1, of)
	own, ofProc, timed := p.weights()
	var out strings.Builder
	fmt.Fprintf(&out, "| %s, first instructions of %d walks | unweighted | by own speed | by speed of the procedure | two halves |\n| ---: | ---: | ---: | ---: | ---: |\n", filepath.Base(p.command[0]), of)
	for k, n := range curveLengths {
		weighed := func(weight func(int) float64) string {
			if !timed {
				return "?"
			}
			return fmt.Sprintf("%.3f", shareOverlap(p.shares(all, k, weight), exact))
		}
		halves := shareOverlap(p.shares(every(0, 2, of), k, one), p.shares(every(1, 2, of), k, one))
		fmt.Fprintf(&out, "| %d | %.3f | %s | %s | %.3f |\n", n, shareOverlap(p.shares(all, k, one), exact), weighed(own), weighed(ofProc), halves)
	}
	fmt.Fprint(&out, "\n| walks |")
	for _, n := range curveLengths {
		fmt.Fprintf(&out, " first %d |", n)
	}
	fmt.Fprintf(&out, "\n| ---: |%s\n", strings.Repeat(" ---: |", len(curveLengths)))
	for _, many := range curveWalks {
		if many > of {
			continue
		}
		fmt.Fprintf(&out, "| %d |", many)
		parts := of / many // as many walks each, spread over time
		for k := range curveLengths {
			mean := 0.0
			for first := range parts {
				mean += shareOverlap(p.shares(every(first, parts, of), k, one), exact) / float64(parts)
			}
			fmt.Fprintf(&out, " %.3f |", mean)
		}
		fmt.Fprintln(&out)
	}
	t.Logf("\n%s", out.String())
}

// walkAgain walks the program, which is started again and again, until there are so many walks.
func (p *speedProgram) walkAgain(many, steps int) {
	const most = 4 * time.Minute
	ctx, enough := context.WithTimeout(p.t.Context(), most)
	defer enough()
	p.hit = speedHitCost(p.t)
	command := append([]string{"sh", "-c", `while :; do "$@" >/dev/null || exit; done`, "sh"}, p.command...)
	_, _, err := collect.Follow(ctx, collect.FollowOptions{
		Options: collect.Options{Command: command, MaxCPU: .4}, Longest: time.Second, Untimed: true,
		Ahead: func(s *collect.Stopped) collect.Ahead {
			if len(p.walks) == many {
				enough()
			} else {
				p.ahead(s, steps)
			}
			return collect.Ahead{}
		},
	})
	p.takeAll()
	switch {
	case err != nil && ctx.Err() == nil:
		p.t.Fatal(err)
	case p.refused != nil:
		p.t.Skip(p.refused)
	}
}

// TestCurves prints, as Markdown, how near what walks pass through is to the exact counts of a program, without any inference: by how
// long they are, by how many, and by their own speed. testdata/calibrate/curves.sh runs it. Walks are long ones, begun at random
// moments of processor time.
//
//	go test ./cmd/backfeed -run TestCurves -measure -v -speeds='COMMAND' [-curve-counts=FILE]
func TestCurves(t *testing.T) {
	testtool.Live(t, "stops programs and walks")
	if !*measured || *speedCommands == "" {
		t.Skip("walks the command of -speeds, with -measure")
	}
	if runtime.GOARCH != "amd64" {
		t.Skip("long walks are of x86-64 only")
	}
	command := strings.Fields(*speedCommands)
	testtool.Need(t, command[0])
	p := newSpeedProgram(t, command, *curveCounts)
	p.lengths = curveLengths
	most := curveLengths[len(curveLengths)-1]
	p.least = curveLengths[0]
	p.walkAgain(curveWalks[len(curveWalks)-1], most)
	if len(p.walks) < curveWalks[0] {
		t.Fatalf("%d walks, want %d", len(p.walks), curveWalks[len(curveWalks)-1])
	}
	p.curves()
	for k := range curveLengths {
		if o := shareOverlap(p.shares(every(0, 1, len(p.walks)), k, func(int) float64 { return 1 }), p.exactShares()); o < 0.3 {
			t.Errorf("of %d instructions each, walks have an overlap of %.3f with the exact counts: are these of another program?", curveLengths[k], o)
		}
	}
}
