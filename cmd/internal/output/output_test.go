package output

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"backfeed/internal/testtool"
)

// nobody is the user whose links and files lie in wait: not root, and of no use.
const nobody = 65534

func writeText(path, text string) error { return WriteFile(path, io.Discard, []byte(text)) }

// asNobody makes a file or link of another user.
func asNobody(t *testing.T, path string, f func(path string) error) string {
	t.Helper()
	if err := f(path); err != nil {
		t.Fatal(err)
	}
	if err := os.Lchown(path, nobody, nobody); err != nil {
		t.Fatal(err)
	}
	return path
}

// sticky makes a directory like /tmp.
func sticky(t *testing.T, dir string) string {
	t.Helper()
	if err := os.MkdirAll(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o777|os.ModeSticky); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestOutputOfOthers: root writes nowhere that another user leads to from a directory
// like /tmp. The kernel's rule is not relied on: it may be off.
func TestOutputOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("needs root, to make links of another user")
	}
	link := func(to string) func(string) error { return func(path string) error { return os.Symlink(to, path) } }
	for _, tt := range []struct {
		name string
		// make lays the trap in a directory like /tmp, and returns what is given to -o and
		// what must not change.
		make    func(t *testing.T, tmp, target string) string
		refused bool
	}{
		{"link", func(t *testing.T, tmp, target string) string {
			return asNobody(t, filepath.Join(tmp, "out"), link(target))
		}, true},
		{"link to nothing", func(t *testing.T, tmp, target string) string {
			return asNobody(t, filepath.Join(tmp, "out"), link(filepath.Join(filepath.Dir(target), "new")))
		}, true},
		{"linked directory", func(t *testing.T, tmp, target string) string {
			return filepath.Join(asNobody(t, filepath.Join(tmp, "dir"), link(filepath.Dir(target))), "target")
		}, true},
		{"link of ours to one of theirs", func(t *testing.T, tmp, target string) string {
			asNobody(t, filepath.Join(tmp, "theirs"), link(target))
			path := filepath.Join(tmp, "ours")
			if err := os.Symlink("theirs", path); err != nil {
				t.Fatal(err)
			}
			return path
		}, true},
		{"file, which would keep its mode", func(t *testing.T, tmp, _ string) string {
			return asNobody(t, filepath.Join(tmp, "out"), func(path string) error { return os.WriteFile(path, nil, 0o666) })
		}, true},
		{"pipe", func(t *testing.T, tmp, _ string) string {
			return asNobody(t, filepath.Join(tmp, "out"), func(path string) error {
				if err := syscall.Mkfifo(path, 0o666); err != nil {
					return err
				}
				fd, err := syscall.Open(path, syscall.O_RDONLY|syscall.O_NONBLOCK, 0) // or a write would wait
				t.Cleanup(func() { syscall.Close(fd) })
				return err
			})
		}, true},
		{"link of ours", func(t *testing.T, tmp, target string) string {
			path := filepath.Join(tmp, "out")
			if err := os.Symlink(target, path); err != nil {
				t.Fatal(err)
			}
			return path
		}, false},
		{"link of whose the directory is", func(t *testing.T, tmp, target string) string {
			if err := os.Lchown(tmp, nobody, nobody); err != nil {
				t.Fatal(err)
			}
			return asNobody(t, filepath.Join(tmp, "out"), link(target))
		}, false},
		{"link in a directory of its owner's own", func(t *testing.T, tmp, target string) string {
			if err := os.Chmod(tmp, 0o755); err != nil {
				t.Fatal(err)
			}
			return asNobody(t, filepath.Join(tmp, "out"), link(target))
		}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "roots"), 0o700); err != nil {
				t.Fatal(err)
			}
			target := testtool.Write(t, filepath.Join(dir, "roots"), "target", "as it was")
			path := tt.make(t, sticky(t, filepath.Join(dir, "tmp")), target)
			for name, write := range map[string]func() error{
				"write": func() error { return writeText(path, "new") },
				"append": func() error {
					f, err := Append(path)
					if err == nil {
						_, err = f.WriteString("new")
						f.Close()
					}
					return err
				},
			} {
				err := write()
				if tt.refused && (err == nil || !strings.Contains(err.Error(), fmt.Sprintf("of user %d", nobody))) || !tt.refused && err != nil {
					t.Errorf("%s: %v, want a refusal: %v", name, err, tt.refused)
				}
			}
			if left, _ := os.ReadDir(filepath.Join(dir, "roots")); tt.refused != (testtool.Read(t, target) == "as it was") || len(left) != 1 {
				t.Errorf("the file of root's is now %q; beside it: %v", testtool.Read(t, target), left)
			}
		})
	}
}

