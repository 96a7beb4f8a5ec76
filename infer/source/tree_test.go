package source

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
)

// TestTextFunctions: where functions of other languages than Go are found.
func TestTextFunctions(t *testing.T) {
	for _, tt := range []struct {
		file, name string
		line       int // of the declaration when built; 0 is of none
		text       string
		want       string // first and last line now; "gone"
	}{
		{"a.cc", "max<int>", 2, "template <class T>\nT max(T a, T b)\n{\n\treturn a < b ? b : a;\n}\n", "2 5"},
		{"a.cc", "operator<<", 9, "ostream &operator<<(ostream &o, X x) { return o; }", "1 1"},
		{"a.cc", "~X", 9, "X::X() : a{1} {}\nX::~X() {\n}\n", "2 3"},
		{"a.cc", "operator()", 1, "auto f = [] { return 1; };", "1 1"},
		{"a.c", "f", 9, "int f(int);\nint g(void) { return f(1); }\nint f(int a)\n{\n\tif (f(1)) { a++; }\n}\n", "3 6"},
		{"a.c", "f", 9, "int f(int);\nint g(void) { return f(1); }\n", "gone"},
		{"a.c", "f", 2, "int\nf(a)\n\tint a;\n{\n}\n", "2 6"},
		{"a.c", "made_up", 2, "\nMADE(up)\n", "2 3"},
		{"a.c", "f", 1, "#if A\nint f(int a) {\n#else\nint f(void) {\n#endif\n\tx(\"{\", '{', '\\'', \"\\\"{\"); /* { */ // {\n}\nint g;\n", "1 7"},
		{"a.rs", "f", 1, "fn f<'a>(x: &'a str) -> char {\n\tif f(x) { g('{') } else { '}' }\n}\n", "1 3"},
		{"a.rs", "f", 9, "fn g() {\n\tif f(x) { g('{') } else { '}' }\n}\n", "gone"},
		{"a.s", "", 0, "TEXT \u00b7f(SB), $0-8\n\tRET\n", "0 3"},
		{"a.s", "", 0, "TEXT \u00b7g(SB), $0-8\n\tRET\n", "gone"},
	} {
		got := "gone"
		if start, end, ok := parseSource(tt.file, tt.text).function(image.Frame{Func: "example.com/p.f", Name: tt.name, StartLine: tt.line}); ok {
			got = fmt.Sprint(start, " ", end)
		}
		if got != tt.want {
			t.Errorf("%s in %q: %s, want %s", tt.name, tt.text, got, tt.want)
		}
	}
}

// TestGoNames takes linker symbols apart.
func TestGoNames(t *testing.T) {
	for symbol, want := range map[string]string{
		"main.main": "main",
		"example.com/a.b/p.(*T[go.shape.struct { a/b.X }]).m.func1.2": "T m func1 2",
		"p.outer.inner.func1": "outer inner func1",
		"p.T.m-fm":            "T m",
		"p.glob..func1":       "glob func1",
		"p.each-range1":       "each 1",
		"memmove":             "",
	} {
		if got := strings.Join(goNames(symbol), " "); got != want {
			t.Errorf("%s: %q, want %q", symbol, got, want)
		}
	}
}

