package report

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A cell is what a layer holds: a node, or an edge that passes.
type cell struct {
	node     int // -1 for an edge
	layer    int
	width    float64
	x        float64 // middle
	up, down []int   // neighbours in the layers above and below
}

// place assigns nodes and edges their places, as Sugiyama, Tagawa and Toda do ("Methods for
// Visual Understanding of Hierarchical System Structures", 1981): edges that lead
// back are turned round, nodes come in layers, edges that pass a layer have a place in
// it, neighbours' means order each layer, and last everything is moved as near to its
// neighbours as the order allows. It returns the size of the picture.
//
// Of a picture that nobody sees whole, an edge over many layers has no place in them: it is
// drawn behind the nodes. The graph of SQLite's sqlite3VdbeExec, of 2,361 blocks and 3,705 edges,
// took 163 s with such places, and takes 2 s without.
func place(nodes []flowNode, edges []flowEdge) (width, height int) {
	markBack(len(nodes), edges)
	layer := layers(len(nodes), edges, abreast(len(nodes)))
	cells := make([]cell, len(nodes))
	for i := range nodes {
		cells[i] = cell{node: i, layer: layer[i], width: nodeWidth}
	}
	chains := make([][]int, len(edges)) // cells that an edge goes through, downwards
	for i := range edges {
		top, bottom := downwards(&edges[i])
		if top == bottom {
			continue
		}
		if len(nodes) > maxDrawn && layer[bottom]-layer[top] > maxSpan {
			edges[i].Long, chains[i] = true, []int{top, bottom}
			continue
		}
		chain := []int{top}
		for l := layer[top] + 1; l < layer[bottom]; l++ {
			cells = append(cells, cell{node: -1, layer: l, width: dummyWidth})
			chain = append(chain, len(cells)-1)
		}
		chain = append(chain, bottom)
		for k := 1; k < len(chain); k++ {
			cells[chain[k-1]].down = append(cells[chain[k-1]].down, chain[k])
			cells[chain[k]].up = append(cells[chain[k]].up, chain[k-1])
		}
		chains[i] = chain
	}
	order := orderLayers(cells)
	spread(cells, order)
	left, right := math.Inf(1), math.Inf(-1)
	for i := range cells {
		left, right = min(left, cells[i].x-cells[i].width/2), max(right, cells[i].x+cells[i].width/2)
	}
	const margin = 24
	for i := range cells {
		cells[i].x += margin - left
	}
	for i := range nodes {
		n := &nodes[i]
		n.X, n.Y = int(math.Round(cells[i].x-nodeWidth/2)), 8+layer[i]*(nodeHeight+layerGap)
	}
	ports(cells, edges, chains)
	for i := range edges {
		route(&edges[i], nodes, cells, chains[i])
	}
	return int(math.Ceil(right-left)) + 2*margin, 16 + len(order)*(nodeHeight+layerGap) - layerGap + 14
}

// downwards returns the ends of e, the upper one first.
func downwards(e *flowEdge) (top, bottom int) {
	if e.Back {
		return e.to, e.from
	}
	return e.from, e.to
}

// markBack finds edges that close a cycle, hot ones last: they shall lead down.
func markBack(n int, edges []flowEdge) {
	out := make([][]int, n)
	for i := range edges {
		out[edges[i].from] = append(out[edges[i].from], i)
	}
	for v := range out {
		slices.SortStableFunc(out[v], func(a, b int) int { return cmp.Compare(edges[b].n, edges[a].n) })
	}
	state := make([]uint8, n) // 1: on the path from the start; 2: done
	var visit func(v int)
	visit = func(v int) {
		state[v] = 1
		for _, i := range out[v] {
			switch to := edges[i].to; state[to] {
			case 0:
				visit(to)
			case 1:
				edges[i].Back = true
			}
		}
		state[v] = 2
	}
	for v := range n {
		if state[v] == 0 {
			visit(v)
		}
	}
}

// abreast is how many of n nodes may be in one layer: a large picture is about as wide as high.
func abreast(n int) int { return max(maxAbreast, int(math.Sqrt(float64(n))/2)) }