// TestOutputSwapped: while the output is written, what its path leads to is replaced. It
// appears where the path led before, and nowhere else.
func TestOutputSwapped(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"a", "roots"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	target := testtool.Write(t, filepath.Join(dir, "roots"), "out", "as it was")
	err := Write(filepath.Join(dir, "a/out"), io.Discard, func(w io.Writer) error {
		io.WriteString(w, "new")
		if err := os.Rename(filepath.Join(dir, "a"), filepath.Join(dir, "b")); err != nil {
			return err
		}
		return os.Symlink("roots", filepath.Join(dir, "a"))
	})
	if err != nil || testtool.Read(t, target) != "as it was" || testtool.Read(t, filepath.Join(dir, "b/out")) != "new" {
		t.Errorf("%v; %q, %q", err, testtool.Read(t, target), testtool.Read(t, filepath.Join(dir, "b/out")))
	}
	// A link that takes the name meanwhile is replaced, not followed.
	path := filepath.Join(dir, "b/other")
	err = Write(path, io.Discard, func(w io.Writer) error {
		io.WriteString(w, "new")
		return os.Symlink(target, path)
	})
	if st, _ := os.Lstat(path); err != nil || testtool.Read(t, target) != "as it was" || !st.Mode().IsRegular() {
		t.Errorf("%v; %q, %v", err, testtool.Read(t, target), st.Mode())
	}
}

