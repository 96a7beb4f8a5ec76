//go:build unix

package collect

import (
	"syscall"
	"time"
)

// ProcessorTime is what this process has used of the processors, in user and
// system mode.
func ProcessorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
