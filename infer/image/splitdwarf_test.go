package image

import (
	"encoding/binary"
	"errors"
	"slices"
	"testing"
)

// splitIndexOf makes an index of one unit, whose parts are of sections with these numbers.
func splitIndexOf(version uint16, id uint64, sections ...uint32) []byte {
	le := binary.LittleEndian
	b := le.AppendUint16(nil, version)
	b = le.AppendUint16(b, 0)
	for _, n := range []uint32{uint32(len(sections)), 1, 2} { // columns, units, slots
		b = le.AppendUint32(b, n)
	}
	b = le.AppendUint64(le.AppendUint64(b, 0), id)
	b = le.AppendUint32(le.AppendUint32(b, 0), 1)
	for _, s := range sections {
		b = le.AppendUint32(b, s)
	}
	for i := range sections {
		b = le.AppendUint32(b, uint32(16*i))
	}
	for i := range sections {
		b = le.AppendUint32(b, uint32(1+i))
	}
	return b
}

// TestSplitIndex: a unit's parts are found by its number, and an index that does not hold what it claims is malformed.
func TestSplitIndex(t *testing.T) {
	const id = 0xf82534a366311ab8
	five := splitIndexOf(5, id, 1, 3, 4, 6, 8)
	want := [4]splitPart{{0, 1}, {16, 2}, {48, 4}, {64, 5}}
	if got, ok, err := splitIndex(five, id); got != want || !ok || err != nil {
		t.Errorf("%v, %v, %v; want %v", got, ok, err, want)
	}
	want[3] = splitPart{} // 8 is another section there
	if got, ok, err := splitIndex(splitIndexOf(2, id, 1, 3, 4, 6, 8), id); got != want || !ok || err != nil {
		t.Errorf("version 2: %v, %v, %v; want %v", got, ok, err, want)
	}
	if _, ok, err := splitIndex(five, id+1); ok || err != nil {
		t.Errorf("of another unit: %v, %v", ok, err)
	}
	for n := range five {
		if _, ok, err := splitIndex(five[:n], id); ok || !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes: %v, %v", n, ok, err)
		}
	}
	for _, at := range []int{0, 4, 8, 12} {
		b := slices.Clone(five)
		binary.LittleEndian.PutUint32(b[at:], 1<<31)
		if _, _, err := splitIndex(b, id); !errors.Is(err, ErrFormat) {
			t.Errorf("a header with 2^31 at %d: %v", at, err)
		}
	}
}

// TestSplitRanges: lists of ranges of both forms are relative to where the unit's code begins, until they say otherwise.
func TestSplitRanges(t *testing.T) {
	le := binary.LittleEndian
	var old, addrs []byte
	for _, n := range []uint64{0x10, 0x20, 1<<64 - 1, 0x5000, 1, 2, 0, 0} {
		old = le.AppendUint64(old, n)
	}
	addrs = le.AppendUint64(le.AppendUint64(nil, 0x7000), 0x7100)
	list := []byte{4, 0x10, 0x20, 3, 1, 8, 2, 0, 1, 1, 0, 4, 1, 2, 0}
	free := func(int) error { return nil }
	for _, tt := range []struct {
		name string
		got  func() ([][2]uint64, error)
		want [][2]uint64
	}{
		{"old", func() ([][2]uint64, error) { return (&splitLists{ranges: old, base: 0x1000}).oldRanges(0, free) }, [][2]uint64{{0x1010, 0x1020}, {0x5001, 0x5002}}},
		{"new", func() ([][2]uint64, error) {
			return (&splitLists{ranges: list, addrs: addrs, base: 0x1000}).newRanges(0, free)
		}, [][2]uint64{{0x1010, 0x1020}, {0x7100, 0x7108}, {0x7000, 0x7100}, {0x7001, 0x7002}}},
	} {
		if got, err := tt.got(); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s: %x, %v; want %x", tt.name, got, err, tt.want)
		}
	}
	for n := range list {
		if _, err := (&splitLists{ranges: list[:n], addrs: addrs}).newRanges(0, free); !errors.Is(err, ErrFormat) {
			t.Errorf("%d bytes of a list: %v", n, err)
		}
	}
	if _, err := (&splitLists{ranges: []byte{1, 9, 0}, addrs: addrs}).newRanges(0, free); !errors.Is(err, ErrFormat) {
		t.Errorf("an address by a number that there is not: %v", err)
	}
}

// FuzzSplit: any bytes give an error that blames them, or parts and ranges.
func FuzzSplit(f *testing.F) {
	f.Add(splitIndexOf(5, 7, 1, 3, 6, 8), []byte{4, 0x10, 0x20, 3, 1, 8, 2, 0, 1, 1, 0, 4, 1, 2, 0}, int64(0))
	f.Add(splitIndexOf(2, 7, 1, 3, 6), []byte{7, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0}, int64(1))
	f.Fuzz(func(t *testing.T, index, lists []byte, off int64) {
		if _, _, err := splitIndex(index, 7); err != nil && !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
		l := &splitLists{ranges: lists, addrs: index}
		left := len(lists)
		spend := func(n int) error {
			if left -= n; left < 0 {
				t.Fatal("more ranges than bytes")
			}
			return nil
		}
		if _, err := l.newRanges(off, spend); err != nil && !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
		if _, err := l.oldRanges(off, spend); err != nil && !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
		withKnownForms(index)
	})
}
