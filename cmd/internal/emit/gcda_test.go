package emit

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"backfeed/cmd/internal/fail"
	"backfeed/feedback"
	"backfeed/feedback/gcov"
	"backfeed/internal/testtool"
)

// notesFile is one of notes without functions, of gcc 12 and later.
func notesFile(version, dir string) []byte {
	le := binary.LittleEndian
	b := append([]byte("oncg"), version[3], version[2], version[1], version[0]) // the magic number and the version are numbers too
	b = le.AppendUint32(b, 7)                                                   // stamp
	b = le.AppendUint32(b, 0)                                                   // checksum
	b = le.AppendUint32(b, uint32(len(dir)+1))
	b = append(append(b, dir...), 0)
	return le.AppendUint32(b, 1)
}

// TestReadNotes: all notes of a tree are read, once and in order, and others than of one build are refused.
func TestReadNotes(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b/x.gcno", "a/y.gcno", "a/y.c", "z.gcno"} {
		testtool.Put(t, filepath.Join(dir, "build", name), notesFile("B22*", "/src"))
	}
	if err := os.Symlink("build", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("..", filepath.Join(dir, "build/a/up")); err != nil { // which leads around
		t.Fatal(err)
	}
	t.Chdir(dir)
	for _, tt := range []struct {
		paths string
		want  string
	}{
		{"build", "build/a/y.gcno build/b/x.gcno build/z.gcno"},
		{"build build/a build/z.gcno", "build/a/y.gcno build/b/x.gcno build/z.gcno"},
		{"build/b/x.gcno", "build/b/x.gcno"},
		{"link", "link/a/y.gcno link/b/x.gcno link/z.gcno"},
	} {
		all, err := ReadNotes(strings.Fields(tt.paths))
		if err != nil {
			t.Errorf("%s: %v", tt.paths, err)
		}
		var got, want []string
		for _, n := range all {
			got = append(got, n.Path)
			if n.Dir != "/src" || n.Version.String() != "12.2" {
				t.Errorf("%s: %+v", tt.paths, n)
			}
		}
		for _, path := range strings.Fields(tt.want) {
			want = append(want, filepath.Join(dir, path))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %s, want %s", tt.paths, got, want)
		}
	}

	testtool.Put(t, "other/x.gcno", notesFile("B33*", "/src"))
	testtool.Put(t, "cut/x.gcno", notesFile("B22*", "/src")[:20])
	testtool.Put(t, "text/x.gcno", "no notes")
	testtool.Put(t, "none/x.c", "")
	for _, tt := range []struct {
		paths, want string
		kind        fail.Kind
	}{
		{"build other", "build/a/y.gcno is of gcc 12.2, and " + dir + "/other/x.gcno of gcc 13.3", fail.Nothing},
		{"cut", "cut/x.gcno: offset 0x", fail.Nothing},
		{"text", "text/x.gcno: offset 0x0: magic", fail.Nothing},
		{"none", "none: no notes of gcc (*.gcno): build with -ftest-coverage", fail.Nothing},
		{"build absent", "absent: no such file", fail.Other},
	} {
		if _, err := ReadNotes(strings.Fields(tt.paths)); err == nil || !strings.Contains(err.Error(), tt.want) || fail.KindOf(err) != tt.kind {
			t.Errorf("%s: %v (kind %d), want %s", tt.paths, err, fail.KindOf(err), tt.want)
		}
	}
	if os.Geteuid() != 0 {
		if err := os.Mkdir("build/closed", 0); err != nil {
			t.Fatal(err)
		}
		if _, err := ReadNotes([]string{"build"}); err == nil || !strings.Contains(err.Error(), "build/closed: permission denied") {
			t.Errorf("a directory that cannot be read: %v", err)
		}
	}
}

// static returns notes of one function, whose ident says that its object is called aux ("" is no static function).
func static(path, dir, aux string) *gcov.Notes {
	idents := map[string]uint32{"": 108032747, "a": 2068343452, "./o/a": 1511283919, "o/../o/c": 100928189} // of gcc 12
	name := "f"
	if aux == "" {
		name = "main"
	}
	return &gcov.Notes{Path: path, Dir: dir, Version: 'B'<<24 | '2'<<16 | '2'<<8 | '*', Functions: []gcov.Function{{Ident: idents[aux], Name: name, Source: "a.c"}}}
}

