package image

import "errors"

// Proc decodes the code of symbol i (an index into Symbols) into blocks, edges
// and calls.
func (im *Image) Proc(i int) (*Proc, error) { return nil, errors.New("not written yet") }

// Insts decodes the instructions of one block, by increasing address.
func (im *Image) Insts(b *Block) []Inst { return nil }

// Text disassembles the instruction at a in GNU syntax, for people to read.
func (im *Image) Text(a Addr) string { return "" }

// AddressTaken tells whether code or data refers to the start of symbol i other
// than by direct calls and jumps, or the symbol is exported: whether it can be
// reached in ways that Calls do not show.
func (im *Image) AddressTaken(i int) bool { return true }
