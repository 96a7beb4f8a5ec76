package truth

import (
	"fmt"
	"path"
	"slices"

	"backfeed/infer/image"
	"backfeed/sample"
)

// A CoverPlacing says what became of the blocks of a cover profile in an image that was
// built without counters. Blocks is the sum of the others.
type CoverPlacing struct {
	Blocks       int // blocks of source
	Placed       int // those that got a place
	NoCode       int // no code is of lines that are theirs alone
	Copies       int // code of theirs, or of their function, is in several procedures
	Mixed        int // no machine code runs as often as they do, as far as can be told
	Contradicted int // another's count cannot be if theirs is right
}

// Place finds code of im that runs as often as blocks of c do, and returns their
// executions by file offset. A block has such code where the lines that are its alone
// are in one procedure, in which they are entered through one block of instructions
// that has no code of other lines; and where no function is inlined that it is of.
func (c *Cover) Place(im *image.Image) (map[sample.Offset]uint64, CoverPlacing, error) {
	rep := CoverPlacing{Blocks: len(c.Blocks)}
	ln, err := im.Lines()
	if err != nil {
		return nil, rep, err
	}
	p := coverPlacer{
		Cover: c, im: im, main: im.GoMain(), lines: c.lines(),
		procs: make([]int, len(c.Blocks)), of: make([]string, len(c.Blocks)), inlined: map[string]bool{},
	}
	for b := range p.procs {
		p.procs[b] = nowhere
	}
	codes := make([]*coverCode, len(im.Symbols()))
	for i := range codes {
		codes[i] = p.read(i, ln)
	}
	at := map[sample.Offset]uint64{}
	for i, code := range codes {
		if code != nil {
			p.place(i, code, at)
		}
	}
	for b, i := range p.procs {
		switch {
		case i == nowhere:
			rep.NoCode++
		case i == manywhere, p.inlined[p.of[b]]:
			rep.Copies++
		case i == mixed:
			rep.Mixed++
		case i == contradicted:
			rep.Contradicted++
		}
	}
	rep.Placed = len(at)
	if rep.NoCode == rep.Blocks {
		return nil, rep, fmt.Errorf("%s has no code of the lines of the cover profile", im.Path)
	}
	return at, rep, nil
}

// What a block's procedure is where it is no symbol.
const (
	nowhere = -1 - iota
	manywhere
	mixed
	contradicted
)

type coverPlacer struct {
	*Cover
	im      *image.Image
	main    string // import path of the main package
	lines   map[string]map[int]int
	procs   []int           // by block of source: the symbol that has its code
	of      []string        // by block of source: the function
	inlined map[string]bool // functions of which there is code in others
}

// A coverCode is a procedure that has code of lines of the profile.
type coverCode struct {
	*image.Proc
	start int           // line of its declaration
	insts [][]coverInst // by block
}

// A coverInst is the line of an instruction, 0 if it is unknown, and the block of
// source whose alone it is: -1 if it is of several, or of none.
type coverInst struct{ line, block int }

// read returns the lines of a procedure's code, in the procedure itself: of what is
// inlined, those of the calls. It is nil if none is in the profile.
func (p *coverPlacer) read(symbol int, ln *image.Lines) *coverCode {
	proc, err := p.im.Proc(symbol)
	if err != nil {
		return nil
	}
	code := &coverCode{Proc: proc, insts: make([][]coverInst, len(proc.Blocks))}
	found := false
	for b := range proc.Blocks {
		for _, in := range p.im.Insts(&proc.Blocks[b]) {
			fs := ln.Frames(in.Addr)
			ci := coverInst{block: -1}
			for i, f := range fs {
				if i < len(fs)-1 {
					p.inlined[f.Func] = true
					continue
				}
				ci.line, code.start = f.Line, f.StartLine
				if lines := p.lines[p.file(f)]; lines != nil {
					found = true
					if src, ok := lines[f.Line]; ok {
						ci.block = src
					}
				}
				if ci.block >= 0 {
					p.found(ci.block, symbol, f.Func)
				}
			}
			code.insts[b] = append(code.insts[b], ci)
		}
	}
	if !found {
		return nil
	}
	return code
}

// file returns what the profile calls the file of a frame.
func (p *coverPlacer) file(f image.Frame) string {
	dir := image.GoPackage(f.Func)
	if dir == "main" {
		dir = p.main
	}
	return dir + "/" + path.Base(f.File)
}

// found says that code of a block of source is in a procedure.
func (p *coverPlacer) found(src, symbol int, function string) {
	switch p.procs[src] {
	case nowhere:
		p.procs[src], p.of[src] = symbol, function
	case symbol:
	default:
		p.procs[src] = manywhere
	}
}

