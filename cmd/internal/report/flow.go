package report

import (
	"cmp"
	"fmt"
	"html/template"
	"math"
	"slices"
	"strconv"
	"strings"

	"backfeed/infer"
	"backfeed/infer/explain"
)

// A Flow draws the flow graph of a procedure: its blocks from top to bottom, as control
// flows, with how often they and the edges between them ran. Of a large procedure it
// draws the blocks that time was spent in.
type Flow struct {
	Of     *explain.Explanation
	Prefix string // of ids and links, as that of the Code
	Blocks int    // at most so many; 0 is maxDrawn
	Names  Style
}

const (
	maxDrawn   = 48 // blocks; more are no picture that anybody reads
	maxAbreast = 8  // blocks in one layer
	nodeWidth  = 196
	nodeHeight = 58
	nodeGap    = 14
	dummyWidth = 14 // what an edge takes that passes a layer
	layerGap   = 46
)

// A drawn block.
type flowNode struct {
	X, Y      int
	Block     string // id of its code
	Title     string
	Lines     []string
	Class     int
	block     int
	outN, inN float64 // executions of edges that are not drawn
}

type flowEdge struct {
	D, Arrow   string // paths
	Label      string
	X, Y       int // of the label
	Width      string
	Back       bool // it leads up
	Through    bool // blocks that are not drawn
	Title      string
	from, to   int // nodes
	n          float64
	fromX, toX float64 // ports

	fromEnds, toEnds int // how many edges share the sides of the nodes
}

// HTML returns the picture as markup, with a sentence that says what it leaves out.
func (f *Flow) HTML() (template.HTML, error) {
	nodes, note := f.nodes()
	edges := f.edges(nodes)
	width, height := place(nodes, edges)
	draw := make([]flowEdge, 0, len(edges))
	most := 0.0
	for _, e := range edges {
		most = max(most, e.n)
	}
	for _, e := range edges {
		w := 1.0
		if most > 0 {
			w += 2.5 * math.Sqrt(e.n/most)
		}
		e.Width = strconv.FormatFloat(w, 'f', 1, 64)
		draw = append(draw, e)
	}
	return markup("flow.tmpl", map[string]any{
		"Name": f.Names.NameOf(f.Of.Result.Proc.Name), "Nodes": nodes, "Edges": draw, "Width": width, "Height": height, "Note": note,
		"W": nodeWidth, "H": nodeHeight,
	})
}

// nodes chooses the blocks to draw, the entry among them, and says what is left out.
func (f *Flow) nodes() ([]flowNode, string) {
	r := f.Of.Result
	blocks := blockTimes(f.Of)
	order := make([]int, len(blocks))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Or(-cmp.Compare(btoi(a == 0), btoi(b == 0)), cmp.Compare(blocks[b].cycles, blocks[a].cycles), cmp.Compare(r.Block[b].N, r.Block[a].N))
	})
	limit := cmp.Or(f.Blocks, maxDrawn)
	all := len(order)
	order = order[:min(len(order), limit)]
	if all > limit { // of a procedure that is drawn in part, what hardly ran is left out too
		for len(order) > 1 && blocks[order[len(order)-1]].cycles < coldShare*f.Of.Cycles {
			order = order[:len(order)-1]
		}
	}
	slices.Sort(order)
	var nodes []flowNode
	shown := 0.0
	for _, b := range order {
		shown += blocks[b].cycles
		pb := &r.Proc.Blocks[b]
		n := flowNode{block: b, Block: blockID(f.Prefix, pb.Start), Class: timeClass(blocks[b].cycles / max(f.Of.Cycles, 1e-300))}
		n.Lines = append(n.Lines, fmt.Sprintf("%s · %d inst", hex(pb.Start), blocks[b].insts))
		ran := "ran -"
		if r.Block[b].Conf != infer.None {
			ran = fmt.Sprintf("ran %s %s", Count(r.Block[b].N), r.Block[b].Within.String()[:1])
		}
		n.Lines = append(n.Lines, fmt.Sprintf("%s · %s of time", ran, share(blocks[b].cycles, f.Of.Cycles)))
		third := ""
		if cpi, ok := blocks[b].cpi(r.Block[b].N); ok {
			third = "CPI " + Ratio(cpi)
			if c, ok := blocks[b].cause(); ok {
				third += " · " + c.String()
			}
		}
		n.Lines = append(n.Lines, third)
		n.Title = strings.Join(n.Lines, ", ")
		nodes = append(nodes, n)
	}
	note := ""
	if len(nodes) < all {
		note = fmt.Sprintf("%d of %d blocks are drawn, with %s of the procedure's time; dotted edges lead through others.", len(nodes), all, share(shown, f.Of.Cycles))
	}
	return nodes, note
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

