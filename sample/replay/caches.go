package replay

import "math/bits"

// ways of a set are remembered: more than any first cache has.
const ways = 16

// sets is how many sets the first caches of x86-64 have, of data and of code: they are chosen by the bits of an
// address within its page, so that translations need not be waited for.
const sets = 64

// A firstCache knows in which order the lines of each of its sets were used last.
type firstCache struct {
	line [sets][ways]uint64
	used [sets]uint8
}

func (c *firstCache) begin() { c.used = [sets]uint8{} }

// use uses a line, of which set says the low bits. It returns how many other lines of its set were used since it was;
// false if that is not known: it was not used since the walk began, or so many others were, at least.
func (c *firstCache) use(line uint64, set uint64) (others int, known bool) {
	s, n := &c.line[set%sets], int(c.used[set%sets])
	if n > 0 && s[0] == line {
		return 0, true
	}
	for i := 1; i < n; i++ {
		if s[i] == line {
			copy(s[1:i+1], s[:i])
			s[0] = line
			return i, true
		}
	}
	others = n
	if n < ways {
		n++
		c.used[set%sets] = uint8(n)
	}
	copy(s[1:n], s[:n-1])
	s[0] = line
	return others, false
}

// distances know how many other pieces of memory were used since one was: its stack distance (Mattson, Gecsei, Slutz,
// Traiger, "Evaluation techniques for storage hierarchies", IBM Systems Journal 1970). A fully
// associative cache of n pieces that drops the one used least recently has those that are below n. Marks in the
// order of time tell the number, one for the last use of each piece (Bennett, Kruskal, "LRU stack
// processing", IBM Journal of Research and Development 1975).
type distances struct {
	table []lastUse // by a hash of the piece; a power of 2
	used  int       // entries
	round uint32    // of entries; others are free
	mark  []uint64  // bit by time: it is that of the last use of a piece
	block []uint32  // by blockWords words of mark: how many there are
	now   uint32
	last  uint64 // piece used at now-1
}

// A lastUse is when a piece was used last.
type lastUse struct {
	piece uint64
	round uint32
	time  uint32 // and 1
}

// blockWords is how many words of marks are counted together.
const blockWords = 64

func (d *distances) begin() {
	if d.round++; d.table == nil || d.round == 0 {
		d.table, d.round = make([]lastUse, 1<<12), 1
	}
	d.mark, d.block, d.now, d.used = d.mark[:0], d.block[:0], 0, 0
}

// find returns the entry of a piece, or a free one for it.
func (d *distances) find(piece uint64) *lastUse {
	mask := uint64(len(d.table) - 1)
	for i := mix(piece) >> 8; ; i++ {
		if e := &d.table[i&mask]; e.round != d.round || e.piece == piece {
			return e
		}
	}
}

// grow makes room.
func (d *distances) grow() {
	old := d.table
	d.table = make([]lastUse, 2*len(old))
	for _, e := range old {
		if e.round == d.round {
			*d.find(e.piece) = e
		}
	}
}

// use uses a piece. It returns how many others were used since it was; false if it was not used
// since the walk began: then it is how many others were used since then.
func (d *distances) use(piece uint64) (others int, known bool) {
	if d.now > 0 && d.last == piece {
		return 0, true
	}
	e := d.find(piece)
	if others, known = d.used, e.round == d.round; known {
		others = d.since(e.time)
		d.mark[(e.time-1)/64] &^= 1 << ((e.time - 1) % 64)
		d.block[(e.time-1)/64/blockWords]--
	} else if d.used++; 2*d.used > len(d.table) {
		d.grow()
		e = d.find(piece)
	}
	if d.now%64 == 0 {
		d.mark = append(d.mark, 0)
		if len(d.mark)%blockWords == 1 {
			d.block = append(d.block, 0)
		}
	}
	d.mark[d.now/64] |= 1 << (d.now % 64)
	d.block[d.now/64/blockWords]++
	d.now++
	*e, d.last = lastUse{piece, d.round, d.now}, piece
	return others, known
}

// since counts the marks from time then on.
func (d *distances) since(then uint32) (n int) {
	word := int(then / 64)
	if word == len(d.mark) {
		return 0
	}
	n = bits.OnesCount64(d.mark[word] >> (then % 64))
	end := min(len(d.mark), (word/blockWords+1)*blockWords)
	for i := word + 1; i < end; i++ {
		n += bits.OnesCount64(d.mark[i])
	}
	for _, b := range d.block[word/blockWords+1:] {
		n += int(b)
	}
	return n
}
