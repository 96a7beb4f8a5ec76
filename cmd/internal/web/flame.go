package web

import (
	"cmp"
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"

	"backfeed/cmd/internal/input"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/explain"
	"backfeed/infer/image"
)

// maxFlameNodes bounds the tree that a page draws, and what a browser has to load: some MB.
const maxFlameNodes = 10_000

// noStacks says what to do about a recording without stacks.
const noStacks = "No call stacks were recorded. " + howStacks

// howStacks says how to have stacks.
const howStacks = "`backfeed record --callers` records them, `backfeed agent --callers` of whole machines, and `perf record --call-graph dwarf` copies them (x86-64); `backfeed record` alone and `perf record --call-graph fp` do of programs built with frame pointers (-fno-omit-frame-pointer), as Go's are."

// otherStacks says what to do about one that has stacks of another event alone.
const otherStacks = "Call stacks were recorded of %s, and none of %s, which these pages are of: --event %[1]s shows them."

// stacksKept reports whether samples of the event that pages are of have stacks; if none has, other
// is an event whose samples do, or "".
func (v *View) stacksKept() (kept bool, other string) {
	for _, c := range v.src.Recording.Counts {
		switch {
		case len(c.Stacks) == 0:
		case c.Event.Name == v.src.Profile.Event.Name:
			return true, ""
		default:
			other = c.Event.Name
		}
	}
	return false, other
}

// stacks are the samples by call stack, and what frames are in common.
type stacks struct {
	frames []report.FlameFrame
	index  map[flameKey]int
	keys   []flameKey // as frames
	all    []flameStack
	sum    report.UsertimeStacks
}

// A flameKey tells frames apart.
type flameKey struct {
	procKey
	inlined string // the function; "" is the procedure itself
	kind    string
}

type flameStack struct {
	frames []int // outermost first
	n      uint64
	causes []causeShare // of the block that was sampled
}

// A causeShare is a part of a block's time that a cause is likeliest to explain.
type causeShare struct {
	cause explain.Cause
	share float64
}

// blockCauses returns the likeliest causes of the time of each block that has samples.
func blockCauses(e *explain.Explanation) [][]causeShare {
	blocks := make([][]causeShare, len(e.Result.Proc.Blocks))
	time := make([]float64, len(blocks))
	for i := range e.Insts {
		t := &e.Insts[i]
		time[t.Block] += t.Total
		if len(t.Stall.Culprits) == 0 || e.Result.BlockSamples[t.Block] == 0 {
			continue
		}
		c := &t.Stall.Culprits[0]
		n := min(c.Most, t.Stall.Cycles) * t.N
		k := slices.IndexFunc(blocks[t.Block], func(s causeShare) bool { return s.cause == c.Cause })
		if k < 0 {
			k = len(blocks[t.Block])
			blocks[t.Block] = append(blocks[t.Block], causeShare{cause: c.Cause})
		}
		blocks[t.Block][k].share += n
	}
	for b := range blocks {
		for k := range blocks[b] {
			blocks[b][k].share /= max(time[b], 1e-300)
		}
	}
	return blocks
}

// callStacks returns the samples by call stack, and makes it when it is first asked for.
func (v *View) callStacks() *stacks {
	v.stacksOnce.Do(func() {
		v.stacks = newStacks(v.src, func(key procKey) *viewed { return v.callGraph().procs[key] }, v.causesAt)
	})
	return v.stacks
}

