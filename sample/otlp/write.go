package otlp

import (
	"encoding/binary"
	"maps"
	"slices"
	"strconv"

	"backfeed/sample"
)

// EncodeOptions say how a recording is written.
type EncodeOptions struct {
	// Addr returns where a place of an image is as linked, which is what others take addresses to be. Where it does not
	// know, an address is a file offset, and the mapping says so.
	Addr func(id sample.ImageID, off sample.Offset) (address uint64, ok bool)

	// Start and Duration are when the samples were taken, in ns.
	Start, Duration uint64

	// Times writes each sample as a time, spread over Duration, as the profiler does. Else their number is written.
	Times bool
}

// Encode returns one message in protobuf: the samples of rec and their stacks, as OpenTelemetry's eBPF profiler would write
// them, and the processor in the attributes of the resource, as the collector's resource detection would. What was
// counted exactly, branches, and the words at stack pointers have no place there. Samples that the kernel dropped have
// none either: there are as many of them as left says.
func Encode(rec *sample.Recording, opt EncodeOptions) (b []byte, left uint64) {
	e := encoder{opt: opt, strings: map[string]uint64{}, attributes: map[[2]string]uint64{}, mappings: map[mappingKey]uint64{}, locations: map[locationKey]uint64{}}
	e.text("")
	for _, table := range []byte{1, 2, 3, 4, 6, 7} { // place 0 of each stands for none
		e.dictionary = e.put(e.dictionary, table, nil)
	}
	for _, c := range sample.Merge(rec).Counts {
		b = e.put(b, 1, e.resource(c))
		left += c.Lost[sample.LostDropped]
	}
	return e.put(b, 2, e.dictionary), left
}

type mappingKey struct {
	id    sample.ImageID
	delta uint64 // of addresses from offsets
}

type locationKey struct {
	mapping, address uint64
	frameType        string
}

// An encoder makes the dictionary as it is used.
type encoder struct {
	opt        EncodeOptions
	dictionary []byte
	strings    map[string]uint64
	attributes map[[2]string]uint64
	mappings   map[mappingKey]uint64
	locations  map[locationKey]uint64

	lastMapping, lastLocation, lastAttribute, lastStack uint64
}

// put appends a field of bytes.
func (e *encoder) put(b []byte, number byte, body []byte) []byte {
	b = binary.AppendUvarint(append(b, number<<3|wireLen), uint64(len(body)))
	return append(b, body...)
}

// number appends an integer, if it is not 0.
func (e *encoder) number(b []byte, number byte, v uint64) []byte {
	if v == 0 {
		return b
	}
	return binary.AppendUvarint(append(b, number<<3|wireVarint), v)
}

// packed appends a list of integers.
func (e *encoder) packed(b []byte, number byte, vs ...uint64) []byte {
	var body []byte
	for _, v := range vs {
		body = binary.AppendUvarint(body, v)
	}
	return e.put(b, number, body)
}

func (e *encoder) text(s string) uint64 {
	i, ok := e.strings[s]
	if !ok {
		i = uint64(len(e.strings))
		e.strings[s] = i
		e.dictionary = e.put(e.dictionary, 5, []byte(s))
	}
	return i
}

func (e *encoder) attribute(key, value string) uint64 {
	i, ok := e.attributes[[2]string{key, value}]
	if !ok {
		e.lastAttribute++
		i = e.lastAttribute
		e.attributes[[2]string{key, value}] = i
		e.dictionary = e.put(e.dictionary, 6, e.put(e.number(nil, 1, e.text(key)), 2, e.put(nil, 1, []byte(value))))
	}
	return i
}

// page is an address in a mapping of no file.
const page = 1 << 12

func (e *encoder) mapping(id sample.ImageID, delta uint64) uint64 {
	key := mappingKey{id, delta}
	i, ok := e.mappings[key]
	if !ok {
		e.lastMapping++
		i = e.lastMapping
		e.mappings[key] = i
		// A mapping says by its start and limit that it has a range. This one begins with the file or, where
		// addresses as linked are less than offsets, as far behind as address 0 is.
		start, offset := delta, uint64(0)
		if delta > 1<<63 {
			start, offset = 0, -delta
		}
		m := e.number(e.number(e.number(nil, 1, start), 2, 1<<63), 3, offset)
		m = e.number(m, 4, e.text(id.Path))
		if !id.Build.IsZero() {
			m = e.packed(m, 5, e.attribute(keyGNU, id.Build.String()))
		}
		e.dictionary = e.put(e.dictionary, 1, m)
	}
	return i
}

func (e *encoder) location(mapping, address uint64, frameType string) uint64 {
	key := locationKey{mapping, address, frameType}
	i, ok := e.locations[key]
	if !ok {
		e.lastLocation++
		i = e.lastLocation
		e.locations[key] = i
		l := e.packed(e.number(e.number(nil, 1, mapping), 2, address), 4, e.attribute(keyFrameType, frameType))
		e.dictionary = e.put(e.dictionary, 2, l)
	}
	return i
}

