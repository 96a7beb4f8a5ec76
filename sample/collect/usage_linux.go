package collect

import (
	"os"
	"syscall"

	"backfeed/sample"
)

// usageOf returns what a command has used that has ended.
//
// A process begins as one of this program, and the kernel counts the most that it ever had in memory from there on, by
// which small commands seem to have used as much as this process (setmax_mm_hiwater_rss in exec_mmap of fs/exec.c). What is not
// more than that is only a bound.
func usageOf(ended *os.ProcessState) sample.Usage {
	u, ok := ended.SysUsage().(*syscall.Rusage)
	if !ok {
		return sample.Usage{}
	}
	out := sample.Usage{
		User:      uint64(u.Utime.Nano() / 1000),
		System:    uint64(u.Stime.Nano() / 1000),
		Memory:    uint64(u.Maxrss) << 10,
		Minor:     uint64(u.Minflt),
		Major:     uint64(u.Majflt),
		Waited:    uint64(u.Nvcsw),
		Preempted: uint64(u.Nivcsw),
		Read:      uint64(u.Inblock),
		Wrote:     uint64(u.Oublock),
	}
	var own syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &own) != nil || u.Maxrss <= own.Maxrss {
		out.Under = out.Memory > 0
	}
	return out
}
