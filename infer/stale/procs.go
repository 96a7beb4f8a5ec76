package stale

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"backfeed/infer/image"
)

// partners returns by symbol of old the symbol of new that is the same procedure,
// or -1.
func partners(old, new *image.Image) []int {
	p := newMatching(old, new)
	// What a name says is true, unless several have it or it counts.
	p.by(func(s *image.Symbol) string {
		if counted(s.Name) {
			return ""
		}
		return unitName(s.Name)
	}, true)
	p.byAlias()
	// Closures are numbered, and so are copies that a compiler made of a function.
	p.by(func(s *image.Symbol) string { return strings.Map(notDigit, s.Name) }, false)
	p.by(func(s *image.Symbol) string {
		if _, cold := image.CutSuffix(unitName(s.Name), ".cold"); cold {
			return ""
		}
		return image.SourceName(s.Name)
	}, true)
	// What has no namesake may have been renamed.
	p.byCode(p.left(p.partner, p.old), p.left(p.back, p.new))
	p.byCalls()
	return p.partner
}

// nameless reports whether the name of a symbol was made up, and means nothing in
// another build.
func nameless(s *image.Symbol) bool {
	return s.Source == image.FromEhFrame || s.Source == image.FromCall
}

// counted reports whether a name of Go has a number that counts the functions
// without a name before it.
func counted(name string) bool {
	for _, mark := range []string{".func", ".gowrap", ".deferwrap"} {
		if i := strings.LastIndex(name, mark); i >= 0 && i+len(mark) < len(name) && notDigit(rune(name[i+len(mark)])) < 0 {
			return true
		}
	}
	return false
}

func notDigit(r rune) rune {
	if r >= '0' && r <= '9' {
		return -1
	}
	return r
}

// unitName is name without what tells apart functions of one name in several
// compilation units that were compiled as one: a hash, or a number.
func unitName(name string) string {
	for _, mark := range []string{".llvm.", ".lto_priv."} {
		name, _, _ = strings.Cut(name, mark)
	}
	return name
}

// A matching is the state of partners.
type matching struct {
	old, new      *image.Image
	partner, back []int // by symbol of old and of new, -1 if there is none
	oldSketches   map[int]*sketch
	newSketches   map[int]*sketch
}

func newMatching(old, new *image.Image) *matching {
	none := func(n int) []int { return slices.Repeat([]int{-1}, n) }
	return &matching{
		old: old, new: new, partner: none(len(old.Symbols())), back: none(len(new.Symbols())),
		oldSketches: map[int]*sketch{}, newSketches: map[int]*sketch{},
	}
}

func (p *matching) pair(i, j int) { p.partner[i], p.back[j] = j, i }

// left returns the symbols of im that have no partner.
func (p *matching) left(partner []int, im *image.Image) []int {
	var out []int
	for i, j := range partner {
		if j < 0 && im.Symbols()[i].Source != image.FromPLT {
			out = append(out, i)
		}
	}
	return out
}

// by pairs those of equal keys, "" is no key. Where there are several, code tells
// them apart, then the name, then their order. If sure, one and one are a pair
// whatever their code.
func (p *matching) by(key func(*image.Symbol) string, sure bool) {
	type group struct{ olds, news []int }
	groups := map[string]*group{}
	var order []string
	each := func(im *image.Image, partner []int, add func(g *group, i int)) {
		for i := range im.Symbols() {
			s := &im.Symbols()[i]
			if partner[i] >= 0 || nameless(s) {
				continue
			}
			k := key(s)
			if k == "" {
				continue
			}
			g := groups[k]
			if g == nil {
				g = &group{}
				groups[k] = g
				order = append(order, k)
			}
			add(g, i)
		}
	}
	each(p.old, p.partner, func(g *group, i int) { g.olds = append(g.olds, i) })
	each(p.new, p.back, func(g *group, j int) { g.news = append(g.news, j) })
	for _, k := range order {
		g := groups[k]
		if len(g.olds) == 0 || len(g.news) == 0 {
			continue
		}
		if sure && len(g.olds) == 1 && len(g.news) == 1 {
			p.pair(g.olds[0], g.news[0])
			continue
		}
		p.byCode(g.olds, g.news)
		named := map[string][]int{} // of new, without a partner
		for _, j := range g.news {
			if p.back[j] < 0 {
				name := p.new.Symbols()[j].Name
				named[name] = append(named[name], j)
			}
		}
		for _, i := range g.olds {
			name := p.old.Symbols()[i].Name
			if js := named[name]; p.partner[i] < 0 && len(js) > 0 {
				p.pair(i, js[0])
				named[name] = js[1:]
			}
		}
	}
}

