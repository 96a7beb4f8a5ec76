package sample

import (
	"bytes"
	"compress/gzip"
	"debug/elf"
	"encoding/binary"
	"fmt"
	"maps"
	"math"
	"os"
	"reflect"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/pprof/profile"
)

func gzipped(t testing.TB, b []byte) []byte {
	t.Helper()
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return z.Bytes()
}

const buildHex = "b1d0000000000000000000000000000000000001"

// cpuProfile is a profile as Go's runtime/pprof writes it: /bin/app is mapped
// at 0x400000 from file offset 0x1000.
func cpuProfile() *profile.Profile {
	app := &profile.Mapping{ID: 1, Start: 0x400000, Limit: 0x500000, Offset: 0x1000, File: "/bin/app", BuildID: buildHex}
	vdso := &profile.Mapping{ID: 2, Start: 0x7000000, Limit: 0x7001000, File: "[vdso]"}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}, {Type: "cpu", Unit: "nanoseconds"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     10000000,
		Mapping:    []*profile.Mapping{app, vdso},
	}
	loc := func(m *profile.Mapping, addr uint64, name string) *profile.Location {
		l := &profile.Location{ID: uint64(len(p.Location) + 1), Mapping: m, Address: addr}
		if name != "" {
			fn := &profile.Function{ID: uint64(len(p.Function) + 1), Name: name}
			p.Function = append(p.Function, fn)
			l.Line = []profile.Line{{Function: fn}}
		}
		p.Location = append(p.Location, l)
		return l
	}
	hot := loc(app, 0x400139, "main.hot")
	caller := loc(app, 0x400204, "main.main")
	stripped := loc(nil, 0, "main.main")
	c := loc(app, 0x480000, "")
	system := loc(app, 0x450010, "runtime._System")
	external := loc(app, 0x450030, "runtime._ExternalCode")
	dropped := loc(app, 0x450050, "runtime/pprof.lostProfileEvent")
	preempt := loc(app, 0x460000, "runtime.asyncPreempt")
	preempt2 := loc(app, 0x460123, "runtime.asyncPreempt2")
	cgocall := loc(app, 0x470045, "runtime.cgocall")
	clock := loc(vdso, 0x7000800, "")
	sample := func(n int64, locs ...*profile.Location) {
		p.Sample = append(p.Sample, &profile.Sample{Location: locs, Value: []int64{n, n * p.Period}})
	}
	sample(7, hot, caller)
	sample(2, hot, caller, stripped)
	sample(1, caller)
	sample(3, c, system) // the PC itself, called by nobody
	sample(4, external, system)
	sample(5, dropped)
	sample(6, clock, caller)
	sample(8)
	sample(9, cgocall, caller)                // C code ran
	sample(1, preempt, hot, caller)           // interrupted twice, nothing of preempt ran
	sample(1, preempt2, preempt, hot, caller) // which returns to hot itself
	return p
}

func readPprof(t *testing.T, p *profile.Profile) (*Recording, error) {
	t.Helper()
	zipped, plain := encodePprof(t, p)
	r, err := ReadPprof(bytes.NewReader(zipped))
	again, err2 := ReadPprof(bytes.NewReader(plain))
	if (err == nil) != (err2 == nil) || err == nil && !bytes.Equal(r.Encode(), again.Encode()) {
		t.Errorf("compressed or not makes a difference: %v, %v", err, err2)
	}
	if err == nil {
		check(t, r)
	}
	return r, err
}

