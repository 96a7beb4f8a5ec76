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
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/infer/image"
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

// comparable leaves out blocks that llvm-mca cannot judge: it takes calls for 100
// cycles and atomics for additions, and has microcode by rough estimates.
func comparable(ops []image.Operands) bool {
	return !slices.ContainsFunc(ops, func(o image.Operands) bool {
		switch o.Op {
		case image.OpCall, image.OpReturn, image.OpAtomic, image.OpFence, image.OpString, image.OpSystem:
			return true
		}
		return false
	})
}

// blocksOf gives the blocks of an image that weigh most, each of at least least
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
				if in := im.Insts(b); comparable(operandsOf(im, in)) {
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
	"amd-zen2":             {"-mcpu=znver2"},
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

// assembly gives the text of blocks as LLVM reads it. A block it cannot read is empty.
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
	cmd := exec.Command("llvm-mc-19", "--disassemble", "-triple="+mark.triple, "-mattr="+mark.features)
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

// mca gives the cycles per execution of blocks by llvm-mca, 0 for those it refuses.
func mca(t *testing.T, arch image.Arch, options []string, blocks [][]string) []float64 {
	t.Helper()
	var in strings.Builder
	for i, b := range blocks {
		if b != nil {
			fmt.Fprintf(&in, "# LLVM-MCA-BEGIN %d\n%s\n# LLVM-MCA-END\n", i, strings.Join(b, "\n"))
		}
	}
	args := append([]string{"-mtriple=" + marks[arch].triple, "-mattr=" + marks[arch].features, "-json", "-skip-unsupported-instructions=any",
		fmt.Sprintf("-iterations=%d", iterations), "-instruction-info=false", "-resource-pressure=false"}, options...)
	if arch == image.X86_64 {
		args = slices.DeleteFunc(args, func(a string) bool { return strings.HasPrefix(a, "-mattr") })
	}
	cmd := exec.Command("llvm-mca-19", args...)
	cmd.Stdin = strings.NewReader(in.String())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("llvm-mca-19: %v: %.300s", err, stderr.String())
	}
	var doc struct {
		CodeRegions []struct {
			Name         string
			Instructions []string
			SummaryView  struct{ TotalCycles int }
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	out := make([]float64, len(blocks))
	for _, r := range doc.CodeRegions {
		var i int
		if _, err := fmt.Sscan(r.Name, &i); err == nil && len(r.Instructions) == len(blocks[i]) {
			out[i] = float64(r.SummaryView.TotalCycles) / iterations
		}
	}
	return out
}

// compare holds the throughput of blocks against llvm-mca's.
func compare(t *testing.T, name string, blocks []hotBlock) (n int, rank, relative float64) {
	t.Helper()
	m, err := ByName(name)
	if err != nil {
		t.Fatal(err)
	}
	text := assembly(t, blocks, m.Arch)
	theirs := mca(t, m.Arch, mcaCPU[name], text)
	type pair struct{ ours, theirs float64 }
	var pairs []pair
	var lines []string
	for i, b := range blocks {
		if theirs[i] == 0 {
			continue
		}
		s := m.schedule(b.insts, operandsOf(b.im, b.insts), true)
		pairs = append(pairs, pair{s.Cycles, theirs[i]})
		relative += math.Abs(s.Cycles-theirs[i]) / theirs[i]
		lines = append(lines, fmt.Sprintf("%09.5f %s: ours %.2f (%s %s), llvm-mca %.2f\n\t%s", math.Abs(math.Log(s.Cycles/theirs[i])), name, s.Cycles, s.Bound, s.Unit, theirs[i], strings.Join(text[i], "\n\t")))
	}
	slices.Sort(lines)
	for i := range min(*worst, len(lines)) {
		t.Log(lines[len(lines)-1-i])
	}
	x, y := make([]float64, len(pairs)), make([]float64, len(pairs))
	for i, p := range pairs {
		x[i], y[i] = p.ours, p.theirs
	}
	return len(pairs), pearson(ranks(x), ranks(y)), relative / float64(len(pairs))
}

// ranks gives the rank of each value, the mean one to equal values.
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

// needLLVM skips the test where its tools are missing.
func needLLVM(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"llvm-mca-19", "llvm-mc-19"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no %s", tool)
		}
	}
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
	needLLVM(t)
	every := func(b *image.Block) int { return 1 }
	for _, tt := range []struct {
		path   string
		models []string
	}{
		{"../../testdata/mix/mix", []string{"intel-skylake-x", "intel-icelake", "intel-sapphirerapids", "amd-zen2", "amd-zen3", "amd-zen4"}},
		{"/usr/aarch64-linux-gnu/lib/libc.so.6", []string{"arm-neoverse-n1", "arm-neoverse-v1", "arm-neoverse-v2", "arm-cortex-a53", "arm-cortex-a55"}},
	} {
		t.Run(filepath.Base(tt.path), func(t *testing.T) {
			im, file := open(t, tt.path)
			blocks := blocksOf(im, file, every, 4, 1000)
			for _, name := range tt.models {
				n, rank, relative := compare(t, name, blocks)
				t.Logf("%s: %d blocks, rank correlation %.3f, mean relative error %.3f", name, n, rank, relative)
				if n < 10 || rank < 0.8 {
					t.Errorf("%s: %d blocks, rank correlation %.3f, want 0.8", name, n, rank)
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
	needLLVM(t)
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
			im, file := open(t, filepath.Join(dir, "symfs", strings.TrimPrefix(path, "/usr")))
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
			n, rank, relative := compare(t, name, blocks)
			t.Logf("%s: %d blocks, rank correlation %.3f, mean relative error %.3f", name, n, rank, relative)
		}
	}
}
