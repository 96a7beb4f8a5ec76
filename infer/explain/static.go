package explain

import (
	"backfeed/infer/image"
	"backfeed/infer/machine"
)

// A Static is what time goes to that the machine model expects: a machine.Why of the same number, or,
// where the result or the units of a slow operation are most of what is waited for, that operation. These
// have the names of the causes of stalls: whoever asks what a loop of divisions waits for is to read of the
// divider, whether they take as long as the model expects or longer. DCPI has them apart, too, as dependencies on
// functional units beside those on operands.
type Static uint8

const (
	staticDivider Static = Static(machine.Fetch) + 1 + iota
	staticMultiplier
	staticLock
	staticMicrocode
	NumStatics // how many there are
)

var staticCauses = [NumStatics]Cause{staticDivider: Divider, staticMultiplier: Multiplier, staticLock: Lock, staticMicrocode: Microcode}

// Cause returns the cause of stalls that has the name of s, if s is a slow operation.
func (s Static) Cause() (c Cause, ok bool) {
	if s < staticDivider || s >= NumStatics {
		return 0, false
	}
	return staticCauses[s], true
}

// String returns the name of s.
func (s Static) String() string {
	if c, ok := s.Cause(); ok {
		return c.String()
	}
	return machine.Why(s).String()
}

// slowCause returns the cause that a slow operation is of its own, by its class.
func slowCause(class image.Class) (c Cause, ok bool) {
	switch {
	case class&image.Locked != 0:
		return Lock, true
	case class&(image.System|image.Rep) != 0:
		return Microcode, true
	case class&image.Div != 0:
		return Divider, true
	case class&image.Mul != 0:
		return Multiplier, true
	}
	return 0, false
}

// slowStatic is slowCause of what the model expects.
func slowStatic(class image.Class) (Static, bool) {
	c, ok := slowCause(class)
	for s := staticDivider; ok && s < NumStatics; s++ {
		if staticCauses[s] == c {
			return s, true
		}
	}
	return 0, false
}
