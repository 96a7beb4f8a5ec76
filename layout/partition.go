package layout

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"
)

// partition orders nodes such that those which share many groups lie close
// together: balanced partitioning (Dhulipala and others, Compressing Graphs and
// Indexes with Recursive Graph Bisection, 2016), as in BalancedPartitioning.cpp of
// LLVM 19, with its constants. groups has the groups of each node, which are numbers
// from 0 on; there, groups are called utility nodes. It returns the indices of the
// nodes in their new order.
//
// The nodes are halved, those of a half are halved again, and so on. To halve them,
// nodes change sides in pairs as long as the cost falls, which for a group with l
// nodes on the left and r on the right is -(l log2(l+1) + r log2(r+1)): the less, the
// more one-sided the group. Groups of a single node or of all say nothing about
// where to cut, and are left out.
//
// Other than there, nodes that are to be left out of a round are left out before they
// are paired, so that halves stay halves, and few nodes get several tries. On the small
// graphs of TestPartitionCost this finds the best cut 92 times in 100, and gains 97 %
// of what can be gained; as LLVM has it, that is 35 times, and 42 %.
//
// Its time is nodes times their groups times the logarithm of nodes, at most 160
// times that, and mostly 40. The order depends on the order that nodes are given in, and on
// nothing else.
func partition(groups [][]int) []int {
	p := &partitioning{}
	nodes := make([]bisected, len(groups))
	n := 0
	for i, gs := range groups {
		nodes[i] = bisected{index: i, groups: slices.Clone(gs)}
		for _, g := range gs {
			n = max(n, g+1)
		}
	}
	p.count, p.number = make([]int, n), make([]int, n)
	p.bisect(nodes, 0, 1)
	order := make([]int, len(nodes))
	for i, node := range nodes {
		order[i] = node.index
	}
	return order
}

const (
	splitDepth         = 18  // BalancedPartitioningConfig::SplitDepth
	iterationsPerSplit = 40  // IterationsPerSplit
	skipProbability    = 0.1 // SkipProbability
	tries              = 4   // TestPartitionCost: 1 gains 87 % of what can be gained, 2 94 %, 4 97 %, 16 98 %
	fewNodes           = 64  // that several tries are worth it for: chance matters less to many
)

// A partitioning has scratch space: by group, of which count is all 0 between uses,
// and the groups that a halving has met.
type partitioning struct{ count, number, seen []int }

// A bisected node is one of those that are halved.
type bisected struct {
	index  int   // as given
	groups []int // those that may still say where to cut
	right  bool  // the half that it is in
	local  []int // groups by their number in this halving
}

// A signature is how a group is split, and what it gains by a move.
type signature struct {
	side [2]int // nodes on the left, on the right
	gain [2]float64
	old  bool // gain is of another split
}

// bisect puts nodes in order. bucket is a number that no other call has.
func (p *partitioning) bisect(nodes []bisected, depth int, bucket uint64) {
	if len(nodes) <= 1 || depth >= splitDepth {
		slices.SortFunc(nodes, byIndex)
		return
	}
	slices.SortFunc(nodes, byIndex)
	p.halve(nodes, bucket)
	slices.SortFunc(nodes, func(a, b bisected) int {
		return cmp.Or(cmp.Compare(toInt(a.right), toInt(b.right)), byIndex(a, b))
	})
	middle, _ := slices.BinarySearchFunc(nodes, true, func(n bisected, right bool) int { return cmp.Compare(toInt(n.right), toInt(right)) })
	p.bisect(nodes[:middle], depth+1, 2*bucket)
	p.bisect(nodes[middle:], depth+1, 2*bucket+1)
}

