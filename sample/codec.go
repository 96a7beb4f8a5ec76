package sample

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"backfeed/sample/wire"
)

// A recording is stored as one file. An integer is a uvarint of encoding/binary
// in its shortest form; a string is its length and so many bytes; a list is its
// length and so many entries. Everything is sorted and nothing is written that
// says nothing, so equal recordings have equal bytes, and Decode refuses a file
// that Encode would have written otherwise.
//
//	offset  size  field
//	0       4     magic "bfr2"; the digit is the version of the format. It is "bfr3"
//	              if there are first touches, "bfr4" if anything was probed or
//	              counted, "bfr5" if walks passed through anything, "bfr6" if there are
//	              paths, "bfr7" if there are targets, "bfr8" if anything was replayed,
//	              "bfr9" if processes are known, "bfra" if walks were timed, "bfrb" if the
//	              clock is known, "bfrc" if samples were scaled up, "bfrd" if it is known
//	              what ran, where, when or in which runs, "bfre" if time off the processor
//	              is known, "bfrf" if it is known how long events were counted, "bfrg" if
//	              it is known how long interrupts are held up where system calls return,
//	              "bfrh" if it is known where page faults were, and nothing else differs:
//	              digits go on as letters
//	4       4     CRC-32C of the rest of the file, little-endian
//	8       -     list of Counts by CPU, then Event, in the order of their fields
//	-       -     from "bfrd" on, list of at most MaxRuns Runs, in the order of their fields
//	-       -     from "bfrd" on, integer, runs that are not listed; 0 if the list is not full
//	-       -     from "bfre" on, list of Counts of time off the processor, in the same order
//
// Counts:
//
//	string   CPU: architecture
//	string   vendor
//	integer  family
//	integer  model
//	integer  stepping
//	string   name
//	integer  clock, in MHz; 0 is unknown
//	string   event: name
//	integer  period, in events per sample; 0 if it varied
//	string   unit of the period
//	integer  weight: sum of the periods of the samples delivered; 0 is unknown
//	integer  from "bfrb" on, clocked: ns of the weight in which it is known how many cycles passed; 0 if of none
//	integer  from "bfrb" on, cycles in them
//	square   from "bfrc" on, by how much more the variance of all samples is than their number
//	integer  from "bfrf" on, ns that the event was to be counted; 0 is unknown
//	integer  from "bfrf" on, those in which it was
//	integer  from "bfrg" on, system calls of which it was measured how long their returns hold interrupts up
//	integer  from "bfrg" on, cycles of all of these returns
//	list     from "bfrd" on, origins in the order of their fields: strings, process, thread
//	         and cgroup; integer, samples (> 0)
//	list     from "bfrd" on, processors by increasing number: integer, number minus that of the
//	         entry before; integer, samples (> 0)
//	integer  from "bfrd" on, step: slices are 125 ms times 2 to that long
//	list     from "bfrd" on, at most MaxSlices slices by increasing number, which is their
//	         beginning since 1970 divided by their length: integer, number minus that of the
//	         entry before; list, losses in it as below
//	list     losses by reason: string, reason; integer, samples (> 0)
//	list     images by build ID, then path
//	list     places in stacks, branches, ranges, paths and targets: unknown first,
//	         then by image and offset
//	list     stacks, by the places of their frames, then their tops
//	list     branches, by the places of source, then target
//	list     ranges, by the places of first, then last instruction
//	list     from "bfr6" on, paths by rank, then instructions, then places
//	list     from "bfr7" on, targets, by the places of source, then target
//
// Image:
//
//	20 bytes build ID, zero-padded; zero is unknown
//	string   path
//	integer  from "bfr9" on, processes; 0 if none, or unknown
//	list     samples by increasing offset: integer, offset minus that of the
//	         entry before; integer, samples (> 0)
//	list     from "bfr3" on, first touches by increasing offset: integer, offset
//	         minus that of the entry before; integer, us since the program's begin
//	list     from "bfr4" on, executions counted exactly by increasing offset:
//	         integer, offset minus that of the entry before; integer, executions
//	list     from "bfr4" on, Probed by increasing offset
//	list     from "bfr8" on, Replayed by increasing offset
//	list     from "bfrd" on, samples without a stack whose time is known, by increasing
//	         offset: integer, offset minus that of the entry before; list of Moments (> 0)
//	list     from "bfrh" on, page faults by increasing offset: integer, offset minus
//	         that of the entry before; integer, faults (> 0)
//
// Moment:
//
//	integer  index of its slice, minus that of the entry before
//	integer  samples (> 0)
//
// Run:
//
//	integer  begin, in ms since 1970
//	integer  length, in ms
//	string   host
//	list     strings: command, see CommandName
//	integer  us of processor time in user mode
//	integer  us of processor time in the kernel
//	integer  bytes of memory
//	integer  minor page faults
//	integer  major page faults
//	integer  switches, as it waited
//	integer  switches, as it did not
//	integer  blocks read
//	integer  blocks written
//	integer  1 if the memory is only an upper bound, else 0
//
// Probed:
//
//	integer  offset minus that of the entry before
//	integer  windows (> 0)
//	integer  weight covered; 0 if runs are not known
//	integer  runs
//	square   their variance
//	integer  outcomes
//	integer  outcomes that took the branch
//	square   their variance
//	integer  from "bfr5" on, visits
//	integer  from "bfra" on, weight covered by walks that were timed
//
// Replayed:
//
//	integer  offset minus that of the entry before
//	integer  walks (> 0)
//	integer  which of these follow: 1 branches, 2 accesses, 4 fetches (> 0)
//	integer  branches (> 0); integer, mispredicted
//	integer  accesses (> 0); integers, near, far, steady, beyond, near pages, far
//	         pages, pages beyond
//	integer  fetches (> 0); integers, near, far
//
// Square:
//
//	integer  upper 64 bits
//	integer  lower 64 bits
//
// Place:
//
//	integer  0 unknown, else 1 + index of its image; minus that of the entry before
//	integer  offset, minus that of the entry before if it has the same image
//
// Stack:
//
//	list     index of each frame's place, the sampled instruction first
//	integer  index of the place that a word at the stack pointer named
//	integer  samples (> 0)
//	list     from "bfrd" on, Moments of them
//
// Branch:
//
//	integer  index of the source's place, minus that of the entry before
//	integer  index of the target's place
//	integer  records (> 0)
//	integer  records that were mispredicted
//
// Range:
//
//	integer  index of the first instruction's place, minus that of the entry before
//	integer  index of the last instruction's place, minus that of the first
//	integer  records (> 0)
//
// Path:
//
//	integer  rank, minus that of the entry before
//	integer  instructions
//	list     branches in the order in which they were taken
//
// each of which is
//
//	integer  index of the source's place, minus that of the target before, as zigzag:
//	         twice the difference, or -1 minus that if it is negative
//	integer  index of the target's place, minus that of the source, as zigzag
//
// Target:
//
//	integer  index of the source's place, minus that of the entry before
//	integer  index of the target's place
//	integer  executions (> 0)
//
// Hot instructions are neighbours, so a sampled place is usually two or three
// bytes, and so is a frame of a stack.
const (
	magic          = "bfr2"
	magicTouched   = "bfr3"
	magicObserved  = "bfr4"
	magicWalked    = "bfr5"
	magicPaths     = "bfr6"
	magicTargets   = "bfr7"
	magicReplayed  = "bfr8"
	magicProcesses = "bfr9"
	magicTimed     = "bfra"
	magicClocked   = "bfrb"
	magicScaled    = "bfrc"
	magicSplit     = "bfrd"
	magicOff       = "bfre"
	magicCounted   = "bfrf"
	magicReturns   = "bfrg"
	magicFaults    = "bfrh"
	magicLast      = magicFaults
)

