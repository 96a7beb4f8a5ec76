package machine

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
)

var sets = flag.String("sets", "", "also compare with llvm-mca the hottest blocks of these `directories`, comma-separated, each with samples.txt (path, hex address, samples) and symfs")
var worst = flag.Int("worst", 0, "show so many `blocks` that differ most from llvm-mca")

// A hotBlock is a block to compare, with what it weighs.
type hotBlock struct {
	im      *image.Image
	file    []byte // of im
	insts   []image.Inst
	samples int
}

// judged leaves out blocks that llvm-mca cannot judge: it takes calls for 100
// cycles and atomics for additions, and has microcode by rough estimates.
func judged(ops []image.Operands) bool {
	return !slices.ContainsFunc(ops, func(o image.Operands) bool {
		switch o.Op {
		case image.OpCall, image.OpReturn, image.OpAtomic, image.OpFence, image.OpString, image.OpSystem:
			return true
		}
		return false
	})
}

// blocksOf returns the blocks of an image that weigh most, each of at least least
// instructions.
func blocksOf(im *image.Image, file []byte, weigh func(*image.Block) int, least, most int) []hotBlock {
	var all []hotBlock
	for i := range im.Symbols() {
		p, err := im.Proc(i)
		if err != nil {
			continue
		}
		for j := range p.Blocks {
			b := &p.Blocks[j]
			if n := weigh(b); n > 0 && b.Insts >= least {
				if in := im.Insts(b); judged(operandsOf(im, in)) {
					all = append(all, hotBlock{im, file, in, n})
				}
			}
		}
	}
	slices.SortStableFunc(all, func(a, b hotBlock) int { return cmp.Compare(b.samples, a.samples) })
	return all[:min(len(all), most)]
}

func operandsOf(im *image.Image, insts []image.Inst) []image.Operands {
	ops := make([]image.Operands, len(insts))
	for i, in := range insts {
		ops[i] = im.Operands(in)
	}
	return ops
}

// mcaCPU is what llvm-mca calls the processor of a model, and how wide it is to
// take it: LLVM's widths for Arm are those of the units, not of dispatch.
var mcaCPU = map[string][]string{
	"intel-skylake-x":      {"-mcpu=skylake-avx512"},
	"intel-icelake":        {"-mcpu=icelake-server"},
	"intel-sapphirerapids": {"-mcpu=sapphirerapids"},
	"amd-zen2":             {"-mcpu=znver2", "-dispatch=6"},
	"amd-zen3":             {"-mcpu=znver3"},
	"amd-zen4":             {"-mcpu=znver4"},
	"arm-neoverse-n1":      {"-mcpu=neoverse-n1", "-dispatch=8"},
	"arm-neoverse-v1":      {"-mcpu=neoverse-v1", "-dispatch=8"},
	"arm-neoverse-v2":      {"-mcpu=neoverse-v2", "-dispatch=8"},
	"arm-cortex-a55":       {"-mcpu=cortex-a55"},
	"arm-cortex-a53":       {"-mcpu=cortex-a53"},
}

// marks are instructions that no block holds, to tell blocks apart.
var marks = map[image.Arch]struct{ bytes, text, triple, features string }{
	image.X86_64:  {"0x0f 0x0b", "ud2", "x86_64", "+64bit"},
	image.AArch64: {"0x80 0x46 0x42 0xd4", "hlt", "aarch64", "+all"},
}

// assembly returns the text of blocks as LLVM reads it. A block it cannot read is empty.
func assembly(t *testing.T, blocks []hotBlock, arch image.Arch) [][]string {
	t.Helper()
	mark := marks[arch]
	var in strings.Builder
	for _, b := range blocks {
		for _, i := range b.insts {
			off, ok := b.im.OffsetOf(i.Addr)
			if !ok {
				t.Fatalf("%#x: not in the file", i.Addr)
			}
			for _, c := range b.file[off : int(off)+i.Len] {
				fmt.Fprintf(&in, "0x%02x ", c)
			}
			in.WriteByte('\n')
		}
		in.WriteString(mark.bytes + "\n")
	}
	cmd := testtool.Command(t, "llvm-mc-19", "--disassemble", "-triple="+mark.triple, "-mattr="+mark.features)
	cmd.Stdin = strings.NewReader(in.String())
	text, err := cmd.Output()
	if err != nil {
		t.Fatal(err)
	}
	out := [][]string{nil}
	for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
		line := strings.TrimSpace(sc.Text())
		switch {
		case strings.HasPrefix(line, mark.text):
			out = append(out, nil)
		case line != "" && !strings.HasPrefix(line, "."):
			out[len(out)-1] = append(out[len(out)-1], line)
		}
	}
	for i, b := range blocks {
		if len(out[i]) != len(b.insts) {
			out[i] = nil
		}
	}
	return out[:len(blocks)]
}