// byAlias pairs what one build calls by a name that the other knows as well.
func (p *matching) byAlias() {
	for i := range p.old.Symbols() {
		s := &p.old.Symbols()[i]
		if p.partner[i] >= 0 || nameless(s) || counted(s.Name) {
			continue
		}
		for _, name := range append([]string{s.Name}, s.Aliases...) {
			if j := p.new.Lookup(name); j >= 0 && p.back[j] < 0 {
				p.pair(i, j)
				break
			}
		}
	}
}

// A sketch is what a procedure is recognised by under another name.
type sketch struct {
	whole  uint64         // hash of all blocks
	insts  int            // instructions
	blocks map[uint64]int // instructions by hash of a block that says something
}

const (
	fewInsts    = 10 // a procedure of less is like others by chance
	fewInBlock  = 3  // and so is a block
	mostTries   = 8  // a procedure is compared with so many others that are called where it is: a large one may be called often
	commonBlock = 8  // a block of so many procedures tells none of them
)

func sketchOf(im *image.Image, i int) *sketch {
	s := &sketch{blocks: map[uint64]int{}}
	c, err := readCode(im, i)
	if err != nil {
		return s
	}
	for b, h := range c.full {
		s.whole = image.Hash(s.whole, h)
		s.insts += len(c.insts[b])
		if len(c.insts[b]) >= fewInBlock {
			s.blocks[h] += len(c.insts[b])
		}
	}
	return s
}

func sketches(im *image.Image, kept map[int]*sketch, procs []int) []*sketch {
	out := make([]*sketch, len(procs))
	for x, i := range procs {
		s := kept[i]
		if s == nil {
			s = sketchOf(im, i)
			kept[i] = s
		}
		out[x] = s
	}
	return out
}

// byCode pairs procedures whose code no other one has, then those that have more
// code in common with each other than with any other, and half at least.
func (p *matching) byCode(olds, news []int) {
	if len(olds) == 0 || len(news) == 0 {
		return
	}
	a, b := sketches(p.old, p.oldSketches, olds), sketches(p.new, p.newSketches, news)
	type whole struct {
		hash uint64
		name string
	}
	for _, named := range []bool{true, false} {
		index := func(im *image.Image, procs []int, sketches []*sketch, partner []int) map[whole][]int {
			m := map[whole][]int{}
			for x, i := range procs {
				if partner[i] < 0 && sketches[x].insts >= fewInsts {
					w := whole{hash: sketches[x].whole}
					if named {
						w.name = im.Symbols()[i].Name
					}
					m[w] = append(m[w], i)
				}
			}
			return m
		}
		matches := index(p.new, news, b, p.back)
		for w, is := range index(p.old, olds, a, p.partner) {
			if js := matches[w]; len(is) == 1 && len(js) == 1 {
				p.pair(is[0], js[0])
			}
		}
	}
	p.byBlocks(olds, news, a, b)
}