func TestReadPprof(t *testing.T) {
	r, err := readPprof(t, cpuProfile())
	if err != nil {
		t.Fatal(err)
	}
	build, _ := ParseBuildID(buildHex)
	want := NewCounts(CPU{}, Event{Name: "cpu-clock", Period: 10000000, Unit: "ns"})
	app := want.Image(ImageID{Build: build, Path: "/bin/app"})
	want.AddSample(app, 0x1139, 10)
	want.AddSample(app, 0x61123, 1)
	want.AddSample(app, 0x1204, 1)
	want.AddSample(app, 0x81001, 3)
	want.AddStack([]Frame{{app, 0x1139}, {app, 0x1205}}, 8)
	want.AddStack([]Frame{{app, 0x61123}, {app, 0x61001}, {app, 0x1139}, {app, 0x1205}}, 1)
	want.AddStack([]Frame{{app, 0x1139}, {app, 0x1205}, {Image: Unknown}}, 2)
	want.AddStack([]Frame{{app, 0x1204}}, 1)
	want.AddStack([]Frame{{app, 0x81001}}, 3)
	want.Lose(LostOutsideGo, 4+9)
	want.Lose(LostDropped, 5)
	want.Lose(LostVDSO, 6)
	want.Lose(LostNoAddress, 8)
	want.Weight = 42 * 10000000
	if got, want := r.Encode(), (&Recording{Counts: []*Counts{want}}).Encode(); !bytes.Equal(got, want) {
		t.Errorf("got\n%s\nwant\n%s", Dump(got), Dump(want))
	}
}

// TestReadPprofFile reads what Go's runtime/pprof wrote of testdata/busy.go. By
// its disassembly, main.hot is at 0xc47a0 of the file, a shift by 17 at 0xc47c6 in
// its loop, and the call of it returns to 0xc482c.
func TestReadPprofFile(t *testing.T) {
	f, err := os.Open("testdata/busy.pprof")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := ReadPprof(f)
	if err != nil {
		t.Fatal(err)
	}
	check(t, r)
	checkDump(t, r, "testdata/busy.dump")
}

func TestPprofEvents(t *testing.T) {
	types := func(s string) (vts []*profile.ValueType) {
		for _, f := range strings.Fields(s) {
			typ, unit, _ := strings.Cut(f, "/")
			vts = append(vts, &profile.ValueType{Type: typ, Unit: unit})
		}
		return vts
	}
	for _, tt := range []struct {
		types, period string
		n             int64
		want          string // events, or an error
	}{
		{"samples/count cpu/nanoseconds", "cpu/nanoseconds", 100, "[{{cpu-clock 100 ns} 0 1 1 0}]"},
		{"samples/count cpu/microseconds", "cpu/microseconds", 100, "[{{cpu-clock 100000 ns} 0 1 1000 0}]"},
		{"samples/count", "wall/nanoseconds", 5, "[{{wall 5 ns} 0 -1 1 0}]"},
		{"samples/count", "cycles/count", 1000, "[{{cycles 1000 cycles} 0 -1 1 0}]"},
		{"samples/count", "cpu/seconds", math.MaxInt64, "[{{cpu-clock 0 ns} 0 -1 1000000000 0}]"},
		{"cpu/nanoseconds", "cpu/nanoseconds", 100, "[{{cpu-clock 100 ns} 0 0 1 100}]"},
		{"cpu/nanoseconds", "cpu/nanoseconds", 0, "no number of samples among its values (cpu/nanoseconds): want a CPU profile"},
		{"samples/count", "", 0, "[{{unknown 0 events} 0 -1 1 0}]"},
		{"cycles_sample/count cycles_event/count LLC-misses_event/count LLC-misses_sample/count", "cycles_event/count", 0,
			"[{{cycles 0 cycles} 0 1 1 0} {{LLC-misses 0 events} 3 2 1 0}]"},
		{"inuse_objects/count inuse_space/bytes", "space/bytes", 524288,
			"no number of samples among its values (inuse_objects/count, inuse_space/bytes): want a CPU profile"},
		{"contentions/count delay/nanoseconds", "contentions/count", 1,
			"no number of samples among its values (contentions/count, delay/nanoseconds): want a CPU profile"},
	} {
		p := &profile.Profile{SampleType: types(tt.types), Period: tt.n}
		if pt := types(tt.period); len(pt) > 0 {
			p.PeriodType = pt[0]
		}
		evs, err := pprofEvents(p)
		got := fmt.Sprint(evs)
		if err != nil {
			got = err.Error()
		}
		if got != tt.want {
			t.Errorf("%s per %d %s: got %s, want %s", tt.types, tt.n, tt.period, got, tt.want)
		}
	}
}

