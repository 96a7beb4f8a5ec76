package perfdata

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

const (
	userChain   = 1<<64 - 512
	kernelChain = 1<<64 - 128
)

const featureCompressed = 27 // which only perf reads, for the size of its buffer

var (
	buildA = bytes.Repeat([]byte{0xaa}, 20)
	buildB = bytes.Repeat([]byte{0xbb}, 16)
)

const plainType = hasIP | hasTID | hasTime

func plainAttr() synthAttr {
	return synthAttr{
		attr:  attr{typ: typeSoftware, config: swCPUClock, period: 250000, sampleType: plainType, flags: flagSampleIDAll},
		ids:   []uint64{7},
		label: "cpu-clock:u",
	}
}

// recordings are the inputs of the golden files, of the error tests and of the
// fuzzer. Each is written in both byte orders.
var recordings = []struct {
	name  string
	pipe  bool
	write func(s *synth)
}{
	{"modes", false, func(s *synth) {
		a := s.plain()
		s.mmap2(a, 1, 10, 0x400000, 0x2000, 0x1000, buildA, "/bin/a")
		s.mmap2(a, 1, 11, 0x7f0000, 0x1000, 0, nil, "/lib/no build id")
		s.mmap2(a, 1, 12, 0x800000, 0x1000, 0, nil, "[vdso]")
		s.mmap2(a, 1, 13, 0x900000, 0x1000, 0, nil, "//anon")
		s.mmap2(a, 1, 14, 0xa00000, 0x1000, 0, nil, "/memfd:jit (deleted)")
		s.mmap2(a, 1, 15, 0xb00000, 0x1000, 0, buildB, "/lib/gone (deleted)")
		s.record(recordMmap, modeKernel, ^uint32(0), uint32(0), uint64(1<<63), uint64(1<<62), uint64(1<<63), "[kernel.kallsyms]_text", s.sid(a, -1, 16))
		for i, ip := range []uint64{0x400000, 0x400123, 0x400123, 0x401fff, 0x402000, 0x7f0010, 0x800010, 0x900010, 0xa00010, 0xb00010, 0} {
			s.sample(a, synthSample{pid: 1, time: 20 + uint64(i), ip: ip})
		}
		s.sample(a, synthSample{pid: 2, time: 40, ip: 0x400000})
		s.sample(a, synthSample{pid: 1, time: 41, ip: 1<<63 + 16, misc: modeKernel})
		s.sample(a, synthSample{pid: 1, time: 42, ip: 0x400000, misc: modeHypervisor})
		s.sample(a, synthSample{pid: 1, time: 43, ip: 0x400000, misc: modeGuestUser})
		s.sample(a, synthSample{pid: 1, time: 44, ip: 0x400000, misc: modeGuestKernel})
		s.record(recordThrottle, 0, uint64(45), uint64(7), uint64(7), s.sid(a, 1, 45))
		s.record(recordLost, 0, uint64(7), uint64(5), s.sid(a, 1, 46))
		s.record(recordLostSamples, 0, uint64(2), s.sid(a, 1, 47))
		s.record(recordLostSamples, miscLostByBPF, uint64(100), s.sid(a, 1, 48))
	}},
	{"processes", false, func(s *synth) {
		a := s.plain()
		s.task(a, recordFork, miscSyntheticFork, 1, 99, 1, 0)
		s.mmap2(a, 1, 10, 0x1000, 0x4000, 0, buildA, "/bin/a")
		s.sample(a, synthSample{pid: 1, time: 11, ip: 0x1000})
		s.task(a, recordFork, 0, 2, 1, 2, 12) // a process
		s.task(a, recordFork, 0, 1, 1, 5, 13) // a thread
		s.sample(a, synthSample{pid: 2, time: 14, ip: 0x1004})
		s.mmap2(a, 2, 15, 0x2000, 0x1000, 0, buildB, "/lib/b") // splits the child's
		s.sample(a, synthSample{pid: 1, time: 16, ip: 0x2008})
		s.sample(a, synthSample{pid: 2, time: 16, ip: 0x2008})
		s.sample(a, synthSample{pid: 2, time: 16, ip: 0x3008})
		s.task(a, recordExit, 0, 1, 99, 5, 17) // the thread, not the process
		s.sample(a, synthSample{pid: 1, time: 18, ip: 0x1010})
		s.comm(a, 2, 19, 0) // a new name alone changes nothing
		s.sample(a, synthSample{pid: 2, time: 20, ip: 0x1014})
		s.comm(a, 2, 21, miscExec)
		s.mmap2(a, 2, 22, 0x1000, 0x1000, 0x3000, nil, "/bin/c")
		s.sample(a, synthSample{pid: 2, time: 23, ip: 0x1018})
		s.task(a, recordExit, 0, 2, 1, 2, 24)
		s.task(a, recordFork, 0, 2, 1, 2, 25) // the number is used again
		s.sample(a, synthSample{pid: 2, time: 26, ip: 0x101c})
	}},
	{"exec", false, func(s *synth) {
		a := s.plain()
		s.mmap2(a, 1, 10, 0x1000, 0x1000, 0, buildA, "/bin/a")
		s.comm(a, 1, 11, miscExec)
		s.sample(a, synthSample{pid: 1, time: 12, ip: 0x1004})
		s.mmap2(a, 1, 13, 0x5000, 0x1000, 0, buildB, "/bin/b")
		s.sample(a, synthSample{pid: 1, time: 14, ip: 0x1008})
		s.sample(a, synthSample{pid: 1, time: 15, ip: 0x500c})
	}},
	{"starts", false, func(s *synth) {
		const ms = 1_000_000
		s.attrs = []synthAttr{plainAttr()}
		a := &s.attrs[0]
		a.sampleType |= hasCallchain
		s.mmap2(a, 9, 1*ms, 0x1000, 0x1000, 0, buildA, "/bin/a") // nobody knows since when
		s.sample(a, synthSample{pid: 9, time: 2 * ms, ip: 0x1004})
		s.comm(a, 1, 3*ms, miscExec)
		s.mmap2(a, 1, 3*ms, 0x1000, 0x1000, 0, buildA, "/bin/a")
		s.comm(a, 2, 5*ms, miscExec)
		s.mmap2(a, 2, 5*ms, 0x1000, 0x1000, 0, buildA, "/bin/a") // two runs: the lesser times count
		s.sample(a, synthSample{pid: 1, time: 7 * ms, ip: 0x1010, chain: []uint64{userChain, 0x1010, 0x1104}})
		s.sample(a, synthSample{pid: 2, time: 8 * ms, ip: 0x1010, chain: []uint64{userChain, 0x1010, 0x1204}})
		s.task(a, recordFork, 0, 3, 2, 3, 8*ms)
		s.sample(a, synthSample{pid: 3, time: 10 * ms, ip: 0x1020, chain: []uint64{userChain, 0x1020}}) // its parent's program
		s.sample(a, synthSample{pid: 3, time: 11 * ms, ip: 0x1010, chain: []uint64{userChain, 0x1010}})
		s.sample(a, synthSample{pid: 3, time: 11_000 * ms, ip: 0x1030, chain: []uint64{userChain, 0x1030}}) // too late
	}},
	{"rounds", false, func(s *synth) {
		// Two processors: the second's buffer is copied after the first's.
		a := s.plain()
		s.sample(a, synthSample{pid: 1, time: 20, ip: 0x1010})
		s.sample(a, synthSample{pid: 1, time: 40, ip: 0x1020}) // b by then
		s.mmap2(a, 1, 10, 0x1000, 0x1000, 0, buildA, "/bin/a")
		s.record(recordRound, 0)
		s.sample(a, synthSample{pid: 1, time: 35, ip: 0x1030}) // b
		s.mmap2(a, 1, 30, 0x1000, 0x1000, 0, buildB, "/bin/b")
		s.record(recordRound, 0)
		s.sample(a, synthSample{pid: 1, time: 50, ip: 0x1040}) // c
		s.mmap2(a, 1, 45, 0x1000, 0x1000, 0, nil, "/bin/c")
		s.record(recordRound, 0)
		s.sample(a, synthSample{pid: 1, time: 5, ip: 0x1050}) // far too late: b is what there is
	}},
	{"every-field", false, func(s *synth) {
		s.attrs = []synthAttr{everyField()}
		a := &s.attrs[0]
		s.mmap2(a, 1, 10, 0x1000, 0x1000, 0, buildA, "/bin/a")
		s.sample(a, synthSample{pid: 1, time: 20, ip: 0x1010, period: 1000,
			chain:    []uint64{kernelChain, 1 << 63, userChain, 0x1010, 0x1104, 0x99999, 0x1108, 0x88888},
			branches: []synthBranch{{from: 0x1080, to: 0x1000, mispredicted: true}, {from: 0x1040, to: 0x1060}}})
		s.sample(a, synthSample{pid: 1, time: 21, ip: 0x1010, period: 500})
		s.sample(a, synthSample{pid: 1, time: 22, ip: 1 << 63, period: 20, misc: modeKernel,
			chain:    []uint64{kernelChain, 1 << 63, userChain, 0x1010, 0x1104},
			branches: []synthBranch{{from: 0x1080, to: 1 << 63}}})
	}},
	{"branch-counters", false, func(s *synth) {
		a := everyField()
		a.branchType |= branchCounters
		s.attrs = []synthAttr{a}
		s.mmap2(&a, 1, 10, 0x1000, 0x1000, 0, buildA, "/bin/a")
		s.sample(&a, synthSample{pid: 1, time: 20, ip: 0x1010, period: 1000,
			branches: []synthBranch{{from: 0x1080, to: 0x1000}, {from: 0x1040, to: 0x1060}}})
	}},
	{"reads", false, func(s *synth) {
		for i, format := range []uint64{0, readEnabled, readEnabled | readRunning | readID, readID | readLost,
			readGroup, readGroup | readEnabled | readRunning, readGroup | readRunning | readID | readLost} {
			s.attrs = append(s.attrs, synthAttr{
				attr: attr{typ: typeTracepoint, config: uint64(i), period: 1, flags: flagSampleIDAll, readFormat: format,
					sampleType: plainType | hasIdentifier | hasRead | hasCallchain},
				ids: []uint64{uint64(100 + i)}})
		}
		s.mmap2(&s.attrs[0], 1, 10, 0x1000, 0x1000, 0, buildA, "/bin/a")
		for i := range s.attrs {
			s.sample(&s.attrs[i], synthSample{pid: 1, time: 20, ip: 0x1000 + uint64(i), chain: []uint64{userChain, 0x1000, 0x1100}})
		}
	}},
	{"branches", false, func(s *synth) {
		a := synthAttr{attr: attr{typ: typeHardware, config: hwCycles, period: 100003, flags: flagSampleIDAll,
			sampleType: plainType | hasBranches, branchType: branchAny | 1}}
		s.attrs = []synthAttr{a}
		p := &s.attrs[0]
		s.mmap2(p, 1, 10, 0x1000, 0x1000, 0, buildA, "/bin/a")
		s.mmap2(p, 1, 10, 0x100000, 0x400000, 0, buildB, "/lib/b")
		s.sample(p, synthSample{pid: 1, time: 20, ip: 0x1010, branches: []synthBranch{
			{from: 0x1050, to: 0x1010},                     // after 0x1020 to 0x1050
			{from: 0x100080, to: 0x1020},                   // not in the image entered before
			{from: 0x1090, to: 0x100040},                   // after 0x1080 to 0x1090, through what was not
			{from: 0x1088, to: 0x1000, wrongPath: true},    // executed
			{from: 0x1070, to: 0x1080, mispredicted: true}, // after nothing: 0x1074 is behind 0x1070
			{from: 0x1060, to: 0x1074},
			{from: 0x1058, to: 1 << 63},  // into the kernel
			{from: 0x2fffff, to: 0x1054}, // after too long a way from 0x100000
			{from: 0x77777, to: 0x100000},
			{from: 0x77777, to: 0x66666},
			{from: 0x1034, to: 0x1038, abort: true},
		}})
	}},
	{"branches-filtered", false, func(s *synth) {
		for _, kind := range []uint64{1 << 4, branchAny | branchCallStack} {
			s.attrs = append(s.attrs, synthAttr{ids: []uint64{kind}, attr: attr{typ: typeRaw, config: kind, period: 5, flags: flagSampleIDAll,
				sampleType: plainType | hasBranches | hasIdentifier, branchType: kind}})
		}
		s.mmap2(&s.attrs[0], 1, 10, 0x1000, 0x1000, 0, buildA, "/bin/a")
		for i := range s.attrs {
			s.sample(&s.attrs[i], synthSample{pid: 1, time: 20, ip: 0x1010, branches: []synthBranch{{from: 0x1050, to: 0x1010}, {from: 0x1000, to: 0x1020}}})
		}
	}},
	{"events", false, func(s *synth) {
		s.twoEvents()
		s.feat[featureEventDesc] = s.describe()
	}},
	{"events-pipe", true, func(s *synth) { s.twoEvents() }},
	{"unknown-event", true, func(s *synth) {
		s.twoEvents()
		unknown := s.attrs[1]
		unknown.ids = []uint64{40}
		s.sample(&unknown, synthSample{pid: 1, time: 24, ip: 0x1020, period: 1})
	}},
	{"features", false, func(s *synth) {
		a := s.plain()
		s.feat[featureBuildID] = append(s.buildID("/bin/a", buildA, false), s.buildID("/lib/b", buildB, true)...)
		s.feat[featureHostname] = s.counted("host")
		s.feat[featureArch] = s.counted("x86_64")
		s.feat[featureCPUDesc] = s.counted("Some(R) CPU @ 2.60GHz")
		s.feat[featureCPUID] = s.counted("GenuineIntel,6,207,2")
		s.twoImages(a)
	}},
	{"features-old-build-ids", false, func(s *synth) {
		a := s.plain()
		s.feat[featureArch] = s.counted("aarch64")
		s.feat[featureCPUID] = s.counted("0x00000000413fd0c1")
		for _, e := range []struct {
			name string
			id   []byte
		}{{"[kernel.kallsyms]", buildB}, {"/bin/a", buildA}} { // no pid
			s.feat[featureBuildID] = append(s.feat[featureBuildID],
				s.packRecord(recordBuildID, map[bool]uint16{true: modeKernel, false: modeUser}[e.name[0] == '['],
					raw(e.id), raw(make([]byte, 24-len(e.id))), e.name)...)
		}
		s.twoImages(a)
	}},
	{"pipe", true, func(s *synth) {
		a := s.plain()
		s.feat[featureArch] = s.counted("x86_64")
		s.feat[featureCPUID] = s.counted("AuthenticAMD,26,2,1")
		s.feat[featureCPUDesc] = s.counted("AMD EPYC")
		s.record(recordTracingData, 0, uint32(13), uint32(0))
		s.data = append(s.data, bytes.Repeat([]byte{0xee}, 16)...)
		s.record(recordAuxtrace, 0, 24, 0, 0, uint32(0), uint32(0), uint32(0), uint32(0))
		s.data = append(s.data, bytes.Repeat([]byte{0xee}, 24)...)
		s.twoImages(a)
		s.data = append(s.data, s.buildID("/bin/a", buildA, true)...) // late, as perf inject does not, but may
	}},
	{"compressed", false, func(s *synth) {
		s.twoImages(s.plain())
		s.compress(recordCompressed, 100)
		s.feat[featureCompressed] = s.pack(uint32(1), uint32(1), uint32(1), uint32(1), uint32(4096))
	}},
	{"compressed2", true, func(s *synth) {
		s.twoImages(s.plain())
		s.compress(recordCompressed2, 333)
	}},
	{"first-abi", false, func(s *synth) { // Linux 2.6.31: 64 bytes of attr, nothing in trailers
		a := plainAttr()
		a.size, a.flags, a.ids = minAttrSize, 0, nil
		s.attrs = []synthAttr{a}
		s.record(recordMmap, modeUser, uint32(1), uint32(1), uint64(0x1000), uint64(0x1000), uint64(0), "/bin/a")
		s.sample(&s.attrs[0], synthSample{pid: 1, time: 20, ip: 0x1010})
	}},
	{"next-abi", false, func(s *synth) { // fields that are not known yet
		a := plainAttr()
		a.size = 256
		s.attrs = []synthAttr{a}
		s.twoImages(&s.attrs[0])
	}},
	{"multiplexed", false, sharedCounters},
	{"stat", false, statCounts},
	{"attrs-last", false, func(s *synth) {
		s.last = true
		s.twoEvents()
		s.feat[featureEventDesc] = s.describe()
	}},
	{"killed", false, func(s *synth) { s.twoImages(s.plain()) }}, // its header has no size of the data
}

