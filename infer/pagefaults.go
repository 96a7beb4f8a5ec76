package infer

import (
	"cmp"
	"math"
	"slices"

	"backfeed/sample"
)

// Where an instruction faults on a page, samples of a timer are of the processor's way into the kernel and back, and of its host's. That is
// no time of the code there: python3 -c 1 had half of all its samples at such instructions on a guest of PVM, where each fault takes
// 14 us. A recording that tells where page faults were (package collect samples them beside a timer where they take long; perf record -e page-faults
// does) tells so how many of the samples there are theirs.
//
// They are as many for each fault, wherever it is: of 24 instructions with the most faults in SQLite, CPython and bash there,
// 0.10 to 0.29 of a sample each, with nine in ten of the faults between 0.13 and 0.18. What is more at one of them
// is time of its code. So the cost is that of a fault at instructions with few samples beside: see README.
const (
	faultPart    = 0.3 // of all faults are at instructions with fewer samples for each than one is taken to bring
	fewestFaults = 20  // samples of faults that tell anything
	faultSDs     = 2   // standard deviations, by chance, that faults may bring more than expected before the rest is time of code
	faultUnsure  = 0.2 // what they bring is uncertain, by part
	faultMostSD  = 2   // of the logarithm of what a block costs, beside that of any, at most: as of blocks next to system calls
)

// dearestFault is the time in ns that a fault is taken to bring at most, seven times that of a guest of PVM. Where a program has a few dozen faults
// in all, all of them may be in its hottest loops, by chance or as probes of a calibrated recording have it fault there; then what samples each of them has
// beside is time of the code: of 33 in one of 6,365 samples at 997 Hz, each was taken for 71 ms and more, and they for 38 % of the time.
const dearestFault = 100_000

// pageFaults are those of a recording; nil if it tells of none.
type pageFaults struct {
	at   map[sample.ImageID]map[sample.Offset]float64 // by key of the image: faults
	each float64                                      // samples that one brings
}

// pageFaultsIn reads how many faults there were where, and how many of the samples of counts each brings. They are of counts, or of an event of
// their own.
func pageFaultsIn(rec *sample.Recording, counts []*sample.Counts) *pageFaults {
	if !slices.ContainsFunc(counts, func(c *sample.Counts) bool { return c.Event.OfTimer() }) {
		return nil
	}
	f, seen := &pageFaults{at: map[sample.ImageID]map[sample.Offset]float64{}}, uint64(0)
	add := func(ic *sample.ImageCounts, faults map[sample.Offset]uint64, each float64) {
		at := f.at[ic.ID.Key()]
		if at == nil {
			at = map[sample.Offset]float64{}
			f.at[ic.ID.Key()] = at
		}
		for off, n := range faults {
			at[off] += each * float64(n)
			seen += n
		}
	}
	var told []*sample.Counts // of whose faults it is known where they were
	for _, c := range counts {
		before := seen
		for _, ic := range c.Images {
			add(ic, ic.Faults, 1)
		}
		if seen > before {
			told = append(told, c)
		}
	}
	if seen == 0 {
		told = counts
		for _, c := range rec.Counts {
			if e := sample.BareEvent(c.Event.Name); e != "page-faults" && e != "faults" {
				continue
			}
			for _, ic := range c.Images {
				add(ic, ic.At, c.MeanPeriod())
			}
		}
	}
	if seen < fewestFaults {
		return nil
	}
	type rate struct{ each, faults float64 }
	var places []rate
	var left float64
	for _, ic := range imagesOf(told) {
		for off, n := range f.at[ic.ID.Key()] {
			places = append(places, rate{float64(ic.At[off]) / n, n})
			left += faultPart * n
		}
	}
	slices.SortFunc(places, func(a, b rate) int {
		return cmp.Or(cmp.Compare(a.each, b.each), cmp.Compare(a.faults, b.faults))
	})
	for _, p := range places {
		if left -= p.faults; left <= 0 {
			f.each = p.each
			break
		}
	}
	var time, samples float64
	for _, c := range told {
		time += c.MeanPeriod() * float64(c.Delivered())
		samples += float64(c.Delivered())
	}
	if time > 0 { // periods are known
		f.each = min(f.each, dearestFault*samples/time)
	}
	if f.each == 0 {
		return nil
	}
	return f
}

// seen returns how many faults there were at a place.
func (f *pageFaults) seen(id sample.ImageID, off sample.Offset) float64 {
	if f == nil {
		return 0
	}
	return f.at[id.Key()][off]
}

// brought returns how many of so many samples at a place of an image are taken for those of faults.
func (f *pageFaults) brought(id sample.ImageID, off sample.Offset, samples uint64) uint64 {
	if f == nil {
		return 0
	}
	expected := f.each * f.seen(id, off)
	return min(samples, uint64(math.Round(expected+faultSDs*math.Sqrt(expected))))
}

// FaultsTold reports whether the recording tells where page faults were, and so which samples are theirs.
func (ip *ImageProfile) FaultsTold() bool { return ip.faults != nil }

// Faulted returns how many of the samples at a place are taken for those of page faults: time of the way into the kernel and back.
func (ip *ImageProfile) Faulted(off sample.Offset) uint64 {
	if ip.faults == nil {
		return 0
	}
	return ip.faults.brought(ip.ID, off, ip.Counts.At[off])
}

// own returns the samples of r by block that are not those of page faults.
func (r *Result) own() []uint64 {
	if r.faulted == nil {
		return r.BlockSamples
	}
	own := slices.Clone(r.BlockSamples)
	for b, n := range r.faulted {
		own[b] -= n
	}
	return own
}

// heedFaults has blocks be the less sure of what they cost, the more of their samples were those of page faults.
func (q *problem) heedFaults(faulted []uint64) {
	for b, n := range faulted {
		if n > 0 {
			brought := q.par.counts() * float64(n)
			off := min(faultMostSD, math.Hypot(faultUnsure*brought, math.Sqrt(brought))/(q.samples[b]+1))
			q.invVar[b] = 1 / (1/q.invVar[b] + off*off)
		}
	}
}
