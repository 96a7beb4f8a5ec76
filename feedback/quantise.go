package feedback

import "math/bits"

// significantBits are kept of a weight that is written: its steps are an eighth to
// a quarter of it. Inferred counts are not known better: infer.Medium is within a
// factor of 2, with 90 % confidence. What noise moves by less than a step stays the same in
// the file. Much moves by more: of the edges of two recordings of goldmark with 3700
// samples each, 3 % have the same weight unrounded and 12 % rounded, half of them
// differ by a factor of 1.7. Steps of powers of 2 would leave 27 %, and tie callees
// that differ. What noise moves by more is for settler to keep.
const significantBits = 3

// quantise rounds n, of at most 1<<62, to its significant bits.
func quantise(n uint64) uint64 {
	drop := bits.Len64(n) - significantBits
	if drop <= 0 {
		return n
	}
	return (n + 1<<(drop-1)) >> drop << drop
}
