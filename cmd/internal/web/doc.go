// Package web makes pages of what was inferred: a Site that serves them one by one, with the
// documents that their scripts show, and pprof's own interface beside them; and a Report that is
// one file. Pages are whole without scripts; those are in package script. What takes seconds
// (orders of functions, cold code, comparisons, a store over time) is worked out in the background
// when its page is first asked for.
//
// It refuses what another site may have a browser ask, names that are markup, and files that
// only debug information names: source comes from where its caller said, and pprof opens
// images through the Session alone.
//
// Package report draws the parts of pages, package listen guards the address, and commands
// say what is explained and where source may be.
package web
