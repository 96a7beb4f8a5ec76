package image

import "backfeed/sample/trace"

// vectorForm is how the operands of a vector instruction are written.
type vectorForm struct {
	vex   bool
	bytes uint8 // of a vector: 16 or 32
	first uint8 // first source: the register that VEX names, or the destination
}

// rest is how many bytes of the destination are written by what loads less.
func (v vectorForm) rest() uint8 {
	if v.vex {
		return 32
	}
	return 16
}

// A vectorWalk is what walks take an opcode after 0F for, with some prefixes: moves of vector
// registers, and what compilers and libraries look for bytes with.
type vectorWalk struct {
	opcode uint8
	when   mandatory
	mem    vectorArgs // with an operand in memory; nil is not emulated
	reg    vectorArgs // with registers alone
}

// vectorArgs make o the operation; false: not emulated.
type vectorArgs func(d *x86, o *x86Op, v vectorForm) bool

// mandatory is a set of prefixes that are part of an opcode: a bit for each combination of 66,
// F2 and F3, of which the number has bits 0, 1 and 2. Processors refuse both F2 and F3, which
// only VEX makes possible.
type mandatory uint8

const (
	withNone mandatory = 1 << 0b000
	with66   mandatory = 1 << 0b001
	withF2   mandatory = 1 << 0b010
	with66F2 mandatory = 1 << 0b011
	withF3   mandatory = 1 << 0b100

	anyOf66 mandatory = 0b10101010
	anyOfF2 mandatory = 0b11001100
	anyOfF3 mandatory = 0b11110000
	noRepF            = withNone | with66
	always  mandatory = 0b11111111
)

// mandatory returns the prefixes that d has.
func (d *x86) mandatory() mandatory {
	return 1 << (d.pfx&pfx66/pfx66 | d.pfx&pfxF2/pfxF2<<1 | d.pfx&pfxF3/pfxF3<<2)
}

// Sizes of what is moved that the instruction says.
const (
	wholeVector = 0
	generalWord = 1 // of a general register: 4 or 8 bytes
)

// vectorSize returns size, or what it stands for.
func (d *x86) vectorSize(size uint8, v vectorForm) uint8 {
	switch {
	case size == wholeVector:
		return v.bytes
	case size == generalWord && d.rex&8 != 0:
		return 8
	case size == generalWord:
		return 4
	}
	return size
}

