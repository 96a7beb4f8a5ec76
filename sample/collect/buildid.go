package collect

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"io"

	"backfeed/sample"
)

// maxNotes bounds the notes that are read. Those of linkers are below 1 KB.
const maxNotes = 1 << 20

// readBuildID gives the build ID of an ELF file, the zero one if it has none or
// is no ELF file. Go's linker (1.26) leaves the note out of the note segments,
// where the kernel looks for it, so sections are read as well.
func readBuildID(r io.ReaderAt) sample.BuildID {
	f, err := elf.NewFile(r)
	if err != nil {
		return sample.BuildID{}
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_NOTE {
			continue
		}
		if id, ok := findBuildID(p, p.Filesz, p.Align, f.ByteOrder); ok {
			return id
		}
	}
	for _, s := range f.Sections {
		if s.Type != elf.SHT_NOTE {
			continue
		}
		if id, ok := findBuildID(s, s.FileSize, s.Addralign, f.ByteOrder); ok {
			return id
		}
	}
	return sample.BuildID{}
}

// findBuildID looks for the GNU build ID among notes:
//
//	offset  size  field
//	0       4     size of the name, n
//	4       4     size of the descriptor, d
//	8       4     type: 3 for a build ID, if the name is "GNU"
//	12      n     name, padded to a multiple of 4, or of align if that is 8
//	-       d     descriptor, likewise
func findBuildID(r io.ReaderAt, size, align uint64, order binary.ByteOrder) (sample.BuildID, bool) {
	if size > maxNotes {
		return sample.BuildID{}, false
	}
	b := make([]byte, size)
	if _, err := r.ReadAt(b, 0); err != nil {
		return sample.BuildID{}, false
	}
	if align != 8 {
		align = 4
	}
	up := func(n int) int { return (n + int(align) - 1) &^ (int(align) - 1) }
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
