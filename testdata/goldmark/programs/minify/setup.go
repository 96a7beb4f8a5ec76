package main

import (
	"github.com/tdewolff/minify/v2"
	"github.com/tdewolff/minify/v2/css"
	"github.com/tdewolff/minify/v2/js"
)

// setup makes a script of JavaScript smaller, and a style sheet.
func setup(src []byte) func() int {
	m := minify.New()
	m.AddFunc("text/css", css.Minify)
	m.AddFunc("application/javascript", js.Minify)
	const sheet = "h1, h2 { margin: 0px 0px 0px 0px; color: #ff0000; font-weight: bold }\n.a > .b:hover { background: url('x.png') no-repeat; width: calc(100% - 10px) }\n"
	return func() int {
		small, err := m.Bytes("application/javascript", src)
		check(err)
		style, err := m.String("text/css", sheet)
		check(err)
		return len(small) + len(style)
	}
}
