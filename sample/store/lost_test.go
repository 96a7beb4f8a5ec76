package store

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"backfeed/sample"
)

// A disk is the files of a store at one time, by path. What ends with a slash is a directory.
type disk map[string]string

func diskOf(t *testing.T, dir string) disk {
	t.Helper()
	d := disk{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(dir, path)
		if e.IsDir() {
			d[rel+"/"] = ""
			return nil
		}
		b, err := os.ReadFile(path)
		d[rel] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// mount makes a directory of it.
func (d disk) mount(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for _, path := range slices.Sorted(maps.Keys(d)) {
		at := filepath.Join(dir, path)
		var err error
		if strings.HasSuffix(path, "/") {
			err = os.MkdirAll(at, dirMode)
		} else {
			err = os.WriteFile(at, []byte(d[path]), fileMode)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// without returns d without a file, or a directory and all in it.
func (d disk) without(path string) disk {
	d = maps.Clone(d)
	maps.DeleteFunc(d, func(p, _ string) bool { return p == path || strings.HasSuffix(path, "/") && strings.HasPrefix(p, path) })
	return d
}

func (d disk) with(path, data string) disk {
	d = maps.Clone(d)
	d[path] = data
	return d
}

// the returns the one path that begins so and is in d, and not in before.
func (d disk) the(t *testing.T, prefix string, before disk) string {
	t.Helper()
	var found []string
	for path := range d {
		if _, was := before[path]; !was && strings.HasPrefix(path, prefix) {
			found = append(found, path)
		}
	}
	if len(found) != 1 {
		t.Fatalf("new in %s: %q", prefix, found)
	}
	return found[0]
}

// spoilt are the ways in which a disk keeps a name and loses the bytes.
func spoilt(data string) map[string]string {
	n := len(data)
	return map[string]string{"empty": "", "half": data[:n/2], "zeros": strings.Repeat("\x00", n),
		"without its end": data[:n-n/4] + strings.Repeat("\x00", n/4), "without its beginning": strings.Repeat("\x00", n/4) + data[n/4:]}
}

// TestLost takes from a store what it was told is on the disk: a name, the bytes of a file, or a removal. The
// store opens, has all that is left and nothing twice, and says what is lost where anything remembers it.
func TestLost(t *testing.T) {
	t.Parallel()
	s := open(t)
	at := func(h int) sample.Epoch { e := hour; e.Start += int64(h) * e.Length; return e }
	put := func(h int) (before, after disk, path string) {
		before = diskOf(t, s.dir)
		if err := s.Put(at(h), three(), nil); err != nil {
			t.Fatal(err)
		}
		after = diskOf(t, s.dir)
		return before, after, after.the(t, segmentsDir+"/", before)
	}
	one := three().Samples()
	empty := diskOf(t, s.dir)
	_, _, first := put(0)
	_, _, b := put(1)
	_, _, c := put(1)
	samplesIn(t, s, Query{}) // the index learns of them
	parted := diskOf(t, s.dir)
	if _, err := s.Compact(time.Time{}); err != nil {
		t.Fatal(err)
	}
	compacted := diskOf(t, s.dir)
	merged := compacted.the(t, segmentsDir+"/", parted)
	samplesIn(t, s, Query{})
	listed := diskOf(t, s.dir)
	id := sample.ImageID{Build: sample.BuildID{1}}
	if err := s.KeepImage(t.Context(), id, strings.NewReader("code of an image"), KindFile); err != nil {
		t.Fatal(err)
	}
	copied := diskOf(t, s.dir)
	image := copied.the(t, imagesDir+"/", listed)
	_, last, newest := put(2)

	type state struct {
		name    string
		disk    disk
		samples uint64 // that are left
		told    string // what warnings and fsck name; "" if nothing can
		copies  int
	}
	states := []state{
		{"everything there", last, 4 * one, "", 1},
		{"the first segment's name", last.without(first), 3 * one, "", 1}, // as GC does
		{"a merged segment's name", last.without(merged), 2 * one, filepath.Base(merged), 1},
		{"a merged segment's name, which the index does not know, but its parts", compacted.without(merged).with(newest, last[newest]), 2 * one, filepath.Base(b), 0},
		{"the newest segment's name, before it was listed", copied, 3 * one, "", 1},
		{"the removal of one part", compacted.with(b, parted[b]), 3 * one, "", 0},
		{"the removal of all parts", compacted.with(b, parted[b]).with(c, parted[c]), 3 * one, "", 0},
		{"the merged segment and the removals", parted, 3 * one, "", 0},
		{"the merged segment and one removal", compacted.without(merged).with(b, parted[b]), 2 * one, "", 0}, // the newest epoch is the oldest left but one
		{"the index", last.without(indexName), 4 * one, "", 1},
		{"the index of last time", last.with(indexName, parted[indexName]), 4 * one, "", 1},
		{"the lock", last.without(lockName), 4 * one, "", 1},
		{"the mark", last.without(marker), 4 * one, marker, 1},
		{"a copy's name", last.without(image), 4 * one, "", 0},
		{"the directory of copies", last.without(imagesDir + "/"), 4 * one, imagesDir + ": the directory is gone", 0},
		{"the directory of segments", last.without(segmentsDir + "/"), 0, segmentsDir + ": the directory is gone", 1},
		{"all but the names of directories", empty.without(marker).with(marker, ""), 0, "", 0},
	}
	states[8].told = filepath.Base(c) // the index knows it, and its epoch is not the oldest
	for how, data := range spoilt(last[merged]) {
		states = append(states, state{"a merged segment: " + how, last.with(merged, data), 2 * one, filepath.Base(merged), 1})
		states = append(states, state{"a merged segment that nobody listed: " + how, compacted.with(merged, data), one, filepath.Base(merged), 0})
		states = append(states, state{"a merged segment, and no removal was kept: " + how,
			compacted.with(merged, data).with(b, parted[b]).with(c, parted[c]), 3 * one, filepath.Base(merged), 0})
	}
	for how, data := range spoilt(last[newest]) {
		states = append(states, state{"the newest segment: " + how, last.with(newest, data), 3 * one, filepath.Base(newest), 1})
	}
	for how, data := range spoilt(last[indexName]) {
		states = append(states, state{"the index: " + how, last.with(indexName, data), 4 * one, "", 1})
	}
	for how, data := range spoilt(last[image]) {
		states = append(states, state{"a copy: " + how, last.with(image, data), 4 * one, filepath.Base(image), 0})
	}
	for _, tt := range states {
		var gone uint64                                     // samples that a repair removes
		if tt.name == "a merged segment: without its end" { // the index has a copy of that
			tt.samples, gone = 4*one, 2*one
		}
		dir := tt.disk.mount(t)
		var warned []string
		s, err := OpenDir(dir, Options{Warn: func(err error) { warned = append(warned, err.Error()) }})
		if err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		names := func(said []string) bool {
			return slices.ContainsFunc(said, func(s string) bool { return strings.Contains(s, tt.told) })
		}
		if got := samplesIn(t, s, Query{}); got != tt.samples {
			t.Errorf("%s: %d samples, want %d; told %q", tt.name, got, tt.samples, warned)
		}
		ofImage := strings.HasPrefix(tt.name, "a copy")
		if (len(warned) > 0) != (tt.told != "" && !ofImage && gone == 0) || len(warned) > 0 && !names(warned) {
			t.Errorf("%s: told %q, want %q", tt.name, warned, tt.told)
		}
		if _, err := s.Images(); err != nil {
			t.Errorf("%s: images: %v", tt.name, err)
		}
		r, err := s.Fsck(false)
		if err != nil {
			t.Errorf("%s: fsck: %v", tt.name, err)
			continue
		}
		said := slices.Clone(r.Unfinished)
		for _, err := range r.Damaged {
			said = append(said, err.Error())
		}
		if r.Samples+gone < tt.samples || (len(said) > 0) != (tt.told != "") || len(said) > 0 && !names(said) || r.Copies != tt.copies {
			t.Errorf("%s: fsck: %+v, want %q, %d samples and %d copies", tt.name, r, tt.told, tt.samples, tt.copies)
		}
		// It is written to as before, and told once more until it is repaired.
		if s, err = CreateDir(dir, Options{}); err != nil {
			t.Errorf("%s: %v", tt.name, err)
			continue
		}
		if _, err := s.Fsck(true); err != nil {
			t.Errorf("%s: repair: %v", tt.name, err)
		}
		if err := cmpErr(s.Put(at(3), three(), nil), s.KeepImage(t.Context(), id, strings.NewReader("code of an image"), KindFile)); err != nil {
			t.Errorf("%s: afterwards: %v", tt.name, err)
		}
		if got, want := samplesIn(t, s, Query{}), tt.samples-gone+one; got != want {
			t.Errorf("%s: afterwards %d samples, want %d", tt.name, got, want)
		}
		r, err = s.Fsck(false)
		if err != nil || r.Copies != 1 || slices.ContainsFunc(r.Damaged, func(err error) bool { return errors.Is(err, ErrLost) }) {
			t.Errorf("%s: fsck afterwards: %+v, %v", tt.name, r, err)
		}
	}
}

func cmpErr(errs ...error) error { return errors.Join(errs...) }

// TestShipLost: a segment that is in the outbox and, as the disk did not keep its removal, in the store is sent under
// the name that it had; one whose bytes are gone is told.
func TestShipLost(t *testing.T) {
	s := open(t)
	if err := s.Put(hour, three(), nil); err != nil {
		t.Fatal(err)
	}
	before := diskOf(t, s.dir)
	if n, err := s.Ship(time.Time{}); n != 1 || err != nil {
		t.Fatalf("%d shipped, %v", n, err)
	}
	shipped := diskOf(t, s.dir)
	parcel := shipped.the(t, outboxDir+"/20", before)
	both := maps.Clone(shipped)
	maps.Copy(both, before)
	s, err := OpenDir(both.mount(t), s.opts)
	if err != nil {
		t.Fatal(err)
	}
	if n, err := s.Ship(time.Time{}); n != 1 || err != nil {
		t.Errorf("%d shipped, %v", n, err)
	}
	if all, err := s.Outbox(); len(all) != 1 || err != nil || all[0].Name != filepath.Base(parcel) {
		t.Errorf("outbox: %+v, %v", all, err)
	}
	if got := samplesIn(t, s, Query{}); got != 0 {
		t.Errorf("%d samples are left in the store", got)
	}
	for how, data := range spoilt(shipped[parcel]) {
		s, err := OpenDir(shipped.with(parcel, data).mount(t), s.opts)
		if err != nil {
			t.Fatal(err)
		}
		all, err := s.Outbox()
		if len(all) != 1 || err != nil {
			t.Fatalf("%s: outbox: %+v, %v", how, all, err)
		}
		if _, n, err := all[0].Open(); !errors.Is(err, ErrFormat) && !errors.Is(err, ErrTorn) || n != 0 || !strings.Contains(fmt.Sprint(err), all[0].Name) {
			t.Errorf("%s: %d samples, error %v", how, n, err)
		}
	}
}
