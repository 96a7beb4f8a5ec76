//go:build amd64 || arm64

package collect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/cilium/ebpf"
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
	n := s.Counters()
	if n.Off.Times-before.Times < 1000 || n.Off.Took <= before.Took {
		t.Errorf("%d waits took %v", n.Off.Times-before.Times, n.Off.Took-before.Took)
	}
	if n.BPF < n.Off.Took {
		t.Errorf("all programs took %v, those at switches %v of it", n.BPF, n.Off.Took)
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

// TestOffUntimed: where the kernel does not time programs for this process, that is said, unless it does so for all.
func TestOffUntimed(t *testing.T) {
	refuse := func(err error) func(uint32) (io.Closer, error) {
		return func(uint32) (io.Closer, error) { return nil, fmt.Errorf("enable stats: %w", err) }
	}
	proc := func(enabled string) fs.FS {
		return fstest.MapFS{"sys/kernel/bpf_stats_enabled": {Data: []byte(enabled)}}
	}
	for _, tt := range []struct {
		name   string
		enable error
		proc   fs.FS
		want   string
	}{
		{"refused", unix.EPERM, proc("0\n"), "CAP_SYS_ADMIN"},
		{"refused, and on", unix.EPERM, proc("1\n"), ""},
		{"an old kernel", unix.EINVAL, fstest.MapFS{}, "does not time"},
	} {
		o := &offCPU{}
		o.time(refuse(tt.enable), tt.proc)
		if o.timing != nil || (o.untimed == "") != (tt.want == "") || !strings.Contains(o.untimed, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, o.untimed, tt.want)
		}
	}
}

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
	before := s.Counters().Off
	for range turns {
		s.off.endTiming()
		followed = min(followed, trip())
		s.off.time(ebpf.EnableStats, os.DirFS("/proc"))
		timed = min(timed, trip())
	}
	n := s.Counters().Off
	t.Logf("a trip takes %.0f ns plain, %.0f followed, %.0f followed and timed; the kernel says %.0f of it are its programs'", plain, followed, timed, float64(n.Took-before.Took)/trips/turns)
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
