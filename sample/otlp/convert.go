package otlp

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"

	"backfeed/sample"
	"backfeed/sample/bound"
)

// Losses of OTLP profiles.
const (
	LostRuntime sample.Loss = "interpreted or made at run time" // by a runtime that the profiler knows
	LostRange   sample.Loss = "mapping without addresses"       // and no image to ask
	LostBuilds  sample.Loss = "one of several builds"           // of one name, without a GNU build ID
)

// Keys of attributes, by the semantic conventions of OpenTelemetry 1.37.
const (
	keyFrameType = "profile.frame.type"
	keyGNU       = "process.executable.build_id.gnu"
	keyGo        = "process.executable.build_id.go"
	keyHash      = "process.executable.build_id.htlhash"
)

// A notes counts what a user should know of before trusting the result.
type notes struct {
	profiles, rejected uint64            // profiles, and those that are not of processor time
	others             map[string]uint64 // the latter by what they are of
	empty              uint64            // samples without a value and a time
	dropped            uint64            // attributes that the sender dropped
	payloads           map[string]uint64 // profiles that carry their original, by its format
	unknown            map[string]uint64 // fields
	bare               uint64            // samples in images that are known by their name alone
	cut                bool              // the file ends in the middle of a message
}

// most bounds the names that are kept of what a message may name without end.
const most = 16

func count(m *map[string]uint64, name string, n uint64) {
	if _, ok := (*m)[name]; !ok && len(*m) >= most {
		name = "others"
	}
	if *m == nil {
		*m = map[string]uint64{}
	}
	(*m)[name] += n
}

// A converter adds the profiles of one message to a recording.
type converter struct {
	opt   Options
	depth int
	d     *dictionary
	all   *sample.Recording
	notes *notes
	named *builds

	mapped []mapped // of d.mappings
	places []spot   // of d.locations
	frames []sample.Frame
}

// A mapped is what a mapping is of.
type mapped struct {
	known bool // this was found out
	id    sample.ImageID
	loss  sample.Loss
	bare  bool // by its name alone
}

// A spot is where a location is.
type spot struct {
	known   bool // this was found out
	mapping int32
	off     sample.Offset // as if it were the sampled instruction
	loss    sample.Loss
}

// at names a place in a table of the dictionary.
func at(table string, i int32, field string) string {
	return fmt.Sprintf("dictionary.%s[%d].%s", table, i, field)
}

func outside(field string, i int32, n int) error {
	return fmt.Errorf("%s: %d, and its table has %d: %w", field, i, n, ErrFormat)
}

// text returns a string of the dictionary.
func (c *converter) text(i int32, field string) (string, error) {
	if i == 0 && len(c.d.strings) == 0 {
		return "", nil
	}
	if i < 0 || int(i) >= len(c.d.strings) {
		return "", outside(field, i, len(c.d.strings))
	}
	return c.d.strings[i], nil
}

// value returns a string that is in place or in the dictionary.
func (c *converter) value(v anyValue, field string) (string, error) {
	if v.index == 0 {
		return v.text, nil
	}
	return c.text(v.index, field)
}

// attribute returns the one of some attributes that has a key, "" if none has.
func (c *converter) attribute(indices []int32, key, field string) (string, error) {
	for _, i := range indices {
		if i < 0 || int(i) >= len(c.d.attributes) {
			return "", outside(field, i, len(c.d.attributes))
		}
		a := &c.d.attributes[i]
		k, err := c.text(a.key, at("attributeTable", i, "keyStrindex"))
		if err != nil {
			return "", err
		}
		if k == key {
			return c.value(a.value, at("attributeTable", i, "value"))
		}
	}
	return "", nil
}

