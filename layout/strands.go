package layout

import "slices"

// A strand is a sequence of nodes that only grows at its end.
type strand struct {
	cluster     // without its nodes
	first, last int
}

// strands are all nodes of a graph, in sequences. To join two takes the same time,
// however long they are.
type strands struct {
	next []int     // the node that follows each; -1 if there is none
	ends []*strand // of the nodes that are the first or the last of a strand
	all  []*strand // by id; nil once joined to another
}

// newStrands makes every node a strand of its own, with the node as id.
func newStrands(nodes []Node) *strands {
	s := &strands{next: make([]int, len(nodes)), ends: make([]*strand, len(nodes)), all: make([]*strand, len(nodes))}
	for i, n := range nodes {
		s.next[i] = -1
		s.all[i] = &strand{cluster{nil, n.Size, n.N, n.Heat}, i, i}
		s.ends[i] = s.all[i]
	}
	return s
}

// append puts y behind x.
func (s *strands) append(x, y *strand) {
	s.next[x.last] = y.first
	s.ends[x.last], s.ends[y.first] = x, x // unless an end, they match no strand's any more
	x.last = y.last
	s.ends[x.last] = x
	x.add(&y.cluster)
}

// follow puts strands behind those that lead to them, by one arc after the other,
// cold ones behind cold ones. Node 0 stays first.
func (s *strands) follow(arcs []Arc) {
	dead := map[*strand]bool{}
	for _, a := range arcs {
		x, y := s.ends[a.From], s.ends[a.To]
		if x == y || a.To == 0 || x.last != a.From || y.first != a.To || (x.weight > 0) != (y.weight > 0) {
			continue
		}
		s.append(x, y)
		dead[y] = true
	}
	for i, c := range s.all {
		if dead[c] {
			s.all[i] = nil
		}
	}
}

// order returns the nodes of all strands: those of first, if it is not nil, then
// those of the hottest.
func (s *strands) order(first *strand) []int {
	live := slices.DeleteFunc(slices.Clone(s.all), func(c *strand) bool { return c == nil })
	slices.SortStableFunc(live, func(a, b *strand) int {
		switch {
		case a == b:
			return 0
		case a == first:
			return -1
		case b == first:
			return 1
		}
		return a.hotter(&b.cluster)
	})
	order := make([]int, 0, len(s.next))
	for _, c := range live {
		for i := c.first; i >= 0; i = s.next[i] {
			order = append(order, i)
		}
	}
	return order
}
