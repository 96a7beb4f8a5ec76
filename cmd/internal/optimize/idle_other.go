//go:build !linux

package optimize

import "syscall"

// Idle has this process, and what it starts from now on, run after all others.
func Idle() error { return syscall.Setpriority(syscall.PRIO_PROCESS, 0, 19) }
