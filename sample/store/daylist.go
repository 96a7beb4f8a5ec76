package store

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"backfeed/sample"
	"backfeed/sample/wire"
)

// A daylist says what the segments of a day that were put into a bucket have become. It is
// the only object that is ever replaced, and only by who has seen the one before. A reader
// needs nothing else to know what counts: of all segments that are there, those that the
// list names as gone do not.
//
//	offset  size  field
//	0       4     magic "bfl1"; the digit is the version of the format
//	4       4     CRC-32C of the rest
//	8       -     images, groups, gone
//
// Images, a list by build ID, then path: 20 bytes build ID; string, path. One with several
// paths is listed with each. Groups, a list by epoch, then labels:
//
//	integer  start of the epoch, in seconds since 1970
//	integer  length of the epoch, in seconds (> 0)
//	list     labels by name: string, name; string, value
//	integer  Puts that it is made of
//	string   summary, as in a segment
//	list     images: integer, index in the list of images minus that of the one before
//	list     pieces by name: integer, 0 all images, else 1 + its shard; integer, bytes; string, name
//
// Gone, a list by name, of objects that have the names of segments:
//
//	integer  start of the epoch of the segments, in seconds since 1970
//	integer  length of the epoch, in seconds
//	integer  segments
//	string   name
type daylist struct {
	groups []group
	gone   []gone
}

// A group is what the segments of one epoch with one set of labels were merged into.
type group struct {
	epoch   sample.Epoch
	labels  map[string]string
	puts    uint64
	summary *sample.Recording
	images  []sample.ImageID
	pieces  []piece
}

// A piece is an object with some of the images of a group, in the form of a segment. Those of an
// image may be in several pieces, and add up.
type piece struct {
	shard int // -1 all images, else those whose shard it is
	bytes int64
	name  string
}

// A gone is an object with the sorted sums of segments that are in groups.
type gone struct {
	epoch sample.Epoch // of the segments
	n     int
	name  string
}

const (
	listMagic = "bfl1"
	goneMagic = "bfg1"
	maxList   = 256 << 20 // bytes
)

// shards is the number of pieces that the images of a large group are divided among.
const shards = 64

// whole is the shard of a piece of all images.
const whole = -1

// shardOf returns where an image is in a large group.
func shardOf(id sample.ImageID) int {
	key := id.Key()
	return int(wire.Checksum(append(slices.Clone(key.Build[:]), key.Path...)) % shards)
}

func compareGroups(a, b group) int {
	return cmp.Or(cmp.Compare(a.epoch.Start, b.epoch.Start), cmp.Compare(a.epoch.Length, b.epoch.Length), cmp.Compare(labelKey(a.labels), labelKey(b.labels)))
}

// labelKey orders labels, and tells them apart.
func labelKey(labels map[string]string) string {
	var w wire.Writer
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		w.String(k)
		w.String(labels[k])
	}
	return string(w.B)
}

// group returns the group of an epoch and labels, which is made if it is not there.
func (l *daylist) group(e sample.Epoch, labels map[string]string) *group {
	g := group{epoch: e, labels: labels, summary: &sample.Recording{}}
	i, ok := slices.BinarySearchFunc(l.groups, g, compareGroups)
	if !ok {
		l.groups = slices.Insert(l.groups, i, g)
	}
	return &l.groups[i]
}

// add adds to a group what was merged.
func (g *group) add(o group) {
	g.puts += o.puts
	g.summary = sample.Merge(g.summary, o.summary)
	g.images = mergeImages([]source{{dir: &directory{images: g.images}}, {dir: &directory{images: o.images}}}, all)
	g.pieces = append(g.pieces, o.pieces...)
}

// allImages returns the images of all groups, each with all of its paths.
func (l *daylist) allImages() []sample.ImageID {
	seen := map[sample.ImageID]bool{}
	var ids []sample.ImageID
	for _, g := range l.groups {
		for _, id := range g.images {
			if !seen[id] {
				seen[id] = true
				ids = append(ids, id)
			}
		}
	}
	slices.SortFunc(ids, sample.ImageID.Compare)
	return ids
}

