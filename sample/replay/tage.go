package replay

// A predictor of conditional branches, and one of targets, as TAGE and ITTAGE are: tables by the address
// alone and by the address with ever more of the history, of which the longest that knows the branch decides
// (Seznec, Michaud, "A case for (partially) TAgged GEometric history length branch prediction", JILP 2006;
// Seznec, "A 64-Kbytes ITTAGE indirect branch predictor" and "A new case for the TAGE branch predictor", 2011).
// Those of processors are larger, and learn over seconds: they predict about as well or better.

// histories are how many of the last outcomes the tables see: a geometric series.
var histories = [...]int{5, 12, 31, 77, 192}

const (
	tables      = len(histories)
	tableBits   = 12
	tagBits     = 11
	bimodalBits = 14
	targetBits  = 11
	outcomes    = 256 // that are remembered: more than the longest history, a power of 2
)

// A history is the last outcomes, and folds of the last so many of them.
type history struct {
	bit  [outcomes]uint8
	at   uint            // of the next one
	fold [tables][2]fold // by table: for its index, and for its tag
}

// A fold is the last length outcomes as an exclusive or of its parts of width bits.
type fold struct {
	v          uint32
	width, out uint8 // out is where the oldest outcome leaves it: length modulo width
}

func newHistory() *history {
	h := &history{}
	for i, n := range histories {
		for k, width := range []uint{tableBits, tagBits} {
			h.fold[i][k] = fold{width: uint8(width), out: uint8(uint(n) % width)}
		}
	}
	return h
}

// push adds an outcome.
func (h *history) push(bit uint8) {
	h.bit[h.at%outcomes] = bit
	for i := range h.fold {
		old := uint32(h.bit[(h.at-uint(histories[i]))%outcomes])
		for k := range h.fold[i] {
			f := &h.fold[i][k]
			f.v = f.v<<1 ^ uint32(bit) ^ old<<f.out
			f.v = f.v&(1<<f.width-1) ^ f.v>>f.width
		}
	}
	h.at++
}

// pushTarget adds that control went to a target that is not always the same.
func (h *history) pushTarget(to uint64) {
	x := mix(to)
	for i := range 3 {
		h.push(uint8(x >> i & 1))
	}
}

// mix spreads the bits of a place.
func mix(x uint64) uint64 {
	x *= 0x9e3779b97f4a7c15
	return x ^ x>>29
}

// slot returns where table i has what is known of pc after this history, and the tag of it.
func (h *history) slot(pc uint64, i int) (index uint32, tag uint16) {
	x := mix(pc)
	index = uint32(x>>7) ^ uint32(x>>20) ^ h.fold[i][0].v
	tag = uint16(uint32(x>>32) ^ h.fold[i][1].v)
	return index & (1<<tableBits - 1), tag & (1<<tagBits - 1)
}

// A conditional predicts conditional branches.
type conditional struct {
	base   [1 << bimodalBits]int8 // -2 to 1: taken from 0 on
	tables [tables][1 << tableBits]counter
	alt    int8 // whether what a new entry says is worse than what a shorter history says: from 0 on
	rand   uint32
}

// A counter is what a table knows of a branch.
type counter struct {
	tag    uint16
	taken  int8 // -4 to 3: from 0 on
	useful uint8
}

// predict returns whether a branch is taken, and learns whether it was.
func (c *conditional) predict(h *history, pc uint64, taken bool) (predicted bool) {
	var index [tables]uint32
	var tag [tables]uint16
	hit, second := -1, -1
	for i := tables - 1; i >= 0; i-- {
		index[i], tag[i] = h.slot(pc, i)
		if c.tables[i][index[i]].tag != tag[i] {
			continue
		}
		if hit < 0 {
			hit = i
		} else if second < 0 {
			second = i
		}
	}
	base := &c.base[mix(pc)>>11&(1<<bimodalBits-1)]
	other := *base >= 0
	if second >= 0 {
		other = c.tables[second][index[second]].taken >= 0
	}
	predicted, own := other, other
	if hit >= 0 {
		e := &c.tables[hit][index[hit]]
		own = e.taken >= 0
		weak := e.useful == 0 && (e.taken == 0 || e.taken == -1)
		if predicted = own; weak && c.alt >= 0 {
			predicted = other
		}
		if weak && own != other {
			c.alt = step(c.alt, other == taken, -8, 7)
		}
		e.taken = step(e.taken, taken, -4, 3)
		if own != other {
			if own == taken {
				e.useful = min(3, e.useful+1)
			} else if e.useful > 0 {
				e.useful--
			}
		}
		if e.useful == 0 && second < 0 {
			*base = step(*base, taken, -2, 1)
		}
	} else {
		*base = step(*base, taken, -2, 1)
	}
	if own != taken && hit < tables-1 {
		c.allocate(hit+1, &index, &tag, taken)
	}
	return predicted
}

