package infer

import (
	"math"
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
)

// TestPoolShare: what only pointers lead to pays for more entries than calls through pointers, and not for fewer; the derivatives are those of
// the value.
func TestPoolShare(t *testing.T) {
	at := func(calls, entries float64) (v, byEntries, byCalls float64) {
		results := []*Result{newResult(graph("a9>b b9!")), newResult(graph("a2!")), newResult(graph("a2!"))}
		for _, r := range results {
			r.BlockSamples[0] = 1 // what has none is not posed
		}
		pr := pose(results, plainCost, &outOfOrder, nil)
		x := make([]float64, pr.at[3])
		pr.probs[0].n[1] = calls / 0.5
		x[pr.at[1]], x[pr.at[2]] = math.Log(entries/2), math.Log(entries/2)
		pr.pool = exchange{sites: []site{{q: pr.probs[0], block: 1, out: -1, share: 0.5}}, callees: []int{1, 2}}
		for _, q := range pr.probs {
			clear(q.dx)
			clear(q.dn)
		}
		v = pr.share(x)
		return v, pr.probs[1].dx[0] + pr.probs[2].dx[0], pr.probs[0].dn[1] * calls / 0.5
	}
	for _, tt := range []struct {
		name           string
		calls, entries float64
		pays           bool
	}{
		{"as many", 1000, 1000, false},
		{"fewer entries", 1000, 10, false},
		{"a third more", 1000, 1333, true},
		{"ten times as many", 1000, 10000, true},
	} {
		v, byEntries, byCalls := at(tt.calls, tt.entries)
		if (v > 0) != tt.pays {
			t.Errorf("%s: %g", tt.name, v)
		}
		const step = 1e-5
		more, _, _ := at(tt.calls, tt.entries*math.Exp(step))
		if d := (more - v) / step; tt.pays && math.Abs(d-byEntries) > 1e-3*d {
			t.Errorf("%s: derivative by the logarithm of entries %g, want %g", tt.name, byEntries, d)
		}
		more, _, _ = at(tt.calls*math.Exp(step), tt.entries)
		if d := (more - v) / step; tt.pays && math.Abs(d-byCalls) > -1e-3*d {
			t.Errorf("%s: derivative by the logarithm of calls %g, want %g", tt.name, byCalls, d)
		}
	}
}

// TestPointed: what only pointers lead to is entered at most about as often as pointers are called, where all code is known.
func TestPointed(t *testing.T) {
	for _, complete := range []bool{false, true} {
		images := linked(t)
		p, a := images[0], images[1]
		p.sampled(t, 200, "main")
		a.sampled(t, 20000, "shown")
		pr := pose((&Profile{Images: images}).results(), plainCost, &outOfOrder, nil)
		pr.tie(newLinks(images, false), complete)
		pr.run(false)
		var calls, entries float64
		for _, r := range p.Procs {
			for c := range r.Proc.Calls {
				if r.Proc.Calls[c].To == 0 {
					calls += r.Call[c].N
				}
			}
		}
		for _, r := range a.Procs {
			entries += r.Entries.N
		}
		if more := entries / calls; (more < 2) != complete {
			t.Errorf("all code is known: %v; entries for each call through a pointer: %.3g", complete, more)
		}
	}
}

// TestOnlyPointed: neither what is called by name nor what a resolver may return is entered by pointers alone.
func TestOnlyPointed(t *testing.T) {
	images := linked(t)
	l := newLinks(images, false)
	for name, want := range map[string]bool{"shown": true, "only": false, "chosen": false, "own": true} {
		if got := l.onlyPointed(of(images[1], name)); got != want {
			t.Errorf("%s is entered by pointers alone: %v, want %v", name, got, want)
		}
	}
	if l.onlyPointed(of(images[0], "main")) {
		t.Error("main is entered by the C library")
	}
	loaded := newLinks(images[1:], false) // without the program, which of two is meant is not known
	for _, ip := range images[1:] {
		if at := of(ip, "both"); loaded.onlyPointed(at) != (len(loaded.unsure) == 0) {
			t.Errorf("%s: both may be called by its name, or not", ip.ID.Path)
		}
	}
}

// TestExchange: of a call that walks saw go somewhere, the rest goes where nothing tells; jumps that may leave count as calls.
func TestExchange(t *testing.T) {
	images := linked(t)
	p := images[0]
	proc, err := p.Image.Proc(p.Image.Lookup("main"))
	if err != nil {
		t.Fatal(err)
	}
	q := newProblem(proc, nil, plainCost(nil), &outOfOrder)
	var pool exchange
	for i := range proc.Calls {
		c := &proc.Calls[i]
		pool.add(p, q, c, nil)
		if c.To == 0 {
			pool.add(p, q, c, []lead{{share: 0.75}, {share: 0.2}})
		}
	}
	jump := *proc
	jump.Blocks = append([]image.Block(nil), proc.Blocks...)
	jump.Blocks[0].Exit = image.Unresolved
	pool.addUnresolved(&jump, q)
	var shares []float64
	for _, s := range pool.sites {
		shares = append(shares, s.share)
	}
	if len(shares) != 3 || shares[0] != 1 || math.Abs(shares[1]-0.05) > 1e-9 || shares[2] != 1 {
		t.Errorf("shares %v, want 1 of the call through a pointer, then 0.05, and 1 of the jump", shares)
	}
}

// TestComplete: samples in code that is not known may be of what calls anything.
func TestComplete(t *testing.T) {
	for _, tt := range []struct {
		why     sample.Loss
		n       uint64
		missing bool
		want    bool
	}{
		{sample.LostKernel, 900, false, true},
		{sample.LostAnonymous, 5, false, true},
		{sample.LostAnonymous, 50, false, false},
		{LostNoProc, 50, false, false},
		{sample.LostKernel, 0, true, false},
	} {
		p := &Profile{Samples: Samples{Total: 1000, Lost: map[sample.Loss]uint64{tt.why: tt.n}}, missing: tt.missing}
		if got := p.complete(); got != tt.want {
			t.Errorf("%d of 1000 lost (%s), an image missing: %v: complete: %v", tt.n, tt.why, tt.missing, got)
		}
	}
}
