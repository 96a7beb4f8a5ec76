package image

import (
	"compress/gzip"
	"debug/elf"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/testdata/qemu"
)

// An execution is what callgrind saw of one image: all addresses are hexadecimal.
type execution struct {
	Insn map[string]uint64 `json:"insn"`
	Jump [][3]any          `json:"jump"`
	Call [][3]any          `json:"call"`
}

func parseAddr(tb testing.TB, s any) Addr {
	tb.Helper()
	a, err := strconv.ParseUint(s.(string), 0, 64)
	if err != nil {
		tb.Fatal(err)
	}
	return Addr(a)
}

// TestExecuted holds graphs to what really ran: every executed instruction must be
// in a block whose instructions all ran equally often, and every executed jump
// of a complete procedure must be one of its edges or calls. The environment variable
// BACKFEED_FIDELITY names a directory of more recordings: NAME/truth.json.gz and
// NAME/symfs/PATH.
func TestExecuted(t *testing.T) {
	sets := []string{"../../testdata/mix/truth.json.gz"}
	if dir := os.Getenv("BACKFEED_FIDELITY"); dir != "" {
		more, err := filepath.Glob(filepath.Join(dir, "*", "truth.json.gz"))
		if err != nil {
			t.Fatal(err)
		}
		sets = append(sets, more...)
	}
	for _, set := range sets {
		here := filepath.Dir(set)
		root := filepath.Join(here, "symfs")
		for path, ex := range readTruth(t, set) {
			for _, p := range []string{filepath.Join(here, filepath.Base(path)), filepath.Join(root, path), filepath.Join(root, path[min(4, len(path)):])} {
				if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() {
					t.Run(filepath.Base(filepath.Dir(set))+path, func(t *testing.T) { checkExecuted(t, openTest(t, p), ex) })
					break
				}
			}
		}
	}
}

func readTruth(t *testing.T, path string) map[string]*execution {
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*execution{}
	if err := json.NewDecoder(z).Decode(&out); err != nil {
		t.Fatal(err)
	}
	return out
}

func checkExecuted(t *testing.T, im *Image, ex *execution) {
	procs := map[int]*Proc{}
	proc := func(a Addr) *Proc {
		i := im.Find(a)
		if i < 0 {
			return nil
		}
		if procs[i] == nil {
			p, err := im.Proc(i)
			if err != nil {
				t.Fatal(err)
			}
			procs[i] = p
		}
		return procs[i]
	}
	count := map[Addr]uint64{}
	var total, inBlock, complete, uneven uint64
	for s, n := range ex.Insn {
		count[parseAddr(t, s)] = n
	}
	for a, n := range count {
		total += n
		p := proc(a)
		if p == nil {
			t.Logf("%#x: ran %d times, in no procedure", a, n)
			continue
		}
		b := blockAt(p, a)
		if b == nil {
			t.Errorf("%s: %#x ran %d times, and is in no block", p.Name, a, n)
			continue
		}
		inBlock += n
		if p.Complete {
			complete += n
			if a == b.Start && len(b.In) == 0 && !slices.ContainsFunc(p.Entries, func(e int) bool { return &p.Blocks[e] == b }) {
				t.Errorf("%s: nothing leads to block %#x, which ran %d times", p.Name, a, n)
			}
		} else if count[p.Addr] > 0 && a == b.Start {
			t.Logf("%s: %d times at %#x, incomplete: %s", p.Name, n, a, p.Why)
		}
		if n != count[b.Start] {
			uneven += n
			if a == b.Last {
				t.Logf("%s: uneven: block %#x ran %d times, its end %#x %d", p.Name, b.Start, count[b.Start], a, n)
			}
		}
	}
	jumps := 0
	for _, j := range ex.Jump {
		from, to := parseAddr(t, j[0]), parseAddr(t, j[1])
		p := proc(from)
		if p == nil || !p.Complete {
			continue
		}
		if to == from { // a repeated string instruction
			continue
		}
		jumps++
		if !leads(p, from, to) {
			t.Errorf("%s: jump from %#x to %#x, %v times, is no edge", p.Name, from, to, j[2])
		}
	}
	t.Logf("%.6f of %d executed instructions in blocks, %.6f in complete procedures, %.6f unlike the start of their block; %d jumps",
		float64(inBlock)/float64(total), total, float64(complete)/float64(total), float64(uneven)/float64(total), jumps)
}

func blockAt(p *Proc, a Addr) *Block {
	for i := range p.Blocks {
		if b := &p.Blocks[i]; b.Start <= a && a < b.End {
			return b
		}
	}
	return nil
}

// leads reports whether the jump at from may go to to.
func leads(p *Proc, from, to Addr) bool {
	b := blockAt(p, from)
	if b == nil || b.Last != from {
		return false
	}
	return slices.ContainsFunc(b.Out, func(e int) bool { return p.Blocks[p.Edges[e].To].Start == to }) ||
		slices.ContainsFunc(b.Calls, func(c int) bool {
			return p.Calls[c].Tail && (p.Calls[c].To == to || p.Calls[c].To == 0)
		})
}

// TestExecutedARM is TestExecuted for programs of AArch64, which QEMU counts.
func TestExecutedARM(t *testing.T) {
	t.Parallel()
	qemu.NeedCount(t, elf.EM_AARCH64)
	const clang = "clang-19 --target=aarch64-linux-gnu -fuse-ld=lld "
	for _, tt := range []struct{ name, compile string }{
		{"gcc", "aarch64-linux-gnu-gcc -O2 -g"},
		{"gcc for size, branch protection", "aarch64-linux-gnu-gcc -Os -mbranch-protection=standard"},
		{"clang", clang + "-O2 -g"},
		{"clang, branch protection, LSE", clang + "-O3 -g -mbranch-protection=standard -march=armv8.4-a"},
		{"clang, stripped", clang + "-O2 -s"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			program := filepath.Join(t.TempDir(), "mix")
			testtool.Run(t, ".", append(strings.Fields(tt.compile), "-o", program, "../../testdata/mix/mix.c")...)
			checkCounted(t, program, "1")
		})
	}
	t.Run("Go", func(t *testing.T) {
		program := filepath.Join(t.TempDir(), "shapes")
		cmd := testtool.Command(t, "go", "build", "-trimpath", "-o", program, ".") // as .ci/run has compiled the library
		cmd.Dir, cmd.Env = "../../feedback/testdata/shapes", append(os.Environ(), "GOARCH=arm64", "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
		checkCounted(t, program, filepath.Join(t.TempDir(), "cpu.pprof"))
	})
}

// checkCounted runs a program under QEMU, and holds the graphs of its procedures to what ran.
func checkCounted(t *testing.T, program string, args ...string) {
	t.Helper()
	path, _ := qemu.Count(t, filepath.Dir(program), program, args...)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	ran := map[string]*execution{}
	if err := json.NewDecoder(f).Decode(&ran); err != nil {
		t.Fatal(err)
	}
	if ran[program] == nil {
		t.Fatalf("nothing of %s ran", program)
	}
	checkExecuted(t, openTest(t, program), ran[program])
}
