package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
)

// checkSource runs check on a recording and a tree, and returns the share of each fate.
func checkSource(t *testing.T, rec, tree string) map[string]string {
	t.Helper()
	code, out, errs := runCLI(t, "check", rec, "--source", tree)
	if code != exitDone && code != exitGate {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	shares := map[string]string{}
	for _, line := range strings.Split(out, "\n") {
		for _, name := range []string{"source tree", "files gone", "functions gone", "functions moved", "lines beyond"} {
			if rest, ok := strings.CutPrefix(line, name); ok {
				shares[name] = strings.Fields(rest)[0] + " " + rest[strings.LastIndexByte(rest, ' ')+1:]
			}
		}
	}
	return shares
}

// An edit of a tree, and what check has to say of it: the fates that have all samples.
type treeEdit struct {
	name     string
	old, new string // text in a file
	remove   bool
	want     string
	fails    bool
}

func testEdits(t *testing.T, rec, tree, source string, edits []treeEdit) {
	t.Helper()
	text := testtool.Read(t, filepath.Join(tree, source))
	for _, e := range edits {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(tree)); err != nil {
			t.Fatal(err)
		}
		edited := strings.Replace(text, e.old, e.new, 1)
		if e.old != "" && edited == text {
			t.Fatalf("%s: nothing to replace", e.name)
		}
		path := filepath.Join(dir, source)
		testtool.Put(t, path, edited)
		if e.remove {
			testtool.Write(t, dir, "README", "no tree is empty\n")
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
		}
		got := checkSource(t, rec, dir)
		for _, name := range []string{"files gone", "functions gone", "functions moved", "lines beyond"} {
			share, verdict, _ := strings.Cut(got[name], " ")
			if name == e.want && (share != "100.0%" || (verdict == "FAILS") != e.fails) || name != e.want && share != "0.0%" {
				t.Errorf("%s: %s: %s", e.name, name, got[name])
			}
		}
	}
}

const cProgram = `volatile int v;

static inline __attribute__((always_inline)) int leaf(int n)
{
	return n * v;
}

int work(int n)
{
	int s = 0;
	while (n-- > 0)
		if (n & v)
			s += leaf(n);
	return s;
}

int main(void)
{
	char *braces = "}" "\"}", brace = '}';
	return work(9) + !braces + brace;
}
`

// TestCheckSourceC edits a C program after it was built.
func TestCheckSourceC(t *testing.T) {
	dir := t.TempDir()
	src, program := testtool.Write(t, dir, "program.c", cProgram), filepath.Join(t.TempDir(), "program")
	testtool.Run(t, dir, "gcc", "-O1", "-g", "-fno-inline", "-Wl,--build-id", "-o", program, src)
	edits := []treeEdit{
		{name: "nothing"},
		{name: "lines above", old: "volatile int v;", new: "volatile int v;\n/* work() { */ // '\n#if 1\n#else\n}\n#endif\n", want: "functions moved"},
		{name: "another name", old: "int work(", new: "int works(", want: "functions gone", fails: true},
		{name: "no such file", remove: true, want: "files gone", fails: true},
	}
	const body = "\tint s = 0;\n\twhile (n-- > 0)\n\t\tif (n & v)\n\t\t\ts += leaf(n);\n\treturn s;\n"
	shorter := treeEdit{name: "a shorter body", old: body, new: "\treturn n * v;\n", want: "lines beyond", fails: true}
	unnamed := treeEdit{name: "another name of what is inlined", old: "leaf(int n)", new: "leaves(int n)", want: "functions gone", fails: true}
	testEdits(t, sampleLines(t, program, "work", 1), dir, "program.c", append(edits, shorter))
	testEdits(t, sampleLines(t, program, "work", 2), dir, "program.c", append(edits, shorter, unnamed))
}

// TestCheckSourceTree: the tree may be behind a link; what is no tree, and a program
// without lines, are told by their names.
func TestCheckSourceTree(t *testing.T) {
	dir := t.TempDir()
	src, program, link := testtool.Write(t, dir, "program.c", cProgram), filepath.Join(t.TempDir(), "program"), filepath.Join(t.TempDir(), "link")
	testtool.Run(t, dir, "gcc", "-O1", "-g", "-fno-inline", "-Wl,--build-id", "-o", program, src)
	rec := sampleLines(t, program, "work", 1)
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if got := checkSource(t, rec, link); got["files gone"] != "0.0% ok" {
		t.Errorf("behind a link: %v", got)
	}
	bare := filepath.Join(t.TempDir(), "bare")
	testtool.Run(t, dir, "gcc", "-O1", "-fno-inline", "-Wl,--build-id", "-o", bare, src)
	im, c := openSampled(t, bare)
	off, _ := im.OffsetOf(proc(t, im, "work").Addr)
	c.AddSample(0, off, 1000)
	for _, tt := range []struct {
		rec, tree string
		code      int
		want      string
	}{
		{rec, src, exitFailed, src + ": not a directory"},
		{rec, filepath.Join(dir, "none"), exitFailed, "none: no such file or directory"},
		{save(t, c), dir, exitNothing, bare + ": no line table"},
		{rec, t.TempDir(), exitNothing, ": no files in it: want the tree of the program's source"},
	} {
		if code, _, errs := runCLI(t, "check", tt.rec, "--source", tt.tree); code != tt.code || !strings.Contains(errs, tt.want) {
			t.Errorf("exit code %d, want %d and %q: %s", code, tt.code, tt.want, errs)
		}
	}
}

