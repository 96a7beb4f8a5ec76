// Package image reads ELF files and returns what the rest of backfeed knows of
// code: procedures, basic blocks, edges, calls, instructions and source lines.
// It is the only reader of symbols, DWARF, pclntab and machine code.
//
// Open touches little of the file. Proc decodes one procedure at a time, so that
// memory is bounded by the largest procedure and not by the image. A procedure
// whose indirect jumps could not all be resolved is marked incomplete, never
// guessed. ProbeSites tells which instructions a probe may be set at.
//
// It refuses what is not ELF64 for x86-64 or AArch64. What the counts mean is
// package infer's affair.
package image