// place assigns places to the blocks of source that have code in a procedure.
func (p *coverPlacer) place(symbol int, code *coverCode, at map[sample.Offset]uint64) {
	with := map[int][]int{} // blocks of code, by that of source
	var order []int
	for b, insts := range code.insts {
		for _, in := range insts {
			if in.block < 0 || p.procs[in.block] != symbol || p.inlined[p.of[in.block]] {
				continue
			}
			if bs := with[in.block]; len(bs) == 0 {
				order = append(order, in.block)
			} else if bs[len(bs)-1] == b {
				continue
			}
			with[in.block] = append(with[in.block], b)
		}
	}
	var all []coverPlace
	for _, src := range order {
		if b, ok := p.entry(code, src, with[src]); ok {
			all = append(all, coverPlace{src, b})
		} else {
			p.procs[src] = mixed
		}
	}
	for _, c := range code.contradictions(all, p.Blocks) {
		p.procs[c.src] = contradicted
	}
	for _, c := range all {
		if off, ok := p.im.OffsetOf(p.standFor(&code.Blocks[c.block])); ok && p.procs[c.src] == symbol {
			at[off] = p.Blocks[c.src].N
		}
	}
}

// A coverPlace is a block of source and the block of code that runs as often.
type coverPlace struct{ src, block int }

// standFor returns the instruction that stands for a block: the first that is neither
// padding nor a jump, which another build may lack.
func (p *coverPlacer) standFor(b *image.Block) image.Addr {
	for _, in := range p.im.Insts(b) {
		if in.Class&(image.Jump|image.Nop) == 0 {
			return in.Addr
		}
	}
	return b.Start
}

// entry returns the block of code through which that of a block of source is entered,
// each time once.
func (p *coverPlacer) entry(code *coverCode, src int, blocks []int) (entry int, ok bool) {
	if len(blocks) > maxCoverCode {
		return 0, false
	}
	for _, b := range blocks {
		if code.pure(b, &p.Blocks[src], src) {
			reached := code.without(b, code.Entries)
			if !slices.ContainsFunc(blocks, func(o int) bool { return reached[o] }) {
				return b, !code.repeats(b, &p.Blocks[src], src)
			}
		}
	}
	return 0, false
}

// maxCoverCode bounds the blocks of code of a block of source.
const maxCoverCode = 64

// pure reports whether a block of code is of a block of source alone, so that nothing
// was moved there from elsewhere, or from there. The line that a block of source
// begins in belongs to it only where that is the function's own, or where the block of
// code is in a loop that begins there. Of an if, it has the condition.
func (code *coverCode) pure(b int, at *CoverBlock, src int) bool {
	for _, in := range code.insts[b] {
		switch {
		case in.line == 0 || in.block == src:
		case in.block >= 0, in.line < at.Start.Line, in.line > at.End.Line:
			return false
		case in.line == at.Start.Line && in.line != code.start && !code.loops(b, in.line):
			return false
		}
	}
	return true
}

// loops reports whether control may come back to a block through nothing but code of a
// line: the head of its loop.
func (code *coverCode) loops(b, line int) bool {
	return code.returns(b, func(o int) bool {
		return !slices.ContainsFunc(code.insts[o], func(in coverInst) bool { return in.line != line })
	})
}

// repeats reports whether control may come back to a block without leaving the lines
// that are of a block of source alone: then it may run more often.
func (code *coverCode) repeats(b int, at *CoverBlock, src int) bool {
	within := func(b int) bool {
		for _, in := range code.insts[b] {
			if in.block != src && in.line != 0 && (in.line <= at.Start.Line || in.line > at.End.Line) {
				return false
			}
		}
		return true
	}
	return within(b) && code.returns(b, within)
}

// returns reports whether control may come back to a block through others that are
// within some.
func (code *coverCode) returns(b int, within func(int) bool) bool {
	seen := map[int]bool{}
	work := []int{b}
	for len(work) > 0 {
		from := work[len(work)-1]
		work = work[:len(work)-1]
		for _, e := range code.Blocks[from].Out {
			to := code.Edges[e].To
			if to == b {
				return true
			}
			if !seen[to] && within(to) {
				seen[to] = true
				work = append(work, to)
			}
		}
	}
	return false
}

// without tells of each block whether it can be reached from some without going
// through b.
func (code *coverCode) without(b int, from []int) []bool {
	seen := make([]bool, len(code.Blocks))
	var work []int
	visit := func(to int) {
		if to != b && !seen[to] {
			seen[to] = true
			work = append(work, to)
		}
	}
	for _, to := range from {
		visit(to)
	}
	for len(work) > 0 {
		at := work[len(work)-1]
		work = work[:len(work)-1]
		for _, e := range code.Blocks[at].Out {
			visit(code.Edges[e].To)
		}
	}
	return seen
}

// contradictions returns the places of which one can only be reached through another
// and, of both, ran more often than that without a loop around it alone.
func (code *coverCode) contradictions(all []coverPlace, blocks []CoverBlock) (bad []coverPlace) {
	for i, a := range all {
		reached := code.without(a.block, code.Entries)
		for k := max(0, i-maxCoverNear); k < min(len(all), i+maxCoverNear); k++ {
			b := all[k]
			if k == i || reached[b.block] || blocks[b.src].N <= blocks[a.src].N {
				continue
			}
			var next []int
			for _, e := range code.Blocks[b.block].Out {
				next = append(next, code.Edges[e].To)
			}
			if !code.without(a.block, next)[b.block] {
				bad = append(bad, a, b)
			}
		}
	}
	return bad
}

// maxCoverNear is how many places before and behind one are compared with it.
const maxCoverNear = 16
