package main

import (
	"path/filepath"
	"testing"

	"backfeed/internal/testtool"
)

// TestMonsters: commands end on images and recordings that are far larger in one respect than programs are, at a hundredth or less of
// their size; testdata/monsters/README.md has what they take at the whole of it.
func TestMonsters(t *testing.T) {
	testtool.Live(t, "makes images of assembler text, and runs 140 commands on them")
	testtool.Need(t, "go", "as", "ld")
	bin := filepath.Join(t.TempDir(), "backfeed")
	testtool.RunWith(t, ".", []string{"CGO_ENABLED=0"}, "go", "build", "-trimpath", "-o", bin, ".")
	testtool.Run(t, "../..", "go", "run", "./testdata/monsters", "-test", bin)
}
