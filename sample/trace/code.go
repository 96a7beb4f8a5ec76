package trace

import (
	"math"

	"backfeed/sample"
)

// An Op is one instruction as walks take it: the fields of image.WalkOp, and where it is
// in the file.
type Op struct {
	Off                                                        sample.Offset // meaningless for an operation that is no instruction
	Addr, Target                                               uint64        // as linked; Target is of direct branches, 0 of others
	Kind, Size, Dst, Src, Base, Index, Scale, Flags, Cond, Ext uint8
	Disp                                                       int32
	Imm                                                        int64
	Branch                                                     Branch
	Proc                                                       uint64 // address of its procedure
}

// A Branch says which kind of branch an operation is. All of them are counted.
type Branch uint8

const (
	NoBranch     Branch = iota
	BranchJump          // direct or not
	BranchCond          // conditional, direct
	BranchCall          // direct or not
	BranchReturn        // to its caller
)

// An Image is the code of one image.
type Image struct {
	ID   sample.ImageID
	File string // to open; the path in ID is that of the process
	Ops  []Op
}

// Code is the code of images as one table.
type Code struct {
	Ops     []Op     // 0 is none
	Targets []uint32 // by operation: where a direct branch goes
	Pages   []uint32 // by page of the code of images: its place in Starts, in pages; 0 is nowhere
	Starts  []uint32 // by byte of a page: operation
	Ranges  []Range  // by image

	ids   []sample.ImageID // by image
	image []int32          // by operation
}

// pageSize is the size of a page, in bytes. mostPages bounds the code of all images, 1 TB.
const pageSize, mostPages = 4096, 1 << 28

// A Range is where the code of an image is.
type Range struct {
	Lo, Hi sample.Offset // of its file; Hi is 0 where walks cannot go through it
	Delta  uint64        // address less offset
	First  uint64        // address of its first page
	Pages  uint32        // of that page, in Code.Pages
	Many   uint32        // pages
}

// NewCode puts the code of images together. Where one has several operations at one
// address, the first counts. Code that is mapped by itself, at another distance of addresses
// and offsets than the first, is left out.
func NewCode(images []Image) *Code {
	c := &Code{Ops: make([]Op, 1), image: []int32{-1}, Targets: make([]uint32, 1), Starts: make([]uint32, pageSize)}
	for i := range images {
		c.Ranges = append(c.Ranges, c.add(int32(i), &images[i]))
		c.ids = append(c.ids, images[i].ID)
	}
	return c
}

// add adds the code of image i.
func (c *Code) add(i int32, im *Image) Range {
	first := uint32(len(c.Ops))
	c.Ops = append(c.Ops, im.Ops...)
	lo, hi := uint64(math.MaxUint64), uint64(0)
	delta := im.delta()
	mapped := func(o *Op) bool { return o.Addr != 0 && o.Addr-uint64(o.Off) == delta }
	for k := range im.Ops {
		c.image = append(c.image, i)
		if o := &im.Ops[k]; mapped(o) {
			lo, hi = min(lo, o.Addr), max(hi, o.Addr+1)
		}
	}
	pages := uint64(len(c.Pages))
	if hi == 0 || (hi-lo)/pageSize+2+pages > mostPages {
		c.Targets = append(c.Targets, make([]uint32, len(im.Ops))...)
		return Range{}
	}
	r := Range{Lo: sample.Offset(lo - delta), Hi: sample.Offset(hi - delta), Delta: delta, First: lo &^ (pageSize - 1), Pages: uint32(pages)}
	r.Many = uint32((hi-1-r.First)/pageSize + 1)
	c.Pages = append(c.Pages, make([]uint32, r.Many)...)
	used := len(c.Starts) / pageSize
	for k := range im.Ops {
		if o := &im.Ops[k]; mapped(o) {
			if page := &c.Pages[pages+(o.Addr-r.First)/pageSize]; *page == 0 {
				*page = uint32(used)
				used++
			}
		}
	}
	c.Starts = append(c.Starts, make([]uint32, used*pageSize-len(c.Starts))...)
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
		c.Targets = append(c.Targets, to)
	}
	return r
}

// start gives what Starts has of an address as linked, of the image of r; nil is nothing.
func (c *Code) start(r *Range, addr uint64) *uint32 {
	at := addr - r.First
	if at/pageSize >= uint64(r.Many) {
		return nil
	}
	page := c.Pages[uint64(r.Pages)+at/pageSize]
	if page == 0 {
		return nil
	}
	return &c.Starts[uint64(page)*pageSize+at%pageSize]
}

// delta is how far addresses of im are from offsets.
func (im *Image) delta() uint64 {
	for _, o := range im.Ops {
		if o.Addr != 0 {
			return o.Addr - uint64(o.Off)
		}
	}
	return 0
}

// A Left is an address, as linked, at which walks left the code that they know.
type Left struct {
	ID   sample.ImageID // by key
	Addr uint64
}
