package sample

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"github.com/google/pprof/profile"
)

// Losses of profiles in pprof's format.
const (
	LostNoAddress Loss = "no address in the profile"                      // names and lines only
	LostOutsideGo Loss = "outside Go code"                                // runtime/pprof does not say where
	LostUnplaced  Loss = "at an address of a file that was not read here" // which alone says where it lies
)

// ErrNoAddresses is wrapped where a profile says which functions ran, but not
// which instructions of which files.
var ErrNoAddresses = errors.New("no addresses in mapped files: functions and lines alone do not tell basic blocks apart")

// A Placer finds what a profile does not say: where the addresses of an image lie in its file. It is asked where a profile
// has a mapping that begins at 0, at the beginning of the file: no process has one, so that its addresses are not those of
// a process. Parca's agent and others who read the file write addresses as it was linked; what was put in the form of a
// mapping of the whole file are offsets. place returns the offset of one of them; an error says that nothing tells.
type Placer func(id ImageID, addrs []uint64) (place func(addr uint64) (Offset, bool), err error)

// ReadPprof reads a CPU profile in pprof's format, compressed or not.
//
// A profile with sample type samples/count becomes Counts of one event, named by
// the period type: CPU time is "cpu-clock", whatever timer it came from. Where
// types come in pairs as cycles_sample/count and cycles_event/count, each pair
// is an event, the second one its weight. Other profiles, such as those of the
// heap, do not say what ran and are refused.
//
// The address of a location is exact where it is the leaf of a stack. That of a
// caller lies in the call instruction, by profile.proto anywhere in it; Go's
// runtime/pprof and most others write the return address minus 1, and by adding
// 1 it becomes the return address that Stack promises. From a writer that gives
// the start of the call, a place inside the call comes out, which minus 1 is
// still in the call.
//
// What Go's runtime/pprof cannot place, it ascribes to functions made up for the
// purpose (runtime._ExternalCode): these samples are lost here, with a reason.
//
// Where addresses are not those of a process, the samples are lost (LostUnplaced): ReadPprofPlaced asks the image.
func ReadPprof(r io.Reader) (*Recording, error) { return ReadPprofPlaced(r, nil) }

// ReadPprofPlaced is ReadPprof of a profile whose addresses may not be those of a process; nil places none.
func ReadPprofPlaced(r io.Reader, placer Placer) (*Recording, error) {
	p, err := ParseProfile(r)
	if err != nil {
		return nil, fmt.Errorf("pprof: %w", err)
	}
	rec, err := fromPprof(p, placer)
	if err != nil {
		return nil, fmt.Errorf("pprof: %w", err)
	}
	return rec, nil
}

// A pprofEvent says which of the values of a pprof sample make up an event.
type pprofEvent struct {
	Event
	samples int    // index of the number of samples
	weight  int    // index of the sum of their periods; -1 if there is none
	scale   uint64 // of the weight, to Event.Unit
	each    int64  // what of the value is one sample; 0 if it counts samples
}

func pprofEvents(p *profile.Profile) ([]pprofEvent, error) {
	var evs []pprofEvent
	var names []string
	for i, st := range p.SampleType {
		names = append(names, st.Type+"/"+st.Unit)
		if st.Unit != "count" {
			continue
		}
		if st.Type == "samples" {
			evs = append(evs, periodEvent(p, i))
		} else if name, ok := strings.CutSuffix(st.Type, "_sample"); ok {
			ev := pprofEvent{Event: Event{Name: name, Unit: eventUnit(name)}, samples: i, weight: -1, scale: 1}
			for j, w := range p.SampleType {
				if w.Type == name+"_event" && w.Unit == "count" {
					ev.weight = j
				}
			}
			evs = append(evs, ev)
		}
	}
	if len(evs) == 0 {
		if ev, ok := timeEvent(p); ok {
			return []pprofEvent{ev}, nil
		}
		return nil, fmt.Errorf("no number of samples among its values (%s): want a CPU profile", strings.Join(names, ", "))
	}
	return evs, nil
}

// nanoseconds returns the length of pprof's units of time.
var nanoseconds = map[string]uint64{
	"nanoseconds": 1, "microseconds": 1e3, "milliseconds": 1e6, "seconds": 1e9,
	"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9,
}

