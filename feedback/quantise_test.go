package feedback

import (
	"bytes"
	"slices"
	"testing"

	"backfeed/sample"
)

func TestQuantise(t *testing.T) {
	for n, want := range map[uint64]uint64{0: 0, 1: 1, 7: 7, 8: 8, 9: 10, 15: 16, 100: 96, 103: 96, 104: 112, 1000: 1024, 1 << 62: 1 << 62} {
		if got := quantise(n); got != want || quantise(got) != got {
			t.Errorf("quantise(%d) = %d, and that %d; want %d twice", n, got, quantise(got), want)
		}
	}
}

// TestGoBytes: edges and frames give the same bytes in whatever order they come.
func TestGoBytes(t *testing.T) {
	edges := []goEdge{
		{goFunc{"a", 1, "x.go"}, 2, goFunc{"b", 9, "x.go"}},
		{goFunc{"a", 1, "x.go"}, 3, goFunc{"b", 9, "x.go"}},
		{goFunc{"b", 9, "x.go"}, 9, goFunc{"c", 1, "y.go"}},
	}
	var first []byte
	for turn := range len(edges) {
		g := &goWriter{view: &view{}, edges: map[goEdge]*goWeight{}}
		for i := range edges {
			g.at(edges[(i+turn)%len(edges)]).counted = 999
		}
		out := newPprof(sample.ImageID{Path: "/home/somebody/program"})
		g.scale()
		g.round(nil)
		for _, e := range g.kept() {
			if n := g.edges[e].n; n != 1024 {
				t.Errorf("999 executions weigh %d, want 1024", n)
			}
			out.edge(e, g.edges[e])
		}
		var b bytes.Buffer
		if err := out.write(&b); err != nil {
			t.Fatal(err)
		}
		if turn == 0 {
			first = slices.Clone(b.Bytes())
		} else if !bytes.Equal(first, b.Bytes()) {
			t.Errorf("turn %d: other bytes", turn)
		}
		if out.p.TimeNanos != 0 || out.p.DurationNanos != 0 || out.p.Mapping[0].File != "program" {
			t.Errorf("time %d, duration %d, file %q", out.p.TimeNanos, out.p.DurationNanos, out.p.Mapping[0].File)
		}
	}
}
