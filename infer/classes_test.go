package infer

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/image"
)

func TestClasses(t *testing.T) {
	for _, tt := range []struct {
		name, g string
		want    string // classes as lists of members: blocks a, edges by number
	}{
		{"one block", "a!", "a"},
		{"a chain is one class", "a>b b>c c!", "abc01"},
		{"the arms of a diamond are two", "a>b a>c b>d c>d d!", "ad b02 c13"},
		{"a self loop is by itself", "a>b b>b b>c c!", "ac02 b 1"},
		{"a loop body with a test at its end", "a>b b>c c>b c>d d!", "ad03 bc1 2"},
		{"two loops one after the other", "a>b b>b b>c c>c c>d d!", "ad024 b c 1 3"},
		{"nested loops", "a>b b>c c>c c>b c>d d!", "ad04 b1 c 2 3"},
		{"parallel edges stay apart", "a>b a>b b!", "ab 0 1"},
		{"several exits", "a>b a>c b! c*", "a b0 c1"},
		{"a return in a loop", "a>b b>a b!", "a0b 1"},
		{"a conditional tail call", "a>b a! b!", "a b0"},
		{"a way into two loops at once (irreducible)", "a>b a>c b>c c>b c>d d!", "ad4 b2 c 0 1 3"},
		{"an idle loop is entered or not, and goes round", "a>b a>d b>c c>b d!", "a bc23 d1 0"},
		{"nothing but an idle loop", "a>b b>a", "ab01"},
		{"a loop that only leads to a trap", "a>b b>b b>c c>d d>c", "a02 b 1 cd34"},
		{"code that nothing leads to may run all the same", "a>c b>c c!", "a0 b c 1"},
		{"a landing pad's way joins in", "a>c b>c c! b^", "a0 b1 c"},
		{"an incomplete procedure", "a>b b>c c! ?", "a b c 0 1"},
	} {
		g, partial := strings.CutSuffix(tt.g, " ?")
		g, pad := strings.CutSuffix(g, " b^")
		p := graph(g)
		p.Complete = !partial
		if pad {
			p.Entries = append(p.Entries, 1)
		}
		if got, want := members(classesOf(p)), normal(tt.want); got != want {
			t.Errorf("%s: %s: classes %s, want %s", tt.name, tt.g, got, want)
		}
	}
}

// members lists the classes of c as in TestClasses.
func members(c *classes) string {
	m := make([]string, c.n)
	for b, k := range c.block {
		m[k] += string(rune('a' + b))
	}
	for e, k := range c.edge {
		m[k] += fmt.Sprint(e)
	}
	return normal(strings.Join(m, " "))
}

func normal(s string) string {
	m := strings.Fields(s)
	for i := range m {
		c := []byte(m[i])
		slices.Sort(c)
		m[i] = string(c)
	}
	slices.Sort(m)
	return strings.Join(m, " ")
}

// TestClassesDefinition compares with the definition of equivalence, pair by pair.
func TestClassesDefinition(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(3, 4))
	kinds := map[string]int{}
	for range 6000 {
		p := randomCFG(rng, 1+rng.IntN(9))
		c := classesOf(p)
		d := define(p)
		d.tally(kinds)
		all := append(slices.Clone(c.block), c.edge...)
		top := int32(0)
		for x := range all {
			if all[x] > top {
				t.Fatalf("%s: class %d before %d", p.Name, all[x], top)
			}
			top = max(top, all[x]+1)
			for y := range x {
				if want := d.equivalent(x, y); (all[x] == all[y]) != want {
					t.Fatalf("%s entries %v: items %d and %d: equivalent %v, by definition %v", p.Name, p.Entries, y, x, !want, want)
				}
			}
		}
		if int(top) != c.n {
			t.Fatalf("%s: %d classes, said to be %d", p.Name, top, c.n)
		}
	}
	for _, k := range []string{"irreducible", "self loop", "parallel", "exits", "trap", "unreachable", "entries"} {
		if kinds[k] < 200 {
			t.Errorf("only %d graphs of kind %q: the test does not test it", kinds[k], k)
		}
	}
}