// halve puts each node, which are in their order, on a side. Where the search ends
// depends on what it leaves out: of several tries, the one of least cost counts.
func (p *partitioning) halve(nodes []bisected, bucket uint64) {
	sigs := p.signatures(nodes)
	best, least := make([]bool, len(nodes)), math.Inf(1)
	for try := range uint64(tries) {
		if try > 0 && len(nodes) > fewNodes {
			break
		}
		for i := range sigs {
			sigs[i] = signature{old: true}
		}
		for i := range nodes {
			n := &nodes[i]
			n.right = i >= (len(nodes)+1)/2
			for _, g := range n.local {
				sigs[g].side[toInt(n.right)]++
			}
		}
		// Each halving has its own random numbers, so that none depends on another.
		rnd := rand.NewPCG(bucket, try)
		for range iterationsPerSplit {
			if cost := splitsCost(sigs); cost < least {
				least = cost
				for i := range nodes {
					best[i] = nodes[i].right
				}
			}
			if improve(nodes, sigs, rnd) == 0 {
				break
			}
		}
	}
	for i := range nodes {
		nodes[i].right = best[i]
	}
}

// splitsCost is the cost of all groups.
func splitsCost(sigs []signature) float64 {
	var cost float64
	for i := range sigs {
		cost += splitCost(sigs[i].side[0], sigs[i].side[1])
	}
	return cost
}

func byIndex(a, b bisected) int { return cmp.Compare(a.index, b.index) }

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// signatures drops the groups that say nothing about nodes, numbers the others and
// makes a signature of each.
func (p *partitioning) signatures(nodes []bisected) []signature {
	p.seen = p.seen[:0]
	for _, n := range nodes {
		for _, g := range n.groups {
			if p.count[g] == 0 {
				p.seen, p.number[g] = append(p.seen, g), -1
			}
			p.count[g]++
		}
	}
	var sigs []signature
	for i := range nodes {
		n := &nodes[i]
		n.local = n.local[:0]
		kept := n.groups[:0]
		for _, g := range n.groups {
			if p.count[g] <= 1 || p.count[g] == len(nodes) {
				continue
			}
			if p.number[g] < 0 {
				p.number[g] = len(sigs)
				sigs = append(sigs, signature{})
			}
			kept = append(kept, g)
			n.local = append(n.local, p.number[g])
		}
		n.groups = kept
	}
	for _, g := range p.seen {
		p.count[g] = 0
	}
	return sigs
}

// improve moves pairs of nodes to the other side, those first that gain most by it.
// It returns the number of nodes moved.
func improve(nodes []bisected, sigs []signature, rnd *rand.PCG) (moved int) {
	for i := range sigs {
		if s := &sigs[i]; s.old {
			s.gains()
		}
	}
	type move struct {
		gain float64
		node *bisected
	}
	var sides [2][]move
	for i := range nodes {
		// A move that is left out now and then leads out of local optima.
		if float64(rnd.Uint64())/(1<<64) <= skipProbability {
			continue
		}
		n := &nodes[i]
		from := toInt(n.right)
		var gain float64
		for _, g := range n.local {
			gain += sigs[g].gain[from]
		}
		sides[from] = append(sides[from], move{gain, n})
	}
	for _, moves := range sides {
		slices.SortFunc(moves, func(a, b move) int {
			if a.gain != b.gain {
				return cmp.Compare(b.gain, a.gain)
			}
			return a.node.index - b.node.index
		})
	}
	for i := range min(len(sides[0]), len(sides[1])) {
		if sides[0][i].gain+sides[1][i].gain <= 0 {
			break
		}
		for _, moves := range sides {
			moves[i].node.flip(sigs)
			moved++
		}
	}
	return moved
}

// flip moves a node to the other side.
func (n *bisected) flip(sigs []signature) {
	from := toInt(n.right)
	n.right = !n.right
	for _, g := range n.local {
		s := &sigs[g]
		s.side[from]--
		s.side[1-from]++
		s.old = true
	}
}

// gains works out what a group gains if one of its nodes moves from either side.
func (s *signature) gains() {
	now := splitCost(s.side[0], s.side[1])
	s.gain = [2]float64{}
	if s.side[0] > 0 {
		s.gain[0] = now - splitCost(s.side[0]-1, s.side[1]+1)
	}
	if s.side[1] > 0 {
		s.gain[1] = now - splitCost(s.side[0]+1, s.side[1]-1)
	}
	s.old = false
}

// splitCost is the cost of a group that is split so.
func splitCost(l, r int) float64 {
	return -(float64(l)*math.Log2(float64(l+1)) + float64(r)*math.Log2(float64(r+1)))
}
