package feedback

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"backfeed/infer/image"
)

// What a way through the places of a graph's lines costs. Of calls of one function, gcc puts what became of them into the graph in the order of
// the source: the lines of the calls around and that of a statement, outermost first, go up from each statement to the next, but
// for loops, whose conditions follow what they repeat.
const (
	backLine   = 0.5 // to a line before
	backCall   = 5   // into a call before
	again      = 0.3 // the same place for two blocks
	unforeseen = 0.3 // into a call whose own line did not precede it
	noPlace    = 1.2 // a line of a block has none: of that call, the compiler left nothing of the line
)

// mostStates is how many places are looked at as those of what is before a line; mostLines and mostChoices are for how many lines, and places
// of lines, of a function it is done at all.
const mostStates, mostLines, mostChoices = 32, 1 << 15, 1 << 18

// A choice is a place that a line of a block may be of, with its path.
type choice struct {
	position
	path []int
}

// placed returns the blocks of the graph that each place of a copy is of. A line of the source that is in several calls of its function, all inlined into
// the graph, is in as many groups of blocks: notes do not say of which call each is. Where that is not looked for, the copy that
// is returned has one place for each line.
func (c *chart) placed(of *copyOf) (*copyOf, map[position][]int) {
	some := map[sourceLine][]*choice{}
	for _, at := range sortedKeys(of.paths, comparePositions) {
		some[at.line] = append(some[at.line], &choice{at, of.paths[at]})
	}
	choices, most := 0, 0
	for line, of := range some {
		slices.SortStableFunc(of, func(a, b *choice) int { return slices.Compare(a.path, b.path) })
		choices, most = choices+len(of)*len(c.blocks[line]), max(most, len(of))
	}
	blocks := map[position][]int{}
	if most < 2 || choices > mostChoices || len(c.lines) > mostLines {
		of = of.together()
		for _, at := range slices.Concat(sortedKeys(of.at, comparePositions), sortedKeys(of.calls, comparePositions)) {
			blocks[at] = c.blocks[at.line]
		}
		return of, blocks
	}
	var w lineSearch
	var told []int // blocks of the lines that have places
	for _, l := range c.lines {
		if of := some[l.line]; len(of) > 0 {
			w.step(l.line, of)
			told = append(told, l.block)
		}
	}
	for i, at := range w.best() {
		if at == nil {
			continue
		}
		if bs := blocks[at.position]; len(bs) == 0 || bs[len(bs)-1] != told[i] {
			blocks[at.position] = append(bs, told[i])
		}
	}
	return of, blocks
}

// together returns the copy without the calls around.
func (of *copyOf) together() *copyOf {
	whole := newCopy()
	whole.enters = of.enters
	for at, blocks := range of.at {
		at.within = ""
		if whole.at[at] == nil {
			whole.at[at] = map[image.Addr]float64{}
		}
		for b, n := range blocks {
			whole.at[at][b] = max(whole.at[at][b], n)
		}
	}
	for b, places := range of.holds {
		for at := range places {
			at.within = ""
			whole.hold(at, b)
		}
	}
	for at, blocks := range of.discs {
		at.within = ""
		for b, discs := range blocks {
			for _, d := range discs {
				whole.discerned(at, b, d)
			}
		}
	}
	for _, marks := range []struct {
		from, to map[position]map[image.Addr]bool
	}{{of.does, whole.does}, {of.acts, whole.acts}, {of.stays, whole.stays}} {
		for at, blocks := range marks.from {
			at.within = ""
			if marks.to[at] == nil {
				marks.to[at] = map[image.Addr]bool{}
			}
			maps.Copy(marks.to[at], blocks)
		}
	}
	for at, blocks := range of.chosen {
		at.within = ""
		if whole.chosen[at] == nil {
			whole.chosen[at] = map[image.Addr]float64{}
		}
		maps.Copy(whole.chosen[at], blocks)
	}
	for at, calls := range of.calls {
		at.within = ""
		for name, n := range calls {
			whole.called(at, name, n)
		}
	}
	return whole
}

// A lineSearch is the search for the cheapest places of lines, one line after the other.
type lineSearch struct {
	line  sourceLine // the last one
	now   []state
	steps [][]state // of all lines
}

// A state is what the lines so far cost if the last that has a place has this one.
type state struct {
	at     *choice // nil before the first
	after  bool    // out of a call of its line
	has    bool    // the last line itself has it
	cost   float64
	before int // index of the state before
}

// step adds a line, which may be of some places.
func (w *lineSearch) step(line sourceLine, some []*choice) {
	if len(w.steps) == 0 {
		w.now = []state{{}}
	}
	var next []state
	for _, at := range some {
		s := state{at: at, has: true, cost: math.Inf(1)}
		for k, b := range w.now {
			if line == w.line && !b.has {
				continue // a line that follows itself is left out of both, or of none
			}
			cost, after := b.to(at)
			if s.at == b.at && len(some) == 1 {
				cost = 0
			}
			if b.cost+cost < s.cost {
				s.cost, s.after, s.before = b.cost+cost, after, k
			}
		}
		next = append(next, s)
	}
	for k, b := range w.now {
		s := state{at: b.at, after: b.after, cost: b.cost, before: k}
		if line == w.line && b.has {
			continue
		}
		if line != w.line {
			s.cost += noPlace
		}
		next = append(next, s)
	}
	slices.SortStableFunc(next, func(a, b state) int { return cmp.Compare(a.cost, b.cost) })
	w.line, w.now = line, slices.Clone(next[:min(len(next), mostStates)])
	w.steps = append(w.steps, w.now)
}

// to returns what it costs that a place follows, and whether that is out of a call of its line.
func (s state) to(at *choice) (cost float64, after bool) {
	if s.at == nil {
		return 0, false
	}
	if s.at == at {
		return again, s.after
	}
	p, q := s.at.path, at.path
	same := 0
	for same < min(len(p), len(q)) && p[same] == q[same] {
		same++
	}
	statement := same >= len(q)-1 // of a function that control is in
	switch {
	case same == len(q):
		return 0, true
	case same == len(p) && s.after:
		return backCall, false
	case same == len(p):
		return 0, false
	case p[same] > q[same] && statement:
		return backLine, false
	case p[same] > q[same]:
		return backCall, false
	case !statement:
		return unforeseen, false
	}
	return 0, false
}

// best returns the places of all lines, nil of one that has none.
func (w *lineSearch) best() []*choice {
	at := make([]*choice, len(w.steps))
	k := 0
	for i, states := range slices.Backward(w.steps) {
		if s := states[k]; s.has {
			at[i] = s.at
		}
		k = states[k].before
	}
	return at
}
