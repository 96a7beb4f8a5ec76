package feedback

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// weighing is a writer of the edges of goProfile; those that begin with * are inlined.
func weighing(t *testing.T, edges string) *goWriter {
	t.Helper()
	g := &goWriter{edges: map[goEdge]*goWeight{}, stats: GoStats{Skipped: Skipped{}, Dropped: map[Reason]float64{}, Scale: 1}}
	for text := range strings.SplitSeq(edges, ", ") {
		text, inlined := strings.CutPrefix(text, "*")
		edge, _ := goEdges(goProfile(t, text))
		for e, n := range edge {
			g.edges[e] = &goWeight{inlined: inlined, n: int64(n)}
		}
	}
	return g
}

// written returns the profile of the edges of g.
func written(t *testing.T, g *goWriter) []byte {
	t.Helper()
	out := newPprof(g.stats.Image)
	for _, e := range g.keys() {
		out.edge(e, g.edges[e])
	}
	var b bytes.Buffer
	if err := out.write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestCopies: calls that are hot are hot in copies of their callers as well, as often as the copy's part of them is.
func TestCopies(t *testing.T) {
	for _, tt := range []struct{ name, edges, want string }{
		{"a call in what will be inlined", "a:1>b 8, b:5>c 256", "a:5>c 256"},
		{"two callers, of which one has too few to be hot", "a:1>b 4, d:2>b 1020, b:5>c 1024, d:3>e 256", "d:5>c 1020"},
		{"two callers", "a:1>b 512, d:2>b 512, b:5>c 1024", "a:5>c 512, d:5>c 512"},
		{"copies of copies", "a:1>b 64, b:5>c 128, c:7>d 256", "a:5>c 128, a:7>d 256, b:7>d 256"},
		{"no more than three copies deep", "a:1>b 64, b:2>c 64, c:3>d 64, d:4>e 64, e:5>f 64, f:6>g 64",
			"a:2>c 64, a:3>d 64, a:4>e 64, b:3>d 64, b:4>e 64, b:5>f 64, c:4>e 64, c:5>f 64, c:6>g 64, d:5>f 64, d:6>g 64, e:6>g 64"},
		{"what calls itself is not inlined into itself", "a:1>a 64, a:2>b 64, b:3>a 64", ""},
		{"a call that is cold", "a:1>b 64, b:5>c 2048, b:6>d 2", "a:5>c 2048"},
	} {
		g := weighing(t, tt.edges)
		g.addCopies(false)
		var got []string
		for _, e := range g.keys() {
			if w := g.edges[e]; w.copied {
				got = append(got, fmt.Sprintf("%s:%d>%s %d", e.caller.name, e.line-e.caller.start, e.callee.name, w.n))
			}
		}
		slices.Sort(got)
		if got := strings.Join(got, ", "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestDropSlow: a call that would keep its caller out of line loses its weight, if that costs more.
func TestDropSlow(t *testing.T) {
	for _, tt := range []struct {
		name, edges string
		dropped     bool
	}{
		{"a slow path of what is inlined at many places", "*a:1>lock 2, *b:1>lock 2, *c:1>lock 2, *d:1>lock 2, lock:3>slow 7, m:1>n 985", true},
		{"calls of it are hot as well", "*a:1>lock 40, *b:1>lock 40, *c:1>lock 4, lock:3>slow 10, m:1>n 900", false},
		{"it is taken more often than what is cold", "*a:1>lock 2, *b:1>lock 2, lock:3>slow 7, m:1>n 985", false},
		{"it is inlined already", "*a:1>lock 2, *b:1>lock 2, *c:1>lock 2, *d:1>lock 2, *lock:3>slow 7, m:1>n 985", false},
		{"its caller is not inlined", "a:1>lock 2, b:1>lock 2, c:1>lock 2, d:1>lock 2, lock:3>slow 7, m:1>n 985", false},
	} {
		g := weighing(t, tt.edges)
		g.dropSlow()
		var left int64
		for e, w := range g.edges {
			if e.callee.name == "slow" {
				left = w.n
			}
		}
		if dropped := left == 0; dropped != tt.dropped || dropped != (g.stats.Skipped[SkipSlow] == 1) {
			t.Errorf("%s: weight %d, %v", tt.name, left, g.stats.Skipped)
		}
	}
}

// TestCopiesRead: copies are told from calls of the source, by which the compiler's choices are predicted; they
// count for which calls are hot.
func TestCopiesRead(t *testing.T) {
	g := weighing(t, "a:1>b 96, b:5>c 96, d:1>e 2, d:2>f 2")
	g.addCopies(false)
	b := written(t, g)
	edges, _ := goEdges(b)
	if want, _ := goEdges(goProfile(t, "a:1>b 96, b:5>c 96, d:1>e 2, d:2>f 2")); !maps.Equal(edges, want) {
		t.Errorf("edges %v, want %v", edges, want)
	}
	d, err := DecideGo(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	if got, want := hotIn(d, Inline), "a:1b b:5c d:1e"; got != want || d.Weight != 196 {
		t.Errorf("hot are %s, of %d; want %s, of 196", got, d.Weight, want)
	}
}

// chain is a program whose hot call is in a function that is inlined itself: without a profile, neither is.
const chain = `package main

import "os"

func main() {
	n := 0
	for range 100 {
		n += outer(len(os.Args))
	}
	os.Exit(n & 1)
}

//go:noinline
func outer(n int) int {
	return middle(n) + 1
}

func middle(n int) int {
	s := 0
	for i := range 1000 {
		s += inner(s, i) ^ n
	}
	for i := range n {
		s = s*7 + i%3
	}
	for i := range n {
		s = s*5 + i%7
	}
	return s
}

func inner(a, b int) int {
	for a > b {
		a, b = a/2, b*3+a%5
		if a&7 == 3 {
			b += a ^ 9
		}
	}
	for b > a+100 {
		b = b/2 - a%7
		if b&3 == 1 {
			a += b ^ 5
		}
	}
	for range a & 3 {
		a, b = b>>1^a, a<<1|b
		for b > 5 && a < 77 {
			a, b = a+b*3, b/7-a%11
		}
		for a > 55 && b < 7 {
			a, b = b-a*3, a/9+b%13
		}
	}
	return a*b + a ^ b
}
`

// TestCopiesBuild: the compiler inlines a hot call in its copy of the caller too, for which it wants to be told.
func TestCopiesBuild(t *testing.T) {
	testtool.Need(t, "go")
	dir := t.TempDir()
	testtool.Write(t, dir, "go.mod", "module chain\n\ngo 1.22\n")
	testtool.Write(t, dir, "main.go", chain)
	line := func(text string) int {
		return 1 + strings.Count(chain[:strings.Index(chain, text)], "\n")
	}
	fn := func(name string) goFunc {
		return goFunc{"main." + name, line("func " + name + "("), "main.go"}
	}
	for _, copies := range []bool{false, true} {
		g := &goWriter{edges: map[goEdge]*goWeight{
			{fn("outer"), line("return middle"), fn("middle")}: {n: 4096},
			{fn("middle"), line("s += inner"), fn("inner")}:    {n: 1 << 17},
		}}
		if copies {
			g.addCopies(false)
		}
		testtool.Write(t, dir, "chain.pprof", string(written(t, g)))
		said := goByProfile(t, dir, "chain.pprof", "chain")
		if want := "main.middle (cost"; !strings.Contains(said, want) {
			t.Fatalf("the compiler does not say %q:\n%s", want, remarks(said))
		}
		var into []string
		for l := range strings.Lines(said) {
			if _, caller, ok := strings.Cut(l, "in function "); ok && strings.Contains(l, "call main.inner ") {
				into = append(into, strings.TrimSpace(caller))
			}
		}
		if got := slices.Contains(into, "main.outer"); got != copies {
			t.Errorf("copies %v: main.inner is inlined into %v:\n%s", copies, into, remarks(said))
		}
	}
}
