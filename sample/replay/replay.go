package replay

import (
	"cmp"
	"slices"
	"sync"

	"backfeed/sample"
	"backfeed/sample/trace"
)

// What of a first cache is known: of 8 to 12 ways of 64 sets (32 KB, and 48 KB since Zen 5 and Ice Lake), for code of 8,
// those that were used least are dropped first, roughly. Trees of bits, which stand for the order of use,
// may drop earlier what was not used last (Reineke, Grund, Berg, Wilhelm, "Timing predictability of cache
// replacement policies", Real-Time Systems 2007).
const (
	nearOthers = 6  // below it, a line is still there
	farOthers  = 14 // from it on, a line is not there any more
	farCode    = 10
)

// beyondLines is how many other lines are more than a second cache of 1 MB, which has 16,384, has after all; larger
// ones may.
const beyondLines = 20_000

// Pages of 4 KB that were used since one was: the first TLBs for data have 64 to 96, the second 1,536 to 4,096 (Intel's
// and AMD's optimization manuals). Where pages are huge, nothing is as far as it seems.
const (
	nearPages   = 40
	farPages    = 128
	beyondPages = 4096
)

// learned is how often a branch must have run before it is counted how it is predicted, and remembered
// how many outcomes a walk must have seen: more than the longest history.
const learned, remembered = 8, 200

// mostPlaces is of how many places AddTo tells, those with most executions: some 12 bytes each in a file.
const mostPlaces = 10_000

// A Model is what predictors have learned, and what was counted so far. Its methods may be called at any time.
type Model struct {
	mu sync.Mutex

	history     *history
	conditional conditional
	indirect    indirect
	returns     returns
	seen        int // outcomes of the walk

	data, inst   firstCache
	lines, pages distances

	code   *trace.Code
	images []sample.ImageID        // of all code so far; their numbers are those of places
	number []uint32                // in images, by image of code
	byOp   []uint32                // index into sites, by operation of code; 0 is none yet
	byAt   map[sample.Frame]uint32 // likewise, by place
	sites  []site
	walks  uint64
}

// A site is an instruction that walks passed through.
type site struct {
	at      sample.Frame
	runs    int // of a branch, since it was seen first
	walk    uint64
	last    uint64 // address
	step    uint64 // of it against the one before
	counted sample.Replayed
}

// New makes a Model that has learned nothing.
func New() *Model {
	return &Model{history: newHistory(), byAt: map[sample.Frame]uint32{}, sites: make([]site, 1)}
}

// Walk counts what a walk through code saw, up to the first branch that it guessed. Caches begin
// empty: walks are too far apart for what they hold to be known.
func (m *Model) Walk(code *trace.Code, l *trace.Long) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.goThrough(code)
	m.walks++
	m.data.begin()
	m.inst.begin()
	m.lines.begin()
	m.pages.begin()
	m.returns, m.seen = returns{}, 0
	n := 0
	from := l.Start
	l.Branches(func(_ int, b trace.Branch) bool {
		m.fetch(from, b.Op)
		if b.Guessed || b.To == 0 {
			return false
		}
		m.branch(b)
		from = b.To
		n++
		return true
	})
	m.access(l, n)
}

// goThrough makes ready for code.
func (m *Model) goThrough(code *trace.Code) {
	if m.code == code {
		return
	}
	m.code, m.byOp, m.number = code, make([]uint32, len(code.Ops)), nil
	for i := range code.Ranges {
		id := code.ID(i)
		n := slices.IndexFunc(m.images, func(o sample.ImageID) bool { return o.Key() == id.Key() })
		if n < 0 {
			n = len(m.images)
			m.images = append(m.images, id)
		}
		m.number = append(m.number, uint32(n))
	}
}

// site returns that of an operation.
func (m *Model) site(op uint32) *site {
	if i := m.byOp[op]; i != 0 {
		return &m.sites[i]
	}
	image, off, _ := m.code.Offset(op)
	at := sample.Frame{Image: int(m.number[max(0, image)]), Off: off}
	i, ok := m.byAt[at]
	if !ok {
		i = uint32(len(m.sites))
		m.sites = append(m.sites, site{at: at})
		m.byAt[at] = i
	}
	m.byOp[op] = i
	return &m.sites[i]
}

// count returns what was counted at s, to add to.
func (m *Model) count(s *site) *sample.Replayed {
	if s.walk != m.walks {
		s.walk = m.walks
		s.counted.Walks++
	}
	return &s.counted
}

// place returns a number for where an operation is.
func (m *Model) place(op uint32) uint64 {
	image, off, _ := m.code.Offset(op)
	return uint64(m.number[max(0, image)])<<44 | uint64(off)
}

