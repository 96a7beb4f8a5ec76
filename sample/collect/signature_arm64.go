package collect

// withoutSignature returns an address of code without the signature that pointer authentication has put in.
//
//go:noescape
func withoutSignature(pc uint64) uint64

// addressBits are those that an address of code in user mode has: the others of a return address may be a signature.
// How many there are depends on the kernel (Arm ARM, D8.10). Bit 55 tells the addresses of the kernel.
func addressBits() uint64 { return withoutSignature(1<<55 - 1) }
