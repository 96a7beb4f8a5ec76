package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
)

// A bannedWord is what this repository once said, for what has a word of its own among
// those who know perf, pprof and LLVM. The table of CONTRIBUTING.md has the same.
type bannedWord struct {
	pattern string // of words with single blanks between them; letters of both cases match
	use     string
	example string // that is found
	scope   string // directories that it is about, as a pattern; "" is all
	doc     bool   // at the beginning of the comment of a declaration only
}

var bannedWords = []bannedWord{
	{pattern: `oftener`, use: "more often", example: "ran oftener than that"},
	{pattern: `(?:comes?|came|coming) by`, use: "passes through", example: "walks came by it"},
	{pattern: `\w+ times in (?:10|20)`, use: "with 90 % or 95 % confidence", example: "19 times in 20 it is less"},
	{pattern: `(?:puts?|is|are|be|was|were) (?:put )?down to`, use: "attributed to", example: "a sample is put down to it"},
	{pattern: `stack walks?|walks? (?:by frame pointers|the stack)`, use: "stack unwinding; a walk is the eBPF emulator's", example: "stack walks by frame pointers"},
	{pattern: `tells? whether`, use: "reports whether", example: "ok tells whether it is"},
	{pattern: `(?:medium|low|high|by) shapes?|shape is`, use: "within-function confidence", example: "blocks of medium shape"},
	{pattern: `levels? of confidence`, use: "confidence", example: "a level of confidence"},
	{pattern: `most that is possible|the possible`, use: "upper bound", example: "beside the possible"},
	{pattern: `rarer way|ways? out`, use: "out-edge", example: "blocks with one way out"},
	{pattern: `which way (?:a|the|its) branch`, use: "whether a branch is taken", example: "which way the branch went"},
	{pattern: `f(?:inds?|ound) no room`, use: "dropped: map full", example: "3 samples found no room"},
	{pattern: `(?:lies?|lying) behind|says nothing of lies`, use: "follows", example: "the rest lies behind"},
	{pattern: `exact counts?`, use: "observed counts, where they are of probes or walks", example: "exact counts of walks",
		scope: `^sample(/|$)|^cmd/internal/calibrate`},
	{pattern: `^\w+ (?:gives|gave)`, use: "returns", example: "Name gives the name.", doc: true},
	{pattern: `^\w+ tells (?:which|what|where|how|why|true|false)`, use: "reports or returns", example: "kind tells what it is.", doc: true},
	{pattern: `it gives`, use: "it returns", example: "Sum adds up. It gives 0 for none.", doc: true},
}

// A passage is text of the repository that people read.
type passage struct {
	file string // from the root of the repository
	line int
	text string // with single blanks between words
	doc  bool   // the comment of a declaration
}

func passageOf(file string, line int, text string, doc bool) passage {
	return passage{file, line, strings.Join(strings.Fields(text), " "), doc}
}

// patterns are those of words and scopes, compiled: each is looked for in tens of thousands of passages.
var patterns sync.Map

func pattern(s string) *regexp.Regexp {
	p, ok := patterns.Load(s)
	if !ok {
		p, _ = patterns.LoadOrStore(s, regexp.MustCompile(s))
	}
	return p.(*regexp.Regexp)
}

// find returns what of the passage is banned.
func (b *bannedWord) find(p passage) string {
	if b.doc && !p.doc || b.scope != "" && !pattern(b.scope).MatchString(filepath.ToSlash(filepath.Dir(p.file))) {
		return ""
	}
	start, end := `\b`, `\b`
	if strings.HasPrefix(b.pattern, "^") {
		start = ""
	}
	return pattern(`(?i)` + start + `(?:` + b.pattern + `)` + end).FindString(p.text)
}

// passagesOfGo returns the comments and the string literals of a file, those of struct tags
// left out.
func passagesOfGo(file string, src []byte) ([]passage, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, src, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	docs, tags := map[*ast.CommentGroup]bool{f.Doc: true}, map[*ast.BasicLit]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			docs[n.Doc] = true
		case *ast.GenDecl:
			docs[n.Doc] = true
		case *ast.TypeSpec:
			docs[n.Doc] = true
		case *ast.ValueSpec:
			docs[n.Doc] = true
		case *ast.Field:
			docs[n.Doc] = true
			tags[n.Tag] = true
		}
		return true
	})
	var all []passage
	for _, c := range f.Comments {
		all = append(all, passageOf(file, fset.Position(c.Pos()).Line, c.Text(), docs[c]))
	}
	ast.Inspect(f, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && !tags[lit] {
			if text, err := strconv.Unquote(lit.Value); err == nil && strings.Contains(text, " ") {
				all = append(all, passageOf(file, fset.Position(lit.Pos()).Line, text, false))
			}
		}
		return true
	})
	return all, nil
}

