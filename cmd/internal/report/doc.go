// Package report is what people and programs read: tables, numbers and bars on a terminal,
// the documents that commands print as JSON, and the parts of HTML pages, which need nothing
// but a browser. It formats what it is given; to choose, to sort and to add up rows is all
// that it computes, and every figure comes from the package that owns it.
//
// It refuses to know where its figures come from, and whether there is a terminal that may
// be coloured: its caller knows. Commands choose what to show; package web makes whole pages.
package report
