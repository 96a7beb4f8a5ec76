package collect

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"

	"backfeed/sample"
)

// maxNotes bounds the note segment that is read. Those of linkers are below 1 KB.
const maxNotes = 1 << 20

// readBuildID gives the build ID of an ELF file, the zero one if it has none or
// is no ELF file.
func readBuildID(r io.ReaderAt) sample.BuildID {
	f, err := elf.NewFile(r)
	if err != nil {
		return sample.BuildID{}
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE || p.Filesz > maxNotes {
			continue
		}
		b := make([]byte, p.Filesz)
		if _, err := p.ReadAt(b, 0); err != nil {
			continue
		}
		if id, ok := findBuildID(b, f.ByteOrder, int(p.Align)); ok {
			return id
		}
	}
	return sample.BuildID{}
}

// findBuildID looks for the GNU build ID among the notes of a segment:
//
//	offset  size  field
//	0       4     size of the name, n
//	4       4     size of the descriptor, d
//	8       4     type: 3 for a build ID, if the name is "GNU"
//	12      n     name, padded to the alignment of the segment
//	-       d     descriptor, likewise
func findBuildID(b []byte, order binary.ByteOrder, align int) (sample.BuildID, bool) {
	if align != 8 {
		align = 4
	}
	up := func(n int) int { return (n + align - 1) &^ (align - 1) }
	const typeBuildID = 3
	for len(b) >= 12 {
		n, d, typ := order.Uint32(b), order.Uint32(b[4:]), order.Uint32(b[8:])
		if uint64(n) > uint64(len(b)) || uint64(d) > uint64(len(b)) {
			break
		}
		desc := up(12 + int(n))
		next := up(desc + int(d))
		if desc+int(d) > len(b) {
			break
		}
		if typ == typeBuildID && bytes.Equal(b[12:12+n], []byte("GNU\x00")) && d > 0 {
			return buildID(b[desc : desc+int(d)]), true
		}
		b = b[min(next, len(b)):]
	}
	return sample.BuildID{}, false
}

// buildID makes a BuildID of a note's descriptor.
func buildID(b []byte) sample.BuildID {
	var id sample.BuildID
	copy(id[:], b)
	return id
}