// newStacks returns the samples of src by call stack; page returns the procedure that has a page,
// and causes the likeliest ones at a place.
func newStacks(src *input.Session, page func(procKey) *viewed, causes func(infer.CallFrame) []causeShare) *stacks {
	s := &stacks{index: map[flameKey]int{}}
	images := map[*infer.ImageProfile]int{}
	for i, ip := range src.Profile.Images {
		images[ip] = i
	}
	frame := func(key flameKey, name report.Name) int {
		i, ok := s.index[key]
		if !ok {
			i = len(s.frames)
			f := report.FlameFrame{Name: name, Kind: key.kind, Image: -1}
			if key.ip != nil {
				f.Image = images[key.ip]
			}
			f.Page = procHref(page(key.procKey))
			s.index[key] = i
			s.frames = append(s.frames, f)
			s.keys = append(s.keys, key)
		}
		return i
	}
	plain := func(kind, name string) int { return frame(flameKey{kind: kind}, report.Name{Procedure: name}) }
	plain(report.FlameAll, "all")
	type spot struct {
		ip *infer.ImageProfile
		a  image.Addr
	}
	seen := map[spot][]int{} // innermost first
	at := func(f infer.CallFrame) []int {
		if f.Image == nil {
			return []int{plain(report.FlameUnknown, "(not known)")}
		}
		key := spot{f.Image, f.Addr}
		if out := seen[key]; out != nil {
			return out
		}
		var out []int
		proc := procKey{ip: f.Image}
		name := report.Name{Procedure: "(" + string(infer.LostNoProc) + ")"}
		if f.Proc >= 0 {
			sym := &f.Image.Image.Symbols()[f.Proc]
			proc.addr, name = sym.Addr, report.NameOf(sym.Name)
			if lines, err := f.Image.Image.Lines(); err == nil {
				if inlined := lines.Frames(f.Addr); len(inlined) > 1 {
					for _, fr := range inlined[:len(inlined)-1] {
						out = append(out, frame(flameKey{proc, fr.Func, report.FlameInlined}, report.NameOf(cmp.Or(fr.Func, "(a function without a name)"))))
					}
				}
			}
		}
		out = append(out, frame(flameKey{procKey: proc, kind: report.FlameProcedure}, name))
		seen[key] = out
		return out
	}
	for st := range src.Profile.CallStacks(src.Recording) {
		out := flameStack{n: st.N, causes: causes(st.Frames[0])}
		complete := st.Complete()
		s.sum.Samples += st.N
		s.sum.Deepest = max(s.sum.Deepest, len(st.Frames))
		switch {
		case st.Bare || len(st.Frames) == 1 && !complete:
			s.sum.Bare += st.N
			out.frames = append(out.frames, plain(report.FlameBare, "(no stack recorded)"))
		case complete:
			s.sum.Complete += st.N
		default:
			s.sum.Cut += st.N
			out.frames = append(out.frames, plain(report.FlameCut, "(callers not recorded)"))
		}
		for i := len(st.Frames) - 1; i >= 0; i-- {
			inner := at(st.Frames[i])
			for k := len(inner) - 1; k >= 0; k-- {
				out.frames = append(out.frames, inner[k])
			}
		}
		s.all = append(s.all, out)
	}
	return s
}

// causesAt returns the likeliest causes of the block of a frame.
func (v *View) causesAt(f infer.CallFrame) []causeShare {
	if f.Image == nil || f.Proc < 0 {
		return nil
	}
	p := v.callGraph().procs[procKey{ip: f.Image, addr: f.Image.Image.Symbols()[f.Proc].Addr}]
	if p == nil {
		return nil
	}
	blocks := p.r.Proc.Blocks
	b, _ := slices.BinarySearchFunc(blocks, f.Addr, func(b image.Block, a image.Addr) int {
		switch {
		case b.End <= a:
			return -1
		case b.Start > a:
			return 1
		}
		return 0
	})
	if b == len(blocks) || f.Addr < blocks[b].Start || f.Addr >= blocks[b].End {
		return nil
	}
	return p.causes[b]
}

// A flameWanted says which flame graph is asked for.
type flameWanted struct {
	inverted bool
	proc     *viewed // nil is all
}

// flame makes the tree of all stacks, or of those through one procedure: what it called or, if
// inverted, what called it.
func (v *View) flame(want flameWanted) *report.Flame {
	s := v.callStacks()
	doc := v.newFlame(want)
	t := newGrowing(0)
	through := -1
	if want.proc != nil {
		doc.Procedure = want.proc.row.Name
		i, ok := s.index[flameKey{procKey: want.proc.key(), kind: report.FlameProcedure}]
		if !ok {
			i = len(doc.Frames) // on no stack
		}
		through = i
	}
	for i := range s.all {
		st := &s.all[i]
		frames := st.frames
		if through >= 0 {
			k := slices.Index(frames, through) // the outermost: each sample counts once
			switch {
			case k < 0:
				continue
			case want.inverted:
				frames = frames[:k+1]
			default:
				frames = frames[k:]
			}
		}
		t.add(st, frames, want.inverted)
	}
	doc.Root = t.node()
	doc.Prune(maxFlameNodes)
	return doc
}

// newFlame is a document with all frames and no tree.
func (v *View) newFlame(want flameWanted) *report.Flame {
	s := v.callStacks()
	doc := &report.Flame{Schema: "backfeed.flame/1", Event: v.src.Profile.Event.Name, Inverted: want.inverted, Stacks: s.sum, Frames: slices.Clone(s.frames), Names: v.names}
	for _, ip := range v.src.Profile.Images {
		doc.Images = append(doc.Images, ip.ID.Path)
	}
	return doc
}

// A growing node is one that stacks are added to.
type growing struct {
	frame    int
	n, self  uint64
	causes   [explain.NumCauses]float64 // samples
	children map[int]*growing
}

