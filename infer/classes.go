package infer

import "backfeed/infer/image"

// The classes of a procedure's blocks and edges: two of one class ran equally
// often, whatever the input was. Samples of all members speak for each of them.
//
// Two are in one class if every path round the procedure (from an entry to an exit,
// or round a loop) that passes the one passes the other. Where control can run
// but never leave, as in an idle loop, the loop is looked at by itself: its members
// are of one class if they differ by at most the number of times it was entered.
// Code that no entry leads to, and all code of an incomplete procedure, may be
// entered anywhere; there every block and edge is alone.
type classes struct {
	block []int32 // class by block, as Proc.Blocks
	edge  []int32 // class by edge, as Proc.Edges
	n     int     // classes are numbered from 0 by first appearance: blocks, then edges
}

// classesOf finds the classes of p in time linear in its size, by the algorithm
// of Johnson, Pearson and Pingali ("The program structure tree", PLDI 1994).
func classesOf(p *image.Proc) *classes {
	nb, ne := len(p.Blocks), len(p.Edges)
	all := make([]int32, nb+ne)
	for i := range all {
		all[i] = none
	}
	c := &classes{block: all[:nb:nb], edge: all[nb:]}
	if p.Complete && nb > 0 {
		g := circulation(p)
		g.search()
		g.classify()
		copy(all, g.class)
	}
	c.number(all)
	return c
}

// number renames the classes in all by first appearance; what has none gets its own.
func (c *classes) number(all []int32) {
	names := make([]int32, 0, len(all)) // by old class
	for i, old := range all {
		if old == none {
			all[i] = int32(c.n)
			c.n++
			continue
		}
		for int(old) >= len(names) {
			names = append(names, none)
		}
		if names[old] == none {
			names[old] = int32(c.n)
			c.n++
		}
		all[i] = names[old]
	}
}

const none = -1

// cycles is a graph whose cycle equivalence is asked for. Each of its connected
// parts is strongly connected when the edges are followed from tail to head; the
// equivalence is then the same whether cycles must follow them or not, so all else
// here takes the graph as undirected.
//
// Block b is an edge from node 2b, where control comes in, to node 2b+1, where it
// goes out. The last node stands for everything outside the procedure. Edges are
// numbered: the blocks, then Proc.Edges, then those from and to the outside.
type cycles struct {
	nodes      int
	tail, head []int32 // by edge; none if the edge is left out

	first    []int32 // node v has the edges adjacent[first[v]:first[v+1]]
	adjacent []int32

	// The depth-first search.
	order []int32 // nodes as they were reached
	num   []int32 // by node: place in order
	up    []int32 // by node: tree edge to its parent, or none

	class []int32 // by edge, or none
	fresh int32   // next unused class
}

// circulation returns the graph of p's complete runs: control that leaves the
// procedure comes in again.
func circulation(p *image.Proc) *cycles {
	nb := len(p.Blocks)
	outside := int32(2 * nb)
	g := &cycles{nodes: 2*nb + 1}
	reached := reachable(p)
	trap := traps(p, reached)
	add := func(tail, head int32) { g.tail, g.head = append(g.tail, tail), append(g.head, head) }
	for b := range nb {
		if reached[b] {
			add(int32(2*b), int32(2*b+1))
		} else {
			add(none, none)
		}
	}
	for _, e := range p.Edges {
		tail, head := int32(2*e.From+1), int32(2*e.To)
		if !reached[e.From] {
			tail = outside // an entry, as far as anyone knows
		}
		if trap[e.To] != none && (!reached[e.From] || trap[e.From] == none) {
			head = outside // what enters a trap does not come out of it
		}
		if !reached[e.To] || tail == head {
			tail, head = none, none
		}
		add(tail, head)
	}
	for _, b := range entriesOf(p) {
		if trap[b] == none {
			add(outside, int32(2*b))
		}
	}
	for b := range nb {
		if reached[b] && leaves(&p.Blocks[b]) {
			add(int32(2*b+1), outside)
		}
	}
	g.link()
	return g
}

// leaves reports whether control can leave the procedure at the end of b.
func leaves(b *image.Block) bool { return b.Exit != image.NoExit || len(b.Out) == 0 }

// entriesOf returns the blocks of p that control enters from outside.
func entriesOf(p *image.Proc) []int {
	entries := []int{0}
	for _, b := range p.Entries {
		if b != 0 {
			entries = append(entries, b)
		}
	}
	return entries
}

