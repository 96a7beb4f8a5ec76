package otlp

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/pprofile"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// A profiler makes messages as OpenTelemetry's eBPF profiler does (reporter/internal/pdata/generate.go, of August
// 2026): with the official library.
type profiler struct {
	pprofile.Profiles
	strings    map[string]int32
	attributes map[string]int32
}

func newProfiler() *profiler {
	p := &profiler{pprofile.NewProfiles(), map[string]int32{}, map[string]int32{}}
	p.str("")
	d := p.Dictionary()
	d.LinkTable().AppendEmpty()
	d.MappingTable().AppendEmpty()
	d.StackTable().AppendEmpty()
	d.AttributeTable().AppendEmpty()
	d.LocationTable().AppendEmpty()
	d.FunctionTable().AppendEmpty()
	return p
}

func (p *profiler) str(s string) int32 {
	i, ok := p.strings[s]
	if !ok {
		i = int32(len(p.strings))
		p.strings[s] = i
		p.Dictionary().StringTable().Append(s)
	}
	return i
}

func (p *profiler) attribute(to pcommon.Int32Slice, key, value string) {
	if value == "" {
		return
	}
	i, ok := p.attributes[key+"="+value]
	if !ok {
		i = int32(p.Dictionary().AttributeTable().Len())
		p.attributes[key+"="+value] = i
		a := p.Dictionary().AttributeTable().AppendEmpty()
		a.SetKeyStrindex(p.str(key))
		a.Value().SetStr(value)
	}
	to.Append(i)
}

func (p *profiler) mapping(file, gnu, hash string, start, limit, offset uint64) int32 {
	m := p.Dictionary().MappingTable().AppendEmpty()
	m.SetMemoryStart(start)
	m.SetMemoryLimit(limit)
	m.SetFileOffset(offset)
	m.SetFilenameStrindex(p.str(file))
	p.attribute(m.AttributeIndices(), keyGNU, gnu)
	p.attribute(m.AttributeIndices(), keyHash, hash)
	return int32(p.Dictionary().MappingTable().Len() - 1)
}

func (p *profiler) location(mapping int32, address uint64, frameType, function string) int32 {
	l := p.Dictionary().LocationTable().AppendEmpty()
	l.SetMappingIndex(mapping)
	l.SetAddress(address)
	if function != "" {
		f := p.Dictionary().FunctionTable().AppendEmpty()
		f.SetNameStrindex(p.str(function))
		line := l.Lines().AppendEmpty()
		line.SetFunctionIndex(int32(p.Dictionary().FunctionTable().Len() - 1))
		line.SetLine(7)
	}
	p.attribute(l.AttributeIndices(), keyFrameType, frameType)
	return int32(p.Dictionary().LocationTable().Len() - 1)
}

func (p *profiler) stack(locations ...int32) int32 {
	p.Dictionary().StackTable().AppendEmpty().LocationIndices().FromRaw(locations)
	return int32(p.Dictionary().StackTable().Len() - 1)
}

// profile adds a profile of its own resource.
func (p *profiler) profile(sampleType, sampleUnit, periodType, periodUnit string, period int64) pprofile.Profile {
	r := p.ResourceProfiles().AppendEmpty()
	r.Resource().Attributes().PutInt("process.pid", 17)
	r.Resource().Attributes().PutStr("process.executable.path", "/usr/bin/app")
	r.SetSchemaUrl("https://opentelemetry.io/schemas/1.37.0")
	s := r.ScopeProfiles().AppendEmpty()
	s.Scope().SetName("go.opentelemetry.io/ebpf-profiler")
	pr := s.Profiles().AppendEmpty()
	pr.SampleType().SetTypeStrindex(p.str(sampleType))
	pr.SampleType().SetUnitStrindex(p.str(sampleUnit))
	pr.PeriodType().SetTypeStrindex(p.str(periodType))
	pr.PeriodType().SetUnitStrindex(p.str(periodUnit))
	pr.SetPeriod(period)
	pr.SetTime(1790000000e9)
	pr.SetDurationNano(5e9)
	return pr
}

