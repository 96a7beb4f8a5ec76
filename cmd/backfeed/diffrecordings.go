package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"os"
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/document"
	"backfeed/infer/image"
	"backfeed/infer/stale"
	"backfeed/sample"
	"backfeed/sample/store"
)

// isRecording reports whether path is samples that no consumer reads as a profile: a
// recording of backfeed, a perf.data file or a store. A pprof profile may be either.
func isRecording(path string) bool {
	if store.Is(path) {
		return true
	}
	f, err := os.Open(path)
	if err != nil {
		return false // what is wrong, the reader will say
	}
	defer f.Close()
	head := make([]byte, sample.SniffLen)
	n, _ := io.ReadFull(f, head)
	switch sample.Sniff(head[:n]) {
	case sample.FormatBackfeed, sample.FormatPerf, sample.FormatPerfPipe:
		return true
	}
	return false
}

// A recordingDiff is what diff prints of recordings as JSON.
type recordingDiff struct {
	Schema  string    `json:"schema"`
	Event   string    `json:"event"`
	Samples [2]uint64 `json:"samples"` // before, after
	By      string    `json:"by"`      // "procedure" or "block"
	Blocks  *blockSum `json:"blocks,omitempty"`
	Rows    []diffRow `json:"items"`

	differs int
	rows    []diffRow // before any were left out
}

// A blockSum counts the blocks of the procedures that are listed by block.
type blockSum struct {
	Tied  int `json:"tied"`
	Moved int `json:"moved"` // of those tied: elsewhere in the procedure
	Gone  int `json:"gone"`
	New   int `json:"new"`
}

// A diffRow is one procedure, one block, or samples that have neither.
type diffRow struct {
	Difference float64  `json:"difference"` // of the shares
	Old        diffSide `json:"old"`
	New        diffSide `json:"new"`
	Z          float64  `json:"z"`
	P          float64  `json:"p"`
	Real       bool     `json:"real"` // chance does not explain the difference
	Image      string   `json:"image,omitempty"`
	report.Name
	Tie   string `json:"tie,omitempty"` // of a block: what ties the two
	Moved bool   `json:"moved,omitempty"`
	Lost  string `json:"lost,omitempty"`
}

// A diffSide is what one recording says of it.
type diffSide struct {
	Samples    uint64         `json:"samples"`
	Share      float64        `json:"share"`
	Executions *float64       `json:"executions,omitempty"` // nil is unknown
	CPI        *float64       `json:"cpi,omitempty"`        // cycles per instruction; nil is unknown
	Confidence string         `json:"confidence,omitempty"` // of the executions; CPI has the same
	Addr       *document.Addr `json:"addr,omitempty"`       // of a block
}

// diffFlags are those of diff that are about recordings.
type diffFlags struct {
	by    *choice
	proc  *string
	lines *int
	opt   *input.Options
}

func (c *cli) diffFlags() diffFlags {
	c.names()
	flags := diffFlags{
		by:    c.choice("by", "of recordings, what to compare", "procedure", "block"),
		proc:  c.fs.String("proc", "", "of recordings, compare the blocks of procedure `name`"),
		lines: c.fs.IntP("lines", "n", 20, "of recordings, print at most `N` lines; 0 prints all"),
		opt:   c.inputs(),
	}
	c.inference(flags.opt)
	return flags
}

// diffRecordings compares two recordings.
func (c *cli) diffRecordings(before, after string, flags diffFlags, format *choice) error {
	if err := c.selects([]string{before, after}); err != nil {
		return err
	}
	var sides [2]*input.Session
	opt := *flags.opt
	for i, path := range []string{before, after} {
		src, err := c.inferredAlso([]string{path}, &opt)
		if err != nil {
			return err
		}
		defer src.Close()
		sides[i] = src
		opt.Infer.Event = src.Profile.Event.Name
	}
	if (report.Exact(sides[0].Recording.Exact(nil)) == "") != (report.Exact(sides[1].Recording.Exact(nil)) == "") {
		c.warn("only one of %s and %s has observed counts: not all differences between their executions are the program's", before, after)
	}
	doc := newRecordingDiff(sides[0], sides[1], flags)
	if *flags.proc != "" && len(doc.Rows) == 0 {
		return fail.Errorf(fail.Nothing, "diff: no samples of a procedure %s", *flags.proc)
	}
	if *flags.lines > 0 && len(doc.Rows) > *flags.lines {
		doc.Rows = doc.Rows[:*flags.lines]
	}
	return c.print("-", format, doc, doc.Rows, doc.text)
}