// allocate makes the branch an entry of a table from i on.
func (c *conditional) allocate(i int, index *[tables]uint32, tag *[tables]uint16, taken bool) {
	c.rand = c.rand*1664525 + 1013904223
	if i < tables-1 && c.rand>>30 == 0 { // not always the next longer history
		i++
	}
	for k := i; k < tables; k++ {
		if e := &c.tables[k][index[k]]; e.useful == 0 {
			*e = counter{tag: tag[k], taken: -1}
			if taken {
				e.taken = 0
			}
			return
		}
	}
	for k := i; k < tables; k++ {
		c.tables[k][index[k]].useful--
	}
}

// step counts up or down within bounds.
func step(n int8, up bool, lo, hi int8) int8 {
	if up {
		return min(n+1, hi)
	}
	return max(n-1, lo)
}

// An indirect predicts the targets of indirect branches.
type indirect struct {
	base   [1 << targetBits]target
	tables [tables][1 << targetBits]target
	rand   uint32
}

// A target is what a table knows of where a branch goes.
type target struct {
	tag    uint16
	sure   uint8 // 0 to 3
	useful bool
	to     uint64
}

// predict returns whether a branch is predicted to go where it went, and learns it.
func (c *indirect) predict(h *history, pc, to uint64) bool {
	var index [tables]uint32
	var tag [tables]uint16
	hit := -1
	for i := tables - 1; i >= 0; i-- {
		index[i], tag[i] = h.slot(pc, i)
		index[i] &= 1<<targetBits - 1
		if e := &c.tables[i][index[i]]; hit < 0 && e.to != 0 && e.tag == tag[i] {
			hit = i
		}
	}
	base := &c.base[mix(pc)>>11&(1<<targetBits-1)]
	e, other := base, base.to
	if hit >= 0 {
		e = &c.tables[hit][index[hit]]
		for i := hit - 1; i >= 0; i-- {
			if a := &c.tables[i][index[i]]; a.to != 0 && a.tag == tag[i] {
				other = a.to
				break
			}
		}
	}
	predicted := e.to
	if hit >= 0 && e.sure == 0 && !e.useful {
		predicted = other
	}
	right := e.to == to
	if right && other != to {
		e.useful = true
	}
	learn(e, to)
	if hit >= 0 && e.sure == 0 {
		learn(base, to)
	}
	if !right && hit < tables-1 {
		c.allocate(hit+1, &index, &tag, to)
	}
	return predicted == to
}

func learn(e *target, to uint64) {
	switch {
	case e.to == to:
		e.sure = min(3, e.sure+1)
	case e.sure > 0:
		e.sure--
	default:
		e.to, e.useful = to, false
	}
}

func (c *indirect) allocate(i int, index *[tables]uint32, tag *[tables]uint16, to uint64) {
	c.rand = c.rand*1664525 + 1013904223
	if i < tables-1 && c.rand>>30 == 0 {
		i++
	}
	for k := i; k < tables; k++ {
		if e := &c.tables[k][index[k]]; !e.useful {
			*e = target{tag: tag[k], to: to}
			return
		}
	}
	for k := i; k < tables; k++ {
		c.tables[k][index[k]].useful = false
	}
}

// returnDepth is how many calls are remembered: 16 on Intel's processors, 32 on AMD's since Zen.
const returnDepth = 32

// returns is a stack of where calls return to, which forgets the deepest.
type returns struct {
	to   [returnDepth]uint64
	at   uint // calls less returns
	deep uint // of them, calls that were remembered last; what is deeper is lost
	lost bool // something was pushed out
}

func (r *returns) call(back uint64) {
	r.to[r.at%returnDepth] = back
	r.at++
	if r.deep++; r.deep > returnDepth {
		r.deep, r.lost = returnDepth, true
	}
}

// ret returns whether a return is predicted, and whether that is known: the stack may hold calls
// from before the walk.
func (r *returns) ret(to uint64) (predicted, known bool) {
	if r.deep == 0 {
		return false, r.lost
	}
	r.at--
	r.deep--
	return r.to[r.at%returnDepth] == to, true
}
