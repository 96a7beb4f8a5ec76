package perfdata

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"testing"

	"backfeed/sample"
	"backfeed/sample/unwind"
)

// An endless recording for a pipe: its head, then rounds of records whose times
// go on from one round to the next, up to size bytes.
type endless struct {
	head, round []byte
	times       []int // where in round they are, little-endian
	step        uint64
	size        int
	left        []byte
	dumped      bool   // the samples have copied stacks
	peak        uint64 // of live memory, in bytes
	looked      int    // size when it was looked at last
}

// newEndless returns size bytes of samples on two processors, with callchains.
func newEndless(size int) *endless { return endlessOf(size, 2000, true, 0) }

// endlessOf returns size bytes of rounds of n samples on two processors, which perf says it has been or not: with callchains, or
// with copied stacks of so many words.
func endlessOf(size, n int, said bool, words int) *endless {
	s := &synth{}
	a := plainAttr()
	a.sampleType |= hasCallchain
	if words > 0 {
		a.sampleType = a.sampleType&^hasCallchain | hasRegsUser | hasStackUser
		a.regsUser = 1<<x86Regs.fp | 1<<x86Regs.sp | 1<<x86Regs.pc
	}
	s.attrs = []synthAttr{a}
	p := &s.attrs[0]
	s.mmap2(p, 1, 1, 0x400000, 0x100000, 0, buildA, "/bin/a")
	head := s.pipe()
	s.data = nil
	e := &endless{head: head, size: size, step: 4000, left: head, dumped: words > 0}
	half := uint64(n / 2)
	for i := range uint64(n) {
		e.times = append(e.times, len(s.data)+24)
		time := 1000 + i%half*2 + i/half // the second half of a round is another processor's
		x := synthSample{pid: 1, time: time, ip: 0x400000 + i*0x1f1%0x8000,
			chain: []uint64{userChain, 0x400000 + i, 0x410000 + i%7, 0x420000, 0x430000}}
		if words > 0 {
			x.stack = slices.Repeat([]uint64{0x400000 + i%7}, words)
			x.regs = []uint64{0x7fff0008, 0x7fff0000, x.ip}
		}
		s.sample(p, x)
	}
	if said {
		s.record(recordRound, 0)
	}
	e.round = s.data
	return e
}

func (e *endless) samples() int { return (e.size - len(e.head)) / len(e.round) * len(e.times) }

func (e *endless) Read(b []byte) (int, error) {
	if len(e.left) == 0 {
		if e.size -= len(e.round); e.size < len(e.head) {
			return 0, io.EOF
		}
		if e.looked == 0 || e.looked-e.size > 8<<20 {
			e.looked = e.size
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			e.peak = max(e.peak, m.HeapAlloc)
		}
		bo := order(false)
		for _, at := range e.times {
			bo.PutUint64(e.round[at:], bo.Uint64(e.round[at:])+e.step)
		}
		e.left = e.round
	}
	n := copy(b, e.left)
	e.left = e.left[n:]
	return n, nil
}

// TestMemory reads more than it may keep: what it takes does not hang on the number of samples.
func TestMemory(t *testing.T) {
	const limit = 16 << 20
	for _, tt := range []struct {
		name  string
		in    *endless
		opt   Options
		limit int64
	}{
		{"callchains", newEndless(100 << 20), Options{}, limit},
		{"stacks, of which nobody asks for the callers", endlessOf(48<<20, 100, false, 1000), Options{}, limit},
		{"stacks, with rounds", endlessOf(48<<20, 100, true, 1000), Options{Unwind: noTable}, limit},
		{"stacks, without rounds", endlessOf(maxQueued+48<<20, 100, false, 1000), Options{Unwind: noTable}, maxQueued + limit},
	} {
		var before runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		size, want := tt.in.size, tt.in.samples()
		rec, err := Read(tt.in, tt.opt)
		if err != nil {
			t.Fatal(err)
		}
		check(t, tt.name, rec)
		if rec.Samples() != uint64(want) {
			t.Errorf("%s: %d samples, want %d", tt.name, rec.Samples(), want)
		}
		if stacks := rec.Counts[0].Stacks; len(stacks) == 0 || len(stacks[0].Frames) == 1 != (tt.in.dumped && tt.opt.Unwind == nil) {
			t.Errorf("%s: %d stacks: callers are missing, or unasked for", tt.name, len(stacks))
		}
		if grown := int64(tt.in.peak) - int64(before.HeapAlloc); grown > tt.limit {
			t.Errorf("%s: %d bytes of memory for a recording of %d, more than %d", tt.name, grown, size, tt.limit)
		}
	}
}

