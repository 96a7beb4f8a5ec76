package input

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/fetch"
	"backfeed/infer/compare"
	"backfeed/sample"
	"backfeed/sample/store"
)

// A Source is a path whose samples count so often: 1 is as they are.
type Source struct {
	Path   string
	Weight float64
}

// maxWeight bounds weights, so that samples stay countable.
const maxWeight = 1e6

// ParseSource parses SRC or SRC@WEIGHT. A file with such a name is meant as it is; in an address, the weight
// is at the end of its path.
func ParseSource(arg string) (Source, error) {
	source := Source{Path: arg, Weight: 1}
	i := strings.LastIndexByte(arg, '@')
	if i < 0 {
		return source, nil
	}
	if fetch.Is(arg) || store.InBucket(arg) {
		if before, after := arg[:i], arg[i:]; strings.Count(before, "/") < 3 || strings.Contains(after, "/") {
			return source, nil // it stands between a user and a host, or in the path
		}
	} else if _, err := os.Lstat(arg); !errors.Is(err, fs.ErrNotExist) {
		return source, nil
	}
	w, err := strconv.ParseFloat(arg[i+1:], 64)
	switch {
	case err != nil && (fetch.Is(arg) || store.InBucket(arg)):
		return source, nil
	case err != nil || !(w > 0 && w <= maxWeight):
		return source, fail.Errorf(fail.Usage, "%s: want a weight above 0 and at most %g after the @", Name(arg), float64(maxWeight))
	}
	return Source{Path: arg[:i], Weight: w}, nil
}

// Under returns paths of a directory as they are from the directory that the process is in; absolute ones and
// addresses stay.
func Under(dir string, paths ...string) []string {
	var all []string
	for _, path := range paths {
		if !filepath.IsAbs(path) && !fetch.Is(path) {
			path = filepath.Join(dir, path)
		}
		all = append(all, path)
	}
	return all
}

// Expand returns the sources that those of a configuration in directory dir name, of which a path may be a pattern of
// names. One that nothing has the name of is an error, unless such are to be left out; that none is left always is.
func Expand(dir string, sources []Source, leaveOut bool) ([]Source, error) {
	var all []Source
	for _, s := range sources {
		if fetch.Is(s.Path) || store.InBucket(s.Path) {
			all = append(all, s)
			continue
		}
		path := Under(dir, s.Path)[0]
		found := []string{path}
		if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) && strings.ContainsAny(path, "*?[") {
			var err error
			if found, err = filepath.Glob(path); err != nil {
				return nil, fail.Errorf(fail.Usage, "%s: %w", s.Path, err)
			}
			if len(found) == 0 && !leaveOut {
				return nil, fail.Errorf(fail.Nothing, "%s: no such file", s.Path)
			}
		}
		for _, path := range found {
			all = append(all, Source{Path: path, Weight: s.Weight})
		}
	}
	if len(all) == 0 {
		return nil, fail.Errorf(fail.Nothing, "no source is there")
	}
	return all, nil
}

// MergeOptions say how sources are added up.
type MergeOptions struct {
	HalfLife  time.Duration // of stores, of which there is one at least, halve the weight of samples with so much age; 0 is not to
	Normalise bool          // scale the sources to equally many samples of each event, before weights
	MaxHost   float64       // of stores, the largest share of the samples that a host may have; 0 and 1 are no bound
	LeaveOut  bool          // leave out a source that cannot be read, unless all are
}

// Merge is Read of sources with weights.
func Merge(ctx context.Context, sources []Source, how MergeOptions, opt Options) (*Session, error) {
	return merged(ctx, sources, how, opt, func(s *Session, all *sum) (err error) {
		s.Recording, err = s.withCounted(all)
		return err
	})
}

// MergeSum is Merge of sources whose recording is only written: the sum that it returns beside the session, whose Recording is nil,
// takes a fraction of the memory.
func MergeSum(ctx context.Context, sources []Source, how MergeOptions, opt Options) (*Session, *sample.Sum, error) {
	var written *sample.Sum
	s, err := merged(ctx, sources, how, opt, func(s *Session, all *sum) error {
		if len(s.truths) > 0 {
			rec, err := s.withCounted(all)
			if err != nil {
				return err
			}
			all = &sum{one: rec, any: true}
		}
		all.addOne()
		written = &all.all
		return nil
	})
	return s, written, err
}

