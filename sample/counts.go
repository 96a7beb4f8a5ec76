package sample

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// NewCounts returns empty Counts, to be filled by the Add methods, Lose and, where
// the period of each sample is known, additions to Weight.
//
// Sums do not wrap: those of samples and of records stay at MostSamples, others at the largest
// uint64. Every sum is then the smaller of that and the true one, in whatever order it was made.
func NewCounts(cpu CPU, ev Event) *Counts {
	return &Counts{
		CPU:      cpu,
		Event:    ev,
		Lost:     map[Loss]uint64{},
		Branches: map[Branch]BranchCount{},
		Ranges:   map[Range]uint64{},
	}
}

// OfInterrupts reports whether samples were taken by a timer's interrupts, and in the kernel too unless that was left out. Samples that a program takes
// of itself by signals, as those of runtime/pprof, have the event of the same name, but no processor: of a system call they are where it returns,
// and so are those of ptrace.
func (c *Counts) OfInterrupts() bool { return c.CPU.Arch != "" && c.Event.OfTimer() }

// Key is what images are told apart by: the build ID, or the path for want of one.
// Images of equal keys are one image.
func (id ImageID) Key() ImageID {
	if !id.Build.IsZero() {
		id.Path = ""
	}
	return id
}

// Image returns the index of an image in c.Images, to which it is added if it is
// new. Of the paths that an image with a build ID is seen at, the smallest is
// kept. An id without build ID and path names nothing and has the key Unknown.
func (c *Counts) Image(id ImageID) int {
	if id == (ImageID{}) {
		return Unknown
	}
	if c.images == nil || len(c.images) != len(c.Images) {
		c.images = make(map[ImageID]int, len(c.Images))
		for i, ic := range c.Images {
			c.images[ic.ID.Key()] = i
		}
	}
	i, ok := c.images[id.Key()]
	if !ok {
		i = len(c.Images)
		c.images[id.Key()] = i
		c.Images = append(c.Images, &ImageCounts{ID: id, At: map[Offset]uint64{}})
	}
	if old := &c.Images[i].ID.Path; *old == "" || id.Path != "" && id.Path < *old {
		*old = id.Path
	}
	return i
}

// AddSample adds n samples at a place of c.Images[image]. Samples of no image
// are for Lose.
func (c *Counts) AddSample(image int, off Offset, n uint64) {
	if n == 0 {
		return
	}
	at := c.Images[image].At
	at[off] = addSamples(at[off], n)
	c.Total = addSamples(c.Total, n)
}

// Touch says that the code at a place of c.Images[image] had been entered a number
// of us after a process began its program: a sample was taken there, or in what it
// called. Of several such times the least is kept, of whatever process, so that
// touches merge in any order as counts do.
func (c *Counts) Touch(image int, off Offset, us uint64) {
	if us > MaxFirst {
		return
	}
	ic := c.Images[image]
	if ic.First == nil {
		ic.First = map[Offset]uint64{}
	}
	if old, ok := ic.First[off]; !ok || us < old {
		ic.First[off] = us
	}
}

// TouchStack is Touch for the places of a stack: the sampled instruction, and the
// calls that its return addresses come after.
func (c *Counts) TouchStack(frames []Frame, us uint64) {
	for i, f := range frames {
		if f.Image == Unknown {
			continue
		}
		if i > 0 && f.Off > 0 {
			f.Off-- // into the call, which may be the last of its procedure
		}
		c.Touch(f.Image, f.Off, us)
	}
}

// AddFaults adds n page faults of the instruction at a place of c.Images[image].
func (c *Counts) AddFaults(image int, off Offset, n uint64) {
	if n == 0 {
		return
	}
	ic := c.Images[image]
	if ic.Faults == nil {
		ic.Faults = map[Offset]uint64{}
	}
	ic.Faults[off] = addSamples(ic.Faults[off], n)
}

// Lose adds n samples that have no place in an image.
func (c *Counts) Lose(why Loss, n uint64) {
	if n == 0 {
		return
	}
	if c.Lost == nil {
		c.Lost = map[Loss]uint64{}
	}
	c.Lost[why] = addSamples(c.Lost[why], n)
	c.Total = addSamples(c.Total, n)
}

// AddStack says that n samples, which AddSample was told of, had this call
// stack: the sampled instruction, then return addresses. It keeps no reference
// to frames.
func (c *Counts) AddStack(frames []Frame, n uint64) {
	c.AddStackTop(frames, Frame{Image: Unknown}, n)
}

