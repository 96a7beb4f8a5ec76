package perfdata

import (
	"fmt"
	"math/bits"
	"strings"

	"backfeed/sample"
	"backfeed/sample/unwind"
)

// Values of misc, from include/uapi/linux/perf_event.h.
const (
	miscModeMask      = 7 << 0
	modeKernel        = 1
	modeUser          = 2
	modeHypervisor    = 3
	modeGuestKernel   = 4
	modeGuestUser     = 5
	miscMapsTimeout   = 1 << 12      // of MMAP2: perf gave up on /proc/PID/maps
	miscExec          = 1 << 13      // of COMM
	miscSyntheticFork = 1 << 13      // of FORK: perf's, of a process that was there before
	miscMapBuildID    = 1 << 14      // of MMAP2
	miscBuildIDSize   = 1 << 15      // of HEADER_BUILD_ID
	miscLostByBPF     = 1 << 15      // of LOST_SAMPLES: filtered out, not lost
	contextMax        = 1<<64 - 4095 // least of the values that mark contexts in a callchain
	contextUser       = 1<<64 - 512
	mapHugeTLB        = 0x40000 // of MMAP2's flags
	noPID             = -1
	branchEntrySize   = 24
)

// An entry is what is kept of a record until its turn comes.
type entry struct {
	time uint64 // 0 if it has none
	typ  recordType
	misc uint16
	ev   *event // that took the sample or lost it
	pid  int
	tid  int // of a SAMPLE, COMM, FORK or EXIT

	// of a SAMPLE
	ip       uint64
	cpu      int       // -1 if it is not known
	cgroup   uint64    // its number; 0 if it is not known
	weight   uint64    // PERIOD
	stack    bool      // chain is known, though it may be empty
	chain    []uint64  // return addresses in user mode, innermost first
	top      [2]uint64 // words at the stack pointer; 0 where they are not known
	regs     unwind.Place
	dump     []byte   // of the stack, from regs.SP on; none if it or these are not known
	branches []uint64 // from, to, flags of each, newest first
	reads    []uint64 // ID and value of each counter that was read, also of a READ
	spell    spell    // of these, if timed
	timed    bool

	interrupted uint64 // where the chain begins in user mode; 0 if it does not
	fpe         bool   // raw data as of a signal of arithmetic, with si_code code
	code        int32

	parent  int            // of a FORK
	begun   int            // of a FORK, the thread that forked
	name    string         // of a COMM
	mapping sample.Mapping // of an MMAP or MMAP2
	n       uint64         // of a LOST or LOST_SAMPLES
}

// mode returns the processor's mode that a record tells of.
func (e *entry) mode() uint16 { return e.misc & miscModeMask }

// decodeSample reads a SAMPLE record. Its fields come in the order of
// perf_output_sample in kernel/events/core.c, which is that of the comment in
// the UAPI header but for AUX, the last. Stacks are kept if dumps says so: they take most of
// the memory. It returns how many bytes were left over.
func decodeSample(c *cursor, a *attr, depth int, dumps bool, e *entry) (rest int, err error) {
	st := a.sampleType
	e.pid, e.tid, e.cpu = noPID, noPID, noPID
	if st&hasIdentifier != 0 {
		c.u64("identifier")
	}
	if st&hasIP != 0 {
		e.ip = c.u64("ip")
	}
	if st&hasTID != 0 {
		e.pid = int(int32(c.u32("pid")))
		e.tid = int(int32(c.u32("tid")))
	}
	if st&hasTime != 0 {
		e.time = c.u64("time")
	}
	c.bytes(8*uint64(bits.OnesCount64(st&(hasAddr|hasID|hasStreamID))), "addr, id, stream_id")
	if st&hasCPU != 0 {
		e.cpu = int(int32(c.u32("cpu")))
		c.u32("res")
	}
	if st&hasPeriod != 0 {
		e.weight = c.u64("period")
	} else if a.flags&flagFreq == 0 {
		e.weight = a.period
	}
	if st&hasRead != 0 {
		decodeRead(c, a.readFormat, e)
	}
	if st&hasCallchain != 0 {
		n := c.u64("callchain length")
		decodeChain(c, c.array(n, 8, "callchain"), depth, e)
	}
	if st&hasRaw != 0 {
		raw := c.bytes(uint64(c.u32("raw size")), "raw")
		if a.typ == typeTracepoint {
			decodeSignal(raw, c.big, e)
		}
	}
	if st&hasBranches != 0 {
		decodeBranches(c, a, e)
	}
	known := decodeTail(c, a, depth, dumps, e)
	if c.err != nil || !known {
		return 0, c.err
	}
	return len(c.b) - c.off, nil
}