// A differ compares two inferences.
type differ struct {
	doc   *recordingDiff
	sides [2]*input.Session
	time  [2]*infer.Explainer // nil where samples do not tell time
	proc  string
}

func newRecordingDiff(before, after *input.Session, flags diffFlags) *recordingDiff {
	d := &differ{sides: [2]*input.Session{before, after}, proc: *flags.proc}
	d.doc = &recordingDiff{Schema: "backfeed.recordings-diff/2", Event: before.Profile.Event.Name, By: flags.by.value, Rows: []diffRow{}}
	if d.proc != "" || d.doc.By == "block" {
		d.doc.By, d.doc.Blocks = "block", &blockSum{}
	}
	for i, s := range d.sides {
		d.doc.Samples[i] = s.Profile.Samples.Total
		if x, err := infer.NewExplainer(s.Profile, s.Recording); err == nil {
			d.time[i] = x
		}
	}
	for _, pair := range d.images() {
		d.image(pair[0], pair[1])
	}
	if d.proc == "" {
		d.lost()
	}
	d.judge()
	return d.doc
}

// images pairs the images of the two: those of the new one in order, then those of
// the old one that have no partner.
func (d *differ) images() [][2]*infer.ImageProfile {
	old, new := d.sides[0].Profile.Images, d.sides[1].Profile.Images
	names := imageNames([]*set{{rec: d.sides[0].Recording}, {rec: d.sides[1].Recording}})
	name := func(ip *infer.ImageProfile) string {
		if n, ok := names[ip.ID]; ok {
			return n
		}
		return ip.ID.Path
	}
	paired := map[*infer.ImageProfile]bool{}
	var pairs [][2]*infer.ImageProfile
	for _, n := range new {
		pair := [2]*infer.ImageProfile{nil, n}
		i := slices.IndexFunc(old, func(o *infer.ImageProfile) bool { return o.ID.Key() == n.ID.Key() })
		if i < 0 {
			i = slices.IndexFunc(old, func(o *infer.ImageProfile) bool { return name(o) == name(n) && o.Image.Arch == n.Image.Arch })
		}
		if i >= 0 && !paired[old[i]] {
			pair[0] = old[i]
			paired[old[i]] = true
		}
		pairs = append(pairs, pair)
	}
	for _, o := range old {
		if !paired[o] {
			pairs = append(pairs, [2]*infer.ImageProfile{o, nil})
		}
	}
	return pairs
}

// image adds rows for the procedures of an image.
func (d *differ) image(old, new *infer.ImageProfile) {
	var b *stale.Builds
	path := ""
	if new != nil {
		path = new.ID.Path
	} else {
		path = old.ID.Path
	}
	if old != nil && new != nil && old.ID.Key() != new.ID.Key() {
		b = stale.NewBuilds(old.Image, new.Image)
	}
	for _, p := range infer.PairProcs(old, new, b) {
		r := p.New
		if r == nil {
			r = p.Old
		}
		row := diffRow{Image: path, Name: report.NameOf(r.Proc.Name)}
		samples := uint64(0)
		for _, r := range []*infer.Result{p.Old, p.New} {
			if r != nil {
				samples += r.Samples
			}
		}
		switch {
		case samples == 0 || d.proc != "" && !(p.New != nil && report.IsNamed(p.New.Proc.Name, d.proc) || p.Old != nil && report.IsNamed(p.Old.Proc.Name, d.proc)):
		case d.doc.By == "block":
			d.blocks([2]*infer.ImageProfile{old, new}, p, b, row)
		default:
			row.Old, row.New = d.procSide(0, p.Old), d.procSide(1, p.New)
			d.doc.Rows = append(d.doc.Rows, row)
		}
	}
}

func (d *differ) procSide(i int, r *infer.Result) diffSide {
	if r == nil {
		return diffSide{}
	}
	cycles := 0.0
	if d.time[i] != nil {
		cycles = float64(r.Samples) * d.time[i].CyclesPerSample()
	}
	return sideOf(r.Samples, r.Entries, cycles, r.Instructions())
}

