package web

import (
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strings"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/compare"
	"backfeed/infer/image"
)

// A flameDifference is what differs by stack.
type flameDifference struct {
	flame *report.Flame // of the recording, with what each frame had in the older one; nil if a side has no stacks
	bare  [2]bool       // the sides that have none: before, now
}

// flameDifference returns what differs by stack; false if it is not worked out in time.
func (v *View) flameDifference(patience time.Duration) (flameDifference, error, bool) {
	return v.flameLater.get(patience, func() (flameDifference, error) {
		d, err, _ := v.compared(-1)
		if err != nil {
			return flameDifference{}, err
		}
		now, before := v.callStacks(), v.olderStacks()
		if bare := [2]bool{before.none(), now.none()}; bare[0] || bare[1] {
			return flameDifference{bare: bare}, nil
		}
		return flameDifference{flame: v.newFlameDifference(d, before, now, maxFlameNodes)}, nil
	})
}

// olderStacks returns the samples of the older recording by call stack.
func (v *View) olderStacks() *stacks {
	v.olderOnce.Do(func() {
		v.older = newStacks(v.old, func(procKey) *viewed { return nil }, func(infer.CallFrame) []causeShare { return nil })
	})
	return v.older
}

// none reports whether no stack was recorded.
func (s *stacks) none() bool { return s.sum.Bare == s.sum.Samples }

func (v *View) newFlameDifference(d *compare.Difference, before, now *stacks, nodes int) *report.Flame {
	doc := v.newFlame(flameWanted{})
	doc.Schema = "backfeed.flame-difference/1"
	doc.Before = &before.sum
	same := v.sameFrames(d, before, now, doc)
	root, frames := newGrowing(0), make([][2]uint64, len(doc.Frames))
	for i := range before.all {
		st := &before.all[i]
		moved := make([]int, len(st.frames))
		for k, f := range st.frames {
			moved[k] = same[f]
		}
		root.add(st, moved, false)
		countFrames(frames, 0, moved, st.n)
	}
	tree := newGrowing(0)
	for i := range now.all {
		tree.add(&now.all[i], now.all[i].frames, false)
		countFrames(frames, 1, now.all[i].frames, now.all[i].n)
	}
	doc.Root = tree.node()
	setBefore(doc.Root, root)
	doc.Prune(nodes)
	doc.Judge(frames, d.Dispersion)
	return doc
}

// countFrames adds n samples to each frame of a stack, once.
func countFrames(to [][2]uint64, side int, frames []int, n uint64) {
	for i, f := range frames {
		if !slices.Contains(frames[:i], f) {
			to[f][side] += n
		}
	}
}

func setBefore(n *report.FlameNode, g *growing) {
	n.Before = g.n
	for _, c := range n.Children {
		if old := g.children[c.Frame]; old != nil {
			setBefore(c, old)
		}
	}
}

