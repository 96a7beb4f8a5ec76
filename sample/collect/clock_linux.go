package collect

import (
	"os"
	"runtime"
	"strconv"

	"golang.org/x/sys/unix"
)

// on calls f on a processor, if this thread may run there; -1 is any.
func on(cpu int, f func()) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var old, one unix.CPUSet
	if cpu >= 0 && unix.SchedGetaffinity(0, &old) == nil {
		one.Set(cpu)
		if unix.SchedSetaffinity(0, &one) == nil {
			defer unix.SchedSetaffinity(0, &old)
		}
	}
	f()
}

// lastProcessor returns the processor that a thread ran on last; -1 is unknown.
func lastProcessor(tid int) int {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/stat")
	if err != nil {
		return -1
	}
	const field = 39 - 3 // of proc(5), from the state on
	fields := StatFields(string(b))
	if len(fields) <= field {
		return -1
	}
	cpu, err := strconv.Atoi(fields[field])
	if err != nil {
		return -1
	}
	return cpu
}
