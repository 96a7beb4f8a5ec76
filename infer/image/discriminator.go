package image

// BaseDiscriminator returns the part of a discriminator of clang's or rustc's that
// tells apart the blocks of a line in the source, which is what a sample profile
// goes by. The rest says what optimisation did to the block.
//
// It is not for GCC's discriminators, which have no such form, nor for those of an image with [Lines.FSDiscriminators].
func BaseDiscriminator(d uint32) uint32 {
	return prefixDecode(d)
}

// DuplicationFactor returns how many copies of its block the instruction with such
// a discriminator stands for, as in unrolled and vectorised loops: it ran for 1 of
// that many executions in the source. See BaseDiscriminator for when it applies.
func DuplicationFactor(d uint32) uint32 {
	return max(prefixDecode(prefixNext(d)), 1)
}

// A discriminator of LLVM holds the base, the duplication factor and the number
// of the copy, from the lowest bit up. A component is bit 1 for 0, else bit 0, then
// 5 bits of it; where it is 32 or more, bit 1, then 7 bits more
// (llvm/IR/DebugInfoMetadata.h, llvm/Support/Discriminator.h).

// prefixDecode returns the lowest component of d.
func prefixDecode(d uint32) uint32 {
	if d&1 != 0 {
		return 0
	}
	d >>= 1
	if d&0x20 != 0 {
		return d>>1&0xfe0 | d&0x1f
	}
	return d & 0x1f
}

// prefixNext drops the lowest component of d.
func prefixNext(d uint32) uint32 {
	switch {
	case d&1 != 0:
		return d >> 1
	case d&0x40 != 0:
		return d >> 14
	}
	return d >> 7
}
