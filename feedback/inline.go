package feedback

import (
	"fmt"

	"backfeed/infer"
	"backfeed/infer/image"
)

// inlined adds the calls that the compiler has inlined into r.
func (g *goWriter) inlined(r *infer.Result) {
	if g.isWrapper(r.Proc.Addr) {
		return
	}
	for _, b := range g.bodies(r) {
		if b.conf <= infer.Low && r.Samples == 0 {
			g.skip(SkipUnseen, b.entries)
			continue
		}
		w := g.at(b.edge)
		w.inlined = true
		switch b.conf {
		case infer.None:
			w.timed += b.samples
		case infer.Low:
			w.flowed += g.doubted(b.entries, b.samples > 0)
			w.sampled += b.samples
		default:
			w.counted += b.entries
			w.sampled += b.samples
		}
	}
}

// A body is the code of one inlined call in a procedure.
type body struct {
	edge    goEdge
	entries float64          // executions of the call
	conf    infer.Confidence // the least of what entries is the sum of
	samples float64          // samples in the body, not in what is inlined into it
}

// bodies finds the inlined calls of r and how often each was entered. A body is
// entered where control passes from an instruction outside of it to one inside.
// The scheduler mixes instructions of bodies with those around them, so a block
// that begins inside of a body has not entered it again, and no block enters
// one twice.
func (g *goWriter) bodies(r *infer.Result) []*body {
	byKey := map[string]*body{}
	var order []*body
	starts, ends := g.boundaries(r)
	for i := range r.Proc.Blocks {
		entered := map[string]bool{}
		for _, in := range g.code.Insts(&r.Proc.Blocks[i]) {
			fs := g.lines.Frames(in.Addr)
			for d, key := range inlineKeys(fs) {
				b := byKey[key]
				if b == nil {
					b = &body{edge: goEdge{funcOf(fs[d+1]), fs[d+1].Line, funcOf(fs[d])}, conf: infer.High}
					byKey[key] = b
					order = append(order, b)
				}
				if d == 0 {
					b.samples += float64(g.samples[in.Addr])
				}
				if !entered[key] {
					entered[key] = true
					g.enter(r, i, key, b, starts, ends)
				}
			}
		}
	}
	return order
}

// enter adds how often control came into a body in block i.
func (g *goWriter) enter(r *infer.Result, i int, key string, b *body, starts, ends []map[string]bool) {
	if !starts[i][key] {
		b.add(r.Block[i])
		return
	}
	if i == 0 {
		b.add(r.Entries)
	}
	for _, e := range r.Proc.Blocks[i].In {
		if !ends[r.Proc.Edges[e].From][key] {
			b.add(r.Edge[e])
		}
	}
}

func (b *body) add(f infer.Freq) {
	b.entries += f.N
	b.conf = min(b.conf, f.Within)
}

// boundaries returns the bodies that the first and the last instruction of each
// block of r are in.
func (g *goWriter) boundaries(r *infer.Result) (starts, ends []map[string]bool) {
	set := func(a image.Addr) map[string]bool {
		in := map[string]bool{}
		for _, key := range inlineKeys(g.lines.Frames(a)) {
			in[key] = true
		}
		return in
	}
	for _, b := range r.Proc.Blocks {
		starts = append(starts, set(b.Start))
		ends = append(ends, set(b.Last))
	}
	return starts, ends
}

// inlineKeys names the inlined calls that frames stand for, innermost first: the
// one of frames[d] in frames[d+1] by all calls from the outermost function down.
func inlineKeys(frames []image.Frame) []string {
	if len(frames) < 2 {
		return nil
	}
	keys := make([]string, len(frames)-1)
	key := ""
	for d := len(frames) - 2; d >= 0; d-- {
		key += fmt.Sprintf("%d.%d %s\n", frames[d+1].Line, frames[d+1].Disc, frames[d].Func)
		keys[d] = key
	}
	return keys
}
