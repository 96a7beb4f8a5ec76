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
	signal[signalFP/WordSize], signal[signalSP/WordSize], signal[signalPC/WordSize] = 7, 0x2000, 0x555
	for _, tt := range []struct {
		name  string
		table *Table
		off   uint64
		at    Place
		stack []uint64
		want  Place // zero: there is none
	}{
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
	} {
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
