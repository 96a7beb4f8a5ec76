package compare

import (
	"cmp"
	"math"
	"slices"
	"time"

	"backfeed/sample"
)

// A Host is the samples of one machine of many, and how far it stands from the others.
type Host struct {
	Name    string
	Samples uint64
	To      time.Time     // end of its newest epoch
	Covered time.Duration // by its epochs

	Distance float64       // share of its samples that lie elsewhere than those of the middle host: 0 to 1
	Chance   float64       // the distance that chance alone gives, with so many samples
	Faster   float64       // samples per time, as a multiple of the middle host's
	Behind   time.Duration // of its newest epoch, to the middle host's; negative is ahead

	Odd []string // why it is an outlier; empty if it is none
}

// A HostSet is what is read of one host.
type HostSet struct {
	Name   string
	Shares map[Thing]uint64 // samples by what they are of
	Epochs []sample.Epoch
	Excess float64 // of their variance, as sample.Counts has it
}

// Fewest hosts that say what is usual: of fewer than five, one odd host moves the middle by too much. Fewest samples of a host
// that can be judged.
const fewestHosts, fewestOfHost = 5, 100

// A host is odd where its distance is beyond that of the middle host by more than 3.5 deviations, these taken from the median
// of the absolute deviations (Iglewicz and Hoaglin, "How to Detect and Handle Outliers", 1993), by three times what chance
// gives, and by a twentieth of its samples: where nobody differs, hosts that hardly do are not odd. The middle is that of
// medians, which half of all hosts cannot move if they differ in different ways; where as many are alike and odd, it is
// theirs.
const (
	oddDeviations = 3.5
	oddChances    = 3
	oddShare      = 0.05
	oddRate       = 4 // times as many samples per time, or as few
)

// Hosts compares hosts with the middle one, the odd ones first, by distance. judged is false if there are too few to say that
// one is odd.
func Hosts(sets []HostSet) (hosts []Host, judged bool) {
	shares := map[Thing][]float64{}
	for i, s := range sets {
		total := totalOf(s)
		for thing, n := range s.Shares {
			if shares[thing] == nil {
				shares[thing] = make([]float64, len(sets))
			}
			shares[thing][i] = float64(n) / max(1, total)
		}
	}
	things := make([]Thing, 0, len(shares))
	for thing := range shares {
		things = append(things, thing)
	}
	slices.SortFunc(things, Thing.Compare) // sums in one order
	middle, sum := make([]float64, len(things)), 0.0
	for i, thing := range things {
		middle[i] = middleOf(shares[thing])
		sum += middle[i]
	}
	for i := range middle {
		if sum > 0 {
			middle[i] /= sum
		}
	}
	var distances, rates []float64
	var ends []float64
	for i, s := range sets {
		h := Host{Name: s.Name, Samples: uint64(totalOf(s))}
		tell := totalOf(s) * totalOf(s) / max(1, totalOf(s)+s.Excess) // as much as so many single ones
		for k, thing := range things {
			h.Distance += math.Abs(shares[thing][i]-middle[k]) / 2
			// The mean absolute deviation of a share is sqrt(2/pi) of its standard deviation.
			h.Chance += math.Sqrt(2/math.Pi*middle[k]*(1-middle[k])/max(1, tell)) / 2
		}
		seen := map[sample.Epoch]bool{}
		for _, e := range s.Epochs {
			if !seen[e] {
				seen[e] = true
				h.Covered += e.To().Sub(e.From())
			}
			if e.To().After(h.To) {
				h.To = e.To()
			}
		}
		hosts = append(hosts, h)
		distances = append(distances, h.Distance)
		rates = append(rates, totalOf(s)/max(1, h.Covered.Seconds()))
		ends = append(ends, float64(h.To.Unix()))
	}
	far, spread := middleOf(distances), 1.4826*deviation(distances)
	rate, end := middleOf(rates), middleOf(ends)
	judged = len(sets) >= fewestHosts
	for i := range hosts {
		h := &hosts[i]
		if rate > 0 {
			h.Faster = rates[i] / rate
		}
		h.Behind = time.Duration(end-ends[i]) * time.Second
		if !judged {
			continue
		}
		if over := h.Distance - far; h.Samples >= fewestOfHost && over > oddDeviations*spread && over > oddChances*h.Chance && over > oddShare {
			h.Odd = append(h.Odd, "another workload")
		}
		if h.Faster > oddRate {
			h.Odd = append(h.Odd, "far more samples")
		}
		if h.Samples > 0 && h.Faster < 1.0/oddRate {
			h.Odd = append(h.Odd, "far fewer samples")
		}
		longest := time.Hour
		for _, e := range sets[i].Epochs {
			longest = max(longest, e.To().Sub(e.From()))
		}
		switch {
		case h.Behind > 2*longest:
			h.Odd = append(h.Odd, "silent, or its clock is behind")
		case h.Behind < -2*longest:
			h.Odd = append(h.Odd, "its clock is ahead")
		}
	}
	slices.SortFunc(hosts, func(a, b Host) int {
		return cmp.Or(cmp.Compare(min(1, len(b.Odd)), min(1, len(a.Odd))), cmp.Compare(b.Distance, a.Distance), cmp.Compare(a.Name, b.Name))
	})
	return hosts, judged
}

func totalOf(s HostSet) (n float64) {
	for _, k := range s.Shares {
		n += float64(k)
	}
	return n
}

// middleOf returns that of values, which are not changed; of an even number, the mean of the middle two.
func middleOf(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Clone(values)
	slices.Sort(v)
	return (v[(len(v)-1)/2] + v[len(v)/2]) / 2
}

// deviation returns the median of the absolute deviations from the median.
func deviation(values []float64) float64 {
	m := middleOf(values)
	var all []float64
	for _, v := range values {
		all = append(all, math.Abs(v-m))
	}
	return middleOf(all)
}
