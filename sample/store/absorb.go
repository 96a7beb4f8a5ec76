package store

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	mathrand "math/rand/v2"
	"slices"
	"time"

	"backfeed/sample"
	"backfeed/sample/store/s3"
)

// A Compaction says what of a bucket one job merges, and how. Any number of jobs may be at
// it at the same time; what two of them do to the same samples, one of them does in vain.
type Compaction struct {
	Shard, Of int           // of all segments and images, this job does each Of-th; 0, 0 is all
	Into      time.Duration // epochs that are over are merged into ones of that length; 0 is not to
	Forget    []string      // labels that are dropped, so that more is of equal labels
}

func (c *Compaction) mine(n int) bool { return c.Of <= 1 || n%c.Of == c.Shard }

// labels returns those that are not forgotten.
func (c *Compaction) labels(of map[string]string) map[string]string {
	kept := maps.Clone(of)
	for _, k := range c.Forget {
		delete(kept, k)
	}
	return kept
}

// epoch returns the epoch that one is merged into at that time.
func (c *Compaction) epoch(e sample.Epoch, by time.Time) sample.Epoch {
	if c.Into <= 0 {
		return e
	}
	in := sample.EpochAt(e.From(), c.Into)
	if in.Length > dayLength || in.Length <= e.Length || in.To().Before(e.To()) || !over(in, by) {
		return e
	}
	return in
}

// over reports whether an epoch has ended by then; a zero time is after all.
func over(e sample.Epoch, by time.Time) bool { return by.IsZero() || !e.To().After(by) }

// splitBytes is the size from which the images of a group are divided among pieces, and maxAbsorbed bounds the
// segments that are merged at once.
const (
	splitBytes  = 4 << 20
	maxAbsorbed = 8192
)

// Compact merges the segments that were put, of epochs that have ended by then, into pieces
// by image. A zero time is all epochs. It returns the number of segments that were merged.
func (b *Bucket) Compact(by time.Time) (merged int, err error) { return b.CompactAs(by, Compaction{}) }