// reachable marks the blocks that control can get to from the entries.
func reachable(p *image.Proc) []bool {
	reached := make([]bool, len(p.Blocks))
	var work []int
	reach := func(b int) {
		if !reached[b] {
			reached[b] = true
			work = append(work, b)
		}
	}
	for _, b := range entriesOf(p) {
		reach(b)
	}
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		for _, e := range p.Blocks[b].Out {
			reach(p.Edges[e].To)
		}
	}
	return reached
}

// traps assigns each block that lies in a trap the number of the trap, and none to
// the others. A trap is a strongly connected region that control cannot leave.
func traps(p *image.Proc, reached []bool) []int32 {
	nb := len(p.Blocks)
	trap := make([]int32, nb)
	leaving := make([]bool, nb) // blocks that an exit can be reached from
	var work []int
	for b := range nb {
		trap[b] = none
		if leaves(&p.Blocks[b]) {
			leaving[b] = true
			work = append(work, b)
		}
	}
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		for _, e := range p.Blocks[b].In {
			if from := p.Edges[e].From; !leaving[from] {
				leaving[from] = true
				work = append(work, from)
			}
		}
	}
	region := regions(p, func(b int) bool { return reached[b] && !leaving[b] })
	open := map[int32]bool{} // regions with an out-edge
	for _, e := range p.Edges {
		if r := region[e.From]; r != none && region[e.To] != r {
			open[r] = true
		}
	}
	for b, r := range region {
		if r != none && !open[r] {
			trap[b] = r
		}
	}
	return trap
}