// vectorWalks: of the rows of an opcode, the first that fits counts. What has none is not
// emulated: without 66 or F3, 6E, 6F, 7F, D6 and the like are of MMX.
var vectorWalks = []vectorWalk{
	{0x10, noRepF, vload(wholeVector), vmove(wholeVector)}, // movups, movupd
	{0x11, noRepF, vstore(wholeVector), vmoveBack(wholeVector)},
	{0x10, anyOfF3, vload(4), vmoveLow(4)}, // movss
	{0x11, anyOfF3, vstore(4), vmoveLowBack(4)},
	{0x10, anyOfF2, vload(8), vmoveLow(8)}, // movsd
	{0x11, anyOfF2, vstore(8), vmoveLowBack(8)},
	{0x12, withNone, vloadHalf(trace.X86VloadLow), movhlps}, // movlps
	{0x12, with66, vloadHalf(trace.X86VloadLow), nil},       // movlpd
	{0x12, withF2, nil, movddup},
	{0x16, noRepF, vloadHalf(trace.X86Vhigh), movlhps}, // movhps
	{0x13, always, vstore(8), nil},
	{0x17, always, vstoreHigh, nil},
	{0x28, always, vload(wholeVector), vmove(wholeVector)}, // movaps
	{0x29, always, vstore(wholeVector), vmoveBack(wholeVector)},
	{0x6f, anyOf66 | anyOfF3, vload(wholeVector), vmove(wholeVector)}, // movdqa, movdqu
	{0x7f, anyOf66 | anyOfF3, vstore(wholeVector), vmoveBack(wholeVector)},
	{0x2b, noRepF, vstore(wholeVector), nil}, // movntps
	{0xe7, with66, vstore(wholeVector), nil}, // movntdq
	{0x6e, anyOf66, vload(generalWord), vfrom},
	{0x7e, anyOfF3, vload(8), vmove(8)}, // movq
	{0x7e, with66 | with66F2, vstore(generalWord), vto},
	{0xd6, anyOf66, vstore(8), vmoveBack(8)},
	{0xd7, anyOf66, nil, vmask},
	{0x77, always, vzeroupper, vzeroupper},

	{0x54, noRepF, lanes(trace.X86Vand), lanes(trace.X86Vand)}, // andps and the like
	{0x55, noRepF, lanes(trace.X86Vandn), lanes(trace.X86Vandn)},
	{0x56, noRepF, lanes(trace.X86Vor), lanes(trace.X86Vor)},
	{0x57, noRepF, lanes(trace.X86Vxor), lanes(trace.X86Vxor)},
	{0xdb, anyOf66, lanes(trace.X86Vand), lanes(trace.X86Vand)},
	{0xdf, anyOf66, lanes(trace.X86Vandn), lanes(trace.X86Vandn)},
	{0xeb, anyOf66, lanes(trace.X86Vor), lanes(trace.X86Vor)},
	{0xef, anyOf66, lanes(trace.X86Vxor), lanes(trace.X86Vxor)},
	{0x74, anyOf66, lanes(trace.X86Vcmpb), lanes(trace.X86Vcmpb)},
	{0x75, anyOf66, lanes(trace.X86Vcmpw), lanes(trace.X86Vcmpw)},
	{0x76, anyOf66, lanes(trace.X86Vcmpd), lanes(trace.X86Vcmpd)},
	{0xda, anyOf66, lanes(trace.X86Vminb), lanes(trace.X86Vminb)},
	{0xfe, anyOf66, lanes(trace.X86Vaddd), lanes(trace.X86Vaddd)},
	{0xfa, anyOf66, lanes(trace.X86Vsubd), lanes(trace.X86Vsubd)},
	{0xd4, anyOf66, lanes(trace.X86Vaddq), lanes(trace.X86Vaddq)},

	{0x60, anyOf66, unpack(1, 0), unpack(1, 0)}, // punpcklbw and the like
	{0x61, anyOf66, unpack(2, 0), unpack(2, 0)},
	{0x62, anyOf66, unpack(4, 0), unpack(4, 0)},
	{0x6c, anyOf66, unpack(8, 0), unpack(8, 0)},
	{0x68, anyOf66, unpack(1, 1), unpack(1, 1)},
	{0x69, anyOf66, unpack(2, 1), unpack(2, 1)},
	{0x6a, anyOf66, unpack(4, 1), unpack(4, 1)},
	{0x6d, anyOf66, unpack(8, 1), unpack(8, 1)},
	{0x14, withNone, unpack(4, 0), unpack(4, 0)}, // unpcklps, unpcklpd, and those of upper halves
	{0x14, with66, unpack(8, 0), unpack(8, 0)},
	{0x15, withNone, unpack(4, 1), unpack(4, 1)},
	{0x15, with66, unpack(8, 1), unpack(8, 1)},
	{0xc6, withNone, nil, shufps},
	{0xc6, with66, nil, shufpd},
	{0x70, with66, shuffle(0), shuffle(0)},           // pshufd
	{0x70, withF2, shuffle(1 << 8), shuffle(1 << 8)}, // pshuflw
	{0x70, withF3, shuffle(1 << 9), shuffle(1 << 9)}, // pshufhw
	{0x73, anyOf66, nil, psrldq},
}

// vectorRows are the indices into vectorWalks by opcode.
var vectorRows = func() (rows [256][]uint8) {
	for i, w := range vectorWalks {
		rows[w.opcode] = append(rows[w.opcode], uint8(i))
	}
	return rows
}()

