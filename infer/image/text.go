package image

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"golang.org/x/arch/arm64/arm64asm"
	"golang.org/x/arch/x86/x86asm"
)

// Text disassembles the instruction at a in GNU syntax, for people to read: as objdump prints it,
// but that addresses begin with 0x, and that targets in the same procedure come without its name.
func (im *Image) Text(a Addr) string {
	r := im.region(a)
	if r == nil {
		return ""
	}
	code := im.code(a, min(a+15, r.hi))
	if im.Arch == AArch64 {
		return im.armText(code, a)
	}
	var d x86
	in := d.inst(code, a)
	if in.Class&Bad == 0 {
		known, name := standIn(&d, code[:in.Len])
		if inst, err := x86asm.Decode(known, 64); err == nil && inst.Op != 0 && inst.Len == len(known) {
			return im.x86Text(&d, &inst, in, name)
		}
	}
	if text := unlisted[string(code[:in.Len])]; text != "" {
		return text
	}
	return rawBytes(code[:in.Len])
}

// unlisted are instructions without operands that x86asm does not know.
var unlisted = map[string]string{
	"\xf3\x0f\x1e\xfa": "endbr64", "\xf3\x0f\x1e\xfb": "endbr32", "\x0f\x01\xee": "rdpkru", "\x0f\x01\xef": "wrpkru",
	"\x0f\x01\xca": "clac", "\x0f\x01\xcb": "stac", "\x0f\x01\xd5": "xend", "\x0f\x01\xd6": "xtest", "\x0f\x01\xfa": "monitorx", "\x0f\x01\xfb": "mwaitx",
}

// standIn returns an instruction that x86asm knows and that has the operands of one that it does
// not, with the mnemonic of that: adcx and adox are adc to it.
func standIn(d *x86, code []byte) (known []byte, mnemonic string) {
	if d.vex || d.op != map38|0xf6 || d.pfx&(pfx66|pfxF3) == 0 {
		return code, ""
	}
	mnemonic = "adcx"
	if d.pfx&pfxF3 != 0 {
		mnemonic = "adox"
	}
	i := bytes.Index(code, []byte{0x0f, 0x38, 0xf6})
	if d.rex != 0 {
		known = append(known, d.rex)
	}
	return append(append(known, 0x13), code[i+3:]...), mnemonic
}

// x86Text prints an instruction that both decoders know. x86asm follows an older objdump, and
// leaves out or folds what an assembler can do without; its text says which operands there are,
// and those that are no registers are written anew. name is the mnemonic, if x86asm has another.
func (im *Image) x86Text(d *x86, inst *x86asm.Inst, in Inst, name string) string {
	mnemonic, args := splitGNU(x86asm.GNUSyntax(*inst, uint64(in.Addr), nil))
	mnemonic = cmp.Or(name, mnemonic)
	comment := ""
	for i, arg := range args {
		switch m := memoryOperand.FindStringSubmatch(arg); {
		case in.Target != 0 && i == len(args)-1:
			args[i] = im.target(in)
		case arg != "" && arg[0] == '$':
			args[i] = d.immediateText(arg)
		case strings.HasPrefix(arg, "-") && !d.hasRM: // movabs of an absolute address
			if n, err := strconv.ParseInt(arg, 0, 64); err == nil {
				args[i] = fmt.Sprintf("%#x", uint64(n))
			}
		case m != nil && d.mem:
			seg := m[2]
			if seg != "" && d.pfx&pfxSeg == 0 {
				if !d.vex { // bytes of its prefix may look like these
					mnemonic = paddedBy(seg[1:3], mnemonic)
				}
				seg = ""
			}
			disp := displacement(inst)
			args[i] = m[1] + seg + d.memoryText(disp, m[3]) + m[4]
			if d.base == ripReg {
				comment = im.comment(in.Addr + Addr(in.Len) + Addr(disp))
			}
		}
	}
	mnemonic, args = d.gnuToday(mnemonic, args)
	return strings.TrimSpace(mnemonic+" "+strings.Join(args, ",")) + comment
}

