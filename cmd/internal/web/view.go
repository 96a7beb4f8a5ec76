package web

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/compare"
	"backfeed/infer/document"
	"backfeed/infer/explain"
	"backfeed/infer/source"
	"backfeed/infer/truth"
	"backfeed/sample"
)

// A View is what pages show of a source: each procedure summed up, and the rest made
// when it is asked for. Its methods may be called by several goroutines at once.
type View struct {
	src    *input.Session
	x      *explain.Explainer
	procs  []*viewed // most cycles first
	byID   map[string]*viewed
	images []viewedImage // as profile.Images
	total  explain.Summary
	names  report.Style
	stalls map[string]*report.TopStalls // by the name of the cause that they are of; "" is any
	truth  *truth.Accuracy              // nil if there is none

	sources sync.Mutex
	source  *source.Text // guarded by sources; nil if source is not to be shown

	graphOnce sync.Once
	graph     *callGraph

	stacksOnce sync.Once
	stacks     *stacks

	files    []string              // that were read, by name
	profiled later[report.Insight] // what a profile would tell compilers

	matches map[*viewed][]string // what a pattern of pprof's source page is matched with
	builds  []built              // as profile.Images
	turn    sync.Mutex           // of what is worked out for them

	old        *input.Session // to compare with; nil if there is none
	difference later[*compare.Difference]
	flameLater later[flameDifference]
	olderOnce  sync.Once
	older      *stacks // of old
	byResult   map[*infer.Result]*viewed

	fleetLock sync.Mutex
	fleets    map[string]*later[*input.Fleet] // by what labels choose
}

// A viewed is a procedure without its instructions, which for all procedures would
// be larger than the program.
type viewed struct {
	id       string
	ip       *infer.ImageProfile
	r        *infer.Result
	sum      explain.Summary
	executed float64 // instructions
	least    float64 // cycles that the model gives all executions
	row      report.ProcRow
	causes   [][]causeShare // by block
}

type viewedImage struct {
	sum     explain.Summary
	samples uint64
}

// NewView explains all procedures of src, on all processors. Names are written as names
// says. It is an error if samples do not tell time. src has to stay open while the view is
// in use.
func NewView(src *input.Session, names report.Style) (*View, error) {
	x, err := src.Explainer()
	if err != nil {
		return nil, err
	}
	n := len(src.Profile.Images)
	v := &View{src: src, x: x, names: names, byID: map[string]*viewed{}, byResult: map[*infer.Result]*viewed{}, images: make([]viewedImage, n), builds: make([]built, n)}
	for i, ip := range src.Profile.Images {
		for _, r := range ip.Procs {
			if r.Samples > 0 {
				v.procs = append(v.procs, &viewed{id: idOf(i, r), ip: ip, r: r})
			}
		}
	}
	k, timed, stalls := 0, make([][]float64, len(v.procs)), newStallSearch(v)
	for ip, e := range x.All() { // in the order of procs
		p := v.procs[k]
		k++
		p.sum = e.Summary
		stalls.add(ip, e)
		for i := range e.Insts {
			p.executed += e.Insts[i].N
		}
		timed[k-1] = timedBlocks(e)
		p.causes = blockCauses(e)
		i := slices.Index(src.Profile.Images, ip)
		v.total.Add(&p.sum)
		v.images[i].sum.Add(&p.sum)
		v.images[i].samples += p.r.Samples
		v.byID[p.id], v.byResult[p.r] = p, p
	}
	v.total.Add(x.Rest())
	v.stalls = stalls.found()
	explain.InParallel(len(v.procs), func(k int) {
		p := v.procs[k]
		p.least = v.leastCycles(p, timed[k])
		p.row = v.row(p)
	})
	// From here on every procedure has its sum, and the total is all of the time.
	slices.SortStableFunc(v.procs, func(a, b *viewed) int { return cmp.Compare(b.sum.Cycles, a.sum.Cycles) })
	return v, nil
}

// timedBlocks returns, of each block that has time, what the model gives one execution;
// below 0 where it has none.
func timedBlocks(e *explain.Explanation) []float64 {
	least := make([]float64, len(e.Result.Proc.Blocks))
	time := make([]float64, len(least))
	for i := range e.Insts {
		least[e.Insts[i].Block] += e.Insts[i].Least
		time[e.Insts[i].Block] += e.Insts[i].Total
	}
	for b := range least {
		if !(time[b] > 0) {
			least[b] = -1
		}
	}
	return least
}

