//go:build amd64 || arm64

package collect

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	kernelbtf "github.com/cilium/ebpf/btf"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/trace"
)

// system opens a System, or skips the test where this machine has none.
func system(t *testing.T, opt SystemOptions) *System {
	t.Helper()
	testtool.Live(t, "records")
	s, err := OpenSystem(opt)
	var no *Unavailable
	if errors.As(err, &no) {
		t.Skip(no)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// drains drains s every so often for that long, closes it, and returns all that it
// saw.
func drains(t *testing.T, s *System, every, during time.Duration) *sample.Recording {
	t.Helper()
	var all []*sample.Recording
	drain := func() {
		r, err := s.Drain()
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range r.Counts {
			if err := c.Check(); err != nil {
				t.Error(err)
			}
		}
		all = append(all, r)
	}
	for end := time.Now().Add(during); time.Now().Before(end); {
		time.Sleep(every)
		drain()
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	drain()
	return sample.Merge(all...)
}

// checkCounters holds counters to what they promise, and to the samples drained.
func checkCounters(t *testing.T, c Counters, r *sample.Recording) {
	t.Helper()
	if c.All == 0 || c.All != c.User+c.Kernel+c.Idle {
		t.Errorf("%d samples are not %d of users + %d of the kernel + %d idle", c.All, c.User, c.Kernel, c.Idle)
	}
	if c.Drained+c.Failed+c.Filtered+c.Probed != c.User+c.Kernel {
		t.Errorf("%d drained + %d failed + %d filtered are not %d of users + %d of the kernel", c.Drained, c.Failed, c.Filtered, c.User, c.Kernel)
	}
	if n := r.Samples(); n != c.Drained+c.Failed {
		t.Errorf("recorded %d samples of %d drained + %d failed", n, c.Drained, c.Failed)
	}
}

// spin keeps processors busy until the test ends.
func spin(t *testing.T, n int) {
	t.Helper()
	for range n {
		cmd := exec.Command("sh", "-c", "while :; do :; done")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	}
}

// TestSums: at a rate as high and drains as short as can be, every sample is
// accounted for.
func TestSums(t *testing.T) {
	for _, opt := range []SystemOptions{
		{Frequency: 9999, Kernel: true},
		{Frequency: 9999, Callers: CallersOfAll},
		{Frequency: 999, Events: []string{cpuClock, cpuClock}},
		{Tick: true, Callers: CallersOfAll},
	} {
		t.Run(fmt.Sprintf("%+v", opt), func(t *testing.T) {
			s := system(t, opt)
			spin(t, 2)
			r := drains(t, s, 8*time.Millisecond, time.Second)
			c := s.Counters()
			checkCounters(t, c, r)
			if c.Failed != 0 || c.LostRecords != 0 {
				t.Errorf("%d samples not stored, %d records lost", c.Failed, c.LostRecords)
			}
		})
	}
}

// TestFull: samples that are dropped, the map being full, are counted.
func TestFull(t *testing.T) {
	s := system(t, SystemOptions{Frequency: 9999, Kernel: true, Callers: CallersOfAll})
	const most = 4096 // in one call: with all of them, an emulated processor would be in the kernel for seconds
	keys, counts := make([]sampledPC, s.sampler.entries), make([]uint64, most)
	for i := range keys {
		keys[i] = sampledPC{IP: uint64(i), PID: 1}
	}
	for _, m := range []*ebpf.Map{s.sampler.bpf.Counts0, s.sampler.bpf.Counts1} {
		for some := range slices.Chunk(keys, most) {
			if n, err := m.BatchUpdate(some, counts[:len(some)], nil); err != nil { // samples have taken a part of its room
				t.Logf("%d of %d: %v", n, len(some), err)
			}
		}
	}
	spin(t, 2) // whose places are not in the maps yet
	time.Sleep(300 * time.Millisecond)
	r := drains(t, s, 10*time.Millisecond, 0)
	c := s.Counters()
	checkCounters(t, c, r)
	if c.Failed == 0 {
		t.Error("a full map took all samples")
	}
}

// TestChurn: processes that end before they are looked at keep their samples.
func TestChurn(t *testing.T) {
	s := system(t, SystemOptions{Frequency: 4999, Origins: true})
	cmd := exec.Command("sh", "-c", "while :; do /bin/true; done")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	r := drains(t, s, 200*time.Millisecond, 2*time.Second)
	c := s.Counters()
	checkCounters(t, c, r)
	if unknown := c.Unresolved[sample.LostUnmapped]; c.User == 0 || unknown*1000 > c.User {
		t.Errorf("%d of %d user samples have no mapping; want at most 0.1 %%", unknown, c.User)
	}
	named, all := map[string]uint64{}, uint64(0)
	for _, counts := range r.Counts {
		timed := uint64(0)
		for _, n := range counts.BySlice() {
			timed += n
		}
		if want := counts.Total - counts.Lost[sample.LostDropped]; timed != want {
			t.Errorf("the time of %d samples is known, want %d", timed, want)
		}
		for o, n := range counts.Origins {
			if o.Thread == "" {
				t.Errorf("%d samples of %+v have no thread", n, o)
			}
			named[o.Process] += n
			if o.Process != "" {
				all += n
			}
		}
	}
	if named["sh"] == 0 || named["true"] == 0 || 10*all < 9*(c.User+c.Kernel) {
		t.Errorf("of %d samples, %d have a process: %v", c.User+c.Kernel, all, named)
	}
	if s.resolver.procs.made < 50 { // 200 in an emulated machine
		t.Errorf("%d programs ran; want many", s.resolver.procs.made)
	}
}

// TestFilterProcesses: a process and what it starts, nothing else.
func TestFilterProcesses(t *testing.T) {
	cmd := exec.Command("sh", "-c", "read begin; while :; do sh -c 'i=0; while [ $i -lt 30000 ]; do i=$((i+1)); done'; done")
	begin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	checkFilter(t, SystemOptions{Frequency: 1999, PIDs: []int{cmd.Process.Pid}}, func() { begin.Write([]byte("now\n")) })
}

// checkFilter samples what was asked for, and does more from begin on, beside a program that was not.
func checkFilter(t *testing.T, opt SystemOptions, begin func()) {
	t.Helper()
	s := system(t, opt)
	begin()
	spin(t, 1)
	r := drains(t, s, 100*time.Millisecond, time.Second)
	c := s.Counters()
	checkCounters(t, c, r)
	for _, counts := range r.Counts {
		if n := len(counts.Origins) + len(counts.Slices); n > 0 {
			t.Errorf("who ran and when is kept, though nobody asked: %v, %v", counts.Origins, counts.Slices)
		}
	}
	if c.Filtered == 0 || c.Drained == 0 {
		t.Errorf("%d samples filtered, %d drained; want some of both", c.Filtered, c.Drained)
	}
}

// TestEvents: each event that is asked for is sampled, and for how long is known.
func TestEvents(t *testing.T) {
	if _, err := OpenSystem(SystemOptions{Events: []string{"coffee"}}); err == nil {
		t.Error("opened an event that does not exist")
	}
	s := system(t, SystemOptions{Events: []string{cpuClock, cpuClock}})
	time.Sleep(100 * time.Millisecond)
	for _, e := range s.Counters().Events {
		if e.Name != cpuClock || e.Running == 0 || e.Running > e.Enabled {
			t.Errorf("%+v", e)
		}
	}
	if n := len(s.Counters().Events); n != 2 {
		t.Errorf("%d events, want 2", n)
	}
}

func TestSetFrequency(t *testing.T) {
	s := system(t, SystemOptions{Frequency: 97})
	for hz, ok := range map[int]bool{0: false, 1: true, 97: true, 98: false} {
		if err := s.SetFrequency(hz); (err == nil) != ok {
			t.Errorf("%d Hz: %v", hz, err)
		}
	}
}

// TestGenerate: the programs in the repository are those of the source.
func TestGenerate(t *testing.T) {
	testtool.Need(t, "clang-19", "llvm-strip-19")
	dir := t.TempDir()
	cmd := testtool.Command(t, "go", "generate", ".")
	cmd.Env = append(os.Environ(), "BPF_OUT="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.o"))
	if err != nil || len(files) != 8 {
		t.Fatalf("made %v, %v; want eight objects", files, err)
	}
	for _, f := range files {
		got, err1 := os.ReadFile(f)
		want, err2 := os.ReadFile(filepath.Base(f))
		if err := errors.Join(err1, err2); err != nil {
			t.Error(err)
		} else if !bytes.Equal(got, want) {
			t.Errorf("%s: go generate makes another one", filepath.Base(f))
		}
	}
}

// TestObserve: a processor is idle after a second without work, and busy again
// with the first sample of some.
func TestObserve(t *testing.T) {
	start := time.Unix(1000, 0)
	c := cpuPace{since: start}
	for _, tt := range []struct {
		after     time.Duration
		busy, all uint64
		idle      bool
	}{
		{500 * time.Millisecond, 0, 100, false},
		{1000 * time.Millisecond, 1, 199, true},
		{1100 * time.Millisecond, 1, 202, true},
		{1200 * time.Millisecond, 2, 205, false},
		{2300 * time.Millisecond, 100, 400, false},
		{3400 * time.Millisecond, 100, 600, true},
	} {
		c.observe(start.Add(tt.after), tt.busy, tt.all)
		if c.idle != tt.idle {
			t.Errorf("%v: idle %v, want %v", tt.after, c.idle, tt.idle)
		}
	}
}

// TestDrawRate: rates are spread evenly about the one asked for.
func TestDrawRate(t *testing.T) {
	if lo, mid, hi := drawRate(100, 0), drawRate(100, 0.5), drawRate(100, 1); math.Round(lo) != 70 || math.Round(mid) != 100 || math.Round(hi) != 130 {
		t.Errorf("%g, %g, %g; want 70, 100, 130", lo, mid, hi)
	}
}

// TestOpLayout: the emulators in the repository, of any processor, take operations as they are here, field
// by field.
func TestOpLayout(t *testing.T) {
	files, err := filepath.Glob("walker_*.o")
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v; want two objects", files, err)
	}
	here := reflect.TypeFor[trace.Op]()
	for _, f := range files {
		spec, err := ebpf.LoadCollectionSpec(f)
		if err != nil {
			t.Fatal(err)
		}
		there, ok := spec.Maps[walkerMapOps].Value.(*kernelbtf.Struct)
		if !ok || there.Name != "op" || uintptr(there.Size) != here.Size() || len(there.Members) != here.NumField() {
			t.Fatalf("%s: operations are %v, want %d fields in %d bytes", f, spec.Maps[walkerMapOps].Value, here.NumField(), here.Size())
		}
		for i, m := range there.Members {
			field := here.Field(i)
			size, err := kernelbtf.Sizeof(m.Type)
			if name := strings.ToLower(field.Name); name != m.Name && name != "_" {
				t.Errorf("%s: field %d is %s, want %s", f, i, m.Name, name)
			}
			if err != nil || uintptr(m.Offset.Bytes()) != field.Offset || uintptr(size) != field.Type.Size() {
				t.Errorf("%s: %s has %d bytes at %d (%v), want %d at %d", f, m.Name, size, m.Offset.Bytes(), err, field.Type.Size(), field.Offset)
			}
		}
	}
}

// TestLayout: the sizes of both sides agree.
func TestLayout(t *testing.T) {
	spec, err := loadSampler()
	if err != nil {
		t.Fatal(err)
	}
	if got, want := spec.Maps[samplerMapCounts0].KeySize, uint32(unsafe.Sizeof(sampledPC{})); got != want {
		t.Errorf("a sampledPC has %d bytes in the kernel, %d here", got, want)
	}
	if got, want := spec.Maps[samplerMapStats].ValueSize, uint32(unsafe.Sizeof(processorCounters{})); got != want {
		t.Errorf("counters have %d bytes in the kernel, %d here", got, want)
	}
}