// TestOutputPaths: paths of every kind lead where a shell's redirection would.
func TestOutputPaths(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, d := range []string{"d/e", "closed/open"} {
		if err := os.MkdirAll(d, 0o777); err != nil {
			t.Fatal(err)
		}
	}
	for name, to := range map[string]string{"abs": filepath.Join(dir, "d"), "rel": "d/e", "d/e/up": "../..", "dangling": "d/made", "loop": "loop"} {
		if err := os.Symlink(to, name); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ path, lands, fails string }{
		{"x", "x", ""}, {"./d//y", "d/y", ""}, {"d/../z", "z", ""}, {"abs/e/w", "d/e/w", ""}, {"rel/v", "d/e/v", ""}, {"rel/up/u", "u", ""},
		{filepath.Join(dir, "t"), "t", ""}, {"dangling", "d/made", ""},
		{"loop", "", "symbolic links"}, {"none/x", "", "no such file"}, {"d", "", "is a directory"}, {"d/", "", "is a directory"}, {".", "", "is a directory"}, {"/", "", "is a directory"},
		{"x/y", "", "not a directory"}, {"x/", "", "not a directory"}, {"new/", "", "no such file"}, {"", "", ""},
		{strings.Repeat("n", 240), strings.Repeat("n", 240), ""}, {strings.Repeat("n", 300), "", "name too long"},
	} {
		err := writeText(tt.path, tt.path)
		switch {
		case tt.lands == "":
			if err == nil || !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("%q: %v, want %q", tt.path, err, tt.fails)
			}
		case err != nil || testtool.Read(t, tt.lands) != tt.path:
			t.Errorf("%q: %v", tt.path, err)
		}
	}
	if st, err := os.Lstat("dangling"); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is one no more: %v", err)
	}
	err := filepath.WalkDir(".", func(path string, _ os.DirEntry, err error) error {
		if strings.HasSuffix(path, ".tmp") {
			t.Errorf("%s is left", path)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestWrite: an output appears whole or not at all.
func TestWrite(t *testing.T) {
	write := func(path, text string, err error) error {
		return Write(path, io.Discard, func(w io.Writer) error {
			io.WriteString(w, text)
			return err
		})
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "out")
	broken := errors.New("broken")

	if err := write(path, "half", broken); err != broken {
		t.Errorf("write gave %v", err)
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("a failed write left %v", left)
	}
	if err := write(path, "first", nil); err != nil || testtool.Read(t, path) != "first" {
		t.Errorf("%v, content %q", err, testtool.Read(t, path))
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := write(path, "half", broken); err != broken || testtool.Read(t, path) != "first" {
		t.Errorf("%v, content %q, want that of before", err, testtool.Read(t, path))
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink("out", link); err != nil {
		t.Fatal(err)
	}
	if err := write(link, "second", nil); err != nil || testtool.Read(t, path) != "second" {
		t.Errorf("through a link: %v, content %q", err, testtool.Read(t, path))
	}
	if st, err := os.Lstat(link); err != nil || st.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is one no more: %v, %v", st, err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v, want that of before: %v", st.Mode(), err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("%v is left, want out and link", left)
	}
	if err := write(os.DevNull, "gone", nil); err != nil {
		t.Errorf("to %s: %v", os.DevNull, err)
	}
	if st, err := os.Stat(os.DevNull); err != nil || st.Mode().IsRegular() {
		t.Errorf("%s was replaced: %v, %v", os.DevNull, st, err)
	}
}

// TestCheck: what Check says of a path is what Write does, but for the file; and nothing is made or changed by looking.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	old := testtool.Write(t, dir, "old", "as it was")
	if err := errors.Join(os.Mkdir(filepath.Join(dir, "taken"), 0o777), os.Symlink("old", filepath.Join(dir, "link")), unix.Mkfifo(filepath.Join(dir, "pipe"), 0o600)); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]error{
		"new": nil, "old": nil, "link": nil, "pipe": nil, "gone/new": fs.ErrNotExist, "old/new": syscall.ENOTDIR, strings.Repeat("n", 300): syscall.ENAMETOOLONG,
	} {
		path := filepath.Join(dir, name)
		if err := Check(path); !errors.Is(err, want) || want != nil && !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
		if name != "gone/new" {
			if err := CheckBelow(path); !errors.Is(err, want) {
				t.Errorf("%s, with its directories: %v, want %v", name, err, want)
			}
		}
	}
	if err := Check(filepath.Join(dir, "taken")); err == nil || !strings.Contains(err.Error(), "is a directory") {
		t.Errorf("a directory: %v", err)
	}
	if err := errors.Join(Check("-"), Check("/dev/stdout"), Check(os.DevNull), CheckBelow(filepath.Join(dir, "a", "b", "new"))); err != nil {
		t.Error(err)
	}
	after, err := os.ReadDir(dir)
	if err != nil || !slices.EqualFunc(before, after, func(a, b os.DirEntry) bool { return a.Name() == b.Name() }) || testtool.Read(t, old) != "as it was" {
		t.Errorf("%v; there was %v and is %v, old is %q", err, before, after, testtool.Read(t, old))
	}
}

// TestWriteAll: of a set of files there are all, or none of those that were not there; directories are made.
func TestWriteAll(t *testing.T) {
	dir := t.TempDir()
	path := func(name string) string { return filepath.Join(dir, "out", name) }
	files := func(names ...string) (all []File) {
		for _, name := range names {
			all = append(all, File{path(name), []byte("new " + name)})
		}
		return all
	}
	testtool.Put(t, path("old"), "as it was")
	if err := os.Mkdir(path("taken"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../elsewhere", path("link")); err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"taken", "old/x", strings.Repeat("n", 300)} {
		if err := WriteAll(files("first", "old", bad)); err == nil || !strings.Contains(err.Error(), bad[:3]) {
			t.Errorf("%.10s: %v", bad, err)
		}
		if list, _ := os.ReadDir(path("")); testtool.Read(t, path("old")) != "as it was" || len(list) != 3 {
			t.Errorf("%.10s could not be written; old is %q, and there are %v", bad, testtool.Read(t, path("old")), list)
		}
	}
	names := []string{"old", "link", "d/e/x", "first"}
	for i := range 100 {
		names = append(names, fmt.Sprintf("d/%d", i))
	}
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	open, _ := os.ReadDir("/dev/fd")
	few := limit
	few.Cur = uint64(len(open) + 20) // of which the test, and each directory, need some
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &few); err != nil {
		t.Fatal(err)
	}
	err := WriteAll(files(names...))
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if got := testtool.Read(t, path(name)); got != "new "+name {
			t.Errorf("%s: %q", name, got)
		}
	}
	if list, _ := os.ReadDir(path("d")); len(list) != 101 {
		t.Errorf("%d files in d, want 101", len(list))
	}
	if got := testtool.Read(t, dir, "elsewhere"); got != "new link" {
		t.Errorf("behind the link is %q", got)
	}
}