// iterations that llvm-mca runs of each block.
const iterations = 200

// region has what the tests read of llvm-mca's answer.
type region struct {
	Name                string
	Instructions        []string
	SummaryView         struct{ TotalCycles int }
	InstructionInfoView struct {
		InstructionList []struct{ Latency, RThroughput float64 }
	}
}

// runMCA returns llvm-mca's answer for regions of code, by their numbers.
func runMCA(t *testing.T, arch image.Arch, code string, options ...string) map[int]region {
	t.Helper()
	args := append([]string{"-mtriple=" + marks[arch].triple, "-json", "-skip-unsupported-instructions=any", fmt.Sprintf("-iterations=%d", iterations)}, options...)
	if arch == image.AArch64 {
		args = append(args, "-mattr="+marks[arch].features)
	}
	cmd := testtool.Command(t, "llvm-mca-19", args...)
	cmd.Stdin = strings.NewReader(code)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("llvm-mca-19: %v: %.300s", err, stderr.String())
	}
	var doc struct{ CodeRegions []region }
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	out := map[int]region{}
	for _, r := range doc.CodeRegions {
		if i, err := strconv.Atoi(r.Name); err == nil {
			out[i] = r
		}
	}
	return out
}

// TestProbes: where a class names llvm-mca as its source, llvm-mca says the same of
// the class's probe.
func TestProbes(t *testing.T) {
	testtool.Need(t, "llvm-mc-19", "llvm-mca-19")
	n := 0
	for _, m := range embeddedModels() {
		f, err := decode([]byte(embedded(t, m.Name)))
		if err != nil {
			t.Fatal(err)
		}
		cpu := regexp.MustCompile(`-mcpu=[a-z0-9-]+`).FindString(f.Sources["mca"])
		text, err := os.ReadFile("testdata/probes." + m.Arch.String())
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		var code strings.Builder
		for _, line := range strings.Split(string(text), "\n") {
			if name, asm, ok := strings.Cut(line, ": "); ok {
				fmt.Fprintf(&code, "# LLVM-MCA-BEGIN %d\n%s\n# LLVM-MCA-END\n", len(names), asm)
				names = append(names, name)
			}
		}
		regions := runMCA(t, m.Arch, code.String(), cpu)
		for i, name := range names {
			c := f.Classes[name]
			r := regions[i]
			if c.Source != "mca" || len(r.InstructionInfoView.InstructionList) != 1 {
				continue
			}
			info := r.InstructionInfoView.InstructionList[0]
			k, err := f.cost(m, c)
			if err != nil {
				t.Fatal(err)
			}
			n++
			p := &plan{m: m, steps: []step{{uses: k.uses}}}
			if cycles, _ := p.units(); *c.Latency != info.Latency || len(k.uses) > 0 && math.Abs(cycles-info.RThroughput) > 0.01 {
				t.Errorf("%s: %s: latency %g and %.2f cycles, by llvm-mca %g and %.2f", m.Name, name, *c.Latency, cycles, info.Latency, info.RThroughput)
			}
		}
	}
	if n < 250 {
		t.Errorf("only %d classes compared", n)
	}
	t.Logf("%d classes compared", n)
}

