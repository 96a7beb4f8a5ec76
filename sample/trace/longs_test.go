package trace

import (
	"testing"

	"backfeed/sample"
)

// TestAddLong: of a long walk, sums are what it passed through, and its paths are kept; a walk that cannot begin tells nothing.
func TestAddLong(t *testing.T) {
	code, space := sums()
	code.ids[0].Path = "/sums"
	const n = 1000
	st, mem := start(n)
	m := NewMachine(code)
	l, err := m.Run(st, space, mem, Limits{Steps: 1e6})
	if err != nil {
		t.Fatal(err)
	}
	want := map[sample.Offset]sample.Probed{}
	for op, taken := range map[int]uint64{2: n, 5: n - 1, 10: n / 2, 12: n} { // as sums has them
		p := sample.Probed{Windows: 1, Visits: n}
		if code.Ops[op+1].Kind == CondJump {
			p.Outcomes, p.Taken = n, taken
		}
		want[0x1000+4*sample.Offset(op)] = p
	}
	var w Walks
	w.KeepPaths()
	w.AddLong(l, 0)
	counts := sample.NewCounts(sample.CPU{}, sample.Event{Name: "e", Period: 1})
	w.AddTo(counts, nil)
	if err := counts.Check(); err != nil {
		t.Fatal(err)
	}
	if len(counts.Images) != 1 {
		t.Fatalf("%d images", len(counts.Images))
	}
	got := counts.Images[0].Probed
	if len(got) != len(want) {
		t.Errorf("%d places, want %d", len(got), len(want))
	}
	for off, p := range want {
		g := got[off]
		g.Spread = sample.Square{}
		if g != p {
			t.Errorf("%#x: %+v, want %+v", uint64(off), g, p)
		}
	}
	branches := 0
	for _, p := range counts.Paths {
		branches += len(p.Branches)
	}
	if wantBranches := 3*n + n/2 - 1; branches != wantBranches { // call, return, loop, and every other time the branch of the procedure
		t.Errorf("paths have %d branches, want %d", branches, wantBranches)
	}

	s := &w.walks[0]
	if s.end != -1 || int(s.steps) != l.Steps || s.head != headSteps || len(s.at) >= 2*headSteps/3 || len(s.rest) > 6 {
		t.Errorf("%d steps, head %d, %d in order, %d sums, end %d", s.steps, s.head, len(s.at), len(s.rest), s.end)
	}
	if l, err = m.Run(st, space, mem, Limits{Steps: 5000}); err != nil {
		t.Fatal(err)
	}
	if w.AddLong(l, 1); w.walks[1].end < 0 {
		t.Error("a walk of its full length has no end")
	}
	if l, err = m.Run(st, nil, mem, Limits{Steps: 5000}); err != nil {
		t.Fatal(err)
	}
	if w.AddLong(l, 1); len(w.walks) != 2 {
		t.Error("a walk that could not begin counts")
	}
}

// TestLongLoops: the kinds of loops that a long walk begins and ends in are told by its first and last branches.
func TestLongLoops(t *testing.T) {
	code, space := program(
		reg(X86Dec, rcx, X86None, X86ReadsDst|X86WritesDst), // 0
		to(CondJump, 5, 0), // 1: jne
		Inst{},             // 2: stop
	)
	m := NewMachine(code)
	for _, tt := range []struct{ steps, kind int }{{10, 0}, {50, 1}, {200, 2}, {5000, 2}} {
		l, err := m.Run(&State{PC: linked + bias, Regs: [16]uint64{rcx: 1e6}}, space, flat{}, Limits{Steps: tt.steps})
		if err != nil {
			t.Fatal(err)
		}
		var w Walks
		w.AddLong(l, 0)
		for at := range w.spot {
			if at.loop != tt.kind {
				t.Errorf("%d steps: kind %d, want %d", tt.steps, at.loop, tt.kind)
			}
		}
	}
}
