package main

import (
	"bytes"
	"go/format"
	"go/parser"
	"go/token"
)

// setup formats a Go file.
func setup(src []byte) func() int {
	return func() int {
		fset := token.NewFileSet()
		f, err := parser.ParseFile(fset, "file.go", src, parser.ParseComments)
		check(err)
		var out bytes.Buffer
		check(format.Node(&out, fset, f))
		return out.Len()
	}
}
