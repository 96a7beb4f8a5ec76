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
