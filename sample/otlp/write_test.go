package otlp

import (
	"bytes"
	"testing"

	"go.opentelemetry.io/collector/pdata/pprofile"

	"backfeed/sample"
)

// TestEncode: what is written is read again as it was, by addresses as linked and by offsets, and pdata reads it too.
func TestEncode(t *testing.T) {
	rec := smallRecording()
	c := rec.Counts[0]
	c.AddSample(1, 0x10, 2) // without a stack
	c.AddStack([]sample.Frame{{Image: 1, Off: 0x10}}, 2)
	c.Lose(sample.LostVDSO, 3)
	c.Lose(sample.LostAnonymous, 4)
	c.Weight = c.Total * c.Event.Period
	want := sample.Merge(rec)
	c.Lose(sample.LostDropped, 5)
	for _, opt := range []EncodeOptions{
		{},
		{Times: true, Start: 1790000000e9, Duration: 5e9},
		{Addr: func(id sample.ImageID, off sample.Offset) (uint64, bool) {
			return uint64(off) + 0x400000, id.Path == "app"
		}},
		{Addr: func(id sample.ImageID, off sample.Offset) (uint64, bool) { return uint64(off) - 8, true }},
	} {
		b, left := Encode(rec, opt)
		again, warnings, err := read(t, b, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := again.Encode(); !bytes.Equal(got, want.Encode()) || left != 5 {
			t.Errorf("%d left, got\n%s\nwant\n%s", left, sample.Dump(got), sample.Dump(want.Encode()))
		}
		if w := "1 samples are in images without a GNU build ID, which are known by their name alone\n"; warnings != w {
			t.Errorf("warnings: %s", warnings)
		}
		theirs, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(b)
		if err != nil {
			t.Fatal(err)
		}
		m := theirs.Dictionary().MappingTable().At(1)
		if name := theirs.Dictionary().StringTable().At(int(m.FilenameStrindex())); name != "old" {
			t.Errorf("mapping 1 is of %s", name)
		}
		if p := theirs.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0); p.Period() != 50e6 {
			t.Errorf("period %d", p.Period())
		}
	}
}
