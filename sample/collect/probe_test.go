package collect

import (
	"bytes"
	"debug/elf"
	"errors"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// all says that every kind but the last, which is stepped, is emulated.
func (p *probeISA) allEmulated() []ProbeCost {
	costs := make([]ProbeCost, len(p.kinds)+1)
	for i := range costs {
		costs[i] = ProbeCost{Cost: 600, Exact: true}
	}
	costs[len(costs)-1].Cost = 19000
	if err := p.judge(costs); err != nil {
		panic(err)
	}
	return costs
}

// TestCheckSite: only what the kernel emulates is armed, with its own condition, and
// never a nop of 5 bytes.
func TestCheckSite(t *testing.T) {
	costs, arm := x86Probes.allEmulated(), armProbes.allEmulated()
	for _, tt := range []struct {
		name string
		code []byte
		cond int8
		ok   bool
	}{
		{"jo", []byte{0x70, 2}, 0, true},
		{"jg", []byte{0x7f, 2}, 15, true},
		{"jg as jle", []byte{0x7f, 2}, 14, false},
		{"jg as no branch", []byte{0x7f, 2}, NoCond, false},
		{"jnz near", []byte{0x0f, 0x85, 1, 0, 0, 0}, 5, true},
		{"jmp", []byte{0xeb, 1}, NoCond, true},
		{"jmp with condition", []byte{0xeb, 1}, 11, false},
		{"jmp near", []byte{0xe9, 1, 0, 0, 0}, NoCond, true},
		{"call", []byte{0xe8, 1, 0, 0, 0}, NoCond, true},
		{"push rbp", []byte{0x55}, NoCond, true},
		{"push r12", []byte{0x41, 0x54}, NoCond, true},
		{"nop", []byte{0x90}, NoCond, true},
		{"nop of 2", []byte{0x66, 0x90}, NoCond, true},
		{"nop of 4", []byte{0x0f, 0x1f, 0x40, 0x00}, NoCond, true},
		{"nop of 5", []byte{0x0f, 0x1f, 0x44, 0x00, 0x00}, NoCond, false},
		{"nop of 5, of prefixes", []byte{0x66, 0x66, 0x66, 0x66, 0x90}, NoCond, false},
		{"nop of 6", []byte{0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00}, NoCond, true},
		{"nop of 8", []byte{0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, NoCond, true},
		{"nop of 9", []byte{0x66, 0x0f, 0x1f, 0x84, 0, 0, 0, 0, 0}, NoCond, false},
		{"xchg r8, rax", []byte{0x41, 0x90}, NoCond, false},
		{"endbr64", []byte{0xf3, 0x0f, 0x1e, 0xfa}, NoCond, false},
		{"mov", []byte{0x89, 0xc0}, NoCond, false},
		{"push imm", []byte{0x6a, 1}, NoCond, false},
		{"ret", []byte{0xc3}, NoCond, false},
		{"jrcxz", []byte{0xe3, 1}, NoCond, false},
		{"loop", []byte{0xe2, 1}, NoCond, false},
		{"jmp [rip]", []byte{0xff, 0x25, 0, 0, 0, 0}, NoCond, false},
		{"call rax", []byte{0xff, 0xd0}, NoCond, false},
		{"lock inc", []byte{0xf0, 0xff, 0x00}, NoCond, false},
		{"jz with 66", []byte{0x66, 0x0f, 0x84, 0, 0, 0, 0}, 4, false},
		{"int3", []byte{0xcc}, NoCond, false},
		{"nothing", nil, NoCond, false},
		{"end of file in a nop", []byte{0x0f, 0x1f}, NoCond, false},
	} {
		if err := x86Probes.checkSite(tt.code, tt.cond, costs); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	for _, tt := range []struct {
		name string
		code uint32
		cond int8
		ok   bool
	}{
		{"b.lt", 0x5400004b, 11, true},
		{"b.lt as b.ge", 0x5400004b, 10, false},
		{"bc.lt", 0x5400005b, 11, false},
		{"cbz x3", 0xb4000043, CondZero, true},
		{"cbnz w3", 0x35000043, CondNotZero, true},
		{"cbnz as cbz", 0x35000043, CondZero, false},
		{"tbz", 0xb6f80043, CondClear, true},
		{"tbnz", 0x37000043, CondSet, true},
		{"tbnz as no branch", 0x37000043, NoCond, false},
		{"b", 0x17ffffff, NoCond, true},
		{"bl", 0x97ffffff, NoCond, true},
		{"adrp", 0x90000000, NoCond, true},
		{"nop", 0xd503201f, NoCond, true},
		{"bti", 0xd503241f, NoCond, false},
		{"ldr literal", 0x58000040, NoCond, false},
		{"br", 0xd61f0000, NoCond, false},
		{"ret", 0xd65f03c0, NoCond, false},
		{"mov", 0xaa0103e0, NoCond, false},
		{"svc", 0xd4000001, NoCond, false},
	} {
		if err := armProbes.checkSite(words(tt.code), tt.cond, arm); (err == nil) != tt.ok {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
	if err := armProbes.checkSite([]byte{0x1f, 0x20}, NoCond, arm); err == nil {
		t.Error("the end of a file in an instruction: no error")
	}
}

// TestCookie: of a branch that tests a register, a cookie has which bits of which one.
func TestCookie(t *testing.T) {
	for _, tt := range []struct {
		code      uint32
		cond      int8
		reg, bits uint64
	}{
		{0x5400004b, 11, 0, 0},
		{0xb4000043, CondZero, 3, 1 << 6},
		{0x3500005f, CondNotZero, 31, 0},
		{0xb6f80043, CondClear, 3, 1<<6 | 63},
		{0x37080045, CondSet, 5, 1<<6 | 1},
	} {
		want := 7 | uint64(tt.cond)<<8 | tt.reg<<16 | tt.bits<<21
		if got := cookie(7, tt.cond, words(tt.code)); got != want {
			t.Errorf("%#x: %#x, want %#x", tt.code, got, want)
		}
	}
}

// TestJudge: a kind that is stepped, or was not counted exactly, is refused.
func TestJudge(t *testing.T) {
	costs := x86Probes.allEmulated()
	costs[0].Cost, costs[1].Exact = 12000, false
	if err := x86Probes.judge(costs); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{false, false, true} {
		if costs[i].Emulated != want {
			t.Errorf("kind %d: emulated: %v", i, costs[i].Emulated)
		}
	}
	if err := x86Probes.checkSite([]byte{0x75, 0}, 5, costs); !errors.Is(err, errNotEmulated) {
		t.Errorf("a branch of a kind that is stepped: %v", err)
	}
	for i := range costs {
		costs[i].Cost = 19000
	}
	if unavailable := (*Unavailable)(nil); !errors.As(x86Probes.judge(costs), &unavailable) {
		t.Error("a kernel that steps all: no error")
	}
}

// TestLoopProgram: the program is an ELF file, and its sites are what they are to be.
func TestLoopProgram(t *testing.T) {
	for _, p := range probeISAs {
		file, offs := p.loopProgram()
		f, err := elf.NewFile(bytes.NewReader(file))
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Progs) != 1 || f.Progs[0].Filesz != uint64(len(file)) {
			t.Errorf("%s: segments %+v of %d bytes", p.name, f.Progs, len(file))
		}
		for i, off := range offs {
			k, err := p.kindOf(file[off:])
			if i < len(p.kinds) && (err != nil || k != i) {
				t.Errorf("%s: site %d: kind %d, %v", p.name, i, k, err)
			}
			if i == len(p.kinds) && err == nil {
				t.Errorf("%s: the stepped site is of kind %d", p.name, k)
			}
		}
	}
}

// TestLoopProgramRuns: the program for AArch64 runs each of its loops to the end.
func TestLoopProgramRuns(t *testing.T) {
	qemu := testtool.Path(t, "qemu-aarch64")
	code, offs := armProbes.loopProgram()
	exe := filepath.Join(t.TempDir(), "loops")
	if err := os.WriteFile(exe, code, 0o755); err != nil {
		t.Fatal(err)
	}
	for i := range len(offs) + 1 {
		if out, err := exec.Command(qemu, append([]string{exe}, make([]string, i)...)...).CombinedOutput(); err != nil {
			t.Errorf("loop %d: %v %s", i, err, out)
		}
	}
}

// A phased is a program with phases: site i has a rate in each, in hits per second.
type phased struct {
	length float64 // of a phase, in s of native time
	rates  [][]float64
}

// at returns the rates at a time.
func (p *phased) at(t float64) []float64 { return p.rates[int(t/p.length)%len(p.rates)] }

// window returns what a window of so many seconds counts that begins at some native
// time, each hit costing cost.
func (p *phased) window(rng *rand.Rand, length, cost float64) *ProbeWindow {
	t := rng.Float64() * p.length * float64(len(p.rates))
	w := &ProbeWindow{Hits: make([]uint64, len(p.rates[0])), Taken: make([]uint64, len(p.rates[0]))}
	hits := make([]float64, len(p.rates[0]))
	const step = 1e-6 // s of native time
	for left := length; left > 0; t += step {
		left -= step
		for i, r := range p.at(t) {
			hits[i] += r * step
			left -= r * step * cost
		}
	}
	for i, n := range hits {
		w.Hits[i] = uint64(n + rng.Float64())
		w.Taken[i] = w.Hits[i] / 4
	}
	w.Time = time.Duration(length * 1e9)
	return w
}

// TestEstimates: windows tell the rates of sites in phases of very different density
// without bias, and how uncertain these are.
func TestEstimates(t *testing.T) {
	const cost = 0.6e-6
	for _, p := range []*phased{
		{10e-3, [][]float64{{2e6, 1e6, 0}, {1e4, 0, 5e5}, {0, 0, 0}}},
		{100e-6, [][]float64{{2e6, 1e6, 0}, {1e4, 0, 5e5}, {0, 0, 0}}},
		{1, [][]float64{{3e5, 2e5, 1e3}}},
	} {
		rng := rand.New(rand.NewPCG(1, uint64(p.length*1e6)))
		truth := make([]float64, 3)
		for _, r := range p.rates {
			for i := range r {
				truth[i] += r[i] / float64(len(p.rates))
			}
		}
		var mean, within [3]float64
		const trials, windows = 60, 40
		for range trials {
			m := &measured{ProbeGroup: ProbeGroup{Sites: []ProbeSite{{Cond: 4}, {Cond: NoCond}, {Cond: NoCond}}}}
			for range windows {
				w := p.window(rng, 1e-3, cost)
				c := Calibration{hit: 1}
				c.add([]*measured{m}, sitesOf([]*measured{m}), w)
			}
			for i, e := range m.estimates(cost) {
				mean[i] += e.rate / trials
				if math.Abs(e.rate-truth[i]) <= 1.645*math.Sqrt(e.variance) {
					within[i] += 1. / trials
				}
				if i == 0 && math.Abs(float64(e.taken)/float64(e.outcomes)-0.25) > 0.01 {
					t.Errorf("%v: %d of %d taken", p.length, e.taken, e.outcomes)
				}
			}
		}
		for i := range truth {
			if math.Abs(mean[i]/truth[i]-1) > 0.15 {
				t.Errorf("phases of %v s: site %d: mean rate %.4g, want %.4g", p.length, i, mean[i], truth[i])
			}
			if within[i] < 0.8 {
				t.Errorf("phases of %v s: site %d: within the 90 %% range in %.2f of all trials", p.length, i, within[i])
			}
		}
	}
}

// TestAddTo: counts hold what windows counted, but nothing of a file that was never hit.
func TestAddTo(t *testing.T) {
	app, lib := sample.ImageID{Path: "/app"}, sample.ImageID{Path: "/lib"}
	c := &Calibration{hit: 600}
	c.SetGroups([]ProbeGroup{
		{ID: app, File: "/app", Sites: []ProbeSite{{ID: app, Off: 16, Cond: 4}, {ID: app, Off: 32, Cond: NoCond}}, Gain: 1},
		{ID: app, File: "/app", Sites: []ProbeSite{{ID: app, Off: 48, Cond: 5}}, Gain: 1},
		{ID: lib, File: "/lib", Sites: []ProbeSite{{ID: lib, Off: 16, Cond: NoCond}}, Gain: 1},
	})
	for range 10 {
		w := &ProbeWindow{Hits: []uint64{400, 100}, Taken: []uint64{100, 0}, Time: time.Millisecond, Total: time.Second}
		c.add(c.groups[:1], sitesOf(c.groups[:1]), w)
		w.Total += 9 * time.Second
		c.add(c.groups[1:2], sitesOf(c.groups[1:2]), &ProbeWindow{Hits: []uint64{1600}, Taken: []uint64{1600}, Time: time.Millisecond, Total: w.Total})
		c.add(c.groups[2:], sitesOf(c.groups[2:]), &ProbeWindow{Hits: []uint64{0}, Taken: []uint64{0}, Time: time.Millisecond, Total: w.Total})
	}
	counts := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Unit: "ns"})
	counts.AddSample(counts.Image(app), 16, 10)
	counts.Weight = 1e7
	c.AddTo(counts)
	if err := counts.Check(); err != nil {
		t.Fatal(err)
	}
	if len(counts.Images) != 1 {
		t.Fatalf("%d images: nothing was ever hit in the other one", len(counts.Images))
	}
	got := counts.Images[0].Probed
	// 10 s, of which windows took some: 400 hits in 0.7 ms of native time each.
	if p := got[16]; p.Windows != 10 || p.Covered != 1e7 || p.Outcomes != 4000 || p.Taken != 1000 || math.Abs(float64(p.Runs)/(10*400/0.7e-3)-1) > 0.05 {
		t.Errorf("branch: %+v", p)
	}
	if p := got[32]; p.Outcomes != 0 || math.Abs(float64(p.Runs)/(10*100/0.7e-3)-1) > 0.05 || p.Variance == (sample.Square{}) {
		t.Errorf("jump: %+v", p)
	}
	if p := got[48]; p.Outcomes != 16000 || p.Taken != 16000 || p.Covered != 0 {
		t.Errorf("dense branch: %+v", p)
	}
}
