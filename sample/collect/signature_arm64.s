#include "textflag.h"

// func withoutSignature(pc uint64) uint64
TEXT ·withoutSignature(SB), NOSPLIT, $0-16
	MOVD pc+0(FP), R0
	MOVD R30, R1
	MOVD R0, R30
	WORD $0xd50320ff // XPACLRI: of R30 alone, and nothing where there are no signatures
	MOVD R30, R0
	MOVD R1, R30
	MOVD R0, ret+8(FP)
	RET
