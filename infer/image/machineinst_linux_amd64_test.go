package image

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/trace"
)

// setState makes that of the program st, all vector registers included.
func (s *stepped) setState(st *trace.State, xstate []byte) {
	var r syscall.PtraceRegs
	if err := syscall.PtraceGetRegs(s.pid, &r); err != nil {
		s.t.Fatal(err)
	}
	r.Rip, r.Eflags, r.Orig_rax = st.PC, st.Flags, ^uint64(0)
	for i, to := range []*uint64{&r.Rax, &r.Rcx, &r.Rdx, &r.Rbx, &r.Rsp, &r.Rbp, &r.Rsi, &r.Rdi, &r.R8, &r.R9, &r.R10, &r.R11, &r.R12, &r.R13, &r.R14, &r.R15} {
		*to = st.Regs[i]
	}
	if err := syscall.PtraceSetRegs(s.pid, &r); err != nil {
		s.t.Fatal(err)
	}
	put := func(off int, v uint64) { binary.LittleEndian.PutUint64(xstate[off:], v) }
	has := binary.LittleEndian.Uint64(xstate[464:])
	put(512, has&(7|7<<5))
	binary.LittleEndian.PutUint32(xstate[24:], st.MXCSR)
	masks := 832
	if len(xstate) >= 2688 {
		masks = 1088
	}
	for r := range 16 {
		put(160+16*r, st.Vectors[r][0])
		put(168+16*r, st.Vectors[r][1])
		if st.Words >= 4 {
			put(576+16*r, st.Vectors[r][2])
			put(584+16*r, st.Vectors[r][3])
		}
		if st.Words == 8 {
			put(masks+8*(r&7), st.Masks[r&7])
			for j := range 8 {
				if j >= 4 {
					put(masks+64+32*r+8*(j-4), st.Vectors[r][j])
				}
				put(masks+64+512+64*r+8*j, st.Vectors[16+r][j])
			}
		}
	}
	v := syscall.Iovec{Base: &xstate[0], Len: uint64(len(xstate))}
	if _, _, err := syscall.Syscall6(syscall.SYS_PTRACE, setregset, uintptr(s.pid), xstateNote, uintptr(unsafe.Pointer(&v)), 0, 0); err != 0 {
		s.t.Fatal(err)
	}
}

// anyWord returns a word that is as likely a small integer or a number as any.
func anyWord(r *rand.Rand) uint64 {
	floats := []float64{0, 1, -1, 1.5, 2.5, -0.5, 1e10, -3e9, 1e300, math.Inf(1), math.Inf(-1), math.NaN(), 5e-324, math.Copysign(0, -1), 9.3e18, 2147483648}
	one := func() uint32 {
		switch r.IntN(3) {
		case 0:
			return math.Float32bits(float32(floats[r.IntN(len(floats))]))
		case 1:
			return math.Float32bits(float32(r.NormFloat64() * 100))
		}
		return math.Float32bits(float32(r.IntN(100)))
	}
	switch r.IntN(8) {
	case 0:
		return uint64(r.IntN(70))
	case 1:
		return math.Float64bits(floats[r.IntN(len(floats))])
	case 2:
		return math.Float64bits(r.NormFloat64() * 1000)
	case 3:
		return uint64(one()) | uint64(one())<<32
	case 4:
		return uint64(r.IntN(2))*0xff00ff00ffff0000 | uint64(r.Uint32())
	case 5:
		return r.Uint64() & 0x8081807f01ff00fe
	}
	return r.Uint64()
}

// anyInst returns the bytes of what may be an instruction: any opcode in any encoding, of registers or of
// memory at %rsp.
func anyInst(r *rand.Rand) []byte {
	var b []byte
	op := byte(r.IntN(256))
	prefix := func() {
		if p := []byte{0, 0x66, 0xf3, 0xf2}[r.IntN(4)]; p != 0 {
			b = append(b, p)
		}
	}
	switch kind := r.IntN(12); kind {
	case 0, 1:
		if prefix(); r.IntN(2) == 0 {
			b = append(b, 0x40|byte(r.IntN(16)))
		}
	case 2, 3, 4:
		if prefix(); r.IntN(2) == 0 {
			b = append(b, 0x40|byte(r.IntN(16)))
		}
		b = append(b, [][]byte{{0x0f}, {0x0f, 0x38}, {0x0f, 0x3a}}[kind-2]...)
	case 5, 6, 7:
		b = append(b, 0xc4, byte(r.IntN(8))<<5&^0x40|0x40|byte(kind-4), byte(r.IntN(256)))
	default:
		m := byte(r.IntN(3) + 1)
		b = append(b, 0x62, byte(r.IntN(16))<<4&^0x40|0x40|m, byte(r.IntN(256))|4, byte(r.IntN(256)))
		if r.IntN(2) == 0 {
			b[3] &= 0x68 | 8 // without masks and broadcasts
		}
	}
	b = append(b, op)
	if r.IntN(3) == 0 {
		b = append(b, 0x44|byte(r.IntN(8))<<3, 0x24, byte(r.IntN(16))) // (%rsp) and a little more
	} else {
		b = append(b, 0xc0|byte(r.IntN(64)))
	}
	for range 8 {
		b = append(b, byte(r.IntN(256)))
	}
	return b
}

