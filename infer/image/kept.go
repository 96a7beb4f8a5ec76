package image

import (
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"slices"
	"strings"

	"backfeed/sample/wire"
)

// A procedure is kept as what cannot be derived of it in less time than it takes to read it, so that it need not be decoded
// again. Integers are those of package wire; a difference is an integer modulo 2^64.
//
//	integer  index of its symbol
//	integer  1 if it is complete, 2 if it was not decoded end to end, or their sum
//	string   if it is not complete, why
//	integer  edges
//	list     blocks: difference of its start to the end of the one before, of the first to the symbol's address;
//	         integers, bytes, instructions, bytes of the last one; integer, exit, and 8 more for a landing pad, 16 for one with what is emulated;
//	         list of out-edges: integer, target as an index, times 4, and the kind
//	list     entries: integers, indices of blocks
//	list     calls: integer, index of the block; differences of the site to the block's start, of what it returns to to the
//	         site; integer, flags; differences of the target and of the slot to the site; integer, name of the target

// The flags of a call that is kept.
const (
	keptTail = 1 << iota
	keptCond
	keptNoReturn
)

// Keep appends p to what is kept. name returns a number for the name of what a call leads to.
func (p *Proc) Keep(w *wire.Writer, name func(string) int) {
	w.Int(p.Index)
	flags := 0
	if p.Complete {
		flags |= 1
	}
	if p.torn {
		flags |= 2
	}
	w.Int(flags)
	if !p.Complete {
		w.String(p.Why)
	}
	w.Int(len(p.Edges))
	w.Int(len(p.Blocks))
	at := p.Addr
	for i := range p.Blocks {
		b := &p.Blocks[i]
		w.Uint(uint64(b.Start - at))
		w.Uint(uint64(b.End - b.Start))
		w.Int(b.Insts)
		w.Uint(uint64(b.End - b.Last))
		exit := int(b.Exit)
		if b.Pad {
			exit |= 8
		}
		if b.Emulated {
			exit |= 16
		}
		w.Int(exit)
		w.Int(len(b.Out))
		for _, e := range b.Out {
			w.Int(p.Edges[e].To<<2 | int(p.Edges[e].Kind))
		}
		at = b.End
	}
	w.Int(len(p.Entries))
	for _, b := range p.Entries {
		w.Int(b)
	}
	w.Int(len(p.Calls))
	for i := range p.Calls {
		c := &p.Calls[i]
		w.Int(c.Block)
		w.Uint(uint64(c.Site - p.Blocks[c.Block].Start))
		w.Uint(uint64(c.Return - c.Site))
		w.Int(c.flags())
		w.Uint(uint64(c.To - c.Site))
		w.Uint(uint64(c.slot - c.Site))
		w.Int(name(c.Target))
	}
}

func (c *Call) flags() (flags int) {
	if c.Tail {
		flags |= keptTail
	}
	if c.Cond {
		flags |= keptCond
	}
	if c.NoReturn {
		flags |= keptNoReturn
	}
	return flags
}

// Restore reads a procedure of im that Keep wrote; names are those of calls' targets by their numbers. What it does not
// check is not so if somebody wrote it on purpose: r is to be of those who may write here.
func (im *Image) Restore(r *wire.Reader, names []string) *Proc {
	at := r.Off
	index := int(r.Uint(uint64(max(0, len(im.symbols)-1)), "symbol"))
	flags := r.Uint(3, "flags")
	if r.Err != nil || len(im.symbols) == 0 {
		r.Fail(at, "symbol")
		return nil
	}
	p := &Proc{Symbol: im.symbols[index], Index: index, Complete: flags&1 != 0, torn: flags&2 != 0}
	if !p.Complete {
		p.Why = r.String("why")
	}
	edges := r.Len(1, "edges")
	p.Blocks = make([]Block, r.Len(6, "blocks"))
	p.Edges = make([]Edge, 0, edges)
	p.restoreBlocks(r, edges)
	p.Entries = make([]int, r.Len(1, "entries"))
	for i := range p.Entries {
		p.Entries[i] = p.someBlock(r)
	}
	p.Calls = make([]Call, r.Len(7, "calls"))
	for i := range p.Calls {
		p.restoreCall(r, i, names)
	}
	if r.Err != nil {
		return nil
	}
	p.index(nil)
	return p
}

