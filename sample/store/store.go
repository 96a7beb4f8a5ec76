package store

import (
	"bufio"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"backfeed/sample"
	"backfeed/sample/store/s3"
)

// The files of a store. What programs a machine runs, and their files, are nobody's
// but the store's owner's.
const (
	dirMode  = 0o700
	fileMode = 0o600

	marker      = "backfeed-store-1" // empty; the digit is the version of this layout
	markers     = "backfeed-store-?" // of all
	segmentsDir = "segments"
	imagesDir   = "images"
	indexName   = "index"
	lockName    = "lock"
	segmentExt  = ".bfs"
)

var (
	// ErrNoStore is wrapped by the error about a directory that is no store.
	ErrNoStore = errors.New("not a store of samples")
	// ErrNewer is wrapped by errors about what a later version of backfeed wrote. Nothing of it is removed.
	ErrNewer = errors.New("written by a newer backfeed: use that one")
	// ErrBusy says that another process does the same to the store.
	ErrBusy = errors.New("the store is being compacted, collected or repaired by another process")
)

// Options say how a store is used.
type Options struct {
	// Warn is told of each file that is not used, and why. It may be nil, and is
	// called by one goroutine at a time.
	Warn func(error)

	Bucket s3.Options // how a bucket is asked
	Cache  string     // directory of copies that were got from a bucket; "" is one of the user's
}

// A Store is a directory of segments, or the objects of a bucket. Any number of processes
// may use one at the same time. Its methods may be called by several goroutines.
type Store interface {
	// Put adds what was recorded during an epoch.
	Put(e sample.Epoch, rec *sample.Recording, labels map[string]string) error
	// Read adds up the samples that a query asks for.
	Read(q Query) (*sample.Recording, error)
	// ReadEach reads several queries one after the other, by as few looks at what there is as it can, until f returns an error.
	ReadEach(qs []Query, f func(i int, rec *sample.Recording) error) error
	// Window returns the time of the epochs of which q asks for samples, and the values that a label has there.
	Window(q Query, label string) (Window, error)
	// Segments lists what counts, Stats sums it up.
	Segments() ([]Segment, error)
	Stats() (*Stats, error)

	// Fsck reads and checks all that is there; to repair is to remove what is of no use.
	Fsck(repair bool) (*Report, error)
	// Compact merges what epochs that have ended by then have; a zero time is all epochs.
	Compact(by time.Time) (merged int, err error)
	// GC removes epochs, oldest first, until the rest is as the retention says.
	GC(keep Retention, now time.Time) (Collected, error)

	// Images lists the sampled images.
	Images() ([]Image, error)
	// KeepImage copies a file that samples are of, once for each build ID.
	KeepImage(ctx context.Context, id sample.ImageID, r io.ReadSeeker, kind Kind) error
	// OpenImage returns the path of a copy, and an error that wraps fs.ErrNotExist if there is none.
	OpenImage(id sample.ImageID, kind Kind) (path string, err error)
}

// Is reports whether a path is that of a store. Of a bucket it is not asked whether there is one.
func Is(path string) bool { return s3.Is(path) || IsDir(path) }

// InBucket reports whether a path is the address of a store in a bucket.
func InBucket(path string) bool { return s3.Is(path) }

// Name returns what people are told of the path of a store.
func Name(path string) string {
	if s3.Is(path) {
		return s3.Name(path)
	}
	return path
}

// Create opens the store at a path: a directory, which is made if there is none, or the address of a bucket.
func Create(path string, opts Options) (Store, error) {
	if s3.Is(path) {
		return OpenBucket(path, opts)
	}
	return CreateDir(path, opts)
}

// Open opens the store at a path.
func Open(path string, opts Options) (Store, error) {
	if s3.Is(path) {
		return OpenBucket(path, opts)
	}
	return OpenDir(path, opts)
}

// A Dir is a store in a directory.
type Dir struct {
	dir  string
	opts Options
}

// IsDir reports whether a directory is a store, of this version or of a later one, which OpenDir refuses.
func IsDir(dir string) bool {
	if errors.Is(layout(dir), ErrNewer) {
		return true
	}
	st, err := os.Stat(filepath.Join(dir, marker))
	return err == nil && st.Mode().IsRegular() || errors.Is(err, fs.ErrNotExist) && hasSegments(dir)
}

// layout returns an error if the store in dir has a layout of a later version.
func layout(dir string) error {
	others, err := fs.Glob(os.DirFS(filepath.Clean(dir)), markers)
	for _, m := range others {
		if m != marker {
			return fmt.Errorf("%s: %s, where this backfeed knows %s: %w", dir, m, marker, ErrNewer)
		}
	}
	return err
}

