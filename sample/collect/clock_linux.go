package collect

import (
	"os"
	"runtime"
	"strconv"
	"strings"

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
	// PID (NAME) STATE ...: the name may hold anything. The processor is the 39th field.
	fields := strings.Fields(string(b[max(0, strings.LastIndexByte(string(b), ')')):]))
	if len(fields) < 38 {
		return -1
	}
	cpu, err := strconv.Atoi(fields[37])
	if err != nil {
		return -1
	}
	return cpu
}
