package input

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/sample"
)

// mostTold bounds the images that are named one by one.
const mostTold = 5

// TellImages names the sampled images of rec that were looked for and not found, with the
// reason, and those that had nothing but their path to be known by.
func (s *Session) TellImages(rec *sample.Recording) {
	missing, guessed := map[sample.ImageID]uint64{}, map[sample.ImageID]uint64{}
	for id, n := range rec.ByImage() {
		switch l, asked := s.finder.lookup[id]; {
		case !asked || n == 0:
		case l.err != nil:
			missing[id] = n
		case id.Build.IsZero():
			guessed[id] = n
		}
	}
	s.tellEach(missing, rec.Samples(), func(id sample.ImageID) string {
		return fmt.Sprintf("%v; its samples are not used", s.Missing(id))
	})
	_, end, _ := rec.Span()
	s.tellEach(guessed, rec.Samples(), func(id sample.ImageID) string {
		path := s.Found(id).Path
		text := "no build ID was recorded, so " + report.Clean(path) + " is taken by its path alone: "
		if st, err := os.Stat(path); err == nil && end > sample.EarliestDate && st.ModTime().UnixNano() > int64(end) {
			return text + "it was written after the recording, of which all that follows is wrong if it is another build; " +
				"have the recorded file below --symfs, or link with -Wl,--build-id and record again"
		}
		return text + "see that it was not rebuilt since"
	})
	if len(missing) > 0 && len(s.opt.Symfs) == 0 && s.opt.Advise {
		s.notify.Warn("if the binaries that were recorded are elsewhere, name where with --symfs DIR: they are found below DIR by their build ID")
	}
}

// Unfound returns the image with the most samples of those that were looked for and not found, and its samples, of the event
// that was inferred from; none if all were found.
func (s *Session) Unfound() (most sample.ImageID, n uint64) {
	if s.Profile == nil { // of functions and lines alone
		return most, 0
	}
	missing := map[sample.ImageID]uint64{}
	for _, c := range s.Recording.Counts {
		for _, ic := range c.Images {
			if c.Event.Name == s.Profile.Event.Name && s.Missing(ic.ID) != nil {
				missing[ic.ID] += ic.Samples()
			}
		}
	}
	for _, id := range report.MostFirst(missing) {
		return id, missing[id]
	}
	return most, 0
}

// tellKernel says why code of the kernel that was sampled is known by name alone.
func (s *Session) tellKernel(sampled map[sample.ImageID]uint64) {
	missing, total := map[sample.ImageID]uint64{}, uint64(0)
	for id, n := range sampled {
		total += n
		if l, asked := s.finder.lookup[id]; asked && n > 0 && l.err != nil && id.OfKernel() {
			missing[id] = n
		}
	}
	s.tellEach(missing, total, func(id sample.ImageID) string { return s.Missing(id).Error() })
}

// tellEach says something of each of some images, those with the most samples
// first.
func (s *Session) tellEach(samples map[sample.ImageID]uint64, total uint64, say func(sample.ImageID) string) {
	var rest uint64
	for i, id := range report.MostFirst(samples) {
		if i >= mostTold {
			rest += samples[id]
			continue
		}
		s.notify.Warn("%s, %s of the samples: %s", report.Clean(id.String()), report.Share(samples[id], total), say(id))
	}
	if rest > 0 {
		s.notify.Warn("the same goes for %d more images, %s of the samples", len(samples)-mostTold, report.Share(rest, total))
	}
}

// fewOfBuild is the share of the samples from which on a build of a program is told of.
const fewOfBuild = 0.01

