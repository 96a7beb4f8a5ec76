package image

// stackKind says what an instruction does to the stack pointer.
type stackKind uint8

const (
	spStays     stackKind = iota
	spMoves               // by n
	spFromFrame           // becomes the frame pointer plus n
	spPopsFrame           // moves by n, and the frame pointer is the caller's again
	frameFromSP           // the frame pointer becomes the stack pointer plus n
	spLost                // not followed further
)

type stackEffect struct {
	kind stackKind
	n    int64
}

// loadsStack reports writes of the stack pointer that are neither those of
// a prologue nor of an epilogue.
func (d *x86) loadsStack() bool {
	switch d.op {
	case 0x8b: // mov
		return d.regField() == rsp && (d.mem || d.rmField() != rbp)
	case 0x89:
		return !d.mem && d.rmField() == rsp && d.regField() != rbp
	case 0x87: // xchg
		return d.regField() == rsp || !d.mem && d.rmField() == rsp
	case 0x5c: // pop
		return d.rex&1 == 0
	}
	return false
}

// A depth is where the stack pointer is, relative to the entry.
type depth struct {
	sp, frame     int64
	known, framed bool
}

func (d depth) after(e stackEffect) depth {
	switch e.kind {
	case spMoves:
		d.sp += e.n
	case spPopsFrame:
		d.sp += e.n
		d.framed = false
	case spFromFrame:
		d.sp, d.known = d.frame+e.n, d.framed
	case frameFromSP:
		d.frame, d.framed = d.sp+e.n, d.known
	case spLost:
		d.known = false
	}
	return d
}

// depthAt returns the stack pointer before the instruction at off, relative to the
// entry, on the first path from there that is found. Compilers keep it the same
// on all of them.
func (b *builder) depthAt(off int) (int64, bool) {
	if b.depths == nil {
		b.findDepths()
	}
	d, ok := b.depths[off]
	return d.sp, ok && d.known
}

// prologueEnd returns the offset behind the last instruction that moves the stack pointer before the
// first branch: what is stored above it has another place at the same distance from it.
func (b *builder) prologueEnd() int {
	end := 0
	for off := 0; off < len(b.code) && b.mark[off]&markInst != 0 && b.mark[off]&markFlow == 0; {
		n, e := b.stackEffect(off)
		if off += n; e.kind == spMoves || e.kind == spLost {
			end = off
		}
	}
	return end
}

// findDepths follows the stack pointer from the entry to every indirect jump.
func (b *builder) findDepths() {
	b.depths = make(map[int]depth)
	seen := make(map[int]bool)
	type start struct {
		off int
		depth
	}
	work := []start{{0, depth{known: true}}}
	for len(work) > 0 {
		w := work[len(work)-1]
		work = work[:len(work)-1]
		d := w.depth
		for off := w.off; off < len(b.code) && b.mark[off]&markInst != 0; {
			if b.mark[off]&markLead != 0 {
				if seen[off] {
					break
				}
				seen[off] = true
			}
			n, e := b.stackEffect(off)
			if t := b.transferAt(off); t != nil {
				if to, ok := b.inside(t.Target); ok && t.Class&(Jump|CondJump) != 0 {
					work = append(work, start{to, d})
				}
				if t.Class&IndJump != 0 {
					b.depths[off] = d
				}
				if t.table != nil {
					for _, a := range t.table.targets {
						if to, ok := b.inside(a); ok {
							work = append(work, start{to, d})
						}
					}
				}
				if t.Class&(Jump|IndJump|Ret|Trap) != 0 || t.noReturn {
					break
				}
			}
			d = d.after(e)
			if d.known && d.sp != 0 {
				b.hasFrame = true
			}
			off += n
		}
	}
}

// stackEffect returns the length of the instruction at off and what it does to the
// stack pointer.
func (b *builder) stackEffect(off int) (int, stackEffect) {
	if b.im.Arch == AArch64 {
		return 4, armStack(b.code[off:])
	}
	b.x86.decode(b.code[off:])
	return max(1, b.x86.n), b.x86.stack()
}
