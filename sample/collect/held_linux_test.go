package collect

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// held starts a shell that leaves a file behind, and exits with code 3.
func held(t *testing.T) (h *Held, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "ran")
	h, err := StartHeld(Options{Command: []string{"/bin/sh", "-c", `echo "$0" > "$1" && exit 3`, "here", file}})
	if errors.Is(err, syscall.EPERM) {
		t.Skipf("this machine allows no tracing: %v", err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(h.Stop)
	return h, file
}

// TestHeld: a held command has not begun, runs on unattended once it is let go, and
// tells how it ended.
func TestHeld(t *testing.T) {
	h, file := held(t)
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", h.PID()))
	if err != nil || !strings.Contains(string(stat), "(sh) t ") {
		t.Errorf("%v: %s; want it in place and stopped", err, stat)
	}
	select {
	case <-h.Ended():
		t.Error("it has ended, and was not let go")
	default:
	}
	if b, err := os.ReadFile(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it ran: %s, %v", b, err)
	}
	if err := h.Release(); err != nil {
		t.Fatal(err)
	}
	<-h.Ended()
	if b, err := os.ReadFile(file); string(b) != "here\n" {
		t.Errorf("it left %q: %v", b, err)
	}
	if code := h.State().ExitCode(); code != 3 {
		t.Errorf("%v, want exit code 3", h.State())
	}
	if err := h.Release(); err != nil {
		t.Errorf("let go again: %v", err)
	}
	h.Stop() // of what has ended is nothing
	if code := h.State().ExitCode(); code != 3 {
		t.Errorf("stopped when it had ended: %v", h.State())
	}
}

// TestHeldStopped: a command that is stopped while it is held never runs.
func TestHeldStopped(t *testing.T) {
	h, file := held(t)
	h.Stop()
	if b, err := os.ReadFile(file); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it ran: %s, %v", b, err)
	}
	if status := h.State().Sys().(syscall.WaitStatus); !status.Signaled() {
		t.Errorf("%v, want it ended by a signal", h.State())
	}
	if err := syscall.Kill(h.PID(), 0); err != syscall.ESRCH {
		t.Errorf("the process is left: %v", err)
	}
}

// TestHeldNot: what cannot be started is an error.
func TestHeldNot(t *testing.T) {
	if _, err := StartHeld(Options{Command: []string{"/no/such/command"}}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
	text := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(text, []byte("no program\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := StartHeld(Options{Command: []string{text}}); !errors.Is(err, syscall.ENOEXEC) {
		t.Errorf("a file that is no program: %v", err)
	}
}
