package perfdata

import (
	"bytes"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// topdownGroup writes what perf record -e '{slots,cycles,topdown-retiring,topdown-be-bound}:S' does: samples of cycles alone, with
// what the others had counted by then. Half of the samples are at 0x1010, which retires two thirds of its 6000 slots, half at 0x1020,
// which retires a sixth; of ten, one is in the kernel.
func topdownGroup(s *synth, flags uint64, samples int) {
	const st = plainType | hasIdentifier | hasPeriod | hasRead
	event := func(name string, id, kind, period uint64) synthAttr {
		return synthAttr{label: name, ids: []uint64{id}, attr: attr{typ: typeHardware, config: kind, period: period, sampleType: st, readFormat: readGroup | readID, flags: flagSampleIDAll | flags}}
	}
	s.attrs = []synthAttr{event("slots:S", 10, 77, 0), event("cycles:S", 11, hwCycles, 1000), event("topdown-retiring:S", 12, hwInstructions, 0), event("topdown-be-bound:S", 13, 78, 0)}
	s.feat[featureEventDesc] = s.describe()
	cycles := &s.attrs[1]
	s.mmap2(cycles, 1, 10, 0x1000, 0x1000, 0, buildA, "/bin/a")
	s.mmap2(cycles, 2, 10, 0x1000, 0x1000, 0, buildA, "/bin/a")
	type counters struct{ slots, cycles, retiring, backEnd uint64 }
	var all [3]counters
	for i := range samples {
		pid := 1
		if flags&flagInherit != 0 {
			pid += i / 2 % 2 // each has counters of its own, of the same IDs
		}
		n := &all[pid]
		x := synthSample{pid: pid, time: uint64(20 + i), ip: 0x1010 + uint64(i%2)*0x10, period: 1000}
		if i%10 == 9 {
			x.misc = modeKernel
		}
		n.slots, n.cycles = n.slots+6000, n.cycles+1000
		if i%2 == 0 {
			n.retiring, n.backEnd = n.retiring+4000, n.backEnd+1000
		} else {
			n.retiring, n.backEnd = n.retiring+1000, n.backEnd+5000
		}
		x.group = []uint64{10, n.slots, 11, n.cycles, 12, n.retiring, 13, n.backEnd, 99, 1 << 40}
		s.sample(cycles, x)
	}
}

// TestGroup: what was read of other events with a sample is at its place, in the right proportions, and the same whenever it is read.
func TestGroup(t *testing.T) {
	const samples = 4000
	for _, tt := range []struct {
		name  string
		big   bool
		flags uint64
	}{{"little-endian", false, 0}, {"big-endian", true, 0}, {"inherited", false, flagInherit}} {
		s := &synth{big: tt.big, feat: map[int][]byte{}}
		topdownGroup(s, tt.flags, samples)
		b := s.file()
		rec, err := Read(bytes.NewReader(b), Options{})
		if err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		check(t, tt.name, rec)
		again, err := Read(bytes.NewReader(b), Options{})
		if err != nil || !reflect.DeepEqual(rec.Encode(), again.Encode()) {
			t.Errorf("%s: read twice: %v, and not the same", tt.name, err)
		}
		want := map[string]struct{ first, second, kernel float64 }{ // events for each of the samples in ten
			"cycles": {5 * 1000, 4 * 1000, 1000}, "slots": {5 * 6000, 4 * 6000, 6000}, "topdown-retiring": {5 * 4000, 4 * 1000, 1000}, "topdown-be-bound": {5 * 1000, 4 * 5000, 5000},
		}
		if len(rec.Counts) != len(want) {
			t.Fatalf("%s: %d events", tt.name, len(rec.Counts))
		}
		for _, c := range rec.Counts {
			w := want[c.Event.Name]
			if sampled := c.Event.Name == "cycles"; sampled != (c.Event.Unit == "cycles") {
				t.Errorf("%s: %s is in %s", tt.name, c.Event.Name, c.Event.Unit)
			}
			period := c.MeanPeriod()
			if period != float64(c.Event.Period) {
				t.Errorf("%s: %s: mean period %g, nominal %d", tt.name, c.Event.Name, period, c.Event.Period)
			}
			near := func(what string, n uint64, events float64) {
				// Of each read, a sample is there by chance or not: less than half a sample of standard deviation.
				if got, sd := float64(n)*period/(samples/10), period/2*math.Sqrt(5.0/(samples/10)); math.Abs(got-events) > 4*sd {
					t.Errorf("%s: %s: %s: %g events for ten samples, want %g, give or take %g", tt.name, c.Event.Name, what, got, events, 4*sd)
				}
			}
			near("first place", c.Images[0].At[0x10], w.first)
			near("second place", c.Images[0].At[0x20], w.second)
			near("kernel", c.Lost[sample.LostKernel], w.kernel)
			// However many samples a read makes, they are one by chance.
			if n := float64(c.Total) / c.Dispersion(); n > samples*1.01 {
				t.Errorf("%s: %s: %d samples are worth %g, of %d reads", tt.name, c.Event.Name, c.Total, n, samples)
			}
		}
	}
}

// TestGroupShort: of few reads nothing is lost.
func TestGroupShort(t *testing.T) {
	s := &synth{feat: map[int][]byte{}}
	topdownGroup(s, 0, 4)
	rec, err := Read(bytes.NewReader(s.file()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rec.Counts {
		if c.Event.Name == "slots" && (c.Total != 4 || c.Event.Period != 6000) {
			t.Errorf("%d samples of %d slots", c.Total, c.Event.Period)
		}
	}
	if len(rec.Counts) != 4 {
		t.Errorf("%d events", len(rec.Counts))
	}
}

// TestGroupAgainstPerf: perf script attributes as many events to samples of the clock, a read less than a sample aside.
func TestGroupAgainstPerf(t *testing.T) {
	perf := testtool.Path(t, "perf")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "perf.data")
	cmd := exec.Command(perf, "record", "-q", "-o", file, "-F", "4999", "-e", "{cpu-clock,page-faults}:S", "--", self)
	cmd.Env = append(os.Environ(), "PERFDATA_TEST_WORK=1")
	if out, err := cmd.Output(); err != nil {
		t.Skipf("perf record of a group: %v: %s%s", err, out, errOutput(err))
	}
	want, reads := 0.0, 0.0
	for _, line := range script(t, perf, file, "-F", "event,period") {
		if f := strings.Fields(line); len(f) == 2 && strings.HasPrefix(f[1], "page-faults") {
			n, err := strconv.ParseFloat(f[0], 64)
			if err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			want, reads = want+n, reads+1
		}
	}
	rec, err := ReadFile(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range rec.Counts {
		if !strings.HasPrefix(c.Event.Name, "page-faults") {
			continue
		}
		period := float64(c.Event.Period)
		if got, sd := float64(c.Weight), period/2*math.Sqrt(reads); math.Abs(got-want) > 4*sd+period {
			t.Errorf("%g page faults in samples of %g, perf has %g in %g reads", got, period, want, reads)
		}
		t.Logf("%d page faults in %d samples, perf has %g in %g reads", c.Weight, c.Total, want, reads)
		return
	}
	t.Errorf("no page faults, and perf has %g in %g reads", want, reads)
}
