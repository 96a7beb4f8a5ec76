package image

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// cfaRow is a line of readelf's table of frames.
type cfaRow struct {
	at   Addr
	want StackPlace
	ok   bool
}

// cfaRows reads what readelf says of the return address at each place where it
// moves:
//
//	00000018 0000000000000014 0000001c FDE cie=00000000 pc=0000000000000270..000000000000027b
//	   LOC           CFA      rbx   rbp   ra
//	0000000000000270 rsp+16   u     c-16  c-8
func cfaRows(t *testing.T, path string) []cfaRow {
	t.Helper()
	var rows []cfaRow
	fde, ra := false, 0
	for line := range strings.Lines(testtool.Output(t, "", "readelf", "--debug-dump=frames-interp", path)) {
		f := strings.Fields(line)
		switch {
		case strings.Contains(line, " FDE "):
			fde = true
		case strings.Contains(line, " CIE "):
			fde = false
		case len(f) > 2 && f[0] == "LOC":
			ra = len(f) - 1
		case fde && len(f) == ra+1:
			row := cfaRow{at: parseHex(t, f[0])}
			var reg string
			var cfa, off int64
			if _, err := fmt.Sscanf(strings.Replace(f[1], "+", " ", 1), "%s %d", &reg, &cfa); err == nil {
				if _, err := fmt.Sscanf(f[ra], "c%d", &off); err == nil && (reg == "rsp" || reg == "rbp") {
					row.want, row.ok = StackPlace{Frame: reg == "rbp", Off: cfa + off}, true
				}
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// TestReturnAt compares with readelf at every place where the return address
// moves: what .eh_frame says of C, and .debug_frame of Go.
func TestReturnAt(t *testing.T) {
	for _, tt := range []struct {
		name, path string
	}{
		{"C", "testdata/elf/x86.elf"},
		{"C with frame pointers", "../../testdata/mix/mix"},
		{"Go", buildGo(t, "")},
	} {
		im := mustOpen(t, tt.path, Options{})
		if im.Arch != X86_64 {
			t.Skip("built for another processor")
		}
		atSP, unknown := 0, 0
		rows := cfaRows(t, tt.path)
		for _, row := range rows {
			got, known := im.ReturnAt(row.at)
			switch {
			case !known && row.ok && im.Go != "":
				unknown++ // functions that set the stack pointer
			case got != row.want || known != row.ok:
				t.Errorf("%s: %#x: %+v, %v; readelf: %+v, %v", tt.name, uint64(row.at), got, known, row.want, row.ok)
			case known && got == StackPlace{}:
				atSP++
			}
		}
		if atSP == 0 || unknown > len(rows)/100 {
			t.Errorf("%s: of %d places, %d have the return address on top, %d are unknown", tt.name, len(rows), atSP, unknown)
		}
	}
}

// TestReturnsByLink compares with readelf at every place where the return address of AArch64's C moves. "u" is: in its register.
func TestReturnsByLink(t *testing.T) {
	const path = "testdata/elf/arm.elf"
	im := mustOpen(t, path, Options{})
	n, fde, ra := [2]int{}, false, 0
	for line := range strings.Lines(testtool.Output(t, "", "readelf", "--debug-dump=frames-interp", path)) {
		f := strings.Fields(line)
		switch {
		case strings.Contains(line, " FDE "):
			fde, ra = true, 0
		case strings.Contains(line, " CIE "):
			fde = false
		case len(f) > 1 && f[0] == "LOC":
			ra = slices.Index(f, "ra")
		case fde && len(f) > 1:
			want := ra < 0 || f[ra] == "u"
			if got := im.ReturnsByLink(parseHex(t, f[0])); got != want {
				t.Errorf("%s: %v, readelf: %s", f[0], got, line)
			}
			if want {
				n[0]++
			} else {
				n[1]++
			}
		}
	}
	if n[0] == 0 || n[1] == 0 {
		t.Errorf("%d places where it is in its register, %d where it is saved", n[0], n[1])
	}
	if im.ReturnsByLink(1) || mustOpen(t, "testdata/elf/x86.elf", Options{}).ReturnsByLink(im.Symbols()[0].Addr) {
		t.Error("outside code, or on x86-64")
	}
}

func TestReturnAtUnknown(t *testing.T) {
	im := mustOpen(t, "testdata/elf/arm.elf", Options{})
	if p, known := im.ReturnAt(im.Symbols()[0].Addr); known {
		t.Errorf("AArch64: %+v", p)
	}
	im = mustOpen(t, "testdata/elf/x86.elf", Options{})
	if p, known := im.ReturnAt(1); known {
		t.Errorf("outside code: %+v", p)
	}
}

// TestCFA follows instructions that compilers seldom write.
func TestCFA(t *testing.T) {
	initial := []byte{cfaDef, 7, 8, cfaOffset | 16, 1}
	for _, tt := range []struct {
		name  string
		rules []byte
		want  StackPlace
		ok    bool
	}{
		{"nothing", nil, StackPlace{}, true},
		{"later", []byte{cfaAdvance | 9, cfaDefOff, 64}, StackPlace{}, true},
		{"advances", []byte{cfaAdvance | 1, cfaDefOff, 16, cfaAdvance1, 1, cfaDefOff, 24, cfaAdvance2, 1, 0, cfaDefOff, 32, cfaAdvance4, 1, 0, 0, 0, cfaDefOff, 40}, StackPlace{Off: 32}, true},
		{"frame pointer", []byte{cfaAdvance | 1, cfaDefOff, 16, cfaOffset | 6, 2, cfaDefReg, 6}, StackPlace{true, 8}, true},
		{"remembered", []byte{cfaRemember, cfaDefOff, 16, cfaRecall}, StackPlace{}, true},
		{"recalled too often", []byte{cfaRecall}, StackPlace{}, false},
		{"signed", []byte{cfaDefSF, 7, 0x7c}, StackPlace{Off: 24}, true}, // -4 * -8
		{"signed offset", []byte{cfaDefOffSF, 0x7e}, StackPlace{Off: 8}, true},
		{"expression", []byte{cfaDefExpr, 2, 0x77, 8}, StackPlace{}, false},
		{"expression, then none", []byte{cfaDefExpr, 2, 0x77, 8, cfaDef, 7, 24}, StackPlace{Off: 16}, true},
		{"expression too long", []byte{cfaDefExpr, 200, 0x77}, StackPlace{}, false},
		{"another register", []byte{cfaDefReg, 10}, StackPlace{}, false},
		{"return address undefined", []byte{cfaUndefined, 16}, StackPlace{}, false},
		{"return address in a register", []byte{cfaRegister, 16, 0}, StackPlace{}, false},
		{"restored", []byte{cfaUndefined, 16, cfaRestoreExt, 16}, StackPlace{}, true},
		{"return address elsewhere", []byte{cfaOffsetExt, 16, 2, cfaDefOff, 24}, StackPlace{Off: 8}, true},
		{"arguments", []byte{cfaArgsSize, 32}, StackPlace{}, true},
		{"others", []byte{cfaOffset | 3, 5, cfaSameValue, 3, cfaExpr, 3, 1, 0x50, cfaValOffset, 3, 1, cfaRestore | 3, cfaOffsetSF, 3, 0x7f, cfaNop}, StackPlace{}, true},
		{"unknown instruction", []byte{0x3f}, StackPlace{}, false},
		{"cut off", []byte{cfaDef, 7}, StackPlace{}, false},
	} {
		e := unwindEntry{frame{0x1000, 0x1100, 0}, &cie{codeAlign: 1, dataAlign: -8, ra: 16, rules: initial}, tt.rules}
		if got, ok := e.returnAt(0x1008); got != tt.want || ok != tt.ok {
			t.Errorf("%s: %+v, %v; want %+v, %v", tt.name, got, ok, tt.want, tt.ok)
		}
	}
}

// FuzzCFA: any instructions end, and what is known is by one of two registers.
func FuzzCFA(f *testing.F) {
	f.Add([]byte{cfaDef, 7, 8, cfaOffset | 16, 1}, []byte{cfaAdvance | 1, cfaDefOff, 16, cfaRemember, cfaAdvance1, 1, cfaRecall}, uint16(8))
	f.Add([]byte{cfaDef, 7, 8}, []byte{cfaDefExpr, 2, 0x77, 8, cfaRestore | 16, cfaAdvance4, 1, 0, 0, 0}, uint16(0))
	f.Fuzz(func(t *testing.T, initial, rules []byte, at uint16) {
		c := &cie{codeAlign: 1, dataAlign: -8, ra: 16, rules: initial}
		e := unwindEntry{frame{0x1000, 0x11000, 0}, c, rules}
		if p, ok := e.returnAt(0x1000 + Addr(at)); !ok && p != (StackPlace{}) {
			t.Fatalf("unknown, but %+v", p)
		}
	})
}

func BenchmarkReturnAt(b *testing.B) {
	im := mustOpen(b, "../../testdata/mix/mix", Options{})
	syms := im.Symbols()
	n := 0
	for b.Loop() {
		s := syms[n%len(syms)]
		im.ReturnAt(s.Addr + Addr(s.Size/2))
		n++
	}
}
