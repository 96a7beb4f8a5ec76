// What compilers make of switches on AArch64, and what assembly has beside code.
	.arch	armv8.5-a
	.text

	// copied compares its argument, and indexes the table by a copy of it.
	.globl	copied
	.type	copied, %function
copied:
	stp	x29, x30, [sp, -48]!
	mov	x29, sp
	stp	x19, x20, [sp, 16]
	mov	w19, w1
	stp	x21, x22, [sp, 32]
	mov	x21, x0
	cmp	w1, 3
	bhi	.Lcopied_end
	adrp	x1, .Lcopied_table
	add	x1, x1, :lo12:.Lcopied_table
	ldrh	w1, [x1, w19, uxtw 1]
	adr	x0, .Lcopied_base
	add	x1, x0, w1, sxth 2
	br	x1
.Lcopied_base:
	mov	w21, 1
	b	.Lcopied_end
.Lcopied_1:
	mov	w21, 2
	b	.Lcopied_end
.Lcopied_2:
	mov	w21, 3
	b	.Lcopied_end
.Lcopied_3:
	mov	w21, 4
.Lcopied_end:
	mov	w0, w21
	ldp	x19, x20, [sp, 16]
	ldp	x21, x22, [sp, 32]
	ldp	x29, x30, [sp], 48
	ret
	.size	copied, .-copied

	// changed is copied, but the copy is another number by the time of the jump.
	.globl	changed
	.type	changed, %function
changed:
	mov	w19, w1
	add	w1, w1, 1
	cmp	w1, 1
	bhi	.Lchanged_end
	adrp	x1, .Lcopied_table
	add	x1, x1, :lo12:.Lcopied_table
	ldrh	w1, [x1, w19, uxtw 1]
	adr	x0, .Lchanged_base
	add	x1, x0, w1, sxth 2
	br	x1
.Lchanged_base:
	mov	w0, 1
	ret
	mov	w0, 2
	ret
	mov	w0, 3
	ret
	mov	w0, 4
	ret
.Lchanged_end:
	ret
	.size	changed, .-changed

	// spilled has the address of its table on the stack, as far from the stack pointer as a
	// saved register was before the rest of the frame was made.
	.globl	spilled
	.type	spilled, %function
spilled:
	stp	x29, x30, [sp, -48]!
	mov	x29, sp
	stp	x19, x20, [sp, 16]
	mov	x13, 4304
	sub	sp, sp, x13
	adrp	x2, .Lspilled_table
	add	x2, x2, :lo12:.Lspilled_table
	str	x2, [sp, 16]
	mov	w19, w0
.Lspilled_loop:
	bl	next
	cmp	w0, 2
	bhi	.Lspilled_end
	ldr	x2, [sp, 16]
	ldrb	w0, [x2, w0, uxtw]
	adr	x2, .Lspilled_base
	add	x0, x2, w0, sxtb 2
	br	x0
.Lspilled_base:
	add	w19, w19, 1
	b	.Lspilled_loop
.Lspilled_1:
	sub	w19, w19, 3
	b	.Lspilled_loop
.Lspilled_2:
	lsl	w19, w19, 1
	b	.Lspilled_loop
.Lspilled_end:
	mov	w0, w19
	mov	x13, 4304
	add	sp, sp, x13
	ldp	x19, x20, [sp, 16]
	ldp	x29, x30, [sp], 48
	ret
	.size	spilled, .-spilled

	.globl	next
	.type	next, %function
next:
	ret
	.size	next, .-next

	// padded has zeros between two parts, the second of which nothing leads to.
	.globl	padded
	.type	padded, %function
padded:
	ret
	.inst	0, 0, 0, 0, 0, 0	// no data by the symbol table
	mov	sp, x0	// whose last byte is a floating-point instruction's first
	ret
	nop
	bti	j
	ret
	.size	padded, .-padded

	// pages overwrites the register with a page before it adds to it.
	.globl	pages
	.type	pages, %function
pages:
	adrp	x1, object
	add	x1, x1, :lo12:object
	add	x1, x1, 4
	mov	x0, x1
	ret
	.size	pages, .-pages

	.section .rodata
	.p2align 3
object:
	.word	1, 2, 3, 4
	.p2align 3
.Lcopied_table:
	.hword	0, (.Lcopied_1-.Lcopied_base)/4, (.Lcopied_2-.Lcopied_base)/4, (.Lcopied_3-.Lcopied_base)/4
	.hword	1, 1, 1, 1
.Lspilled_table:
	.byte	0, (.Lspilled_1-.Lspilled_base)/4, (.Lspilled_2-.Lspilled_base)/4
	.byte	0x7f, 0x7f
