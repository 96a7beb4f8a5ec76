package store

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"backfeed/sample"
	"backfeed/sample/store/s3"
	"backfeed/sample/wire"
)

// look returns a segment or group of each epoch and labels that q selects, as entries with
// their directories.
func (b *Bucket) look(v *view, q Query) ([]looked, error) {
	var out []looked
	for _, d := range v.days {
		if d.list != nil {
			for _, g := range d.list.groups {
				if !q.Matches(g.epoch, g.labels) {
					continue
				}
				l := looked{entry{fmt.Sprintf("%s%s %s", daysDir, d.name, g.epoch.From().Format(nameTime)), g.bytes(), &directory{epoch: g.epoch, labels: g.labels, summary: g.summary}}, int(g.puts)}
				sources, err := b.piecesOf(d.name, g, q.Images, nil)
				if err != nil {
					return nil, err
				}
				l.images = g.images
				index := map[sample.ImageID]int{}
				for i, id := range l.images {
					index[id.Key()] = i
				}
				for _, s := range sources {
					for _, bl := range s.dir.blocks {
						if bl.image != none {
							bl.image = index[s.dir.image(bl).Key()]
						}
						l.blocks = append(l.blocks, bl)
					}
				}
				out = append(out, l)
			}
		}
		err := b.eachRaw(d.raws, q, func(sources []source) error {
			for _, s := range sources {
				out = append(out, looked{entry{s.name, rawSize(d.raws, s.name), s.dir}, len(s.dir.parts)})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(out, func(a, b looked) int {
		return cmp.Or(cmp.Compare(a.epoch.Start, b.epoch.Start), cmp.Compare(a.epoch.Length, b.epoch.Length), cmp.Compare(a.name, b.name))
	})
	return out, nil
}

// A looked is a segment or a group, and the number of Puts that it is of.
type looked struct {
	entry
	puts int
}

func rawSize(raws []raw, key string) int64 {
	i := slices.IndexFunc(raws, func(r raw) bool { return r.Key == key })
	return raws[i].Size
}

// Window returns the time of the epochs of which q asks for samples and the store has some, and the values that a label
// has in their segments.
func (b *Bucket) Window(q Query, label string) (w Window, err error) {
	wants := q.wants()
	err = b.stable(q.From, q.To, func(v *view) error {
		w = Window{}
		all, err := b.look(v, q)
		for _, e := range all {
			w.add(e.entry, wants, label)
		}
		return err
	})
	return w, err
}

// Segments lists the segments that were put and not merged yet, and what the others were merged into, by epoch.
func (b *Bucket) Segments() (out []Segment, err error) {
	err = b.stable(time.Time{}, time.Time{}, func(v *view) error {
		out = nil
		all, err := b.look(v, Query{})
		for _, e := range all {
			out = append(out, e.segment(e.puts))
		}
		return err
	})
	return out, err
}

// everything returns all that v shows, and the copies of images.
func (b *Bucket) everything(v *view) ([]entry, []imageCopy, error) {
	all, err := b.look(v, Query{})
	if err != nil {
		return nil, nil, err
	}
	entries := make([]entry, len(all))
	for i, e := range all {
		entries[i] = e.entry
	}
	copies, err := b.copies()
	return entries, copies, err
}

// Stats adds up what is in the store. It gets all directories.
func (b *Bucket) Stats() (st *Stats, err error) {
	err = b.stable(time.Time{}, time.Time{}, func(v *view) error {
		entries, copies, err := b.everything(v)
		if err != nil {
			return err
		}
		st = statsOf(entries, copies)
		st.Unused = len(v.bad)
		for _, d := range v.days {
			st.Unused += len(d.late)
		}
		return nil
	})
	return st, err
}

// Images lists the sampled images, those with the most samples first. It gets all directories.
func (b *Bucket) Images() (out []Image, err error) {
	err = b.stable(time.Time{}, time.Time{}, func(v *view) error {
		entries, copies, err := b.everything(v)
		if err != nil {
			return err
		}
		out = imagesOf(entries, copies)
		return nil
	})
	return out, err
}

// Named lists the images that the epochs of a query have, as far as they can be told without getting what is in them.
func (b *Bucket) Named(q Query) (out []sample.ImageID, err error) {
	err = b.stable(q.From, q.To, func(v *view) error {
		var of []source
		for _, d := range v.days {
			if d.list != nil {
				for _, g := range d.list.groups {
					if q.Matches(g.epoch, g.labels) {
						of = append(of, source{dir: &directory{images: g.images}})
					}
				}
			}
			err := b.eachRaw(d.raws, q, func(some []source) error {
				for _, s := range some {
					of = append(of, source{dir: &directory{images: s.dir.images}})
				}
				return nil
			})
			if err != nil {
				return err
			}
		}
		out = mergeImages(of, all)
		return nil
	})
	return out, err
}

// copies lists the copies of images.
func (b *Bucket) copies() (out []imageCopy, err error) {
	err = b.objects.List(b.ctx, copiesDir, "", func(o s3.Object) bool {
		if c, ok := parseCopy(strings.TrimPrefix(o.Key, copiesDir)); ok && c.size == o.Size {
			c.written = o.Modified
			out = append(out, c)
		}
		return true
	})
	return out, err
}

// copyOf returns the copy of an image.
func (b *Bucket) copyOf(id sample.ImageID, kind Kind) (found imageCopy, err error) {
	err = b.objects.List(b.ctx, fmt.Sprintf("%s%s.%s.", copiesDir, id.Build, kind), "", func(o s3.Object) bool {
		c, ok := parseCopy(strings.TrimPrefix(o.Key, copiesDir))
		if ok = ok && c.size == o.Size && c.kind == kind; ok {
			found = c
		}
		return !ok
	})
	if err == nil && found.name == "" {
		err = fmt.Errorf("%s: no copy of its %s: %w", id, kind, fs.ErrNotExist)
	}
	return found, err
}

// HasImage reports whether there is a copy of an image.
func (b *Bucket) HasImage(id sample.ImageID, kind Kind) (bool, error) {
	_, err := b.copyOf(id, kind)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, b.blame(err)
}

// KeepImage copies a file that samples are of. It is known by its build ID, and copied only once.
func (b *Bucket) KeepImage(ctx context.Context, id sample.ImageID, r io.ReadSeeker, kind Kind) error {
	if id.Build.IsZero() {
		return fmt.Errorf("%s: no build ID to keep it by", id)
	}
	if has, err := b.HasImage(id, kind); has || err != nil {
		return err
	}
	c, err := newCopy(ctx, id, r, kind)
	if err != nil {
		return err
	}
	_, err = b.objects.PutFrom(ctx, copiesDir+c.fileName(), r)
	if errors.Is(err, fs.ErrExist) { // of these bytes
		return nil
	}
	return b.blame(err)
}

// OpenImage returns the path of the copy of an image, which is got if it was not before, and
// an error that wraps fs.ErrNotExist if there is none.
func (b *Bucket) OpenImage(id sample.ImageID, kind Kind) (string, error) {
	c, err := b.copyOf(id, kind)
	if err != nil {
		return "", err
	}
	dir := b.opts.Cache
	if dir == "" {
		if dir, err = os.UserCacheDir(); err != nil {
			dir = os.TempDir()
		}
		dir = filepath.Join(dir, "backfeed", "images")
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return "", err
	}
	path := filepath.Join(dir, c.name)
	if n, sum, err := checksum(path); err == nil && n == c.size && sum == c.sum {
		return path, nil
	}
	f, err := os.CreateTemp(dir, "."+c.name+"-")
	if err != nil {
		return "", err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	sum := crc32.New(wire.Castagnoli)
	for at := int64(0); at < c.size; { // as it may be large
		n := min(c.size-at, 16<<20)
		data, _, err := b.objects.Get(b.ctx, copiesDir+c.name, s3.Range{From: at, N: n}, n)
		if err == nil && int64(len(data)) != n {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return "", b.blame(err)
		}
		sum.Write(data)
		if _, err := f.Write(data); err != nil {
			return "", err
		}
		at += n
	}
	if sum.Sum32() != c.sum {
		return "", b.blame(fmt.Errorf("%s: not the bytes that were copied", c.name))
	}
	return path, cmp.Or(f.Close(), os.Rename(f.Name(), path))
}

// orphanGrace is how long an object is kept that no list refers to: a job may be about to have the list refer to it.
const orphanGrace = 24 * time.Hour

// An orphan is an object that no list refers to.
type orphan struct {
	s3.Object
	old bool // it may be removed
}

// orphans finds them. The lists are looked at after the objects.
func (b *Bucket) orphans() (out []orphan, err error) {
	var found []s3.Object
	for _, dir := range []string{mergedDir, goneDir, "probe/"} {
		err := b.objects.List(b.ctx, dir, "", func(o s3.Object) bool {
			found = append(found, o)
			return true
		})
		if err != nil {
			return nil, err
		}
	}
	lists := map[string]*daylist{}
	for _, o := range found {
		day, name := "", o.Key
		if f := strings.Split(o.Key, "/"); len(f) == 3 {
			day, name = f[1], f[2]
		}
		if _, ok := lists[day]; !ok && day != "" {
			l, _, err := b.daylist(day)
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return nil, err // what it refers to is not known
			}
			lists[day] = l
		}
		if l := lists[day]; l == nil || !l.has(name) {
			out = append(out, orphan{o, b.objects.Now().Sub(o.Modified) > orphanGrace})
		}
	}
	return out, nil
}

// sweep removes what no list refers to, and what came again of segments that were merged.
func (b *Bucket) sweep(v *view) (removed int, err error) {
	var keys []string
	for _, d := range v.days {
		for _, r := range d.late {
			keys = append(keys, r.Key)
		}
	}
	lost, err := b.orphans()
	if err != nil {
		return 0, err
	}
	for _, o := range lost {
		if o.old {
			keys = append(keys, o.Key)
		}
	}
	return len(keys), b.remove(keys)
}

// GC removes days, oldest first, until the rest is as the retention says, and the copies of
// images that no samples are left of. The newest three days are always kept. Age is counted
// from now, or from the end of the newest day if that is earlier.
func (b *Bucket) GC(keep Retention, now time.Time) (done Collected, err error) {
	err = b.stable(time.Time{}, time.Time{}, func(v *view) error {
		done, err = b.gc(v, keep, now)
		return err
	})
	return done, err
}

func (b *Bucket) gc(v *view, keep Retention, now time.Time) (done Collected, err error) {
	if _, err := b.sweep(v); err != nil {
		return done, err
	}
	copies, err := b.copies()
	if err != nil {
		return done, err
	}
	var days [][]entry
	for _, d := range v.days {
		start, err := time.Parse("20060102", d.name)
		if err != nil {
			continue
		}
		e := entry{d.name, 0, &directory{epoch: sample.EpochAt(start, dayLength*time.Second)}}
		of := []source{}
		if d.list != nil {
			of = append(of, source{dir: &directory{images: d.list.allImages()}})
			for _, g := range d.list.groups {
				e.size += g.bytes()
			}
		}
		for _, r := range d.raws {
			e.size += r.Size
		}
		if len(copies) > 0 {
			err := b.eachRaw(d.raws, Query{}, func(some []source) error {
				for _, s := range some {
					of = append(of, source{dir: &directory{images: s.dir.images}})
				}
				return nil
			})
			if err != nil {
				return done, err
			}
		}
		e.images = mergeImages(of, all)
		days = append(days, []entry{e})
	}
	// The clock of the server wrote the times of copies.
	for i := range copies {
		copies[i].written = now.Add(copies[i].written.Sub(b.objects.Now()))
	}
	n, unused, most := expired(days, copies, keep, now)
	for _, d := range v.days[:n] {
		k, err := b.drop(d)
		done.Segments += k
		if err != nil {
			return done, err
		}
		done.Epochs++
		i := slices.IndexFunc(days, func(e []entry) bool { return e[0].name == d.name })
		done.Bytes += days[i][0].size
	}
	for _, c := range unused {
		if err := b.objects.Delete(b.ctx, copiesDir+c.name); err != nil {
			return done, err
		}
		done.Copies++
		done.Bytes += c.size
	}
	if most > 0 {
		return done, fmt.Errorf("%d of %d days ended more than %v before the newest one: %w", most, len(days), keep.MaxAge, ErrMost)
	}
	return done, nil
}

// drop removes a day: what was put first, so that it does not count again without the list.
func (b *Bucket) drop(d day) (segments int, err error) {
	var keys, then []string
	for _, r := range append(slices.Clone(d.raws), d.late...) {
		keys = append(keys, r.Key)
	}
	segments = len(d.raws)
	if d.list != nil {
		for _, g := range d.list.groups {
			segments++
			for _, p := range g.pieces {
				then = append(then, pieceKey(d.name, p))
			}
		}
		for _, g := range d.list.gone {
			then = append(then, goneDir+d.name+"/"+g.name)
		}
	}
	if err := b.remove(keys); err != nil {
		return 0, err
	}
	if err := b.objects.Delete(b.ctx, daysDir+d.name); err != nil {
		return 0, err
	}
	return segments, b.remove(then)
}

// Fsck reads the whole store and checks all that can be checked: that objects have the content of
// their names, that lists refer to what is there, and that sums are those of what they are of. To
// repair is to remove what came again after it was merged, and what no list has referred to for a day.
func (b *Bucket) Fsck(repair bool) (r *Report, err error) {
	err = b.stable(time.Time{}, time.Time{}, func(v *view) error {
		r, err = b.fsck(v, repair)
		return err
	})
	return r, err
}

func (b *Bucket) fsck(v *view, repair bool) (*Report, error) {
	r := &Report{}
	for _, bad := range v.bad {
		r.Damaged = append(r.Damaged, bad)
	}
	for _, d := range v.days {
		for _, l := range d.late {
			r.Superseded = append(r.Superseded, l.Key)
		}
		for _, w := range d.raws {
			data, dir, err := b.segment(w)
			if err == nil {
				if err = dir.verify(bytes.NewReader(data)); err != nil {
					err = &SegmentError{w.Key, err}
				}
			}
			if err := r.damage(err); err != nil {
				return nil, err
			}
			if err == nil {
				r.Segments++
				r.Samples = add(r.Samples, dir.summary.Samples())
			}
		}
		if d.list == nil {
			continue
		}
		for _, g := range d.list.groups {
			r.Segments++
			r.Samples = add(r.Samples, g.summary.Samples())
			damaged := len(r.Damaged)
			if err := b.fsckGroup(d.name, g, r); err != nil {
				return nil, err
			}
			if len(r.Damaged) > damaged {
				r.Partly++
			}
		}
	}
	lost, err := b.orphans()
	if err != nil {
		return nil, err
	}
	for _, o := range lost {
		r.Unfinished = append(r.Unfinished, o.Key)
	}
	if err := b.fsckCopies(r); err != nil {
		return nil, err
	}
	if repair {
		r.Removed, err = b.sweep(v)
	}
	return r, err
}

// damage notes an error about bytes, and returns others.
func (r *Report) damage(err error) error {
	var wrong *SegmentError
	if errors.As(err, &wrong) {
		r.Damaged = append(r.Damaged, wrong)
		return nil
	}
	return err
}

// fsckGroup checks the pieces of a group, one after another.
func (b *Bucket) fsckGroup(day string, g group, r *Report) error {
	var sum, want uint64
	for _, p := range g.pieces {
		src, err := b.wholePiece(day, p)
		if err == nil {
			_, err = b.checked(pieceKey(day, p), maxSegment, func(data []byte) error { return src.dir.verify(bytes.NewReader(data)) })
		}
		if errors.Is(err, fs.ErrNotExist) {
			l, _, again := b.daylist(day)
			if again != nil || !l.has(p.name) {
				return errStale // it was merged meanwhile
			}
			err = &SegmentError{pieceKey(day, p), fmt.Errorf("the list of the day refers to it: %w", fs.ErrNotExist)}
			// From here on it is damage, and not what comes right by looking again.
			r.Damaged = append(r.Damaged, err)
			continue
		}
		if err != nil {
			if err := r.damage(err); err != nil {
				return err
			}
			continue
		}
		for _, bl := range src.dir.blocks {
			if p.shard != whole && shardOf(src.dir.image(bl)) != p.shard {
				r.Damaged = append(r.Damaged, &SegmentError{pieceKey(day, p), fmt.Errorf("%s is not of its shard", src.dir.image(bl))})
			}
			if bl.kind == kindSamples {
				sum = add(sum, bl.samples)
			}
		}
	}
	for _, c := range g.summary.Counts {
		want = add(want, inImages(c))
	}
	if sum != want {
		r.Damaged = append(r.Damaged, &SegmentError{daysDir + day, fmt.Errorf("epoch %s: %d samples in all, but %d in pieces", g.epoch, want, sum)})
	}
	return nil
}

// fsckCopies reads the copies of images.
func (b *Bucket) fsckCopies(r *Report) error {
	copies, err := b.copies()
	if err != nil {
		return err
	}
	for _, c := range copies {
		sum := crc32.New(wire.Castagnoli)
		for at := int64(0); at < c.size; {
			n := min(c.size-at, 16<<20)
			data, _, err := b.objects.Get(b.ctx, copiesDir+c.name, s3.Range{From: at, N: n}, n)
			if errors.Is(err, fs.ErrNotExist) {
				return errStale
			}
			if err != nil {
				return err
			}
			sum.Write(data)
			at += n
		}
		if sum.Sum32() != c.sum {
			r.Damaged = append(r.Damaged, fmt.Errorf("%s: not the bytes that were copied", c.name))
			continue
		}
		r.Copies++
	}
	return nil
}

// segment is what Segments says of an entry.
func (e entry) segment(puts int) Segment {
	s := Segment{
		Name: e.name, Epoch: e.epoch, Labels: maps.Clone(e.labels), Puts: puts, Bytes: e.size,
		Images: len(e.images), Samples: e.summary.Samples(), Lost: map[sample.Loss]uint64{},
	}
	for _, c := range e.summary.Counts {
		for why, n := range c.Lost {
			s.Lost[why] = add(s.Lost[why], n)
		}
	}
	return s
}
