package sample

import (
	"cmp"
	"errors"
	"math"
	"slices"
)

// A Run is one run of a recorder: what it recorded, and what that used. What is 0 or "" is unknown.
type Run struct {
	Began   uint64   // ms since 1970
	Lasted  uint64   // ms
	Host    string   // name of the machine
	Command []string // that was recorded, as CommandName tells it
	Usage   Usage    // of Command
}

// A Usage is what a command and what it waited for have used in all, as Linux counts it (getrusage(2)). The zero
// value is unknown.
type Usage struct {
	User, System uint64 // processor time, in us
	Memory       uint64 // most that one of its processes had in memory, in bytes
	Under        bool   // Memory is only an upper bound: it had less
	Minor, Major uint64 // page faults without and with reading
	Waited       uint64 // switches to another thread because it waited
	Preempted    uint64 // switches although it did not
	Read, Wrote  uint64 // from and to disks, in blocks of 512 bytes
}

// SplitSD is the standard deviation of User and of System, in us, where the kernel divides their sum by what its ticks met
// (CONFIG_TICK_CPU_ACCOUNTING), 100 times a second at the least.
func (u *Usage) SplitSD() float64 {
	const tick = 10_000 // us
	user, system := float64(u.User), float64(u.System)
	return math.Sqrt(tick * user * system / max(1, user+system))
}

// CommandName is what a recording tells of a command line: its program, and "..." for all arguments, which may hold what
// is not for whoever reads the recording.
func CommandName(line []string) []string {
	if len(line) < 2 {
		return slices.Clone(line)
	}
	return []string{line[0], "..."}
}

// MaxRuns bounds the runs that a recording lists. Others are only counted.
const MaxRuns = 64

func (r *Run) compare(o *Run) int {
	a, b := r.numbers(), o.numbers()
	return cmp.Or(cmp.Compare(r.Began, o.Began), cmp.Compare(r.Lasted, o.Lasted), cmp.Compare(r.Host, o.Host),
		slices.Compare(r.Command, o.Command), slices.CompareFunc(a[:], b[:], func(x, y *uint64) int { return cmp.Compare(*x, *y) }),
		cmp.Compare(r.Usage.flags(), o.Usage.flags()))
}

// numbers are those of Usage, in the order of the format.
func (r *Run) numbers() [9]*uint64 {
	u := &r.Usage
	return [...]*uint64{&u.User, &u.System, &u.Memory, &u.Minor, &u.Major, &u.Waited, &u.Preempted, &u.Read, &u.Wrote}
}

func (u Usage) flags() uint64 {
	if u.Under {
		return 1
	}
	return 0
}

// AddRun adds a run.
func (r *Recording) AddRun(run Run) { r.addRuns([]Run{run}, 0) }

// addRuns adds runs and the number of those that are not listed. The earliest are: those that stay are the same in any order.
func (r *Recording) addRuns(runs []Run, unlisted uint64) {
	r.Unlisted = add(r.Unlisted, unlisted)
	if len(runs) == 0 {
		return
	}
	all := make([]Run, 0, len(r.Runs)+len(runs))
	all = append(all, r.Runs...)
	for _, run := range runs {
		run.Command = slices.Clone(run.Command)
		all = append(all, run)
	}
	slices.SortFunc(all, func(a, b Run) int { return a.compare(&b) })
	if len(all) > MaxRuns {
		r.Unlisted = add(r.Unlisted, uint64(len(all)-MaxRuns))
		all = all[:MaxRuns]
	}
	r.Runs = all
}

func (r *Recording) checkRuns() error {
	if len(r.Runs) > MaxRuns || r.Unlisted > 0 && len(r.Runs) < MaxRuns {
		return errors.New("number of runs")
	}
	for i := range r.Runs {
		if u := r.Runs[i].Usage; u.Under && u.Memory == 0 {
			return errors.New("run with less memory than none")
		}
		if i > 0 && r.Runs[i-1].compare(&r.Runs[i]) > 0 {
			return errors.New("order of runs")
		}
	}
	return nil
}
