package store

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	mathrand "math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"backfeed/sample"
	"backfeed/sample/store/s3"
)

// A Bucket is a store in a bucket, which any number of machines write to and none keeps
// in order:
//
//	new/DAY/EPOCH-LENGTH-SUM.bfs     segments as they were put, of all images of a host
//	days/DAY                         what those of a day were merged into: see daylist
//	merged/DAY/SHARD-SUM-NONCE.bfp   the pieces that it was
//	gone/DAY/SUM-NONCE               which ones that were
//	images/BUILDID.KIND.SIZE.CRC32C  copies of sampled files
//
// A segment is put under the name of its content, if there is none of that name: what is
// sent twice, or late, or in another order, is there once. What was merged is known by the
// list of its day for as long as that day is kept, so that a segment that comes again does
// not count again. A reader takes a list as it is at one moment. What a list refers to was
// there whole before, and is removed only after it is no longer referred to.
//
// The day of a segment is that of its epoch's start by the clock of the host, which may be
// wrong: its samples are then found at that time, and are merged and dropped with those of
// that day. No clock of a reader or of who merges decides what counts.
type Bucket struct {
	name    string
	objects *s3.Bucket
	opts    Options
	ctx     context.Context

	mu    sync.Mutex
	gones map[string][]sum // that were read, by key
}

const (
	newDir    = "new/"
	daysDir   = "days/"
	mergedDir = "merged/"
	goneDir   = "gone/"
	copiesDir = "images/"
	pieceExt  = ".bfp"
)

// dayLength bounds an epoch in a bucket, in seconds.
const dayLength = 24 * 60 * 60

const (
	maxSegment  = 1 << 30  // bytes of a segment, or of a piece
	smallObject = 64 << 10 // bytes that are got at once rather than in parts
	tailBytes   = 64 << 10 // of a piece, that are got first: most directories
	parallel    = 16       // requests at a time
)

// OpenBucket opens the store in a bucket. It asks nothing of it.
func OpenBucket(address string, opts Options) (*Bucket, error) {
	o, err := s3.Open(address, opts.Bucket)
	if err != nil {
		return nil, err
	}
	if opts.Warn == nil {
		opts.Warn = func(error) {}
	}
	return &Bucket{name: s3.Name(address), objects: o, opts: opts, ctx: context.Background(), gones: map[string][]sum{}}, nil
}

// Traffic returns what was asked of the bucket so far.
func (b *Bucket) Traffic() s3.Traffic { return b.objects.Traffic() }

// blame names the bucket in an error.
func (b *Bucket) blame(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", b.name, err)
}

// dayOf returns the day of an epoch.
func dayOf(e sample.Epoch) string { return e.From().Format("20060102") }

// A rawName is what the name of a segment says of it.
type rawName struct {
	epoch sample.Epoch
	sum   sum
}

// key is the name of the segment's object.
func (n rawName) key() string {
	return fmt.Sprintf("%s%s/%s-%d-%x%s", newDir, dayOf(n.epoch), n.epoch.From().Format(nameTime), n.epoch.Length, n.sum, segmentExt)
}

// parseRaw takes the key of a segment apart.
func parseRaw(key string) (n rawName, ok bool) {
	f := strings.Split(strings.TrimSuffix(path.Base(key), segmentExt), "-")
	if len(f) != 3 || len(f[2]) != 2*sumSize {
		return n, false
	}
	start, err := time.Parse(nameTime, f[0])
	if err != nil {
		return n, false
	}
	n.epoch.Start = start.Unix()
	if _, err := fmt.Sscanf(f[1], "%d", &n.epoch.Length); err != nil || n.epoch.Length <= 0 || n.epoch.Length > dayLength {
		return n, false
	}
	if _, err := hex.Decode(n.sum[:], []byte(f[2])); err != nil {
		return n, false
	}
	return n, n.key() == key
}

func sumOfBytes(data []byte) (s sum) {
	all := sha256.Sum256(data)
	copy(s[:], all[:])
	return s
}

// EncodeSegment returns a recording of an epoch as Bucket.PutSegment takes it; nil of one of nothing. Each
// call makes another segment, of which each counts.
func EncodeSegment(e sample.Epoch, rec *sample.Recording, labels map[string]string) ([]byte, error) {
	if nothing(rec) {
		return nil, nil
	}
	if e.Start < 0 || e.Length <= 0 {
		return nil, fmt.Errorf("epoch %s: before 1970, or without length", e)
	}
	src := fromRecording(rec)
	var id partID
	rand.Read(id[:]) // never fails
	src.dir.parts = []partID{id}
	var out bytes.Buffer
	_, err := writeTo(&out, e, labels, []source{src}, all, false)
	return out.Bytes(), err
}

