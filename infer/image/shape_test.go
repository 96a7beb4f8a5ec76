package image

import "testing"

// TestShapes: instructions are alike if they differ in addresses alone.
func TestShapes(t *testing.T) {
	shape := func(arch Arch, code string, last int) uint64 {
		b := hexBytes(t, code)
		im := codeImage(arch, b, []byte("data"))
		blk := &Block{Start: testBase, End: testBase + Addr(len(b))}
		blk.Insts = len(im.Insts(blk))
		shapes := im.Shapes(&Proc{Blocks: []Block{*blk}})[0]
		if len(shapes) != last+1 {
			t.Fatalf("%s: %d instructions, want %d", code, len(shapes), last+1)
		}
		return shapes[last]
	}
	for _, tt := range []struct {
		name string
		arch Arch
		last int // the instruction that is compared
		a, b string
		same bool
	}{
		{"registers", X86_64, 0, "48 89 c8", "48 89 c1", false},
		{"constants", X86_64, 0, "83 c0 01", "83 c0 02", false},
		{"operand size", X86_64, 0, "89 c8", "48 89 c8", false},
		{"displacements", X86_64, 0, "48 8b 44 24 08", "48 8b 44 24 10", false},
		{"data", X86_64, 0, "48 8b 05 10 00 00 00", "48 8b 05 20 00 00 00", true},
		{"data and a constant", X86_64, 0, "c7 05 10 00 00 00 01 00 00 00", "c7 05 10 00 00 00 02 00 00 00", false},
		{"an absolute address", X86_64, 0, "bf 01 10 40 00", "bf 02 10 40 00", true},
		{"callees", X86_64, 0, "e8 10 00 00 00", "e8 20 00 00 00", true},
		{"jumps, short and long", X86_64, 0, "74 10", "0f 84 20 00 00 00", true},
		{"conditions", X86_64, 0, "74 10", "75 10", false},
		{"VEX sources", X86_64, 0, "c5 f5 fe c2", "c5 ed fe c2", false},
		{"registers", AArch64, 0, "20 00 02 8b", "20 00 03 8b", false},
		{"constants", AArch64, 0, "20 04 00 91", "20 08 00 91", false},
		{"callees", AArch64, 0, "10 00 00 94", "20 00 00 94", true},
		{"conditional jumps", AArch64, 0, "40 00 00 54", "60 00 00 54", true},
		{"conditions", AArch64, 0, "40 00 00 54", "41 00 00 54", false},
		{"tested bits", AArch64, 0, "20 00 00 36", "20 00 08 36", false},
		{"pages", AArch64, 0, "01 00 00 b0", "01 00 00 d0", true},
		{"low bits of an address", AArch64, 1, "01 00 00 b0 20 04 00 91", "01 00 00 b0 20 08 00 91", true},
		{"low bits after another write", AArch64, 2, "01 00 00 b0 21 00 02 8b 20 04 00 91", "01 00 00 b0 21 00 02 8b 20 08 00 91", false},
	} {
		if same := shape(tt.arch, tt.a, tt.last) == shape(tt.arch, tt.b, tt.last); same != tt.same {
			t.Errorf("%s, %s: %s and %s alike is %v", tt.arch, tt.name, tt.a, tt.b, same)
		}
	}
}

// TestShapesAcross: an address whose page was made in another block is no constant, unless a call
// may have overwritten its register.
func TestShapesAcross(t *testing.T) {
	shape := func(code string, cut ...int) uint64 {
		b := hexBytes(t, code)
		im := codeImage(AArch64, b, []byte("data"))
		p := &Proc{}
		for i, off := range append(cut, len(b)) {
			from := 0
			if i > 0 {
				from = cut[i-1]
				p.Blocks[i-1].Out = []int{i - 1}
				p.Edges = append(p.Edges, Edge{From: i - 1, To: i})
			}
			p.Blocks = append(p.Blocks, Block{Start: testBase + Addr(from), End: testBase + Addr(off), Insts: (off - from) / 4})
		}
		shapes := im.Shapes(p)
		return shapes[len(shapes)-1][0]
	}
	const page, b, call, load8, load16 = "14 00 00 b0", "01 00 00 14", "10 00 00 94", "81 06 40 f9", "81 0a 40 f9"
	if shape(page+" "+b+" "+load8, 8) != shape(page+" "+b+" "+load16, 8) {
		t.Error("low bits behind a jump are a constant")
	}
	if shape(b+" "+b+" "+load8, 8) == shape(b+" "+b+" "+load16, 8) {
		t.Error("a constant is none")
	}
	const page1, load8of1, load16of1 = "01 00 00 b0", "21 04 40 f9", "21 08 40 f9"
	if shape(page1+" "+call+" "+load8of1, 8) == shape(page1+" "+call+" "+load16of1, 8) {
		t.Error("a register that a call overwrites holds a page")
	}
}

// TestLinkedShapes: linkers make an address by ADR, or by ADRP and ADD.
func TestLinkedShapes(t *testing.T) {
	shapes := func(code string) []uint64 {
		b := hexBytes(t, code)
		im := codeImage(AArch64, b, []byte("data"))
		return im.LinkedShapes(&Proc{Blocks: []Block{{Start: testBase, End: testBase + Addr(len(b)), Insts: len(b) / 4}}})[0]
	}
	two, one, other := shapes("01 00 00 b0 21 04 00 91"), shapes("1f 20 03 d5 81 38 00 10"), shapes("1f 20 03 d5 82 38 00 10")
	if two[0] != 0 || two[1] != one[1] || two[1] == other[1] {
		t.Errorf("adrp, add: %x; nop, adr: %x; the same to another register: %x", two, one, other)
	}
	if stack := shapes("e1 07 40 f9 e1 0b 40 f9"); stack[0] == stack[1] {
		t.Error("two places on the stack are one")
	}
}
