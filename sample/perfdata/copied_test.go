package perfdata

import (
	"bytes"
	"fmt"
	"testing"

	"backfeed/sample"
	"backfeed/sample/unwind"
)

// someRows are of code where a function begins at each 0x100: the first as compilers begin it, one that keeps a frame pointer, one of
// which nothing is known, a signal's frame, and where threads begin.
var someRows = unwind.Table{Rows: []unwind.Row{
	{Off: 0, Kind: unwind.SP, CFA: 1}, {Off: 4, Kind: unwind.SP, CFA: 3, Saved: 2},
	{Off: 0x100, Kind: unwind.FP, CFA: 2, Saved: 2},
	{Off: 0x200, Kind: unwind.None},
	{Off: 0x300, Kind: unwind.Signal},
	{Off: 0x400, Kind: unwind.End},
}}

// armRows are likewise of AArch64: a function that is a leaf at first, and where threads begin.
var armRows = unwind.Table{AArch64: true, Rows: []unwind.Row{
	{Off: 0, Kind: unwind.SP | unwind.Link}, {Off: 4, Kind: unwind.SP | unwind.Pair, CFA: 2, Saved: 2},
	{Off: 0x400, Kind: unwind.End},
}}

// TestCopied: stacks that perf copied are unwound by rows, as far as the copy and the depth go.
func TestCopied(t *testing.T) {
	const sp = 0x7fff0000
	known := func(sample.ImageID) *unwind.Table { return &someRows }
	arm := func(sample.ImageID) *unwind.Table { return &armRows }
	const x86, ofArm, signature = 0xff0fff, 1<<33 - 1, 0x55 << 48
	for _, tt := range []struct {
		name   string
		ip     uint64
		fp     uint64
		mask   uint64 // of registers: 0 is of all that x86-64 has
		stack  []uint64
		depth  int
		unwind func(sample.ImageID) *unwind.Table
		want   string // offsets of frames, top
	}{
		{"at the start of a function", 0x1000, 1, 0, []uint64{0x1120}, 0, known, "[0 120] unknown"},
		{"the frame pointer is restored", 0x1008, 1, 0, []uint64{0, sp + 32, 0x1120, 99, 5, 0x1410}, 0, known, "[8 120 410] unknown"},
		{"where threads begin, it ends", 0x1000, 1, 0, []uint64{0x1410, 0x1120}, 0, known, "[0 410] unknown"},
		{"without a row, it ends", 0x1000, sp + 16, 0, []uint64{0x1220, 0, 0, 0x1120}, 0, known, "[0 220] unknown"},
		{"the copy ends", 0x1008, 1, 0, []uint64{0, 1}, 0, known, ""},
		{"as deep as asked for", 0x1000, 1, 0, []uint64{0x1003, 0x1003, 0x1003, 0x1003}, 3, known, "[0 3 3] unknown"},
		{"code in no image, by frame pointer", 0x9000, sp + 8, 0, []uint64{0, sp + 24, 0x1120, 0, 5, 0x1410}, 0, known, ""},
		{"an image that is not known, by frame pointer", 0x1000, sp + 8, 0, []uint64{0x1777, sp + 24, 0x1120, 5, 0x1410}, 0, func(sample.ImageID) *unwind.Table { return nil }, "[0 120 410] unknown"},
		{"nothing is unwound, the top is kept", 0x1000, 1, 0, []uint64{0x1120}, 0, nil, "[0] 120"},
		{"no program counter", 0x1000, 1, 1<<6 | 1<<7, []uint64{0x1120}, 0, known, "[0] 120"},
		{"registers of AArch64, code of x86-64", 0x1000, 1, ofArm, []uint64{0x1120}, 0, known, ""},
		{"AArch64, a leaf", 0x1000, sp, ofArm, []uint64{0, signature | 0x1404}, 0, arm, "[0 20 404] unknown"},
		{"AArch64, a frame", 0x1008, 1, ofArm, []uint64{sp + 16, signature | 0x1408, 0, 0x1410}, 0, arm, "[8 408] unknown"},
		{"AArch64, frames", 0x1008, 1, ofArm, []uint64{sp + 16, signature | 0x1008, sp + 32, 0x1008, 0, 0x1404}, 0, arm, "[8 8 8 404] unknown"},
		{"AArch64, by frame pointers", 0x1000, sp, ofArm, []uint64{sp + 32, signature | 0x1120, 0, 0, 0, 0x1130}, 0, func(sample.ImageID) *unwind.Table { return nil }, "[0 120 130] unknown"},
		{"AArch64, no link register", 0x1008, 1, ofArm &^ (1 << 30), []uint64{sp + 16, 0x1408}, 0, arm, ""},
		{"AArch64 with the length of vectors", 0x1008, 1, ofArm | 1<<46, []uint64{sp + 16, 0x1408}, 0, arm, "[8 408] unknown"},
	} {
		s := &synth{}
		a := plainAttr()
		a.sampleType |= hasRegsUser | hasStackUser
		if a.regsUser = tt.mask; tt.mask == 0 {
			a.regsUser = x86
		}
		s.attrs = []synthAttr{a}
		s.mmap2(&a, 1, 10, 0x1000, 0x1000, 0, nil, "/bin/a")
		values := map[int]uint64{6: tt.fp, 7: sp, 8: tt.ip}
		if tt.mask > x86 {
			values = map[int]uint64{29: tt.fp, 30: signature | 0x1020, 31: sp, 32: tt.ip}
		}
		var regs []uint64
		for n := range 64 {
			if a.regsUser>>n&1 != 0 {
				regs = append(regs, values[n])
			}
		}
		s.sample(&a, synthSample{pid: 1, time: 20, ip: tt.ip, stack: tt.stack, regs: regs})
		for procs := 1; procs <= 2; procs++ {
			rec, err := Read(bytes.NewReader(s.pipe()), Options{StackDepth: tt.depth, Unwind: tt.unwind, procs: procs})
			if err != nil {
				t.Fatal(err)
			}
			check(t, tt.name, rec)
			got := ""
			for _, st := range rec.Counts[0].Stacks {
				var offs []string
				for _, f := range st.Frames {
					offs = append(offs, fmt.Sprintf("%x", uint64(f.Off)))
				}
				top := "unknown"
				if st.Top.Image != sample.Unknown {
					top = fmt.Sprintf("%x", uint64(st.Top.Off))
				}
				got += fmt.Sprint(offs) + " " + top
			}
			if got != tt.want {
				t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
			}
		}
	}
}

// TestLinkRegister: of a call graph by frame pointers, perf has the link register of AArch64 alone, which is kept as what lies on top.
func TestLinkRegister(t *testing.T) {
	s := &synth{}
	a := plainAttr()
	a.sampleType |= hasRegsUser | hasCallchain
	a.regsUser = 1 << armRegs.lr
	s.attrs = []synthAttr{a}
	s.mmap2(&a, 1, 10, 0x1000, 0x1000, 0, nil, "/bin/a")
	s.sample(&a, synthSample{pid: 1, time: 20, ip: 0x1000, chain: []uint64{contextUser, 0x1000, 0x1120}, regs: []uint64{0x55<<48 | 0x1020}})
	rec, err := Read(bytes.NewReader(s.pipe()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	check(t, "link register", rec)
	stacks := rec.Counts[0].Stacks
	if want := (sample.Frame{Off: 0x20}); len(stacks) != 1 || stacks[0].Top != want || len(stacks[0].Frames) != 2 {
		t.Errorf("%+v, want %+v on top of two", stacks, want)
	}
}