// TellBuilds says of which programs several builds were sampled: files of one name, each with a share of the samples that counts.
func (s *Session) TellBuilds(samples map[sample.ImageID]uint64) {
	images, total := map[sample.ImageID]uint64{}, uint64(0)
	paths := map[sample.ImageID]sample.ImageID{} // with the path, by key
	for id, n := range samples {
		images[id.Key()] += n
		paths[id.Key()] = id
		total += n
	}
	builds := map[string][]string{}
	var names []string
	for _, key := range report.MostFirst(images) {
		id := paths[key]
		if Fileless(id) != nil || float64(images[key]) < fewOfBuild*float64(total) {
			continue
		}
		name := fileName(id)
		if builds[name] == nil {
			names = append(names, name)
		}
		builds[name] = append(builds[name], fmt.Sprintf("%s, %s of the samples", report.Clean(id.String()), report.Share(images[key], total)))
	}
	for _, name := range names {
		if all := builds[name]; len(all) > 1 {
			s.notify.Warn("%d builds or programs are named %s: %s; what ran is inferred of each by itself; merge --onto moves the samples of builds of one program to one of them",
				len(all), report.Clean(name), few(all))
		}
	}
}

// TickEvent is the event of samples that were taken at the scheduler's tick.
const TickEvent = "tick"

// fewEvents is how many other events have a line each.
const fewEvents = 2

// tellEvents says which samples an inference from those of used left aside, and what its
// own are blind to. Events are never mixed: each has its own reasons to stop a program.
func (s *Session) tellEvents(used sample.Event) {
	others := map[string]uint64{}
	var own []*sample.Counts
	for _, counts := range s.Recording.Counts {
		if counts.Event.Name == used.Name {
			own = append(own, counts)
		}
		if counts.Event.Name != used.Name && counts.Total > 0 {
			others[counts.Event.Name] += counts.Total
		}
	}
	names := report.MostFirst(others)
	if len(names) > fewEvents {
		s.notify.Warn("samples of %d other events are not mixed with those of %s: %s; --event NAME uses those of one instead", len(names), used.Name, strings.Join(names, ", "))
		names = nil
	}
	for _, name := range names {
		s.notify.Warn("%d samples of event %s are not mixed with those of %s; --event %s uses them instead", others[name], name, used.Name, name)
	}
	if r, known := sample.Reliability(own); known && r < sample.AlwaysCounted {
		s.notify.Warn("%s was counted for %s of the time (multiplexing reliability), as it shared a counter: shares are right, and how many there were is of that time", used.Name, report.Percent(r))
	}
	if used.Name == TickEvent {
		s.notify.Warn("samples of the scheduler's tick do not see what is in step with it; record without --tick sees all")
	}
}

// even returns rec with samples that stand for equally much, and says so where they did not. Where one image alone is inferred, it is its samples that
// matter.
func (s *Session) even(rec *sample.Recording) *sample.Recording {
	if s.opt.Apart || rec == s.evened {
		return rec
	}
	rec, uneven := rec.Even(s.opt.Infer.Only)
	s.evened = rec
	for _, u := range uneven {
		each := func(n float64) string { return report.Count(n) + " " + u.Event.Unit }
		if u.Event.Unit == "ns" {
			each = func(n float64) string { return rounded(n).String() }
		}
		s.notify.Warn("samples of %s stand for %s in some recordings and for %s in others: they count as much as they stand for, %s each in the mean, so that shares are right; numbers of samples are of these",
			u.Event.Name, each(u.Least), each(u.Most), each(float64(u.Event.Period)))
	}
	return rec
}

// rounded is a number of ns to three digits or so.
func rounded(ns float64) time.Duration {
	d := time.Duration(ns)
	return d.Round(max(1, time.Duration(math.Pow(10, math.Floor(math.Log10(max(1, ns)))-2))))
}

// State says in a word or two whether an image can be used, by the error of Open.
func State(err error) string {
	switch {
	case err == nil:
		return "found"
	case errors.Is(err, errKernel):
		return "kernel"
	case errors.Is(err, errVDSO):
		return "vdso"
	case errors.Is(err, errJIT):
		return "JIT"
	case errors.Is(err, ErrNotFound):
		return "not found"
	case errors.Is(err, ErrOtherID):
		return "other build ID"
	case errors.Is(err, image.ErrUnsupported):
		return "unsupported"
	case errors.Is(err, image.ErrFormat):
		return "malformed"
	}
	return "unreadable"
}
