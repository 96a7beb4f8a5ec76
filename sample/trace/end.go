package trace

// What one trail has room for.
const (
	mostOutcomes = 512
	mostTargets  = 256
)

// A trail is what the emulator writes of a walk: the code tells the rest of the path. Targets
// that it has no use for are cut off.
type trail struct {
	start    uint32 // operation
	steps    uint32
	end      uint32
	outcomes uint32                    // conditional branches
	targets  uint32                    // indirect branches and returns
	pages    uint32                    // of the image that left is in
	left     uint64                    // with END_OUTSIDE, by an indirect branch: the address, as linked, that it went to; 0 is in no image
	taken    [mostOutcomes / 64]uint64 // bit by conditional branch
	guessed  [mostOutcomes / 64]uint64 // likewise: it is not known whether it is taken
	target   [mostTargets]uint32       // operations that indirect branches and returns went to
}

// An End is how a walk ended.
type End uint32

// How walks ended.
const (
	EndLength  End = iota // at its full length
	EndOp                 // an instruction that is not emulated
	EndBranch             // it is not known where a branch goes, and too much was guessed
	EndOutside            // left the code that is known
	EndAddress            // it is not known where something is stored
	EndRoom
	EndStart // nothing is known of the code where it begins
	Ends
)

func (e End) String() string {
	return [Ends]string{"at their full length", "at an instruction that is not emulated", "at a branch on what is not known",
		"outside the code that is known", "at a store that is not known where", "for want of room", "at once, in code that is not known"}[e]
}
