//go:build amd64 || arm64

package collect

import (
	"os"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// An alarm interrupts waitid on this thread. Go's handlers of signals have calls restarted; that of this signal,
// which nobody else uses, has not, and it is repeated, lest it come before the call.
type alarm struct{ id int32 }

const (
	alarmSignal = 63
	alarmAgain  = time.Millisecond
	sigRestart  = 0x10000000 // SA_RESTART
	threadID    = 4          // SIGEV_THREAD_ID
)

func (t *alarm) open() error {
	t.id = -1
	var action struct{ handler, flags, restorer, mask uint64 }
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, alarmSignal, 0, uintptr(unsafe.Pointer(&action)), 8, 0, 0); errno != 0 {
		return os.NewSyscallError("rt_sigaction", errno)
	}
	action.flags &^= sigRestart
	if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, alarmSignal, uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0); errno != 0 {
		return os.NewSyscallError("rt_sigaction", errno)
	}
	event := struct {
		value               uint64
		signal, notify, tid int32
		_                   [44]byte
	}{signal: alarmSignal, notify: threadID, tid: int32(unix.Gettid())}
	if _, _, errno := unix.RawSyscall(unix.SYS_TIMER_CREATE, unix.CLOCK_MONOTONIC, uintptr(unsafe.Pointer(&event)), uintptr(unsafe.Pointer(&t.id))); errno != 0 {
		return os.NewSyscallError("timer_create", errno)
	}
	return nil
}

func (t *alarm) set(d time.Duration) {
	spec := unix.ItimerSpec{Interval: unix.NsecToTimespec(int64(alarmAgain)), Value: unix.NsecToTimespec(max(1, int64(d)))}
	unix.RawSyscall6(unix.SYS_TIMER_SETTIME, uintptr(t.id), 0, uintptr(unsafe.Pointer(&spec)), 0, 0, 0)
}

func (t *alarm) close() {
	if t.id >= 0 {
		unix.RawSyscall(unix.SYS_TIMER_DELETE, uintptr(t.id), 0, 0)
	}
}
