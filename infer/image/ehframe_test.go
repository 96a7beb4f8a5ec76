package image

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// entry makes an entry of .eh_frame of its bytes, padded as compilers do.
func entry(id uint32, body ...[]byte) []byte {
	b := binary.LittleEndian.AppendUint32(nil, id)
	for _, p := range body {
		b = append(b, p...)
	}
	for len(b)%4 != 0 {
		b = append(b, 0)
	}
	return append(binary.LittleEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func le32(v ...int32) []byte {
	var b []byte
	for _, v := range v {
		b = binary.LittleEndian.AppendUint32(b, uint32(v))
	}
	return b
}

func le64(v ...uint64) []byte {
	var b []byte
	for _, v := range v {
		b = binary.LittleEndian.AppendUint64(b, v)
	}
	return b
}

// common is a CIE's fields from its version to its return address register.
func common(version byte, augmentation string) []byte {
	return append(append([]byte{version}, augmentation...), 0, 1, 0x78, 16)
}

func TestParseFrames(t *testing.T) {
	const base = 0x2000
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	zR := entry(0, common(1, "zR"), []byte{1, encPCRel | encS4}) // 20 bytes
	zPLR := entry(0, common(3, "zPLR"), []byte{7, encIndirect | encPCRel | encS4}, le32(0x100), []byte{encPCRel | encS4, encPCRel | encS4})
	for _, tt := range []frameTest{
		{"empty", nil, nil, ""},
		{"only the end", le32(0), nil, ""},
		{"relative to the place", join(zR, entry(24, le32(-0x1000-28, 0x40), []byte{0})), []frame{{0x1000, 0x1040, 0}}, ""},
		{"two of one CIE", join(zR, entry(24, le32(-0x1000-28, 0x40), []byte{0}), entry(44, le32(0x100-48, 0x10), []byte{0})),
			[]frame{{0x1000, 0x1040, 0}, {0x2100, 0x2110, 0}}, ""},
		{"what follows the end is ignored", join(zR, le32(0), entry(28, le32(4, 4), []byte{0})), nil, ""},
		{"absolute", join(entry(0, common(1, "")), entry(20, le64(0x401000, 0x20))), []frame{{0x401000, 0x401020, 0}}, ""},
		{"exception table", join(zPLR, entry(uint32(len(zPLR)+4), le32(-0x1000-int32(len(zPLR))-8, 0x40), []byte{4}, le32(0x300))),
			[]frame{{0x1000, 0x1040, base + Addr(len(zPLR)) + 17 + 0x300}}, ""},
		{"no exception table", join(zPLR, entry(uint32(len(zPLR)+4), le32(-0x1000-int32(len(zPLR))-8, 0x40), []byte{4}, le32(0))),
			[]frame{{0x1000, 0x1040, 0}}, ""},
		{"8 bytes", join(entry(0, common(1, "zR"), []byte{1, encPCRel | encS8}), entry(24, le64(0x1000, 0x18), []byte{0})),
			[]frame{{base + 28 + 0x1000, base + 28 + 0x1018, 0}}, ""},
		{"signal frame, B key", join(entry(0, common(1, "zRSB"), []byte{1, encPCRel | encU4}), entry(24, le32(0x1000, 0x18), []byte{0})),
			[]frame{{base + 28 + 0x1000, base + 28 + 0x1018, 0}}, ""},
		{"unknown augmentation", join(entry(0, common(1, "zR!P"), []byte{1, encPCRel | encU4}), entry(24, le32(0x1000, 0x18), []byte{0})),
			[]frame{{base + 28 + 0x1000, base + 28 + 0x1018, 0}}, ""},

		{"length beyond the end", join(zR, le32(0x1000, 24)), nil, "offset 0x14: length 0x1000"},
		{"length of nothing", le32(2, 0), nil, "offset 0x0: length 0x2"},
		{"length cut off", join(zR, []byte{1, 0}), nil, ""},
		{"64-bit length cut off", le32(-1, 8), nil, "offset 0x4: extended length"},
		{"64-bit length beyond the end", join(le32(-1), le64(1<<63)), nil, "length 0x8000000000000000"},
		{"CIE before the section", join(zR, entry(1000, le32(4, 4))), nil, "offset 0x18: CIE pointer 0x3e8"},
		{"CIE that is none", join(zR, entry(4, le32(4, 4))), nil, "offset 0x18: CIE pointer 0x4"},
		{"CIE after it", entry(0xfffffff0, le32(4, 4)), nil, "CIE pointer"},
		{"version", entry(0, common(9, "")), nil, "CIE version"},
		{"augmentation without end", entry(0, []byte{1}, []byte("zRzRzRz")), nil, "augmentation"},
		{"alignment without end", entry(0, []byte{1, 0}, bytes.Repeat([]byte{0x80}, 14)), nil, "code alignment"},
		{"CIE cut off", entry(0, []byte{3, 'z', 0, 1}), nil, "offset 0xc: data alignment"},
		{"encoding", join(entry(0, common(1, "zR"), []byte{1, 0x07}), entry(24, le32(4, 4))), nil, "initial location encoding"},
		{"base", join(entry(0, common(1, "zR"), []byte{1, 0x40 | encS4}), entry(24, le32(4, 4))), nil, "initial location base"},
		{"FDE cut off", join(zR, entry(24, le32(4))), nil, "address range"},
	} {
		got, err := parseFrames(tt.bytes, base)
		tt.check(t, got, err)
	}
}

// A frameTest has what comes of the bytes of a section: frames, or an error that says so.
type frameTest struct {
	name  string
	bytes []byte
	want  []frame
	err   string
}

func (tt *frameTest) check(t *testing.T, got []frame, err error) {
	t.Helper()
	switch {
	case tt.err != "":
		if !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: error %v, want one that says %q", tt.name, err, tt.err)
		}
	case err != nil || !slices.Equal(got, tt.want):
		t.Errorf("%s: %x, %v\nwant %x", tt.name, got, err, tt.want)
	}
}

// TestParseDebugFrames: as TestParseFrames does, of what .debug_frame has otherwise.
func TestParseDebugFrames(t *testing.T) {
	join := func(parts ...[]byte) []byte { return bytes.Join(parts, nil) }
	const cieID = 0xffffffff
	version4 := func(address, segment byte) []byte { return []byte{4, 0, address, segment, 1, 0x78, 16} }
	wide := func(id uint64, body ...[]byte) []byte { // of 64-bit DWARF
		b := join(append([][]byte{le64(id)}, body...)...)
		return join(le32(-1), le64(uint64(len(b))), b)
	}
	one := []frame{{0x401000, 0x401020, 0}}
	for _, tt := range []frameTest{
		{"empty", nil, nil, ""},
		{"version 1", join(entry(cieID, common(1, "")), entry(0, le64(0x401000, 0x20))), one, ""},
		{"version 4", join(entry(cieID, version4(8, 0)), entry(0, le64(0x401000, 0x20))), one, ""},
		{"of the second entry", join(entry(cieID, common(3, "")), entry(cieID, version4(8, 0)), entry(16, le64(0x401000, 0x20))), one, ""},
		{"after padding", join(le32(0, 0), entry(cieID, common(1, "")), entry(8, le64(0x401000, 0x20))), one, ""},
		{"64 bits", join(wide(1<<64-1, common(3, "")), wide(0, le64(0x401000, 0x20))), one, ""},

		{"addresses of 4 bytes", entry(cieID, version4(4, 0)), nil, ".debug_frame: offset"},
		{"segments", entry(cieID, version4(8, 4)), nil, "address size"},
		{"version", entry(cieID, common(5, "")), nil, "CIE version"},
		{"no CIE there", join(entry(cieID, common(1, "")), entry(4, le64(0x401000, 0x20))), nil, ".debug_frame: offset 0x14: CIE pointer 0x4: no such entry"},
		{"ID of 32 bits", wide(cieID, common(3, "")), nil, "CIE pointer 0xffffffff: no such entry"},
		{"ID cut off", join(le32(-1), le64(4), le64(0)), nil, "CIE pointer"},
		{"length beyond the end", le32(0x1000, -1), nil, "length 0x1000"},
	} {
		var got []frame
		err := eachDebugFrame(tt.bytes, func(f frame, _ *cie, _ []byte) { got = append(got, f) })
		tt.check(t, got, err)
	}
}

// TestFrames compares the frames with readelf's.
func TestFrames(t *testing.T) {
	for _, name := range []string{"x86.elf", "x86.ibt.elf", "arm.elf"} {
		path := "testdata/elf/" + name
		im := mustOpen(t, path, Options{})
		var want []extent
		for line := range strings.Lines(testtool.Output(t, "", "readelf", "--debug-dump=frames", path)) {
			// 00000018 0000000000000014 0000001c FDE cie=00000000 pc=0000000000000270..000000000000027b
			if _, pc, ok := strings.Cut(line, " pc="); ok {
				lo, hi, _ := strings.Cut(strings.TrimSpace(pc), "..")
				want = append(want, extent{parseHex(t, lo), parseHex(t, hi)})
			}
		}
		slices.SortFunc(want, func(a, b extent) int { return int(a.lo) - int(b.lo) })
		var got []extent
		for _, f := range im.frames {
			got = append(got, extent{f.lo, f.hi})
		}
		if len(want) == 0 || !slices.Equal(got, want) {
			t.Errorf("%s: %x\nreadelf: %x", name, got, want)
		}
	}
}

// TestWithoutSections removes the section headers: .eh_frame_hdr still leads to
// the frames.
func TestWithoutSections(t *testing.T) {
	b := seed(t, "x86.elf")
	put(b, ehShoff, 8, 0)
	put(b, ehShnum, 2, 0)
	put(b, ehShstrndx, 2, 0)
	im := mustOpen(t, testtool.Write(t, t.TempDir(), "x.so", b), Options{})
	whole := mustOpen(t, "testdata/elf/x86.elf", Options{})
	for _, name := range []string{"never", "exported", "twice"} {
		s := whole.Symbols()[whole.Lookup(name)]
		i := im.Find(s.Addr)
		if i < 0 || im.Symbols()[i].Addr != s.Addr || im.Symbols()[i].Size != s.Size || im.Symbols()[i].Source != FromEhFrame {
			t.Errorf("%s at %#x is found as symbol %d of %s", name, s.Addr, i, show(im.Symbols()))
		}
	}
}

// FuzzFrames: any bytes give an error or frames, no more of them than fit.
func FuzzFrames(f *testing.F) {
	for _, name := range []string{"x86.elf", "arm.elf"} {
		ef, err := elf.NewFile(bytes.NewReader(seed(f, name)))
		if err != nil {
			f.Fatal(err)
		}
		b, err := ef.Section(".eh_frame").Data()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add(append(entry(0xffffffff, common(1, "")), entry(0, le64(0x401000, 0x20))...))
	f.Fuzz(func(t *testing.T, b []byte) {
		frames, err := parseFrames(b, 0x1000)
		if err != nil && !errors.Is(err, ErrFormat) {
			t.Fatal(err)
		}
		if len(frames) > len(b)/8 {
			t.Fatalf("%d frames from %d bytes", len(frames), len(b))
		}
		n := 0
		if err := eachDebugFrame(b, func(frame, *cie, []byte) { n++ }); err != nil && !errors.Is(err, ErrFormat) || n > len(b)/8 {
			t.Fatalf("%d debug frames from %d bytes: %v", n, len(b), err)
		}
	})
}
