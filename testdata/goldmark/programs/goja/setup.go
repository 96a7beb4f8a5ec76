package main

import "github.com/dop251/goja"

// setup compiles a script of JavaScript.
func setup(src []byte) func() int {
	program, err := goja.Compile("script.js", string(src), true)
	check(err)
	return func() int {
		v, err := goja.New().RunProgram(program)
		check(err)
		return int(v.ToInteger())
	}
}