// leastCycles returns what the model gives all executions of p; timed is that of blocks
// with time, which was found with it.
func (v *View) leastCycles(p *viewed, timed []float64) float64 {
	sum := 0.0
	for b, least := range timed {
		n := p.r.Block[b].N
		if least < 0 && n > 0 {
			least = v.x.Model().Cycles(p.ip.Image, &p.r.Proc.Blocks[b])
		}
		sum += max(0, least) * n
	}
	return sum
}

// row is p in a list.
func (v *View) row(p *viewed) report.ProcRow {
	row := report.ProcRow{
		ID: p.id, Image: path.Base(p.ip.ID.Path), Path: p.ip.ID.Path, Name: v.names.NameOf(p.r.Proc.Name), Linker: p.r.Proc.Name, Samples: p.r.Samples,
		Share: float64(p.r.Samples) / float64(max(1, v.src.Profile.Samples.Total)),
		CPI:   math.NaN(), Ratio: math.NaN(), Executions: math.NaN(), Conf: p.r.Entries.Conf,
		Seconds: v.seconds(p.r.Samples), Cycles: p.sum.Cycles, Lost: p.sum.Dynamic,
	}
	if row.Conf != infer.None {
		row.Executions = p.r.Entries.N
	}
	ideal := explain.Ideal{Instructions: p.executed, Cycles: p.sum.Cycles - p.sum.Uncounted, Ideal: p.least}
	row.CPI, row.Ratio = ideal.CPI(), ideal.Ratio()
	best := 0.0
	for _, c := range explain.Causes() {
		if n := p.sum.Likeliest[c]; n > best {
			row.Cause, best = c.String(), n
		}
	}
	if p.sum.Cycles > 0 {
		row.CauseShare = best / p.sum.Cycles
	}
	row.Within = middleConfidence(p.r)
	return row
}

// timed reports whether samples count time.
func (v *View) timed() bool {
	return v.src.Profile.Event.Unit == "ns" && v.src.Profile.Event.Period > 0
}

// seconds is the time that samples stand for; NaN where they count something else.
func (v *View) seconds(samples uint64) float64 {
	if !v.timed() {
		return math.NaN()
	}
	return float64(samples) * float64(v.src.Profile.Event.Period) / 1e9
}

// middleConfidence is the confidence under the middle one of the samples of r, of its counts
// among each other.
func middleConfidence(r *infer.Result) infer.Confidence {
	var t report.Trust
	t.Add(r)
	return t.Middle()
}

// lead says what the figures are made of.
func (v *View) lead() string {
	p := v.src.Profile
	if v.waits() {
		return fmt.Sprintf("%s of %s, %s of it in known code: where in their code threads were, on the processor or off it. A sample is a microsecond. Nothing is inferred of how often code ran, or why it is slow: leave --event out for that.",
			report.AmountOf(p.Event.Name, p.Samples.Total), p.Event.Name, report.Share(p.Samples.Used, p.Samples.Total))
	}
	return fmt.Sprintf("%d samples of %s, %s of them used. Executions are inferred with the machine model %s; cycles are samples times %s%s, and those per execution inherit the doubt in how often code ran.",
		p.Samples.Total, p.Event.Name, report.Share(p.Samples.Used, p.Samples.Total), p.Machine, report.Count(v.x.CyclesPerSample()), report.AtClock(p))
}

// waits reports whether the samples are time off the processor, of which nothing is inferred.
func (v *View) waits() bool { return sample.IsOff(v.src.Profile.Event.Name) }

// procList is a list of procedures, which lead to where href says.
func (v *View) procList(procs []*viewed, href func(p *viewed) string) *report.ProcList {
	list := &report.ProcList{Heads: report.ProcHeads(v.timed()), Least: v.leastListed()}
	if len(v.procs) > 0 {
		list.MostCycles = v.procs[0].sum.Cycles
	}
	for _, p := range procs {
		row := p.row
		row.Href = href(p)
		list.Rows = append(list.Rows, row)
	}
	return list
}

func (v *View) listHTML(list *report.ProcList) func() (template.HTML, error) {
	return func() (template.HTML, error) { return list.HTML(v.total.Cycles) }
}

// A sheet gathers the sections of a page.
type sheet struct {
	page *report.Page
	err  error
	room int // bytes that are left for documents of flow graphs
}

// add appends a section. The first error sticks.
func (s *sheet) add(id, title string, parts ...func() (template.HTML, error)) {
	var body strings.Builder
	for _, part := range parts {
		if s.err != nil {
			return
		}
		var html template.HTML
		html, s.err = part()
		body.WriteString(string(html))
	}
	s.page.Sections = append(s.page.Sections, report.Section{ID: id, Title: title, Body: template.HTML(body.String())})
}

