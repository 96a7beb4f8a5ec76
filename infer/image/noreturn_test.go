package image

import "testing"

func TestNamedNoReturn(t *testing.T) {
	for name, want := range map[string]bool{
		"abort": true, "exit": true, "__stack_chk_fail": true, "longjmp": true, "_Unwind_Resume": true,
		"_ZSt9terminatev": true, "_ZSt20__throw_length_errorPKc": true, "_ZSt24__throw_out_of_range_fmtPKcz": true,
		"_ZN4core9panicking5panic17h0123456789abcdefE": true, "_ZN4core5slice5index26slice_start_index_len_fail17h0123456789abcdefE": true,
		"_RNvNtCs1234_4core9panicking9panic_fmt": true,
		"runtime.gopanic":                        true, "runtime.panicIndex": true, "runtime.panicdivide": true, "runtime.throw": true, "runtime.goexit.abi0": true,
		"runtime.panicCheck1": false, "runtime.fatalthrow.func1": false, "malloc": false, "atexit": false, "exit_group": false,
		"_ZN4core5slice5index10into_range17h0123456789abcdefE": false, "_ZSt4sortIPiEvT_S1_": false, "runtime.mcall": false, "": false,
	} {
		if got := namedNoReturn(name); got != want {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// TestGoReturns: what switches stacks comes back, what panics does not.
func TestGoReturns(t *testing.T) {
	im := openTest(t, goTool(t))
	for name, want := range map[string]bool{
		"runtime.mcall": false, "runtime.gopark": false, "runtime.morestack_noctxt.abi0": false, "runtime.mallocgc": false,
		"runtime.gopanic": true, "runtime.throw": true, "runtime.panicshift": true,
	} {
		i := im.Lookup(name)
		if i < 0 {
			t.Logf("no %s", name)
			continue
		}
		if got := im.ends(im.Symbols()[i].Addr); got != want {
			t.Errorf("%s: never returns: %v, want %v", name, got, want)
		}
	}
}

// endsOf returns which of a, b, c and so on, at increasing addresses, never return,
// asked in the order of the letters.
func endsOf(im *Image, order string) string {
	out := ""
	for _, c := range order {
		if im.ends(im.symbols[c-'a'].Addr) {
			out += string(c)
		}
	}
	return out
}

// TestEndsRecursion: procedures that call each other are settled in any order.
func TestEndsRecursion(t *testing.T) {
	// a: call b; ret   b: test; je +1; ret; jmp a (returns by the first)
	// c: call d; ret   d: call c; ret  (never get anywhere)
	code := []byte("\xe8\x01\x00\x00\x00\xc3" + "\x85\xff\x74\x01\xc3\xe9\xf0\xff\xff\xff" +
		"\xe8\x01\x00\x00\x00\xc3" + "\xe8\xf5\xff\xff\xff\xc3")
	sizes := []uint64{6, 10, 6, 6}
	for _, tt := range []struct{ order, want string }{{"abcd", "cd"}, {"dcba", "dc"}, {"badc", "dc"}, {"cadb", "cd"}} {
		im := codeImage(X86_64, code, nil)
		var symbols []Symbol
		at := Addr(testBase)
		for i, n := range sizes {
			symbols = append(symbols, Symbol{Name: string(rune('a' + i)), Addr: at, Size: n})
			at += Addr(n)
		}
		im.setSymbols(symbols)
		if got := endsOf(im, tt.order); got != tt.want {
			t.Errorf("asked for %s: %q never return, want %q", tt.order, got, tt.want)
		}
	}
}