const headerSize = len(magic) + 4

// stored is a recording as it is stored: with all in order.
type stored struct {
	counts, off []*ordered
	Recording   // the runs of it
}

// versions are those after the first, and what a recording has that is of one of them and of none after it.
var versions = []struct {
	magic, what string
	has         func(*stored) bool
}{
	{magicTouched, "first touches", ofPlaces(func(p places) bool { return len(p.first) > 0 })},
	{magicObserved, "observed counts", ofPlaces(func(p places) bool { return len(p.probed) > 0 || len(p.counted) > 0 })},
	{magicWalked, "walks", ofProbed(func(p Probed) bool { return p.Visits > 0 })},
	{magicPaths, "paths", ofCounts(func(o *ordered) bool { return len(o.head.Paths) > 0 })},
	{magicTargets, "targets", ofCounts(func(o *ordered) bool { return len(o.targets) > 0 })},
	{magicReplayed, "replayed walks", ofPlaces(func(p places) bool { return len(p.replayed) > 0 })},
	{magicProcesses, "processes", ofCounts(func(o *ordered) bool {
		return slices.ContainsFunc(o.head.Images, func(ic *ImageCounts) bool { return ic.Processes > 0 })
	})},
	{magicTimed, "timed walks", ofProbed(func(p Probed) bool { return p.Timed > 0 })},
	{magicClocked, "clocks", ofCounts(func(o *ordered) bool { return o.head.Clocked > 0 })},
	{magicScaled, "samples scaled up", ofCounts(func(o *ordered) bool { return o.head.Excess != Square{} })},
	{magicSplit, "runs, origins, processors or slices", func(r *stored) bool {
		return len(r.Runs) > 0 || r.Unlisted > 0 || slices.ContainsFunc(r.counts, func(o *ordered) bool { return o.head.split() })
	}},
	{magicOff, "time off the processor", func(r *stored) bool { return len(r.off) > 0 }},
	{magicCounted, "how long events were counted", ofCounts(func(o *ordered) bool { return o.head.Enabled > 0 })},
	{magicReturns, "how long system calls return", ofCounts(func(o *ordered) bool { return o.head.Returns > 0 })},
	{magicFaults, "page faults", ofPlaces(func(p places) bool { return len(p.faults) > 0 })},
}

// ofCounts returns what reports whether a recording has Counts that have.
func ofCounts(has func(*ordered) bool) func(*stored) bool {
	return func(r *stored) bool { return slices.ContainsFunc(r.counts, has) }
}

// ofPlaces returns what reports whether a recording has an image whose places have.
func ofPlaces(has func(places) bool) func(*stored) bool {
	return ofCounts(func(o *ordered) bool { return slices.ContainsFunc(o.byImage, has) })
}

// ofProbed returns what reports whether a recording has a place whose Probed has.
func ofProbed(has func(Probed) bool) func(*stored) bool {
	return ofPlaces(func(p places) bool {
		return slices.ContainsFunc(p.probed, func(e entry[Offset, Probed]) bool { return has(e.of) })
	})
}

