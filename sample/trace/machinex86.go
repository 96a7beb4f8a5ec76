package trace

import "math/bits"

// What instructions of x86-64 do, as sample/collect/bpf/walkx86.h has it. What the operations stand for is
// in x86.go and x86long.go.

// A machineX86 is a processor, as far as it is known.
type machineX86 struct {
	memory
	regs  [32]uint64 // of the processor, then those of quickOf
	known uint32     // bit by register, and knownFlags
	pc    uint32     // operation
	end   End
	back  bool // the direction flag

	// The flags are those of the last operation that set some.
	fkind      uint8
	fsize      uint8
	fa, fb, fr uint64

	tls   uint64
	place *Place
	page0 uint64 // of place: address as linked of its first page
	index uint32 // of that page, in Code.Pages
	many  uint64

	code   *Code
	guess  uint64 // seed
	asked  uint64 // conditional branches so far
	guides int    // guesses left
	next   uint64 // runtime address that a branch went to

	v      [32][8]uint64
	vk     [32]uint8 // bit by word
	masks  [8]uint64
	mk     uint8 // bit by register
	mxcsr  uint32
	mxk    bool // it is known but for the exceptions that there were
	raised bool // these are known, too
	fcw    uint16
	fcwk   bool
}

// Of known, beside the registers.
const (
	knownFlags = 1 << 16
	noCarry    = 1 << 17 // with knownFlags: all but the carry
)

// How the flags are had.
const (
	flagsRaw uint8 = iota
	flagsLogic
	flagsAdd
	flagsSub
	flagsInc
	flagsDec
	flagsCarry
)

// Flags of the processor.
const (
	cf = 1
	pf = 4
	zf = 64
	sf = 128
	df = 1024
	of = 2048
)

// mxcsrUsual is what of MXCSR must be 0 for arithmetic as it is done here: numbers that are rounded to
// the nearest, and denormal ones that are neither read nor written as 0.
const mxcsrUsual = 0xe040

// start makes x what st is.
func (x *machineX86) start(code *Code, st *State, mem Memory, lim *Limits) {
	x.begin(mem, lim.Pages)
	x.code, x.tls = code, st.FSBase
	copy(x.regs[:], st.Regs[:])
	x.known = 1<<17 - 1
	x.fkind, x.fa, x.back = flagsRaw, st.Flags&(cf|pf|zf|sf|of), st.Flags&df != 0
	x.guess, x.asked, x.guides = lim.Seed, 0, lim.Guesses
	x.place, x.pc, x.end, x.next = nil, 0, EndLength, 0
	x.v, x.masks, x.mxcsr, x.mxk, x.raised = st.Vectors, st.Masks, st.MXCSR, true, true
	x.fcw, x.fcwk = st.FCW, true
	x.mk = 0
	if st.Words == 8 {
		x.mk = 0xff
	}
	for i := range x.vk {
		x.vk[i] = uint8(1<<st.Words - 1)
		if i >= 16 && st.Words < 8 {
			x.vk[i] = 0
		}
	}
}

// enter finds the operation at a runtime address.
func (x *machineX86) enter(space Space, pc uint64) bool {
	if x.place == nil || pc-x.place.Lo >= x.place.Hi-x.place.Lo {
		p := space.find(pc)
		if p == nil || p.Image < 0 || p.Image >= len(x.code.Ranges) {
			return false
		}
		r := &x.code.Ranges[p.Image]
		x.place, x.page0, x.index, x.many = p, r.First, r.Pages, uint64(r.Many)
		x.regs[imageBase] = p.Bias
	}
	at := pc - x.place.Bias - x.page0
	if at/pageSize >= x.many {
		return false
	}
	page := x.code.Pages[uint64(x.index)+at/pageSize]
	if page == 0 {
		return false
	}
	op := x.code.Starts[uint64(page)*pageSize+at%pageSize]
	if op != 0 {
		x.pc = op
	}
	return op != 0
}

