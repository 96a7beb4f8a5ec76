package image

import (
	"slices"
	"testing"
)

// TestPoints: a procedure of Haskell goes on at places that it stores in memory, behind tables. The linear scan of the
// second one's table hides the instruction that stores the third's address, which is found as the second is decoded.
func TestPoints(t *testing.T) {
	const table = "\x41\x00\x00\x00\x00\x00\x00\x00\x1e\x00\x00\x00\x00\x00\x00\x00"
	code := "\x48\xc7\x45\x00\x1c\x10\x40\x00" + "\x41\xff\x65\xf8" + // movq $0x40101c,0(%rbp); jmp *-8(%r13)
		table +
		"\x48\xc7\x45\x00\x37\x10\x40\x00" + "\xff\x65\x00" + // 0x1c: movq $0x401037,0(%rbp); jmp *0(%rbp)
		table +
		"\x48\x83\xc5\x10\xff\x65\x00" // 0x37: add $16,%rbp; jmp *0(%rbp)
	im := codeImage(X86_64, []byte(code), nil)
	p, err := im.Proc(0)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Check(); err != nil {
		t.Error(err)
	}
	var got []Addr
	for i := range p.Blocks {
		got = append(got, p.Blocks[i].Start-testBase, p.Blocks[i].End-testBase)
	}
	if want := []Addr{0, 0xc, 0x1c, 0x27, 0x37, 0x3e}; !slices.Equal(got, want) {
		t.Errorf("blocks %#x, want %#x", got, want)
	}
	if want := []int{0, 1, 2}; !slices.Equal(p.Entries, want) {
		t.Errorf("entries %v, want %v", p.Entries, want)
	}
	if p.torn {
		t.Error("tables are taken for code: ", p.Why)
	}
}