// AddStackTop is AddStack where the words at the stack pointer are known, too.
func (c *Counts) AddStackTop(frames []Frame, top Frame, n uint64) { c.addStack(frames, top, n) }

// AddStackAt is AddStackTop where it is known in which slice of c the samples were taken.
func (c *Counts) AddStackAt(frames []Frame, top Frame, slice, n uint64) {
	if i := c.addStack(frames, top, n); i >= 0 {
		c.Stacks[i].When = addMoment(c.Stacks[i].When, slice, n)
	}
}

// addStack returns the index of the stack in c.Stacks; -1 if there is none.
func (c *Counts) addStack(frames []Frame, top Frame, n uint64) int {
	if n == 0 || len(frames) == 0 {
		return -1
	}
	if c.stacks == nil || len(c.stacks) != len(c.Stacks) {
		c.stacks = make(map[string]int, len(c.Stacks))
		for i, s := range c.Stacks {
			c.stacks[string(c.stackKey(s.Frames, s.Top))] = i
		}
	}
	key := c.stackKey(frames, top)
	i, ok := c.stacks[string(key)]
	if !ok {
		i = len(c.Stacks)
		c.stacks[string(key)] = i
		c.Stacks = append(c.Stacks, Stack{Frames: slices.Clone(frames), Top: top})
	}
	c.Stacks[i].N = addSamples(c.Stacks[i].N, n)
	return i
}

// stackKey returns a string that no other stack has, valid until the next call.
func (c *Counts) stackKey(frames []Frame, top Frame) []byte {
	b := binary.AppendVarint(c.scratch[:0], int64(top.Image))
	b = binary.AppendUvarint(b, uint64(top.Off))
	for _, f := range frames {
		b = binary.AppendVarint(b, int64(f.Image))
		b = binary.AppendUvarint(b, uint64(f.Off))
	}
	c.scratch = b
	return b
}

// AddBranch adds n records of a branch, of which some were mispredicted.
func (c *Counts) AddBranch(b Branch, n, mispredicted uint64) {
	if n == 0 {
		return
	}
	if c.Branches == nil {
		c.Branches = map[Branch]BranchCount{}
	}
	c.Branches[b] = c.Branches[b].plus(BranchCount{N: n, Mispredicted: mispredicted})
}

func (n BranchCount) plus(o BranchCount) BranchCount {
	return BranchCount{N: addSamples(n.N, o.N), Mispredicted: addSamples(n.Mispredicted, o.Mispredicted)}
}

// AddRange adds n records of code that ran straight through.
func (c *Counts) AddRange(r Range, n uint64) {
	if n == 0 {
		return
	}
	if c.Ranges == nil {
		c.Ranges = map[Range]uint64{}
	}
	c.Ranges[r] = addSamples(c.Ranges[r], n)
}

// add returns a+b, or the largest uint64 where that is larger still.
func add(a, b uint64) uint64 {
	sum, carry := bits.Add64(a, b, 0)
	if carry != 0 {
		return math.MaxUint64
	}
	return sum
}

// MostSamples bounds samples, records of branches, and their sums: up to here a float64 tells them apart. A million
// processors with 1000 samples a second each take that in 104 days. A file with a larger number is refused; a sum that
// stays here is taken for wrong where shares are made of it.
const MostSamples = 1 << 53

// addSamples returns a+b, or MostSamples where that is larger.
func addSamples(a, b uint64) uint64 { return min(add(a, b), MostSamples) }

// Delivered is the number of samples that the kernel handed over: all but those
// that it dropped. Weight is the sum of their periods.
func (c *Counts) Delivered() uint64 {
	var n uint64
	for _, ic := range c.Images {
		n = addSamples(n, ic.Samples())
	}
	return addSamples(n, c.lostDelivered())
}

// lostDelivered is the number of samples that the kernel handed over, and that have no place.
func (c *Counts) lostDelivered() (n uint64) {
	for why, lost := range c.Lost {
		if why != LostDropped {
			n = addSamples(n, lost)
		}
	}
	return n
}

// anyDelivered is whether Delivered is more than 0, which is found sooner.
func (c *Counts) anyDelivered() bool {
	return slices.ContainsFunc(c.Images, func(ic *ImageCounts) bool { return len(ic.At) > 0 }) || c.lostDelivered() > 0
}