// text is a paragraph.
func text(format string, args ...any) func() (template.HTML, error) {
	return func() (template.HTML, error) {
		return "<p>" + report.Prose(fmt.Sprintf(format, args...)) + "</p>\n", nil
	}
}

// ranges draws rows; href leads to the code of one by its name, nil is nowhere.
func ranges(caption string, rows []report.Range, href func(name string) string) func() (template.HTML, error) {
	if href != nil {
		for i := range rows {
			rows[i].Href = href(rows[i].Name)
		}
	}
	return func() (template.HTML, error) { return report.RangesHTML(caption, rows) }
}

// more appends a link to the last section.
func (s *sheet) more(href, text string) {
	if s.err == nil {
		last := &s.page.Sections[len(s.page.Sections)-1]
		last.Body += template.HTML(fmt.Sprintf("<p><a href=\"%s\">%s</a></p>\n", template.HTMLEscapeString(href), template.HTMLEscapeString(text)))
	}
}

func table(t *report.Table, caption string) func() (template.HTML, error) {
	return func() (template.HTML, error) { return t.HTML(caption) }
}

// addCauses appends where the cycles of the recording went.
func (v *View) addCauses(s *sheet, href func(cause string) string) {
	s.add("causes", "Causes", text("What the model expects, and the causes of stalls that cannot be ruled out. The strong part of a bar is certain, the faint part possible: ranges overlap where each of several causes may explain a stall. A line marks what the likeliest culprits of all stalls explain. Of a range wider than half of all, only what is certain is drawn: the samples do not tell the rest."),
		ranges(fmt.Sprintf("the recording, %s cycles", report.Count(v.total.Cycles)), report.Causes(&v.total), href))
	m := v.x.CountedMetrics(nil, nil)
	shares := report.NewTopDown(m, &v.total)
	if t, ok := m.TopDown(); ok {
		s.add("topdown", "Top down", text("The top-down method (Yasin, ISPASS 2014) of user code, from the counters of the recording: level 1, and below it as many parts as there are events for."), ranges("", report.TopDown(t), nil), shares.HTML)
	} else {
		s.add("topdown", "Top down", text("Level 1 of the top-down method (Yasin, ISPASS 2014), estimated from samples of time. The strong part of a bar is certain, the faint part possible; of a range wider than half of all, only the certain part is drawn."), ranges("", report.TopDown(v.total.TopDown()), nil), shares.HTML)
	}
}

// maxImages is how many images have causes of their own on a page.
const maxImages = 8

// addImageCauses appends the same by image.
func (v *View) addImageCauses(s *sheet, href func(cause string) string) {
	byCycles := make([]int, len(v.images))
	for i := range byCycles {
		byCycles[i] = i
	}
	slices.SortStableFunc(byCycles, func(a, b int) int { return cmp.Compare(v.images[b].sum.Cycles, v.images[a].sum.Cycles) })
	for k, i := range byCycles {
		im := &v.images[i]
		if k == maxImages || !(im.sum.Cycles > 0) || len(byCycles) == 1 {
			break
		}
		name := v.src.Profile.Images[i].ID.Path
		s.add("image"+strconv.Itoa(i), path.Base(name), ranges(fmt.Sprintf("%s, %s of the cycles", report.Clean(name), report.Percent(im.sum.Cycles/v.total.Cycles)), report.Causes(&im.sum), href))
	}
}

// addConfidence appends how far counts are to be trusted, and what was lost.
func (v *View) addConfidence(s *sheet) {
	if v.waits() {
		v.addLost(s)
		return
	}
	t := report.NewTrust(v.src.Profile)
	conf := report.NewTable(report.Left("confidence"), report.Right("program-wide"), report.Right("within functions"), report.Left("promise"))
	for _, c := range report.Confidences {
		conf.Row(c.String(), report.Share(t.Conf[c], t.Samples), report.Share(t.Within[c], t.Samples), report.Promise(c))
	}
	s.add("confidence", "Confidence",
		text("Used samples by the confidence of the counts where they lie. Program-wide confidence is about a count among all others, that within functions about one among those of its procedure. A factor that all counts share cannot be had from samples of a timer."),
		table(conf, ""))
	v.addLost(s)
	if v.truth == nil {
		return
	}
	a := v.truth
	s.add("accuracy", "Accuracy against the truth",
		table(report.AccuracyTable(a, "samples"), ""),
		table(report.CalibrationTable(&a.BlockProgramWide, "program-wide", "blocks", "samples", report.BySamples), "blocks, program-wide"),
		table(report.CalibrationTable(&a.BlockWithinProc, "within function", "blocks", "samples", report.BySamples), "blocks, within functions"),
		report.ErrorHistogram("error of the counts of instructions, by samples:", &a.InstErrors).HTML,
		report.ErrorHistogram("error of the counts of edges, by executions:", &a.EdgeErrors).HTML)
}

