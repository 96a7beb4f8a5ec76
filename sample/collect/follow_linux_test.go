//go:build amd64 || arm64

package collect

import (
	"encoding/binary"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync/atomic"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestPlug: a processor that comes is sampled, and one that has gone is let go,
// while all samples stay accounted for.
func TestPlug(t *testing.T) {
	testtool.Live(t, "records")
	all, err := cpus()
	if err != nil || len(all) < 2 {
		t.Skip("one processor is too few:", all, err)
	}
	for _, opt := range []SystemOptions{{Frequency: 999}, {Tick: true}} {
		s, err := newSystem(opt)
		if err != nil {
			t.Fatal(err)
		}
		var online atomic.Value
		online.Store(all[:1])
		s.online = func() ([]int, error) { return slices.Clone(online.Load().([]int)), nil }
		if err := s.begin(); err != nil {
			t.Skip(err)
		}
		spin(t, len(all))
		step := func(cpus []int) (n uint64) {
			online.Store(cpus)
			for end := time.Now().Add(10 * time.Second); s.Counters().Processors != len(cpus); time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%+v: %d processors, want %d", opt, s.Counters().Processors, len(cpus))
				}
			}
			before, err := s.sampler.perCPU()
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(300 * time.Millisecond)
			after, err := s.sampler.perCPU()
			if err != nil {
				t.Fatal(err)
			}
			return after[all[1]].All - before[all[1]].All
		}
		if n := step(all[:1]); n != 0 && !opt.Tick { // the tick is that of all
			t.Errorf("%+v: %d samples of a processor that is not there", opt, n)
		}
		if step(all) == 0 {
			t.Errorf("%+v: no samples of a processor that has come", opt)
		}
		if n := step(all[:1]); n != 0 && !opt.Tick {
			t.Errorf("%+v: %d samples of a processor that has gone", opt, n)
		}
		if step(all) == 0 {
			t.Errorf("%+v: no samples of a processor that has come again", opt)
		}
		r := drains(t, s, 10*time.Millisecond, 0)
		checkCounters(t, s.Counters(), r)
		for _, e := range s.Counters().Events {
			if e.Enabled < 900*time.Millisecond {
				t.Errorf("%+v: %+v: the time of processors that went is gone", opt, e)
			}
		}
	}
}

// TestHotPlug: the last processor is taken away while it is sampled, and comes again, twice; all samples
// stay accounted for, and the processor is sampled again. In guests alone: others share this machine's.
func TestHotPlug(t *testing.T) {
	testtool.Live(t, "takes a processor away")
	all, err := cpus()
	if err != nil || testtool.Prebuilt() == "" || len(all) < 2 {
		t.Skip("not in a guest of testdata/kernels with two processors", all, err)
	}
	last := all[len(all)-1]
	file := fmt.Sprintf("/sys/devices/system/cpu/cpu%d/online", last)
	put := func(online string) {
		if err := os.WriteFile(file, []byte(online), 0); err != nil {
			t.Skip("the kernel has no processors to take away: ", err)
		}
	}
	put("1")
	s, err := OpenSystem(SystemOptions{Frequency: 999})
	if err != nil {
		t.Skip(err)
	}
	spin(t, len(all))
	of := func() uint64 {
		n, err := s.sampler.perCPU()
		if err != nil {
			t.Fatal(err)
		}
		return n[last].All
	}
	for range 2 {
		for _, online := range []string{"0", "1"} {
			put(online)
			want := len(all) - 1 + int(online[0]-'0')
			for end := time.Now().Add(20 * time.Second); s.Counters().Processors != want; time.Sleep(10 * time.Millisecond) {
				if time.Now().After(end) {
					t.Fatalf("%d processors, want %d", s.Counters().Processors, want)
				}
			}
		}
		before := of()
		for end := time.Now().Add(20 * time.Second); of() == before; time.Sleep(10 * time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("no samples of a processor that has come again")
			}
		}
	}
	r := drains(t, s, 10*time.Millisecond, 0)
	checkCounters(t, s.Counters(), r)
}

