// overlap [-image NAME] RECORDING... compares the samples of recordings: for each
// pair, the overlap of their histograms by instruction and by procedure, which is
// the sum of the smaller shares, and for each recording the shares of the hottest
// procedures.
package main

import (
	"cmp"
	"debug/elf"
	"flag"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sort"

	"backfeed/sample"
)

type where struct {
	image string
	off   sample.Offset
}

func main() {
	log.SetFlags(0)
	only := flag.String("image", "", "only samples of the image with this file `name`")
	flag.Parse()
	if flag.NArg() == 0 {
		log.Fatal("usage: overlap [-image NAME] RECORDING...")
	}
	var insts []map[where]uint64
	var procs []map[string]uint64
	n := &namer{}
	for _, path := range flag.Args() {
		at, err := read(path, *only)
		if err != nil {
			log.Fatalf("%s: %v", path, err)
		}
		by := map[string]uint64{}
		for p, samples := range at {
			by[n.name(p)] += samples
		}
		insts, procs = append(insts, at), append(procs, by)
	}
	fmt.Println("recording                 samples   places  overlap with the others in %: instructions (procedures)")
	for i, path := range flag.Args() {
		fmt.Printf("%-24s %8d %8d ", filepath.Base(path), sum(insts[i]), len(insts[i]))
		for j := range insts {
			if i == j {
				fmt.Print("              ")
				continue
			}
			fmt.Printf("  %5.1f (%5.1f)", 100*overlap(insts[i], insts[j]), 100*overlap(procs[i], procs[j]))
		}
		fmt.Println()
	}
	all := map[string]uint64{}
	for _, by := range procs {
		for name, samples := range by {
			all[name] += samples
		}
	}
	hot := slices.SortedFunc(maps.Keys(all), func(a, b string) int {
		return cmp.Or(cmp.Compare(all[b], all[a]), cmp.Compare(a, b))
	})
	fmt.Println("\nshares of the hottest procedures in %")
	for _, name := range hot[:min(12, len(hot))] {
		fmt.Printf("%-32s", name)
		for i := range procs {
			fmt.Printf("  %5.2f", 100*float64(procs[i][name])/float64(sum(procs[i])))
		}
		fmt.Println()
	}
}

// read returns the samples of a recording by place.
func read(path, only string) (map[where]uint64, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	rec, err := sample.Decode(b)
	if err != nil {
		return nil, err
	}
	at := map[where]uint64{}
	for _, c := range rec.Counts {
		for _, im := range c.Images {
			if only != "" && filepath.Base(im.ID.Path) != only {
				continue
			}
			for off, samples := range im.At {
				at[where{im.ID.Path, off}] += samples
			}
		}
	}
	if len(at) == 0 {
		return nil, fmt.Errorf("no samples of %s", cmp.Or(only, "any image"))
	}
	return at, nil
}

func sum[K comparable](m map[K]uint64) (n uint64) {
	for _, samples := range m {
		n += samples
	}
	return n
}

// overlap is 1 for equal distributions and 0 for those that share nothing.
func overlap[K comparable](a, b map[K]uint64) (shared float64) {
	na, nb := float64(sum(a)), float64(sum(b))
	for k, samples := range a {
		shared += min(float64(samples)/na, float64(b[k])/nb)
	}
	return shared
}

// A namer knows the procedures of images by their symbols.
type namer struct{ images map[string]*symbols }

type symbols struct {
	progs []*elf.Prog
	funcs []elf.Symbol // by address
}

func (n *namer) name(p place) string {
	if n.images == nil {
		n.images = map[string]*symbols{}
	}
	s := n.images[p.image]
	if s == nil {
		s = open(p.image)
		n.images[p.image] = s
	}
	for _, prog := range s.progs {
		if prog.Type != elf.PT_LOAD || uint64(p.off) < prog.Off || uint64(p.off) >= prog.Off+prog.Filesz {
			continue
		}
		addr := uint64(p.off) - prog.Off + prog.Vaddr
		i := sort.Search(len(s.funcs), func(i int) bool { return s.funcs[i].Value > addr }) - 1
		if i >= 0 && addr < s.funcs[i].Value+s.funcs[i].Size {
			return s.funcs[i].Name
		}
	}
	return filepath.Base(p.image)
}

func open(path string) *symbols {
	s := &symbols{}
	f, err := elf.Open(path)
	if err != nil {
		return s
	}
	defer f.Close()
	s.progs = f.Progs
	all, err := f.Symbols()
	if err != nil {
		all, _ = f.DynamicSymbols()
	}
	for _, sym := range all {
		if elf.ST_TYPE(sym.Info) == elf.STT_FUNC && sym.Size > 0 {
			s.funcs = append(s.funcs, sym)
		}
	}
	slices.SortFunc(s.funcs, func(a, b elf.Symbol) int {
		return cmp.Or(cmp.Compare(a.Value, b.Value), cmp.Compare(a.Name, b.Name))
	})
	return s
}