// TestDataPlaces: counters go where gcc looks for them, as far as notes say that, and else to each place that is likely.
func TestDataPlaces(t *testing.T) {
	for _, tt := range []struct {
		name  string
		notes []*gcov.Notes
		want  string
	}{
		{"they say it", []*gcov.Notes{static("/src/a.gcno", "/src", "a")}, "p/#src#a.gcda"},
		{"./", []*gcov.Notes{static("/src/o/a.gcno", "/src", "./o/a")}, "p/#src#.#o#a.gcda"},
		{"others say it", []*gcov.Notes{static("/src/o/a.gcno", "/src", "./o/a"), static("/src/o/b.gcno", "/src", "")}, "p/#src#.#o#a.gcda p/#src#.#o#b.gcda"},
		{"nobody says it", []*gcov.Notes{static("/src/o/b.gcno", "/src", "")}, "p/#src#o#b.gcda p//src/o/b.gcda"},
		{"beside the directory", []*gcov.Notes{static("/src/a.gcno", "/src", "a"), static("/build/b.gcno", "/src", "")}, "p/#src#a.gcda p/#src#^#build#b.gcda"},
		{"moved", []*gcov.Notes{static("/home/x/o/a.gcno", "/src", "./o/a")}, "p/#src#.#o#a.gcda"},
	} {
		if got := strings.Join(slices.Concat(dataPlaces(tt.notes, "p")...), " "); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}

	// gcc's directory is as its shell has it, through a link.
	dir := t.TempDir()
	if err := os.MkdirAll(filepath.Join(dir, "real"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("real", filepath.Join(dir, "link")); err != nil {
		t.Fatal(err)
	}
	got := dataPlaces([]*gcov.Notes{static(filepath.Join(dir, "real/a.gcno"), filepath.Join(dir, "link"), "a")}, "p")
	if want := "p/" + strings.ReplaceAll(filepath.Join(dir, "link/a"), "/", "#") + ".gcda"; !slices.Equal(got[0], []string{want}) {
		t.Errorf("through a link: %s, want %s", got, want)
	}
}

// TestGCDAFiles: objects with counters have files, and others have none.
func TestGCDAFiles(t *testing.T) {
	notes := []*gcov.Notes{static("/src/a.gcno", "/src", "a"), static("/src/b.gcno", "/src", ""), static("/src/c.gcno", "/src", "")}
	counted := func(i int, arcs ...int64) *gcov.Data {
		d := gcov.NewData(notes[i])
		d.Max = 70
		d.Functions = []gcov.Counts{{Ident: notes[i].Functions[0].Ident, Arcs: arcs}}
		return d
	}
	files, objects, err := gcdaFiles(notes, []*gcov.Data{counted(0, 3, 5), gcov.NewData(notes[1]), counted(2, 70, 2)}, dataPlaces(notes, "p"))
	if err != nil || objects != 2 || len(files) != 2 {
		t.Fatalf("%d files of %d objects, %v", len(files), objects, err)
	}
	for i, want := range []struct {
		path string
		arcs []int64
	}{{"p/#src#a.gcda", []int64{3, 5}}, {"p/#src#c.gcda", []int64{70, 2}}} {
		d, err := gcov.ReadData(bytes.NewReader(files[i].Bytes), files[i].Path)
		if err != nil || files[i].Path != want.path || d.Max != 70 || d.Runs != 1 || !slices.Equal(d.Functions[0].Arcs, want.arcs) {
			t.Errorf("%s: %+v, %v; want %+v", files[i].Path, d, err, want)
		}
	}
	if _, _, err := gcdaFiles(notes[:1], []*gcov.Data{gcov.NewData(notes[0])}, dataPlaces(notes[:1], "p")); !errors.Is(err, feedback.ErrEmpty) {
		t.Errorf("nothing has counters: %v", err)
	}
	twice := []*gcov.Notes{static("/one/a.gcno", "/src", "a"), static("/two/a.gcno", "/src", "a")}
	if _, _, err := gcdaFiles(twice, []*gcov.Data{counted(0, 3), counted(0, 4)}, dataPlaces(twice, "p")); err == nil || !strings.Contains(err.Error(), "/one/a.gcno and /two/a.gcno are notes of one object, p/#src#a.gcda") {
		t.Errorf("two notes of one object: %v", err)
	}

	// What an earlier run wrote for an object without counters is named.
	dir := t.TempDir()
	testtool.Write(t, dir, "#src#b.gcda", "")
	testtool.Write(t, dir, "#src#a.gcda", "")
	if old := staleData([]*gcov.Data{counted(0, 3), gcov.NewData(notes[1]), gcov.NewData(notes[2])}, dataPlaces(notes, dir)); !slices.Equal(old, []string{dir + "/#src#b.gcda"}) {
		t.Errorf("older files: %s", old)
	}
}
