package stale

import (
	"fmt"
	"strings"
	"testing"

	"backfeed/infer/image"
)

// codeOf makes code of a notation: "A B C; A>C" are three blocks of which each runs
// on to the next, and a jump from A to C. Blocks of one letter have the same code;
// A and a have the same operations.
func codeOf(text string) *code {
	names, jumps, _ := strings.Cut(text, ";")
	c := &code{proc: &image.Proc{}}
	index := map[string]int{}
	for i, name := range strings.Fields(names) {
		a := image.Addr(0x1000 + 16*i)
		index[name] = i
		c.proc.Blocks = append(c.proc.Blocks, image.Block{Start: a, End: a + 16, Insts: 1})
		c.insts = append(c.insts, []image.Inst{{Addr: a, Len: 16}})
		c.full = append(c.full, hashString(0, name))
		c.ops = append(c.ops, hashString(0, strings.ToLower(name)))
		if i > 0 {
			c.proc.Edges = append(c.proc.Edges, image.Edge{From: i - 1, To: i})
		}
	}
	c.calls = c.full
	for _, jump := range strings.Fields(jumps) {
		from, to, _ := strings.Cut(jump, ">")
		c.proc.Edges = append(c.proc.Edges, image.Edge{From: index[from], To: index[to], Kind: image.Taken})
	}
	for i, e := range c.proc.Edges {
		c.proc.Blocks[e.From].Out = append(c.proc.Blocks[e.From].Out, i)
		c.proc.Blocks[e.To].In = append(c.proc.Blocks[e.To].In, i)
	}
	return c
}

// TestTwin: what each block of an old procedure is in the newer one, and why:
// = is the same procedure, ! the same code, ~ the same operations, ? its part, - nothing.
func TestTwin(t *testing.T) {
	marks := [NumTies]string{"-", "?", "~", "!", "="}
	for _, tt := range []struct{ name, old, new, want string }{
		{"unchanged", "A B C; A>C", "A B C; A>C", "0= 1= 2="},
		{"a block in front", "A B C", "X A B C", "1! 2! 3!"},
		{"a block between", "A B C", "A B X C", "0! 1! 3!"},
		{"a block less", "A B X C", "A B C", "0! 1! 0- 2!"},
		{"a constant changed", "A B C", "A b C", "0! 1~ 2!"},
		{"a block edited", "A B C", "A X C", "0! 1? 2!"},
		{"many of a kind", "A E B E C E D", "A E B E X C E D", "0! 1! 2! 3! 5! 6! 7!"},
		{"reordered", "A B C; A>C", "A C B; A>B", "0! 2! 1!"},
		{"nothing in common but the entry", "A B", "X Y", "0? 1?"},
	} {
		p := twinOf(codeOf(tt.old), codeOf(tt.new))
		var got []string
		for i, tie := range p.ties {
			got = append(got, fmt.Sprintf("%d%s", p.block[i], marks[tie]))
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s: %s in %s is %s, want %s", tt.name, tt.old, tt.new, got, tt.want)
		}
	}
}

// TestNoInstructions: a block of a newer build in which nothing decodes holds the
// place of no instruction.
func TestNoInstructions(t *testing.T) {
	new := codeOf("X")
	new.insts[0] = nil
	p := twinOf(codeOf("A"), new)
	if in, ok := p.same(0, 0); p.ties[0] == NoTie || ok {
		t.Errorf("tied by %v, and instruction %+v is the same", p.ties[0], in)
	}
}

// TestNamesOfBuilds: what of a name another build has as well.
func TestNamesOfBuilds(t *testing.T) {
	for _, tt := range []struct {
		name, unit string
		counted    bool
	}{
		{"f", "f", false},
		{"f.llvm.123", "f", false},
		{"f.constprop.0.isra.1", "f.constprop.0.isra.1", false},
		{"f.part.0.lto_priv.7", "f.part.0", false},
		{"f.cold", "f.cold", false},
		{"main.(*T).run.func2", "main.(*T).run.func2", true},
		{"main.run.func1.gowrap3", "main.run.func1.gowrap3", true},
		{"main.function", "main.function", false},
	} {
		if unit, n := unitName(tt.name), counted(tt.name); unit != tt.unit || n != tt.counted {
			t.Errorf("%s: %s, counted %v; want %s, %v", tt.name, unit, n, tt.unit, tt.counted)
		}
	}
}

// manyBlocks is a procedure of n blocks and an end that all of them jump to, each of other code
// than in another build; all are of one source line if lines says so.
func manyBlocks(n int, build string, lines bool) *code {
	c := codeOf("E")
	at := func(i int) image.Addr { return image.Addr(0x1000 + 16*i) }
	for i := 1; i <= n; i++ {
		c.proc.Blocks = append(c.proc.Blocks, image.Block{Start: at(i), End: at(i + 1), Insts: 1})
		c.insts = append(c.insts, []image.Inst{{Addr: at(i), Len: 16}})
		c.full = append(c.full, hashString(uint64(i), build))
		c.ops = append(c.ops, hashString(uint64(i), build))
		c.proc.Edges = append(c.proc.Edges, image.Edge{From: i, To: 0, Kind: image.Taken})
		c.proc.Blocks[i].Out, c.proc.Blocks[0].In = []int{i - 1}, append(c.proc.Blocks[0].In, i-1)
	}
	c.calls = c.full
	if lines {
		frame := []image.Frame{{Func: "f", Line: 7, StartLine: 1}}
		c.frames = func(image.Addr) []image.Frame { return frame }
	}
	return c
}

// TestTwinOfMany: procedures whose blocks all lead to one, or are all of one line, take time
// in proportion to their size; with all pairs of blocks, these would take minutes.
func TestTwinOfMany(t *testing.T) {
	const n = 30_000
	for _, lines := range []bool{false, true} {
		p := twinOf(manyBlocks(n, "old", lines), manyBlocks(n, "new", lines))
		for i := range p.ties {
			if p.ties[i] == NoTie || p.block[i] != i {
				t.Fatalf("lines %v: block %d is tied to %d: %v", lines, i, p.block[i], p.ties[i])
			}
		}
	}
}

// TestSpreadIndexed: many blocks before one are tied as few are, each to the first of its code
// that is left, along an edge of the same kind if there is one.
func TestSpreadIndexed(t *testing.T) {
	of := func(order []int) *code {
		c := codeOf("E")
		for x, v := range order {
			a := image.Addr(0x1010 + 16*x)
			kind := image.Taken
			if v%2 == 0 {
				kind = image.Indirect
			}
			c.proc.Blocks = append(c.proc.Blocks, image.Block{Start: a, End: a + 16, Insts: 1})
			c.insts = append(c.insts, []image.Inst{{Addr: a, Len: 16}})
			c.full = append(c.full, uint64(v/4))
			c.proc.Edges = append(c.proc.Edges, image.Edge{From: x + 1, To: 0, Kind: kind})
			c.proc.Blocks[x+1].Out, c.proc.Blocks[0].In = []int{x}, append(c.proc.Blocks[0].In, x)
		}
		c.calls, c.ops = c.full, c.full
		return c
	}
	var forth, back []int
	for v := range 40 {
		forth, back = append(forth, v), append([]int{v}, back...)
	}
	p := twinOf(of(forth), of(back))
	for i := 1; i <= 40; i++ {
		v, w := forth[i-1], back[p.block[i]-1]
		if p.ties[i] != SameCode || v/4 != w/4 || v%2 != w%2 {
			t.Errorf("block %d, of %d, is tied to one of %d: %v", i, v, w, p.ties[i])
		}
	}
}