// decodeRead takes the counters of a group, or of a single event, and how long they counted.
//
//	{ u64 value; } or { u64 number; } of a group
//	{ u64 enabled; }  if readEnabled
//	{ u64 running; }  if readRunning
//	{ u64 value; }    of each counter of a group
//	{ u64 id; }       if readID, after each value
//	{ u64 lost; }     if readLost, after that
func decodeRead(c *cursor, format uint64, e *entry) {
	const bothTimes = readEnabled | readRunning
	each := 1 + uint64(bits.OnesCount64(format&(readID|readLost)))
	first := c.u64("read value or length")
	if format&readEnabled != 0 {
		e.spell.enabled = c.u64("read time enabled")
	}
	if format&readRunning != 0 {
		e.spell.running = c.u64("read time running")
	}
	e.timed = format&bothTimes == bothTimes
	if format&readGroup == 0 {
		b := c.bytes(8*(each-1), "read ID")
		if format&readID != 0 && len(b) >= 8 {
			e.reads = append(e.reads, order(c.big).Uint64(b), first)
		}
		return
	}
	b := c.array(first, 8*each, "read values")
	if format&readID == 0 { // nobody knows of what
		return
	}
	bo := order(c.big)
	for ; len(b) > 0; b = b[8*each:] {
		e.reads = append(e.reads, bo.Uint64(b[8:]), bo.Uint64(b))
	}
}

// decodeChain takes the part of a callchain that is in user mode, at most depth
// frames. It begins with the interrupted instruction, which is not a return
// address, and with precise events not the sampled one either.
func decodeChain(c *cursor, b []byte, depth int, e *entry) {
	if depth == 0 {
		return
	}
	bo := order(c.big)
	user := e.mode() == modeUser // if no marker says otherwise
	leaf := true
	for ; len(b) >= 8; b = b[8:] {
		pc := bo.Uint64(b)
		switch {
		case pc >= contextMax:
			user, leaf = pc == contextUser, true
		case !user:
		case leaf:
			e.stack, leaf, e.interrupted = true, false, pc
		case len(e.chain) < depth-1:
			e.chain = append(e.chain, pc)
		}
	}
}

// Flags of a branch, as on a little-endian machine, from struct
// perf_branch_entry; perf's own not-taken flag is in its branch.h.
const (
	branchMispredicted = 1 << 0
	branchAbort        = 1 << 3
	branchSpecShift    = 24
	branchNotTaken     = 1 << 33
	specWrongPath      = 1
)

// decodeBranches takes the branch stack of a sample.
func decodeBranches(c *cursor, a *attr, e *entry) {
	n := c.u64("branch stack length")
	if a.branchType&branchHwIndex != 0 {
		c.u64("branch stack hw_idx")
	}
	b := cursor{b: c.array(n, branchEntrySize, "branch stack"), big: c.big}
	if a.branchType&branchCounters != 0 {
		c.array(n, 8, "branch counters")
	}
	if c.err != nil || a.branchType&branchCallStack != 0 { // calls still open, not branches in a row
		return
	}
	for b.off < len(b.b) {
		from, to, flags := b.u64("from"), b.u64("to"), b.u64("flags")
		spec := flags >> branchSpecShift & 3
		if c.big { // bit fields begin at the other end, each with its highest bit
			spec = flags >> (64 - 2 - branchSpecShift) & 3
			flags = bits.Reverse64(flags)
		}
		if spec == specWrongPath || flags&branchNotTaken != 0 {
			continue // it did not happen
		}
		if flags&branchAbort != 0 {
			from = 0 // where a transaction failed is no branch
		}
		e.branches = append(e.branches, from, to, flags&branchMispredicted)
	}
}

