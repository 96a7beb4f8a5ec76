package image

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"
)

// checkAll builds and checks every procedure of an image.
func checkAll(t *testing.T, im *Image) {
	why := map[string]int{}
	insts, bytes, incomplete := 0, 0, 0
	for i := range im.Symbols() {
		p, err := im.Proc(i)
		if err != nil {
			t.Errorf("%s: %v", im.Symbols()[i].Name, err)
			continue
		}
		if err := p.Check(); err != nil {
			t.Error(err)
		}
		if !p.Complete {
			incomplete++
			w, _, _ := strings.Cut(p.Why, " 0x")
			why[w]++
			if os.Getenv("BACKFEED_WHY") != "" {
				t.Logf("%s: %s", p.Name, p.Why)
			}
		}
		for j := range p.Blocks {
			insts += p.Blocks[j].Insts
			bytes += int(p.Blocks[j].End - p.Blocks[j].Start)
		}
	}
	var keys []string
	for k := range why {
		keys = append(keys, fmt.Sprintf("%d %s", why[k], k))
	}
	sort.Strings(keys)
	t.Logf("%d procedures, %d incomplete; %d instructions, %d bytes; %s", len(im.Symbols()), incomplete, insts, bytes, strings.Join(keys, "; "))
}

// TestProcs checks every procedure of real programs.
func TestProcs(t *testing.T) {
	paths := []string{"/usr/lib/x86_64-linux-gnu/libc.so.6", "/usr/aarch64-linux-gnu/lib/libc.so.6"}
	if extra := os.Getenv("BACKFEED_IMAGES"); extra != "" {
		paths = strings.Fields(extra)
	}
	for _, path := range paths {
		t.Run(path, func(t *testing.T) { checkAll(t, openTest(t, path)) })
	}
}