// sideOf is what a recording says of code that executed so many instructions in so
// many cycles.
func sideOf(samples uint64, f infer.Freq, cycles, insts float64) diffSide {
	s := diffSide{Samples: samples}
	if f.Conf != infer.None {
		s.Executions, s.Confidence = &f.N, f.Conf.String()
	}
	if cycles > 0 && insts > 0 {
		cpi := cycles / insts
		s.CPI = &cpi
	}
	return s
}

// blocks adds rows for the blocks of a procedure: all of the one that was asked for,
// of others those that have samples.
func (d *differ) blocks(ips [2]*infer.ImageProfile, p infer.ProcPair, b *stale.Builds, row diffRow) {
	cycles := [2][]float64{d.blockCycles(0, ips[0], p.Old), d.blockCycles(1, ips[1], p.New)}
	at := map[int]int{} // by block of the new procedure: index into Rows
	for _, pair := range p.PairBlocks(b) {
		if i, ok := at[pair.New]; ok && pair.New >= 0 { // another part of it in the old build
			d.doc.Rows[i].Old.Samples += p.Old.BlockSamples[pair.Old]
			continue
		}
		row := row
		if pair.Old >= 0 {
			row.Old = blockSide(p.Old, pair.Old, cycles[0])
		}
		if pair.New >= 0 {
			row.New = blockSide(p.New, pair.New, cycles[1])
		}
		row.Tie, row.Moved = d.tie(p, pair)
		if d.proc == "" && row.Old.Samples+row.New.Samples == 0 {
			continue
		}
		if pair.New >= 0 {
			at[pair.New] = len(d.doc.Rows)
		}
		d.doc.Rows = append(d.doc.Rows, row)
	}
}

// tie says in a word what ties a pair of blocks, and counts it.
func (d *differ) tie(p infer.ProcPair, pair infer.BlockPair) (tie string, moved bool) {
	n := d.doc.Blocks
	switch {
	case (p.Old == nil || p.New == nil) && p.Both:
		return "not seen", false // with its whole procedure, on one of the sides
	case pair.Old < 0:
		n.New++
		return "new", false
	case pair.New < 0:
		n.Gone++
		return "gone", false
	}
	n.Tied++
	if moved = !infer.SamePlace(p.Old.Proc, pair.Old, p.New.Proc, pair.New); moved {
		n.Moved++
	}
	return pair.Tie.String(), moved
}

// blockCycles returns the cycles of each block, where samples tell them: attributed to
// what was waited for, which is often in the block before the one that was sampled.
func (d *differ) blockCycles(i int, ip *infer.ImageProfile, r *infer.Result) []float64 {
	if r == nil || d.time[i] == nil {
		return nil
	}
	cycles := make([]float64, len(r.Proc.Blocks))
	for _, in := range d.time[i].Explain(ip, r).Insts {
		cycles[in.Block] += in.Total
	}
	return cycles
}

func blockSide(r *infer.Result, b int, cycles []float64) diffSide {
	n := 0.0
	if cycles != nil {
		n = cycles[b]
	}
	s := sideOf(r.BlockSamples[b], r.Block[b], n, r.Block[b].N*float64(r.Proc.Blocks[b].Insts))
	a := document.Addr(r.Proc.Blocks[b].Start)
	s.Addr = &a
	return s
}

// lost adds rows for samples that have no procedure, by reason or by name.
func (d *differ) lost() {
	at := map[thing]int{}
	for i, s := range d.sides {
		for _, r := range procRows(&infer.Profile{Event: s.Profile.Event, Samples: s.Profile.Samples}, s.Named) {
			t := thing{image: r.Image, proc: r.Linker(), lost: r.Lost}
			k, ok := at[t]
			if !ok {
				k = len(d.doc.Rows)
				at[t] = k
				d.doc.Rows = append(d.doc.Rows, diffRow{Image: r.Image, Name: r.Name, Lost: r.Lost})
			}
			if i == 0 {
				d.doc.Rows[k].Old.Samples += r.Samples
			} else {
				d.doc.Rows[k].New.Samples += r.Samples
			}
		}
	}
}

