//go:build amd64 || arm64

package collect

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A switchCost is what the kernel's programs take at switches of threads. From Linux 5.8 on, the kernel times its programs for as long as
// somebody who may asks for it, or where kernel.bpf_stats_enabled says so: all of them, those of others too. That is asked for at first,
// and then for a part of the time: what a switch took then is taken for what each takes until the next time.
type switchCost struct {
	enable func(uint32) (io.Closer, error)
	proc   fs.FS                // /proc
	ran    func() time.Duration // of the programs, while they were timed

	mu      sync.Mutex
	untimed string // why they are not; "" where they are
	always  bool   // whatever is asked for
	timing  io.Closer

	took     time.Duration // until at
	each     float64       // ns of a switch of the machine, as last timed
	at       time.Time
	atRan    time.Duration
	switches uint64 // of the machine, as of at

	all, timed time.Duration
}

const (
	// timedFirst is how long programs are timed at first, and timedShare the part of the time afterwards.
	timedFirst = 4 * time.Second
	timedShare = 8

	// timedRun is what it takes to time a run of a program, which is not in what that took: of round trips of two processes, with four runs each,
	// those that were timed took 204 to 271 ns more (TestMeasureOffTook, three times, on a virtual machine with Linux 6.18).
	timedRun = 60 * time.Nanosecond
)

func (c *switchCost) begin(now time.Time) {
	if set, err := fs.ReadFile(c.proc, "sys/kernel/bpf_stats_enabled"); err == nil && strings.TrimSpace(string(set)) == "1" {
		c.always = true
	} else if err := c.start(); err != nil {
		c.untimed = "the kernel does not time its programs"
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EACCES) {
			c.untimed = "the kernel times its programs for root alone (CAP_SYS_ADMIN), or after sysctl kernel.bpf_stats_enabled=1"
		}
		return
	}
	c.at, c.atRan, c.switches = now, c.ran(), c.machine()
}

// start has the kernel time programs.
func (c *switchCost) start() (err error) {
	c.timing, err = c.enable(unix.BPF_STATS_RUN_TIME)
	return err
}

// machine is how many switches of threads there were on this machine.
func (c *switchCost) machine() uint64 {
	text, err := fs.ReadFile(c.proc, "stat")
	if err != nil {
		return 0
	}
	_, after, _ := bytes.Cut(text, []byte("\nctxt "))
	line, _, _ := bytes.Cut(after, []byte("\n"))
	n, err := strconv.ParseUint(string(line), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// since returns what was taken since at, and how many switches there were. It is known where programs are timed, and estimated where not.
func (c *switchCost) since() (took time.Duration, switches uint64) {
	if n := c.machine(); n > c.switches {
		switches = n - c.switches
	}
	if c.timing != nil || c.always {
		return c.ran() - c.atRan, switches
	}
	return time.Duration(c.each * float64(switches)), switches
}

// turn is called every so often: it adds up what was taken, and decides whether that is timed until the next time.
func (c *switchCost) turn(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next(now)
}

func (c *switchCost) next(now time.Time) {
	if c.untimed != "" || c.at.IsZero() {
		return
	}
	took, switches := c.since()
	c.took += took
	c.all += now.Sub(c.at)
	if c.timing != nil || c.always {
		c.timed += now.Sub(c.at)
		if switches > 0 {
			c.each = float64(took) / float64(switches)
		}
	}
	switch due := c.all < timedFirst || c.timed < c.all/timedShare; {
	case c.always:
	case due && c.timing == nil:
		c.start() // it was allowed before; where it is not any more, the last time goes on to count
	case !due:
		c.stop()
	}
	c.at, c.atRan, c.switches = now, c.ran(), c.machine()
}

// total is what was taken since begin.
func (c *switchCost) total() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.untimed != "" || c.at.IsZero() {
		return c.took
	}
	took, _ := c.since()
	return c.took + took
}

// stop has the kernel time programs no longer, unless others want it.
func (c *switchCost) stop() {
	if c.timing != nil {
		c.timing.Close()
		c.timing = nil
	}
}

// end is stop for good: no program runs any more.
func (c *switchCost) end(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.next(now)
	c.stop()
	c.at = time.Time{}
}
