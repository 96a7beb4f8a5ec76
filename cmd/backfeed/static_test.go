package main

import (
	"debug/elf"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestStatic: what README says to install is what README says it is.
func TestStatic(t *testing.T) {
	t.Parallel() // it builds, and samples nothing
	testtool.Live(t, "builds the command")
	testtool.Need(t, "go")
	if runtime.GOOS != "linux" {
		t.Skip("binaries of this system always need its libraries")
	}
	root := filepath.Join("..", "..")
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), "one static binary") {
		t.Error("README.md does not say that the binary is static")
	}
	command := regexp.MustCompile(`(?m)^    (.*go install \./cmd/backfeed)$`).FindStringSubmatch(string(readme))
	if command == nil {
		t.Fatal("README.md does not say how to install")
	}
	bin := t.TempDir()
	cmd := exec.Command("sh", "-c", command[1])
	// By -trimpath, which changes names of files only, it is of the packages that .ci/run compiles.
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOBIN="+bin, "GOFLAGS=-buildvcs=false -trimpath")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", command[1], err, out)
	}
	f, err := elf.Open(filepath.Join(bin, "backfeed"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP || p.Type == elf.PT_DYNAMIC {
			t.Errorf("%s makes a binary with a segment %v", command[1], p.Type)
		}
	}
}