// Check reports what would keep Create from opening the store at a path, and a Store from writing to it, as far as that can be seen
// without making it. Of a bucket it looks at the address alone.
func Check(path string, opts Options) error {
	if s3.Is(path) {
		_, err := OpenBucket(path, opts)
		return err
	}
	if err := layout(path); err != nil {
		return err
	}
	for _, d := range []string{path, filepath.Join(path, segmentsDir), filepath.Join(path, imagesDir)} {
		if st, err := os.Stat(d); err == nil && st.Mode().Perm()&^dirMode != 0 && os.Chmod(d, st.Mode()) != nil {
			return private(d) // which says what is wrong
		}
		if err := checkBelow(d); err != nil {
			return err
		}
	}
	return nil
}

// checkBelow makes a file in a directory, or in the one where that is to be made, and removes it.
func checkBelow(dir string) error {
	at := filepath.Clean(dir)
	for {
		_, err := os.Stat(at)
		if !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			break
		}
		at = filepath.Dir(at)
	}
	f, err := os.CreateTemp(at, ".backfeed-")
	if failed := (*fs.PathError)(nil); errors.As(err, &failed) {
		return fmt.Errorf("%s: %w", dir, failed.Err)
	}
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// CreateDir opens the store in dir, which is made if there is none.
func CreateDir(dir string, opts Options) (*Dir, error) {
	if err := layout(dir); err != nil {
		return nil, err
	}
	for _, d := range []string{dir, filepath.Join(dir, segmentsDir), filepath.Join(dir, imagesDir)} {
		if err := os.MkdirAll(d, dirMode); err != nil {
			return nil, err
		}
		if err := private(d); err != nil {
			return nil, err
		}
	}
	f, err := os.OpenFile(filepath.Join(dir, marker), os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err == nil {
		f.Close()
	} else if !errors.Is(err, fs.ErrExist) && !IsDir(dir) {
		return nil, err
	}
	if err := errors.Join(syncDir(dir), syncDir(filepath.Dir(filepath.Clean(dir)))); err != nil {
		return nil, err
	}
	return OpenDir(dir, opts)
}

// private takes a directory, which an older version may have made, from all others.
func private(dir string) error {
	st, err := os.Stat(dir)
	if err != nil || st.Mode().Perm()&^dirMode == 0 {
		return err
	}
	if err := os.Chmod(dir, dirMode); err != nil {
		return fmt.Errorf("%s has mode %#o, and others may read samples there: %w", dir, st.Mode().Perm(), err)
	}
	return nil
}

// OpenDir opens the store in dir.
func OpenDir(dir string, opts Options) (*Dir, error) {
	if err := layout(dir); err != nil {
		return nil, err
	}
	if !IsDir(dir) {
		if _, err := os.Stat(dir); err != nil {
			return nil, err
		}
		return nil, fmt.Errorf("%s: %w", dir, ErrNoStore)
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	return &Dir{dir: dir, opts: opts}, nil
}

// Put adds what was recorded during an epoch, as one segment. It is on the disk
// when Put returns, and if Put fails, or is killed, nothing is. Two calls with
// equal arguments count twice. The Counts of rec pass Check. Segments are read by
// their labels; those of one epoch with equal labels are merged by Compact.
//
// A recording of nothing is not stored.
func (s *Dir) Put(e sample.Epoch, rec *sample.Recording, labels map[string]string) error {
	if nothing(rec) {
		return nil
	}
	if e.Start < 0 || e.Length <= 0 {
		return fmt.Errorf("epoch %s: before 1970, or without length", e)
	}
	src := fromRecording(rec)
	for {
		var id partID
		rand.Read(id[:]) // never fails
		src.dir.parts = []partID{id}
		err := s.write(e, labels, []source{src})
		if !errors.Is(err, errGone) {
			return err
		}
	}
}

// nothing reports whether there is nothing in a recording that is worth a segment.
func nothing(rec *sample.Recording) bool {
	return len(rec.Off) == 0 && !slices.ContainsFunc(rec.Counts, func(c *sample.Counts) bool {
		return c.Total > 0 || len(c.Branches)+len(c.Ranges)+len(c.Paths)+len(c.Targets) > 0
	})
}

// errGone says that a segment was removed while it was written.
var errGone = errors.New("removed while it was written")

// name returns the name of the file of a segment.
func name(e sample.Epoch, parts []partID) string {
	id := parts[0]
	if len(parts) > 1 {
		h := sha256.New()
		for _, p := range parts {
			h.Write(p[:])
		}
		copy(id[:], h.Sum(nil))
	}
	return e.From().Format(nameTime) + "-" + hex.EncodeToString(id[:]) + segmentExt
}

const nameTime = "20060102T150405Z"

// write merges segments into one.
func (s *Dir) write(e sample.Epoch, labels map[string]string, sources []source) error {
	path := filepath.Join(s.dir, segmentsDir, name(e, mergeParts(sources)))
	return writeFile(path, func(w *bufio.Writer) error {
		w.WriteString(magic)
		dir, err := merge(sources, all, pack, func(b packed) error {
			_, err := w.Write(b.bytes)
			return err
		})
		if err != nil {
			return err
		}
		dir.epoch, dir.labels = e, labels
		_, err = w.Write(dir.encode())
		return err
	})
}

// writeFile writes a file under its final name. When it returns without an
// error, the file is on the disk; else there is none.
func writeFile(path string, write func(*bufio.Writer) error) (err error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fileMode)
	if err != nil {
		return err
	}
	defer func() {
		err = cmp.Or(err, f.Close())
		if err != nil && !errors.Is(err, errGone) {
			os.Remove(path)
		}
	}()
	if err := cmp.Or(lock(f, true), still(f, path)); err != nil {
		return err
	}
	// From here on, the file is known to be no leftover as long as it is open. Once it
	// has an end, it can be merged and removed at any time.
	w := bufio.NewWriterSize(f, 1<<18)
	if err := write(w); err != nil {
		return err
	}
	return cmp.Or(w.Flush(), f.Sync(), syncDir(filepath.Dir(path)))
}

// still reports whether f is the file at path. Before it was locked, it could be
// taken for a leftover.
func still(f *os.File, path string) error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	if there, err := os.Stat(path); err != nil || !os.SameFile(mine, there) {
		return fmt.Errorf("%s: %w", path, errGone)
	}
	return nil
}

