package trace

// Most instructions are of few forms, with operands that are known. Of these NewCode says beforehand which form it is
// and what must be known, and they are emulated here, without asking again what operands they have.

// How operands are had: register and register, register and constant, register and memory.
const (
	quickZero quick = 1 + iota // a register exclusive or itself
	quickNop
	quickMovRR // with zeros above what it moves, as the next two
	quickMovRI
	quickMovRM
	quickMovMR // of any size
	quickMovMI
	quickSignExtendRR
	quickSignExtendRM
	quickLea
	quickAddRR
	quickAddRI
	quickAddRM
	quickSubRR
	quickSubRI
	quickSubRM
	quickCmpRR // of any size, as all that write no register
	quickCmpRI
	quickCmpRM
	quickCmpMR
	quickCmpMI
	quickAndRR
	quickAndRI
	quickAndRM
	quickTestRR
	quickTestRI
	quickTestMI
	quickOrRR
	quickOrRI
	quickOrRM
	quickXorRR
	quickXorRI
	quickXorRM
	quickShift // by a constant that is not 0
	quickCmov  // of a register
	quickSetcc
	quickPush
	quickPop
	quickCondJump
	quickJump
	quickCall
	quickRet
	quickJumpInd // to what a register has
	quickJumpMem
	quickCallInd
	quickCallMem
)

// The registers that addresses have beside those of the processor, by their number in operations: noBase is 0, and
// imageBase the bias of the place that the walk is at.
const noBase, imageBase = X86NoReg, X86BaseImage

// quickOf returns the form of an operation, and what must be known: bit by register, and knownFlags.
func quickOf(op *Op) (q quick, needs uint32) {
	f, wide := op.Flags, op.Size >= 4 // a write of less leaves a part of the register
	if f&X86FS != 0 {
		return 0, 0
	}
	address := f&X86HasMem != 0
	if address {
		if op.Base > imageBase || op.Index > noBase || op.Base == imageBase && op.Disp < 0 {
			return 0, 0
		}
		needs = 1<<op.Base&0xffff | 1<<op.Index&0xffff
	}
	const moves, reads, modifies = X86ReadsSrc | X86WritesDst, X86ReadsDst | X86ReadsSrc, X86ReadsDst | X86ReadsSrc | X86WritesDst
	does := f &^ X86HasMem
	dst, src := op.Dst < 16, op.Src < 16
	constant := op.Src == X86Imm
	// form returns the one for a destination in a register, by its source.
	form := func(rr, ri, rm quick) quick {
		switch {
		case src:
			needs |= 1 << op.Src
			return rr
		case constant:
			return ri
		case address && op.Src == X86Mem:
			return rm
		}
		return 0
	}
	switch op.Kind {
	case X86Nop:
		return quickNop, 0
	case X86Mov:
		switch {
		case does != moves:
		case dst && wide:
			q = form(quickMovRR, quickMovRI, quickMovRM)
		case op.Dst == X86Mem && address:
			q = form(quickMovMR, quickMovMI, 0)
		}
	case X86Movzx, X86Movsx:
		if does == moves && dst && op.Cond >= 4 {
			if q = form(quickSignExtendRR, 0, quickSignExtendRM); op.Kind == X86Movzx {
				q = form(quickMovRR, 0, quickMovRM)
			}
		}
	case X86Lea:
		if does == X86WritesDst && dst && wide && address {
			return quickLea, needs
		}
	case X86Add, X86Sub, X86And, X86Or, X86Xor:
		if does != modifies || !dst || !wide {
			break
		}
		if op.Kind == X86Xor && op.Dst == op.Src {
			return quickZero, 0
		}
		needs |= 1 << op.Dst
		switch op.Kind {
		case X86Add:
			q = form(quickAddRR, quickAddRI, quickAddRM)
		case X86Sub:
			q = form(quickSubRR, quickSubRI, quickSubRM)
		case X86And:
			q = form(quickAndRR, quickAndRI, quickAndRM)
		case X86Or:
			q = form(quickOrRR, quickOrRI, quickOrRM)
		default:
			q = form(quickXorRR, quickXorRI, quickXorRM)
		}
	case X86Cmp:
		switch {
		case does != reads:
		case dst:
			needs |= 1 << op.Dst
			q = form(quickCmpRR, quickCmpRI, quickCmpRM)
		case op.Dst == X86Mem && address:
			q = form(quickCmpMR, quickCmpMI, 0)
		}
	case X86Test:
		switch {
		case does != reads:
		case dst:
			needs |= 1 << op.Dst
			q = form(quickTestRR, quickTestRI, 0)
		case op.Dst == X86Mem && address:
			q = form(0, quickTestMI, 0)
		}
	case X86Shl, X86Shr, X86Sar:
		by := op.Imm & 31
		if op.Size == 8 {
			by = op.Imm & 63
		}
		if does == modifies && dst && wide && constant && by != 0 {
			return quickShift, needs | 1<<op.Dst
		}
	case X86Cmov:
		if does == modifies && dst && wide && src {
			return quickCmov, needs | 1<<op.Dst | 1<<op.Src | knownFlags
		}
	case X86Setcc:
		if does == X86WritesDst && dst && op.Size == 1 {
			return quickSetcc, knownFlags
		}
	case X86Push:
		if does == X86ReadsSrc && src && op.Size == 8 {
			return quickPush, 1<<op.Src | 1<<4
		}
	case X86Pop:
		if does == moves && dst && op.Src == X86Mem && op.Size == 8 && address {
			return quickPop, needs | 1<<4
		}
	case CondJump:
		if op.To != 0 {
			return quickCondJump, knownFlags
		}
	case Jump:
		if op.To != 0 {
			return quickJump, 0
		}
	case Call:
		if op.To != 0 && does == 0 {
			return quickCall, 1 << 4
		}
	case Ret:
		if does == X86ReadsSrc && op.Src == X86Mem && address && op.Size == 8 {
			return quickRet, needs | 1<<4
		}
	case JumpInd, CallInd:
		if does != X86ReadsSrc || op.Size != 8 {
			break
		}
		if op.Kind == JumpInd {
			q = form(quickJumpInd, 0, quickJumpMem)
			break
		}
		needs |= 1 << 4
		q = form(quickCallInd, 0, quickCallMem)
	}
	if q == 0 {
		needs = 0
	}
	return q, needs
}

