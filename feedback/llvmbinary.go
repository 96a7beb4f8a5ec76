package feedback

import (
	"cmp"
	"encoding/binary"
	"io"
	"strings"
)

// The extensible binary format of LLVM 11 and later (SampleProfWriter.cpp).
// Integers are uleb128 where no size is given, and little-endian. A name is its
// index in the name table; strings end with a zero byte.
//
//	size  field
//	-     magic "SPROF42" and a byte 4, as one big-endian number
//	-     version, 103
//	8     number of sections; of each
//	8       type
//	8       flags: 32 bits of all types, 32 bits of its own
//	8       offset in the file
//	8       size
//
//	type  section
//	1     summary: sum, maximum and number of the counts of lines, most entries
//	      of a function, number of functions (in the order: sum, maximum, most
//	      entries, counts, functions); number of cutoffs, of each: share of the sum
//	      in 1e-6, the smallest of the largest counts that make it up, how many
//	      they are. Flag 4: discriminators are flow-sensitive
//	2     number of names, names. Flag 4: some have a suffix .__uniq.
//	6     number of names with calling contexts: 0
//	4     number of functions, of each its name and where in section 32 it begins
//	32    functions: head, then the body: name, total; number of lines, of each
//	      offset, discriminator, count, number of targets, of each name and count;
//	      number of inlined calls, of each offset, discriminator and its body
//	3     names of all functions of the images: those without counts did not run
//	5     of each function that counts by probe: name, checksum; number of inlined
//	      calls, of each offset, discriminator, and the same of it. Flag 1: they do
//
// The table has section 4 before section 32, else clang applies nothing and does
// not tell.
const (
	llvmMagic   = 'S'<<56 | 'P'<<48 | 'R'<<40 | 'O'<<32 | 'F'<<24 | '4'<<16 | '2'<<8 | 4
	llvmVersion = 103

	secSummary  = 1
	secNames    = 2
	secSymbols  = 3
	secOffsets  = 4
	secMetadata = 5
	secContexts = 6
	secBodies   = 32

	flagFS     = 4 << 32 // of the summary
	flagUniq   = 4 << 32 // of the names
	flagProbes = 1 << 32 // of the metadata
)

// An llvmSection is a part of the file. LLVM lists the sections in another order
// than it stores them.
type llvmSection struct {
	kind, flags uint64
	stored      int // rank of its bytes in the file
	data        []byte
}

// writeBinary writes the functions of names in that order.
func (l *llvmWriter) writeBinary(w io.Writer, names []string) error {
	b := llvmBinary{index: map[string]uint64{}}
	table, uniq := b.names(l.funcs, names)
	var offsets, bodies, symbols, metadata []byte
	offsets = binary.AppendUvarint(offsets, uint64(len(names)))
	for _, name := range names {
		f := l.funcs[name]
		offsets = binary.AppendUvarint(offsets, b.index[name])
		offsets = binary.AppendUvarint(offsets, uint64(len(bodies)))
		bodies = binary.AppendUvarint(bodies, f.head)
		bodies = b.body(bodies, name, f)
		if l.stats.Probes {
			metadata = b.checksums(metadata, name, f)
		}
	}
	for _, name := range sortedKeys(l.silent, cmp.Compare) {
		symbols = append(append(symbols, name...), 0)
	}
	sections := []llvmSection{
		{secSummary, flagIf(l.stats.FS, flagFS), 0, llvmSummary(l.funcs, names)},
		{secNames, flagIf(uniq, flagUniq), 1, table},
		{secContexts, 0, 2, []byte{0}},
		{secOffsets, 0, 5, offsets},
		{secBodies, 0, 3, bodies},
		{secSymbols, 0, 4, symbols},
		{secMetadata, flagIf(l.stats.Probes, flagProbes), 6, metadata},
	}
	return writeSections(w, sections)
}

func flagIf(on bool, flag uint64) uint64 {
	if on {
		return flag
	}
	return 0
}

func writeSections(w io.Writer, sections []llvmSection) error {
	out := binary.AppendUvarint(nil, llvmMagic)
	out = binary.AppendUvarint(out, llvmVersion)
	out = binary.LittleEndian.AppendUint64(out, uint64(len(sections)))
	stored := make([]llvmSection, len(sections))
	for _, s := range sections {
		stored[s.stored] = s
	}
	at := uint64(len(out) + 32*len(sections))
	offsets := make([]uint64, len(stored))
	for i, s := range stored {
		offsets[i] = at
		at += uint64(len(s.data))
	}
	for _, s := range sections {
		for _, n := range []uint64{s.kind, s.flags, offsets[s.stored], uint64(len(s.data))} {
			out = binary.LittleEndian.AppendUint64(out, n)
		}
	}
	for _, s := range stored {
		out = append(out, s.data...)
	}
	_, err := w.Write(out)
	return err
}

// An llvmBinary knows the indices of names.
type llvmBinary struct {
	index map[string]uint64
}

// names returns the name table, and whether some name was made unique.
func (b *llvmBinary) names(funcs map[string]*function, names []string) (table []byte, uniq bool) {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
		funcs[name].names(all)
	}
	table = binary.AppendUvarint(nil, uint64(len(all)))
	for i, name := range sortedKeys(all, cmp.Compare) {
		b.index[name] = uint64(i)
		uniq = uniq || strings.Contains(name, ".__uniq.")
		table = append(append(table, name...), 0)
	}
	return table, uniq
}

// body appends the counts of f to out.
func (b *llvmBinary) body(out []byte, name string, f *function) []byte {
	put := func(ns ...uint64) {
		for _, n := range ns {
			out = binary.AppendUvarint(out, n)
		}
	}
	lines := f.lines()
	put(b.index[name], f.total, uint64(len(lines)))
	for _, at := range lines {
		callees := f.callees(at)
		put(uint64(at.offset), uint64(at.disc), f.body[at], uint64(len(callees)))
		for _, callee := range callees {
			put(b.index[callee], f.calls[at][callee])
		}
	}
	put(uint64(len(f.inlined)))
	for _, c := range sortedKeys(f.inlined, compareCalls) {
		put(uint64(c.at.offset), uint64(c.at.disc))
		out = b.body(out, c.callee, f.inlined[c])
	}
	return out
}

// llvmSummary returns the section by which the compiler tells hot from cold.
func llvmSummary(funcs map[string]*function, names []string) []byte {
	total, cuts := summarize(funcs, names)
	var out []byte
	for _, n := range append(total[:], cuts...) {
		out = binary.AppendUvarint(out, n)
	}
	return out
}
