package gcov

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// maxExecutions bounds executions of an arc: larger ones are no integers in a float64.
const maxExecutions = 1 << 52

// Round returns whole executions for real ones of all arcs, none of them negative, that Check takes:
// flow is conserved exactly. Where the real ones conserve it, but for the errors of their arithmetic,
// each is rounded down or up, and one that is whole stays; where they do not, those of a spanning
// tree of the busiest arcs follow from the others. It refuses what is negative, no number or beyond
// 1<<52, and wraps ErrFlow.
//
// Rounding down or up is possible as the matrix of a graph is totally unimodular. What is left of
// whole numbers is a flow whose arcs make up cycles, as no block has one such arc alone. Executions
// are moved around a cycle until one of its arcs is whole, which leaves at least one less: at most
// as many times as there are arcs.
func (f *Function) Round(flows []float64) ([]int64, error) {
	if len(flows) != len(f.Arcs) {
		return nil, fmt.Errorf("%s: executions of %d arcs, and it has %d: %w", f.Name, len(flows), len(f.Arcs), ErrFlow)
	}
	for i, n := range flows {
		if !(n >= 0 && n <= maxExecutions) {
			a := f.Arcs[i]
			return nil, fmt.Errorf("%s: %g executions of the arc from block %d to %d: %w", f.Name, n, a.From, a.To, ErrFlow)
		}
	}
	if f.thunk() {
		whole := make([]int64, len(flows))
		for i, n := range flows {
			whole[i] = int64(math.Round(n))
		}
		return whole, nil
	}
	if whole := f.nearest(flows); whole != nil {
		return whole, nil
	}
	return f.settled(flows), nil
}

// Fractions of executions are integers, so that what is moved around cycles leaves no error behind:
// one is a whole execution.
const one = 1 << 40

// nearEnough is how far from a whole number executions are taken for it.
const nearEnough = 1e-6

// nearest returns executions rounded down or up; nil if that leaves more or less than was there,
// which is where the real ones do not conserve flow.
func (f *Function) nearest(flows []float64) []int64 {
	whole := make([]int64, len(flows))
	part := make([]int64, len(flows)) // in 1/one executions
	lack := make([]int64, f.Blocks)   // whole executions in minus out
	fractions := make([]int, f.Blocks)
	for i, n := range flows {
		from, to := node(f.Arcs[i].From), node(f.Arcs[i].To)
		whole[i] = int64(math.Floor(n + nearEnough))
		if rest := n - float64(whole[i]); rest > nearEnough {
			part[i] = int64(math.Round(rest * one))
			fractions[from]++
			fractions[to]++
		}
		lack[from] -= whole[i]
		lack[to] += whole[i]
	}
	for v, n := range lack {
		if n < int64(-fractions[v]) || n > int64(fractions[v]) {
			return nil
		}
		lack[v] = n * one
	}
	// Of the fractions, those of a forest follow from the others: from here on, they conserve flow
	// exactly together with the whole executions.
	on := forest(f, func(i int) bool { return part[i] > 0 }, nil)
	t := tree{arcs: f.Arcs, nodes: f.Blocks, on: func(i int) bool { return on[i] }}
	t.solve(part, lack)
	for i, n := range part {
		if n < 0 || n > one || n == 0 && on[i] || n == one {
			return nil
		}
	}
	f.cancel(part)
	for i, n := range part {
		whole[i] += n / one
	}
	if f.Check(whole) != nil {
		return nil
	}
	return whole
}

// forest returns the arcs of a spanning forest of those that are used: the first of order, nil of
// which is that of the arcs.
func forest(f *Function, used func(arc int) bool, order []int) []bool {
	on := make([]bool, len(f.Arcs))
	group := make([]int, f.Blocks) // union-find
	for i := range group {
		group[i] = i
	}
	root := func(i int) int {
		for group[i] != i {
			group[i] = group[group[i]]
			i = group[i]
		}
		return i
	}
	for i := range f.Arcs {
		if order != nil {
			i = order[i]
		}
		x, y := root(node(f.Arcs[i].From)), root(node(f.Arcs[i].To))
		if x != y && used(i) {
			group[x] = y
			on[i] = true
		}
	}
	return on
}

// cancel makes fractions whole. It walks along arcs with a fraction, against their direction too, until
// it meets a block again: there is a cycle.
func (f *Function) cancel(part []int64) {
	open := func(i int) bool { return part[i]%one != 0 }
	at := make([][]int, f.Blocks) // arcs with a fraction
	for i, a := range f.Arcs {
		if open(i) {
			from, to := node(a.From), node(a.To)
			at[from] = append(at[from], i)
			if to != from {
				at[to] = append(at[to], i)
			}
		}
	}
	met := make([]int, f.Blocks) // where a block is on the walk, from 1
	var blocks, arcs []int       // of the walk: arcs[i] leads from blocks[i] on
	for start := range f.Blocks {
		for {
			if len(blocks) == 0 {
				blocks = append(blocks, start)
				met[start] = 1
			}
			v := blocks[len(blocks)-1]
			next := -1
			for j := 0; j < len(at[v]) && next < 0; {
				switch i := at[v][j]; {
				case !open(i):
					at[v] = slices.Delete(at[v], j, j+1)
				case len(arcs) > 0 && arcs[len(arcs)-1] == i: // where the walk came from
					j++
				default:
					next = i
				}
			}
			if next < 0 { // of the first block only: every other has the arc that led to it and one more
				break
			}
			from, to := node(f.Arcs[next].From), node(f.Arcs[next].To)
			w := from + to - v
			arcs = append(arcs, next)
			if met[w] == 0 {
				blocks = append(blocks, w)
				met[w] = len(blocks)
				continue
			}
			f.turn(part, blocks[met[w]-1:], arcs[met[w]-1:])
			// The walk goes on before the first arc that is whole now.
			keep := slices.IndexFunc(arcs, func(i int) bool { return !open(i) })
			for _, v := range blocks[keep+1:] {
				met[v] = 0
			}
			blocks, arcs = blocks[:keep+1], arcs[:keep]
		}
		for _, v := range blocks {
			met[v] = 0
		}
		blocks, arcs = blocks[:0], arcs[:0]
	}
}