// walkVector is for what vectorWalks has.
func (d *x86) walkVector(o *x86Op, v vectorForm) bool {
	has := d.mandatory()
	for _, i := range vectorRows[byte(d.op)] {
		w := &vectorWalks[i]
		if w.when&has == 0 {
			continue
		}
		args := w.reg
		if d.mem {
			args = w.mem
		}
		return args != nil && args(d, o, v)
	}
	return false
}

// is makes o an operation on vectors, and returns true.
func (o *x86Op) is(k trace.Kind, to, from, size, cond uint8) bool {
	o.Kind, o.Dst, o.Src, o.Size, o.Cond = k, to, from, size, cond
	return true
}

// vectorFields are the registers of the two fields of ModRM.
func (d *x86) vectorFields() (reg, rm uint8) { return uint8(d.regField()), uint8(d.rmField()) }

// vload loads what is no longer than a vector, the rest of which becomes 0.
func vload(size uint8) vectorArgs {
	return func(d *x86, o *x86Op, v vectorForm) bool {
		return o.is(trace.X86Vload, uint8(d.regField()), trace.X86None, d.vectorSize(size, v), v.rest())
	}
}

func vstore(size uint8) vectorArgs {
	return func(d *x86, o *x86Op, v vectorForm) bool {
		return o.is(trace.X86Vstore, trace.X86None, uint8(d.regField()), d.vectorSize(size, v), 0)
	}
}

// vmove moves to the register of the first field from that of the second, vmoveBack from that of the first.
func vmove(size uint8) vectorArgs {
	return func(d *x86, o *x86Op, v vectorForm) bool {
		reg, rm := d.vectorFields()
		return o.is(trace.X86Vmov, reg, rm, d.vectorSize(size, v), v.rest())
	}
}

func vmoveBack(size uint8) vectorArgs {
	return func(d *x86, o *x86Op, v vectorForm) bool {
		reg, rm := d.vectorFields()
		return o.is(trace.X86Vmov, rm, reg, d.vectorSize(size, v), v.rest())
	}
}

// vmoveLow and vmoveLowBack keep the rest of the register; with VEX it comes from a third one.
func vmoveLow(size uint8) vectorArgs {
	return func(d *x86, o *x86Op, v vectorForm) bool {
		reg, rm := d.vectorFields()
		return !v.vex && o.is(trace.X86VmovLow, reg, rm, size, 0)
	}
}

func vmoveLowBack(size uint8) vectorArgs {
	return func(d *x86, o *x86Op, v vectorForm) bool {
		reg, rm := d.vectorFields()
		return !v.vex && o.is(trace.X86VmovLow, rm, reg, size, 0)
	}
}

// vloadHalf loads one word, and keeps the other; with VEX it comes from a third register.
func vloadHalf(k trace.Kind) vectorArgs {
	return func(d *x86, o *x86Op, v vectorForm) bool {
		return !v.vex && o.is(k, uint8(d.regField()), trace.X86None, 8, 0)
	}
}

func movlhps(d *x86, o *x86Op, v vectorForm) bool {
	reg, rm := d.vectorFields()
	o.Imm = 8
	return !v.vex && o.is(trace.X86Vunpack, reg, rm, 16, reg)
}

// movhlps keeps the upper half: it takes that of the second register, then that of the first.
func movhlps(d *x86, o *x86Op, v vectorForm) bool {
	reg, rm := d.vectorFields()
	o.Imm = 8 | 1<<8
	return !v.vex && o.is(trace.X86Vunpack, reg, reg, 16, rm)
}

func movddup(d *x86, o *x86Op, v vectorForm) bool {
	reg, rm := d.vectorFields()
	o.Imm = 8
	return !v.vex && o.is(trace.X86Vunpack, reg, rm, 16, rm)
}

func vstoreHigh(d *x86, o *x86Op, _ vectorForm) bool {
	return o.is(trace.X86VstoreHigh, trace.X86None, uint8(d.regField()), 8, 0)
}

