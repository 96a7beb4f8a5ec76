// Package optimize makes a program faster and shows that it is: it builds it as its target says, records it, makes
// profiles and orders, builds or rewrites it with each candidate, tests what comes out, measures it against the old one in
// alternation, and puts the best in place, or the old one where none is clearly better.
//
// It runs what a target names and nothing else, and changes nothing of the directory that the program is built in: builds
// that write there run in copies, which are gone in the end, also after an interrupt. It refuses to keep what was not
// tested and measured. Packages emit and layout make what compilers and linkers read; package report says what happened.
package optimize
