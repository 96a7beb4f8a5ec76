package collect

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestDisarm: of a thread that is about to stop at its debug register, nothing is left when that is taken back.
func TestDisarm(t *testing.T) {
	followed(t)
	target := startBusy(t, "2500")
	pid := target.Process.Pid
	th := &tracee{tid: pid, pid: pid, dir: fmt.Sprintf("/proc/%d/task/%d", pid, pid)}
	seized := make(chan error)
	onOwnThread(func() {
		err := ptraceCall(unix.PTRACE_SEIZE, pid, 0, 0)
		if err != nil {
			seized <- err
			return
		}
		left, armed := 0, 0
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			var status unix.WaitStatus
			var r registers
			if ptraceCall(unix.PTRACE_INTERRUPT, pid, 0, 0) != nil {
				break
			}
			if _, err := wait4(pid, &status, unix.WALL); err != nil || !status.Stopped() {
				break
			}
			if r.get(pid) == nil && setDebugRegister(pid, r.pc()) == nil {
				armed++
			}
			resume(pid, 0)
			// By then, it is about to stop by its register once in some hundred times.
			for until := time.Now().Add(time.Duration(8+rand.IntN(12)) * time.Microsecond); time.Now().Before(until); {
			}
			disarm(th)
			time.Sleep(200 * time.Microsecond)
			if got, _ := wait4(pid, &status, unix.WALL|unix.WNOHANG); got == 0 || !status.Stopped() {
				continue
			}
			signal := status.StopSignal()
			if signal == unix.SIGTRAP && trapCode(pid) == trapHardware {
				left++
				signal = 0
			}
			resume(pid, signal)
		}
		t.Logf("armed %d times", armed)
		if left > 0 {
			t.Errorf("of %d times, it stopped %d times after that", armed, left)
		}
		seized <- nil
	})
	if err := <-seized; err != nil {
		t.Skip(err)
	}
	if err := target.Wait(); err != nil {
		t.Errorf("the program: %v", err)
	}
}
