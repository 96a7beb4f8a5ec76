package record

import (
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/sample"
	"backfeed/sample/collect"
)

func TestPprofURL(t *testing.T) {
	for _, tt := range []struct{ address, want string }{
		{"localhost:6060", "http://localhost:6060/debug/pprof/profile?seconds=2"},
		{"http://localhost:6060", "http://localhost:6060/debug/pprof/profile?seconds=2"},
		{"http://localhost:6060/debug/pprof/", "http://localhost:6060/debug/pprof/profile?seconds=2"},
		{"https://h/own/profile?x=1", "https://h/own/profile?seconds=2&x=1"},
		{"ftp://localhost", ""},
		{"http://", ""},
		{"::", ""},
		{"::x", ""},
	} {
		u, err := PprofURL(tt.address, 1500*time.Millisecond)
		got := ""
		if err == nil {
			got = u.String()
		}
		if got != tt.want {
			t.Errorf("%s: %q, %v; want %q", tt.address, got, err, tt.want)
		}
	}
}

// TestEndOf: a recording ends with a process that nobody has waited for.
func TestEndOf(t *testing.T) {
	cmd := exec.Command("sleep", "100")
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	defer cmd.Wait()
	ended := endOf([]int{cmd.Process.Pid})
	select {
	case <-ended:
		if runtime.GOOS == "linux" {
			t.Error("ended while it sleeps")
		}
	case <-time.After(300 * time.Millisecond):
	}
	cmd.Process.Kill()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Error("not ended with a zombie")
	}
}

func TestEvery(t *testing.T) {
	for want, ev := range map[string]sample.Event{
		", one for each 1.003ms of processor time": {Name: "ptrace-clock", Period: 1003009, Unit: "ns"},
		", one for each":       {Name: "page-faults", Period: 1},
		", one of every 10007": {Name: "cache-misses", Period: 10007},
	} {
		if got := every(ev); got != want {
			t.Errorf("%+v: %q, want %q", ev, got, want)
		}
	}
}

// TestRunOf: a recording of a command keeps its program and what it used, and no argument.
func TestRunOf(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("want Linux: commands are recorded there alone")
	}
	cmd := exec.Command("sh", "-c", "i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done")
	if err := cmd.Run(); err != nil {
		t.Skip(err)
	}
	began := time.Now().Add(-3 * time.Second)
	r := collect.RunOf(began, 3*time.Second, []string{"sh", strings.Repeat("x", 5000), "y"}, cmd.ProcessState)
	if r.Began != uint64(began.UnixMilli()) || r.Lasted != 3000 || !slices.Equal(r.Command, []string{"sh", "..."}) {
		t.Errorf("%+v", r)
	}
	if u := r.Usage; u.User+u.System != uint64((cmd.ProcessState.UserTime()+cmd.ProcessState.SystemTime())/time.Microsecond) || u.Minor == 0 || u.Memory == 0 || !u.Under {
		t.Errorf("a shell used %+v; want faults, and memory of which only a bound is known", u)
	}
	if r := collect.RunOf(began, time.Second, nil, nil); r.Usage != (sample.Usage{}) || r.Command != nil {
		t.Errorf("without a command, %+v", r)
	}
}

// heard keeps what it is warned of.
type heard struct {
	report.Quiet
	all []string
}

func (h *heard) Warn(format string, args ...any) { h.all = append(h.all, fmt.Sprintf(format, args...)) }

// TestBegan: where short processes have fewer samples than their share, that is said, and not where there are few of them.
func TestBegan(t *testing.T) {
	clock, pages := sample.Event{Name: "cpu-clock", Period: 1003009, Unit: "ns"}, sample.Event{Name: "page-faults", Period: 1}
	for _, tt := range []struct {
		name    string
		ev      sample.Event
		samples uint64
		began   uint64
		want    string
	}{
		{"children of make", clock, 185, 2425, "2425 threads and processes began meanwhile, and the kernel takes the first sample of each after 1.003ms of its time"},
		{"a shell's few", clock, 185, 20, ""},
		{"no timer", pages, 185, 2425, ""},
		{"no samples", clock, 0, 2425, ""},
	} {
		c := sample.NewCounts(sample.CPU{}, tt.ev)
		c.AddSample(c.Image(sample.ImageID{Path: "/bin/make"}), 16, tt.samples)
		var h heard
		Live{Notify: &h}.tellBegan(&sample.Recording{Counts: []*sample.Counts{c}}, &collect.Stats{Began: tt.began})
		if got := strings.Join(h.all, "\n"); (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q in it", tt.name, got, tt.want)
		}
	}
}

// TestTellOff: record says what recording waits took, and which share of the processors' time that is, where both are known.
func TestTellOff(t *testing.T) {
	var h heard
	of := collect.OffCounters{Times: 10, Stacks: 10, Took: 30 * time.Millisecond}
	sampled := []collect.EventTime{{Running: 2 * time.Second}}
	untimed := of
	untimed.Untimed = "no clock"
	for _, tt := range []struct {
		off     collect.OffCounters
		sampled []collect.EventTime
		want    string
	}{
		{of, sampled, "took 30 ms of processor time at switches, 1.5% of all there was; prof"},
		{of, nil, "took 30 ms of processor time at switches; prof"},
		{untimed, sampled, "at switches is not known: no clock; prof"},
	} {
		h.all = nil
		Live{Notify: &h}.tellOff(&sample.Recording{}, tt.off, tt.sampled)
		if !strings.Contains(strings.Join(h.all, "\n"), tt.want) {
			t.Errorf("%+v: %q, want %q", tt.off, h.all, tt.want)
		}
	}
}
