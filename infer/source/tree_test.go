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
	for _, f := range []string{"main.c", "src/a.c", "lib/src/a.c", "src/b.c"} {
		testtool.Put(t, filepath.Join(dir, f), "int x;\n")
	}
	tree, err := OpenTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	for recorded, want := range map[string]string{
		"/home/u/p/src/a.c": "src/a.c", "/home/u/p/lib/src/a.c": "lib/src/a.c", "/build/main.c": "main.c", "b.c": "src/b.c", "./src/b.c": "src/b.c",
		"/other/b.c": "", "/usr/include/x.h": "", "": "", "x/b.c": "",
	} {
		if rel, ok := tree.Find(recorded); ok != (want != "") || ok && rel != want {
			t.Errorf("%q is %q, %v, want %q", recorded, rel, ok, want)
		}
	}
}