// Nanoseconds returns the length of a unit of time, by the names that pprof and OpenTelemetry have for them.
func Nanoseconds(unit string) (ns uint64, ok bool) {
	ns, ok = nanoseconds[unit]
	return ns, ok
}

// PeriodEvent returns the event that a profile's period is of, by the name that pprof and OpenTelemetry have for it,
// and how many of its units are one of theirs. An empty name is none that is known; CPU time is "cpu-clock",
// whatever timer it came from.
func PeriodEvent(typ, unit string, period int64) (ev Event, scale uint64) {
	if typ == "" {
		return Event{Name: "unknown", Unit: "events"}, 1
	}
	ev, scale = Event{Name: typ, Unit: eventUnit(typ)}, 1
	if ns, ok := nanoseconds[unit]; ok {
		ev.Unit, scale = "ns", ns
		if typ == "cpu" {
			ev.Name = "cpu-clock"
		}
	}
	if period > 0 && uint64(period) <= math.MaxUint64/scale {
		ev.Period = uint64(period) * scale
	}
	return ev, scale
}

// periodEvent returns the event of value type i, samples/count.
func periodEvent(p *profile.Profile, i int) pprofEvent {
	ev := pprofEvent{samples: i, weight: -1}
	pt := p.PeriodType
	if pt == nil {
		pt = &profile.ValueType{}
	}
	ev.Event, ev.scale = PeriodEvent(pt.Type, pt.Unit, p.Period)
	for j, st := range p.SampleType {
		if pt.Type != "" && st.Type == pt.Type && st.Unit == pt.Unit {
			ev.weight = j
		}
	}
	return ev
}

// timeEvent returns the event of a profile that has the time of samples and not their number: servers of profiles give one
// type of value at a time. The period is how much of it is one sample; where it is not said, as by Parca, which multiplies
// numbers of samples by it, it is what divides all values.
func timeEvent(p *profile.Profile) (pprofEvent, bool) {
	const shortest = 50_000 // ns between samples: 20 kHz; what divides sums of several periods is no period
	for i, st := range p.SampleType {
		pt := p.PeriodType
		if pt == nil || st.Type != "cpu" || st.Type != pt.Type || st.Unit != pt.Unit || nanoseconds[st.Unit] == 0 {
			continue
		}
		with := profile.Profile{SampleType: p.SampleType, PeriodType: pt, Period: p.Period}
		if with.Period == 0 {
			for _, s := range p.Sample {
				if v := s.Value[i]; v > 0 {
					with.Period = gcd(with.Period, v)
				}
			}
			if uint64(with.Period) > math.MaxUint64/nanoseconds[st.Unit] || uint64(with.Period)*nanoseconds[st.Unit] < shortest {
				continue
			}
		}
		if with.Period > 0 {
			ev := periodEvent(&with, i)
			ev.samples, ev.weight, ev.each = i, i, with.Period
			return ev, true
		}
	}
	return pprofEvent{}, false
}

// gcd returns the greatest common divisor of a and b, of which one is above 0.
func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// eventUnit returns the unit of an event that does not count time.
func eventUnit(name string) string {
	switch name {
	case "cycles", "instructions", "branches":
		return name
	}
	return "events"
}

func fromPprof(p *profile.Profile, placer Placer) (*Recording, error) {
	evs, err := pprofEvents(p)
	if err != nil {
		return nil, err
	}
	rec := &Recording{}
	unplaced := unplacedMappings(p, placer)
	for _, ev := range evs {
		c := NewCounts(CPU{}, ev.Event)
		conv := pprofConverter{c: c, images: map[*profile.Mapping]int{}, unplaced: unplaced}
		for i, s := range p.Sample {
			if err := conv.add(s, ev); err != nil {
				return nil, fmt.Errorf("sample %d: %w", i, err)
			}
		}
		if conv.overflow || c.Delivered() == 0 {
			c.Weight = 0
		}
		rec.Add(c)
	}
	if unusable(rec) {
		return nil, &NoAddressError{callsByName(p, evs[0])}
	}
	return Merge(rec), nil
}

