package layout

import (
	"errors"
	"slices"

	"backfeed/infer/image"
)

// A Judged is a placement's name and scores, and by whose counts it has these.
type Judged struct {
	Placement string `json:"placement"`
	Counts    string `json:"counts"` // OwnCounts or HoldoutCounts
	Scores
}

// Whose counts a placement is scored by.
const (
	OwnCounts     = "own"     // those that the order was made from
	HoldoutCounts = "holdout" // those of other samples, which have no part in it
)

// Judged returns the scores of the image as it is linked, in the order, and with the
// blocks moved too, and what no placement can beat.
func (o *Order) Judged() []Judged { return o.judged(nil) }

// judged is Judged that does judgedSteps.
func (o *Order) judged(p *progress) []Judged {
	return []Judged{
		{"as linked", OwnCounts, o.missing(o.Before, o.Linked())},
		{"functions ordered", OwnCounts, o.missing(o.After, o.Whole())},
		{"blocks too", OwnCounts, o.scores(o.splitBy(p))},
		{"upper bound", OwnCounts, upperBound(o.procs, p)},
	}
}

// scores returns those of a placement of the procedures of o, misses among them.
func (o *Order) scores(p *Placement) Scores { return o.missing(p.Scores(), p) }

// missing adds misses to the scores of a placement.
func (o *Order) missing(s Scores, p *Placement) Scores {
	misses, _ := mean(o.misses(p))
	s.Misses = &misses
	return s
}

// judgedSteps is how many steps judged has, and heldOut of a holdout: to order the blocks of each procedure, and
// to bound what can be gained in it. They take most of the time.
func (o *Order) judgedSteps() int { return 2 * len(o.procs) }

// heldOut is judged by the counts of a holdout, beside the order made from those.
func (o *Order) heldOut(holdout *Order, p *progress) []Judged {
	procs := holdout.Procs()
	return []Judged{
		{"as linked", HoldoutCounts, holdout.missing(holdout.Before, holdout.Linked())},
		{"functions ordered", HoldoutCounts, holdout.scores(o.Whole().With(procs))},
		{"blocks too", HoldoutCounts, holdout.scores(o.Split().With(procs))},
		{"blocks by the holdout", HoldoutCounts, holdout.scores(holdout.splitBy(p))},
		{"upper bound", HoldoutCounts, upperBound(holdout.procs, p)},
	}
}

// Judged returns the scores of a Go program as it is linked, with functions brought
// together in packages, and in any order.
func (p *GoPlan) Judged() []Judged {
	return []Judged{
		{"as linked", OwnCounts, p.Linked},
		{"together in packages", OwnCounts, p.Together},
		{"in any order", OwnCounts, p.Ordered},
	}
}

// ErrElsewhere says that a relinked image has nothing of the code that ran.
var ErrElsewhere = errors.New("none of the code that ran")

// Judge returns the scores of an order for image im on its own counts, and on those of
// the holdout, an order made from other samples of im. relinked is the image as a linker
// or llvm-bolt ordered it, which is scored before the upper bound of both. Holdout and
// relinked may be nil. progress is called as the work goes on; nil is not called.
func Judge(order, holdout *Order, im, relinked *image.Image, progress func(done, total int)) ([]Judged, error) {
	total := order.judgedSteps()
	if holdout != nil {
		total += holdout.judgedSteps()
	}
	p := newProgress(total, progress)
	all, orders := [][]Judged{order.judged(p)}, []*Order{order}
	if holdout != nil {
		all, orders = append(all, order.heldOut(holdout, p)), append(orders, holdout)
	}
	if relinked != nil {
		for i, o := range orders {
			last := len(all[i]) - 1
			s := o.scores(Relinked(o.Procs(), im, relinked))
			if s.Placed == 0 {
				return nil, ErrElsewhere
			}
			all[i] = slices.Insert(all[i], last, Judged{"relinked", all[i][last].Counts, s})
		}
	}
	return slices.Concat(all...), nil
}
