package layout

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// graph makes a graph of nodes a, b, c ... of 16 bytes. "a>b 70": a to b, 70
// times. A node runs as often as control comes into it.
func graph(arcs string) *Graph {
	g := &Graph{}
	for _, s := range strings.Split(arcs, ",") {
		var from, to rune
		var n float64
		if _, err := fmt.Sscanf(strings.TrimSpace(s), "%c>%c %g", &from, &to, &n); err != nil {
			panic(fmt.Sprintf("arc %q: %v", s, err))
		}
		a := Arc{From: int(from - 'a'), To: int(to - 'a'), N: n}
		for len(g.Nodes) <= max(a.From, a.To) {
			g.Nodes = append(g.Nodes, Node{Size: 16})
		}
		g.Nodes[a.To].N += n
		g.Arcs = append(g.Arcs, a)
	}
	return g
}

func blocks(order string) []int {
	var is []int
	for _, r := range order {
		is = append(is, int(r-'a'))
	}
	return is
}

func names(order []int) string {
	var s strings.Builder
	for _, i := range order {
		s.WriteRune('a' + rune(i))
	}
	return s.String()
}

func TestScore(t *testing.T) {
	// A diamond of 16-byte blocks with a hot left arm.
	diamond := graph("a>b 70, a>c 30, b>d 70, c>d 30")
	// A block that jumps back to itself, and one so large that nothing near it
	// can be reached over it.
	loop := graph("a>b 1, b>b 100, b>c 1, c>a 10")
	far := graph("a>c 10, c>a 10, a>b 0")
	far.Nodes[1].Size = 1100
	for _, tt := range []struct {
		name  string
		g     *Graph
		order string
		want  float64
	}{
		{"as compiled", diamond, "abcd", 111.34},
		{"hot path falls through", diamond, "abdc", 149.26},
		{"cold path falls through", diamond, "acdb", 74.93},
		{"a jump to itself is worth nothing", loop, "abc", 1.05 + 1 + 10*0.1*(1-48.0/640)},
		{"jumps too far are worth nothing", far, "abc", 0},
		{"near ones are", far, "acb", 10 + 10*0.1*(1-32.0/640)},
	} {
		if got := Score(tt.g, blocks(tt.order)); math.Abs(got-tt.want) > 0.01 {
			t.Errorf("%s: Score(%s) = %.2f, want %.2f", tt.name, tt.order, got, tt.want)
		}
	}
}

func TestCallScore(t *testing.T) {
	g := graph("a>b 3, b>a 1, a>a 100")
	g.Arcs[0].Offset = 8
	// Three calls of 8 bytes forward, one of 16 back.
	want := (3*math.Pow(8, -0.25) + math.Pow(16, -0.25)) / 4
	if got := CallScore(g, []uint64{0, 16}); math.Abs(got-want) > 1e-12 {
		t.Errorf("CallScore = %v, want %v", got, want)
	}
	if got := CallScore(graph("a>a 1"), []uint64{0}); got != 0 {
		t.Errorf("CallScore without calls = %v, want 0", got)
	}
}
