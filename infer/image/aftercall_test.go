package image

import "testing"

// TestAfterCall: what follows a call is a return address, and what stands within one or anywhere else mostly none.
func TestAfterCall(t *testing.T) {
	for _, path := range []string{"testdata/elf/x86.elf", "../../testdata/mix/mix", "testdata/elf/arm.elf"} {
		im := openTest(t, path)
		after, calls := map[Addr]bool{}, 0
		for i := range im.Symbols() {
			p, err := im.Proc(i)
			if err != nil {
				continue
			}
			for k := range p.Blocks {
				for _, in := range im.Insts(&p.Blocks[k]) {
					after[in.Addr+Addr(in.Len)] = in.Class&(DirCall|IndCall) != 0
				}
			}
		}
		chance := 0
		for a, call := range after {
			switch got := im.AfterCall(a); {
			case call && !got:
				t.Errorf("%s: %#x is after a call", path, a)
			case call:
				calls++
			case got:
				chance++
			}
		}
		if calls == 0 || chance > calls {
			t.Errorf("%s: %d calls, and %d places that are after none", path, calls, chance)
		}
	}
}