// syncDir makes the names in a directory durable.
func syncDir(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// An entry is a segment and its directory.
type entry struct {
	name string
	size int64
	*directory
}

// names lists the files of segments, sorted.
func (s *Dir) names() ([]string, error) {
	files, err := os.ReadDir(filepath.Join(s.dir, segmentsDir))
	if err != nil && !errors.Is(err, fs.ErrNotExist) { // gone
		return nil, err
	}
	var names []string
	for _, f := range files {
		if strings.HasSuffix(f.Name(), segmentExt) {
			names = append(names, f.Name())
		}
	}
	return names, nil
}

// A listing is what is in a store at one time.
type listing struct {
	live       []entry // sorted by epoch, then name
	superseded []entry // merged into live ones
	overlap    []entry // of which some parts, not all, are in live ones: not used
	bad        []*SegmentError
	lost       []*SegmentError // known from the index alone; of those in bad, too
}

// A SegmentError is about a segment that cannot be used.
type SegmentError struct {
	Name string // of the file
	Err  error  // wraps ErrTorn if it was not finished, ErrFormat if its bytes are wrong
}

func (e *SegmentError) Error() string { return e.Name + ": " + e.Err.Error() }
func (e *SegmentError) Unwrap() error { return e.Err }

// list reads the directories of all segments. Files come and go meanwhile: it
// looks until nothing changes, and a merged segment is written before its parts
// are removed, so that no samples are missed.
func (s *Dir) list() (*listing, error) {
	ix := s.openIndex()
	defer ix.update()
	return s.listWith(ix)
}

func (s *Dir) listWith(ix *index) (*listing, error) {
	var entries []entry
	var bad []*SegmentError
	var before []string
	known := map[string]entry{}
	var wrong *SegmentError
	for range maxTries {
		names, err := s.names()
		if err != nil {
			return nil, err
		}
		if before != nil && slices.Equal(names, before) {
			break
		}
		before = names
		entries, bad = entries[:0], bad[:0]
		for _, name := range names {
			e, ok := known[name]
			if !ok {
				e, err = s.entry(ix, name)
			}
			switch {
			case ok || err == nil:
				entries = append(entries, e)
				known[name] = e
			case errors.Is(err, fs.ErrNotExist):
				before = []string{} // look again
			case errors.As(err, &wrong):
				bad = append(bad, wrong)
			default:
				return nil, err
			}
		}
	}
	ix.names = before
	l := settle(entries)
	l.bad = bad
	l.lost = s.lost(ix, entries, bad, l)
	return l, nil
}

// entry returns the directory of a segment.
func (s *Dir) entry(ix *index, name string) (entry, error) {
	path := filepath.Join(s.dir, segmentsDir, name)
	st, err := os.Stat(path)
	if err != nil {
		return entry{}, err
	}
	if b := ix.get(name, st.Size()); b != nil {
		if d, err := decodeDirectory(b, st.Size()); err == nil {
			return entry{name, st.Size(), d}, nil
		}
	}
	f, err := sample.OpenRegular(path)
	if errors.Is(err, sample.ErrNotRegular) {
		return entry{}, &SegmentError{name, err}
	}
	if err != nil {
		return entry{}, err
	}
	defer f.Close()
	d, b, err := readDirectory(f, st.Size())
	if err == nil && d.piece {
		err = fmt.Errorf("a part of a segment, which only a bucket has: %w", ErrFormat)
	}
	if err != nil {
		return entry{}, &SegmentError{name, err}
	}
	ix.put(name, st.Size(), b)
	return entry{name, st.Size(), d}, nil
}

// settle reports which segments count. Each part counts once: a segment whose parts
// are all in others is superseded by them.
func settle(entries []entry) *listing {
	slices.SortFunc(entries, func(a, b entry) int {
		return cmp.Or(cmp.Compare(len(b.parts), len(a.parts)), cmp.Compare(a.name, b.name))
	})
	l := &listing{}
	seen := map[partID]bool{}
	for _, e := range entries {
		n := 0
		for _, p := range e.parts {
			if seen[p] {
				n++
			}
		}
		switch n {
		case 0:
			for _, p := range e.parts {
				seen[p] = true
			}
			l.live = append(l.live, e)
		case len(e.parts):
			l.superseded = append(l.superseded, e)
		default:
			l.overlap = append(l.overlap, e)
		}
	}
	slices.SortFunc(l.live, func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.epoch.Start, b.epoch.Start), cmp.Compare(a.epoch.Length, b.epoch.Length), cmp.Compare(a.name, b.name))
	})
	return l
}