// MeanPeriod is the mean number of events between two samples; 0 if unknown.
func (c *Counts) MeanPeriod() float64 {
	if n := c.Delivered(); n > 0 && c.Weight > 0 {
		return float64(c.Weight) / float64(n)
	}
	return float64(c.Event.Period)
}

// Clock returns the cycles that passed in a ns while samples were taken, in the mean of those of which that is known; 0 if
// it is of none.
func (c *Counts) Clock() float64 {
	if c.Clocked == 0 {
		return 0
	}
	return float64(c.Cycles) / float64(c.Clocked)
}

// ReturnCycles is for how many cycles interrupts are held up where a system call returns, in the mean of those that were timed; 0 if it
// is not known.
func (c *Counts) ReturnCycles() float64 {
	if c.Returns == 0 {
		return 0
	}
	return float64(c.Held) / float64(c.Returns)
}

// MostHeld bounds the cycles that a return of a system call holds interrupts up.
const MostHeld = 1_000_000

// Reliability is the part of the time in which the event of these counts was counted, of that in which it was to be: 1 where it had a
// counter of its own. What samples say of the rest is an extrapolation. It is what VTune calls MUX reliability. known is false where
// nothing says for how long it was counted.
func Reliability(counts []*Counts) (r float64, known bool) {
	var enabled, running uint64
	for _, c := range counts {
		enabled, running = add(enabled, c.Enabled), add(running, c.Running)
	}
	if enabled == 0 {
		return 0, false
	}
	return float64(running) / float64(enabled), true
}

// AlwaysCounted is the Reliability from which on an event is taken to have had a counter of its own: switching events on and off
// takes some, too.
const AlwaysCounted = 0.98

// Measure takes over what of knows of all its samples together: what they stand for, the clock, how long the event was counted, and
// how their number varies. It is for other counts of the same samples.
func (c *Counts) Measure(of *Counts) {
	c.Weight, c.Clocked, c.Cycles, c.Excess = of.Weight, of.Clocked, of.Cycles, of.Excess
	c.Enabled, c.Running = of.Enabled, of.Running
	c.Returns, c.Held = of.Returns, of.Held
}

// Dispersion is how many times as large the variance of a number of samples is as chance makes it: 1, or more where samples
// were scaled up, as one that counts for nine is not nine. So many samples tell as much as their number divided by it.
// A sum has the mean of its parts, by samples: Kish's effective size (Survey Sampling, 1965, section 11.7).
func (c *Counts) Dispersion() float64 { return Dispersion([]*Counts{c}) }

// Dispersion is that of the sum of all Counts.
func Dispersion(cs []*Counts) float64 {
	var total float64
	for _, c := range cs {
		total += float64(c.Total)
	}
	excess := Excess(cs)
	if excess == 0 {
		return 1
	}
	return (total + excess) / total
}

// Excess is the sum of that of all Counts.
func Excess(cs []*Counts) (sum float64) {
	for _, c := range cs {
		sum += c.Excess.Float64()
	}
	return sum
}

// ExcessOf is the part of Excess that n of all samples have.
func (c *Counts) ExcessOf(n uint64) Square {
	if c.Excess == (Square{}) {
		return Square{}
	}
	return SquareOf(c.Excess.Float64() * float64(n) / float64(c.Total))
}

// A processor has a clock between these, in cycles per ns. What is called so elsewhere is none.
const (
	LeastClock = 0.1
	MostClock  = 10
)

// merge adds o to c.
func (c *Counts) merge(o *Counts) {
	shorter := c.mergeWhole(o, c.anyDelivered(), o.anyDelivered())
	index := make([]int, len(o.Images))
	for i, ic := range o.Images {
		index[i] = c.Image(ic.ID)
		c.mergeImage(index[i], ic, shorter)
	}
	var frames []Frame
	for _, s := range o.Stacks {
		frames = renumber(append(frames[:0], s.Frames...), index)
		k := c.addStack(frames, renumbered(s.Top, index), s.N)
		for _, m := range s.When {
			c.Stacks[k].When = addMoment(c.Stacks[k].When, m.Slice>>shorter, m.N)
		}
	}
	c.mergeRest(o, index)
}

