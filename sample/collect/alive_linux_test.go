package collect

import (
	"os/exec"
	"testing"
	"time"
)

// TestAlive: a process that has ended has, though nobody has waited for it yet.
func TestAlive(t *testing.T) {
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	pid := cmd.Process.Pid
	if !Alive(pid) {
		t.Error("it sleeps, and is not alive")
	}
	cmd.Process.Kill()
	for deadline := time.Now().Add(10 * time.Second); Alive(pid) && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	if Alive(pid) {
		t.Error("alive as a zombie")
	}
	cmd.Wait()
	if Alive(pid) {
		t.Error("alive though it is gone")
	}
}
