package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/infer/machine"
	"backfeed/sample"
)

// inference defines the flags that say how counts are inferred.
func (c *cli) inference() *infer.Options {
	opt := &infer.Options{}
	c.fs.grouped(inferenceFlags, func() {
		c.fs.StringVar(&opt.Event, "event", "", "use the samples of event `name` (default: those of the timer or counter with the most)")
		c.fs.StringVar(&opt.Model, "model", "", "use the machine model `name` (default: that of the recording's processor)")
	})
	return opt
}

// A source is samples and what was inferred from them. Close it when nothing
// asks its images any more.
type source struct {
	recording *sample.Recording
	profile   *infer.Profile
	fileless  map[named]uint64 // samples that are known by name alone; losses to the profile
	finder    *finder
	starts    []starts // of each path that was read
}

func (s *source) close() { s.finder.close() }

// gcPercent is how far the heap may grow between two collections. Most of what an
// inference allocates it keeps. On gcc's cc1 with 764,779 samples 150 takes 0.1 s of
// 4.4 s less than the usual 100, and 200 another 0.07 s; on clang with libLLVM neither
// helps, and 200 needs more than 1 GB, 150 0.9 GB, 100 0.8 GB.
const gcPercent = 150

// inferred reads the samples of all paths and infers what ran. The file at path
// given, if there is one, is an image that need not be looked for.
func (c *cli) inferred(paths []string, symfs, given string, opt infer.Options) (*source, error) {
	if _, err := machine.ByName(opt.Model); err != nil && opt.Model != "" {
		return nil, fail.Errorf(fail.Usage, "--model: %w", err)
	}
	f, err := newFinder(symfs)
	if err != nil {
		return nil, err
	}
	f.give(given)
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
	c.starts = nil
	rec, err := c.read(paths)
	if err != nil {
		return nil, err
	}
	src, err := c.infer(rec, f, opt)
	if err != nil {
		return nil, err
	}
	src.starts = c.starts
	return src, nil
}

// infer infers what ran from the samples of rec. Losses are told: counts that
// nothing went into would look like those of a program that did nothing. It
// takes over f.
func (c *cli) infer(rec *sample.Recording, f *finder, opt infer.Options) (*source, error) {
	exact := exactList(rec)
	if rec.Samples() == 0 && exact != "" {
		f.close()
		return nil, fail.Errorf(fail.Nothing, "no samples, only exact counts: %s; name a recording of the same program as well", exact)
	}
	c.progress("inferring from %d samples", rec.Samples())
	f.stores = c.stores
	fileless := takeFileless(rec)
	p, err := infer.Infer(rec, f.open, opt)
	c.clearProgress()
	c.tellImages(rec, f)
	if errors.Is(err, infer.ErrNothing) {
		if list := lossList(lost(rec), rec.Samples()); list != "" {
			c.warn("lost: %s", list)
		}
		err = fail.Wrap(fail.Nothing, err)
	}
	if err != nil {
		f.close()
		return nil, err
	}
	if list := lossList(p.Samples.Lost, p.Samples.Total); list != "" {
		c.warn("%d of %d samples used (%s); lost: %s", p.Samples.Used, p.Samples.Total, report.Share(p.Samples.Used, p.Samples.Total), list)
	}
	if exact != "" {
		c.warn("exact counts: %s", exact)
	}
	c.tellEvents(rec, p.Event)
	return &source{recording: rec, profile: p, fileless: fileless, finder: f}, nil
}

// tellEvents says which samples an inference left aside, and what its own are
// blind to. Events are never mixed: each has its own reasons to stop a program.
func (c *cli) tellEvents(rec *sample.Recording, used sample.Event) {
	others := map[string]uint64{}
	for _, counts := range rec.Counts {
		if counts.Event.Name != used.Name && counts.Total > 0 {
			others[counts.Event.Name] += counts.Total
		}
	}
	for _, name := range mostFirst(others) {
		c.warn("%d samples of event %s are not mixed with those of %s; --event %s uses them instead", others[name], name, used.Name, name)
	}
	if used.Name == tickEvent {
		c.warn("samples of the scheduler's tick do not see what is in step with it")
	}
}

// tickEvent is the event of samples that were taken at the scheduler's tick.
const tickEvent = "tick"

// image finds the inferred image that the user means: by path, by build ID, as
// the file that lies at that path here, or by the last element of its path.
func (s *source) image(want string) (*infer.ImageProfile, error) {
	id, _ := image.ReadBuildID(want)
	means := []func(*infer.ImageProfile) bool{
		func(ip *infer.ImageProfile) bool { return ip.ID.Path == want },
		func(ip *infer.ImageProfile) bool { return ip.ID.Build.String() == want },
		func(ip *infer.ImageProfile) bool { return !id.IsZero() && ip.ID.Build == id },
		func(ip *infer.ImageProfile) bool { return !id.IsZero() && ip.ID.Build.IsZero() && ip.Image.Build == id },
		func(ip *infer.ImageProfile) bool { return id.IsZero() && filepath.Base(ip.ID.Path) == want },
	}
	for _, mean := range means {
		if i := slices.IndexFunc(s.profile.Images, mean); i >= 0 {
			return s.profile.Images[i], nil
		}
	}
	if !id.IsZero() {
		return nil, fail.Errorf(fail.Nothing, "%s: no samples of an image with its build ID, %s", want, id)
	}
	return nil, fail.Errorf(fail.Nothing, "%s: no samples of such an image (`backfeed images` lists those that have some)", want)
}
