package layout

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"backfeed/infer"
	"backfeed/infer/image"
)

// Clusters are the two files of LLVM's Propeller: for clang the order of the
// blocks of each function, for ld.lld that of the functions and of their cold
// parts.
type Clusters struct {
	Order *Order // of the functions

	Funcs      int  // functions whose blocks are ordered
	Split      int  // of them, those with a cold part
	Clones     int  // blocks that are there once more
	Incomplete Left // with unknown targets of indirect jumps
	Unmapped   Left // not in the map of basic blocks
	Ambiguous  Left // local ones of one name that cannot be told apart by a source file
	Unfit      Left // those whose names the files cannot carry

	Executed float64 // instructions of all functions in Order, inferred

	funcs []clustered
	least float64 // taken branches that a clone has to save
}

// Left are functions whose blocks are not ordered, and the instructions that they executed, inferred.
type Left struct {
	Funcs int
	Insts float64
}

func (l *Left) add(insts float64) {
	l.Funcs++
	l.Insts += insts
}

// A clustered function has its hot blocks in one cluster, and the others in a
// cold part.
type clustered struct {
	name   string
	file   string // source file, where the name alone does not say which function
	clones [][2]uint32
	hot    []blockID
	cold   bool
}

// A blockID names a block by the compiler's number, or a clone of it: the first one made of it is 1.
type blockID struct {
	id    uint32
	clone int
}

func (b blockID) String() string {
	if b.clone == 0 {
		return fmt.Sprint(b.id)
	}
	return fmt.Sprintf("%d.%d", b.id, b.clone)
}

// Propeller orders functions and blocks of an image that has a map of basic
// blocks. Blocks go by the compiler's own numbers, so that the files only fit the
// same source, compiled by the same compiler with the same flags. Blocks are cloned where that is worth
// it. progress is called as the work goes on; nil is not called.
func Propeller(ip *infer.ImageProfile, progress func(done, total int)) (*Clusters, error) {
	funcs, err := ip.Image.MachineFuncs()
	if err != nil {
		return nil, err
	}
	byAddr := map[image.Addr]*image.MachineFunc{}
	parts := map[image.Addr]bool{} // but the first ones
	for i := range funcs {
		byAddr[funcs[i].Parts[0]] = &funcs[i]
		for _, a := range funcs[i].Parts[1:] {
			parts[a] = true
		}
	}
	var ordering func(done, total int) // the first half
	if progress != nil {
		ordering = func(done, total int) { progress(done, 2*total) }
	}
	c := &Clusters{Order: FunctionsProgress(ip, ordering)}
	for _, r := range ip.Procs {
		c.least += minCloned * r.Instructions()
	}
	c.Order.Symbols = slices.DeleteFunc(c.Order.Symbols, func(s image.Symbol) bool { return parts[s.Addr] })
	names := &sourceNames{im: ip.Image, same: c.Order.same, seen: map[[2]string]bool{}}
	p := newProgress(2*len(c.Order.Symbols), progress)
	p.skip(len(c.Order.Symbols))
	for _, s := range c.Order.Symbols {
		c.add(ip.Procs, byAddr[s.Addr], s, names)
		p.step()
	}
	return c, nil
}

func (c *Clusters) add(procs []*infer.Result, f *image.MachineFunc, s image.Symbol, names *sourceNames) {
	insts := 0.0
	if i := holder(procs, s.Addr); i >= 0 && procs[i].Proc.Addr == s.Addr {
		insts = procs[i].Instructions()
	}
	c.Executed += insts
	switch {
	case !fitsClusters(s.Name):
		c.Unfit.add(insts)
		return
	case f == nil:
		c.Unmapped.add(insts)
		return
	}
	m := newMachineMap(f)
	g, complete := machineGraph(procs, m)
	if !complete {
		c.Incomplete.add(insts)
		return
	}
	if !slices.ContainsFunc(g.Nodes, func(n Node) bool { return n.N > 0 }) {
		return // cold as a whole: it stays in one piece
	}
	file, ok := names.file(s)
	if !ok {
		c.Ambiguous.add(insts)
		return
	}
	g, clones := g.clones(c.least, m.cloneable(procs))
	hot, cold := g.split(orderBlocks(g))
	cf := clustered{name: s.Name, file: file, cold: slices.ContainsFunc(cold, func(i int) bool { return i >= len(f.Blocks) || m.number(i) == i })}
	ids := make([]blockID, len(g.Nodes))
	for i, b := range f.Blocks {
		ids[i].id = b.ID
	}
	times := map[int]int{}
	for i, cl := range clones {
		times[cl.block]++
		ids[len(f.Blocks)+i] = blockID{f.Blocks[cl.block].ID, times[cl.block]}
		cf.clones = append(cf.clones, [2]uint32{f.Blocks[cl.pred].ID, f.Blocks[cl.block].ID})
	}
	for _, i := range hot {
		cf.hot = append(cf.hot, ids[i])
	}
	c.Clones += len(clones)
	c.funcs = append(c.funcs, cf)
	c.Funcs++
	if cf.cold {
		c.Split++
	}
}