// writeTo writes segments as one, or as a piece of it that has some of its images.
func writeTo(w *bytes.Buffer, e sample.Epoch, labels map[string]string, sources []source, want func(sample.ImageID) bool, piece bool) (*directory, error) {
	head := &directory{piece: piece}
	w.WriteString(head.magic())
	dir, err := merge(sources, want, pack, func(b packed) error {
		_, err := w.Write(b.bytes)
		return err
	})
	if err != nil {
		return nil, err
	}
	dir.epoch, dir.labels, dir.piece = e, labels, piece
	if piece {
		dir.parts = nil
		dir.summary = eventsOf(dir.summary)
	}
	_, err = w.Write(dir.encode())
	return dir, err
}

// eventsOf returns a summary without any sums.
func eventsOf(summary *sample.Recording) *sample.Recording {
	of := &sample.Recording{}
	for _, c := range summary.Counts {
		of.Counts = append(of.Counts, sample.NewCounts(c.CPU, c.Event))
	}
	return of
}

// Put adds what was recorded during an epoch, which is at most a day, as one segment. It is
// in the bucket when Put returns. If Put fails, it may be there or not.
func (b *Bucket) Put(e sample.Epoch, rec *sample.Recording, labels map[string]string) error {
	data, err := EncodeSegment(e, rec, labels)
	if err != nil || data == nil {
		return err
	}
	return b.PutSegment(b.ctx, data)
}

// PutSegment adds a segment that EncodeSegment made, or that a Dir wrote. To call it again
// with the same bytes changes nothing, however often, and whatever became of the calls before.
func (b *Bucket) PutSegment(ctx context.Context, data []byte) error {
	dir, err := checkSegment(data)
	if err != nil {
		return err
	}
	n := rawName{dir.epoch, sumOfBytes(data)}
	_, err = b.objects.Put(ctx, n.key(), data)
	if !errors.Is(err, fs.ErrExist) {
		return b.blame(err)
	}
	// It was sent before. What is there has its name, and must have its content.
	old, _, err := b.objects.Get(ctx, n.key(), s3.Range{}, maxSegment)
	switch {
	case errors.Is(err, fs.ErrNotExist): // it has been merged meanwhile
		return nil
	case err == nil && sumOfBytes(old) != n.sum:
		err = b.objects.Overwrite(ctx, n.key(), data)
	}
	return b.blame(err)
}

// checkSegment refuses what is not the bytes of a segment.
func checkSegment(data []byte) (*directory, error) {
	r := bytes.NewReader(data)
	dir, _, err := readDirectory(r, r.Size())
	switch {
	case err != nil:
		return nil, err
	case dir.piece:
		return nil, fmt.Errorf("a part of a segment: %w", ErrFormat)
	case dir.epoch.Length > dayLength:
		return nil, fmt.Errorf("epoch %s: longer than a day, which is the most in a bucket", dir.epoch)
	}
	return dir, nil
}

// A view is what is in a bucket at one time.
type view struct {
	days []day
	bad  []*SegmentError
}

// A day is what is there of one day.
type day struct {
	name string
	list *daylist // nil is none

	raws []raw // that count
	late []raw // that were merged, and are not removed yet or came again
}

// A raw is a segment as it was put.
type raw struct {
	rawName
	s3.Object
}

// errStale says that what was to be read has been merged or dropped meanwhile.
var errStale = errors.New("changed while it was read")

