package infer

import (
	"cmp"
	"math"
	"path/filepath"
	"slices"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// linked is a program that calls functions of two libraries: its images are p, liba.so and libb.so.
func linked(t *testing.T) []*ImageProfile {
	t.Helper()
	dir := t.TempDir()
	testtool.Write(t, dir, "a.c", `
int only(int x) { while (x & 1) x >>= 1; return x; }
int both(int x) { return x * 2; }
int shown(int x) { return x * 5; }
static int chosen(int x) { return x; }
static int (*choose(void))(int) { return chosen; }
int indirect(int) __attribute__((ifunc("choose")));
int through(int x) { return only(x) + 1; }
`)
	testtool.Write(t, dir, "b.c", "int both(int x) { return x * 3; }\n")
	testtool.Write(t, dir, "p.c", `
extern int only(int), both(int), shown(int), indirect(int), through(int);
int (*volatile pointer)(int) = shown;
int main(int argc, char **argv) {
	int sum = 0;
	for (int i = 0; i < argc; i++) sum += only(i) + both(i) + indirect(i) + through(i) + pointer(i);
	return sum;
}
`)
	testtool.Run(t, dir, "gcc", "-O1", "-fPIC", "-shared", "a.c", "-o", "liba.so")
	testtool.Run(t, dir, "gcc", "-O1", "-fPIC", "-shared", "b.c", "-o", "libb.so")
	testtool.Run(t, dir, "gcc", "-O1", "-fPIE", "-pie", "p.c", "-o", "p", "-L.", "-la", "-lb")
	var all []*ImageProfile
	for _, name := range []string{"p", "liba.so", "libb.so"} {
		im, err := image.Open(filepath.Join(dir, name), image.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { im.Close() })
		id := sample.ImageID{Path: name}
		all = append(all, &ImageProfile{ID: id, Image: im, Counts: &sample.ImageCounts{ID: id, Processes: 1}})
	}
	return all
}

// of is a procedure of an image by its name.
func of(ip *ImageProfile, name string) caller { return caller{ip, ip.Image.Lookup(name)} }

// TestLinks: calls lead to what one image defines, by stubs of other images and of its own; where two define it, or a
// resolver does, nobody knows.
func TestLinks(t *testing.T) {
	images := linked(t)
	p, a := images[0], images[1]
	l := newLinks(images, false)
	main, err := p.Image.Proc(p.Image.Lookup("main"))
	if err != nil {
		t.Fatal(err)
	}
	leads := map[string]caller{}
	for i := range main.Calls {
		c := &main.Calls[i]
		leads[c.Target] = caller{}
		for _, to := range l.leads(p, c) {
			if to.image != p { // but to its own stub
				leads[c.Target] = caller{to.image, to.image.Image.Find(to.addr)}
			}
		}
	}
	for name, want := range map[string]caller{"only": of(a, "only"), "through": of(a, "through"), "both": {}, "indirect": {}} {
		if got := leads[name]; got != want {
			t.Errorf("the call of %s leads to %+v, want %+v", name, got, want)
		}
	}
	for _, tt := range []struct {
		at      caller
		callers []caller
		others  bool
	}{
		{of(a, "only"), []caller{of(p, "main"), of(a, "through")}, false},
		{of(a, "through"), []caller{of(p, "main")}, false},
		{of(a, "both"), nil, false}, // by name, but by which
		{of(a, "shown"), nil, true},
		{of(a, "chosen"), nil, true},
	} {
		name := tt.at.image.Image.Symbols()[tt.at.sym].Name
		if got := l.callers(tt.at); !slices.Equal(got, tt.callers) {
			t.Errorf("%s is called by %+v, want %+v", name, got, tt.callers)
		}
		if got := l.others(tt.at); got != tt.others {
			t.Errorf("others may call %s: %v, want %v", name, got, tt.others)
		}
	}
	if missing := newLinks(images, true); !missing.others(of(a, "only")) {
		t.Error("where an image is missing, it may call what is exported")
	}
	// main runs once, and calls what nobody else calls, in a loop.
	if b := (&climber{l, map[caller]bool{}, map[caller]belief{}}).entered(of(a, "through"), maxUp); !b.ok || math.Abs(b.mean-turns) > 1e-9 {
		t.Errorf("entries of through: %+v, want %g", b, turns)
	}
}

// TestLinkedCalls: what another image calls is entered as often as it is called.
func TestLinkedCalls(t *testing.T) {
	images := linked(t)
	p, a := images[0], images[1]
	procs := func(ip *ImageProfile, samples uint64, names ...string) {
		for _, name := range names {
			proc, err := ip.Image.Proc(ip.Image.Lookup(name))
			if err != nil {
				t.Fatal(err)
			}
			r := newResult(proc)
			for b := range r.BlockSamples {
				r.BlockSamples[b] = samples
			}
			ip.Procs = append(ip.Procs, r)
		}
		slices.SortFunc(ip.Procs, func(x, y *Result) int { return cmp.Compare(x.Proc.Addr, y.Proc.Addr) })
	}
	procs(p, 1000, "main")
	procs(a, 20, "only", "through")
	prof := &Profile{Images: images}
	for _, tied := range []bool{false, true} {
		pr := pose(prof.results(), plainCost, &outOfOrder, nil)
		l := newLinks(images, !tied)
		if tied {
			pr.tie(l)
		}
		pr.run(false)
		entries := map[string]float64{}
		for _, r := range a.Procs {
			entries[r.Proc.Name] = r.Entries.N
		}
		var calls float64 // of only
		for _, ip := range images[:2] {
			for _, r := range ip.Procs {
				for c := range r.Proc.Calls {
					if r.Proc.Calls[c].Target == "only" {
						calls += r.Call[c].N
					}
				}
			}
		}
		if off := math.Abs(math.Log(entries["only"] / calls)); (off < 0.3) != tied {
			t.Errorf("tied: %v: only is entered %.4g times and called %.4g times", tied, entries["only"], calls)
		}
	}
}

// TestWalked: the executions of a branch go where walks saw it go, and a little elsewhere; how sure that is, and how
// much of what enters a procedure was not seen, depends on how much was seen.
func TestWalked(t *testing.T) {
	im := loadMix(t).image
	ip := &ImageProfile{ID: sample.ImageID{Path: "mix"}, Image: im}
	at := func(sym int) target { return caller{ip, sym}.start() }
	off := func(sym int) sample.Frame {
		o, _ := im.OffsetOf(at(sym).addr)
		return sample.Frame{Image: 0, Off: o}
	}
	const from, f, g = 1, 2, 3
	l := newLinks([]*ImageProfile{ip}, false)
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock"})
	c.Image(ip.ID)
	c.AddTarget(sample.Branch{From: off(from), To: off(f)}, 300*visitClump)
	c.AddTarget(sample.Branch{From: off(from), To: off(g)}, 100*visitClump)
	c.AddTarget(sample.Branch{From: off(from), To: sample.Frame{Image: sample.Unknown}}, 100*visitClump)
	c.AddTarget(sample.Branch{From: off(4), To: off(g)}, 1)
	l.see([]*sample.Counts{c})

	leads := l.walked[at(from)]
	if len(leads) != 2 || leads[0].target != at(f) || leads[1].target != at(g) {
		t.Fatalf("leads to %+v", leads)
	}
	if a, b := leads[0].share, leads[1].share; math.Abs(a-0.6) > 0.01 || math.Abs(b-0.2) > 0.01 || a+b > 0.8 {
		t.Errorf("shares %.3f and %.3f, want 0.6 and 0.2", a, b)
	}
	known := map[target]bool{at(from): true}
	if u := l.seen[at(f)].unseen(known); u > 0.01 {
		t.Errorf("of 300 arrivals by one branch, %.3f are thought to be by others", u)
	}
	if u := l.seen[at(f)].unseen(nil); u < 0.99 {
		t.Errorf("of arrivals by an unknown branch, %.3f are thought to be by others", u)
	}
	if u := l.seen[at(g)].unseen(map[target]bool{at(4): true, at(from): true}); u < 0.005 || u > 0.02 {
		t.Errorf("of 100 arrivals and one at a branch of its own, %.3f are thought to be unseen", u)
	}
	var none arrivals
	if u := none.unseen(nil); u < mostUnseen {
		t.Errorf("of no arrivals %.3f are thought to be unseen", u)
	}
	many, few := l.seen[at(f)].variance(l, known), l.seen[at(g)].variance(l, map[target]bool{at(4): true})
	if many > 0.01 || few < 0.3 {
		t.Errorf("the variance of a share of 300 is %.3g, of the fourth part of one %.3g", many, few)
	}
}
