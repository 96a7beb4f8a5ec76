package source

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"slices"
	"sort"
	"strings"
	"sync"
	"unicode"

	"backfeed/infer/image"
)

// parseSource finds the functions of a file. Those of Go are known exactly. In other
// languages a function is where its name stands before parameters and braces or, as
// macros and other styles hide these, just within 2 lines of where it was.
func parseSource(name, text string) *file {
	lines := strings.Count(text, "\n") + 1
	if strings.HasSuffix(name, ".go") {
		g := parseGo(text, lines)
		return &file{lines, g.function}
	}
	return &file{lines, newTextFile(name, text).function}
}

// span is lines, the last included.
type span struct{ start, end int }

func (s span) has(line int) bool { return s.start <= line && line <= s.end }

// A goFile is what of a Go file the compiler makes functions of.
type goFile struct {
	whole span
	funcs []goDecl
	parts []span // function literals, and the statements that become functions: go, defer, range
}

type goDecl struct {
	span
	receiver, name string
}

// parseGo finds functions, as far as the file can be parsed.
func parseGo(text string, lines int) *goFile {
	g := &goFile{whole: span{1, lines}}
	set := token.NewFileSet()
	f, _ := parser.ParseFile(set, "", text, parser.SkipObjectResolution)
	if f == nil {
		return g
	}
	at := func(n ast.Node) span {
		return span{set.PositionFor(n.Pos(), false).Line, set.PositionFor(n.End(), false).Line}
	}
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			d := goDecl{span: at(n), name: n.Name.Name}
			if n.Recv != nil && len(n.Recv.List) > 0 {
				d.receiver = receiverOf(n.Recv.List[0].Type)
			}
			g.funcs = append(g.funcs, d)
		case *ast.FuncLit, *ast.GoStmt, *ast.DeferStmt, *ast.RangeStmt:
			g.parts = append(g.parts, at(n))
		}
		return true
	})
	return g
}

