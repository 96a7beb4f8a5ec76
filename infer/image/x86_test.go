package image

import (
	"os"
	"strings"
	"testing"
)

const flowClasses = Flow | Nop | Bad

// x86Flow gives the flow classes of an x86 mnemonic.
func x86Flow(l line) Class {
	m := l.mnemonic
	indirect := strings.HasPrefix(l.operands, "*")
	switch {
	case m == "(bad)":
		return Bad
	case strings.HasPrefix(m, "ret") || strings.HasPrefix(m, "lret") || strings.HasPrefix(m, "iret") || strings.HasPrefix(m, "sysret"):
		return Ret
	case (strings.HasPrefix(m, "call") || strings.HasPrefix(m, "lcall")) && indirect:
		return IndCall
	case strings.HasPrefix(m, "call"):
		return DirCall
	case (strings.HasPrefix(m, "jmp") || strings.HasPrefix(m, "ljmp")) && indirect:
		return IndJump
	case strings.HasPrefix(m, "jmp"):
		return Jump
	case strings.HasPrefix(m, "j") || strings.HasPrefix(m, "loop") || m == "xbegin":
		return CondJump
	case m == "ud0" || m == "ud1" || m == "ud2" || m == "hlt" || m == "int3" || m == "int" && l.operands == "$0x3":
		return Trap
	case strings.HasPrefix(m, "nop") || strings.HasPrefix(m, "endbr"):
		return Nop
	case m == "xchg" && l.operands == "%ax,%ax" && l.len == 2:
		return Nop // 66 90
	}
	return 0
}

// TestX86Objdump compares length and flow of every instruction of whole programs
// with GNU objdump.
func TestX86Objdump(t *testing.T) {
	paths := []string{"/usr/lib/x86_64-linux-gnu/libc.so.6"}
	if extra := os.Getenv("BACKFEED_OBJDUMP"); extra != "" {
		paths = append(paths, strings.Fields(extra)...)
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) {
			im := openTest(t, path)
			var d x86
			n, wrong := 0, 0
			objdump(t, "objdump", path, func(l line) {
				b := im.code(l.addr, l.addr+15)
				if b == nil {
					if b = im.code(l.addr, l.addr+Addr(l.len)); b == nil {
						return
					}
				}
				in := d.inst(b, l.addr)
				want := x86Flow(l)
				n++
				if in.Len == l.len && in.Class&flowClasses == want || want == Bad {
					return
				}
				if wrong++; wrong < 20 {
					t.Errorf("%#x: % x %s%s %s: length %d class %#x, objdump has %d %#x", l.addr, b[:l.len], l.prefix, l.mnemonic, l.operands, in.Len, in.Class, l.len, want)
				}
			})
			if wrong > 0 || n == 0 {
				t.Errorf("%d of %d instructions differ", wrong, n)
			}
			t.Logf("%d instructions", n)
		})
	}
}

// openTest opens an image, or skips the test where there is none.
func openTest(tb testing.TB, path string) *Image {
	tb.Helper()
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("no %s", path)
	}
	im, err := Open(path, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { im.Close() })
	return im
}