// flags returns the flags as the processor has them.
func (x *machineX86) flags() uint64 {
	if x.fkind == flagsRaw {
		return x.fa
	}
	m := ones(x.fsize)
	r, a, b := x.fr&m, x.fa&m, x.fb&m
	top := m ^ m>>1
	var f uint64
	if r == 0 {
		f = zf
	}
	if r&top != 0 {
		f |= sf
	}
	if bits.OnesCount8(uint8(r))&1 == 0 {
		f |= pf
	}
	switch x.fkind {
	case flagsAdd:
		if r < a {
			f |= cf
		}
		if ^(a^b)&(a^r)&top != 0 {
			f |= of
		}
	case flagsSub:
		if a < b {
			f |= cf
		}
		if (a^b)&(a^r)&top != 0 {
			f |= of
		}
	case flagsInc:
		f |= x.fb & cf
		if r == top {
			f |= of
		}
	case flagsDec:
		f |= x.fb & cf
		if r == top^m {
			f |= of
		}
	case flagsCarry:
		f |= x.fb
	}
	return f
}

// holds reports whether a condition does.
func (x *machineX86) holds(cond uint8) bool {
	var yes bool
	if x.fkind == flagsSub { // the most of all
		m := ones(x.fsize)
		a, b := x.fa&m, x.fb&m
		switch cond >> 1 {
		case 1:
			return (a < b) != (cond&1 != 0)
		case 2:
			return (a == b) != (cond&1 != 0)
		case 3:
			return (a <= b) != (cond&1 != 0)
		case 6:
			return (extend(a, x.fsize) < extend(b, x.fsize)) != (cond&1 != 0)
		case 7:
			return (extend(a, x.fsize) <= extend(b, x.fsize)) != (cond&1 != 0)
		}
	}
	f := x.flags()
	switch cond >> 1 & 7 {
	case 0:
		yes = f&of != 0
	case 1:
		yes = f&cf != 0
	case 2:
		yes = f&zf != 0
	case 3:
		yes = f&(cf|zf) != 0
	case 4:
		yes = f&sf != 0
	case 5:
		yes = f&pf != 0
	case 6:
		yes = f&sf != 0 != (f&of != 0)
	case 7:
		yes = f&zf != 0 || f&sf != 0 != (f&of != 0)
	}
	return yes != (cond&1 != 0)
}

func (x *machineX86) setFlags(kind, size uint8, a, b, r uint64) {
	x.fkind, x.fsize, x.fa, x.fb, x.fr = kind, size, a, b, r
}

func (x *machineX86) knowFlags(known bool) {
	if known {
		x.known = x.known&^noCarry | knownFlags
	} else {
		x.known &^= knownFlags
	}
}

func (x *machineX86) knows(r uint8) bool { return x.known>>(r&31)&1 != 0 }

// setReg sets the low bytes of a general register; what is beyond 4 becomes 0.
func (x *machineX86) setReg(r, size uint8, v uint64, known bool) {
	r &= 15
	m := ones(size)
	if size >= 4 {
		x.regs[r] = v & m
		if known {
			x.known |= 1 << r
		} else {
			x.known &^= 1 << r
		}
		return
	}
	x.regs[r] = x.regs[r]&^m | v&m
	if !known {
		x.known &^= 1 << r
	}
}

// noRoom ends the walk.
func (x *machineX86) noRoom() bool {
	x.end = EndRoom
	return false
}

// put stores, or ends the walk.
func (x *machineX86) put(addr uint64, size uint8, v uint64, known bool) bool {
	return x.store(addr, size, v, known) || x.noRoom()
}

func flag(yes bool, f uint64) uint64 {
	if yes {
		return f
	}
	return 0
}

