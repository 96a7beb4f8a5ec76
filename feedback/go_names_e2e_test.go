package feedback

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// goNames are calls of testdata/names, one for each way of Go to name a function.
var goNames = []struct{ what, edge string }{
	{"a method by an interface, also by way of the wrapper for values", "main.indirect 1 main.square.area"},
	{"a method of a pointer", "main.indirect 1 main.(*circle).area"},
	{"a method that embedding promotes", "main.work 6 main.square.area"},
	{"a closure", "main.apply 1 main.work.func1"},
	{"in a closure", "main.work.func1 1 main.count"},
	{"a method value", "main.apply 1 main.adder.add"},
	{"a generic function", "main.work 12 main.generic[go.shape.int,go.shape.int]"},
	{"in a generic function", "main.generic[go.shape.string,go.shape.[]uint8] 2 main.work.func2"},
	{"a generic method, of a type with blanks", "main.work 20 main.(*list[go.shape.struct { main.a string; main.b string }]).push"},
	{"the body of a loop over a function", "main.(*list[go.shape.int]).all.func1 2 main.work-range1"},
	{"in such a body", "main.work-range1 1 main.count"},
	{"an inlined call", "main.work 25 main.nested"},
	{"an inlined call in one", "main.nested 1 main.small"},
	{"in an inlined call in one", "main.small 1 main.count"},
	{"recursion", "main.recursive 4 main.recursive"},
	{"in a deferred closure", "main.deferred.func1 1 main.count"},
	{"in a goroutine's", "main.work.func3 1 main.count"},
	{"in the initialisation of a variable", "main.init 18 main.count"},
	{"in the initialisation of a map", "main.init 20 main.count"},
	{"in the second init function", "main.init.1 1 main.count"},
	{"of assembly", "main.work 36 example.com/names/asm.Add"},
	{"by assembly", "example.com/names/asm.Twice 3 example.com/names/asm.Double"},
	{"of C", "example.com/names/c.Half 1 example.com/names/c._Cfunc_half"},
	{"by C", "example.com/names/c.twice 0 example.com/names/c.double"},
	{"of a replaced or vendored module, whose path is escaped", "main.work 41 example.com/dots.v2/pkg%2ev3.(*Counter).Add"},
	{"in one", "example.com/dots.v2/pkg%2ev3.Sum[go.shape.float64] 2 example.com/dots.v2/pkg%2ev3.plus[go.shape.float64]"},
	{"by way of one", "example.com/dots.v2/pkg%2ev3.Each 2 main.work.func4"},
	{"a line before the function, by a line directive", "main.work -136 main.count"},
}

// goNoCalls are edges that are right and yet no calls to the compiler, which does not
// let a profile decide there.
var goNoCalls = []string{
	"main.deferred 6 main.deferred.func1",                        // at the closing brace, where deferred calls are made
	"main.work.copied.func5 1 main.count",                        // in a copy of main.copied.func1 that inlining makes
	"example.com/names/asm.Twice 3 example.com/names/asm.Double", // in assembly
}

// TestGoNames holds the edges of WriteGo to what the compiler looks for, in a
// program with each kind of function that Go names in a way of its own. The counts
// are exact, so that each call that ran must be found.
func TestGoNames(t *testing.T) {
	t.Parallel() // the counts are exact
	testtool.Need(t, "go", "gcc", "valgrind")
	if runtime.GOARCH != "amd64" {
		t.Skip("needs amd64: the program has assembly")
	}
	if testing.Short() {
		t.Skip("builds the standard library with a profile")
	}
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS("testdata/names")); err != nil {
		t.Fatal(err)
	}
	replaced := ownEdges(goNamesEdges(t, dir, "mod"))
	testtool.Run(t, dir, "go", "mod", "vendor")
	all := goNamesEdges(t, dir, "vendor")
	edges := ownEdges(all)
	if !maps.Equal(edges, replaced) {
		t.Errorf("edges of the vendored module\n%v, of the replaced one\n%v", edges, replaced)
	}

	said := testtool.Run(t, dir, "go", "build", "-mod=vendor", "-tags=valgrind", "-pgo=vendor.pprof", "-gcflags=all=-d=pgodebug=3", "-o", "again", ".")
	calls := compilerCalls(t, said, startLines(t, []byte(testtool.Read(t, dir, "vendor.pprof"))))
	for _, e := range slices.Sorted(maps.Keys(edges)) {
		t.Logf("%d %s", edges[e], e)
		if calls.has(e) == slices.Contains(goNoCalls, e) {
			t.Errorf("%s: a call to the compiler is %v", e, calls.has(e))
		}
	}
	for _, tt := range goNames {
		if edges[tt.edge] == 0 {
			t.Errorf("%s: no %s", tt.what, tt.edge)
		}
	}
	found := 0
	for e := range all {
		if calls.has(e) {
			found++
		}
	}
	t.Logf("%d edges, the libraries' included, %d of them calls to the compiler", len(all), found)
	if found*100 < len(all)*90 {
		t.Errorf("only %d of %d edges are calls to the compiler", found, len(all))
	}
}

// goNamesEdges builds and runs the program, and writes its profile to mod.pprof.
func goNamesEdges(t *testing.T, dir, mod string) map[string]int64 {
	t.Helper()
	testtool.Run(t, dir, "go", "build", "-mod="+mod, "-pgo=off", "-tags=valgrind", "-o", "names", ".")
	p, rec := unchecked(t, dir, "names")
	var out bytes.Buffer
	if _, err := WriteGo(&out, p, rec, GoOptions{}); err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, dir, mod+".pprof", out.String())
	return edgesOf(t, out.Bytes())
}

// ownEdges keeps the edges whose caller is of the program's own modules.
func ownEdges(edges map[string]int64) map[string]int64 {
	own := map[string]int64{}
	for e, n := range edges {
		if strings.HasPrefix(e, "main.") || strings.HasPrefix(e, "example.com/") {
			own[e] = n
		}
	}
	return own
}

// goCalls are the calls in the source, by caller and line below its first, as the
// compiler tells of them.
type goCalls struct {
	direct   map[string][]string // hottest callees, one for each call
	indirect map[string]bool
}

var statLine = regexp.MustCompile(`:(\d+)(:\d+)?$`)

func compilerCalls(t *testing.T, said string, starts map[string]int) *goCalls {
	t.Helper()
	calls := &goCalls{direct: map[string][]string{}, indirect: map[string]bool{}}
	for line := range strings.Lines(said) {
		var c struct {
			callStat
			Hottest string
		}
		if !strings.HasPrefix(line, `{"Pkg"`) {
			continue
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		m := statLine.FindStringSubmatch(c.Pos)
		start, ok := starts[c.Caller]
		if m == nil || !ok {
			continue
		}
		n, err := strconv.Atoi(m[1])
		if err != nil {
			t.Fatal(err)
		}
		site := c.Caller + " " + strconv.Itoa(n-start)
		if c.Direct {
			calls.direct[site] = append(calls.direct[site], c.Hottest)
		} else {
			calls.indirect[site] = true
		}
	}
	return calls
}

var edgeParts = regexp.MustCompile(`^(.*? -?\d+) (.*)$`)

// has reports whether the compiler found the call of an edge: a direct call to the
// callee, several calls on the line, or an indirect one.
func (c *goCalls) has(edge string) bool {
	m := edgeParts.FindStringSubmatch(edge)
	direct := c.direct[m[1]]
	return slices.Contains(direct, m[2]) || len(direct) > 1 || c.indirect[m[1]]
}