// addLost appends what became of samples.
func (v *View) addLost(s *sheet) {
	p := v.src.Profile
	lost := report.NewTable(report.Left("what became of samples"), report.Right("samples"), report.Right("share"))
	lost.Row("used", report.Integer(p.Samples.Used), report.Share(p.Samples.Used, p.Samples.Total))
	for _, why := range report.MostFirst(p.Samples.Lost) {
		lost.Row("lost: "+string(why), report.Integer(p.Samples.Lost[why]), report.Share(p.Samples.Lost[why], p.Samples.Total))
	}
	s.add("lost", "Samples used and lost", table(lost, ""))
}

// Compare holds the inference to a truth.
func (v *View) Compare(exact *truth.Counts) error {
	var b bytes.Buffer
	if err := infer.WriteDocument(&b, v.src.Profile, nil); err != nil {
		return err
	}
	doc, err := document.Read(&b)
	if err != nil {
		return err
	}
	by := truth.SamplesByAddr{}
	for _, counts := range v.src.Recording.Counts {
		if counts.Event.Name != v.src.Profile.Event.Name {
			continue
		}
		for _, ic := range counts.Images {
			if im := v.src.Found(ic.ID); im != nil {
				by.Add(ic, im)
			}
		}
	}
	v.truth = truth.Compare(doc, exact, by)
	if v.truth.Scale == 0 || v.truth.NoBlock == 1 {
		return fail.Errorf(fail.Nothing, "the recording and the truth have no code in common: were both taken of the same build?")
	}
	return nil
}

// SetSource makes code that is shown from now on have its source, as far as text has it.
func (v *View) SetSource(text *source.Text) {
	v.sources.Lock()
	defer v.sources.Unlock()
	v.source = text
}

// explain returns the explanation of one procedure.
func (v *View) explain(p *viewed) *explain.Explanation { return v.x.Explain(p.ip, p.r) }

// sourceLines returns a reader of the lines of source files that debug information names for a procedure,
// and what says which of them are not shown.
func (v *View) sourceLines(p *viewed) (line func(file string, line int) (string, bool), notes func() []string) {
	v.sources.Lock()
	v.source.Expect(p.ip.Image, p.r.Proc)
	v.sources.Unlock()
	var missing []string
	line = func(file string, line int) (string, bool) {
		v.sources.Lock()
		defer v.sources.Unlock()
		text, ok := v.source.Line(file, line)
		if !ok && !slices.Contains(missing, file) {
			missing = append(missing, file)
		}
		return text, ok
	}
	notes = func() []string {
		v.sources.Lock()
		defer v.sources.Unlock()
		return report.SourceNotes(v.source, missing)
	}
	return line, notes
}

// facts are the figures of a procedure.
func (v *View) facts(p *viewed) func() (template.HTML, error) {
	t := &p.row
	executions := report.Count(t.Executions)
	if t.Conf != infer.None {
		executions += ", program-wide confidence " + t.Conf.String()
	}
	facts := []report.Fact{
		{Name: "image", Value: p.ip.ID.Path},
		{Name: "samples", Value: fmt.Sprintf("%d, %s of all", t.Samples, report.Percent(t.Share))},
		{Name: "executions", Value: executions},
		{Name: "CPI (cycles per instruction)", Value: report.Ratio(t.CPI)},
		{Name: "actual / ideal", Value: report.Ratio(t.Ratio)},
		{Name: "half of its samples lie where within-function confidence is", Value: t.Within.String() + " or better"},
	}
	if n := report.NameOf(p.r.Proc.Name); n.Mangled != "" {
		facts = append(facts, report.Fact{Name: "name to the linker", Value: n.Mangled})
	}
	if !p.r.Proc.Complete {
		facts = append(facts, report.Fact{Name: "incomplete", Value: p.r.Proc.Why})
	}
	return func() (template.HTML, error) { return report.FactsHTML(facts) }
}