// decodeTail passes over the fields after the branch stack, but for what tells of callers, and reports whether it knew them all.
func decodeTail(c *cursor, a *attr, depth int, dumps bool, e *entry) (known bool) {
	st := a.sampleType
	known = st&^knownSampleType == 0
	if st&hasRegsUser != 0 {
		known = userRegs(c, a.regsUser, e) && known
		if st&hasStackUser == 0 && depth > 1 {
			// perf record -g has it on AArch64: of a procedure without a frame it is the caller, which frame pointers do not lead to.
			e.top[0] = e.regs.LR & unwind.AddressBits
		}
	}
	if st&hasStackUser != 0 {
		n := c.u64("user stack size")
		b := c.bytes(n, "user stack")
		if n > 0 {
			used := c.u64("user stack size used")
			b = b[:min(used, uint64(len(b)))]
		}
		if dumps && depth > 1 && e.regs.SP != 0 && !c.big {
			e.keepDump(b)
		}
		for i := range e.top {
			if depth > 1 && len(b) >= 8 && !e.regs.AArch64 { // where return addresses are in a register first
				e.top[i] = order(c.big).Uint64(b)
				b = b[8:]
			}
		}
	}
	if st&(hasWeight|hasWeightStruct) != 0 {
		c.u64("weight")
	}
	c.bytes(8*uint64(bits.OnesCount64(st&(hasDataSrc|hasTransaction))), "data_src, transaction")
	if st&hasRegsIntr != 0 {
		_, ok := readRegs(c, a.regsIntr, "interrupted registers")
		known = ok && known
	}
	if st&hasPhysAddr != 0 {
		c.u64("phys_addr")
	}
	if st&hasCgroup != 0 {
		e.cgroup = c.u64("cgroup")
	}
	c.bytes(8*uint64(bits.OnesCount64(st&(hasDataPageSize|hasCodePageSize))), "page sizes")
	if st&hasAux != 0 {
		c.bytes(c.u64("aux size"), "aux")
	}
	return known
}

// Registers are the numbers of those that unwinding needs, from arch/x86/include/uapi/asm/perf_regs.h and
// arch/arm64/include/uapi/asm/perf_regs.h.
type registers struct{ fp, lr, sp, pc int }

var (
	x86Regs = registers{fp: 6, lr: -1, sp: 7, pc: 8}
	armRegs = registers{fp: 29, lr: 30, sp: 31, pc: 32}
)

// x86RegsEnd is where numbers of x86-64 end for user mode. Those from there to 31, where AArch64 has some, are nobody's.
const x86RegsEnd = 24

// userRegs takes the registers of a thread in user mode that unwinding needs, if all are there. Whose they are is seen by their numbers.
func userRegs(c *cursor, mask uint64, e *entry) (known bool) {
	b, known := readRegs(c, mask, "user registers")
	if b == nil {
		return known
	}
	n, arm := &x86Regs, mask>>armRegs.sp&1 != 0
	if arm { // also if not all are there
		n, e.regs.AArch64 = &armRegs, true
	}
	reg := func(n int) uint64 { return order(c.big).Uint64(b[8*bits.OnesCount64(mask&(1<<n-1)):]) }
	if mask>>armRegs.lr&1 != 0 { // also if it is alone
		e.regs.LR = reg(armRegs.lr)
	}
	need := uint64(1<<n.fp | 1<<n.sp | 1<<n.pc)
	if arm {
		need |= 1 << n.lr
	}
	if mask&need != need || !arm && mask >= 1<<x86RegsEnd {
		return known
	}
	e.regs = unwind.Place{PC: reg(n.pc), SP: reg(n.sp), FP: reg(n.fp), LR: e.regs.LR, AArch64: arm}
	return known
}

// readRegs passes over a set of registers, and returns them if they are of 64 bits. ABIs above that
// announce more fields than are known here.
func readRegs(c *cursor, mask uint64, field string) (b []byte, known bool) {
	const abi64 = 2 // PERF_SAMPLE_REGS_ABI_64
	abi := c.u64(field)
	if abi != 0 {
		b = c.bytes(8*uint64(bits.OnesCount64(mask)), field)
	}
	if abi != abi64 {
		b = nil
	}
	return b, abi <= abi64
}