// sampleLines records the instructions of a procedure that are so many calls deep,
// and behind its first three lines.
func sampleLines(t *testing.T, program, name string, depth int) string {
	t.Helper()
	im, c := openSampled(t, program)
	ln, err := im.Lines()
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range proc(t, im, name).Blocks {
		for _, in := range im.Insts(&b) {
			if fs := ln.Frames(in.Addr); len(fs) == depth && fs[depth-1].Line > fs[depth-1].StartLine+3 {
				off, _ := im.OffsetOf(in.Addr)
				c.AddSample(0, off, 1000)
			}
		}
	}
	return save(t, c)
}

const goProgram = `package main

import "fmt"

type list[T any] struct{ all []T }

//go:noinline
func (l *list[T]) each(f func(T)) {
	for _, x := range l.all {
		f(x)
	}
}

func main() {
	sum := 0
	l := &list[int]{[]int{1, 2, 3}}
	l.each(func(n int) {
		if n > 1 {
			sum += n
		}
	})
	fmt.Println(sum)
}
`

// TestCheckSourceGo edits a Go module after it was built.
func TestCheckSourceGo(t *testing.T) {
	testtool.Need(t, "go")
	dir := t.TempDir()
	testtool.Write(t, dir, "go.mod", "module example.com/program\n\ngo 1.23\n")
	testtool.Write(t, dir, "main.go", goProgram)
	for _, flags := range [][]string{nil, {"-trimpath"}} {
		program := filepath.Join(t.TempDir(), "program")
		testtool.Run(t, dir, append(append([]string{"go", "build"}, flags...), "-o", program, ".")...)
		for _, name := range []string{"main.(*list[go.shape.int]).each", "main.main.func1"} {
			im, c := openSampled(t, program)
			for _, b := range proc(t, im, name).Blocks {
				if b.Exit == image.NoExit {
					off, _ := im.OffsetOf(b.Start)
					c.AddSample(0, off, 1000)
				}
			}
			edits := []treeEdit{
				{name: "nothing"},
				{name: "a line above", old: "import \"fmt\"\n", new: "import (\n\t\"fmt\"\n)\n", want: "functions moved"},
				{name: "no such file", remove: true, want: "files gone", fails: true},
			}
			if name == "main.main.func1" {
				edits = append(edits, treeEdit{name: "no closure", old: "func(n int) {\n\t\tif n > 1 {\n\t\t\tsum += n\n\t\t}\n\t}", new: "add", want: "functions gone", fails: true})
			} else {
				edits = append(edits, treeEdit{name: "another receiver", old: "func (l *list[T])", new: "func (l *lists[T])", want: "functions gone", fails: true})
			}
			testEdits(t, save(t, c), dir, "main.go", edits)
		}
	}
}

// TestSourceSameName: another command's file of the same name, wherever its name sorts, is not taken for that of the program.
func TestSourceSameName(t *testing.T) {
	testtool.Need(t, "go")
	dir, program := t.TempDir(), filepath.Join(t.TempDir(), "program")
	testtool.Write(t, dir, "go.mod", "module example.com/program\n\ngo 1.23\n")
	testtool.Write(t, dir, "main.go", goProgram)
	for _, sub := range []string{"aa", "zz"} {
		testtool.Put(t, filepath.Join(dir, sub, "main.go"), "package main\n\nfunc main() {\n}\n")
	}
	testtool.Run(t, dir, "go", "build", "-o", program, ".")
	im, c := openSampled(t, program)
	for _, b := range proc(t, im, "main.main.func1").Blocks {
		off, _ := im.OffsetOf(b.Start)
		c.AddSample(0, off, 1000)
	}
	rec := save(t, c)
	moved := filepath.Join(t.TempDir(), "moved") // the ends of paths have but the name of the file in common
	if err := os.CopyFS(filepath.Join(moved, "p"), os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	testtool.Put(t, filepath.Join(moved, "main.go"), "package main\n\nfunc main() {\n}\n")
	for _, tree := range []string{dir, moved} {
		for name, got := range checkSource(t, rec, tree) {
			if name != "source tree" && got != "0.0% ok" {
				t.Errorf("%s: %s", name, got)
			}
		}
		if code, out, errs := runCLI(t, "list", "main.main.func1", rec, "--source", tree); code != exitDone || !strings.Contains(out, "if n > 1 {") {
			t.Errorf("exit code %d, without its source: %s\n%s", code, out, errs)
		}
	}
}
