package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A disk may lose what it said it had: NFS servers that answer before they write, drives with a
// cache that forgets, file systems that order names late. What is then there in part is seen by
// its checksums. What is gone without a trace is known by the index, if that remembers it: a
// segment of it whose parts no other one has, and which nobody may have removed. Retention and
// shipping take the oldest epochs first, so that those after the oldest one that is left are not
// theirs.

// ErrLost is wrapped by errors about what was whole once.
var ErrLost = errors.New("the disk did not keep it")

// lost returns errors about the segments that the index knows and that are not there, or are not
// whole any more. These stay in the index until a repair makes that anew.
func (s *Dir) lost(ix *index, entries []entry, bad []*SegmentError, l *listing) (lost []*SegmentError) {
	ix.lost = map[string]bool{}
	there := map[string]bool{}
	parts := map[partID]bool{}
	for _, e := range entries {
		there[e.name] = true
		for _, p := range e.parts {
			parts[p] = true
		}
	}
	torn := map[string]bool{}
	for _, b := range bad {
		there[b.Name], torn[b.Name] = true, errors.Is(b, ErrTorn)
	}
	_, err := os.Lstat(filepath.Join(s.dir, outboxDir))
	ships := err == nil
	for name := range ix.known {
		if there[name] && !torn[name] {
			continue
		}
		d := ix.directory(name)
		if d == nil || hasAll(parts, d.parts) {
			continue
		}
		if !torn[name] && (ships || len(l.live) == 0 || d.epoch.Start <= l.live[0].epoch.Start) {
			continue
		}
		ix.lost[name] = true
		lost = append(lost, &SegmentError{name, fmt.Errorf("%d samples of epoch %s were in it once: %w", d.summary.Samples(), d.epoch, ErrLost)})
	}
	slices.SortFunc(lost, func(a, b *SegmentError) int { return strings.Compare(a.Name, b.Name) })
	return lost
}

func hasAll(parts map[partID]bool, of []partID) bool {
	for _, p := range of {
		if !parts[p] {
			return false
		}
	}
	return true
}

// directory returns that of a segment as it was when the index was told of it; nil if it does not have it.
func (ix *index) directory(name string) *directory {
	v := ix.known[name]
	if len(v) < 12 {
		return nil
	}
	size := int64(binary.LittleEndian.Uint64(v[4:]))
	b := ix.get(name, size)
	if b == nil {
		return nil
	}
	d, err := decodeDirectory(b, size)
	if err != nil {
		return nil
	}
	return d
}

// gone returns errors about parts of the store, other than segments, that are not there.
func (s *Dir) gone() (gone []error) {
	if _, err := os.Lstat(filepath.Join(s.dir, marker)); errors.Is(err, fs.ErrNotExist) {
		gone = append(gone, fmt.Errorf("%s: the empty file that marks a store is gone: %w", marker, ErrLost))
	}
	for _, dir := range []struct{ name, with string }{{segmentsDir, "the samples"}, {imagesDir, "the copies of images"}} {
		if _, err := os.Lstat(filepath.Join(s.dir, dir.name)); errors.Is(err, fs.ErrNotExist) {
			gone = append(gone, fmt.Errorf("%s: the directory is gone, and %s that were in it: %w", dir.name, dir.with, ErrLost))
		}
	}
	return gone
}

// hasSegments reports whether there is a file of a segment in a store, or what was one.
func hasSegments(dir string) bool {
	names, err := (&Dir{dir: dir}).names()
	return err == nil && len(names) > 0
}