// noTable knows nothing of an image: callers are found by frame pointers.
func noTable(sample.ImageID) *unwind.Table { return nil }

// TestSpareDumps: entries that wait for something else come to have no room for stacks, one after the other, and room for a stack is
// about what it takes.
func TestSpareDumps(t *testing.T) {
	q := queue{deliver: func(*entry) bool { return false }}
	stack := make([]byte, maxSpareDump)
	n := uint64(2 * maxSpareDumps / len(stack))
	for i := range n {
		e := q.entry()
		e.time = 1 + i
		q.add(e)
	}
	for i := range n {
		q.flush(1 + i)
		e := q.entry()
		e.keepDump(stack)
		q.add(e) // at once: it has no time
	}
	room := 0
	for _, e := range q.spare {
		room += cap(e.dump)
	}
	if room != q.dumps || room > maxSpareDumps || room < maxSpareDumps/2 {
		t.Errorf("%d entries have %d bytes of room for stacks, %d as counted; at most %d may be", len(q.spare), room, q.dumps, maxSpareDumps)
	}
	e := q.entry()
	e.keepDump(stack)
	if e.keepDump(stack[:100]); len(e.dump) != 100 || cap(e.dump) > 200 {
		t.Errorf("a stack of %d bytes in room for %d", len(e.dump), cap(e.dump))
	}
}

// TestQueueLimit has no rounds, so that nothing says when records can go.
func TestQueueLimit(t *testing.T) {
	var order []uint64
	q := queue{deliver: func(e *entry) bool { order = append(order, e.time); return false }}
	big := make([]uint64, 1<<20)
	for i := range uint64(40) { // of 8 MB each; pairs come the wrong way round
		e := q.entry()
		e.time = i ^ 1 + 1
		e.chain = big
		q.add(e)
		if q.size > maxQueued+9<<20 {
			t.Fatalf("%d bytes in the queue, the limit is %d", q.size, maxQueued)
		}
	}
	q.finish()
	if len(order) != 40 || q.size != 0 {
		t.Errorf("%d records delivered, %d bytes left", len(order), q.size)
	}
	for i := 1; i < len(order); i++ {
		if order[i] < order[i-1] {
			t.Errorf("record %d: time %d after %d", i, order[i], order[i-1])
		}
	}
}

// TestManyProcesses: processes that end leave nothing behind, but one of which
// only a thread ended is still there long after.
func TestManyProcesses(t *testing.T) {
	r := newReader(Options{}, false)
	a := plainAttr()
	r.addEvent(a.attr, nil)
	put := func(e entry) { e.ev = r.events[0]; r.deliver(&e) }
	put(entry{typ: recordMmap, pid: 1, mapping: sample.Mapping{Start: 0, End: 100, Image: sample.ImageID{Path: "/bin/a"}}})
	put(entry{typ: recordExit, pid: 1})
	for pid := 2; pid < 10*maxEnded; pid++ {
		put(entry{typ: recordFork, pid: pid, parent: 1})
		put(entry{typ: recordSample, pid: pid, ip: 50})
		put(entry{typ: recordExit, pid: pid})
	}
	put(entry{typ: recordSample, pid: 1, ip: 60})
	c := r.events[0].counts
	if n := c.Lost[sample.LostUnmapped]; n > 0 {
		t.Errorf("%d samples unmapped", n)
	}
	if len(r.ended.waiting) > maxEnded || len(r.ended.order) > maxEnded {
		t.Errorf("%d and %d ended processes are kept, the limit is %d", len(r.ended.waiting), len(r.ended.order), maxEnded)
	}
	put(entry{typ: recordSample, pid: 2, ip: 50})
	if n := c.Lost[sample.LostUnmapped]; n != 1 {
		t.Errorf("a process that ended long ago still has its mappings")
	}
}

// TestProcesses: processes are counted that began their program while recorded, by all events.
func TestProcesses(t *testing.T) {
	r := newReader(Options{}, false)
	a := plainAttr()
	r.addEvent(a.attr, nil)
	put := func(e entry) { e.ev = r.events[0]; r.deliver(&e) }
	app := sample.Mapping{Start: 0, End: 100, Image: sample.ImageID{Path: "/bin/a"}}
	put(entry{typ: recordMmap, pid: 1, mapping: app})
	for pid := 2; pid < 5; pid++ {
		put(entry{typ: recordFork, pid: pid, parent: 1})
		put(entry{typ: recordComm, misc: miscExec, pid: pid})
		put(entry{typ: recordMmap, pid: pid, mapping: app})
		put(entry{typ: recordExit, pid: pid})
	}
	put(entry{typ: recordSample, pid: 1, ip: 50})
	if n := r.recording().Counts[0].Images[0].Processes; n != 3 {
		t.Errorf("%d processes, want 3", n)
	}
}