// ErrFormat is wrapped by every error that blames the bytes rather than the disk.
var ErrFormat = errors.New("malformed recording")

// isMagic reports whether a file that begins so is a recording, of whatever version.
func isMagic(b string) bool {
	n := len(magic) - 1
	return len(b) > n && b[:n] == magic[:n] && ('0' <= b[n] && b[n] <= '9' || 'a' <= b[n] && b[n] <= 'z')
}

// Encode returns the stored form of r, whose Counts pass Check. It depends on what
// was added to r, not on the order.
func (r *Recording) Encode() []byte {
	if !r.isMerged() {
		r = Merge(r)
	}
	return r.inOrder().encode()
}

func (s *stored) encode() []byte {
	e := encoder{Writer: wire.Writer{B: make([]byte, headerSize)}}
	e.magic = magic
	for _, v := range slices.Backward(versions) {
		if v.has(s) {
			e.magic = v.magic
			break
		}
	}
	copy(e.B, e.magic)
	e.all(s.counts)
	if e.magic >= magicSplit {
		e.runs(&s.Recording)
	}
	if e.magic >= magicOff {
		e.all(s.off)
	}
	return seal(e.B)
}

func (e *encoder) all(all []*ordered) {
	e.Int(len(all))
	for _, o := range all {
		e.counts(o)
	}
}

// seal writes the magic, if there is none yet, and the checksum over the first
// bytes of b.
func seal(b []byte) []byte {
	if m := string(b[:len(magic)]); m < magic || m > magicLast {
		copy(b, magic)
	}
	binary.LittleEndian.PutUint32(b[len(magic):], wire.Checksum(b[headerSize:]))
	return b
}

// An encoder appends the parts of a recording.
type encoder struct {
	wire.Writer
	magic string // the version, which says what is written: each has all that those before have

	slices map[uint64]int // of the Counts that is written: index by number
}

func (e *encoder) counts(o *ordered) {
	c := &o.head
	e.String(c.CPU.Arch)
	e.String(c.CPU.Vendor)
	e.Int(c.CPU.Family)
	e.Int(c.CPU.Model)
	e.Int(c.CPU.Stepping)
	e.String(c.CPU.Name)
	e.Int(c.CPU.MHz)
	e.String(c.Event.Name)
	e.Uint(c.Event.Period)
	e.String(c.Event.Unit)
	e.Uint(c.Weight)
	if e.magic >= magicClocked {
		e.Uint(c.Clocked)
		e.Uint(c.Cycles)
	}
	if e.magic >= magicScaled {
		e.square(c.Excess)
	}
	if e.magic >= magicCounted {
		e.Uint(c.Enabled)
		e.Uint(c.Running)
	}
	if e.magic >= magicReturns {
		e.Uint(c.Returns)
		e.Uint(c.Held)
	}
	if e.magic >= magicSplit {
		e.split(c)
	}
	e.losses(c.Lost)
	e.Int(len(c.Images))
	for i, ic := range c.Images {
		e.image(ic, o.byImage[i])
	}
	index := e.places(o)
	e.stacks(c, index)
	putByBranch(e, o.branches, index, e.branch)
	e.ranges(o.ranges, index)
	if e.magic >= magicPaths {
		e.paths(c, index)
	}
	if e.magic >= magicTargets {
		putByBranch(e, o.targets, index, e.Uint)
	}
}

func (e *encoder) losses(lost map[Loss]uint64) {
	e.Int(len(lost))
	for _, why := range slices.Sorted(maps.Keys(lost)) {
		e.String(string(why))
		e.Uint(lost[why])
	}
}

// split writes who ran, where and when.
func (e *encoder) split(c *Counts) {
	e.Int(len(c.Origins))
	for _, o := range slices.SortedFunc(maps.Keys(c.Origins), Origin.Compare) {
		e.String(o.Process)
		e.String(o.Thread)
		e.String(o.Cgroup)
		e.Uint(c.Origins[o])
	}
	e.Int(len(c.Processors))
	last := 0
	for _, cpu := range slices.Sorted(maps.Keys(c.Processors)) {
		e.Int(cpu - last)
		e.Uint(c.Processors[cpu])
		last = cpu
	}
	e.Int(int(c.Step))
	e.Int(len(c.Slices))
	e.slices = make(map[uint64]int, len(c.Slices))
	before := uint64(0)
	for i, s := range slices.Sorted(maps.Keys(c.Slices)) {
		e.Uint(s - before)
		e.losses(c.Slices[s])
		before, e.slices[s] = s, i
	}
}

func (e *encoder) moments(ms []Moment) {
	e.Int(len(ms))
	last := 0
	for _, m := range ms {
		i := e.slices[m.Slice]
		e.Int(i - last)
		e.Uint(m.N)
		last = i
	}
}

func (e *encoder) runs(r *Recording) {
	e.Int(len(r.Runs))
	for _, run := range r.Runs {
		e.Uint(run.Began)
		e.Uint(run.Lasted)
		e.String(run.Host)
		e.Int(len(run.Command))
		for _, arg := range run.Command {
			e.String(arg)
		}
		for _, n := range run.numbers() {
			e.Uint(*n)
		}
		e.Uint(run.Usage.flags())
	}
	e.Uint(r.Unlisted)
}

