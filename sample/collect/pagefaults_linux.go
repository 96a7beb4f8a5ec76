//go:build amd64 || arm64

package collect

import (
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	"golang.org/x/sys/unix"
)

// faultsBeside are samples of page faults beside those of a timer.
var faultsBeside = perfEvent{name: "page-faults", event: "page-faults", unit: "events", typ: unix.PERF_TYPE_SOFTWARE, config: unix.PERF_COUNT_SW_PAGE_FAULTS, beside: true}

// dearFaults reports whether page faults take so long here that they are to be sampled beside a timer.
func dearFaults() bool { return faultTime() >= dearFault }

// faultTime is how long it takes to touch a page for the first time, in the median; 0 if that cannot be found out.
func faultTime() time.Duration {
	size := os.Getpagesize()
	mem, err := unix.Mmap(-1, 0, faultTries*size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return 0
	}
	defer unix.Munmap(mem)
	unix.Madvise(mem, unix.MADV_NOHUGEPAGE) // a kernel without them refuses
	var took []time.Duration
	for i := range faultTries {
		begun := time.Now()
		mem[i*size] = 1
		took = append(took, time.Since(begun))
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// A faultWatch switches the samples of page faults on and off.
type faultWatch struct {
	fds   []int
	sides []int // of the same threads, which are never off
	hz    int
	quit  chan struct{}
	done  chan struct{}

	stood float64 // faults that there were: those of windows, and as many in the pause after each as its processor time makes
}

// watchFaults begins to, if a session samples faults. What it returns ends that, and returns how many faults there were: it may be
// called again.
func (s *session) watchFaults() (stop func() float64) {
	for i := range s.events {
		if ev := &s.events[i]; ev.perf.beside && len(ev.fds) > 0 {
			w := &faultWatch{fds: ev.fds, sides: s.sides, hz: s.opt.Frequency, quit: make(chan struct{}), done: make(chan struct{})}
			go w.run()
			return sync.OnceValue(w.stop)
		}
	}
	return func() float64 { return 0 }
}

func (w *faultWatch) run() {
	defer close(w.done)
	length := faultWindow
	var before uint64
	var begun time.Duration // of the window, in processor time: the first begins with the events, whenever this does
	for {
		ended := w.wait(length)
		off := time.Now()
		after, at := w.faults(), w.ran()
		faults, window := after-before, at-begun
		before, begun = after, at
		pause := faultPauseAfter(length, faults, w.hz, rand.Float64())
		if ended || pause == 0 {
			w.stood += float64(faults)
			if ended {
				return
			}
			continue
		}
		ioctlAll(w.fds, unix.PERF_EVENT_IOC_DISABLE)
		cost := time.Since(off)
		ended = w.wait(pause)
		on := time.Now()
		begun = w.ran()
		w.stood += standFor(faults, window, begun-at)
		if ended {
			return
		}
		ioctlAll(w.fds, unix.PERF_EVENT_IOC_ENABLE)
		before = w.faults()
		length = max(faultWindow, pauseCost*(cost+time.Since(on)))
	}
}

// wait waits for so long, and reports whether it is to end before.
func (w *faultWatch) wait(d time.Duration) (ended bool) {
	select {
	case <-w.quit:
		return true
	case <-time.After(d):
		return false
	}
}

// faults is how many there were in windows so far.
func (w *faultWatch) faults() (n uint64) {
	for _, fd := range w.fds {
		value, _, _ := readCounter(fd)
		n += value
	}
	return n
}

// ran is for how long threads were on a processor so far. A program that waits, or has ended, faults no more: by the time that passes, one that ended
// in a pause had up to three times its faults.
func (w *faultWatch) ran() time.Duration { return ranFor(w.sides) }

// stop ends it, and returns how many faults there were.
func (w *faultWatch) stop() float64 {
	close(w.quit)
	<-w.done
	return w.stood
}

// faultEvents sample page faults on all processors beside a sampler's timer, one in so many that there are about as many samples
// as of time. The zero value samples none.
type faultEvents struct {
	cpuEvents
	looked time.Time
	seen   uint64 // faults of the machine by then
}

const (
	faultPeriod    = 8 // until it is known how many faults there are
	faultPaceEvery = time.Second
)

// watchesFaults reports whether page faults are to be sampled beside the sampler's events.
func (s *sampler) watchesFaults() bool {
	return !s.opt.Tick && len(s.kinds) == 1 && s.kinds[0].unit == "ns" && dearFaults() && try(faultAttr(&faultsBeside), -1, s.cpus[0]) == nil
}

func faultAttr(w *perfEvent) *unix.PerfEventAttr {
	return w.attr(unix.PerfEventAttr{
		Size:   uint32(unsafe.Sizeof(unix.PerfEventAttr{})),
		Sample: faultPeriod, Sample_type: unix.PERF_SAMPLE_IP | unix.PERF_SAMPLE_PERIOD,
		Bits:        unix.PerfBitDisabled | unix.PerfBitExcludeKernel | unix.PerfBitExcludeHv,
		Read_format: unix.PERF_FORMAT_TOTAL_TIME_ENABLED | unix.PERF_FORMAT_TOTAL_TIME_RUNNING,
	})
}

// begin has p run at page faults on those processors; there are none if that is not to be had.
func (f *faultEvents) begin(p *ebpf.Program, cpus []int) {
	*f = faultEvents{cpuEvents: newCPUEvents([]perfEvent{faultsBeside}, faultAttr, p), looked: time.Now(), seen: machineFaults()}
	for _, cpu := range cpus {
		if f.open(cpu) != nil {
			f.close()
			return
		}
	}
	if f.enable(0) != nil {
		f.close()
	}
}

// step sets the period by how many faults there were of late, if it is time to, where the timer takes hz samples in a second on each
// processor. It is drawn as those of the timer are, so that it keeps no step with a loop of processes.
func (f *faultEvents) step(now time.Time, hz int) {
	if len(f.fds) == 0 || now.Sub(f.looked) < faultPaceEvery {
		return
	}
	seen := machineFaults()
	rate := float64(seen-f.seen) / now.Sub(f.looked).Seconds()
	f.looked, f.seen = now, seen
	of := rate / float64(len(f.fds[0])*faultRate*hz)
	for i := range f.fds[0] {
		f.setPeriod(i, 0, uint64(max(1, drawRate(of, rand.Float64()))))
	}
}

// machineFaults is how many page faults there were on this machine so far (proc_vmstat(5)); 0 is unknown.
func machineFaults() uint64 {
	b, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(b)) {
		if value, ok := strings.CutPrefix(line, "pgfault "); ok {
			n, _ := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
			return n
		}
	}
	return 0
}
