package calibrate

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"backfeed/cmd/internal/input"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/probe"
)

// A grouped is a calibrator without a prober, of images that are not looked into.
type grouped struct {
	*Calibrator
	proc string // the made-up /proc
}

func newGrouped(t *testing.T, images ...*infer.ImageProfile) *grouped {
	t.Helper()
	g := &grouped{proc: t.TempDir()}
	g.Calibrator = &Calibrator{
		proc: g.proc, images: map[sample.ImageID]*probedImage{}, place: map[siteKey]*chosen{}, dense: map[siteKey]bool{},
		allowed: func(code []byte, cond int8) error {
			if len(code) == 0 || code[0] == 'x' {
				return errors.New("not to be probed")
			}
			return nil
		},
	}
	for _, ip := range images {
		f, err := os.Open(ip.ID.Path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		g.images[ip.ID.Key()] = &probedImage{file: f}
	}
	return g
}

// procSites are sites of a procedure at addr, one for each of the rates per second. Each
// gains the same.
func procSites(ip *infer.ImageProfile, addr image.Addr, gain float64, rates ...float64) (sites []infer.Site) {
	r := &infer.Result{Proc: &image.Proc{Symbol: image.Symbol{Addr: addr}}}
	for i, rate := range rates {
		at := image.ProbeSite{Addr: addr + image.Addr(i), Off: sample.Offset(addr) + sample.Offset(i), Cond: 4}
		sites = append(sites, infer.Site{Image: ip, Proc: r, Block: i, ProbeSite: at, Runs: true, Rate: rate, Gain: gain})
	}
	return sites
}

// times are n times a rate.
func times(n int, rate float64) []float64 { return slices.Repeat([]float64{rate}, n) }

// shape tells of each group how many sites it has of each procedure.
func shape(groups []*chosen) string {
	var all []string
	for _, g := range groups {
		n := map[sample.Offset]int{}
		var order []sample.Offset
		for _, s := range g.Sites {
			at := s.Off &^ 0xff
			if n[at]++; n[at] == 1 {
				order = append(order, at)
			}
		}
		var of []string
		for _, at := range order {
			of = append(of, fmt.Sprintf("%x*%d", uint64(at), n[at]))
		}
		all = append(all, strings.Join(of, " "))
	}
	return strings.Join(all, ", ")
}

// probedFile is an image of so many bytes that may be probed.
func probedFile(t *testing.T, name string) *infer.ImageProfile {
	t.Helper()
	path := testtool.Write(t, t.TempDir(), name, strings.Repeat(".", 0x1000))
	return &infer.ImageProfile{ID: sample.ImageID{Path: path}}
}

// TestGroupOutcomes: branches are armed together in their order, as many as a group has.
func TestGroupOutcomes(t *testing.T) {
	app, lib := probedFile(t, "app"), probedFile(t, "lib")
	jump := procSites(app, 0x300, 1, 1e3)
	jump[0].Cond = probe.NoCond
	for _, tt := range []struct {
		name  string
		most  int
		sites [][]infer.Site
		want  string
	}{
		{"nothing", 9, nil, ""},
		{"procedures share a group", 9, [][]infer.Site{procSites(app, 0x100, 1, 1e3, 1e3), procSites(app, 0x200, 1, 1e3)}, "100*2 200*1"},
		{"36 in a group", 9, [][]infer.Site{procSites(app, 0x100, 1, times(100, 1e3)...)}, "100*36, 100*36, 100*28"},
		{"files apart", 9, [][]infer.Site{procSites(app, 0x100, 1, 1e3), procSites(lib, 0x200, 1, 1e3)}, "100*1, 200*1"},
		{"what matters most first", 9, [][]infer.Site{procSites(app, 0x100, 1, 1e3), procSites(lib, 0x200, 2, 1e3)}, "200*1, 100*1"},
		{"so many groups and one more", 1, [][]infer.Site{procSites(app, 0x100, 1, times(100, 1e3)...)}, "100*36, 100*36"},
		{"a site twice", 9, [][]infer.Site{procSites(app, 0x100, 1, 1e3), procSites(app, 0x100, 1, 1e3)}, "100*1"},
		{"no branch", 9, [][]infer.Site{jump, procSites(app, 0x100, 1, 1e3)}, "100*1"},
	} {
		k := newGrouped(t, app, lib)
		groups := k.groupOutcomes(slices.Concat(tt.sites...), tt.most)
		if got := shape(groups); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		sum := 0.0
		for _, g := range groups {
			if len(g.sites) != len(g.Sites) || g.File != g.ID.Path || g.Rate != 1e3*float64(len(g.Sites)) {
				t.Errorf("%s: group %+v", tt.name, g)
			}
			sum += g.Gain
		}
		if len(groups) > 0 && math.Abs(sum-(1-runsShare)) > 1e-9 {
			t.Errorf("%s: together they gain %v, want %v", tt.name, sum, 1-runsShare)
		}
	}
}

// TestGroupRefused: what the kernel does not emulate, is in a file that cannot be read or
// has a debugger's breakpoints is not probed.
func TestGroupRefused(t *testing.T) {
	app, lib := probedFile(t, "app"), probedFile(t, "lib")
	b := []byte(strings.Repeat(".", 0x1000))
	b[0x101] = 'x'
	if err := os.WriteFile(app.ID.Path, b, 0o644); err != nil {
		t.Fatal(err)
	}
	k := newGrouped(t, app, lib)
	for kind, group := range map[string]func([]infer.Site, int) []*chosen{"outcomes": k.groupOutcomes, "runs": k.groupRuns} {
		sites := slices.Concat(procSites(app, 0x100, 1, 1e3, 1e3, 1e3), procSites(lib, 0x200, 1, 1e3))
		if got := shape(group(sites, 9)); got != "100*2, 200*1" {
			t.Errorf("%s: one may not be probed: %s", kind, got)
		}
		k.images[lib.ID.Key()].err = input.ErrNotFound
		k.images[sample.ImageID{Path: "/gone"}] = &probedImage{err: input.ErrNotFound}
		more := slices.Concat(procSites(lib, 0x300, 1, 1e3), procSites(&infer.ImageProfile{ID: sample.ImageID{Path: "/gone"}}, 0x400, 1, 1e3), procSites(&infer.ImageProfile{ID: sample.ImageID{Path: "/never/opened"}}, 0x500, 1, 1e3))
		if got := shape(group(more, 9)); got != "" {
			t.Errorf("%s: files that could not be read: %s", kind, got)
		}
		k.images[lib.ID.Key()].err = nil
		tracedProcess(t, k.proc, "12", 7, lib.ID.Path)
		if got := shape(group(sites, 9)); got != "100*2" {
			t.Errorf("%s: a file that a debugger is at: %s", kind, got)
		}
		if err := os.RemoveAll(filepath.Join(k.proc, "12")); err != nil {
			t.Fatal(err)
		}
		if got := shape(group(sites, 9)); got != "100*2, 200*1" {
			t.Errorf("%s: a file that no debugger is at any more: %s", kind, got)
		}
		if got := shape(group(procSites(app, 0x2000, 1, 1e3), 9)); got != "" {
			t.Errorf("%s: beyond the end of the file: %s", kind, got)
		}
	}
}

// TestGroupRuns: sites that tell how often procedures run stay in their groups, in all
// choices, and others join them; those that fill windows leave with all of their group.
func TestGroupRuns(t *testing.T) {
	app := probedFile(t, "app")
	k := newGrouped(t, app)
	first := slices.Concat(procSites(app, 0x100, 2, times(30, 1e3)...), procSites(app, 0x200, 1, times(15, 1e3)...))
	before := k.groupRuns(first, 9)
	if got, want := shape(before), "100*30 200*6, 200*9"; got != want {
		t.Fatalf("%s, want %s", got, want)
	}
	if sum := before[0].Gain + before[1].Gain; math.Abs(sum-1) > 1e-9 || before[0].Gain < 7*before[1].Gain {
		t.Errorf("gains %v and %v", before[0].Gain, before[1].Gain)
	}
	was := slices.Clone(before[0].Sites)
	groups := k.groupRuns(slices.Concat(procSites(app, 0x300, 1, times(12, 1e3)...), first), 9)
	if got, want := shape(groups), "100*30 200*6 300*12, 200*9"; got != want {
		t.Errorf("a choice of more: %s, want %s", got, want)
	}
	if !slices.Equal(groups[0].Sites[:len(was)], was) {
		t.Errorf("%v, before %v", groups[0].Sites, was)
	}
	if got, want := shape(k.groupRuns(first, 1)), "100*30 200*6 300*12"; got != want {
		t.Errorf("one group: %s, want %s", got, want)
	}
	k.leave(map[probe.Site]bool{was[3]: true})
	if !k.dense[siteKey{app.ID.Key(), was[3].Off}] || k.dense[siteKey{app.ID.Key(), was[4].Off}] {
		t.Errorf("sites that fill windows: %v", k.dense)
	}
	if got, want := shape(k.groupRuns(procSites(app, 0x100, 1, 1e3, 1e3), 9)), "200*9 100*2"; got != want {
		t.Errorf("after a group has ended: %s, want %s", got, want)
	}
}

// TestGroupRunsWanted: sites join the groups that walks wanted before, of which none is twice in a
// group, and leave alone what was chosen before these.
func TestGroupRunsWanted(t *testing.T) {
	app := probedFile(t, "app")
	k := newGrouped(t, app)
	k.groupRuns(procSites(app, 0x100, 1, 1e3, 1e3, 1e3), 9)
	wanted := &chosen{own: map[image.Addr]float64{}}
	for _, s := range procSites(app, 0x200, 1, 1e3, 1e3) {
		k.add(wanted, s)
	}
	k.setRuns([]*chosen{wanted})
	sites := slices.Concat(procSites(app, 0x200, 1, 1e3, 1e3, 1e3), procSites(app, 0x100, 1, 1e3))
	if got, want := shape(k.groupRuns(sites, 9)), "200*3 100*1"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestGroupRunsRate: sites of one procedure that run too often together are armed apart, in
// no more groups than there may be; those of others join them.
func TestGroupRunsRate(t *testing.T) {
	app, lib := probedFile(t, "app"), probedFile(t, "lib")
	for most, want := range map[int]string{
		2: "100*3 200*1, 100*3 200*1",
		9: "100*3 200*1, 100*3 200*1, 100*1, 300*1, 300*1",
	} {
		k := newGrouped(t, app, lib)
		sites := slices.Concat(procSites(app, 0x100, 1, times(7, mostOwnRate/3)...), procSites(app, 0x200, 1, mostOwnRate, 1e3), procSites(lib, 0x300, 1, mostOwnRate, mostOwnRate))
		if got := shape(k.groupRuns(sites, most)); got != want {
			t.Errorf("%d groups: %s, want %s", most, got, want)
		}
	}
}

// TestLink: a group of branches has sites beside them that tell how often their procedures
// run, those that run most, as long as there is room.
func TestLink(t *testing.T) {
	app := probedFile(t, "app")
	k := newGrouped(t, app)
	runs := slices.Concat(procSites(app, 0x110, 1, 1e3), procSites(app, 0x120, 3, 1e3), procSites(app, 0x130, 2, 1e3), procSites(app, 0x200, 1, 1e3))
	for i := range runs {
		runs[i].Proc = runs[3*(i/3)].Proc
	}
	k.groupRuns(runs, 9)
	branches := procSites(app, 0x100, 1, 1e3, 1e3)
	for i := range branches {
		branches[i].Proc = runs[0].Proc
	}
	groups := k.groupOutcomes(branches, 9)
	if len(groups) != 1 {
		t.Fatalf("%d groups", len(groups))
	}
	var offs []sample.Offset
	for _, s := range groups[0].Sites {
		offs = append(offs, s.Off)
	}
	if want := []sample.Offset{0x100, 0x101, 0x120, 0x130}; !slices.Equal(offs, want) || !slices.Equal(groups[0].Procs, []int{0, 0, 0, 0}) {
		t.Errorf("%x of procedures %d, want %x", offs, groups[0].Procs, want)
	}
	all := k.groupOutcomes(procSites(app, 0x400, 1, times(36, 1e3)...), 9)
	if len(all) != 1 || len(all[0].Sites) != 36 {
		t.Errorf("a procedure without any: %+v", all)
	}
}

// TestUnsure: what is not known of a branch counts by what hangs on it.
func TestUnsure(t *testing.T) {
	for _, tt := range []struct {
		p    sample.Probed
		loop bool
		want float64
	}{
		{sample.Probed{}, false, 1},
		{sample.Probed{}, true, 1},
		{sample.Probed{Outcomes: 400, Taken: 200}, false, 0.0707},
		{sample.Probed{Outcomes: 400, Taken: 200}, true, 0.0706},
		{sample.Probed{Outcomes: 4000}, false, 0.00025}, // a way that is never taken leads nowhere
		{sample.Probed{Outcomes: 4000}, true, 1},        // but nobody knows how long such a loop is
		{sample.Probed{Outcomes: 4000, Taken: 4000}, true, 1},
		{sample.Probed{Outcomes: 10, Taken: 12}, true, 1}, // no more than that can have been taken
	} {
		if got := unsure(tt.p, tt.loop); math.Abs(got-tt.want) > 0.01*tt.want {
			t.Errorf("%+v, in a loop %v: %v, want %v", tt.p, tt.loop, got, tt.want)
		}
	}
}

// TestMostRun: of each procedure the sites that run most and not too often, of blocks that
// run equally often one; those first whose procedure runs most.
func TestMostRun(t *testing.T) {
	p, c := inferredMix(t)
	c.Weight *= 1000 // its loops are tight
	k := newGrouped(t)
	k.samples = float64(p.Samples.Used)
	all := k.mostRun(p, c, 1<<20)
	if len(all) < 10 {
		t.Fatalf("%d sites", len(all))
	}
	sites := map[*infer.Result][]float64{} // executions
	for i, s := range all {
		own := float64(c.Weight) / 1e9 * float64(max(1, s.Proc.Samples)) / float64(p.Samples.Used)
		n := s.Proc.Block[s.Block].N
		var sum float64
		for _, f := range s.Proc.Block {
			sum += f.N
		}
		before := sites[s.Proc]
		switch {
		case !s.Runs, n > mostOwnRate*own*1.001, i > 0 && s.Gain > all[i-1].Gain, math.Abs(s.Gain-sum) > 1e-6*sum:
			t.Errorf("%s: %+v", s.Proc.Proc.Name, s)
		case len(before) == runsPerProc, len(before) > 0 && before[len(before)-1] <= n:
			t.Errorf("%s: a block that runs %.0f times after those that run %v", s.Proc.Proc.Name, n, before)
		}
		sites[s.Proc] = append(before, n)
	}
	if few := k.mostRun(p, c, 2); len(few) != 2 || few[1].Off != all[1].Off {
		t.Errorf("the first 2: %+v", few)
	}
	s := all[0]
	key := siteKey{s.Image.ID.Key(), s.Off}
	k.dense[key] = true
	for _, o := range k.mostRun(p, c, 1<<20) {
		if o.Off == s.Off {
			t.Errorf("%s: a site that fills windows again", o.Proc.Proc.Name)
		}
	}
	delete(k.dense, key)
	ic := c.Images[c.Image(s.Image.ID)]
	ic.Probed = map[sample.Offset]sample.Probed{s.Off: {Windows: fewWindows, Covered: c.Weight}}
	for _, o := range k.mostRun(p, c, 1<<20) {
		if o.Off == s.Off {
			t.Errorf("%s: a site that windows never met again", o.Proc.Proc.Name)
		}
	}
}

// mixDir has samples of a program, and the program.
const mixDir = "../../../testdata/mix"

// inferredMix is what is inferred of testdata/mix, with the counts of time.
func inferredMix(t *testing.T) (*infer.Profile, *sample.Counts) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(mixDir, "samples.bfr"))
	if err != nil {
		t.Fatal(err)
	}
	rec, err := sample.Decode(b)
	if err != nil {
		t.Fatal(err)
	}
	c := Timed(rec)
	if c == nil {
		t.Fatal("no samples of time")
	}
	p, err := infer.Infer(t.Context(), rec, func(id sample.ImageID) (*image.Image, error) {
		if filepath.Base(id.Path) != "mix" {
			return nil, input.ErrNotFound
		}
		return image.Open(filepath.Join(mixDir, "mix"), image.Options{})
	}, infer.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p, c
}

// TestUnsureBranches: of all blocks that end in a conditional branch, as long as nothing
// was counted those that run most come first.
func TestUnsureBranches(t *testing.T) {
	p, c := inferredMix(t)
	all := unsureBranches(p, c, 1<<20)
	var want []float64
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			for b, sites := range ip.Image.ProbeSites(r.Proc) {
				if len(sites) > 0 && sites[0].Cond >= 0 && r.Block[b].N >= 1 {
					want = append(want, r.Block[b].N)
				}
			}
		}
	}
	slices.Sort(want)
	slices.Reverse(want)
	if len(all) != len(want) || len(all) < 10 {
		t.Fatalf("%d branches, want %d", len(all), len(want))
	}
	places := map[sample.Offset]bool{}
	for i, s := range all {
		if s.Gain != want[i] || s.Cond < 0 || s.Runs || places[s.Off] || s.Proc.Block[s.Block].N != s.Gain {
			t.Errorf("branch %d: %+v, want it to run %v times", i, s, want[i])
		}
		if rate := s.Gain / (float64(c.Weight) / 1e9); s.Rate < 0.999*rate || s.Rate > 1.001*rate {
			t.Errorf("branch %d: %v a second, want %v", i, s.Rate, rate)
		}
		places[s.Off] = true
	}
	few := unsureBranches(p, c, 3)
	if len(few) != 3 || few[2].Off != all[2].Off || few[0].Off != all[0].Off {
		t.Errorf("the 3 hottest: %+v", few)
	}
	c.Images[c.Image(all[0].Image.ID)].Probed = map[sample.Offset]sample.Probed{all[0].Off: {Windows: 9, Outcomes: 10000, Taken: 5000}}
	if again := unsureBranches(p, c, 1<<20); again[0].Off != all[1].Off {
		t.Errorf("first is %+v, whose outcomes are known", again[0])
	}
}

