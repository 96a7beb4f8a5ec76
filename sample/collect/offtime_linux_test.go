//go:build amd64 || arm64

package collect

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/sys/unix"

	"backfeed/internal/testtool"
)

// TestOffTook: what the kernel's programs take at switches is counted, and is of these alone.
func TestOffTook(t *testing.T) {
	testtool.Live(t, "records")
	s := system(t, SystemOptions{Frequency: 97, Callers: CallersOfAll, Frames: 8, OffCPU: true})
	if why := s.Counters().Off.Untimed; why != "" {
		t.Skip(why)
	}
	before := s.Counters().Off
	switchOften(t, 1000)
	for range 3 { // what is not timed counts as well
		if _, err := s.Drain(); err != nil {
			t.Fatal(err)
		}
	}
	switchOften(t, 1000)
	n := s.Counters()
	if n.Off.Times-before.Times < 1000 || n.Off.Took <= before.Took {
		t.Errorf("%d waits took %v", n.Off.Times-before.Times, n.Off.Took-before.Took)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if last := s.Counters().Off; last.Took < n.Off.Took || last.Untimed != "" {
		t.Errorf("after its end: %+v, before %+v", last, n.Off)
	}
	// Samples alone have the kernel time nothing.
	alone := system(t, SystemOptions{Frequency: 97})
	if off := alone.Counters().Off; off.Took != 0 || off.Untimed != "" {
		t.Errorf("without time off the processor: %+v", off)
	}
}

// switchOften has a byte go through cat and back so many times.
func switchOften(t *testing.T, n int) {
	t.Helper()
	cat := talkTo(t, exec.Command("cat"))
	for range n {
		cat.say("x")
		cat.hear()
	}
}

// TestSwitchCost: programs are timed at first, and then now and again; what is not timed counts as what is. Where the kernel
// does not time them for this process, that is said, unless it does so for all.
func TestSwitchCost(t *testing.T) {
	const perSwitch = 1000 // ns
	files := fstest.MapFS{"stat": {}, "sys/kernel/bpf_stats_enabled": {Data: []byte("0\n")}}
	var switches uint64
	var ran time.Duration
	on := false
	var refused error
	switched := func(n uint64, each time.Duration) {
		switches += n
		files["stat"].Data = fmt.Appendf(nil, "cpu  1 2 3\nctxt %d\nbtime 7\n", switches)
		if on {
			ran += time.Duration(n) * each
		}
	}
	switched(5_000_000, perSwitch) // before
	at := time.Unix(1e9, 0)
	newCost := func() *switchCost {
		return &switchCost{proc: files, ran: func() time.Duration { return ran }, enable: func(uint32) (io.Closer, error) {
			if refused != nil {
				return nil, fmt.Errorf("enable stats: %w", refused)
			}
			on = true
			return closing(func() { on = false }), nil
		}}
	}
	c := newCost()
	c.begin(at)
	turns, timed := 100, 0
	for range turns {
		if on {
			timed++
		}
		switched(2000, perSwitch)
		at = at.Add(time.Second)
		c.turn(at)
	}
	switched(500, perSwitch)
	if got, want := c.total(), (time.Duration(turns)*2000+500)*perSwitch; got != want {
		t.Errorf("%v, want %v", got, want)
	}
	if timed < turns/timedShare || timed > turns/timedShare+5 {
		t.Errorf("timed in %d of %d turns", timed, turns)
	}
	last := c.total()
	c.end(at)
	if switched(500, perSwitch); on || c.total() != last {
		t.Errorf("after its end it is timed: %v, and took %v in place of %v", on, c.total(), last)
	}

	for _, tt := range []struct {
		name    string
		refused error
		enabled string
		want    string
	}{
		{"refused", unix.EPERM, "0\n", "CAP_SYS_ADMIN"},
		{"refused, and on for all", unix.EPERM, "1\n", ""},
		{"an old kernel", unix.EINVAL, "", "does not time"},
	} {
		refused, files["sys/kernel/bpf_stats_enabled"].Data = tt.refused, []byte(tt.enabled)
		on = tt.enabled == "1\n"
		c := newCost()
		c.begin(at)
		switched(10, perSwitch)
		c.turn(at.Add(time.Second))
		if (c.untimed == "") != (tt.want == "") || !strings.Contains(c.untimed, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, c.untimed, tt.want)
		}
		if counted := c.total() == 10*perSwitch; counted != on {
			t.Errorf("%s: took %v", tt.name, c.total())
		}
	}
}

type closing func()

func (c closing) Close() error { c(); return nil }

// TestMeasureOffTook: what timing the kernel's programs at switches costs a round trip of this thread and another process on one processor,
// and what it says that they took. Of trips without and with, by turns, the fastest are compared: others are of who else wants to run.
func TestMeasureOffTook(t *testing.T) {
	measuring(t, "the cost of timing what runs at switches")
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var all unix.CPUSet
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		t.Fatal(err)
	}
	defer unix.SchedSetaffinity(0, &all)
	var one unix.CPUSet
	one.Set(0)
	if err := unix.SchedSetaffinity(0, &one); err != nil {
		t.Fatal(err)
	}
	to, from := echo(t)
	const trips, turns = 2000, 60
	trip := func() float64 {
		var b [1]byte
		start := time.Now()
		for range trips {
			if _, err := unix.Write(to, b[:]); err != nil {
				t.Fatal(err)
			}
			if _, err := unix.Read(from, b[:]); err != nil {
				t.Fatal(err)
			}
		}
		return float64(time.Since(start).Nanoseconds()) / trips
	}
	plain, followed, timed := math.Inf(1), math.Inf(1), math.Inf(1)
	for range turns {
		plain = min(plain, trip())
	}
	s := system(t, SystemOptions{Frequency: 97, Callers: CallersOfAll, Frames: 8, OffCPU: true})
	var took time.Duration
	for range turns {
		s.off.cost.stop()
		followed = min(followed, trip())
		ran := s.off.ran()
		if err := s.off.cost.start(); err != nil {
			t.Skip(err)
		}
		timed = min(timed, trip())
		took += s.off.ran() - ran
	}
	t.Logf("a trip takes %.0f ns plain, %.0f followed, %.0f followed and timed; %.0f of it are the programs', timing them included", plain, followed, timed, float64(took)/trips/turns)
}

// echo starts cat, and returns files to write to it and to read from.
func echo(t *testing.T) (to, from int) {
	t.Helper()
	var in, out [2]int
	if err := errors.Join(unix.Pipe2(in[:], unix.O_CLOEXEC), unix.Pipe2(out[:], unix.O_CLOEXEC)); err != nil {
		t.Fatal(err)
	}
	cat := exec.Command("cat")
	cat.Stdin, cat.Stdout = os.NewFile(uintptr(in[0]), "in"), os.NewFile(uintptr(out[1]), "out")
	if err := cat.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		unix.Close(in[1])
		cat.Wait()
		unix.Close(out[0])
	})
	return in[1], out[0]
}
