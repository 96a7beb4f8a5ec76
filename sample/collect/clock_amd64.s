#include "textflag.h"

#define ADD8 ADDQ BX, AX; ADDQ BX, AX; ADDQ BX, AX; ADDQ BX, AX; ADDQ BX, AX; ADDQ BX, AX; ADDQ BX, AX; ADDQ BX, AX

// func addChain(turns int) int
TEXT ·addChain(SB), NOSPLIT, $0-16
	MOVQ turns+0(FP), CX
	MOVQ CX, BX
	XORL AX, AX
	PCALIGN $64
turn:
	ADD8; ADD8; ADD8; ADD8; ADD8; ADD8; ADD8; ADD8
	DECQ CX
	JGT  turn
	MOVQ AX, ret+8(FP)
	RET
