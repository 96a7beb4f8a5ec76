package infer

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
