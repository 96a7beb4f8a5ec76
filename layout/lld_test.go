package layout

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

func scan(s string, to ...any) {
	if _, err := fmt.Sscan(s, to...); err != nil {
		panic(fmt.Sprintf("%q: %v", s, err))
	}
}

// randomGraph makes a graph as lld makes one of a call graph file: nodes are
// numbered as they come up in the calls, calls leave from the middle of a
// procedure, and it runs as often as it is called.
func randomGraph(seed uint64, n int) *Graph {
	rnd := rand.New(rand.NewPCG(seed, 1))
	g := &Graph{}
	number := map[int]int{}
	node := func(k int) int {
		if _, ok := number[k]; !ok {
			number[k] = len(g.Nodes)
			g.Nodes = append(g.Nodes, Node{Size: 16 + 16*uint64(rnd.IntN(60))})
		}
		return number[k]
	}
	seen := map[[2]int]bool{}
	for range 3 * n {
		k := [2]int{rnd.IntN(n), rnd.IntN(n)}
		if k[0] == k[1] || seen[k] {
			continue
		}
		seen[k] = true
		a := Arc{From: node(k[0]), To: node(k[1]), N: float64(1 + rnd.IntN(10000))}
		a.Offset = (g.Nodes[a.From].Size + 1) / 2
		g.Nodes[a.To].N += a.N
		g.Arcs = append(g.Arcs, a)
	}
	return g
}

// object assembles one section and symbol f0, f1 ... for each node.
func object(t *testing.T, dir string, g *Graph) {
	t.Helper()
	var src strings.Builder
	for i, n := range g.Nodes {
		fmt.Fprintf(&src, ".section .text.f%[1]d,\"ax\",@progbits\n.p2align 4\n.globl f%[1]d\n.type f%[1]d,@function\nf%[1]d: .skip %[2]d,0x90\n.size f%[1]d,%[2]d\n", i, n.Size)
	}
	if err := os.WriteFile(filepath.Join(dir, "f.s"), []byte(src.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	testtool.Run(t, dir, "clang-19", "--target=x86_64-linux-gnu", "-c", "f.s")
}

// linked links f.o and returns the order of the nodes in it.
func linked(t *testing.T, dir string, args ...string) []int {
	t.Helper()
	testtool.Run(t, dir, append([]string{"ld.lld-19", "-shared", "f.o", "-o", "f.so"}, args...)...)
	var order []int
	for _, line := range strings.Split(testtool.Run(t, dir, "llvm-nm-19", "-n", "f.so"), "\n") {
		var i int
		if f := strings.Fields(line); len(f) == 3 && f[1] == "T" {
			if _, err := fmt.Sscanf(f[2], "f%d", &i); err == nil {
				order = append(order, i)
			}
		}
	}
	return order
}

// TestLikeLLD holds both searches to lld's own, over the same call graphs.
func TestLikeLLD(t *testing.T) {
	testtool.Need(t, "clang-19", "ld.lld-19", "llvm-nm-19")
	for seed := range uint64(20) {
		g := randomGraph(seed, 5+3*int(seed))
		dir := t.TempDir()
		object(t, dir, g)
		var calls strings.Builder
		for _, a := range g.Arcs {
			fmt.Fprintf(&calls, "f%d f%d %.0f\n", a.From, a.To, a.N)
		}
		if err := os.WriteFile(filepath.Join(dir, "calls"), []byte(calls.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		for kind, search := range map[string]func(*Graph) []int{"hfsort": callChains, "cdsort": cacheDirected} {
			want := linked(t, dir, "--call-graph-ordering-file=calls", "--call-graph-profile-sort="+kind)
			if got := search(g); !slices.Equal(got, want) {
				t.Errorf("seed %d: %s:\n%v, lld has\n%v", seed, kind, got, want)
			}
		}
	}
}

// TestSymbolOrderingFile: lld lays the procedures out as the file says.
func TestSymbolOrderingFile(t *testing.T) {
	testtool.Need(t, "clang-19", "ld.lld-19", "llvm-nm-19")
	var procs, calls []string
	g := randomGraph(7, 12)
	for i, n := range g.Nodes {
		procs = append(procs, fmt.Sprintf("f%d %d %g %d", i, n.Size, n.N, i%2))
	}
	for _, a := range g.Arcs {
		calls = append(calls, fmt.Sprintf("f%d>f%d %g", a.From, a.To, a.N))
	}
	o := Functions(program(procs, calls...))
	var file strings.Builder
	if err := o.WriteSymbols(&file); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	object(t, dir, g)
	if err := os.WriteFile(filepath.Join(dir, "order"), []byte(file.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	var want []int
	for _, s := range o.Symbols {
		var i int
		fmt.Sscanf(s.Name, "f%d", &i)
		want = append(want, i)
	}
	got := linked(t, dir, "--symbol-ordering-file=order")
	if len(want) < 10 || !slices.Equal(got[:len(want)], want) {
		t.Errorf("lld has %v, the order is %v", got, want)
	}
}