// TestClassesRun: members of one class run equally often in every complete run.
func TestClassesRun(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	runs := 0
	for range 1500 {
		p := randomCFG(rng, 1+rng.IntN(12))
		c := classesOf(p)
		d := define(p)
		for range 5 {
			n, ok := d.walk(rng, 500)
			if !ok {
				continue // never left: counts are those of an incomplete run
			}
			runs++
			ran := make([]int, c.n)
			seen := make([]bool, c.n)
			for x, k := range append(slices.Clone(c.block), c.edge...) {
				if seen[k] && ran[k] != n[x] {
					t.Fatalf("%s: class %d has members that ran %d and %d times", p.Name, k, ran[k], n[x])
				}
				ran[k], seen[k] = n[x], true
			}
		}
	}
	if runs < 3000 {
		t.Errorf("only %d complete runs", runs)
	}
}

// TestClassesTruth: so they do in a real program.
func TestClassesTruth(t *testing.T) {
	m := loadMix(t)
	for path, truth := range m.Truth.Images {
		if !strings.HasSuffix(path, "/mix") {
			continue
		}
		compared := 0
		for i := range m.image.Symbols() {
			p, err := m.image.Proc(i)
			if err != nil {
				t.Fatal(err)
			}
			c := classesOf(p)
			first := make([]int, c.n) // block of each class, plus 1
			for b, k := range c.block {
				if first[k] == 0 {
					first[k] = b + 1
					continue
				}
				a := &p.Blocks[first[k]-1]
				if x, y := truth.Insts[a.Start], truth.Insts[p.Blocks[b].Start]; x != y {
					t.Errorf("%s: blocks %#x and %#x are of one class, but ran %d and %d times", p.Name, a.Start, p.Blocks[b].Start, x, y)
				} else if x > 0 {
					compared++
				}
			}
		}
		if compared < 10 {
			t.Errorf("%s: only %d pairs of blocks that ran", path, compared)
		}
		return
	}
	t.Error("no counts of mix")
}

// randomCFG makes a procedure of n blocks: any edges, exits here and there,
// sometimes more entries than one.
func randomCFG(rng *rand.Rand, n int) *image.Proc {
	var s strings.Builder
	exits := rng.IntN(4)
	for i := range n {
		b := rune('a' + i)
		fmt.Fprintf(&s, "%c ", b)
		for range rng.IntN(4) {
			to := rng.IntN(n)
			if rng.IntN(2) == 0 {
				to = min(n-1, i+1)
			}
			fmt.Fprintf(&s, "%c>%c ", b, rune('a'+to))
		}
		if rng.IntN(4) < exits {
			fmt.Fprintf(&s, "%c! ", b)
		}
	}
	p := graph(s.String())
	if rng.IntN(3) == 0 {
		if b := rng.IntN(n); b > 0 {
			p.Entries = append(p.Entries, b)
		}
	}
	return p
}

// A definition decides equivalence from first principles, slowly. Items are the
// blocks and edges of p as nodes of one graph; item len(Blocks)+len(Edges) is
// the outside.
type definition struct {
	p       *image.Proc
	next    [][]int
	live    []bool // reached from outside
	trap    []int  // by item: lowest block of its trap, or -1
	outside int
}

func define(p *image.Proc) *definition {
	nb := len(p.Blocks)
	d := &definition{p: p, outside: nb + len(p.Edges)}
	d.next = make([][]int, d.outside+1)
	d.next[d.outside] = slices.Clone(p.Entries)
	for b := range p.Blocks {
		for _, e := range p.Blocks[b].Out {
			d.next[b] = append(d.next[b], nb+e)
		}
		if leaves(&p.Blocks[b]) {
			d.next[b] = append(d.next[b], d.outside)
		}
	}
	for e := range p.Edges {
		d.next[nb+e] = []int{p.Edges[e].To}
	}
	d.live = d.from(d.outside, -1)
	d.trap = make([]int, d.outside+1)
	for x := range d.trap {
		d.trap[x] = -1
		// x is in a trap if all that it leads to leads back to it.
		to := d.from(x, -1)
		trapped := d.live[x] && to[x]
		for y, ok := range to {
			trapped = trapped && (!ok || d.from(y, -1)[x])
		}
		if trapped && !to[d.outside] {
			d.trap[x] = slices.Index(to, true)
		}
	}
	for x := range d.outside { // what enters the middle from dead code enters from outside
		if !d.live[x] {
			for _, y := range d.next[x] {
				if y < nb && d.live[y] {
					d.next[d.outside] = append(d.next[d.outside], y)
				}
			}
		}
	}
	for x := range d.next { // what enters a trap does not come back
		for i, y := range d.next[x] {
			if d.trap[y] >= 0 && d.trap[x] < 0 {
				d.next[x][i] = d.outside
			}
		}
	}
	return d
}