// seen adds a sample, as the profiler does: of n times, without values.
func seen(pr pprofile.Profile, stack int32, n int) pprofile.Sample {
	s := pr.Samples().AppendEmpty()
	s.SetStackIndex(stack)
	for i := range n {
		s.TimestampsUnixNano().Append(1790000000e9 + uint64(i)*50e6)
	}
	return s
}

const (
	gnu1  = "b1d0000000000000000000000000000000000001"
	gnu2  = "b1d0000000000000000000000000000000000002"
	hash1 = "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"
	hash2 = "a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2"
)

// small has all that the profiler writes.
func small() *profiler {
	p := newProfiler()
	app := p.mapping("app", gnu1, hash1, 0x401000, 0x480000, 0x1000) // as linked, not as loaded
	libc := p.mapping("libc.so.6", gnu2, hash2, 0x28000, 0x1bd000, 0x28000)
	vmlinux := p.mapping("vmlinux", "", "", 0, 0, 0)
	old := p.mapping("old", "", hash1, 0x1000, 0x2000, 0x1000)
	hot := p.location(app, 0x401139, "native", "")
	caller := p.location(app, 0x401203, "native", "") // return address - 1
	inGo := p.location(app, 0x402000, "go", "main.work")
	memcpy := p.location(libc, 0x30010, "native", "")
	syscall := p.location(vmlinux, 0xffffffff81000010, "kernel", "do_syscall_64")
	python := p.location(0, 12, "cpython", "fib")
	jit := p.location(0, 0, "unknown", "")
	abort := p.location(0, 0, "abort-marker", "")
	outside := p.location(app, 0x500000, "native", "")
	inOld := p.location(old, 0x1010, "native", "")

	pr := p.profile("samples", "count", "cpu", "nanoseconds", 50e6)
	pr.AttributeIndices().Append(0)
	seen(pr, p.stack(hot, caller), 3)
	seen(pr, p.stack(memcpy, hot, caller, abort), 2)
	seen(pr, p.stack(inGo), 1)
	seen(pr, p.stack(syscall, memcpy, caller), 4)
	seen(pr, p.stack(python, hot), 5)
	seen(pr, p.stack(memcpy, python, caller), 6)
	seen(pr, p.stack(jit), 1)
	seen(pr, p.stack(outside, caller), 2)
	seen(pr, p.stack(inOld), 1)
	seen(pr, 0, 1)
	seen(pr, p.stack(caller), 0) // neither a value nor a time
	seen(pr, p.stack(caller), 2).Values().FromRaw([]int64{3, 4})
	pr.SetDroppedAttributesCount(2)

	r := p.ResourceProfiles().At(p.ResourceProfiles().Len() - 1).Resource().Attributes()
	r.PutStr("host.arch", "amd64")
	r.PutStr("host.cpu.vendor.id", "AuthenticAMD")
	r.PutStr("host.cpu.family", "25")
	r.PutStr("host.cpu.model.id", "17")
	r.PutStr("host.cpu.stepping", "1")
	r.PutStr("host.cpu.model.name", "AMD EPYC 9R14")

	off := p.profile("off_cpu", "nanoseconds", "", "", 0)
	seen(off, p.stack(hot), 1).Values().Append(12345)
	off.SetOriginalPayloadFormat("jfr")
	off.OriginalPayload().FromRaw([]byte("original"))
	return p
}

const smallWarnings = `1 samples are in profiles of "off_cpu/nanoseconds", which are not of processor time: not counted
1 samples have neither a value nor a time: not counted
1 samples are in images without a GNU build ID, which are known by their name alone
2 attributes were dropped by the sender: build IDs may be among them
1 profiles carry their original in the format "jfr", which is not read
`

