package report

import (
	"cmp"
	"html/template"
	"math"
	"slices"

	"backfeed/infer/compare"
)

// A FlameChange is a frame, wherever it stands, before and now: samples with it on their stacks.
type FlameChange struct {
	Frame      int     `json:"frame"` // index into Frames
	Before     uint64  `json:"before"`
	Samples    uint64  `json:"samples"`
	Difference float64 `json:"difference"` // of the shares, now minus before
	Low        float64 `json:"low"`        // of Difference, with 95 % confidence, by the chance of sampling alone
	High       float64 `json:"high"`
	Real       bool    `json:"real"` // chance does not explain the difference
}

const (
	maxFlameChanges   = 200 // in the document
	shownFlameChanges = 30  // in the table without scripts
)

// Judge says of each node, and of the frames with these samples before and now, how its share of
// all samples changed, and whether that is more than chance, of samples that tell as much as each says. It comes after Prune.
func (f *Flame) Judge(frames [][2]uint64, each compare.Each) {
	totals := [2]uint64{f.Before.Samples, f.Stacks.Samples}
	share := func(n [2]uint64) float64 {
		return float64(n[1])/math.Max(1, float64(totals[1])) - float64(n[0])/math.Max(1, float64(totals[0]))
	}
	var nodes []*FlameNode
	var pairs [][2]uint64
	var walk func(n *FlameNode)
	walk = func(n *FlameNode) {
		nodes, pairs = append(nodes, n), append(pairs, [2]uint64{n.Before, n.Samples})
		for _, c := range n.Children {
			walk(c)
		}
	}
	walk(f.Root)
	for i, c := range compare.Changes(pairs, totals, each) {
		nodes[i].Change, nodes[i].Real = share(pairs[i]), c.Real
	}
	f.Changes = f.Changes[:0]
	for i, c := range compare.Changes(frames, totals, each) {
		if c.Old+c.New == 0 || f.Frames[i].Kind == FlameAll {
			continue
		}
		low, high := compare.Interval(frames[i], totals, each)
		f.Changes = append(f.Changes, FlameChange{i, c.Old, c.New, share(frames[i]), low, high, c.Real})
	}
	slices.SortStableFunc(f.Changes, func(a, b FlameChange) int {
		if a.Real != b.Real {
			if a.Real {
				return -1
			}
			return 1
		}
		return cmp.Compare(math.Abs(b.Difference), math.Abs(a.Difference))
	})
	f.Changes = f.Changes[:min(maxFlameChanges, len(f.Changes))]
}

// ChangesHTML returns a place for the picture that a script draws of the document so called, and a
// table of the frames that changed most. href leads from the page of a procedure to what differs in it.
func (f *Flame) ChangesHTML(document string, href func(frame int) string) (template.HTML, error) {
	t := NewTable(Right("before"), Right("now"), Right("difference"), Right("with 95 % confidence").Less(), Left("more than chance"), Left("kind").Less(), Procedures("frame").Main(), Paths("image").Less())
	for _, c := range f.Changes[:min(shownFlameChanges, len(f.Changes))] {
		frame, image := &f.Frames[c.Frame], ""
		if frame.Image >= 0 {
			image = f.Images[frame.Image]
		}
		t.Row(Share(c.Before, f.Before.Samples), Share(c.Samples, f.Stacks.Samples), signedPercent(c.Difference), interval(c.Low, c.High), yesNo(c.Real), frame.Kind, frame.In(f.Names), image)
		t.Link(href(c.Frame))
	}
	table, err := t.HTML("Frames that changed most, with what they call")
	if err != nil {
		return "", err
	}
	return markup("flamediff.tmpl", map[string]any{"Document": document, "Table": table})
}