// memoryOperand is one in GNUSyntax: a star, a segment, a displacement, registers in parentheses,
// and what AVX-512 adds in braces. It may be empty: address 0.
var memoryOperand = regexp.MustCompile(`^(\*?)((?:%[c-g]s:|%ss:)?)(?:-?0x[0-9a-f]+)?((?:\([^)]*\))?)((?:\{[^}]*\})*)$`)

// paddedBy puts the word of a prefix that changes nothing before a mnemonic.
func paddedBy(prefix, mnemonic string) string {
	i := strings.LastIndexByte(mnemonic, ' ') + 1
	return mnemonic[:i] + prefix + " " + mnemonic[i:]
}

// splitGNU divides the text of an instruction into its mnemonic, with prefixes, and its operands.
func splitGNU(text string) (mnemonic string, args []string) {
	// A space stands before braces of AVX-512 too, and an operand may be empty.
	text = strings.ReplaceAll(text, " {", "{")
	i := 0
	for i < len(text) && 'a' <= text[i] && text[i] <= 'z' {
		n := strings.IndexByte(text[i:], ' ')
		if n < 0 {
			return text, nil
		}
		i += n + 1
	}
	mnemonic, text = text[:i-1], text[i:]
	depth, from := 0, 0
	for i := range len(text) {
		switch text[i] {
		case '(':
			depth++
		case ')':
			depth--
		case ',':
			if depth == 0 {
				args, from = append(args, text[from:i]), i+1
			}
		}
	}
	return mnemonic, append(args, text[from:])
}

// displacement of the memory operand. x86asm has those of 32 bits without their sign, but
// scales those of EVEX.
func displacement(inst *x86asm.Inst) int64 {
	for _, a := range inst.Args {
		if m, ok := a.(x86asm.Mem); ok {
			return int64(int32(m.Disp))
		}
	}
	return 0
}

// memoryText writes the memory operand that ModRM encodes. Displacements that the code has are
// shown, if they are 0 too. A vector of indices is as x86asm has it.
func (d *x86) memoryText(disp int64, registers string) string {
	withSIB := d.modrm&7 == 4
	if d.base == noReg && d.index == noReg && (!withSIB || d.scale == 0) {
		return fmt.Sprintf("%#x", uint64(disp))
	}
	text := ""
	if d.modrm>>6 != 0 || d.base == ripReg || d.base == noReg {
		text = strings.Replace(fmt.Sprintf("0x%x", disp), "0x-", "-0x", 1)
	}
	if !strings.Contains(registers, "mm") {
		registers = "(" + d.baseName()
		if withSIB && !(d.index == noReg && d.base&7 == rsp && d.scale == 0) {
			registers += "," + d.indexName() + "," + strconv.Itoa(1<<d.scale)
		}
		registers += ")"
	} else if strings.Count(registers, ",") == 1 {
		registers = registers[:len(registers)-1] + ",1)"
	}
	return text + registers
}

var addressRegisters = [16]string{"ax", "cx", "dx", "bx", "sp", "bp", "si", "di", "8", "9", "10", "11", "12", "13", "14", "15"}

func (d *x86) baseName() string {
	switch d.base {
	case noReg:
		return ""
	case ripReg:
		return d.addressRegister("ip", 0)
	}
	return d.addressRegister(addressRegisters[d.base], d.base)
}

func (d *x86) indexName() string {
	if d.index == noReg {
		return d.addressRegister("iz", 0) // there is none
	}
	return d.addressRegister(addressRegisters[d.index], d.index)
}

// addressRegister names a register of 64 bits, or of 32 with the prefix for these.
func (d *x86) addressRegister(name string, n int8) string {
	switch {
	case d.pfx&pfx67 == 0:
		return "%r" + name
	case n >= 8:
		return "%r" + name + "d"
	}
	return "%e" + name
}

// immediateText writes an immediate with as many bits as the operation has.
func (d *x86) immediateText(arg string) string {
	n, err := strconv.ParseInt(arg[1:], 0, 64)
	if err != nil {
		return arg
	}
	return fmt.Sprintf("$%#x", uint64(n)&d.immediateMask())
}