// from marks what a way of at least one step from x leads to without passing skip.
func (d *definition) from(x, skip int) []bool {
	seen := make([]bool, len(d.next))
	work := []int{x}
	for len(work) > 0 {
		x := work[0]
		work = work[1:]
		for _, y := range d.next[x] {
			if !seen[y] && y != skip {
				seen[y] = true
				work = append(work, y)
			}
		}
	}
	return seen
}

func (d *definition) equivalent(x, y int) bool {
	return d.live[x] && d.live[y] && d.trap[x] == d.trap[y] && !d.from(x, y)[x] && !d.from(y, x)[y]
}

// walk runs the procedure once at random, and returns the executions by item.
func (d *definition) walk(rng *rand.Rand, limit int) (n []int, left bool) {
	n = make([]int, d.outside)
	x := d.p.Entries[rng.IntN(len(d.p.Entries))]
	for range limit {
		if x == d.outside {
			return n, true
		}
		if d.trap[x] >= 0 {
			return nil, false
		}
		n[x]++
		x = d.next[x][rng.IntN(len(d.next[x]))]
	}
	return nil, false
}

// tally counts what kinds of graph d is of.
func (d *definition) tally(kinds map[string]int) {
	exits, self, parallel, irreducible := 0, false, false, false
	for b := range d.p.Blocks {
		if d.live[b] && leaves(&d.p.Blocks[b]) {
			exits++
		}
	}
	seen := map[[2]int]bool{}
	for e, x := range d.p.Edges {
		self = self || x.From == x.To
		parallel = parallel || seen[[2]int{x.From, x.To}]
		seen[[2]int{x.From, x.To}] = true
		// Neither end of a cycle a-b-a dominates the other.
		if back := d.from(x.To, -1); d.live[x.From] && back[x.From] && x.From != x.To {
			irreducible = irreducible || d.from(d.outside, x.From)[x.To] && d.from(d.outside, x.To)[x.From] &&
				!d.headed(len(d.p.Blocks)+e)
		}
	}
	for k, is := range map[string]bool{
		"self loop": self, "parallel": parallel, "irreducible": irreducible, "exits": exits > 1, "entries": len(d.p.Entries) > 1,
		"trap": slices.ContainsFunc(d.trap, func(t int) bool { return t >= 0 }), "unreachable": slices.Contains(d.live, false),
	} {
		if is {
			kinds[k]++
		}
	}
}

// headed reports whether some block of x's region dominates all the others.
func (d *definition) headed(x int) bool {
	var region []int
	for y, ok := range d.from(x, -1) {
		if ok && y < len(d.p.Blocks) && d.from(y, -1)[x] {
			region = append(region, y)
		}
	}
	for _, h := range region {
		past := d.from(d.outside, h)
		if !slices.ContainsFunc(region, func(y int) bool { return y != h && past[y] }) {
			return true
		}
	}
	return false
}

func BenchmarkClasses(b *testing.B) {
	const n = 100000
	for _, shape := range []struct {
		name string
		out  func(i int) []int // blocks that block i leads to
	}{
		{"chain", func(i int) []int { return []int{i + 1} }},
		{"ladder", func(i int) []int { return []int{i + 1, i + 2} }},                         // every block may be skipped
		{"nest", func(i int) []int { return []int{i + 1, max(0, n-1-i)} }},                   // loops in loops
		{"loops", func(i int) []int { return []int{i + 1, i / 8 * 8} }},                      // small ones in a row
		{"switch", func(i int) []int { return []int{i + 1, min(n-1, i/512*512+i%512*7+1)} }}, // jumps ahead
	} {
		p := &image.Proc{Complete: true, Entries: []int{0}, Blocks: make([]image.Block, n)}
		for i := range p.Blocks {
			for _, to := range shape.out(i) {
				if to < n {
					p.Blocks[i].Out = append(p.Blocks[i].Out, len(p.Edges))
					p.Blocks[to].In = append(p.Blocks[to].In, len(p.Edges))
					p.Edges = append(p.Edges, image.Edge{From: i, To: to})
				}
			}
		}
		p.Blocks[n-1].Exit = image.Return
		b.Run(shape.name, func(b *testing.B) {
			var c *classes
			for b.Loop() {
				c = classesOf(p)
			}
			b.ReportMetric(float64(b.N)*float64(len(p.Edges))/b.Elapsed().Seconds(), "edges/s")
			b.ReportMetric(float64(c.n), "classes")
		})
	}
}
