package collect

import (
	"fmt"
	"math"
	"os"
	"strconv"
	"time"
)

// A used knows how long processes have run since it was made: at least, as far as was looked before they ended, and without what
// they started.
type used struct {
	at   func(pid int) (ran, bool)
	live map[int]ran // by process that has not ended: as of the last look
	all  ran
}

// A ran is how long something ran in user mode, and how long the kernel worked for it.
type ran struct{ user, system time.Duration }

// newUsed begins to look at processes; at is ranOf.
func newUsed(pids []int, at func(pid int) (ran, bool)) *used {
	u := &used{at: at, live: map[int]ran{}}
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
		if d, ok := u.at(pid); ok && d.user >= before.user && d.system >= before.system {
			u.all.user += d.user - before.user
			u.all.system += d.system - before.system
			u.live[pid] = d
		} else {
			delete(u.live, pid)
		}
	}
}

// sum is how long they have run, as of the last look.
func (u *used) sum() ran {
	if u == nil {
		return ran{}
	}
	return u.all
}

// tick is the unit of proc_pid_stat(5), and the most that lies between two moments at which a kernel looks what a thread is at.
const tick = 10 * time.Millisecond

// ranOf is how long all threads of a process have run, those that have ended included; proc_pid_stat(5) has it in ticks.
func ranOf(pid int) (ran, bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return ran{}, false
	}
	const user, system = 14 - 3, 15 - 3
	f := StatFields(string(b))
	if len(f) <= system {
		return ran{}, false
	}
	u, err := strconv.ParseInt(f[user], 10, 64)
	s, err2 := strconv.ParseInt(f[system], 10, 64)
	return ran{time.Duration(u) * tick, time.Duration(s) * tick}, err == nil && err2 == nil
}

// clearlyUser is how long it ran in user mode at the least. The kernel knows how long a thread ran, and divides that by what it was at
// at each tick (cputime_adjust in kernel/sched/cputime.c): of n ticks, the user's are known to two standard deviations of a binomial.
func (r ran) clearlyUser() time.Duration {
	all := r.user + r.system
	if all <= 0 {
		return 0
	}
	spread := math.Sqrt(float64(r.user) / float64(all) * float64(r.system) * float64(tick))
	return max(0, r.user-tick-time.Duration(2*spread))
}
