package sample

import (
	"cmp"
	"fmt"
	"maps"
	"math"
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

// targeted reports whether r has targets.
func (r *Recording) targeted() bool {
	return slices.ContainsFunc(r.Counts, func(c *Counts) bool { return len(c.Targets) > 0 })
}

func (e *encoder) targets(c *Counts, index map[Frame]int) {
	e.Int(len(c.Targets))
	last := 0
	for _, b := range slices.SortedFunc(maps.Keys(c.Targets), compareBranches) {
		from := index[b.From]
		e.Int(from - last)
		e.Int(index[b.To])
		e.Uint(c.Targets[b])
		last = from
	}
}

func (d *decoder) targets(c *Counts, places []reference) {
	var last Branch
	index := 0
	for i := range d.List(3, "targets") {
		start := d.Off
		var b Branch
		index, b.From = d.place(index, places, "source")
		_, b.To = d.place(0, places, "target")
		if i > 0 && compareBranches(last, b) >= 0 {
			d.Fail(start, "order of targets")
		}
		if n := d.Uint(math.MaxUint64, "executions"); n == 0 {
			d.Fail(start, "executions")
		} else if d.Err == nil {
			d.Note("%v > %v: %d executions", b.From, b.To, n)
			c.AddTarget(b, n)
		}
		if d.Err != nil {
			return
		}
		last = b
	}
}
