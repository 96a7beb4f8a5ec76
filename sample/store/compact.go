package store

import (
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"backfeed/sample"
)

// tidy calls f with the segments of the store, swept of what is left behind, while no
// other process removes files.
func (s *Dir) tidy(f func(*listing) error) error {
	return s.exclusive(func() error {
		l, err := s.list()
		if err != nil {
			return err
		}
		s.warn(l)
		if _, err := s.sweep(l); err != nil {
			return err
		}
		if len(l.superseded) > 0 { // some may count now
			if l, err = s.list(); err != nil {
				return err
			}
		}
		return f(l)
	})
}

// exclusive runs f while no other process runs one on this store.
func (s *Dir) exclusive(f func() error) error {
	l, err := os.OpenFile(filepath.Join(s.dir, lockName), os.O_CREATE|os.O_RDWR, fileMode)
	if err != nil {
		return err
	}
	defer l.Close()
	if err := lock(l, false); err != nil {
		return err
	}
	return f()
}

// Compact merges the segments of each epoch that ended by then and have the same
// labels into one. A zero time is all epochs. It returns the number of segments that
// were merged into others, and ErrBusy if another process is at it.
//
// What it makes of an epoch depends on what was put there, not on the order, nor
// on what was merged before.
func (s *Dir) Compact(by time.Time) (merged int, err error) {
	err = s.tidy(func(l *listing) error {
		for _, group := range groups(l.live) {
			if by.IsZero() || !group[0].epoch.To().After(by) {
				n, err := s.compact(group)
				merged += n
				if err != nil {
					return err
				}
			}
		}
		return nil
	})
	return merged, err
}

// groups returns the segments that can be merged: those of equal epochs and labels.
func groups(live []entry) [][]entry {
	var out [][]entry
	for _, e := range live {
		if e.foreign() {
			continue
		}
		i := slices.IndexFunc(out, func(g []entry) bool {
			return g[0].epoch == e.epoch && maps.Equal(g[0].labels, e.labels)
		})
		if i < 0 {
			out = append(out, nil)
			i = len(out) - 1
		}
		out[i] = append(out[i], e)
	}
	return out
}

// foreign reports whether a segment has blocks of kinds that are not known here, and
// would be lost if it were merged.
func (d *directory) foreign() bool {
	return slices.ContainsFunc(d.blocks, func(b block) bool { return !b.known() })
}

// compact merges segments of equal epochs and labels into one.
func (s *Dir) compact(group []entry) (merged int, err error) {
	for len(group) > 1 {
		n := min(len(group), maxOpen)
		sum, err := s.mergeFiles(group[:n])
		var bad *SegmentError
		switch {
		case errors.As(err, &bad):
			s.opts.Warn(bad)
			group = slices.DeleteFunc(group, func(e entry) bool { return e.name == bad.Name })
			continue
		case err != nil:
			return merged, err
		}
		for _, e := range group[:n] {
			if err := remove(filepath.Join(s.dir, segmentsDir, e.name)); err != nil {
				return merged, err
			}
			merged++
		}
		group = append(group[n:], sum)
	}
	return merged, nil
}

// mergeFiles writes the sum of segments.
func (s *Dir) mergeFiles(group []entry) (entry, error) {
	sources, closeAll, err := s.sources(group)
	defer closeAll()
	if err != nil {
		return entry{}, err
	}
	e := entry{name: name(group[0].epoch, mergeParts(sources))}
	if err := s.write(group[0].epoch, group[0].labels, sources); err != nil {
		return entry{}, err
	}
	f, err := sample.OpenRegular(filepath.Join(s.dir, segmentsDir, e.name))
	if err != nil {
		return entry{}, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return entry{}, err
	}
	e.size = st.Size()
	e.directory, _, err = readDirectory(f, e.size)
	return e, err
}

// sweep removes what is left behind: segments that were merged into others, the others
// instead if these are damaged, and files whose writer is dead. It returns their number.
func (s *Dir) sweep(l *listing) (removed int, err error) {
	for _, name := range s.useless(l) {
		if err := remove(filepath.Join(s.dir, segmentsDir, name)); err != nil {
			return removed, err
		}
		removed++
	}
	for _, bad := range l.bad {
		if !errors.Is(bad, ErrTorn) {
			continue
		}
		ok, err := removeLeftover(filepath.Join(s.dir, segmentsDir, bad.Name), torn)
		if err != nil {
			return removed, err
		}
		if ok {
			removed++
		}
	}
	return removed, nil
}

// useless returns the segments whose samples whole other ones have. Merging removes its parts when the sum is on the
// disk; where the disk kept those, it may not have kept the sum.
func (s *Dir) useless(l *listing) (names []string) {
	kept := map[partID]bool{} // of segments that are superseded, and needed
	errs := map[string]error{}
	damaged := func(e entry) bool {
		err, ok := errs[e.name]
		if !ok {
			err = s.verify(e)
			errs[e.name] = err
		}
		return err != nil
	}
	for _, e := range l.superseded {
		switch {
		case !slices.ContainsFunc(l.live, func(of entry) bool { return of.hasSome(e.parts) && damaged(of) }):
			names = append(names, e.name)
		case !damaged(e):
			for _, p := range e.parts {
				kept[p] = true
			}
		}
	}
	for _, e := range l.live {
		if len(kept) > 0 && hasAll(kept, e.parts) && damaged(e) {
			names = append(names, e.name)
		}
	}
	return names
}

// hasSome reports whether a segment has one of the parts, which are sorted.
func (d *directory) hasSome(parts []partID) bool {
	return slices.ContainsFunc(parts, func(p partID) bool {
		_, ok := slices.BinarySearchFunc(d.parts, p, compareIDs)
		return ok
	})
}

// sweepCopies removes copies of images that were not finished.
func (s *Dir) sweepCopies() (removed int, err error) {
	files, err := os.ReadDir(filepath.Join(s.dir, imagesDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return 0, err
	}
	for _, f := range files {
		c, ok := parseCopy(f.Name())
		if !ok {
			continue
		}
		ok, err := removeLeftover(filepath.Join(s.dir, imagesDir, c.name), func(f *os.File) bool { return !c.complete(f) })
		if err != nil {
			return removed, err
		}
		if ok {
			removed++
		}
	}
	return removed, nil
}

// torn reports whether a file is a segment without its end.
func torn(f *os.File) bool {
	st, err := f.Stat()
	if err != nil {
		return false
	}
	_, _, err = readDirectory(f, st.Size())
	return errors.Is(err, ErrTorn)
}

// removeLeftover removes a file that nobody is writing, if it is a leftover.
func removeLeftover(path string, is func(*os.File) bool) (bool, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer f.Close()
	switch err := lock(f, false); {
	case errors.Is(err, ErrBusy):
		return false, nil
	case err != nil:
		return false, err
	}
	if !is(f) { // it was finished meanwhile
		return false, nil
	}
	return true, os.Remove(path)
}
