package unwind

import "testing"

// TestUp: callers of x86-64 by rows and by frame pointers, of stacks of words from 0x1000 on.
func TestUp(t *testing.T) {
	rows := Table{Rows: []Row{
		{Off: 0x10, Kind: SP, CFA: 2, Saved: 2}, {Off: 0x20, Kind: SP, CFA: 2, Saved: FPLost}, {Off: 0x30, Kind: FP, CFA: 2, Saved: FPSame},
		{Off: 0x40, Kind: PLT, CFA: 11}, {Off: 0x50, Kind: Signal}, {Off: 0x60, Kind: End}, {Off: 0x70, Kind: SP}, {Off: 0x80, Kind: None},
	}}
	words := func(w ...uint64) []uint64 { return w }
	signal := make([]uint64, 22)
	signal[x86Signal.fp/WordSize], signal[x86Signal.sp/WordSize], signal[x86Signal.pc/WordSize] = 7, 0x2000, 0x555
	checkUp(t, []upTest{
		{"stack pointer, frame pointer saved", &rows, 0x1f, Place{SP: 0x1000, FP: 1}, words(0x77, 0x999), Place{PC: 0x999, SP: 0x1010, FP: 0x77, Called: true}},
		{"frame pointer lost", &rows, 0x20, Place{SP: 0x1000, FP: 1}, words(0, 0x999), Place{PC: 0x999, SP: 0x1010, FP: 1, Called: true, lost: true}},
		{"by a frame pointer", &rows, 0x30, Place{SP: 0x1000, FP: 0x1008}, words(0, 0, 0x999), Place{PC: 0x999, SP: 0x1018, FP: 0x1008, Called: true}},
		{"by one that was lost", &rows, 0x30, Place{SP: 0x1000, FP: 0x1008, lost: true}, words(0, 0, 0x999), Place{}},
		{"linkage table, before the push", &rows, 0x40, Place{PC: 0x4a, SP: 0x1000}, words(0x999), Place{PC: 0x999, SP: 0x1008, Called: true}},
		{"linkage table, after the push", &rows, 0x40, Place{PC: 0x4b, SP: 0x1000}, words(0, 0x999), Place{PC: 0x999, SP: 0x1010, Called: true}},
		{"signal", &rows, 0x50, Place{SP: 0x1000, lost: true}, signal, Place{PC: 0x555, SP: 0x2000, FP: 7}},
		{"signal, cut off", &rows, 0x50, Place{SP: 0x1000}, signal[:21], Place{}},
		{"end", &rows, 0x60, Place{SP: 0x1000, FP: 0x1000}, words(1, 2), Place{}},
		{"a frame of no size", &rows, 0x70, Place{SP: 0x1008, FP: 0x1008}, words(1, 2), Place{}},
		{"no row, in C", &rows, 0x80, Place{SP: 0x1000, FP: 0x1000}, words(1, 2), Place{}},
		{"before all rows, in C", &rows, 0, Place{SP: 0x1000, FP: 0x1000}, words(1, 2), Place{}},
		{"no row, in Go", &Table{Rows: rows.Rows, Frames: true}, 0x80, Place{SP: 0x1000, FP: 0x1008}, words(0, 0x1018, 0x999), Place{PC: 0x999, SP: 0x1018, FP: 0x1018, Called: true}},
		{"code in no image", nil, 0, Place{SP: 0x1000, FP: 0x1000}, words(0x1010, 0x999), Place{PC: 0x999, SP: 0x1010, FP: 0x1010, Called: true}},
		{"a frame pointer that is none", nil, 0, Place{SP: 0x1008, FP: 0x1000}, words(0x1010, 0x999), Place{}},
	})
}