// mca returns the cycles per execution of blocks by llvm-mca, 0 for those it refuses.
func mca(t *testing.T, arch image.Arch, options []string, blocks [][]string) []float64 {
	t.Helper()
	var in strings.Builder
	for i, b := range blocks {
		if b != nil {
			fmt.Fprintf(&in, "# LLVM-MCA-BEGIN %d\n%s\n# LLVM-MCA-END\n", i, strings.Join(b, "\n"))
		}
	}
	options = append([]string{"-instruction-info=false", "-resource-pressure=false"}, options...)
	out := make([]float64, len(blocks))
	for i, r := range runMCA(t, arch, in.String(), options...) {
		if len(r.Instructions) == len(blocks[i]) {
			out[i] = float64(r.SummaryView.TotalCycles) / iterations
		}
	}
	return out
}

// A score says how the throughput of blocks compares with llvm-mca's.
type score struct {
	n              int
	rank, relative float64 // Spearman's correlation; mean of the absolute error by llvm-mca's figure
}

func (s score) String() string {
	return fmt.Sprintf("%d blocks, rank correlation %.3f, mean relative error %.3f", s.n, s.rank, s.relative)
}

// compare scores all blocks, and those without what the model has otherwise than
// LLVM on purpose.
func compare(t *testing.T, name string, blocks []hotBlock) (all, plain score) {
	t.Helper()
	m, err := ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	f, err := decode([]byte(embedded(t, name)))
	if err != nil {
		t.Fatal(err)
	}
	text := assembly(t, blocks, m.Arch)
	theirs := mca(t, m.Arch, mcaCPU[name], text)
	var ours, want, plainOurs, plainWant []float64
	var lines []string
	for i, b := range blocks {
		if theirs[i] == 0 {
			continue
		}
		ops := operandsOf(b.im, b.insts)
		s := m.schedule(b.insts, ops, true)
		ours, want = append(ours, s.Cycles), append(want, theirs[i])
		if corrected(m, f, b.insts, ops) {
			continue
		}
		plainOurs, plainWant = append(plainOurs, s.Cycles), append(plainWant, theirs[i])
		lines = append(lines, fmt.Sprintf("%09.5f %s: ours %.2f (%s %s), llvm-mca %.2f\n\t%s", math.Abs(math.Log(s.Cycles/theirs[i])), name, s.Cycles, s.Bound, s.Unit, theirs[i], strings.Join(text[i], "\n\t")))
	}
	slices.Sort(lines)
	for i := range min(*worst, len(lines)) {
		t.Log(lines[len(lines)-1-i])
	}
	return scoreOf(ours, want), scoreOf(plainOurs, plainWant)
}

// corrected tells of blocks with instructions whose class has another source than
// llvm-mca, or that step the stack pointer, which LLVM takes for an addition.
func corrected(m *Model, f *file, insts []image.Inst, ops []image.Operands) bool {
	for i, in := range insts {
		var names []string
		if ops[i].Op != image.OpNone && ops[i].Op != image.OpNop {
			names = append(names, ops[i].Op.String())
		}
		if in.Class&image.Load != 0 {
			names = append(names, accessNames[accessOf(&ops[i], loadGeneral)])
		}
		if in.Class&image.Store != 0 {
			names = append(names, accessNames[accessOf(&ops[i], storeGeneral)])
		}
		if m.stack && in.Class&image.Push != 0 || slices.ContainsFunc(names, func(n string) bool { return f.Classes[n].Source != "mca" }) {
			return true
		}
	}
	return false
}

func scoreOf(ours, want []float64) score {
	s := score{n: len(ours), rank: pearson(ranks(ours), ranks(want))}
	for i := range ours {
		s.relative += math.Abs(ours[i]-want[i]) / want[i] / float64(len(ours))
	}
	return s
}

// ranks returns the rank of each value, the mean one to equal values.
func ranks(x []float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return cmp.Compare(x[a], x[b]) })
	r := make([]float64, len(x))
	for i := 0; i < len(x); {
		j := i
		for j < len(x) && x[order[j]] == x[order[i]] {
			j++
		}
		for k := i; k < j; k++ {
			r[order[k]] = float64(i+j-1) / 2
		}
		i = j
	}
	return r
}

func pearson(x, y []float64) float64 {
	mx, my := mean(x), mean(y)
	var xy, xx, yy float64
	for i := range x {
		xy += (x[i] - mx) * (y[i] - my)
		xx += (x[i] - mx) * (x[i] - mx)
		yy += (y[i] - my) * (y[i] - my)
	}
	return xy / math.Sqrt(xx*yy)
}

