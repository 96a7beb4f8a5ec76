//go:build amd64 || arm64

package collect

import (
	"fmt"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestProcessors: samples of two programs that stay on one processor each are told apart by it, and each sample that was
// stored has one: those that waited for a mapping, too.
func TestProcessors(t *testing.T) {
	for _, opt := range []SystemOptions{
		{Frequency: 1999, Origins: true},
		{Frequency: 1999, Origins: true, Callers: CallersOfAll, Frames: 8},
		{Frequency: 999, Origins: true, Events: []string{cpuClock, cpuClock}},
		{Origins: true, Tick: true},
	} {
		t.Run(fmt.Sprintf("%+v", opt), func(t *testing.T) {
			first := system(t, SystemOptions{})
			online := first.sampler.cpus
			if len(online) < 2 {
				t.Skip("one processor")
			}
			first.Close()
			of := map[int]int{} // by process
			for _, cpu := range []int{online[0], online[1]} {
				cmd := exec.Command("sh", "-c", "while :; do :; done")
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
				var one unix.CPUSet
				one.Set(cpu)
				if err := unix.SchedSetaffinity(cmd.Process.Pid, &one); err != nil {
					t.Fatal(err)
				}
				of[cmd.Process.Pid] = cpu
			}
			time.Sleep(100 * time.Millisecond) // to get there
			for pid, cpu := range of {
				one := opt
				one.PIDs = []int{pid}
				s := system(t, one)
				r := drains(t, s, 50*time.Millisecond, 500*time.Millisecond)
				checkCounters(t, s.Counters(), r)
				for _, c := range r.Counts {
					if err := c.Check(); err != nil {
						t.Error(err)
					}
					if c.Total == 0 || c.Processors[cpu] != c.Total {
						t.Errorf("%d samples of what runs on processor %d, by processor %v", c.Total, cpu, c.Processors)
					}
				}
			}
		})
	}
}

// TestProcessorsWait: what is known of the processors of samples that wait for a mapping is kept for when they have one.
func TestProcessorsWait(t *testing.T) {
	r := newResolver()
	s := &sampler{kinds: ladder[3:]}
	drained := func(total uint64, stored map[int]uint64) map[int]uint64 {
		c := s.newCounts()[0]
		c.Lose("test", total)
		r.processors(c, 0, stored)
		return c.Processors
	}
	for i, tt := range []struct {
		total  uint64
		stored map[int]uint64
		want   string
	}{
		{10, map[int]uint64{0: 10, 3: 10}, "map[0:5 3:5]"},
		{10, nil, "map[0:5 3:5]"},
		{4, map[int]uint64{3: 4}, "map[3:4]"},
		{7, nil, "map[]"}, // whose processors are not known
	} {
		if got := fmt.Sprint(drained(tt.total, tt.stored)); got != tt.want {
			t.Errorf("%d: %s, want %s", i, got, tt.want)
		}
	}
}
