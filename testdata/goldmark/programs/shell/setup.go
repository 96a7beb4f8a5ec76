package main

import (
	"bytes"
	"context"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"
)

// setup parses a shell script, formats it, parses that again, and runs it.
func setup(src []byte) func() int {
	return func() int {
		file, err := syntax.NewParser(syntax.KeepComments(true)).Parse(bytes.NewReader(src), "script")
		check(err)
		var text, out bytes.Buffer
		check(syntax.NewPrinter(syntax.Indent(2)).Print(&text, file))
		file, err = syntax.NewParser().Parse(&text, "formatted")
		check(err)
		r, err := interp.New(interp.StdIO(nil, &out, &out))
		check(err)
		check(r.Run(context.Background(), file))
		return out.Len()
	}
}
