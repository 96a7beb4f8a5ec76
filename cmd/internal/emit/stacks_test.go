package emit

import (
	"debug/elf"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/cmd/internal/input"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/perfdata"
	"backfeed/sample/trace"
)

const mix = "../../../testdata/mix/mix"

// A wanderer goes through an image at random: a walk without a program.
type wanderer struct {
	im    *image.Image
	insts []trace.Inst
	at    map[uint64]int // index into insts by address
}

func newWanderer(t *testing.T, path string) *wanderer {
	t.Helper()
	im, err := image.Open(path, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	w := &wanderer{im: im, at: map[uint64]int{}}
	for i := range im.Symbols() {
		p, err := im.Proc(i)
		if err != nil {
			continue
		}
		for _, in := range im.WalkInsts(p) {
			if in.Addr != 0 {
				w.at[in.Addr] = len(w.insts)
			}
			w.insts = append(w.insts, in)
		}
	}
	return w
}

// stubs returns whether an address is in the table of stubs that call other images.
func (w *wanderer) stubs() func(addr uint64) bool {
	f, err := elf.Open(w.im.Path)
	if err != nil {
		return func(uint64) bool { return false }
	}
	defer f.Close()
	s := f.Section(".plt")
	return func(addr uint64) bool { return s != nil && addr-s.Addr < s.Size }
}

// path returns a walk of up to so many branches from a procedure on.
func (w *wanderer) path(t *testing.T, rnd *rand.Rand, from string, branches int) sample.Path {
	t.Helper()
	s := w.im.Lookup(from)
	if s < 0 {
		t.Fatalf("no procedure %s", from)
	}
	p := sample.Path{Rank: rnd.Uint64N(sample.MaxRank)}
	var back []int
	at := w.at[uint64(w.im.Symbols()[s].Addr)]
	for steps := 0; len(p.Branches) < branches && steps < 100*branches; steps++ {
		in := &w.insts[at]
		p.Insts++
		to, ok := at+1, false
		switch {
		case in.Kind == trace.Ret && len(back) > 0:
			to, ok = back[len(back)-1], true
			back = back[:len(back)-1]
		case in.Kind == trace.CondJump && rnd.IntN(2) == 0 || in.Kind == trace.Jump || in.Kind == trace.Call:
			if to, ok = w.at[in.Target]; !ok {
				return p
			}
			if in.Kind == trace.Call {
				back = append(back, at+1)
			}
		case in.Kind == trace.Stop || in.Kind.Branch() && in.Kind != trace.CondJump:
			return p
		}
		if next := &w.insts[to]; ok {
			p.Branches = append(p.Branches, sample.Branch{From: sample.Frame{Off: in.Off}, To: sample.Frame{Off: next.Off}})
		}
		at = to
	}
	return p
}

// wandered returns a recording of paths through an image.
func wandered(t *testing.T, w *wanderer, file string, paths, branches int, procs ...string) *sample.Recording {
	t.Helper()
	rnd := rand.New(rand.NewPCG(1, 1))
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Period: 1000000, Unit: "ns"})
	c.AddSample(c.Image(sample.ImageID{Build: w.im.Build, Path: file}), 0x1100, 1)
	var all []sample.Path
	for i := range paths {
		if p := w.path(t, rnd, procs[i%len(procs)], branches); len(p.Branches) > 0 {
			all = append(all, p)
		}
	}
	c.AddPaths(all)
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	return &sample.Recording{Counts: []*sample.Counts{c}}
}

func session(t *testing.T, rec *sample.Recording, files ...string) *input.Session {
	t.Helper()
	src, err := input.Of(rec, input.Options{Images: files})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(src.Close)
	return src
}

// procsOfMix are those of testdata/mix that branch most.
var procsOfMix = []string{"main", "tokenize.constprop.0", "lookup", "interpret.constprop.0", "quicksort.constprop.0", "count_words.constprop.0", "ackermann"}

// tally adds up branches and the code between them, as readers do.
func tally(s *perfdata.BranchStacks) (branches, ranges map[perfdata.StackBranch]int) {
	branches, ranges = map[perfdata.StackBranch]int{}, map[perfdata.StackBranch]int{}
	for _, p := range s.Processes {
		for _, x := range p.Samples {
			for i, b := range x.Branches {
				branches[b]++
				if i > 0 {
					ranges[perfdata.StackBranch{From: b.To, To: x.Branches[i-1].From}]++
				}
			}
		}
	}
	return branches, ranges
}

func sum[K comparable](m map[K]int) (n int) {
	for _, k := range m {
		n += k
	}
	return n
}