// regions returns the strongly connected components of the blocks that in accepts,
// by Tarjan's algorithm ("Depth-first search and linear graph algorithms", SIAM J.
// Computing 1(2), 1972), and none to other blocks.
func regions(p *image.Proc, in func(b int) bool) []int32 {
	nb := len(p.Blocks)
	region := make([]int32, nb)
	for b := range region {
		region[b] = none
	}
	num := make([]int32, nb) // from 1 in the order they are reached; 0 before
	low := make([]int32, nb) // least num known to be in the same region
	next := make([]int, nb)  // place in Out
	var path, open []int     // open: reached, but not yet in a region
	var reached, found int32
	enter := func(b int) {
		reached++
		num[b], low[b] = reached, reached
		path, open = append(path, b), append(open, b)
	}
	for root := range nb {
		if num[root] == 0 && in(root) {
			enter(root)
		}
		for len(path) > 0 {
			b := path[len(path)-1]
			if out := p.Blocks[b].Out; next[b] < len(out) {
				to := p.Edges[out[next[b]]].To
				next[b]++
				switch {
				case !in(to):
				case num[to] == 0:
					enter(to)
				case region[to] == none:
					low[b] = min(low[b], num[to])
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				parent := path[len(path)-1]
				low[parent] = min(low[parent], low[b])
			}
			if low[b] != num[b] {
				continue
			}
			for last := none; last != b; {
				last = open[len(open)-1]
				open = open[:len(open)-1]
				region[last] = found
			}
			found++
		}
	}
	return region
}

// link lists the edges of each node.
func (g *cycles) link() {
	g.first = make([]int32, g.nodes+1)
	for e := range g.tail {
		if g.tail[e] != none {
			g.first[g.tail[e]]++
			g.first[g.head[e]]++
		}
	}
	var sum int32
	for v, n := range g.first {
		g.first[v] = sum
		sum += n
	}
	g.adjacent = make([]int32, sum)
	at := append([]int32(nil), g.first...)
	for e := range g.tail {
		if g.tail[e] != none {
			for _, v := range [2]int32{g.tail[e], g.head[e]} {
				g.adjacent[at[v]] = int32(e)
				at[v]++
			}
		}
	}
}

// across returns the other end of edge e.
func (g *cycles) across(e, v int32) int32 { return g.tail[e] ^ g.head[e] ^ v }

// search numbers the nodes by a depth-first search of every part, the one around
// the outside first.
func (g *cycles) search() {
	g.num, g.up = make([]int32, g.nodes), make([]int32, g.nodes)
	for v := range g.num {
		g.num[v], g.up[v] = none, none
	}
	at := append([]int32(nil), g.first[:g.nodes]...)
	enter := func(v int32) {
		g.num[v] = int32(len(g.order))
		g.order = append(g.order, v)
	}
	for root := int32(g.nodes - 1); root >= 0; root-- {
		if g.num[root] != none {
			continue
		}
		enter(root)
		for v := root; ; {
			if at[v] < g.first[v+1] {
				e := g.adjacent[at[v]]
				at[v]++
				if w := g.across(e, v); g.num[w] == none {
					enter(w)
					g.up[w] = e
					v = w
				}
				continue
			}
			if v == root {
				break
			}
			v = g.across(g.up[v], v)
		}
	}
}

// A bracket of a tree edge is an edge from below it to above it. Two tree edges
// are equivalent if they have the same brackets, and a bracket is equivalent to
// a tree edge of which it is the only one. Sets of brackets need not be compared:
// the topmost in the list and the size of the list name the set, once a node from
// whose subtrees several brackets lead up adds one of its own (a capping one)
// that ends where the second of these does.
type bracket struct {
	prev, next int32 // in its list, or none
	size       int32 // of the list when this was last on top at a tree edge
	class      int32 // of that tree edge
}

// A bracketList is a doubly linked list of brackets, the topmost first.
type bracketList struct{ top, bottom, size int32 }

// classify sets the classes. Brackets have the numbers of their edges; capping
// ones come after them.
func (g *cycles) classify() {
	ne := len(g.tail)
	g.class = make([]int32, ne)
	for e := range g.class {
		g.class[e] = none
	}
	brackets := make([]bracket, ne, ne+g.nodes)
	lists := make([]bracketList, g.nodes)
	high := make([]int32, g.nodes)   // least num that a bracket from the children leads to
	second := make([]int32, g.nodes) // the same without the child that reaches it
	capEnd := make([]int32, g.nodes) // a capping bracket that ends here; the others follow in capNext
	capNext := []int32{}             // by capping bracket
	for v := range lists {
		lists[v] = bracketList{none, none, 0}
		high[v], second[v], capEnd[v] = int32(g.nodes), int32(g.nodes), none
	}
	for i := len(g.order) - 1; i >= 0; i-- {
		v := g.order[i]
		l, num := &lists[v], g.num[v]
		for b := capEnd[v]; b != none; b = capNext[b-int32(ne)] {
			l.remove(brackets, b)
		}
		own := int32(g.nodes) // least num that an edge of v leads up to
		for _, e := range g.adjacent[g.first[v]:g.first[v+1]] {
			switch w := g.across(e, v); {
			case e == g.up[v] || e == g.up[w]: // a tree edge
			case g.num[w] > num:
				l.remove(brackets, e)
				if g.class[e] == none {
					g.class[e] = g.newClass()
				}
			default:
				l.push(brackets, e)
				own = min(own, g.num[w])
			}
		}
		if second[v] < min(own, num) {
			b := int32(len(brackets))
			brackets = append(brackets, bracket{})
			l.push(brackets, b)
			end := g.order[second[v]]
			capNext = append(capNext, capEnd[end])
			capEnd[end] = b
		}
		t := g.up[v]
		if t == none {
			continue
		}
		top := &brackets[l.top]
		if top.size != l.size {
			top.size, top.class = l.size, g.newClass()
		}
		g.class[t] = top.class
		if l.size == 1 && int(l.top) < ne {
			g.class[l.top] = top.class
		}
		parent := g.across(t, v)
		lists[parent].prepend(brackets, l)
		switch h := min(high[v], own); {
		case h < high[parent]:
			high[parent], second[parent] = h, high[parent]
		case h < second[parent]:
			second[parent] = h
		}
	}
}

func (g *cycles) newClass() int32 {
	g.fresh++
	return g.fresh - 1
}

func (l *bracketList) push(bs []bracket, b int32) {
	bs[b].prev, bs[b].next = none, l.top
	if l.top == none {
		l.bottom = b
	} else {
		bs[l.top].prev = b
	}
	l.top = b
	l.size++
}

func (l *bracketList) remove(bs []bracket, b int32) {
	if prev := bs[b].prev; prev == none {
		l.top = bs[b].next
	} else {
		bs[prev].next = bs[b].next
	}
	if next := bs[b].next; next == none {
		l.bottom = bs[b].prev
	} else {
		bs[next].prev = bs[b].prev
	}
	l.size--
}

// prepend moves the brackets of m to the top of l.
func (l *bracketList) prepend(bs []bracket, m *bracketList) {
	switch {
	case m.top == none:
		return
	case l.top == none:
		*l = *m
		return
	}
	bs[m.bottom].next, bs[l.top].prev = l.top, m.bottom
	l.top = m.top
	l.size += m.size
}