// byBlocks is the second half of byCode.
func (p *matching) byBlocks(olds, news []int, a, b []*sketch) {
	having := map[uint64][]int{} // indices into news by block
	for y, j := range news {
		if p.back[j] < 0 {
			for h := range b[y].blocks {
				having[h] = append(having[h], y)
			}
		}
	}
	type score struct{ x, y, insts int }
	var scores []score
	for x, i := range olds {
		if p.partner[i] >= 0 || a[x].insts < fewInsts {
			continue
		}
		common := map[int]int{}
		for h, n := range a[x].blocks {
			if ys := having[h]; len(ys) <= commonBlock {
				for _, y := range ys {
					common[y] += min(n, b[y].blocks[h])
				}
			}
		}
		for y, n := range common {
			if 2*n >= max(a[x].insts, b[y].insts) {
				scores = append(scores, score{x, y, n})
			}
		}
	}
	slices.SortFunc(scores, func(s, t score) int {
		return cmp.Or(cmp.Compare(t.insts, s.insts), cmp.Compare(s.x, t.x), cmp.Compare(s.y, t.y))
	})
	for _, s := range scores {
		if i, j := olds[s.x], news[s.y]; p.partner[i] < 0 && p.back[j] < 0 {
			p.pair(i, j)
		}
	}
}

// byCalls pairs what is called at the same place of two procedures that are a pair,
// and has blocks in common: most of a stripped program that was edited.
func (p *matching) byCalls() {
	if len(p.left(p.partner, p.old)) == 0 || len(p.left(p.back, p.new)) == 0 {
		return
	}
	var work []int
	for i, j := range p.partner {
		if j >= 0 && p.old.Symbols()[i].Source != image.FromPLT {
			work = append(work, i)
		}
	}
	type callees struct{ i, j int }
	oldTries, newTries := map[int]int{}, map[int]int{}
	for len(work) > 0 {
		votes := map[callees]int{}
		for _, i := range work {
			if t := p.twin(i, p.partner[i]); t != nil {
				t.callees(p, func(i, j int) { votes[callees{i, j}]++ })
			}
		}
		work = work[:0]
		for _, c := range slices.SortedFunc(maps.Keys(votes), func(a, b callees) int {
			return cmp.Or(cmp.Compare(votes[b], votes[a]), cmp.Compare(a.i, b.i), cmp.Compare(a.j, b.j))
		}) {
			if p.partner[c.i] >= 0 || p.back[c.j] >= 0 || oldTries[c.i] == mostTries || newTries[c.j] == mostTries {
				continue
			}
			oldTries[c.i]++
			newTries[c.j]++
			if t := p.twin(c.i, c.j); t != nil && t.alike() {
				p.pair(c.i, c.j)
				work = append(work, c.i)
			}
		}
	}
}

// twin compares two procedures; it returns nil if one cannot be read.
func (p *matching) twin(i, j int) *twin {
	old, err := readCode(p.old, i)
	if err != nil {
		return nil
	}
	new, err := readCode(p.new, j)
	if err != nil {
		return nil
	}
	return twinOf(old, new)
}

// callees calls f with the procedures without partners that are called at the same
// place, in blocks of the same operations.
func (t *twin) callees(p *matching, f func(i, j int)) {
	for b, tie := range t.ties {
		olds, news := t.old.proc.Blocks[b].Calls, t.new.proc.Blocks[t.block[b]].Calls
		if tie < SameOps || len(olds) != len(news) {
			continue
		}
		for k := range olds {
			i := p.old.Find(t.old.proc.Calls[olds[k]].To)
			j := p.new.Find(t.new.proc.Calls[news[k]].To)
			if i >= 0 && j >= 0 && p.partner[i] < 0 && p.back[j] < 0 {
				f(i, j)
			}
		}
	}
}

// alike reports whether a quarter of the old instructions at least are in blocks of
// the same operations as new ones.
func (t *twin) alike() bool {
	all, same := 0, 0
	for b, tie := range t.ties {
		all += len(t.old.insts[b])
		if tie >= SameOps {
			same += len(t.old.insts[b])
		}
	}
	return 4*same >= all
}