func (d *x86) immediateMask() uint64 {
	switch op := d.op; {
	case d.vex || op>>8 != 0, // one byte in all other maps
		op < 0x40 && op&1 == 0, op == 0x80, op == 0xa8, 0xb0 <= op && op < 0xb8, op == 0xc0, op == 0xc1, op == 0xc6, op == 0xf6, op >= 0xcd && op < 0xf0:
		return 0xff
	case op == 0xc2, op == 0xca, op == 0xc8:
		return 0xffff
	case op == 0x68, op == 0x6a, d.rex&8 != 0:
		return 1<<64 - 1
	case d.pfx&pfx66 != 0:
		return 0xffff
	}
	return 1<<32 - 1
}

// gnuToday puts right what binutils writes otherwise since x86asm's time.
func (d *x86) gnuToday(mnemonic string, args []string) (string, []string) {
	i := strings.LastIndexByte(mnemonic, ' ') + 1
	before, last := prefixesToday.Replace(mnemonic[:i]), mnemonic[i:]
	if !repeated[strings.TrimRight(last, "bwlq")] {
		before = strings.ReplaceAll(before, "rep ", "repz ")
	}
	switch w := todayWords[last]; {
	case last == "movsxd" && d.rex&8 == 0:
	case w != "":
		last = w
	case sizeless[strings.TrimRight(last, "lq")]:
		last = strings.TrimRight(last, "lq")
	case last == "mov" && (0xb8 <= d.op && d.op < 0xc0 && d.rex&8 != 0 || 0xa0 <= d.op && d.op < 0xa4):
		last = "movabs"
	case last == "nop" && strings.HasSuffix(before, "data16 "):
		before, last, args = strings.TrimSuffix(before, "data16 "), "xchg", []string{"%ax", "%ax"}
	case d.op>>8 == 0 && 0xd8 <= d.op && d.op <= 0xdf:
		last = d.floatToday(last, args)
	case d.vex && len(args) == 4:
		last, args = namedPredicate(last, args)
	}
	if d.class&(IndJump|IndCall) != 0 && strings.HasSuffix(before, "ds ") {
		before = strings.TrimSuffix(before, "ds ") + "notrack "
	}
	return before + last, args
}

// prefixesToday are the words for prefixes that have changed.
var prefixesToday = strings.NewReplacer("data32 ", "data16 ", "repn ", "repnz ")

// repeated are instructions that a prefix repeats without a condition.
var repeated = map[string]bool{"ins": true, "outs": true, "movs": true, "lods": true, "stos": true}

// todayWords are mnemonics by what x86asm says.
var todayWords = map[string]string{
	"callq": "call", "jmpq": "jmp", "retq": "ret", "lcallq": "lcall", "ljmpq": "ljmp", "lretq": "lret",
	"enterq": "enter", "leaveq": "leave", "pushq": "push", "popq": "pop", "pushfq": "pushf", "popfq": "popf",
	"movsxd": "movslq", "cdqe": "cltq", "xbeginq": "xbegin", "icebp": "int1",
}

// floatToday is gnuToday for the x87: integers of 16 bits have their letter, and the top of the
// stack its number where it is the operand that could be another.
func (d *x86) floatToday(mnemonic string, args []string) string {
	if !d.mem && len(args) > 0 && args[0] == "%st" && (len(args) == 1 || args[1] == "%st") {
		args[0] = "%st(0)"
	}
	if d.mem && (d.op == 0xde || d.op == 0xdf && d.modrm>>3&7 < 4) && !strings.HasSuffix(mnemonic, "s") {
		mnemonic += "s"
	}
	return mnemonic
}

// sizeless are instructions whose size is that of their registers, without a letter.
var sizeless = map[string]bool{"andn": true, "bextr": true, "blsi": true, "blsmsk": true, "blsr": true, "bzhi": true, "mulx": true,
	"pdep": true, "pext": true, "rorx": true, "sarx": true, "shlx": true, "shrx": true}

// namedPredicate puts the predicate of an AVX-512 comparison of integers, or the halves of a
// carry-less product, into the mnemonic; x86asm has a number as the first operand.
func namedPredicate(mnemonic string, args []string) (string, []string) {
	names, before := map[string]string{}, ""
	switch {
	case strings.HasPrefix(mnemonic, "vpcmp"):
		names, before = map[string]string{"$0x0": "eq", "$0x1": "lt", "$0x2": "le", "$0x4": "neq", "$0x5": "nlt", "$0x6": "nle"}, "vpcmp"
	case mnemonic == "vpclmulqdq":
		names, before = map[string]string{"$0x0": "lql", "$0x1": "hql", "$0x10": "lqh", "$0x11": "hqh"}, "vpclmul"
	}
	if name := names[args[0]]; name != "" {
		return before + name + strings.TrimPrefix(mnemonic, before), args[1:]
	}
	return mnemonic, args
}

