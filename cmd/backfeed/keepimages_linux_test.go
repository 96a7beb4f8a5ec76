package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestKeepImages: what record and images keep is found when the program is gone.
func TestKeepImages(t *testing.T) {
	testtool.Live(t, "samples a program")
	from := testtool.Path(t, "gzip")
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	rec, program, kept, copied, into := filepath.Join(dir, "r.bfr"), filepath.Join(dir, "program"), filepath.Join(dir, "kept"), filepath.Join(dir, "copied"), filepath.Join(dir, "store")
	testtool.Put(t, program, testtool.Read(t, from))
	if err := os.Chmod(program, 0o755); err != nil {
		t.Fatal(err)
	}
	data := testtool.Write(t, dir, "data", strings.Repeat(testtool.Read(t, from), 200))
	code, _, errs := runAs(recordCmd, "-o", rec, "--copy-to", kept, "--", program, "-k", data)
	if code != exitDone || !strings.Contains(errs, kept+": ") {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if code, _, errs := runAs(recordCmd, "--store", into, "--keep-images", "--", program, "-kf", data); code != exitDone {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	must(t, "images", rec, "--copy-to", copied)
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	state := func(args ...string) string {
		for _, line := range strings.Split(must(t, append([]string{"images", "--format", "csv"}, args...)...), "\n") {
			if strings.Contains(line, program) {
				return line
			}
		}
		return ""
	}
	if line := state(rec); !strings.Contains(line, "not found") {
		t.Fatalf("%q", line)
	}
	for _, args := range [][]string{{rec, "--symfs", kept}, {rec, "--symfs", copied}, {into}} {
		if line := state(args...); !strings.Contains(line, ",found,") {
			t.Errorf("%q: %q", args, line)
		}
	}
	if code, _, errs := runAs(recordCmd, "-o", rec, "--keep-images", "--", program); code != exitUsage || !strings.Contains(errs, "goes with --store") {
		t.Errorf("exit code %d: %s", code, errs)
	}
}

// TestKeepContainer: a program of a container that ended seconds before samples were looked at is kept, from the file that it had there.
func TestKeepContainer(t *testing.T) {
	exe := busy(t)
	testtool.Need(t, "sh", "unshare", "mount", "chroot", "timeout")
	if out, err := testtool.Command(t, "unshare", "-m", "mount", "-t", "tmpfs", "none", t.TempDir()).CombinedOutput(); err != nil {
		t.Skipf("mount of a tmpfs in a mount namespace: %s", out)
	}
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	rec, kept := filepath.Join(dir, "r.bfr"), filepath.Join(dir, "kept")
	container := testtool.Command(t, "sh", "-c", `sleep 1; exec unshare -m sh -c '
		mount -t tmpfs none "$1" && cd "$1" && mkdir lower upper work merged && cp "$0" lower/contained &&
		mount -t overlay overlay -o lowerdir=lower,upperdir=upper,workdir=work merged && timeout 0.5 chroot merged /contained busy 100000' "$0" "$1"`, exe, t.TempDir())
	if err := container.Start(); err != nil {
		t.Fatal(err)
	}
	defer container.Wait()
	switch code, _, errs := runAs(recordCmd, "-a", "-d", "4s", "-o", rec, "--copy-to", kept); code {
	case exitDone:
	case exitMachine:
		t.Skip(errs)
	default:
		t.Fatalf("exit code %d: %s", code, errs)
	}
	line := lineWith(must(t, "images", rec, "--symfs", kept, "--format", "csv"), "/contained")
	if line == "" {
		t.Skip("it has no samples: the machine is too busy, or mounts no overlay")
	}
	if !strings.Contains(line, ",found,") {
		t.Errorf("%q", line)
	}
}
