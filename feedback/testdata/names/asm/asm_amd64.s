#include "textflag.h"

// func Add(a, b int) int
TEXT ·Add(SB), NOSPLIT, $0-24
	MOVQ a+0(FP), AX
	ADDQ b+8(FP), AX
	MOVQ AX, ret+16(FP)
	RET

// func Twice(a int) int
TEXT ·Twice(SB), $16-16
	MOVQ a+0(FP), AX
	MOVQ AX, 0(SP)
	CALL ·Double(SB)
	MOVQ 8(SP), AX
	MOVQ AX, ret+8(FP)
	RET