// smallRecording is what small means.
func smallRecording() *sample.Recording {
	c := sample.NewCounts(sample.CPU{Arch: "x86_64", Vendor: "AuthenticAMD", Family: 25, Model: 17, Stepping: 1, Name: "AMD EPYC 9R14"}, sample.Event{Name: "cpu-clock", Period: 50e6, Unit: "ns"})
	build1, _ := sample.ParseBuildID(gnu1)
	build2, _ := sample.ParseBuildID(gnu2)
	app, libc, old := c.Image(sample.ImageID{Build: build1, Path: "app"}), c.Image(sample.ImageID{Build: build2, Path: "libc.so.6"}), c.Image(sample.ImageID{Path: "old"})
	none := sample.Frame{Image: sample.Unknown}
	at := func(im int, off sample.Offset) sample.Frame { return sample.Frame{Image: im, Off: off} }
	for _, s := range []struct {
		n      uint64
		frames []sample.Frame
	}{
		{3, []sample.Frame{at(app, 0x1139), at(app, 0x1204)}},
		{2, []sample.Frame{at(libc, 0x30010), at(app, 0x113a), at(app, 0x1204)}}, // the abort marker tells nothing
		{1, []sample.Frame{at(app, 0x2000)}},
		{6, []sample.Frame{at(libc, 0x30010), none, at(app, 0x1204)}},
		{1, []sample.Frame{at(old, 0x1010)}},
		{7, []sample.Frame{at(app, 0x1203)}},
	} {
		c.AddSample(s.frames[0].Image, s.frames[0].Off, s.n)
		c.AddStack(s.frames, s.n)
	}
	c.Lose(sample.LostKernel, 4)
	c.Lose(LostRuntime, 5)
	c.Lose(sample.LostUnmapped, 3)
	c.Lose(sample.LostNoAddress, 1)
	c.Weight = c.Total * 50e6
	return sample.Merge(&sample.Recording{Counts: []*sample.Counts{c}})
}

