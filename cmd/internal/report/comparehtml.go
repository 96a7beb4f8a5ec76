package report

import (
	"fmt"
	"html/template"

	"backfeed/infer"
	"backfeed/infer/compare"
	"backfeed/infer/image"
)

// CompareTable is a table of the first n rows of a comparison by procedure; href leads to the blocks of one, "" is nowhere.
func CompareTable(d *compare.Difference, n int, names Style, href func(*compare.Row) string) *Table {
	t := NewTable(Right("before"), Right("now"), Right("difference"), Right("with 95 % confidence").Less(), Left("more than chance"),
		Right("runs before").Less(), Right("runs now").Less(), Right("CPI before").Less(), Right("CPI now").Less(), Confidence("confidence", "the lower one of both runs, program-wide").Less(), Procedures("procedure").Main(), Paths("image").Less())
	for i := range d.Rows[:min(n, len(d.Rows))] {
		r := &d.Rows[i]
		t.Row(Percent(r.Old.Share), Percent(r.New.Share), signedPercent(r.Difference), interval(r.Low, r.High), yesNo(r.Real),
			Count(orNaN(r.Old.Executions)), Count(orNaN(r.New.Executions)), Ratio(orNaN(r.Old.CPI)), Ratio(orNaN(r.New.CPI)), lower(r), NameOf(r.Proc).Or(r.Lost, names), r.Image)
		t.Link(href(r))
	}
	return t
}

// interval prints the ends of a range of differences of shares, to a hundredth of a percent.
func interval(low, high float64) string { return fmt.Sprintf("%+.2f to %+.2f %%", 100*low, 100*high) }

// lower is the lower confidence of the executions of a row; "" if they are known on neither side.
func lower(r *compare.Row) string {
	switch {
	case r.Old.Executions == nil && r.New.Executions == nil:
		return ""
	case r.Old.Executions == nil:
		return r.New.Confidence.String()
	case r.New.Executions == nil:
		return r.Old.Confidence.String()
	}
	return min(r.Old.Confidence, r.New.Confidence).String()
}

// Summary is the one line that says what differs.
func Summary(d *compare.Difference) string { return NewRecordingDiff(d, 0).summary() }

// A blockSide is one of two blocks beside each other.
type blockSide struct {
	There                   bool
	Addr, Href, Share, Runs string
	CPI                     string
	Conf                    infer.Confidence
	Known                   bool // how often it ran
	Insts                   []string
	More                    int // instructions
	start                   image.Addr
}

const (
	maxBlockPairs = 100
	maxBlockInsts = 40 // of a block
)

// BlocksHTML puts the blocks of a procedure before and now beside each other, in the order of d. href leads to the
// code of a block now.
func BlocksHTML(d *compare.Difference, href func(a image.Addr) string) (template.HTML, error) {
	type pair struct {
		Sides      [2]blockSide
		Difference string
		Interval   string
		Real       bool
		Tie        string
	}
	var pairs []pair
	for i := range d.Rows[:min(maxBlockPairs, len(d.Rows))] {
		r := &d.Rows[i]
		p := pair{Difference: signedPercent(r.Difference), Interval: interval(r.Low, r.High), Real: r.Real, Tie: r.Tie}
		if r.Moved {
			p.Tie += ", moved"
		}
		for k, part := range []*compare.Part{&r.Old, &r.New} {
			p.Sides[k] = newBlockSide(part, r.Images[k], r.Procs[k])
			if k == 1 && p.Sides[k].There {
				p.Sides[k].Href = href(p.Sides[k].start)
			}
		}
		pairs = append(pairs, p)
	}
	return markup("blockpairs.tmpl", map[string]any{"Pairs": pairs, "More": len(d.Rows) - len(pairs)})
}

func newBlockSide(p *compare.Part, ip *infer.ImageProfile, r *infer.Result) blockSide {
	if p.Addr == nil || ip == nil || r == nil {
		return blockSide{}
	}
	s := blockSide{There: true, Addr: hex(*p.Addr), start: *p.Addr, Share: Percent(p.Share), Runs: Count(orNaN(p.Executions)), CPI: Ratio(orNaN(p.CPI)), Conf: p.Confidence, Known: p.Executions != nil}
	for b := range r.Proc.Blocks {
		if r.Proc.Blocks[b].Start != *p.Addr {
			continue
		}
		for n, in := range ip.Image.Insts(&r.Proc.Blocks[b]) {
			if n == maxBlockInsts {
				s.More = r.Proc.Blocks[b].Insts - n
				break
			}
			s.Insts = append(s.Insts, ip.Image.Text(in.Addr))
		}
	}
	return s
}

// DifferenceFacts are the figures of one procedure before and now.
func DifferenceFacts(r *compare.Row) []Fact {
	both := func(f func(p *compare.Part) string) string { return f(&r.Old) + " before, " + f(&r.New) + " now" }
	runs := func(p *compare.Part) string {
		if p.Executions == nil {
			return "not known"
		}
		return fmt.Sprintf("%s (%s confidence)", Count(*p.Executions), p.Confidence)
	}
	return []Fact{
		{"share of the samples", both(func(p *compare.Part) string { return Percent(p.Share) })},
		{"difference", fmt.Sprintf("%s (%s, with 95 %% confidence)", signedPercent(r.Difference), interval(r.Low, r.High))},
		{"more than chance", yesNo(r.Real)},
		{"executions", both(runs)},
		{"CPI", both(func(p *compare.Part) string { return Ratio(orNaN(p.CPI)) })},
	}
}
