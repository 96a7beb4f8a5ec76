package collect

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Held is a process that was started and stands before its first instruction, so
// that nothing of it is missed by whatever is set up now.
type Held struct {
	cmd     *exec.Cmd
	release sync.Once
	run     chan unix.Signal // to be delivered when it is let go
	left    chan error
	wait    sync.Once
	ended   chan struct{}
}

// StartHeld starts the command of opt and holds it.
func StartHeld(opt Options) (*Held, error) {
	h := &Held{cmd: opt.command(), run: make(chan unix.Signal, 1), left: make(chan error, 1), ended: make(chan struct{})}
	h.cmd.SysProcAttr.Ptrace = true
	started := make(chan error)
	go func() {
		// Only the thread that started it may let it go.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		if err := h.cmd.Start(); err != nil {
			started <- err
			return
		}
		// It stops when its program is in place.
		var status unix.WaitStatus
		_, err := unix.Wait4(h.cmd.Process.Pid, &status, 0, nil)
		if err == nil && !status.Stopped() {
			err = fmt.Errorf("%s ended at its start", opt.Command[0])
		}
		started <- err
		if err == nil {
			signal := <-h.run
			h.left <- os.NewSyscallError("ptrace", ptraceCall(unix.PTRACE_DETACH, h.cmd.Process.Pid, 0, uintptr(signal)))
		}
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	return h, nil
}

// PID is its number.
func (h *Held) PID() int { return h.cmd.Process.Pid }

// Release lets it run.
func (h *Held) Release() (err error) {
	h.release.Do(func() {
		h.run <- 0
		err = <-h.left
		h.await()
	})
	return err
}

// handOver leaves it stopped by SIGSTOP, for another tracer. That calls reaped when it has ended, or await when it traces no more:
// who waits for a process while another thread traces it gets its stops.
func (h *Held) handOver() (err error) {
	h.release.Do(func() {
		h.run <- unix.SIGSTOP
		if err = <-h.left; err != nil {
			return
		}
		var status unix.WaitStatus
		if _, err = wait4(h.PID(), &status, unix.WUNTRACED); err == nil && !status.Stopped() {
			err = errors.New("it did not stop at its start")
		}
	})
	return err
}

// reaped takes in that it has ended.
func (h *Held) reaped() {
	h.wait.Do(func() {
		h.cmd.Wait()
		close(h.ended)
	})
}

// await waits for it to end, unless that was seen. To wait for a process takes the stops of one that another thread of this process
// traces, so that is done when it has ended.
func (h *Held) await() {
	go func() {
		h.poll()
		h.reaped()
	}()
}

// poll returns when it has ended, or at once where the kernel does not say so (Linux before 5.3).
func (h *Held) poll() {
	fd, err := unix.PidfdOpen(h.PID(), 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for {
		if _, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1); err != unix.EINTR {
			return
		}
	}
}

// Ended is closed when the process has ended.
func (h *Held) Ended() <-chan struct{} { return h.ended }

// State says how it ended.
func (h *Held) State() *os.ProcessState { return h.cmd.ProcessState }

// Stop has it end: by SIGTERM, and by SIGKILL if that does not help. A process that
// is still held never runs.
func (h *Held) Stop() {
	h.cmd.Process.Signal(unix.SIGTERM)
	h.Release()
	select {
	case <-h.ended:
	case <-time.After(killAfter):
		h.cmd.Process.Kill()
		<-h.ended
	}
}
