package input

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/fetch"
	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/sample"
	"backfeed/sample/bound"
	"backfeed/sample/otlp"
	"backfeed/sample/perfdata"
	"backfeed/sample/store"
	"backfeed/sample/store/s3"
	"backfeed/sample/unwind"
)

// read adds up the samples of all paths.
func (s *Session) read(ctx context.Context, paths []string) (*sample.Recording, error) {
	var sum sum
	var idle idle
	for _, path := range paths {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		s.notify.Progress("reading %s", Name(path))
		before := s.beside()
		r, err := s.readSource(ctx, path, nil)
		if err == nil {
			r, err = s.cut(r, Name(path))
		}
		if err != nil {
			return nil, err
		}
		idle.note(path, r.Empty() && s.beside() == before)
		if len(paths) > 1 {
			r = r.Apart()
		}
		sum.add(r)
		s.Starts = append(s.Starts, startsIn(r))
	}
	s.notify.Done()
	r, err := s.withCounted(&sum)
	if err != nil {
		return nil, err
	}
	if s.waits() && s.Calls == nil {
		if r, err = r.Waits(s.opt.Infer.Event); err != nil {
			return nil, fail.Errorf(fail.Nothing, "%s: %w", strings.Join(Names(paths), ", "), err)
		}
		idle.tell(s.notify)
		return r, nil
	}
	if s.Calls != nil {
		if r.Samples() > 0 {
			return nil, fail.Errorf(fail.Nothing, "%s: some sources have functions and lines alone, which do not add up with samples that have addresses: read one kind at a time", strings.Join(Names(paths), ", "))
		}
		idle.tell(s.notify)
		return r, nil
	}
	if r.Samples() == 0 && len(r.Off) > 0 {
		return nil, fail.Errorf(fail.Nothing, "%s: no samples, as nothing ran for long; --event %s shows the time off the processor", strings.Join(Names(paths), ", "), sample.OffCPU)
	}
	if r.Samples() == 0 && report.Observed(r.Observed(nil)) == "" {
		return nil, fail.Errorf(fail.Nothing, "%s: no samples", strings.Join(Names(paths), ", "))
	}
	idle.tell(s.notify)
	return r, nil
}

// An idle knows which of several sources have nothing in them: alone, that is an error, and beside others easily missed.
type idle struct {
	of    int // sources
	paths []string
}

func (i *idle) note(path string, empty bool) {
	if i.of++; empty {
		i.paths = append(i.paths, path)
	}
}

// tell names those that have nothing, of several.
func (i *idle) tell(notify report.Notify) {
	if i.of < 2 {
		return
	}
	for _, path := range i.paths[:min(len(i.paths), mostTold)] {
		notify.Warn("%s: no samples", Name(path))
	}
	if more := len(i.paths) - mostTold; more > 0 {
		notify.Warn("%d more of %d sources have no samples", more, i.of)
	}
}

// beside returns how much was read that recordings do not have: exact counts, and samples that have names alone.
func (s *Session) beside() uint64 {
	n := uint64(len(s.truths))
	if s.Calls != nil {
		n += s.Calls.Samples
	}
	return n
}

// waits reports whether time off the processor is what is asked for.
func (s *Session) waits() bool { return sample.IsOff(s.opt.Infer.Event) }

// A sum adds recordings up as they are read, so that no more than one is held beside it.
type sum struct {
	one   *sample.Recording // as it was read, while there are no others; nil if there are, or none
	all   sample.Sum
	any   bool
	empty bool // what was decoded last
}

// add adds r, which nobody else has, as Merge returns it, whatever it was read from.
func (s *sum) add(r *sample.Recording) {
	if !s.any {
		s.one, s.any = r, true
		return
	}
	s.addOne()
	s.all.Add(r)
}

func (s *sum) addOne() {
	if s.one != nil {
		s.all.Add(s.one)
		s.one = nil
	}
}

// decode adds a stored recording.
func (s *sum) decode(b []byte) error {
	s.addOne()
	empty, err := s.all.Decode(b)
	if err != nil {
		return err
	}
	s.any, s.empty = true, empty
	return nil
}

