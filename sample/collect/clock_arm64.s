#include "textflag.h"

#define ADD8 ADD R1, R0; ADD R1, R0; ADD R1, R0; ADD R1, R0; ADD R1, R0; ADD R1, R0; ADD R1, R0; ADD R1, R0

// func addChain(turns int) int
TEXT ·addChain(SB), NOSPLIT, $0-16
	MOVD turns+0(FP), R2
	MOVD R2, R1
	MOVD ZR, R0
	PCALIGN $64
turn:
	ADD8; ADD8; ADD8; ADD8; ADD8; ADD8; ADD8; ADD8
	SUBS $1, R2
	BGT  turn
	MOVD R0, ret+8(FP)
	RET