// target shows where a direct branch or call leads.
func (im *Image) target(in Inst) string {
	if i := im.Find(in.Target); i >= 0 && i == im.Find(in.Addr) && in.Target != im.symbols[i].Addr {
		return fmt.Sprintf("%#x", uint64(in.Target))
	}
	return im.place(in.Target)
}

// comment shows the address of an operand that is relative to the instruction.
func (im *Image) comment(a Addr) string { return "  # " + im.place(a) }

// place shows an address, and the procedure, the import or the variable that is there.
func (im *Image) place(a Addr) string {
	name, base := "", a
	if i := im.Find(a); i >= 0 {
		name, base = im.symbols[i].Name, im.symbols[i].Addr
	} else if got := im.importAt(a); got != "" {
		name = got + "@got"
	} else if o, ok := im.objectAt(a); ok {
		name, base = o.name, o.lo
	}
	switch name = DemangleShort(name); {
	case name == "":
		return fmt.Sprintf("%#x", uint64(a))
	case a == base:
		return fmt.Sprintf("%#x <%s>", uint64(a), name)
	}
	return fmt.Sprintf("%#x <%s+%#x>", uint64(a), name, uint64(a-base))
}

func (im *Image) armText(code []byte, a Addr) string {
	if len(code) < 4 {
		return rawBytes(code)
	}
	inst, err := arm64asm.Decode(code)
	if err != nil || inst.Op == 0 {
		return fmt.Sprintf(".inst 0x%08x", binary.LittleEndian.Uint32(code))
	}
	text := strings.TrimRight(arm64asm.GNUSyntax(inst), " ")
	if hint := armHints[text]; hint != "" {
		return hint
	}
	if m := armPlace.FindStringSubmatch(text); m != nil {
		off, err := strconv.ParseUint(m[2], 0, 64) // negative ones are above 2^63
		switch in := armInst(code, a); {
		case err != nil:
		case in.Target != 0:
			return m[1] + im.target(in)
		case inst.Op == arm64asm.ADRP:
			return m[1] + fmt.Sprintf("%#x", uint64(a&^0xfff+Addr(off)))
		default:
			return m[1] + im.place(a+Addr(off))
		}
	}
	if inst.Op == arm64asm.MRS || inst.Op == arm64asm.MSR {
		text = threadPointer.Replace(text)
	}
	return spacedBrackets(text)
}

// armHints are the hints that protect returns and indirect branches.
var armHints = map[string]string{"hint #0x7": "xpaclri", "hint #0x19": "paciasp", "hint #0x1d": "autiasp",
	"hint #0x20": "bti", "hint #0x22": "bti c", "hint #0x24": "bti j", "hint #0x26": "bti jc"}

// armPlace is an operand relative to the instruction, or for adrp to its page.
var armPlace = regexp.MustCompile(`^(.*)\.\+(0x[0-9a-f]+)$`)

// threadPointer has the system registers that programs read most, by the names that objdump knows.
var threadPointer = strings.NewReplacer("s3_3_c13_c0_2", "tpidr_el0", "s3_3_c4_c4_0", "fpcr", "s3_3_c4_c4_1", "fpsr", "s3_3_c0_c0_7", "dczid_el0")

// spacedBrackets has a space after each comma, as objdump has them; x86asm's sister has none in
// memory operands and behind them.
func spacedBrackets(text string) string {
	i := strings.IndexByte(text, '[')
	if i < 0 {
		return text
	}
	return text[:i] + strings.ReplaceAll(strings.ReplaceAll(text[i:], ", ", ","), ",", ", ")
}

// rawBytes shows what is not known to disassemble as the assembler's data.
func rawBytes(b []byte) string {
	parts := make([]string, len(b))
	for i, c := range b {
		parts[i] = fmt.Sprintf("0x%02x", c)
	}
	return ".byte " + strings.Join(parts, ",")
}