func (e *encoder) image(ic *ImageCounts, p places) {
	e.B = append(e.B, ic.ID.Build[:]...)
	e.String(ic.ID.Path)
	if e.magic >= magicProcesses {
		e.Uint(ic.Processes)
	}
	putByOffset(e, p.at, e.Uint)
	if e.magic >= magicTouched {
		putByOffset(e, p.first, e.Uint)
	}
	if e.magic >= magicObserved {
		putByOffset(e, p.counted, e.Uint)
		putByOffset(e, p.probed, e.probed)
	}
	if e.magic >= magicReplayed {
		putByOffset(e, p.replayed, e.replayed)
	}
	if e.magic >= magicSplit {
		putByOffset(e, p.when, e.moments)
	}
	if e.magic >= magicFaults {
		putByOffset(e, p.faults, e.Uint)
	}
}

func (e *encoder) replayed(r Replayed) {
	e.Uint(r.Walks)
	parts, mask := r.parts(), 0
	for i, part := range parts {
		if *part[0] > 0 {
			mask |= 1 << i
		}
	}
	e.Int(mask)
	for i, part := range parts {
		if mask>>i&1 != 0 {
			for _, n := range part {
				e.Uint(*n)
			}
		}
	}
}

func (e *encoder) probed(p Probed) {
	e.Uint(p.Windows)
	e.Uint(p.Covered)
	e.Uint(p.Runs)
	e.square(p.Variance)
	e.Uint(p.Outcomes)
	e.Uint(p.Taken)
	e.square(p.Spread)
	if e.magic >= magicWalked {
		e.Uint(p.Visits)
	}
	if e.magic >= magicTimed {
		e.Uint(p.Timed)
	}
}

func (e *encoder) square(s Square) {
	e.Uint(s.Hi)
	e.Uint(s.Lo)
}

// putByOffset writes what there is at some places, by increasing offset.
func putByOffset[V any](e *encoder, all []entry[Offset, V], put func(V)) {
	e.Int(len(all))
	last := Offset(0)
	for _, at := range all {
		e.Uint(uint64(at.key - last))
		put(at.of)
		last = at.key
	}
}

// places writes the places that stacks, branches, ranges, paths and targets refer to and returns
// the index of each.
func (e *encoder) places(o *ordered) map[Frame]int {
	index := map[Frame]int{}
	for _, s := range o.head.Stacks {
		for _, f := range s.Frames {
			index[f] = 0
		}
		index[s.Top] = 0
	}
	for _, b := range o.branches {
		index[b.key.From], index[b.key.To] = 0, 0
	}
	for _, r := range o.ranges {
		index[r.key.first()], index[r.key.last()] = 0, 0
	}
	for _, p := range o.head.Paths {
		for _, b := range p.Branches {
			index[b.From], index[b.To] = 0, 0
		}
	}
	for _, b := range o.targets {
		index[b.key.From], index[b.key.To] = 0, 0
	}
	e.Int(len(index))
	last := Frame{Image: Unknown}
	all := slices.AppendSeq(make([]Frame, 0, len(index)), maps.Keys(index))
	slices.SortFunc(all, compareFrames)
	for i, f := range all {
		e.Int(f.Image - last.Image)
		if f.Image != last.Image {
			last.Off = 0
		}
		e.Uint(uint64(f.Off - last.Off))
		last, index[f] = f, i
	}
	return index
}

func (e *encoder) stacks(c *Counts, index map[Frame]int) {
	e.Int(len(c.Stacks))
	for _, s := range c.Stacks {
		e.Int(len(s.Frames))
		for _, f := range s.Frames {
			e.Int(index[f])
		}
		e.Int(index[s.Top])
		e.Uint(s.N)
		if e.magic >= magicSplit {
			e.moments(s.When)
		}
	}
}

// putByBranch writes what there is of some branches, by source and target.
func putByBranch[V any](e *encoder, all []entry[Branch, V], index map[Frame]int, put func(V)) {
	e.Int(len(all))
	last := 0
	for _, b := range all {
		from := index[b.key.From]
		e.Int(from - last)
		e.Int(index[b.key.To])
		put(b.of)
		last = from
	}
}

func (e *encoder) branch(n BranchCount) {
	e.Uint(n.N)
	e.Uint(n.Mispredicted)
}

func (e *encoder) ranges(all []entry[Range, uint64], index map[Frame]int) {
	e.Int(len(all))
	last := 0
	for _, r := range all {
		first := index[r.key.first()]
		e.Int(first - last)
		e.Int(index[r.key.last()] - first)
		e.Uint(r.of)
		last = first
	}
}

func (e *encoder) paths(c *Counts, index map[Frame]int) {
	e.Int(len(c.Paths))
	rank := uint64(0)
	for _, p := range c.Paths {
		e.Uint(p.Rank - rank)
		e.Uint(p.Insts)
		e.Int(len(p.Branches))
		at := 0
		for _, b := range p.Branches {
			for _, f := range []Frame{b.From, b.To} {
				e.B = binary.AppendVarint(e.B, int64(index[f]-at))
				at = index[f]
			}
		}
		rank = p.Rank
	}
}

func (r Range) first() Frame { return Frame{r.Image, r.First} }
func (r Range) last() Frame  { return Frame{r.Image, r.Last} }

// Decode reads the stored form of a recording. It allocates in proportion to
// the length of b, whatever b says.
func Decode(b []byte) (*Recording, error) {
	r, err := newDecoder(b).recording()
	if err != nil {
		return nil, err
	}
	return r.recording(), nil
}

