package input

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/store"
	"backfeed/testdata/tiny"
)

// A buildServer serves files by the path that debuginfod has them at, and notes what it was asked for.
type buildServer struct {
	files map[string][]byte
	asked []string
}

func (s *buildServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.asked = append(s.asked, r.URL.Path)
	b, ok := s.files[r.URL.Path]
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Write(b)
}

// said collects warnings.
type said struct {
	report.Quiet
	text *[]string
}

func (s said) Warn(format string, args ...any) {
	*s.text = append(*s.text, fmt.Sprintf(format, args...))
}

// ofServer returns a session that looks images up at address, and its warnings.
func ofServer(t *testing.T, address string) (*Session, *[]string) {
	t.Helper()
	warned := &[]string{}
	s, err := New(Options{Symfs: []string{address}, Notify: said{text: warned}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	s.finder.fetcher.Pause = time.Millisecond
	return s, warned
}

// TestDebuginfod: what is not here is asked of a server, once, and kept if it is what was asked for.
func TestDebuginfod(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	want, other, lies := sample.BuildID{0xab, 19: 9}, sample.BuildID{0xcd, 19: 9}, sample.BuildID{0xef, 19: 9}
	at := func(id sample.BuildID, kind string) string { return "/buildid/" + id.String() + "/" + kind }
	have := &buildServer{files: map[string][]byte{at(want, "executable"): tiny.ELF(want), at(lies, "executable"): tiny.ELF(want)}}
	web := httptest.NewServer(have)
	defer web.Close()
	image := func(id sample.BuildID) sample.ImageID { return sample.ImageID{Path: "/nowhere/app", Build: id} }

	s, warned := ofServer(t, web.URL+"/")
	for range 2 {
		if im, err := s.Open(image(want)); err != nil || im.Build != want {
			t.Fatalf("%v", err)
		}
		if _, err := s.Open(image(other)); !errors.Is(err, ErrNotFound) {
			t.Errorf("what the server lacks: %v", err)
		}
		if _, err := s.Open(image(lies)); !errors.Is(err, ErrNotFound) {
			t.Errorf("what the server has another of: %v", err)
		}
		if _, err := s.Open(sample.ImageID{Path: "/nowhere/app"}); !errors.Is(err, ErrNotFound) {
			t.Errorf("without a build ID: %v", err)
		}
	}
	if asked := []string{at(want, "executable"), at(want, "debuginfo"), at(other, "executable"), at(lies, "executable")}; !slices.Equal(have.asked, asked) {
		t.Errorf("asked for %q, want %q", have.asked, asked)
	}
	if len(*warned) != 1 || !strings.Contains((*warned)[0], "has another build ID") {
		t.Errorf("warned %q", *warned)
	}
	if cache, err := cacheDir(); err != nil || !cache.Has(image(want), store.KindFile) || cache.Has(image(lies), store.KindFile) {
		t.Errorf("the cache is not what was sent and right: %v", err)
	}

	// The next run asks no more, of a server that is gone at that.
	web.Close()
	s, warned = ofServer(t, web.URL+" "+web.URL)
	if _, err := s.Open(image(want)); err != nil {
		t.Error(err)
	}
	for range 2 {
		if _, err := s.Open(image(other)); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
		if _, err := s.Open(image(lies)); !errors.Is(err, ErrNotFound) {
			t.Error(err)
		}
	}
	again := 0
	for _, w := range *warned {
		if strings.Contains(w, "not asked again") {
			again++
		}
	}
	if again != 2 { // by each of the two
		t.Errorf("warned %q", *warned)
	}
	if s, err := New(Options{}); err != nil || len(s.finder.servers) > 0 {
		t.Errorf("a server is asked though none was named: %v", err)
	}
}

// TestDebuginfodDebug: the symbols of a stripped program are asked for, too, and are found in the cache.
func TestDebuginfodDebug(t *testing.T) {
	testtool.Need(t, "gcc", "objcopy", "strip")
	t.Setenv("HOME", t.TempDir())
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	dir := t.TempDir()
	testtool.Write(t, dir, "a.c", "static int __attribute__((noinline)) inner(int n) { return n * 3; }\nint main(int n, char **v) { return inner(n); }\n")
	testtool.Run(t, dir, "gcc", "-g", "-O1", "-Wl,--build-id", "-o", "a", "a.c")
	testtool.Run(t, dir, "objcopy", "--only-keep-debug", "a", "a.debug")
	testtool.Run(t, dir, "strip", "a")
	id, err := image.ReadBuildID(filepath.Join(dir, "a"))
	if err != nil {
		t.Fatal(err)
	}
	have := &buildServer{files: map[string][]byte{
		"/buildid/" + id.String() + "/executable": []byte(testtool.Read(t, filepath.Join(dir, "a"))),
		"/buildid/" + id.String() + "/debuginfo":  []byte(testtool.Read(t, filepath.Join(dir, "a.debug"))),
	}}
	web := httptest.NewServer(have)
	defer web.Close()
	for name, path := range map[string]string{"sent": "/nowhere/a", "here": filepath.Join(dir, "a")} {
		t.Setenv("XDG_CACHE_HOME", t.TempDir())
		for _, asked := range []bool{true, false} {
			have.asked = nil
			s, warned := ofServer(t, web.URL)
			im, err := s.Open(sample.ImageID{Path: path, Build: id})
			if err != nil || im.Lookup("inner") < 0 || im.LacksDebug() {
				t.Errorf("%s: no symbol of the debug file: %v, %q", name, err, *warned)
			}
			if (len(have.asked) > 0) != asked {
				t.Errorf("%s: asked for %q", name, have.asked)
			}
		}
	}
}

// TestCopyImages: copies are found by build ID, once; what was left unfinished long ago is removed.
func TestCopyImages(t *testing.T) {
	t.Setenv("HOME", t.TempDir())
	build := sample.BuildID{0xab, 19: 9}
	path, dir := filepath.Join(t.TempDir(), "app"), BuildDir(t.TempDir())
	testtool.Put(t, path, tiny.ELF(build))
	id := sample.ImageID{Path: path, Build: build}
	rec := &sample.Recording{}
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Unit: "ns"})
	c.AddSample(c.Image(id), 1, 3)
	c.AddSample(c.Image(sample.ImageID{Path: "/nowhere", Build: sample.BuildID{1}}), 1, 2)
	c.AddSample(c.Image(sample.ImageID{Path: "/without"}), 1, 1)
	c.AddSample(c.Image(sample.ImageID{Path: "[kernel]"}), 1, 1)
	rec.Add(c)
	left := filepath.Join(filepath.Dir(dir.path(build, store.KindFile)), tempPrefix+"1")
	testtool.Put(t, left, "")
	testtool.Put(t, left+"2", "")
	long := time.Now().Add(-2 * staleTemp)
	if err := os.Chtimes(left, long, long); err != nil {
		t.Fatal(err)
	}
	for _, want := range []Copies{
		{Images: 1, New: 1, Bytes: int64(len(tiny.ELF(build))), NotFound: 1, NoBuildID: 1},
		{Images: 1, NotFound: 1, NoBuildID: 1},
	} {
		s, err := Of(rec, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.CopyImages(t.Context(), dir); err != nil || got != want {
			t.Errorf("%+v, %v, want %+v", got, err, want)
		}
		s.Close()
	}
	unfinished := func() []string {
		names, _ := filepath.Glob(filepath.Join(string(dir), ".build-id/*/"+tempPrefix+"*"))
		return names
	}
	names, _ := filepath.Glob(filepath.Join(string(dir), ".build-id/*/[0-9a-f]*"))
	if len(names) != 1 || !slices.Equal(unfinished(), []string{left + "2"}) {
		t.Fatalf("%q and %q are there", names, unfinished())
	}
	// The files may go: the directory has them.
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	s, err := New(Options{Symfs: []string{string(dir)}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Open(id); err != nil {
		t.Error(err)
	}
	// What is another build, and what breaks off, is not kept.
	other := sample.ImageID{Build: sample.BuildID{2}}
	f, err := os.Open(names[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := dir.Keep(t.Context(), other, store.KindFile, f); !errors.Is(err, ErrOtherID) || dir.Has(other, store.KindFile) {
		t.Error(err)
	}
	broken := errors.New("broken")
	if err := dir.Put(sample.ImageID{Build: build}, store.KindDebug, func(*os.File) error { return broken }); !errors.Is(err, broken) || dir.Has(id, store.KindDebug) {
		t.Error(err)
	}
	if len(unfinished()) != 1 {
		t.Errorf("%q is left", unfinished())
	}
}