func (s *synth) plain() *synthAttr {
	s.attrs = []synthAttr{plainAttr()}
	return &s.attrs[0]
}

// everyField is an event whose samples have all the fields there are.
func everyField() synthAttr {
	return synthAttr{ids: []uint64{1 << 40}, attr: attr{typ: typeHardware, config: hwInstructions, period: 1000,
		sampleType: knownSampleType, readFormat: readGroup | readEnabled | readID, flags: flagSampleIDAll | flagFreq,
		branchType: branchAny | branchHwIndex, regsUser: 0xff0fff, regsIntr: 0x3}}
}

func (s *synth) twoImages(a *synthAttr) {
	s.mmap2(a, 1, 10, 0x1000, 0x1000, 0, nil, "/bin/a")
	s.mmap2(a, 1, 11, 0x2000, 0x1000, 0x200, nil, "/lib/b")
	for i := range uint64(10) {
		s.sample(a, synthSample{pid: 1, time: 20 + i, ip: 0x1000 + i*0x223})
	}
}

// twoEvents has an event at a frequency, one at a period, and perf's dummy.
func (s *synth) twoEvents() {
	const st = plainType | hasIdentifier | hasPeriod
	s.attrs = []synthAttr{
		{label: "cycles:u", ids: []uint64{10, 11}, attr: attr{typ: typeHardware, config: hwCycles, period: 4000, sampleType: st, flags: flagSampleIDAll | flagFreq}},
		{label: "br_inst_retired.near_taken:ppu", ids: []uint64{20}, attr: attr{typ: typeRaw, config: 0x20c4, period: 20011, sampleType: st, flags: flagSampleIDAll}},
		{label: "dummy:HG", ids: []uint64{30}, attr: attr{typ: typeSoftware, config: swDummy, sampleType: st, flags: flagSampleIDAll}},
	}
	a, b, dummy := &s.attrs[0], &s.attrs[1], &s.attrs[2]
	s.mmap2(dummy, 1, 10, 0x1000, 0x1000, 0, buildA, "/bin/a")
	s.sample(a, synthSample{pid: 1, time: 20, ip: 0x1010, period: 700})
	s.sample(a, synthSample{pid: 1, time: 21, ip: 0x1010, period: 900})
	s.sample(b, synthSample{pid: 1, time: 22, ip: 0x1020, period: 20011})
	s.record(recordLost, 0, uint64(20), uint64(3), s.sid(b, 1, 23))
	s.record(recordLost, 0, uint64(30), uint64(4), s.sid(dummy, 1, 23))
}

