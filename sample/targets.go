package sample

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// AddTarget adds n executions of an indirect branch that walks saw go where b says, in the unit of
// Probed.Visits.
func (c *Counts) AddTarget(b Branch, n uint64) {
	if n == 0 {
		return
	}
	if c.Targets == nil {
		c.Targets = map[Branch]uint64{}
	}
	c.Targets[b] = add(c.Targets[b], n)
}

// scaleTargets adds the targets of c.
func (out *Counts) scaleTargets(c *Counts, w float64) {
	seen := scaler{w: w}
	for _, b := range slices.SortedFunc(maps.Keys(c.Targets), compareBranches) {
		out.AddTarget(b, seen.scale(c.Targets[b]))
	}
}

func (c *Counts) checkTargets() error {
	for b, n := range c.Targets {
		if err := cmp.Or(c.checkFrame(b.From), c.checkFrame(b.To)); err != nil {
			return fmt.Errorf("target %v: %w", b, err)
		}
		if n == 0 {
			return fmt.Errorf("target %v: 0 executions", b)
		}
	}
	return nil
}
