package trace

import (
	"math"
	"math/rand/v2"
	"slices"
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
	if len(counts.Paths) != 1 {
		t.Fatalf("%d paths, want one", len(counts.Paths))
	}
	branches := len(counts.Paths[0].Branches) // of as many executions of branches at least, which are taken 7 times in 8
	if branches < sample.MaxPathBranches*3/4 || branches > sample.MaxPathBranches {
		t.Errorf("a path of %d branches", branches)
	}
	// Of a round, call, return, loop and, every other time, the branch of the procedure are taken; it has 7 or 8 instructions and a return.
	if insts := int(counts.Paths[0].Insts); insts < 2*branches || insts > 3*branches {
		t.Errorf("a path of %d branches has %d instructions", branches, insts)
	}

	s := &w.walks[0]
	if int(s.steps) != l.Steps || s.head != headSteps || len(s.at) >= 2*headSteps/3 || len(s.rest) > 6 {
		t.Errorf("%d steps, head %d, %d in order, %d sums", s.steps, s.head, len(s.at), len(s.rest))
	}
	if l, err = m.Run(st, nil, mem, Limits{Steps: 5000}); err != nil {
		t.Fatal(err)
	}
	if w.AddLong(l, 1); len(w.walks) != 1 {
		t.Error("a walk that could not begin counts")
	}
}

// TestLongLoops: the kind of loop that a long walk begins in is told by its first branches.
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

// TestLongShare: beside short walks, a long one counts for as much as five of them, however long it is, and one that ended
// early for what it saw; alone, none counts for more than they have in the mean.
func TestLongShare(t *testing.T) {
	code, space := sums()
	m := NewMachine(code)
	var w Walks
	w.SetCode(code)
	long := func(steps int) {
		st, mem := start(2000)
		l, err := m.Run(st, space, mem, Limits{Steps: steps})
		if err != nil {
			t.Fatal(err)
		}
		w.AddLong(l, 0)
	}
	long(9000)
	long(15000)
	shares := func(want ...float64) {
		t.Helper()
		for i, share := range want {
			if got := w.walks[i].share(w.longMost()); math.Abs(got-share) > 1e-9 {
				t.Errorf("of %d walks, one of %d instructions counts for %v, want %v", len(w.walks), w.walks[i].steps, got, share)
			}
		}
	}
	shares(1, 12000./15000)
	w.add(&path{start: 2, steps: headSteps, outcomes: slices.Repeat([]via{viaTaken, viaTaken}, headSteps), targets: slices.Repeat([]uint32{4}, headSteps)}, 0)
	long(headSteps) // is short
	long(2 * headSteps)
	const five = longWorth * headSteps
	shares(five/9000., five/15000., 1, 1, 1)
}

// TestLongWeights: of a program with two phases, of which one has a branch that goes either way at random, and is slow for that, long
// walks begin as often in both; those of the slow phase weigh less.
func TestLongWeights(t *testing.T) {
	code, space := program(
		reg(X86Dec, rcx, X86None, X86ReadsDst|X86WritesDst), // 0: a loop
		to(CondJump, 5, 0), // 1: jne
		Inst{},             // 2
		// A loop with a branch that is taken if the next bit of rdx is set.
		imm(X86Shr, rdx, 1, modifies),                       // 3
		to(CondJump, 2, 6),                                  // 4: jb
		reg(X86Dec, rax, X86None, X86ReadsDst|X86WritesDst), // 5
		reg(X86Dec, rcx, X86None, X86ReadsDst|X86WritesDst), // 6
		to(CondJump, 5, 3),                                  // 7: jne
		Inst{},
	)
	code.ids[0].Path = "/phases"
	m := NewMachine(code)
	var w Walks
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		// 60 rounds and as many random bits, some of them of every walk: heads are shorter
		st := &State{PC: linked + bias, Regs: [16]uint64{rcx: 60}}
		if i%2 == 1 {
			st.PC, st.Regs[rdx] = linked+bias+12, rng.Uint64()
		}
		l, err := m.Run(st, space, flat{}, Limits{Steps: 1000})
		if err != nil {
			t.Fatal(err)
		}
		w.AddLong(l, i/100)
		w.walks[i].head = 0 // as if it were long
	}
	one := make([]float64, len(w.spot))
	for i := range one {
		one[i] = 1
	}
	weights := w.weights(w.regions(), one)
	sum := 0.0
	for _, v := range weights {
		sum += v
	}
	// A round of the slow loop is 4.5 instructions, with half a wrong guess, one of the other 2 with none; both loops end with one.
	if got, want := weights[0]/weights[1], (1+missedCost*31/270)/(1+missedCost/120.); got < 0.8*want || got > 1.2*want {
		t.Errorf("walks of the fast phase weigh %.2f times as much, want %.2f", got, want)
	}
	if math.Abs(sum-400) > 1e-6 {
		t.Errorf("all walks weigh %v, want 400", sum)
	}
	w.rates = []Rate{{PerSec: 1}}
	if weights := w.weights(w.regions(), one); weights[0] != 1 || weights[1] != 1 {
		t.Errorf("with rates of windows, walks weigh %v and %v, want what regions do", weights[0], weights[1])
	}
}
