package demo

import (
	"bufio"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"strings"
)

// exactCounts returns how often each function of a Go file was called, by the
// counters that go build -cover -covermode=count put into its blocks. Names are
// those of the linker without the package: "(*plain).peek".
//
// cover is in the text format of `go tool covdata textfmt`:
//
//	mode: count
//	demo/main.go:44.47,46.3 1 27          start, end: statements, executions
func exactCounts(cover io.Reader, file string, source []byte) (map[string]uint64, error) {
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, file, source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	blocks, err := coverBlocks(cover, file)
	if err != nil {
		return nil, err
	}
	calls := map[string]uint64{}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		from, to := fset.Position(fn.Body.Lbrace), fset.Position(fn.Body.Rbrace)
		if n, ok := firstBlock(blocks, position{from.Line, from.Column}, position{to.Line, to.Column}); ok {
			calls[funcName(fn)] = n
		}
	}
	return calls, nil
}

// A position is a line and a column, of bytes, both from 1.
type position struct{ line, column int }

func (p position) before(q position) bool {
	return p.line < q.line || p.line == q.line && p.column < q.column
}

// A coverBlock is statements that run together.
type coverBlock struct {
	start, end position
	n          uint64 // executions
}

// coverBlocks reads the blocks of one file.
func coverBlocks(r io.Reader, file string) ([]coverBlock, error) {
	var blocks []coverBlock
	sc := bufio.NewScanner(r)
	for sc.Scan() {
		name, rest, ok := strings.Cut(sc.Text(), ":")
		if !ok || name != file && !strings.HasSuffix(name, "/"+file) {
			continue
		}
		var b coverBlock
		var statements int
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.start.line, &b.start.column, &b.end.line, &b.end.column, &statements, &b.n); err != nil {
			return nil, fmt.Errorf("coverage %q: %w", sc.Text(), err)
		}
		blocks = append(blocks, b)
	}
	return blocks, sc.Err()
}

// firstBlock returns the executions of the first block between two places.
func firstBlock(blocks []coverBlock, from, to position) (n uint64, ok bool) {
	var first position
	for _, b := range blocks {
		if b.start.before(from) || to.before(b.start) {
			continue
		}
		if !ok || b.start.before(first) {
			first, n, ok = b.start, b.n, true
		}
	}
	return n, ok
}

// funcName returns the linker's name of a function without its package.
func funcName(fn *ast.FuncDecl) string {
	if fn.Recv == nil || len(fn.Recv.List) == 0 {
		return fn.Name.Name
	}
	switch recv := fn.Recv.List[0].Type.(type) {
	case *ast.StarExpr:
		if id, ok := recv.X.(*ast.Ident); ok {
			return "(*" + id.Name + ")." + fn.Name.Name
		}
	case *ast.Ident:
		return recv.Name + "." + fn.Name.Name
	}
	return fn.Name.Name
}