// filesOf calls each with the text of every file of the repository that has an ending, those
// of data left out.
func filesOf(t *testing.T, each func(file string, text []byte), endings ...string) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		file, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != root || d.Name() == "testdata" && file != "testdata" || d.Name() == "LICENSES"):
			return fs.SkipDir
		case !d.Type().IsRegular() || !slices.Contains(endings, filepath.Ext(path)):
			return nil
		}
		b, err := os.ReadFile(path)
		if err == nil && !strings.HasPrefix(string(b), "// Code generated") {
			each(filepath.ToSlash(file), b)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestWords: words that were replaced by those of the field do not come back to help, pages,
// README, comments, errors and other messages.
func TestWords(t *testing.T) {
	var all []passage
	filesOf(t, func(file string, text []byte) {
		if file == "cmd/backfeed/words_test.go" {
			return
		}
		passages, err := passagesOfGo(file, text)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, passages...)
	}, ".go")
	if len(all) < 10_000 {
		t.Fatalf("%d comments and messages in Go files: where are they?", len(all))
	}
	filesOf(t, func(file string, text []byte) {
		if file == "CONTRIBUTING.md" {
			before, rest, _ := strings.Cut(string(text), "## Words\n") // which has the table of them
			_, after, _ := strings.Cut(rest, "\n## ")
			text = []byte(before + after)
		}
		if file == "cmd/backfeed/help/json.md" { // which has the names that fields once had
			before, _, _ := strings.Cut(string(text), "## What changed in version 2\n")
			text = []byte(before)
		}
		all = append(all, passageOf(file, 1, string(text), false))
	}, ".md", ".tmpl", ".js", ".json", ".yaml", ".sh")
	for _, cmd := range commands {
		_, help, _ := runCLI(t, cmd.name, "--help")
		all = append(all, passageOf("help of "+cmd.name, 1, help, false))
	}
	for i := range bannedWords {
		b := &bannedWords[i]
		for _, p := range all {
			if found := b.find(p); found != "" {
				t.Errorf("%s:%d: says %q; the word is %q", p.file, p.line, found, b.use)
			}
		}
	}
}

// TestWordsFound: each banned word is found in a comment of a declaration, and if it is
// banned everywhere in another comment and in a message too.
func TestWordsFound(t *testing.T) {
	for i := range bannedWords {
		b := &bannedWords[i]
		dir := "infer"
		if b.scope != "" {
			dir = "sample"
		}
		for _, tt := range []struct {
			name, src string
			everyone  bool
		}{
			{"comment of a declaration", "package p\n\n// " + strings.ReplaceAll(b.example, " ", "\n// ") + "\nfunc Name() {}\n", true},
			{"comment", "package p\n\nfunc f() {\n\t// " + b.example + "\n}\n", !b.doc},
			{"message", fmt.Sprintf("package p\n\nvar err = errors.New(%q)\n", b.example), !b.doc},
		} {
			passages, err := passagesOfGo(dir+"/x.go", []byte(tt.src))
			if err != nil {
				t.Fatal(err)
			}
			found := slices.ContainsFunc(passages, func(p passage) bool { return b.find(p) != "" })
			if found != tt.everyone {
				t.Errorf("%s, %s: found %v, want %v", b.pattern, tt.name, found, tt.everyone)
			}
		}
	}
}

// TestWordTable: the table of CONTRIBUTING.md and bannedWords say the same: what the one
// says not to say is found by the other.
func TestWordTable(t *testing.T) {
	b, err := os.ReadFile(filepath.Join(root, "CONTRIBUTING.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(b), "## Words\n")
	section, _, _ = strings.Cut(section, "\n## ")
	covered := map[string]bool{}
	for line := range strings.Lines(section) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 || strings.Contains(line, "---") {
			continue
		}
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(cells[2], -1) {
			some := false
			for i := range bannedWords {
				w := &bannedWords[i]
				dir := "infer"
				if w.scope != "" {
					dir = "sample"
				}
				if w.find(passageOf(dir+"/x.go", 1, m[1], true)) != "" {
					some = true
					covered[w.pattern] = true
				}
			}
			if !some {
				t.Errorf("CONTRIBUTING.md: %q is not banned by any pattern", m[1])
			}
		}
	}
	for _, w := range bannedWords {
		if !covered[w.pattern] {
			t.Errorf("CONTRIBUTING.md has nothing that %q finds: %s", w.pattern, w.example)
		}
	}
}

// TestNames: types and fields of JSON are not named by words that mean too many things.
func TestNames(t *testing.T) {
	types := map[string]string{"place": "Frame, Addr or a name of what is there", "way": "edge, out-edge or path"}
	fields := map[string]string{"proc": "procedure", "shape": "confidence_within", "symbol": "procedure", "symbols": "procedures", "rows": "items", "procs": "procedures"}
	// The counts document reads its version 1, and fidelity scripts read the list of its procedures.
	old := map[string]bool{"infer/document/counts.go shape": true, "infer/document/counts.go procs": true}
	filesOf(t, func(file string, text []byte) {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if use, ok := types[n.Name.Name]; ok {
					t.Errorf("%s: a type %s; say %s", fset.Position(n.Pos()), n.Name, use)
				}
			case *ast.Field:
				if n.Tag == nil {
					break
				}
				tag, _ := strconv.Unquote(n.Tag.Value)
				name, _, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
				if use, ok := fields[name]; ok && !strings.HasSuffix(file, "_test.go") && !old[file+" "+name] {
					t.Errorf("%s: JSON says %s; say %s", fset.Position(n.Pos()), name, use)
				}
			}
			return true
		})
	}, ".go")
}
