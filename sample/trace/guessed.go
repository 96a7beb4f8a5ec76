package trace

// Where it is not known whether a branch is taken, walks go on one way or the other by chance; see guess in
// sample/collect/bpf/walk.h. What they see after that ran only if it was the right one: an interpreter that swaps two
// values in vector registers, which walks do not know, seemed to end its loop at every second test of one of them, and so
// to be called 100 times as often as it was. Walks that did know tell how often a branch is taken. By that, what is seen
// after a guess counts for more or less (importance sampling), and where none did know, for as much as ever.

// guessOdds are what a walk is worth after it guessed that a branch is not taken, and that it is, beside before.
type guessOdds [2]float64

// mostWorth is what a walk is worth at most after its guesses. Of a branch that walks guess as often as not, and that is
// always taken, half of them are worth nothing after each guess, and the other half twice as much: soon a few would tell
// for all.
const mostWorth = 16

// odds returns those of all places.
func (w *Walks) odds() []guessOdds {
	type outcomes struct{ n, taken float64 }
	known, guessed := make([]outcomes, len(w.places)), make([]outcomes, len(w.places))
	for i := range w.walks {
		for _, at := range w.walks[i].at {
			o := &known[at.place()]
			if at&viaGuessed != 0 {
				o = &guessed[at.place()]
			}
			if o.n++; at&viaTaken != 0 {
				o.taken++
			}
		}
	}
	odds := make([]guessOdds, len(w.places))
	for i, g := range guessed {
		// Guesses are a prior for what is known, of one execution; see clump.
		share, of := (g.taken+0.5)/(g.n+1), known[i].n/clump
		likely := (known[i].taken/clump + share) / (of + 1)
		odds[i] = guessOdds{(1 - likely) / (1 - share), likely / share}
	}
	return odds
}

// worth calls each, if not nil, for what s passed through, with how often that counts: by what s is worth there for its
// guesses before. It returns what s is worth at its end.
func (s *seenWalk) worth(odds []guessOdds, each func(at via, times float64)) float64 {
	worth := 1.0
	for _, at := range s.at {
		if each != nil {
			each(at, worth)
		}
		if at&viaGuessed != 0 {
			taken := 0
			if at&viaTaken != 0 {
				taken = 1
			}
			worth = min(worth*odds[at.place()][taken], mostWorth)
		}
	}
	if each != nil {
		for _, r := range s.rest {
			each(r.via, worth*float64(r.times))
		}
	}
	return worth
}
