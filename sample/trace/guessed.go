package trace

import "slices"

// Where it is not known whether a branch is taken, walks go on one way or the other by chance; see guess in
// sample/collect/bpf/walk.h. What they see after that ran only if it was the right one: an interpreter that swaps two
// values in vector registers, which walks did not know, seemed to end its loop at every second test of one of them, and so
// to be called 100 times as often as it was. Walks that did know tell how often a branch is taken. By that, what is seen
// after a guess counts for more or less (importance sampling), and where none did know, for as much as ever.
//
// On the same walks and windows, the mean block overlap of two recordings each of cjpeg, minisat and perl, of which many
// walks guess, is 0.871, 0.696 and 0.859 if all counts in full, 0.883, 0.714 and 0.871 with this, and 0.855, 0.754 and 0.777
// if a walk ends at its first guess; of five of testdata/mix, before walks knew shufpd, 0.73, 0.78 and 0.66. Of lua, python3,
// sqlite3, xz and bzip2 it is the same within 0.002, but 0.84 instead of 0.86 for sqlite3 if walks end.

// mostWorth is what a walk is worth at most after its guesses. Of a branch that walks guess as often as not, and that is
// always taken, half of them are worth nothing after each guess, and the other half twice as much: soon a few would tell
// for all.
const mostWorth = 16

// A worth is what a walk is worth after each of its guesses. Before the first, it is 1.
type worth []float64

// guesses are of one branch: how many, and what the walks were worth, those too that were guessed to be taken.
type guesses struct{ n, worth, taken float64 }

// odds returns what a walk is worth after a guess that the branch is not taken, and that it is, beside before. Of those
// of which it is known, so many are taken.
func (g *guesses) odds(known, taken float64) (odds [2]float64) {
	one := max(g.worth/g.n, 1e-300) // what a walk is worth there
	share := (g.taken + one/2) / (g.worth + one)
	// Guesses are a prior for what is known, of one execution; see clump.
	likely := (taken/clump + share) / (known/clump + 1)
	return [2]float64{(1 - likely) / (1 - share), likely / share}
}

// worths returns those of all walks, guess by guess: of walks that guess at the same place, after as many guesses, all
// together are worth as much after that as before. That guesses take a branch in such a share of all cases is no help: in
// one walk they hang together, and a loop goes on by some of them. With that share, what walks of testdata/mix saw after
// two guesses was worth 2.2 times as much as what they saw before.
func (w *Walks) worths() []worth {
	known := w.known()
	worths, next := make([]worth, len(w.walks)), make([]int, len(w.walks))
	live := make([]int, len(w.walks)) // walks that may guess once more
	for i := range live {
		live[i] = i
	}
	for len(live) > 0 {
		live = slices.DeleteFunc(live, func(i int) bool { return !w.walks[i].guess(&next[i]) })
		at := map[int32]*guesses{} // by place
		for _, i := range live {
			v := w.walks[i].at[next[i]]
			g := at[v.place()]
			if g == nil {
				g = &guesses{}
				at[v.place()] = g
			}
			worth := worths[i].last()
			g.n, g.worth = g.n+1, g.worth+worth
			g.taken += worth * float64(v.taken())
		}
		for _, i := range live {
			v := w.walks[i].at[next[i]]
			k := &known[v.place()]
			odds := at[v.place()].odds(k.n, k.taken)
			worths[i] = append(worths[i], min(worths[i].last()*odds[v.taken()], mostWorth))
			next[i]++
		}
	}
	return worths
}

// known returns by place how often it is known whether its branch was taken, and how often it was.
func (w *Walks) known() []outcomeSum {
	known := make([]outcomeSum, len(w.places))
	for i := range w.walks {
		for _, at := range w.walks[i].at {
			if at&viaGuessed == 0 {
				known[at.place()].add(1, float64(at.taken()))
			}
		}
	}
	return known
}

// taken returns 1 if the branch was taken.
func (v via) taken() int {
	if v&viaTaken != 0 {
		return 1
	}
	return 0
}

// guess sets *next to the index of the next that was guessed of what s passed through, itself if it is one; false: there
// is none.
func (s *seenWalk) guess(next *int) bool {
	for ; *next < len(s.at); *next++ {
		if s.at[*next]&viaGuessed != 0 {
			return true
		}
	}
	return false
}

// last is what the walk is worth at its end.
func (w worth) last() float64 {
	if len(w) == 0 {
		return 1
	}
	return w[len(w)-1]
}

// each calls f for what s passed through, with how often that counts: by what s is worth there for its guesses before.
func (w worth) each(s *seenWalk, f func(at via, times float64)) {
	now := 1.0
	for _, at := range s.at {
		f(at, now)
		if at&viaGuessed != 0 {
			now, w = w[0], w[1:]
		}
	}
	for _, r := range s.rest {
		f(r.via, now*float64(r.times))
	}
}