// mergeImage adds ic to c.Images[i]. The slices of ic are shorter by that many powers of two.
func (c *Counts) mergeImage(i int, ic *ImageCounts, shorter uint8) {
	c.AddProcesses(i, ic.Processes)
	for off, n := range ic.At {
		c.AddSample(i, off, n)
	}
	for off, us := range ic.First {
		c.Touch(i, off, us)
	}
	for off, p := range ic.Probed {
		c.AddProbed(i, off, p)
	}
	for off, r := range ic.Replayed {
		c.AddReplayed(i, off, r)
	}
	for off, n := range ic.Counted {
		c.AddCounted(i, off, n)
	}
	for off, n := range ic.Faults {
		c.AddFaults(i, off, n)
	}
	for off, when := range ic.When {
		for _, m := range when {
			c.AddMoment(i, off, m.Slice>>shorter, m.N)
		}
	}
}

// mergeRest adds what o has besides images and stacks. index has the number in c of each image of o.
func (c *Counts) mergeRest(o *Counts, index []int) {
	for why, n := range o.Lost {
		c.Lose(why, n)
	}
	for b, n := range o.Branches {
		c.AddBranch(Branch{renumbered(b.From, index), renumbered(b.To, index)}, n.N, n.Mispredicted)
	}
	for r, n := range o.Ranges {
		c.AddRange(Range{index[r.Image], r.First, r.Last}, n)
	}
	c.mergePaths(o.Paths, func(f Frame) Frame { return renumbered(f, index) })
	for b, n := range o.Targets {
		c.AddTarget(Branch{renumbered(b.From, index), renumbered(b.To, index)}, n)
	}
}

// renumbered returns f with the new number of its image.
func renumbered(f Frame, index []int) Frame {
	if f.Image != Unknown {
		f.Image = index[f.Image]
	}
	return f
}

// renumber is renumbered of each frame, in place.
func renumber(frames []Frame, index []int) []Frame {
	for i, f := range frames {
		frames[i] = renumbered(f, index)
	}
	return frames
}

// mergeWhole adds what o says of all its samples together, and returns by how much shorter its slices are. It is told whether
// any of the samples of both were delivered.
func (c *Counts) mergeWhole(o *Counts, mine, theirs bool) (shorter uint8) {
	// A sum with an unknown part is unknown, and so is one too large to hold.
	// Counts without delivered samples have no weight to know.
	sum, carry := bits.Add64(c.Weight, o.Weight, 0)
	if mine && c.Weight == 0 || theirs && o.Weight == 0 || carry != 0 {
		sum = 0
	}
	c.Weight = sum
	c.Clocked, c.Cycles = add(c.Clocked, o.Clocked), add(c.Cycles, o.Cycles)
	c.Enabled, c.Running = add(c.Enabled, o.Enabled), add(c.Running, o.Running)
	c.Returns, c.Held = add(c.Returns, o.Returns), add(c.Held, o.Held)
	c.Excess = c.Excess.Add(o.Excess)
	c.mergeSplit(o)
	return c.mergeSlices(o)
}

// WithoutStacks returns c without call stacks. It shares all else with c.
func (c *Counts) WithoutStacks() *Counts {
	d := *c
	d.Stacks, d.stacks, d.scratch = nil, nil, nil
	return &d
}

// WithoutStacks returns r without call stacks of time on the processor. It shares all else with r.
func (r *Recording) WithoutStacks() *Recording {
	d := *r
	d.Counts = make([]*Counts, len(r.Counts))
	for i, c := range r.Counts {
		d.Counts[i] = c.WithoutStacks()
	}
	return &d
}

// sumOf returns the sum of counts of one processor and event, at least one of them. It depends on what was added to them but not
// on the order: images are by ID, stacks by frames and top.
func sumOf(cs ...*Counts) *Counts {
	s := sumImages(cs)
	for _, c := range cs {
		s.merge(c)
	}
	slices.SortFunc(s.Stacks, compareStacks)
	s.stacks = nil // the indices in it are those before sorting
	return s
}

// sumImages returns empty Counts with the images of the sum of cs, by ID.
func sumImages(cs []*Counts) *Counts {
	var named Counts // each image with the path that it has in the sum
	for _, c := range cs {
		for _, ic := range c.Images {
			named.Image(ic.ID)
		}
	}
	slices.SortFunc(named.Images, func(a, b *ImageCounts) int { return a.ID.Compare(b.ID) })
	s := NewCounts(cs[0].CPU, cs[0].Event)
	for _, ic := range named.Images {
		s.Image(ic.ID)
	}
	return s
}

