package input

import (
	"fmt"
	"path/filepath"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/infer/stale"
	"backfeed/sample"
)

// Onto moves the samples of older builds of the program at path to that build, and
// returns what became of them, also with the error that nothing could be moved; nil if all
// samples are of that build already. Older builds are the images that want names, as BuildsOf knows them.
func (s *Session) Onto(path, want string) (*stale.Carried, error) {
	rec := s.Recording
	im, err := s.finder.try(path, sample.ImageID{})
	if err != nil {
		return nil, err
	}
	defer im.Close()
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	to := sample.ImageID{Build: im.Build, Path: path}
	builds := map[sample.ImageID]*stale.Builds{}
	unknown := map[sample.ImageID]uint64{}
	isBuild := BuildsOf(path, want)
	current := false // samples of the newer build are there already
	images := rec.ByImage()
	for _, id := range report.MostFirst(images) {
		switch {
		case id.Key() == to.Key():
			current = true
		case isBuild(id):
			old, err := s.Open(id)
			switch {
			case err != nil:
				unknown[id] = images[id]
				builds[id.Key()] = nil
			case old.Arch != im.Arch:
				s.notify.Warn("%s is for %s, %s for %s: its samples cannot be carried over, and are left out", old.Path, old.Arch, path, im.Arch)
				builds[id.Key()] = nil
			default:
				s.notify.Progress("comparing %s with %s", report.Clean(old.Path), path)
				builds[id.Key()] = stale.NewBuilds(old, im)
			}
		}
	}
	s.tellEach(unknown, rec.Samples(), func(id sample.ImageID) string {
		return fmt.Sprintf("%v; without this build nothing tells what its samples are of, and they are lost", s.Missing(id))
	})
	switch {
	case len(builds) > 0:
	case current:
		s.notify.Warn("all samples of %s are of that build", path)
		return nil, nil
	default:
		if want != "" {
			return nil, fail.Errorf(fail.Nothing, "no samples of %s, which older builds of %s were said to be (`backfeed images` lists what has some)", report.Clean(want), path)
		}
		return nil, fail.Errorf(fail.Nothing, "no samples of another build of %s, by its file's name; --image names one that has another", path)
	}
	moved, carried := stale.Carry(rec, to, builds)
	s.notify.Done()
	s.tellCarried(carried, path)
	if len(unknown) == len(builds) && !current {
		return carried, fail.Errorf(fail.Nothing, "no recorded build of %s is here: keep those that are recorded, as record --copy-to does, and name where with --symfs DIR, or builds in backfeed.yaml", path)
	}
	if carried.Samples[stale.NoTie] == carried.Total() && carried.Observed[0] == 0 && !current {
		return carried, fail.Errorf(fail.Nothing, "%s has none of the sampled code: is it a build of the recorded program?", path)
	}
	s.Recording = moved
	return carried, nil
}

// tellCarried says how much of older builds was carried over.
func (s *Session) tellCarried(carried *stale.Carried, path string) {
	total := carried.Total()
	s.notify.Warn("%d samples of other builds, %s of them carried over to %s", total, report.Share(total-carried.Samples[stale.NoTie], total), path)
	if kept, lost := carried.Branches[0], carried.Branches[1]; kept+lost > 0 {
		s.notify.Warn("%d branch records and runs, %s of them carried over", kept+lost, report.Share(kept, kept+lost))
	}
	if kept, lost := carried.Observed[0], carried.Observed[1]; kept+lost > 0 {
		s.notify.Warn("%d places with observed counts, %s of them carried over: those whose blocks are unchanged", kept+lost, report.Share(kept, kept+lost))
	}
}

// BuildsOf returns a function that reports whether an image is a build of the program at path that Onto would move: the one that want
// names, as Named has it; for "" one of the same file name. The last element of its path names it even if a file of that name lies
// here, which is the newer build.
func BuildsOf(path, want string) func(id sample.ImageID) bool {
	name := filepath.Base(path)
	var w wanted
	if want != "" {
		w = newWanted(want)
	}
	return func(id sample.ImageID) bool {
		id.Path = strings.TrimSuffix(id.Path, " (deleted)")
		base := filepath.Base(id.Path)
		if want == "" {
			return base == name
		}
		found := func(int) sample.BuildID {
			build, _ := image.ReadBuildID(id.Path)
			return build
		}
		return w.among(1, func(int) sample.ImageID { return id }, found) == 0 || base == want
	}
}