// layers puts each node below all that lead to it, not more than most in a layer. What
// nothing leads to, but for the entry, stands just above what it leads to.
func layers(n int, edges []flowEdge, most int) []int {
	in := make([]int, n)
	for i := range edges {
		if top, bottom := downwards(&edges[i]); top != bottom {
			in[bottom]++
		}
	}
	starts := slices.Clone(in)
	layer := make([]int, n)
	used := map[int]int{}
	for range n {
		v := slices.IndexFunc(in, func(k int) bool { return k == 0 })
		for used[layer[v]] >= most {
			layer[v]++
		}
		used[layer[v]]++
		in[v] = -1
		for i := range edges {
			if top, bottom := downwards(&edges[i]); top == v && bottom != v {
				in[bottom]--
				layer[bottom] = max(layer[bottom], layer[v]+1)
			}
		}
	}
	for v := 1; v < n; v++ {
		if starts[v] > 0 {
			continue
		}
		next := math.MaxInt
		for i := range edges {
			if top, bottom := downwards(&edges[i]); top == v && bottom != v {
				next = min(next, layer[bottom]-1)
			}
		}
		for next < math.MaxInt && next > layer[v] && used[next] >= most {
			next--
		}
		if next < math.MaxInt && next > layer[v] {
			used[layer[v]]--
			used[next]++
			layer[v] = next
		}
	}
	return layer
}

// orderLayers returns the cells of each layer from left to right.
func orderLayers(cells []cell) [][]int {
	var order [][]int
	for i := range cells {
		for len(order) <= cells[i].layer {
			order = append(order, nil)
		}
		order[cells[i].layer] = append(order[cells[i].layer], i)
	}
	rank := make([]float64, len(cells))
	number := func(l int) {
		for k, c := range order[l] {
			rank[c] = float64(k)
		}
	}
	for l := range order {
		number(l)
	}
	arrange := func(l int, of func(c *cell) []int) {
		key := map[int]float64{}
		for _, c := range order[l] {
			key[c] = mean(of(&cells[c]), rank, rank[c])
		}
		slices.SortStableFunc(order[l], func(a, b int) int { return cmp.Compare(key[a], key[b]) })
		number(l)
	}
	for range 8 {
		for l := 1; l < len(order); l++ {
			arrange(l, func(c *cell) []int { return c.up })
		}
		for l := len(order) - 2; l >= 0; l-- {
			arrange(l, func(c *cell) []int { return c.down })
		}
	}
	return order
}

func mean(of []int, value []float64, none float64) float64 {
	if len(of) == 0 {
		return none
	}
	sum := 0.0
	for _, i := range of {
		sum += value[i]
	}
	return sum / float64(len(of))
}

// spread assigns cells their x: as near to their neighbours' mean as the order and the
// widths allow.
func spread(cells []cell, order [][]int) {
	for _, row := range order {
		x := 0.0
		for _, c := range row {
			cells[c].x = x + cells[c].width/2
			x += cells[c].width + nodeGap
		}
		for _, c := range row {
			cells[c].x -= x / 2
		}
	}
	xs := make([]float64, len(cells))
	for sweep := range 24 {
		for k := range order {
			row := order[k]
			if sweep%2 == 1 {
				row = order[len(order)-1-k]
			}
			for i := range cells {
				xs[i] = cells[i].x
			}
			want := make([]float64, len(row))
			for j, c := range row {
				near := append(slices.Clone(cells[c].up), cells[c].down...)
				want[j] = mean(near, xs, xs[c])
			}
			settle(cells, row, want)
		}
	}
}

// settle moves the cells of a row to the places that differ least, by the sum of
// squares, from those that they want, by pooling neighbours that are in each other's way.
func settle(cells []cell, row []int, want []float64) {
	type pool struct {
		sum float64
		n   int
	}
	offset := make([]float64, len(row))
	for j := 1; j < len(row); j++ {
		offset[j] = offset[j-1] + (cells[row[j-1]].width+cells[row[j]].width)/2 + nodeGap
	}
	var pools []pool
	for j := range row {
		pools = append(pools, pool{want[j] - offset[j], 1})
		for k := len(pools) - 1; k > 0 && pools[k-1].sum/float64(pools[k-1].n) > pools[k].sum/float64(pools[k].n); k-- {
			pools[k-1].sum += pools[k].sum
			pools[k-1].n += pools[k].n
			pools = pools[:k]
		}
	}
	j := 0
	for _, p := range pools {
		for range p.n {
			cells[row[j]].x = p.sum/float64(p.n) + offset[j]
			j++
		}
	}
}