// has reports whether the list refers to an object.
func (l *daylist) has(name string) bool {
	return slices.ContainsFunc(l.gone, func(g gone) bool { return g.name == name }) ||
		slices.ContainsFunc(l.groups, func(g group) bool { return g.has(name) })
}

func (g *group) has(name string) bool {
	return slices.ContainsFunc(g.pieces, func(p piece) bool { return p.name == name })
}

// bytes is the size of the pieces.
func (g *group) bytes() (n int64) {
	for _, p := range g.pieces {
		n += p.bytes
	}
	return n
}

func (l *daylist) encode() []byte {
	var e wire.Writer
	ids := l.allImages()
	e.Int(len(ids))
	index := make(map[sample.ImageID]int, len(ids))
	for i, id := range ids {
		index[id] = i
		e.B = append(e.B, id.Build[:]...)
		e.String(id.Path)
	}
	e.Int(len(l.groups))
	for _, g := range l.groups {
		e.Uint(uint64(g.epoch.Start))
		e.Uint(uint64(g.epoch.Length))
		e.Int(len(g.labels))
		e.B = append(e.B, labelKey(g.labels)...)
		e.Uint(g.puts)
		e.String(string(g.summary.Encode()))
		e.Int(len(g.images))
		last := 0
		for _, id := range g.images {
			e.Int(index[id] - last)
			last = index[id]
		}
		slices.SortFunc(g.pieces, func(a, b piece) int { return cmp.Compare(a.name, b.name) })
		e.Int(len(g.pieces))
		for _, p := range g.pieces {
			e.Int(p.shard - whole)
			e.Uint(uint64(p.bytes))
			e.String(p.name)
		}
	}
	slices.SortFunc(l.gone, func(a, b gone) int { return cmp.Compare(a.name, b.name) })
	e.Int(len(l.gone))
	for _, g := range l.gone {
		e.Uint(uint64(g.epoch.Start))
		e.Uint(uint64(g.epoch.Length))
		e.Int(g.n)
		e.String(g.name)
	}
	return sealHead(listMagic, e.B)
}

// sealHead puts magic and checksum before bytes.
func sealHead(magic string, b []byte) []byte {
	return append(binary.LittleEndian.AppendUint32([]byte(magic), wire.Checksum(b)), b...)
}

// openHead returns what is behind magic and checksum.
func openHead(magic string, b []byte) ([]byte, error) {
	const head = 8
	switch {
	case len(b) < head || string(b[:4]) != magic:
		return nil, fmt.Errorf("offset 0x0: magic: %w", ErrFormat)
	case binary.LittleEndian.Uint32(b[4:]) != wire.Checksum(b[head:]):
		return nil, fmt.Errorf("offset 0x4: checksum: %w", ErrFormat)
	}
	return b[head:], nil
}

