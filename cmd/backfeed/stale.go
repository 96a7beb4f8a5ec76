package main

import (
	"fmt"
	"path/filepath"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/infer/stale"
	"backfeed/sample"
)

// carryOnto moves the samples of older builds of the program at path to that
// build, and tells what became of them. Older builds are the images that want
// names, by path or build ID; for "" those whose files have the name of path's.
func (c *cli) carryOnto(rec *sample.Recording, path, want string, f *finder) (*sample.Recording, error) {
	im, err := f.try(path, sample.ImageID{})
	if err != nil {
		return nil, fmt.Errorf("--onto: %w", err)
	}
	defer im.Close()
	if path, err = filepath.Abs(path); err != nil {
		return nil, err
	}
	to := sample.ImageID{Build: im.Build, Path: path}
	builds := map[sample.ImageID]*stale.Builds{}
	unknown := map[sample.ImageID]uint64{}
	current := false // samples of the newer build are there already
	images := sampled(rec)
	for _, id := range mostFirst(images) {
		switch {
		case id.Key() == to.Key():
			current = true
		case isOlder(id, path, want):
			old, err := f.open(id)
			switch {
			case err != nil:
				unknown[id] = images[id]
				builds[id.Key()] = nil
			case old.Arch != im.Arch:
				c.warn("%s is for %s, %s for %s: samples are lost", old.Path, old.Arch, path, im.Arch)
				builds[id.Key()] = nil
			default:
				c.progress("comparing %s with %s", report.Clean(old.Path), path)
				builds[id.Key()] = stale.NewBuilds(old, im)
			}
		}
	}
	c.tellEach(unknown, rec.Samples(), func(id sample.ImageID) string {
		return fmt.Sprintf("%v; without this build nothing tells what its samples are of, and they are lost", f.lookup[id].err)
	})
	switch {
	case len(builds) > 0:
	case current:
		c.warn("all samples of %s are of that build", path)
		return rec, nil
	default:
		return nil, fail.Errorf(fail.Nothing, "--onto: no samples of another build of %s; --image names one by its path or build ID", path)
	}
	moved, carried := stale.Carry(rec, to, builds)
	c.clearProgress()
	if err := c.tellCarried(carried, path); err != nil {
		return nil, err
	}
	if carried.Samples[stale.NoTie] == carried.Total() && carried.Exact[0] == 0 && !current {
		return nil, fail.Errorf(fail.Nothing, "--onto: %s has none of the sampled code", path)
	}
	return moved, nil
}

// isOlder tells whether id is what carryOnto is to move.
func isOlder(id sample.ImageID, path, want string) bool {
	old := strings.TrimSuffix(id.Path, " (deleted)")
	if want != "" {
		return old == want || id.Build.String() == want
	}
	return filepath.Base(old) == filepath.Base(path)
}

// maxLostProcs bounds the procedures that are told of one by one.
const maxLostProcs = 10

// tellCarried tells what became of the samples of older builds.
func (c *cli) tellCarried(carried *stale.Carried, path string) error {
	total := carried.Total()
	c.warn("%d samples of older builds, %s of them carried over to %s", total, report.Share(total-carried.Samples[stale.NoTie], total), path)
	if kept, lost := carried.Branches[0], carried.Branches[1]; kept+lost > 0 {
		c.warn("%d branch records and runs, %s of them carried over", kept+lost, report.Share(kept, kept+lost))
	}
	if kept, lost := carried.Exact[0], carried.Exact[1]; kept+lost > 0 {
		c.warn("%d places with exact counts, %s of them carried over: those whose blocks are unchanged", kept+lost, report.Share(kept, kept+lost))
	}
	if total == 0 {
		return nil
	}
	t := report.NewTable(report.Right("samples"), report.Right("share"), report.Left("carried over by"))
	for tie := stale.NumTies; tie > 0; tie-- {
		n := carried.Samples[tie-1]
		t.Row(report.Integer(n), report.Share(n, total), (tie - 1).String())
	}
	if err := t.Write(c.stderr, false); err != nil {
		return err
	}
	if len(carried.Procs) == 0 {
		return nil
	}
	t = report.NewTable(report.Right("lost"), report.Right("of"), report.Left("because"), report.Left("procedure"))
	for _, p := range carried.Procs[:min(len(carried.Procs), maxLostProcs)] {
		name, why := p.Name, "its code changed"
		switch {
		case name == "":
			name, why = p.Image.String(), "in no known procedure"
		case p.Gone:
			why = "it is gone"
		}
		t.Row(report.Integer(p.Lost), report.Integer(p.Samples), why, name)
	}
	return t.Write(c.stderr, false)
}