func compareFrames(a, b Frame) int {
	if a.Image != b.Image {
		return cmp.Compare(a.Image, b.Image)
	}
	return cmp.Compare(a.Off, b.Off)
}

func compareStacks(a, b Stack) int { return a.compare(&b) }

// compare orders stacks by their frames, then by what is on top of them.
func (s *Stack) compare(o *Stack) int {
	for i := range min(len(s.Frames), len(o.Frames)) {
		if a, b := s.Frames[i], o.Frames[i]; a != b {
			return compareFrames(a, b)
		}
	}
	if a, b := len(s.Frames), len(o.Frames); a != b {
		return cmp.Compare(a, b)
	}
	return compareFrames(s.Top, o.Top)
}

func compareBranches(a, b Branch) int {
	if a.From != b.From {
		return compareFrames(a.From, b.From)
	}
	return compareFrames(a.To, b.To)
}

func compareRanges(a, b Range) int {
	return cmp.Or(cmp.Compare(a.Image, b.Image), cmp.Compare(a.First, b.First), cmp.Compare(a.Last, b.Last))
}

// Check reports the first promise of Counts that c breaks.
func (c *Counts) Check() error {
	if c.CPU.Family < 0 || c.CPU.Model < 0 || c.CPU.Stepping < 0 || c.CPU.MHz < 0 {
		return fmt.Errorf("%s: negative number in CPU %+v", c.Event.Name, c.CPU)
	}
	for _, check := range []func() error{c.checkTotals, c.checkClock, c.checkImages, c.checkStacks, c.checkBranches, c.checkPaths, c.checkTargets, c.checkSplit, c.checkSlices} {
		if err := check(); err != nil {
			return fmt.Errorf("%s: %w", c.Event.Name, err)
		}
	}
	return nil
}

func (c *Counts) checkTotals() error { return c.checkTotal(c.Delivered()) }

func (c *Counts) checkTotal(delivered uint64) error {
	if sum := addSamples(delivered, c.Lost[LostDropped]); sum != c.Total {
		return fmt.Errorf("%d samples in all, but %d in images and lost", c.Total, sum)
	}
	if delivered == 0 && c.Weight != 0 {
		return fmt.Errorf("weight %d of no samples", c.Weight)
	}
	if c.Total == 0 && c.Excess != (Square{}) {
		return errors.New("variance of no samples")
	}
	for why, n := range c.Lost {
		if n == 0 {
			return fmt.Errorf("lost by reason %q: 0 samples", why)
		}
	}
	return nil
}

func (c *Counts) checkClock() error {
	ghz := c.Clock()
	switch {
	case c.Clocked == 0 && c.Cycles != 0:
		return fmt.Errorf("%d cycles in no time", c.Cycles)
	case c.Clocked != 0 && c.Event.Unit != "ns":
		return fmt.Errorf("%d ns of events that are counted in %q", c.Clocked, c.Event.Unit)
	case c.Running > c.Enabled:
		return fmt.Errorf("counted for %d of %d ns", c.Running, c.Enabled)
	case c.Clocked != 0 && !(ghz >= LeastClock && ghz <= MostClock):
		return fmt.Errorf("a clock of %g cycles per ns", ghz)
	case c.Returns != 0 && c.Event.Unit != "ns":
		return fmt.Errorf("%d returns of system calls were timed, of events that are counted in %q", c.Returns, c.Event.Unit)
	case c.Held > 0 && c.ReturnCycles() == 0 || c.ReturnCycles() > MostHeld:
		return fmt.Errorf("interrupts held up for %d cycles in %d returns of system calls", c.Held, c.Returns)
	}
	return nil
}

