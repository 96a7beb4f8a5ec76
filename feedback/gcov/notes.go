package gcov

import (
	"encoding/binary"
	"io"
)

// Notes are the control flow graphs of the functions of an object, as gcc writes them with
// -ftest-coverage. Their graphs and checksums are those that -fprofile-use looks for where source,
// object name and options are the same, -fprofile-use included: what optimises before the profile is
// read, as -O1 or -fno-inline do, makes another graph. -g, -flto, and -O3 instead of -O2 made none with
// gcc 12.
type Notes struct {
	Path      string // as it was given to ReadNotes
	Version   Version
	BigEndian bool
	Stamp     uint32
	Checksum  uint32 // since GCC 12, which writes 0
	Dir       string // where gcc ran, by its $PWD; "" before GCC 9
	Functions []Function
}

// A Function is one of an object, in the order in which gcc compiled them.
type Function struct {
	Ident        uint32 // by which gcc finds it in data: depends on its name; of static ones also on source and object
	LineChecksum uint32 // of name, source and line: gcc warns if it differs
	CFGChecksum  uint32 // of blocks and edges: gcc ignores the counters if it differs
	Name         string // of the assembler
	Artificial   bool   // the compiler made it
	Source       string // as gcc was given it, from Notes.Dir
	StartLine    int
	StartColumn  int
	EndLine      int
	EndColumn    int // 0 before GCC 9
	Blocks       int // Entry and Exit included
	Arcs         []Arc
	Lines        [][]Line // by block, in the order of its statements
}

// Entry and Exit are the blocks with which each function begins and ends; they have no code.
const (
	Entry = 0
	Exit  = 1
)

// An Arc leads from one block to another. Edges that gcc cannot count, as those of a computed goto, are
// not arcs. Where a block has such out-edges, a fake arc leads from it to Exit; where it has such
// in-edges, one leads from Entry to it (branch_prob in profile.cc). A function is then entered less often
// than the arcs from Entry run: as often as the one to its first block.
type Arc struct {
	From, To int
	Flags    ArcFlags
}

// MayEnd reports whether a stands for calls at the end of its block that may not return: any but those of pure functions and of most
// that gcc knows.
func (a Arc) MayEnd() bool { return a.Flags&Fake != 0 && a.From != Entry && a.To == Exit }

// ArcFlags say what an arc is (gcov-io.h).
type ArcFlags uint32

const (
	OnTree      ArcFlags = 1 << iota // of the spanning tree: it has no counter
	Fake                             // stands for calls that do not return, and for edges that gcc cannot count
	FallThrough                      // the target follows the block
)

// A Line is one of a source file.
type Line struct {
	File string // as gcc was given it
	Line int
}

// ReadNotes reads a .gcno file. Path is for errors and for DataPath.
//
//	4  "gcno", in the order of bytes of the file
//	4  version             4  stamp
//	4  checksum (since GCC 12)
//	string  directory (since GCC 9)
//	4  1: the language has blocks that need not run (not Ada)
//	records: 4  tag        4  length       and so many bytes or words, of
//	  01000000  function   4  ident        4  checksum of lines    4  checksum of the graph
//	                       string  name    4  artificial           string  source
//	                       4  line         4  column   4  last line   4  last column (since GCC 9)
//	  01410000  blocks     4  how many
//	  01430000  arcs       4  from block   then of each: 4  to block   4  flags
//	  01450000  lines      4  of block     then 4  line, or 4  0 and string  file; 4  0 and 4  0 end them
//
// Others, as those of conditions and paths, are skipped.
func ReadNotes(r io.Reader, path string) (*Notes, error) {
	c, stamp, err := open(r, path, magicNotes, "notes")
	if err != nil {
		return nil, err
	}
	n := &Notes{Path: path, Version: c.version, BigEndian: c.order == binary.BigEndian, Stamp: stamp}
	if c.version.bytes() {
		n.Checksum = c.u32("checksum")
	}
	if c.version.Major() >= sinceCwd {
		n.Dir = c.str("directory")
	}
	c.u32("unexecuted blocks")
	var g *graph
	for {
		rec, ok := c.record()
		if !ok {
			break
		}
		switch rec.tag {
		case tagFunction:
			g.close(c, n)
			g = c.function(rec)
		case tagBlocks:
			c.blocks(g, rec)
		case tagArcs:
			c.arcs(g, rec)
		case tagLines:
			c.lines(g, rec)
		}
		c.done()
	}
	g.close(c, n)
	if c.err != nil {
		return nil, c.err
	}
	return n, nil
}