// each calls f with every recording in both byte orders.
func each(f func(name string, b []byte)) {
	for _, rec := range recordings {
		for _, big := range []bool{false, true} {
			s := &synth{big: big, feat: map[int][]byte{}}
			rec.write(s)
			b, name := s.file(), rec.name+"-le"
			if big {
				name = rec.name + "-be"
			}
			if rec.pipe {
				b = s.pipe()
			}
			if rec.name == "killed" {
				copy(b[48:], make([]byte, 8))
			}
			f(name, b)
		}
	}
}

// TestGolden reads each recording and compares with what it is known to mean. The
// byte orders have one golden file between them.
func TestGolden(t *testing.T) {
	each(func(name string, b []byte) {
		var warnings strings.Builder
		rec, err := Read(bytes.NewReader(b), Options{Warn: func(msg string) { fmt.Fprintln(&warnings, "warning:", msg) }})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		check(t, name, rec)
		got := warnings.String() + dump(rec)
		testtool.Golden(t, filepath.Join("testdata", name[:len(name)-3]+".txt"), got)
		// The inputs are pinned as well: the writer above could change with the reader.
		testtool.Golden(t, filepath.Join("testdata", name+".data"), b)
	})
}

func check(t *testing.T, name string, rec *sample.Recording) {
	t.Helper()
	for _, c := range rec.Counts {
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// dump returns a recording for people to read.
func dump(rec *sample.Recording) string {
	var b strings.Builder
	for _, c := range rec.Counts {
		frame := func(f sample.Frame) string {
			if f.Image == sample.Unknown {
				return "?"
			}
			return fmt.Sprintf("%d+%#x", f.Image, uint64(f.Off))
		}
		fmt.Fprintf(&b, "event %q period %d %s, CPU %+v: %d samples, weight %d\n",
			c.Event.Name, c.Event.Period, c.Event.Unit, c.CPU, c.Total, c.Weight)
		if c.Enabled > 0 {
			fmt.Fprintf(&b, "  counted for %d of %d ns\n", c.Running, c.Enabled)
		}
		for _, why := range slices.Sorted(maps.Keys(c.Lost)) {
			fmt.Fprintf(&b, "  lost %d: %s\n", c.Lost[why], why)
		}
		for i, ic := range c.Images {
			fmt.Fprintf(&b, "  image %d: %s\n", i, ic.ID)
			for _, off := range slices.Sorted(maps.Keys(ic.At)) {
				fmt.Fprintf(&b, "    %#x %d\n", uint64(off), ic.At[off])
			}
			for _, off := range slices.Sorted(maps.Keys(ic.First)) {
				fmt.Fprintf(&b, "    %#x first after %d us\n", uint64(off), ic.First[off])
			}
		}
		for _, s := range c.Stacks {
			var frames []string
			for _, f := range s.Frames {
				frames = append(frames, frame(f))
			}
			fmt.Fprintf(&b, "  stack %d: %s\n", s.N, strings.Join(frames, " "))
		}
		var lines []string
		for br, n := range c.Branches {
			lines = append(lines, fmt.Sprintf("  branch %d, %d mispredicted: %s to %s\n", n.N, n.Mispredicted, frame(br.From), frame(br.To)))
		}
		for r, n := range c.Ranges {
			lines = append(lines, fmt.Sprintf("  range %d: %d+%#x to %#x\n", n, r.Image, uint64(r.First), uint64(r.Last)))
		}
		slices.Sort(lines)
		b.WriteString(strings.Join(lines, ""))
	}
	return b.String()
}
