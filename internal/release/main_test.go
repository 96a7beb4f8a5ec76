package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestRelease: the archive of a tagged commit is the same to the byte from two clones, its binary says
// the tag, its list has the modules that THIRD_PARTY.txt has, and the sums are those of the files.
func TestRelease(t *testing.T) {
	testtool.Need(t, "git")
	if _, err := os.Stat("../../.git"); err != nil {
		t.Skip("not a clone: ", err)
	}
	tool := filepath.Join(t.TempDir(), "release")
	testtool.Run(t, ".", "go", "build", "-o", tool, ".")
	target := "linux/" + runtime.GOARCH
	name := "backfeed_v1.2.3_linux_" + runtime.GOARCH
	releases := make([]map[string][]byte, 2)
	for i := range releases {
		clone, out := filepath.Join(t.TempDir(), strings.Repeat("deeper/", i), "clone"), filepath.Join(t.TempDir(), "dist")
		testtool.Run(t, ".", "git", "clone", "-q", "--no-hardlinks", "../..", clone)
		testtool.Run(t, clone, "git", "tag", "v1.2.3")
		testtool.Run(t, clone, tool, "-o", out, "-targets", target)
		releases[i] = read(t, out)
		if i == 0 {
			testtool.Put(t, filepath.Join(clone, "changed"), []byte("x"))
			cmd := testtool.Command(t, tool, "-o", out+"2", "-targets", target)
			cmd.Dir = clone
			if b, err := cmd.CombinedOutput(); err == nil || !strings.Contains(string(b), "not committed") {
				t.Errorf("a changed tree: %v, %s", err, b)
			}
		}
	}
	if got, want := slices.Sorted(maps.Keys(releases[0])), []string{"SHA256SUMS", name + ".spdx.json", name + ".tar.gz"}; !slices.Equal(got, want) {
		t.Fatalf("released are %q, want %q", got, want)
	}
	for file, content := range releases[0] {
		if !bytes.Equal(content, releases[1][file]) {
			t.Errorf("%s differs between two clones", file)
		}
	}
	dir := t.TempDir()
	for file, content := range releases[0] {
		testtool.Put(t, filepath.Join(dir, file), content)
	}
	testtool.Run(t, dir, "sha256sum", "--check", "--strict", "--quiet", "SHA256SUMS")
	testtool.Run(t, dir, "tar", "xzf", name+".tar.gz")
	version := testtool.Command(t, filepath.Join(dir, name, "backfeed"), "version")
	if b, err := version.Output(); err != nil || !strings.HasPrefix(string(b), "backfeed v1.2.3 ") {
		t.Errorf("it says %q, %v", b, err)
	}
	var list struct {
		Packages []struct{ Name, VersionInfo string }
	}
	if err := json.Unmarshal(releases[0][name+".spdx.json"], &list); err != nil {
		t.Fatal(err)
	}
	notices, err := os.ReadFile("../../THIRD_PARTY.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range list.Packages[2:] { // after ours, and Go's own
		if !strings.Contains(string(notices), "\n"+p.Name+" "+p.VersionInfo+"\n") {
			t.Errorf("THIRD_PARTY.txt has no %s %s", p.Name, p.VersionInfo)
		}
	}
	if len(list.Packages) < 20 {
		t.Errorf("%d packages", len(list.Packages))
	}
}

func read(t *testing.T, dir string) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if files[e.Name()], err = os.ReadFile(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
	return files
}
