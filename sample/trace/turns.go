package trace

import (
	"cmp"
	"slices"
)

// Loops count themselves: a register or a word of memory that moves by the same step each turn says, read twice, how often a
// thread went round in between. A Turning is a loop with such values, as a walk shows it.

// A Turning is a loop that a thread goes round.
type Turning struct {
	Header uint32 // operation at which each turn begins
	Seen   int    // turns of the walk that showed it
	Insts  int    // instructions of all of them

	longest int // instructions of a turn
	values  []turningValue
}

// A turningValue moves by step each turn.
type turningValue struct {
	reg  int8 // general register; -1: the word at addr
	size uint8
	addr uint64
	step int64
}

const (
	// leastTurns is how many a walk has to see.
	leastTurns = 6
	// turnsFor is how many instructions are emulated again to tell which values move steadily, unless leastTurns take more.
	turnsFor = 2000
	// mostTurnings is how many loops are looked at, mostWords of how many words of memory each.
	mostTurnings, mostWords = 4, 32
)

// A turningLoop is what a walk shows of a loop.
type turningLoop struct {
	header           uint32
	turns            int
	first, last, gap int        // steps: of the first and the last time that a turn began, and the most in between
	begins           []turnSeen // some of the turns
	inside           []uint32   // operations of the first turn that write words of memory
}

// A turnSeen is the state of registers and memory where a turn begins.
type turnSeen struct {
	turn  int
	regs  [16]uint64
	known uint32
	words []turnWord // by inside
}

// A turnWord is a word of memory.
type turnWord struct {
	addr, v uint64
	known   bool
}

// A Turner finds loops in walks. Its machine is another one than that of the walks.
type Turner struct {
	m     *Machine
	at    []uint32 // by operation: 1 + index into loops
	loops []turningLoop
}

// NewTurner makes one of the code that walks go through.
func NewTurner(code *Code) *Turner {
	return &Turner{m: NewMachine(code), at: make([]uint32, len(code.Ops))}
}

// Find returns the outermost loop that a walk from st went round and that has values that move steadily, or nil. The walk
// is valid as before.
func (t *Turner) Find(l *Long, st *State, space Space, mem Memory) *Turning {
	steps := t.collect(l)
	var loops []*turningLoop
	for i := range t.loops {
		o := &t.loops[i]
		t.at[o.header] = 0
		// The walk goes round it from its beginning to its end.
		if slack := o.gap + o.gap/2; o.turns >= leastTurns && o.first <= slack && steps-o.last <= slack {
			loops = append(loops, o)
		}
	}
	slices.SortFunc(loops, func(a, b *turningLoop) int {
		return cmp.Or(cmp.Compare(a.turns, b.turns), cmp.Compare(a.first, b.first))
	})
	loops = loops[:min(len(loops), mostTurnings)]
	if len(loops) == 0 || !t.emulate(l, loops, st, space, mem) {
		return nil
	}
	for _, o := range loops {
		if v := o.values(t.m.code); len(v) > 0 {
			return &Turning{Header: o.header, Seen: o.turns - 1, Insts: o.last - o.first, longest: o.gap, values: v}
		}
	}
	return nil
}

// collect finds the loops of a walk up to its first guess, and returns how many steps that are.
func (t *Turner) collect(l *Long) (steps int) {
	c := l.m.code
	t.loops = t.loops[:0]
	l.Branches(func(_ int, b Branch) bool {
		if b.Guessed {
			return false
		}
		if k := c.Ops[b.Op].Kind; b.Taken && b.To != 0 && b.To <= b.Op && t.at[b.To] == 0 && (k == CondJump || k == Jump || k == JumpInd) && c.at[b.To].proc == c.at[b.Op].proc {
			t.loops = append(t.loops, turningLoop{header: b.To})
			t.at[b.To] = uint32(len(t.loops))
		}
		return true
	})
	return t.passes(l, func(i, step int) bool {
		o := &t.loops[i]
		if o.turns > 0 {
			o.gap = max(o.gap, step-o.last)
		} else {
			o.first = step
		}
		o.last = step
		o.turns++
		return true
	}, nil)
}

// passes calls at for each time that a walk passes through an operation that t.at has, with 1 less than that and how many steps
// it had made, and run for each run of operations, until one returns false. It returns how many steps that were.
func (t *Turner) passes(l *Long, at func(i, step int) bool, run func(from, to uint32) bool) (steps int) {
	from, done := l.Start, false
	l.Branches(func(step int, b Branch) bool {
		first := step - int(b.Op-from)
		for op := from; op <= b.Op && !done; op++ {
			if i := t.at[op]; i != 0 {
				done = !at(int(i-1), first+int(op-from))
			}
		}
		done = done || run != nil && !run(from, b.Op)
		from, steps = b.To, step+1
		return !done && !b.Guessed && b.To != 0
	})
	return steps
}

