package feedback

import (
	"cmp"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/testdata/qemu"
)

// A processor is one that programs are built for, run on and counted on.
type processor struct {
	name     string
	machine  elf.Machine
	clang    []string // flags of clang
	gcc, gxx string
	objdump  string
}

var processors = []processor{
	{"x86-64", elf.EM_X86_64, nil, "gcc", "g++", "objdump"},
	{"AArch64", elf.EM_AARCH64, []string{"--target=aarch64-linux-gnu", "-fuse-ld=lld"}, "aarch64-linux-gnu-gcc", "aarch64-linux-gnu-g++", "aarch64-linux-gnu-objdump"},
}

// onEach runs a test for each processor, which skips where a tool is missing: one of those
// given, or one that counts what programs run. Such tests build programs and count them, which other
// work on the machine does not change, so they run in parallel.
func onEach(t *testing.T, tools func(*processor) []string, test func(*testing.T, *processor)) {
	for i := range processors {
		c := &processors[i]
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			testtool.Need(t, tools(c)...)
			if c.machine == elf.EM_X86_64 {
				testtool.Need(t, "valgrind")
			} else {
				testtool.Need(t, "ld.lld-19", c.gcc) // with it comes the C library that clang links
				qemu.NeedCount(t, c.machine)
			}
			test(t, c)
		})
	}
}

// run runs a program of dir that was built for c, and returns what it prints.
func (c *processor) run(t *testing.T, dir, program string, args ...string) string {
	t.Helper()
	if c.machine == elf.EM_X86_64 {
		return testtool.Run(t, dir, append([]string{"./" + program}, args...)...)
	}
	return qemu.Run(t, dir, program, args...)
}

// exact counts a program exactly, and returns its exact counts as a profile,
// and as recorded branches where its calls went.
func exact(t *testing.T, dir, program string, args ...string) (*infer.Profile, *sample.Recording) {
	t.Helper()
	p, rec := unchecked(t, dir, program, args...)
	if err := p.Check(); err != nil {
		t.Fatal(err)
	}
	return p, rec
}

// goAlone has a program of Go run as callgrind can count it: valgrind runs one thread at a time, and how
// often goroutines are preempted and garbage is collected is a matter of time. valgrind 3.19 tells a program that there is RDTSCP,
// and ends it where the processor has none. Other programs ignore it.
var goAlone = []string{"GOMAXPROCS=1", "GODEBUG=asyncpreemptoff=1,cpu.rdtscp=off", "GOGC=off"}

// unchecked is exact for programs with several threads, of which callgrind misses
// an execution where it switches between them.
func unchecked(t *testing.T, dir, program string, args ...string) (*infer.Profile, *sample.Recording) {
	t.Helper()
	f, err := elf.Open(filepath.Join(dir, program))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Machine == elf.EM_X86_64 {
		testtool.RunWith(t, dir, goAlone, append([]string{"valgrind", "-q", "--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--collect-jumps=yes",
			"--callgrind-out-file=counted", "./" + program}, args...)...)
	} else {
		truth, _ := qemu.Count(t, dir, program, args...)
		testtool.Write(t, dir, "counted", testtool.Read(t, filepath.Dir(truth), filepath.Base(truth)))
	}
	return counts(t, dir, program)
}

// counts returns what was counted of a program.
func counts(t *testing.T, dir, program string) (*infer.Profile, *sample.Recording) {
	t.Helper()
	f, err := os.Open(filepath.Join(dir, "counted"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	exact, err := truth.Read(f)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, program)
	im, err := image.Open(path, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	counted := exact.Images[path]
	if counted == nil {
		t.Fatalf("there are no counts of %s", path)
	}
	ip := &infer.ImageProfile{ID: sample.ImageID{Path: path, Build: im.Build}, Image: im}
	for i := range im.Symbols() {
		if r := exactResult(t, im, i, counted); r.Entries.N > 0 || slices.ContainsFunc(r.Block, func(f infer.Freq) bool { return f.N > 0 }) {
			ip.Procs = append(ip.Procs, r)
		}
	}
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "callgrind", Unit: "instructions", Period: 1})
	c.Image(ip.ID)
	for k, n := range counted.Calls {
		from, ok1 := im.OffsetOf(k.From)
		to, ok2 := im.OffsetOf(k.To)
		if ok1 && ok2 {
			c.AddBranch(sample.Branch{From: sample.Frame{Off: from}, To: sample.Frame{Off: to}}, n, 0)
		}
	}
	rec := &sample.Recording{}
	rec.Add(c)
	return &infer.Profile{Event: c.Event, Images: []*infer.ImageProfile{ip}}, rec
}

