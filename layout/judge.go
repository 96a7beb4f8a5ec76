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
func (o *Order) Judged() []Judged {
	return []Judged{
		{"as linked", OwnCounts, o.Before},
		{"functions ordered", OwnCounts, o.After},
		{"blocks too", OwnCounts, o.Split().Scores()},
		{"upper bound", OwnCounts, o.UpperBound()},
	}
}

// heldOut is Judged by the counts of a holdout, beside the order made from those.
func (o *Order) heldOut(holdout *Order) []Judged {
	procs := holdout.Procs()
	return []Judged{
		{"as linked", HoldoutCounts, holdout.Before},
		{"functions ordered", HoldoutCounts, o.Whole().With(procs).Scores()},
		{"blocks too", HoldoutCounts, o.Split().With(procs).Scores()},
		{"blocks by the holdout", HoldoutCounts, holdout.Split().Scores()},
		{"upper bound", HoldoutCounts, holdout.UpperBound()},
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
// relinked may be nil.
func Judge(order, holdout *Order, im, relinked *image.Image) ([]Judged, error) {
	all, orders := [][]Judged{order.Judged()}, []*Order{order}
	if holdout != nil {
		all, orders = append(all, order.heldOut(holdout)), append(orders, holdout)
	}
	if relinked != nil {
		for i, o := range orders {
			last := len(all[i]) - 1
			s := Relinked(o.Procs(), im, relinked).Scores()
			if s.Placed == 0 {
				return nil, ErrElsewhere
			}
			all[i] = slices.Insert(all[i], last, Judged{"relinked", all[i][last].Counts, s})
		}
	}
	return slices.Concat(all...), nil
}
