package trace

import (
	"encoding/hex"
	"hash/crc32"
	"math"
	"math/big"
	"math/rand/v2"
	"testing"
)

// lane16Of reads 16 bytes as manuals write them, first byte first.
func lane16Of(t *testing.T, text string) lane16 {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return laneOf((*[16]byte)(b))
}

// TestAES: the second round of the example in appendix B of FIPS 197, and back.
func TestAES(t *testing.T) {
	state, key := lane16Of(t, "193de3bea0f4e22b9ac68d2ae9f84808"), lane16Of(t, "a0fafe1788542cb123a339392a6c7605")
	want := lane16Of(t, "a49c7ff2689f352b6b5bea43026a5049")
	if got := aes(X86AESEnc, state, key); got != want {
		t.Errorf("got %x, want %x", got, want)
	}
	// Without the mixing of columns, a round with a key of 0 is undone by the reverse.
	last := aes(X86AESEncLast, state, lane16{})
	if got := aes(X86AESDecLast, last, lane16{}); got != state {
		t.Errorf("got %x back, want %x", got, state)
	}
}

func TestCRC32(t *testing.T) {
	const text = "123456789"
	crc := uint32(math.MaxUint32)
	for _, b := range []byte(text) {
		crc = uint32(crc32c(crc, uint64(b), 1))
	}
	if want := crc32.Checksum([]byte(text), crc32.MakeTable(crc32.Castagnoli)); ^crc != want {
		t.Errorf("got %#x, want %#x", ^crc, want)
	}
}

// TestFuse: a product and a sum are rounded once.
func TestFuse(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 100000 {
		n := func() float32 { return float32(math.Ldexp(1+r.Float64(), r.IntN(40)-20)) * float32(1-2*r.IntN(2)) }
		a, b, c := n(), n(), n()
		exact := new(big.Float).SetPrec(500).Mul(big.NewFloat(float64(a)), big.NewFloat(float64(b)))
		exact.SetPrec(500).Add(exact, big.NewFloat(float64(c)))
		want, _ := exact.Float32()
		if got := math.Float32frombits(fuse32(math.Float32bits(a), math.Float32bits(b), math.Float32bits(c))); got != want {
			t.Fatalf("%g * %g + %g: got %g, want %g", a, b, c, got, want)
		}
	}
}

// TestNone: what is no number comes of the first source, or else of the second, or is the processor's own.
func TestNone(t *testing.T) {
	one, quiet, loud := math.Float64bits(1), uint64(0x7ff8<<48|5), uint64(0xfff0<<48|7)
	inf := math.Float64bits(math.Inf(1))
	for _, tt := range []struct {
		what       X86What
		v, w, want uint64
	}{
		{X86FAdd, one, quiet, quiet},
		{X86FAdd, loud, quiet, loud | 1<<51},
		{X86FMul, quiet, loud, quiet},
		{X86FSub, inf, inf, none64},
		{X86FMin, quiet, one, one},
		{X86FMin, one, quiet, quiet},
		{X86FMax, 1 << 63, 0, 0},
		{X86FSqrt, 0, math.Float64bits(-1), none64},
	} {
		if got := floatOf(tt.what, tt.v, tt.w, 0); got != tt.want {
			t.Errorf("%d of %#x and %#x: %#x, want %#x", tt.what, tt.v, tt.w, got, tt.want)
		}
	}
}

// TestRaised: MXCSR is known after arithmetic that can only round, and not after what may be an exception.
func TestRaised(t *testing.T) {
	const rounded = 0x1fa0
	for _, tt := range []struct {
		name  string
		what  X86What
		v, w  float64
		mxcsr uint32
		known bool
	}{
		{"a third", X86FDiv, 1, 3, rounded, true},
		{"the first that is rounded", X86FDiv, 1, 3, 0x1f80, false},
		{"by 0", X86FDiv, 1, 0, rounded, false},
		{"too large", X86FMul, 1e300, 1e300, rounded, false},
		{"too small", X86FMul, 1e-300, 1e-300, rounded, false},
		{"0 exactly", X86FSub, 2, 2, rounded, true},
		{"denormal", X86FAdd, 5e-324, 1, rounded, false},
	} {
		op := Op{Kind: X86Vscalar, Size: 8, Dst: 0, Src: 1, Base: X86NoReg, Index: X86NoReg, Imm: X86Detail{What: tt.what, Elem: 8}.Pack()}
		code, space := program(Inst{Op: op}, Inst{})
		st := &State{PC: linked + bias, Words: 2, MXCSR: tt.mxcsr}
		st.Vectors[0][0], st.Vectors[1][0] = math.Float64bits(tt.v), math.Float64bits(tt.w)
		m := NewMachine(code)
		if l, err := m.Run(st, space, flat(nil), Limits{Steps: 1}); err != nil || l.Steps != 1 {
			t.Fatal(l, err)
		}
		var now State
		if k := m.State(&now); k.MXCSR != tt.known || k.Vectors[0]&3 != 3 {
			t.Errorf("%s: MXCSR known %v, want %v; words %b", tt.name, k.MXCSR, tt.known, k.Vectors[0])
		}
	}
}

// TestDetail: what is packed comes back, and Short leaves what the emulator in the kernel knows as it is.
func TestDetail(t *testing.T) {
	d := X86Detail{Imm: 0xa5, What: X86TestNone, VEX: true, Broadcast: true, Zero: true, Mask: 7, Elem: 8, Unary: true}
	if got := (&Op{Imm: d.Pack()}).detail(); got != d {
		t.Errorf("got %+v, want %+v", got, d)
	}
	known := Op{Kind: X86Vaddq, Size: 16, Dst: 3, Src: 4, Cond: 3}
	if got := known.Short(); got != known {
		t.Errorf("got %+v, want %+v", got, known)
	}
	for kind := X86Long + 1; kind <= X86Fcw; kind++ {
		if got := (Op{Kind: kind}).Short(); got.Kind != X86Clobber && got.Kind != Stop {
			t.Errorf("kind %d: got %+v", kind, got)
		}
	}
}
