package sample

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/pprof/profile"
)

// unplaced is a profile as Parca's agent makes them: mappings begin and end at 0, and addresses are as linked.
func unplaced() *profile.Profile {
	app := &profile.Mapping{ID: 1, File: "app", BuildID: buildHex}
	gone := &profile.Mapping{ID: 2, File: "gone", BuildID: "ab"}
	kernel := &profile.Mapping{ID: 3, File: "[kernel.kallsyms]"}
	p := &profile.Profile{
		SampleType: []*profile.ValueType{{Type: "samples", Unit: "count"}},
		PeriodType: &profile.ValueType{Type: "cpu", Unit: "nanoseconds"},
		Period:     52631578, // 19 Hz
		Mapping:    []*profile.Mapping{app, gone, kernel},
	}
	for i, at := range []struct {
		m    *profile.Mapping
		addr uint64
	}{{app, 0x401139}, {app, 0x401204}, {app, 0x900000}, {gone, 0x401139}, {kernel, 0xffffffff81000010}} {
		p.Location = append(p.Location, &profile.Location{ID: uint64(i + 1), Mapping: at.m, Address: at.addr})
	}
	l := p.Location
	p.Sample = []*profile.Sample{
		{Location: []*profile.Location{l[0], l[1]}, Value: []int64{7}},
		{Location: []*profile.Location{l[2]}, Value: []int64{1}},
		{Location: []*profile.Location{l[3]}, Value: []int64{2}},
		{Location: []*profile.Location{l[4], l[0]}, Value: []int64{4}},
	}
	return p
}

// TestReadPprofPlaced: addresses that are not a process's are places where the image says so, and never taken for offsets.
func TestReadPprofPlaced(t *testing.T) {
	zipped, _ := encodePprof(t, unplaced())
	build, _ := ParseBuildID(buildHex)
	asked := 0
	rec, err := ReadPprofPlaced(bytes.NewReader(zipped), func(id ImageID, addrs []uint64) (func(uint64) (Offset, bool), error) {
		asked++
		if id.Path == "gone" {
			return nil, errors.New("gone")
		}
		if id != (ImageID{build, "app"}) || len(addrs) != 3 {
			t.Errorf("asked for %v, %#x", id, addrs)
		}
		return func(a uint64) (Offset, bool) { return Offset(a - 0x400000), a < 0x500000 }, nil
	})
	if err != nil || asked != 2 {
		t.Fatalf("%v; asked %d times", err, asked)
	}
	check(t, rec)
	want := NewCounts(CPU{}, Event{Name: "cpu-clock", Period: 52631578, Unit: "ns"})
	app := want.Image(ImageID{build, "app"})
	want.AddSample(app, 0x1139, 7)
	want.AddStack([]Frame{{app, 0x1139}, {app, 0x1205}}, 7)
	want.Lose(LostUnmapped, 1)
	want.Lose(LostUnplaced, 2)
	want.Lose(LostKernel, 4)
	if w := (&Recording{Counts: []*Counts{want}}); !bytes.Equal(rec.Encode(), Merge(w).Encode()) {
		t.Errorf("got\n%s\nwant\n%s", Dump(rec.Encode()), Dump(Merge(w).Encode()))
	}

	rec, err = ReadPprof(bytes.NewReader(zipped))
	if err != nil {
		t.Fatal(err)
	}
	if lost := rec.Lost(); lost[LostUnplaced] != 10 || len(rec.ByImage()) != 0 {
		t.Errorf("with nobody to ask, %v are lost, and %v have a place", lost, rec.ByImage())
	}
}

// TestPprofTime: a profile that has time alone has as many samples as fit in it, and none is lost in rounding.
func TestPprofTime(t *testing.T) {
	p := cpuProfile()
	p.SampleType = p.SampleType[1:]
	var sum int64
	for i, s := range p.Sample {
		s.Value = []int64{s.Value[1] + int64(i%3-1)*p.Period/5} // as of a sum that was scaled
		sum += s.Value[0]
	}
	rec, err := readPprof(t, p)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := int64(rec.Samples()), (sum+p.Period/2)/p.Period; got != want {
		t.Errorf("%d samples of %d ns each in %d ns, want %d", got, p.Period, sum, want)
	}
}

// TestPprofNoPeriod: Parca gives times and no period (seen of its server of July 2026): it is what divides them, unless that
// is too short to be one.
func TestPprofNoPeriod(t *testing.T) {
	p := cpuProfile()
	want := p.Period
	p.SampleType, p.Period = p.SampleType[1:], 0
	for _, s := range p.Sample {
		s.Value = s.Value[1:]
	}
	rec, err := readPprof(t, p)
	if err != nil {
		t.Fatal(err)
	}
	if c := rec.Counts[0]; c.Event.Period != uint64(want) || c.Total != 47 {
		t.Errorf("%d samples of %d ns, want 47 of %d", c.Total, c.Event.Period, want)
	}
	p.Sample[0].Value[0]++
	if _, err := readPprof(t, p); err == nil || !strings.Contains(err.Error(), "no number of samples") {
		t.Errorf("of times that nothing divides: %v", err)
	}
}

// TestCallsByName: of a profile without addresses, the calls that Go's compiler would take from it are known.
func TestCallsByName(t *testing.T) {
	p := cpuProfile()
	for _, l := range p.Location {
		l.Address = 0
		for i := range l.Line {
			l.Line[i].Line, l.Line[i].Function.Filename, l.Line[i].Function.StartLine = 12, "a.go", 10
		}
	}
	zipped, _ := encodePprof(t, p)
	_, err := ReadPprof(bytes.NewReader(zipped))
	var named *NoAddressError
	if !errors.As(err, &named) || !errors.Is(err, ErrNoAddresses) {
		t.Fatalf("got %v", err)
	}
	c := named.Calls
	hot, caller := NamedFunc{"main.hot", "a.go", 10}, NamedFunc{"main.main", "a.go", 10}
	if n := c.Calls[NamedCall{caller, 12, hot}]; n != 10 { // 7, 2, and one that was interrupted twice
		t.Errorf("main.main calls main.hot in %d samples, want 10: %v", n, c.Calls)
	}
	if c.Samples != 47 || c.Go != 21 || c.NoCall != 27 {
		t.Errorf("%d samples, %d of Go, %d without a call", c.Samples, c.Go, c.NoCall)
	}
	sum := &NamedCalls{}
	sum.Add(c)
	sum.Add(c)
	if sum.Samples != 2*c.Samples || sum.Calls[NamedCall{caller, 12, hot}] != 20 {
		t.Errorf("twice %+v is %+v", c, sum)
	}
}