// view looks at the days that may have epochs between two times; zero is without bound.
func (b *Bucket) view(from, to time.Time) (*view, error) {
	first, last := "", "99999999"
	if !from.IsZero() {
		first = from.UTC().Add(-dayLength * time.Second).Format("20060102")
	}
	if !to.IsZero() {
		last = to.UTC().Format("20060102")
	}
	v := &view{}
	at := map[string]int{}
	of := func(name string) *day {
		i, ok := at[name]
		if !ok {
			i = len(v.days)
			at[name] = i
			v.days = append(v.days, day{name: name})
		}
		return &v.days[i]
	}
	// The segments first: what is merged meanwhile is in the lists, which are got later.
	err := b.objects.List(b.ctx, newDir, after(newDir, first), func(o s3.Object) bool {
		name, _, _ := strings.Cut(strings.TrimPrefix(o.Key, newDir), "/")
		if name > last {
			return false
		}
		n, ok := parseRaw(o.Key)
		if !ok {
			v.bad = append(v.bad, &SegmentError{o.Key, fmt.Errorf("its name is not one of a segment: %w", ErrFormat)})
			return true
		}
		d := of(name)
		d.raws = append(d.raws, raw{n, o})
		return true
	})
	if err != nil {
		return nil, err
	}
	var listed []string
	err = b.objects.List(b.ctx, daysDir, after(daysDir, first), func(o s3.Object) bool {
		name := strings.TrimPrefix(o.Key, daysDir)
		if name > last {
			return false
		}
		of(name)
		listed = append(listed, name)
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(v.days, func(a, b day) int { return cmp.Compare(a.name, b.name) })
	return v, each(len(v.days), func(i int) error {
		d := &v.days[i]
		if slices.Contains(listed, d.name) {
			var err error
			if d.list, _, err = b.daylist(d.name); errors.Is(err, fs.ErrNotExist) {
				return errStale // dropped
			} else if err != nil {
				return err
			}
		}
		return b.sortOut(d)
	})
}

// after returns the key behind which those of a day and of later ones are.
func after(dir, day string) string {
	if day == "" {
		return ""
	}
	return dir + day
}

// each calls f with 0 to n-1, several at a time, and returns the first error.
func each(n int, f func(i int) error) error {
	slots := make(chan struct{}, parallel)
	errs := make([]error, n)
	var wait sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wait.Go(func() {
			errs[i] = f(i)
			<-slots
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// daylist gets the list of a day. The error wraps fs.ErrNotExist if there is none.
func (b *Bucket) daylist(name string) (l *daylist, etag string, err error) {
	etag, err = b.checked(daysDir+name, maxList, func(data []byte) (err error) {
		l, err = decodeList(data)
		return err
	})
	return l, etag, err
}

// checked gets an object whose bytes are checked. What came through wrong is asked for again.
func (b *Bucket) checked(key string, most int64, check func(data []byte) error) (etag string, err error) {
	for try := 0; ; try++ {
		data, tag, err := b.objects.Get(b.ctx, key, s3.Range{}, most)
		if err != nil {
			return "", err
		}
		if err = check(data); err == nil {
			return tag, nil
		}
		if try == retries || !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTorn) {
			return "", &SegmentError{key, err}
		}
		time.Sleep(mathrand.N(pauseWrong))
	}
}

// retries is how often an object is got again that has the wrong bytes.
const (
	retries    = 3
	pauseWrong = 50 * time.Millisecond
)

// goneOf returns the sums of segments that were merged, of those epochs.
func (b *Bucket) goneOf(d *day, of func(sample.Epoch) bool) (map[sum]bool, error) {
	merged := map[sum]bool{}
	if d.list == nil {
		return merged, nil
	}
	for _, g := range d.list.gone {
		if !of(g.epoch) {
			continue
		}
		sums, err := b.gone(d.name, g)
		if err != nil {
			return nil, err
		}
		for _, s := range sums {
			merged[s] = true
		}
	}
	return merged, nil
}

func (b *Bucket) gone(day string, g gone) ([]sum, error) {
	key := goneDir + day + "/" + g.name
	b.mu.Lock()
	sums, ok := b.gones[key]
	b.mu.Unlock()
	if ok {
		return sums, nil
	}
	_, err := b.checked(key, maxList, func(data []byte) (err error) {
		sums, err = decodeGone(data, g.n)
		return err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, errStale
	}
	if err != nil {
		return nil, err
	}
	b.mu.Lock()
	b.gones[key] = sums
	b.mu.Unlock()
	return sums, nil
}

// sortOut finds which segments of a day were merged.
func (b *Bucket) sortOut(d *day) error {
	if len(d.raws) == 0 || d.list == nil {
		return nil
	}
	epochs := map[sample.Epoch]bool{}
	for _, r := range d.raws {
		epochs[r.epoch] = true
	}
	merged, err := b.goneOf(d, func(e sample.Epoch) bool { return epochs[e] })
	if err != nil {
		return err
	}
	d.raws = slices.DeleteFunc(d.raws, func(r raw) bool {
		if merged[r.sum] {
			d.late = append(d.late, r)
		}
		return merged[r.sum]
	})
	return nil
}

// stable calls f with a view until nothing that it reads is removed meanwhile.
func (b *Bucket) stable(from, to time.Time, f func(*view) error) error {
	for try := 0; ; try++ {
		v, err := b.view(from, to)
		if err == nil {
			err = f(v)
		}
		switch {
		case (errors.Is(err, errStale) || errors.Is(err, fs.ErrNotExist)) && try < 5*maxTries:
			time.Sleep(mathrand.N(time.Duration(try+1) * 20 * time.Millisecond))
		default:
			return b.blame(err)
		}
	}
}

// segment gets a segment as it was put, and checks it.
func (b *Bucket) segment(r raw) (data []byte, dir *directory, err error) {
	_, err = b.checked(r.Key, maxSegment, func(got []byte) error {
		if sumOfBytes(got) != r.sum {
			return fmt.Errorf("not the bytes that its name is of: %w", ErrFormat)
		}
		d, err := checkSegment(got)
		if err == nil && d.epoch != r.epoch {
			err = fmt.Errorf("its epoch is %s: %w", d.epoch, ErrFormat)
		}
		data, dir = got, d
		return err
	})
	return data, dir, err
}

// source returns a segment that is in memory, to be merged.
func (r raw) source(data []byte, dir *directory) source {
	at := bytes.NewReader(data)
	return source{name: r.Key, dir: dir, plain: func(bl block) ([]byte, error) { return readBlock(at, bl) }}
}

// pieceKey returns the key of a piece of a day.
func pieceKey(day string, p piece) string { return mergedDir + day + "/" + p.name }

// openPiece gets the directory of a piece, and the blocks of the images that are wanted, in
// one request or two; want may be nil for the directory alone.
func (b *Bucket) openPiece(day string, p piece, want func(sample.ImageID) bool) (source, error) {
	key := pieceKey(day, p)
	if p.bytes <= smallObject {
		var src source
		_, err := b.checked(key, p.bytes, func(data []byte) error {
			r := bytes.NewReader(data)
			dir, _, err := readDirectory(r, r.Size())
			if err == nil && (!dir.piece || r.Size() != p.bytes) {
				err = fmt.Errorf("not a part of a segment of %d bytes: %w", p.bytes, ErrFormat)
			}
			src = source{name: key, dir: dir, plain: func(bl block) ([]byte, error) { return readBlock(r, bl) }}
			return err
		})
		return src, err
	}
	for try := 0; ; try++ {
		src, err := b.partsOf(key, p.bytes, want)
		if err == nil || try == retries || !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTorn) {
			return src, err
		}
	}
}

// partsOf gets the directory of a piece from its end, and then what it needs.
func (b *Bucket) partsOf(key string, size int64, want func(sample.ImageID) bool) (source, error) {
	have := &window{size: size}
	get := func(from, to int64) error {
		if to <= from {
			return nil
		}
		data, _, err := b.objects.Get(b.ctx, key, s3.Range{From: from, N: to - from}, to-from)
		if err == nil && int64(len(data)) != to-from {
			err = fmt.Errorf("%s: %d bytes of %d: %w", key, len(data), to-from, ErrTorn)
		}
		have.from, have.data = from, data
		return err
	}
	for n := int64(tailBytes); ; n *= 8 {
		if err := get(max(size-n, 0), size); err != nil {
			return source{}, err
		}
		dir, _, err := readDirectory(have, size)
		if errors.Is(err, errBefore) {
			continue
		}
		if err == nil && !dir.piece {
			err = fmt.Errorf("not a part of a segment: %w", ErrFormat)
		}
		if err != nil {
			return source{}, &SegmentError{key, err}
		}
		src := source{name: key, dir: dir, plain: func(bl block) ([]byte, error) { return readBlock(have, bl) }}
		if want == nil {
			return src, nil
		}
		from, to := int64(math.MaxInt64), int64(0)
		for _, bl := range dir.blocks {
			if want(dir.image(bl)) {
				from, to = min(from, bl.off), max(to, bl.off+int64(bl.stored))
			}
		}
		if from < have.from {
			err = get(from, to)
		}
		if err != nil {
			return source{}, err
		}
		for _, bl := range dir.blocks { // now, as what is wrong may be right when it is asked for again
			if !want(dir.image(bl)) {
				continue
			}
			if _, err := readBlock(have, bl); err != nil {
				return source{}, &SegmentError{key, err}
			}
		}
		return src, nil
	}
}

// A window is the bytes of a file from a place on, as far as they were got.
type window struct {
	size, from int64
	data       []byte
}

// errBefore says that bytes were not got.
var errBefore = errors.New("not got")

func (w *window) ReadAt(p []byte, off int64) (int, error) {
	if off < w.from || off+int64(len(p)) > w.from+int64(len(w.data)) {
		return 0, errBefore
	}
	return copy(p, w.data[off-w.from:]), nil
}

// Read adds up the samples that q asks for. Where that is some of the images, the rest is
// not got where it was merged, and the result has no losses and that share of the weight that
// its samples have of all.
func (b *Bucket) Read(q Query) (rec *sample.Recording, err error) {
	err = b.stable(q.From, q.To, func(v *view) error {
		rec, err = b.read(v, q)
		return err
	})
	return rec, err
}

// ReadEach reads each query as Read does.
func (b *Bucket) ReadEach(qs []Query, f func(i int, rec *sample.Recording) error) error {
	for i, q := range qs {
		rec, err := b.Read(q)
		if err != nil {
			return err
		}
		if err := f(i, rec); err != nil {
			return err
		}
	}
	return nil
}

func (b *Bucket) read(v *view, q Query) (*sample.Recording, error) {
	for _, bad := range v.bad {
		b.opts.Warn(bad)
	}
	want := q.wants()
	sum := source{dir: &directory{summary: &sample.Recording{}}}
	names := map[sample.ImageID]string{}
	for _, d := range v.days {
		if d.list != nil {
			for _, g := range d.list.groups {
				if !q.Matches(g.epoch, g.labels) {
					continue
				}
				for _, id := range g.images {
					addPath(names, id)
				}
				parts, err := b.piecesOf(d.name, g, q.Images, want)
				if err != nil {
					return nil, err
				}
				parts = append(parts, sum, source{name: daysDir + d.name, dir: &directory{summary: g.summary}})
				if sum, err = sumOf(parts, want); err != nil {
					return nil, err
				}
			}
		}
		err := b.eachRaw(d.raws, q, func(sources []source) (err error) {
			for _, s := range sources {
				for _, id := range s.dir.images {
					addPath(names, id)
				}
			}
			sum, err = sumOf(append(sources, sum), want)
			return err
		})
		if err != nil {
			return nil, err
		}
	}
	return toRecording(sum, names, len(q.Images) == 0)
}

// piecesOf gets what is wanted of the pieces of a group.
func (b *Bucket) piecesOf(day string, g group, images []sample.ImageID, want func(sample.ImageID) bool) ([]source, error) {
	in := map[int]bool{whole: true}
	for _, id := range images {
		in[shardOf(id)] = true
	}
	var of []piece
	for _, p := range g.pieces {
		if len(images) == 0 || in[p.shard] {
			of = append(of, p)
		}
	}
	sources := make([]source, len(of))
	err := each(len(of), func(i int) (err error) {
		sources[i], err = b.openPiece(day, of[i], want)
		return err
	})
	return sources, err
}

// eachRaw calls f with segments that q asks for, some at a time. What is damaged is left out, and told.
func (b *Bucket) eachRaw(raws []raw, q Query, f func([]source) error) error {
	var of []raw
	for _, r := range raws {
		if q.overlaps(r.epoch) {
			of = append(of, r)
		}
	}
	for some := range slices.Chunk(of, maxOpen) {
		got := make([]source, len(some))
		bad := make([]error, len(some))
		err := each(len(some), func(i int) error {
			data, dir, err := b.segment(some[i])
			var wrong *SegmentError
			switch {
			case errors.As(err, &wrong):
				bad[i] = wrong
			case err != nil:
				return err
			case q.Matches(dir.epoch, dir.labels):
				got[i] = some[i].source(data, dir)
			}
			return nil
		})
		if err != nil {
			return err
		}
		for _, err := range bad {
			if err != nil {
				b.opts.Warn(err)
			}
		}
		got = slices.DeleteFunc(got, func(s source) bool { return s.dir == nil })
		if len(got) > 0 {
			if err := f(got); err != nil {
				return err
			}
		}
	}
	return nil
}
