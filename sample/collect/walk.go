package collect

import (
	"math"
	"sync"
	"time"

	"backfeed/sample"
)

// A WalkOp is one instruction as walks take it: the fields of image.WalkOp, and where it is
// in the file.
type WalkOp struct {
	Off                                                   sample.Offset // meaningless for an operation that is no instruction
	Addr, Target                                          uint64        // as linked; Target is of direct branches, 0 of others
	Kind, Size, Dst, Src, Base, Index, Scale, Flags, Cond uint8
	Disp                                                  int32
	Imm                                                   int64
	Counts, Conditional                                   bool // a branch, which is counted; a conditional one
}

// A WalkImage is the code of one image.
type WalkImage struct {
	ID   sample.ImageID
	File string // to open; the path in ID is that of the process
	Ops  []WalkOp
}

// WalkOptions bound what a Walker does.
type WalkOptions struct {
	Share float64 // of the processor time of what is sampled, that walks may take
}

// longestWalk is how many operations a walk has at most: 60 us with interrupts off (Linux
// 6.18, a virtual machine). Over four programs, branches were seen in proportion to how
// often they ran with an overlap of 0.81 by walks of 128 and of 512, and of 0.78 by walks
// of 4096 in the same time, which are fewer.
const longestWalk = 512

// batchTime is how long the walks are that are compared with one another, to tell how
// much programs change.
const batchTime = 5 * time.Second

// A walkTally is what walks saw of one branch.
type walkTally struct {
	n, taken          uint32
	inner, innerTaken uint32 // of them, in calls that began in the walk
}

// next makes t, of when it was looked at last, what it is now, and gives what was added. A
// walk may be under way: no part is more than what it is a part of.
func (t *walkTally) next(now walkTally) walkTally {
	var d walkTally
	d.n = now.n - t.n
	d.taken = min(now.taken-t.taken, d.n)
	d.inner = min(now.inner-t.inner, d.n)
	d.innerTaken = min(now.innerTaken-t.innerTaken, d.inner, d.taken)
	d.taken = min(d.taken, d.innerTaken+d.n-d.inner)
	t.n, t.taken, t.inner, t.innerTaken = now.n, t.taken+d.taken, t.inner+d.inner, t.innerTaken+d.innerTaken
	return d
}

// A walkedPlace is what walks saw of one branch, apart for calls that were under way when a
// walk began and for those that began in it.
type walkedPlace struct{ outer, inner walkedWays }

// walkedWays are executions of a branch, and those that were taken.
type walkedWays struct {
	n, taken float64
	// Over batches: sums of squares of the executions, and of those that were taken, and of
	// their products.
	nn, tt, nt float64
}

func (w *walkedWays) add(n, taken float64) {
	w.n, w.taken = w.n+n, w.taken+taken
	w.nn, w.tt, w.nt = w.nn+n*n, w.tt+taken*taken, w.nt+n*taken
}

func (p *walkedPlace) add(t walkTally) {
	p.outer.add(float64(t.n-t.inner), float64(t.taken-t.innerTaken))
	p.inner.add(float64(t.inner), float64(t.innerTaken))
}

const (
	// clump is how many executions of one branch in one walk are about as good as one: a loop
	// fills a walk.
	clump = 4
	// innerSD is the standard deviation, in logits, of where a branch goes in calls that begin
	// in walks, beside where it goes. A walk sees the first few hundred instructions of them: loops
	// that go on for long look short; and it comes to them too often from code that runs slowly,
	// where walks begin. A loop of bzip2 that ends in 7 of 100 turns did so in 33 of those, and in
	// 10 of others. Over four programs, with the walks of a minute at 1 %, the mean block
	// overlap is 0.819 without this, 0.839 with 0.1, 0.851 with 0.15, 0.858 with 0.2, 0.856 with
	// 0.3 and 0.850 with 1; nearly all of the gain is in bzip2, 0.79 to 0.94.
	innerSD = 0.2
)

// worth is how many independent executions tell as much as those of w, of which nothing is
// surer than a standard deviation of sd, in logits.
func (w *walkedWays) worth(sd float64) float64 {
	if w.n == 0 {
		return 0
	}
	share := w.taken / w.n
	chance := clump * w.n * share * (1 - share)
	of := w.n / clump
	if spread := w.tt - 2*share*w.nt + share*share*w.nn; chance > 0 && spread > chance {
		of *= chance / spread
	}
	likely := (w.taken + 0.5) / (w.n + 1)
	return min(of, 1/(sd*sd*likely*(1-likely)))
}

