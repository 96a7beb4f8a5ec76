// Package bound keeps what a file makes its reader hold and do in proportion to
// the size of the file, so that small files that were made to fill memory give an
// error instead. Two rules hold for all formats: what a file may unpack to, and what
// memory its contents may take. Readers ask before they allocate.
//
// All readers of a process also draw from one budget, its memory: a file that is large
// enough to justify what it asks for is refused where the machine has no room for it.
// The runtime would end the process.
//
// It refuses nothing that is in proportion, and knows no format: readers say which
// field of which file asks.
package bound
