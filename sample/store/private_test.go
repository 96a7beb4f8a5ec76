//go:build unix

package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"backfeed/sample"
)

// TestPrivate: whatever the umask, and however an older version left it, a store is its
// owner's alone.
func TestPrivate(t *testing.T) {
	defer syscall.Umask(syscall.Umask(0))
	dir := filepath.Join(t.TempDir(), "store")
	for _, d := range []string{dir, filepath.Join(dir, segmentsDir)} {
		if err := os.Mkdir(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	s, err := CreateDir(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(
		s.Put(hour, three(), nil), s.Put(hour, three(), nil),
		s.KeepImage(t.Context(), sample.ImageID{Build: sample.BuildID{1}}, zeros(100), KindFile))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Compact(time.Time{}); err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := d.Info()
		want := fs.FileMode(fileMode)
		if files++; d.IsDir() {
			want = dirMode
		}
		if err == nil && st.Mode().Perm() != want {
			t.Errorf("%s has mode %#o, want %#o", path, st.Mode().Perm(), want)
		}
		return err
	})
	if err != nil || files < 8 {
		t.Errorf("%d files: %v", files, err)
	}
}

// TestCheck: what keeps a store from being written is seen before, and nothing is made by looking.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "store"), filepath.Join(dir, "a", "b", "store"), dir} {
		if err := Check(path, Options{}); err != nil {
			t.Errorf("%s: %v", path, err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "store")} {
		_, want := CreateDir(path, Options{})
		if err := Check(path, Options{}); err == nil || want == nil || !errors.Is(err, syscall.ENOTDIR) {
			t.Errorf("%s: %v; Create says %v", path, err, want)
		}
	}
	store := filepath.Join(dir, "store")
	if _, err := CreateDir(store, Options{}); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(store, segmentsDir)); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(store, segmentsDir), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(store, Options{}); !errors.Is(err, syscall.ENOTDIR) {
		t.Errorf("segments that are no directory: %v", err)
	}
}

// TestPipes: pipes where files of a store should be do not make anything wait.
func TestPipes(t *testing.T) {
	s := open(t)
	if err := s.Put(hour, three(), nil); err != nil {
		t.Fatal(err)
	}
	segment := filepath.Join(s.dir, segmentsDir, "20260101T000000Z-x"+segmentExt)
	build := sample.BuildID{1, 19: 1}
	copied := filepath.Join(s.dir, imagesDir, (&imageCopy{build: build, kind: KindFile}).fileName())
	err := errors.Join(syscall.Mkfifo(segment, 0o600), syscall.Mkfifo(copied, 0o600), syscall.Mkfifo(filepath.Join(s.dir, indexName), 0o600))
	if err != nil {
		t.Fatal(err)
	}
	var warned []error
	s.opts.Warn = func(err error) { warned = append(warned, err) }
	if got := samplesIn(t, s, Query{}); got == 0 {
		t.Error("no samples")
	}
	if len(warned) == 0 || !errors.Is(warned[0], sample.ErrNotRegular) {
		t.Errorf("warned of %v", warned)
	}
	if _, err := s.Compact(time.Time{}); err != nil {
		t.Error(err)
	}
	if _, err := s.GC(Retention{MaxAge: time.Hour}, hour.To()); err != nil {
		t.Error(err)
	}
	if r, err := s.Fsck(false); err != nil || len(r.Damaged) != 2 {
		t.Errorf("fsck: %+v, %v", r, err)
	}
	if path, err := s.OpenImage(sample.ImageID{Build: build}, KindFile); err == nil {
		t.Errorf("%s is a copy", path)
	}
}

// TestClockAhead: one epoch of a clock that is two years ahead does not empty the store,
// however old it makes the others.
func TestClockAhead(t *testing.T) {
	s := open(t)
	put := func(start time.Time) {
		t.Helper()
		if err := s.Put(sample.EpochAt(start, time.Hour), three(), nil); err != nil {
			t.Fatal(err)
		}
	}
	for i := range 100 {
		put(hour.From().Add(time.Duration(i) * time.Hour))
	}
	ahead := hour.From().AddDate(2, 0, 0)
	put(ahead)
	keep := Retention{MaxAge: 720 * time.Hour}
	done, err := s.GC(keep, ahead.Add(time.Hour))
	if !errors.Is(err, ErrMost) || done.Epochs != 0 {
		t.Errorf("%+v, %v", done, err)
	}
	keep.Most = true
	done, err = s.GC(keep, ahead.Add(time.Hour))
	if err != nil || done.Epochs != 98 {
		t.Errorf("told to: %+v, %v", done, err)
	}
}
