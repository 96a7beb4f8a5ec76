package explain

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"backfeed/infer"
	"backfeed/infer/document"
	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/testdata/sets"
)

// The report lies beside the help that speaks of it.
const paperDir = "../../cmd/backfeed/help/accuracy"

// A program is a set with what else its directory may have.
type program struct {
	*sets.Set
	simulated *truth.Counts // simulated.gz: of callgrind --cache-sim=yes --branch-sim=yes
}

func newProgram(t *testing.T, s *sets.Set) *program {
	t.Helper()
	p := &program{Set: s}
	if path := filepath.Join(s.Dir, "simulated.gz"); exists(path) {
		p.simulated = sets.Truth(t, path)
	}
	return p
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// A papers report is written section by section.
type papers struct {
	t        *testing.T
	programs []*program
	write    bool // the report, with what is measured of time
	md       strings.Builder
	pictures map[string]string // by file
}

func (r *papers) printf(format string, args ...any) { fmt.Fprintf(&r.md, format, args...) }

// draw adds a picture to the report.
func (r *papers) draw(file, alt string, p *picture) {
	r.t.Helper()
	svg := p.String()
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
		r.t.Errorf("%s: a coordinate is no number", file)
	}
	testtool.WellFormed(r.t, svg)
	r.pictures[file] = svg
	r.printf("![%s](%s)\n\n", alt, file)
}

// TestPapers makes the tables and figures of the papers anew, of testdata/mix and the programs of -sets, as a report
// with pictures. With -sets and -update it is written beside the help. Without -update nothing is compared that
// depends on the machine: shares add up, figures are drawn, and what the repository has no data for is named.
func TestPapers(t *testing.T) {
	r := &papers{t: t, pictures: map[string]string{}}
	for _, s := range append([]*sets.Set{sets.Load(t, "../../testdata/mix")}, sets.Named(t)...) {
		r.programs = append(r.programs, newProgram(t, s))
	}
	r.write = *testtool.Update && len(r.programs) > 1
	r.head()
	r.copyLoop()
	r.histograms()
	r.scatter()
	r.ideal()
	t.Log("\n" + wrapped(r.md.String()))
	if !r.write {
		return
	}
	if err := os.MkdirAll(paperDir, 0o777); err != nil {
		t.Fatal(err)
	}
	for file, svg := range r.pictures {
		testtool.Put(t, filepath.Join(paperDir, file), svg)
	}
	testtool.Put(t, filepath.Join(paperDir, "report.md"), wrapped(r.md.String()))
}

// wrapped breaks the lines of paragraphs after 110 characters, and leaves those of tables, titles and pictures.
func wrapped(md string) string {
	var out strings.Builder
	for _, part := range strings.Split(strings.TrimSpace(md), "\n\n") {
		if out.Len() > 0 {
			out.WriteString("\n")
		}
		if strings.ContainsAny(part[:1], "|#!") {
			out.WriteString(part + "\n")
			continue
		}
		n := 0
		for _, word := range strings.Fields(part) {
			switch {
			case n > 0 && n+1+len(word) > 110:
				out.WriteString("\n")
				n = 0
			case n > 0:
				out.WriteString(" ")
				n++
			}
			out.WriteString(word)
			n += len(word)
		}
		out.WriteString("\n")
	}
	return out.String()
}

func (r *papers) head() {
	r.printf("# The papers' tables and figures, side by side with ours\n\n")
	if r.write {
		r.printf("Made by `go test ./infer/explain -run TestPapers -update -sets=DIR,...` on %s, of commit %s, on %s with %d\nprocessors (%s). ",
			time.Now().UTC().Format("2 January 2006, 15:04 UTC"), strings.TrimSpace(testtool.Run(r.t, "", "git", "rev-parse", "--short", "HEAD")),
			processor(), runtime.NumCPU(), runtime.GOARCH)
	}
	r.printf("Programs were recorded on the processors that the tables name, with samples of a\ntimer, and counted by callgrind. The papers are those on the Digital Continuous Profiling Infrastructure (Anderson\net al., SOSP 1997; below: DCPI), which ran on in-order Alpha processors, and the guide of SGI's SpeedShop.\n\n")
	r.printf("What is worse than in the papers stays in the tables. There are two main reasons. On an in-order processor the time\nof an instruction without stalls is known, so that samples tell executions; on one that executes out of order an\nexecution takes a fraction of a cycle or hundreds. And samples of a timer are caught some instructions late.\n\n")
}

