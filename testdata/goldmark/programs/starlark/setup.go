package main

import (
	"go.starlark.net/starlark"
	"go.starlark.net/syntax"
)

// setup compiles a script of Starlark.
func setup(src []byte) func() int {
	opts := &syntax.FileOptions{Set: true, While: true, TopLevelControl: true, GlobalReassign: true}
	_, program, err := starlark.SourceProgramOptions(opts, "script.star", src, func(string) bool { return false })
	check(err)
	return func() int {
		globals, err := program.Init(&starlark.Thread{Name: "main"}, nil)
		check(err)
		made, err := starlark.AsInt32(globals["made"])
		check(err)
		return made
	}
}
