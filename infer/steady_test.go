package infer

import (
	"math"
	"path/filepath"
	"runtime"
	"slices"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// steadyCode is procedures of a block that leads to a loop of one block and one behind it.
const steadyCode = `
.macro loop name, body:vararg
.globl \name
.type \name, @function
\name:
	xor %ecx, %ecx
1:	\body
	\body
	dec %rdi
	jne 1b
	ret
.size \name, .-\name
.endm
.text
loop chain, imul %rax, %rax
loop busy, lea 1(%rsi), %rdx
loop divides, div %rcx
loop loads, mov (%rax), %rax
loop stores, mov %rax, (%rsi)
loop calls, call chain
`

// steadyImage is an image of steadyCode.
func steadyImage(t *testing.T) *image.Image {
	t.Helper()
	if runtime.GOARCH != "amd64" {
		t.Skip("the loops are code of x86-64")
	}
	dir := t.TempDir()
	testtool.Write(t, dir, "p.s", steadyCode)
	testtool.Run(t, dir, "gcc", "-shared", "-nostdlib", "p.s", "-o", "p.so")
	im, err := image.Open(filepath.Join(dir, "p.so"), image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	return im
}

// TestSteady: a loop that waits for nothing runs as often as its samples and the machine model say, unless it is entered too often
// for that, or something surer tells.
func TestSteady(t *testing.T) {
	im := steadyImage(t)
	model := modelNamed(t, "intel-skylake-x")
	const period, samples = 1e6, 10_000
	told := func(n, sd float64) []observation {
		return []observation{{block: 1, out: -1, logN: math.Log(n), sd: sd, real: true}}
	}
	for _, tt := range []struct {
		name   string
		cycles float64 // of a turn; 0 where the loop tells nothing
		sd     float64
		before uint64 // samples of the block that leads there
		clock  float64
		known  []observation
	}{
		{name: "chain", cycles: 6, sd: steadySD},
		{name: "chain", cycles: 6, sd: math.Hypot(steadySD, steadyClockSD), clock: steadyClockSD},
		{name: "busy", cycles: 1.2, sd: steadySharedSD},
		{name: "divides", cycles: 68, sd: steadyDivideSD},
		{name: "loads"},
		{name: "stores"},
		{name: "calls"},
		{name: "chain", before: 1000}, // as if it was entered in every tenth turn
		{name: "chain", cycles: 3, sd: 0.05, known: told(samples*period/3, 0.05)},
		{name: "chain", cycles: 6, sd: steadySD, known: told(samples*period/3, 0.4)},
	} {
		p, err := im.Proc(im.Lookup(tt.name))
		if err != nil {
			t.Fatal(err)
		}
		q := newProblem(p, []uint64{tt.before, samples, 0}, func(*image.Block) float64 { return 1e-5 }, &outOfOrder)
		q.known = slices.Clone(tt.known)
		cost := q.cost[1]
		q.steady(im, model, period, tt.clock)
		if tt.cycles == 0 {
			if len(q.known) > 0 || q.cost[1] != cost {
				t.Errorf("%s, entered with %d samples: %+v, cost %g", tt.name, tt.before, q.known, q.cost[1])
			}
			continue
		}
		if len(q.known) != 1 {
			t.Errorf("%s: %+v", tt.name, q.known)
			continue
		}
		o := q.known[0]
		if cycles := samples * period / math.Exp(o.logN); o.block != 1 || math.Abs(cycles/tt.cycles-1) > 1e-9 || math.Abs(o.sd-tt.sd) > 0.01 {
			t.Errorf("%s: block %d, %g cycles a turn known to %.3f, want %g and %.3f", tt.name, o.block, cycles, o.sd, tt.cycles, tt.sd)
		}
	}
}

// TestSteadyEvent: samples of other events than time tell nothing of what a turn takes.
func TestSteadyEvent(t *testing.T) {
	im := steadyImage(t)
	p, err := im.Proc(im.Lookup("chain"))
	if err != nil {
		t.Fatal(err)
	}
	off, _ := im.OffsetOf(p.Blocks[1].Start)
	for event, want := range map[sample.Event]Confidence{
		{Name: "cycles", Period: 1_000_000, Unit: "cycles"}: Medium,
		{Name: "cache-misses", Period: 1000}:                Low,
	} {
		c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, event)
		c.AddSample(c.Image(sample.ImageID{Path: "p.so"}), off, 10_000)
		rec := &sample.Recording{Counts: []*sample.Counts{c}}
		prof, err := Infer(t.Context(), rec, func(sample.ImageID) (*image.Image, error) { return im, nil }, Options{Model: "intel-skylake-x"})
		if err != nil {
			t.Fatal(err)
		}
		if f := prof.results()[0].Block[1]; f.Conf != want {
			t.Errorf("%s: the loop's executions are %g, known with %v confidence, want %v", event.Name, f.N, f.Conf, want)
		}
	}
}

// TestSteadyTimes measures, over the programs of -sets, how much longer than the machine model says loops take that wait for nothing.
func TestSteadyTimes(t *testing.T) {
	all := loadSets(t)
	if len(all) == 0 {
		t.Skip("no -sets")
	}
	loops := 0
	var sum, squares float64
	for _, s := range all {
		if s.Runs == 0 {
			continue
		}
		placed, err := PlaceSamples(t.Context(), s.Rec, s.Open, Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := placed.Profile
		model := modelNamed(t, p.Machine)
		for _, ip := range p.Images {
			for _, r := range ip.Procs {
				for b, n := range r.BlockSamples {
					blk := &r.Proc.Blocks[b]
					exact := s.exact(ip, blk) * s.Runs
					if n < 30 || exact == 0 || !r.Proc.Loops(b) {
						continue
					}
					least, sd := steadyTurn(ip.Image, model, blk)
					if least == 0 {
						continue
					}
					longer := float64(n) * p.cyclesApart() / exact / least
					t.Logf("%s: %s, %d samples: %.3g cycles, %.2f of the model's, with a standard deviation of %.2f", s.Name, r.Proc.Name, n, least, longer, sd)
					loops++
					sum += math.Log(longer)
					squares += math.Log(longer) * math.Log(longer)
				}
			}
		}
	}
	if loops > 1 {
		mean := sum / float64(loops)
		t.Logf("%d loops: logarithm %.2f, standard deviation %.2f", loops, mean, math.Sqrt((squares-sum*mean)/float64(loops-1)))
	}
}