func (p *profiler) proto(t testing.TB) []byte {
	t.Helper()
	b, err := (&pprofile.ProtoMarshaler{}).MarshalProfiles(p.Profiles)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (p *profiler) json(t testing.TB) []byte {
	t.Helper()
	b, err := (&pprofile.JSONMarshaler{}).MarshalProfiles(p.Profiles)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// withLength puts the length in front, as the collector's file exporter does.
func withLength(b []byte) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
}

func zipped(b []byte) []byte {
	z, _ := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	return z.EncodeAll(b, nil)
}

func gzipped(b []byte) []byte {
	var z bytes.Buffer
	w := gzip.NewWriter(&z)
	w.Write(b)
	w.Close()
	return z.Bytes()
}

// read reads a file, checks what it means, and returns what is warned of.
func read(t testing.TB, b []byte, opt Options) (*sample.Recording, string, error) {
	t.Helper()
	var warnings strings.Builder
	opt.Warn = func(msg string) { fmt.Fprintln(&warnings, msg) }
	rec, err := Read(bytes.NewReader(b), opt)
	if err != nil {
		return nil, "", err
	}
	for _, c := range rec.Counts {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
	}
	return rec, warnings.String(), nil
}

// forms are the files that the collector's file exporter writes of some messages, by its settings (contrib's
// exporter/fileexporter/file_writer.go and marshaller.go, compression_writer.go), and the bodies of requests.
func forms(t testing.TB, messages ...*profiler) map[string][]byte {
	all := map[string][]byte{}
	for _, m := range messages {
		text, proto := m.json(t), m.proto(t)
		all["json"] = append(append(all["json"], text...), '\n')
		all["proto"] = append(all["proto"], withLength(proto)...)
		all["json, each zstd"] = append(all["json, each zstd"], withLength(zipped(text))...)
		all["proto, each zstd"] = append(all["proto, each zstd"], withLength(zipped(proto))...)
		all["json, zstd, rotated"] = append(all["json, zstd, rotated"], zipped(append(text, '\n'))...)
	}
	all["json, zstd"] = zipped(all["json"])
	all["proto, zstd"] = zipped(all["proto"])
	all["json, gzip"] = gzipped(all["json"])
	all["proto, gzip"] = gzipped(all["proto"])
	if len(messages) == 1 {
		all["body"] = messages[0].proto(t)
		all["body, gzip"] = gzipped(all["body"])
		all["body, zstd"] = zipped(all["body"])
		var indented bytes.Buffer
		json.Indent(&indented, messages[0].json(t), "", "  ")
		all["json, indented"] = indented.Bytes()
	}
	return all
}

// TestForms: in whatever form, a message means the same, and two mean twice as much.
func TestForms(t *testing.T) {
	once, twice := smallRecording().Encode(), sample.Merge(smallRecording(), smallRecording()).Encode()
	for n, want := range map[int][]byte{1: once, 2: twice} {
		for form, b := range forms(t, slices.Repeat([]*profiler{small()}, n)...) {
			if got := sample.Sniff(b); got != sample.FormatOTLP {
				t.Errorf("%s: taken for %v", form, got)
			}
			rec, warnings, err := read(t, b, Options{})
			if err != nil {
				t.Errorf("%s: %v", form, err)
				continue
			}
			if got := rec.Encode(); !bytes.Equal(got, want) {
				t.Errorf("%s, %d messages: got\n%s\nwant\n%s", form, n, sample.Dump(got), sample.Dump(want))
			}
			if n == 1 && warnings != smallWarnings {
				t.Errorf("%s: warnings\n%swant\n%s", form, warnings, smallWarnings)
			}
			again, err := Read(iotest.OneByteReader(bytes.NewReader(b)), Options{})
			if err != nil || !bytes.Equal(again.Encode(), want) {
				t.Errorf("%s, byte by byte: %v", form, err)
			}
		}
	}
}

// TestGolden pins what the library writes, and what is made of it.
func TestGolden(t *testing.T) {
	p := small()
	testtool.Golden(t, "testdata/small.pb", p.proto(t))
	testtool.Golden(t, "testdata/small.json", append(p.json(t), '\n'))
	for _, name := range []string{"small.pb", "small.json"} {
		rec, _, err := read(t, []byte(testtool.Read(t, "testdata", name)), Options{})
		if err != nil {
			t.Fatal(err)
		}
		testtool.Golden(t, "testdata/small.dump", sample.Dump(rec.Encode()))
	}
}

// TestStackDepth: callers are kept up to a depth.
func TestStackDepth(t *testing.T) {
	p := newProfiler()
	app := p.mapping("app", gnu1, "", 0x1000, 0x9000, 0x1000)
	var stack []int32
	for i := range uint64(20) {
		stack = append(stack, p.location(app, 0x1000+i, "native", ""))
	}
	seen(p.profile("samples", "count", "cpu", "nanoseconds", 50e6), p.stack(stack...), 1)
	for depth, want := range map[int]int{0: 8, 1: 1, 3: 3, 20: 20, 30: 20, -1: 0} {
		rec, _, err := read(t, p.proto(t), Options{StackDepth: depth})
		if err != nil {
			t.Fatal(err)
		}
		got := 0
		if s := rec.Counts[0].Stacks; len(s) > 0 {
			got = len(s[0].Frames)
		}
		if got != want || rec.Samples() != 1 {
			t.Errorf("depth %d: %d frames of %d samples, want %d", depth, got, rec.Samples(), want)
		}
	}
}

// TestEvents: what is counted, by the types of a profile.
func TestEvents(t *testing.T) {
	for _, tt := range []struct {
		types  string // sample type, unit, period type, unit
		period int64
		values []int64
		times  int
		want   string // event, samples and weight, or an error
	}{
		{"samples count cpu nanoseconds", 50e6, nil, 3, "{cpu-clock 50000000 ns} 3 150000000"},
		{"samples count cpu nanoseconds", 50e6, []int64{5}, 0, "{cpu-clock 50000000 ns} 5 250000000"},
		{"samples count cpu milliseconds", 10, []int64{5, 1}, 2, "{cpu-clock 10000000 ns} 6 60000000"},
		{"samples count cycles count", 1000, []int64{5}, 0, "{cycles 1000 cycles} 5 5000"},
		{"samples count cpu nanoseconds", 0, []int64{5}, 0, "{cpu-clock 0 ns} 5 0"},
		{"cpu nanoseconds cpu nanoseconds", 10e6, []int64{35e6}, 0, "{cpu-clock 10000000 ns} 4 35000000"},
		{"cpu nanoseconds cpu nanoseconds", 10e6, []int64{34e6}, 0, "{cpu-clock 10000000 ns} 3 34000000"},
		{"cpu nanoseconds cpu nanoseconds", 10e6, []int64{34e6, 1e6}, 2, "{cpu-clock 10000000 ns} 2 35000000"},
		{"cpu milliseconds cpu nanoseconds", 10e6, []int64{1}, 0, "{cpu-clock 10000000 ns} 1 1000000"},
		{"cpu nanoseconds cpu nanoseconds", 10e6, nil, 2, "{cpu-clock 10000000 ns} 2 20000000"},
		{"cpu nanoseconds  ", 0, []int64{34e6}, 0, `no profile of processor time, only of cpu/nanoseconds`},
		{"inuse_space bytes space bytes", 512, []int64{34e6}, 0, `only of inuse_space/bytes`},
		{"samples count cpu nanoseconds", -1, []int64{5}, 0, "profiles[0].period: -1"},
		{"samples count cpu nanoseconds", 1, []int64{-5}, 0, "samples[0].values: -5"},
		{"samples count cpu nanoseconds", 1, []int64{1, 2}, 3, "samples[0]: 2 values and 3 times"},
		{"samples count cpu nanoseconds", 1 << 40, []int64{1 << 40}, 0, "samples[0].values: 1099511627776 samples"},
		{"cpu seconds cpu nanoseconds", 1, []int64{1 << 60}, 0, "samples[0].values: 1152921504606846976"},
	} {
		p := newProfiler()
		types := strings.Split(tt.types, " ")
		pr := p.profile(types[0], types[1], types[2], types[3], tt.period)
		app := p.mapping("app", gnu1, "", 0x1000, 0x9000, 0x1000)
		seen(pr, p.stack(p.location(app, 0x1000, "native", "")), tt.times).Values().FromRaw(tt.values)
		got := ""
		rec, _, err := read(t, p.proto(t), Options{})
		if err != nil {
			got = err.Error()
		} else {
			c := rec.Counts[0]
			got = fmt.Sprintf("%v %d %d", c.Event, c.Total, c.Weight)
		}
		if err == nil && got != tt.want || !strings.Contains(got, tt.want) {
			t.Errorf("%s per %d, %v, %d times: %s, want %s", tt.types, tt.period, tt.values, tt.times, got, tt.want)
		}
	}
}

// TestPlaces: addresses, mappings and losses.
func TestPlaces(t *testing.T) {
	for _, tt := range []struct {
		name                 string
		file, gnu            string
		start, limit, offset uint64
		address              uint64
		frameType, function  string
		want                 string
	}{
		{"as linked", "app", gnu1, 0x401000, 0x402000, 0x1000, 0x401010, "native", "", "0x1010"},
		{"as loaded", "app", gnu1, 0x7f0000401000, 0x7f0000402000, 0x3000, 0x7f0000401010, "native", "", "0x3010"},
		{"of whatever profiler", "app", gnu1, 0x401000, 0x402000, 0x1000, 0x401010, "", "main", "0x1010"},
		{"no limit", "app", gnu1, 0x401000, 0, 0x1000, 0x401010, "native", "", "0x1010"},
		{"in front", "app", gnu1, 0x401000, 0x402000, 0x1000, 0x400fff, "native", "", "unmapped"},
		{"behind", "app", gnu1, 0x401000, 0x402000, 0x1000, 0x402000, "native", "", "unmapped"},
		{"no address", "app", gnu1, 0x401000, 0x402000, 0x1000, 0, "native", "", "no address in the profile"},
		{"no range", "app", gnu1, 0, 0, 0, 0x401010, "native", "", "0x77"}, // Offset says
		{"no range, no image", "other", gnu2, 0, 0, 0, 0x401010, "native", "", "mapping without addresses"},
		{"no name", "", "", 0x401000, 0x402000, 0x1000, 0x401010, "native", "", "unmapped"},
		{"vdso", "[vdso]", "", 0x1000, 0x2000, 0, 0x1010, "native", "", "vdso"},
		{"anonymous", "//anon", "", 0x1000, 0x2000, 0, 0x1010, "native", "", "anonymous memory"},
		{"kernel", "vmlinux", "", 0, 0, 0, 0xffffffff81000000, "kernel", "entry", "kernel"},
		{"interpreted", "", "", 0, 0, 0, 17, "v8js", "f", "interpreted or made at run time"},
		{"what Go makes up", "app", gnu1, 0x401000, 0x402000, 0x1000, 0x401010, "", "runtime._ExternalCode", "outside Go code"},
	} {
		p := newProfiler()
		m := p.mapping(tt.file, tt.gnu, "", tt.start, tt.limit, tt.offset)
		seen(p.profile("samples", "count", "cpu", "nanoseconds", 50e6), p.stack(p.location(m, tt.address, tt.frameType, tt.function)), 1)
		rec, _, err := read(t, p.proto(t), Options{Offset: func(id sample.ImageID, address uint64) (sample.Offset, bool) {
			return 0x77, id.Path == "app" && address == 0x401010
		}})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		got := ""
		for why := range rec.Lost() {
			got += string(why)
		}
		for _, ic := range rec.Counts[0].Images {
			for off := range ic.At {
				got += fmt.Sprintf("%#x", uint64(off))
			}
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}

// TestBuilds: of several builds of one name without GNU build IDs, the samples do not add up.
func TestBuilds(t *testing.T) {
	p := newProfiler()
	pr := p.profile("samples", "count", "cpu", "nanoseconds", 50e6)
	for i, hash := range []string{hash1, hash2, hash1} {
		m := p.mapping("app", "", hash, 0x1000, 0x2000, 0)
		seen(pr, p.stack(p.location(m, 0x1010+uint64(i), "native", "")), 1)
	}
	rec, warnings, err := read(t, p.proto(t), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if lost, n := rec.Lost()[LostBuilds], rec.Samples(); lost != 1 || n != 3 {
		t.Errorf("%d of %d lost, want 1 of 3", lost, n)
	}
	if want := "2 samples are in images without a GNU build ID, which are known by their name alone\n"; warnings != want {
		t.Errorf("warnings: %s", warnings)
	}
}

// TestRefuses: what is wrong, is said with offset and field.
func TestRefuses(t *testing.T) {
	good := small()
	with := func(change func(*profiler)) []byte {
		p := small()
		change(p)
		return p.proto(t)
	}
	samples := func(p *profiler) pprofile.SampleSlice {
		return p.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).Samples()
	}
	text := string(good.json(t))
	line := func(from, to string) []byte {
		if !strings.Contains(text, from) {
			t.Fatalf("no %s", from)
		}
		return []byte(strings.Replace(text, from, to, 1))
	}
	frames := withLength(good.proto(t))
	for _, tt := range []struct {
		name string
		b    []byte
		want string
	}{
		{"nothing", nil, "offset 0x0: empty"},
		{"stack", with(func(p *profiler) { samples(p).At(0).SetStackIndex(99) }), "message at offset 0x0: resourceProfiles[0].scopeProfiles[0].profiles[0].samples[0].stackIndex: 99, and its table has"},
		{"negative stack", with(func(p *profiler) { samples(p).At(0).SetStackIndex(-1) }), "samples[0].stackIndex: -1, and its table has"},
		{"location", with(func(p *profiler) { p.Dictionary().StackTable().At(1).LocationIndices().SetAt(0, 99) }), "samples[0].dictionary.stackTable[1].locationIndices[0]: 99, and its table has"},
		{"mapping", with(func(p *profiler) { p.Dictionary().LocationTable().At(1).SetMappingIndex(-3) }), "dictionary.locationTable[1].mappingIndex: -3, and its table has"},
		{"attribute", with(func(p *profiler) { p.Dictionary().LocationTable().At(1).AttributeIndices().SetAt(0, 99) }), "dictionary.locationTable[1].attributeIndices: 99, and its table has"},
		{"key", with(func(p *profiler) { p.Dictionary().AttributeTable().At(1).SetKeyStrindex(99) }), "dictionary.attributeTable[1].keyStrindex: 99, and its table has"},
		{"file", with(func(p *profiler) { p.Dictionary().MappingTable().At(1).SetFilenameStrindex(99) }), "dictionary.mappingTable[1].filenameStrindex: 99, and its table has"},
		{"function", with(func(p *profiler) { p.Dictionary().LocationTable().At(3).Lines().At(0).SetFunctionIndex(99) }), "dictionary.locationTable[3].lines[0].functionIndex: 99, and its table has"},
		{"type", with(func(p *profiler) {
			p.ResourceProfiles().At(0).ScopeProfiles().At(0).Profiles().At(0).SampleType().SetTypeStrindex(99)
		}), "profiles[0].sampleType.typeStrindex: 99, and its table has"},
		{"first string", with(func(p *profiler) { p.Dictionary().StringTable().SetAt(0, "x") }), `dictionary.stringTable[0]: "x", want the empty string`},
		{"no dictionary", []byte("\x0a\x08\x12\x06\x12\x04\x12\x02\x08\x01"), "resourceProfiles[0].scopeProfiles[0].profiles[0]: no dictionary beside it"},

		// Fields of Profile in version 1.7 of the proto: 3 were locations.
		{"older version", []byte("\x0a\x08\x12\x06\x12\x04\x1a\x02\x01\x02"), "offset 0x6: profiles.resourceProfiles.scopeProfiles.profiles.timeUnixNano: type 2 on the wire, want 1: malformed OTLP profiles, or of another version"},
		{"number as text", []byte("\x0a\x09\x12\x07\x12\x05\x12\x03\x0a\x01x"), "offset 0x8: profiles.resourceProfiles.scopeProfiles.profiles.samples.stackIndex: type 2 on the wire, want 0"},
		{"message as number", []byte("\x0a\x04\x12\x02\x10\x05"), "offset 0x4: profiles.resourceProfiles.scopeProfiles.profiles: type 0 on the wire, want 2"},
		{"group", []byte("\x0a\x02\x0b\x00"), "offset 0x2: profiles.resourceProfiles.resource: no type of a field: 3"},
		{"too long", []byte("\x0a\x05\x12\x02\x12\x00"), "offset 0x0: profiles.resourceProfiles: 5 bytes, 4 are left"},
		{"cut off in a list", []byte("\x12\x05\x3a\x03\x0a\x01\x80"), "offset 0x4: profiles.dictionary.stackTable.locationIndices: cut off in a list"},
		{"no field", []byte("\x0a\x01\x00"), "offset 0x2: profiles.resourceProfiles: no number of a field"},

		{"length", frames[:3], "offset 0x0: length: 3 bytes, want 4"},
		{"cut off", frames[:len(frames)-1], fmt.Sprintf("offset 0x4: message: %d bytes, %d are left", len(frames)-4, len(frames)-5)},
		{"giant", []byte{0x11, 0, 0, 0, 0x0a}, "offset 0x0: length: 285212672 bytes, want 1 to 134217728"},
		{"zeros", make([]byte, 5), "offset 0x0: length: 0 bytes, want 1 to 134217728"},
		{"zstd cut off", zipped(frames)[:20], "zstd: "},
		{"gzip cut off", gzipped(frames)[:30], "gzip: "},
		{"zstd in a message", append([]byte{0, 0, 0, 6}, "\x28\xb5\x2f\xfd\xff\xff"...), "offset 0x4: zstd: "},

		{"JSON, cut off", []byte(text[:len(text)/2]), "unexpected EOF"},
		{"JSON, broken", []byte(`{"resourceProfiles": [}`), "offset 0x16: profiles.resourceProfiles: invalid character"},
		{"JSON, no object", []byte(`{"resourceProfiles": [7]}`), "offset 0x17: profiles.resourceProfiles: 7, want an object"},
		{"JSON, no array", []byte(`{"resourceProfiles": "x"}`), `offset 0x18: profiles.resourceProfiles: "x", want an array`},
		{"JSON, text for a number", line(`"stackIndex":1`, `"stackIndex":"x"`), `profiles.resourceProfiles.scopeProfiles.profiles.samples.stackIndex: "x", want an integer of 32 bits`},
		{"JSON, large", line(`"stackIndex":1`, `"stackIndex":4294967296`), `samples.stackIndex: 4294967296, want an integer of 32 bits`},
		{"JSON, negative", line(`"memoryStart":"4198400"`, `"memoryStart":-1`), `profiles.dictionary.mappingTable.memoryStart: -1, want an integer from 0 to 2^64 - 1`},
		{"JSON, fraction", line(`"period":"50000000"`, `"period":1.5`), `profiles.period: 1.5, want an integer of 64 bits`},
		{"JSON, no string", line(`"stringTable":["`, `"stringTable":[true,"`), `profiles.dictionary.stringTable: true, want a string`},
	} {
		_, _, err := read(t, tt.b, Options{})
		if err == nil {
			t.Errorf("%s: no error", tt.name)
			continue
		}
		if !strings.HasPrefix(err.Error(), "OTLP: ") || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, ErrFormat) {
			t.Errorf("%s: got %v, want %s", tt.name, err, tt.want)
		}
	}
}

// TestCut: a file that is still written, or whose writer was killed, is read up to its last whole message.
func TestCut(t *testing.T) {
	want := smallRecording().Encode()
	for form, b := range forms(t, small(), small()) {
		if strings.Contains(form, "gzip") || form == "json, zstd" || form == "proto, zstd" {
			continue // one block: nothing is whole
		}
		rec, warnings, err := read(t, b[:len(b)-5], Options{})
		if err != nil {
			t.Errorf("%s: %v", form, err)
			continue
		}
		if !bytes.Equal(rec.Encode(), want) || !strings.Contains(warnings, "it ends in the middle of a message: read up to there") {
			t.Errorf("%s: %d samples, %s", form, rec.Samples(), warnings)
		}
	}
}

// TestUnknown: fields of a later version are counted.
func TestUnknown(t *testing.T) {
	p := small()
	b := append(p.proto(t), 5<<3|wireLen, 2, 'h', 'i')
	text := strings.Replace(string(p.json(t)), `{"resourceProfiles"`, `{"later": {"a": [1, {"b": null}]}, "resourceProfiles"`, 1)
	for want, b := range map[string][]byte{"profiles, field 5": b, "profiles.later": []byte(text)} {
		rec, warnings, err := read(t, b, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if line := `1 fields are not known here, and not read: "` + want + "\"\n"; !strings.Contains(warnings, line) || !bytes.Equal(rec.Encode(), smallRecording().Encode()) {
			t.Errorf("%s: %s", want, warnings)
		}
	}
}

// TestBombs: small files that mean much are refused, and soon.
func TestBombs(t *testing.T) {
	stacks := bytes.Repeat([]byte("\x3a\x00"), 1<<20)
	dictionary := append(binary.AppendUvarint([]byte{2<<3 | wireLen}, uint64(len(stacks))), stacks...)
	for _, tt := range []struct {
		name string
		b    []byte
	}{
		{"zeros", zipped(make([]byte, 1<<26))},
		{"zeros in a message", withLength(zipped(make([]byte, 1<<26)))},
		{"zeros, gzip", gzipped(make([]byte, 1<<26))},
		{"empty stacks", zipped(bytes.Repeat(dictionary, 20))},
		{"JSON", zipped([]byte(`{"dictionary":{"stackTable":[` + strings.Repeat("{},", 1<<21) + `{}]}}`))},
	} {
		var err error
		used := testtool.Allocated(func() { _, _, err = read(t, tt.b, Options{}) })
		if err == nil {
			t.Errorf("%s: no error", tt.name)
		}
		if used > 1<<30 {
			t.Errorf("%s: %d bytes allocated for %d", tt.name, used, len(tt.b))
		}
	}
}

// FuzzRead: any bytes give an error or sound counts; and of a message that pdata reads too, both read the same
// samples.
func FuzzRead(f *testing.F) {
	for _, b := range forms(f, small()) {
		f.Add(b)
	}
	for _, b := range forms(f, small(), small()) {
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		rec, _, err := read(t, b, Options{})
		if err != nil {
			return
		}
		again, err := sample.Decode(rec.Encode())
		if err != nil || !reflect.DeepEqual(again.Encode(), rec.Encode()) {
			t.Fatalf("round trip: %v", err)
		}
		if len(b) == 0 || !isMessage(b) {
			return
		}
		theirs, err := (&pprofile.ProtoUnmarshaler{}).UnmarshalProfiles(b)
		if err != nil {
			return
		}
		var m profilesData
		if err := (&reader{}).proto(&m, b, "", 0); err != nil {
			t.Fatalf("pdata reads it: %v", err)
		}
		n := 0
		for _, r := range m.resources {
			for _, s := range r.scopes {
				for _, p := range s.profiles {
					n += len(p.samples)
				}
			}
		}
		if d := theirs.Dictionary(); n != theirs.SampleCount() || len(m.dictionary.strings) != d.StringTable().Len() || len(m.dictionary.locations) != d.LocationTable().Len() || len(m.dictionary.stacks) != d.StackTable().Len() {
			t.Fatalf("%d samples, and pdata reads %d", n, theirs.SampleCount())
		}
	})
}