// address returns that of op's memory operand.
func (x *machineX86) address(op *Op) uint64 {
	return uint64(int64(op.Disp)) + x.regs[op.Base&31] + x.regs[op.Index&31]<<(op.Scale&3)
}

// to sets op's destination, a general register, to what is known; it returns what is known then.
func (x *machineX86) to(op *Op, v uint64, known uint32) uint32 {
	x.regs[op.Dst&15] = v
	return known | 1<<(op.Dst&15)
}

// flagged sets the flags to what is known; it returns what is known then.
func (x *machineX86) flagged(kind, size uint8, a, b, r uint64, known uint32) uint32 {
	x.setFlags(kind, size, a, b, r)
	return known&^noCarry | knownFlags
}

// quickly emulates some instructions, up to one that it does not know or that is at the end of the walk; it returns how
// many ran.
func (x *machineX86) quickly(m *Machine, some int) int {
	ops := x.code.Ops
	pc, known := x.pc, x.known // apart from x, as each instruction has them
	ran := 0
loop:
	for ; ran < some; ran++ {
		op := &ops[pc]
		if known&op.needs != op.needs {
			break
		}
		size := op.Size
		all := ones(size)
		switch op.quick {
		case quickZero:
			known = x.to(op, 0, known)
			known = x.flagged(flagsLogic, size, 0, 0, 0, known)
		case quickNop:
		case quickMovRR:
			known = x.to(op, x.regs[op.Src&15]&all, known)
		case quickMovRI:
			known = x.to(op, uint64(op.Imm)&all, known)
		case quickMovRM:
			v, ok := x.fetch(x.address(op), size)
			if !ok {
				break loop
			}
			known = x.to(op, v, known)
		case quickMovMR:
			if !x.store(x.address(op), size, x.regs[op.Src&15]&all, true) {
				break loop
			}
		case quickMovMI:
			if !x.store(x.address(op), size, uint64(op.Imm)&all, true) {
				break loop
			}
		case quickSignExtendRR:
			known = x.to(op, uint64(extend(x.regs[op.Src&15], size))&ones(op.Cond), known)
		case quickSignExtendRM:
			v, ok := x.fetch(x.address(op), size)
			if !ok {
				break loop
			}
			known = x.to(op, uint64(extend(v, size))&ones(op.Cond), known)
		case quickLea:
			known = x.to(op, x.address(op)&all, known)
		case quickAddRR:
			a, b := x.regs[op.Dst&15]&all, x.regs[op.Src&15]&all
			r := (a + b) & all
			known = x.to(op, r, known)
			known = x.flagged(flagsAdd, size, a, b, r, known)
		case quickAddRI:
			a, b := x.regs[op.Dst&15]&all, uint64(op.Imm)&all
			r := (a + b) & all
			known = x.to(op, r, known)
			known = x.flagged(flagsAdd, size, a, b, r, known)
		case quickAddRM:
			b, ok := x.fetch(x.address(op), size)
			if !ok {
				break loop
			}
			a := x.regs[op.Dst&15] & all
			r := (a + b) & all
			known = x.to(op, r, known)
			known = x.flagged(flagsAdd, size, a, b, r, known)
		case quickSubRR:
			a, b := x.regs[op.Dst&15]&all, x.regs[op.Src&15]&all
			r := (a - b) & all
			known = x.to(op, r, known)
			known = x.flagged(flagsSub, size, a, b, r, known)
		case quickSubRI:
			a, b := x.regs[op.Dst&15]&all, uint64(op.Imm)&all
			r := (a - b) & all
			known = x.to(op, r, known)
			known = x.flagged(flagsSub, size, a, b, r, known)
		case quickSubRM:
			b, ok := x.fetch(x.address(op), size)
			if !ok {
				break loop
			}
			a := x.regs[op.Dst&15] & all
			r := (a - b) & all
			known = x.to(op, r, known)
			known = x.flagged(flagsSub, size, a, b, r, known)
		case quickCmpRR:
			a, b := x.regs[op.Dst&15]&all, x.regs[op.Src&15]&all
			known = x.flagged(flagsSub, size, a, b, a-b, known)
		case quickCmpRI:
			a, b := x.regs[op.Dst&15]&all, uint64(op.Imm)&all
			known = x.flagged(flagsSub, size, a, b, a-b, known)
		case quickCmpRM:
			b, ok := x.fetch(x.address(op), size)
			if !ok {
				break loop
			}
			a := x.regs[op.Dst&15] & all
			known = x.flagged(flagsSub, size, a, b, a-b, known)
		case quickCmpMR:
			a, ok := x.fetch(x.address(op), size)
			if !ok {
				break loop
			}
			b := x.regs[op.Src&15] & all
			known = x.flagged(flagsSub, size, a, b, a-b, known)
		case quickCmpMI:
			a, ok := x.fetch(x.address(op), size)
			if !ok {
				break loop
			}
			b := uint64(op.Imm) & all
			known = x.flagged(flagsSub, size, a, b, a-b, known)
		case quickAndRR:
			a, b := x.regs[op.Dst&15]&all, x.regs[op.Src&15]&all
			r := a & b
			known = x.to(op, r, known)
			known = x.flagged(flagsLogic, size, 0, 0, r, known)
		case quickAndRI:
			a, b := x.regs[op.Dst&15]&all, uint64(op.Imm)&all
			r := a & b
			known = x.to(op, r, known)
			known = x.flagged(flagsLogic, size, 0, 0, r, known)
		case quickAndRM:
			b, ok := x.fetch(x.address(op), size)
			if !ok {
				break loop
			}
			a := x.regs[op.Dst&15] & all
			r := a & b
			known = x.to(op, r, known)
			known = x.flagged(flagsLogic, size, 0, 0, r, known)
		case quickTestRR:
			a, b := x.regs[op.Dst&15]&all, x.regs[op.Src&15]&all
			known = x.flagged(flagsLogic, size, 0, 0, a&b, known)
		case quickTestRI:
			a, b := x.regs[op.Dst&15]&all, uint64(op.Imm)&all
			known = x.flagged(flagsLogic, size, 0, 0, a&b, known)
		case quickTestMI:
			a, ok := x.fetch(x.address(op), size)
			if !ok {
				break loop
			}
			b := uint64(op.Imm) & all
			known = x.flagged(flagsLogic, size, 0, 0, a&b, known)
		case quickOrRR:
			a, b := x.regs[op.Dst&15]&all, x.regs[op.Src&15]&all
			r := a | b
			known = x.to(op, r, known)
			known = x.flagged(flagsLogic, size, 0, 0, r, known)
		case quickOrRI:
			a, b := x.regs[op.Dst&15]&all, uint64(op.Imm)&all
			r := a | b
			known = x.to(op, r, known)
			known = x.flagged(flagsLogic, size, 0, 0, r, known)
		case quickOrRM:
			b, ok := x.fetch(x.address(op), size)
			if !ok {
				break loop
			}
			a := x.regs[op.Dst&15] & all
			r := a | b
			known = x.to(op, r, known)
			known = x.flagged(flagsLogic, size, 0, 0, r, known)
		case quickXorRR:
			a, b := x.regs[op.Dst&15]&all, x.regs[op.Src&15]&all
			r := a ^ b
			known = x.to(op, r, known)
			known = x.flagged(flagsLogic, size, 0, 0, r, known)
		case quickXorRI:
			a, b := x.regs[op.Dst&15]&all, uint64(op.Imm)&all
			r := a ^ b
			known = x.to(op, r, known)
			known = x.flagged(flagsLogic, size, 0, 0, r, known)
		case quickXorRM:
			b, ok := x.fetch(x.address(op), size)
			if !ok {
				break loop
			}
			a := x.regs[op.Dst&15] & all
			r := a ^ b
			known = x.to(op, r, known)
			known = x.flagged(flagsLogic, size, 0, 0, r, known)
		case quickShift:
			by := uint64(op.Imm) & 31
			if size == 8 {
				by = uint64(op.Imm) & 63
			}
			known = x.to(op, x.shift(op.Kind, size, x.regs[op.Dst&15]&all, by), known)
			known = known&^noCarry | knownFlags
		case quickCmov:
			if known&noCarry != 0 && op.Cond&^5 == 2 {
				break loop
			}
			v := x.regs[op.Dst&15]
			if x.holds(op.Cond) {
				v = x.regs[op.Src&15]
			}
			known = x.to(op, v&all, known)
		case quickSetcc:
			if known&noCarry != 0 && op.Cond&^5 == 2 {
				break loop
			}
			r := &x.regs[op.Dst&15]
			*r = *r&^0xff | flag(x.holds(op.Cond), 1)
		case quickPush:
			if !x.store(x.regs[4]-8, 8, x.regs[op.Src&15], true) {
				break loop
			}
			x.regs[4] -= 8
		case quickPop:
			v, ok := x.fetch(x.address(op), 8)
			if !ok {
				break loop
			}
			x.regs[4] += 8
			known = x.to(op, v, known)
		case quickCondJump:
			if known&noCarry != 0 && op.Cond&^5 == 2 {
				break loop
			}
			x.asked++
			to := hop{pc, pc + 1}
			if x.holds(op.Cond) {
				to.to = op.To | hopTaken
			}
			m.branches = append(m.branches, to)
			pc = to.to & hopTo
			continue
		case quickJump:
			m.branches = append(m.branches, hop{pc, op.To | hopTaken})
			pc = op.To
			continue
		case quickCall:
			if !x.store(x.regs[4]-8, 8, x.place.Bias+uint64(op.Imm), true) {
				break loop
			}
			x.regs[4] -= 8
			m.branches = append(m.branches, hop{pc, op.To | hopTaken})
			pc = op.To
			continue
		case quickRet:
			v, ok := x.fetch(x.address(op), 8)
			if !ok {
				break loop
			}
			x.regs[4] += 8 + uint64(op.Cond)
			x.pc = pc
			in := x.jumpTo(m, m.space, v)
			if pc = x.pc; !in {
				ran++
				break loop
			}
			continue
		case quickJumpInd:
			x.pc = pc
			in := x.jumpTo(m, m.space, x.regs[op.Src&15])
			if pc = x.pc; !in {
				ran++
				break loop
			}
			continue
		case quickJumpMem:
			v, ok := x.fetch(x.address(op), 8)
			if !ok {
				break loop
			}
			x.pc = pc
			in := x.jumpTo(m, m.space, v)
			if pc = x.pc; !in {
				ran++
				break loop
			}
			continue
		case quickCallInd, quickCallMem:
			to := x.regs[op.Src&15]
			if op.quick == quickCallMem {
				v, ok := x.fetch(x.address(op), 8)
				if !ok {
					break loop
				}
				to = v
			}
			if !x.store(x.regs[4]-8, 8, x.place.Bias+uint64(op.Imm), true) {
				break loop
			}
			x.regs[4] -= 8
			x.pc = pc
			in := x.jumpTo(m, m.space, to)
			if pc = x.pc; !in {
				ran++
				break loop
			}
			continue
		default:
			break loop
		}
		pc++
	}
	x.pc, x.known = pc, known
	return ran
}
