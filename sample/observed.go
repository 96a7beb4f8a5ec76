package sample

import (
	"iter"
	"maps"
	"math"
	"math/bits"
	"slices"
)

// A Probed is what was counted at one instruction beside samples. Probes count in windows:
// short stretches of time in which they are armed. Windows slow a program down and are few,
// so of how often an instruction ran there is an estimate; whether a branch was taken was
// counted exactly, of the executions that were seen. Walks (see collect.Walker) follow a
// thread from a sample on, and see whether its branches are taken.
//
// All but Windows is as long as what it was counted in: it adds up as samples do,
// and Scale multiplies it.
type Probed struct {
	Windows  uint64 // windows in which it was armed, and stretches of time that had walks; Scale leaves them
	Covered  uint64 // sum of Counts.Weight of the recordings that Runs is an estimate for; 0 if Runs is not known
	Runs     uint64 // executions in that time, estimated
	Variance Square // of Runs, in executions squared
	Outcomes uint64 // executions of a conditional branch that were seen, taken or not
	Taken    uint64 // of Outcomes, those that took the branch: as many as if every window had seen as much of its time as the others
	Spread   Square // variance of Taken for that many Outcomes, as windows differed; in executions squared
	Visits   uint64 // executions that walks passed through, weighed: in proportion to all that there were, as far as is known how slow the program is there
	Timed    uint64 // of Covered, that of recordings in which Runs is by walks and by how fast the loops that they go round turn, not by windows
}

func (p Probed) plus(o Probed) Probed {
	return Probed{
		Windows:  add(p.Windows, o.Windows),
		Covered:  add(p.Covered, o.Covered),
		Runs:     add(p.Runs, o.Runs),
		Variance: p.Variance.Add(o.Variance),
		Outcomes: add(p.Outcomes, o.Outcomes),
		Taken:    add(p.Taken, o.Taken),
		Spread:   p.Spread.Add(o.Spread),
		Visits:   add(p.Visits, o.Visits),
		Timed:    add(p.Timed, o.Timed),
	}
}

// scale returns p of w times as long a time. Numbers are rounded by themselves: they
// are far from 1 where they are of use. Variances are rounded up, so that no
// estimate becomes certain.
func (p Probed) scale(w float64) Probed {
	s := Probed{
		Windows:  p.Windows,
		Covered:  times(p.Covered, w),
		Outcomes: times(p.Outcomes, w),
		Taken:    times(p.Taken, w),
		Visits:   times(p.Visits, w),
		Timed:    times(p.Timed, w),
	}
	if s.Covered > 0 {
		s.Runs, s.Variance = times(p.Runs, w), p.Variance.scale(w)
	}
	if s.Outcomes > 0 {
		s.Spread = p.Spread.scale(w)
	}
	return s
}

// says reports whether there is anything but windows without a finding.
func (p Probed) says() bool { return p.Covered > 0 || p.Outcomes > 0 || p.Visits > 0 }

// fault reports what p cannot be; "" if nothing.
func (p Probed) fault() string {
	switch {
	case p.Windows == 0:
		return "probed in no window"
	case p.Covered == 0 && (p.Runs > 0 || p.Variance != Square{}):
		return "runs of no time"
	case p.Timed > p.Covered:
		return "more time of walks than time"
	case p.Taken > p.Outcomes:
		return "taken more often than there are outcomes"
	case p.Outcomes == 0 && p.Spread != Square{}:
		return "spread of no outcomes"
	}
	return ""
}

// Executions is the event of Counts that have no samples, but executions counted
// exactly in runs that were not sampled.
var Executions = Event{Name: "executions", Unit: "events"}

// A Square is the square of a count, or a sum of some: 128 bits. A Square that is
// too large to hold is the largest.
type Square struct{ Hi, Lo uint64 }

// SquareOf returns the integer next to x, which is a square already: it reverses
// Float64. What is no number is 0, as is what is negative.
func SquareOf(x float64) Square {
	const word = 1 << 64
	x = math.Round(x)
	switch {
	case !(x > 0):
		return Square{}
	case x >= word*word:
		return Square{math.MaxUint64, math.MaxUint64}
	}
	hi := math.Floor(x / word)
	return Square{uint64(hi), uint64(x - hi*word)} // exact: both are parts of one significand
}

