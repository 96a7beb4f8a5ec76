package layout

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// sized makes a procedure at addr of a graph whose blocks have these sizes.
func sized(arcs string, addr image.Addr, sizes ...uint64) *infer.Result {
	g := graph(arcs)
	g.Nodes[0].N++ // it is entered once
	for i, size := range sizes {
		g.Nodes[i].Size = size
	}
	r := procedure(g, addr)
	r.Proc.Entries = []int{0}
	return r
}

func TestAlign(t *testing.T) {
	for _, tt := range []struct {
		name string
		r    *infer.Result
		want []AlignItem // without what goes without saying
	}{
		// a 0..19, b 20..51: a loop of 32 bytes over two windows.
		{"a loop that fits a window", sized("a>b 1, b>b 99, b>c 1", 0, 20, 32, 4), []AlignItem{
			{Kind: LoopHead, Start: 20, End: 52, N: 100, Align: 32, Pad: 12, Now: Windows{1.99, 0.99}, Then: Windows{1, 0.99}},
		}},
		{"a loop that is aligned already", sized("a>b 1, b>b 99, b>c 1", 12, 20, 32, 4), nil},
		{"a loop that no alignment helps", sized("a>b 1, b>b 99, b>c 1", 0, 2, 94, 4), nil},
		{"a loop that fills a line", sized("a>b 1, b>b 99, b>c 1", 4, 12, 64, 4), []AlignItem{
			{Kind: LoopHead, Start: 16, End: 80, N: 100, Align: 64, Pad: 48, Now: Windows{2.99, 1.99}, Then: Windows{2.01, 1}},
		}},
		// b 50..69 crosses a line, too. At 64 it has one window of either size.
		{"a loop across a line", sized("a>b 1, b>b 99, b>c 1", 0, 50, 20, 4), []AlignItem{
			{Kind: LoopHead, Start: 50, End: 70, N: 100, Align: 32, Pad: 14, Now: Windows{1.99, 1.99}, Then: Windows{1, 1}},
		}},
		// a 16..35 jumps to c 60..71, which nothing falls into.
		{"a target of jumps", sized("a>c 100, a>b 1, b>d 1, c>d 100", 0, 20, 40, 12, 4), []AlignItem{
			{Kind: JumpTarget, Start: 60, End: 76, N: 100, Align: 32, Pad: 4, Now: Windows{2, 2}, Then: Windows{1, 1}},
		}},
	} {
		if tt.name == "a target of jumps" {
			tt.r.Block[0].N = 101
		}
		a := Align(&infer.ImageProfile{Procs: []*infer.Result{tt.r}})
		got := slices.Clone(a.Items)
		got = slices.DeleteFunc(got, func(i AlignItem) bool { return i.Kind == ProcEntry })
		for i := range got {
			got[i].Symbol = image.Symbol{}
		}
		if !slices.EqualFunc(got, tt.want, func(x, y AlignItem) bool {
			near := func(v, w Windows) bool { d := v.minus(w); return max(d.Of32, -d.Of32, d.Of64, -d.Of64) < 0.02 }
			return x.Kind == y.Kind && x.Start == y.Start && x.End == y.End && x.N == y.N && x.Align == y.Align && x.Pad == y.Pad && near(x.Now, y.Now) && near(x.Then, y.Then)
		}) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}

// TestInnermostLoops: loops are found by flow, not by address.
func TestInnermostLoops(t *testing.T) {
	for _, tt := range []struct {
		name, arcs string
		want       [][]int
	}{
		{"no loop", "a>b 1, a>c 1, b>d 1, c>d 1", nil},
		{"to itself", "a>b 1, b>b 1, b>c 1", [][]int{{1}}},
		{"with an arm", "a>b 1, b>c 1, b>d 1, c>e 1, d>e 1, e>b 1, e>f 1", [][]int{{1, 2, 3, 4}}},
		{"one in another", "a>b 1, b>c 1, c>c 1, c>d 1, d>b 1, d>e 1", [][]int{{2}}},
		{"two edges back", "a>b 1, b>c 1, c>b 1, b>d 1, d>b 1, d>e 1", [][]int{{1, 2, 3}}},
		{"turned round: the head comes last", "a>c 1, c>b 1, b>c 1, c>d 1", [][]int{{2, 1}}},
		{"jumped into: no head", "a>b 1, a>c 1, b>c 1, c>b 1, c>d 1", nil},
	} {
		got := innermostLoops(sized(tt.arcs, 0).Proc)
		for _, l := range got {
			slices.Sort(l[1:])
		}
		if !slices.EqualFunc(got, tt.want, slices.Equal) {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// TestAlignTruth: what is advised by inferred counts saves fetches by true ones, and most of
// what advice by true counts would save.
func TestAlignTruth(t *testing.T) {
	for _, s := range loadSets(t) {
		advised := map[image.Addr]AlignItem{}
		inferred := Align(s.inferred)
		for _, it := range inferred.Items {
			advised[it.Start] = it
		}
		exact := Align(s.true)
		var found Windows
		for _, it := range exact.Items {
			if a, ok := advised[it.Start]; ok && a.Align == it.Align {
				found = found.plus(it.Saved())
			}
		}
		if exact.Saved.sum() == 0 {
			continue
		}
		share := found.sum() / exact.Saved.sum()
		t.Logf("%s: %d items, said to save %.1f %% of fetches; by true counts %d that save %.1f %%, of which the common ones save %.0f %%", s.name,
			len(inferred.Items), 100*inferred.Saved.sum()/inferred.Fetches.sum(), len(exact.Items), 100*exact.Saved.sum()/exact.Fetches.sum(), 100*share)
		if share < 0.5 {
			t.Errorf("%s: what is advised saves %.0f %% of what could be saved", s.name, 100*share)
		}
	}
}

// TestAlignCompiled: loops that gcc aligns as advised take the fetches that were predicted.
func TestAlignCompiled(t *testing.T) {
	testtool.Need(t, "gcc")
	const program = `
#define LOOP(n, pad) __attribute__((noinline, aligned(64))) long loop##n(long *a, long k) { \
	long s = k; __asm__ volatile (".skip " #pad ", 0x90"); \
	for (long i = 0; i < k; i++) { s = s * 5 + a[i]; s ^= s >> 3; s += a[i] << 2; } return s; }
LOOP(0, 1) LOOP(1, 8) LOOP(2, 16) LOOP(3, 24)
long a[100];
int main(void) { return loop0(a, 100) + loop1(a, 100) + loop2(a, 100) + loop3(a, 100); }
`
	dir := t.TempDir()
	src := filepath.Join(dir, "loops.c")
	if err := os.WriteFile(src, []byte(program), 0o644); err != nil {
		t.Fatal(err)
	}
	build := func(name, option string) *Alignment {
		path := filepath.Join(dir, name)
		testtool.Run(t, dir, "gcc", "-O2", "-fno-align-jumps", option, "-Wl,--build-id", "-o", path, src)
		prof := loopProfile(t, path)
		return Align(prof.Images[0])
	}
	before := build("before", "-fno-align-loops")
	loops := before.All[LoopHead]
	if loops.By == 0 || loops.N != 4 {
		t.Fatalf("of four loops at different offsets none gains: %+v", loops)
	}
	after := build("after", fmt.Sprintf("-falign-loops=%d", loops.By))
	for _, it := range after.Items {
		if it.Kind == LoopHead {
			t.Errorf("aligned, %s would still gain: %+v", it.Symbol.Name, it)
		}
	}
	saved := before.Fetches.minus(after.Fetches)
	if s, p := saved.sum(), loops.Saved.sum(); s < 0.9*p || s > 1.1*p {
		t.Errorf("it took %.4g fetches less, %.4g were predicted", s, p)
	}
}

// loopProfile infers from as many samples in each instruction of the functions loop0, loop1, ...
func loopProfile(t *testing.T, path string) *infer.Profile {
	im, err := image.Open(path, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "instructions", Period: 1000, Unit: "instructions"})
	at := c.Image(sample.ImageID{Build: im.Build, Path: path})
	for i, s := range im.Symbols() {
		if !strings.HasPrefix(s.Name, "loop") {
			continue
		}
		p, err := im.Proc(i)
		if err != nil {
			t.Fatal(err)
		}
		for _, l := range innermostLoops(p) {
			for _, b := range l {
				for _, in := range im.Insts(&p.Blocks[b]) {
					off, _ := im.OffsetOf(in.Addr)
					c.AddSample(at, off, 1000)
				}
			}
		}
	}
	c.Weight = c.Total * c.Event.Period
	rec := &sample.Recording{}
	rec.Add(c)
	prof, err := infer.Infer(t.Context(), rec, func(sample.ImageID) (*image.Image, error) { return im, nil }, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return prof
}
