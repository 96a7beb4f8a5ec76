package perfdata

import (
	"bytes"
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

const allProcessors, allThreads = 1<<64 - 1, 1<<64 - 1

// sharedCounters writes what perf record -s -e cycles,instructions,page-faults does of a command with two threads on two processors: each event
// has a counter for each processor, of which one runs where the thread is.
func sharedCounters(s *synth) {
	const st = plainType | hasIdentifier | hasPeriod
	event := func(name string, kind, config uint64, ids ...uint64) synthAttr {
		return synthAttr{label: name, ids: ids, attr: attr{typ: uint32(kind), config: config, period: 1000, sampleType: st,
			readFormat: readEnabled | readRunning | readID | readLost, flags: flagSampleIDAll | flagInherit}}
	}
	s.attrs = []synthAttr{event("cycles", typeHardware, hwCycles, 10, 11), event("instructions", typeHardware, hwInstructions, 20, 21), event("page-faults", typeSoftware, 2, 30, 31)}
	s.feat[featureEventDesc] = s.describe()
	s.index([3]uint64{10, 0, 1}, [3]uint64{11, 1, 1}, [3]uint64{20, 0, 1}, [3]uint64{21, 1, 1}, [3]uint64{30, 0, 1}, [3]uint64{31, 1, 1})
	cycles, instructions, faults := &s.attrs[0], &s.attrs[1], &s.attrs[2]
	s.mmap2(cycles, 1, 10, 0x1000, 0x1000, 0, buildA, "/bin/a")
	for i := range uint64(4) {
		for _, a := range []*synthAttr{cycles, instructions, faults} {
			s.sample(a, synthSample{pid: 1, time: 20 + i, ip: 0x1010, period: 1000})
		}
	}
	// The first thread ran for 1 ms on processor 0, the second for 1 ms on one and 2 ms on the other. Of both, cycles were counted in half of
	// the time, instructions in a quarter.
	const us = 1000
	for _, ended := range []struct {
		a                    *synthAttr
		id                   uint64
		tid                  int
		at, enabled, running uint64
	}{
		{cycles, 10, 2, 30, 1000, 500}, {cycles, 11, 2, 30, 1000, 0}, {instructions, 20, 2, 30, 1000, 250}, {instructions, 21, 2, 30, 1000, 0},
		{cycles, 10, 3, 31, 3000, 500}, {cycles, 11, 3, 31, 3000, 1000}, {instructions, 20, 3, 31, 3000, 250}, {instructions, 21, 3, 31, 3020, 500},
		{faults, 30, 2, 32, 1000, 1000}, {faults, 31, 2, 32, 1000, 0},
	} {
		s.threadEnded(ended.a, ended.id, ended.tid, ended.at, ended.enabled*us, ended.running*us)
	}
}

// statCounts writes what perf stat record -I does: sums up to each moment, and no samples.
func statCounts(s *synth) {
	event := func(name string, kind, config, id uint64) synthAttr {
		return synthAttr{label: name, ids: []uint64{id}, attr: attr{typ: uint32(kind), config: config, sampleType: hasIdentifier, readFormat: readEnabled | readRunning}}
	}
	s.attrs = []synthAttr{event("cycles:u", typeHardware, hwCycles, 10), event("cache-misses:u", typeHardware, 3, 20), event("cpu-clock", typeSoftware, swCPUClock, 30), event("branches", typeHardware, hwBranches, 40)}
	s.feat[featureEventDesc] = s.describe()
	for i := range uint64(3) {
		for cpu := range uint32(2) {
			for _, of := range [][4]uint64{{10, 1000, 500, 500}, {20, 30, 500, 100}, {30, 500, 500, 500}, {40, 0, 500, 0}} {
				s.record(recordStat, 0, of[0], cpu, uint32(0), of[1]*(i+1), of[2]*(i+1), of[3]*(i+1))
			}
		}
	}
}

// counted returns how long events were counted of how long they were to be, by name.
func counted(t *testing.T, s *synth) map[string][2]uint64 {
	t.Helper()
	rec, err := Read(bytes.NewReader(s.file()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	check(t, "multiplexed", rec)
	again, err := sample.Decode(rec.Encode())
	if err != nil {
		t.Fatal(err)
	}
	all := map[string][2]uint64{}
	for _, c := range again.Counts {
		all[c.Event.Name] = [2]uint64{c.Running, c.Enabled}
	}
	return all
}

// TestThreadsEnded: a thread that moves between processors is no thread whose counters are shared. The sum of what ran is of the time that
// the thread ran, of counters that should have been enabled equally long of the shortest.
func TestThreadsEnded(t *testing.T) {
	for _, big := range []bool{false, true} {
		s := &synth{big: big, feat: map[int][]byte{}}
		sharedCounters(s)
		got := counted(t, s)
		if got["cycles"] != [2]uint64{2_000_000, 4_000_000} || got["instructions"] != [2]uint64{1_000_000, 4_000_000} {
			t.Errorf("big-endian %v: %v, want half and a quarter of 4 ms", big, got)
		}
		if got["page-faults"] != [2]uint64{} {
			t.Errorf("page faults need no counter: %v", got)
		}
	}
	// Without an index nobody knows whether times of several counters add up.
	s := &synth{feat: map[int][]byte{}}
	sharedCounters(s)
	if s.data[0] != recordIDIndex {
		t.Fatal("the index is not first")
	}
	s.data = s.data[order(false).Uint16(s.data[6:]):]
	if got := counted(t, s); got["cycles"] != [2]uint64{} || got["instructions"] != [2]uint64{} {
		t.Errorf("without an index: %v", got)
	}
}

// TestContradictory: where the kernel took the times of one event for those of another, nothing is said of any.
func TestContradictory(t *testing.T) {
	const ms = 1_000_000
	for _, tt := range []struct {
		name                 string
		id, enabled, running uint64
	}{
		{"its counters were not enabled together", 11, 90 * ms, 0},
		{"an event ran for longer than the thread", 11, 50 * ms, 40 * ms},
	} {
		s := &synth{feat: map[int][]byte{}}
		sharedCounters(s)
		s.threadEnded(&s.attrs[0], 10, 9, 40, 50*ms, 20*ms)
		s.threadEnded(&s.attrs[0], tt.id, 9, 40, tt.enabled, tt.running)
		s.threadEnded(&s.attrs[1], 20, 9, 40, 50*ms, 20*ms)
		if got := counted(t, s); got["cycles"] != [2]uint64{} || got["instructions"] != [2]uint64{} {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
}

// TestTimesOfSamples: groups that were read with samples say how long they had counted by then.
func TestTimesOfSamples(t *testing.T) {
	const st = plainType | hasIdentifier | hasPeriod | hasRead
	group := func(flags uint64) (*synth, []synthAttr) {
		s := &synth{feat: map[int][]byte{}}
		event := func(name string, config, period uint64, ids ...uint64) synthAttr {
			return synthAttr{label: name, ids: ids, attr: attr{typ: typeHardware, config: config, period: period, sampleType: st,
				readFormat: readGroup | readID | readEnabled | readRunning, flags: flagSampleIDAll | flags}}
		}
		s.attrs = []synthAttr{event("cycles", hwCycles, 1000, 10, 11), event("cache-misses", 3, 0, 20, 21)}
		s.feat[featureEventDesc] = s.describe()
		// What a sample of each counter is written by.
		zero, one := s.attrs[0], s.attrs[0]
		zero.ids, one.ids = []uint64{10}, []uint64{11}
		return s, []synthAttr{zero, one}
	}
	sampled := func(s *synth, a *synthAttr, tid int, time, enabled, running uint64) {
		s.sample(a, synthSample{pid: tid, time: time, ip: 0x1010, period: 1000, times: []uint64{enabled, running},
			group: []uint64{a.ids[0], time * 1000, a.ids[0] + 10, time * 50}})
	}

	// Of the whole machine, processors add up, and whoever runs is of no account.
	s, on := group(flagInherit)
	s.index([3]uint64{10, 0, allThreads}, [3]uint64{11, 1, allThreads}, [3]uint64{20, 0, allThreads}, [3]uint64{21, 1, allThreads})
	s.attrs[0].flags, s.attrs[1].flags = flagSampleIDAll, flagSampleIDAll
	s.mmap2(&s.attrs[0], 1, 10, 0x1000, 0x1000, 0, buildA, "/bin/a")
	sampled(s, &on[0], 1, 20, 100, 100)
	sampled(s, &on[1], 1, 21, 50, 10)
	sampled(s, &on[0], 2, 22, 1000, 400)
	sampled(s, &on[1], 2, 23, 1000, 200)
	got := counted(t, s)
	if want := [2]uint64{600, 2000}; got["cycles"] != want || got["cache-misses"] != want {
		t.Errorf("of the machine: %v, want %v of both", got, want)
	}

	// Of threads that have counters of their own, the last of each counts; a thread of the same number that begins
	// anew is another one, and one that ended says so itself.
	s, on = group(flagInherit)
	s.index([3]uint64{10, allProcessors, 1}, [3]uint64{11, allProcessors, 4}, [3]uint64{20, allProcessors, 1}, [3]uint64{21, allProcessors, 4})
	s.mmap2(&s.attrs[0], 1, 10, 0x1000, 0x1000, 0, buildA, "/bin/a")
	sampled(s, &on[0], 1, 20, 500, 100)
	sampled(s, &on[0], 1, 21, 1000, 200)
	sampled(s, &on[0], 2, 22, 3000, 600)
	sampled(s, &on[0], 2, 23, 40, 40)
	s.record(recordRead, 0, uint32(1), uint32(1), s.read(&on[0], 0, []uint64{10, 5, 20, 5}, 1100, 210), s.sid(&on[0], 1, 24))
	got = counted(t, s)
	if want := [2]uint64{850, 4140}; got["cycles"] != want || got["cache-misses"] != want {
		t.Errorf("of threads: %v, want %v of both", got, want)
	}
}

// TestStatRecord: a file without samples says what it is, with what was counted, and for how long.
func TestStatRecord(t *testing.T) {
	s := &synth{feat: map[int][]byte{}}
	statCounts(s)
	var said []string
	rec, err := Read(bytes.NewReader(s.file()), Options{Warn: func(msg string) { said = append(said, msg) }})
	if err != nil || rec.Samples() != 0 {
		t.Fatalf("%v, %d samples", err, rec.Samples())
	}
	want := "made by perf stat, which counts and takes no samples; perf record takes some. It counted cycles 6000, cache-misses 180 (counted for 20.0 % of the time), cpu-clock 3000 ns, branches never counted"
	if len(said) != 1 || said[0] != want {
		t.Errorf("got %q, want %q", said, want)
	}
}

// TestThreadsAgainstPerf: of perf record -s of a command whose threads move between processors, the times of all counters of all threads are
// what perf report -D has.
func TestThreadsAgainstPerf(t *testing.T) {
	perf := testtool.Path(t, "perf")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "perf.data")
	cmd := exec.Command(perf, "record", "-q", "-s", "-o", file, "-F", "999", "-e", "cpu-clock,page-faults", "--", self)
	cmd.Env = append(os.Environ(), "PERFDATA_TEST_WORK=1")
	if out, err := cmd.Output(); err != nil {
		t.Skipf("perf record -s: %v: %s%s", err, out, errOutput(err))
	}
	dump, err := exec.Command(perf, "report", "-D", "-i", file).Output()
	if err != nil {
		t.Skipf("perf report: %v: %s", err, errOutput(err))
	}
	want := map[uint64]*spell{}
	at := spell{}
	reads := 0
	for line := range strings.Lines(string(dump)) {
		name, value, _ := strings.Cut(line, ":")
		n, err := strconv.ParseUint(strings.TrimSpace(value), 10, 64)
		if err != nil {
			continue
		}
		switch strings.TrimRight(name, " ") {
		case "... time enabled":
			at.enabled = n
		case "... time running":
			at.running = n
		case "... id":
			if want[n] == nil {
				want[n] = &spell{}
			}
			want[n].add(at)
			reads++
		}
	}
	if reads == 0 {
		t.Fatal("perf record -s wrote no READ record")
	}
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	in, _, err := section(f)
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(Options{}, false)
	if err := r.readFile(in); err != nil {
		t.Fatal(err)
	}
	check(t, "perf record -s", r.recording())
	if !reflect.DeepEqual(r.times.sum, want) {
		t.Errorf("READ records: got %v, perf has %v", r.times.sum, want)
	}
	for _, ev := range r.events {
		for _, id := range ev.ids {
			if on, known := r.times.on[id]; !known || on.cpu < 0 || on.tid <= 0 {
				t.Errorf("%s: counter %d counts on %+v, known: %v", ev.label, id, on, known)
			}
		}
		got := r.times.times(ev.ids)
		t.Logf("%s: counted for %d of %d ns, of %d READ records; they contradict each other: %v", ev.label, got.running, got.enabled, reads, r.times.contradictory)
	}
}