func vfrom(d *x86, o *x86Op, v vectorForm) bool {
	reg, rm := d.vectorFields()
	o.Flags |= trace.X86ReadsSrc
	return o.is(trace.X86Vfrom, reg, rm, d.vectorSize(generalWord, v), v.rest())
}

func vto(d *x86, o *x86Op, v vectorForm) bool {
	reg, rm := d.vectorFields()
	o.Flags |= trace.X86WritesDst
	return o.is(trace.X86Vto, rm, reg, d.vectorSize(generalWord, v), 0)
}

func vmask(d *x86, o *x86Op, v vectorForm) bool {
	reg, rm := d.vectorFields()
	o.Flags |= trace.X86WritesDst
	return o.is(trace.X86Vmaskb, reg, rm, 4, v.bytes)
}

func vzeroupper(_ *x86, o *x86Op, v vectorForm) bool {
	return v.vex && v.bytes == 16 && o.is(trace.X86Vzeroupper, trace.X86None, trace.X86None, 16, 0)
}

// unpack takes elements of so many bytes in turn, from the lower halves or the upper ones.
func unpack(size, upper int64) vectorArgs {
	return func(d *x86, o *x86Op, v vectorForm) bool {
		if v.bytes != 16 || v.vex {
			return false
		}
		reg, rm := d.vectorFields()
		o.Imm = size | upper<<8
		return o.is(trace.X86Vunpack, reg, rm, 16, v.first)
	}
}

// shuffle is by the immediate and how, of which trace.X86Vshufd says more.
func shuffle(how int64) vectorArgs {
	return func(d *x86, o *x86Op, v vectorForm) bool {
		if v.bytes != 16 || v.vex {
			return false
		}
		reg, rm := d.vectorFields()
		o.Imm = d.imm&0xff | how
		return o.is(trace.X86Vshufd, reg, rm, 16, 0)
	}
}

// shufps takes two double words of the register of the first field and two of the second, in the order of the immediate:
// what is of one register, or of halves, is done as by others.
func shufps(d *x86, o *x86Op, v vectorForm) bool { return d.shuffle2(o, v, d.imm&0xff) }

// shufpd takes a word of each.
func shufpd(d *x86, o *x86Op, v vectorForm) bool {
	const low, high = 0b0100, 0b1110 // the double words of a word
	how := [2]int64{low, high}
	return d.shuffle2(o, v, how[d.imm&1]|how[d.imm>>1&1]<<4)
}

func (d *x86) shuffle2(o *x86Op, v vectorForm, how int64) bool {
	const lower, upper = 0b0100_0100, 0b1110_1110
	switch reg, rm := d.vectorFields(); {
	case v.vex:
		return false
	case reg == rm:
		o.Imm = how
		return o.is(trace.X86Vshufd, reg, rm, 16, 0)
	case how == lower:
		return unpack(8, 0)(d, o, v)
	case how == upper:
		return unpack(8, 1)(d, o, v)
	}
	return false
}

func psrldq(d *x86, o *x86Op, v vectorForm) bool {
	if d.regBits() != 3 || v.vex {
		return false
	}
	_, rm := d.vectorFields()
	o.Imm = min(d.imm&0xff, 16) // more empties it too
	return o.is(trace.X86Vshift, rm, trace.X86None, 16, rm)
}

// lanes is for operations on the elements of two vectors.
func lanes(k trace.Kind) vectorArgs {
	return func(d *x86, o *x86Op, v vectorForm) bool { return d.walkLanes(o, k, v) }
}

func (d *x86) walkLanes(o *x86Op, k trace.Kind, v vectorForm) bool {
	from := uint8(trace.X86None)
	if !d.mem {
		from = uint8(d.rmField())
	}
	if v.vex {
		o.Imm = 1 // what is beyond the vector becomes 0
	}
	return o.is(k, uint8(d.regField()), from, v.bytes, v.first)
}
