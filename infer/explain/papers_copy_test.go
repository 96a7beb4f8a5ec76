package explain

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
)

// cluster is DCPI's estimate of the executions of an equivalence class: of the ratios of samples to least cycles of its
// issue points, the mean of the lowest ones that are within a factor of 1.5 and are a quarter of all at least. The paper
// does not say which part must be in a cluster.
func cluster(ratios []float64) float64 {
	all := slices.Sorted(slices.Values(ratios))
	for i := range all {
		j, sum := i, 0.0
		for ; j < len(all) && all[j] <= 1.5*all[i]; j++ {
			sum += all[j]
		}
		if 4*(j-i) >= len(all) {
			return sum / float64(j-i)
		}
	}
	return 0
}

// The copy loop of DCPI: the ratios of its issue points that the text of the paper has, its estimate, and what was counted.
var paperRatios = []float64{3126, 1636, 1482, 27766, 1493, 174727, 1548, 1586}

const paperEstimate, paperTruth = 1527, 1575.1

// TestCluster: of the paper's ratios the rule makes about what the paper says. It marks four of the five lowest.
func TestCluster(t *testing.T) {
	got := cluster(paperRatios)
	if got != (1482+1493+1548+1586+1636)/5.0 || math.Abs(got/paperTruth-1) > 1-paperEstimate/paperTruth {
		t.Errorf("%.1f; the paper has %d, in truth it is %.1f", got, paperEstimate, paperTruth)
	}
	for _, tt := range []struct {
		ratios []float64
		want   float64
	}{
		{nil, 0},
		{[]float64{7}, 7},
		{[]float64{1, 100, 101, 102, 103}, 101.5}, // one of five is no cluster
		{[]float64{10, 15, 16}, 12.5},
	} {
		if got := cluster(tt.ratios); got != tt.want {
			t.Errorf("%v: %g, want %g", tt.ratios, got, tt.want)
		}
	}
}

// copyLoop is figures 2 and 7 of DCPI.
func (r *papers) copyLoop() {
	r.printf("## DCPI's figures 2 and 7: the copy loop\n\n")
	if r.copy == "" {
		r.printf("Needs one of `-sets` whose name has `copy`: McCalpin's loop, unrolled four times.\n\n")
		return
	}
	r.printf("%s", r.copy)
}

// A point is an instruction of a loop in a picture: its cycles, for each execution that there was.
type point struct {
	name   string
	cycles float64
	least  float64 // by the machine model
}

