package main

import (
	"os"
	"testing"

	"backfeed/internal/testtool"
)

// TestMonsters: commands end on images and recordings that are far larger in one respect than programs are, at a hundredth or less of
// their size; testdata/monsters/README.md has what they take at the whole of it.
func TestMonsters(t *testing.T) {
	t.Parallel() // its commands are processes of their own
	testtool.Live(t, "makes images of assembler text, and runs 140 commands on them")
	testtool.Need(t, "go", "as", "ld")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	testtool.RunWith(t, "../..", []string{runEnv + "=1"}, "go", "run", "./testdata/monsters", "-test", self)
}
