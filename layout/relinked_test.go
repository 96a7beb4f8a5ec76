package layout

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
)

// open opens an image until the test ends.
func open(t *testing.T, path string) *image.Image {
	t.Helper()
	im, err := image.Open(path, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { im.Close() })
	return im
}

// everything returns the procedures of an image that have symbols, as if each block had
// run once.
func everything(t *testing.T, im *image.Image) []*infer.Result {
	t.Helper()
	var procs []*infer.Result
	for i, s := range im.Symbols() {
		p, err := im.Proc(i)
		if s.Source != image.FromSymtab || err != nil || len(p.Blocks) == 0 {
			continue
		}
		r := &infer.Result{Proc: p, Block: make([]infer.Freq, len(p.Blocks)), Edge: make([]infer.Freq, len(p.Edges)), Call: make([]infer.Freq, len(p.Calls))}
		for _, freqs := range [][]infer.Freq{r.Block, r.Edge, r.Call} {
			for i := range freqs {
				freqs[i].N = 1
			}
		}
		procs = append(procs, r)
	}
	return procs
}

// TestRelinkedToItself: an image relinked to itself has everything where it is, by
// comparison of whole procedures and by walking through their blocks.
func TestRelinkedToItself(t *testing.T) {
	im := open(t, "../testdata/mix/mix")
	procs := everything(t, im)
	want := Linked(procs)
	if got := Relinked(procs, im, im).Scores(); got != want.Scores() {
		t.Errorf("scores %+v, want %+v", got, want.Scores())
	}
	code := &codeReader{im: im, taken: map[int]bool{}, read: map[int]bool{}, at: map[image.Addr]step{}}
	for i, r := range procs {
		w := newWalk(r.Proc, im, code, r.Proc.Index)
		w.walk(r.Proc.Addr)
		for b := range r.Proc.Blocks {
			if got := w.start[b]; got != want.Start[i][b] {
				t.Errorf("%s: block %d is at %#x, found at %#x", r.Proc.Name, b, want.Start[i][b], got)
			}
		}
	}
}

// TestRelinked: what lld, clang and llvm-bolt moved is found where it is: at the addresses
// that symbols have, and with the same source lines.
func TestRelinked(t *testing.T) {
	t.Run("x86-64", func(t *testing.T) { testRelinked(t) })
	t.Run("AArch64", func(t *testing.T) {
		testtool.Need(t, "aarch64-linux-gnu-gcc") // whose C library clang links
		testRelinked(t, "--target=aarch64-linux-gnu")
	})
}

func testRelinked(t *testing.T, target ...string) {
	testtool.Need(t, "clang-19", "ld.lld-19", "llvm-nm-19", "llvm-bolt-19")
	dir := t.TempDir()
	source, err := filepath.Abs("../testdata/mix/mix.c")
	if err != nil {
		t.Fatal(err)
	}
	build := func(name string, args ...string) {
		testtool.Run(t, dir, slices.Concat([]string{"clang-19", "-O2", "-g", "-ffunction-sections", "-fuse-ld=lld", "-Wl,--emit-relocs", "-Wl,--no-warn-symbol-ordering", "-o", name, source}, target, args)...)
	}
	write := func(name string, lines []string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Join(lines, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	rng := rand.New(rand.NewPCG(1, 2))
	shuffled := func(program string) (names []string) {
		for _, line := range strings.Split(testtool.Run(t, dir, "llvm-nm-19", program), "\n") {
			if f := strings.Fields(line); len(f) == 3 && strings.EqualFold(f[1], "t") && !strings.HasPrefix(f[2], "_") {
				names = append(names, f[2])
			}
		}
		rng.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		return names
	}
	build("base")
	base := open(t, filepath.Join(dir, "base"))
	procs := everything(t, base)

	write("order", shuffled("base"))
	build("lld", "-Wl,--symbol-ordering-file=order")
	blocks := "-fbasic-block-sections=all"
	if len(target) > 0 { // clang 19 has that for x86-64 only
		list := []string{"v1"}
		for _, r := range procs {
			list = append(list, "f "+r.Proc.Name)
		}
		write("list", list)
		blocks = "-fbasic-block-sections=list=" + filepath.Join(dir, "list")
	}
	build("sections", blocks)
	write("parts", shuffled("sections"))
	build("propeller", blocks, "-Wl,--symbol-ordering-file=parts")
	var fdata []string
	for _, r := range procs {
		for _, e := range r.Proc.Edges {
			from, to := r.Proc.Blocks[e.From].Last, r.Proc.Blocks[e.To].Start
			if e.Kind == image.Taken && rng.IntN(3) > 0 {
				fdata = append(fdata, fmt.Sprintf("1 %[1]s %[2]x 1 %[1]s %[3]x 0 %[4]d", r.Proc.Name, from-r.Proc.Addr, to-r.Proc.Addr, 1+rng.IntN(1000)))
			}
		}
	}
	write("fdata", fdata)
	testtool.Run(t, dir, "llvm-bolt-19", "base", "-o", "bolt", "-data=fdata", "-reorder-blocks=ext-tsp", "-reorder-functions=hfsort", "-split-functions", "-split-all-cold", "-update-debug-sections")

	for _, tt := range []struct {
		name  string
		jumps float64 // taken, at least, where as linked it is 1
	}{
		{"lld", 1},
		{"propeller", 1.2},
		{"bolt", 0.5},
	} {
		im := open(t, filepath.Join(dir, tt.name))
		p := Relinked(procs, base, im)
		s, was := p.Scores(), Linked(procs).Scores()
		if s.Placed < 0.99 || s.Taken < tt.jumps*was.Taken || tt.jumps == 1 && s.Taken != was.Taken {
			t.Errorf("%s: %.4f of the code found, want 0.99; %.0f jumps taken, as linked %.0f", tt.name, s.Placed, s.Taken, was.Taken)
		}
		checkRelinked(t, tt.name, p, base, im)
	}
}

// checkRelinked holds p to the symbols and to the line table of image im.
func checkRelinked(t *testing.T, name string, p *Placement, base, im *image.Image) {
	lines, err := base.Lines()
	if err != nil {
		t.Fatal(err)
	}
	newLines, err := im.Lines()
	if err != nil {
		t.Fatal(err)
	}
	compared, moved := 0, 0
	for i, r := range p.Procs {
		if at := im.Lookup(r.Proc.Name); p.Start[i][0] != Nowhere && (at < 0 || im.Symbols()[at].Addr != p.Start[i][0]) {
			t.Errorf("%s: %s found at %#x, where its symbol is not", name, r.Proc.Name, p.Start[i][0])
		}
		for b := range r.Proc.Blocks {
			at := p.Start[i][b]
			if at == Nowhere {
				continue
			}
			was, is := lines.Frames(r.Proc.Blocks[b].Start), newLines.Frames(at)
			if len(was) == 0 || len(is) == 0 {
				continue
			}
			compared++
			if at-p.Start[i][0] != r.Proc.Blocks[b].Start-r.Proc.Addr {
				moved++
			}
			if was[0].Line != 0 && is[0].Line != 0 && was[0].Line != is[0].Line || was[0].Func != is[0].Func {
				t.Errorf("%s: %s: block at %#x is of line %d, found at %#x of line %d", name, r.Proc.Name, r.Proc.Blocks[b].Start, was[0].Line, at, is[0].Line)
			}
		}
	}
	if compared < 70 || (moved == 0) != (name == "lld") {
		t.Errorf("%s: %d blocks compared, %d of them moved within their procedures", name, compared, moved)
	}
}
