package layout

import (
	"cmp"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/testdata/sets"
)

// conflict makes a procedure main that calls leaves in turn, which lie 4096 bytes apart, as the lines of
// one set do, and then some small ones; each executes four instructions in its first 64 bytes.
func conflict(leaves, small int) *infer.ImageProfile {
	const turns = 1000.0
	ip := &infer.ImageProfile{Image: &image.Image{}}
	add := func(name string, addr image.Addr, size uint64, entries float64) *infer.Result {
		p := &image.Proc{Symbol: image.Symbol{Name: name, Addr: addr, Size: size}, Complete: true}
		r := &infer.Result{Proc: p, Samples: 1, Entries: infer.Freq{N: entries}}
		for _, b := range [][2]image.Addr{{0, 64}, {64, image.Addr(size)}} {
			if b[0] < b[1] {
				p.Blocks = append(p.Blocks, image.Block{Start: addr + b[0], End: addr + b[1], Insts: 4, Last: addr + b[1] - 4, Exit: image.Return})
				r.Block = append(r.Block, infer.Freq{N: turns * float64(1-min(1, b[0]))})
			}
		}
		ip.Procs = append(ip.Procs, r)
		return r
	}
	main := add("main", 0x10040, 64, 1)
	main.Proc.Blocks[0].Exit, main.Proc.Blocks[0].Out, main.Proc.Blocks[0].In = image.Return, []int{0}, []int{0}
	main.Proc.Edges, main.Edge = []image.Edge{{From: 0, To: 0, Kind: image.Taken}}, []infer.Freq{{N: turns - 1}}
	for i := range leaves + small {
		addr, size := image.Addr(0x20000+4096*i), uint64(4096)
		if i >= leaves {
			addr, size = image.Addr(0x20000+4096*leaves+128*(i-leaves)), 128
		}
		leaf := add(string(rune('a'+i)), addr, size, turns)
		site := main.Proc.Addr + image.Addr(4*i)
		main.Proc.Blocks[0].Calls = append(main.Proc.Blocks[0].Calls, i)
		main.Proc.Calls = append(main.Proc.Calls, image.Call{Site: site, Return: site + 4, To: leaf.Proc.Addr})
		main.Call = append(main.Call, infer.Freq{N: turns})
	}
	return ip
}

// TestMissesOfSet: of a cache with eight lines in a set, nine that are run in turn are always missing, and eight never.
func TestMissesOfSet(t *testing.T) {
	for leaves, want := range map[int]float64{8: 0, 9: 1000 * 9.0 / 40, 12: 1000 * 12.0 / 52} {
		procs := conflict(leaves, 0).Procs
		got, _ := mean(newTrail(procs, 1, 4).misses(Linked(procs), firstLevel))
		if math.Abs(got-want) > 0.01*want+0.01 {
			t.Errorf("%d lines: %.3f misses of 1000 instructions, want %.3f", leaves, got, want)
		}
		var parts []Part
		for i := range procs {
			parts = append(parts, Part{i, []int{0}})
		}
		if got, _ := mean(newTrail(procs, 1, 4).misses(Place(procs, parts, 0, procAlign), firstLevel)); got > 0.01 {
			t.Errorf("%d lines side by side: %.3f misses", leaves, got)
		}
	}
	if got, _ := mean(newTrail(nil, 1, 4).misses(Linked(nil), firstLevel)); got != 0 {
		t.Errorf("of no procedures: %v", got)
	}
}

// TestSettle: small procedures move between large ones that are in each other's way, and nothing gets lost.
func TestSettle(t *testing.T) {
	ip := conflict(12, 6)
	o := Functions(ip)
	before := slices.Clone(o.order)
	was := o.Gain()
	o.Settle(nil)
	g := o.Gain()
	if g.Misses > 0.7*was.Misses || !g.Clear() {
		t.Errorf("%.1f misses of 1000 instructions, were %.1f in the order before, %.1f as linked", g.Misses, was.Misses, g.MissesLinked)
	}
	if slices.Equal(before, o.order) || !slices.Equal(slices.Sorted(slices.Values(before)), slices.Sorted(slices.Values(o.order))) {
		t.Errorf("order %v of %v", o.order, before)
	}
	for k, i := range o.order {
		if o.Symbols[k].Name != o.procs[i].Proc.Name {
			t.Errorf("symbol %d is %s, want %s", k, o.Symbols[k].Name, o.procs[i].Proc.Name)
		}
	}
	p := o.Whole()
	for i, at := range o.starts(o.order) {
		if p.Start[i][0] != at {
			t.Errorf("%s is expected at %#x, and placed at %#x", o.procs[i].Proc.Name, at, p.Start[i][0])
		}
	}
	again := Functions(ip)
	again.Settle(nil)
	if !slices.Equal(again.order, o.order) {
		t.Errorf("order %v, and then %v", o.order, again.order)
	}
	for _, empty := range []*infer.ImageProfile{program(nil), program([]string{"a 16 1 1"})} {
		Functions(empty).Settle(nil)
	}
}