// probed gives what was seen in so many batches. Of the outcomes, so many are told as taken
// as is most probable by those of both kinds.
func (p *walkedPlace) probed(batches int, cond bool) sample.Probed {
	n := p.outer.n + p.inner.n
	out := sample.Probed{Windows: uint64(max(1, batches)), Visits: uint64(n)}
	if !cond || n == 0 {
		return out
	}
	var of, share float64
	for _, w := range []struct {
		*walkedWays
		sd float64
	}{{&p.outer, 0}, {&p.inner, innerSD}} {
		if worth := w.worth(w.sd); worth > 0 {
			of += worth
			share += worth * w.taken / w.n
		}
	}
	share /= of
	out.Outcomes, out.Taken = uint64(n), uint64(math.Round(share*n))
	out.Spread = sample.SquareOf(math.Ceil(n * n * share * (1 - share) / of))
	return out
}

// walkCode is the code of images as one table.
type walkCode struct {
	ops     []WalkOp // 0 is none
	image   []int32  // by operation
	targets []uint32 // by operation: where a direct branch goes
	pages   []uint32 // by page of the code of images: its place in starts, in pages; 0 is nowhere
	starts  []uint32 // by byte of a page: operation
	images  []walkRange
	counted []uint32 // operations that are counted
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
	at := make(map[uint64]uint32, len(im.Ops))
	lo, hi := uint64(math.MaxUint64), uint64(0)
	delta := im.delta()
	for k, o := range im.Ops {
		op := first + uint32(k)
		c.image = append(c.image, i)
		if o.Counts {
			c.counted = append(c.counted, op)
		}
		if o.Addr == 0 || o.Addr-uint64(o.Off) != delta {
			continue
		}
		if _, ok := at[o.Addr]; !ok {
			at[o.Addr] = op
		}
		lo, hi = min(lo, o.Addr), max(hi, o.Addr+1)
	}
	for _, o := range im.Ops {
		c.targets = append(c.targets, at[o.Target])
	}
	pages := uint64(len(c.pages))
	if len(at) == 0 || (hi-lo)/walkPage+2+pages > mostPages {
		return walkRange{}
	}
	r := walkRange{lo: sample.Offset(lo - delta), hi: sample.Offset(hi - delta), delta: delta, first: lo &^ (walkPage - 1), pages: uint32(pages)}
	r.many = uint32((hi-1-r.first)/walkPage + 1)
	c.pages = append(c.pages, make([]uint32, r.many)...)
	for k, o := range im.Ops {
		if at[o.Addr] != first+uint32(k) {
			continue
		}
		page := &c.pages[pages+(o.Addr-r.first)/walkPage]
		if *page == 0 {
			*page = uint32(len(c.starts) / walkPage)
			c.starts = append(c.starts, make([]uint32, walkPage)...)
		}
		c.starts[uint64(*page)*walkPage+o.Addr%walkPage] = first + uint32(k)
	}
	return r
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

// A walkedAt is one branch.
type walkedAt struct {
	id   sample.ImageID // by key
	off  sample.Offset
	cond bool
}

// walked is what all walks saw.
type walked struct {
	mu      sync.Mutex
	at      map[walkedAt]*walkedPlace
	ids     map[sample.ImageID]sample.ImageID // by key
	batches int
}

// batch adds what one batch saw, by operation that is counted.
func (w *walked) batch(c *walkCode, images []WalkImage, seen []walkTally) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.at == nil {
		w.at, w.ids = map[walkedAt]*walkedPlace{}, map[sample.ImageID]sample.ImageID{}
	}
	any := false
	for k, op := range c.counted {
		if seen[k].n == 0 {
			continue
		}
		any = true
		o, id := &c.ops[op], images[c.image[op]].ID
		key := walkedAt{id.Key(), o.Off, o.Conditional}
		p := w.at[key]
		if p == nil {
			p = &walkedPlace{}
			w.at[key], w.ids[id.Key()] = p, id
		}
		p.add(seen[k])
	}
	if any {
		w.batches++
	}
}

// addTo adds all that was seen to counts.
func (w *walked) addTo(counts *sample.Counts) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, p := range w.at {
		counts.AddProbed(counts.Image(w.ids[key.id]), key.off, p.probed(w.batches, key.cond))
	}
}

// forget begins anew.
func (w *walked) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.at, w.ids, w.batches = nil, nil, 0
}

// walkEnds is how many ways there are for a walk to end: those of enum in bpf/walker.c.
const walkEnds = 7

// WalkTotals are what walks did.
type WalkTotals struct {
	Walks, Steps uint64
	Time         time.Duration    // that they took
	Ends         [walkEnds]uint64 // walks by how they ended, see WalkEnd
}

// WalkEnd names how walks ended, by index into WalkTotals.Ends.
var WalkEnd = [walkEnds]string{"at their full length", "at an instruction that is not emulated", "at a branch on what is not known",
	"outside the code that is known", "at a store that is not known where", "for want of room", "at once, in code that is not known"}
