package collect

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"
)

// monitorSlack is how much later than it asks for the thread is woken by which the Go runtime watches itself (sysmon of
// runtime/proc.go). While anything runs, it sleeps for 20 us at a time; where a sleep costs 12 us, as in some virtual machines,
// that was 17 of 75 ms of processor time of a recording, and 6 of 58 with this. It looks after goroutines that have run for 10 ms, and takes
// processors from threads that are in system calls, which can wait for a millisecond.
const monitorSlack = time.Millisecond

// calmMonitor has the thread that monitors the Go runtime be woken later by monitorSlack, as far as it may: the kernel asks for CAP_SYS_NICE. Threads that
// the monitor starts have it, too, so that a pause of theirs may be longer by as much.
var calmMonitor = sync.OnceFunc(func() {
	if tid, err := monitorThread(); err == nil {
		_ = os.WriteFile(slackOf(tid), []byte(strconv.FormatInt(monitorSlack.Nanoseconds(), 10)), 0) // without it, all costs a little more
	}
})

// monitorThread is the first thread that a Go program starts (main of runtime/proc.go), and so the next one to that of the process.
func monitorThread() (int, error) {
	pid := os.Getpid()
	tids, err := threadsOf(pid)
	if err != nil {
		return 0, err
	}
	slices.Sort(tids)
	at, _ := slices.BinarySearch(tids, pid+1)
	if at == len(tids) { // numbers began anew in between
		at = 0
	}
	if tids[at] == pid {
		return 0, fmt.Errorf("process %d: one thread", pid)
	}
	return tids[at], nil
}

func slackOf(tid int) string { return fmt.Sprintf("/proc/%d/timerslack_ns", tid) } // of a thread, though it lists none
