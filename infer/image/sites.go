package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"strings"

	"backfeed/sample"
	"backfeed/sample/probe"
)

// A ProbeSite is an instruction that Linux's uprobes emulate: a probe of it does
// not single-step the program, and costs 0.6 us instead of 19 (kernel 6.18).
type ProbeSite struct {
	Addr Addr
	Off  sample.Offset // of Addr in the file
	Cond int8          // condition code of a conditional branch, the low four bits of its opcode, or on AArch64 one of the Cond constants of package probe; probe.NoCond of others
	kind siteKind
}

// siteKind orders the sites of a block: the better comes first.
type siteKind uint8

const (
	siteBranch siteKind = iota // counts two edges
	siteJump
	siteCall
	sitePush // or, on AArch64, adr and adrp
	siteNop
	noSite
)

// ProbeSites returns the sites of each block of p, the best first: the conditional
// branch at its end, then jumps, calls, pushes or address computations, and nops. Every one is certain to be
// the start of an instruction that control reaches: there are none in a procedure
// that does not decode end to end, in code that nothing is seen to lead to, in
// stubs of the PLT, and in the vdso.
func (im *Image) ProbeSites(p *Proc) [][]ProbeSite {
	sites := make([][]ProbeSite, len(p.Blocks))
	if !im.probeable(p) {
		return sites
	}
	for b, reached := range p.reachable() {
		if reached {
			sites[b] = im.blockSites(&p.Blocks[b])
		}
	}
	return sites
}

func (im *Image) probeable(p *Proc) bool {
	switch {
	case p.torn, p.Source == FromCall, p.Source == FromPLT:
		return false
	case im.elf.Type != elf.ET_EXEC && im.elf.Type != elf.ET_DYN:
		return false
	}
	return len(im.dataIn(p.Addr, p.Addr+Addr(p.Size))) == 0 && !im.isVDSO()
}

// isVDSO reports whether the image is the code that the kernel maps into processes,
// by the name it has for the dynamic linker.
func (im *Image) isVDSO() bool {
	names, err := im.elf.DynString(elf.DT_SONAME)
	if err != nil {
		return false
	}
	for _, n := range names {
		if strings.HasPrefix(n, "linux-vdso") || strings.HasPrefix(n, "linux-gate") {
			return true
		}
	}
	return false
}

// reachable reports of each block whether a path leads to it from an entry.
func (p *Proc) reachable() []bool {
	seen := make([]bool, len(p.Blocks))
	var work []int
	visit := func(b int) {
		if !seen[b] {
			seen[b] = true
			work = append(work, b)
		}
	}
	for _, b := range p.Entries {
		visit(b)
	}
	for len(work) > 0 {
		b := work[len(work)-1]
		work = work[:len(work)-1]
		for _, e := range p.Blocks[b].Out {
			visit(p.Edges[e].To)
		}
	}
	return seen
}

// blockSites returns the sites of b, the best first.
func (im *Image) blockSites(b *Block) []ProbeSite {
	var of [noSite][]ProbeSite
	code := im.code(b.Start, b.End)
	var d x86
	for a := b.Start; len(code) > 0; {
		in := im.instIn(&d, code, a)
		kind, cond := im.Arch.siteOf(code[:in.Len])
		if off, ok := im.OffsetOf(a); ok && kind != noSite {
			of[kind] = append(of[kind], ProbeSite{a, off, cond, kind})
		}
		code = code[in.Len:]
		a += Addr(in.Len)
	}
	var all []ProbeSite
	for _, s := range of {
		all = append(all, s...)
	}
	return all
}

// emulatedNops are the nops of one instruction, by length, that the kernel knows
// (x86_nops in arch/x86/kernel/alternative.c, emulated for uprobes since 6.16;
// before that only the first two). That of five bytes is left out: from 6.18 on a
// uprobe there becomes a call, which overwrites the red zone of the program.
var emulatedNops = [...][]byte{
	{0x90},
	{0x66, 0x90},
	{0x0f, 0x1f, 0x00},
	{0x0f, 0x1f, 0x40, 0x00},
	{0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00},
	{0x0f, 0x1f, 0x80, 0x00, 0x00, 0x00, 0x00},
	{0x0f, 0x1f, 0x84, 0x00, 0x00, 0x00, 0x00, 0x00},
}

// siteOf reports whether the kernel emulates one instruction.
func (a Arch) siteOf(code []byte) (siteKind, int8) {
	if a == AArch64 {
		return armSiteOf(code)
	}
	return x86SiteOf(code)
}

// armSiteOf goes by arm_probe_decode_insn in arch/arm64/kernel/probes/decode-insn.c. Branches to registers are no
// sites, nor are loads of literals: before Linux 6.12 what emulates them reads the kernel's memory. Nop is
// emulated since 6.13; before, package collect finds out that it is not.
func armSiteOf(code []byte) (siteKind, int8) {
	if len(code) < 4 {
		return noSite, -1
	}
	switch w := binary.LittleEndian.Uint32(code); {
	case w&0xff000010 == 0x54000000:
		return siteBranch, int8(w & 15)
	case w&0x7e000000 == 0x34000000:
		return siteBranch, probe.CondZero + int8(w>>24&1)
	case w&0x7e000000 == 0x36000000:
		return siteBranch, probe.CondClear + int8(w>>24&1)
	case w&0xfc000000 == 0x14000000:
		return siteJump, -1
	case w&0xfc000000 == 0x94000000:
		return siteCall, -1
	case w&0x1f000000 == 0x10000000:
		return sitePush, -1
	case w == 0xd503201f:
		return siteNop, -1
	}
	return noSite, -1
}

// x86SiteOf reports whether the kernel emulates one instruction of 64-bit code, after
// branch_setup_xol_ops and push_setup_xol_ops of arch/x86/kernel/uprobes.c, and the
// condition code of a conditional branch or -1. Prefixes are refused although the
// kernel takes some of them (bnd): it emulates 41 90, which is no nop, as one, fails
// at branch hints, and does not know how a processor reads 66 before a branch.
func x86SiteOf(code []byte) (siteKind, int8) {
	switch c, n := code[0], len(code); {
	case n == 2 && c&0xf0 == 0x70, n == 6 && c == 0x0f && code[1]&0xf0 == 0x80:
		return siteBranch, int8(code[n/4] & 0x0f)
	case n == 2 && c == 0xeb, n == 5 && c == 0xe9:
		return siteJump, -1
	case n == 5 && c == 0xe8:
		return siteCall, -1
	case n == 1 && c&0xf8 == 0x50, n == 2 && c == 0x41 && code[1]&0xf8 == 0x50:
		return sitePush, -1
	}
	for _, nop := range emulatedNops {
		if bytes.Equal(code, nop) {
			return siteNop, -1
		}
	}
	return noSite, -1
}
