package optimize

import (
	"errors"
	"os"
	"strconv"
	"syscall"
	"unsafe"
)

// Of sched.h and linux/ioprio.h.
const (
	schedIdle       = 5
	ioprioProcess   = 1
	ioprioIdleClass = 3 << 13
	lowestPriority  = 19
)

// Idle has this process, and what it starts from now on, run only where nothing else wants to: of processors by SCHED_IDLE, of
// disks by their idle class. There is no way back.
func Idle() error {
	// Threads inherit it from the one that made them: two rounds without a new one are all.
	done := map[int]bool{}
	for again := true; again; {
		again = false
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return err
		}
		for _, t := range tasks {
			tid, err := strconv.Atoi(t.Name())
			if err != nil || done[tid] {
				continue
			}
			again, done[tid] = true, true
			if err := idleThread(tid); err != nil && !errors.Is(err, syscall.ESRCH) {
				return err
			}
		}
	}
	return nil
}

func idleThread(tid int) error {
	if err := syscall.Setpriority(syscall.PRIO_PROCESS, tid, lowestPriority); err != nil {
		return os.NewSyscallError("setpriority", err)
	}
	var param int32 // struct sched_param: no priority among idle threads
	if _, _, e := syscall.Syscall(syscall.SYS_SCHED_SETSCHEDULER, uintptr(tid), schedIdle, uintptr(unsafe.Pointer(&param))); e != 0 {
		return os.NewSyscallError("sched_setscheduler", e)
	}
	// Disks without classes do not mind, and containers may forbid it.
	syscall.Syscall(syscall.SYS_IOPRIO_SET, ioprioProcess, uintptr(tid), ioprioIdleClass)
	return nil
}
