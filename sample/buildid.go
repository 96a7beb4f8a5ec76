package sample

import (
	"debug/elf"
	"encoding/binary"
	"io"
)

// maxNotes bounds the notes that are read: the kernel's own limit is 64 KB.
const maxNotes = 1 << 20

// ELFBuildID gives the GNU build ID of an ELF file of any class and byte order,
// the zero one if it has none. Sections come first: in a separate debug file, the
// segments' offsets are still those of the file that it was split from. And Go's
// linker (1.26) leaves the note out of the note segments, where the kernel looks.
func ELFBuildID(f *elf.File) BuildID {
	for _, s := range f.Sections {
		if s.Type == elf.SHT_NOTE && s.ReaderAt != nil { // nil if it says that it is compressed
			if id := readNotes(s, s.FileSize, s.Addralign, f.ByteOrder); !id.IsZero() {
				return id
			}
		}
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_NOTE {
			if id := readNotes(p, p.Filesz, p.Align, f.ByteOrder); !id.IsZero() {
				return id
			}
		}
	}
	return BuildID{}
}

func readNotes(r io.ReaderAt, size, align uint64, order binary.ByteOrder) BuildID {
	if size > maxNotes {
		return BuildID{}
	}
	b := make([]byte, size)
	if _, err := r.ReadAt(b, 0); err != nil {
		return BuildID{}
	}
	return findBuildID(b, order, align)
}

const ntGNUBuildID = 3

// findBuildID goes through notes of that alignment, 8 or else 4:
//
//	offset  size  field
//	0       4     size of the name, with its final zero
//	4       4     size of the descriptor
//	8       4     type
//	12      -     name, then descriptor, both padded
func findBuildID(b []byte, order binary.ByteOrder, align uint64) BuildID {
	pad := uint64(4)
	if align == 8 {
		pad = 8
	}
	up := func(n uint64) uint64 { return (n + pad - 1) &^ (pad - 1) }
	for len(b) >= 12 {
		nameSize, descSize := uint64(order.Uint32(b)), uint64(order.Uint32(b[4:]))
		desc := up(12 + nameSize)
		if desc+descSize > uint64(len(b)) {
			break
		}
		if order.Uint32(b[8:]) == ntGNUBuildID && string(b[12:12+nameSize]) == "GNU\x00" {
			var id BuildID
			copy(id[:], b[desc:desc+descSize])
			return id
		}
		b = b[min(up(desc+descSize), uint64(len(b))):]
	}
	return BuildID{}
}

// NotesBuildID gives the GNU build ID among notes as the kernel shows them in
// /sys/kernel/notes and /sys/module/NAME/notes, the zero one if there is none.
func NotesBuildID(notes []byte) BuildID { return findBuildID(notes, binary.NativeEndian, 4) }