// branch counts how an execution of a branch is predicted.
func (m *Model) branch(b trace.Branch) {
	kind := m.code.Ops[b.Op].Kind
	switch kind {
	case trace.Jump:
		return
	case trace.Call, trace.CallInd:
		image, _, _ := m.code.Offset(b.Op)
		r := &m.code.Ranges[max(0, image)]
		m.returns.call(uint64(m.number[max(0, image)])<<44 | uint64(m.code.Ops[b.Op].Imm) - r.Delta)
		if kind == trace.Call {
			return
		}
	}
	pc, s := m.place(b.Op), m.site(b.Op)
	predicted, known := true, true
	switch kind {
	case trace.CondJump:
		if m.seen >= remembered {
			predicted = m.conditional.predict(m.history, pc, b.Taken) == b.Taken
		}
		m.history.push(bit(b.Taken))
		m.seen++
	case trace.Ret:
		if predicted, known = m.returns.ret(m.place(b.To)); known {
			c := m.count(s)
			c.Branches++
			c.Missed += uint64(bit(!predicted))
		}
		return
	default:
		to := m.place(b.To)
		if m.seen >= remembered {
			predicted = m.indirect.predict(m.history, pc, to)
		}
		m.history.pushTarget(to)
		m.seen++
	}
	if s.runs++; s.runs > learned && m.seen > remembered {
		c := m.count(s)
		c.Branches++
		c.Missed += uint64(bit(!predicted))
	}
}

func bit(yes bool) uint8 {
	if yes {
		return 1
	}
	return 0
}

// fetch counts the lines of code from one operation to another, which follow each other.
func (m *Model) fetch(from, to uint32) {
	last := ^uint64(0)
	next := m.place(from)
	for op := from; op <= to; op++ {
		at, end := next, next
		if op < to {
			if next = m.place(op + 1); next > at && next-at < trace.LineSize {
				end = next - 1
			}
		}
		for line := at / trace.LineSize; line <= end/trace.LineSize; line++ {
			if line == last {
				continue
			}
			last = line
			others, known := m.inst.use(line, line)
			c := m.count(m.site(op))
			c.Fetches++
			switch {
			case known && others < nearOthers:
				c.NearFetches++
			case others >= farCode:
				c.FarFetches++
			}
		}
	}
}

// access counts the accesses to memory before so many branches and the next.
func (m *Model) access(l *trace.Long, branches int) {
	var before trace.Access
	many := l.AccessCount() > beyondLines
	l.Accesses(func(a trace.Access) bool {
		if a.After > branches {
			return false
		}
		again := a.Store && !before.Store && a.Op == before.Op && a.After == before.After && a.Addr == before.Addr
		if before = a; again { // what it has just read
			return true
		}
		s := m.site(a.Op)
		c := m.count(s)
		if c.Accesses++; !a.Known {
			return true
		}
		step := a.Addr - s.last
		steady := s.last != 0 && step == s.step && step != 0
		s.last, s.step = a.Addr, step
		line := a.Addr / trace.LineSize
		others, known := m.data.use(line, line)
		switch {
		case known && others < nearOthers:
			c.Near++
		case others >= farOthers:
			if c.Far++; steady {
				c.Steady++
			}
		}
		if many {
			if others, _ := m.lines.use(line); others >= beyondLines {
				c.Beyond++
			}
		}
		switch others, known := m.pages.use(a.Addr / 4096); {
		case known && others < nearPages:
			c.NearPages++
		case others >= farPages:
			if c.FarPages++; others >= beyondPages {
				c.BeyondPages++
			}
		}
		return true
	})
}

// AddTo adds what was counted to counts, of as many places as there is room for.
func (m *Model) AddTo(counts *sample.Counts) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var order []*site
	for i := range m.sites {
		if s := &m.sites[i]; s.counted.Walks > 0 {
			order = append(order, s)
		}
	}
	runs := func(s *site) uint64 { return max(s.counted.Branches, s.counted.Accesses, s.counted.Fetches) }
	slices.SortFunc(order, func(a, b *site) int {
		return cmp.Or(cmp.Compare(runs(b), runs(a)), cmp.Compare(a.at.Image, b.at.Image), cmp.Compare(a.at.Off, b.at.Off))
	})
	for _, s := range order[:min(len(order), mostPlaces)] {
		counts.AddReplayed(counts.Image(m.images[s.at.Image]), s.at.Off, s.counted)
	}
}

// Forget begins to count anew. What predictors have learned stays.
func (m *Model) Forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for i := range m.sites {
		m.sites[i].counted, m.sites[i].walk = sample.Replayed{}, 0
	}
}
