package sample

import "testing"

func TestHasCallers(t *testing.T) {
	with := func(add func(*Counts)) *Recording {
		c := NewCounts(CPU{}, Event{Name: "cpu-clock"})
		add(c)
		return &Recording{Counts: []*Counts{c}}
	}
	at := func(off Offset) Frame { return Frame{Image: Unknown, Off: off} }
	for name, tt := range map[string]struct {
		add  func(*Counts)
		want bool
	}{
		"samples alone":  {func(c *Counts) {}, false},
		"a frame":        {func(c *Counts) { c.AddStack([]Frame{at(1)}, 1) }, false},
		"frames":         {func(c *Counts) { c.AddStack([]Frame{at(1), at(2)}, 1) }, true},
		"branch records": {func(c *Counts) { c.AddBranch(Branch{From: at(1), To: at(2)}, 1, 0) }, true},
	} {
		if got := with(tt.add).HasCallers(); got != tt.want {
			t.Errorf("%s: has callers: %v", name, got)
		}
	}
}
