// Package document holds the counts document: what was inferred of a recording as other
// programs read it, its JSON Schema, a writer that holds one procedure at a time, and a
// reader.
//
// It refuses documents of another schema and those that break what theirs promises, and
// knows nothing of how counts come about.
//
// Package infer makes documents of its profiles; package truth says how near they come
// to exact counts.
package document