// TestBeside: what other images run takes room in the cache. Of six leaves in one set none is missing, unless each turn calls
// another image, nobody knows where, that runs six more of the set.
func TestBeside(t *testing.T) {
	ip, other := conflict(7, 6), conflict(6, 0)
	for _, one := range []*infer.ImageProfile{ip, other} {
		im, err := image.Open("../testdata/mix/mix", image.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { im.Close() })
		one.Image = im
	}
	stub := slices.IndexFunc(ip.Image.Symbols(), func(s image.Symbol) bool { return ip.Image.IsStub(s.Addr) })
	if stub < 0 {
		t.Fatal("no stub")
	}
	ip.Procs[0].Proc.Calls[0].To = ip.Image.Symbols()[stub].Addr
	ip.Procs = slices.Delete(ip.Procs, 1, 2)
	callee := other.Procs[0]
	callee.Entries.N, callee.Edge[0].N = callee.Block[0].N, 0 // a turn for each call

	alone := Functions(ip).Gain()
	o := Functions(ip)
	o.Beside([]*infer.ImageProfile{ip, other})
	was := o.Gain()
	if alone.MissesLinked > 0.01 || was.MissesLinked < 50 {
		t.Errorf("%.3f misses of 1000 instructions alone, %.3f beside another image", alone.MissesLinked, was.MissesLinked)
	}
	o.Settle(nil)
	if g := o.Gain(); g.Misses > 0.7*was.MissesLinked || !g.Clear() {
		t.Errorf("%.3f misses of 1000 instructions after settling, %.3f before, %.3f as linked", g.Misses, was.Misses, g.MissesLinked)
	}
}

func TestClear(t *testing.T) {
	for _, tt := range []struct {
		name string
		g    Gain
		want bool
	}{
		{"nothing changed", Gain{10, 10, 1, 1, 0}, false},
		{"fewer pages", Gain{9, 10, 1, 1, 0}, true},
		{"fewer pages, more misses by chance", Gain{9, 10, 1.1, 1, 0.2}, true},
		{"fewer pages, more misses", Gain{9, 10, 1.3, 1, 0.2}, false},
		{"fewer misses", Gain{10, 10, 0.3, 1, 0.2}, true},
		{"fewer misses by chance", Gain{10, 10, 0.3, 1, 0.3}, false},
		{"fewer misses in the drawn run, not clearly in the program", Gain{10, 10, 0.5, 1, 0.1}, false},
		{"fewer misses, more pages", Gain{11, 10, 0.5, 1, 0.2}, false},
	} {
		if got := tt.g.Clear(); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestSettled: by runs drawn from exact counts, orders made from inferred ones do not miss more than what was linked,
// and take no more pages than before they were settled. With -v it prints them, beside what callgrind counted of
// sets with simulated.gz.
func TestSettled(t *testing.T) {
	for _, s := range loadSets(t) {
		o := Functions(s.inferred)
		exact := newTrail(s.true.Procs, 3, legs)
		misses := func(p *Placement) float64 {
			m, _ := mean(exact.misses(p.With(s.true.Procs), firstLevel))
			return m
		}
		pages := func(p *Placement) int { return coverage(p.With(s.true.Procs).Pieces(), pageSize).For99 }
		before := o.Whole()
		o.Settle(nil)
		linked, after, g := o.Linked(), o.Whole(), o.Gain()
		t.Logf("%-10s misses of 1000 instructions: as linked %.3f, ordered %.3f, settled %.3f; pages %d, %d, %d; inferred %.3f -> %.3f +- %.3f, clear %v", s.name,
			misses(linked), misses(before), misses(after), pages(linked), pages(before), pages(after), g.MissesLinked, g.Misses, g.Error, g.Clear())
		if g.Clear() && misses(after) > 1.05*misses(linked)+0.05 {
			t.Errorf("%s: misses %.3f of 1000 instructions, %.3f as linked", s.name, misses(after), misses(linked))
		}
		if was, is := pages(before), pages(after); is > was+max(1, was/50) {
			t.Errorf("%s: %d pages, %d before", s.name, is, was)
		}
	}
}

// TestMissesAsSimulated: runs that are drawn from exact counts miss what callgrind's cache missed: programs have
// the same ranks. What other images run and evict is not in a trail.
func TestMissesAsSimulated(t *testing.T) {
	var got, want []float64
	for _, from := range sets.Named(t) {
		file := filepath.Join(from.Dir, "simulated.gz")
		if _, err := os.Stat(file); err != nil {
			continue
		}
		s := newSet(t, from)
		for path, one := range sets.Truth(t, file).Images {
			if !truth.SamePath(path, s.inferred.ID.Path) {
				continue
			}
			var lines, insts float64
			for _, n := range one.Events["I1mr"] {
				lines += float64(n)
			}
			for _, n := range one.Insts {
				insts += float64(n)
			}
			m, _ := mean(newTrail(s.true.Procs, 1, legs).misses(Linked(s.true.Procs), firstLevel))
			in, _ := mean(newTrail(s.inferred.Procs, 1, legs).misses(Linked(s.inferred.Procs), firstLevel))
			t.Logf("%-10s misses of 1000 instructions: counted %.4f, drawn from exact counts %.4f, from inferred ones %.4f", s.name, 1000*lines/insts, m, in)
			got, want = append(got, m), append(want, 1000*lines/insts)
		}
	}
	if len(got) < 10 {
		t.Skipf("give 10 -sets with simulated.gz; %d are", len(got))
	}
	r := correlation(ranks(got), ranks(want))
	t.Logf("correlation of ranks: %.2f", r)
	if r < 0.7 {
		t.Errorf("correlation of ranks %.2f, want 0.7", r)
	}
}

// ranks returns the rank of each of x.
func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	r := make([]float64, len(x))
	for rank, i := range order {
		r[i] = float64(rank)
	}
	return r
}

func correlation(x, y []float64) float64 {
	mx, _ := mean(x)
	my, _ := mean(y)
	var xy, xx, yy float64
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
		xx += (x[i] - mx) * (x[i] - mx)
		yy += (y[i] - my) * (y[i] - my)
	}
	return xy / math.Sqrt(xx*yy)
}