// Dump lists the fields of an encoded recording for people to read: offset,
// bytes and meaning. It stops with a message where Decode would.
func Dump(b []byte) []byte {
	d := newDecoder(b)
	d.Dump = new(bytes.Buffer)
	if _, err := d.recording(); err != nil {
		fmt.Fprintln(d.Dump, err)
	}
	return d.Dump.Bytes()
}

// A decoder reads the parts of a recording.
type decoder struct {
	wire.Reader
	magic string // the version, as of an encoder

	slices []uint64 // of the Counts that is read: their numbers
}

func newDecoder(b []byte) *decoder { return &decoder{Reader: wire.Reader{B: b, Format: ErrFormat}} }

// int reads an integer that an int holds on any machine.
func (d *decoder) int(field string) int { return int(d.Uint(math.MaxInt32, field)) }

// number reads a number of samples or records; there is no entry without them.
func (d *decoder) number(field string) uint64 {
	off := d.Off
	n := d.count(field)
	if n > MostSamples {
		d.Fail(off, fmt.Sprintf("%s: %d, more than 2^53, which no recording has", field, n))
	}
	return n
}

// count reads a number of which there is no entry if it is 0.
func (d *decoder) count(field string) uint64 {
	off := d.Off
	n := d.Uint(math.MaxUint64, field)
	if n == 0 {
		d.Fail(off, field)
	}
	return n
}

// after reads the difference to last of a number that is larger, or the number
// itself if it is the first.
func (d *decoder) after(last uint64, first bool, field string) uint64 {
	off := d.Off
	v := d.Uint(math.MaxUint64-last, field)
	if v == 0 && !first {
		d.Fail(off, field)
	}
	return last + v
}

// place reads an index into places and marks it as used.
func (d *decoder) place(base int, places []reference, field string) (int, Frame) {
	off := d.Off
	i := base + int(d.Uint(uint64(len(places)), field))
	if d.Err != nil || i >= len(places) {
		d.Fail(off, field)
		return 0, Frame{Image: Unknown}
	}
	places[i].used = true
	return i, places[i].Frame
}

// A reference is a Frame, and whether anything refers to it yet.
type reference struct {
	Frame
	used bool
}

func (d *decoder) recording() (*stored, error) {
	switch d.magic = string(d.Bytes(len(magic), "magic")); {
	case d.magic >= magic && d.magic <= magicLast && isMagic(d.magic):
	case isMagic(d.magic) && d.magic > magicLast:
		d.Fail(0, fmt.Sprintf("version %q, this backfeed reads up to %q: written by a newer backfeed, use that one", d.magic, magicLast))
	case isMagic(d.magic):
		d.Fail(0, fmt.Sprintf("version %q, want %q: record anew", d.magic, magic))
	default:
		d.Fail(0, "magic")
	}
	d.Note("magic")
	ours := d.Err == nil
	sum := d.Bytes(4, "checksum")
	if d.Err == nil && binary.LittleEndian.Uint32(sum) != wire.Checksum(d.B[d.Off:]) {
		d.Fail(len(magic), "checksum")
	}
	if ours && d.Err != nil {
		d.Err = fmt.Errorf("%w, broken off or changed since it was written", d.Err)
	}
	d.Note("checksum")
	r := &stored{}
	var err error
	if r.counts, err = d.all("counts", (*ordered).check); err != nil {
		return nil, err
	}
	if d.magic >= magicSplit {
		start := d.Off
		d.runs(&r.Recording)
		if err := r.checkRuns(); err != nil {
			d.Fail(start, err.Error())
		}
	}
	if d.magic >= magicOff {
		if r.off, err = d.all("time off the processor", (*ordered).checkOff); err != nil {
			return nil, err
		}
	}
	if d.Off != len(d.B) {
		d.Fail(d.Off, "end of file")
	}
	for _, v := range versions {
		if d.magic == v.magic && d.Err == nil && !v.has(r) {
			d.Fail(d.Off, v.what+", of which there are none")
		}
	}
	if d.Err != nil {
		return nil, d.Err
	}
	return r, nil
}

// all reads a list of Counts, each of which check has nothing against: what Counts promise, beyond what their encoding does.
func (d *decoder) all(list string, check func(*ordered) error) (all []*ordered, err error) {
	for range d.List(17, list) {
		off := d.Off
		o := d.counts()
		if n := len(all); n > 0 && compareCounts(&all[n-1].head, &o.head) >= 0 {
			d.Fail(off, "order of counts")
		}
		if d.Err != nil {
			break
		}
		if err := check(o); err != nil {
			return nil, fmt.Errorf("offset %#x: %w: %w", off, err, ErrFormat)
		}
		all = append(all, o)
	}
	return all, nil
}