func decodeList(b []byte) (*daylist, error) {
	rest, err := openHead(listMagic, b)
	if err != nil {
		return nil, err
	}
	d := newDecoder(rest, int64(len(b)-len(rest)))
	l := &daylist{}
	var ids []sample.ImageID
	for i := range d.List(len(sample.BuildID{})+1, "images") {
		off := d.Off
		var id sample.ImageID
		copy(id.Build[:], d.Bytes(len(id.Build), "build ID"))
		id.Path = d.String("path")
		if d.Err == nil && (id == (sample.ImageID{}) || i > 0 && ids[i-1].Compare(id) >= 0) {
			d.Fail(off, "order of images")
		}
		if d.Err != nil {
			return nil, d.Err
		}
		ids = append(ids, id)
	}
	for range d.List(6, "groups") {
		off := d.Off
		g := group{labels: map[string]string{}}
		g.epoch = d.epoch()
		dir := &directory{labels: g.labels}
		d.labels(dir)
		g.puts = d.Uint(math.MaxInt64, "puts")
		at := d.Off
		sum := d.Bytes(d.Len(1, "summary"), "summary")
		last := uint64(0)
		for i := range d.List(1, "images of group") {
			off := d.Off
			delta := d.Uint(uint64(len(ids)), "image of group")
			if last += delta; d.Err == nil && (last >= uint64(len(ids)) || i > 0 && (delta == 0 || g.images[i-1].Key() == ids[last].Key())) {
				d.Fail(off, "order of images of group")
			}
			if d.Err != nil {
				return nil, d.Err
			}
			g.images = append(g.images, ids[last])
		}
		for range d.List(3, "pieces") {
			p := piece{shard: whole + int(d.Uint(shards, "shard")), bytes: int64(d.Uint(math.MaxInt64, "bytes of piece")), name: d.String("name of piece")}
			if d.Err == nil && (!plainName(p.name) || len(g.pieces) > 0 && g.pieces[len(g.pieces)-1].name >= p.name) {
				d.Fail(off, "pieces")
			}
			g.pieces = append(g.pieces, p)
		}
		if d.Err != nil {
			return nil, d.Err
		}
		if g.summary, err = sample.Decode(sum); err != nil {
			return nil, fmt.Errorf("offset %#x: summary: %w: %w", d.Base+int64(at), err, ErrFormat)
		}
		if err := (&directory{summary: g.summary}).check(); err != nil && !errors.Is(err, errSum) {
			return nil, fmt.Errorf("offset %#x: %w: %w", d.Base+int64(at), err, ErrFormat)
		}
		if n := len(l.groups); n > 0 && compareGroups(l.groups[n-1], g) >= 0 {
			d.Fail(off, "order of groups")
			return nil, d.Err
		}
		l.groups = append(l.groups, g)
	}
	for range d.List(4, "gone") {
		off := d.Off
		g := gone{epoch: d.epoch(), n: int(d.Uint(maxList/sumSize, "segments")), name: d.String("name")}
		if d.Err == nil && (!plainName(g.name) || len(l.gone) > 0 && l.gone[len(l.gone)-1].name >= g.name) {
			d.Fail(off, "gone")
		}
		l.gone = append(l.gone, g)
	}
	if d.Err == nil && d.Off != len(d.B) {
		d.Fail(d.Off, "end of the list")
	}
	return l, d.Err
}

func (d *decoder) epoch() (e sample.Epoch) {
	e.Start = int64(d.Uint(math.MaxInt64/2, "start of the epoch"))
	e.Length = int64(d.Uint(math.MaxInt64/2, "length of the epoch"))
	if e.Length == 0 {
		d.Fail(d.Off, "length of the epoch")
	}
	return e
}

// plainName reports whether a name in a list can be one that this package chose.
func plainName(s string) bool {
	for _, r := range s {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '.' {
			return false
		}
	}
	return s != ""
}

// A sum names a segment in a bucket by its content: the first half of its SHA-256.
type sum [sumSize]byte

const sumSize = 16

// encodeGone makes an object of the names of segments.
func encodeGone(sums []sum) []byte {
	slices.SortFunc(sums, compareSums)
	b := make([]byte, 0, len(sums)*sumSize)
	for _, s := range sums {
		b = append(b, s[:]...)
	}
	return sealHead(goneMagic, b)
}

func compareSums(a, b sum) int { return slices.Compare(a[:], b[:]) }

func decodeGone(b []byte, n int) ([]sum, error) {
	rest, err := openHead(goneMagic, b)
	if err != nil {
		return nil, err
	}
	if len(rest) != n*sumSize {
		return nil, fmt.Errorf("%d bytes of %d segments: %w", len(rest), n, ErrFormat)
	}
	sums := make([]sum, n)
	for i := range sums {
		copy(sums[i][:], rest[i*sumSize:])
	}
	return sums, nil
}