// unplacedMappings asks for the mappings whose addresses are not those of a process, once for each.
func unplacedMappings(p *profile.Profile, placer Placer) map[*profile.Mapping]func(addr uint64) (Offset, bool) {
	addrs := map[*profile.Mapping][]uint64{}
	for _, loc := range p.Location {
		if m := loc.Mapping; m != nil && m.Start == 0 && m.Offset == 0 && loc.Address != 0 && NotFile(m.File) == "" && mappedImage(m) != (ImageID{}) {
			addrs[m] = append(addrs[m], loc.Address)
		}
	}
	places := map[*profile.Mapping]func(addr uint64) (Offset, bool){}
	for _, m := range p.Mapping { // in the order of the file, as what is said of them
		all := addrs[m]
		if len(all) == 0 {
			continue
		}
		places[m] = nil
		if placer != nil {
			if place, err := placer(mappedImage(m), all); err == nil {
				places[m] = place
			}
		}
	}
	return places
}

// mappedImage names the image of a mapping; the zero ImageID is none.
func mappedImage(m *profile.Mapping) ImageID {
	return ImageID{Build: GNUBuildID(m.BuildID), Path: m.File}
}

// unusable reports whether there are samples without addresses, and not one has a place or would have, were its image here.
func unusable(r *Recording) bool {
	var stripped, placed uint64
	for _, c := range r.Counts {
		stripped = add(stripped, add(c.Lost[LostNoAddress], c.Lost[LostUnmapped]))
		placed = add(placed, c.Lost[LostUnplaced])
		for _, ic := range c.Images {
			placed = add(placed, ic.Samples())
		}
	}
	return stripped > 0 && placed == 0
}

// A pprofConverter adds the samples of a profile to c.
type pprofConverter struct {
	c        *Counts
	images   map[*profile.Mapping]int // in c
	frames   []Frame
	overflow bool  // of the weight
	rest     int64 // of values of time: what is missing in the samples so far, or too much

	// unplaced are the mappings whose addresses are not those of a process; nil is of one that nothing places.
	unplaced map[*profile.Mapping]func(addr uint64) (Offset, bool)
}

// number returns how many samples a value stands for, rounded; what that leaves is added to the next value, so that the
// sum is right too.
func (v *pprofConverter) number(value, each int64) uint64 {
	if each == 0 {
		return uint64(value)
	}
	n := value / each
	v.rest += value % each
	switch {
	case v.rest >= each-v.rest:
		n, v.rest = n+1, v.rest-each
	case n > 0 && v.rest < -each/2:
		n, v.rest = n-1, v.rest+each
	}
	return uint64(n)
}

func (v *pprofConverter) add(s *profile.Sample, ev pprofEvent) error {
	if s.Value[ev.samples] < 0 || ev.weight >= 0 && s.Value[ev.weight] < 0 {
		return errors.New("negative value: this is the difference of two profiles; save one without -base and -diff_base")
	}
	n := v.number(s.Value[ev.samples], ev.each)
	if n == 0 {
		return nil
	}
	locs := s.Location
	// To preempt a loop, the runtime sends a signal that injects a call of
	// asyncPreempt. A profiling signal that arrives with it finds that about to
	// start: the sample is the interrupted instruction's. In a program of tight
	// loops this is one sample in five.
	if len(locs) > 1 && function(locs[0]) == "runtime.asyncPreempt" {
		locs = locs[1:]
	}
	leaf, why := v.leaf(locs)
	if why != LostDropped && ev.weight >= 0 {
		v.weigh(uint64(s.Value[ev.weight]), ev.scale)
	}
	if why != "" {
		v.c.Lose(why, n)
		return nil
	}
	v.c.AddSample(leaf.Image, leaf.Off, n)
	v.frames = append(v.frames[:0], leaf)
	for i, loc := range locs[1:] {
		if madeUp(loc) != "" {
			break // and below it there is nothing
		}
		delta := uint64(1)
		if injected(locs[i]) {
			delta = 0
		}
		f, why := v.place(loc, delta)
		if why != "" {
			f = Frame{Image: Unknown}
		}
		v.frames = append(v.frames, f)
	}
	v.c.AddStack(v.frames, n)
	return nil
}

func (v *pprofConverter) weigh(value, scale uint64) {
	if w := value * scale; value > math.MaxUint64/scale || v.c.Weight+w < w {
		v.overflow = true
	} else {
		v.c.Weight += w
	}
}