// steps emulates some instructions; it returns how many ran.
func (x *machineX86) steps(m *Machine, some int) int {
	space := m.space
	ops := x.code.Ops
	for ran := 0; ran < some; ran++ {
		if x.kept == nil {
			if ran += x.quickly(m, some-ran); ran == some || x.end != EndLength {
				return ran
			}
		}
		op := &ops[x.pc]
		kind, size, f := op.Kind, op.Size, op.Flags
		var ea, a, b, r uint64
		ka, kb, kea := true, true, true
		if f&X86HasMem != 0 {
			ea = uint64(int64(op.Disp))
			if op.Base < 16 {
				ea += x.regs[op.Base]
				kea = x.knows(op.Base)
			} else if op.Base == X86BaseImage {
				ea = x.place.Bias + uint64(uint32(op.Disp))
			}
			if op.Index < 16 {
				ea += x.regs[op.Index] << (op.Scale & 3)
				kea = kea && x.knows(op.Index)
			}
			if f&X86FS != 0 {
				ea += x.tls
			}
			if x.kept != nil {
				x.kept.unread(op, ea, kea)
			}
		}
		if f&X86ReadsSrc != 0 {
			switch {
			case op.Src < 16:
				b, kb = x.regs[op.Src]&ones(size), x.knows(op.Src)
			case op.Src == X86Imm:
				b = uint64(op.Imm) & ones(size)
			case kea:
				b, kb = x.fetch(ea, size)
			default:
				kb = false
			}
		}
		if f&X86ReadsDst != 0 {
			switch {
			case op.Dst < 16:
				a, ka = x.regs[op.Dst]&ones(size), x.knows(op.Dst)
			case kea:
				a, ka = x.fetch(ea, size)
			default:
				ka = false
			}
		}
		if x.full {
			x.end = EndRoom
			return ran
		}
		known, wsize := ka && kb, size
		sets := false // flags, which are known if the operands are
		switch kind {
		case X86Nop:
		case X86Mov:
			r = b
		case X86Movzx:
			r, wsize = b, op.Cond
		case X86Movsx:
			r, wsize = uint64(extend(b, size)), op.Cond
		case X86Lea:
			r, known = ea, kea
		case X86Add:
			r = a + b
			x.setFlags(flagsAdd, size, a, b, r)
			sets = true
		case X86Sub, X86Cmp:
			r = a - b
			if op.Dst == op.Src {
				r, a, known = 0, b, true
			}
			x.setFlags(flagsSub, size, a, b, r)
			sets = true
		case X86And, X86Test:
			r = a & b
			if ka && a == 0 || kb && b == 0 {
				r, known = 0, true
			}
			x.setFlags(flagsLogic, size, 0, 0, r)
			sets = true
		case X86Or:
			r = a | b
			x.setFlags(flagsLogic, size, 0, 0, r)
			sets = true
		case X86Xor:
			r = a ^ b
			if op.Dst == op.Src {
				r, known = 0, true
			}
			x.setFlags(flagsLogic, size, 0, 0, r)
			sets = true
		case X86Adc, X86Sbb:
			known = x.addCarry(op, a, b, known, &r)
			sets = true
		case X86Inc:
			x.setFlags(flagsInc, size, a, x.flags()&cf, a+1)
			r = a + 1
			x.keepCarry(known)
		case X86Dec:
			x.setFlags(flagsDec, size, a, x.flags()&cf, a-1)
			r = a - 1
			x.keepCarry(known)
		case X86Neg:
			r = -a
			x.setFlags(flagsSub, size, 0, a, r)
			sets = true
		case X86Not:
			r = ^a
		case X86Shl, X86Shr, X86Sar:
			n := b & 31
			if size == 8 {
				n = b & 63
			}
			if n == 0 {
				if r = a; !kb {
					x.known &^= knownFlags
				}
				break
			}
			r, sets = x.shift(kind, size, a, n), true
		case X86Setcc:
			known = x.knowsWhether(op.Cond)
			r = flag(known && x.holds(op.Cond), 1)
		case X86Cmov:
			r, known = a, ka
			if !x.knowsWhether(op.Cond) {
				known = ka && kb && a == b
			} else if x.holds(op.Cond) {
				r, known = b, kb
			}
		case X86Push:
			if !x.knows(4) {
				x.end = EndAddress
				return ran
			}
			if !x.put(x.regs[4]-8, 8, b, kb) {
				return ran
			}
			x.regs[4] -= 8
		case X86Pop:
			r = b
			x.regs[4] += 8
		case X86Leave:
			r = b
			if x.regs[4] = x.regs[5] + 8; !x.knows(5) {
				x.known &^= 1 << 4
			}
		case CondJump:
			to := op.To
			var took, guessed bool
			n := x.asked
			x.asked++
			if x.knowsWhether(op.Cond) {
				took = x.holds(op.Cond)
			} else {
				if x.guides == 0 {
					x.end = EndBranch
					return ran
				}
				x.guides--
				took, guessed = guess(x.guess, n, to <= x.pc), true
			}
			b := hop{x.pc, x.pc + 1}
			if took {
				b.to = to | hopTaken
			}
			if guessed {
				b.to |= hopGuessed
			}
			m.branches = append(m.branches, b)
			if x.pc = b.to & hopTo; x.pc == 0 {
				x.leave(m, b.op)
				return ran + 1
			}
			continue
		case Jump:
			m.branches = append(m.branches, hop{x.pc, op.To | hopTaken})
			if op.To == 0 {
				x.leave(m, x.pc)
				return ran + 1
			}
			x.pc = op.To
			continue
		case Call, CallInd:
			if !kb {
				x.end = EndBranch
				return ran
			}
			if !x.knows(4) {
				x.end = EndAddress
				return ran
			}
			if !x.store(x.regs[4]-8, 8, x.place.Bias+uint64(op.Imm), true) {
				x.end = EndRoom
				return ran
			}
			x.regs[4] -= 8
			if kind == Call {
				m.branches = append(m.branches, hop{x.pc, op.To | hopTaken})
				if op.To == 0 {
					x.leave(m, x.pc)
					return ran + 1
				}
				x.pc = op.To
				continue
			}
			if !x.jumpTo(m, space, b) {
				return ran + 1
			}
			continue
		case Ret, JumpInd:
			if !kb {
				x.end = EndBranch
				return ran
			}
			if kind == Ret {
				x.regs[4] += 8 + uint64(op.Cond)
			}
			if !x.jumpTo(m, space, b) {
				return ran + 1
			}
			continue
		case Stop:
			x.end = EndOp
			return ran
		default:
			switch {
			case kind > X86Long:
				if sets = x.long(op, ea, kea, &r, &known); !returnsValue(kind) {
					f = 0
				} else if op.Dst < 16 {
					wsize = 8
				}
			case kind >= X86Vload:
				sets = x.vector(op, ea, kea, b, kb, &r, &known)
			default:
				sets = x.rare(op, ea, kea, a, b, ka, kb, &r, &known, &f)
			}
			if x.full {
				x.end = EndRoom
			}
			if x.end != EndLength {
				return ran
			}
		}
		if sets {
			x.knowFlags(known)
		}
		if f&X86WritesDst != 0 {
			if op.Dst < 16 {
				x.setReg(op.Dst, wsize, r, known)
			} else if !kea {
				x.end = EndAddress
				return ran
			} else if !x.put(ea, wsize, r, known) {
				return ran
			}
		}
		x.pc++
	}
	return some
}

