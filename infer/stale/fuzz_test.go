package stale

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
)

// FuzzCarry: samples of a program that go to any other, which may be hostile, are carried over or counted as lost: never more,
// never fewer. The other is what edits make of the program: each two bytes of an offset and one that stands there.
func FuzzCarry(f *testing.F) {
	const program = "../image/testdata/elf/x86.elf"
	whole, err := os.ReadFile(program)
	if err != nil {
		f.Fatal(err)
	}
	old, err := image.Open(program, image.Options{})
	if err != nil {
		f.Fatal(err)
	}
	defer old.Close()
	f.Add([]byte{}, []byte{0, 0, 8, 0, 16, 0})
	f.Add([]byte{0x20, 0x10, 0x90, 0x28, 0x10, 0xeb}, []byte{4, 0, 9, 1})
	f.Add(bytes.Repeat([]byte{0x40, 0x10, 0xc3}, 3), bytes.Repeat([]byte{1, 2}, 40))
	path := filepath.Join(f.TempDir(), "new")
	size := uint64(len(whole))
	f.Fuzz(func(t *testing.T, edits, places []byte) {
		b := bytes.Clone(whole)
		for ; len(edits) >= 3; edits = edits[3:] {
			b[int(binary.LittleEndian.Uint16(edits))%len(b)] = edits[2]
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
		im, err := image.Open(path, image.Options{})
		if err != nil {
			return
		}
		defer im.Close()
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cycles"})
		at := c.Image(sample.ImageID{Path: "/old", Build: sample.BuildID{1}})
		var last sample.Frame
		for i := 0; len(places) >= 2; i++ {
			off := sample.Offset(uint64(binary.LittleEndian.Uint16(places)) % size)
			places = places[2:]
			here := sample.Frame{Image: at, Off: off}
			c.AddSample(at, off, uint64(i%5+1))
			c.AddStack([]sample.Frame{here, last}, 1)
			c.AddBranch(sample.Branch{From: last, To: here}, 3, 1)
			c.AddTarget(sample.Branch{From: last, To: here}, 2)
			c.AddCounted(at, off, 7)
			c.AddProbed(at, off, sample.Probed{Windows: 1, Outcomes: 2, Taken: 1})
			if last.Off <= off {
				c.AddRange(sample.Range{Image: at, First: last.Off, Last: off}, 1)
			}
			last = here
		}
		got, report := Carry(&sample.Recording{Counts: []*sample.Counts{c}}, sample.ImageID{Path: "/new", Build: sample.BuildID{2}},
			map[sample.ImageID]*Builds{{Build: sample.BuildID{1}}: NewBuilds(old, im)})
		if n := got.Samples(); n != c.Total {
			t.Fatalf("%d samples have become %d: %+v", c.Total, n, report)
		}
		for _, c := range got.Counts {
			if err := c.Check(); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := sample.Decode(got.Encode()); err != nil {
			t.Fatal(err)
		}
	})
}
