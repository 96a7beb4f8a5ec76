//go:build amd64 || arm64

package collect

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"
)

// TestJITMapEnded: the names that a process wrote of its code are found when it has ended, and not those of one that had its number before.
func TestJITMapEnded(t *testing.T) {
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	pid, began := cmd.Process.Pid, monotonic()
	cmd.Wait()
	if got := jitMap(pid, began); got != nil {
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
	if got := jitMap(pid, began); got == nil || got.Path != path {
		t.Errorf("%v, want %s", got, path)
	}
	before := time.Now().Add(-time.Hour)
	if err := os.Chtimes(path, before, before); err != nil {
		t.Fatal(err)
	}
	if got := jitMap(pid, began); got != nil {
		t.Errorf("%v, which is older than the process", got)
	}
}
