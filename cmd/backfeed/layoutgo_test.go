package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
)

// TestGoAdvice follows the advice: a program whose functions stand in its source as
// the advice has them is laid out so, and is worth what was predicted.
func TestGoAdvice(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("this system's programs are not ELF files")
	}
	testtool.Need(t, "go")
	const n = 60
	var funcs []string
	for i := range n {
		funcs = append(funcs, fmt.Sprintf("F%d", i))
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	rnd.Shuffle(n, func(i, j int) { funcs[i], funcs[j] = funcs[j], funcs[i] })
	before := buildFuncs(t, funcs)
	rec := recordHot(t, before)

	first, linked, predicted := adviceOf(t, before, rec)
	if len(first) != n/hotEach || !(predicted > 2*linked) {
		t.Fatalf("%d functions to move, score of calls %g, then %g", len(first), linked, predicted)
	}
	moved := slices.Concat(first, slices.DeleteFunc(funcs, func(f string) bool { return slices.Contains(first, f) }))
	after := buildFuncs(t, moved)
	if got := libOrder(t, after); !slices.Equal(got, moved) {
		t.Errorf("the program has its functions in the order %v, the source %v", got, moved)
	}
	if more, got, _ := adviceOf(t, after, recordHot(t, after)); len(more) > 0 {
		t.Errorf("after all has been moved, there is advice to move %v", more)
	} else if math.Abs(got-predicted) > 0.02 {
		t.Errorf("score of calls %g, predicted %g, was %g", got, predicted, linked)
	}
	if code, _, stderr := runCLI(t, "layout", before, rec); code != exitNothing || !strings.Contains(stderr, "--for go") {
		t.Errorf("an order for Go's linker: exit code %d, %q", code, stderr)
	}
}

// adviceOf reads the advice: which functions of package lib to move in which order,
// if any, and the scores of calls, as linked and as predicted.
func adviceOf(t *testing.T, program, rec string) (first []string, linked, predicted float64) {
	t.Helper()
	text := must(t, "layout", program, rec, "--for", "go")
	if !strings.Contains(text, "-ldflags=-randlayout=") {
		t.Errorf("no word of -randlayout in\n%s", text)
	}
	_, list, _ := strings.Cut(text, "\n"+lib+", in this order:\n")
	_, scores, _ := strings.Cut(text, "\nscore of calls (more is better)")
	if _, err := fmt.Sscan(scores, &linked, &predicted); err != nil {
		t.Fatalf("%v in\n%s", err, text)
	}
	for _, f := range strings.Fields(list) {
		if name, ok := strings.CutPrefix(f, lib+"."); ok {
			first = append(first, name)
		}
	}
	return first, linked, predicted
}

// libOrder returns the functions of package lib by address.
func libOrder(t *testing.T, path string) (order []string) {
	t.Helper()
	im, _ := openSampled(t, path)
	for _, s := range im.Symbols() {
		if name, ok := strings.CutPrefix(s.Name, lib+"."); ok {
			order = append(order, name)
		}
	}
	return order
}

const lib = "example.com/app/lib"

// hotEach is how many functions there are for each that runs.
const hotEach = 5

// buildFuncs builds a program whose package lib has the functions F0, F1, ... in that
// order, over two files. Those that run call the next one that does.
func buildFuncs(t *testing.T, funcs []string) string {
	t.Helper()
	var files [2]strings.Builder
	for i := range files {
		files[i].WriteString("package lib\n")
	}
	for i, f := range funcs {
		var k int
		fmt.Sscanf(f, "F%d", &k)
		w := &files[2*i/len(funcs)]
		fmt.Fprintf(w, "\n//go:noinline\nfunc %s(n int) int {\n\tfor i := range %d {\n\t\tn += i * %d\n\t\tn ^= n >> %d\n\t}\n", f, k+2, k, k%13+1)
		if k%hotEach == 0 && k+hotEach < len(funcs) {
			fmt.Fprintf(w, "\tn += F%d(n)\n", k+hotEach)
		} else {
			w.WriteString(strings.Repeat("\tn = n*n + n>>3\n", 20))
		}
		w.WriteString("\treturn n\n}\n")
	}
	var calls strings.Builder
	for k := range funcs {
		if k%hotEach != 0 {
			fmt.Fprintf(&calls, "\tcase %d:\n\t\treturn lib.F%d(n)\n", k, k)
		}
	}
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "lib"), 0o755); err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, dir, "go.mod", "module example.com/app\n\ngo 1.24\n")
	testtool.Write(t, dir, "lib/a.go", files[0].String())
	testtool.Write(t, dir, "lib/b.go", files[1].String())
	testtool.Write(t, dir, "main.go", "package main\n\nimport (\n\t\"os\"\n\n\t\""+lib+"\"\n)\n\nfunc cold(k, n int) int {\n\tswitch k {\n"+calls.String()+
		"\t}\n\treturn 0\n}\n\nfunc main() {\n\ts := 0\n\tfor i := range 1000 {\n\t\ts += lib.F0(i)\n\t}\n\tprintln(s + cold(len(os.Args), s))\n}\n")
	testtool.Run(t, dir, "go", "build", "-o", "app", ".")
	return filepath.Join(dir, "app")
}

// recordHot writes a recording of the functions that run.
func recordHot(t *testing.T, path string) string {
	t.Helper()
	im, c := openSampled(t, path)
	for k := 0; ; k += hotEach {
		name := fmt.Sprintf("%s.F%d", lib, k)
		if im.Lookup(name) < 0 {
			return save(t, c)
		}
		for _, b := range proc(t, im, name).Blocks {
			if off, ok := im.OffsetOf(b.Start); ok && b.Exit != image.NoReturn && len(b.Calls) == 0 {
				c.AddSample(0, off, 100)
			}
		}
	}
}
