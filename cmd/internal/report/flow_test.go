package report

import "testing"

// TestFlowDocument: all blocks and edges are in it, blocks do not lie over each other, and the
// hottest is the one with the most time.
func TestFlowDocument(t *testing.T) {
	_, e := chase(t)
	doc := NewFlowDocument(e, Style{}, "")
	if len(doc.Blocks) != len(e.Result.Proc.Blocks) || len(doc.Edges) != len(e.Result.Proc.Edges) {
		t.Errorf("%d blocks and %d edges, want %d and %d", len(doc.Blocks), len(doc.Edges), len(e.Result.Proc.Blocks), len(e.Result.Proc.Edges))
	}
	for i, b := range doc.Blocks {
		if b.X < 0 || b.Y < 0 || b.X+b.Width > doc.Width || b.Y+b.Height > doc.Height {
			t.Errorf("block %s lies outside", b.ID)
		}
		for _, o := range doc.Blocks[:i] {
			if b.X < o.X+o.Width && o.X < b.X+b.Width && b.Y < o.Y+o.Height && o.Y < b.Y+b.Height {
				t.Errorf("blocks %s and %s lie over each other", b.ID, o.ID)
			}
		}
	}
	for _, edge := range doc.Edges {
		if edge.From < 0 || edge.From >= len(doc.Blocks) || edge.To < 0 || edge.To >= len(doc.Blocks) || edge.Path == "" {
			t.Errorf("an edge %+v", edge)
		}
	}
	times := blockTimes(e)
	for b := range times {
		if times[b].cycles > times[doc.Hottest].cycles {
			t.Errorf("block %d has more time than %s", b, doc.Blocks[doc.Hottest].ID)
		}
	}
}
