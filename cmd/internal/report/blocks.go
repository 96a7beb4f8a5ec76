package report

import (
	"cmp"
	"html/template"
	"slices"

	"backfeed/infer"
	"backfeed/infer/explain"
)

// A blockTime is where the time of one block went.
type blockTime struct {
	cycles float64 // in all executions
	insts  int
	first  int // index of its first instruction into Explanation.Insts
	causes map[explain.Cause]float64
}

// cause returns what most of its stalls are likeliest to be.
func (b *blockTime) cause() (explain.Cause, bool) { return foremost(b.causes) }

// cpi returns its cycles per instruction, where they are known.
func (b *blockTime) cpi(n float64) (float64, bool) {
	if ran := n * float64(b.insts); ran > 0 && b.cycles > 0 {
		return b.cycles / ran, true
	}
	return 0, false
}

// blockTimes sums e up by block.
func blockTimes(e *explain.Explanation) []blockTime {
	blocks := make([]blockTime, len(e.Result.Proc.Blocks))
	for i := range e.Insts {
		t := &e.Insts[i]
		b := &blocks[t.Block]
		if b.insts == 0 {
			b.first = i
		}
		b.cycles += t.Total
		b.insts++
		if len(t.Stall.Culprits) > 0 {
			if b.causes == nil {
				b.causes = map[explain.Cause]float64{}
			}
			b.causes[t.Stall.Culprits[0].Cause] += t.Stall.Culprits[0].Most * t.N
		}
	}
	return blocks
}

// HotBlocks lists the blocks of a procedure that most of its time went to, each with a link
// to its code.
type HotBlocks struct {
	Of    *explain.Explanation
	Code  *Code // where their code is
	Limit int   // blocks; 0 is maxHot
}

// maxHot is how many blocks are listed: what the eye takes in, and on every program measured
// more than 80 % of the time of its hottest procedure, but for interpreters.
const maxHot = 12

// HTML returns the list as markup.
func (h *HotBlocks) HTML() (template.HTML, error) {
	type row struct {
		Rank                           int
		Href, Block, Addr, Share, Sum  string
		Class                          int
		Runs, CPI, Cause, Source, Line string
		Within                         infer.Confidence
	}
	r := h.Of.Result
	blocks := blockTimes(h.Of)
	order := make([]int, 0, len(blocks))
	for b := range blocks {
		if blocks[b].cycles > 0 {
			order = append(order, b)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(blocks[b].cycles, blocks[a].cycles) })
	timed := len(order)
	order = order[:min(len(order), cmp.Or(h.Limit, maxHot))]
	var rows []row
	sum := 0.0
	for k, b := range order {
		t, start := &blocks[b], r.Proc.Blocks[b].Start
		sum += t.cycles
		id := blockID(h.Code.Prefix, start)
		out := row{Rank: k + 1, Href: "#" + id, Block: id, Addr: hex(start), Share: share(t.cycles, h.Of.Cycles), Sum: share(sum, h.Of.Cycles),
			Class: timeClass(t.cycles / max(h.Of.Cycles, 1e-300)), Runs: "-", CPI: "-", Cause: "-", Within: r.Block[b].Within}
		if r.Block[b].Conf != infer.None {
			out.Runs = Count(r.Block[b].N)
		}
		if cpi, ok := t.cpi(r.Block[b].N); ok {
			out.CPI = Ratio(cpi)
		}
		if c, ok := t.cause(); ok {
			out.Cause = c.String()
		}
		hottest := t.first
		for i := t.first; i < t.first+t.insts; i++ {
			if h.Of.Insts[i].Total > h.Of.Insts[hottest].Total {
				hottest = i
			}
		}
		out.Source, out.Line = h.Code.source(h.Of.Insts[hottest].Addr)
		rows = append(rows, out)
	}
	return markup("blocks.tmpl", map[string]any{"Rows": rows, "Timed": timed, "Lines": h.Code.Lines != nil, "Blocks": len(blocks), "Name": h.Code.Names.NameOf(r.Proc.Name)})
}
