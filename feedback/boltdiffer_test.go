package feedback

import (
	"bytes"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestWriteBOLTDifferential: counts drawn at random of all edges of a program are those that llvm-bolt reads of what is written.
func TestWriteBOLTDifferential(t *testing.T) {
	testtool.Need(t, "clang-19", "ld.lld-19", "llvm-bolt-19")
	dir := t.TempDir()
	build(t, dir, "shop.q", "-fuse-ld=lld", "-Wl,-q")
	path := filepath.Join(dir, "shop.q")
	im, err := image.Open(path, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	r := rand.New(rand.NewPCG(1, 2))
	drawn := func() infer.Freq {
		return infer.Freq{N: float64(1 + r.Uint64N(1<<(1+r.IntN(40)))), Conf: infer.High, Among: infer.High, Within: infer.High}
	}
	ip := &infer.ImageProfile{ID: sample.ImageID{Path: path, Build: im.Build}, Image: im}
	for i := range im.Symbols() {
		p, err := im.Proc(i)
		if err != nil {
			t.Fatal(err)
		}
		res := &infer.Result{Proc: p, Seen: true, Block: make([]infer.Freq, len(p.Blocks)), BlockSamples: make([]uint64, len(p.Blocks)), Edge: make([]infer.Freq, len(p.Edges)), Call: make([]infer.Freq, len(p.Calls)), Entries: drawn()}
		for j := range res.Block {
			res.Block[j] = drawn()
		}
		for j := range res.Edge {
			res.Edge[j] = drawn()
		}
		for j := range res.Call {
			res.Call[j] = drawn()
		}
		ip.Procs = append(ip.Procs, res)
	}
	var out bytes.Buffer
	rec := &sample.Recording{}
	rec.Add(sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock"}))
	stats, err := WriteBOLT(&out, &infer.Profile{Images: []*infer.ImageProfile{ip}}, rec, BOLTOptions{})
	if err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, dir, "shop.fdata", out.String())
	log := testtool.Run(t, dir, "llvm-bolt-19", "shop.q", "-o", "shop.bolt", "--data=shop.fdata", "--print-profile")
	if strings.Contains(log, "stale") {
		t.Errorf("llvm-bolt could not use the profile of some function:\n%s", log)
	}
	functions := boltFunctions(log)
	compared, differ := 0, map[string]bool{}
	entered := map[string]uint64{}
	edges := map[boltRecord]uint64{}
	for line := range strings.Lines(out.String()) {
		var outside, inside int
		var rec boltRecord
		var missed, n uint64
		if _, err := fmt.Sscanf(line, "%d %s %x %d %s %x %d %d", &outside, &rec.from, &rec.fromOff, &inside, &rec.to, &rec.toOff, &missed, &n); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if rec.toOff == 0 {
			entered[rec.to] += n
			continue
		}
		if f := functions[rec.from]; f != nil && rec.from == rec.to {
			rec.fromOff = f.block(rec.fromOff) // llvm-bolt drops what does nothing at the end of a block
		}
		edges[rec] += n
	}
	for name, f := range functions {
		if f.count != entered[name] {
			differ[fmt.Sprintf("%s: llvm-bolt has it run %d times, the file %d", name, f.count, entered[name])] = true
		}
		compared++
		for rec, n := range f.edges {
			rec.from, rec.to = name, name
			if rec.toOff > 0 && edges[rec] != n {
				differ[fmt.Sprintf("%v: llvm-bolt has it %d times, the file %d", rec, n, edges[rec])] = true
			}
			delete(edges, rec)
			compared++
		}
	}
	for rec, n := range edges {
		if functions[rec.from] != nil {
			differ[fmt.Sprintf("%v: in the file %d times, and llvm-bolt has none", rec, n)] = true
		}
	}
	for _, d := range slices.Sorted(maps.Keys(differ)) {
		t.Error(d)
	}
	if compared < 50 || stats.Edges < 30 {
		t.Errorf("%d counts compared, %d edges written: too few to tell", compared, stats.Edges)
	}
	t.Logf("%d counts of %d functions compared", compared, len(functions))
}

// A boltFunction is what llvm-bolt prints of a function and its profile.
type boltFunction struct {
	count  uint64
	starts []uint64              // of blocks, sorted
	edges  map[boltRecord]uint64 // from block to block, by where they start
}

// block returns the start of the block at an offset.
func (f *boltFunction) block(off uint64) uint64 {
	i, found := slices.BinarySearch(f.starts, off)
	if !found {
		i--
	}
	return f.starts[max(i, 0)]
}

// boltFunctions reads what --print-profile prints:
//
//	Binary Function "work" after attaching profile {
//	  Exec Count  : 3831
//	}
//	.LBB05 (4 instructions, align : 1)
//	    00000000: 	movl	(%rdi), %ecx
//	  Successors: .Ltmp4 (mispreds: 0, count: 1880), .LFT13 (mispreds: 0, count: 268)
func boltFunctions(log string) map[string]*boltFunction {
	functions := map[string]*boltFunction{}
	type successor struct {
		from, to string
		n        uint64
	}
	instruction, to := regexp.MustCompile(`^    ([0-9a-f]{8}): `), regexp.MustCompile(`([^ ,]+) \(mispreds: \d+, count: (\d+)\)`)
	for _, text := range strings.Split(log, `Binary Function "`)[1:] {
		name, text, _ := strings.Cut(text, `"`)
		text, _, _ = strings.Cut(text, "End of Function")
		name, _, _ = strings.Cut(name, "(*")
		f := &boltFunction{edges: map[boltRecord]uint64{}}
		label, starts := "", map[string]uint64{}
		var successors []successor
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "  Exec Count  : ") {
				fmt.Sscanf(line, "  Exec Count  : %d", &f.count)
			} else if before, _, ok := strings.Cut(line, " ("); ok && strings.Contains(line, " instructions, align") {
				label = before
			} else if m := instruction.FindStringSubmatch(line); m != nil {
				if _, ok := starts[label]; !ok {
					starts[label], _ = strconv.ParseUint(m[1], 16, 64)
				}
			} else if strings.HasPrefix(line, "  Successors: ") {
				for _, m := range to.FindAllStringSubmatch(line, -1) {
					n, _ := strconv.ParseUint(m[2], 10, 64)
					successors = append(successors, successor{label, m[1], n})
				}
			}
		}
		if f.count == 0 {
			continue
		}
		f.starts = slices.Sorted(maps.Values(starts))
		for _, s := range successors {
			f.edges[boltRecord{fromOff: starts[s.from], toOff: starts[s.to]}] += s.n
		}
		functions[name] = f
	}
	return functions
}