// Float64 returns the nearest float64, or one beside it.
func (s Square) Float64() float64 { return math.Ldexp(float64(s.Hi), 64) + float64(s.Lo) }

// Add returns the sum, or the largest Square where that is larger still.
func (s Square) Add(o Square) Square {
	lo, carry := bits.Add64(s.Lo, o.Lo, 0)
	hi, carry := bits.Add64(s.Hi, o.Hi, carry)
	if carry != 0 {
		return Square{math.MaxUint64, math.MaxUint64}
	}
	return Square{hi, lo}
}

// scale returns the square of a count that is multiplied by w.
func (s Square) scale(w float64) Square { return SquareOf(math.Ceil(s.Float64() * w * w)) }

// times returns n*w, rounded.
func times(n uint64, w float64) uint64 {
	x := math.Round(float64(n) * w)
	if x >= 1<<64 {
		return math.MaxUint64
	}
	return uint64(x)
}

// AddProbed adds what probes counted at a place of c.Images[image].
func (c *Counts) AddProbed(image int, off Offset, p Probed) {
	if p == (Probed{}) {
		return
	}
	ic := c.Images[image]
	if ic.Probed == nil {
		ic.Probed = map[Offset]Probed{}
	}
	ic.Probed[off] = ic.Probed[off].plus(p)
}

// AddCounted adds n executions of a place of c.Images[image] that were counted
// exactly, in a run that need not have been sampled. Of n = 0 it is known that it
// did not run there.
func (c *Counts) AddCounted(image int, off Offset, n uint64) {
	ic := c.Images[image]
	if ic.Counted == nil {
		ic.Counted = map[Offset]uint64{}
	}
	ic.Counted[off] = add(ic.Counted[off], n)
}

// scaleObserved adds what was counted exactly in an image of another Counts, times w.
// What comes to nothing is left out: 0 would say that it never ran.
func (c *Counts) scaleObserved(image int, ic *ImageCounts, w float64) {
	for off, p := range ic.Probed {
		if p = p.scale(w); p.says() {
			c.AddProbed(image, off, p)
		}
	}
	for off, r := range ic.Replayed {
		c.AddReplayed(image, off, r.scale(w))
	}
	s, ran := scaler{w: w}, false
	for _, off := range slices.Sorted(maps.Keys(ic.Counted)) {
		if n := s.scale(ic.Counted[off]); n > 0 {
			c.AddCounted(image, off, n)
			ran = true
		}
	}
	if !ran { // what is left says how often nothing ran beside nothing
		return
	}
	for off, n := range ic.Counted {
		if n == 0 {
			c.AddCounted(image, off, 0)
		}
	}
}

// ObservedPlaces are numbers of places with more than samples, each place once.
type ObservedPlaces struct {
	Probed  int // armed in windows
	Walked  int // that walks passed through
	Counted int // whose executions were counted
}

// Observed returns the places of r with more than samples: of the images that want names, of all
// if it is nil.
func (r *Recording) Observed(want func(ImageID) bool) ObservedPlaces {
	all := observed{}
	for _, c := range r.Counts {
		for _, ic := range c.Images {
			if want == nil || want(ic.ID) {
				all.add(ic.ID, maps.All(ic.Probed), maps.All(ic.Counted))
			}
		}
	}
	return all.places()
}

// observed are the places of images, by key, with more than samples, and which of the following are known of each.
type observed map[ImageID]map[Offset]uint8

const (
	isProbed = 1 << iota
	isWalked
	isCounted
)

func (o observed) add(id ImageID, probed iter.Seq2[Offset, Probed], counted iter.Seq2[Offset, uint64]) {
	at := o[id.Key()]
	if at == nil {
		at = map[Offset]uint8{}
		o[id.Key()] = at
	}
	for off, p := range probed {
		if p.Visits > 0 {
			at[off] |= isWalked
		}
		if p.Visits == 0 || p.Covered > p.Timed {
			at[off] |= isProbed
		}
	}
	for off := range counted {
		at[off] |= isCounted
	}
}

func (o observed) places() (n ObservedPlaces) {
	for _, at := range o {
		for _, kinds := range at {
			n.Probed += int(kinds & isProbed)
			n.Walked += int(kinds & isWalked / isWalked)
			n.Counted += int(kinds & isCounted / isCounted)
		}
	}
	return n
}