// leave ends a walk at a direct branch that goes to where no code is known.
func (x *machineX86) leave(m *Machine, branch uint32) {
	x.end, x.pc = EndOutside, branch
	if to := m.code.at[branch].target; to != 0 {
		x.next = x.place.Bias + to
	}
}

// jumpTo goes to a runtime address.
func (x *machineX86) jumpTo(m *Machine, space Space, to uint64) bool {
	from := x.pc
	if !x.enter(space, to) {
		m.branches = append(m.branches, hop{from, hopTaken})
		x.end, x.next = EndOutside, to
		return false
	}
	m.branches = append(m.branches, hop{from, x.pc | hopTaken})
	return true
}

// keepCarry is for inc and dec, after which the carry is known if it was before.
func (x *machineX86) keepCarry(known bool) {
	if carry := x.known&(knownFlags|noCarry) == knownFlags; known && !carry {
		x.known |= knownFlags | noCarry
	} else {
		x.knowFlags(known)
	}
}

// knowsWhether reports whether it is known whether a condition holds.
func (x *machineX86) knowsWhether(cond uint8) bool {
	return x.known&(knownFlags|noCarry) == knownFlags || x.known&knownFlags != 0 && cond&^5 != 2
}

// addCarry is for adc and sbb. It reports whether the result is known.
func (x *machineX86) addCarry(op *Op, a, b uint64, known bool, r *uint64) bool {
	c := x.flags() & cf
	m := ones(op.Size)
	top := m ^ m>>1
	var f uint64
	if op.Kind == X86Adc {
		*r = (a + b + c) & m
		f = flag(*r < a || c != 0 && *r == a, cf) | flag(^(a^b)&(a^*r)&top != 0, of)
	} else {
		if op.Dst == op.Src {
			a, b, known = 0, 0, true
		}
		*r = (a - b - c) & m
		f = flag(a < b || c != 0 && a == b, cf) | flag((a^b)&(a^*r)&top != 0, of)
	}
	known = known && x.known&(knownFlags|noCarry) == knownFlags
	x.setFlags(flagsCarry, op.Size, 0, f, *r)
	return known
}

