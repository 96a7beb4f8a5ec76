package input

import (
	"errors"
	"fmt"

	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/sample"
)

// errNowhere says that the addresses of an image are neither of two things.
var errNowhere = errors.New("its addresses are neither as linked nor places in its file")

// placer finds where the addresses of images lie that a profile has without mappings of a process, and tells what cannot
// be found.
func (s *Session) placer(name string) sample.Placer {
	return func(id sample.ImageID, addrs []uint64) (func(uint64) (sample.Offset, bool), error) {
		im, err := s.Open(id)
		if err != nil {
			s.notify.Warn("%s: %s: %v: where its addresses lie in the file only the file says, and its samples are lost", name, report.Clean(id.String()), err)
			return nil, err
		}
		place, told, err := placeIn(im, addrs)
		if err != nil {
			s.notify.Warn("%s: %s: %v: its samples are lost", name, report.Clean(id.String()), err)
			return nil, err
		}
		if !told {
			s.notify.Warn("%s: %s: by its program headers, its addresses may be as linked or offsets in its file; they are taken as linked, as Parca's agent writes them", name, report.Clean(id.String()))
		}
		return place, nil
	}
}

// placeIn tells by the segments of code whether addresses are as linked or offsets in the file: by what fits all, or more,
// of them. told is false where both fit all and differ; then they are taken as linked.
func placeIn(im *image.Image, addrs []uint64) (place func(uint64) (sample.Offset, bool), told bool, err error) {
	segments := im.CodeSegments()
	linked := func(a uint64) (sample.Offset, bool) {
		for _, s := range segments {
			if a >= uint64(s.Addr) && a-uint64(s.Addr) < s.Size {
				return s.Off + sample.Offset(a-uint64(s.Addr)), true
			}
		}
		return 0, false
	}
	inFile := func(a uint64) (sample.Offset, bool) {
		for _, s := range segments {
			if a >= uint64(s.Off) && a-uint64(s.Off) < s.Size {
				return sample.Offset(a), true
			}
		}
		return 0, false
	}
	var asLinked, asOffset, differ int
	for _, a := range addrs {
		x, one := linked(a)
		y, other := inFile(a)
		if one {
			asLinked++
		}
		if other {
			asOffset++
		}
		if one && other && x != y {
			differ++
		}
	}
	switch {
	case asLinked == 0 && asOffset == 0:
		return nil, false, fmt.Errorf("%w: was it built anew under the same build ID?", errNowhere)
	case asOffset > asLinked:
		return inFile, true, nil
	}
	return linked, asLinked > asOffset || differ == 0, nil
}
