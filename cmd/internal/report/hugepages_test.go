package report

import (
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/layout"
	"backfeed/sample"
)

// TestHugePagesText: advice is what the linker of the image can follow.
func TestHugePagesText(t *testing.T) {
	group := layout.HugeGroup{Symbols: []image.Symbol{{Name: "first"}, {Name: "last"}}, Bytes: 2 << 20, Share: 0.9}
	full := layout.HugePages{
		Hot: 1 << 20, Procs: 3 << 20, Groups: []layout.HugeGroup{group}, Text: 0x400000,
		Runs: []layout.HugeRun{{Start: 0x200000, End: 0x600000, Share: 1}},
	}
	small, stripped := full, full
	small.Procs, stripped.Groups = 1<<20, nil
	for _, tt := range []struct {
		name      string
		h         layout.HugePages
		goVersion string
		want, not string
	}{
		{"full", full, "", "--section-start=.text=0x400000", "Go's linker"},
		{"full", full, "", "0x200000-0x600000  100.0% of execution", "Go's linker"},
		{"Go", full, "go1.26.8", "Go's linker takes no order", "--section-start"},
		{"small", small, "", "do not fill one huge page", "madvise"},
		{"stripped", stripped, "", "None of them has a symbol", "--section-start"},
	} {
		ip := &infer.ImageProfile{ID: sample.ImageID{Path: "/bin/app"}, Image: &image.Image{Go: tt.goVersion}}
		var b strings.Builder
		if err := WriteHugePages(&b, ip, &tt.h, 20, Style{}); err != nil {
			t.Fatal(err)
		}
		if got := b.String(); !strings.Contains(got, tt.want) || strings.Contains(got, tt.not) {
			t.Errorf("%s: want %q and no %q in\n%s", tt.name, tt.want, tt.not, got)
		}
	}
}
