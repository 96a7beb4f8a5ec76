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

// linked is a program that calls functions of two libraries: its images are p, liba.so and libb.so. It defines own as liba does.
func linked(t *testing.T) []*ImageProfile {
	t.Helper()
	dir := t.TempDir()
	testtool.Write(t, dir, "a.c", `
int only(int x) { while (x & 1) x >>= 1; return x; }
int both(int x) { return x * 2; }
int own(int x) { return x * 7; }
int shown(int x) { return x * 5; }
static int chosen(int x) { return x; }
static int (*choose(void))(int) { return chosen; }
int indirect(int) __attribute__((ifunc("choose")));
int through(int x) { return only(x) + own(x) + 1; }
`)
	testtool.Write(t, dir, "b.c", "int both(int x) { return x * 3; }\nint last(int x) { return x * 4; }\n")
	testtool.Write(t, dir, "p.c", `
extern int only(int), both(int), shown(int), indirect(int), through(int), last(int);
int (*volatile pointer)(int) = shown;
int own(int x) { return x * 9; }
int main(int argc, char **argv) {
	int sum = 0;
	for (int i = 0; i < argc; i++) sum += only(i) + both(i) + indirect(i) + through(i) + pointer(i) + last(i);
	return sum;
}
`)
	testtool.Run(t, dir, "gcc", "-O1", "-fno-inline", "-fPIC", "-shared", "a.c", "-o", "liba.so")
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

// sampled adds procedures to an image, with so many samples in each block.
func (ip *ImageProfile) sampled(t *testing.T, samples uint64, names ...string) {
	t.Helper()
	for _, name := range names {
		proc, err := ip.Image.Proc(ip.Image.Lookup(name))
		if err != nil {
			t.Fatal(err)
		}
		r := newResult(proc)
		for b := range r.BlockSamples {
			r.BlockSamples[b] = samples
			r.Samples += samples
		}
		ip.Procs = append(ip.Procs, r)
	}
	slices.SortFunc(ip.Procs, func(x, y *Result) int { return cmp.Compare(x.Proc.Addr, y.Proc.Addr) })
}

// TestLinks: calls lead to what an image defines, by stubs of other images and of its own: of two to that of the program, or of the library
// that it names first; of what a resolver may return, to what has samples.
func TestLinks(t *testing.T) {
	images := linked(t)
	p, a := images[0], images[1]
	a.sampled(t, 5, "chosen")
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
	for name, want := range map[string]caller{"only": of(a, "only"), "through": of(a, "through"), "both": of(a, "both"), "indirect": of(a, "chosen")} {
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
		{of(a, "both"), []caller{of(p, "main")}, false},
		{of(images[2], "both"), nil, false},
		{of(a, "own"), nil, false}, // by its name, which is that of another
		{of(p, "own"), []caller{of(a, "through")}, false},
		{of(a, "shown"), nil, true},
		{of(a, "chosen"), []caller{of(p, "main")}, false},
	} {
		name := tt.at.image.Image.Symbols()[tt.at.sym].Name
		if got := l.callers(tt.at); !slices.Equal(got, tt.callers) {
			t.Errorf("%s is called by %+v, want %+v", name, got, tt.callers)
		}
		if got := l.others(tt.at); got != tt.others {
			t.Errorf("others may call %s: %v, want %v", name, got, tt.others)
		}
	}
	for _, name := range []string{"only", "chosen"} {
		if missing := newLinks(images, true); !missing.others(of(a, name)) {
			t.Errorf("where an image is missing, it may call %s, which it can link with", name)
		}
	}
	a.Procs = nil
	if !newLinks(images, false).others(of(a, "chosen")) {
		t.Error("what has no samples may be what a resolver returns")
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
	p.sampled(t, 1000, "main")
	a.sampled(t, 20, "only", "through")
	prof := &Profile{Images: images}
	for _, tied := range []bool{false, true} {
		pr := pose(prof.results(), plainCost, &outOfOrder, nil)
		l := newLinks(images, !tied)
		if tied {
			pr.tie(l, true)
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

// TestFirst: the program is searched before all libraries, those that it names in their order; others may be anywhere.
func TestFirst(t *testing.T) {
	program, one, two, loaded, also := &ImageProfile{}, &ImageProfile{}, &ImageProfile{}, &ImageProfile{}, &ImageProfile{}
	order := map[*ImageProfile]int{program: 0, one: 1, two: 2}
	at := func(ips ...*ImageProfile) (all []definer) {
		for _, ip := range ips {
			all = append(all, definer{target: target{ip, 0x1000}})
		}
		return all
	}
	for _, tt := range []struct {
		name string
		by   []definer
		want *ImageProfile
	}{
		{"a single one", at(loaded), loaded},
		{"a library of the program's and the program", at(two, program), program},
		{"one that is loaded and the program", at(loaded, program), program},
		{"two libraries of the program's", at(two, one), one},
		{"one of the program's and one that is loaded, perhaps before", at(one, loaded), nil},
		{"two that are loaded", at(loaded, also), nil},
		{"twice by one", append(at(one), definer{target: target{one, 0x2000}}), nil},
	} {
		got, ok := first(tt.by, order)
		if ok != (tt.want != nil) || ok && got.image != tt.want {
			t.Errorf("%s: %+v, %v", tt.name, got, ok)
		}
	}
}

// TestFollowed: a function is not filled for calls that the dynamic linker binds to another's of the same name.
func TestFollowed(t *testing.T) {
	images := linked(t)
	p, a := images[0], images[1]
	p.sampled(t, 1000, "main")
	a.sampled(t, 20, "through")
	pr := pose((&Profile{Images: images}).results(), plainCost, &outOfOrder, nil)
	l := newLinks(images, false)
	pr.tie(l, true)
	pr.run(false)
	pr.follow(a, l)
	ran := map[string]float64{}
	for _, r := range a.Procs {
		ran[r.Proc.Name] = r.Entries.N
	}
	if ran["own"] > 0 || ran["only"] < 0.5*ran["through"] || ran["through"] == 0 {
		t.Errorf("executions: %v; want those of through and only, and none of own", ran)
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