func TestCalibrateShares(t *testing.T) {
	for _, tt := range []struct{ budget, walks, windows float64 }{
		{0.002, 0.0012, 0.0008}, {0.01, 0.006, 0.004}, {0.03, 0.018, 0.012},
	} {
		f := Options{Budget: tt.budget}
		if w, p := f.forWalks(), f.forWindows(); math.Abs(w-tt.walks) > 1e-12 || math.Abs(p-tt.windows) > 1e-12 {
			t.Errorf("of %g: %g for walks, %g for windows; want %g, %g", tt.budget, w, p, tt.walks, tt.windows)
		}
	}
}

// TestRoundAfter: choices become rarer, and there is always a next one.
func TestRoundAfter(t *testing.T) {
	for _, tt := range []struct{ at, want time.Duration }{
		{0, time.Second},
		{time.Second, 4 * time.Second},
		{3 * time.Second, 4 * time.Second},
		{7 * time.Second, 9 * time.Second},
		{9 * time.Second, 20 * time.Second},
		{20 * time.Second, 60 * time.Second},
		{25 * time.Second, 75 * time.Second},
	} {
		if got := roundAfter(tt.at); got != tt.want {
			t.Errorf("after %v: %v, want %v", tt.at, got, tt.want)
		}
	}
}

// tracedProcess makes up a process of /proc that has files mapped.
func tracedProcess(t *testing.T, proc, pid string, tracer int, files ...string) {
	t.Helper()
	dir := filepath.Join(proc, pid)
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, dir, "status", fmt.Sprintf("Name:\tprogram\nPid:\t%s\nTracerPid:\t%d\nUid:\t0\t0\t0\t0\n", pid, tracer))
	maps := "7ffd1c5c6000-7ffd1c5c8000 r-xp 00000000 00:00 0                          [vdso]\n55a8b6e2f000-55a8b6e50000 rw-p 00000000 00:00 0 \n"
	for i, name := range files {
		maps += fmt.Sprintf("55a8b6%d2a000-55a8b6%d2e000 r-xp 00002000 08:01 1234                       %s\n", i, i, name)
	}
	testtool.Write(t, dir, "maps", maps)
}

