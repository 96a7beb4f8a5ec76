package main

import (
	"bytes"

	"github.com/alecthomas/chroma/v2"
	"github.com/alecthomas/chroma/v2/formatters/html"
	"github.com/alecthomas/chroma/v2/lexers"
	"github.com/alecthomas/chroma/v2/styles"
)

// setup colours a Go file as HTML.
func setup(src []byte) func() int {
	lexer, style, formatter := chroma.Coalesce(lexers.Get("go")), styles.Get("github"), html.New()
	return func() int {
		var out bytes.Buffer
		tokens, err := lexer.Tokenise(nil, string(src))
		check(err)
		check(formatter.Format(&out, style, tokens))
		return out.Len()
	}
}