// addProc appends all there is of one procedure, in one section if it is brief. In a file that
// holds several, prefix begins the ids of its parts. href leads to others; "" is nowhere.
func (v *View) addProc(s *sheet, p *viewed, prefix string, brief bool, href func(*viewed) string) {
	e := v.explain(p)
	var lines report.Lines // without them, there is no source to name
	if l, err := p.ip.Image.Lines(); err == nil {
		lines = l
	}
	flow := &report.Flow{Of: e, Names: v.names, Prefix: prefix}
	code := &report.Code{Image: p.ip, Of: e, Names: v.names, Lines: lines, Prefix: prefix, Brief: brief, Calls: v.callLinks(p, href),
		Events: report.EventsIn(v.src.Recording, v.src.Profile.Event.Name, report.Subject{Image: p.ip, Result: p.r})}
	var source func(file string, line int) (string, bool)
	notes := func() []string { return nil }
	if v.source != nil {
		source, notes = v.sourceLines(p)
		code.Text = func(file string, line int) string { text, _ := source(file, line); return text }
	}
	causes := ranges("shares of the cycles of "+p.row.Name, report.Causes(&e.Summary), nil)
	hot := &report.HotBlocks{Of: e, Code: code}
	if brief {
		code.Rows = 250
		s.addFlow(flow, p, prefix)
		s.add(p.id, p.row.Name, v.facts(p), causes, hot.HTML, v.calls(p, href), flow.HTML, code.HTML)
		return
	}
	flow.Document = "flow?proc=" + p.id
	s.add("facts", "Figures", v.facts(p))
	s.add("hot", "Hottest blocks", hot.HTML)
	s.add("causes", "Causes", causes)
	s.add("calls", "Callers and callees", v.calls(p, href))
	s.add("flow", "Flow", text("Blocks from top to bottom, with how often each ran, and how sure that is among the counts of this procedure (n, l, m, h: none, low, medium, high confidence). Edges are the wider the more often they ran; those that lead up are dashed. A block leads to its code."), flow.HTML)
	if code.Times = report.NewLineTimes(e, lines); code.Times == nil {
		s.add("code", "Code", text("%s", listingNote(v.x)), panes(code.HTML))
	} else {
		lines := &report.LinePane{Times: code.Times, Text: source, Prefix: prefix, Names: v.names}
		s.page.Broad = true
		s.add("code", "Source and code", text("%s", listingNote(v.x)), panes(lines.HTML, code.HTML))
	}
	if why := notes(); len(why) > 0 {
		s.add("source", "Source", text("%s.", strings.Join(why, ". ")))
	}
}

// addFlow puts the graph of all blocks into a page of one file, if there is room for it.
func (s *sheet) addFlow(flow *report.Flow, p *viewed, prefix string) {
	if s.room <= 0 || s.err != nil {
		return
	}
	doc := report.NewFlowDocument(flow.Of, flow.Names, prefix)
	var b []byte
	if b, s.err = json.Marshal(doc); len(b) > s.room {
		return
	}
	s.room -= len(b)
	flow.Document = "flow-" + p.id
	s.page.Data = append(s.page.Data, report.Datum{Name: flow.Document, Of: json.RawMessage(b)})
}

// panes puts one or two parts beside each other, where there is room.
func panes(parts ...func() (template.HTML, error)) func() (template.HTML, error) {
	return func() (template.HTML, error) {
		class := [...]string{"", "panes", "panes two"}[len(parts)]
		out := template.HTML(`<div class="` + class + "\">\n")
		for _, part := range parts {
			html, err := part()
			if err != nil {
				return "", err
			}
			out += html
		}
		return out + "</div>\n", nil
	}
}

// listingNote says how to read a listing.
func listingNote(x *explain.Explainer) string {
	note := "cyc/exec is the cycles of one execution that the instruction was waited for; least is what the model gives it. " +
		"A bar before an instruction is its stall: the time beyond the least, with what may have caused it, the likeliest first, in cycles."
	if !x.Model().InOrder {
		note += " Samples are where they were taken: as a rule at the instruction after the one that was waited for."
	}
	return note
}

// SetFiles says what was read, by name.
func (v *View) SetFiles(names []string) { v.files = names }

// hottestImage is the index of the image with the most cycles.
func (v *View) hottestImage() int {
	best := 0
	for i := range v.images {
		if v.images[i].sum.Cycles > v.images[best].sum.Cycles {
			best = i
		}
	}
	return best
}

// imageTable lists all images.
func (v *View) imageTable() *report.Table {
	t := report.NewTable(report.Left("image"), report.Right("samples"), report.Right("share"), report.Right("procedures"))
	for i, ip := range v.src.Profile.Images {
		t.Row(ip.ID.Path, report.Integer(v.images[i].samples), report.Share(v.images[i].samples, v.src.Profile.Samples.Total), strconv.Itoa(len(ip.Procs)))
	}
	return t
}