func (e *encoder) stack(locations ...uint64) uint64 {
	e.lastStack++
	e.dictionary = e.put(e.dictionary, 7, e.packed(nil, 1, locations...))
	return e.lastStack
}

// frame returns the location of a frame of c, moved back by so many bytes.
func (e *encoder) frame(c *sample.Counts, f sample.Frame, back uint64) uint64 {
	if f.Image == sample.Unknown {
		return e.location(0, 0, "unknown")
	}
	id, off := c.Images[f.Image].ID, uint64(f.Off)-back
	address := off
	if e.opt.Addr != nil {
		if a, ok := e.opt.Addr(id, sample.Offset(off)); ok {
			address = a
		}
	}
	return e.location(e.mapping(id, address-off), address, "native")
}

// resource returns the ResourceProfiles of c.
func (e *encoder) resource(c *sample.Counts) []byte {
	var attributes []byte
	attribute := func(key, value string) {
		if value != "" && value != "0" {
			attributes = e.put(attributes, 1, e.put(e.put(nil, 1, []byte(key)), 2, e.put(nil, 1, []byte(value))))
		}
	}
	attribute("host.arch", map[string]string{"x86_64": "amd64", "aarch64": "arm64"}[c.CPU.Arch])
	attribute("host.cpu.vendor.id", c.CPU.Vendor)
	attribute("host.cpu.model.name", c.CPU.Name)
	attribute("host.cpu.family", strconv.Itoa(c.CPU.Family))
	attribute("host.cpu.model.id", strconv.Itoa(c.CPU.Model))
	attribute("host.cpu.stepping", strconv.Itoa(c.CPU.Stepping))
	return e.put(e.put(nil, 1, attributes), 2, e.put(nil, 2, e.profile(c)))
}

// profile returns the Profile of c.
func (e *encoder) profile(c *sample.Counts) []byte {
	periodType, unit := c.Event.Name, "count"
	if c.Event.Unit == "ns" {
		unit = "nanoseconds"
	}
	if periodType == "cpu-clock" {
		periodType = "cpu"
	}
	valueType := func(typ, unit string) []byte { return e.number(e.number(nil, 1, e.text(typ)), 2, e.text(unit)) }
	p := e.put(nil, 1, valueType("samples", "count"))
	add := func(stack, n uint64) { p = e.put(p, 2, e.sample(stack, n)) }
	rest := map[sample.Frame]uint64{} // samples without a stack
	for i, ic := range c.Images {
		for off, n := range ic.At {
			rest[sample.Frame{Image: i, Off: off}] = n
		}
	}
	for _, s := range c.Stacks {
		locations := []uint64{e.frame(c, s.Frames[0], 0)}
		for _, f := range s.Frames[1:] {
			locations = append(locations, e.frame(c, f, 1))
		}
		add(e.stack(locations...), s.N)
		rest[s.Frames[0]] -= s.N
	}
	for i, ic := range c.Images {
		for _, off := range slices.Sorted(maps.Keys(ic.At)) {
			f := sample.Frame{Image: i, Off: off}
			if n := rest[f]; n > 0 {
				add(e.stack(e.frame(c, f, 0)), n)
			}
		}
	}
	for _, why := range slices.Sorted(maps.Keys(c.Lost)) {
		if why != sample.LostDropped {
			add(e.lost(why), c.Lost[why])
		}
	}
	p = e.fixed(p, 3, e.opt.Start)
	p = e.number(p, 4, e.opt.Duration)
	p = e.put(p, 5, valueType(periodType, unit))
	return e.number(p, 6, c.Event.Period)
}

// lost returns a stack that says why samples are lost.
func (e *encoder) lost(why sample.Loss) uint64 {
	switch why {
	case sample.LostKernel:
		return e.stack(e.location(0, 0, "kernel"))
	case sample.LostVDSO:
		return e.stack(e.location(e.mapping(sample.ImageID{Path: "[vdso]"}, 0), page, "native"))
	case sample.LostAnonymous:
		return e.stack(e.location(e.mapping(sample.ImageID{Path: "//anon"}, 0), page, "native"))
	case LostRuntime:
		return e.stack(e.location(0, 0, "jvm"))
	case sample.LostNoAddress:
		return 0
	}
	return e.stack(e.location(0, 0, "unknown"))
}

func (e *encoder) fixed(b []byte, number byte, v uint64) []byte {
	return binary.LittleEndian.AppendUint64(append(b, number<<3|wireI64), v)
}

// sample returns a Sample that stands for n.
func (e *encoder) sample(stack, n uint64) []byte {
	s := e.number(nil, 1, stack)
	if !e.opt.Times {
		return e.packed(s, 4, n)
	}
	var times []byte
	for i := range n {
		times = binary.LittleEndian.AppendUint64(times, e.opt.Start+i*(e.opt.Duration/n))
	}
	return e.put(s, 5, times)
}