// processor is the name of this machine's.
func processor() string {
	b, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(b)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOOS
}

func (p *program) infer(t *testing.T, rec *sample.Recording, opt infer.Options) *infer.Profile {
	t.Helper()
	prof, err := infer.Infer(t.Context(), rec, p.Open, opt)
	if err != nil {
		t.Errorf("%s: %v", p.Name, err)
		return nil
	}
	return prof
}

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
	i := slices.IndexFunc(r.programs, func(p *program) bool { return strings.Contains(p.Name, "copy") })
	if i < 0 {
		r.printf("Needs one of `-sets` whose name has `copy`: McCalpin's loop, unrolled four times.\n\n")
		return
	}
	p := r.programs[i]
	prof := p.infer(r.t, p.Rec, infer.Options{})
	if prof == nil {
		return
	}
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
	block := &in.Proc.Blocks[loop]
	once := p.Exact(ip.ID.Path, block)
	exact := once * p.Runs
	r.printf("`%s` of %s, %d samples on %s. *Least* is M, in cycles, of the machine model %s; a sample stands for %.0f cycles.\nThe ratio is in millions of executions, as everything below it.\n\n",
		in.Proc.Name, p.Name, in.Samples, brand(p.Rec.Counts[0].CPU), prof.Machine, x.CyclesPerSample())
	r.printf("| instruction | samples S | least M | S/M |\n| --- | ---: | ---: | ---: |\n")
	var ratios []float64
	for _, it := range e.Insts {
		if it.Block != loop {
			continue
		}
		ratio := "" // none of an instruction that goes with the one before
		if it.Least > 0 {
			v := float64(it.Samples) * x.CyclesPerSample() / it.Least / 1e6
			ratios, ratio = append(ratios, v), fmt.Sprintf("%.4g", v)
		}
		r.printf("| `%s` | %d | %.2f | %s |\n", strings.ReplaceAll(ip.Image.Text(it.Addr), "|", "\\|"), it.Samples, it.Least, ratio)
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
	r.printf("| `backfeed infer`; program-wide confidence %s, within the function %s | %.4g M | %.4g M | %.3f |\n",
		in.Block[loop].Conf, in.Block[loop].Within, in.Block[loop].N/1e6, exact/1e6, in.Block[loop].N/exact)
	if p.Calibrated != nil && p.CalibratedRuns > 0 {
		if cal := p.infer(r.t, p.Calibrated, infer.Options{}); cal != nil {
			if f, ok := freqAt(cal, in.Proc, loop); ok {
				n := once * p.CalibratedRuns
				r.printf("| `record --calibrate`, another recording; program-wide confidence %s, within the function %s | %.4g M | %.4g M | %.3f |\n",
					f.Conf, f.Within, f.N/1e6, n/1e6, f.N/n)
			}
		}
	}
	ideal := 0.0
	for _, it := range e.Insts {
		if it.Block == loop {
			ideal += it.Least
		}
	}
	cycles := float64(in.BlockSamples[loop]) * x.CyclesPerSample()
	r.printf("\nCycles per execution of the loop: least %.3g; by the inferred count %.3g, by the exact one %.3g.\n\n", ideal, cycles/in.Block[loop].N, cycles/exact)
	r.printf("The loop waits for memory in every execution. DCPI could tell, as four of its instructions issue in a known number of\ncycles. Out of order, none does: whatever waits holds up all that follows, which then retires in groups, so that time\ntells an upper bound of the executions and nothing more. So the program-wide confidence is to be low. That within the\nfunction is only about how often this block runs beside the others.\n\n")
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

// A variant is one way to infer, which all programs are held to.
type variant struct {
	name string
	part float64 // of the samples
	of   []*measured
}

// A measured program says how near a document of it comes to the truth.
type measured struct {
	*program
	*truth.Accuracy
	code    float64 // bytes of the procedures with samples, and of those they are thought to call
	oneLoop bool    // most samples are in one block
}

const oneOf = 80 // the paper adds up 80 runs

// thin draws one in n of the samples of rec.
func thin(rec *sample.Recording, n int) *sample.Recording {
	old := rec.Counts[0]
	rng := rand.New(rand.NewPCG(1997, 10))
	c := sample.NewCounts(old.CPU, old.Event)
	for _, ic := range old.Images {
		i := c.Image(ic.ID)
		for _, off := range sortedOffsets(ic) {
			kept := uint64(0)
			for range ic.At[off] {
				if rng.IntN(n) == 0 {
					kept++
				}
			}
			c.AddSample(i, off, kept)
		}
	}
	c.Weight = old.Weight / uint64(n)
	return sample.Merge(&sample.Recording{Counts: []*sample.Counts{c}})
}

func sortedOffsets(ic *sample.ImageCounts) []sample.Offset {
	all := make([]sample.Offset, 0, len(ic.At))
	for off := range ic.At {
		all = append(all, off)
	}
	slices.Sort(all)
	return all
}

// oracle is the true executions of the places that are worth most, and whether most samples are in one block.
func (p *program) oracle(t *testing.T, n int) (known []infer.Known, oneLoop bool) {
	prof := p.infer(t, p.Rec, infer.Options{Places: n})
	if prof == nil {
		return nil, false
	}
	for _, pl := range prof.Places {
		b := &pl.Proc.Proc.Blocks[pl.Block]
		n := p.Exact(pl.Image.ID.Path, b) * cmp.Or(p.Runs, 1) // without runs, the known fix the scale all the same
		known = append(known, infer.Known{Image: pl.Image.ID, Addr: b.Start, N: n, RelSD: 0.02})
	}
	for _, ip := range prof.Images {
		for _, r := range ip.Procs {
			for _, n := range r.BlockSamples {
				oneLoop = oneLoop || 2*n > prof.Samples.Used
			}
		}
	}
	return known, oneLoop
}

// measure infers all programs in all variants.
func (r *papers) measure() (one, all, oneExact, allExact, calibrated *variant) {
	one = &variant{name: "by samples", part: 1.0 / oneOf}
	all = &variant{name: "by samples", part: 1}
	oneExact = &variant{name: "and 400 exact counts (oracle)", part: 1.0 / oneOf}
	allExact = &variant{name: "and 400 exact counts (oracle)", part: 1}
	calibrated = &variant{name: "record --calibrate", part: 1}
	for _, p := range r.programs {
		few := thin(p.Rec, oneOf)
		known, oneLoop := p.oracle(r.t, 400)
		for _, run := range []struct {
			v     *variant
			rec   *sample.Recording
			known []infer.Known
		}{{one, few, nil}, {all, p.Rec, nil}, {oneExact, few, known}, {allExact, p.Rec, known}, {calibrated, p.Calibrated, nil}} {
			if run.rec == nil {
				continue
			}
			prof, err := infer.Infer(r.t.Context(), run.rec, p.Open, infer.Options{Known: run.known})
			if err != nil {
				r.t.Logf("%s: %s of %.3g of the samples: %v", p.Name, run.v.name, run.v.part, err) // an 80th may be none
				continue
			}
			m := &measured{program: p, oneLoop: oneLoop}
			m.Accuracy = truth.Compare(infer.NewDocument(prof), p.Truth, p.Samples)
			for _, ip := range prof.Images {
				for _, q := range ip.Procs {
					m.code += float64(q.Proc.Size)
				}
			}
			for _, h := range []truth.Histogram{m.InstProgramWide, m.EdgesProgramWide, m.InstWithinProc, m.EdgesWithinProc} {
				if sum := h.Between(-1e9, 1e9); math.Abs(sum-1) > 1e-6 {
					r.t.Errorf("%s: %s: the shares of all errors add up to %g", p.Name, run.v.name, sum)
				}
			}
			run.v.of = append(run.v.of, m)
		}
	}
	return one, all, oneExact, allExact, calibrated
}

// several are the programs that do not spend most of their time in one block.
func (v *variant) several() (all []*measured) {
	for _, m := range v.of {
		if !m.oneLoop {
			all = append(all, m)
		}
	}
	return all
}

// mean is the mean of a figure over the programs of several loops: each counts the same.
func (v *variant) mean(of func(*measured) float64) float64 {
	sum, all := 0.0, v.several()
	for _, m := range all {
		sum += of(m) / float64(len(all))
	}
	return sum
}

// histogram is the mean of histograms.
func (v *variant) histogram(of func(*truth.Accuracy) *truth.Histogram) (h truth.Histogram) {
	all := v.several()
	for _, m := range all {
		for i, by := range of(m.Accuracy) {
			for c, n := range by {
				h[i][c] += n / float64(len(all))
			}
		}
	}
	return h
}

func instErrors(a *truth.Accuracy) *truth.Histogram       { return &a.InstProgramWide }
func instErrorsWithin(a *truth.Accuracy) *truth.Histogram { return &a.InstWithinProc }
func edgeErrors(a *truth.Accuracy) *truth.Histogram       { return &a.EdgesProgramWide }
func edgeErrorsWithin(a *truth.Accuracy) *truth.Histogram { return &a.EdgesWithinProc }

func within10(of func(*truth.Accuracy) *truth.Histogram) func(*measured) float64 {
	return func(m *measured) float64 { return of(m.Accuracy).Between(-10, 10) }
}

func percent(v float64) string { return fmt.Sprintf("%.0f", 100*v) }

// histograms is figures 8 and 9 of DCPI, and what the analysis costs.
func (r *papers) histograms() {
	one, all, oneExact, allExact, calibrated := r.measure()
	if len(one.several()) == 0 || len(all.several()) == 0 || len(allExact.several()) == 0 || len(oneExact.several()) == 0 {
		r.t.Error("nothing was inferred")
		return
	}
	r.printf("## DCPI's figures 8 and 9: errors of counts\n\n")
	r.printf("%d programs; each counts the same. Figure 8 weighs each instruction by its samples, figure 9 each edge by its true\nexecutions. All counts of a program are multiplied by one factor first, as a recording may be of more runs than were\ncounted; *within the procedure*, those of each procedure by one of its own. The factor is the median, by samples, of what\nthe counts would have to be multiplied by. So a program of one loop is right by construction, and within the procedure\neach procedure of one loop is: programs that have most of their samples in one block (%d) are in the table per program, and not\nin means and pictures. DCPI needed no such factor.\n\n", len(all.several()), len(all.of)-len(all.several()))
	r.printf("The recording stands for DCPI's 80 runs, and one in %d of its samples for one run. With the oracle, inference is told the\ntrue executions of 400 blocks that `infer --places` chooses, to 2 %%: more than `record --calibrate` can count in\nrecordings of half a minute, which have a row of their own.\n\n", oneOf)
	type row struct {
		name, weight string
		v            *variant
		inst, edge   func(*truth.Accuracy) *truth.Histogram
		color        string
	}
	rows := []row{
		{"by samples, 1/80", "", one, instErrors, edgeErrors, "#f0b878"},
		{"by samples, all", "", all, instErrors, edgeErrors, "#d9822b"},
		{"the same within the procedure", "", all, instErrorsWithin, edgeErrorsWithin, "#b05fc4"},
		{"with 400 exact counts, 1/80", "", oneExact, instErrors, edgeErrors, "#9cc3ee"},
		{"with 400 exact counts, all", "", allExact, instErrors, edgeErrors, "#3b82d6"},
	}
	if len(calibrated.several()) > 0 {
		rows = append(rows, row{fmt.Sprintf("record --calibrate, %d programs", len(calibrated.several())), "", calibrated, instErrors, edgeErrors, "#2e9e6b"})
	}
	r.printf("| share in %% | instructions within 5 %% | 10 %% | 15 %% | beyond 45 %% | edges within 10 %% |\n| --- | ---: | ---: | ---: | ---: | ---: |\n")
	r.printf("| DCPI, SPEC95, in order | 73 | 87 | 92 | | 58 |\n| DCPI, its integer programs, 1 run; 80 runs | 54; 70 | | | | |\n| DCPI, gcc, 1 run; 80 runs | 23; 53 | | | 21; 17 | |\n")
	bars := &picture{w: 760, h: 315}
	y := axis{from: 235, to: 25, most: 100}
	x := axis{from: 55, to: 745}
	for _, v := range y.ticks() {
		bars.line(x.from, y.at(v), x.to, y.at(v), gridColor)
		bars.text(x.from-5, y.at(v)+4, "end", fmt.Sprint(v))
	}
	bars.names(x, y, "", "share (%)")
	groups := []string{"instructions within 5 %", "within 10 %", "within 15 %", "edges within 10 %"}
	width := (x.to - x.from) / float64(len(groups))
	bar := width / float64(len(rows)+2)
	put := func(g, i int, v float64, color string) {
		left := x.from + width*float64(g) + bar*(float64(i)+0.5)
		bars.box(left, y.at(100*v), bar-3, y.from-y.at(100*v), color)
		bars.text(left+(bar-3)/2, y.at(100*v)-3, "middle", percent(v))
	}
	for g, v := range []float64{.73, .87, .92, .58} {
		bars.text(x.from+width*(float64(g)+0.5), y.from+16, "middle", groups[g])
		put(g, 0, v, inkColor)
	}
	key := []series{{"DCPI, SPEC95", inkColor}}
	for i, row := range rows {
		h, e := row.v.histogram(row.inst), row.v.histogram(row.edge)
		r.printf("| %s | %s | %s | %s | %s | %s |\n", row.name, percent(h.Between(-5, 5)), percent(h.Between(-10, 10)), percent(h.Between(-15, 15)),
			percent(1-h.Between(-45, 45)), percent(e.Between(-10, 10)))
		for g, v := range []float64{h.Between(-5, 5), h.Between(-10, 10), h.Between(-15, 15), e.Between(-10, 10)} {
			put(g, i+1, v, row.color)
		}
		key = append(key, series{row.name, row.color})
	}
	bars.legend(x.from, 280, key[:min(4, len(key))])
	bars.legend(x.from, 302, key[min(4, len(key)):])
	r.printf("\n")
	r.printf("Why less is within 10 %% than in the paper: by samples alone, nothing tells how long an execution takes, so that one\nprocedure's counts beside another's are off by what its stalls are; within the procedure much of that is gone, and what\nremains is caught late, in another block. More samples help little: it is bias, as with DCPI's gcc. A calibrated\nrecording of half a minute counts some tens of places and walks from its samples, fewer than the oracle knows.\n\n")
	r.draw("within.svg", "share of instructions and edges within 5, 10 and 15 %, DCPI's and ours", bars)

	for _, fig := range []struct {
		n, file, of  string
		own, factor1 func(*truth.Accuracy) *truth.Histogram
	}{
		{"8", "figure8.svg", "samples", instErrors, instErrorsWithin},
		{"9", "figure9.svg", "executions of edges", edgeErrors, edgeErrorsWithin},
	} {
		panels := []struct {
			name string
			v    *variant
			of   func(*truth.Accuracy) *truth.Histogram
		}{
			{"by samples, 1/80 of them", one, fig.own}, {"by samples, all", all, fig.own},
			{"within the procedure, 1/80", one, fig.factor1}, {"within the procedure, all", all, fig.factor1},
			{"400 exact counts, 1/80 of the samples", oneExact, fig.own}, {"400 exact counts, all samples", allExact, fig.own},
		}
		if len(calibrated.several()) > 0 {
			panels = append(panels, struct {
				name string
				v    *variant
				of   func(*truth.Accuracy) *truth.Histogram
			}{fmt.Sprintf("record --calibrate, %d programs", len(calibrated.several())), calibrated, fig.own})
		}
		lines := (len(panels) + 1) / 2
		p := &picture{w: 760, h: 35 + 210*float64(lines)}
		p.legend(60, 18, confidences)
		for i, panel := range panels {
			h := panel.v.histogram(panel.of)
			p.histogram(60+375*float64(i%2), 40+210*float64(i/2), panel.name, "share of "+fig.of+" (%)", &h)
		}
		r.draw(fig.file, "figure "+fig.n+": distribution of errors by confidence", p)
	}
	r.printf("Programs of fewer than 400 blocks are known nearly all to the oracle. Colours are the confidence of the count: program-wide, and within the function where the panel says so. Nearly all that\ntime alone tells is of low program-wide confidence, as it should be. The outer buckets hold all that is further off;\nwhat the factor makes exact is in the bucket from 0 to 5 %%.\n\n")
	r.perProgram(one, all, allExact, calibrated)
	r.absolute(all)
	r.cost(all)
}

// histogram draws a panel of figures 8 and 9 with its top left at x, y.
func (p *picture) histogram(left, top float64, name, yName string, h *truth.Histogram) {
	most := 0.1
	for i := range h {
		most = max(most, h.Share(i))
	}
	x, y := axis{from: left, to: left + 310}, axis{from: top + 155, to: top + 30, most: 100 * most}
	p.title(left+4, top+6, name)
	p.text(left+4, top+20, "start", fmt.Sprintf("%s, %s, %s %% are within 5, 10, 15 %%", percent(h.Between(-5, 5)), percent(h.Between(-10, 10)), percent(h.Between(-15, 15))))
	for _, v := range y.ticks() {
		p.line(x.from, y.at(v), x.to, y.at(v), gridColor)
		p.text(x.from-5, y.at(v)+4, "end", fmt.Sprintf("%.4g", v))
	}
	bar := (x.to - x.from) / truth.Buckets
	for i, by := range h {
		at := y.from
		for c := range by {
			height := y.from - y.at(100*by[c])
			at -= height
			p.box(x.from+bar*float64(i)+1, at, bar-2, height, confidences[c].color)
		}
	}
	for i, v := range []string{"-45", "-30", "-15", "0", "+15", "+30", "+45"} {
		at := x.from + bar*float64(1+3*i)
		p.line(at, y.from, at, y.from+4, inkColor)
		p.text(at, y.from+15, "middle", v)
	}
	p.names(x, y, "", "")
	p.text((x.from+x.to)/2, y.from+29, "middle", "error (%)")
	p.upright(left-40, (y.from+y.to)/2, yName)
}

// perProgram is figures 8 and 9 in numbers.
func (r *papers) perProgram(one, all, exact, calibrated *variant) {
	r.printf("Per program, shares in %% within 10 %%; overlaps of blocks and edges as in `backfeed verify`:\n\n")
	r.printf("| program | processor | samples | instructions, 1/80 | all | within the procedure | with 400 exact counts | `--calibrate` | edges, 1/80 | all | within the procedure | with 400 exact counts | `--calibrate` | block overlap, 1/80 | all | exact | edge overlap, all |\n|%s\n", " --- | --- |"+strings.Repeat(" ---: |", 15))
	find := func(v *variant, p *program, of func(*measured) float64, format func(float64) string) string {
		for _, m := range v.of {
			if m.program == p {
				return format(of(m))
			}
		}
		return ""
	}
	overlap := func(v float64) string { return fmt.Sprintf("%.3f", v) }
	blocks := func(m *measured) float64 { return m.BlockOverlap }
	edges := func(m *measured) float64 { return m.EdgeOverlap }
	for _, p := range r.programs {
		row := []string{p.Name, brand(p.Rec.Counts[0].CPU), fmt.Sprint(p.Rec.Counts[0].Total)}
		for _, h := range []struct {
			own, within func(*truth.Accuracy) *truth.Histogram
		}{{instErrors, instErrorsWithin}, {edgeErrors, edgeErrorsWithin}} {
			row = append(row, find(one, p, within10(h.own), percent), find(all, p, within10(h.own), percent), find(all, p, within10(h.within), percent),
				find(exact, p, within10(h.own), percent), find(calibrated, p, within10(h.own), percent))
		}
		row = append(row, find(one, p, blocks, overlap), find(all, p, blocks, overlap), find(exact, p, blocks, overlap), find(all, p, edges, overlap))
		r.printf("| %s |\n", strings.Join(row, " | "))
	}
	r.printf("| mean | | | %s | %s | %s | %s | %s | %s | %s | %s | %s | %s | %.3f | %.3f | %.3f | %.3f |\n\n",
		percent(one.mean(within10(instErrors))), percent(all.mean(within10(instErrors))), percent(all.mean(within10(instErrorsWithin))), percent(exact.mean(within10(instErrors))), percent(calibrated.mean(within10(instErrors))),
		percent(one.mean(within10(edgeErrors))), percent(all.mean(within10(edgeErrors))), percent(all.mean(within10(edgeErrorsWithin))), percent(exact.mean(within10(edgeErrors))), percent(calibrated.mean(within10(edgeErrors))),
		one.mean(blocks), all.mean(blocks), exact.mean(blocks), all.mean(edges))
}

// brand is a short name of a processor.
func brand(cpu sample.CPU) string {
	if cpu.Name == "" {
		return fmt.Sprintf("%s family %d model %d", cpu.Vendor, cpu.Family, cpu.Model)
	}
	return strings.Join(strings.Fields(strings.NewReplacer("(R)", "", "(TM)", "", "Processor", "", "CPU", "").Replace(cpu.Name)), " ")
}

// absolute says what the one factor is that figures 8 and 9 leave out, where it is known how many runs were recorded.
func (r *papers) absolute(all *variant) {
	rows := 0
	for _, m := range all.of {
		if m.Runs == 0 || m.Scale == 0 {
			continue
		}
		if rows++; rows == 1 {
			r.printf("What the factor leaves out, where the number of recorded runs is known: all instructions that inference has executed\nin the recording, to those that callgrind counted in as many runs. Program-wide claims are counts of blocks of\nmedium or high program-wide confidence; kept are those within a factor of 2 after the one factor of the program.\n\n")
			r.printf("| program | runs | instructions, inferred/counted | program-wide claims: share of samples in %% | kept, %% |\n| --- | ---: | ---: | ---: | ---: |\n")
		}
		share, kept := 0.0, 0.0
		for c := document.Medium; c <= document.High; c++ {
			k := m.BlockProgramWide[c].Samples
			share, kept = share+k.Weight, kept+k.Weight*k.Within2x
		}
		held := ""
		if share > 0 {
			held = percent(kept / share)
		}
		r.printf("| %s | %.0f | %.2f | %s | %s |\n", m.Name, m.Runs, 1/(m.Scale*m.Runs), percent(share), held)
	}
	if rows > 0 {
		r.printf("\n")
	}
}

// fileSizes adds up the files of the images of a program that have samples.
func (p *program) fileSizes() (bytes float64) {
	for _, ic := range p.Rec.Counts[0].Images {
		for _, file := range []string{"symfs" + ic.ID.Path, "symfs" + strings.TrimPrefix(ic.ID.Path, "/usr"), filepath.Base(ic.ID.Path)} {
			if st, err := os.Stat(filepath.Join(p.Dir, file)); err == nil {
				bytes += float64(st.Size())
				break
			}
		}
	}
	return bytes
}

// cost says how long `backfeed infer` takes, from the files to the text.
func (r *papers) cost(all *variant) {
	r.printf("## What the analysis costs\n\n")
	if !r.write {
		r.printf("Is measured for the report.\n\n")
		return
	}
	backfeed := filepath.Join(r.t.TempDir(), "backfeed")
	testtool.Run(r.t, "../..", "go", "build", "-o", backfeed, "./cmd/backfeed")
	took := map[*measured][2]float64{} // seconds: of the clock, of processors
	var wall, cpu, size, code float64
	var rows []*measured
	for _, m := range all.of {
		symfs := filepath.Join(m.Dir, "symfs")
		if !exists(symfs) {
			symfs = m.Dir
		}
		cmd := exec.Command(backfeed, "infer", filepath.Join(m.Dir, "samples.bfr"), "--symfs", symfs, "-o", os.DevNull)
		at := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			r.t.Errorf("%s: %v: %s", m.Name, err, out)
			continue
		}
		took[m] = [2]float64{time.Since(at).Seconds(), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()}
		wall, cpu, size, code = wall+took[m][0], cpu+took[m][1], size+m.fileSizes(), code+m.code
		rows = append(rows, m)
	}
	slices.SortStableFunc(rows, func(a, b *measured) int { return cmp.Compare(b.code, a.code) })
	r.printf("`backfeed infer` from the files to the text. *Analysed* is code of procedures with samples, and of those that they are\nthought to call.\n\n")
	r.printf("| | samples | files, MB | analysed, MB | time, s | processor time, s |\n| --- | ---: | ---: | ---: | ---: | ---: |\n| DCPI, 17 programs, Alpha 21164 of 333 MHz | | 26 | | about 180 | |\n")
	r.printf("| all %d programs, one after the other | | %.0f | %.2f | %.1f | %.1f |\n", len(rows), size/1e6, code/1e6, wall, cpu)
	for i, m := range rows {
		if i < 3 || strings.Contains(m.Name, "cc1") {
			r.printf("| %s | %d | %.1f | %.2f | %.1f | %.1f |\n", m.Name, m.Rec.Counts[0].Total, m.fileSizes()/1e6, m.code/1e6, took[m][0], took[m][1])
		}
	}
	r.printf("\n")
}