// merged returns a session of sources, whose sum take takes.
func merged(ctx context.Context, sources []Source, how MergeOptions, opt Options, take func(*Session, *sum) error) (*Session, error) {
	s, err := New(opt)
	if err != nil {
		return nil, err
	}
	all, err := s.merge(ctx, sources, how)
	if err == nil {
		err = take(s, all)
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

func (s *Session) merge(ctx context.Context, sources []Source, how MergeOptions) (*sum, error) {
	var parts []*sample.Recording // with Normalise, which compares them
	var weights []float64
	var all sum
	var idle idle
	var bad error
	aged := how.HalfLife == 0
	for _, source := range sources {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		aged = aged || isStore(source.Path)
		before, beside := len(s.truths), s.beside()
		into := &all
		if source.Weight != 1 || how.Normalise || s.opt.Between.String() != "" || len(sources) > 1 && !store.Is(source.Path) {
			into = nil
		}
		rec, err := s.readWeighed(ctx, source.Path, how, into)
		if err == nil && rec != nil {
			rec, err = s.cut(rec, Name(source.Path))
		}
		for i := range s.truths[before:] {
			s.truths[before+i].weight = source.Weight
		}
		if err == nil {
			idle.note(source.Path, s.beside() == beside && (rec == nil && all.empty || rec != nil && rec.Empty()))
		}
		switch {
		case err == nil && rec == nil: // it is added
		case err == nil && how.Normalise:
			rec = rec.Apart()
			parts, weights = append(parts, rec), append(weights, source.Weight)
		case err == nil && len(sources) > 1:
			all.add(rec.Apart().Scale(source.Weight))
		case err == nil:
			all.add(rec.Scale(source.Weight))
		case !how.LeaveOut || fail.KindOf(err) == fail.Usage:
			return nil, err
		default:
			s.notify.Warn("%v; it is left out", err)
			bad = errors.Join(bad, err)
		}
	}
	if how.Normalise {
		for i, rec := range sample.Normalise(parts) {
			all.add(rec.Scale(weights[i]))
		}
	}
	switch {
	case !all.any:
		return nil, fail.Errorf(fail.Nothing, "merge: no source is left: %w", bad)
	case !aged:
		return nil, fail.Errorf(fail.Usage, "a half-life is of what stores hold, and no source is one: nothing else says when its samples were taken")
	}
	idle.tell(s.notify)
	return &all, nil
}

// readWeighed reads a source as readSource does, and of stores bounds hosts or weighs by age.
func (s *Session) readWeighed(ctx context.Context, path string, how MergeOptions, into *sum) (*sample.Recording, error) {
	if how.MaxHost > 0 && how.MaxHost < 1 && isStore(path) {
		return s.readBounded(ctx, path, how.MaxHost)
	}
	return s.readAged(ctx, path, how.HalfLife, into)
}

// Selectable reports whether times and labels choose from a source: a store, or a server of profiles.
func Selectable(path string) bool { return MayBeStore(path) || fetch.Selects(path) }

// MayBeStore reports whether a source is a bucket or a directory, which of sources only stores are.
func MayBeStore(path string) bool {
	st, err := os.Stat(path)
	return store.InBucket(path) || err == nil && st.IsDir()
}

// isStore reports whether a source is a store.
func isStore(path string) bool { return path != "-" && store.Is(path) }

// readAged reads a source as readSource does; with a half-life, what is selected of a store, weighed by age. Recordings beside it count whole.
func (s *Session) readAged(ctx context.Context, path string, halfLife time.Duration, into *sum) (*sample.Recording, error) {
	if halfLife == 0 || !isStore(path) {
		return s.readSource(ctx, path, into)
	}
	var sum sample.Recording
	err := s.eachEpoch(path, func(e, last sample.Epoch, rec *sample.Recording) {
		age := last.To().Sub(e.To())
		if w := math.Exp2(-age.Seconds() / halfLife.Seconds()); w > 0 {
			sum.AddAll(rec.Scale(w))
		}
	})
	if err != nil {
		return nil, err
	}
	return sample.Merge(&sum), nil
}

// ReadSets reads each path as a set of its own, without stacks; with epochs, each stretch of time of stores.
func (s *Session) ReadSets(ctx context.Context, paths []string, epochs bool) ([]*compare.Set, error) {
	var sets []*compare.Set
	var idle idle
	for _, path := range paths {
		before := len(sets)
		if epochs && isStore(path) {
			err := s.eachEpoch(path, func(e, _ sample.Epoch, rec *sample.Recording) {
				if rec.Samples() > 0 {
					sets = append(sets, &compare.Set{Name: path + " " + e.From().Format(time.RFC3339), Epoch: &e, Recording: s.even(rec).WithoutStacks()})
				}
			})
			if err != nil {
				return nil, err
			}
			idle.note(path, len(sets) == before)
			continue
		}
		rec, err := s.read(ctx, []string{path})
		if err != nil {
			return nil, err
		}
		idle.note(path, false) // that is an error
		sets = append(sets, &compare.Set{Name: Name(path), Recording: s.even(rec).WithoutStacks()})
	}
	idle.tell(s.notify)
	return sets, nil
}

// LeftOut is how many samples ReadSets left out for what Options.Unless says.
func (s *Session) LeftOut() uint64 { return s.leftOut }

// eachEpoch reads what is selected of a store, one stretch of time after the other; f
// is told the last one, too.
func (s *Session) eachEpoch(dir string, f func(e, last sample.Epoch, rec *sample.Recording)) error {
	opened, segments, err := s.segments(dir)
	if err != nil {
		return err
	}
	if len(s.opt.Unless) > 0 {
		but := s.query()
		with := but
		with.Unless = nil
		for _, seg := range segments {
			if with.Matches(seg.Epoch, seg.Labels) && !but.Matches(seg.Epoch, seg.Labels) {
				s.leftOut += seg.Samples
			}
		}
	}
	spans := s.disjoint(segments)
	var qs []store.Query
	for _, e := range spans {
		qs = append(qs, queryOf(s.query(), e))
	}
	err = opened.ReadEach(qs, func(i int, rec *sample.Recording) error {
		f(spans[i], spans[len(spans)-1], rec)
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

// segments opens a store, and lists what it holds.
func (s *Session) segments(dir string) (store.Store, []store.Segment, error) {
	opened, err := s.openStore(dir)
	if err != nil {
		return nil, nil, err
	}
	all, err := opened.Segments()
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", dir, err)
	}
	return opened, all, nil
}

// disjoint returns the stretches of time that selected segments cover, by start,
// each as one epoch: epochs of a store may lie in longer ones.
func (s *Session) disjoint(segments []store.Segment) []sample.Epoch {
	var spans []sample.Epoch
	since, until := s.opt.Since, s.opt.Until
	slices.SortFunc(segments, func(a, b store.Segment) int { return a.Epoch.From().Compare(b.Epoch.From()) })
	for _, seg := range segments {
		e := seg.Epoch
		if !since.IsZero() && !e.To().After(since) || !until.IsZero() && !e.From().Before(until) {
			continue
		}
		if n := len(spans); n > 0 && e.From().Before(spans[n-1].To()) {
			last := &spans[n-1]
			last.Length = max(last.Length, e.Start+e.Length-last.Start)
			continue
		}
		spans = append(spans, e)
	}
	return spans
}

// Newest returns the end of the newest epoch that was read of stores, and of an image that was inferred alone has
// samples; zero if there is none.
func (s *Session) Newest() (time.Time, error) {
	w, err := s.Window()
	return w.To, err
}

// HostLabel is the label that tells the hosts of a store apart.
const HostLabel = "host"

// Window returns what epochs were read of stores, and how many hosts, those with samples of an image that was inferred alone.
func (s *Session) Window() (store.Window, error) {
	q := s.query()
	if s.only != nil {
		q.Images = []sample.ImageID{s.only.id}
	}
	var all store.Window
	for _, opened := range s.stores {
		w, err := opened.Window(q, HostLabel)
		if err != nil {
			return all, err
		}
		all.Add(w)
	}
	return all, nil
}

// Tallies adds up the samples of each set by procedure, or by image, whose images have such names.
func (s *Session) Tallies(sets []*compare.Set, names map[sample.ImageID]string, byImage bool) []map[compare.Thing]uint64 {
	var all []map[compare.Thing]uint64
	for _, set := range sets {
		all = append(all, set.Tally(s.Open, names, TakeNamed(set.Recording, s.Open), byImage))
	}
	return all
}

// TellMissing names the images of sets that could not be opened.
func (s *Session) TellMissing(sets []*compare.Set) {
	var all []*sample.Recording
	for _, set := range sets {
		all = append(all, set.Recording)
	}
	s.TellImages(sample.Merge(all...))
}
