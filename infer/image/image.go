package image

import (
	"errors"
	"slices"
	"sort"

	"backfeed/sample"
)

// An Addr is a place in an image as linked: an ELF virtual address.
type Addr uint64

// Arch is an instruction set.
type Arch uint8

const (
	X86_64 Arch = iota + 1
	AArch64
)

func (a Arch) String() string {
	switch a {
	case X86_64:
		return "x86_64"
	case AArch64:
		return "aarch64"
	}
	return "unknown"
}

// A Symbol is a name bound to a range of code.
type Symbol struct {
	Name    string   // linker name, as in the symbol table: mangled, with version and suffixes left out of dynamic symbols
	Aliases []string // other names of the same address, sorted
	Addr    Addr
	Size    uint64       // bytes; where the symbol table says 0, up to the next symbol
	Source  SymbolSource // where the name or the range came from
	Local   bool         // STB_LOCAL: Name may not be unique in the image
	Ordinal int          // 1-based number of a Local name as BOLT counts (name/N): by address, functions first; 0 for globals and for symbols BOLT skips
	Section string       // section that holds the code: ".text", ".text.hot"
}

// SymbolSource says what a Symbol was made from.
type SymbolSource uint8

const (
	FromSymtab  SymbolSource = iota // .symtab, of the file or its debug file
	FromDynsym                      // .dynsym
	FromPclntab                     // Go's function table
	FromEhFrame                     // an FDE without a symbol; Name is "fn_<hex address>"
	FromCall                        // target of a call in a stripped file; Name is "fn_<hex address>"
	FromPLT                         // a stub; Name is "<function>@plt"
)

// A Proc is the code of a procedure: Blocks partition what could be decoded of it.
type Proc struct {
	Symbol
	Index  int     // of the symbol in its image
	Blocks []Block // by increasing Start; Blocks[0] is the entry
	Edges  []Edge  // by From, To, Kind
	Calls  []Call  // by Site

	// Entries are the blocks that control enters from elsewhere, indices into
	// Blocks by increasing order: the top, landing pads, what jumps from a cold
	// part come back to, targets of calls into the middle. Flow into them is more
	// than their In edges carry.
	Entries []int

	// Complete is false where an indirect jump's targets could not be found or
	// the bytes could not be decoded end to end; Why then says which, where.
	Complete bool
	Why      string
	torn     bool // not decoded end to end
}

// BlockAt returns the index of the block that holds a, or -1.
func (p *Proc) BlockAt(a Addr) int {
	i := sort.Search(len(p.Blocks), func(i int) bool { return p.Blocks[i].Start > a }) - 1
	if i < 0 || a >= p.Blocks[i].End {
		return -1
	}
	return i
}

// A Block is a basic block: [Start, End), entered at the top, left at the bottom.
// A call does not end a block unless it does not return.
type Block struct {
	Start, End Addr
	Insts      int   // instructions
	Exit       Exit  // how control leaves the procedure from here, if it does
	Pad        bool  // an exception landing pad: entered from outside the flow graph
	Emulated   bool  // an instruction of it may be emulated, which takes 10 to 1,000 times as long as any other: see emulated
	Out        []int // indices into Proc.Edges, edges with From == this block
	In         []int // indices into Proc.Edges, edges with To == this block
	Calls      []int // indices into Proc.Calls, calls with Block == this block
	Last       Addr  // address of the last instruction
}

// severalTargets is the number of targets from which on an indirect jump dispatches.
const severalTargets = 3

// Dispatches reports whether block b ends in an indirect jump with several targets, as those of interpreters and of
// large switches do: processors mispredict such jumps at times.
func (p *Proc) Dispatches(b int) bool {
	out := p.Blocks[b].Out
	return len(out) >= severalTargets && p.Edges[out[0]].Kind == Indirect
}

// Loops reports whether an edge leads from block b to itself.
func (p *Proc) Loops(b int) bool {
	return slices.ContainsFunc(p.Blocks[b].Out, func(e int) bool { return p.Edges[e].To == b })
}

// Doomed returns the blocks of p that all paths lead from to blocks that end it, as calls that do not return do.
func (p *Proc) Doomed(ends func(*Block) bool) []bool {
	doomed := make([]bool, len(p.Blocks))
	var todo []int
	add := func(b int) {
		doomed[b] = true
		for _, e := range p.Blocks[b].In {
			todo = append(todo, p.Edges[e].From)
		}
	}
	for b := range p.Blocks {
		if ends(&p.Blocks[b]) {
			add(b)
		}
	}
	for len(todo) > 0 {
		i := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		b := &p.Blocks[i]
		if !doomed[i] && b.Exit == NoExit && !slices.ContainsFunc(b.Out, func(e int) bool { return !doomed[p.Edges[e].To] }) {
			add(i)
		}
	}
	return doomed
}

