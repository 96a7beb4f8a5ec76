package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestDeleted: a program that is deleted, or replaced by another build, before its recording ends is read all the same, as go run and
// go test leave it; and nothing of it stays open.
func TestDeleted(t *testing.T) {
	exe := busy(t)
	testtool.Need(t, "sh", "cp", "rm")
	t.Setenv("HOME", t.TempDir())
	dir := t.TempDir()
	app, rec, kept, out := filepath.Join(dir, "app"), filepath.Join(dir, "r.bfr"), filepath.Join(dir, "kept"), filepath.Join(dir, "default.pgo")
	for _, end := range []string{`rm "$1"`, `rm "$1"; cp "$(command -v rm)" "$1"`} {
		command := []string{"--", "sh", "-c", `cp "$0" "$1"; "$1" busy 500; ` + end, exe, app}
		code, _, errs := runAs(pgoCmd, append([]string{"-o", out}, command...)...)
		if code != exitDone || !strings.Contains(errs, app+": ") || !strings.Contains(errs, " call edges") {
			t.Errorf("pgo, %s: exit code %d: %s", end, code, errs)
		}
		for _, event := range []string{"cpu-clock", "ptrace-clock"} {
			code, _, errs = runAs(recordCmd, append([]string{"-o", rec, "--event", event, "--copy-to", kept}, command...)...)
			if code == exitMachine {
				t.Logf("%s: %s", event, errs)
				continue
			}
			if code != exitDone {
				t.Fatalf("%s, %s: exit code %d: %s", event, end, code, errs)
			}
			for symfs, found := range map[string]bool{kept: true, t.TempDir(): false} {
				list := must(t, "images", rec, "--symfs", symfs, "--format", "csv")
				if line := lineWith(list, app); line == "" || strings.Contains(line, ",found,") != found {
					t.Errorf("%s, %s: want it found: %v: %s", event, end, found, list)
				}
			}
			if err := os.RemoveAll(kept); err != nil {
				t.Fatal(err)
			}
		}
	}
	if open := testtool.OpenBelow(t, dir); len(open) != 0 {
		t.Errorf("left open: %q", open)
	}
}

// lineWith returns the first line of text that has part, or "".
func lineWith(text, part string) string {
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) {
			return line
		}
	}
	return ""
}
