// Package report is what people read: tables, numbers and bars on a terminal, and
// HTML pages, which need nothing but a browser. It formats what it is given and
// computes nothing; every figure comes from the package that owns it. Whether there
// is a terminal, and whether it may be coloured, its caller knows.
package report