// shift is for shl, shr and sar by n bits, at least one.
func (x *machineX86) shift(kind Kind, size uint8, a, n uint64) (r uint64) {
	m := ones(size)
	top := m ^ m>>1
	var c, o uint64
	switch kind {
	case X86Shl:
		r = a << n & m
		if n <= 8*uint64(size) {
			c = a >> (8*uint64(size) - n) & 1
		}
		o = flag(r&top != 0, 1) ^ c
	case X86Shr:
		r, c, o = a>>n, a>>(n-1)&1, a&top
	default:
		s := extend(a, size)
		r, c = uint64(s>>n)&m, uint64(s>>(n-1))&1
	}
	x.setFlags(flagsCarry, size, 0, flag(c != 0, cf)|flag(o != 0, of), r)
	return r
}

// rare is for the operations on general registers that are not in the loop. It reports whether the
// flags are set, and known if the result is.
func (x *machineX86) rare(op *Op, ea uint64, kea bool, a, b uint64, ka, kb bool, r *uint64, known *bool, f *Flags) (sets bool) {
	kind, size := op.Kind, op.Size
	bit := 8 * uint64(size)
	switch kind {
	case X86Rol, X86Ror:
		n := b & 31
		if size == 8 {
			n = b & 63
		}
		if n == 0 {
			if *r = a; !kb {
				x.known &^= knownFlags
			}
			return false
		}
		left := n % bit
		if kind == X86Ror {
			left = (bit - left) % bit
		}
		v := (a<<left | a>>(bit-left)) & ones(size)
		if left == 0 {
			v = a
		}
		*r = v
		had := x.flags() &^ (cf | of) // CF and OF change alone; OF is not defined but for one bit
		top := v >> (bit - 1) & 1
		if kind == X86Rol {
			had |= flag(v&1 != 0, cf) | flag(v&1 != top, of)
		} else {
			had |= flag(top != 0, cf) | flag(top != v>>(bit-2)&1, of)
		}
		x.setFlags(flagsRaw, size, had, 0, 0)
		x.knowFlags(x.known&knownFlags != 0 && *known)
	case X86Shld, X86Shrd:
		return x.shiftDouble(op, a, b, kb, r, known)
	case X86Imul, X86Imul3:
		n := extend(a, size)
		if kind == X86Imul3 {
			n = op.Imm
			n = extend(uint64(n), size)
		}
		s := extend(b, size)
		high, low := bits.Mul64(uint64(n), uint64(s))
		*r = low
		over := extend(low, size) != int64(low)
		if size == 8 {
			high -= flag(n < 0, uint64(s)) + flag(s < 0, uint64(n))
			over = high != uint64(int64(low)>>63)
		}
		x.setFlags(flagsCarry, size, 0, flag(over, cf|of), *r)
		return true
	case X86MulWide, X86ImulWide:
		return x.mulWide(op, b, known)
	case X86Div, X86Idiv:
		x.div(op, b, *known)
	case X86Bt, X86Bts, X86Btr, X86Btc:
		one := uint64(1) << (b % bit)
		switch *r = a; kind {
		case X86Bts:
			*r |= one
		case X86Btr:
			*r &^= one
		case X86Btc:
			*r ^= one
		}
		x.setFlags(flagsRaw, size, flag(a&one != 0, cf)|x.flags()&zf, 0, 0)
		return true
	case X86Bsf, X86Tzcnt:
		n := uint64(bits.TrailingZeros64(b))
		if b == 0 {
			n = bit
		}
		*r = n
		if kind == X86Bsf {
			x.setFlags(flagsRaw, size, flag(b == 0, zf), 0, 0)
		} else {
			x.setFlags(flagsRaw, size, flag(b == 0, cf)|flag(n == 0, zf), 0, 0)
		}
		x.knowFlags(kb)
		*known = *known && (kind == X86Tzcnt || b != 0)
	case X86Bsr, X86Lzcnt:
		n := uint64(bits.Len64(b))
		if kind == X86Bsr {
			*r = n - 1
			x.setFlags(flagsRaw, size, flag(b == 0, zf), 0, 0)
		} else {
			*r = bit - n
			x.setFlags(flagsRaw, size, flag(b == 0, cf)|flag(*r == 0, zf), 0, 0)
		}
		x.knowFlags(kb)
		*known = *known && (kind == X86Lzcnt || b != 0)
	case X86Popcnt:
		*r = uint64(bits.OnesCount64(b))
		x.setFlags(flagsRaw, size, flag(b == 0, zf), 0, 0)
		return true
	case X86Bswap:
		*r = swap(a, size)
	case X86Cbw:
		*r, *known = uint64(extend(x.regs[0], size/2)), x.knows(0)
	case X86Cwd:
		*r, *known = uint64(extend(x.regs[0], size)>>63), x.knows(0)
	case X86Xchg:
		*r, *known = b, kb
		x.setReg(op.Src, size, a, ka)
	case X86Xadd:
		*r = a + b
		x.setFlags(flagsAdd, size, a, b, *r)
		x.setReg(op.Src, size, a, ka)
		return true
	case X86Cmpxchg:
		was := x.regs[0] & ones(size)
		both := x.knows(0) && ka
		x.setFlags(flagsSub, size, was, a, was-a)
		x.knowFlags(both)
		switch *known = false; {
		case !both:
			x.setReg(0, size, 0, false)
		case was == a:
			*r, *known = b, kb
		default:
			*r, *known = a, true
			x.setReg(0, size, a, true)
		}
	case X86Clobber:
		x.clobber(op, ea, kea)
		*f &^= X86WritesDst
	case X86Shlx, X86Shrx, X86Sarx, X86Rorx:
		n := x.regs[op.Cond&15] % bit
		*known = *known && x.knows(op.Cond&15)
		switch kind {
		case X86Shlx:
			*r = b << n
		case X86Shrx:
			*r = b >> n
		case X86Sarx:
			*r = uint64(extend(b, size) >> n)
		default:
			n = uint64(op.Imm) % bit
			*r, *known = b>>n|b<<(bit-n), kb
		}
	case X86Andn:
		*r = b &^ x.regs[op.Cond&15]
		*known = *known && x.knows(op.Cond&15)
		x.setFlags(flagsLogic, size, 0, 0, *r)
		return true
	case X86Bzhi:
		n := x.regs[op.Cond&15] & 0xff
		*known = *known && x.knows(op.Cond&15)
		if *r = b; n < bit {
			*r = b & (1<<n - 1)
		}
		x.setFlags(flagsCarry, size, 0, flag(n >= bit, cf), *r)
		return true
	case X86Blsr:
		*r = b & (b - 1)
		x.setFlags(flagsCarry, size, 0, flag(b == 0, cf), *r)
		return true
	case X86Blsi:
		*r = b & -b
		x.setFlags(flagsCarry, size, 0, flag(b != 0, cf), *r)
		return true
	case X86Blsmsk:
		*r = b ^ (b - 1)
		x.setFlags(flagsCarry, size, 0, flag(b == 0, cf), *r)
		return true
	case X86Movbe:
		*r = swap(b, size)
	default:
		x.end = EndOp
	}
	return false
}