// receiverOf returns the name of a method's type: T of *T, T[K] and (T).
func receiverOf(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverOf(e.X)
	case *ast.ParenExpr:
		return receiverOf(e.X)
	case *ast.IndexExpr:
		return receiverOf(e.X)
	case *ast.IndexListExpr:
		return receiverOf(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// function finds a function. What the compiler makes of a part of another has that
// one's name and a suffix, or the names of several that were inlined into each other;
// once its line is another, it is as long as the function around it.
func (g *goFile) function(fr image.Frame) (start, end int, ok bool) {
	names := goNames(fr.Func)
	if len(names) == 0 {
		return 0, 0, false
	}
	d := g.declared(names, fr.StartLine)
	if d == nil {
		// Initialisers of variables have no declaration.
		if names[0] != "init" && names[0] != "map" && names[0] != "glob" {
			return 0, 0, false
		}
		d = &goDecl{span: g.whole}
	}
	if d.start == fr.StartLine || len(names) == d.names() {
		return d.start, d.end, true
	}
	parts := 0
	for _, p := range g.parts {
		if d.has(p.start) {
			if parts++; p.start == fr.StartLine {
				return p.start, p.end, true
			}
		}
	}
	return d.start, d.end, parts > 0 || names[0] == "init"
}

// names returns how many of goNames a declaration has.
func (d *goDecl) names() int {
	if d.receiver != "" {
		return 2
	}
	return 1
}

// declared returns the declaration that a name stands for: the one around its line,
// if there are several.
func (g *goFile) declared(names []string, line int) *goDecl {
	var best *goDecl
	for i := range names {
		for k := range g.funcs {
			d := &g.funcs[k]
			method := d.receiver != "" && i+1 < len(names) && d.receiver == names[i] && d.name == names[i+1]
			if !method && (d.receiver != "" || d.name != names[i]) {
				continue
			}
			if best == nil || d.has(line) && !best.has(line) {
				best = d
			}
		}
	}
	return best
}

// goNames takes a linker symbol apart: "a/b.(*T[...]).m.func1" is T, m, func1.
func goNames(symbol string) []string {
	var plain strings.Builder // without type arguments
	depth := 0
	for _, r := range symbol {
		switch r {
		case '[':
			depth++
		case ']':
			depth--
		default:
			if depth == 0 {
				plain.WriteRune(r)
			}
		}
	}
	_, name, ok := strings.Cut(path.Base(plain.String()), ".")
	if !ok {
		return nil
	}
	name = strings.TrimSuffix(strings.TrimSuffix(name, ".abi0"), "-fm")
	names := strings.Split(strings.NewReplacer("(*", "", ")", "", "-range", ".").Replace(name), ".")
	return slices.DeleteFunc(names, func(s string) bool { return s == "" })
}

// A textFile is a file of another language.
type textFile struct {
	lines  []string         // without comments and strings
	code   string           // nor directives, and all but the first of their branches
	starts []int            // of the lines in it
	at     map[string][]int // where names stand before parameters; in Rust, after fn
	words  func() []string  // of the whole file
}

// names before parameters, or template parameters: an identifier, or an operator.
var (
	namesInC    = regexp.MustCompile(`\b(operator[^\w\s(]+|operator \w+|\w+)\s*(?:<[^;{}()]*>\s*)?\(`)
	namesInRust = regexp.MustCompile(`\bfn\s+(\w+)\s*[<(]`)
)

func newTextFile(name, text string) *textFile {
	text = withoutComments(text)
	f := &textFile{lines: strings.Split(text, "\n"), code: withoutBranches(text), at: map[string][]int{}}
	f.words = sync.OnceValue(func() []string { return words(text) })
	for i := 0; i >= 0 && i < len(f.code); {
		f.starts = append(f.starts, i)
		if next := strings.IndexByte(f.code[i:], '\n'); next >= 0 {
			i += next + 1
		} else {
			i = -1
		}
	}
	names := namesInC
	if strings.HasSuffix(name, ".rs") {
		names = namesInRust
	}
	for _, m := range names.FindAllStringSubmatchIndex(f.code, -1) {
		name := f.code[m[2]:m[3]]
		f.at[name] = append(f.at[name], m[2])
	}
	return f
}

// nearby is how far from its declaration's line a function's name may stand.
const nearby = 2

// function finds a function by its identifier. Lambdas and closures have none; they
// are where they were as long as there is such a line.
func (f *textFile) function(fr image.Frame) (start, end int, ok bool) {
	if fr.Name == "" { // assembled: there are no declarations
		_, name, _ := strings.Cut(path.Base(fr.Func), ".")
		return fr.StartLine, len(f.lines), slices.Contains(f.words(), cmp.Or(name, fr.Func))
	}
	name := identifier(fr.Name)
	if name == "" {
		return fr.StartLine, len(f.lines), fr.StartLine <= len(f.lines)
	}
	best := span{}
	for _, at := range f.at[name] {
		if end := bodyEnd(f.code, at+len(name)); end > 0 {
			s := span{f.lineOf(at), f.lineOf(end)}
			if best.start == 0 || abs(s.start-fr.StartLine) < abs(best.start-fr.StartLine) {
				best = s
			}
		}
	}
	if best.start > 0 && abs(best.start-fr.StartLine) <= nearby {
		return fr.StartLine, best.end, true
	}
	if f.mentions(name, fr.StartLine) {
		return fr.StartLine, len(f.lines), true
	}
	return best.start, best.end, best.start > 0
}

func abs(n int) int { return max(n, -n) }

// lineOf returns the line of an offset.
func (f *textFile) lineOf(off int) int {
	return sort.SearchInts(f.starts, off+1)
}

// macro matches a line that starts with a macro and its arguments.
var macro = regexp.MustCompile(`^\s*[A-Z][A-Z0-9_]*\s*\(`)

// mentions reports whether a name stands near a line, or the line is that of a macro
// which may have made the function of that name.
func (f *textFile) mentions(name string, line int) bool {
	for i := max(1, line-nearby); i <= min(len(f.lines), line+nearby); i++ {
		if text := f.lines[i-1]; slices.Contains(words(text), name) || i == line && macro.MatchString(text) {
			return true
		}
	}
	return false
}

// words returns the identifiers and numbers of a line.
func words(s string) []string {
	return strings.FieldsFunc(s, func(r rune) bool { return r != '_' && !unicode.IsLetter(r) && !unicode.IsDigit(r) })
}

// identifier returns what stands in the source for a function: its name without
// template arguments; "" where it has none.
func identifier(name string) string {
	if name == "operator()" || strings.Contains(name, "{") {
		return ""
	}
	if !strings.HasPrefix(name, "operator") {
		name, _, _ = strings.Cut(strings.TrimPrefix(name, "~"), "<")
	}
	return name
}

// bodyEnd returns where the body ends of a function whose name ends at i, 0 if there is none.
func bodyEnd(code string, i int) int {
	parens, braces := 0, 0
	for ; i < len(code); i++ {
		switch code[i] {
		case '(':
			parens++
		case ')':
			if parens--; parens < 0 {
				return 0
			}
		case '{':
			braces++
		case '}':
			if braces--; braces < 0 {
				return 0
			} else if braces == 0 && parens == 0 {
				return i
			}
		case ';':
			if parens == 0 && braces == 0 {
				return 0
			}
		}
	}
	return 0
}

// blank makes all of b spaces but the ends of lines.
func blank(b []byte) {
	for i := range b {
		if b[i] != '\n' {
			b[i] = ' '
		}
	}
}

// withoutComments blanks comments, strings and characters.
func withoutComments(text string) string {
	b := []byte(text)
	upTo := func(from int, end string) int {
		if i := strings.Index(text[from:], end); i >= 0 {
			return from + i + len(end)
		}
		return len(text)
	}
	for i := 0; i < len(text); {
		next := i
		switch rest := text[i:]; {
		case strings.HasPrefix(rest, "//"):
			next = upTo(i, "\n")
		case strings.HasPrefix(rest, "/*"):
			next = upTo(i+2, "*/")
		case rest[0] == '"', strings.HasPrefix(rest, `'\`), len(rest) > 2 && rest[0] == '\'' && rest[2] == '\'': // others are of lifetimes or numbers
			next = quoteEnd(text, i)
		}
		blank(b[i:next])
		i = max(next, i+1)
	}
	return string(b)
}

// quoteEnd returns where the string or character ends that starts at i.
func quoteEnd(text string, i int) int {
	for k := i + 1; k < len(text); k++ {
		switch text[k] {
		case '\\':
			k++
		case text[i]:
			return k + 1
		}
	}
	return len(text)
}

// withoutBranches blanks directives, and what stands between #else or #elif and
// #endif, so that braces match.
func withoutBranches(code string) string {
	b := []byte(code)
	var skip []bool // of each #if around
	for i := 0; i < len(code); {
		end := lineEnd(code, i)
		directive, ok := strings.CutPrefix(strings.TrimSpace(code[i:end]), "#")
		directive = strings.TrimSpace(directive)
		switch {
		case !ok:
		case strings.HasPrefix(directive, "if"):
			skip = append(skip, false)
		case len(skip) > 0 && strings.HasPrefix(directive, "endif"):
			skip = skip[:len(skip)-1]
		case len(skip) > 0 && strings.HasPrefix(directive, "el"):
			skip[len(skip)-1] = true
		}
		for ok && end < len(code) && code[end-1] == '\\' { // it goes on
			end = lineEnd(code, end+1)
		}
		if ok || slices.Contains(skip, true) {
			blank(b[i:end])
		}
		i = end + 1
	}
	return string(b)
}

// lineEnd returns where the line ends that i is in.
func lineEnd(s string, i int) int {
	if n := strings.IndexByte(s[i:], '\n'); n >= 0 {
		return i + n
	}
	return len(s)
}
