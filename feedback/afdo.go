package feedback

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
)

// Tags of an .afdo file and what else is fixed in it (GCC's auto-profile.cc,
// autofdo's gcov.cc).
const (
	afdoMagic       = 0x67636461 // "adcg" as bytes
	afdoSummary     = 0xa8000000
	afdoNames       = 0xaa000000
	afdoFunctions   = 0xac000000
	afdoModules     = 0xae000000
	afdoWorkingSet  = 0xaf000000
	afdoIndirect    = 7 // HIST_TYPE_INDIR_CALL_TOPN
	afdoWorkingSets = 128
	afdoNoFile      = math.MaxUint32
)

// encodeAFDO returns the .afdo file of the functions of a tree. Version 2 is for
// GCC 12 to 15, version 3 for GCC 16.
func encodeAFDO(version uint32, funcs map[string]*function) []byte {
	w := &afdoWriter{version: version, index: map[string]uint32{}}
	w.u32(afdoMagic)
	w.u32(version)
	w.u32(0)
	if version >= 3 {
		w.summary(funcs)
	}
	w.section(afdoNames, func() { w.names(funcs) })
	w.section(afdoFunctions, func() {
		w.u32(uint32(len(funcs)))
		for _, name := range sortedKeys(funcs, cmp.Compare) {
			f := funcs[name]
			w.u64(f.head)
			if version >= 3 {
				w.u64(0) // when it first ran: unknown
			}
			w.function(name, f)
		}
	})
	w.u32(afdoModules)
	w.u32(0)
	w.u32(0)
	w.section(afdoWorkingSet, func() { w.b = append(w.b, make([]byte, 12*afdoWorkingSets)...) })
	return w.b
}

type afdoWriter struct {
	b       []byte
	version uint32
	index   map[string]uint32 // of names
}

func (w *afdoWriter) u32(n uint32) { w.b = binary.LittleEndian.AppendUint32(w.b, n) }
func (w *afdoWriter) u64(n uint64) { w.b = binary.LittleEndian.AppendUint64(w.b, n) }

// section writes a tag, the length in words of what write adds, and that.
func (w *afdoWriter) section(tag uint32, write func()) {
	w.u32(tag)
	w.u32(0)
	start := len(w.b)
	write()
	binary.LittleEndian.PutUint32(w.b[start-4:], uint32(len(w.b)-start+3)/4)
}

// summary reports how many of the hottest counts have which share of all.
func (w *afdoWriter) summary(funcs map[string]*function) {
	total, cuts := summarize(funcs, sortedKeys(funcs, cmp.Compare))
	w.u32(afdoSummary)
	for _, n := range total {
		w.u64(n)
	}
	for cut := range slices.Chunk(cuts, 3) {
		w.u32(uint32(cut[0]))
		w.u64(cut[1])
		w.u64(cut[2])
	}
}

// names writes the names of all functions. GCC takes an index of 0 for none.
func (w *afdoWriter) names(funcs map[string]*function) {
	all := map[string]bool{"": true}
	for name, f := range funcs {
		all[name] = true
		f.names(all)
	}
	if w.version >= 3 {
		w.u32(0) // no names of files
	}
	w.u32(uint32(len(all)))
	for i, name := range sortedKeys(all, cmp.Compare) {
		w.index[name] = uint32(i)
		w.u32(uint32(len(name)) + 1)
		w.b = append(append(w.b, name...), 0)
		if w.version >= 3 {
			w.u32(afdoNoFile)
		}
	}
}

func (w *afdoWriter) function(name string, f *function) {
	spots := sortedKeys(f.body, compareSpots)
	w.u32(w.index[name])
	w.u32(uint32(len(spots)))
	w.u32(uint32(len(f.inlined)))
	for _, at := range spots {
		calls := f.calls[at]
		w.spot(at)
		w.u32(uint32(len(calls)))
		w.u64(f.body[at])
		for _, callee := range sortedKeys(calls, cmp.Compare) {
			w.u32(afdoIndirect)
			w.u64(uint64(w.index[callee]))
			w.u64(calls[callee])
		}
	}
	for _, c := range sortedKeys(f.inlined, compareCalls) {
		w.spot(c.at)
		w.function(c.callee, f.inlined[c])
	}
}

func (w *afdoWriter) spot(at spot) { w.u32(uint32(at.offset)<<16 | at.disc&0xffff) }