// A oneInst runs single instructions in a program and in a Machine.
type oneInst struct {
	*stepped
	pc, sp uint64
	xstate []byte
	rand   *rand.Rand
	ran    map[string]int
	wrong  []string
}

// try compares one instruction; it returns false where the processor refuses it.
func (s *oneInst) try(code []byte, op trace.Op, in Inst) bool {
	t := s.t
	s.wrong = nil
	const around = 256 // bytes of memory
	st := &trace.State{PC: s.pc, Flags: 0x202 | uint64(s.rand.IntN(0x1000))&0x8c5, MXCSR: 0x1f80 | uint32(s.rand.IntN(64)), FCW: 0x37f}
	was := s.state()
	s.vectors(was)
	st.Words, st.FSBase = was.Words, was.FSBase
	for i := range st.Regs {
		st.Regs[i] = anyWord(s.rand)
	}
	for i := range st.Vectors {
		for j := range st.Vectors[i] {
			st.Vectors[i][j] = anyWord(s.rand)
		}
	}
	for i := range st.Masks {
		st.Masks[i] = anyWord(s.rand)
	}
	st.Regs[4] = s.sp
	if d := code[0]; d >= 0xa4 && d <= 0xaf || len(code) > 1 && code[1] >= 0xa4 && code[1] <= 0xaf || in.Class&(Load|Store) != 0 && s.rand.IntN(2) == 0 {
		st.Regs[1], st.Regs[6], st.Regs[7] = uint64(s.rand.IntN(9)), s.sp+uint64(s.rand.IntN(64)), s.sp+uint64(s.rand.IntN(64))
		if s.rand.IntN(3) == 0 {
			st.Flags |= 0x400
			st.Regs[6] += 64
			st.Regs[7] += 64
		}
	}
	data := make([]byte, 2*around)
	for i := 0; i < len(data); i += 8 {
		binary.LittleEndian.PutUint64(data[i:], anyWord(s.rand))
	}
	if _, err := s.mem.WriteAt(data, int64(s.sp-around)); err != nil {
		t.Fatal(err)
	}
	if _, err := s.mem.WriteAt(code, int64(s.pc)); err != nil {
		t.Fatal(err)
	}
	s.setState(st, s.xstate)

	c := trace.NewCode([]trace.Image{{Procs: [][]trace.Inst{{{Op: op, Addr: s.pc, Off: 1}, {Addr: s.pc + uint64(in.Len), Off: 1 + sample.Offset(in.Len)}}}}})
	m := trace.NewMachine(c)
	l, err := m.Start(st, trace.Space{{Lo: s.pc &^ 4095, Hi: s.pc&^4095 + 4096}}, s, trace.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	m.Load(s.sp-around, 8) // its memory, before the processor changes it
	m.Load(s.sp+around-8, 8)
	m.More(1)
	if l.End != trace.EndLength {
		return true
	}
	next, ok := s.stepOver(s.pc)
	if !ok {
		// A signal is left out. It was refused, or a number is divided by 0.
		return false
	}
	s.vectors(next)
	name := fmt.Sprintf("kind %d", op.Kind)
	if op.Kind > trace.X86Long && op.Kind < trace.X86Highs {
		name += fmt.Sprintf(" what %d", op.Imm>>8&0xff)
	}
	var now trace.State
	known := m.State(&now)
	s.ran[name]++
	bad := func(format string, args ...any) {
		s.wrong = append(s.wrong, format)
		t.Errorf("% x (%s, %+v): %s", code[:in.Len], name, op, fmt.Sprintf(format, args...))
	}
	if next.PC != s.pc+uint64(in.Len) {
		bad("went to %#x", next.PC)
	}
	for i := range 16 {
		if known.Regs>>i&1 != 0 && now.Regs[i] != next.Regs[i] {
			bad("register %d is %#x, want %#x; was %#x", i, now.Regs[i], next.Regs[i], st.Regs[i])
		}
	}
	for i := range 32 {
		for j := range int(st.Words) {
			if (i < 16 || st.Words == 8) && known.Vectors[i]>>j&1 != 0 && now.Vectors[i][j] != next.Vectors[i][j] {
				bad("word %d of vector register %d is %#x, want %#x; was %#x", j, i, now.Vectors[i][j], next.Vectors[i][j], st.Vectors[i][j])
			}
		}
	}
	for i := range 8 {
		if st.Words == 8 && known.Masks>>i&1 != 0 && now.Masks[i] != next.Masks[i] {
			bad("mask register %d is %#x, want %#x; was %#x", i, now.Masks[i], next.Masks[i], st.Masks[i])
		}
	}
	if known.MXCSR && now.MXCSR != next.MXCSR {
		bad("MXCSR is %#x, want %#x; was %#x", now.MXCSR, next.MXCSR, st.MXCSR)
	}
	if f := definedFlags(op, st); known.Flags && (now.Flags^next.Flags)&f != 0 {
		bad("flags are %#x, want %#x of %#x; were %#x", now.Flags&f, next.Flags&f, f, st.Flags)
	}
	after := make([]byte, len(data))
	s.Read(s.sp-around, after)
	for i := range after {
		if v, k := m.Load(s.sp-around+uint64(i), 1); k && byte(v) != after[i] {
			bad("memory at %d is %#x, want %#x; was %#x", i-around, v, after[i], data[i])
			break
		}
	}
	return true
}

// definedFlags are those that an instruction leaves in a state that manuals tell.
func definedFlags(op trace.Op, st *trace.State) uint64 {
	const c, p, z, s, o = 1, 4, 64, 128, 2048
	switch op.Kind {
	case trace.X86Imul, trace.X86Imul3, trace.X86MulWide, trace.X86ImulWide, trace.X86MulByte:
		return c | o
	case trace.X86Shl, trace.X86Shr, trace.X86Sar, trace.X86Shld, trace.X86Shrd:
		n := uint64(op.Imm)
		if op.Src < 16 {
			n = st.Regs[op.Src]
		}
		if n &= 63; op.Size < 8 {
			n &= 31
		}
		if n >= 8*uint64(op.Size) {
			return p | z | s
		}
		if n > 1 {
			return c | p | z | s
		}
	case trace.X86Rol, trace.X86Ror:
		return c | p | z | s
	case trace.X86Bt, trace.X86Bts, trace.X86Btr, trace.X86Btc, trace.X86BitMem:
		return c
	case trace.X86Bsf, trace.X86Bsr, trace.X86CmpxchgTwo:
		return z
	case trace.X86Tzcnt, trace.X86Lzcnt:
		return c | z
	case trace.X86Andn:
		return c | z | s | o // parity is undefined: 0 on a Cascade Lake, as after AND on a Zen
	case trace.X86Bextr:
		return z
	case trace.X86Bzhi, trace.X86Blsr, trace.X86Blsi, trace.X86Blsmsk:
		return c | z | s
	}
	return c | p | z | s | o
}

// TestMachineInstructions holds what a Machine does for single instructions, of any registers and any memory, to
// what the processor does.
func TestMachineInstructions(t *testing.T) {
	testtool.Live(t, "steps through instructions")
	s := &oneInst{stepped: stepThrough(t, 0, testtool.Path(t, "true")), ran: map[string]int{}, rand: rand.New(rand.NewPCG(1, 2))}
	st := s.state()
	s.pc, s.sp = st.PC&^4095+1024, st.Regs[4]&^4095-1024
	s.vectors(st)
	s.xstate = slices.Clone(s.rawVectors())
	refused, failures := map[string]int{}, 0
	var d x86
	for range 250000 {
		code := anyInst(s.rand)
		in := d.inst(code, Addr(s.pc))
		if in.Len == 0 || in.Class&(Bad|System|Trap|CondJump|Jump|IndJump|DirCall|IndCall|Ret|Push) != 0 || bytes.Contains(code[:in.Len-1], []byte{0x64}) {
			continue
		}
		op := d.walk(code[:in.Len], in)
		if op.Kind == trace.Stop || op.Kind == trace.X86Clobber || op.Kind == trace.X86Unknown || op.Flags&trace.X86FS != 0 || op.Base == trace.X86BaseImage {
			continue
		}
		if op.Base < 16 && op.Base != rsp || op.Index < 16 {
			continue
		}
		if !s.try(code[:in.Len], op, in) {
			refused[fmt.Sprintf("%d", op.Kind)]++
		}
		if failures += len(s.wrong); failures > 10 {
			break
		}
	}
	t.Logf("refused: %v", refused)
	var all []string
	for name, n := range s.ran {
		all = append(all, fmt.Sprintf("%s: %d", name, n))
	}
	slices.Sort(all)
	if most := 150; len(all) < most {
		t.Errorf("%d kinds of operations ran, want %d", len(all), most)
	}
	t.Logf("%d kinds: %s", len(all), strings.Join(all, "; "))
}