func TestReadPprofRefuses(t *testing.T) {
	stripped, unmapped, difference := cpuProfile(), cpuProfile(), cpuProfile()
	for _, l := range stripped.Location {
		l.Address, l.Mapping = 0, nil
	}
	stripped.Sample = stripped.Sample[:3]
	for _, l := range unmapped.Location {
		l.Mapping = nil
	}
	unmapped.Sample = unmapped.Sample[:3]
	difference.Sample[1].Value[0] = -1
	for _, tt := range []struct {
		name string
		p    *profile.Profile
		want string
	}{
		{"names only", stripped, ErrNoAddresses.Error()},
		{"no mappings", unmapped, ErrNoAddresses.Error()},
		{"difference", difference, "sample 1: negative value"},
	} {
		if _, err := readPprof(t, tt.p); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v, want %q", tt.name, err, tt.want)
		}
	}
	zipped, plain := encodePprof(t, cpuProfile())
	for _, tt := range []struct {
		name string
		b    []byte
	}{
		{"nothing", nil},
		{"text", []byte("not a profile at all")},
		{"one byte", plain[:1]},
		{"cut short", plain[:len(plain)/2]},
		{"compressed, cut short", zipped[:len(zipped)/2]},
		{"compressed text", gzipped(t, []byte("not a profile at all"))},
		{"gzip magic", zipped[:2]},
	} {
		if r, err := ReadPprof(bytes.NewReader(tt.b)); err == nil {
			t.Errorf("%s: no error, but %v", tt.name, r)
		}
	}
}

func TestGNUBuildID(t *testing.T) {
	for s, want := range map[string]BuildID{
		"":                       {},
		"0102":                   id(1, 2),
		"xyz/0102":               {}, // Go's own
		"AB":                     id(0xab),
		strings.Repeat("11", 24): BuildID(bytes.Repeat([]byte{0x11}, 20)),
		strings.Repeat("11", 83): {},
	} {
		if got := GNUBuildID(s); got != want {
			t.Errorf("%q: %v, want %v", s, got, want)
		}
	}
}

func TestNotFile(t *testing.T) {
	for file, want := range map[string]Loss{
		"/bin/app": "", "": "", "[vdso]": LostVDSO, "[heap]": LostAnonymous, "//anon": LostAnonymous,
		"[kernel.kallsyms]_stext": LostKernel, "/memfd:jit (deleted)": LostAnonymous,
	} {
		if got := NotFile(file); got != want {
			t.Errorf("%q: %q, want %q", file, got, want)
		}
	}
}

// sink keeps the work of spin from being left out.
var sink uint64

//go:noinline
func spin(n int) {
	x := sink | 1
	for range n {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
	}
	sink = x
}

//go:noinline
func spinCaller(until time.Time) {
	for time.Now().Before(until) {
		spin(1 << 20)
	}
}

// recordSelf returns the profile that runtime/pprof makes of this test at work.
func recordSelf(t *testing.T) *Recording {
	t.Helper()
	var b bytes.Buffer
	if err := pprof.StartCPUProfile(&b); err != nil {
		t.Skip("this test binary is being profiled already: ", err)
	}
	spinCaller(time.Now().Add(400 * time.Millisecond))
	pprof.StopCPUProfile()
	r, err := ReadPprof(&b)
	if err != nil {
		t.Fatal(err)
	}
	check(t, r)
	return r
}

// TestReadPprofOfRuntime holds ReadPprof to the machine code of this test:
// samples fall in spin, and stacks return to behind the call of it.
func TestReadPprofOfRuntime(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc/self/maps and an ELF file; this is " + runtime.GOOS)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	f, err := elf.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := recordSelf(t).Counts[0]
	if want := (Event{Name: "cpu-clock", Period: 10000000, Unit: "ns"}); c.Event != want {
		t.Errorf("event %v, want %v", c.Event, want)
	}
	if c.Total == 0 {
		t.Skip("no sample in 400 ms: this machine is too busy")
	}
	self := slices.IndexFunc(c.Images, func(ic *ImageCounts) bool { return ic.ID.Path == exe })
	if self < 0 {
		t.Fatalf("no image %s among %v", exe, c.Images)
	}
	if want := noteOf(t, f); c.Images[self].ID.Build != want {
		t.Errorf("build ID %v, want %v", c.Images[self].ID.Build, want)
	}
	spinStart, spinEnd := fileRange(t, exe, spin)
	callStart, callEnd := fileRange(t, exe, spinCaller)
	var inside, stacks uint64
	for off, n := range c.Images[self].At {
		if off >= spinStart && off < spinEnd {
			inside += n
		}
	}
	// The scheduler and the kernel have their share, of which nothing is known.
	if 2*inside < c.Total {
		t.Errorf("%d of %d samples in spin (%#x to %#x): %v", inside, c.Total, spinStart, spinEnd,
			slices.Sorted(maps.Keys(c.Images[self].At)))
	}
	for _, s := range c.Stacks {
		if leaf := s.Frames[0]; leaf.Image != self || leaf.Off < spinStart || leaf.Off >= spinEnd {
			continue
		}
		stacks += s.N
		ret := s.Frames[1].Off
		if ret <= callStart || ret > callEnd {
			t.Errorf("spin returns to %#x, want spinCaller (%#x to %#x)", ret, callStart, callEnd)
		} else if target, ok := callBefore(t, exe, ret); ok && target != spinStart {
			t.Errorf("before %#x is no call of spin (%#x), but of %#x", ret, spinStart, target)
		}
	}
	if stacks != inside {
		t.Errorf("%d samples in spin, %d with a stack", inside, stacks)
	}
}

