package layout

import (
	"cmp"
	"container/heap"
	"maps"
	"slices"
)

// pettisHansenCalls orders the nodes of g, procedures, by the search of "Profile
// Guided Code Positioning", Pettis and Hansen, PLDI 1990, section 3: the two chains
// with the most calls between them are joined, until none calls another. Closest is
// best: of the four orders that join two, it takes the one that leaves the fewest bytes
// between the two procedures that call each other most.
func pettisHansenCalls(g *Graph) []int {
	s := newClosestSort(g)
	for s.queue.Len() > 0 {
		s.merge(heap.Pop(&s.queue).(*link))
	}
	for i, row := range s.rows {
		if c := s.chains[i]; c != nil {
			c.nodes = row.nodes()
		}
	}
	return flattenChains(s.chains)
}

// A closestSort merges the smaller half into the larger: nodes go to the row with
// more of them, links to the chain with more. So no node or link moves more often than
// the logarithm of their number.
type closestSort struct {
	nodes  []Node
	chains []*chain // by id; nil once merged into another
	rows   []*row   // of the chains, by their id
	row    []*row   // by node
	at     []int64  // bytes from where the row of a node began to grow
	queue  linkQueue
}

// A row is the nodes of a chain. It grows at both ends.
type row struct {
	left, right []int // from where it began to grow
	start, end  int64 // bytes from there
}

func (r *row) len() int { return len(r.left) + len(r.right) }

// nodes returns the nodes from the left to the right end.
func (r *row) nodes() []int {
	nodes := slices.Clone(r.left)
	slices.Reverse(nodes)
	return append(nodes, r.right...)
}

func newClosestSort(g *Graph) *closestSort {
	n := len(g.Nodes)
	s := &closestSort{nodes: g.Nodes, chains: make([]*chain, n), rows: make([]*row, n), row: make([]*row, n), at: make([]int64, n)}
	for i, n := range g.Nodes {
		s.chains[i] = newChain(i, n)
		s.rows[i] = &row{right: []int{i}, end: int64(n.Size)}
		s.row[i] = s.rows[i]
	}
	for _, a := range undirected(g) {
		s.chains[a.From].link(s.chains[a.To], a)
	}
	for _, c := range s.chains {
		for _, l := range c.links {
			if l.a == c {
				l.gain = l.arcs[0].N
				heap.Push(&s.queue, l)
			}
		}
	}
	return s
}

// undirected adds up the calls between every two nodes, whichever calls.
func undirected(g *Graph) []Arc {
	index := map[[2]int]int{}
	var arcs []Arc
	for _, a := range g.Arcs {
		if a.From == a.To || !(a.N > 0) {
			continue
		}
		k := [2]int{min(a.From, a.To), max(a.From, a.To)}
		i, ok := index[k]
		if !ok {
			i, index[k] = len(arcs), len(arcs)
			arcs = append(arcs, Arc{From: k[0], To: k[1]})
		}
		arcs[i].N += a.N
	}
	return arcs
}

// merge joins the chains of l.
func (s *closestSort) merge(l *link) {
	into, from := l.a, l.b
	if len(into.links) < len(from.links) {
		into, from = from, into
	}
	strongest := slices.MinFunc(l.arcs, func(a, b Arc) int {
		return cmp.Or(cmp.Compare(b.N, a.N), cmp.Compare(a.From, b.From), cmp.Compare(a.To, b.To))
	})
	s.rows[into.id] = s.join(strongest.From, strongest.To)
	into.add(&from.cluster)
	s.chains[from.id] = nil
	for _, l := range from.links {
		s.queue.remove(l) // its chains or its calls change
	}
	for _, l := range from.links {
		if have := into.links[l.other(from).id]; have != nil {
			s.queue.remove(have)
			have.gain += l.gain
		}
	}
	moved := slices.Collect(maps.Keys(from.links))
	into.takeLinks(from)
	for _, id := range moved {
		if l := into.links[id]; l != nil {
			heap.Push(&s.queue, l)
		}
	}
}

// join makes one row of those of p and q, so that these two are as close as can be.
func (s *closestSort) join(p, q int) *row {
	if s.row[p].len() < s.row[q].len() {
		p, q = q, p
	}
	x, y := s.row[p], s.row[q]
	toLeft := s.before(p) < s.after(p) // where y goes to
	nodes := y.nodes()
	if (s.before(q) < s.after(q)) == toLeft {
		slices.Reverse(nodes) // its nearer end to x
	}
	if toLeft {
		slices.Reverse(nodes)
	}
	for _, i := range nodes {
		s.row[i] = x
		size := int64(s.nodes[i].Size)
		if toLeft {
			x.start -= size
			x.left, s.at[i] = append(x.left, i), x.start
		} else {
			x.right, s.at[i] = append(x.right, i), x.end
			x.end += size
		}
	}
	return x
}

// before is the bytes in the row of a node that lie left of it, after those right.
func (s *closestSort) before(i int) int64 { return s.at[i] - s.row[i].start }

func (s *closestSort) after(i int) int64 {
	return s.row[i].end - s.at[i] - int64(s.nodes[i].Size)
}
