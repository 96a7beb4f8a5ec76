package image

import (
	"testing"

	"backfeed/sample/trace"
)

// walkCode returns the operation of the instruction that code begins with, at 0x1000.
func walkCode(code string) (trace.Op, Inst) {
	var d x86
	b := []byte(code)
	in := d.inst(b, 0x1000)
	return d.walk(b[:in.Len], in), in
}

func TestWalk(t *testing.T) {
	const (
		none   = trace.X86None
		modify = trace.X86ReadsDst | trace.X86WritesDst | trace.X86ReadsSrc
		flags  = 1 << 16 // of what is clobbered
	)
	for _, tt := range []struct {
		text, code string
		want       trace.Op // Base and Index are meant one higher: 0 is none
	}{
		{"add %edx,%eax", "\x01\xd0", trace.Op{Kind: trace.X86Add, Size: 4, Dst: rax, Src: rdx, Flags: modify}},
		{"add (%rdi,%rcx,4),%r8", "\x4c\x03\x04\x8f", trace.Op{Kind: trace.X86Add, Size: 8, Dst: 8, Src: trace.X86Mem, Base: rdi + 1, Index: rcx + 1, Scale: 2, Flags: modify | trace.X86HasMem}},
		{"cmpb $-1,0x10(%rip)", "\x80\x3d\x10\x00\x00\x00\xff", trace.Op{Kind: trace.X86Cmp, Size: 1, Dst: trace.X86Mem, Src: trace.X86Imm, Base: trace.X86BaseImage + 1, Disp: 0x1017, Imm: -1, Flags: trace.X86ReadsDst | trace.X86ReadsSrc | trace.X86HasMem}},
		{"mov %fs:0x28,%rax", "\x64\x48\x8b\x04\x25\x28\x00\x00\x00", trace.Op{Kind: trace.X86Mov, Size: 8, Dst: rax, Src: trace.X86Mem, Disp: 0x28, Flags: walkMove | trace.X86HasMem | trace.X86FS}},
		{"mov %gs:0x28,%rax", "\x65\x48\x8b\x04\x25\x28\x00\x00\x00", trace.Op{Kind: trace.Stop, Size: 8, Dst: none, Src: none, Disp: 0x28}},
		{"mov %sil,%dl", "\x40\x88\xf2", trace.Op{Kind: trace.X86Mov, Size: 1, Dst: rdx, Src: rsi, Flags: walkMove}},
		{"mov %dh,%dl", "\x88\xf2", trace.Op{Kind: trace.X86Clobber, Size: 1, Dst: none, Src: none, Imm: 1 << rdx}},
		{"movswq %ax,%rdx", "\x48\x0f\xbf\xd0", trace.Op{Kind: trace.X86Movsx, Size: 2, Cond: 8, Dst: rdx, Src: rax, Flags: walkMove}},
		{"je", "\x74\x10", trace.Op{Kind: trace.CondJump, Size: 1, Cond: 4, Dst: none, Src: none}},
		{"call", "\xe8\x10\x00\x00\x00", trace.Op{Kind: trace.Call, Size: 1, Dst: none, Src: none, Imm: 0x1005}},
		{"ret", "\xc3", trace.Op{Kind: trace.Ret, Size: 8, Dst: none, Src: trace.X86Mem, Base: rsp + 1, Flags: trace.X86ReadsSrc | trace.X86HasMem}},
		{"rep movsb", "\xf3\xa4", trace.Op{Kind: trace.Stop, Dst: none, Src: none}},
		{"syscall", "\x0f\x05", trace.Op{Kind: trace.Stop}},
		{"pushw $5", "\x66\x6a\x05", trace.Op{Kind: trace.Stop}},
		{"cmpxchg %edx,%ecx", "\x0f\xb1\xd1", trace.Op{Kind: trace.X86Clobber, Size: 4, Dst: none, Src: none, Imm: flags | 1<<rax | 1<<rcx}},
		{"mul %dl", "\xf6\xe2", trace.Op{Kind: trace.X86Clobber, Size: 1, Dst: none, Src: none, Imm: flags | 1<<rax | 1<<rdx}},
		{"lahf", "\x9f", trace.Op{Kind: trace.X86Clobber, Size: 4, Dst: none, Src: none, Imm: 1 << rax}},
		{"xlat", "\xd7", trace.Op{Kind: trace.X86Clobber, Size: 4, Dst: none, Src: none, Imm: 1 << rax}},
		{"movabs 0,%rax", "\x48\xa1\x00\x00\x00\x00\x00\x00\x00\x00", trace.Op{Kind: trace.X86Clobber, Size: 8, Dst: none, Src: none, Imm: 1 << rax}},
		{"fcomip", "\xdf\xf1", trace.Op{Kind: trace.X86Clobber, Size: 4, Dst: none, Src: none, Imm: flags}},
		{"vzeroall", "\xc5\xfc\x77", trace.Op{Kind: trace.X86Clobber, Size: 4, Dst: none, Src: none, Imm: 0xffff << 32}},
		{"kmovd %k0,%r8d", "\xc5\x7b\x93\xc0", trace.Op{Kind: trace.X86Clobber, Dst: none, Src: none, Imm: 1 << 8}},
		{"kortestd %k0,%k1", "\xc4\xe1\xf9\x98\xc8", trace.Op{Kind: trace.X86Clobber, Dst: none, Src: none, Imm: flags}},
		{"maskmovdqu", "\x66\x0f\xf7\xc1", trace.Op{Kind: trace.Stop}},
		{"movntq %mm0,(%rdi)", "\x0f\xe7\x07", trace.Op{Kind: trace.X86Clobber, Size: 64, Dst: trace.X86Mem, Src: none, Base: rdi + 1, Flags: trace.X86HasMem | trace.X86WritesDst}},
		{"mov %eax,(%edi)", "\x67\x89\x07", trace.Op{Kind: trace.Stop}},
		{"psrldq $33,%xmm1", "\x66\x0f\x73\xd9\x21", trace.Op{Kind: trace.X86Vshift, Size: 16, Dst: 1, Src: none, Cond: 1, Imm: 16}},
		{"shufpd $1,%xmm2,%xmm2", "\x66\x0f\xc6\xd2\x01", trace.Op{Kind: trace.X86Vshufd, Size: 16, Dst: 2, Src: 2, Imm: 0x4e}},
		{"shufpd $3,%xmm1,%xmm2", "\x66\x0f\xc6\xd1\x03", trace.Op{Kind: trace.X86Vunpack, Size: 16, Dst: 2, Src: 1, Cond: 2, Imm: 8 | 1<<8}},
		{"shufpd $1,%xmm1,%xmm2", "\x66\x0f\xc6\xd1\x01", trace.Op{Kind: trace.X86Clobber, Dst: none, Src: none, Imm: 1 << 34}},
		{"shufps $0x1b,%xmm2,%xmm2", "\x0f\xc6\xd2\x1b", trace.Op{Kind: trace.X86Vshufd, Size: 16, Dst: 2, Src: 2, Imm: 0x1b}},
		{"movhlps %xmm1,%xmm2", "\x0f\x12\xd1", trace.Op{Kind: trace.X86Vunpack, Size: 16, Dst: 2, Src: 2, Cond: 1, Imm: 8 | 1<<8}},
		{"vpxor (%rdi),%xmm1,%xmm2", "\xc5\xf1\xef\x17", trace.Op{Kind: trace.X86Vxor, Size: 16, Dst: 2, Src: none, Cond: 1, Base: rdi + 1, Imm: 1, Flags: trace.X86HasMem}},
		{"vmovdqu64 %zmm0,0x40(%rdi)", "\x62\xf1\xfe\x48\x7f\x47\x01", trace.Op{Kind: trace.X86Clobber, Size: 64, Dst: trace.X86Mem, Src: none, Base: rdi + 1, Disp: 64, Flags: trace.X86HasMem | trace.X86WritesDst}},
		{"vmovsd %xmm0,8(%rdi)", "\x62\xf1\xff\x08\x11\x47\x01", trace.Op{Kind: trace.Stop}},
	} {
		got, in := walkCode(tt.code)
		got = got.Short()
		want := tt.want
		if want.Base--; tt.want.Base == 0 {
			want.Base = trace.X86NoReg
		}
		if want.Index--; tt.want.Index == 0 {
			want.Index = trace.X86NoReg
		}
		if got.Kind == trace.Stop && want.Kind == trace.Stop { // the rest is for nobody
			got = want
		}
		if got.Kind == trace.X86Clobber && got.Dst != trace.X86Mem { // nobody asks for the size
			got.Size = want.Size
		}
		if in.Len != len(tt.code) || got != want {
			t.Errorf("%s: %d bytes\n got %+v\nwant %+v", tt.text, in.Len, got, want)
		}
	}
}