// TestStacks: each branch is in one sample, in order, and only where a path is divided is the code between two
// branches in none.
func TestStacks(t *testing.T) {
	w := newWanderer(t, mix)
	rec := wandered(t, w, mix, 300, 100, procsOfMix...)
	paths := rec.Counts[0].Paths
	base := uint64(0)
	all := map[perfdata.StackBranch]int{}
	for _, depth := range []int{2, 3, 32, perfdata.MaxBranches} {
		s, summary, err := Stacks(session(t, rec, mix), StackOptions{Depth: depth, Image: mix})
		if err != nil {
			t.Fatal(err)
		}
		p := &s.Processes[0]
		if len(s.Processes) != 1 || p.Name != "mix" || len(p.Maps) != 1 || p.Maps[0].ID.Build != w.im.Build {
			t.Fatalf("depth %d: %+v", depth, s.Processes)
		}
		base = p.Maps[0].Addr - uint64(p.Maps[0].Off)
		clear(all)
		n := 0
		for _, p := range paths {
			for _, b := range p.Branches {
				all[perfdata.StackBranch{From: base + uint64(b.From.Off), To: base + uint64(b.To.Off)}]++
				n++
			}
		}
		branches, ranges := tally(s)
		if !maps.Equal(branches, all) {
			t.Errorf("depth %d: %d branches of %d kinds, want %d of %d", depth, sum(branches), len(branches), n, len(all))
		}
		if got, want := sum(ranges), n-len(p.Samples); got != want {
			t.Errorf("depth %d: %d ranges, want %d", depth, got, want)
		}
		if want := fmt.Sprintf("%d paths of walks as %d samples with %d branches", len(paths), len(p.Samples), n); summary != want {
			t.Errorf("depth %d: %q, want %q", depth, summary, want)
		}
		for i, x := range p.Samples {
			if len(x.Branches) > depth || x.IP != x.Branches[0].To {
				t.Fatalf("depth %d: sample %d of %d branches at %#x: %v", depth, i, len(x.Branches), x.IP, x.Branches)
			}
		}
		if depth == 32 && len(p.Samples) > 2*len(paths)+n/depth {
			t.Errorf("depth %d: %d samples of %d branches", depth, len(p.Samples), n)
		}
	}
}

// TestFirstDepth: loops of any length are divided everywhere alike.
func TestFirstDepth(t *testing.T) {
	for _, most := range []int{2, 3, 32, 1000} {
		seen := map[int]int{}
		n := 100 * most
		for i := range n {
			seen[firstDepth(i, most)]++
		}
		for d, k := range seen {
			if d < 2 || d > most || k > 3*n/most {
				t.Errorf("most %d: %d branches %d times of %d", most, d, k, n)
			}
		}
		if len(seen) != most-1 {
			t.Errorf("most %d: %d depths", most, len(seen))
		}
	}
}

// TestStackPlaces: images that are not found have a place too, and what has none divides a path.
func TestStackPlaces(t *testing.T) {
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock"})
	app, lib := c.Image(sample.ImageID{Path: "/gone/app"}), c.Image(sample.ImageID{Path: "/gone/lib.so"})
	at := func(image int, off sample.Offset) sample.Frame { return sample.Frame{Image: image, Off: off} }
	nowhere := at(sample.Unknown, 0)
	c.AddPaths([]sample.Path{
		{Rank: 1, Branches: []sample.Branch{{From: at(app, 0x10), To: at(lib, 0x5123)}, {From: at(lib, 0x5200), To: at(app, 0x15)}, {From: at(app, 0x20), To: nowhere}, {From: at(lib, 0x9), To: at(lib, 0x5)}}},
		{Rank: 2, Branches: []sample.Branch{{From: at(lib, 0x9), To: at(lib, 0x5)}}},
		{Rank: 3, Branches: []sample.Branch{{From: at(app, 0x20), To: nowhere}}},
	})
	rec := &sample.Recording{Counts: []*sample.Counts{c}}
	s, _, err := Stacks(session(t, rec), StackOptions{Depth: 3})
	if err != nil {
		t.Fatal(err)
	}
	a, l := uint64(firstBase), uint64(firstBase+baseAlign)
	wantMaps := []perfdata.StackMapping{{ID: c.Images[app].ID, Addr: a, Size: 0x1000}, {ID: c.Images[lib].ID, Addr: l, Size: 0x6000}}
	if len(s.Processes) != 1 || !slices.Equal(s.Processes[0].Maps, wantMaps) {
		t.Errorf("mappings %+v, want %+v", s.Processes[0].Maps, wantMaps)
	}
	var got []string
	for _, x := range s.Processes[0].Samples {
		got = append(got, fmt.Sprintf("%x", x.Branches))
	}
	want := []string{
		fmt.Sprintf("%x", []perfdata.StackBranch{{From: l + 0x5200, To: a + 0x15}, {From: a + 0x10, To: l + 0x5123}}),
		fmt.Sprintf("%x", []perfdata.StackBranch{{From: l + 9, To: l + 5}}),
		fmt.Sprintf("%x", []perfdata.StackBranch{{From: l + 9, To: l + 5}}),
	}
	if !slices.Equal(got, want) {
		t.Errorf("samples %v, want %v", got, want)
	}

	only, _, err := Stacks(session(t, rec), StackOptions{Depth: 3, Image: "/gone/app"})
	if err != nil || len(only.Processes[0].Samples) != 2 {
		t.Errorf("samples of one image: %v, %v", only, err)
	}
	for _, name := range []string{"/gone", ""} {
		r := rec
		if name == "" {
			r = &sample.Recording{}
		}
		if _, _, err := Stacks(session(t, r), StackOptions{Depth: 3, Image: name}); err == nil {
			t.Errorf("image %q: no error", name)
		}
	}
}