func TestCommonEnd(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want int
	}{{"/src/app/a/x.c", "a/x.c", 5}, {"/src/app/a/x.c", "b/x.c", 3}, {"ax.c", "x.c", 0}, {"x.c", "x.c", 3}, {"/x.c", "a/x.c", 3}, {"a.c", "b.c", 0}} {
		if got := commonEnd(tt.a, tt.b); got != tt.want {
			t.Errorf("commonEnd(%s, %s) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}

// TestFind: a file is found by the end of its recorded path, and no other of its name.
func TestFind(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"main.c", "src/a.c", "lib/src/a.c", "src/b.c", "aa/sub.c", "sub.c"} {
		testtool.Put(t, filepath.Join(dir, f), "int x;\n")
	}
	tree, err := OpenTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	for recorded, want := range map[string]string{
		"/home/u/p/src/a.c": "src/a.c", "/home/u/p/lib/src/a.c": "lib/src/a.c", "/build/main.c": "main.c", "b.c": "src/b.c", "/home/u/q/sub.c": "sub.c", "sub.c": "sub.c", "./src/b.c": "src/b.c",
		"/other/b.c": "", "/usr/include/x.h": "", "": "", "x/b.c": "",
	} {
		if rel, ok := tree.Find(recorded); ok != (want != "") || ok && rel != want {
			t.Errorf("%q is %q, %v, want %q", recorded, rel, ok, want)
		}
	}
}

// sameName is a tree that has several files of one name.
func sameName(t *testing.T, files map[string]string) *Tree {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		testtool.Put(t, filepath.Join(dir, name), text)
	}
	tree, err := OpenTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

const (
	realMain  = "package main\n\nfunc hot() {\n\twork()\n}\n\nfunc main() {\n\thot()\n}\n"
	otherMain = "package main\n\nfunc main() {\n}\n"
)

// frame reads a frame: function, file, line and the line of its declaration.
func frame(t *testing.T, text string) (fr image.Frame) {
	t.Helper()
	if _, err := fmt.Sscan(text, &fr.Func, &fr.File, &fr.Line, &fr.StartLine); err != nil {
		t.Fatalf("%q: %v", text, err)
	}
	return fr
}

// TestSameName: of several files of a name, all else equal, the one is meant that has what was sampled, or that lies in the fewest
// directories, wherever their names sort.
func TestSameName(t *testing.T) {
	for _, tt := range []struct {
		name   string
		files  map[string]string
		frames []string // each has as many samples
		own    string
		fate   Fate // the worst
	}{
		{"a command sorts before", map[string]string{"main.go": realMain, "cmd/load/main.go": otherMain}, []string{"main.hot /b/app/main.go 4 3", "main.main /b/app/main.go 8 7"}, "", InPlace},
		{"one sorts behind", map[string]string{"main.go": realMain, "zz/main.go": otherMain}, []string{"main.hot /b/app/main.go 4 3"}, "", InPlace},
		{"the program is further down", map[string]string{"main.go": otherMain, "aa/main.go": otherMain, "app/main.go": realMain}, []string{"main.hot /b/x/main.go 4 3"}, "app/", InPlace},
		{"more of the path", map[string]string{"main.go": realMain, "a/app/main.go": otherMain}, []string{"main.main /b/app/main.go 4 3"}, "a/", InPlace},
		{"an old copy below", map[string]string{"main.go": otherMain, "old/main.go": realMain}, []string{"main.hot /b/app/main.go 4 3", "main.main /b/app/main.go 8 7"}, "", FunctionGone},
		{"nobody has it", map[string]string{"main.go": otherMain, "cmd/main.go": otherMain}, []string{"main.hot /b/app/main.go 4 3"}, "", FunctionGone},
		{"without a directory", map[string]string{"main.go": realMain, "cmd/main.go": otherMain}, []string{"main.hot main.go 4 3"}, "", InPlace},
	} {
		tree := sameName(t, tt.files)
		var places []sampledPlace
		for _, f := range tt.frames {
			places = append(places, sampledPlace{[]image.Frame{frame(t, f)}, 100})
		}
		tree.locate(places)
		worst := Outside
		for _, p := range places {
			worst = max(worst, tree.fateOf(p.frames))
		}
		if tree.own.to != tt.own || worst != tt.fate {
			t.Errorf("%s: the program's own files lie below %q, the worst fate is %d; want %q, %d", tt.name, tree.own.to, worst, tt.own, tt.fate)
		}
	}
}

// TestSameNameMoved: a file of C that moved is, of several of its name, the one that has the function.
func TestSameNameMoved(t *testing.T) {
	tree := sameName(t, map[string]string{"a/x.c": "int g(void) { return 1; }\n", "b/c/x.c": "int f(void)\n{\n\treturn 1;\n}\n", "main.c": "int main(void)\n{\n\treturn 1;\n}\n"})
	moved, stays := image.Frame{Func: "f", Name: "f", File: "/b/app/x.c", Line: 3, StartLine: 1}, image.Frame{Func: "main", Name: "main", File: "/b/app/main.c", Line: 3, StartLine: 1}
	places := []sampledPlace{{[]image.Frame{stays}, 100}, {[]image.Frame{moved}, 10}}
	tree.locate(places)
	if got := tree.fateOf([]image.Frame{moved}); got != InPlace {
		t.Errorf("fate %d, want %d", got, InPlace)
	}
}

// TestSameNameShown: the lines are of the file that has the functions which are shown, and before any are known, of the one in the
// fewest directories; a file that has more of the path goes before both.
func TestSameNameShown(t *testing.T) {
	tree := sameName(t, map[string]string{"main.go": otherMain, "aa/main.go": "package main\n", "app/main.go": realMain, "b/x/main.go": "package x\n"})
	text, err := Only([]string{tree.root.dir})
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		expect, file string
		line         int
		want         string
	}{
		{"", "/b/main.go", 3, "func main() {"},
		{"main.hot /b/main.go 4 3", "/b/main.go", 3, "func hot() {"},
		{"main.hot /b/main.go 4 3", "/b/main.go", 8, "    hot()"},
		{"main.hot /u/x/main.go 4 3", "/u/x/main.go", 1, "package x"},
		{"main.hot /u/none.go 4 3", "/u/none.go", 1, ""},
	} {
		if tt.expect != "" {
			text.expect(frame(t, tt.expect))
		}
		if got, ok := text.Line(tt.file, tt.line); got != tt.want || ok != (tt.want != "") {
			t.Errorf("%s:%d of %q: %q, %v, want %q", tt.file, tt.line, tt.expect, got, ok, tt.want)
		}
	}
	if n := len(text.Missing()); n != 1 {
		t.Errorf("%d files are not shown, want 1", n)
	}
}
