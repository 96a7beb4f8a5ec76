package input

import (
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/infer/document"
	"backfeed/infer/truth"
	"backfeed/sample"
)

// SamplesByAddr returns the samples of one event by image and address. Its error is of the kind
// fail.Nothing if none has an image that can be found.
func (s *Session) SamplesByAddr(event string) (truth.SamplesByAddr, error) {
	by := truth.SamplesByAddr{}
	for _, counts := range s.Recording.Counts {
		if counts.Event.Name != event {
			continue
		}
		for _, ic := range counts.Images {
			im, err := s.Open(ic.ID)
			if err != nil {
				continue // told below
			}
			by.Add(ic, im)
		}
	}
	s.TellImages(s.Recording)
	if len(by) == 0 {
		return nil, fail.Errorf(fail.Nothing, "no samples of event %q in an image that can be found (`backfeed images` says which are missing)", event)
	}
	return by, nil
}

// CountOnce takes the repetitions of string instructions off the truth, for images of doc that
// can be found, and says how much that is.
func (s *Session) CountOnce(doc *document.Counts, exact *truth.Counts) {
	var repeated, all, unknown uint64
	for path, it := range exact.Images {
		total := it.Total()
		all += total
		i := slices.IndexFunc(doc.Images, func(im document.Image) bool { return truth.SamePath(im.Path, path) })
		if i < 0 {
			continue // nothing of it is compared
		}
		n, err := s.countOnce(&doc.Images[i], it)
		if err != nil {
			unknown += total
		}
		repeated += n
	}
	if repeated > 0 {
		s.notify.Warn("%s of the truth are repetitions of string instructions, which count once for each execution: nothing to do", report.Share(repeated, all))
	}
	if unknown > 0 {
		s.notify.Warn("of images with %s of the truth, which are not at hand, string instructions count by their repetitions", report.Share(unknown, all))
	}
}

// countOnce takes those of one image off, and returns how many there were.
func (s *Session) countOnce(of *document.Image, it *truth.Image) (repetitions uint64, err error) {
	id := sample.ImageID{Path: of.Path}
	if of.BuildID != "" {
		if id.Build, err = sample.ParseBuildID(of.BuildID); err != nil {
			return 0, err
		}
	}
	im, err := s.Open(id)
	if err != nil {
		return 0, err
	}
	return it.CountOnce(im)
}
