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

	Document string // that a script draws instead: a NewFlowDocument; "" is none
}

// A FlowDocument is the flow graph of a procedure with all blocks, as scripts draw it. Places are
// in pixels.
type FlowDocument struct {
	Schema    string        `json:"schema"`
	Procedure string        `json:"procedure"`
	Width     int           `json:"width"`
	Height    int           `json:"height"`
	Hottest   int           `json:"hottest"` // index into Blocks; -1 if no block has time
	Blocks    []FlowBlock   `json:"blocks"`
	Edges     []FlowDrawing `json:"edges"`
}

// A FlowBlock is a block with its place.
type FlowBlock struct {
	ID     string   `json:"id"` // of its code in the page
	X      int      `json:"x"`
	Y      int      `json:"y"`
	Width  int      `json:"width"`
	Height int      `json:"height"`
	Class  int      `json:"class"` // of the time it took, on the scale of heat
	Lines  []string `json:"lines"`
}

// A FlowDrawing is an edge with its path, as SVG has paths.
type FlowDrawing struct {
	From  int     `json:"from"` // index into Blocks
	To    int     `json:"to"`
	Path  string  `json:"path"`
	Arrow string  `json:"arrow"`
	Wide  float64 `json:"width"` // pixels
	Back  bool    `json:"back,omitempty"`
	Long  bool    `json:"long,omitempty"` // behind the blocks
	Label string  `json:"label"`
	X     int     `json:"x"` // of Label
	Y     int     `json:"y"`
}

// NewFlowDocument places all blocks of a procedure; prefix begins their ids, as it does in Flow.
func NewFlowDocument(of *explain.Explanation, names Style, prefix string) *FlowDocument {
	f := &Flow{Of: of, Blocks: len(of.Result.Proc.Blocks), Names: names, Prefix: prefix}
	nodes, _ := f.nodes()
	edges := f.edges(nodes)
	doc := &FlowDocument{Schema: "backfeed.flow/1", Procedure: names.NameOf(of.Result.Proc.Name), Hottest: -1, Blocks: []FlowBlock{}, Edges: []FlowDrawing{}}
	doc.Width, doc.Height = place(nodes, edges)
	times := blockTimes(of)
	for i := range nodes {
		n := &nodes[i]
		if c := times[n.block].cycles; c > 0 && (doc.Hottest < 0 || c > times[nodes[doc.Hottest].block].cycles) {
			doc.Hottest = i
		}
		doc.Blocks = append(doc.Blocks, FlowBlock{n.Block, n.X, n.Y, nodeWidth, nodeHeight, n.Class, n.Lines})
	}
	most := mostTaken(edges)
	for i := range edges {
		e := &edges[i]
		doc.Edges = append(doc.Edges, FlowDrawing{e.from, e.to, e.D, e.Arrow, math.Round(10*edgeWidth(e.n, most)) / 10, e.Back, e.Long, e.Label, e.X, e.Y})
	}
	return doc
}

// mostTaken is how often the edge ran that ran most.
func mostTaken(edges []flowEdge) float64 {
	most := 0.0
	for i := range edges {
		most = max(most, edges[i].n)
	}
	return most
}

// edgeWidth is how wide an edge is drawn, in pixels.
func edgeWidth(n, most float64) float64 {
	if !(most > 0) {
		return 1
	}
	return 1 + 2.5*math.Sqrt(n/most)
}

const (
	maxDrawn   = 48 // blocks; more are no picture that anybody reads
	maxAbreast = 8  // blocks in one layer, of a graph that is seen whole
	maxSpan    = 6  // layers that an edge passes with a place in each, of one that is not
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
	Long       bool // drawn behind nodes
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
	most := mostTaken(edges)
	for _, e := range edges {
		e.Width = strconv.FormatFloat(edgeWidth(e.n, most), 'f', 1, 64)
		draw = append(draw, e)
	}
	return markup("flow.tmpl", map[string]any{
		"Name": f.Names.NameOf(f.Of.Result.Proc.Name), "Nodes": nodes, "Edges": draw, "Width": width, "Height": height, "Note": note,
		"W": nodeWidth, "H": nodeHeight, "Document": f.Document,
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
