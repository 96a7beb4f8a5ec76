#include "textflag.h"

#define ADD8 ADDQ BX, SI; ADDQ BX, SI; ADDQ BX, SI; ADDQ BX, SI; ADDQ BX, SI; ADDQ BX, SI; ADDQ BX, SI; ADDQ BX, SI
#define ADD64 ADD8; ADD8; ADD8; ADD8; ADD8; ADD8; ADD8; ADD8

// func callChain(turns int)
TEXT ·callChain(SB), NOSPLIT, $0-8
	MOVQ turns+0(FP), DX
	MOVQ DX, BX
	PCALIGN $64
turn:
	ADD64; ADD64; ADD64; ADD64; ADD64; ADD64; ADD64; ADD64
	MOVL $110, AX // getppid
	SYSCALL
	DECQ DX
	JGT  turn
	RET

// func callCode() *[callBytes]byte
TEXT ·callCode(SB), NOSPLIT, $0-8
	LEAQ ·callChain(SB), AX
	MOVQ AX, ret+0(FP)
	RET