// machineGraph returns the flow graph of f's machine blocks. It is not complete
// where that of the code is not.
//
// A machine block may end in several jumps, which are blocks of their own in the
// code's graph, and blocks of the code may hold several machine blocks, which
// lead to each other. Clones in f, of one number, are one block: what clang is told is of the function
// before it cloned any.
func machineGraph(procs []*infer.Result, m *machineMap) (g *Graph, complete bool) {
	g = &Graph{}
	for _, b := range m.Blocks {
		g.Nodes = append(g.Nodes, Node{Size: uint64(b.End - b.Start)})
	}
	complete = true
	for _, part := range m.Parts {
		if i := holder(procs, part); i >= 0 && procs[i].Proc.Addr == part {
			m.addFlow(g, procs[i])
			complete = complete && procs[i].Proc.Complete
		}
	}
	return g, complete
}

// A machineMap finds machine blocks by address.
type machineMap struct {
	*image.MachineFunc
	order []int          // indices into Blocks by address; those without code before the one at their address
	first map[uint32]int // the first block of each number; clones follow
}

func newMachineMap(f *image.MachineFunc) *machineMap {
	m := &machineMap{f, make([]int, 0, len(f.Blocks)), make(map[uint32]int, len(f.Blocks))}
	for i, b := range f.Blocks {
		m.order = append(m.order, i)
		if _, ok := m.first[b.ID]; !ok {
			m.first[b.ID] = i
		}
	}
	slices.SortStableFunc(m.order, func(i, j int) int {
		a, b := f.Blocks[i], f.Blocks[j]
		return cmp.Or(cmp.Compare(a.Start, b.Start), cmp.Compare(a.End, b.End))
	})
	return m
}

// cloneable returns what clang clones: no block after a jump by a table, none that an exception goes on to, and, in a
// function that has such blocks, none with a call.
func (m *machineMap) cloneable(procs []*infer.Result) func(cloning) bool {
	calls := map[int]bool{}
	if slices.ContainsFunc(m.Blocks, func(b image.MachineBlock) bool { return b.Pad }) {
		for _, part := range m.Parts {
			if i := holder(procs, part); i >= 0 && procs[i].Proc.Addr == part {
				for _, c := range procs[i].Proc.Calls {
					if k := m.holding(c.Site); k >= 0 && !c.Tail {
						calls[m.number(k)] = true
					}
				}
			}
		}
	}
	return func(c cloning) bool { return !m.Blocks[c.pred].Indirect && !m.Blocks[c.block].Pad && !calls[c.block] }
}

// number returns the node of the block with index i.
func (m *machineMap) number(i int) int { return m.first[m.Blocks[i].ID] }

// from returns the first place in order of a block that ends behind a, or starts
// there.
func (m *machineMap) from(a image.Addr) int {
	k, _ := slices.BinarySearchFunc(m.order, a, func(i int, a image.Addr) int {
		if b := m.Blocks[i]; b.Start < a && b.End <= a {
			return -1
		}
		return 1
	})
	return k
}

// holding returns the block that the instruction at a is in, or behind: the
// compiler's blocks end before what aligns the next one. It is -1 if there is none.
func (m *machineMap) holding(a image.Addr) int {
	k := m.from(a)
	for ; k < len(m.order) && m.Blocks[m.order[k]].Start <= a; k++ {
		if b := m.Blocks[m.order[k]]; a < b.End {
			return m.order[k]
		}
	}
	if k == 0 {
		return -1
	}
	return m.order[k-1]
}

// at returns the block that a jump to a leads to; -1 if there is none.
func (m *machineMap) at(a image.Addr) int {
	if k := m.from(a); k < len(m.order) && m.Blocks[m.order[k]].Start <= a {
		return m.order[k]
	}
	return -1
}

