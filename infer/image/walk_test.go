package image

import "testing"

// walkCode returns the operation of the instruction that code begins with, at 0x1000.
func walkCode(code string) (WalkOp, Inst) {
	var d x86
	b := []byte(code)
	in := d.inst(b, 0x1000)
	return d.walk(b[:in.Len], in), in
}

func TestWalk(t *testing.T) {
	const (
		none   = WalkNone
		modify = WalkReadsDst | WalkWritesDst | WalkReadsSrc
		flags  = 1 << 16 // of what is clobbered
	)
	for _, tt := range []struct {
		text, code string
		want       WalkOp // but for Addr; Base and Index are meant one higher: 0 is none
	}{
		{"add %edx,%eax", "\x01\xd0", WalkOp{Kind: walkAdd, Size: 4, Dst: rax, Src: rdx, Flags: modify}},
		{"add (%rdi,%rcx,4),%r8", "\x4c\x03\x04\x8f", WalkOp{Kind: walkAdd, Size: 8, Dst: 8, Src: WalkMem, Base: rdi + 1, Index: rcx + 1, Scale: 2, Flags: modify | WalkHasMem}},
		{"cmpb $-1,0x10(%rip)", "\x80\x3d\x10\x00\x00\x00\xff", WalkOp{Kind: walkCmp, Size: 1, Dst: WalkMem, Src: WalkImm, Base: WalkImage + 1, Disp: 0x1017, Imm: -1, Flags: WalkReadsDst | WalkReadsSrc | WalkHasMem}},
		{"mov %fs:0x28,%rax", "\x64\x48\x8b\x04\x25\x28\x00\x00\x00", WalkOp{Kind: walkMov, Size: 8, Dst: rax, Src: WalkMem, Disp: 0x28, Flags: walkMove | WalkHasMem | WalkFS}},
		{"mov %gs:0x28,%rax", "\x65\x48\x8b\x04\x25\x28\x00\x00\x00", WalkOp{Kind: WalkStop, Size: 8, Dst: none, Src: none, Disp: 0x28}},
		{"mov %sil,%dl", "\x40\x88\xf2", WalkOp{Kind: walkMov, Size: 1, Dst: rdx, Src: rsi, Flags: walkMove}},
		{"mov %dh,%dl", "\x88\xf2", WalkOp{Kind: walkClobber, Size: 1, Dst: none, Src: none, Imm: 1 << rdx}},
		{"movswq %ax,%rdx", "\x48\x0f\xbf\xd0", WalkOp{Kind: walkMovsx, Size: 2, Cond: 8, Dst: rdx, Src: rax, Flags: walkMove}},
		{"je", "\x74\x10", WalkOp{Kind: WalkCondJump, Target: 0x1012, Size: 1, Cond: 4, Dst: none, Src: none}},
		{"call", "\xe8\x10\x00\x00\x00", WalkOp{Kind: WalkCall, Target: 0x1015, Size: 1, Dst: none, Src: none, Imm: 0x1005}},
		{"ret", "\xc3", WalkOp{Kind: WalkRet, Size: 8, Dst: none, Src: WalkMem, Base: rsp + 1, Flags: WalkReadsSrc | WalkHasMem}},
		{"rep movsb", "\xf3\xa4", WalkOp{Kind: WalkStop, Dst: none, Src: none}},
		{"syscall", "\x0f\x05", WalkOp{Kind: WalkStop}},
		{"pushw $5", "\x66\x6a\x05", WalkOp{Kind: WalkStop}},
		{"cmpxchg %edx,%ecx", "\x0f\xb1\xd1", WalkOp{Kind: walkClobber, Size: 4, Dst: none, Src: none, Imm: flags | 1<<rax | 1<<rcx}},
		{"mul %dl", "\xf6\xe2", WalkOp{Kind: walkClobber, Size: 1, Dst: none, Src: none, Imm: flags | 1<<rax | 1<<rdx}},
		{"lahf", "\x9f", WalkOp{Kind: walkClobber, Size: 4, Dst: none, Src: none, Imm: 1 << rax}},
		{"xlat", "\xd7", WalkOp{Kind: walkClobber, Size: 4, Dst: none, Src: none, Imm: 1 << rax}},
		{"movabs 0,%rax", "\x48\xa1\x00\x00\x00\x00\x00\x00\x00\x00", WalkOp{Kind: walkClobber, Size: 8, Dst: none, Src: none, Imm: 1 << rax}},
		{"fcomip", "\xdf\xf1", WalkOp{Kind: walkClobber, Size: 4, Dst: none, Src: none, Imm: flags}},
		{"vzeroall", "\xc5\xfc\x77", WalkOp{Kind: walkClobber, Size: 4, Dst: none, Src: none, Imm: 0xffff << 32}},
		{"maskmovdqu", "\x66\x0f\xf7\xc1", WalkOp{Kind: WalkStop}},
		{"movntq %mm0,(%rdi)", "\x0f\xe7\x07", WalkOp{Kind: walkClobber, Size: 64, Dst: WalkMem, Src: none, Base: rdi + 1, Flags: WalkHasMem | WalkWritesDst}},
		{"mov %eax,(%edi)", "\x67\x89\x07", WalkOp{Kind: WalkStop}},
		{"psrldq $33,%xmm1", "\x66\x0f\x73\xd9\x21", WalkOp{Kind: walkVshift, Size: 16, Dst: 1, Src: none, Cond: 1, Imm: 16}},
		{"vpxor (%rdi),%xmm1,%xmm2", "\xc5\xf1\xef\x17", WalkOp{Kind: walkVxor, Size: 16, Dst: 2, Src: none, Cond: 1, Base: rdi + 1, Imm: 1, Flags: WalkHasMem}},
		{"vmovdqu64 %zmm0,0x40(%rdi)", "\x62\xf1\xfe\x48\x7f\x47\x01", WalkOp{Kind: walkClobber, Size: 64, Dst: WalkMem, Src: none, Base: rdi + 1, Disp: 64, Flags: WalkHasMem | WalkWritesDst}},
		{"vmovsd %xmm0,8(%rdi)", "\x62\xf1\xff\x08\x11\x47\x01", WalkOp{Kind: WalkStop}},
	} {
		got, in := walkCode(tt.code)
		want := tt.want
		want.Addr = got.Addr
		if want.Base--; tt.want.Base == 0 {
			want.Base = WalkNoReg
		}
		if want.Index--; tt.want.Index == 0 {
			want.Index = WalkNoReg
		}
		if got.Kind == WalkStop && want.Kind == WalkStop { // the rest is for nobody
			got = want
		}
		if got.Kind == walkClobber && got.Dst != WalkMem { // nobody asks for the size
			got.Size = want.Size
		}
		if in.Len != len(tt.code) || got != want {
			t.Errorf("%s: %d bytes\n got %+v\nwant %+v", tt.text, in.Len, got, want)
		}
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
		o, _ := walkCode(string(b))
		if o.Kind == WalkStop {
			return
		}
		switch {
		case o.Kind > walkVaddq:
			t.Fatalf("% x: kind %d", b, o.Kind)
		case o.Dst > WalkNone || o.Src > WalkNone || o.Base > WalkImage || o.Index > WalkNoReg || o.Scale > 3:
			t.Fatalf("% x: no such operands: %+v", b, o)
		case o.Dst == WalkImm || o.Flags&WalkWritesDst != 0 && o.Dst == WalkNone:
			t.Fatalf("% x: writes to nowhere: %+v", b, o)
		case (o.Dst == WalkMem || o.Src == WalkMem) && o.Flags&WalkHasMem == 0:
			t.Fatalf("% x: no memory operand: %+v", b, o)
		}
		if o.Kind == walkClobber {
			if o.Size > 64 {
				t.Fatalf("% x: writes %d bytes", b, o.Size)
			}
			return
		}
		// What is read into one register of the emulator is no longer than it.
		if o.Flags&(WalkReadsDst|WalkReadsSrc) != 0 && (o.Size > 8 || o.Size&(o.Size-1) != 0 || o.Size == 0) {
			t.Fatalf("% x: operands of %d bytes: %+v", b, o.Size, o)
		}
		if o.Size > 32 {
			t.Fatalf("% x: operands of %d bytes: %+v", b, o.Size, o)
		}
	})
}