// A patterned memory can be read everywhere.
type patterned struct{}

func (patterned) Read(addr uint64, p []byte) bool {
	for i := range p {
		p[i] = byte(addr) ^ byte(i*167)
	}
	return true
}

// walkOnce has a Machine emulate one operation, and not more.
func walkOnce(t *testing.T, op trace.Op) {
	code := trace.NewCode([]trace.Image{{Procs: [][]trace.Inst{{{Op: op, Addr: 0x1000, Off: 0x1000}, {Addr: 0x1010, Off: 0x1010}}}}})
	st := &trace.State{PC: 0x1000, Words: 8, MXCSR: 0x1f80}
	for i := range st.Regs {
		st.Regs[i] = uint64(i) * 0x1003
	}
	for i := range st.Vectors {
		for j := range st.Vectors[i] {
			st.Vectors[i][j] = uint64(i+j) * 0x3ff0010203040506
		}
	}
	l, err := trace.NewMachine(code).Run(st, trace.Space{{Lo: 0x1000, Hi: 0x2000}}, patterned{}, trace.Limits{Steps: 1})
	if err != nil || l.Steps > 1 || l.Steps == 0 && l.End == trace.EndLength {
		t.Fatalf("%+v: %+v, %v", op, l, err)
	}
}

// FuzzWalk: any bytes give an operation that the emulator can take as it is.
func FuzzWalk(f *testing.F) {
	for _, code := range []string{"\x01\xd0", "\x4c\x03\x04\x8f", "\x64\x48\x8b\x04\x25\x28\x00\x00\x00", "\xc5\xf1\xef\x17", "\x62\xf1\xfe\x48\x7f\x47\x01",
		"\xc4\xe2\xfb\xf7\xd8", "\x66\x0f\x73\xd9\x21", "\x67\x89\x07", "\xd5\x08\x01\xd0"} {
		f.Add([]byte(code))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) == 0 {
			return
		}
		long, in := walkCode(string(b))
		walkOnce(t, long)
		o := long.Short()
		if o.Kind == trace.Stop {
			return
		}
		if long.Kind > trace.X86Long { // of what it is taken for in the kernel, all that it writes is not known
			var d x86
			d.inst(b, 0x1000)
			all := int64(1<<48 - 1)
			if long.Kind >= trace.X86Mask && long.Kind <= trace.X86MaskTest { // there taken for vector registers
				all = 1<<17 - 1
			}
			if u := d.walkUnknown(x86Op{}, b[:in.Len], in); u.Kind == trace.X86Clobber && u.Imm&^o.Imm&all != 0 {
				t.Fatalf("% x: does not say that it writes %#x, but %#x", b, u.Imm, o.Imm)
			}
		}
		switch {
		case o.Kind > trace.X86Vaddq:
			t.Fatalf("% x: kind %d", b, o.Kind)
		case o.Dst > trace.X86None || o.Src > trace.X86None || o.Base > trace.X86BaseImage || o.Index > trace.X86NoReg || o.Scale > 3:
			t.Fatalf("% x: no such operands: %+v", b, o)
		case o.Dst == trace.X86Imm || o.Flags&trace.X86WritesDst != 0 && o.Dst == trace.X86None:
			t.Fatalf("% x: writes to nowhere: %+v", b, o)
		case (o.Dst == trace.X86Mem || o.Src == trace.X86Mem) && o.Flags&trace.X86HasMem == 0:
			t.Fatalf("% x: no memory operand: %+v", b, o)
		}
		if o.Kind == trace.X86Clobber {
			if o.Size > 64 {
				t.Fatalf("% x: writes %d bytes", b, o.Size)
			}
			return
		}
		// What is read into one register of the emulator is no longer than it.
		if o.Flags&(trace.X86ReadsDst|trace.X86ReadsSrc) != 0 && (o.Size > 8 || o.Size&(o.Size-1) != 0 || o.Size == 0) {
			t.Fatalf("% x: operands of %d bytes: %+v", b, o.Size, o)
		}
		if o.Size > 32 {
			t.Fatalf("% x: operands of %d bytes: %+v", b, o.Size, o)
		}
	})
}