// readCopyLoop writes the section on a loop that copies.
func (r *papers) readCopyLoop(p *program, prof, cal *infer.Profile) {
	kept := r.md
	r.md = strings.Builder{}
	defer func() { r.copy, r.md = r.md.String(), kept }()
	x, err := New(prof, p.Rec)
	if err != nil {
		r.t.Error(err)
		return
	}
	var ip *infer.ImageProfile
	var in *infer.Result
	for _, i := range prof.Images {
		for _, q := range i.Procs {
			if strings.Contains(strings.ToLower(q.Proc.Name), "copy") && (in == nil || q.Samples > in.Samples) {
				ip, in = i, q
			}
		}
	}
	if in == nil {
		r.printf("%s has no procedure with `copy` in its name.\n\n", p.Name)
		return
	}
	e := x.Explain(ip, in)
	loop := 0 // the block with the most samples
	for b, n := range in.BlockSamples {
		if n > in.BlockSamples[loop] {
			loop = b
		}
	}
	once := p.Exact(ip.ID.Path, &in.Proc.Blocks[loop])
	exact := once * p.Runs
	r.printf("DCPI explains its method by McCalpin's copy loop, unrolled four times: what each instruction may wait for (figure 2), and how often the loop ran (figure 7). There, S are the samples of an instruction and M the least cycles that it takes at the head of the queue; S/M is the number of executions where nothing else is waited for, and more elsewhere. So the lowest ratios are right.\n\n")
	r.printf("Below is the same loop, `%s` of %s, %d samples on %s in %.0f runs. M is of the machine model %s. A sample stands for %.0f cycles. Ratios and executions are in millions.\n\n",
		in.Proc.Name, p.Name, in.Samples, brand(p.Rec.Counts[0].CPU), p.Runs, prof.Machine, x.CyclesPerSample())
	r.printf("| instruction | samples S | least M | S/M | may wait for, the likeliest first |\n| --- | ---: | ---: | ---: | --- |\n")
	var ratios []float64
	var points []point
	ideal := 0.0
	for _, it := range e.Insts {
		if it.Block != loop {
			continue
		}
		cycles := float64(it.Samples) * x.CyclesPerSample()
		ratio := "" // none of an instruction that goes with the one before
		if it.Least > 0 {
			ratios = append(ratios, cycles/it.Least/1e6)
			ratio = fmt.Sprintf("%.4g", cycles/it.Least/1e6)
		}
		var causes []string
		for _, c := range it.Stall.Culprits {
			if name := c.Cause.String(); len(causes) < 3 && !slices.Contains(causes, name) {
				causes = append(causes, name)
			}
		}
		text := ip.Image.Text(it.Addr)
		r.printf("| `%s` | %d | %.2f | %s | %s |\n", strings.ReplaceAll(text, "|", "\\|"), it.Samples, it.Least, ratio, strings.Join(causes, ", "))
		points = append(points, point{text, cycles / max(exact, 1), it.Least})
		ideal += it.Least
	}
	if exact == 0 {
		r.printf("\nHow often it ran is not known without file `runs`.\n\n")
		return
	}
	r.printf("\n| executions of the loop | estimate | truth | estimate/truth |\n| --- | ---: | ---: | ---: |\n")
	r.printf("| DCPI on an Alpha 21164, in samples per cycle; its S/M are %.0f to %.0f | %d | %.1f | %.3f |\n",
		slices.Min(paperRatios), slices.Max(paperRatios), paperEstimate, paperTruth, paperEstimate/paperTruth)
	r.printf("| DCPI's rule as we read it, on DCPI's ratios | %.0f | %.1f | %.3f |\n", cluster(paperRatios), paperTruth, cluster(paperRatios)/paperTruth)
	rule := cluster(ratios)
	r.printf("| DCPI's rule on the ratios above | %.4g M | %.4g M | %.3f |\n", rule, exact/1e6, rule*1e6/exact)
	f := in.Block[loop]
	r.printf("| `backfeed infer`; program-wide confidence %s, within the function %s | %.4g M | %.4g M | %.3f |\n", f.Conf, f.Within, f.N/1e6, exact/1e6, f.N/exact)
	lines := []estimate{{"truth", 1}, {"inferred", f.N / exact}}
	if cal != nil && p.CalibratedRuns > 0 {
		if f, ok := freqAt(cal, in.Proc, loop); ok {
			n := once * p.CalibratedRuns
			r.printf("| `record --calibrate=10%%`, another recording of %.0f runs; program-wide confidence %s, within the function %s | %.4g M | %.4g M | %.3f |\n",
				p.CalibratedRuns, f.Conf, f.Within, f.N/1e6, n/1e6, f.N/n)
			lines = append(lines, estimate{"calibrated", f.N / n})
		}
	}
	r.printf("\n")
	var theirs []point
	for i, v := range paperRatios {
		theirs = append(theirs, point{fmt.Sprint("issue point ", i+1), v / paperTruth, 1})
	}
	pic := &picture{w: 840, h: 90 + 21*float64(max(len(theirs), len(points)))}
	pic.points(90, 250, "DCPI, Alpha 21164, in order", theirs, []estimate{{"truth", 1}, {"estimate", paperEstimate / paperTruth}})
	pic.points(540, 270, brand(p.Rec.Counts[0].CPU)+", out of order", points, lines)
	r.draw("figure7.svg", "cycles of the instructions of the copy loop for each execution, DCPI's and ours", pic)
	cycles := float64(in.BlockSamples[loop]) * x.CyclesPerSample()
	r.printf("Bars are the cycles of each instruction for each execution of the loop, which is S/M over the truth where M is 1. Of ours, pale ones have M = 0: they go with the one before, and there is no ratio. Lines are estimates of the executions over the truth. DCPI's instructions with M > 0 are %d, and the loop takes %.0f cycles an execution there, of which %d are needed. Here %.3g are needed, and it takes %.3g by the exact count, %.3g by the inferred one.\n\n",
		len(paperRatios), sum(paperRatios)/paperTruth, len(paperRatios), ideal, cycles/exact, cycles/f.N)
	r.printf("Why it is worse: the loop waits for memory in every execution. DCPI could tell all the same, as four of its instructions issue in a known number of cycles. Out of order, none does: whatever waits holds up all that follows, which then retires in groups. So time tells an upper bound of the executions and nothing more, the lowest ratios are too low, and the program-wide confidence has to be low. That within the function is only about how often this block runs beside the others. A calibrated recording counts executions and needs no time.\n\n")
}

func sum(all []float64) (s float64) {
	for _, v := range all {
		s += v
	}
	return s
}

// An estimate is a line across a picture.
type estimate struct {
	name string
	v    float64
}

// points draws a panel of bars from left to right, on a logarithmic axis.
func (p *picture) points(left, width float64, name string, all []point, lines []estimate) {
	x := axis{from: left, to: left + width, least: 0.1, most: 1000, log: true}
	top, bottom := 45.0, 45+21*float64(len(all))
	p.title(left, 14, name)
	for _, v := range x.ticks() {
		p.line(x.at(v), top, x.at(v), bottom, gridColor)
		p.text(x.at(v), bottom+15, "middle", fmt.Sprintf("%.4g", v))
	}
	p.text(left+width/2, bottom+31, "middle", "cycles an execution (bars); executions over the truth (lines)")
	for i, q := range all {
		y := top + 21*float64(i)
		p.text(left-5, y+14, "end", q.name)
		color := "#d9822b"
		if q.least == 0 {
			color = "#d9822b55"
		}
		p.box(left, y+3, x.at(q.cycles)-left, 14, color)
	}
	colors := map[string]string{"truth": "#2e9e6b", "calibrated": "#b05fc4"}
	at := left
	for _, l := range lines {
		color := cmp.Or(colors[l.name], "#3b82d6")
		p.thick(x.at(l.v), top, x.at(l.v), bottom, color)
		p.box(at, 24, 12, 3, color)
		p.text(at+16, 29, "start", l.name)
		at += 30 + 6.2*float64(len(l.name))
	}
}

// freqAt returns the executions of a block of a procedure in another profile of the same images.
func freqAt(prof *infer.Profile, p *image.Proc, block int) (infer.Freq, bool) {
	for _, ip := range prof.Images {
		for _, r := range ip.Procs {
			if r.Proc.Addr == p.Addr && r.Proc.Name == p.Name {
				return r.Block[block], true
			}
		}
	}
	return infer.Freq{}, false
}