// TestRefresh: a module that comes while samples are taken is found, and one that
// took its place likewise.
func TestRefresh(t *testing.T) {
	list := filepath.Join(t.TempDir(), "modules")
	r := &resolver{moduleList: list}
	now := time.Now()
	for i, tt := range []struct{ modules, want string }{
		{"", ""},
		{"one 4096 0 - Live 0xffffffffc0201000\n", "[one]"},
		{"one 4096 0 - Live 0xffffffffc0201000\n", "[one]"},
		{"two 8192 0 - Live 0xffffffffc0200000\n", "[two]"},
		{"", ""},
	} {
		if err := os.WriteFile(list, []byte(tt.modules), 0o644); err != nil {
			t.Fatal(err)
		}
		r.refresh(now.Add(time.Duration(i) * readModulesEvery))
		if id, _, _ := r.kernel.Find(0xffffffffc0201010); id.Path != tt.want {
			t.Errorf("step %d: %q, want %q", i, id.Path, tt.want)
		}
	}
	if err := os.WriteFile(list, []byte("three 4096 0 - Live 0xffffffffc0201000\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r.refresh(now.Add(4*readModulesEvery + time.Millisecond)); !r.kernel.Empty() {
		t.Error("the list was read again at once")
	}
}

// rawTrace returns the bytes of a trace.
func rawTrace(c call, branches ...uint64) []byte {
	b := slices.Clone(unsafe.Slice((*byte)(unsafe.Pointer(&c)), unsafe.Sizeof(c)))
	for _, v := range branches {
		b = binary.NativeEndian.AppendUint64(b, v)
	}
	return b
}

// TestTraces: the branch records behind a call become branches and ranges.
func TestTraces(t *testing.T) {
	r := &resolver{procs: *told(t, "map 1 10 a")}
	c := sample.NewCounts(sample.CPU{}, ladder[0].sampled(1000))
	at := call{sampledPC: sampledPC{IP: 0x1088, Born: 5, PID: 1}}
	for _, trace := range [][]byte{
		rawTrace(at),
		rawTrace(at, 0x1050, 0x1080, 2, 0x1020, 0x1040, 1, 0x9000, 0x1010, 2),
	} {
		p, err := decodeTrace(trace)
		if err != nil {
			t.Fatal(err)
		}
		if !r.place([]*sample.Counts{c}, &p, true, map[sample.Loss]uint64{}) {
			t.Fatalf("%+v was not placed", p)
		}
	}
	if c.Total != 2 || len(c.Lost) > 0 {
		t.Errorf("%d samples, %v lost; want 2, none", c.Total, c.Lost)
	}
	off := func(o sample.Offset) sample.Frame { return sample.Frame{Off: o} }
	want := map[sample.Branch]sample.BranchCount{
		{From: off(0x50), To: off(0x80)}:                           {N: 1},
		{From: off(0x20), To: off(0x40)}:                           {N: 1, Mispredicted: 1},
		{From: sample.Frame{Image: sample.Unknown}, To: off(0x10)}: {N: 1},
	}
	if !maps.Equal(c.Branches, want) {
		t.Errorf("branches %v, want %v", c.Branches, want)
	}
	if ranges := map[sample.Range]uint64{{First: 0x40, Last: 0x50}: 1, {First: 0x10, Last: 0x20}: 1}; !maps.Equal(c.Ranges, ranges) {
		t.Errorf("ranges %v, want %v", c.Ranges, ranges)
	}
	for _, n := range []int{0, 47, 49, 71} {
		if _, err := decodeTrace(make([]byte, n)); err == nil {
			t.Errorf("a trace of %d bytes was taken", n)
		}
	}
}

// TestBranchProgram: the kernel takes the program that reads branch records. On an
// event without them, its samples go through the ring all the same.
func TestBranchProgram(t *testing.T) {
	if err := WholeMachine.lacks(ThisHost()); err != nil {
		t.Skip(err)
	}
	spec, err := loadSampler()
	if err != nil {
		t.Fatal(err)
	}
	s := sampler{kinds: ladder[:1]}
	if err := s.loadPrograms(spec, 0); err != nil {
		t.Fatal(err)
	}
	objects := &s.bpf
	defer objects.Close()
	ring, err := ringbuf.NewReader(objects.Calls)
	if err != nil {
		t.Fatal(err)
	}
	defer ring.Close()
	a := (&sampler{opt: SystemOptions{Frequency: 999}}).attr(&eventsFor(cpuClock)[0])
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	fd, err := open(a, 0, -1)
	if err != nil {
		t.Skip(err)
	}
	defer unix.Close(fd)
	if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_BPF, objects.Sample0.FD()); err != nil {
		t.Fatal(err)
	}
	if err := ioctlAll([]int{fd}, unix.PERF_EVENT_IOC_ENABLE); err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end) && ring.AvailableBytes() == 0; {
	}
	ring.SetDeadline(time.Unix(1, 0))
	r, err := ring.Read()
	if err != nil {
		t.Fatal("no sample of this thread: ", err)
	}
	p, err := decodeTrace(r.RawSample)
	if err != nil || int(p.PID) != os.Getpid() || len(p.branches) > maxBranches {
		t.Errorf("%+v, %v; want a sample of process %d", p, err, os.Getpid())
	}
}
