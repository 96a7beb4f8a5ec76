package store

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestOlder: stores of earlier versions are read, compacted and added to. What is in them was written beside them by the
// version that made them: of 20 November 2026, when recordings were "bfr2", and of 24 November, when they had observed counts.
func TestOlder(t *testing.T) {
	for _, version := range []string{"1120", "1124"} {
		t.Run(version, func(t *testing.T) {
			older := filepath.Join("testdata", "older", version)
			all, err := sample.Decode([]byte(testtool.Read(t, older, "all.bfr")))
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Join(older, "store"))); err != nil {
				t.Fatal(err)
			}
			s, err := CreateDir(dir, Options{Warn: func(err error) { t.Errorf("warning: %v", err) }})
			if err != nil {
				t.Fatal(err)
			}
			same := func(when string, want *sample.Recording) {
				t.Helper()
				rec, err := s.Read(Query{})
				if err != nil {
					t.Fatal(err)
				}
				if !bytes.Equal(rec.Encode(), want.Encode()) {
					t.Errorf("%s: %d samples, want %d; or not the same", when, rec.Samples(), want.Samples())
				}
			}
			same("as it was", all)
			if r, err := s.Fsck(false); err != nil || !r.Clean() || r.Segments != 2 {
				t.Errorf("fsck: %+v, %v", r, err)
			}
			if err := s.Put(hour, three(), map[string]string{"host": "a"}); err != nil {
				t.Fatal(err)
			}
			more := sample.Merge(all, three())
			same("with a segment of today", more)
			if n, err := s.Compact(hour.To()); err != nil || n != 2 {
				t.Errorf("%d segments merged, want the compacted one and that of today: %v", n, err)
			}
			same("compacted", more)
		})
	}
}

// TestNewer: what a later version wrote is refused with a sentence that says so, and nothing of it is removed or changed.
func TestNewer(t *testing.T) {
	later := func(version string) []byte {
		b := bytes.Clone(segmentOf(t, three(), nil, 1))
		copy(b, version)
		copy(b[len(b)-len(version):], version)
		return b
	}
	for _, version := range []string{"bfs2", "bfs9", "bfsa"} {
		s, warnings := quiet(t)
		drop(t, s, segmentOf(t, three(), nil, 2), 2)
		path := drop(t, s, later(version), 1)
		var said error
		s.opts.Warn = func(err error) { said = err; *warnings++ }
		if got := samplesIn(t, s, Query{}); got != three().Samples() || *warnings != 1 || !errors.Is(said, ErrNewer) || !strings.Contains(said.Error(), filepath.Base(path)) {
			t.Errorf("%s: %d samples, %d warnings: %v", version, got, *warnings, said)
		}
		if _, err := s.Compact(hour.To()); err != nil {
			t.Error(err)
		}
		if r, err := s.Fsck(true); err != nil || len(r.Unfinished) > 0 || len(r.Damaged) != 1 || !errors.Is(r.Damaged[0], ErrNewer) {
			t.Errorf("%s: fsck: %+v, %v", version, r, err)
		}
		if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, later(version)) {
			t.Errorf("%s: the segment is gone or changed: %v", version, err)
		}
	}

	dir := filepath.Join(t.TempDir(), "[odd] *name?")
	testtool.Put(t, filepath.Join(dir, "backfeed-store-2"), "")
	if !IsDir(dir) {
		t.Error("a store with a later layout is not one")
	}
	for what, open := range map[string]func(string, Options) (*Dir, error){"OpenDir": OpenDir, "CreateDir": CreateDir} {
		if _, err := open(dir, Options{}); !errors.Is(err, ErrNewer) || !strings.Contains(err.Error(), "backfeed-store-2, where this backfeed knows backfeed-store-1") {
			t.Errorf("%s: got error %v", what, err)
		}
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) != 1 {
		t.Errorf("files were put into it: %v, %v", files, err)
	}

	b := three().Encode()
	copy(b, "bfrz")
	if _, err := sample.Decode(b); err == nil || !strings.Contains(err.Error(), "written by a newer backfeed") {
		t.Errorf("a later recording: got error %v", err)
	}
}
