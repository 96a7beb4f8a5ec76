package image

import "slices"

// Dominators returns the immediate dominator of each node of a graph, given where each leads to and which
// nodes are entered from outside: -1 for those that cannot be reached from an entry, and the number of nodes for
// those that only the outside dominates. It returns the nodes that can be reached, too, in reverse postorder ("A
// Simple, Fast Dominance Algorithm", Cooper, Harvey and Kennedy, 2001).
func Dominators(next [][]int, entries []int) (idom, order []int) {
	n := len(next)
	root := n // stands before all entries
	order = reversePostorder(next, entries)
	rank := make([]int, n+1) // of root: 0
	for i, v := range order {
		rank[v] = i + 1
	}
	idom = make([]int, n+1)
	for i := range idom {
		idom[i] = -1
	}
	idom[root] = root
	entry := make([]bool, n)
	for _, v := range entries {
		entry[v] = true
	}
	before := make([][]int, n)
	for _, u := range order {
		for _, v := range next[u] {
			before[v] = append(before[v], u)
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
			for _, u := range before[v] {
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
	return idom[:n], order
}

// Dominates reports whether all paths from an entry to node b pass through a, by what Dominators returned.
func Dominates(idom []int, a, b int) bool {
	if idom[b] < 0 {
		return false
	}
	for b != a && b < len(idom) {
		b = idom[b]
	}
	return b == a
}

// reversePostorder returns the nodes that can be reached from the entries.
func reversePostorder(next [][]int, entries []int) []int {
	type visit struct{ node, next int }
	seen := make([]bool, len(next))
	var order []int
	for _, entry := range slices.Backward(entries) {
		if seen[entry] {
			continue
		}
		seen[entry] = true
		stack := []visit{{entry, 0}}
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