// someBlock reads the index of a block.
func (p *Proc) someBlock(r *wire.Reader) int {
	if len(p.Blocks) == 0 {
		r.Fail(r.Off, "block")
		return 0
	}
	return int(r.Uint(uint64(len(p.Blocks)-1), "block"))
}

func (p *Proc) restoreBlocks(r *wire.Reader, edges int) {
	room := p.Size // of the symbol's bytes: what is behind the block before
	end := p.Addr
	for i := range p.Blocks {
		b := &p.Blocks[i]
		b.Start = end + Addr(r.Uint(room, "gap"))
		room -= uint64(b.Start - end)
		size := r.Uint(room, "size")
		room -= size
		end = b.Start + Addr(size)
		b.End = end
		b.Insts = int(r.Uint(size, "instructions"))
		b.Last = end - Addr(r.Uint(size, "last instruction"))
		at := r.Off
		exit := r.Uint(31, "exit")
		b.Exit, b.Pad, b.Emulated = Exit(exit&7), exit&8 != 0, exit&16 != 0
		if b.Exit > RunsOff {
			r.Fail(at, "exit")
		}
		for range r.Uint(uint64(edges-len(p.Edges)), "out-edges") {
			at := r.Off
			e := r.Uint(uint64(4*len(p.Blocks)-1), "edge")
			if Kind(e&3) > Indirect {
				r.Fail(at, "kind of an edge")
			}
			p.Edges = append(p.Edges, Edge{i, int(e >> 2), Kind(e & 3)})
		}
	}
	if len(p.Edges) != edges {
		r.Fail(r.Off, "number of edges")
	}
}

func (p *Proc) restoreCall(r *wire.Reader, i int, names []string) {
	const far = 1<<64 - 1
	c := &p.Calls[i]
	at := r.Off
	if c.Block = p.someBlock(r); r.Err != nil {
		return
	}
	if i > 0 && c.Block < p.Calls[i-1].Block { // or index would not end
		r.Fail(at, "order of calls")
	}
	b := &p.Blocks[c.Block]
	c.Site = b.Start + Addr(r.Uint(uint64(b.End-b.Start), "site"))
	c.Return = c.Site + Addr(r.Uint(far, "return"))
	flags := r.Uint(keptTail|keptCond|keptNoReturn, "flags of a call")
	c.Tail, c.Cond, c.NoReturn = flags&keptTail != 0, flags&keptCond != 0, flags&keptNoReturn != 0
	c.To = c.Site + Addr(r.Uint(far, "target"))
	c.slot = c.Site + Addr(r.Uint(far, "slot"))
	if name := r.Uint(uint64(max(0, len(names)-1)), "name"); name < uint64(len(names)) {
		c.Target = names[name]
	}
}

// Fingerprint says which files the image was read from: as long as it is the same, so is what is read. It is "" where that
// cannot be said: of a kernel that runs, whose code changes in place.
func (im *Image) Fingerprint() string {
	file, ok := im.file.(*os.File)
	if !ok || im.kernel != nil {
		return ""
	}
	prints := []string{Fingerprint(file)}
	if im.debugFile != nil {
		prints = append(prints, Fingerprint(im.debugFile))
	}
	if slices.Contains(prints, "") {
		return ""
	}
	return strings.Join(prints, " ")
}

// Fingerprint tells a file from others: by its size and its build ID, or else the CRC-32C of its bytes. When it was written says nothing:
// copies of a build are alike. It is "" if the file cannot be read.
func Fingerprint(f *os.File) string {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return ""
	}
	id, _ := buildID(f)
	of := id.String()
	if id.IsZero() {
		crc := crc32.New(wire.Castagnoli)
		if _, err := io.Copy(crc, io.NewSectionReader(f, 0, st.Size())); err != nil {
			return ""
		}
		of = fmt.Sprintf("%08x", crc.Sum32())
	}
	return fmt.Sprintf("%s %d", of, st.Size())
}