func mean(x []float64) float64 {
	s := 0.0
	for _, v := range x {
		s += v
	}
	return s / float64(len(x))
}

// open opens the file at path and reads it.
func open(t *testing.T, path string) (*image.Image, []byte) {
	t.Helper()
	file, err := os.ReadFile(path)
	if err != nil {
		t.Skipf("no %s", path)
	}
	im, err := image.Open(path, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	return im, file
}

// TestAgainstMCA: schedules of repeated blocks take about as long as llvm-mca says.
// They are not meant to agree wholly: llvm-mca knows no fusion, has stack pointers
// wait for each other, and some of its tables are known to be wrong.
func TestAgainstMCA(t *testing.T) {
	testtool.Need(t, "llvm-mc-19", "llvm-mca-19")
	every := func(b *image.Block) int { return 1 }
	// Floors leave room for other versions of the libraries. LLVM's tables of Sapphire
	// Rapids and Zen 2 are those that differ most from ours, on purpose.
	for _, tt := range []struct {
		path   string
		floors map[string]float64
	}{
		{"../../testdata/mix/mix", map[string]float64{"intel-skylake-x": 0.8, "intel-icelake": 0.8, "intel-sapphirerapids": 0.5, "amd-zen2": 0.7, "amd-zen3": 0.8, "amd-zen4": 0.8}},
		{"/usr/aarch64-linux-gnu/lib/libc.so.6", map[string]float64{"arm-neoverse-n1": 0.85, "arm-neoverse-v1": 0.85, "arm-neoverse-v2": 0.85, "arm-cortex-a53": 0.85, "arm-cortex-a55": 0.85}},
	} {
		t.Run(filepath.Base(tt.path), func(t *testing.T) {
			im, file := open(t, tt.path)
			blocks := blocksOf(im, file, every, 4, 300)
			for _, name := range sortedKeys(tt.floors) {
				all, plain := compare(t, name, blocks)
				t.Logf("%s: all: %s; without corrected classes: %s", name, all, plain)
				if !(all.rank >= tt.floors[name]) || all.n < 40 {
					t.Errorf("%s: %s, want a correlation of %.2f", name, all, tt.floors[name])
				}
			}
		})
	}
}

// TestHotBlocks compares the hottest blocks of recorded programs.
func TestHotBlocks(t *testing.T) {
	if *sets == "" {
		t.Skip("no -sets")
	}
	testtool.Need(t, "llvm-mc-19", "llvm-mca-19")
	var blocks []hotBlock
	for _, dir := range strings.Split(*sets, ",") {
		text, err := os.ReadFile(filepath.Join(dir, "samples.txt"))
		if err != nil {
			t.Fatal(err)
		}
		at := map[string]map[image.Addr]int{}
		for sc := bufio.NewScanner(bytes.NewReader(text)); sc.Scan(); {
			var path string
			var a image.Addr
			var n int
			if _, err := fmt.Sscanf(sc.Text(), "%s %x %d", &path, &a, &n); err == nil {
				if at[path] == nil {
					at[path] = map[image.Addr]int{}
				}
				at[path][a] += n
			}
		}
		for _, path := range sortedKeys(at) {
			name := filepath.Join(dir, "symfs", path)
			if _, err := os.Stat(name); err != nil { // /lib was a link to /usr/lib
				name = filepath.Join(dir, "symfs", strings.TrimPrefix(path, "/usr"))
			}
			im, file := open(t, name)
			blocks = append(blocks, blocksOf(im, file, func(b *image.Block) int {
				n := 0
				for a := b.Start; a < b.End; a++ {
					n += at[path][a]
				}
				return n
			}, 2, 1<<20)...)
		}
	}
	slices.SortStableFunc(blocks, func(a, b hotBlock) int { return cmp.Compare(b.samples, a.samples) })
	blocks = blocks[:min(len(blocks), 500)]
	for _, name := range Names() {
		if mcaCPU[name] != nil && !strings.HasPrefix(name, "arm") {
			all, plain := compare(t, name, blocks)
			t.Logf("%s: all: %s; without corrected classes: %s", name, all, plain)
		}
	}
}