// leaf returns the place of the sampled instruction, or why there is none.
func (v *pprofConverter) leaf(locs []*profile.Location) (Frame, Loss) {
	if len(locs) == 0 {
		return Frame{}, LostNoAddress
	}
	if why := madeUp(locs[0]); why != "" {
		return Frame{}, why
	}
	// While C code runs, sigprof (runtime/proc.go) has the place where cgocall left Go. The time that C takes
	// is none of that instruction's: read as such, it would be executions of cgocall by the hundred million.
	if function(locs[0]) == "runtime.cgocall" {
		return Frame{}, LostOutsideGo
	}
	// Go's sigprof (runtime/proc.go) writes PC+1 of the leaf, as if it were a
	// return address, except where it cannot unwind the stack. It then has the
	// PC itself, called by a made-up function. runtime/pprof subtracts 1 always.
	if len(locs) > 1 && madeUp(locs[1]) != "" {
		return v.place(locs[0], 1)
	}
	return v.place(locs[0], 0)
}

// function returns the name of the innermost function at a location, if known.
func function(loc *profile.Location) string {
	if len(loc.Line) == 0 || loc.Line[0].Function == nil {
		return ""
	}
	return loc.Line[0].Function.Name
}

// injected reports whether a location is in a function of the Go runtime that was
// not called but injected by a signal: it returns to the interrupted instruction
// itself (isInjectedCall in runtime/traceback.go).
func injected(loc *profile.Location) bool {
	switch function(loc) {
	case "runtime.asyncPreempt", "runtime.sigpanic", "runtime.debugCallV2":
		return true
	}
	return false
}

// madeUp is MadeUp of the innermost function at a location.
func madeUp(loc *profile.Location) Loss { return MadeUp(function(loc)) }

// MadeUp reports whether a function is one of those of the Go runtime that
// stand for code or samples elsewhere (runtime/proc.go, runtime/cpuprof.go,
// runtime/pprof/proto.go), and if so, what became of a sample there.
func MadeUp(function string) Loss {
	switch function {
	case "runtime._ExternalCode", "runtime._System", "runtime._GC":
		return LostOutsideGo
	case "runtime._VDSO":
		return LostVDSO
	case "runtime._LostExternalCode", "runtime._LostSIGPROFDuringAtomic64", "runtime/pprof.lostProfileEvent":
		return LostDropped
	}
	return ""
}

// place returns the place of a location in its image's file, delta bytes on, or
// why there is none.
func (v *pprofConverter) place(loc *profile.Location, delta uint64) (Frame, Loss) {
	m := loc.Mapping
	if loc.Address == 0 {
		return Frame{}, LostNoAddress
	}
	if m == nil || loc.Address < m.Start || m.Limit != 0 && loc.Address >= m.Limit {
		return Frame{}, LostUnmapped
	}
	if why := NotFile(m.File); why != "" {
		return Frame{}, why
	}
	off := Offset(loc.Address - m.Start + m.Offset)
	if find, ok := v.unplaced[m]; ok {
		if find == nil {
			return Frame{}, LostUnplaced
		}
		if off, ok = find(loc.Address); !ok {
			return Frame{}, LostUnmapped
		}
	}
	i, ok := v.images[m]
	if !ok {
		i = v.c.Image(mappedImage(m))
		v.images[m] = i
	}
	if i == Unknown { // a mapping made up for want of a real one
		return Frame{}, LostUnmapped
	}
	return Frame{i, off + Offset(delta)}, ""
}

// NotFile tells by the names of /proc/PID/maps, and those that perf made up, why
// a mapping is not one of a file.
func NotFile(name string) Loss {
	switch {
	case name == "[vdso]" || name == "[vsyscall]":
		return LostVDSO
	case strings.HasPrefix(name, "[kernel"), strings.HasPrefix(name, "[guest.kernel"):
		return LostKernel
	case strings.HasPrefix(name, "["), strings.HasPrefix(name, "//anon"), strings.HasPrefix(name, "/memfd:"),
		strings.HasPrefix(name, "/anon_hugepage"):
		return LostAnonymous
	}
	return ""
}

// GNUBuildID reads the build ID of a mapping: Go's runtime/pprof and most others
// write that of the GNU note in hexadecimal. Anything else, such as Go's own
// build ID, is no name that an image could be found by.
func GNUBuildID(s string) BuildID {
	const longest = 32 // bytes: as made of a SHA-256
	var id BuildID
	if b, err := hex.DecodeString(s); err == nil && len(b) <= longest {
		copy(id[:], b)
	}
	return id
}
