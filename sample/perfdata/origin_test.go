package perfdata

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"backfeed/sample"
)

// TestOrigin: samples have the names that their threads had, their processor, control group and time, in both byte
// orders; and the recording has what perf says of it.
func TestOrigin(t *testing.T) {
	const second = 1_000_000_000
	for _, big := range []bool{false, true} {
		for _, dated := range []bool{false, true} {
			s := &synth{big: big, feat: map[int][]byte{}}
			s.attrs = []synthAttr{plainAttr()}
			a := &s.attrs[0]
			a.sampleType |= hasCPU | hasCgroup
			comm := func(pid, tid int, time uint64, name string) {
				s.record(recordComm, 0, uint32(pid), uint32(tid), name, s.sid(a, pid, time))
			}
			s.record(recordCgroup, 0, uint64(0xeeeeeeeeeeeeeeee), "/a.slice", s.sid(a, 1, 1)) // what samples have
			comm(1, 1, 10, "app")
			s.mmap2(a, 1, 10, 0x1000, 0x4000, 0, buildA, "/bin/a")
			s.sample(a, synthSample{pid: 1, time: 5 * second, ip: 0x1000})
			s.task(a, recordFork, 0, 2, 1, 2, 5*second+1)
			s.sample(a, synthSample{pid: 2, time: 5*second + 2, ip: 0x1000})
			comm(2, 2, 5*second+3, "child")
			s.sample(a, synthSample{pid: 2, time: 6 * second, ip: 0x1004, misc: modeKernel})
			s.sample(a, synthSample{pid: 7, time: 8 * second, ip: 0x1000})
			s.feat[featureHostname] = s.counted("box")
			s.feat[featureCmdline] = s.pack(uint32(2), s.counted("perf"), s.counted("record"))
			began := uint64(0)
			if dated {
				s.feat[featureClockData] = s.pack(uint32(1), uint32(1), uint64(1_700_000_000*second), uint64(4*second))
				began = 1_700_000_001_000
			}
			rec, err := Read(bytes.NewReader(s.file()), Options{})
			if err != nil {
				t.Fatal(err)
			}
			c := rec.Counts[0]
			if err := c.Check(); err != nil {
				t.Error(err)
			}
			if got, want := fmt.Sprint(c.Origins), "map[{  /a.slice}:1 {app app /a.slice}:2 {child child /a.slice}:1]"; got != want {
				t.Errorf("big-endian %v: origins %s, want %s", big, got, want)
			}
			if got := fmt.Sprint(c.Processors); got != "map[3:4]" {
				t.Errorf("big-endian %v: processors %s", big, got)
			}
			first := began / 125
			if got, want := fmt.Sprint(c.BySlice()), fmt.Sprint(map[uint64]uint64{first: 2, first + 8: 1, first + 24: 1}); got != want {
				t.Errorf("big-endian %v, dated %v: slices %s, want %s", big, dated, got, want)
			}
			want := sample.Run{Began: began, Lasted: 3000, Host: "box", Command: []string{"perf", "..."}}
			if len(rec.Runs) != 1 || rec.Runs[0].Began != want.Began || rec.Runs[0].Lasted != want.Lasted || rec.Runs[0].Host != want.Host ||
				!slices.Equal(rec.Runs[0].Command, want.Command) {
				t.Errorf("big-endian %v: runs %+v, want %+v", big, rec.Runs, want)
			}
		}
	}
}

// TestPlainName: what perf calls an event tells which it is, at no level of privilege and at no rate.
func TestPlainName(t *testing.T) {
	for name, want := range map[string]string{
		"cycles:u": "cycles", "cycles:upp": "cycles:pp", "cpu_core/cycles/u": "cpu_core/cycles/", "cycles, ": "cycles",
		"page-faults/period=1/": "page-faults", "cpu-clock/freq=997/u": "cpu-clock", "cycles/freq=99,call-graph=fp/ppu": "cycles:pp",
		"cpu/cycles,period=1000/uk": "cpu/cycles/", "sched:sched_switch": "sched:sched_switch",
	} {
		if got := plainName(name); got != want {
			t.Errorf("plainName(%q) = %q, want %q", name, got, want)
		}
	}
	a := &attr{typ: typeSoftware, config: swCPUClock, period: 1000, flags: 0}
	if ev := a.event("cpu-clock/period=1000/u"); ev.Name != "cpu-clock" || ev.Unit != "ns" || ev.Period != 1000 || !ev.OfTimer() {
		t.Errorf("%+v", ev)
	}
}