// exactResult makes the result of a procedure from exact counts.
func exactResult(t *testing.T, im *image.Image, i int, counted *truth.Image) *infer.Result {
	t.Helper()
	p, err := im.Proc(i)
	if err != nil {
		t.Fatal(err)
	}
	r := &infer.Result{Proc: p, Seen: true, Block: make([]infer.Freq, len(p.Blocks)), BlockSamples: make([]uint64, len(p.Blocks)), Edge: make([]infer.Freq, len(p.Edges)), Call: make([]infer.Freq, len(p.Calls))}
	sure := func(n uint64) infer.Freq {
		return infer.Freq{N: float64(n), Conf: infer.High, Among: infer.High, Within: infer.High}
	}
	left := make([]float64, len(p.Blocks)) // executions that go on to the next block
	for j, b := range p.Blocks {
		r.Block[j] = sure(counted.Insts[b.Start])
		left[j] = r.Block[j].N
	}
	jumps := map[truth.Transfer]bool{}
	for j, e := range p.Edges {
		k := truth.Transfer{From: p.Blocks[e.From].Last, To: p.Blocks[e.To].Start}
		if e.Kind != image.FallThrough && !jumps[k] {
			jumps[k] = true
			r.Edge[j] = sure(counted.Jumps[k])
			left[e.From] -= r.Edge[j].N
		}
	}
	for j, c := range p.Calls {
		r.Call[j] = sure(counted.Insts[c.Site])
		if c.Cond {
			r.Call[j] = sure(counted.Jumps[truth.Transfer{From: c.Site, To: c.To}])
			left[c.Block] -= r.Call[j].N
		}
	}
	for j, e := range p.Edges {
		next := p.Blocks[e.To].Start == p.Blocks[e.From].End // callgrind does not call that a jump
		if e.Kind == image.FallThrough || next && r.Edge[j].N == 0 {
			r.Edge[j] = infer.Freq{N: left[e.From], Conf: infer.High, Among: infer.High, Within: infer.High}
		}
	}
	if len(p.Blocks) > 0 {
		n := r.Block[0].N
		for _, j := range p.Blocks[0].In {
			n -= r.Edge[j].N
		}
		r.Entries = infer.Freq{N: n, Conf: infer.High, Among: infer.High, Within: infer.High}
	}
	return r
}

// build compiles testdata/shop.c with clang for this machine.
func build(t *testing.T, dir, out string, flags ...string) string {
	t.Helper()
	return processors[0].build(t, dir, out, flags...)
}

// build compiles testdata/shop.c with clang.
func (c *processor) build(t *testing.T, dir, out string, flags ...string) string {
	t.Helper()
	src, err := filepath.Abs("testdata/shop.c")
	if err != nil {
		t.Fatal(err)
	}
	return testtool.Run(t, dir, slices.Concat([]string{"clang-19", "-O2", src, "-o", out}, c.clang, flags)...)
}

// ranges returns what llvm-profgen's --unsymbolized-profile reads: every
// instruction that ran as a range of its own, and the branches.
func ranges(p *infer.Profile, rec *sample.Recording, base image.Addr) (insts, branches []counted) {
	ip := p.Images[0]
	for _, r := range ip.Procs {
		for i := range r.Proc.Blocks {
			for _, in := range ip.Image.Insts(&r.Proc.Blocks[i]) {
				insts = append(insts, counted{in.Addr - base, in.Addr - base, uint64(r.Block[i].N)})
			}
		}
	}
	for b, n := range rec.Counts[0].Branches {
		from, _ := ip.Image.AddrOf(b.From.Off)
		to, _ := ip.Image.AddrOf(b.To.Off)
		branches = append(branches, counted{from - base, to - base, n.N})
	}
	for _, cs := range [][]counted{insts, branches} {
		slices.SortFunc(cs, func(a, b counted) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to)) })
	}
	return insts, branches
}

// counted is a range or a branch, relative to the first executable segment.
type counted struct {
	from, to image.Addr
	n        uint64
}
