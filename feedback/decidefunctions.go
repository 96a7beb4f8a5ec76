package feedback

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	"backfeed/infer"
)

// HotFunction is the share of all weight from which on a function is hot to DecideFunctions. It is far below what
// Diff takes for a clear change, so that a clear one is a function that has become many times hotter or colder.
const HotFunction = 0.001

// DecideFunctions are the decisions of a consumer whose rules are not published, or hang on more than its profile
// has: linkers and post-link optimisers. Shares are of functions, of all weight; those of a thousandth and more
// are hot. samples is how many samples they were made of; 0 is unknown.
func DecideFunctions(shares map[string]float64, samples float64) *Decisions {
	d := &Decisions{whole: Place, Samples: samples, made: map[Choice]decided{}}
	for name, share := range shares {
		if share < HotFunction {
			continue
		}
		d.Hot++
		d.made[Choice{Kind: Place, Site: name}] = decided{what: Hot, hot: true, share: share}
	}
	return d
}

// mostHot bounds the functions that are kept of an image.
const mostHot = 300

// HotFunctions returns the functions of an image that take a thousandth of its executed instructions and more, with their shares to
// three digits: at most 300, those with the largest. It is what DecideFunctions takes, to be kept with what was made.
func HotFunctions(ip *infer.ImageProfile) map[string]float64 {
	shares, all := map[string]float64{}, 0.0
	for _, p := range ip.Procs {
		n := p.Instructions()
		shares[p.Proc.Name] += n
		all += n
	}
	maps.DeleteFunc(shares, func(name string, n float64) bool { return n < HotFunction*all || all == 0 })
	names := slices.SortedFunc(maps.Keys(shares), func(a, b string) int {
		return cmp.Or(cmp.Compare(shares[b], shares[a]), cmp.Compare(a, b))
	})
	hot := map[string]float64{}
	for _, name := range names[:min(len(names), mostHot)] {
		hot[name], _ = strconv.ParseFloat(strconv.FormatFloat(shares[name]/all, 'g', 3, 64), 64)
	}
	return hot
}