// recording returns what was added, as Merge returns it.
func (s *sum) recording() *sample.Recording {
	if s.one != nil {
		return s.one
	}
	return s.all.Recording()
}

// withCounted is what was added, and the exact counts that were read meanwhile, as Merge returns it.
func (s *Session) withCounted(sum *sum) (*sample.Recording, error) {
	rec := sum.recording()
	counted, err := s.counted(rec)
	if err != nil || len(counted) == 0 {
		return rec, err
	}
	return sample.Merge(append(counted, rec)...), nil
}

// readSource reads one recording, of whatever kind it is. If it is a stored one and into is not nil, it is added to that, and nil
// is returned: that spares it maps of its places, which take most of the time.
func (s *Session) readSource(ctx context.Context, path string, into *sum) (*sample.Recording, error) {
	in, name := s.opt.Stdin, "standard input"
	switch {
	case fetch.Is(path):
		f, err := s.fetched(ctx, path)
		if err != nil {
			return nil, err
		}
		defer os.Remove(f.Name())
		defer f.Close()
		in, name = f, Name(path)
	case store.InBucket(path):
		return s.readStore(path)
	case path != "-":
		f, err := os.Open(path)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, fail.Cause(err))
		}
		defer f.Close()
		if st, err := f.Stat(); err == nil && st.IsDir() {
			return s.readStore(path)
		}
		in, name = f, path
	}
	r, err := s.decode(in, name, into)
	var disk *fs.PathError
	switch {
	case errors.As(err, &disk):
		return nil, fmt.Errorf("%s: %w", name, disk.Err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fail.Errorf(fail.Nothing, "%s: %w, broken off or changed since it was written: get or record it again", name, err)
	case err != nil: // the bytes are to blame
		return nil, fail.Errorf(fail.Nothing, "%s: %w", name, err)
	}
	return r, nil
}

// File reads what is not a recording from the file at path. Its error is of the kind
// fail.Nothing if the bytes are to blame.
func File[T any](path string, read func(io.Reader) (T, error)) (T, error) {
	var none T
	f, err := os.Open(path)
	if err != nil {
		return none, fmt.Errorf("%s: %w", path, fail.Cause(err))
	}
	defer f.Close()
	v, err := read(bufio.NewReaderSize(f, 1<<16))
	var disk *fs.PathError
	switch {
	case errors.As(err, &disk):
		return none, fmt.Errorf("%s: %w", path, disk.Err)
	case err != nil:
		return none, fail.Errorf(fail.Nothing, "%s: %w", path, err)
	}
	return v, nil
}

// OpenStore opens the store in dir, or in a bucket, which lets notify know of files that it cannot use. Its
// error is of the kind fail.Nothing if dir is there and is no store.
func OpenStore(dir string, notify report.Notify) (store.Store, error) {
	s, err := store.Open(dir, StoreOptions(notify))
	if store.InBucket(dir) && err != nil {
		return nil, fail.Wrap(fail.Usage, err)
	}
	if st, statErr := os.Stat(dir); errors.Is(err, store.ErrNoStore) && statErr == nil && !st.IsDir() {
		return nil, Mistaken(dir, WantStore, fail.Wrap(fail.Nothing, err))
	}
	if errors.Is(err, store.ErrNoStore) {
		return nil, fail.Errorf(fail.Nothing, "%s: a directory, but no store; record --store DIR and agent --store DIR make one", dir)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: %w", dir, fail.Cause(err))
	}
	return s, err
}

// StoreOptions lets a store tell of files that it cannot use.
func StoreOptions(notify report.Notify) store.Options {
	return store.Options{
		Warn: func(err error) { notify.Warn("%v", err) },
		Bucket: s3.Options{Retry: func(why error, in time.Duration) {
			notify.Warn("%v; asking again in %v", why, in.Round(time.Millisecond))
		}},
	}
}

// openStore opens a store to read, and remembers it: it may have the images too.
func (s *Session) openStore(dir string) (store.Store, error) {
	opened, err := OpenStore(dir, s.notify)
	if err != nil {
		return nil, err
	}
	s.stores = append(s.stores, opened)
	s.finder.stores = s.stores
	return opened, nil
}

