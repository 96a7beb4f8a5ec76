package testtool

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// everywhere are programs that each machine with a test has; the others are found by Need.
var everywhere = []string{"sh", "/bin/sh", "cat", "dd", "sleep", "true", "/proc/self/exe", "/proc/self/fd/3"}

// recorders are the functions of package collect that ask the kernel for samples, and subcommands the
// commands that do.
var (
	recorders   = []string{"Record", "OpenSystem", "OpenProber", "NewWalker", "Probe"}
	subcommands = []string{"record", "agent", "demo"}
)

// quick are tests that look live and are not, and why, in whatever package they are.
var quick = map[string]string{
	"TestCalibrateFlags":      "is refused before it records",
	"TestEndOf":               "starts sleep, and ends it",
	"TestJITMapEnded":         "starts a process that does nothing",
	"TestRecordOffCPURefused": "is refused before it records",
	"TestAgentOffCPURefused":  "is refused before it samples",
	"TestOutputDescriptors":   "converts a small recording, as a process",
	"TestOutputSearchOnly":    "converts a small recording, as a process",
	"TestRecordToOfOthers":    "is refused before it records, as a process",
	"TestAlive":               "starts sleep, and ends it",
	"TestFileSizeLimit":       "runs itself for a moment",
	"TestRunOf":               "runs a shell for a moment",
	"TestRepeated":            "runs a shell for a moment",
	"TestKill":                "runs itself for two seconds: the store's promise",
	"TestWriters":             "runs itself for a moment",
}

// guards are functions that skip in -short, by their packages or values.
var guards = map[string][]string{
	"testtool": {"Live", "Need", "Path", "Command", "Run", "Output", "Listed", "NewBrowser"},
	"programs": {"Build", "In", "Fill"}, // a value of type Programs
	"qemu":     {"Need", "NeedCount", "Run", "Count"},
	"testing":  {"Short"},
}

// A function that is live starts a program or samples, or calls one that does; one that is guarded skips in -short.
type function struct {
	calls         []string // functions of the package, by name
	live, guarded bool
}

// TestShort: what runs programs or records is left out of -short, and finds its programs by Need. A test is
// looked into together with the functions of its package that it calls.
func TestShort(t *testing.T) {
	tests, live := 0, 0
	listed := maps.Clone(quick)
	for dir, files := range testFiles(t) {
		funcs := map[string]*function{}
		for _, file := range files {
			for _, d := range file.Decls {
				switch d := d.(type) {
				case *ast.FuncDecl:
					look(t, funcs, d.Name.Name, d, file)
				case *ast.GenDecl: // tables of functions
					for _, s := range d.Specs {
						if v, ok := s.(*ast.ValueSpec); ok {
							look(t, funcs, v.Names[0].Name, v, file)
						}
					}
				}
			}
		}
		for name := range funcs {
			if !strings.HasPrefix(name, "Test") || name == "TestMain" {
				continue
			}
			tests++
			all := reached(funcs, name)
			if !slices.ContainsFunc(all, func(f *function) bool { return f.live }) {
				continue
			}
			live++
			_, known := quick[name]
			delete(listed, name)
			if guarded := slices.ContainsFunc(all, func(f *function) bool { return f.guarded }); guarded == known {
				t.Errorf("%s: %s runs a program or records; guarded by Live or Need: %v; in the list of quick tests: %v", dir, name, guarded, known)
			}
		}
	}
	for name := range listed {
		t.Errorf("%s is in the list of quick tests, and runs no program", name)
	}
	if t.Logf("%d tests, %d of them live", tests, live); live < 100 {
		t.Error("hardly a live test was found")
	}
}

// look notes what a declaration calls.
func look(t *testing.T, funcs map[string]*function, name string, decl ast.Node, file *ast.File) {
	imports := map[string]bool{}
	for _, i := range file.Imports {
		path, _ := strconv.Unquote(i.Path.Value)
		imports[filepath.Base(path)] = true
	}
	f := funcs[name]
	if f == nil {
		f = &function{}
		funcs[name] = f // methods of one name are one
	}
	ast.Inspect(decl, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && x.Obj == nil && imports[x.Name] {
				return false // of another package
			}
		case *ast.Ident:
			if n.Obj == nil || n.Obj == file.Scope.Lookup(n.Name) { // no local variable
				f.calls = append(f.calls, n.Name)
			}
		case *ast.CallExpr:
			from, callee := called(n)
			switch {
			case from == "exec" && callee == "LookPath":
				if program, _ := text(n.Args[0]); !slices.Contains(everywhere, program) {
					t.Errorf("%s: looks up a program itself; testtool.Need says what brings it", name)
				}
			case from == "exec" && strings.HasPrefix(callee, "Command"):
				f.live = true
				arg := n.Args[strings.Count(callee, "Context")]
				if program, ok := text(arg); ok && !slices.Contains(everywhere, program) {
					t.Errorf("%s: runs %s itself; testtool.Command says what brings it", name, program)
				}
			case slices.Contains(recorders, callee) && (from == "collect" || from == "" && file.Name.Name == "collect"):
				f.live = true
			case slices.Contains(guards[from], callee):
				f.guarded = true
			case callee == "runCLI" || callee == "must" || callee == "runAs":
				ast.Inspect(n, func(n ast.Node) bool {
					if e, ok := n.(ast.Expr); ok {
						if s, ok := text(e); ok && slices.Contains(subcommands, s) {
							f.live = true
						}
					}
					return true
				})
			}
		}
		return true
	})
}

// called returns the package or value, if any, and the name of what a call calls.
func called(c *ast.CallExpr) (from, name string) {
	switch fun := c.Fun.(type) {
	case *ast.Ident:
		return "", fun.Name
	case *ast.SelectorExpr:
		if x, ok := fun.X.(*ast.Ident); ok {
			return x.Name, fun.Sel.Name
		}
		return "?", fun.Sel.Name
	}
	return "?", ""
}

// text returns the value of a string literal.
func text(e ast.Expr) (string, bool) {
	if l, ok := e.(*ast.BasicLit); ok && l.Kind == token.STRING {
		s, err := strconv.Unquote(l.Value)
		return s, err == nil
	}
	return "", false
}

// reached returns a function and all that it may call.
func reached(funcs map[string]*function, name string) (all []*function) {
	seen := map[string]bool{name: true}
	for todo := []string{name}; len(todo) > 0; {
		f := funcs[todo[0]]
		todo = todo[1:]
		all = append(all, f)
		for _, c := range f.calls {
			if funcs[c] != nil && !seen[c] {
				seen[c] = true
				todo = append(todo, c)
			}
		}
	}
	return all
}

// testFiles parses the test files of the module, by directory.
func testFiles(t *testing.T) map[string][]*ast.File {
	const root = "../.."
	files := map[string][]*ast.File{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root && (name == "testdata" || strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		dir := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), root+"/")
		if !strings.HasSuffix(name, "_test.go") || dir == "internal/testtool" {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		files[dir] = append(files[dir], f)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