func (c *Counts) checkImages() error {
	seen := make(map[ImageID]bool, len(c.Images))
	for i, ic := range c.Images {
		if ic.ID == (ImageID{}) {
			return fmt.Errorf("image %d has neither build ID nor path", i)
		}
		if seen[ic.ID.Key()] {
			return fmt.Errorf("image %s: listed twice", ic.ID)
		}
		seen[ic.ID.Key()] = true
		for off, n := range ic.At {
			if n == 0 {
				return fmt.Errorf("image %s: offset %#x: 0 samples", ic.ID, uint64(off))
			}
		}
		for off, n := range ic.Faults {
			if n == 0 {
				return fmt.Errorf("image %s: offset %#x: 0 page faults", ic.ID, uint64(off))
			}
		}
		for off, us := range ic.First {
			if us > MaxFirst {
				return fmt.Errorf("image %s: offset %#x: first touch after %d us, more than %d", ic.ID, uint64(off), us, uint64(MaxFirst))
			}
		}
		for off, p := range ic.Probed {
			if err := checkPlace(ic, off, p); err != nil {
				return err
			}
		}
		for off, r := range ic.Replayed {
			if err := checkPlace(ic, off, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkPlace reports what something that was counted at a place of an image cannot be.
func checkPlace[V interface{ fault() string }](ic *ImageCounts, off Offset, v V) error {
	if fault := v.fault(); fault != "" {
		return fmt.Errorf("image %s: offset %#x: %s: %+v", ic.ID, uint64(off), fault, v)
	}
	return nil
}

func (c *Counts) checkStacks() error {
	stacks := c.Stacks
	if !slices.IsSortedFunc(stacks, compareStacks) {
		stacks = slices.Clone(stacks)
		slices.SortStableFunc(stacks, compareStacks)
	}
	return c.checkSorted(stacks, func(f Frame) uint64 { return c.Images[f.Image].At[f.Off] })
}

// checkSorted checks stacks that are in order. It asks for the samples at the places of their samples, in order.
func (c *Counts) checkSorted(stacks []Stack, samples func(Frame) uint64) error {
	var with uint64 // samples with a stack of the sampled instruction
	for i := range stacks {
		s := &stacks[i]
		if len(s.Frames) == 0 || s.N == 0 {
			return fmt.Errorf("stack %d: %d frames, %d samples", i, len(s.Frames), s.N)
		}
		for _, f := range s.Frames {
			if err := c.checkFrame(f); err != nil {
				return fmt.Errorf("stack %d: %w", i, err)
			}
		}
		if err := c.checkFrame(s.Top); err != nil {
			return fmt.Errorf("stack %d: top: %w", i, err)
		}
		leaf := s.Frames[0]
		if i == 0 || leaf != stacks[i-1].Frames[0] {
			with = 0
		} else if s.compare(&stacks[i-1]) == 0 {
			return fmt.Errorf("stack %d: listed twice", i)
		}
		if leaf.Image == Unknown {
			return fmt.Errorf("stack %d: its sample is in no image", i)
		}
		with = addSamples(with, s.N)
		if at := samples(leaf); with > at {
			return fmt.Errorf("image %s: offset %#x: %d samples, but %d with a stack",
				c.Images[leaf.Image].ID, uint64(leaf.Off), at, with)
		}
	}
	return nil
}

func (c *Counts) checkBranches() error {
	for b, n := range c.Branches {
		if err := cmp.Or(c.checkFrame(b.From), c.checkFrame(b.To)); err != nil {
			return fmt.Errorf("branch %v: %w", b, err)
		}
		if err := n.check(b); err != nil {
			return err
		}
	}
	for r, n := range c.Ranges {
		if err := c.checkRange(r, n); err != nil {
			return err
		}
	}
	return nil
}

// checkRange reports what so many records of code that ran straight through cannot be.
func (c *Counts) checkRange(r Range, n uint64) error {
	if r.Image < 0 || r.Image >= len(c.Images) {
		return fmt.Errorf("range %v: no image %d", r, r.Image)
	}
	if n == 0 || r.Last < r.First {
		return fmt.Errorf("range %v: empty, or 0 records", r)
	}
	return nil
}

// check reports what records of a branch cannot be.
func (n BranchCount) check(b Branch) error {
	if n.N == 0 || n.Mispredicted > n.N {
		return fmt.Errorf("branch %v: %d records, %d mispredicted", b, n.N, n.Mispredicted)
	}
	return nil
}

func (c *Counts) checkFrame(f Frame) error {
	if f.Image < Unknown || f.Image >= len(c.Images) || f.Image == Unknown && f.Off != 0 {
		return fmt.Errorf("frame %v: no image %d", f, f.Image)
	}
	return nil
}

// Add adds c to the Counts of its processor and event, which are begun if there
// are none yet. It keeps no reference to c.
func (r *Recording) Add(c *Counts) { r.Counts = addTo(r.Counts, c) }

// AddOff is Add for time off the processor.
func (r *Recording) AddOff(c *Counts) { r.Off = addTo(r.Off, c) }

func addTo(all []*Counts, c *Counts) []*Counts {
	i, ok := slices.BinarySearchFunc(all, c, compareCounts)
	if !ok {
		all = slices.Insert(all, i, NewCounts(c.CPU, c.Event))
	}
	all[i].merge(c)
	return all
}

// AddAll adds all Counts of other, as Add and AddOff do, and its runs.
func (r *Recording) AddAll(other *Recording) {
	for _, c := range other.Counts {
		r.Add(c)
	}
	for _, c := range other.Off {
		r.AddOff(c)
	}
	r.addRuns(other.Runs, other.Unlisted)
}

func compareCounts(a, b *Counts) int {
	x, y := a.CPU, b.CPU
	return cmp.Or(
		cmp.Compare(x.Arch, y.Arch), cmp.Compare(x.Vendor, y.Vendor),
		cmp.Compare(x.Family, y.Family), cmp.Compare(x.Model, y.Model), cmp.Compare(x.Stepping, y.Stepping),
		cmp.Compare(x.Name, y.Name), cmp.Compare(x.MHz, y.MHz),
		cmp.Compare(a.Event.Name, b.Event.Name), cmp.Compare(a.Event.Period, b.Event.Period), cmp.Compare(a.Event.Unit, b.Event.Unit))
}

// Merge returns the sum of recordings, whose Counts pass Check. Whatever their
// order and grouping, the result is the same and has the same encoding. It
// shares nothing with its arguments.
func Merge(rs ...*Recording) *Recording {
	var sum Recording
	var all, off []*Counts
	for _, r := range rs {
		all, off = append(all, r.Counts...), append(off, r.Off...)
		sum.addRuns(r.Runs, r.Unlisted)
	}
	sum.Counts, sum.Off = sumsOf(all), sumsOf(off)
	return &sum
}

// sumsOf returns the sums of what is of one processor and event each, sorted by them. It sorts all.
func sumsOf(all []*Counts) (sums []*Counts) {
	slices.SortStableFunc(all, compareCounts)
	for len(all) > 0 {
		n := 1
		for n < len(all) && compareCounts(all[0], all[n]) == 0 {
			n++
		}
		sums = append(sums, sumOf(all[:n]...))
		all = all[n:]
	}
	return sums
}

// Samples is the number of samples of all events, the lost ones included.
func (r *Recording) Samples() uint64 {
	var n uint64
	for _, c := range r.Counts {
		n = addSamples(n, c.Total)
	}
	return n
}

// Empty reports whether nothing was seen in r: there are no samples, no time off the processor and no counts that were observed.
func (r *Recording) Empty() bool {
	return r.Samples() == 0 && len(r.Off) == 0 && !slices.ContainsFunc(r.Counts, func(c *Counts) bool {
		return slices.ContainsFunc(c.Images, func(ic *ImageCounts) bool { return len(ic.Counted)+len(ic.Probed) > 0 })
	})
}

// Delivered returns the number of samples of all events that the kernel did not drop.
func (r *Recording) Delivered() uint64 {
	var n uint64
	for _, c := range r.Counts {
		n = addSamples(n, c.Delivered())
	}
	return n
}

// InUser returns the number of samples of all events that the kernel did not drop, without those of its own code and those
// that Go's runtime could not tell from them: what a profile of programs is made of.
func (r *Recording) InUser() uint64 {
	n, lost := r.Delivered(), r.Lost()
	for _, why := range []Loss{LostKernel, LostOutsideGo} {
		n -= min(n, lost[why])
	}
	return n
}

// ByImage returns the number of samples of all events in each image, the lost ones left out.
func (r *Recording) ByImage() map[ImageID]uint64 {
	n := map[ImageID]uint64{}
	for _, c := range r.Counts {
		for _, ic := range c.Images {
			n[ic.ID] += ic.Samples()
		}
	}
	return n
}

// Seen is ByImage with the images in which threads only waited, which have no samples.
func (r *Recording) Seen() map[ImageID]uint64 {
	n := r.ByImage()
	for id := range (&Recording{Counts: r.Off}).ByImage() {
		n[id] += 0
	}
	return n
}

// Lost returns the number of samples of all events that have no place, by reason.
func (r *Recording) Lost() map[Loss]uint64 {
	n := map[Loss]uint64{}
	for _, c := range r.Counts {
		for why, k := range c.Lost {
			n[why] += k
		}
	}
	return n
}