// TestUpArm: callers of AArch64 likewise.
func TestUpArm(t *testing.T) {
	const signed = 0x2a<<48 | 0x999 // a return address with a signature
	rows := Table{AArch64: true, Rows: []Row{
		{Off: 0x10, Kind: SP | Link}, {Off: 0x20, Kind: SP | Pair, CFA: 4, Saved: 4}, {Off: 0x30, Kind: SP | Alone, CFA: 2, Saved: 2},
		{Off: 0x40, Kind: FP | Pair, CFA: 4, Saved: 4}, {Off: 0x50, Kind: Signal}, {Off: 0x60, Kind: End}, {Off: 0x70, Kind: SP | Pair | Up, CFA: 300, Saved: 1},
		{Off: 0x80, Kind: SP | Link, CFA: 2, Saved: FPLost}, {Off: 0x90, Kind: SP | Link, CFA: 2, Saved: 1}, {Off: 0xa0, Kind: None}, {Off: 0xb0, Kind: PLT, CFA: 11},
		{Off: 0xc0, Kind: SP | Link | Up, CFA: 300},
	}}
	arm := func(p Place) Place { p.AArch64 = true; return p }
	called := func(p Place) Place { p.Called = true; return arm(p) }
	words := func(w ...uint64) []uint64 { return w }
	signal := make([]uint64, 72)
	signal[armSignal.fp/WordSize], signal[armSignal.lr/WordSize], signal[armSignal.sp/WordSize], signal[armSignal.pc/WordSize] = 7, 8, 0x2000, 0x555
	frames := rows
	frames.Frames = true
	checkUp(t, []upTest{
		{"a leaf", &rows, 0x10, arm(Place{SP: 0x1000, FP: 1, LR: signed}), nil, called(Place{PC: 0x999, SP: 0x1000, FP: 1})},
		{"a leaf that has called", &rows, 0x10, called(Place{SP: 0x1000, FP: 1, LR: 0x999}), nil, Place{}},
		{"a pair at the stack pointer", &rows, 0x20, arm(Place{SP: 0x1000, LR: 1}), words(0x77, signed), called(Place{PC: 0x999, SP: 0x1020, FP: 0x77})},
		{"one where only the frame pointer is known", &rows, 0x20, called(Place{SP: 0x1000, FP: 0x1010, bound: true}), words(1, 2, 0x77, 0x999), called(Place{PC: 0x999, SP: 0x1030, FP: 0x77})},
		{"the link register alone is saved", &rows, 0x30, arm(Place{SP: 0x1000, FP: 5}), words(signed), called(Place{PC: 0x999, SP: 0x1010, FP: 5})},
		{"it is, where only the frame pointer is known", &rows, 0x30, called(Place{SP: 0x1000, FP: 0x1000, bound: true}), words(0x999), Place{}},
		{"by a frame pointer", &rows, 0x40, arm(Place{SP: 0x1000, FP: 0x1008}), words(0, 0x77, 0x999), called(Place{PC: 0x999, SP: 0x1028, FP: 0x77})},
		{"by one that was lost", &rows, 0x40, arm(Place{SP: 0x1000, FP: 0x1008, lost: true}), words(0, 0x77, 0x999), Place{}},
		{"signal", &rows, 0x50, called(Place{SP: 0x1000, lost: true}), signal, arm(Place{PC: 0x555, SP: 0x2000, FP: 7, LR: 8})},
		{"signal, cut off", &rows, 0x50, called(Place{SP: 0x1000}), signal[:71], Place{}},
		{"signal, where only the frame pointer is known", &rows, 0x50, called(Place{SP: 0x1000, bound: true}), signal, Place{}},
		{"end", &rows, 0x60, arm(Place{SP: 0x1000, FP: 0x1000, LR: 9}), words(1, 2), Place{}},
		{"a pair below a large array", &rows, 0x70, arm(Place{SP: 0x1000}), words(0, 0x77, 0x999), called(Place{PC: 0x999, SP: 0x1960, FP: 0x77})},
		{"frame pointer lost", &rows, 0x80, arm(Place{SP: 0x1000, FP: 5, LR: 0x999}), nil, called(Place{PC: 0x999, SP: 0x1010, FP: 5, lost: true})},
		{"frame pointer alone saved", &rows, 0x90, arm(Place{SP: 0x1000, FP: 5, LR: 0x999}), words(0, 0x77), called(Place{PC: 0x999, SP: 0x1010, FP: 0x77})},
		{"frame pointer alone saved, below a large array", &rows, 0xc0, arm(Place{SP: 0x1000, FP: 5, LR: 0x999}), words(0x77), called(Place{PC: 0x999, SP: 0x1960, FP: 0x77})},
		{"no row", &rows, 0xa0, arm(Place{SP: 0x1000, FP: 0x1000}), words(1, 2), Place{}},
		{"no row, frame pointers", &frames, 0xa0, arm(Place{SP: 0x1000, FP: 0x1000}), words(0x1010, signed), called(Place{PC: 0x999, SP: 0x1010, FP: 0x1010, bound: true})},
		{"no row, a word below the stack pointer", &frames, 0xa0, arm(Place{SP: 0x1008, FP: 0x1000}), words(0x1010, 0x999), called(Place{PC: 0x999, SP: 0x1010, FP: 0x1010, bound: true})},
		{"no row, a signature of nothing", &frames, 0xa0, arm(Place{SP: 0x1000, FP: 0x1000}), words(0x1010, 0x2a<<48), Place{}},
		{"a row of x86-64", &rows, 0xb0, arm(Place{SP: 0x1000, FP: 0x1000}), words(1, 2, 3), Place{}},
		{"an image of x86-64", &Table{Frames: true}, 0, arm(Place{SP: 0x1000, FP: 0x1000}), words(1, 2, 3), Place{}},
		{"a frame that ends below it", &Table{AArch64: true, Rows: []Row{{Kind: FP | Pair, CFA: 2, Saved: 2}}}, 0, arm(Place{SP: 0x1018, FP: 0x1000}), words(1, 2, 3), Place{}},
	})
}

// An upTest is a place that a caller is sought of.
type upTest struct {
	name  string
	table *Table
	off   uint64
	at    Place
	stack []uint64
	want  Place // zero: there is none
}

func checkUp(t *testing.T, tests []upTest) {
	t.Helper()
	for _, tt := range tests {
		read := func(at uint64) (uint64, bool) {
			if i := (at - 0x1000) / WordSize; at >= 0x1000 && i < uint64(len(tt.stack)) {
				return tt.stack[i], true
			}
			return 0, false
		}
		got := tt.at
		if ok := got.Up(tt.table, tt.off, read); !ok {
			got = Place{}
		}
		if got != tt.want {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
