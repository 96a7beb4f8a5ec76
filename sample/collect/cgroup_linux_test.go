//go:build amd64 || arm64

package collect

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// cgroup makes a cgroup, and returns its path and what puts a process into one below it.
func cgroup(t *testing.T) (top string, join func(pid int)) {
	t.Helper()
	mounts, _ := os.ReadFile("/proc/mounts")
	root := ""
	for line := range strings.Lines(string(mounts)) {
		if f := strings.Fields(line); len(f) > 2 && f[2] == "cgroup2" {
			root = f[1]
		}
	}
	if root == "" {
		t.Skip("no cgroup2 is mounted")
	}
	top, err := os.MkdirTemp(root, "backfeed-test-")
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { os.Remove(top) })
	sub := filepath.Join(top, "sub")
	if err := os.Mkdir(sub, 0o755); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.Remove(sub) })
	return top, func(pid int) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(sub, "cgroup.procs"), []byte(strconv.Itoa(pid)), 0); err != nil {
			t.Skip(err)
		}
	}
}

// TestFilterCgroup: what is in a cgroup below the one asked for, nothing else.
func TestFilterCgroup(t *testing.T) {
	top, join := cgroup(t)
	cmd := exec.Command("sh", "-c", "while :; do :; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	join(cmd.Process.Pid)
	checkFilter(t, SystemOptions{Frequency: 1999, Cgroups: []string{top}}, func() {})
}
