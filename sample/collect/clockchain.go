//go:build amd64 || arm64

package collect

const haveChain = true

// addChain adds turns to 0, chainLength times in each of so many turns (> 0), one after the other, and returns the sum.
//
//go:noescape
func addChain(turns int) int
