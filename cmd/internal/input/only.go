package input

import (
	"errors"
	"path/filepath"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/sample"
)

// A program is an image that is inferred alone, with the other builds of it.
type program struct {
	id     sample.ImageID // its key
	path   string         // as people read it
	builds map[sample.ImageID]uint64
}

// choose has Infer infer the image that want names and no other. Of several it takes one that is found here,
// and of these the one with the most samples. Other builds of it are looked for and no more, so that it is known why
// their samples are not used.
func (s *Session) choose(want string) error {
	all := s.Recording.ByImage()
	ids := report.MostFirst(all)
	var chosen sample.ImageID
	var first error
	w := newWanted(want)
	for {
		i := w.among(len(ids), func(i int) sample.ImageID { return ids[i] }, s.foundBuild(ids))
		if i < 0 {
			s.TellImages(s.Recording)
			if first == nil {
				first = noImage(want, w.build, ids)
			}
			return first
		}
		if _, err := s.Open(ids[i]); err == nil {
			chosen = ids[i]
			break
		} else if first == nil {
			first = fail.Errorf(fail.Nothing, "%s: %s: %w", want, report.Clean(ids[i].String()), err)
		}
		ids = append(ids[:i:i], ids[i+1:]...)
	}
	p := &program{chosen.Key(), report.Clean(chosen.Path), map[sample.ImageID]uint64{}}
	var others uint64
	for id, n := range all {
		if id.Key() == p.id || fileName(id) == fileName(chosen) {
			p.builds[id] += n
		}
		if id.Key() != p.id && fileName(id) == fileName(chosen) && n > 0 {
			s.Open(id)
			others += n
		}
	}
	s.evened = nil
	s.only, s.opt.Infer.Only = p, func(id sample.ImageID) bool { return id.Key() == p.id }
	if others > 0 {
		s.notify.Warn("%d samples are of other builds of %s, and not used: merge --onto carries them over", others, report.Clean(chosen.Path))
	}
	return nil
}

// foundBuild returns a function that returns the build ID of the file that was found for an image without one.
func (s *Session) foundBuild(ids []sample.ImageID) func(i int) sample.BuildID {
	return func(i int) sample.BuildID {
		im, err := s.Open(ids[i])
		if err != nil {
			return sample.BuildID{}
		}
		return im.Build
	}
}

// fileName is the name of an image's file, by which builds of one program are known.
func fileName(id sample.ImageID) string {
	return filepath.Base(strings.TrimSuffix(id.Path, " (deleted)"))
}

// noImage is the error of an image that has no samples; build is that of the file at path want. One of its name among
// those that have some is taken for another build of it.
func noImage(want string, build sample.BuildID, ids []sample.ImageID) error {
	const list = "(`backfeed images` lists those that have some"
	if build.IsZero() {
		if head, isDir, err := headOf(want); err == nil && !isDir && kindOf(head) != kindELF {
			return Mistaken(want, WantImage, fail.Errorf(fail.Nothing, "%s: no ELF file", want))
		}
		return fail.Errorf(fail.Nothing, "%s: no samples of such an image %s)", want, list)
	}
	for _, id := range ids {
		if fileName(id) == filepath.Base(want) {
			return fail.Errorf(fail.Nothing, "%s: no samples of an image with its build ID, %s: another build of it was recorded %s; merge --onto carries samples over)", want, build, list)
		}
	}
	return fail.Errorf(fail.Nothing, "%s: no samples of an image with its build ID, %s, or its name %s)", want, build, list)
}

// Asked returns how many samples were recorded of what was asked for: of one image, or of all but the kernel.
func (s *Session) Asked() uint64 {
	switch {
	case s.only != nil:
		return s.Profile.Samples.Total
	case s.Calls != nil:
		return s.Calls.Samples
	}
	return s.Recording.InUser()
}

// OfOtherID returns how many samples are of images of which only other builds were found, and of how many. Of an
// image that is inferred alone, these are the samples of all its builds.
func (s *Session) OfOtherID() (other, of uint64) {
	images := s.Recording.ByImage()
	of = s.Recording.Samples()
	if s.only != nil {
		images, of = s.only.builds, 0
	}
	for id, n := range images {
		if errors.Is(s.Missing(id), ErrOtherID) {
			other += n
		}
		if s.only != nil {
			of += n
		}
	}
	return other, of
}
