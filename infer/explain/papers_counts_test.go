package explain

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"backfeed/infer"
	"backfeed/infer/document"
	"backfeed/infer/truth"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// A variant is one way to infer, which all programs are held to.
type variant struct {
	name string
	of   []*measured
}

// counts are what figures 8 and 9 are drawn of. DCPI adds up 80 runs. A recording holds as many as the file runs says,
// and samples of one run are drawn from it; calibrated recordings are made of one run, too.
type counts struct{ one, all, onceCalibrated, calibrated, exact *variant }

func newCounts() counts {
	return counts{
		&variant{name: "by samples, 1 run"}, &variant{name: "by samples, all runs"},
		&variant{name: "calibrated, 1 run"}, &variant{name: "calibrated, all runs"},
		&variant{name: "400 exact counts (oracle)"},
	}
}

// A measured program says how near a document of it comes to the truth.
type measured struct {
	*program
	*truth.Accuracy
	code    float64 // bytes of the procedures with samples, and of those they are thought to call
	oneLoop bool    // most samples are in one block
}

// thin draws one in n of the samples of rec: of n runs, as many as one has.
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

// oraclePlaces is how many blocks an oracle knows the executions of.
const oraclePlaces = 400

// oracle is the true executions of the places that are worth most, and whether most samples are in one block.
func (p *program) oracle(prof *infer.Profile) (known []infer.Known, oneLoop bool) {
	for _, pl := range prof.Places {
		if p.elsewhere(pl) {
			continue
		}
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

// elsewhere reports whether the procedure of a place ran where samples were taken, but never in the run that was counted:
// valgrind replaces procedures by its own (PHP asks it to, for zend_string_equal_val), and shows the program another
// processor, for which the C library chooses other code. Its zeros are not exact counts of what was sampled.
func (p *program) elsewhere(pl infer.Place) bool {
	ran := 0.0
	for i := range pl.Proc.Proc.Blocks {
		ran += p.Exact(pl.Image.ID.Path, &pl.Proc.Proc.Blocks[i])
	}
	return ran == 0 && pl.Proc.Samples >= 10
}

// measure holds what a program's recordings come to against the truth. An oracle knows the executions of the places that
// prof asks for.
func (r *papers) measure(p *program, prof, cal *infer.Profile) {
	known, oneLoop := p.oracle(prof)
	for _, run := range []struct {
		v     *variant
		prof  *infer.Profile // or to be inferred
		rec   *sample.Recording
		known []infer.Known
		runs  float64
	}{
		{r.counts.one, nil, thin(p.Rec, int(cmp.Or(p.Runs, 80))), nil, 1},
		{r.counts.all, prof, p.Rec, nil, p.Runs},
		{r.counts.onceCalibrated, nil, p.CalibratedOnce, nil, 1},
		{r.counts.calibrated, cal, p.Calibrated, nil, p.CalibratedRuns},
		{r.counts.exact, nil, p.Rec, known, p.Runs},
	} {
		if run.rec == nil {
			continue
		}
		if run.prof == nil {
			var err error
			if run.prof, err = infer.Infer(r.t.Context(), run.rec, p.Open, infer.Options{Known: run.known}); err != nil {
				r.t.Logf("%s: %s: %v", p.Name, run.v.name, err) // of one run there may be no samples
				continue
			}
		}
		m := &measured{program: p, oneLoop: oneLoop}
		m.Accuracy = truth.CompareRuns(infer.NewDocument(run.prof), p.Truth, p.Samples, run.runs)
		for _, ip := range run.prof.Images {
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

// only are the programs that want names.
func (v *variant) only(want func(*measured) bool) *variant {
	out := &variant{name: v.name}
	for _, m := range v.of {
		if want(m) {
			out.of = append(out.of, m)
		}
	}
	return out
}

// real are the programs that were not made to be measured, and do not spend most of their time in one block.
func (v *variant) real() *variant {
	return v.only(func(m *measured) bool { return !m.oneLoop && m.List != "constructed" })
}

// counted are the programs of which it is known how many runs were recorded.
func (v *variant) counted() *variant { return v.only(func(m *measured) bool { return m.Runs > 0 }) }

// mean is the mean of a figure over the programs: each counts the same.
func (v *variant) mean(of func(*measured) float64) (sum float64) {
	for _, m := range v.of {
		sum += of(m) / float64(len(v.of))
	}
	return sum
}

// histogram is the mean of histograms.
func (v *variant) histogram(of func(*truth.Accuracy) *truth.Histogram) (h truth.Histogram) {
	for _, m := range v.of {
		for i, by := range of(m.Accuracy) {
			for c, n := range by {
				h[i][c] += n / float64(len(v.of))
			}
		}
	}
	return h
}

func instErrors(a *truth.Accuracy) *truth.Histogram       { return &a.InstProgramWide }
func instErrorsWithin(a *truth.Accuracy) *truth.Histogram { return &a.InstWithinProc }
func edgeErrors(a *truth.Accuracy) *truth.Histogram       { return &a.EdgesProgramWide }
func edgeErrorsWithin(a *truth.Accuracy) *truth.Histogram { return &a.EdgesWithinProc }
func instAbsolute(a *truth.Accuracy) *truth.Histogram     { return &a.InstAbsolute }
func edgeAbsolute(a *truth.Accuracy) *truth.Histogram     { return &a.EdgesAbsolute }

func within10(of func(*truth.Accuracy) *truth.Histogram) func(*measured) float64 {
	return func(m *measured) float64 { return of(m.Accuracy).Between(-10, 10) }
}

func percent(v float64) string { return fmt.Sprintf("%.0f", 100*v) }

// histograms is figures 8 and 9 of DCPI, and what the analysis costs.
func (r *papers) histograms() {
	c := r.counts
	all := c.all.real()
	if len(all.of) == 0 || len(c.exact.real().of) == 0 {
		r.t.Error("nothing was inferred")
		return
	}
	r.printf("## DCPI's figures 8 and 9: errors of counts\n\n")
	r.printf("Figure 8 says how far the count of each instruction is from the truth, weighed by samples; figure 9 the same of edges, weighed by their true executions. Here each program counts the same.\n\n")
	r.printf("DCPI added up 80 runs of some programs, and compared with one. Here *all runs* are those that the recording of a program holds: %s. *1 run* are as many of these samples as one run has. Calibrated recordings (`record --calibrate=10%%`) are of three times as many runs, and of a single one, recorded by itself. A run here takes 0.01 to 7 seconds, and one of SPEC95 took minutes: of samples in one run, DCPI had about a hundred times as many. With the oracle, inference is told the true executions of 400 blocks that `infer --places` chooses, to 2 %%: more than a calibrated recording of half a minute counts.\n\n", r.runs())
	r.printf("As a profile says which code runs more often than other code, the counts of a program are multiplied by one factor first: the median, by samples, of what they would have to be multiplied by. *Within the procedure*, those of each procedure are multiplied by one of its own. *No factor* are the executions themselves, as in DCPI. With a factor, a program of one loop is right by construction. So means and pictures are of %d real programs that have less than half of their samples in one block; the constructed programs have a row in the table by group, and all are in that per program.\n\n", len(all.of))
	rows := []struct {
		name       string
		v          *variant
		inst, edge func(*truth.Accuracy) *truth.Histogram
		color      string // in the picture; none if it is not in it
	}{
		{"by samples, 1 run", c.one.real(), instErrors, edgeErrors, "#f0b878"},
		{"by samples, all runs", all, instErrors, edgeErrors, "#d9822b"},
		{"calibrated, 1 run", c.onceCalibrated.real(), instErrors, edgeErrors, "#8fd0b1"},
		{"calibrated, all runs", c.calibrated.real(), instErrors, edgeErrors, "#2e9e6b"},
		{"with 400 exact counts", c.exact.real(), instErrors, edgeErrors, "#3b82d6"},
		{"within the procedure, by samples, 1 run", c.one.real(), instErrorsWithin, edgeErrorsWithin, ""},
		{"within the procedure, by samples, all runs", all, instErrorsWithin, edgeErrorsWithin, "#b05fc4"},
		{"within the procedure, calibrated, all runs", c.calibrated.real(), instErrorsWithin, edgeErrorsWithin, "#7c3f8e"},
		{"no factor, by samples, all runs", c.all.counted(), instAbsolute, edgeAbsolute, ""},
		{"no factor, calibrated, all runs", c.calibrated.counted(), instAbsolute, edgeAbsolute, ""},
	}
	r.printf("| share in %% | programs | instructions within 5 %% | 10 %% | 15 %% | beyond 45 %% | edges within 10 %% |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: |\n")
	r.printf("| DCPI, SPEC95, in order | | 73 | 87 | 92 | | 58 |\n| DCPI, its integer programs, 1 run; 80 runs | | 54; 70 | | | | |\n| DCPI, gcc, 1 run; 80 runs | 1 | 23; 53 | | | 21; 17 | |\n")
	bars := newBars([]string{"instructions within 5 %", "within 10 %", "within 15 %", "edges within 10 %"})
	bars.series("DCPI, SPEC95", inkColor, []float64{.73, .87, .92, .58})
	for _, row := range rows {
		if len(row.v.of) == 0 {
			continue
		}
		h, e := row.v.histogram(row.inst), row.v.histogram(row.edge)
		r.printf("| %s | %d | %s | %s | %s | %s | %s |\n", row.name, len(row.v.of), percent(h.Between(-5, 5)), percent(h.Between(-10, 10)), percent(h.Between(-15, 15)),
			percent(1-h.Between(-45, 45)), percent(e.Between(-10, 10)))
		if row.color != "" {
			bars.series(row.name, row.color, []float64{h.Between(-5, 5), h.Between(-10, 10), h.Between(-15, 15), e.Between(-10, 10)})
		}
	}
	r.printf("\n")
	r.draw("within.svg", "share of instructions and edges within 5, 10 and 15 %, DCPI's and ours", bars.picture())
	r.moreRuns()
	r.printf("Why less is within 10 %% than in the paper: by samples alone, nothing tells how long an execution takes, so that one procedure's counts beside another's are off by what its stalls are; within the procedure much of that is gone, and what remains is caught late, in another block. More samples help little: it is bias, as with DCPI's gcc. A calibrated recording of half a minute counts some tens of places and walks from its samples, fewer than the oracle knows; of a single run it has hardly any of either.\n\n")

	for _, fig := range []struct {
		n, file, of string
		own, within func(*truth.Accuracy) *truth.Histogram
	}{
		{"8", "figure8.svg", "samples", instErrors, instErrorsWithin},
		{"9", "figure9.svg", "executions of edges", edgeErrors, edgeErrorsWithin},
	} {
		type panel struct {
			name string
			v    *variant
			of   func(*truth.Accuracy) *truth.Histogram
		}
		var panels []panel
		for _, q := range []panel{
			{"by samples, 1 run", c.one.real(), fig.own}, {"by samples, all runs", all, fig.own},
			{"within the procedure, 1 run", c.one.real(), fig.within}, {"within the procedure, all runs", all, fig.within},
			{"calibrated, 1 run", c.onceCalibrated.real(), fig.own}, {"calibrated, all runs", c.calibrated.real(), fig.own},
			{"400 exact counts", c.exact.real(), fig.own}, {"calibrated, within the procedure", c.calibrated.real(), fig.within},
		} {
			if len(q.v.of) > 0 {
				panels = append(panels, q)
			}
		}
		p := &picture{w: 760, h: 35 + 210*float64((len(panels)+1)/2)}
		p.legend(60, 18, confidences)
		for i, q := range panels {
			h := q.v.histogram(q.of)
			p.histogram(60+375*float64(i%2), 40+210*float64(i/2), q.name, len(q.v.of), "share of "+fig.of+" (%)", &h)
		}
		r.draw(fig.file, "figure "+fig.n+": distribution of errors by confidence", p)
	}
	r.printf("Colours are the confidence of the count: program-wide, and within the function where the panel says so. Nearly all that time alone tells is of low program-wide confidence, as it should be. The outer buckets hold all that is further off; what the factor makes exact is in the bucket from 0 to 5 %%. Programs of fewer than 400 blocks are known nearly all to the oracle.\n\n")
	r.groups()
	r.perProgram()
	r.absolute()
	r.cost()
}

// runs says how many runs the recordings hold.
func (r *papers) runs() string {
	var all []float64
	for _, m := range r.counts.all.of {
		if m.Runs > 0 {
			all = append(all, m.Runs)
		}
	}
	if len(all) == 0 {
		return "of mix, 80 are assumed"
	}
	slices.Sort(all)
	n := 0
	for _, v := range all {
		if v >= 80 {
			n++
		}
	}
	s := fmt.Sprintf("%.0f to %.0f, the median %.0f, and 80 or more of %d of the %d programs", all[0], all[len(all)-1], all[len(all)/2], n, len(all))
	if n := len(r.counts.all.of) - len(all); n > 0 {
		s += fmt.Sprintf(" (of %d it is not known, and taken for 80)", n)
	}
	return s
}

// moreRuns shows what is gained by more runs, as DCPI does for its integer programs and for gcc.
func (r *papers) moreRuns() {
	groups := []string{"DCPI, integer programs", "DCPI, gcc"}
	one, all := []float64{.54, .23}, []float64{.70, .53}
	c := r.counts
	within5 := func(of func(*truth.Accuracy) *truth.Histogram) func(*measured) float64 {
		return func(m *measured) float64 { return of(m.Accuracy).Between(-5, 5) }
	}
	add := func(name string, a, b *variant, of func(*truth.Accuracy) *truth.Histogram) {
		if len(a.of) > 0 && len(b.of) > 0 {
			groups, one, all = append(groups, name), append(one, a.mean(within5(of))), append(all, b.mean(within5(of)))
		}
	}
	add("by samples", c.one.real(), c.all.real(), instErrors)
	add("in the procedure", c.one.real(), c.all.real(), instErrorsWithin)
	add("calibrated", c.onceCalibrated.real(), c.calibrated.real(), instErrors)
	gcc := func(m *measured) bool { return m.Name == "cc1" || m.Name == "gcc" }
	add("cc1, by samples", c.one.only(gcc), c.all.only(gcc), instErrors)
	add("cc1, in the proc.", c.one.only(gcc), c.all.only(gcc), instErrorsWithin)
	bars := newBars(groups)
	bars.series("1 run", "#f0b878", one)
	bars.series("DCPI 80 runs, ours all runs", "#d9822b", all)
	r.draw("runs.svg", "instructions within 5 %, of one run and of many, DCPI's and ours", bars.picture())
}

// A barChart has groups of bars, one of each series.
type barChart struct {
	groups []string
	names  []series
	values [][]float64 // shares by series and group
}

func newBars(groups []string) *barChart { return &barChart{groups: groups} }

func (b *barChart) series(name, color string, values []float64) {
	b.names, b.values = append(b.names, series{name, color}), append(b.values, values)
}

func (b *barChart) picture() *picture {
	const perLine = 3
	p := &picture{w: 860, h: 275 + 18*float64((len(b.names)+perLine-1)/perLine)}
	y, x := axis{from: 225, to: 25, most: 100}, axis{from: 55, to: 850}
	for _, v := range y.ticks() {
		p.line(x.from, y.at(v), x.to, y.at(v), gridColor)
		p.text(x.from-5, y.at(v)+4, "end", fmt.Sprint(v))
	}
	p.names(x, y, "", "share (%)")
	width := (x.to - x.from) / float64(len(b.groups))
	bar := min(36, width/(float64(len(b.names))+1))
	for g, name := range b.groups {
		middle := x.from + width*(float64(g)+0.5)
		p.text(middle, y.from+16, "middle", name)
		for i, s := range b.names {
			v := 100 * b.values[i][g]
			left := middle + bar*(float64(i)-float64(len(b.names))/2)
			p.box(left+1, y.at(v), bar-2, y.from-y.at(v), s.color)
			p.text(left+bar/2, y.at(v)-3, "middle", fmt.Sprintf("%.0f", v))
		}
	}
	for i := 0; i < len(b.names); i += perLine {
		p.legend(x.from, 270+18*float64(i/perLine), b.names[i:min(i+perLine, len(b.names))])
	}
	return p
}

// lists are the groups of programs that are told apart.
var lists = []struct{ list, name string }{
	{"dev", "to develop with"}, {"held", "held back"}, {"constructed", "constructed"}, {"", "others"},
}

// groups is figures 8 and 9 by group of programs.
func (r *papers) groups() {
	c := r.counts
	r.printf("By group, of programs that have less than half of their samples in one block, shares in %% within 10 %%. *Held back* are those that nobody looked at who changed inference; *constructed* ones were made to be hard, of a few loops each.\n\n")
	r.printf("| programs | | instructions, by samples | within the procedure | calibrated | 400 exact counts | edges, by samples | within the procedure | calibrated | 400 exact counts | block overlap, by samples | calibrated |\n|%s\n", " --- |"+strings.Repeat(" ---: |", 11))
	for _, l := range lists {
		want := func(m *measured) bool { return m.List == l.list && !m.oneLoop }
		all, cal, exact := c.all.only(want), c.calibrated.only(want), c.exact.only(want)
		if len(all.of) == 0 {
			continue
		}
		cell := func(v *variant, of func(*measured) float64) string {
			if len(v.of) == 0 {
				return ""
			}
			return percent(v.mean(of))
		}
		row := []string{l.name, fmt.Sprint(len(all.of))}
		for _, of := range [][2]func(*truth.Accuracy) *truth.Histogram{{instErrors, instErrorsWithin}, {edgeErrors, edgeErrorsWithin}} {
			row = append(row, cell(all, within10(of[0])), cell(all, within10(of[1])), cell(cal, within10(of[0])), cell(exact, within10(of[0])))
		}
		blocks := func(m *measured) float64 { return m.BlockOverlap }
		row = append(row, cell(all, blocks), cell(cal, blocks))
		r.printf("| %s |\n", strings.Join(row, " | "))
	}
	r.printf("\n")
}

// histogram draws a panel of figures 8 and 9 with its top left at x, y.
func (p *picture) histogram(left, top float64, name string, programs int, yName string, h *truth.Histogram) {
	most := 0.1
	for i := range h {
		most = max(most, h.Share(i))
	}
	x, y := axis{from: left, to: left + 310}, axis{from: top + 155, to: top + 30, most: 100 * most}
	p.title(left+4, top+6, name)
	p.text(left+4, top+20, "start", fmt.Sprintf("%d programs: %s, %s, %s %% are within 5, 10, 15 %%", programs, percent(h.Between(-5, 5)), percent(h.Between(-10, 10)), percent(h.Between(-15, 15))))
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
func (r *papers) perProgram() {
	c := r.counts
	r.printf("Per program, shares in %% within 10 %%; overlaps of blocks and edges as in `backfeed verify`. Those marked * have most of their samples in one block.\n\n")
	r.printf("| program | processor | runs | samples | instructions, 1 run | all runs | within the procedure | calibrated, 1 run | all runs | 400 exact counts | edges, 1 run | all runs | within the procedure | calibrated, 1 run | all runs | 400 exact counts | block overlap, 1 run | all runs | calibrated | 400 exact counts | edge overlap, all runs |\n|%s\n", " --- | --- |"+strings.Repeat(" ---: |", 19))
	find := func(v *variant, p *program, of func(*measured) float64, format func(float64) string) string {
		for _, m := range v.of {
			if m.program == p {
				return format(of(m))
			}
		}
		return ""
	}
	overlap := func(v float64) string { return fmt.Sprintf("%.2f", v) }
	blocks := func(m *measured) float64 { return m.BlockOverlap }
	edges := func(m *measured) float64 { return m.EdgeOverlap }
	type column struct {
		v      *variant
		of     func(*measured) float64
		format func(float64) string
	}
	var columns []column
	for _, h := range [][2]func(*truth.Accuracy) *truth.Histogram{{instErrors, instErrorsWithin}, {edgeErrors, edgeErrorsWithin}} {
		columns = append(columns, column{c.one, within10(h[0]), percent}, column{c.all, within10(h[0]), percent}, column{c.all, within10(h[1]), percent},
			column{c.onceCalibrated, within10(h[0]), percent}, column{c.calibrated, within10(h[0]), percent}, column{c.exact, within10(h[0]), percent})
	}
	columns = append(columns, column{c.one, blocks, overlap}, column{c.all, blocks, overlap}, column{c.calibrated, blocks, overlap}, column{c.exact, blocks, overlap},
		column{c.all, edges, overlap})
	for _, m := range c.all.of {
		p, mark := m.program, ""
		if m.oneLoop {
			mark = "*"
		}
		row := []string{p.Name + mark, brand(p.Rec.Counts[0].CPU), fmt.Sprintf("%.0f", p.Runs), fmt.Sprint(p.Rec.Counts[0].Total)}
		for _, col := range columns {
			row = append(row, find(col.v, p, col.of, col.format))
		}
		r.printf("| %s |\n", strings.Join(row, " | "))
	}
	row := []string{"mean of the real ones without *", "", "", ""}
	for _, col := range columns {
		if v := col.v.real(); len(v.of) > 0 {
			row = append(row, col.format(v.mean(col.of)))
		} else {
			row = append(row, "")
		}
	}
	r.printf("| %s |\n\n", strings.Join(row, " | "))
}

// brand is a short name of a processor.
func brand(cpu sample.CPU) string {
	if cpu.Name == "" {
		return fmt.Sprintf("%s family %d model %d", cpu.Vendor, cpu.Family, cpu.Model)
	}
	return strings.Join(strings.Fields(strings.NewReplacer("(R)", "", "(TM)", "", "Processor", "", "CPU", "").Replace(cpu.Name)), " ")
}

// absolute says what the one factor is that figures 8 and 9 leave out, where it is known how many runs were recorded.
func (r *papers) absolute() {
	all := r.counts.all.counted()
	if len(all.of) == 0 {
		return
	}
	r.printf("What the factor leaves out, where the number of recorded runs is known: all instructions that inference has executed in the recording, to those that callgrind counted in as many runs. Program-wide claims are counts of blocks of medium or high program-wide confidence; kept are those within a factor of 2 after the one factor of the program.\n\n")
	r.printf("| program | runs | instructions, inferred/counted | calibrated | program-wide claims: share of samples in %%; kept | calibrated |\n| --- | ---: | ---: | ---: | ---: | ---: |\n")
	claims := func(m *measured) string {
		share, kept := 0.0, 0.0
		for c := document.Medium; c <= document.High; c++ {
			k := m.BlockProgramWide[c].Samples
			share, kept = share+k.Weight, kept+k.Weight*k.Within2x
		}
		if share < 0.005 {
			return "0"
		}
		return percent(share) + "; " + percent(kept/share)
	}
	scale := func(m *measured, runs float64) string {
		if m.Scale == 0 || runs == 0 {
			return ""
		}
		return fmt.Sprintf("%.2f", 1/(m.Scale*runs))
	}
	for _, m := range all.of {
		cells := []string{m.Name, fmt.Sprintf("%.0f", m.Runs), scale(m, m.Runs), "", claims(m), ""}
		for _, k := range r.counts.calibrated.of {
			if k.program == m.program {
				cells[3], cells[5] = scale(k, k.CalibratedRuns), claims(k)
			}
		}
		r.printf("| %s |\n", strings.Join(cells, " | "))
	}
	r.printf("\n")
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

// parts names the images of a program that have a thousandth of its samples, as programs that call others have several.
func (p *program) parts() string {
	var names []string
	for _, ic := range p.Rec.Counts[0].Images {
		if float64(ic.Samples()) >= 0.001*float64(p.Rec.Counts[0].Total) {
			names = append(names, filepath.Base(ic.ID.Path))
		}
	}
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// cost says how long `backfeed infer` takes, from the files to the text.
func (r *papers) cost() {
	r.printf("## What the analysis costs\n\n")
	if !r.write {
		r.printf("Is measured for the report.\n\n")
		return
	}
	backfeed := filepath.Join(r.t.TempDir(), "backfeed")
	testtool.Run(r.t, "../..", "go", "build", "-o", backfeed, "./cmd/backfeed")
	type cost struct {
		*measured
		wall, cpu, files float64 // seconds of the clock and of processors; bytes
	}
	var rows []cost
	var total cost
	code := 0.0
	for _, m := range r.counts.all.of {
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
		c := cost{m, time.Since(at).Seconds(), (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds(), m.fileSizes()}
		rows = append(rows, c)
		total.wall, total.cpu, total.files, code = total.wall+c.wall, total.cpu+c.cpu, total.files+c.files, code+m.code
	}
	slices.SortStableFunc(rows, func(a, b cost) int { return cmp.Compare(b.code, a.code) })
	r.printf("DCPI analysed 17 programs in about three minutes, a fifth of which it waited for the disk. Ours is the time of `backfeed infer`, from the files to the text, on the machine that made this report, which may have had other work. *Analysed* is code of procedures with samples, and of those that they are thought to call; the files hold much more, which is skipped. The largest programs and gcc's are shown.\n\n")
	r.printf("| | images with samples | samples | files, MB | analysed, MB | time, s | processor time, s | files, MB/s |\n| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |\n| DCPI, 17 programs, Alpha 21164 of 333 MHz | | | 26 | | about 180 | | 0.14 |\n")
	r.printf("| all %d programs, one after the other | | | %.0f | %.2f | %.1f | %.1f | %.1f |\n", len(rows), total.files/1e6, code/1e6, total.wall, total.cpu, total.files/1e6/total.wall)
	for i, c := range rows {
		if i < 4 || strings.Contains(c.Name, "cc1") || c.Name == "gcc" {
			r.printf("| %s | %s | %d | %.1f | %.2f | %.1f | %.1f | %.1f |\n", c.Name, c.parts(), c.Rec.Counts[0].Total, c.files/1e6, c.code/1e6, c.wall, c.cpu, c.files/1e6/c.wall)
		}
	}
	r.printf("\n")
}
