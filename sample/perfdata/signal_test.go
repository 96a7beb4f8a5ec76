package perfdata

import (
	"bytes"
	"testing"

	"backfeed/sample"
)

// TestSignals: a SIGFPE is attributed to where the program was interrupted, by its
// reason. Other signals, those without a call chain, and other tracepoints whose data
// looks the same stay samples of the kernel.
func TestSignals(t *testing.T) {
	for _, big := range []bool{false, true} {
		s := &synth{big: big, feat: map[int][]byte{}}
		for i, label := range []string{signalEvent, "sched:looks_alike"} {
			s.attrs = append(s.attrs, synthAttr{
				attr: attr{typ: typeTracepoint, config: uint64(261 + i), period: 1, flags: flagSampleIDAll,
					sampleType: plainType | hasIdentifier | hasCallchain | hasRaw},
				ids: []uint64{uint64(100 + i)}, label: label})
		}
		s.feat[featureEventDesc] = s.describe()
		generated := func(sig, code int32) []byte { // common fields, signal, errno, code, command, process, group, result
			return s.pack(uint64(0), uint32(sig), uint32(0), uint32(code), raw("command\x00........"), uint32(1), uint32(0), uint32(0), uint32(0))
		}
		chain := []uint64{kernelChain, 1 << 63, userChain, 0x1010, 0x1104}
		s.mmap2(&s.attrs[0], 1, 10, 0x1000, 0x1000, 0, buildA, "/bin/a")
		for i := range s.attrs {
			for k, x := range []synthSample{
				{chain: chain, raw: generated(8, 1)},
				{chain: chain, raw: generated(8, 1)},
				{chain: chain, raw: generated(8, 3)},
				{chain: chain, raw: generated(8, -6)},
				{chain: chain, raw: generated(8, 99)},
				{chain: chain, raw: generated(11, 1)},
				{chain: chain[:2], raw: generated(8, 1)},
				{chain: chain},
			} {
				x.pid, x.time, x.ip, x.misc = 1, uint64(20+k), 1<<63, modeKernel
				s.sample(&s.attrs[i], x)
			}
		}
		rec, err := Read(bytes.NewReader(s.file()), Options{})
		if err != nil {
			t.Fatal(err)
		}
		at := sample.Offset(0x10)
		for _, c := range rec.Counts {
			if err := c.Check(); err != nil {
				t.Error(err)
			}
			var n uint64
			for _, ic := range c.Images {
				n += ic.At[at]
			}
			want, ok := map[string][2]uint64{ // placed, in the kernel
				"sigfpe:intdiv": {2, 0}, "sigfpe:fltdiv": {1, 0}, "sigfpe:sent": {1, 0}, "sigfpe:code99": {1, 0}, signalEvent: {0, 3}, "sched:looks_alike": {0, 8},
			}[c.Event.Name]
			if got := [2]uint64{n, c.Lost[sample.LostKernel]}; !ok || got != want || c.Weight != c.Total || c.Total != want[0]+want[1] {
				t.Errorf("big-endian %v: %s: %d, want %d; %d samples, weight %d", big, c.Event.Name, got, want, c.Total, c.Weight)
			}
		}
		if len(rec.Counts) != 6 {
			t.Errorf("%d events", len(rec.Counts))
		}
	}
}