// fileRange returns the file offsets of a function of this test: go test links
// without a symbol table, so the runtime is asked.
func fileRange(t *testing.T, exe string, fn any) (start, end Offset) {
	t.Helper()
	entry := reflect.ValueOf(fn).Pointer()
	name := runtime.FuncForPC(entry).Name()
	past := entry
	for f := runtime.FuncForPC(past); f != nil && f.Name() == name; f = runtime.FuncForPC(past) {
		past++
	}
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		var off Offset
		var prot string
		if n, _ := fmt.Sscanf(line, "%x-%x %s %x", &from, &to, &prot, &off); n == 4 && entry >= from && entry < to && strings.HasSuffix(line, exe+"\n") {
			return off + Offset(entry-from), off + Offset(past-from)
		}
	}
	t.Fatalf("%s is not mapped from %s", name, exe)
	return 0, 0
}

// noteOf returns the build ID in the note section of f.
func noteOf(t *testing.T, f *elf.File) BuildID {
	t.Helper()
	var id BuildID
	if s := f.Section(".note.gnu.build-id"); s != nil {
		b, err := s.Data()
		if err != nil || len(b) < 16 {
			t.Fatalf("build ID note: %d bytes, %v", len(b), err)
		}
		copy(id[:], b[16:])
	}
	return id
}

// callBefore decodes the direct call in front of ret and returns its target, as
// file offset; calls do not leave the segment here.
func callBefore(t *testing.T, exe string, ret Offset) (Offset, bool) {
	t.Helper()
	f, err := os.Open(exe)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [5]byte
	if _, err := f.ReadAt(b[:], int64(ret)-5); err != nil {
		t.Fatal(err)
	}
	switch runtime.GOARCH {
	case "amd64": // E8, 32 bits relative to ret
		if b[0] != 0xe8 {
			return 0, true
		}
		return Offset(int64(ret) + int64(int32(binary.LittleEndian.Uint32(b[1:])))), true
	case "arm64": // BL, 26 bits of instructions relative to itself
		w := binary.LittleEndian.Uint32(b[1:])
		if w>>26 != 0b100101 {
			return 0, true
		}
		return Offset(int64(ret) - 4 + int64(int32(w<<6))>>4), true
	}
	return 0, false
}

// FuzzReadPprof: any bytes give an error, or sound counts.
func FuzzReadPprof(f *testing.F) {
	zipped, plain := encodePprof(f, cpuProfile())
	f.Add(zipped)
	f.Add(plain)
	real, err := os.ReadFile("testdata/busy.pprof")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(real)
	f.Fuzz(func(t *testing.T, b []byte) {
		if by, err := ReadPprofLabel(bytes.NewReader(b), "samples"); err == nil && len(by) == 0 {
			t.Fatal("no event, and no error")
		}
		r, err := ReadPprof(bytes.NewReader(b))
		if err != nil {
			return
		}
		check(t, r)
		again, err := Decode(r.Encode())
		if err != nil || !reflect.DeepEqual(again.Encode(), r.Encode()) {
			t.Fatalf("round trip: %v", err)
		}
	})
}