// Exit says how control leaves the procedure at the end of a block.
type Exit uint8

const (
	NoExit     Exit = iota // every transfer out of the block is an Edge
	Return                 // ends in a return
	TailCall               // ends in a jump to another procedure; a conditional one has a FallThrough edge as well
	NoReturn               // ends in a call that does not return, or a trap (ud2, hlt, brk)
	Unresolved             // ends in an indirect jump whose targets are unknown
	RunsOff                // decoding stopped: bad bytes or the end of the range
)

// Kind is the kind of an Edge.
type Kind uint8

const (
	FallThrough Kind = iota // to the next instruction
	Taken                   // a direct jump
	Indirect                // through a jump table
)

func (k Kind) String() string { return [...]string{"fallthrough", "taken", "indirect"}[k] }

// An Edge is a possible transfer of control between two blocks of one procedure.
type Edge struct {
	From, To int // indices into Proc.Blocks
	Kind     Kind
}

// A Call is a transfer to another procedure (or to this one from its top).
type Call struct {
	Block    int    // index into Proc.Blocks
	Site     Addr   // of the call instruction, or of the jump for a tail call
	Return   Addr   // of the instruction after Site
	To       Addr   // target; 0 if the call is indirect and its target not constant
	Target   string // name of the symbol at To, for a stub the function it leads to: "malloc"; "" if unknown
	Tail     bool
	Cond     bool // a conditional tail call
	NoReturn bool

	slot Addr // of the GOT, if it calls through one whose content is constant
}

// Class says what an instruction does, as far as the rest of backfeed asks.
type Class uint32

const (
	Load     Class = 1 << iota // reads memory (not by push/pop/call/ret of the stack alone)
	Store                      // writes memory (likewise)
	CondJump                   // direct conditional branch
	Jump                       // direct unconditional branch
	IndJump                    // indirect unconditional branch
	DirCall                    // direct call
	IndCall                    // indirect call
	Ret                        // return
	Trap                       // ud2, hlt, int3, brk: control does not go on
	Div                        // integer or floating-point divide or square root
	Mul                        // integer multiply
	Float                      // floating-point or vector arithmetic
	Locked                     // atomic read-modify-write, or a fence
	Rep                        // repeated string instruction
	System                     // syscall, cpuid and other serialising or microcoded ones
	Push                       // push or pop
	Nop                        // no effect: padding, endbr64
	Compare                    // sets flags only: cmp, test
	Bad                        // could not be decoded; Len is the best guess
)

// Flow are the classes that end or may end straight-line execution.
const Flow = CondJump | Jump | IndJump | DirCall | IndCall | Ret | Trap

// An Inst is one instruction.
type Inst struct {
	Addr   Addr
	Len    int // bytes
	Class  Class
	Target Addr // of direct branches and calls
}

// A Frame is one function of the inlined call stack at an address.
type Frame struct {
	Func      string // linker name of the function, as in a symbol table; inlined ones too
	Name      string // of Func in its source, as DWARF tells: without scope and parameters, with template arguments; "" where pclntab answers
	File      string
	Line      int    // of the instruction (innermost frame) or of the inlined call in Func (others)
	StartLine int    // line of Func's declaration; 0 is unknown
	Disc      uint32 // raw DWARF discriminator that goes with Line: of the line row (innermost) or of the call site (others)
}

// A Unit is the compilation unit that code came from.
type Unit struct {
	Producer string // DW_AT_producer: "Debian clang version 19.1.7", "GNU C17 12.2.0 -O2"; "Go cmd/compile go1.26.8" for Go
	Lang     string // "c", "c++", "go", "rust", "asm", "" unknown
	Name     string // source file
}

var (
	// ErrFormat is wrapped by every error that blames the bytes of a file
	// rather than the disk.
	ErrFormat = errors.New("malformed image")
	// ErrUnsupported is wrapped where a file is sound but not for backfeed: 32 bits, another processor.
	ErrUnsupported = errors.New("unsupported image")
	// ErrNoLines is wrapped where an image has no line table.
	ErrNoLines = errors.New("no line table")
)

var _ sample.Offset