// emulate goes the way of the walk again, and notes the states in which turns begin.
func (t *Turner) emulate(l *Long, loops []*turningLoop, st *State, space Space, mem Memory) bool {
	for i, o := range loops {
		t.at[o.header] = uint32(i + 1)
	}
	defer func() {
		for _, o := range loops {
			t.at[o.header] = 0
		}
	}()
	type stop struct{ step, loop, turn int }
	var stops []stop
	turns := make([]int, len(loops))
	c := l.m.code
	t.passes(l, func(i, step int) bool {
		n := turns[i]
		turns[i]++
		if n < leastTurns || n&(n-1) == 0 && step < turnsFor {
			stops = append(stops, stop{step, i, n})
		}
		return step < turnsFor || slices.Min(turns) < leastTurns
	}, func(from, to uint32) bool {
		for i, o := range loops { // in their first turn
			if turns[i] != 1 {
				continue
			}
			for op := from; op <= to && len(o.inside) < mostWords; op++ {
				if x := &c.Ops[op]; x.Flags&X86WritesDst != 0 && x.Dst == X86Mem && x.Index >= 16 && (x.Size == 4 || x.Size == 8) && x.Flags&X86FS == 0 {
					o.inside = append(o.inside, op)
				}
			}
		}
		return true
	})
	if _, err := t.m.Start(st, space, mem, Limits{}); err != nil {
		return false
	}
	for _, s := range stops {
		t.m.More(s.step - t.m.long.Steps)
		if t.m.long.Steps != s.step {
			return false
		}
		o := loops[s.loop]
		x := &t.m.x86
		seen := turnSeen{turn: s.turn, regs: [16]uint64(x.regs[:]), known: x.known}
		base := seen.regs
		if len(o.begins) > 0 {
			base = o.begins[0].regs
		}
		for _, op := range o.inside {
			addr := wordAt(&c.Ops[op], &base, x.place.Bias)
			v, known := t.m.Load(addr, c.Ops[op].Size)
			seen.words = append(seen.words, turnWord{addr, v, known})
		}
		o.begins = append(o.begins, seen)
	}
	return true
}

// wordAt returns the address of the word that an operation writes, by the registers where a turn begins.
func wordAt(op *Op, regs *[16]uint64, bias uint64) uint64 {
	switch {
	case op.Base < 16:
		return regs[op.Base] + uint64(int64(op.Disp))
	case op.Base == X86BaseImage:
		return bias + uint64(uint32(op.Disp))
	}
	return uint64(int64(op.Disp))
}

// values returns what moves by the same step from each turn to the next.
func (o *turningLoop) values(c *Code) (values []turningValue) {
	if len(o.begins) < leastTurns {
		return nil
	}
	first, second := &o.begins[0], &o.begins[1]
	var still uint32
	for r := range 16 {
		step := second.regs[r] - first.regs[r]
		steady := true
		for i := range o.begins {
			b := &o.begins[i]
			steady = steady && b.known>>r&1 != 0 && b.regs[r]-first.regs[r] == step*uint64(b.turn)
		}
		switch {
		case !steady:
		case step == 0:
			still |= 1 << r
		default:
			values = append(values, turningValue{reg: int8(r), size: 8, step: int64(step)})
		}
	}
	if still>>4&1 == 0 { // the stack pointer
		return nil
	}
	for w, op := range o.inside {
		x := &c.Ops[op]
		if x.Base < 16 && still>>x.Base&1 == 0 {
			continue
		}
		v := turningValue{reg: -1, size: x.Size, addr: first.words[w].addr}
		v.step = v.apart(first.words[w].v, second.words[w].v)
		steady := v.step != 0
		for i := range o.begins {
			b := &o.begins[i].words[w]
			steady = steady && b.known && v.apart(first.words[w].v, b.v) == v.step*int64(o.begins[i].turn)
		}
		if steady && !slices.ContainsFunc(values, func(o turningValue) bool { return o.reg < 0 && o.addr == v.addr }) {
			values = append(values, v)
		}
	}
	return values
}

// apart returns how far a value has moved.
func (v *turningValue) apart(from, to uint64) int64 {
	if v.size == 4 {
		return int64(int32(to - from))
	}
	return int64(to - from)
}

// A Turn is where a thread is on its way round a loop: the state in which its next turn begins.
type Turn struct {
	SP     uint64
	Late   int // instructions until then
	values []uint64
}

// Next returns the state in which the next turn of o begins, of a thread in state st.
func (t *Turner) Next(o *Turning, st *State, space Space, mem Memory) (turn Turn, ok bool) {
	m := t.m
	if _, err := m.Start(st, space, mem, Limits{}); err != nil {
		return Turn{}, false
	}
	// It stops at each operation: a turn is a few thousand at most.
	for n := 2*o.longest + 16; m.x86.pc != o.Header; n-- {
		if m.More(1); n == 0 || m.x86.end != EndLength {
			return Turn{}, false
		}
	}
	turn.SP, turn.Late = m.x86.regs[4], m.long.Steps
	for i := range o.values {
		v := &o.values[i]
		x, known := m.x86.regs[v.reg&15], m.x86.known>>(v.reg&15)&1 != 0
		if v.reg < 0 {
			x, known = m.Load(v.addr, v.size)
		}
		if !known {
			return Turn{}, false
		}
		turn.values = append(turn.values, x)
	}
	return turn, true
}

// Between returns how many turns a thread made from one to the other, if it stayed in the loop; votes is how many values
// say so, and of how many.
func (o *Turning) Between(a, b Turn) (n int64, votes int) {
	if a.SP != b.SP {
		return 0, 0
	}
	said := map[int64]int{}
	for i := range o.values {
		v := &o.values[i]
		if d := v.apart(a.values[i], b.values[i]); d%v.step == 0 {
			said[d/v.step]++
		}
	}
	for k, times := range said {
		if times > votes || times == votes && k < n {
			n, votes = k, times
		}
	}
	return n, votes
}

// Values is how many values move steadily.
func (o *Turning) Values() int { return len(o.values) }