// warn tells of what list could not use.
func (s *Dir) warn(l *listing) {
	told := map[string]bool{}
	for _, err := range l.lost {
		told[err.Name] = true
		s.opts.Warn(err)
	}
	for _, err := range l.bad {
		if told[err.Name] {
			continue
		}
		s.opts.Warn(err)
	}
	for _, e := range l.overlap {
		s.opts.Warn(&SegmentError{e.name, errOverlap})
	}
	for _, err := range s.gone() {
		s.opts.Warn(err)
	}
}

var errOverlap = errors.New("has samples that another segment has too, and others; it is not used")

// A Query says which samples to read. The zero Query is all of them.
type Query struct {
	From, To time.Time        // epochs that overlap [From, To); zero is without bound
	Images   []sample.ImageID // of these images; none is of all. Those with a build ID are known by it

	// Labels are those of the segments, which may have others. A name that ends in ! asks for segments whose label has none
	// of the values, between |, or that have no such label.
	Labels map[string]string
	Unless map[string]string // segments that have all of these labels are left out; no labels leave none out
}

func (q *Query) matches(e entry) bool { return q.Matches(e.epoch, e.labels) }

// overlaps reports whether an epoch has some of the time that is asked for.
func (q *Query) overlaps(e sample.Epoch) bool {
	return (q.From.IsZero() || e.To().After(q.From)) && (q.To.IsZero() || e.From().Before(q.To))
}

// Matches reports whether q asks for what has an epoch and labels.
func (q *Query) Matches(epoch sample.Epoch, labels map[string]string) bool {
	if !q.overlaps(epoch) {
		return false
	}
	for k, v := range q.Labels {
		name, not := strings.CutSuffix(k, "!")
		have, ok := labels[name]
		if not && ok && slices.Contains(strings.Split(v, "|"), have) || !not && (!ok || have != v) {
			return false
		}
	}
	return len(q.Unless) == 0 || !marked(labels, q.Unless)
}

// marked reports whether labels have all those that are wanted.
func marked(labels, want map[string]string) bool {
	for name, v := range want {
		if have, ok := labels[name]; !ok || have != v {
			return false
		}
	}
	return true
}

// wants returns the images that are asked for.
func (q *Query) wants() func(sample.ImageID) bool {
	if len(q.Images) == 0 {
		return all
	}
	keys := map[sample.ImageID]bool{}
	for _, id := range q.Images {
		keys[id.Key()] = true
	}
	return func(id sample.ImageID) bool { return keys[id.Key()] }
}

