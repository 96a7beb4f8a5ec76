package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// nobody is a user that is not root, and of no use.
const nobody = 65534

// TestOutputOfOthers: commands write nowhere that another user leads to from a directory like
// /tmp; package output has the cases.
func TestOutputOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make links of another user")
	}
	dir := t.TempDir()
	tmp, target := filepath.Join(dir, "tmp"), testtool.Write(t, dir, "target", "as it was")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(tmp, "out")
	if err := errors.Join(os.Chmod(tmp, 0o777|os.ModeSticky), os.Symlink(target, link), os.Lchown(link, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	rec := recording(t, t.TempDir(), "a", sample.ImageID{Path: "/bin/a"})
	if code, _, errs := runCLI(t, "merge", rec, "-o", link); code != exitFailed || !strings.Contains(errs, "of user 65534") || testtool.Read(t, target) != "as it was" {
		t.Errorf("exit code %d, %q; the file of root's is now %q", code, errs, testtool.Read(t, target))
	}
}

// TestOutputDescriptors: files that are open, and pipes, are written through.
func TestOutputDescriptors(t *testing.T) {
	program, sh := os.Args[0], "/bin/sh"
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip(err)
	}
	rec := recording(t, t.TempDir(), "a", sample.ImageID{Path: "/bin/a"})
	want := testtool.Read(t, rec)
	for _, command := range []string{
		`"$0" import "$1" -o /dev/stdout`, `"$0" import "$1" -o /dev/stdout | cat`, `"$0" import "$1" -o /dev/fd/3 3>&1 | cat`, `"$0" import "$1" -o /proc/self/fd/1`,
		`"$0" import "$1" -o /dev/fd/3 3>out; cat out`, `mkfifo p; cat p & "$0" import "$1" -o p; wait`, `ln -s /dev/stdout l; "$0" import "$1" -o l | cat`,
		`"$0" import "$1" -o /dev/null; cat "$1"`,
	} {
		cmd := exec.Command(sh, "-c", command, program, rec)
		cmd.Env, cmd.Dir = append(os.Environ(), runEnv+"=1"), t.TempDir()
		out, err := cmd.Output()
		if err != nil || string(out) != want {
			t.Errorf("%s: %v, %d bytes, want %d", command, err, len(out), len(want))
		}
	}
}

// forOthers makes a directory that every user gets to, and in it one of nobody's, home. Run is a command of backfeed that nobody runs there.
func forOthers(t *testing.T) (dir string, run func(args ...string) *exec.Cmd) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("needs root, to become another user")
	}
	dir, err := os.MkdirTemp("/tmp", "backfeed-test-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	binary, home := filepath.Join(dir, "backfeed.test"), filepath.Join(dir, "home")
	b, err := os.ReadFile(os.Args[0])
	if err := errors.Join(err, os.WriteFile(binary, b, 0o755), os.Chmod(dir, 0o711), os.Mkdir(home, 0o700), os.Chown(home, nobody, nobody)); err != nil {
		t.Fatal(err)
	}
	return dir, func(args ...string) *exec.Cmd {
		cmd := exec.Command(binary, args...)
		cmd.Env, cmd.Dir = append(os.Environ(), runEnv+"=1"), home
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
		return cmd
	}
}

// TestOutputSearchOnly: a directory on the way need not be readable.
func TestOutputSearchOnly(t *testing.T) {
	dir, run := forOthers(t)
	rec := recording(t, dir, "a", sample.ImageID{Path: "/bin/a"})
	made := filepath.Join(dir, "home", "out")
	if out, err := run("import", rec, "-o", made).CombinedOutput(); err != nil || testtool.Read(t, made) != testtool.Read(t, rec) {
		t.Errorf("%v: %s", err, out)
	}
}