// sameFrames returns for each frame of before which frame of doc, with those of now, it is: that of
// the procedure that it is compared with, else that of the same name. Frames that are gone are
// appended to doc.
func (v *View) sameFrames(d *compare.Difference, before, now *stacks, doc *report.Flame) []int {
	procs, images := map[procKey]procKey{}, map[*infer.ImageProfile]*infer.ImageProfile{}
	for _, old := range v.old.Profile.Images { // those without samples of their own are in no row
		for _, ip := range v.src.Profile.Images {
			if ip.ID.Key() == old.ID.Key() {
				images[old] = ip
			}
		}
	}
	for i := range d.Rows {
		r := &d.Rows[i]
		if r.Images[0] == nil || r.Images[1] == nil {
			continue
		}
		images[r.Images[0]] = r.Images[1]
		if r.Procs[0] != nil && r.Procs[1] != nil {
			procs[procKey{ip: r.Images[0], addr: r.Procs[0].Proc.Addr}] = procKey{ip: r.Images[1], addr: r.Procs[1].Proc.Addr}
		}
	}
	named := map[*infer.ImageProfile]map[string]image.Addr{}
	partner := func(k procKey) (procKey, bool) {
		to := images[k.ip]
		switch p, ok := procs[k]; {
		case ok:
			return p, true
		case k.ip == nil:
			return k, true
		case to == nil:
			return k, false
		case k.addr == 0 || to.ID.Key() == k.ip.ID.Key():
			return procKey{ip: to, addr: k.addr}, true
		}
		if named[to] == nil {
			named[to] = onlyNames(to.Image)
		}
		if i := k.ip.Image.Find(k.addr); i >= 0 {
			if a, ok := named[to][k.ip.Image.Symbols()[i].Name]; ok {
				return procKey{ip: to, addr: a}, true
			}
		}
		return k, false
	}
	out := make([]int, len(before.frames))
	for i, f := range before.frames {
		k := before.keys[i]
		to, ok := partner(k.procKey)
		if ok {
			if at, there := now.index[flameKey{to, k.inlined, k.kind}]; there {
				out[i] = at
				continue
			}
		}
		f.Image = -1
		if k.ip != nil {
			if f.Image = slices.Index(doc.Images, k.ip.ID.Path); f.Image < 0 {
				f.Image = len(doc.Images)
				doc.Images = append(doc.Images, k.ip.ID.Path)
			}
		}
		out[i] = len(doc.Frames)
		doc.Frames = append(doc.Frames, f)
	}
	return out
}

// onlyNames are the procedures of im whose names no other has.
func onlyNames(im *image.Image) map[string]image.Addr {
	out, twice := map[string]image.Addr{}, map[string]bool{}
	for i := range im.Symbols() {
		s := &im.Symbols()[i]
		if _, ok := out[s.Name]; ok {
			twice[s.Name] = true
		}
		out[s.Name] = s.Addr
	}
	for name := range twice {
		delete(out, name)
	}
	return out
}

// procOf is the procedure of a frame that has a page; nil if it has none.
func (v *View) procOf(f *report.FlameFrame) *viewed {
	return v.byID[strings.TrimPrefix(f.Page, "/proc/")]
}

// addFlameDifference appends what differs by stack; href leads to what differs in a procedure.
func (v *View) addFlameDifference(s *sheet, d flameDifference, href func(*viewed) string) {
	f := d.flame
	if f == nil {
		var lack []string
		for side, name := range []string{"The older recording", "This recording"} {
			if d.bare[side] {
				lack = append(lack, name+" has no stacks.")
			}
		}
		s.add("flame-difference", "Stacks", text("%s There is no difference flame graph: it needs stacks on both sides. %s", strings.Join(lack, " "), howStacks))
		return
	}
	without := func(s *report.UsertimeStacks) string { return report.Share(s.Bare, s.Samples) }
	s.add("flame-difference", "Difference flame graph",
		text("The stacks of this recording, coloured by how the share of a frame, with what it calls, changed: more is red, less is blue, and grey is within the chance of sampling. There are %s before, of which %s have no stack, and %s now, of which %s have none; shares are of all of each. Frames that are gone have no place in the picture: the table has them.",
			report.AmountOf(f.Event, f.Before.Samples), without(f.Before), report.AmountOf(f.Event, f.Stacks.Samples), without(&f.Stacks)),
		func() (template.HTML, error) {
			return f.ChangesHTML("flame-difference", func(i int) string {
				if p := v.procOf(&f.Frames[i]); p != nil {
					return href(p)
				}
				return ""
			})
		})
}

// flameDifferenceDocument is what the difference flame graph draws.
func flameDifferenceDocument(v *View, _ url.Values) (any, error) {
	if v.old == nil {
		return nil, errNothingOlder
	}
	d, err, _ := v.flameDifference(-1)
	if err == nil && d.flame == nil {
		return nil, fmt.Errorf("no stacks on one side: %s", howStacks)
	}
	return d.flame, err
}