func (d *decoder) counts() *ordered {
	o := &ordered{head: *NewCounts(d.cpu(), d.event())}
	c := &o.head
	c.Weight = d.Uint(math.MaxUint64, "weight")
	d.Note("weight %d", c.Weight)
	if d.magic >= magicClocked {
		c.Clocked = d.Uint(math.MaxUint64, "clocked")
		c.Cycles = d.Uint(math.MaxUint64, "cycles")
		d.Note("clock %d cycles in %d ns", c.Cycles, c.Clocked)
	}
	if d.magic >= magicScaled {
		c.Excess = d.square("excess of the variance")
		d.Note("variance %g more than the number of samples", c.Excess.Float64())
	}
	if d.magic >= magicCounted {
		c.Enabled = d.Uint(math.MaxUint64, "ns enabled")
		c.Running = d.Uint(math.MaxUint64, "ns running")
		d.Note("counted %d of %d ns", c.Running, c.Enabled)
	}
	if d.magic >= magicReturns {
		c.Returns = d.Uint(math.MaxUint64, "returns of system calls")
		c.Held = d.Uint(math.MaxUint64, "cycles of returns")
		d.Note("interrupts held up for %d cycles in %d returns", c.Held, c.Returns)
	}
	if d.magic >= magicSplit {
		d.split(c)
	}
	d.losses(c.Lose)
	d.images(o)
	places := d.places(c)
	d.stacks(c, places)
	d.branches(o, places)
	d.ranges(o, places)
	if d.magic >= magicPaths {
		d.paths(c, places)
	}
	if d.magic >= magicTargets {
		d.targets(o, places)
	}
	for _, p := range places {
		if !p.used {
			d.Fail(d.Off, "place that nothing refers to")
		}
	}
	return o
}

func (d *decoder) cpu() CPU {
	cpu := CPU{
		Arch:     d.String("architecture"),
		Vendor:   d.String("vendor"),
		Family:   d.int("family"),
		Model:    d.int("model"),
		Stepping: d.int("stepping"),
		Name:     d.String("CPU name"),
		MHz:      d.int("clock"),
	}
	d.Note("CPU %+v", cpu)
	return cpu
}

func (d *decoder) event() Event {
	ev := Event{
		Name:   d.String("event"),
		Period: d.Uint(math.MaxUint64, "period"),
		Unit:   d.String("unit"),
	}
	d.Note("event %+v", ev)
	return ev
}

// losses reads samples without a place by reason, and hands them to lose.
func (d *decoder) losses(lose func(Loss, uint64)) {
	last := Loss("")
	for i := range d.List(2, "losses") {
		off := d.Off
		why := Loss(d.String("reason"))
		if i > 0 && why <= last {
			d.Fail(off, "order of losses")
		}
		n := d.number("lost samples")
		d.Note("%q: %d samples", string(why), n)
		lose(why, n)
		last = why
		if d.Err != nil {
			return
		}
	}
}

// split reads who ran, where and when.
func (d *decoder) split(c *Counts) {
	var before Origin
	for i := range d.List(4, "origins") {
		start := d.Off
		o := Origin{d.String("process"), d.String("thread"), d.String("cgroup")}
		if i > 0 && before.Compare(o) >= 0 || o == (Origin{}) {
			d.Fail(start, "order of origins")
		}
		n := d.number("samples of origin")
		if d.Err != nil {
			return
		}
		d.Note("process %q, thread %q, cgroup %q: %d samples", o.Process, o.Thread, o.Cgroup, n)
		c.AddOrigin(o, n)
		before = o
	}
	cpu := uint64(0)
	for i := range d.List(2, "processors") {
		start := d.Off
		if cpu = d.after(cpu, i == 0, "processor"); cpu > MostProcessor {
			d.Fail(start, "processor")
		}
		n := d.number("samples on processor")
		if d.Err != nil {
			return
		}
		d.Note("processor %d: %d samples", cpu, n)
		c.AddProcessor(int(cpu), n)
	}
	c.Step = uint8(d.Uint(maxStep, "step"))
	d.Note("slices of %v", c.SliceLength())
	start := d.Off
	many := d.List(2, "slices")
	if many > MaxSlices {
		d.Fail(start, "slices")
		return
	}
	d.slices = make([]uint64, 0, many)
	slice := uint64(0)
	for i := range many {
		slice = d.after(slice, i == 0, "slice")
		if d.Err != nil {
			return
		}
		if c.Slices == nil {
			c.Slices = map[uint64]map[Loss]uint64{}
		}
		c.Slices[slice] = nil
		d.slices = append(d.slices, slice)
		d.Note("slice %d", slice)
		d.losses(func(why Loss, n uint64) { c.LoseAt(slice, why, n) })
	}
}

// moments reads samples by slice.
func (d *decoder) moments(least int) []Moment {
	start := d.Off
	many := d.Len(2, "moments")
	if many < least || many > len(d.slices) {
		d.Fail(start, "moments")
	}
	if d.Err != nil || many == 0 {
		return nil
	}
	ms := make([]Moment, 0, many)
	index := uint64(0)
	for i := range many {
		at := d.Off
		if index = d.after(index, i == 0, "slice"); index >= uint64(len(d.slices)) {
			d.Fail(at, "slice")
		}
		n := d.number("samples in slice")
		if d.Err != nil {
			return nil
		}
		ms = append(ms, Moment{d.slices[index], n})
	}
	return ms
}

func (d *decoder) runs(r *Recording) {
	start := d.Off
	many := d.List(14, "runs")
	if many > MaxRuns {
		d.Fail(start, "runs")
	}
	for range many {
		run := Run{
			Began:  d.Uint(math.MaxInt64, "begin of run"),
			Lasted: d.Uint(math.MaxInt64, "length of run"),
			Host:   d.String("host"),
		}
		for range d.Len(1, "command") {
			run.Command = append(run.Command, d.String("argument"))
		}
		for _, n := range run.numbers() {
			*n = d.Uint(math.MaxUint64, "usage of run")
		}
		run.Usage.Under = d.Uint(1, "memory is a bound") == 1
		if d.Err != nil {
			return
		}
		d.Note("run: %+v", run)
		r.Runs = append(r.Runs, run)
	}
	r.Unlisted = d.Uint(math.MaxUint64, "runs unlisted")
	d.Note("%d runs unlisted", r.Unlisted)
}