func (x *machineX86) shiftDouble(op *Op, a, b uint64, kb bool, r *uint64, known *bool) (sets bool) {
	size := op.Size
	bit := 8 * uint64(size)
	other := x.regs[op.Cond&15] & ones(size)
	*known = *known && x.knows(op.Cond&15)
	n := b & 31
	if size == 8 {
		n = b & 63
	}
	switch {
	case n == 0:
		if *r = a; !kb {
			x.known &^= knownFlags
		}
		return false
	case n >= bit: // of 16 bits: not defined
		*r, *known = a, *known && n == bit && size > 2
		x.known &^= knownFlags
		return false
	}
	var c uint64
	if op.Kind == X86Shld {
		*r, c = (a<<n|other>>(bit-n))&ones(size), a>>(bit-n)&1
	} else {
		*r, c = (a>>n|other<<(bit-n))&ones(size), a>>(n-1)&1
	}
	x.setFlags(flagsCarry, size, 0, flag(c != 0, cf)|flag((*r^a)>>(bit-1)&1 != 0, of), *r)
	return true
}

// mulWide is for mul and imul with a result of two registers.
func (x *machineX86) mulWide(op *Op, b uint64, known *bool) bool {
	size := op.Size
	n := x.regs[0] & ones(size)
	*known = *known && x.knows(0)
	high, low := bits.Mul64(n, b)
	if op.Kind == X86ImulWide {
		s, t := extend(n, size), extend(b, size)
		high, low = bits.Mul64(uint64(s), uint64(t))
		high -= flag(s < 0, uint64(t)) + flag(t < 0, uint64(s))
	}
	if size < 8 {
		high = low >> (8 * size)
	}
	high &= ones(size)
	over := high != 0
	if op.Kind == X86ImulWide {
		over = high != uint64(extend(low, size)>>63)&ones(size)
	}
	if size == 1 {
		x.setReg(0, 2, low&0xff|high<<8, *known)
	} else {
		x.setReg(0, size, low, *known)
		x.setReg(2, size, high, *known)
	}
	x.setFlags(flagsCarry, size, 0, flag(over, cf|of), low)
	return true
}