// decodeMmap reads an MMAP or MMAP2 record, whose trailer c leaves out.
//
//	offset  size  field, the 8 bytes of the record's header not counted
//	0       8     pid, tid
//	8       8     address
//	16      8     length
//	24      8     offset in the file
//	32      24    of MMAP2: maj, min, ino, ino_generation
//	56      8     of MMAP2: prot, flags
//	64      -     file name; of MMAP it is at 32
//
// With miscMapBuildID, 32 is the size of the build ID in a byte, and 36 its 20 bytes.
// An event that did not ask for build IDs may get that flag nevertheless, with the
// device and inode as ever: perf_event_mmap_output of kernel/events/core.c leaves it
// set after an event of somebody else that asked (seen on 6.18). The size is then
// the major number of a device, and none for files is 16 or 20, the sizes that perf
// gives the build IDs which it puts into records itself.
func decodeMmap(c *cursor, asked bool, e *entry) error {
	e.pid = int(int32(c.u32("pid")))
	c.u32("tid")
	start, size, off := c.u64("address"), c.u64("length"), c.u64("offset")
	var id sample.BuildID
	var flags uint32
	if e.typ == recordMmap2 {
		b := c.bytes(24, "device and inode")
		if c.err == nil && e.misc&miscMapBuildID != 0 {
			n := int(b[0])
			switch {
			case !asked && n != 16 && n != 20:
			case n > len(id):
				return fmt.Errorf("build ID: %d bytes, more than %d: %w", n, len(id), ErrFormat)
			default:
				copy(id[:n], b[4:])
			}
		}
		c.u32("prot")
		flags = c.u32("flags")
	}
	name := c.string("filename")
	if c.err != nil {
		return c.err
	}
	if start+size < start {
		return fmt.Errorf("length: %#x bytes at %#x, past the end of the address space: %w", size, start, ErrFormat)
	}
	e.mapping = sample.Mapping{Start: start, End: start + size, Off: sample.Offset(off)}
	e.mapping.Image, e.mapping.Loss = mapped(name, id, flags)
	return nil
}

// mapped reports what a mapping of that name is: an image, or else why samples in
// it have none. Which names are not of files, is_anon_memory and
// is_no_dso_memory in perf's map.h know.
func mapped(name string, id sample.BuildID, flags uint32) (sample.ImageID, sample.Loss) {
	switch {
	case strings.HasPrefix(name, "[vdso") || strings.HasPrefix(name, "[vsyscall") || strings.HasPrefix(name, "[vvar"):
		return sample.ImageID{}, sample.LostVDSO
	case !id.IsZero():
		// What the path leads to now need not be what was deleted, but whoever
		// looks there will compare build IDs.
		return sample.ImageID{Build: id, Path: strings.TrimSuffix(name, " (deleted)")}, ""
	case name == "" || name == "//anon" || flags&mapHugeTLB != 0:
		return sample.ImageID{}, sample.LostAnonymous
	}
	for _, prefix := range []string{"[", "/dev/zero", "/anon_hugepage", "/SYSV", "/memfd:", "anon_inode:"} {
		if strings.HasPrefix(name, prefix) {
			return sample.ImageID{}, sample.LostAnonymous
		}
	}
	return sample.ImageID{Path: name}, ""
}

// decodeReadRecord reads a READ record: u32 pid, u32 tid of the thread that ended, and what its counters had.
func decodeReadRecord(c *cursor, e *entry) error {
	e.pid, e.tid = int(int32(c.u32("pid"))), int(int32(c.u32("tid")))
	decodeRead(c, e.ev.readFormat, e)
	return c.err
}

// decodeTask reads a FORK or EXIT record.
func decodeTask(c *cursor, e *entry) error {
	e.pid = int(int32(c.u32("pid")))
	e.parent = int(int32(c.u32("ppid")))
	e.tid = int(int32(c.u32("tid")))
	e.begun = int(int32(c.u32("ptid")))
	c.u64("time")
	return c.err
}

// decodeComm reads a COMM record: u32 pid, u32 tid, name.
func decodeComm(c *cursor, e *entry) error {
	e.pid = int(int32(c.u32("pid")))
	e.tid = int(int32(c.u32("tid")))
	if c.err == nil && c.off < len(c.b) { // old files cut the name
		e.name = c.string("name")
		e.name = e.name[:min(len(e.name), maxName)]
	}
	return c.err
}

// maxName bounds the name of a thread, in bytes: more than Linux keeps, 15.
const maxName = 64