// TestTracedFiles: of processes under a debugger, all files count, of others none; this program is no debugger.
func TestTracedFiles(t *testing.T) {
	proc := t.TempDir()
	if got := tracedFiles(proc); len(got) != 0 {
		t.Errorf("of no processes: %v", got)
	}
	tracedProcess(t, proc, "1", 0, "/sbin/init", "/lib/libc.so.6")
	tracedProcess(t, proc, "20", 3, "/bin/a program", "/lib/libm.so.6")
	tracedProcess(t, proc, "30", 3, "/tmp/new (deleted)")
	tracedProcess(t, proc, "40", 3, "/lib/gone")
	if err := os.Remove(filepath.Join(proc, "40", "maps")); err != nil { // it has ended meanwhile
		t.Fatal(err)
	}
	for dir, status := range map[string]string{"50": "", "60": "Name:\tx\nTracerPid:", "70": "Name:\tx\nTracerPid:\tmany\n"} {
		tracedProcess(t, proc, dir, 1, "/bin/malformed")
		testtool.Write(t, filepath.Join(proc, dir), "status", status)
	}
	for pid, program := range map[string]string{"self": "backfeed", "8": "backfeed", "9": "debugger"} {
		link := filepath.Join(proc, pid)
		if err := os.Mkdir(link, 0o755); err != nil {
			t.Fatal(err)
		}
		testtool.Write(t, proc, program, "")
		if err := os.Symlink(filepath.Join(proc, program), filepath.Join(link, "exe")); err != nil {
			t.Fatal(err)
		}
	}
	tracedProcess(t, proc, "80", 8, "/bin/walked")
	tracedProcess(t, proc, "90", 9, "/bin/debugged")
	want := map[string]bool{"/bin/debugged": true, "/bin/a program": true, "/lib/libm.so.6": true, "/tmp/new (deleted)": true}
	if got := tracedFiles(proc); !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestLogWindow: a line has the file, what the window took and each place with its
// hits, those of a branch with how many of them went.
func TestLogWindow(t *testing.T) {
	g := &probe.Group{File: "/bin/app", Sites: []probe.Site{{Off: 0x10, Cond: 4}, {Off: 0x2f, Cond: probe.NoCond}}}
	w := &probe.Window{Hits: []uint64{7, 3}, Taken: []uint64{2, 0}, All: 10, Open: 2 * time.Millisecond, Armed: 50 * time.Millisecond, Time: time.Millisecond}
	for _, tt := range []struct {
		w    *probe.Window
		err  error
		want string
	}{
		{w, nil, "/bin/app\topen 2ms\tarmed 50ms\ttime 1ms\thits 10\t0x10=7/2 0x2f=3\n"},
		{nil, errors.New("refused"), "/bin/app\tfailed: refused\t0x10 0x2f\n"},
	} {
		var b bytes.Buffer
		logWindow(&b, g, tt.w, tt.err)
		at, line, _ := strings.Cut(b.String(), "\t")
		if line != tt.want || !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`).MatchString(at) {
			t.Errorf("%q\t%q, want %q", at, line, tt.want)
		}
	}
}