// query asks a store for what is selected.
func (s *Session) query() store.Query {
	return store.Query{From: s.opt.Since, To: s.opt.Until, Labels: s.opt.Labels, Unless: s.opt.Unless}
}

// queryOf is q of an epoch alone.
func queryOf(q store.Query, e sample.Epoch) store.Query {
	q.From, q.To = e.From(), e.To()
	return q
}

// readStore reads what is selected of the store in dir.
func (s *Session) readStore(dir string) (*sample.Recording, error) {
	opened, err := s.openStore(dir)
	if err != nil {
		return nil, err
	}
	q := s.query()
	if b, ok := opened.(*store.Bucket); ok && s.opt.Only != "" {
		if q.Images, err = likely(b, q, s.opt.Only); err != nil {
			return nil, err
		}
	}
	rec, err := opened.Read(q)
	switch {
	case err != nil && store.InBucket(dir): // it names it
		return nil, err
	case err != nil:
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return rec, nil
}

// likely returns the images of a bucket among which the one is that the user means, so that others need not be got; none
// if it is not known.
func likely(b *store.Bucket, q store.Query, want string) (ids []sample.ImageID, err error) {
	all, err := b.Named(q)
	if err != nil {
		return nil, err
	}
	build, _ := image.ReadBuildID(want)
	names := map[string]bool{fileName(sample.ImageID{Path: want}): true}
	for _, id := range all {
		if !build.IsZero() && id.Build == build || id.Build.String() == want {
			names[fileName(id)] = true
		}
	}
	for _, id := range all {
		if names[fileName(id)] { // other builds, too: they are told
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// decode tells the kinds of recordings apart and reads one, as readSource does.
func (s *Session) decode(in io.Reader, name string, into *sum) (*sample.Recording, error) {
	head, in, err := peek(in)
	if err != nil {
		return nil, err
	}
	switch sample.Sniff(head) {
	case sample.FormatBackfeed:
		all, err := bound.ReadAll(in)
		if err != nil {
			return nil, err
		}
		if into != nil {
			return nil, into.decode(all)
		}
		rec, err := sample.Decode(all)
		s.from = readFrom{rec, sha256.Sum256(all)}
		return rec, err
	case sample.FormatPerf, sample.FormatPerfPipe:
		return perfdata.Read(in, perfdata.Options{StackDepth: s.opt.StackDepth, Unwind: s.unwinding(), Warn: func(msg string) { s.notify.Warn("%s: %s", name, msg) }})
	case sample.FormatPprof:
		rec, err := sample.ReadPprofPlaced(in, s.placer(name))
		var named *sample.NoAddressError
		switch {
		case !errors.As(err, &named):
			return rec, err
		case !s.opt.ByName:
			return nil, fmt.Errorf("%w: `backfeed emit go` makes a profile of those of a Go program, without inference; all else needs addresses, which files of runtime/pprof, perf.data and recordings have", err)
		}
		if s.Calls == nil {
			s.Calls = &sample.NamedCalls{}
		}
		s.Calls.Add(named.Calls)
		return &sample.Recording{}, nil
	case sample.FormatOTLP:
		return otlp.Read(in, otlp.Options{StackDepth: s.opt.StackDepth, Warn: func(msg string) { s.notify.Warn("%s: %s", name, msg) }, Offset: s.offsetOf})
	}
	if truth.IsCounts(head) {
		exact, err := truth.Read(in)
		if err != nil {
			return nil, err
		}
		s.truths = append(s.truths, weighedTruth{exact, 1})
		return &sample.Recording{}, nil
	}
	if truth.IsCover(head) {
		return s.readCover(in)
	}
	return nil, unknown(head)
}

// unwinding asks images that can be found how callers are found in their code, for goroutines that read a recording.
func (s *Session) unwinding() func(sample.ImageID) *unwind.Table {
	var mu sync.Mutex
	known := map[sample.ImageID]*unwind.Table{}
	return func(id sample.ImageID) *unwind.Table {
		mu.Lock()
		defer mu.Unlock()
		t, ok := known[id]
		if !ok {
			if im, err := s.Open(id); err == nil {
				t = im.Unwinding()
			}
			known[id] = t
		}
		return t
	}
}

// offsetOf asks an image that can be found where an address as linked is in its file.
func (s *Session) offsetOf(id sample.ImageID, address uint64) (sample.Offset, bool) {
	im, err := s.Open(id)
	if err != nil {
		return 0, false
	}
	return im.OffsetOf(image.Addr(address))
}

// isGperftools reports whether a file begins as a CPU profile of gperftools does: with the words 0, 3, 0, the period and 0
// (https://gperftools.github.io/gperftools/cpuprofile-fileformat.html), here those of a machine of 64 bits.
func isGperftools(head []byte) bool {
	if len(head) < 40 {
		return false
	}
	for i, want := range []uint64{0, 3, 0} {
		if binary.LittleEndian.Uint64(head[8*i:]) != want {
			return false
		}
	}
	return binary.LittleEndian.Uint64(head[24:]) > 0 && binary.LittleEndian.Uint64(head[32:]) == 0
}

// unknown says what a file that begins with head may be instead of a recording.
func unknown(head []byte) error {
	switch {
	case len(head) == 0:
		return errors.New("empty file: was the recording broken off? (of a Go profile, pprof.StopCPUProfile writes it in the end)")
	case bytes.HasPrefix(head, []byte(elf.ELFMAG)):
		return errors.New("an ELF image, not a recording of one: `backfeed record -o app.bfr -- PROGRAM` makes one")
	case string(head) == "bfr":
		return errors.New("the first bytes of a backfeed recording, and no more: was it broken off?")
	case isGperftools(head):
		return errors.New("a CPU profile of gperftools: `go tool pprof -proto -output FILE PROGRAM PROFILE` makes one that is read, of PROGRAM by its full path")
	case bytes.HasPrefix(head, []byte("bfr")):
		return errors.New("a backfeed recording of a version that this backfeed does not know")
	}
	kind := kindOf(head)
	switch kind {
	case kindGzip:
		return errors.New("compressed with gzip, but neither a pprof profile nor OTLP profiles, or cut off: " + wants[WantSamples].otherwise)
	case kindCounts:
		return errors.New("a counts document, which is inferred: name the recording that it was made of; `backfeed verify` compares it with exact counts")
	case kindText, kindUnknown:
		return errors.New("neither a backfeed recording nor perf.data nor a pprof profile nor OTLP profiles nor callgrind's counts (`backfeed help recordings` says what is read)")
	}
	return fmt.Errorf("%s, not a recording: %s", kind, wants[WantSamples].otherwise)
}

// peek returns the first bytes of in, and in as if they had not been read. A file
// stays a file: perf.data is not read from its start to its end.
func peek(in io.Reader) ([]byte, io.Reader, error) {
	if f, ok := in.(*os.File); ok {
		if st, err := f.Stat(); err == nil && st.Mode().IsRegular() {
			head := make([]byte, sample.SniffLen)
			n, err := f.ReadAt(head, 0)
			if err == io.EOF {
				err = nil
			}
			return head[:n], f, err
		}
	}
	b := bufio.NewReaderSize(in, 1<<16)
	head, err := b.Peek(sample.SniffLen)
	if err == io.EOF {
		err = nil
	}
	return head, b, err
}

// Starts are the first touches of code in a recording, in us since its process began, by
// the keys of images.
type Starts map[sample.ImageID]map[sample.Offset]uint64

func startsIn(rec *sample.Recording) Starts {
	all := Starts{}
	for _, counts := range rec.Counts {
		for _, ic := range counts.Images {
			if len(ic.First) == 0 {
				continue
			}
			first := all[ic.ID.Key()]
			if first == nil {
				first = map[sample.Offset]uint64{}
				all[ic.ID.Key()] = first
			}
			for off, us := range ic.First {
				if old, ok := first[off]; !ok || us < old {
					first[off] = us
				}
			}
		}
	}
	return all
}