func newGrowing(frame int) *growing { return &growing{frame: frame, children: map[int]*growing{}} }

func (g *growing) count(st *flameStack) {
	g.n += st.n
	for _, c := range st.causes {
		g.causes[c.cause] += c.share * float64(st.n)
	}
}

func (g *growing) add(st *flameStack, frames []int, inverted bool) {
	g.count(st)
	for i := range frames {
		f := frames[i]
		if inverted {
			f = frames[len(frames)-1-i]
		}
		next := g.children[f]
		if next == nil {
			next = newGrowing(f)
			g.children[f] = next
		}
		g = next
		g.count(st)
	}
	g.self += st.n
}

// node returns g as it is shown.
func (g *growing) node() *report.FlameNode {
	out := &report.FlameNode{Frame: g.frame, Samples: g.n, Self: g.self}
	best := 0.0
	for _, c := range explain.Causes() {
		if n := g.causes[c]; n > best {
			out.Cause, best = c.String(), n
		}
	}
	if g.n > 0 {
		out.Share = min(1, best/float64(g.n))
	}
	for _, c := range g.children {
		out.Children = append(out.Children, c.node())
	}
	slices.SortFunc(out.Children, func(a, b *report.FlameNode) int {
		return cmp.Or(cmp.Compare(b.Samples, a.Samples), cmp.Compare(a.Frame, b.Frame))
	})
	return out
}

// errNoProc is what a request hears that names a procedure which is not there.
var errNoProc = errors.New("no such procedure with samples")

// flameWanted reads what a request asks for.
func (v *View) flameWanted(q url.Values) (want flameWanted, err error) {
	want.inverted = q.Get("inverted") != ""
	if id := q.Get("proc"); id != "" {
		if want.proc = v.byID[id]; want.proc == nil {
			return want, errNoProc
		}
	}
	return want, nil
}

// flameHref leads to a flame graph.
func flameHref(page string, want flameWanted) string {
	q := url.Values{}
	if want.inverted {
		q.Set("inverted", "1")
	}
	if want.proc != nil {
		q.Set("proc", want.proc.id)
	}
	if len(q) == 0 {
		return page
	}
	return page + "?" + q.Encode()
}

func (s *Site) flamePage(w http.ResponseWriter, r *http.Request) {
	want, err := s.flameWanted(r.URL.Query())
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	title := "Flame graph"
	switch {
	case want.proc != nil && want.inverted:
		title = "Callers of " + want.proc.row.Name
	case want.proc != nil:
		title = want.proc.row.Name + " and what it calls"
	case want.inverted:
		title = "Flame graph, inverted"
	}
	page := report.NewPage(title, s.lead())
	sh := &sheet{page: page}
	sum := &s.callStacks().sum
	if s.callStacks().none() {
		why := noStacks
		switch kept, other := s.stacksKept(); {
		case kept:
			why = "Call stacks were recorded, but no sample of the images that were found has a caller: --symfs names a directory that has more of them."
		case other != "":
			why = fmt.Sprintf(otherStacks, other, s.src.Profile.Event.Name)
		}
		sh.add("flame", "No stacks", text("%s", why))
		s.send(w, "/flamegraph", page, sh.err)
		return
	}
	for _, l := range []struct {
		text string
		want flameWanted
	}{
		{"All, by caller", flameWanted{}}, {"All, inverted", flameWanted{inverted: true}},
		{"What it calls", flameWanted{proc: want.proc}}, {"Its callers", flameWanted{inverted: true, proc: want.proc}},
	} {
		if len(page.More) < 2 || want.proc != nil {
			page.More = append(page.More, report.Link{Href: flameHref("/flamegraph", l.want), Text: l.text, Here: l.want == want})
		}
	}
	page.More = append(page.More, report.Link{Href: "/pprof/flamegraph", Text: "pprof's own"})
	doc := s.flame(want)
	heading, colours := "Samples by stack", " Colours and causes are the likeliest of the stalls in and below a frame, with their share of its samples' time; a page of causes has the ranges."
	if s.waits() {
		heading, colours = "Time by stack", ""
	}
	stacks := fmt.Sprintf("%s: %s with a stack to where the thread began, %s with one that ends before, %s with none.%s",
		report.AmountOf(doc.Event, sum.Samples), report.Share(sum.Complete, sum.Samples), report.Share(sum.Cut, sum.Samples), report.Share(sum.Bare, sum.Samples), colours)
	sh.add("flame", heading, text("%s", stacks), func() (template.HTML, error) { return doc.HTML(flameHref("flame", want)) })
	s.send(w, "/flamegraph", page, sh.err)
}
