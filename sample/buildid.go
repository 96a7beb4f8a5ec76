package sample

import "encoding/binary"

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

// NotesBuildID returns the GNU build ID among notes as the kernel shows them in
// /sys/kernel/notes and /sys/module/NAME/notes, the zero one if there is none.
func NotesBuildID(notes []byte) BuildID { return findBuildID(notes, binary.NativeEndian, 4) }
