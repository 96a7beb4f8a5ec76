package gcov

import (
	"errors"
	"fmt"
)

// ErrFlow is wrapped where numbers of executions do not conserve flow: as many into every block but
// Entry and Exit as out of it. gcc says "profile data is not flow-consistent" then (profile.cc).
var ErrFlow = errors.New("flow is not conserved")

// Counted returns which arcs have counters, in the order of the counters: all those that are not on the
// tree, in the order of the notes (read_profile_edge_counts in profile.cc; arcs that gcc ignores are
// not in the notes).
func (f *Function) Counted() []int {
	var at []int
	for i, a := range f.Arcs {
		if a.Flags&OnTree == 0 {
			at = append(at, i)
		}
	}
	return at
}

// Counters returns those of the executions of all arcs. It refuses flows that Check refuses.
func (f *Function) Counters(flows []int64) ([]int64, error) {
	if err := f.Check(flows); err != nil {
		return nil, err
	}
	at := f.Counted()
	n := make([]int64, len(at))
	for i, arc := range at {
		n[i] = flows[arc]
	}
	return n, nil
}

// Flows returns the executions of all arcs, in executions, of counters. Arcs of the tree follow from
// those that are counted. A fake arc to Exit may be negative: where a call returns twice, as setjmp and
// fork do, more leaves a block than came in. Errors wrap ErrFlow.
func (f *Function) Flows(counters []int64) ([]int64, error) {
	at := f.Counted()
	if len(at) != len(counters) {
		return nil, fmt.Errorf("%s: %d counters of %d counted arcs: %w", f.Name, len(counters), len(at), ErrFlow)
	}
	flows := make([]int64, len(f.Arcs))
	for i, arc := range at {
		flows[arc] = counters[i]
	}
	if f.thunk() {
		return flows, nil
	}
	t := tree{arcs: f.Arcs, nodes: f.Blocks, on: func(i int) bool { return f.Arcs[i].Flags&OnTree != 0 }}
	if open := t.solve(flows, nil); open >= 0 {
		a := f.Arcs[open]
		return nil, fmt.Errorf("%s: the arc from block %d to %d is on a tree that has a cycle: %w", f.Name, a.From, a.To, ErrFlow)
	}
	return flows, f.Check(flows)
}

// Check returns an error, which wraps ErrFlow, if gcc would not take executions of arcs for consistent:
// one is negative and no fake one to Exit, or a block has not as many in as out (is_inconsistent in
// profile.cc).
func (f *Function) Check(flows []int64) error {
	if len(flows) != len(f.Arcs) {
		return fmt.Errorf("%s: executions of %d arcs, and it has %d: %w", f.Name, len(flows), len(f.Arcs), ErrFlow)
	}
	in, out := make([]int64, f.Blocks), make([]int64, f.Blocks)
	for i, a := range f.Arcs {
		if flows[i] < 0 && !a.MayEnd() {
			return fmt.Errorf("%s: %d executions of the arc from block %d to %d: %w", f.Name, flows[i], a.From, a.To, ErrFlow)
		}
		out[a.From] += flows[i]
		in[a.To] += flows[i]
	}
	for b := Exit + 1; b < f.Blocks && !f.thunk(); b++ {
		if in[b] != out[b] {
			return fmt.Errorf("%s: block %d: %d executions in, %d out: %w", f.Name, b, in[b], out[b], ErrFlow)
		}
	}
	return nil
}

// thunk reports whether the function is a thunk of C++, of whose graph gcc has but the entry when it
// reads a profile: both checksums are 0 (branch_prob in profile.cc).
func (f *Function) thunk() bool { return f.LineChecksum == 0 && f.CFGChecksum == 0 }

// node returns the node of a block where Exit leads back to Entry: what enters a function leaves it.
func node(block int) int {
	if block == Exit {
		return Entry
	}
	return block
}

// A tree is a spanning forest of the blocks, whose arcs follow from all others.
type tree struct {
	arcs  []Arc
	nodes int
	on    func(arc int) bool
}

// solve sets the flows of the arcs that are on the tree so that every block has as much in as out,
// but for what lack says it is to have more out than in. It returns an arc that stays open, because
// it is on a cycle of the tree, or -1.
func (t *tree) solve(flows []int64, lack []int64) int {
	excess := make([]int64, t.nodes) // in minus out of what is settled
	open := make([]int, t.nodes)     // arcs of the tree that are not settled
	last := make([]int, t.nodes)     // these combined by exclusive or: the arc itself, if there is one
	for v := range lack {
		excess[v] = lack[v]
	}
	left := 0
	for i, a := range t.arcs {
		from, to := node(a.From), node(a.To)
		if !t.on(i) {
			excess[from] -= flows[i]
			excess[to] += flows[i]
			continue
		}
		left++
		for _, v := range [...]int{from, to} {
			open[v]++
			last[v] ^= i
		}
	}
	for v := range t.nodes {
		for v := v; open[v] == 1; {
			i := last[v]
			from, to := node(t.arcs[i].From), node(t.arcs[i].To)
			other := from
			if v == from {
				flows[i], other = excess[v], to
			} else {
				flows[i] = -excess[v]
			}
			excess[from] -= flows[i]
			excess[to] += flows[i]
			open[v], open[other] = 0, open[other]-1
			last[other] ^= i
			left--
			v = other
		}
	}
	if left > 0 {
		for i, a := range t.arcs {
			if t.on(i) && open[node(a.From)] > 0 && open[node(a.To)] > 0 {
				return i
			}
		}
	}
	return -1
}
