package trace

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// errTrail is wrapped by the errors of trails.
var errTrail = errors.New("malformed trail")

// A trail is what the kernel tells of a walk: with the code, it gives the whole way.
type trail struct {
	start    uint32 // operation
	steps    uint32
	end      End
	left     uint64   // where an indirect branch left the code that is known, as linked; 0 is in no image
	pages    uint32   // Range.pages of the image that left is in
	outcomes []via    // by conditional branch
	targets  []uint32 // operations that indirect branches went to
}

// A via is how a walk came by a branch. The number of the place, times viaPlace, is added to it
// where places have numbers.
type via int32

const (
	viaInner   via = 1 << iota // in a call that began on the way
	viaTaken                   // jumps, calls and returns always are
	viaGuessed                 // it is not known whether it was taken
	viaPlace
)

// place gives which one it was.
func (v via) place() int32 { return int32(v / viaPlace) }

// Layout of struct trail of bpf/walker.c: six words of 4 bytes, one of 8, two bits for each of
// mostOutcomes, and the targets.
const (
	trailHead    = 32
	mostOutcomes = 512
	trailGuessed = trailHead + mostOutcomes/8
	trailSize    = trailGuessed + mostOutcomes/8 // without targets
)

// decodeTrail reads one.
func decodeTrail(b []byte) (trail, error) {
	word := func(at int) uint32 { return binary.NativeEndian.Uint32(b[at:]) }
	if len(b) < trailSize {
		return trail{}, fmt.Errorf("trail of %d bytes: %w", len(b), errTrail)
	}
	t := trail{start: word(0), steps: word(4), end: End(word(8)), pages: word(20), left: binary.NativeEndian.Uint64(b[24:])}
	outcomes, targets := word(12), word(16)
	if t.end >= Ends || outcomes > mostOutcomes+1 || uint64(targets) > uint64(len(b)-trailSize)/4 {
		return trail{}, fmt.Errorf("trail of %d bytes with %d outcomes and %d targets: %w", len(b), outcomes, targets, errTrail)
	}
	for i := range int(min(outcomes, mostOutcomes)) {
		bit := func(at int) via { return via(b[at+i/8] >> (i % 8) & 1) }
		t.outcomes = append(t.outcomes, bit(trailHead)*viaTaken|bit(trailGuessed)*viaGuessed)
	}
	for i := range int(targets) {
		t.targets = append(t.targets, word(trailSize+4*i))
	}
	return t, nil
}

// follow goes the way of t, and calls at for each branch on it with its operation. It gives the
// last operation.
func (c *Code) follow(t *trail, at func(op uint32, how via)) (last uint32) {
	outcomes, targets, depth := t.outcomes, t.targets, 0
	op := t.start
	for range t.steps {
		if op == 0 || int(op) >= len(c.Ops) {
			break
		}
		last = op
		o := &c.Ops[op]
		if o.Branch == NoBranch {
			op++
			continue
		}
		how := viaTaken
		if o.Branch == BranchCond {
			if len(outcomes) == 0 {
				break
			}
			how, outcomes = outcomes[0], outcomes[1:]
		}
		if depth > 0 {
			how |= viaInner
		}
		at(op, how)
		switch {
		case o.Branch == BranchCall:
			depth++
		case o.Branch == BranchReturn && depth > 0:
			depth--
		}
		switch {
		case how&viaTaken == 0:
			op++
		case o.Target != 0:
			op = c.Targets[op]
		case len(targets) > 0:
			op, targets = targets[0], targets[1:]
		default:
			op = 0
		}
	}
	return last
}

// An End is how a walk ended: an END_ of bpf/walker.c.
type End uint32

const (
	EndLength  End = iota
	EndOp          // an instruction that is not emulated
	EndBranch      // it is not known where a branch goes, and too much was guessed
	EndOutside     // left the code that is known
	EndAddress     // it is not known where something is stored
	EndRoom
	EndStart // nothing is known of the code where it begins
	Ends
)

func (e End) String() string {
	return [Ends]string{"at their full length", "at an instruction that is not emulated", "at a branch on what is not known",
		"outside the code that is known", "at a store that is not known where", "for want of room", "at once, in code that is not known"}[e]
}