// judge finds out which differences are more than chance, and sorts rows: those
// first, the largest first.
func (d *differ) judge() {
	rows := d.doc.Rows
	var pairs [][2]uint64
	for i := range rows {
		pairs = append(pairs, [2]uint64{rows[i].Old.Samples, rows[i].New.Samples})
	}
	for i, ch := range infer.Changes(pairs, d.doc.Samples) {
		r := &rows[i]
		r.Old.Share = float64(ch.Old) / float64(d.doc.Samples[0])
		r.New.Share = float64(ch.New) / float64(d.doc.Samples[1])
		r.Difference, r.Z, r.P, r.Real = r.New.Share-r.Old.Share, ch.Z, ch.P, ch.Real
		if ch.Real {
			d.doc.differs++
		}
	}
	addr := func(r *diffRow) image.Addr {
		if r.New.Addr != nil {
			return image.Addr(*r.New.Addr)
		}
		if r.Old.Addr != nil {
			return image.Addr(*r.Old.Addr)
		}
		return 0
	}
	d.doc.rows = rows
	slices.SortStableFunc(rows, func(a, b diffRow) int {
		if a.Real != b.Real {
			if a.Real {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(math.Abs(b.Difference), math.Abs(a.Difference)), cmp.Compare(a.Image, b.Image),
			cmp.Compare(a.Linker(), b.Linker()), cmp.Compare(addr(&a), addr(&b)), cmp.Compare(a.Lost, b.Lost))
	})
}

// summary is the one line that says it all.
func (doc *recordingDiff) summary() string {
	what := map[string]string{"procedure": "procedures", "block": "blocks"}[doc.By]
	s := fmt.Sprintf("%s samples of %s before, %s after; of %d %s, %d differ by more than chance",
		report.Integer(doc.Samples[0]), doc.Event, report.Integer(doc.Samples[1]), len(doc.rows), what, doc.differs)
	if b := doc.Blocks; b != nil {
		s += fmt.Sprintf("; blocks in both: %d, of them moved: %d; gone: %d, new: %d", b.Tied, b.Moved, b.Gone, b.New)
	}
	return s
}

func (doc *recordingDiff) text(w io.Writer, style report.Style) error {
	columns := []report.Column{report.Right("old share"), report.Right("new share"), report.Right("difference"), report.Right("z").Drop(3), report.Left("real"),
		report.Right("old runs").Drop(2), report.Right("new runs").Drop(2), report.Right("old CPI").Drop(5), report.Right("new CPI").Drop(5), report.Left("conf").Drop(1)}
	if doc.By == "block" {
		columns = append(columns, report.Left("old block"), report.Left("new block"), report.Left("tie").Drop(4))
	} else {
		columns = append(columns, report.Paths("image").Drop(6))
	}
	t := report.NewTable(append(columns, report.Procedures("procedure").Main())...)
	for _, r := range doc.Rows {
		cells := []string{report.Percent(r.Old.Share), report.Percent(r.New.Share), signedPercent(r.Difference), fmt.Sprintf("%.1f", r.Z), yesNo(r.Real),
			report.Count(orNaN(r.Old.Executions)), report.Count(orNaN(r.New.Executions)), report.Count(orNaN(r.Old.CPI)), report.Count(orNaN(r.New.CPI)),
			letters(r.Old.Confidence, r.New.Confidence)}
		if doc.By == "block" {
			tie := r.Tie
			if r.Moved {
				tie += ", moved"
			}
			cells = append(cells, addrOrDash(r.Old.Addr), addrOrDash(r.New.Addr), tie)
		} else {
			cells = append(cells, r.Image)
		}
		t.Row(append(cells, r.Or(r.Lost, style))...)
	}
	if err := t.Print(w, style); err != nil {
		return err
	}
	_, err := report.Fprintf(w, style, "\n%s\n", doc.summary())
	return err
}

func yesNo(b bool) string {
	if b {
		return "yes"
	}
	return "no"
}

// signedPercent is report.Percent of a difference.
func signedPercent(d float64) string {
	switch {
	case d > 0:
		return "+" + report.Percent(d)
	case d < 0:
		return "-" + report.Percent(-d)
	}
	return "0.0%"
}

// orNaN returns a number that may be unknown.
func orNaN(n *float64) float64 {
	if n == nil {
		return math.NaN()
	}
	return *n
}

// letters are two confidences in a narrow column.
func letters(a, b string) string {
	letter := func(s string) string {
		if s == "" {
			return "-"
		}
		return s[:1]
	}
	return letter(a) + "/" + letter(b)
}

func addrOrDash(a *document.Addr) string {
	if a == nil {
		return "-"
	}
	return fmt.Sprintf("%#x", uint64(*a))
}