// CompactAs is Compact of what one job is to do. Its error wraps ErrUnconditional where the server does not keep what
// it promises.
func (b *Bucket) CompactAs(by time.Time, how Compaction) (merged int, err error) {
	if err := b.probe(); err != nil {
		return 0, b.blame(err)
	}
	var days []string
	err = b.stable(time.Time{}, time.Time{}, func(v *view) error {
		days = nil
		for _, bad := range v.bad {
			b.opts.Warn(bad)
		}
		for _, d := range v.days {
			days = append(days, d.name)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	for _, name := range days {
		from, err := time.Parse("20060102", name)
		if err != nil {
			continue
		}
		err = b.again(func() error {
			d, err := b.day(from)
			if err != nil {
				return err
			}
			n, err := b.absorb(d, by, &how)
			merged += n
			return err
		})
		if err == nil {
			err = b.again(func() error {
				n, err := b.fold(name, by, &how)
				merged += n
				return err
			})
		}
		if err != nil {
			return merged, b.blame(err)
		}
	}
	return merged, nil
}

// errLost says that another job was first.
var errLost = errors.New("another job merged the same meanwhile")

// again calls f until no other job is in its way.
func (b *Bucket) again(f func() error) error {
	for try := 0; ; try++ {
		err := f()
		if !errors.Is(err, errStale) && !errors.Is(err, errLost) && !errors.Is(err, fs.ErrNotExist) || try == 5*maxTries {
			return err
		}
		time.Sleep(mathrand.N(time.Duration(try+1) * 50 * time.Millisecond))
	}
}

// ErrUnconditional is wrapped where a server does as if it had not been told on which condition.
var ErrUnconditional = errors.New("the server does not honour If-None-Match and If-Match, so what jobs merge at the same time would count wrong: nothing was merged")

// probe asks the server for what all else here depends on.
func (b *Bucket) probe() error {
	key := "probe/" + nonce()
	defer b.objects.Delete(b.ctx, key)
	etag, err := b.objects.Put(b.ctx, key, []byte("a"))
	if err != nil {
		return err
	}
	if _, err := b.objects.Put(b.ctx, key, []byte("b")); !errors.Is(err, fs.ErrExist) {
		if err == nil {
			err = ErrUnconditional
		}
		return err
	}
	if _, err := b.objects.Replace(b.ctx, key, []byte("c"), "00000000000000000000000000000000"); !errors.Is(err, s3.ErrChanged) {
		if err == nil {
			err = ErrUnconditional
		}
		return err
	}
	_, err = b.objects.Replace(b.ctx, key, []byte("c"), etag)
	if errors.Is(err, s3.ErrChanged) { // the answer to it, which was made, may have been lost
		_, tag, bad := b.objects.Get(b.ctx, key, s3.Range{}, 1)
		if bad == nil && tag != etag {
			err = nil
		}
	}
	return err
}

// nonce returns what tells objects of equal content apart, so that what one job takes for its own, no other removes.
func nonce() string {
	var b [6]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// day looks at one day.
func (b *Bucket) day(at time.Time) (*day, error) {
	name := at.Format("20060102")
	d := &day{name: name}
	err := b.objects.List(b.ctx, newDir+name+"/", "", func(o s3.Object) bool {
		if n, ok := parseRaw(o.Key); ok {
			d.raws = append(d.raws, raw{n, o})
		}
		return true
	})
	if err != nil {
		return nil, err
	}
	d.list, _, err = b.daylist(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return d, b.sortOut(d)
}

// absorb merges segments of a day that were put into pieces.
func (b *Bucket) absorb(d *day, by time.Time, how *Compaction) (merged int, err error) {
	mine := func(raws []raw) (keys []string) {
		for _, r := range raws {
			if how.mine(int(r.sum[0])) {
				keys = append(keys, r.Key)
			}
		}
		return keys
	}
	if err := b.remove(mine(d.late)); err != nil {
		return 0, err
	}
	var of []raw
	for _, r := range d.raws {
		if how.mine(int(r.sum[0])) && over(r.epoch, by) {
			of = append(of, r)
		}
	}
	slices.SortFunc(of, func(a, b raw) int { return slices.Compare([]byte(a.Key), []byte(b.Key)) })
	for len(of) > 0 {
		n := 1
		for n < len(of) && n < maxAbsorbed && of[n].epoch == of[0].epoch {
			n++
		}
		k, err := b.absorbSome(d.name, of[:n], how)
		merged += k
		if err != nil {
			return merged, err
		}
		of = of[n:]
	}
	return merged, nil
}

// A building is a group that a job merges segments into.
type building struct {
	labels map[string]string
	sum    source
	puts   uint64
}

// absorbSome merges segments of one epoch.
func (b *Bucket) absorbSome(name string, raws []raw, how *Compaction) (merged int, err error) {
	groups := map[string]*building{}
	byKey := map[string]raw{}
	for _, r := range raws {
		byKey[r.Key] = r
	}
	var taken []raw
	err = b.eachRaw(raws, Query{}, func(sources []source) error {
		of := map[string][]source{}
		for _, s := range sources {
			if s.dir.foreign() {
				continue
			}
			taken = append(taken, byKey[s.name])
			labels := how.labels(s.dir.labels)
			key := labelKey(labels)
			if groups[key] == nil {
				groups[key] = &building{labels: labels, sum: source{dir: &directory{summary: &sample.Recording{}}}}
			}
			groups[key].puts += uint64(len(s.dir.parts))
			of[key] = append(of[key], s)
		}
		for key, some := range of {
			sum, err := sumOf(append(some, groups[key].sum), all)
			if err != nil {
				return err
			}
			sum.dir.parts = nil // there may be very many
			groups[key].sum = sum
		}
		return nil
	})
	if err != nil || len(taken) == 0 {
		return 0, err
	}
	epoch := raws[0].epoch
	w := &pieceWriter{b: b, day: name}
	pieces := map[string][]piece{}
	for _, key := range slices.Sorted(maps.Keys(groups)) {
		g := groups[key]
		if pieces[key], err = w.write(epoch, g.labels, []source{g.sum}, false); err != nil {
			return 0, err
		}
	}
	sums := make([]sum, len(taken))
	for i, r := range taken {
		sums[i] = r.sum
	}
	data := encodeGone(sums)
	record := gone{epoch: epoch, n: len(sums), name: fmt.Sprintf("%x-%s", sumOfBytes(data), nonce())}
	if err := w.put(goneDir+name+"/"+record.name, data); err != nil {
		return 0, err
	}
	err = b.commit(name, record.name, func(l *daylist) error {
		was, err := b.goneOf(&day{name: name, list: l}, func(e sample.Epoch) bool { return e == epoch })
		if err != nil {
			return err
		}
		for _, s := range sums {
			if was[s] {
				return errLost
			}
		}
		for _, key := range slices.Sorted(maps.Keys(groups)) {
			g := groups[key]
			l.group(epoch, g.labels).add(group{puts: g.puts, summary: g.sum.dir.summary, images: g.sum.dir.images, pieces: pieces[key]})
		}
		l.gone = append(l.gone, record)
		return nil
	})
	if err != nil {
		w.undo(err)
		return 0, err
	}
	keys := make([]string, len(taken))
	for i, r := range taken {
		keys[i] = r.Key
	}
	return len(taken), b.remove(keys)
}

// remove deletes objects.
func (b *Bucket) remove(keys []string) error {
	return each(len(keys), func(i int) error { return b.objects.Delete(b.ctx, keys[i]) })
}

// A pieceWriter puts the objects of a job, which the list does not have yet.
type pieceWriter struct {
	b    *Bucket
	day  string
	keys []string // that were put
}

// put puts an object with a name that no other job chooses.
func (w *pieceWriter) put(key string, data []byte) error {
	_, err := w.b.objects.Put(w.b.ctx, key, data)
	if errors.Is(err, fs.ErrExist) { // the answer to an earlier try was lost
		var got []byte
		got, _, err = w.b.objects.Get(w.b.ctx, key, s3.Range{}, int64(len(data)))
		if err == nil && !bytes.Equal(got, data) {
			err = fmt.Errorf("%s: not the bytes that were put", key)
		}
	}
	w.keys = append(w.keys, key)
	return err
}

// write makes pieces of all images of the sources: one, or if they are large or it is asked for, one for each shard
// that has some.
func (w *pieceWriter) write(e sample.Epoch, labels map[string]string, sources []source, split bool) ([]piece, error) {
	size := 0
	for _, s := range sources {
		for _, bl := range s.dir.blocks {
			size += bl.plain
		}
	}
	if !split && size <= splitBytes {
		p, err := w.piece(e, labels, sources, whole)
		return slices.DeleteFunc([]piece{p}, func(p piece) bool { return p.name == "" }), err
	}
	var out []piece
	for shard := range shards {
		p, err := w.piece(e, labels, sources, shard)
		if err != nil {
			return nil, err
		}
		if p.name != "" {
			out = append(out, p)
		}
	}
	return out, nil
}

// piece puts one piece; that of no block has no name.
func (w *pieceWriter) piece(e sample.Epoch, labels map[string]string, sources []source, shard int) (piece, error) {
	name := "all"
	want := all
	if shard != whole {
		name = fmt.Sprintf("%02d", shard)
		want = func(id sample.ImageID) bool { return shardOf(id) == shard }
	}
	var out bytes.Buffer
	dir, err := writeTo(&out, e, labels, sources, want, true)
	if err != nil || len(dir.blocks) == 0 {
		return piece{}, err
	}
	p := piece{shard: shard, bytes: int64(out.Len()), name: fmt.Sprintf("%s-%x-%s%s", name, sumOfBytes(out.Bytes()), nonce(), pieceExt)}
	return p, w.put(pieceKey(w.day, p), out.Bytes())
}

// undo removes what was put, if the list surely does not have it and never will.
func (w *pieceWriter) undo(why error) {
	if errors.Is(why, errLost) && !errors.Is(why, errUnsure) {
		w.b.remove(w.keys) // else gc does
	}
}

// errUnsure says that a request may still come through.
var errUnsure = errors.New("whether the list has it is not known")

// commitTries bounds how often a list is replaced that others replace, too.
const commitTries = 200

// commit replaces the list of a day by what op makes of it. The list has the object mine once it did.
func (b *Bucket) commit(day, mine string, op func(*daylist) error) error {
	unsure := 0
	blame := func(err error) error {
		if unsure > 0 {
			err = fmt.Errorf("%w; %w", err, errUnsure)
		}
		return err
	}
	sent := "" // the ETag that the last request was about
	for try := range commitTries {
		l, etag, err := b.daylist(day)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			l, etag = &daylist{}, ""
		case err != nil:
			return blame(err)
		}
		if etag != sent { // what was sent before comes too late
			unsure = 0
		}
		if l.has(mine) {
			return nil
		}
		if err := op(l); err != nil {
			return blame(err)
		}
		sent = etag
		_, err = b.objects.Replace(b.ctx, daysDir+day, l.encode(), etag)
		switch {
		case err == nil:
			return nil
		case errors.Is(err, s3.ErrChanged), errors.Is(err, fs.ErrNotExist):
			// Perhaps by our own request, whose answer was lost.
			unsure = max(unsure, 1)
		default:
			if unsure++; unsure > 3 {
				return blame(err)
			}
		}
		time.Sleep(mathrand.N(time.Duration(min(try, 20)+1) * 10 * time.Millisecond))
	}
	return blame(fmt.Errorf("%s%s: %w after %d tries", daysDir, day, s3.ErrChanged, commitTries))
}

// fold merges what the list of a day has: groups, of which it returns how many became one with others, their pieces,
// and the lists of what is gone.
func (b *Bucket) fold(day string, by time.Time, how *Compaction) (merged int, err error) {
	l, _, err := b.daylist(day)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	if changed, _ := regroup(l, by, how); changed {
		err := b.commit(day, "", func(l *daylist) error { _, merged = regroup(l, by, how); return nil })
		if err != nil {
			return 0, err
		}
		if l, _, err = b.daylist(day); err != nil {
			return merged, err
		}
	}
	for _, g := range l.groups {
		for _, in := range g.work(how) {
			if err := b.foldPieces(day, g, in); err != nil {
				return merged, err
			}
		}
	}
	if how.Shard == 0 {
		return merged, b.foldGone(day, l)
	}
	return merged, nil
}

// regroup makes of groups that are to be one, one. It reports whether any has another epoch or other labels now, and
// returns how many are one with others. Pieces stay what they are, and add up.
func regroup(l *daylist, by time.Time, how *Compaction) (changed bool, merged int) {
	old, of := l.groups, map[string]int{}
	l.groups = nil
	for _, g := range old {
		e, labels := how.epoch(g.epoch, by), how.labels(g.labels)
		changed = changed || e != g.epoch || len(labels) != len(g.labels)
		l.group(e, labels).add(g)
		of[fmt.Sprint(e, labelKey(labels))]++
	}
	for _, n := range of {
		if n > 1 {
			merged += n
		}
	}
	return changed, merged
}

// work returns which pieces of a group a job merges.
func (g *group) work(how *Compaction) (out [][]piece) {
	by := map[int][]piece{}
	for _, p := range g.pieces {
		by[p.shard] = append(by[p.shard], p)
	}
	split := len(g.pieces) > len(by[whole]) || g.bytes() > splitBytes
	owner := int(sumOfBytes([]byte(fmt.Sprint(g.epoch, labelKey(g.labels))))[0])
	if in := by[whole]; how.mine(owner) && (split && len(in) > 0 || worth(in)) {
		out = append(out, in)
	}
	for shard := range shards {
		if how.mine(shard) && worth(by[shard]) {
			out = append(out, by[shard])
		}
	}
	return out
}

// worth reports whether pieces are merged: not few small ones with a large one, over and over.
func worth(in []piece) bool {
	const few, times = 8, 8
	var sum, most int64
	for _, p := range in {
		sum += p.bytes
		most = max(most, p.bytes)
	}
	return len(in) > 1 && (len(in) >= few || most < times*(sum-most))
}

// foldPieces merges pieces of one shard of a group, or divides those of all images.
func (b *Bucket) foldPieces(day string, g group, in []piece) error {
	sources := make([]source, len(in))
	err := each(len(in), func(i int) (err error) {
		sources[i], err = b.wholePiece(day, in[i])
		return err
	})
	var wrong *SegmentError
	if errors.As(err, &wrong) {
		b.opts.Warn(wrong) // fsck says more; the rest can be merged
		return nil
	}
	if err != nil {
		return err
	}
	w := &pieceWriter{b: b, day: day}
	var out []piece
	if shard := in[0].shard; shard != whole {
		var p piece
		p, err = w.piece(g.epoch, g.labels, sources, shard)
		out = []piece{p}
	} else {
		out, err = w.write(g.epoch, g.labels, sources, len(g.pieces) > len(in))
	}
	if err != nil {
		return err
	}
	if len(out) == 0 || out[0].name == "" {
		return fmt.Errorf("%s: pieces of nothing: %w", daysDir+day, ErrFormat)
	}
	err = b.commit(day, out[0].name, func(l *daylist) error {
		for i := range l.groups {
			to := &l.groups[i]
			if !to.has(in[0].name) {
				continue
			}
			for _, p := range in {
				if !to.has(p.name) {
					return errLost
				}
			}
			to.pieces = slices.DeleteFunc(to.pieces, func(p piece) bool { return slices.Contains(in, p) })
			to.pieces = append(to.pieces, out...)
			return nil
		}
		return errLost
	})
	if err != nil {
		w.undo(err)
		return err
	}
	keys := make([]string, len(in))
	for i, p := range in {
		keys[i] = pieceKey(day, p)
	}
	return b.remove(keys)
}

// wholePiece gets all of a piece, and checks it by its name.
func (b *Bucket) wholePiece(day string, p piece) (source, error) {
	key := pieceKey(day, p)
	var src source
	_, err := b.checked(key, maxSegment, func(data []byte) error {
		if int64(len(data)) != p.bytes || !p.isOf(data) {
			return fmt.Errorf("not the bytes that its name is of: %w", ErrFormat)
		}
		r := bytes.NewReader(data)
		dir, _, err := readDirectory(r, r.Size())
		if err == nil && !dir.piece {
			err = fmt.Errorf("not a part of a segment: %w", ErrFormat)
		}
		src = source{name: key, dir: dir, plain: func(bl block) ([]byte, error) { return readBlock(r, bl) }}
		return err
	})
	return src, err
}

// isOf reports whether a piece has its name of these bytes.
func (p piece) isOf(data []byte) bool {
	f := bytes.Split([]byte(p.name), []byte("-"))
	return len(f) == 3 && string(f[1]) == fmt.Sprintf("%x", sumOfBytes(data))
}

// foldGone merges the objects that say what is gone of an epoch, if there are several.
func (b *Bucket) foldGone(day string, l *daylist) error {
	const few = 4
	by := map[sample.Epoch][]gone{}
	for _, g := range l.gone {
		by[g.epoch] = append(by[g.epoch], g)
	}
	for e, in := range by {
		if len(in) < few {
			continue
		}
		var sums []sum
		for _, g := range in {
			some, err := b.gone(day, g)
			if err != nil {
				return err
			}
			sums = append(sums, some...)
		}
		data := encodeGone(sums)
		record := gone{epoch: e, n: len(sums), name: fmt.Sprintf("%x-%s", sumOfBytes(data), nonce())}
		w := &pieceWriter{b: b, day: day}
		if err := w.put(goneDir+day+"/"+record.name, data); err != nil {
			return err
		}
		err := b.commit(day, record.name, func(l *daylist) error {
			for _, g := range in {
				if !slices.Contains(l.gone, g) {
					return errLost
				}
			}
			l.gone = slices.DeleteFunc(l.gone, func(g gone) bool { return slices.Contains(in, g) })
			l.gone = append(l.gone, record)
			return nil
		})
		if err != nil {
			w.undo(err)
			return err
		}
		var keys []string
		for _, g := range in {
			keys = append(keys, goneDir+day+"/"+g.name)
		}
		if err := b.remove(keys); err != nil {
			return err
		}
	}
	return nil
}