// TestStackCallers: calls that began on a path, and did not return, are callers.
func TestStackCallers(t *testing.T) {
	w := newWanderer(t, mix)
	rec := wandered(t, w, mix, 50, 40, "ackermann", "main")
	s, _, err := Stacks(session(t, rec, mix), StackOptions{Depth: 8, Callers: true})
	if err != nil {
		t.Fatal(err)
	}
	base := s.Processes[0].Maps[0].Addr - uint64(s.Processes[0].Maps[0].Off)
	deepest := 0
	for _, x := range s.Processes[0].Samples {
		deepest = max(deepest, len(x.Callers))
		inst := map[uint64]trace.Inst{}
		for _, in := range w.insts {
			inst[in.Addr] = in
		}
		for _, back := range x.Callers {
			k, ok := w.at[back-base]
			if ok && w.insts[k-1].Kind != trace.Call && w.insts[k-1].Kind != trace.Stop {
				t.Fatalf("%#x is after no call", back-base)
			}
		}
	}
	if deepest < 4 {
		t.Errorf("the deepest stack has %d callers", deepest)
	}
}

// exported writes paths through mix as perf.data and as text, and returns the branches and ranges in them, by
// address as linked.
func exported(t *testing.T, opt StackOptions) (dir string, w *wanderer, branches, ranges map[perfdata.StackBranch]int) {
	t.Helper()
	dir = t.TempDir()
	file := filepath.Join(dir, "mix")
	testtool.Put(t, file, testtool.Read(t, mix))
	if err := os.Chmod(file, 0o700); err != nil {
		t.Fatal(err)
	}
	w = newWanderer(t, file)
	s, _, err := Stacks(session(t, wandered(t, w, file, 700, 100, procsOfMix...), file), opt)
	if err != nil {
		t.Fatal(err)
	}
	for name, write := range map[string]func(*os.File) error{
		"perf.data":   func(f *os.File) error { return s.Write(f) },
		"perf.script": func(f *os.File) error { return s.WriteScript(f) },
	} {
		f, err := os.Create(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if err := write(f); err != nil {
			t.Fatal(err)
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	base := s.Processes[0].Maps[0].Addr - uint64(s.Processes[0].Maps[0].Off)
	linked := func(m map[perfdata.StackBranch]int) map[perfdata.StackBranch]int {
		out := map[perfdata.StackBranch]int{}
		for b, n := range m {
			out[perfdata.StackBranch{From: b.From - base, To: b.To - base}] = n
		}
		return out
	}
	b, r := tally(s)
	return dir, w, linked(b), linked(r)
}

// same compares counts.
func same(t *testing.T, what string, got, want map[perfdata.StackBranch]int) {
	t.Helper()
	if len(want) < 20 {
		t.Errorf("%d %s", len(want), what)
	}
	for b, n := range want {
		if got[b] != n {
			t.Errorf("%s: %#x > %#x: %d, want %d", what, b.From, b.To, got[b], n)
		}
	}
	for b, n := range got {
		if want[b] == 0 {
			t.Errorf("%s: %#x > %#x: %d, want none", what, b.From, b.To, n)
		}
	}
}

// TestProfgenReads: llvm-profgen counts the branches and ranges that there are.
func TestProfgenReads(t *testing.T) {
	profgen := testtool.Path(t, "llvm-profgen-19")
	dir, w, branches, ranges := exported(t, StackOptions{Depth: 32})
	testtool.Run(t, dir, profgen, "--binary=mix", "--perfscript=perf.script", "--skip-symbolization", "--output=counts")
	// Two lists of entries in hexadecimal, each with its length in decimal before it; addresses are from the first
	// byte of the code's page on.
	const page = 0x1000
	lists := map[string]map[perfdata.StackBranch]int{"-": {}, "->": {}}
	entry := regexp.MustCompile(`^([0-9a-f]+)(->?)([0-9a-f]+):(\d+)$`)
	for line := range strings.Lines(testtool.Read(t, dir, "counts")) {
		if m := entry.FindStringSubmatch(strings.TrimSpace(line)); m != nil {
			from, _ := strconv.ParseUint(m[1], 16, 64)
			to, _ := strconv.ParseUint(m[3], 16, 64)
			n, _ := strconv.Atoi(m[4])
			lists[m[2]][perfdata.StackBranch{From: from + page, To: to + page}] += n
		}
	}
	stubs := w.stubs()
	maps.DeleteFunc(branches, func(b perfdata.StackBranch, _ int) bool { return stubs(b.To) }) // they lead out of the program
	same(t, "branches", lists["->"], branches)
	same(t, "ranges", lists["-"], ranges)
}

// TestBoltReads: perf2bolt counts the branches that there are, but for returns, of which it keeps none, and knows all
// code between them.
func TestBoltReads(t *testing.T) {
	testtool.Need(t, "perf")
	bolt := testtool.Path(t, "/usr/lib/llvm-19/bin/perf2bolt") // it goes by its own name, which links to it lack
	dir, w, branches, _ := exported(t, StackOptions{Depth: 32})
	said := testtool.Run(t, dir, bolt, "mix", "-p", "perf.data", "-o", "fdata", "-strict=0")
	for _, want := range []string{
		fmt.Sprintf(`read \d+ samples and %d LBR entries`, sum(branches)),
		`0 samples \(0.0%\) were ignored`,
		`traces mismatching disassembled function contents: 0 `,
	} {
		if !regexp.MustCompile(want).MatchString(said) {
			t.Errorf("perf2bolt does not say %q:\n%s", want, said)
		}
	}
	// Lines as feedback.WriteBOLT writes them.
	got := map[perfdata.StackBranch]int{}
	for line := range strings.Lines(testtool.Read(t, dir, "fdata")) {
		f := strings.Fields(line)
		if len(f) != 8 {
			continue
		}
		place := func(name, off string) uint64 {
			name, _, _ = strings.Cut(name, "/")
			k, _ := strconv.ParseUint(off, 16, 64)
			if i := w.im.Lookup(name); i >= 0 {
				return uint64(w.im.Symbols()[i].Addr) + k
			}
			return 0
		}
		n, _ := strconv.Atoi(f[7])
		got[perfdata.StackBranch{From: place(f[1], f[2]), To: place(f[4], f[5])}] += n
	}
	kept := 0
	for b, n := range branches {
		if in := w.insts[w.at[b.From]]; in.Kind == trace.Ret || w.stubs()(b.To) {
			continue
		}
		kept++
		if got[b] != n {
			t.Errorf("%#x > %#x: %d, want %d", b.From, b.To, got[b], n)
		}
	}
	if kept < 20 {
		t.Errorf("%d branches", kept)
	}
}

// TestAutoFDOReads: create_llvm_prof knows all samples, and makes the profile of them that llvm-profgen makes.
func TestAutoFDOReads(t *testing.T) {
	create, profgen, profdata := testtool.Path(t, "create_llvm_prof"), testtool.Path(t, "llvm-profgen-19"), testtool.Path(t, "llvm-profdata-19")
	dir, _, _, _ := exported(t, StackOptions{Depth: 32})
	said := testtool.Run(t, dir, create, "--binary=mix", "--profile=perf.data", "--format=text", "--out=autofdo")
	m := regexp.MustCompile(`(\d+) SAMPLE events, (\d+) of these were mapped`).FindStringSubmatch(said)
	if m == nil || m[1] != m[2] || m[1] == "0" {
		t.Errorf("it does not say that it knows where all samples are:\n%s", said)
	}
	testtool.Run(t, dir, profgen, "--binary=mix", "--perfscript=perf.script", "--format=text", "--output=profgen")
	testtool.Put(t, filepath.Join(dir, "autofdo"), strings.ReplaceAll(testtool.Read(t, dir, "autofdo"), ".constprop.0", "")) // which llvm-profgen leaves out
	overlap := testtool.Run(t, dir, profdata, "overlap", "--sample", "autofdo", "profgen")
	similar := regexp.MustCompile(`Whole program profile similarity: ([0-9.]+)%`).FindStringSubmatch(overlap)
	if similar == nil {
		t.Fatalf("llvm-profdata says no similarity:\n%s", overlap)
	}
	// It was 98.5 %, of the same functions.
	if got, err := strconv.ParseFloat(similar[1], 64); err != nil || got < 95 {
		t.Errorf("similarity of %s%% with llvm-profgen's:\n%s", similar[1], overlap)
	}
}