// TestCompressed2Overflow: perf 6.16 wrote 0 for the size of a record that was 65536.
func TestCompressed2Overflow(t *testing.T) {
	s := &synth{}
	a := s.plain()
	s.mmap2(a, 1, 10, 0x1000, 0x1000, 0, nil, "/bin/a")
	const samples = 3000
	for i := range uint64(samples) {
		s.sample(a, synthSample{pid: 1, time: 20 + i, ip: 0x1000 + i%64})
	}
	data := s.data
	s.data = nil
	// One zstd frame with two blocks that are not compressed.
	frame := []byte{0x28, 0xb5, 0x2f, 0xfd, 0, 7 << 3}
	block := func(b []byte) []byte {
		head := len(b) << 3
		return append([]byte{byte(head), byte(head >> 8), byte(head >> 16)}, b...)
	}
	const full = maxRecordSize - compressed2Header
	n := full - len(frame) - 3
	first := append(frame, block(data[:n])...)
	rest := block(data[n:])
	s.data = append(s.data, s.pack(uint32(recordCompressed2), uint16(0), uint16(0), len(first), raw(first))...)
	s.record(recordCompressed2, 0, len(rest), raw(rest))
	rec, err := Read(bytes.NewReader(s.pipe()), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if rec.Samples() != samples || len(rec.Counts[0].Lost) != 0 {
		t.Errorf("%d samples, want %d; lost: %v", rec.Samples(), samples, rec.Counts[0].Lost)
	}
}

// TestBuildIDFlag: where no event asked for build IDs, what the kernel flags as one
// may be a device and inode.
func TestBuildIDFlag(t *testing.T) {
	id := bytes.Repeat([]byte{0xaa}, 20)
	for _, tt := range []struct {
		name  string
		flags uint64
		size  uint8
		build string // of the image
		err   bool
	}{
		{"asked for", flagBuildID, 20, fmt.Sprintf("%x", id), false},
		{"asked for, of another size", flagBuildID, 8, fmt.Sprintf("%x", id[:8]), false},
		{"asked for, too large", flagBuildID, 21, "", true},
		{"of perf", 0, 20, fmt.Sprintf("%x", id), false},
		{"major number of a virtual disk", 0, 254, "", false},
		{"major number of a SCSI disk", 0, 8, "", false},
	} {
		s := &synth{}
		a := plainAttr()
		a.flags |= tt.flags
		s.attrs = []synthAttr{a}
		file := raw(s.pack(tt.size, uint8(0), uint16(0), raw(id)))
		s.record(recordMmap2, modeUser|miscMapBuildID, uint32(1), uint32(1), uint64(0x1000), uint64(0x1000), uint64(0), file, uint32(5), uint32(2), "/bin/a", s.sid(&a, 1, 10))
		s.sample(&a, synthSample{pid: 1, time: 20, ip: 0x1009})
		rec, err := Read(bytes.NewReader(s.pipe()), Options{})
		if tt.err {
			if !errors.Is(err, ErrFormat) {
				t.Errorf("%s: error %v", tt.name, err)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		build := ""
		if got := rec.Counts[0].Images[0].ID.Build; !got.IsZero() {
			build = got.String()
		}
		if build != tt.build {
			t.Errorf("%s: build ID %q, want %q", tt.name, build, tt.build)
		}
	}
}

// TestTop: of a dump of the stack, the first of two words that names code is kept.
func TestTop(t *testing.T) {
	none := sample.Frame{Image: sample.Unknown}
	for _, tt := range []struct {
		name  string
		stack []uint64
		depth int
		want  []sample.Frame // of each stack
	}{
		{"return address", []uint64{0x1020, 0x1030, 0x1040}, 0, []sample.Frame{{Off: 0x20}}},
		{"saved frame pointer first", []uint64{0x7fff0000, 0x1030, 0x1040}, 0, []sample.Frame{{Off: 0x30}}},
		{"further down", []uint64{1, 2, 0x1040}, 0, nil},
		{"one word", []uint64{0x1020}, 0, []sample.Frame{{Off: 0x20}}},
		{"no stack", []uint64{}, 0, nil},
		{"no callers wanted", []uint64{0x1020}, 1, nil},
	} {
		for _, big := range []bool{false, true} {
			s := &synth{big: big}
			a := plainAttr()
			a.sampleType |= hasRegsUser | hasStackUser
			a.regsUser = 1<<6 | 1<<7
			s.attrs = []synthAttr{a}
			s.mmap2(&a, 1, 10, 0x1000, 0x1000, 0, nil, "/bin/a")
			s.sample(&a, synthSample{pid: 1, time: 20, ip: 0x1009, stack: tt.stack})
			rec, err := Read(bytes.NewReader(s.pipe()), Options{StackDepth: tt.depth})
			if err != nil {
				t.Fatal(err)
			}
			check(t, tt.name, rec)
			var got []sample.Frame
			for _, st := range rec.Counts[0].Stacks {
				if len(st.Frames) != 1 || st.Top == none {
					t.Errorf("%s: frames %v, top %v", tt.name, st.Frames, st.Top)
				}
				got = append(got, st.Top)
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("%s: tops %v, want %v", tt.name, got, tt.want)
			}
		}
	}
}

func TestStackDepth(t *testing.T) {
	for depth, want := range map[int]string{-1: "[]", 0: "[9 0 10]", 1: "[9]", 2: "[9 0]", 3: "[9 0 10]", 100: "[9 0 10]"} {
		s := &synth{}
		a := plainAttr()
		a.sampleType |= hasCallchain
		s.attrs = []synthAttr{a}
		s.mmap2(&a, 1, 10, 0x1000, 0x1000, 0, nil, "/bin/a")
		s.sample(&a, synthSample{pid: 1, time: 20, ip: 0x1009, chain: []uint64{kernelChain, 1 << 63, userChain, 0x1009, 0x1000, 0x1010, 0x99999}})
		rec, err := Read(bytes.NewReader(s.pipe()), Options{StackDepth: depth})
		if err != nil {
			t.Fatal(err)
		}
		offs := []int{}
		for _, st := range rec.Counts[0].Stacks {
			for _, f := range st.Frames {
				offs = append(offs, int(f.Off))
			}
		}
		for i, off := range offs {
			if off == 0x10 {
				offs[i] = 10
			}
		}
		if got := fmt.Sprint(offs); got != want {
			t.Errorf("depth %d: frames at %s, want %s", depth, got, want)
		}
	}
}

func TestLost(t *testing.T) {
	for _, tt := range []struct {
		name              string
		readFormat        uint64
		lost, lostSamples uint64
		want              uint64
	}{
		{"gaps only, the kernel does not count", 0, 5, 0, 5},
		{"processor's own too", 0, 5, 3, 8},
		{"told twice", readLost, 5, 7, 7},
		{"killed before it was told again", readLost, 5, 0, 5},
		{"none", readLost, 0, 0, 0},
	} {
		s := &synth{}
		a := s.plain()
		a.readFormat = tt.readFormat
		s.record(recordLost, 0, uint64(7), tt.lost, s.sid(a, 1, 20))
		s.record(recordLostSamples, 0, tt.lostSamples, s.sid(a, 1, 21))
		rec, err := Read(bytes.NewReader(s.pipe()), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got := rec.Counts[0].Lost[sample.LostDropped]; got != tt.want {
			t.Errorf("%s: %d lost, want %d", tt.name, got, tt.want)
		}
	}
}

func TestEventNames(t *testing.T) {
	for _, tt := range []struct {
		attr  attr
		label string
		want  sample.Event
	}{
		{attr{typ: typeSoftware, config: swCPUClock, period: 250000}, "cpu-clock:u, ", sample.Event{Name: "cpu-clock", Period: 250000, Unit: "ns"}},
		{attr{typ: typeSoftware, config: swTaskClock, period: 999, flags: flagFreq}, "", sample.Event{Name: "task-clock", Unit: "ns"}},
		{attr{typ: typeHardware, config: hwCycles, period: 1}, "cycles:ppp", sample.Event{Name: "cycles:ppp", Period: 1, Unit: "cycles"}},
		{attr{typ: typeHardware, config: 4<<32 | hwCycles, period: 1}, "cpu_atom/cycles/u", sample.Event{Name: "cpu_atom/cycles/", Period: 1, Unit: "cycles"}},
		{attr{typ: typeHardware, config: hwBranches, period: 1}, "branches:upp", sample.Event{Name: "branches:pp", Period: 1, Unit: "branches"}},
		{attr{typ: typeHardware, config: hwInstructions, period: 1}, "", sample.Event{Name: "instructions", Period: 1, Unit: "instructions"}},
		{attr{typ: typeHardware, config: 9, period: 1}, "", sample.Event{Name: "ref-cycles", Period: 1, Unit: "events"}},
		{attr{typ: typeRaw, config: 0xc4, period: 1}, "BR_INST_RETIRED.NEAR_TAKEN:u", sample.Event{Name: "BR_INST_RETIRED.NEAR_TAKEN", Period: 1, Unit: "branches"}},
		{attr{typ: typeRaw, config: 0xc4, period: 1}, "", sample.Event{Name: "raw 0xc4", Period: 1, Unit: "events"}},
		{attr{typ: 10, config: 0x11, period: 1}, "armv8_pmuv3_0/cpu_cycles/", sample.Event{Name: "armv8_pmuv3_0/cpu_cycles/", Period: 1, Unit: "cycles"}},
		{attr{typ: typeTracepoint, config: 5, period: 1}, "sched:sched_switch", sample.Event{Name: "sched:sched_switch", Period: 1, Unit: "events"}},
		{attr{typ: 77, config: 5, period: 1}, "", sample.Event{Name: "type 77 config 0x5", Period: 1, Unit: "events"}},
	} {
		if got := tt.attr.event(tt.label); got != tt.want {
			t.Errorf("event %+v called %q: %+v, want %+v", tt.attr, tt.label, got, tt.want)
		}
	}
}

func TestCPU(t *testing.T) {
	for _, tt := range []struct {
		id   string
		want sample.CPU
	}{
		{"GenuineIntel,6,207,2", sample.CPU{Vendor: "GenuineIntel", Family: 6, Model: 207, Stepping: 2}},
		{"0x00000000410fd0c0", sample.CPU{Vendor: "0x41", Model: 0xd0c}},
		{"0x00000000413fd0c1", sample.CPU{Vendor: "0x41", Model: 0xd0c, Stepping: 0x31}},
		{"IBM,3931,704,A01,3.7,002f", sample.CPU{}},
		{"", sample.CPU{}},
	} {
		var got sample.CPU
		if setCPUID(&got, tt.id); got != tt.want {
			t.Errorf("cpuid %q: %+v, want %+v", tt.id, got, tt.want)
		}
	}
	for name, want := range map[string]int{"Intel(R) Core(TM) i7-8650U CPU @ 1.90GHz": 1900, "Pentium @ 933MHz": 933, "AMD EPYC": 0, "odd @ 99999999GHz": 0} {
		if got := nominalMHz(name); got != want {
			t.Errorf("%q: %d MHz, want %d", name, got, want)
		}
	}
}

// BenchmarkRead reads samples with callchains.
func BenchmarkRead(b *testing.B) {
	const size = 16 << 20
	b.SetBytes(size)
	samples := 0
	for b.Loop() {
		e := newEndless(size)
		e.looked = -1 << 62 // at memory never
		samples += e.samples()
		if _, err := Read(e, Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(samples)/b.Elapsed().Seconds(), "samples/s")
}

// BenchmarkReadBranches reads samples with 32 branches each.
func BenchmarkReadBranches(b *testing.B) {
	s := &synth{}
	s.attrs = []synthAttr{{attr: attr{typ: typeHardware, config: hwCycles, period: 100003, flags: flagSampleIDAll,
		sampleType: plainType | hasBranches, branchType: branchAny | 1}}}
	p := &s.attrs[0]
	s.mmap2(p, 1, 10, 0x400000, 0x100000, 0, buildA, "/bin/a")
	const samples = 10000
	for i := range uint64(samples) {
		x := synthSample{pid: 1, time: 20 + i, ip: 0x400000}
		for k := range uint64(32) {
			at := 0x400000 + (i*32+k)*0x61%0x10000
			x.branches = append(x.branches, synthBranch{from: at + 20, to: at})
		}
		s.sample(p, x)
		if i%500 == 499 {
			s.record(recordRound, 0)
		}
	}
	in := s.pipe()
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if _, err := Read(bytes.NewReader(in), Options{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(samples*b.N)/b.Elapsed().Seconds(), "samples/s")
}

// FuzzRead: any bytes give an error, or counts that keep their promises.
func FuzzRead(f *testing.F) {
	each(func(_ string, b []byte) { f.Add(b) })
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, err := Read(bytes.NewReader(b), Options{Warn: func(string) {}, Unwind: func(sample.ImageID) *unwind.Table { return &someRows }})
		if err == nil {
			check(t, "fuzz", rec)
		}
	})
}
