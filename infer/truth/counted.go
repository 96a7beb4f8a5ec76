package truth

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"fmt"
	"io"
	"math"

	"backfeed/infer/image"
	"backfeed/sample"
)

// A Counting says what became of exact counts that were put to places of an image.
type Counting struct {
	Places  int    // that got a count above 0: one instruction of each block
	Uneven  int    // blocks that got none, because their instructions did not run equally often
	Total   uint64 // executions of instructions
	Outside uint64 // of them, those in no procedure
	Astray  uint64 // and those at no instruction of their procedure: the file is not what ran
}

// maxUneven is how much the instructions of a block may differ, relative to the most
// that one of them ran: a call that once did not return makes those behind it differ.
const maxUneven = 0.01

// maxAstray is the share of executions at no instruction from which on a file is
// taken for another build than the one that ran. It is under 0.001 in the files that
// were counted of SQLite, zstd and bzip2, and 0.74 where SQLite's counts meet zstd's
// file.
const maxAstray = 0.05

// Total is the number of executions of instructions; the most that 64 bits hold if
// there are more.
func (it *Image) Total() uint64 {
	var n uint64
	for _, k := range it.Insts {
		if n += k; n < k {
			return math.MaxUint64
		}
	}
	return n
}

// Add adds counts of another process or run. It is an error if a sum is beyond 64 bits.
func (t *Counts) Add(o *Counts) error {
	for path, it := range o.Images {
		to := t.Image(path)
		err := cmp.Or(addCounts(to.Insts, it.Insts), addCounts(to.Jumps, it.Jumps), addCounts(to.Calls, it.Calls))
		for name, from := range it.Events {
			at, _ := to.event(nil, name) // which draws no memory that could lack
			err = cmp.Or(err, addCounts(at, from))
		}
		if err != nil {
			return fmt.Errorf("%s: %w: %w", path, ErrFormat, err)
		}
	}
	return nil
}

func addCounts[K comparable](to, from map[K]uint64) error {
	for k, n := range from {
		if err := count(nil, to, k, n); err != nil {
			return err
		}
	}
	return nil
}

// Counted returns the executions of the blocks of procedures that ran, each at the first of its instructions
// but for string instructions: callgrind counts these by their repetitions. A count of 0 says that a block did
// not run, which callgrind says by leaving it out. It is an error if im cannot be what was counted.
func (it *Image) Counted(im *image.Image) (map[sample.Offset]uint64, Counting, error) {
	at := map[sample.Offset]uint64{}
	var uneven, places int
	rep, err := it.eachBlock(im, func(insts []image.Inst) {
		a, executions, even := it.block(insts)
		off, ok := im.OffsetOf(a)
		switch {
		case !even:
			uneven++
		case ok && a != 0:
			at[off] = executions
			if executions > 0 {
				places++
			}
		}
	})
	rep.Uneven, rep.Places = uneven, places
	if err != nil {
		return nil, rep, err
	}
	return at, rep, nil
}

// CountOnce has string instructions count once for each of their executions, as all others do,
// where callgrind counts their repetitions: as often as the rest of their blocks. Their jumps to
// themselves, by which callgrind repeats them, are taken off. It returns how many repetitions there
// were beyond that. It is an error if im cannot be what was counted.
func (it *Image) CountOnce(im *image.Image) (repetitions uint64, err error) {
	once := map[image.Addr]uint64{}
	if _, err := it.eachBlock(im, func(insts []image.Inst) {
		a, n, _ := it.block(insts)
		if a == 0 {
			return // there is nothing else in it
		}
		for _, in := range insts {
			if in.Class&image.Rep != 0 {
				once[in.Addr] = n
			}
		}
	}); err != nil {
		return 0, err
	}
	for a, n := range once {
		delete(it.Jumps, Transfer{a, a})
		repetitions += max(it.Insts[a], n) - n
		if it.Insts[a] = n; n == 0 {
			delete(it.Insts, a) // what never ran is not in it
		}
	}
	return repetitions, nil
}

// eachBlock calls each with the instructions of each block of the procedures that were counted, and
// gives the executions in all and those in no block. It is an error if im cannot be what was counted.
func (it *Image) eachBlock(im *image.Image, each func([]image.Inst)) (Counting, error) {
	rep := Counting{Total: it.Total()}
	inProc := map[int]uint64{} // executions by symbol
	for a, n := range it.Insts {
		if i := im.Find(a); i >= 0 {
			inProc[i] += n
		} else {
			rep.Outside += n
		}
	}
	for i, n := range inProc {
		p, err := im.Proc(i)
		if err != nil {
			rep.Outside += n
			continue
		}
		for b := range p.Blocks {
			insts := im.Insts(&p.Blocks[b])
			for _, in := range insts {
				n -= min(n, it.Insts[in.Addr])
			}
			each(insts)
		}
		rep.Astray += n
	}
	if float64(rep.Astray) > maxAstray*float64(rep.Total) || rep.Outside > rep.Total/2 {
		return rep, fmt.Errorf("%d of %d executions are at no instruction of %s: another build was counted", rep.Astray+rep.Outside, rep.Total, im.Path)
	}
	return rep, nil
}

// block returns the first instruction of a block that is no string instruction, how
// often it ran, and whether the others of its kind did so too.
func (it *Image) block(insts []image.Inst) (a image.Addr, n uint64, even bool) {
	first := true
	var least, most uint64
	for _, in := range insts {
		if in.Class&image.Rep != 0 {
			continue
		}
		k := it.Insts[in.Addr]
		if first {
			a, n, least, most, first = in.Addr, k, k, k, false
		}
		least, most = min(least, k), max(most, k)
	}
	return a, n, float64(most-least) <= maxUneven*float64(most)
}

// IsCounts tells from its first bytes whether a file is one that Read reads.
func IsCounts(head []byte) bool {
	if bytes.HasPrefix(head, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(bytes.NewReader(head))
		if err != nil {
			return false
		}
		plain := make([]byte, truthHead)
		n, _ := io.ReadFull(zr, plain) // of what is cut off, all there is
		head = plain[:n]
	}
	head = head[:min(len(head), truthHead)]
	for line := range bytes.Lines(head) { // every file has one of these in its header, most all
		if bytes.HasPrefix(line, []byte("# callgrind format")) || bytes.HasPrefix(line, []byte("positions: ")) || bytes.HasPrefix(line, []byte("events: ")) {
			return true
		}
	}
	return bytes.HasPrefix(head, []byte("{")) && (bytes.Contains(head, []byte(`": {"insn"`)) || bytes.Contains(head, []byte(`":{"insn"`)))
}

// truthHead is how far into a file IsCounts looks, in bytes: paths are no longer than
// 4096.
const truthHead = 4 << 10

// Add adds what became of others.
func (c *Counting) Add(o Counting) {
	c.Places += o.Places
	c.Uneven += o.Uneven
	c.Total += o.Total
	c.Outside += o.Outside
	c.Astray += o.Astray
}
