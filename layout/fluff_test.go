package layout

import (
	"cmp"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// fluffC is a program with cold code of each kind. In work, one block in 16 executions of
// the loop is rare, another never runs.
const fluffC = `
#include <stdio.h>
#include <stdlib.h>
volatile long sink, never;
#define BODY(k) sink = sink * 3 + k; sink ^= sink >> 7; sink *= k + 5; sink -= sink >> 3; sink += k; sink ^= sink << 5;
__attribute__((noinline)) void unreferenced(void) { BODY(1) BODY(2) }
__attribute__((noinline)) void by_pointer(void) { BODY(3) BODY(4) }
__attribute__((noinline)) void exported(void) { BODY(5) BODY(6) }
__attribute__((noinline)) void only_from_unreferenced(void) { BODY(9) BODY(9) }
__attribute__((noinline)) void unreferenced_too(void) { only_from_unreferenced(); BODY(9) }
__attribute__((noinline, noreturn)) void die(void) { puts("died"); abort(); }
__attribute__((noinline)) void helper(void) { BODY(7) if (never) die(); BODY(8) }
__attribute__((constructor, noinline)) void at_start(void) { BODY(10) BODY(11) }
void (*volatile table[])(void) = { by_pointer };
__attribute__((noinline)) void rare(void) { BODY(12) BODY(13) }
__attribute__((noinline)) void work(long n) {
	for (long i = 0; i < n; i++) {
		BODY(14)
		if (i % 16 == 0) { rare(); BODY(15) }
		if (never) { helper(); BODY(16) }
		BODY(17)
	}
}
int main(int argc, char **argv) { work(argc * 1000000L); return 0; }
`

// fluffProfile infers from samples of fluffC's work: k in each instruction of the
// blocks that run in every round, so many in the rare ones, and none elsewhere.
func fluffProfile(t *testing.T, program string, k, rare uint64) (*infer.Profile, *infer.ImageProfile) {
	t.Helper()
	im, err := image.Open(program, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 1000000, Unit: "ns"})
	i := c.Image(sample.ImageID{Build: im.Build, Path: program})
	hit := func(p *image.Proc, b int, n uint64) {
		for _, in := range im.Insts(&p.Blocks[b]) {
			off, _ := im.OffsetOf(in.Addr)
			c.AddSample(i, off, n)
		}
	}
	proc := func(name string) *image.Proc {
		p, err := im.Proc(im.Lookup(name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		return p
	}
	p := proc("work")
	doomed := doomedBlocks(p)
	for b := range p.Blocks {
		n := k
		for _, call := range p.Blocks[b].Calls {
			switch p.Calls[call].Target {
			case "rare":
				n = rare
			case "helper":
				n = 0
			}
		}
		if doomed[b] || p.Blocks[b].Exit != image.NoExit || b == 0 {
			n = 0
		}
		hit(p, b, n)
	}
	for b := range proc("rare").Blocks {
		hit(proc("rare"), b, rare)
	}
	c.Weight = c.Total * c.Event.Period
	rec := &sample.Recording{}
	rec.Add(c)
	prof, err := infer.Infer(t.Context(), rec, func(sample.ImageID) (*image.Image, error) { return im, nil }, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return prof, prof.Images[0]
}

// TestFluff: code of each kind is told apart, and absence is evidence only where
// there are samples enough.
func TestFluff(t *testing.T) {
	testtool.Need(t, "gcc")
	dir := t.TempDir()
	src, program := filepath.Join(dir, "fluff.c"), filepath.Join(dir, "fluff")
	if err := os.WriteFile(src, []byte(fluffC), 0o644); err != nil {
		t.Fatal(err)
	}
	testtool.Run(t, dir, "gcc", "-O1", "-fno-reorder-blocks", "-pie", "-fPIE", "-Wl,--build-id,--export-dynamic-symbol=exported", "-o", program, src)
	const none = NoEvidence
	type claim struct {
		why  Reason
		few  Evidence // with two samples in each hot instruction
		many Evidence // with 10,000
	}
	want := map[string]claim{
		"unreferenced":           {Unreferenced, ByFlow, ByFlow},
		"unreferenced_too":       {Unreferenced, ByFlow, ByFlow},
		"only_from_unreferenced": {Called, ByFlow, ByFlow},
		"by_pointer":             {Callback, none, BySamples},
		"exported":               {API, none, BySamples},
		"at_start":               {StartUp, none, BySamples},
		"helper":                 {Called, none, ByFlow},
		"die":                    {Error, none, ByFlow},
	}
	var last *Fluff
	for _, k := range []uint64{2, 10000} {
		prof, ip := fluffProfile(t, program, k, k/16)
		f := FindFluff(prof, ip, nil)
		if sum := f.Hot + f.Executed + f.Cold + f.Unknown + f.Other; sum != f.Text {
			t.Errorf("%d samples: parts add up to %d bytes of %d", f.Samples, sum, f.Text)
		}
		got := map[string]claim{}
		blocks := map[Reason]uint64{}
		for _, it := range slices.Concat(f.Items, f.Unsure) {
			if it.Whole {
				got[it.Symbol.Name] = claim{it.Why, it.Evidence, it.Evidence}
			} else if it.Symbol.Name == "work" {
				blocks[it.Why] += it.Bytes()
			}
			if it.Symbol.Name == "rare" {
				t.Errorf("%d samples: rare is %v by %v", f.Samples, it.Why, it.Evidence)
			}
		}
		for _, name := range slices.Sorted(maps.Keys(want)) {
			w := want[name]
			g, found := got[name]
			if !found {
				g = claim{w.why, none, none} // it was thought to run
			}
			ev := w.few
			if k > 2 {
				ev = w.many
			}
			if g.why != w.why || g.few != ev {
				t.Errorf("%d samples: %s is %v by %v, want %v by %v", f.Samples, name, g.why, g.few, w.why, ev)
			}
		}
		if n := blocks[Branch]; (n > 0) != (k > 2) {
			t.Errorf("%d samples: %d bytes of blocks in work are cold", f.Samples, n)
		}
		last = f
	}
	for _, it := range last.Items {
		if it.Symbol.Name == "by_pointer" && it.Reach != image.Pointed || it.Symbol.Name == "exported" && it.Reach&image.Exported == 0 {
			t.Errorf("%s is reached by %b", it.Symbol.Name, it.Reach)
		}
		if it.Symbol.Name == "only_from_unreferenced" && !slices.Equal(it.Callers, []Caller{{Name: "unreferenced_too"}}) {
			t.Errorf("%s is called by %v", it.Symbol.Name, it.Callers)
		}
	}
}

// TestFluffTruth: of the code that is called fluff, next to nothing ran more often than
// fluff may. TestFluffTruth -sets says how much ran at all.
func TestFluffTruth(t *testing.T) {
	for _, s := range loadSets(t) {
		last := -1
		f := FindFluff(s.profile, s.inferred, func(done, total int) {
			if done <= last || done >= total {
				t.Errorf("progress: %d of %d after %d", done, total, last)
			}
			last = done
		})
		if last < 0 {
			t.Error("no progress")
		}
		if sum := f.Hot + f.Executed + f.Cold + f.Unknown + f.Other; sum != f.Text {
			t.Errorf("%s: parts add up to %d bytes of %d", s.name, sum, f.Text)
		}
		var all, in float64             // executions of instructions
		var blocks float64              // executions of blocks
		size := map[image.Addr]uint64{} // of instructions that ran, in bytes
		for _, r := range s.true.Procs {
			for b := range r.Proc.Blocks {
				for k, inst := range s.true.Image.Insts(&r.Proc.Blocks[b]) {
					n := float64(s.truth.Insts[inst.Addr])
					all += n
					if k == 0 {
						blocks += n
					}
					if n > 0 {
						size[inst.Addr] = uint64(inst.Len)
					}
				}
			}
		}
		var inferred float64 // executions of blocks
		for _, ip := range s.profile.Images {
			for _, r := range ip.Procs {
				for _, n := range r.Block {
					inferred += n.N
				}
			}
		}
		limit := f.ColdBelow / inferred * blocks
		items := slices.SortedFunc(slices.Values(f.Items), func(a, b FluffItem) int { return cmp.Compare(a.Start, b.Start) })
		var executed, ran, above uint64
		for a, n := range size {
			executed += n
			_, found := slices.BinarySearchFunc(items, a, func(it FluffItem, a image.Addr) int {
				switch {
				case it.End <= a:
					return -1
				case it.Start > a:
					return 1
				}
				return 0
			})
			if found {
				ran += n
				in += float64(s.truth.Insts[a])
				if float64(s.truth.Insts[a]) > limit {
					above += n
				}
			}
		}
		t.Logf("%s: %d bytes, %.1f %% of what never ran; %.2f %% ran, %.3f %% more than %.0f times, %.4f %% of the executions",
			s.name, f.Cold, 100*float64(f.Cold-ran)/float64(f.Text-executed), 100*float64(ran)/float64(f.Cold), 100*float64(above)/float64(f.Cold), limit, 100*in/all)
		if float64(above) > 0.01*float64(f.Cold) {
			t.Errorf("%s: %d of %d bytes of fluff ran more often than fluff may", s.name, above, f.Cold)
		}
	}
}
