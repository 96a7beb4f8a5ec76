package collect

import (
	"math"
	"time"

	"backfeed/sample"
)

// A WalkOp is one instruction as walks take it: the fields of image.WalkOp, and where it is
// in the file.
type WalkOp struct {
	Off                                                        sample.Offset // meaningless for an operation that is no instruction
	Addr, Target                                               uint64        // as linked; Target is of direct branches, 0 of others
	Kind, Size, Dst, Src, Base, Index, Scale, Flags, Cond, Ext uint8
	Disp                                                       int32
	Imm                                                        int64
	Branch                                                     WalkBranch
	Proc                                                       uint64 // address of its procedure
}

// A WalkBranch says which kind of branch an operation is. All of them are counted.
type WalkBranch uint8

const (
	NoBranch     WalkBranch = iota
	BranchJump              // direct or not
	BranchCond              // conditional, direct
	BranchCall              // direct or not
	BranchReturn            // to its caller
)

// A WalkImage is the code of one image.
type WalkImage struct {
	ID   sample.ImageID
	File string // to open; the path in ID is that of the process
	Ops  []WalkOp
}

// WalkOptions bound what a Walker does.
type WalkOptions struct {
	Share float64 // of the processor time of what is sampled, that walks may take
	Known bool    // walks end where it is not known which way a branch goes
}

// mostGuesses is of how many branches a walk may guess which way they go. What floating-point
// numbers say is not known, and little else; the ways mostly meet again, and what runs after that
// would be missed.
const mostGuesses = 16

// guesses is how many there may be.
func (o *WalkOptions) guesses() uint32 {
	if o.Known {
		return 0
	}
	return mostGuesses
}

// shortWalk and longWalk are how many operations a walk has at most, the latter if walks have
// manyShare of the time or more: 45 and 75 us with interrupts off in the mean (Linux 6.18, a virtual
// machine). Walks begin where programs are slow, which matters the less the longer they go on, and
// the shorter they are, the more there are in the same time. Over four programs, the mean block
// overlap of a minute at 1 % each was 0.901 with 512 and 0.880 with 1024; of two at 3 %, it was 0.901
// and 0.903 with 1024, and of four 0.885 with 512, of which more ended early, though.
const (
	shortWalk, longWalk = 512, 1024
	manyShare           = 0.01
)

// longest is how many operations a walk has at most.
func (o *WalkOptions) longest() uint32 {
	if o.Share >= manyShare {
		return longWalk
	}
	return shortWalk
}

// walkCode is the code of images as one table.
type walkCode struct {
	ops     []WalkOp // 0 is none
	image   []int32  // by operation
	targets []uint32 // by operation: where a direct branch goes
	pages   []uint32 // by page of the code of images: its place in starts, in pages; 0 is nowhere
	starts  []uint32 // by byte of a page: operation
	images  []walkRange
}

// walkPage is the size of a page, in bytes. mostPages bounds the code of all images, 1 TB.
const walkPage, mostPages = 4096, 1 << 28

// A walkRange is where the code of an image is.
type walkRange struct {
	lo, hi sample.Offset
	delta  uint64 // address less offset
	first  uint64 // address of its first page
	pages  uint32 // of that page, in walkCode.pages
	many   uint32 // pages
}

// newWalkCode puts the code of images together. Where one has several operations at one
// address, the first counts. Code that is mapped by itself, at another distance of addresses
// and offsets than the first, is left out.
func newWalkCode(images []WalkImage) *walkCode {
	c := &walkCode{ops: make([]WalkOp, 1), image: []int32{-1}, targets: make([]uint32, 1), starts: make([]uint32, walkPage)}
	for i := range images {
		c.images = append(c.images, c.add(int32(i), &images[i]))
	}
	return c
}

// add adds the code of image i.
func (c *walkCode) add(i int32, im *WalkImage) walkRange {
	first := uint32(len(c.ops))
	c.ops = append(c.ops, im.Ops...)
	lo, hi := uint64(math.MaxUint64), uint64(0)
	delta := im.delta()
	mapped := func(o *WalkOp) bool { return o.Addr != 0 && o.Addr-uint64(o.Off) == delta }
	for k := range im.Ops {
		c.image = append(c.image, i)
		if o := &im.Ops[k]; mapped(o) {
			lo, hi = min(lo, o.Addr), max(hi, o.Addr+1)
		}
	}
	pages := uint64(len(c.pages))
	if hi == 0 || (hi-lo)/walkPage+2+pages > mostPages {
		c.targets = append(c.targets, make([]uint32, len(im.Ops))...)
		return walkRange{}
	}
	r := walkRange{lo: sample.Offset(lo - delta), hi: sample.Offset(hi - delta), delta: delta, first: lo &^ (walkPage - 1), pages: uint32(pages)}
	r.many = uint32((hi-1-r.first)/walkPage + 1)
	c.pages = append(c.pages, make([]uint32, r.many)...)
	used := len(c.starts) / walkPage
	for k := range im.Ops {
		if o := &im.Ops[k]; mapped(o) {
			if page := &c.pages[pages+(o.Addr-r.first)/walkPage]; *page == 0 {
				*page = uint32(used)
				used++
			}
		}
	}
	c.starts = append(c.starts, make([]uint32, used*walkPage-len(c.starts))...)
	for k := range im.Ops {
		if o := &im.Ops[k]; mapped(o) {
			if start := c.start(&r, o.Addr); *start == 0 {
				*start = first + uint32(k)
			}
		}
	}
	for k := range im.Ops {
		to := uint32(0)
		if start := c.start(&r, im.Ops[k].Target); start != nil {
			to = *start
		}
		c.targets = append(c.targets, to)
	}
	return r
}

// start gives what starts has of an address as linked, of the image of r; nil is nothing.
func (c *walkCode) start(r *walkRange, addr uint64) *uint32 {
	at := addr - r.first
	if at/walkPage >= uint64(r.many) {
		return nil
	}
	page := c.pages[uint64(r.pages)+at/walkPage]
	if page == 0 {
		return nil
	}
	return &c.starts[uint64(page)*walkPage+at%walkPage]
}

// delta is how far addresses of im are from offsets.
func (im *WalkImage) delta() uint64 {
	for _, o := range im.Ops {
		if o.Addr != 0 {
			return o.Addr - uint64(o.Off)
		}
	}
	return 0
}

// A WalkEnd is how a walk ended: an END_ of bpf/walker.c.
type WalkEnd uint32

const (
	EndLength  WalkEnd = iota
	EndOp              // an instruction that is not emulated
	EndBranch          // it is not known where a branch goes, and too much was guessed
	EndOutside         // left the code that is known
	EndAddress         // it is not known where something is stored
	EndRoom
	EndStart // nothing is known of the code where it begins
	walkEnds
)

func (e WalkEnd) String() string {
	return [walkEnds]string{"at their full length", "at an instruction that is not emulated", "at a branch on what is not known",
		"outside the code that is known", "at a store that is not known where", "for want of room", "at once, in code that is not known"}[e]
}

// WalkTotals are what walks did.
type WalkTotals struct {
	Walks, Steps uint64
	Lost         uint64           // walks that there was no room to tell of
	Time         time.Duration    // that they took
	Ends         [walkEnds]uint64 // walks by WalkEnd
}

// A WalkLeft is an address, as linked, at which walks left the code that they know.
type WalkLeft struct {
	ID   sample.ImageID // by key
	Addr uint64
}
