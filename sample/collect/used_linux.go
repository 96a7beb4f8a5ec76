package collect

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// A used knows how long processes have run in user mode since it was made: at least, as far as was looked before they ended, and without what
// they started.
type used struct {
	at   func(pid int) (time.Duration, bool)
	live map[int]time.Duration // by process that has not ended: as of the last look
	all  time.Duration
}

// newUsed begins to look at processes; at is utime.
func newUsed(pids []int, at func(pid int) (time.Duration, bool)) *used {
	u := &used{at: at, live: map[int]time.Duration{}}
	for _, pid := range pids {
		if d, ok := at(pid); ok {
			u.live[pid] = d
		}
	}
	return u
}

// look takes in how long they have run until now.
func (u *used) look() {
	if u == nil {
		return
	}
	for pid, before := range u.live {
		// What is less is of another process, which has its number now.
		if d, ok := u.at(pid); ok && d >= before {
			u.all += d - before
			u.live[pid] = d
		} else {
			delete(u.live, pid)
		}
	}
}

// sum is how long they have run, as of the last look.
func (u *used) sum() time.Duration {
	if u == nil {
		return 0
	}
	return u.all
}

// utime is how long all threads of a process have run in user mode, those that have ended included; proc_pid_stat(5) has it in ticks of 10 ms.
func utime(pid int) (time.Duration, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, false
	}
	const field, tick = 14 - 3, 10 * time.Millisecond
	f := StatFields(string(b))
	if len(f) <= field {
		return 0, false
	}
	n, err := strconv.ParseInt(f[field], 10, 64)
	return time.Duration(n) * tick, err == nil
}
