	.text
	.globl	dense
	.type	dense, %function
dense:
	stp	x29, x30, [sp, -16]!
	bl	far
	add	w0, w0, 1
	ldp	x29, x30, [sp], 16
	ret
	.size	dense, .-dense

	.section .far, "ax"
	.globl	far
	.type	far, %function
far:
	mov	w0, 1
	ret
	.size	far, .-far