// A graph is a function that is being read.
type graph struct {
	Function
	off   int  // of its record
	sized bool // its blocks were told
	froms int  // blocks whose arcs were told
	file  string
	lines []blockLines
}

type blockLines struct {
	block int
	lines []Line
}

func (c *cursor) function(rec record) *graph {
	g := &graph{off: rec.off}
	g.Ident = c.u32("ident")
	g.LineChecksum = c.u32("checksum of lines")
	g.CFGChecksum = c.u32("checksum of the graph")
	g.Name = c.str("name")
	g.Artificial = c.u32("artificial") != 0
	g.Source = c.str("source")
	g.StartLine = c.number("line")
	g.StartColumn = c.number("column")
	g.EndLine = c.number("last line")
	if c.version.Major() >= sinceCwd {
		g.EndColumn = c.number("last column")
	}
	return g
}

func (c *cursor) blocks(g *graph, rec record) {
	if g == nil {
		c.fail(rec.off, "blocks", "before the first function")
		return
	}
	if g.sized {
		c.fail(rec.off, "blocks", "twice in function %s", g.Name)
		return
	}
	g.sized = true
	g.Blocks = c.number("number of blocks")
}

// block reads the number of one.
func (c *cursor) block(g *graph, field string) int {
	off := c.off
	n := c.number(field)
	if c.err == nil && n >= g.Blocks {
		c.fail(off, field, "%d, and function %s has %d blocks", n, g.Name, g.Blocks)
	}
	return n
}

func (c *cursor) arcs(g *graph, rec record) {
	if g == nil {
		c.fail(rec.off, "arcs", "before the first function")
		return
	}
	from := c.block(g, "block of arcs")
	if c.err == nil && c.left()%8 != 0 {
		c.fail(rec.off, "arcs", "%d bytes, which is no number of arcs", c.left())
	}
	for c.err == nil && c.left() > 0 {
		to := c.block(g, "target of an arc")
		g.Arcs = append(g.Arcs, Arc{From: from, To: to, Flags: ArcFlags(c.u32("flags of an arc"))})
	}
	g.froms++
}

func (c *cursor) lines(g *graph, rec record) {
	if g == nil {
		c.fail(rec.off, "lines", "before the first function")
		return
	}
	b := blockLines{block: c.block(g, "block of lines")}
	for c.err == nil {
		if line := c.number("line of a block"); line > 0 {
			b.lines = append(b.lines, Line{g.file, line})
			continue
		}
		at := c.off
		name := c.str("file of lines")
		if c.off == at+4 { // no string, not even an empty one
			break
		}
		g.file = name
	}
	g.lines = append(g.lines, b)
}

// close adds the function to the notes. gcc writes the arcs of every block but Exit, be there any or
// not, which bounds the number of blocks by the size of the file.
func (g *graph) close(c *cursor, n *Notes) {
	if g == nil || c.err != nil {
		return
	}
	if g.Blocks > g.froms+1 {
		c.fail(g.off, "blocks", "function %s has %d, and arcs of %d are told", g.Name, g.Blocks, g.froms)
		return
	}
	g.Lines = make([][]Line, g.Blocks)
	for _, b := range g.lines {
		g.Lines[b.block] = append(g.Lines[b.block], b.lines...)
	}
	n.Functions = append(n.Functions, g.Function)
}