func (d *decoder) images(o *ordered) {
	n := d.List(len(BuildID{})+2, "images")
	o.head.Images, o.byImage = make([]*ImageCounts, 0, n), make([]places, 0, n)
	var last ImageID
	for i := range n {
		off := d.Off
		var id ImageID
		copy(id.Build[:], d.Bytes(len(id.Build), "build ID"))
		id.Path = d.String("path")
		d.Note("image %d: %s", i, id)
		if id == (ImageID{}) || i > 0 && last.Key().Compare(id.Key()) >= 0 {
			d.Fail(off, "order of images")
		}
		if d.Err != nil {
			return
		}
		ic := &ImageCounts{ID: id}
		if d.magic >= magicProcesses {
			ic.Processes = d.Uint(math.MaxUint64, "processes")
			d.Note("%d processes", ic.Processes)
		}
		o.head.Images = append(o.head.Images, ic)
		o.byImage = append(o.byImage, d.image())
		for _, e := range o.byImage[i].at {
			o.head.Total = addSamples(o.head.Total, e.of)
		}
		if d.Err != nil {
			return
		}
		last = id
	}
}

// image reads what is known of the places of an image.
func (d *decoder) image() (p places) {
	p.at = readByOffset(d, 2, "places with samples", "%#x: %d samples", func() uint64 { return d.number("samples") })
	if d.magic >= magicTouched {
		p.first = readByOffset(d, 2, "first touches", "%#x: first touched after %d us", func() uint64 { return d.Uint(MaxFirst, "first touch") })
	}
	if d.magic >= magicObserved {
		p.counted = readByOffset(d, 2, "places counted", "%#x: %d executions", func() uint64 { return d.Uint(math.MaxUint64, "executions") })
		p.probed = readByOffset(d, 10, "places probed", "%#x: %+v", d.probed)
	}
	if d.magic >= magicReplayed {
		p.replayed = readByOffset(d, 5, "places replayed", "%#x: %+v", d.replayed)
	}
	if d.magic >= magicSplit {
		p.when = readByOffset(d, 4, "places with moments", "%#x: samples by slice %v", func() []Moment { return d.moments(1) })
	}
	if d.magic >= magicFaults {
		p.faults = readByOffset(d, 2, "places with page faults", "%#x: %d page faults", func() uint64 { return d.number("page faults") })
	}
	return p
}

// readByOffset reads a list of places with something each, by increasing offset, in entries of so many bytes at
// least. The note is told of each. It returns nil if there are none.
func readByOffset[V any](d *decoder, least int, list, note string, read func() V) []entry[Offset, V] {
	n := d.List(least, list)
	if n == 0 {
		return nil
	}
	all := make([]entry[Offset, V], 0, n)
	off := uint64(0)
	for i := range n {
		off = d.after(off, i == 0, "file offset")
		v := read()
		if d.Err != nil {
			return nil
		}
		if d.Dumps() {
			d.Note(note, off, v)
		}
		all = append(all, entry[Offset, V]{Offset(off), v})
	}
	return all
}

func (d *decoder) probed() Probed {
	p := Probed{
		Windows:  d.count("windows"),
		Covered:  d.Uint(math.MaxUint64, "weight covered"),
		Runs:     d.Uint(math.MaxUint64, "runs"),
		Variance: d.square("variance of runs"),
		Outcomes: d.Uint(math.MaxUint64, "outcomes"),
		Taken:    d.Uint(math.MaxUint64, "taken"),
		Spread:   d.square("variance of taken"),
	}
	if d.magic >= magicWalked {
		p.Visits = d.Uint(math.MaxUint64, "visits")
	}
	if d.magic >= magicTimed {
		p.Timed = d.Uint(math.MaxUint64, "weight covered by walks that were timed")
	}
	return p
}

func (d *decoder) replayed() Replayed {
	r := Replayed{Walks: d.count("walks")}
	start := d.Off
	mask := d.Uint(7, "what was replayed")
	if mask == 0 {
		d.Fail(start, "what was replayed")
	}
	for k, part := range r.parts() {
		if mask>>k&1 == 0 {
			continue
		}
		*part[0] = d.count("executions replayed")
		for _, n := range part[1:] {
			*n = d.Uint(math.MaxUint64, "executions replayed")
		}
	}
	return r
}

func (d *decoder) square(field string) Square {
	return Square{Hi: d.Uint(math.MaxUint64, field), Lo: d.Uint(math.MaxUint64, field)}
}

func (d *decoder) places(c *Counts) []reference {
	n := d.List(2, "places in stacks, branches, ranges, paths and targets")
	places := make([]reference, 0, n)
	last := Frame{Image: Unknown}
	for i := range n {
		start := d.Off
		step := int(d.Uint(uint64(len(c.Images)), "image"))
		first := i == 0 || step > 0 // the first place of its image
		f := Frame{Image: last.Image + step}
		if f.Image >= len(c.Images) {
			d.Fail(start, "image")
		}
		if first {
			last.Off = 0
		}
		f.Off = Offset(d.after(uint64(last.Off), first, "place"))
		if f.Image == Unknown && f.Off != 0 {
			d.Fail(start, "place")
		}
		if d.Err != nil {
			return nil
		}
		if d.Dumps() {
			d.Note("place %d: %v", i, f)
		}
		places = append(places, reference{Frame: f})
		last = f
	}
	return places
}

