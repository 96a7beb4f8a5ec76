package collect

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// opHeaders are the headers that say what the operations of walks are, by the files of package trace
// that each is made of.
var opHeaders = []struct {
	name   string
	files  []string
	prefix string // of Go's names
}{
	{"op.h", []string{"op.go", "end.go"}, ""},
	{"opx86.h", []string{"x86.go"}, "X86"},
	{"oparm.h", []string{"arm.go"}, "Arm"},
}

// TestOpHeaders holds the headers of the emulator to the operations of package trace. -update writes them.
func TestOpHeaders(t *testing.T) {
	const dir = "../trace"
	set := token.NewFileSet()
	files := map[string]*ast.File{}
	var all []*ast.File
	for _, h := range opHeaders {
		for _, name := range h.files {
			f, err := parser.ParseFile(set, filepath.Join(dir, name), nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			files[name], all = f, append(all, f)
		}
	}
	pkg, err := new(types.Config).Check("trace", set, all, nil) // that import nothing
	if err != nil {
		t.Fatal(err)
	}
	for _, h := range opHeaders {
		b := &bytes.Buffer{}
		fmt.Fprintf(b, "// SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0\n\n// Made of sample/trace/%s by `go test ./sample/collect -run TestOpHeaders -update`; edit that instead.\n",
			strings.Join(h.files, " and "))
		for _, name := range h.files {
			for _, d := range files[name].Decls {
				if g, ok := d.(*ast.GenDecl); ok {
					writeDecl(b, pkg, g, h.prefix)
				}
			}
		}
		testtool.Golden(t, filepath.Join("bpf", h.name), b.Bytes())
	}
}

// writeDecl writes structures and constants as C has them.
func writeDecl(b *bytes.Buffer, pkg *types.Package, g *ast.GenDecl, prefix string) {
	for _, spec := range g.Specs {
		if s, ok := spec.(*ast.TypeSpec); ok {
			if st, ok := s.Type.(*ast.StructType); ok {
				fmt.Fprintf(b, "\n%sstruct %s {\n", comment("", g.Doc), strings.ToLower(s.Name.Name))
				writeFields(b, pkg, s.Name.Name, st)
				b.WriteString("};\n")
			}
		}
	}
	if g.Tok != token.CONST {
		return
	}
	fmt.Fprintf(b, "\n%senum {\n", comment("", g.Doc))
	for _, spec := range g.Specs {
		s := spec.(*ast.ValueSpec)
		c := pkg.Scope().Lookup(s.Names[0].Name).(*types.Const)
		name := cName(strings.TrimPrefix(c.Name(), prefix))
		if typ, ok := c.Type().(*types.Named); ok && typ.Obj().Name() == "Flags" {
			name = "F_" + name
		}
		value, _ := constant.Uint64Val(c.Val())
		fmt.Fprintf(b, "\t%s = %d,%s\n", name, value, comment(" ", s.Comment))
	}
	b.WriteString("};\n")
}

// cTypes are C's names of types.
var cTypes = map[string]string{"uint8": "u8", "int32": "s32", "uint32": "u32", "uint64": "u64", "int64": "s64"}

// writeFields writes those of a structure; what has no name is padding.
func writeFields(b *bytes.Buffer, pkg *types.Package, name string, st *ast.StructType) {
	typed := pkg.Scope().Lookup(name).Type().Underlying().(*types.Struct)
	padding := 0
	for i, f := range st.Fields.List {
		field := typed.Field(i)
		name, typ, many := strings.ToLower(field.Name()), field.Type(), ""
		if a, ok := typ.(*types.Array); ok {
			typ, many = a.Elem(), fmt.Sprintf("[%d]", a.Len())
		}
		if name == "_" {
			name = fmt.Sprintf("pad%d", padding)
			padding++
		}
		fmt.Fprintf(b, "\t%s %s%s;%s\n", cTypes[typ.Underlying().String()], name, many, comment(" ", f.Comment))
	}
}

// cName writes a name as C's constants are: CondJump is COND_JUMP.
func cName(name string) string {
	return strings.ToUpper(regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(name, "${1}_$2"))
}

// comment returns a comment, after something, if there is one.
func comment(after string, c *ast.CommentGroup) string {
	if c == nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(c.Text(), "\n"), "\n")
	text := after + "// " + strings.Join(lines, "\n// ")
	if after == "" {
		text += "\n"
	}
	return text
}