// div is for div and idiv; what traps is not known.
func (x *machineX86) div(op *Op, b uint64, known bool) {
	size := op.Size
	low, high := x.regs[0]&ones(size), x.regs[2]&ones(size)
	known = known && x.knows(0) && (size == 1 || x.knows(2))
	if size == 1 {
		low, high = x.regs[0]&0xffff, 0
	}
	var q, rem uint64
	switch {
	case !known || b == 0:
		known = false
	case op.Kind == X86Div && size == 8:
		if known = high < b; known {
			q, rem = bits.Div64(high, low, b)
		}
	case op.Kind == X86Div:
		n := low
		if size > 1 {
			n |= high << (8 * size)
		}
		q, rem = n/b, n%b
		known = q&^ones(size) == 0
	case size == 8:
		if known = high == uint64(int64(low)>>63) && !(low == 1<<63 && b == ^uint64(0)); known {
			q, rem = uint64(int64(low)/int64(b)), uint64(int64(low)%int64(b))
		}
	default:
		n := int64(low | high<<(8*size))
		if size < 4 || size == 4 {
			n = extend(low|high<<(8*size), 2*size)
			if size == 1 {
				n = extend(low, 2)
			}
		}
		d := extend(b, size)
		if known = !(n == -1<<63 && d == -1); known {
			s, t := n/d, n%d
			q, rem = uint64(s), uint64(t)
			known = extend(q, size) == s
		}
	}
	if size == 1 {
		x.setReg(0, 2, q&0xff|rem&0xff<<8, known)
	} else {
		x.setReg(0, size, q, known)
		x.setReg(2, size, rem, known)
	}
	x.known &^= knownFlags
}

// clobber forgets what an instruction writes that is not understood.
func (x *machineX86) clobber(op *Op, ea uint64, kea bool) {
	x.known &^= uint32(op.Imm) & 0x1ffff
	for v := uint64(op.Imm) >> 32; v != 0; v &= v - 1 {
		x.vk[bits.TrailingZeros64(v)&31] = 0
		x.raised = false
	}
	if op.Imm>>17&1 != 0 {
		x.fcwk = false
	}
	if op.Flags&X86WritesDst == 0 {
		return
	}
	if !kea {
		x.end = EndAddress
		return
	}
	for j := uint8(0); j < op.Size; j += 8 {
		if !x.put(ea+uint64(j), min(8, op.Size-j), 0, false) {
			return
		}
	}
}
