package collect

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"backfeed/sample"
)

func newTally() *tally {
	return &tally{
		counts:   sample.NewCounts(sample.CPU{}, sample.Event{Name: cpuClock, Period: 1000, Unit: "ns"}),
		stats:    &Stats{},
		identify: func(m *mmapRecord) sample.ImageID { return imageID(m.path, sample.BuildID{}) },
	}
}

// feed returns the records of several rings to a tally: all of one ring, then all
// of the next.
func feed(t *testing.T, ta *tally, rings ...[][]byte) {
	t.Helper()
	var q queue
	for _, ring := range rings {
		for _, b := range ring {
			rec, err := splitRecord(b, false)
			if err != nil {
				t.Fatal(err)
			}
			rec.side = rec.typ != typeSample && rec.typ != typeThrottle
			q.add([]record{rec})
		}
	}
	if err := q.flush(math.MaxUint64, ta.record); err != nil {
		t.Fatal(err)
	}
	if err := ta.counts.Check(); err != nil {
		t.Error(err)
	}
}

// places lists samples by place and loss: "/bin/a+10 2".
func places(c *sample.Counts) string {
	var out []string
	for _, im := range c.Images {
		for off, n := range im.At {
			out = append(out, fmt.Sprintf("%s+%x %d", im.ID.Path, uint64(off), n))
		}
	}
	for why, n := range c.Lost {
		out = append(out, fmt.Sprintf("%s %d", why, n))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func TestTally(t *testing.T) {
	a := rawMmap(1, 10, 0x1000, 0x1000, 0, "/bin/a")
	for _, tt := range []struct {
		name  string
		rings [][][]byte
		want  string
	}{
		{"one", [][][]byte{{a, rawSample(1, 20, 0x1010)}}, "/bin/a+10 1"},
		{"sample's ring read first", [][][]byte{{rawSample(1, 20, 0x1010)}, {a}}, "/bin/a+10 1"},
		{"before the mapping", [][][]byte{{a}, {rawSample(1, 5, 0x1010)}}, "unmapped 1"},
		{"same moment as the mapping", [][][]byte{{a}, {rawSample(1, 10, 0x1010)}}, "/bin/a+10 1"},
		{"another process", [][][]byte{{a, rawSample(2, 20, 0x1010)}}, "unmapped 1"},
		{"child", [][][]byte{{a, raw(typeFork, 0, 2, 1, 2, 1, uint64(15), id(1, 15))}, {rawSample(2, 20, 0x1010)}}, "/bin/a+10 1"},
		{"around an exec on another processor", [][][]byte{
			{a, raw(typeComm, miscCommExec, 1, 1, "b", id(1, 15)), rawMmap(1, 16, 0x1000, 0x1000, 0, "/bin/b")},
			{rawSample(1, 14, 0x1010), rawSample(1, 17, 0x1010)},
		}, "/bin/a+10 1, /bin/b+10 1"},
		{"renamed, not executed", [][][]byte{{a, raw(typeComm, 0, 1, 1, "b", id(1, 15)), rawSample(1, 20, 0x1010)}}, "/bin/a+10 1"},
		{"replaced library", [][][]byte{{a, rawSample(1, 20, 0x1010), rawMmap(1, 30, 0x1000, 0x1000, 0, "/bin/a (deleted)"), rawSample(1, 40, 0x1010)}},
			"/bin/a (deleted)+10 1, /bin/a+10 1"},
		{"no images", [][][]byte{{
			rawMmap(1, 10, 0x1000, 0x1000, 0, "[vdso]"), rawMmap(1, 10, 0x2000, 0x1000, 0, "//anon"), rawMmap(1, 10, 0x3000, 0x1000, 0, "/memfd:jit (deleted)"),
			rawSample(1, 20, 0x1000), rawSample(1, 20, 0x2000), rawSample(1, 20, 0x3000),
		}}, "anonymous memory 2, vdso 1"},
		{"kernel and guest", [][][]byte{{
			a,
			raw(typeSample, miscKernel, uint64(0x1010), 1, 1, uint64(20), uint64(1000), uint64(0)),
			raw(typeSample, miscGuestUser, uint64(0x1010), 1, 1, uint64(20), uint64(1000), uint64(0)),
		}}, "guest 1, kernel 1"},
	} {
		ta := newTally()
		feed(t, ta, tt.rings...)
		if got := places(ta.counts); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestTallyJIT: code that a process made itself is in the file that names it, from when that is there; of a program that the
// process began after that, or of another process with its number, it is not.
func TestTallyJIT(t *testing.T) {
	ta := newTally()
	written, looks := map[int]string{}, 0
	ta.jit = func(pid int) *sample.ImageID {
		looks++
		if written[pid] == "" {
			return nil
		}
		return &sample.ImageID{Path: written[pid]}
	}
	anon := func(pid int, time uint64) []byte { return rawMmap(pid, time, 0x2000, 0x1000, 0, "//anon") }
	feed(t, ta, [][]byte{anon(1, 10), rawMmap(1, 10, 0x3000, 0x1000, 0, "[vdso]"), rawSample(1, 20, 0x2010), rawSample(1, 21, 0x2010), rawSample(1, 22, 0x3000), rawSample(1, 23, 0x9000)})
	if got := places(ta.counts); got != "anonymous memory 2, unmapped 1, vdso 1" || looks != 1 {
		t.Errorf("without a map: %s, looked for %d times", got, looks)
	}
	written[1] = "/tmp/perf-1.map"
	late := uint64(21 + lookAgain)
	feed(t, ta, [][]byte{rawSample(1, late, 0x2010), rawSample(1, late+1, 0x2020)})
	if got, want := places(ta.counts), "/tmp/perf-1.map+2010 1, /tmp/perf-1.map+2020 1, anonymous memory 2, unmapped 1, vdso 1"; got != want || looks != 2 {
		t.Errorf("with a map: %s, want %s, looked for %d times", got, want, looks)
	}
	delete(written, 1)
	feed(t, ta, [][]byte{
		raw(typeFork, 0, 2, 1, 2, 1, late+2, id(1, late+2)), rawSample(2, late+3, 0x2010),
		rawSample(1, late+3, 0x2020), // though the map cannot be found any more
		raw(typeExit, 0, 1, 1, 1, 1, late+4, id(1, late+4)),
		raw(typeFork, 0, 1, 2, 1, 2, late+5, id(1, late+5)), rawSample(1, late+6, 0x2010),
	})
	written[2] = "/tmp/perf-2.map"
	feed(t, ta, [][]byte{raw(typeComm, miscCommExec, 2, 2, "b", id(2, late+7)), anon(2, late+8), rawSample(2, late+9, 0x2010)})
	if got, want := places(ta.counts), "/tmp/perf-1.map+2010 1, /tmp/perf-1.map+2020 2, /tmp/perf-2.map+2010 1, anonymous memory 4, unmapped 1, vdso 1"; got != want {
		t.Errorf("after a fork and an exec: %s, want %s", got, want)
	}
}

// TestBegan: threads that begin are counted, those of a process like processes, and ends and execs are not.
func TestBegan(t *testing.T) {
	ta := newTally()
	feed(t, ta, [][]byte{
		raw(typeFork, 0, 2, 1, 2, 1, uint64(15), id(1, 15)),
		raw(typeComm, miscCommExec, 2, 2, "b", id(2, 16)),
		raw(typeFork, 0, 2, 2, 3, 2, uint64(17), id(2, 17)),
		raw(typeExit, 0, 2, 2, 3, 2, uint64(18), id(3, 18)),
	})
	if ta.stats.Began != 2 {
		t.Errorf("%d threads began, want 2", ta.stats.Began)
	}
}

// TestTallySplit: samples have the names that their threads had when they were taken, the processor of their ring, and the
// slice of their time; all of them do, the lost ones too.
func TestTallySplit(t *testing.T) {
	ta := newTally()
	const second = 1_000_000_000
	ta.epoch = 1_700_000_000 * second
	ring := [][]byte{
		raw(typeComm, miscCommExec, 1, 1, "app", id(1, 5)),
		rawMmap(1, 10, 0x1000, 0x1000, 0, "/bin/a"),
		rawSample(1, 20, 0x1010),
		raw(typeFork, 0, 1, 1, 2, 1, uint64(30), id(1, 30)),
		raw(typeSample, miscUser, uint64(0x1010), 1, 2, uint64(40), uint64(1000), uint64(0)),
		raw(typeComm, 0, 1, 2, "worker", id(1, 50)),
		raw(typeSample, miscUser, uint64(0x1020), 1, 2, uint64(second+60), uint64(1000), uint64(0)),
		raw(typeSample, miscKernel, uint64(0x1010), 1, 2, uint64(second+70), uint64(1000), uint64(0)),
		raw(typeExit, 0, 1, 1, 2, 1, uint64(2*second), id(1, 2*second)),
		raw(typeSample, miscUser, uint64(0x9999), 1, 2, uint64(3*second), uint64(1000), uint64(0)),
	}
	feed(t, ta, ring)
	if got, want := fmt.Sprint(ta.counts.Origins), "map[{app  }:1 {app app }:2 {app worker }:2]"; got != want {
		t.Errorf("origins %s, want %s", got, want)
	}
	if got := fmt.Sprint(ta.counts.Processors); got != "map[0:5]" {
		t.Errorf("processors %s", got)
	}
	const first = 1_700_000_000 * 8
	if got, want := fmt.Sprint(ta.counts.BySlice()), fmt.Sprint(map[uint64]uint64{first: 2, first + 8: 2, first + 24: 1}); got != want {
		t.Errorf("slices %s, want %s", got, want)
	}
}

func TestLost(t *testing.T) {
	ta := newTally()
	samples := record{typ: typeLost, body: raw(0, 0, uint64(9), uint64(3))[headerSize:]}
	tasks := record{typ: typeLost, body: raw(0, 0, uint64(9), uint64(4))[headerSize:], side: true}
	for _, rec := range []record{samples, tasks, {typ: typeThrottle}} {
		if err := ta.record(&rec); err != nil {
			t.Fatal(err)
		}
	}
	if n := ta.counts.Lost[sample.LostDropped]; n != 3 || ta.counts.Total != 3 {
		t.Errorf("%d samples dropped of %d, want 3 of 3", n, ta.counts.Total)
	}
	if ta.stats.LostRecords != 4 || ta.stats.Throttled != 1 {
		t.Errorf("%+v, want 4 records lost, throttled once", ta.stats)
	}
}

func TestStacks(t *testing.T) {
	a := rawMmap(1, 10, 0x1000, 0x1000, 0, "/bin/a")
	for _, tt := range []struct {
		name  string
		chain []uint64
		want  string
	}{
		{"callers", []uint64{contextUser, 0x1010, 0x1020, 0x1030}, "10 20 30"},
		{"kernel part left out", []uint64{contextUser + 384, 0xffff, contextUser, 0x1010, 0x1020}, "10 20"},
		{"unknown in the middle", []uint64{contextUser, 0x1010, 0x9000, 0x1030}, "10 ? 30"},
		{"unknown at the end", []uint64{contextUser, 0x1010, 0x1020, 0x9000, 0x9001}, "10 20"},
		{"no chain", nil, "10"},
		{"deep", []uint64{contextUser, 0x1010, 0x1001, 0x1002, 0x1003, 0x1004, 0x1005, 0x1006, 0x1007, 0x1008}, "10 1 2 3 4 5 6 7"},
	} {
		ta := newTally()
		feed(t, ta, [][]byte{a, rawSample(1, 20, 0x1010, tt.chain...)})
		var got []string
		for _, f := range ta.counts.Stacks[0].Frames {
			if f.Image == sample.Unknown {
				got = append(got, "?")
			} else {
				got = append(got, fmt.Sprintf("%x", uint64(f.Off)))
			}
		}
		if s := strings.Join(got, " "); s != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, s, tt.want)
		}
	}
}

// TestTop: of the words at the stack pointer, the first that names code is kept.
func TestTop(t *testing.T) {
	a := rawMmap(1, 10, 0x1000, 0x1000, 0, "/bin/a")
	for _, tt := range []struct {
		words [2]uint64
		want  sample.Frame
	}{
		{[2]uint64{0x1040, 0x9000}, sample.Frame{Off: 0x40}},
		{[2]uint64{0x1040, 0x1050}, sample.Frame{Off: 0x40}},
		{[2]uint64{0x9000, 0x1050}, sample.Frame{Off: 0x50}},
		{[2]uint64{0x9000, 0x9000}, sample.Frame{Image: sample.Unknown}},
		{[2]uint64{}, sample.Frame{Image: sample.Unknown}},
	} {
		ta := newTally()
		ta.layout.top = true
		feed(t, ta, [][]byte{a, withTop(rawSample(1, 20, 0x1010), uint64(16), tt.words[0], tt.words[1], uint64(16))})
		if got := ta.counts.Stacks[0].Top; got != tt.want {
			t.Errorf("words %#x: top %v, want %v", tt.words, got, tt.want)
		}
	}
}

func TestBranches(t *testing.T) {
	ta := newTally()
	ta.layout.branches = true
	// Newest first: 0x1050 to 0x1080, then 0x1020 to 0x1040 (mispredicted), then
	// 0x1ff0 to 0x1010; the last came from code that is not mapped.
	feed(t, ta, [][]byte{
		rawMmap(1, 10, 0x1000, 0x1000, 0, "/bin/a"),
		raw(typeSample, miscUser, uint64(0x1088), 1, 1, uint64(20), uint64(1000), uint64(0), uint64(4),
			uint64(0x1050), uint64(0x1080), uint64(2),
			uint64(0x1020), uint64(0x1040), uint64(1),
			uint64(0x1ff0), uint64(0x1010), uint64(2),
			uint64(0x9000), uint64(0x1f00), uint64(2)),
	})
	at := func(off sample.Offset) sample.Frame { return sample.Frame{Off: off} }
	want := map[sample.Branch]sample.BranchCount{
		{From: at(0x50), To: at(0x80)}:                             {N: 1},
		{From: at(0x20), To: at(0x40)}:                             {N: 1, Mispredicted: 1},
		{From: at(0xff0), To: at(0x10)}:                            {N: 1},
		{From: sample.Frame{Image: sample.Unknown}, To: at(0xf00)}: {N: 1},
	}
	if !maps.Equal(ta.counts.Branches, want) {
		t.Errorf("branches %v, want %v", ta.counts.Branches, want)
	}
	ranges := map[sample.Range]uint64{{First: 0x40, Last: 0x50}: 1, {First: 0x10, Last: 0x20}: 1, {First: 0xf00, Last: 0xff0}: 1}
	if !maps.Equal(ta.counts.Ranges, ranges) {
		t.Errorf("ranges %v, want %v", ta.counts.Ranges, ranges)
	}
}

// TestFirst: touches count from the exec that was seen, and callers were entered
// before what they called.
func TestFirst(t *testing.T) {
	const ms = 1_000_000
	ta := newTally()
	feed(t, ta, [][]byte{
		rawMmap(2, 1*ms, 0x1000, 0x1000, 0, "/bin/a"),
		rawSample(2, 2*ms, 0x1040), // of a process that ran before
		raw(typeComm, miscCommExec, 1, 1, "a", id(1, 3*ms)),
		rawMmap(1, 3*ms, 0x1000, 0x1000, 0, "/bin/a"),
		rawSample(1, 9*ms, 0x1010),
		rawSample(1, 8*ms, 0x1020, contextUser, 0x1020, 0x1084),
		rawSample(1, 20_000*ms, 0x1030),
	})
	want := map[sample.Offset]uint64{0x10: 6000, 0x20: 5000, 0x83: 5000}
	if got := ta.counts.Images[0].First; !maps.Equal(got, want) {
		t.Errorf("first touches %v, want %v", got, want)
	}
}

// TestQueue: what is later than the limit stays, in order.
func TestQueue(t *testing.T) {
	var q queue
	var got []uint64
	take := func(r *record) error { got = append(got, r.time); return nil }
	q.add([]record{{time: 3}, {time: 9}})
	q.add([]record{{time: 1}, {time: 5}})
	for _, limit := range []uint64{4, 4, 9} {
		if err := q.flush(limit, take); err != nil {
			t.Fatal(err)
		}
		got = append(got, 0)
	}
	if want := []uint64{1, 3, 0, 0, 5, 9, 0}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestWeigh: samples stand for what was counted, if that is clearly more than a period for each.
func TestWeigh(t *testing.T) {
	const period, events = 1000, 4
	for _, tt := range []struct {
		name             string
		samples, dropped uint64
		counted          uint64
		weight           uint64
		missed           float64
	}{
		{"all in time", 500, 0, 500*period + events*period, 500 * period, 0},
		{"a little late", 500, 0, 520 * period, 500 * period, 0},
		{"half brought none", 500, 0, 1000 * period, 1000 * period, 0.5},
		{"dropped ones stand for themselves", 500, 500, 1000 * period, 500 * period, 0},
		{"half brought none, half of the others were dropped", 250, 250, 1000 * period, 500 * period, 0.5},
		{"not known what was counted", 500, 0, 0, 500 * period, 0},
		{"no samples", 0, 0, 1000 * period, 0, 0},
	} {
		tl := &tally{counts: sample.NewCounts(sample.CPU{}, sample.Event{Name: "instructions", Period: period, Unit: "instructions"}), stats: &Stats{}}
		e := EventTime{Counted: tt.counted}
		if tt.samples > 0 {
			tl.counts.AddSample(tl.counts.Image(sample.ImageID{Path: "/bin/a"}), 1, tt.samples)
			tl.counts.Weight = tt.samples * period
		}
		tl.counts.Lose(sample.LostDropped, tt.dropped)
		e.weigh(tl.counts, events)
		if tl.counts.Weight != tt.weight || e.Missed != tt.missed {
			t.Errorf("%s: weight %d, missed %.3f; want %d, %.3f", tt.name, tl.counts.Weight, e.Missed, tt.weight, tt.missed)
		}
		if err := tl.counts.Check(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// TestMemfd: what runs from a file in memory is an image if that has a build ID, and code that a program made if not.
func TestMemfd(t *testing.T) {
	for _, tt := range []struct {
		build sample.BuildID
		want  sample.Mapping
	}{
		{sample.BuildID{}, sample.Mapping{Start: 0x1000, End: 0x3000, Off: 0x10, Loss: sample.LostAnonymous}},
		{sample.BuildID{1}, sample.Mapping{Start: 0x1000, End: 0x3000, Off: 0x10, Image: sample.ImageID{Build: sample.BuildID{1}, Path: "/memfd:a"}}},
	} {
		m := &mmapRecord{pid: 1, start: 0x1000, size: 0x2000, fileOff: 0x10, path: "/memfd:a (deleted)"}
		if got := m.identified(func(m *mmapRecord) sample.ImageID { return imageID(m.path, tt.build) }); got != tt.want {
			t.Errorf("%v: %+v, want %+v", tt.build, got, tt.want)
		}
	}
}