// addFlow adds the executions of r, a part of the function, to g.
func (m *machineMap) addFlow(g *Graph, r *infer.Result) {
	add := func(from image.Addr, to image.Addr, n float64) {
		i, j := m.holding(from), m.at(to)
		// Within a block control goes on to another jump of its end.
		if i >= 0 && j >= 0 && (i != j || m.Blocks[j].Start == to) {
			g.Arcs = append(g.Arcs, Arc{From: m.number(i), To: m.number(j), N: n})
		}
	}
	for i, b := range r.Proc.Blocks {
		n := r.Block[i].N
		if r.Cold != nil && r.Cold[i] {
			n = 0
		}
		before := -1
		for k := m.from(b.Start); k < len(m.order) && m.Blocks[m.order[k]].Start < b.End; k++ {
			j := m.order[k]
			if m.Blocks[j].Start >= b.Start {
				g.Nodes[m.number(j)].N += n
			}
			if before >= 0 {
				g.Arcs = append(g.Arcs, Arc{From: m.number(before), To: m.number(j), N: r.Block[i].N})
			}
			before = j
		}
	}
	for i, e := range r.Proc.Edges {
		add(r.Proc.Blocks[e.From].Last, r.Proc.Blocks[e.To].Start, r.Edge[i].N)
	}
	for i, c := range r.Proc.Calls {
		if c.Tail && c.To != 0 {
			add(c.Site, c.To, r.Call[i].N) // to another part of the function
		}
	}
}

// fitsClusters reports whether clang and lld take name for itself. clang splits lines at spaces and
// trims them (ReadV1Profile in BasicBlockSectionsProfileReader.cpp).
func fitsClusters(name string) bool { return fitsSymbols(name) && !strings.Contains(name, " ") }

// sourceNames tell local functions of one name apart.
type sourceNames struct {
	im    *image.Image
	same  map[string]int // symbols by name
	lines *image.Lines
	seen  map[[2]string]bool // name and file
}

// file returns the source file that clang has to be told beside the name of s, if
// any. It is not ok if that does not tell s from others.
func (n *sourceNames) file(s image.Symbol) (file string, ok bool) {
	if s.Local && n.same[s.Name] > 1 {
		if n.lines == nil {
			if lines, err := n.im.Lines(); err == nil {
				n.lines = lines
			}
		}
		if n.lines != nil {
			file = strings.TrimPrefix(n.lines.Unit(s.Addr).Name, "./")
		}
		if !fitsClusters(file) {
			return "", false
		}
	}
	key := [2]string{s.Name, file}
	if n.seen[key] {
		return "", false
	}
	n.seen[key] = true
	return file, true
}

// WriteBlocks writes what clang's -fbasic-block-sections=list= takes, in its
// version 1: a line "v1", then for each function
//
//	m FILE      its source file as clang was given it, where names repeat
//	f NAME
//	p ID ID     a clone of the second block, ID.1 or the next, takes its place after the first
//	c ID ID...  its hot blocks in order; all others go into the part NAME.cold
//
// See BasicBlockSectionsProfileReader.cpp in LLVM.
func (c *Clusters) WriteBlocks(w io.Writer) error {
	bw := bufio.NewWriter(w)
	fmt.Fprintln(bw, "v1")
	funcs := slices.Clone(c.funcs)
	slices.SortFunc(funcs, func(a, b clustered) int {
		return cmp.Or(cmp.Compare(a.name, b.name), cmp.Compare(a.file, b.file))
	})
	for _, f := range funcs {
		if f.file != "" {
			fmt.Fprintf(bw, "m %s\n", f.file)
		}
		fmt.Fprintf(bw, "f %s\n", f.name)
		for _, path := range f.clones {
			fmt.Fprintf(bw, "p %d %d\n", path[0], path[1])
		}
		fmt.Fprint(bw, "c")
		for _, id := range f.hot {
			fmt.Fprintf(bw, " %s", id)
		}
		fmt.Fprintln(bw)
	}
	return bw.Flush()
}

// WriteSymbols writes what ld.lld's --symbol-ordering-file takes: the functions
// in order, then their cold parts.
func (c *Clusters) WriteSymbols(w io.Writer) error {
	if err := c.Order.WriteSymbols(w); err != nil {
		return err
	}
	bw := bufio.NewWriter(w)
	written := map[string]bool{}
	for _, f := range c.funcs {
		if f.cold && !written[f.name] {
			written[f.name] = true
			fmt.Fprintf(bw, "%s.cold\n", f.name)
		}
	}
	return bw.Flush()
}