// message adds the profiles of m.
func (c *converter) message(m *profilesData) error {
	c.d = &m.dictionary
	if len(c.d.strings) > 0 && c.d.strings[0] != "" {
		return fmt.Errorf("dictionary.stringTable[0]: %q, want the empty string: %w", c.d.strings[0][:min(32, len(c.d.strings[0]))], ErrFormat)
	}
	c.mapped, c.places = make([]mapped, len(c.d.mappings)), make([]spot, len(c.d.locations))
	for i := range m.resources {
		r := &m.resources[i]
		path := fmt.Sprintf("resourceProfiles[%d]", i)
		cpu, err := c.cpu(&r.resource, path)
		if err != nil {
			return err
		}
		for j := range r.scopes {
			for k := range r.scopes[j].profiles {
				if len(c.d.strings) == 0 {
					return fmt.Errorf("%s.scopeProfiles[%d].profiles[%d]: no dictionary beside it: %w", path, j, k, ErrFormat)
				}
				if err := c.profile(cpu, &r.scopes[j].profiles[k], fmt.Sprintf("%s.scopeProfiles[%d].profiles[%d]", path, j, k)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// cpu returns the processor that a resource is on, as far as the collector's resource detection has
// told: host.arch, host.cpu.vendor.id and so on.
func (c *converter) cpu(r *resource, path string) (cpu sample.CPU, err error) {
	is := map[string]string{}
	for i := range r.attributes {
		a := &r.attributes[i]
		path := fmt.Sprintf("%s.resource.attributes[%d]", path, i)
		key := a.key
		if a.index != 0 {
			if key, err = c.text(a.index, path+".keyStrindex"); err != nil {
				return cpu, err
			}
		}
		if !strings.HasPrefix(key, "host.") || len(is) > maxHost {
			continue
		}
		if is[key], err = c.value(a.value, path+".value"); err != nil {
			return cpu, err
		}
	}
	switch is["host.arch"] {
	case "amd64":
		cpu.Arch = "x86_64"
	case "arm64":
		cpu.Arch = "aarch64"
	}
	number := func(key string) int {
		n, err := strconv.ParseUint(is[key], 0, 31)
		if err != nil {
			return 0
		}
		return int(n)
	}
	cpu.Vendor, cpu.Name = is["host.cpu.vendor.id"], is["host.cpu.model.name"]
	cpu.Family, cpu.Model, cpu.Stepping = number("host.cpu.family"), number("host.cpu.model.id"), number("host.cpu.stepping")
	return cpu, nil
}

// maxHost bounds the attributes of a host that are looked at: its conventions name some dozens.
const maxHost = 100

// An eventOf says how the samples of a profile are counted.
type eventOf struct {
	sample.Event
	scale uint64 // of values to Unit, if they are events; 0 if they are samples
}

// event returns what a profile is of. ok is false of another thing than processor time or what a counter counts.
func (c *converter) event(p *profile, path string) (ev eventOf, of string, ok bool, err error) {
	var names [4]string
	for i, index := range []int32{p.sampleType.typ, p.sampleType.unit, p.periodType.typ, p.periodType.unit} {
		field := [...]string{"sampleType.typeStrindex", "sampleType.unitStrindex", "periodType.typeStrindex", "periodType.unitStrindex"}[i]
		if names[i], err = c.text(index, path+"."+field); err != nil {
			return ev, "", false, err
		}
	}
	typ, unit := names[0], names[1]
	if p.period < 0 {
		return ev, "", false, fmt.Errorf("%s.period: %d: %w", path, p.period, ErrFormat)
	}
	ev.Event, _ = sample.PeriodEvent(names[2], names[3], p.period)
	ns, isTime := sample.Nanoseconds(unit)
	switch {
	case typ == "samples" && unit == "count":
		ok = true
	case typ == "cpu" && isTime && ev.Unit == "ns" && ev.Period > 0:
		ok, ev.scale = true, ns
	}
	return ev, typ + "/" + unit, ok, nil
}

// profile adds the samples of p.
func (c *converter) profile(cpu sample.CPU, p *profile, path string) error {
	c.notes.profiles++
	c.notes.dropped += p.dropped
	if p.format != "" {
		count(&c.notes.payloads, p.format, 1)
	}
	ev, of, ok, err := c.event(p, path)
	if err != nil {
		return err
	}
	if !ok {
		c.notes.rejected++
		count(&c.notes.others, of, uint64(len(p.samples)))
		return nil
	}
	counts := sample.NewCounts(cpu, ev.Event)
	images := map[int32]int{} // of mappings
	weighed := true
	for i := range p.samples {
		n, weight, err := number(&p.samples[i], ev)
		if err != nil {
			return fmt.Errorf("%s.samples[%d]%w", path, i, err)
		}
		if n == 0 {
			c.notes.empty++
			continue
		}
		delivered, err := c.sample(counts, images, p.samples[i].stack, n)
		if err != nil {
			return fmt.Errorf("%s.samples[%d].%w", path, i, err)
		}
		if !delivered {
			continue
		}
		if sum := counts.Weight + weight; sum < weight {
			weighed = false
		} else {
			counts.Weight = sum
		}
	}
	if !weighed || counts.Delivered() == 0 {
		counts.Weight = 0
	}
	if c.all.Add(counts); len(c.all.Counts) > maxEvents {
		return fmt.Errorf("%s: more than %d kinds of events and processors: %w", path, maxEvents, ErrFormat)
	}
	return nil
}

// maxEvents bounds the kinds of events and processors in a file: a fleet has some dozens.
const maxEvents = 1 << 10

// sampleMemory is what a sample may leave behind, in bytes, as a place or a stack that was not known before.
const sampleMemory = 1 << 9

// number returns how many samples s stands for, and the sum of their periods; 0 if that is not known.
func number(s *sampled, ev eventOf) (n, weight uint64, err error) {
	if len(s.values) > 0 && s.times > 0 && len(s.values) != int(s.times) {
		return 0, 0, fmt.Errorf(": %d values and %d times: %w", len(s.values), s.times, ErrFormat)
	}
	var sum uint64
	for _, v := range s.values {
		if v < 0 {
			return 0, 0, fmt.Errorf(".values: %d: %w", v, ErrFormat)
		}
		if sum += uint64(v); sum < uint64(v) {
			return 0, 0, fmt.Errorf(".values: a sum of more than 64 bits: %w", ErrFormat)
		}
	}
	if ev.scale == 0 || len(s.values) == 0 {
		if n = sum; len(s.values) == 0 {
			n = uint64(s.times)
		}
		if ev.Period > 0 && n > math.MaxUint64/ev.Period {
			return 0, 0, fmt.Errorf(".values: %d samples of %d %s: %w", n, ev.Period, ev.Unit, ErrFormat)
		}
		return n, n * ev.Period, nil
	}
	if sum > math.MaxUint64/ev.scale {
		return 0, 0, fmt.Errorf(".values: %d: %w", sum, ErrFormat)
	}
	weight = sum * ev.scale
	if n = uint64(s.times); n == 0 && weight > 0 { // a sample stands for a period, more or less
		n = max(1, weight/ev.Period+weight%ev.Period/((ev.Period+1)/2))
	}
	return n, weight, nil
}

// sample adds n samples with a stack, and reports whether they were delivered to a place or a loss but
// LostDropped.
func (c *converter) sample(counts *sample.Counts, images map[int32]int, index int32, n uint64) (delivered bool, err error) {
	if index < 0 || int(index) >= max(1, len(c.d.stacks)) {
		return false, outside("stackIndex", index, len(c.d.stacks))
	}
	if err := bound.Memory(sampleMemory); err != nil {
		return false, err
	}
	var locations []int32
	if index > 0 {
		locations = c.d.stacks[index].locations
	}
	if len(locations) == 0 {
		counts.Lose(sample.LostNoAddress, n)
		return true, nil
	}
	c.frames = c.frames[:0]
	for i, l := range locations {
		if i >= c.depth && i > 0 {
			break
		}
		p, err := c.place(l, index, i)
		if err != nil {
			return false, err
		}
		if i == 0 && p.loss != "" {
			counts.Lose(p.loss, n)
			return p.loss != sample.LostDropped, nil
		}
		f := sample.Frame{Image: sample.Unknown}
		if p.loss == "" {
			im := &c.mapped[p.mapping]
			j, ok := images[p.mapping]
			if !ok {
				j = counts.Image(im.id)
				images[p.mapping] = j
			}
			if f = (sample.Frame{Image: j, Off: p.off}); i > 0 {
				f.Off++ // return addresses are written as if they were of the call
			} else if im.bare {
				c.notes.bare += n
			}
		}
		c.frames = append(c.frames, f)
	}
	leaf := c.frames[0]
	counts.AddSample(leaf.Image, leaf.Off, n)
	if c.depth > 0 {
		for c.frames[len(c.frames)-1].Image == sample.Unknown {
			c.frames = c.frames[:len(c.frames)-1]
		}
		counts.AddStack(c.frames, n)
	}
	return true, nil
}

// place returns where a location is: element i of a stack.
func (c *converter) place(l, stack int32, i int) (*spot, error) {
	if l < 0 || int(l) >= len(c.d.locations) {
		return nil, outside(fmt.Sprintf("dictionary.stackTable[%d].locationIndices[%d]", stack, i), l, len(c.d.locations))
	}
	p := &c.places[l]
	if p.known {
		return p, nil
	}
	var err error
	if p.mapping, p.off, p.loss, err = c.find(l, &c.d.locations[l]); err != nil {
		return nil, err
	}
	p.known = true
	return p, nil
}

// find returns the place in the file of a location, or why there is none.
func (c *converter) find(i int32, l *location) (int32, sample.Offset, sample.Loss, error) {
	lost := func(why sample.Loss, err error) (int32, sample.Offset, sample.Loss, error) { return 0, 0, why, err }
	typ, err := c.attribute(l.attributes, keyFrameType, at("locationTable", i, "attributeIndices"))
	if err != nil {
		return lost("", err)
	}
	switch typ {
	case "kernel":
		return lost(sample.LostKernel, nil)
	case "", "native", "go", "rust":
	case "unknown", "abort-marker", "<invalid>": // the profiler could not unwind
		return lost(sample.LostUnmapped, nil)
	default:
		return lost(LostRuntime, nil)
	}
	if len(l.lines) > 0 {
		why, err := c.madeUp(i, l)
		if why != "" || err != nil {
			return lost(why, err)
		}
	}
	if l.mapping < 0 || int(l.mapping) >= max(1, len(c.d.mappings)) {
		return lost("", outside(at("locationTable", i, "mappingIndex"), l.mapping, len(c.d.mappings)))
	}
	switch {
	case l.mapping == 0:
		return lost(sample.LostUnmapped, nil)
	case l.address == 0:
		return lost(sample.LostNoAddress, nil)
	}
	m, im := &c.d.mappings[l.mapping], &c.mapped[l.mapping]
	if !im.known {
		if *im, err = c.image(l.mapping, m); err != nil {
			return lost("", err)
		}
	}
	switch {
	case im.loss != "":
		return lost(im.loss, nil)
	case m.start == 0 && m.limit == 0: // an address as linked, or in a process, or even an offset
		if c.opt.Offset != nil {
			if off, ok := c.opt.Offset(im.id, l.address); ok {
				return l.mapping, off, "", nil
			}
		}
		return lost(LostRange, nil)
	case l.address < m.start || m.limit != 0 && l.address >= m.limit:
		return lost(sample.LostUnmapped, nil)
	}
	return l.mapping, sample.Offset(l.address - m.start + m.offset), "", nil
}

// madeUp returns why a location that has names is none: Go's own profiler makes some up.
func (c *converter) madeUp(i int32, l *location) (sample.Loss, error) {
	fn := l.lines[0].function
	if fn < 0 || int(fn) >= max(1, len(c.d.functions)) {
		return "", outside(at("locationTable", i, "lines[0].functionIndex"), fn, len(c.d.functions))
	}
	if fn == 0 {
		return "", nil
	}
	name, err := c.text(c.d.functions[fn].name, at("functionTable", fn, "nameStrindex"))
	return sample.MadeUp(name), err
}

// image returns what a mapping is of.
func (c *converter) image(i int32, m *mapping) (im mapped, err error) {
	im.known = true
	if im.id.Path, err = c.text(m.file, at("mappingTable", i, "filenameStrindex")); err != nil {
		return im, err
	}
	var ids [3]string
	for k, key := range []string{keyGNU, keyGo, keyHash} {
		if ids[k], err = c.attribute(m.attributes, key, at("mappingTable", i, "attributeIndices")); err != nil {
			return im, err
		}
	}
	if im.loss = sample.NotFile(im.id.Path); im.loss != "" {
		return im, nil
	}
	im.id.Build = sample.GNUBuildID(ids[0])
	if im.id == (sample.ImageID{}) {
		im.loss = sample.LostUnmapped
		return im, nil
	}
	if im.id.Build.IsZero() {
		// The hash of the file is in all that the profiler writes, and tells builds apart where nothing else
		// does. Samples of two builds must not add up; of which of them the first was is as good as chance.
		im.bare = true
		if other := cmp.Or(ids[2], ids[1]); other != "" {
			if !c.named.first(im.id.Path, other) {
				im.loss = LostBuilds
			}
		}
	}
	return im, nil
}

// builds tells builds apart that have a name and no GNU build ID. Several goroutines may ask it.
type builds struct {
	mu   sync.Mutex
	seen map[string]string // what else tells them apart, by name
}

// first reports whether a build is the first one that was seen of its name.
func (b *builds) first(name, other string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	first, ok := b.seen[name]
	if !ok && len(b.seen) < maxNamed {
		if b.seen == nil {
			b.seen = map[string]string{}
		}
		b.seen[strings.Clone(name)] = strings.Clone(other)
	}
	return !ok || first == other
}

// maxNamed bounds the names of images that have no build ID: some dozens on a machine.
const maxNamed = 1 << 16

// warnings returns what was noted, a sentence each.
func (n *notes) warnings() (all []string) {
	say := func(n uint64, what string) {
		if n > 0 {
			all = append(all, fmt.Sprintf("%d %s", n, what))
		}
	}
	list := func(m map[string]uint64, what string) {
		for _, name := range sorted(m) {
			say(m[name], fmt.Sprintf(what, strconv.Quote(name)))
		}
	}
	list(n.others, "samples are in profiles of %s, which are not of processor time: not counted")
	say(n.empty, "samples have neither a value nor a time: not counted")
	say(n.bare, "samples are in images without a GNU build ID, which are known by their name alone")
	say(n.dropped, "attributes were dropped by the sender: build IDs may be among them")
	list(n.payloads, "profiles carry their original in the format %s, which is not read")
	list(n.unknown, "fields are not known here, and not read: %s")
	if n.cut {
		all = append(all, "it ends in the middle of a message: read up to there")
	}
	return all
}

// sorted lists the names of m, those with the most first.
func sorted(m map[string]uint64) []string {
	var names []string
	for name := range m {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b string) int { return cmp.Or(cmp.Compare(m[b], m[a]), cmp.Compare(a, b)) })
	return names
}

var errNoProfile = errors.New("no profile of processor time")
