#include "textflag.h"

#define ADD8 ADD R1, R9; ADD R1, R9; ADD R1, R9; ADD R1, R9; ADD R1, R9; ADD R1, R9; ADD R1, R9; ADD R1, R9
#define ADD64 ADD8; ADD8; ADD8; ADD8; ADD8; ADD8; ADD8; ADD8

// func callChain(turns int)
TEXT ·callChain(SB), NOSPLIT, $0-8
	MOVD turns+0(FP), R2
	MOVD R2, R1
	PCALIGN $64
turn:
	ADD64; ADD64; ADD64; ADD64; ADD64; ADD64; ADD64; ADD64
	MOVD $173, R8 // getppid
	SVC
	SUBS $1, R2
	BGT  turn
	RET

// func callCode() *[callBytes]byte
TEXT ·callCode(SB), NOSPLIT, $0-8
	MOVD $·callChain(SB), R0
	MOVD R0, ret+0(FP)
	RET