// ports spreads the ends of edges over the width of their nodes, so that they do not
// cross there.
func ports(cells []cell, edges []flowEdge, chains [][]int) {
	type end struct {
		edge int
		x    float64 // of the neighbour
	}
	tops, bottoms := map[int][]end{}, map[int][]end{} // of nodes: ends at their upper side, at their lower
	for i, chain := range chains {
		if len(chain) == 0 {
			continue
		}
		first, last := chain[0], chain[len(chain)-1]
		bottoms[first] = append(bottoms[first], end{i, cells[chain[1]].x})
		tops[last] = append(tops[last], end{i, cells[chain[len(chain)-2]].x})
	}
	side := func(node int, ends []end, lower bool) {
		slices.SortStableFunc(ends, func(a, b end) int { return cmp.Compare(a.x, b.x) })
		for k, e := range ends {
			x := cells[node].x + (float64(k+1)/float64(len(ends)+1)-0.5)*nodeWidth
			if lower != edges[e.edge].Back {
				edges[e.edge].fromX, edges[e.edge].fromEnds = x, len(ends)
			} else {
				edges[e.edge].toX, edges[e.edge].toEnds = x, len(ends)
			}
		}
	}
	for node := range cells {
		side(node, bottoms[node], true)
		side(node, tops[node], false)
	}
}

// route draws e through its chain.
func route(e *flowEdge, nodes []flowNode, cells []cell, chain []int) {
	from, to := &nodes[e.from], &nodes[e.to]
	if len(chain) == 0 { // to itself: round its right side
		x, y := from.X+nodeWidth, from.Y+nodeHeight/2
		e.D = fmt.Sprintf("M%d %dc16 0 16 -20 2 -20", x, y+10)
		e.Arrow = fmt.Sprintf("M%d %dl7 -4v8z", x, y-10)
		e.X, e.Y = x-4, from.Y+nodeHeight+12
		return
	}
	type point struct{ x, y float64 }
	var points []point
	upper, lower := from, to
	upperX, lowerX := e.fromX, e.toX
	if e.Back {
		upper, lower, upperX, lowerX = to, from, e.toX, e.fromX
	}
	points = append(points, point{upperX, float64(upper.Y + nodeHeight)})
	for _, c := range chain[1 : len(chain)-1] {
		y := float64(8 + cells[c].layer*(nodeHeight+layerGap))
		points = append(points, point{cells[c].x, y}, point{cells[c].x, y + nodeHeight})
	}
	points = append(points, point{lowerX, float64(lower.Y)})
	var d strings.Builder
	fmt.Fprintf(&d, "M%.0f %.0f", points[0].x, points[0].y)
	for k := 1; k < len(points); k++ {
		a, b := points[k-1], points[k]
		if k%2 == 0 {
			fmt.Fprintf(&d, "V%.0f", b.y)
			continue
		}
		mid := (a.y + b.y) / 2
		fmt.Fprintf(&d, "C%.0f %.0f %.0f %.0f %.0f %.0f", a.x, mid, b.x, mid, b.x, b.y)
	}
	e.D = d.String()
	last := points[len(points)-1]
	if e.Back {
		e.Arrow = fmt.Sprintf("M%.0f %.0fl-4 7h8z", points[0].x, points[0].y)
	} else {
		e.Arrow = fmt.Sprintf("M%.0f %.0fl-4 -7h8z", last.x, last.y)
	}
	// The count stands at the end where it has the most room.
	if (e.fromEnds <= e.toEnds) == e.Back {
		e.X, e.Y = int(last.x)+5, int(last.y)-5
	} else {
		e.X, e.Y = int(points[0].x)+5, int(points[0].y)+12
	}
}

// A flowText is a line in a node.
type flowText struct {
	X, Y int
	Text string
}

// Texts returns the lines of a node with their places.
func (n *flowNode) Texts() []flowText {
	var out []flowText
	for i, line := range n.Lines {
		out = append(out, flowText{n.X + 14, n.Y + 13 + 13*i, line})
	}
	return out
}