// turn moves executions around a cycle, in the direction that takes fewer, until an arc is whole.
func (f *Function) turn(part []int64, blocks, arcs []int) {
	along := func(j int) bool { return node(f.Arcs[arcs[j]].From) == blocks[j] }
	const far = math.MaxInt64
	forth, back := int64(far), int64(far)
	for j, i := range arcs {
		up, down := one-part[i], part[i]
		if !along(j) {
			up, down = down, up
		}
		forth, back = min(forth, up), min(back, down)
	}
	move := forth
	if back < forth {
		move = -back
	}
	for j, i := range arcs {
		if along(j) {
			part[i] += move
		} else {
			part[i] -= move
		}
	}
}

// settled returns whole executions where the real ones do not conserve flow: those of a spanning forest
// of the busiest arcs follow from those of the others. Where that takes an arc below zero, a path from
// its end to its beginning is given the executions that lack.
func (f *Function) settled(flows []float64) []int64 {
	whole := make([]int64, len(flows))
	part := f.components()
	order := make([]int, len(flows))
	circular := func(i int) bool { return part[node(f.Arcs[i].From)] == part[node(f.Arcs[i].To)] }
	for i, n := range flows {
		order[i] = i
		if circular(i) {
			whole[i] = int64(math.Round(n))
		} // no path leads back from others, which cannot run
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(flows[b], flows[a]) })
	on := forest(f, circular, order)
	t := tree{arcs: f.Arcs, nodes: f.Blocks, on: func(i int) bool { return on[i] }}
	t.solve(whole, nil)
	var out [][]int
	for i, n := range whole {
		if n >= 0 {
			continue
		}
		if out == nil {
			out = make([][]int, f.Blocks)
			for j, a := range f.Arcs {
				if circular(j) {
					out[node(a.From)] = append(out[node(a.From)], j)
				}
			}
		}
		for _, j := range f.route(out, node(f.Arcs[i].To), node(f.Arcs[i].From)) {
			whole[j] -= n
		}
		whole[i] = 0
	}
	return whole
}

// components returns a number by block that those have in common between which paths lead to and fro.
// It is Tarjan's algorithm, with a stack of its own.
func (f *Function) components() []int {
	first := make([]int, f.Blocks+1) // of outs
	for _, a := range f.Arcs {
		first[node(a.From)+1]++
	}
	for v := range f.Blocks {
		first[v+1] += first[v]
	}
	outs, fill := make([]int, len(f.Arcs)), slices.Clone(first)
	for _, a := range f.Arcs {
		outs[fill[node(a.From)]] = node(a.To)
		fill[node(a.From)]++
	}
	const done = math.MaxInt
	part, index, low, next := make([]int, f.Blocks), make([]int, f.Blocks), make([]int, f.Blocks), slices.Clone(first)
	seen := 0
	var path, stack []int
	for start := range f.Blocks {
		if index[start] != 0 {
			continue
		}
		path = append(path, start)
		for len(path) > 0 {
			v := path[len(path)-1]
			if index[v] == 0 {
				seen++
				index[v], low[v] = seen, seen
				stack = append(stack, v)
			}
			if next[v] < first[v+1] {
				w := outs[next[v]]
				next[v]++
				if index[w] == 0 {
					path = append(path, w)
				} else {
					low[v] = min(low[v], index[w])
				}
				continue
			}
			path = path[:len(path)-1]
			if len(path) > 0 {
				u := path[len(path)-1]
				low[u] = min(low[u], low[v])
			}
			if low[v] != index[v] {
				continue
			}
			for {
				w := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				part[w], index[w], low[w] = v, done, done
				if w == v {
					break
				}
			}
		}
	}
	return part
}

// route returns the arcs of a shortest path; none if it begins where it ends.
func (f *Function) route(out [][]int, from, to int) []int {
	via := make([]int, f.Blocks)
	for i := range via {
		via[i] = -1
	}
	for work := []int{from}; len(work) > 0 && via[to] < 0 && from != to; work = work[1:] {
		for _, j := range out[work[0]] {
			if w := node(f.Arcs[j].To); via[w] < 0 && w != from {
				via[w] = j
				work = append(work, w)
			}
		}
	}
	var p []int
	for v := to; v != from; v = node(f.Arcs[via[v]].From) {
		p = append(p, via[v])
	}
	return p
}
