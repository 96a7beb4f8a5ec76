package image

import "slices"

// A DomTree says which nodes of a graph all paths to others pass through.
type DomTree struct {
	Idom  []int // by node: its immediate dominator; -1 of those that cannot be reached from an entry, the number of nodes of those that only the outside dominates
	Order []int // the nodes that can be reached, in reverse postorder

	// The nodes that a node dominates, itself included, follow each other from first on, in a preorder of the tree.
	first, size []int
}

// Dominators returns the dominators of a graph, given where each node leads to and which nodes are entered from
// outside ("A Simple, Fast Dominance Algorithm", Cooper, Harvey and Kennedy, 2001).
func Dominators(next [][]int, entries []int) *DomTree {
	n := len(next)
	root := n // stands before all entries
	order := reversePostorder(next, entries)
	rank := make([]int, n+1) // of root: 0
	for i, v := range order {
		rank[v] = i + 1
	}
	idom := make([]int, n+1)
	for i := range idom {
		idom[i] = -1
	}
	idom[root] = root
	entry := make([]bool, n)
	for _, v := range entries {
		entry[v] = true
	}
	end := make([]int, n) // by node: of its part of before
	for _, u := range order {
		for _, v := range next[u] {
			end[v]++
		}
	}
	sum := 0
	for v, in := range end {
		end[v] = sum
		sum += in
	}
	before := make([]int, sum)
	for _, u := range order {
		for _, v := range next[u] {
			before[end[v]] = u
			end[v]++
		}
	}
	meet := func(a, b int) int {
		for a != b {
			for rank[a] > rank[b] {
				a = idom[a]
			}
			for rank[b] > rank[a] {
				b = idom[b]
			}
		}
		return a
	}
	for changed := true; changed; {
		changed = false
		for _, v := range order {
			d := -1
			if entry[v] {
				d = root
			}
			first := 0
			if v > 0 {
				first = end[v-1]
			}
			for _, u := range before[first:end[v]] {
				switch {
				case idom[u] < 0: // not yet known
				case d < 0:
					d = u
				default:
					d = meet(d, u)
				}
			}
			if d >= 0 && idom[v] != d {
				idom[v], changed = d, true
			}
		}
	}
	d := &DomTree{Idom: idom[:n], Order: order, first: make([]int, n), size: make([]int, n+1)}
	for _, v := range slices.Backward(order) { // dominators come before what they dominate
		d.size[v]++
		d.size[idom[v]] += d.size[v]
	}
	free := make([]int, n+1) // by node: the first number that none of those it dominates has yet
	for _, v := range order {
		d.first[v] = free[idom[v]]
		free[idom[v]] += d.size[v]
		free[v] = d.first[v] + 1
	}
	return d
}

// Dominates reports whether all paths from an entry to node b pass through node a. No path leads to a node that cannot be
// reached, which none dominates.
func (d *DomTree) Dominates(a, b int) bool {
	return d.size[b] > 0 && d.first[a] <= d.first[b] && d.first[b] < d.first[a]+d.size[a]
}

// reversePostorder returns the nodes that can be reached from the entries.
func reversePostorder(next [][]int, entries []int) []int {
	type visit struct{ node, next int }
	seen := make([]bool, len(next))
	order := make([]int, 0, len(next))
	var stack []visit
	for _, entry := range slices.Backward(entries) {
		if seen[entry] {
			continue
		}
		seen[entry] = true
		stack = append(stack, visit{entry, 0})
		for len(stack) > 0 {
			top := &stack[len(stack)-1]
			if top.next == len(next[top.node]) {
				order = append(order, top.node)
				stack = stack[:len(stack)-1]
				continue
			}
			to := next[top.node][top.next]
			top.next++
			if !seen[to] {
				seen[to] = true
				stack = append(stack, visit{to, 0})
			}
		}
	}
	slices.Reverse(order)
	return order
}
