package trace

import (
	"iter"
	"math"
	"slices"

	"backfeed/sample"
)

// An Inst is the operation of one instruction, and where that is.
type Inst struct {
	Op
	Off          sample.Offset // in the image's file; meaningless for an operation that is no instruction
	Addr, Target uint64        // as linked; Target is of direct branches, 0 of others
	Proc         uint64        // address of its procedure
}

// An Image is the code of one image.
type Image struct {
	ID    sample.ImageID
	File  string // to open; the path in ID is that of the process
	ARM   bool   // it is of AArch64, not of x86-64
	Procs [][]Inst
}

// insts are all instructions of im, with their numbers.
func (im *Image) insts() iter.Seq2[int, *Inst] {
	return func(yield func(int, *Inst) bool) {
		n := 0
		for _, p := range im.Procs {
			for k := range p {
				if !yield(n, &p[k]) {
					return
				}
				n++
			}
		}
	}
}

// Code is the code of images as one table.
type Code struct {
	Ops    []Op     // 0 is none
	Pages  []uint32 // by page of the code of images: its place in Starts, in pages; 0 is nowhere
	Starts []uint32 // by byte of a page: operation
	Ranges []Range  // by image

	arm bool             // some of it is of AArch64
	ids []sample.ImageID // by image
	at  []instAt         // by operation
}

// An instAt is where an instruction is, as Inst has it.
type instAt struct {
	off          sample.Offset
	target, proc uint64
	image        int32
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
	c := &Code{Ops: make([]Op, 1), at: []instAt{{image: -1}}, Starts: make([]uint32, pageSize)}
	n := 1
	for i := range images {
		for _, p := range images[i].Procs {
			n += len(p)
		}
	}
	c.Ops, c.at = slices.Grow(c.Ops, n), slices.Grow(c.at, n)
	for i := range images {
		c.Ranges = append(c.Ranges, c.add(int32(i), &images[i]))
		c.ids = append(c.ids, images[i].ID)
		c.arm = c.arm || images[i].ARM
	}
	return c
}

// add adds the code of image i.
func (c *Code) add(i int32, im *Image) Range {
	first := uint32(len(c.Ops))
	lo, hi := uint64(math.MaxUint64), uint64(0)
	delta := im.delta()
	mapped := func(in *Inst) bool { return in.Addr != 0 && in.Addr-uint64(in.Off) == delta }
	for _, in := range im.insts() {
		c.Ops = append(c.Ops, in.Op)
		c.at = append(c.at, instAt{in.Off, in.Target, in.Proc, i})
		if mapped(in) {
			lo, hi = min(lo, in.Addr), max(hi, in.Addr+1)
		}
	}
	pages := uint64(len(c.Pages))
	if hi == 0 || (hi-lo)/pageSize+2+pages > mostPages {
		return Range{}
	}
	r := Range{Lo: sample.Offset(lo - delta), Hi: sample.Offset(hi - delta), Delta: delta, First: lo &^ (pageSize - 1), Pages: uint32(pages)}
	r.Many = uint32((hi-1-r.First)/pageSize + 1)
	c.Pages = append(c.Pages, make([]uint32, r.Many)...)
	used := len(c.Starts) / pageSize
	for _, in := range im.insts() {
		if mapped(in) {
			if page := &c.Pages[pages+(in.Addr-r.First)/pageSize]; *page == 0 {
				*page = uint32(used)
				used++
			}
		}
	}
	c.Starts = append(c.Starts, make([]uint32, used*pageSize-len(c.Starts))...)
	for k, in := range im.insts() {
		if mapped(in) {
			if start := c.start(&r, in.Addr); *start == 0 {
				*start = first + uint32(k)
			}
		}
	}
	for k, in := range im.insts() {
		if start := c.start(&r, in.Target); start != nil {
			c.Ops[first+uint32(k)].To = *start
		}
	}
	for k := first; !im.ARM && int(k) < len(c.Ops); k++ {
		op := &c.Ops[k]
		op.quick, op.needs = quickOf(op)
	}
	return r
}

// ID returns the image whose code is at an index of Ranges.
func (c *Code) ID(image int) sample.ImageID { return c.ids[image] }

// start returns what Starts has of an address as linked, of the image of r; nil is nothing.
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
	for _, in := range im.insts() {
		if in.Addr != 0 {
			return in.Addr - uint64(in.Off)
		}
	}
	return 0
}

// A Left is an address, as linked, at which walks left the code that they know.
type Left struct {
	ID   sample.ImageID // by key
	Addr uint64
}