func (d *decoder) stacks(c *Counts, places []reference) {
	n := d.List(4, "stacks")
	c.Stacks = make([]Stack, 0, n)
	var room []Frame // of several stacks
	for i := range n {
		start := d.Off
		depth := d.Len(1, "frames")
		if depth > len(room) {
			room = make([]Frame, max(depth, min(4096, d.Left())))
		}
		s := Stack{Frames: room[:depth:depth]}
		room = room[depth:]
		for k := range s.Frames {
			_, s.Frames[k] = d.place(0, places, "frame")
		}
		_, s.Top = d.place(0, places, "top")
		if i > 0 && compareStacks(c.Stacks[i-1], s) >= 0 {
			d.Fail(start, "order of stacks")
		}
		s.N = d.number("samples of stack")
		if d.magic >= magicSplit {
			s.When = d.moments(0)
		}
		if d.Err != nil {
			return
		}
		if d.Dumps() {
			d.Note("%v, top %v: %d samples", s.Frames, s.Top, s.N)
			if len(s.When) > 0 {
				d.Note("of them by slice %v", s.When)
			}
		}
		c.Stacks = append(c.Stacks, s)
	}
}

func (d *decoder) branches(o *ordered, places []reference) {
	o.branches = readByBranch(d, 4, "branches", places, func(b Branch, _ int) BranchCount {
		n := BranchCount{N: d.number("records"), Mispredicted: d.Uint(math.MaxUint64, "mispredicted")}
		if d.Dumps() {
			d.Note("%v > %v: %d records, %d mispredicted", b.From, b.To, n.N, n.Mispredicted)
		}
		return n
	})
}

func (d *decoder) targets(o *ordered, places []reference) {
	o.targets = readByBranch(d, 3, "targets", places, func(b Branch, start int) uint64 {
		n := d.Uint(math.MaxUint64, "executions")
		if n == 0 {
			d.Fail(start, "executions")
		}
		if d.Dumps() {
			d.Note("%v > %v: %d executions", b.From, b.To, n)
		}
		return n
	})
}

// readByBranch reads a list of branches by source and target, in entries of so many bytes at least, with what read returns
// of each, which started there.
func readByBranch[V any](d *decoder, least int, list string, places []reference, read func(b Branch, start int) V) []entry[Branch, V] {
	var last Branch
	index := 0
	n := d.List(least, list)
	all := make([]entry[Branch, V], 0, n)
	for i := range n {
		start := d.Off
		var b Branch
		index, b.From = d.place(index, places, "source")
		_, b.To = d.place(0, places, "target")
		if i > 0 && compareBranches(last, b) >= 0 {
			d.Fail(start, "order of "+list)
		}
		v := read(b, start)
		if d.Err != nil {
			return nil
		}
		all = append(all, entry[Branch, V]{b, v})
		last = b
	}
	return all
}

func (d *decoder) ranges(o *ordered, places []reference) {
	var last Range
	index := 0
	many := d.List(3, "ranges")
	o.ranges = make([]entry[Range, uint64], 0, many)
	for i := range many {
		start := d.Off
		var f, l Frame
		index, f = d.place(index, places, "first instruction")
		_, l = d.place(index, places, "last instruction")
		r := Range{f.Image, f.Off, l.Off}
		if f.Image != l.Image || i > 0 && compareRanges(last, r) >= 0 {
			d.Fail(start, "range")
		}
		n := d.number("records")
		if d.Err != nil {
			return
		}
		if d.Dumps() {
			d.Note("%v to %#x: %d records", f, uint64(l.Off), n)
		}
		o.ranges = append(o.ranges, entry[Range, uint64]{r, n})
		last = r
	}
}

func (d *decoder) paths(c *Counts, places []reference) {
	n := d.List(5, "paths")
	paths := make([]Path, 0, min(n, MaxPaths))
	rank := uint64(0)
	for range n {
		start := d.Off
		rank += d.Uint(MaxRank-rank, "rank")
		p := Path{Rank: rank, Insts: d.Uint(math.MaxUint64, "instructions")}
		many := d.Len(2, "branches of path")
		if many > MaxPathBranches || len(paths) == MaxPaths {
			d.Fail(start, "path")
		}
		if d.Err != nil {
			return
		}
		d.Note("rank %#x: %d instructions, %d branches", p.Rank, p.Insts, many)
		p.Branches = make([]Branch, 0, many)
		at := 0
		for range many {
			var b Branch
			at, b.From = d.near(at, places, "source")
			at, b.To = d.near(at, places, "target")
			if d.Dumps() {
				d.Note("%v > %v", b.From, b.To)
			}
			p.Branches = append(p.Branches, b)
		}
		if d.Err != nil {
			return
		}
		paths = append(paths, p)
	}
	c.Paths = paths
}

// near reads the difference of an index into places to another one, and marks it as used.
func (d *decoder) near(base int, places []reference, field string) (int, Frame) {
	off := d.Off
	v := d.Uint(math.MaxUint32, field)
	i := base + int(int64(v>>1)^-int64(v&1))
	if d.Err != nil || i < 0 || i >= len(places) {
		d.Fail(off, field)
		return 0, Frame{Image: Unknown}
	}
	places[i].used = true
	return i, places[i].Frame
}
