package feedback

import (
	"errors"

	"backfeed/feedback/gcov"
	"backfeed/infer"
	"backfeed/sample"
)

// GCDAOptions choose what GCDA makes.
type GCDAOptions struct {
	Image string // path or build ID; "" is the image with the most samples that gcc made
}

// GCDAStats say what GCDA made.
type GCDAStats struct {
	Image     sample.ImageID
	Version   gcov.Version // of the notes
	Funcs     int          // functions with counts
	Functions int          // functions of the notes
	Arcs      int          // counters that are not 0
	Skipped   Skipped

	// Instructions that were executed, inferred: of what Skipped counts, and of the image in all.
	Dropped  map[Reason]float64
	Executed float64
}

// GCDA makes counters of arcs, as gcc's -fprofile-use reads them, for the functions of notes: one Data for each of notes, in order.
func GCDA(p *infer.Profile, rec *sample.Recording, notes []*gcov.Notes, opt GCDAOptions) ([]*gcov.Data, GCDAStats, error) {
	return nil, GCDAStats{}, errors.New("not yet")
}