// Read adds up the samples that q asks for. Where that is some of the images, the
// rest of the segments is not read, and the result has no losses and that share of
// the weight that its samples have of all.
//
// Segments that cannot be read are left out, and Warn is told.
func (s *Dir) Read(q Query) (*sample.Recording, error) {
	skip := map[string]bool{}
	for try := 0; ; try++ {
		rec, err := s.read(q, skip)
		var bad *SegmentError
		switch {
		case errors.As(err, &bad):
			s.opts.Warn(bad)
			skip[bad.Name] = true
		case errors.Is(err, fs.ErrNotExist) && try < maxTries: // it was merged into another meanwhile
		default:
			return rec, err
		}
	}
}

// maxTries bounds how often a store is looked at that changes all the time.
const maxTries = 10

func (s *Dir) read(q Query, skip map[string]bool) (*sample.Recording, error) {
	l, err := s.list()
	if err != nil {
		return nil, err
	}
	if len(skip) == 0 {
		s.warn(l)
	}
	if len(skip) > 0 { // what they were merged of may be there
		rest := slices.DeleteFunc(slices.Concat(l.live, l.superseded, l.overlap), func(e entry) bool { return skip[e.name] })
		l = settle(rest)
	}
	return s.readOf(l, q)
}

// ReadEach reads each query as Read does, but lists the directory once, and again where what it listed is not as it was.
func (s *Dir) ReadEach(qs []Query, f func(i int, rec *sample.Recording) error) error {
	l, err := s.list()
	if err != nil {
		return err
	}
	s.warn(l)
	for i, q := range qs {
		rec, err := s.readOf(l, q)
		var bad *SegmentError
		if errors.As(err, &bad) || errors.Is(err, fs.ErrNotExist) {
			if rec, err = s.Read(q); err == nil {
				l, err = s.list()
			}
		}
		if err != nil {
			return err
		}
		if err := f(i, rec); err != nil {
			return err
		}
	}
	return nil
}

// readOf reads what is asked for of the segments that were listed.
func (s *Dir) readOf(l *listing, q Query) (_ *sample.Recording, err error) {
	var hits []entry
	for _, e := range l.live {
		if q.matches(e) {
			hits = append(hits, e)
		}
	}
	sum := source{dir: &directory{summary: &sample.Recording{}}}
	for group := range slices.Chunk(hits, maxOpen) {
		if sum, err = s.readGroup(sum, group, q.wants()); err != nil {
			return nil, err
		}
	}
	return toRecording(sum, paths(hits), len(q.Images) == 0)
}

// paths returns the path of each image that has samples or is called from one.
func paths(entries []entry) map[sample.ImageID]string {
	paths := map[sample.ImageID]string{}
	for _, e := range entries {
		for _, id := range e.images {
			addPath(paths, id)
		}
	}
	return paths
}

// maxOpen bounds the segments that are open at the same time.
const maxOpen = 64

// readGroup adds segments to those that are in memory.
func (s *Dir) readGroup(sum source, group []entry, want func(sample.ImageID) bool) (source, error) {
	sources, closeAll, err := s.sources(group)
	defer closeAll()
	if err != nil {
		return source{}, err
	}
	return sumOf(append(sources, sum), want)
}

// sumOf adds up segments in memory.
func sumOf(sources []source, want func(sample.ImageID) bool) (source, error) {
	var plain [][]byte
	dir, err := merge(sources, want, leave, func(b packed) error {
		plain = append(plain, b.bytes)
		return nil
	})
	if err != nil {
		return source{}, err
	}
	at := make(map[int64][]byte, len(plain))
	for i, b := range dir.blocks {
		at[b.off] = plain[i]
	}
	return source{dir: dir, plain: func(b block) ([]byte, error) { return at[b.off], nil }}, nil
}

// sources opens segments to be merged.
func (s *Dir) sources(entries []entry) (out []source, closeAll func(), err error) {
	var files []*os.File
	closeAll = func() {
		for _, f := range files {
			f.Close()
		}
	}
	for _, e := range entries {
		f, err := sample.OpenRegular(filepath.Join(s.dir, segmentsDir, e.name))
		if err != nil {
			return nil, closeAll, err
		}
		files = append(files, f)
		out = append(out, source{name: e.name, dir: e.directory, plain: func(b block) ([]byte, error) {
			return readBlock(f, b)
		}})
	}
	return out, closeAll, nil
}
