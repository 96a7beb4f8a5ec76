package feedback

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
