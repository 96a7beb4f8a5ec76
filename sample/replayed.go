package sample

// A Replayed is what models of branch predictors and caches made of the executions of one instruction
// that long walks passed through: see package replay. All but Walks adds up as samples do.
//
// Of accesses and of code that is fetched, those that are neither near nor far are not known. A cache of
// hardware may differ from the model, and a predictor that has learned for longer errs less often.
type Replayed struct {
	Walks uint64 // that passed through it; Scale leaves them

	Branches uint64 // executions of a branch that were predicted, once the model had learned
	Missed   uint64 // of Branches, those that were predicted wrongly

	Accesses    uint64 // to memory, by lines
	Near        uint64 // of Accesses, those to lines that the first cache has: it was used shortly before
	Far         uint64 // those to lines that it cannot have: more others were used than it holds
	Steady      uint64 // of Far, those at a constant distance from the one before: hardware fetches such ahead
	Beyond      uint64 // of Accesses, those to lines that a second cache of 1 MB does not have either
	NearPages   uint64 // of Accesses, those to pages that the first TLB has
	FarPages    uint64 // those to pages of 4 KB that it cannot have; where pages are huge, it may
	BeyondPages uint64 // of FarPages, those that the second TLB does not have either

	Fetches     uint64 // of lines of code that begin with the instruction, or that it reaches into
	NearFetches uint64 // of Fetches, those of lines that the first cache has
	FarFetches  uint64 // those of lines that it cannot have
}

// parts are the numbers of r, by what they are of.
func (r *Replayed) parts() [3][]*uint64 {
	return [3][]*uint64{
		{&r.Branches, &r.Missed},
		{&r.Accesses, &r.Near, &r.Far, &r.Steady, &r.Beyond, &r.NearPages, &r.FarPages, &r.BeyondPages},
		{&r.Fetches, &r.NearFetches, &r.FarFetches},
	}
}

// Plus returns the sum.
func (r Replayed) Plus(o Replayed) Replayed {
	r.Walks = add(r.Walks, o.Walks)
	to := r.parts()
	for i, part := range o.parts() {
		for k, n := range part {
			*to[i][k] = add(*to[i][k], *n)
		}
	}
	return r
}

// scale returns r of w times as long a time, rounded.
func (r Replayed) scale(w float64) Replayed {
	for _, part := range r.parts() {
		for _, n := range part {
			*n = times(*n, w)
		}
	}
	// Rounding each by itself must not make parts more than the whole.
	r.Near = min(r.Near, r.Accesses)
	r.Far = min(r.Far, r.Accesses-r.Near)
	r.Steady, r.Beyond = min(r.Steady, r.Far), min(r.Beyond, r.Accesses)
	r.NearPages = min(r.NearPages, r.Accesses)
	r.FarPages = min(r.FarPages, r.Accesses-r.NearPages)
	r.BeyondPages = min(r.BeyondPages, r.FarPages)
	r.NearFetches = min(r.NearFetches, r.Fetches)
	r.FarFetches = min(r.FarFetches, r.Fetches-r.NearFetches)
	return r
}

// says reports whether there is anything but walks without a finding.
func (r Replayed) says() bool { return r.Branches > 0 || r.Accesses > 0 || r.Fetches > 0 }

// fault reports what r cannot be; "" if nothing.
func (r Replayed) fault() string {
	// Sums that have reached the largest number say no more than that.
	within := func(whole uint64, parts ...uint64) bool {
		sum := uint64(0)
		for _, n := range parts {
			sum = add(sum, n)
		}
		return sum <= whole
	}
	switch {
	case r.Walks == 0 || !r.says():
		return "replayed of no walk"
	case r.Missed > r.Branches:
		return "more mispredicted than branches"
	case !within(r.Accesses, r.Near, r.Far), r.Steady > r.Far, r.Beyond > r.Accesses:
		return "more near and far than accesses"
	case !within(r.Accesses, r.NearPages, r.FarPages), r.BeyondPages > r.FarPages:
		return "more near and far pages than accesses"
	case !within(r.Fetches, r.NearFetches, r.FarFetches):
		return "more near and far than fetches"
	}
	return ""
}

// AddReplayed adds what models counted at a place of c.Images[image].
func (c *Counts) AddReplayed(image int, off Offset, r Replayed) {
	if !r.says() {
		return
	}
	ic := c.Images[image]
	if ic.Replayed == nil {
		ic.Replayed = map[Offset]Replayed{}
	}
	ic.Replayed[off] = ic.Replayed[off].Plus(r)
}
