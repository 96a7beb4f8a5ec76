//go:build amd64 || arm64

package collect

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backfeed/internal/testtool"
)

// TestJITMapEnded: the names that a process wrote of its code are found when it has ended, and not those of one that had its number before.
func TestJITMapEnded(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid, began := cmd.Process.Pid, monotonic()
	cmd.Wait()
	if got := new(jitMaps).find(pid, began); got != nil {
		t.Errorf("%v, and it wrote none", got)
	}
	path := fmt.Sprintf("/tmp/perf-%d.map", pid)
	if err := os.WriteFile(path, []byte("1000 10 f\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(path) })
	later := time.Now().Add(time.Second)
	if err := os.Chtimes(path, later, later); err != nil { // the kernel's own clock is behind by a tick
		t.Fatal(err)
	}
	if got := new(jitMaps).find(pid, began); got == nil || got.Path != path {
		t.Errorf("%v, want %s", got, path)
	}
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, before, before); err != nil {
		t.Fatal(err)
	}
	if got := new(jitMaps).find(pid, began); got != nil {
		t.Errorf("%v, which is older than the process", got)
	}
}

// TestJITMapContainer: what a process of a container wrote of its code is found, and copied as it was in the end, though the process was
// gone before anybody asked but tend.
func TestJITMapContainer(t *testing.T) {
	testtool.Need(t, "unshare", "mount", "sh")
	cmd := testtool.Command(t, "unshare", "-m", "sh", "-c", `mount -t tmpfs none /tmp && echo "1000 10 f" > /tmp/perf-$$.map && echo ready && read go && echo "2000 10 g" >> /tmp/perf-$$.map && echo done && read go`)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	says := bufio.NewReader(out)
	if line, _ := says.ReadString('\n'); line != "ready\n" {
		cmd.Wait()
		t.Skip("no mount in a mount namespace of its own")
	}
	pid, began := cmd.Process.Pid, monotonic()
	j := &jitMaps{keep: filepath.Join(t.TempDir(), "maps")}
	j.made(pid)
	j.tend()
	io.WriteString(in, "go\n")
	says.ReadString('\n')
	in.Close()
	cmd.Wait()
	id := j.find(pid, 0)
	if id == nil || !strings.HasPrefix(id.Path, j.keep) || filepath.Base(id.Path) != fmt.Sprintf("perf-%d.map", pid) {
		t.Fatalf("%v", id)
	}
	if later := j.find(pid, began+uint64(time.Hour)); later != nil {
		t.Errorf("%v of a later process of that number", later)
	}
	j.close()
	if got := testtool.Read(t, id.Path); got != "1000 10 f\n2000 10 g\n" {
		t.Errorf("%q", got)
	}
}

// TestJITMapNoRoom: maps that cannot be copied leave nothing, and cost no recording; all copies together are bounded.
func TestJITMapNoRoom(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "map")
	testtool.Write(t, dir, "map", "1000 10 f\n")
	testtool.Write(t, dir, "file", "")
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	h := heldMap{pid: 1, file: f, path: filepath.Join(dir, "short", "map")}
	if n, err := h.copy(4); n != 4 || err != nil || testtool.Read(t, h.path) != "1000" {
		t.Errorf("%d bytes, %v", n, err)
	}
	j := &jitMaps{held: []heldMap{{pid: 1, file: f, path: filepath.Join(dir, "file", "below", "map")}}}
	j.close()
	if j.held[0].file != nil || f.Close() == nil {
		t.Error("the map is held open")
	}
}
