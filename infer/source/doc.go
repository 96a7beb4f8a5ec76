// Package source finds the source of programs on this machine: the lines that debug
// information names, and what has become, in a tree, of the functions that were sampled.
//
// It refuses names as permissions: a file is read below directories that the user named or
// that toolchains keep source in, and only if it is a regular file of text that no link
// leads out to. Whether source is that which was compiled it does not know.
//
// Commands decide which directories count; package gate judges Fates.
package source
