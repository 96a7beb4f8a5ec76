package image

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// ErrNoBlockMap is wrapped where an image does not say which machine blocks it has.
var ErrNoBlockMap = errors.New("no " + blockMap + ", which clang writes with -fbasic-block-address-map")

const blockMap = ".llvm_bb_addr_map"

// A MachineBlock is a basic block as LLVM's code generator numbered it. Its
// numbers within a function hold for one source and one set of flags; they are
// neither dense nor in the order of addresses.
type MachineBlock struct {
	ID         uint32
	Start, End Addr // equal in a block without code
	Indirect   bool // ends in an indirect jump, as of a table
	Pad        bool // where an exception goes on
}

// A MachineFunc is the machine blocks of a function.
type MachineFunc struct {
	Parts  []Addr         // where its pieces of code start: the function itself, clusters, cold part
	Blocks []MachineBlock // in the order of the parts, by address in each
}

// Features of a function's record in the map, of BBAddrMap::Features in LLVM's
// Object/ELFTypes.h.
const (
	mapEntryCount = 1 << iota
	mapBlockFrequency
	mapBranches
	mapParts
	mapNoBlocks
	mapCallSites
	mapHashes
	mapAll = 1<<iota - 1
)

// MachineFuncs returns the functions of the map of basic blocks, those that the
// linker dropped excepted, in the order of the map.
//
//	size     field
//	1        version: 2 (LLVM 19) or 5 (LLVM 22)
//	1        features; 2 bytes in version 5
//	uleb128  number of parts, with mapParts; else there is one
//	-        parts, each
//	           8        address
//	           uleb128  number of blocks
//	           -        blocks, without mapNoBlocks, each
//	             uleb128  number of the block
//	             uleb128  bytes from the end of the one before, or the start of the part
//	             -        ends of calls, with mapCallSites: uleb128 how many, and uleb128 each,
//	                      bytes from the one before, or the start of the block
//	             uleb128  bytes of the block, or of what follows its last call
//	             uleb128  what the block ends in
//	             8        hash, with mapHashes
//	uleb128  entries of the function, with mapEntryCount
//	-        for each block
//	           uleb128  frequency, with mapBlockFrequency
//	           -        successors, with mapBranches: uleb128 how many, and each two
//	                    uleb128, number and probability
func (im *Image) MachineFuncs() ([]MachineFunc, error) {
	s := im.section(blockMap)
	if s == nil {
		return nil, fmt.Errorf("%s: %w", im.Path, ErrNoBlockMap)
	}
	b, err := im.sectionData(s)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", im.Path, err)
	}
	funcs, err := parseBlockMap(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", im.Path, err)
	}
	return slices.DeleteFunc(funcs, func(f MachineFunc) bool { return !im.holds(&f) }), nil
}

func parseBlockMap(b []byte) ([]MachineFunc, error) {
	var funcs []MachineFunc
	d := blockMapReader{frameReader{section: blockMap, b: b}}
	for d.off < len(d.b) {
		funcs = append(funcs, d.function())
	}
	return funcs, d.err
}

// holds reports whether all parts of f are code of the image: those of functions that
// the linker dropped are left with address 0.
func (im *Image) holds(f *MachineFunc) bool {
	for _, b := range f.Blocks {
		if r := im.region(b.Start); b.End > b.Start && (r == nil || b.End > r.hi) {
			return false
		}
	}
	return len(f.Blocks) > 0
}

type blockMapReader struct{ frameReader }

func (d *blockMapReader) function() (f MachineFunc) {
	at := d.off
	var features uint64
	switch version := d.uint(1, "version"); version {
	case 2:
		features = d.uint(1, "features")
	case 5:
		features = d.uint(2, "features")
	default:
		d.off = at
		d.fail(fmt.Sprintf("version %d, want 2 or 5", version))
		return f
	}
	if features&^mapAll != 0 {
		d.fail(fmt.Sprintf("features %#x", features))
		return f
	}
	parts := uint64(1)
	if features&mapParts != 0 {
		parts = d.uleb("number of parts")
	}
	for ; parts > 0 && d.err == nil; parts-- {
		a := Addr(d.uint(8, "address"))
		f.Parts = append(f.Parts, a)
		blocks := d.uleb("number of blocks")
		for ; blocks > 0 && d.err == nil && features&mapNoBlocks == 0; blocks-- {
			b := d.block(a, features)
			f.Blocks = append(f.Blocks, b)
			a = b.End
		}
	}
	d.skipProfile(len(f.Blocks), features)
	return f
}

// block reads a block; the one before ends at a.
func (d *blockMapReader) block(a Addr, features uint64) MachineBlock {
	id := d.uleb("block")
	if id > math.MaxUint32 {
		d.fail("block")
	}
	start := a + Addr(d.uleb("block offset"))
	end := start
	if features&mapCallSites != 0 {
		for n := d.uleb("number of calls"); n > 0 && d.err == nil; n-- {
			end += Addr(d.uleb("call"))
		}
	}
	end += Addr(d.uleb("block size"))
	const pad, indirectBranch = 1 << 2, 1 << 4 // of BBAddrMap::BBEntry::Metadata in the same file
	kind := d.uleb("block metadata")
	if features&mapHashes != 0 {
		d.uint(8, "block hash")
	}
	if start < a || end < start {
		d.fail("block address wraps")
	}
	return MachineBlock{uint32(id), start, end, kind&indirectBranch != 0, kind&pad != 0}
}

// skipProfile passes over the counts that the compiler knew.
func (d *blockMapReader) skipProfile(blocks int, features uint64) {
	if features&mapEntryCount != 0 {
		d.uleb("entry count")
	}
	for ; blocks > 0 && d.err == nil && features&(mapBlockFrequency|mapBranches) != 0; blocks-- {
		if features&mapBlockFrequency != 0 {
			d.uleb("block frequency")
		}
		if features&mapBranches != 0 {
			for n := d.uleb("number of successors"); n > 0 && d.err == nil; n-- {
				d.uleb("successor")
				d.uleb("branch probability")
			}
		}
	}
}
