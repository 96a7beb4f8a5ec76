package trace

import (
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestQuickly: operations of the usual forms do what they do otherwise, whatever is known.
func TestQuickly(t *testing.T) {
	rand := rand.New(rand.NewPCG(1, 2))
	pick := func(of ...uint8) uint8 { return of[rand.IntN(len(of))] }
	const data = 0x1000 // where memory of flat begins
	ran := map[quick]int{}
	for range 10_000 {
		insts := []Inst{{Op: Op{Kind: X86Clobber, Dst: X86None, Src: X86None, Imm: int64(rand.Uint64() & rand.Uint64() & rand.Uint64() & 0x1ffff &^ (1 << rsp))}}}
		const most = 6
		for range most {
			insts = append(insts, randomInst(rand, pick, len(insts), most+1))
		}
		insts = append(insts, Inst{})
		code, space := program(insts...)
		for i := range code.Ops {
			if op := &code.Ops[i]; op.needs&^(1<<17-1) != 0 || op.quick == 0 && op.needs != 0 {
				t.Fatalf("%+v needs %#x", *op, op.needs)
			}
		}
		mem := make(flat, 0x3000)
		for i := range mem {
			mem[i] = uint8(rand.Uint32())
		}
		st := &State{PC: linked + bias, Flags: rand.Uint64() & (cf | pf | zf | sf | of), Words: 2}
		for i := range st.Regs {
			switch rand.IntN(4) {
			case 0:
				st.Regs[i] = uint64(rand.IntN(4)) - 1
			case 1:
				st.Regs[i] = rand.Uint64()
			default:
				st.Regs[i] = data + uint64(rand.IntN(0x3000))
			}
		}
		st.Regs[rsp] = data + 0x800
		lim := Limits{Steps: 40, Guesses: 3, Pages: 2 + rand.IntN(4), Seed: rand.Uint64()}
		one, other := NewMachine(code), NewMachine(code)
		l, err := one.Run(st, space, mem, lim)
		if err != nil {
			t.Fatal(err)
		}
		lim.Accesses = true
		k, err := other.Run(st, space, mem, lim)
		if err != nil {
			t.Fatal(err)
		}
		var s, r State
		known := one.State(&s)
		if also := other.State(&r); known != also {
			t.Fatalf("%+v: known %+v, otherwise %+v", insts, known, also)
		}
		for i := range s.Regs {
			if known.Regs>>i&1 == 0 {
				s.Regs[i], r.Regs[i] = 0, 0
			}
		}
		if !known.Flags {
			s.Flags, r.Flags = 0, 0
		}
		if s != r || !reflect.DeepEqual(one.branches, other.branches) {
			t.Fatalf("%+v:\n%x, flags %#x\n%x, flags %#x otherwise\nbranches %v\n%v otherwise", insts, s.Regs, s.Flags, r.Regs, r.Flags, one.branches, other.branches)
		}
		if l.Start != k.Start || l.Last != k.Last || l.Steps != k.Steps || l.End != k.End || l.Next != k.Next || l.Guesses != k.Guesses || l.Pages != k.Pages {
			t.Fatalf("%+v:\n%+v\n%+v otherwise", insts, *l, *k)
		}
		for addr := uint64(data); addr < data+uint64(len(mem)); addr += 8 {
			v, known := one.Load(addr, 8)
			w, also := other.Load(addr, 8)
			if known != also || known && v != w {
				t.Fatalf("%+v: at %#x %#x, otherwise %#x", insts, addr, v, w)
			}
		}
		for op := range code.Ops {
			ran[code.Ops[op].quick]++
		}
	}
	for q := quick(1); q <= quickCallMem; q++ {
		if ran[q] < 20 {
			t.Errorf("of form %d there were %d", q, ran[q])
		}
	}
}

// randomInst returns one of the usual operations, or one that is much like it, as the at-th of a program of n.
func randomInst(rand *rand.Rand, pick func(...uint8) uint8, at, n int) Inst {
	in := Inst{Op: Op{Size: pick(1, 2, 4, 4, 8, 8, 8), Base: X86NoReg, Index: X86NoReg, Dst: uint8(rand.IntN(16)), Src: uint8(rand.IntN(16)), Imm: int64(rand.Uint64()) >> rand.IntN(64)}}
	in.Kind = Kind(pick(uint8(X86Nop), uint8(X86Mov), uint8(X86Mov), uint8(X86Movzx), uint8(X86Movsx), uint8(X86Lea), uint8(X86Add), uint8(X86Sub), uint8(X86And), uint8(X86Or), uint8(X86Xor),
		uint8(X86Cmp), uint8(X86Cmp), uint8(X86Test), uint8(X86Shl), uint8(X86Shr), uint8(X86Sar), uint8(X86Cmov), uint8(X86Setcc), uint8(X86Push), uint8(X86Pop), uint8(X86Inc),
		uint8(CondJump), uint8(CondJump), uint8(Jump), uint8(Call), uint8(Ret), uint8(JumpInd), uint8(CallInd)))
	in.Cond = uint8(rand.IntN(16))
	memory := func() {
		in.Flags |= X86HasMem
		in.Base, in.Index, in.Scale, in.Disp = pick(rsp, rsi, rdi, 9, X86NoReg, X86BaseImage), pick(rax, 10, X86NoReg, X86NoReg, X86NoReg, X86NoReg), uint8(rand.IntN(4)), int32(rand.IntN(0x100))
		switch in.Base {
		case X86NoReg:
			in.Disp += 0x1800
		case X86BaseImage:
			in.Disp = int32(rand.IntN(2)*-0x200 + 0x100)
		}
		if rand.IntN(16) == 0 {
			in.Flags |= X86FS
		}
	}
	source := func(memorySource bool) {
		in.Flags |= X86ReadsSrc
		switch rand.IntN(3) {
		case 0:
			in.Src = X86Imm
		case 1:
			if memorySource {
				in.Src = X86Mem
				memory()
			}
		}
	}
	destination := func(f Flags) {
		if in.Flags |= f; in.Src != X86Mem && rand.IntN(4) == 0 {
			in.Dst = X86Mem
			memory()
		}
	}
	target := func() { in.Target = linked + 4*uint64(at+1+rand.IntN(n-at)) }
	switch in.Kind {
	case X86Nop:
		in.Dst, in.Src = X86None, X86None
	case X86Mov:
		source(true)
		destination(X86WritesDst)
	case X86Movzx, X86Movsx:
		source(true)
		if in.Src == X86Imm {
			in.Src = rax
		}
		in.Size, in.Cond = pick(1, 2, 4), pick(2, 4, 8)
		in.Flags |= X86WritesDst
	case X86Lea:
		memory()
		in.Flags |= X86WritesDst
		in.Src = X86Mem
	case X86Add, X86Sub, X86And, X86Or, X86Xor:
		source(true)
		destination(X86ReadsDst | X86WritesDst)
	case X86Cmp, X86Test:
		source(true)
		destination(X86ReadsDst)
	case X86Shl, X86Shr, X86Sar:
		source(false)
		destination(X86ReadsDst | X86WritesDst)
	case X86Inc:
		in.Src = X86None
		destination(X86ReadsDst | X86WritesDst)
	case X86Cmov:
		in.Size = max(in.Size, 2)
		in.Flags |= X86ReadsSrc | X86ReadsDst | X86WritesDst
	case X86Setcc:
		in.Size, in.Src = 1, X86None
		destination(X86WritesDst)
	case X86Push:
		in.Size, in.Dst = 8, X86None
		source(false)
	case X86Pop:
		in.Size, in.Src, in.Base, in.Flags = 8, X86Mem, rsp, X86HasMem|X86ReadsSrc|X86WritesDst
	case Ret:
		in.Size, in.Dst, in.Src, in.Base, in.Flags, in.Cond = 8, X86None, X86Mem, rsp, X86HasMem|X86ReadsSrc, 8*pick(0, 1)
	case CondJump, Jump, Call:
		in.Dst, in.Src = X86None, X86None
		target()
	case JumpInd, CallInd:
		in.Size, in.Dst = 8, X86None
		if source(true); in.Src == X86Imm {
			in.Src = rdx
		}
	}
	return in
}
