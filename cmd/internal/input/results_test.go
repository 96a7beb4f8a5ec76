package input

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/wire"
)

const mixDir = "../../../testdata/mix"

// mixCounts infers the counts of testdata/mix, and returns them as a document.
func mixCounts(t *testing.T, keep Results) string {
	t.Helper()
	s, err := Infer(context.Background(), []string{filepath.Join(mixDir, "samples.bfr")}, Options{Symfs: []string{mixDir}, Keep: keep})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Profile.Check(); err != nil {
		t.Error(err)
	}
	var b bytes.Buffer
	if err := infer.WriteDocument(&b, s.Profile, nil); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// kept returns the results in d.
func kept(t *testing.T, d Results) (files []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(string(d), "*"+resultSuffix))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestResults: what was kept is used, for its owner alone, and whatever lies there instead changes nothing but the time.
func TestResults(t *testing.T) {
	want := mixCounts(t, "")
	d := Results(filepath.Join(t.TempDir(), "a", "results"))
	if mixCounts(t, d) != want {
		t.Error("the first time, counts are others")
	}
	files := kept(t, d)
	if len(files) != 1 {
		t.Fatalf("%d results, want 1", len(files))
	}
	file := files[0]
	for path, mode := range map[string]os.FileMode{string(d): 0o700, file: 0o600} {
		if st, err := os.Stat(path); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v; want %v", path, st.Mode(), err, mode)
		}
	}
	whole := testtool.Read(t, file)
	changed := func(i int, to string) string { return whole[:i] + to + whole[i+len(to):] }
	for name, content := range map[string]string{
		"whole":              whole,
		"empty":              "",
		"cut off":            whole[:len(whole)-1],
		"longer":             whole + "x",
		"another version":    changed(0, "bfi0"),
		"a changed checksum": changed(4, "\x00\x00\x00\x00"),
		"a changed byte":     changed(len(whole)/2, "\x00\x00\x00\x00\x00"),
		"of another key":     sealed(changed(resultHeader, strings.Repeat("k", sha256.Size))),
		"of another format":  sealed(changed(resultHeader+sha256.Size, strings.Repeat("\xff", 40))),
	} {
		testtool.Put(t, file, content)
		if mixCounts(t, d) != want {
			t.Errorf("%s: counts are others", name)
		}
		if testtool.Read(t, file) != whole {
			t.Errorf("%s: it is not written anew", name)
		}
	}
	// Were it not used, nobody would see what is in it: the name of the machine, behind its length.
	testtool.Put(t, file, sealed(changed(resultHeader+sha256.Size+1, "another")))
	if !strings.Contains(mixCounts(t, d), `"another`) {
		t.Error("what was kept is not used")
	}
	os.Remove(file)
	if err := os.Mkdir(file, 0o700); err != nil {
		t.Fatal(err)
	}
	if mixCounts(t, d) != want {
		t.Error("where nothing can be written, counts are others")
	}
	if left, _ := filepath.Glob(filepath.Join(string(d), tempPrefix+"*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// sealed returns a file with the checksum that it should have.
func sealed(file string) string {
	return file[:4] + string(binary.LittleEndian.AppendUint32(nil, wire.Checksum([]byte(file[resultHeader:])))) + file[resultHeader:]
}

// TestResultKey: whatever a result hangs on changes its key, and nothing else does.
func TestResultKey(t *testing.T) {
	dir := t.TempDir()
	testtool.Put(t, filepath.Join(dir, "mix"), testtool.Read(t, filepath.Join(mixDir, "mix")))
	key := func(times int, symfs string, opt infer.Options) [sha256.Size]byte {
		var paths []string
		for range times {
			paths = append(paths, filepath.Join(mixDir, "samples.bfr"))
		}
		s, err := Read(context.Background(), paths, Options{Symfs: []string{symfs}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if s.from.of(s.Recording) != (times == 1) {
			t.Errorf("%d files: a recording is taken for one file", times)
		}
		key, ok := resultKey(context.Background(), s.Recording, s.from, s.Open, opt)
		encoded, ok2 := resultKey(context.Background(), s.Recording, readFrom{}, s.Open, opt)
		if !ok || !ok2 || (key == encoded) == (times == 1) {
			t.Fatalf("no key, or that of another way to say what is in %d files", times)
		}
		return key
	}
	first := key(1, dir, infer.Options{})
	for name, same := range map[string][sha256.Size]byte{
		"again":                 key(1, dir, infer.Options{}),
		"what is chosen anyway": key(1, dir, infer.Options{Event: "cpu-clock", Executions: true, Progress: func(int, int) {}}),
	} {
		if same != first {
			t.Errorf("%s: another key", name)
		}
	}
	others := [][sha256.Size]byte{
		first,
		key(2, dir, infer.Options{}),
		key(1, t.TempDir(), infer.Options{}), // which lacks the image
		key(1, dir, infer.Options{Model: "generic-x86_64"}),
		key(1, dir, infer.Options{NoCallers: true}),
		key(1, dir, infer.Options{Part: 0.5}),
		key(1, dir, infer.Options{Only: func(id sample.ImageID) bool { return filepath.Base(id.Path) == "mix" }}),
	}
	testtool.Put(t, filepath.Join(dir, "mix"), testtool.Read(t, filepath.Join(mixDir, "mix"))+"\x00")
	others = append(others, key(1, dir, infer.Options{}))
	for i, k := range others {
		if slices.Contains(others[:i], k) {
			t.Errorf("the key %d is one of those before", i)
		}
	}
	if _, ok := resultKey(context.Background(), &sample.Recording{}, readFrom{}, func(sample.ImageID) (*image.Image, error) { return nil, ErrNotFound }, infer.Options{}); ok {
		t.Error("nothing to infer from has a key")
	}
}

// TestResultKeyTaken: a recording that samples were taken from is not what the file has.
func TestResultKeyTaken(t *testing.T) {
	rec, err := sample.Decode([]byte(testtool.Read(t, filepath.Join(mixDir, "samples.bfr"))))
	if err != nil {
		t.Fatal(err)
	}
	for _, vdso := range []uint64{0, 1} {
		if vdso > 0 {
			c := rec.Counts[0]
			c.AddSample(c.Image(sample.ImageID{Path: "[vdso]"}), 0x100, vdso)
		}
		path := testtool.Write(t, t.TempDir(), "rec", string(rec.Encode()))
		s, err := Infer(context.Background(), []string{path}, Options{Symfs: []string{mixDir}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if s.from.of(s.Recording) != (vdso == 0) {
			t.Errorf("%d samples taken from it: the recording is what the file has: %t", vdso, vdso > 0)
		}
	}
}

// TestShed: of too much, what was asked for the longest ago goes, and nothing that others wrote.
func TestShed(t *testing.T) {
	now := time.Now()
	d := Results(t.TempDir())
	files := []struct {
		name string
		size int64
		age  time.Duration
		stay bool
	}{
		{strings.Repeat("0a", sha256.Size) + resultSuffix, mostResultBytes / 2, 3 * time.Hour, false},
		{strings.Repeat("0b", sha256.Size) + resultSuffix, mostResultBytes / 3, time.Hour, true},
		{strings.Repeat("0c", sha256.Size) + resultSuffix, mostResultBytes / 3, 2 * time.Hour, true},
		{"notes" + resultSuffix, mostResultBytes, 4 * time.Hour, true},
		{tempPrefix + "1", 1, staleTemp + time.Hour, false},
		{tempPrefix + "2", 1, time.Hour, true},
	}
	for _, f := range files {
		path := filepath.Join(string(d), f.name)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Truncate(path, f.size); err != nil { // with no blocks
			t.Fatal(err)
		}
		if err := os.Chtimes(path, now, now.Add(-f.age)); err != nil {
			t.Fatal(err)
		}
	}
	d.shed(now)
	for _, f := range files {
		if _, err := os.Stat(filepath.Join(string(d), f.name)); (err == nil) != f.stay {
			t.Errorf("%s: %v; to stay: %v", f.name, err, f.stay)
		}
	}
}
