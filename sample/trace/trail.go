package trace

import (
	"errors"
	"fmt"
	"unsafe"
)

// errTrail is wrapped by the errors of trails.
var errTrail = errors.New("malformed trail")

// A path is where a walk went, as its trail tells it.
type path struct {
	start    uint32 // operation
	steps    uint32
	end      End
	left     uint64   // where an indirect branch left the code that is known, as linked; 0 is in no image
	pages    uint32   // Range.Pages of the image that left is in
	outcomes []via    // by conditional branch
	targets  []uint32 // operations that indirect branches went to
}

// A via is how a walk passed through a branch. The number of the place, times viaPlace, is added to it
// where places have numbers.
type via int32

const (
	viaInner   via = 1 << iota // in a call that began during the walk
	viaTaken                   // jumps, calls and returns always are
	viaGuessed                 // it is not known whether it was taken
	viaTarget                  // not a branch, but where the one before it went
	viaPlace
)

// place returns which one it was.
func (v via) place() int32 { return int32(v / viaPlace) }

// trailSize is the size of a trail without targets.
const trailSize = int(unsafe.Offsetof(trail{}.target))

// decodeTrail reads one.
func decodeTrail(b []byte) (path, error) {
	if len(b) < trailSize {
		return path{}, fmt.Errorf("trail of %d bytes: %w", len(b), errTrail)
	}
	var raw trail
	n := copy(unsafe.Slice((*byte)(unsafe.Pointer(&raw)), unsafe.Sizeof(raw)), b)
	if End(raw.end) >= Ends || raw.outcomes > mostOutcomes+1 || uint64(raw.targets) > uint64(n-trailSize)/4 {
		return path{}, fmt.Errorf("trail of %d bytes with %d outcomes and %d targets: %w", len(b), raw.outcomes, raw.targets, errTrail)
	}
	t := path{start: raw.start, steps: raw.steps, end: End(raw.end), pages: raw.pages, left: raw.left}
	for i := range min(raw.outcomes, mostOutcomes) {
		bit := func(of *[mostOutcomes / 64]uint64) via { return via(of[i/64] >> (i % 64) & 1) }
		t.outcomes = append(t.outcomes, bit(&raw.taken)*viaTaken|bit(&raw.guessed)*viaGuessed)
	}
	t.targets = append(t.targets, raw.target[:raw.targets]...)
	return t, nil
}

// What a walk passed through: a branch, and where it went on to.
type passed struct {
	op    uint32
	how   via
	to    uint32 // operation; 0 is nowhere that is known
	steps uint32 // instructions up to the branch, itself included
}

// follow goes where t went, and calls at for each branch on it. It returns the last operation.
func (c *Code) follow(t *path, at func(passed)) (last uint32) {
	outcomes, targets, depth := t.outcomes, t.targets, 0
	op := t.start
	for i := range t.steps {
		if op == 0 || int(op) >= len(c.Ops) {
			break
		}
		last = op
		o := &c.Ops[op]
		if !o.Kind.Branch() {
			op++
			continue
		}
		how := viaTaken
		if o.Kind == CondJump {
			if len(outcomes) == 0 {
				break
			}
			how, outcomes = outcomes[0], outcomes[1:]
		}
		if depth > 0 {
			how |= viaInner
		}
		switch {
		case o.Kind == Call || o.Kind == CallInd:
			depth++
		case o.Kind == Ret && depth > 0:
			depth--
		}
		to := uint32(0)
		switch {
		case how&viaTaken == 0:
			to = op + 1
		case c.at[op].target != 0:
			to = o.To
		case len(targets) > 0:
			to, targets = targets[0], targets[1:]
		}
		if int(to) >= len(c.Ops) {
			to = 0
		}
		at(passed{op, how, to, i + 1})
		op = to
	}
	return last
}
