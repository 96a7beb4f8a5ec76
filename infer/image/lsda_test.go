package image

import (
	"slices"
	"testing"
)

// lsda is an exception table: no base, no types, uleb128 call sites, one from 0 to
// 4 without a landing pad and one from 4 to 9 that lands at 0x0c.
const lsda = "\xff\xff\x01\x08" + "\x00\x04\x00\x00" + "\x04\x05\x0c\x00"

func TestLandingPad(t *testing.T) {
	code := make([]byte, 16)
	im := codeImage(X86_64, code, []byte(lsda))
	im.frames = []frame{{lo: testBase, hi: testBase + 16, lsda: testBase + 16}}
	if got := im.landingPads(&im.symbols[0]); !slices.Equal(got, []Addr{testBase + 0x0c}) {
		t.Errorf("landing pads %#x, want %#x", got, testBase+0x0c)
	}
}

// FuzzLSDA: any bytes give landing pads inside the procedure, by address.
func FuzzLSDA(f *testing.F) {
	f.Add([]byte(lsda))
	f.Add([]byte("\xff\x9b\x1d\x01\x08\x04\x05\x0c\x00\x00\x04\x00\x00"))
	f.Fuzz(func(t *testing.T, table []byte) {
		if len(table) == 0 || len(table) > 1<<12 {
			return
		}
		im := codeImage(X86_64, make([]byte, 64), table)
		im.frames = []frame{{lo: testBase, hi: testBase + 64, lsda: testBase + 64}}
		pads := im.landingPads(&im.symbols[0])
		for _, a := range pads {
			if a < testBase || a >= testBase+64 {
				t.Errorf("landing pad %#x outside", a)
			}
		}
		if !slices.IsSorted(pads) {
			t.Errorf("landing pads %#x", pads)
		}
	})
}