// foremost returns the cause with the most cycles.
func foremost(m map[explain.Cause]float64) (best explain.Cause, ok bool) {
	n := 0.0
	for _, c := range explain.Causes() {
		if m[c] > n {
			best, n, ok = c, m[c], true
		}
	}
	return best, ok
}

// edges returns the edges between nodes. One to a block that is not drawn is followed,
// as control mostly does, until it comes to one that is.
func (f *Flow) edges(nodes []flowNode) []flowEdge {
	r := f.Of.Result
	at := map[int]int{}
	for i, n := range nodes {
		at[n.block] = i
	}
	name := func(node int) string { return hex(r.Proc.Blocks[nodes[node].block].Start) }
	var edges []flowEdge
	through := map[[2]int]int{} // index into edges, by nodes
	for i, e := range r.Proc.Edges {
		from, fok := at[e.From]
		to, tok := at[e.To]
		n := r.Edge[i].N
		switch {
		case fok && tok:
			edges = append(edges, flowEdge{from: from, to: to, n: n, Label: Count(n), Title: fmt.Sprintf("%s to %s: %s, %s times", name(from), name(to), e.Kind, Count(n))})
		case fok:
			to, ok := f.follow(e.To, at)
			if !ok || !(n > 0) {
				nodes[from].outN += n
				continue
			}
			key := [2]int{from, to}
			k, seen := through[key]
			if !seen {
				k = len(edges)
				through[key] = k
				edges = append(edges, flowEdge{from: from, to: to, Through: true})
			}
			edges[k].n += n
			edges[k].Label = Count(edges[k].n)
			edges[k].Title = fmt.Sprintf("%s to %s through blocks that are not drawn: %s times at most", name(from), name(to), Count(edges[k].n))
			nodes[to].inN -= n
		case tok:
			nodes[to].inN += n
		}
	}
	for i := range nodes {
		// What is less than a hundredth of a block's executions is no news.
		nd, least := &nodes[i], 0.01*r.Block[nodes[i].block].N
		var parts []string
		if nd.inN > least {
			parts = append(parts, "in "+Count(math.Round(nd.inN)))
		}
		if nd.outN > least {
			parts = append(parts, "out "+Count(math.Round(nd.outN)))
		}
		if len(parts) > 0 {
			nd.Lines = append(nd.Lines, "others: "+strings.Join(parts, ", "))
		}
	}
	return edges
}

// maxFollowed is how many blocks an edge is followed through.
const maxFollowed = 64

// follow goes on from a block that is not drawn, always along the edge that ran most, to the
// first that is.
func (f *Flow) follow(b int, at map[int]int) (node int, ok bool) {
	r := f.Of.Result
	for range maxFollowed {
		if node, ok := at[b]; ok {
			return node, true
		}
		next, most := -1, 0.0
		for _, e := range r.Proc.Blocks[b].Out {
			if n := r.Edge[e].N; n > most {
				next, most = r.Proc.Edges[e].To, n
			}
		}
		if next < 0 {
			break
		}
		b = next
	}
	return 0, false
}
