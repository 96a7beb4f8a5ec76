package collect

import (
	"os"
	"path/filepath"
	"testing"
)

// TestPrivileged: a program that gets privileges of its file is told from one that does not, by a user who has none.
func TestPrivileged(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if why := Privileged(path); why != "" {
		t.Errorf("an ordinary program %s", why)
	}
	if why := Privileged("/nowhere/at/all"); why != "" {
		t.Errorf("what is not there %s", why)
	}
	if os.Geteuid() == 0 {
		t.Skip("root has all privileges that files give")
	}
	if err := os.Chmod(path, 0o111); err != nil {
		t.Fatal(err)
	}
	if why := Privileged(path); why != "may be executed but not read" {
		t.Errorf("a program that cannot be read %q", why)
	}
}
