package output

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"backfeed/cmd/internal/fail"
	"backfeed/infer/source"
)

// A destination is a name in an open directory.
type destination struct {
	path string   // as the user gave it
	dir  *os.File // that it is in, to open files from
	base string
	old  *unix.Stat_t // what has the name; nil is nothing
	fd   bool         // it is an entry of /proc/PID/fd: an open file, which may have no other name
}

// findWritable is findDestination of what can be written.
func findWritable(path string) (*destination, error) {
	p, err := findDestination(path)
	if err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		p.dir.Close()
		return nil, err
	}
	return p, nil
}

// findDestination finds where a path leads. A last link that leads to nothing is followed too.
func findDestination(path string) (*destination, error) {
	failed := func(err error) (*destination, error) { return nil, fmt.Errorf("%s: %w", path, fail.Cause(err)) }
	start := "."
	if strings.HasPrefix(path, "/") {
		start = "/"
	}
	dir, err := openDir(unix.AT_FDCWD, start)
	if err != nil {
		return failed(err)
	}
	todo := elements(path)
	for links := 0; ; {
		name := todo[0]
		todo = todo[1:]
		st, target, err := lookAt(dir, name)
		last := len(todo) == 0
		switch {
		case last && errors.Is(err, fs.ErrNotExist):
			return &destination{path: path, dir: dir, base: name}, nil
		case err != nil:
			dir.Close()
			return failed(err)
		case last && !isLink(st):
			return &destination{path: path, dir: dir, base: name, old: st}, nil
		case last && source.MadeByKernel(dir):
			return &destination{path: path, dir: dir, base: name, old: st, fd: true}, nil
		case isLink(st):
			if links++; links > maxNameLinks {
				dir.Close()
				return failed(syscall.ELOOP)
			}
			if err := ofOthers(dir, st); err != nil {
				dir.Close()
				return nil, fmt.Errorf("%s: %s: %w", path, name, err)
			}
			todo = append(elements(target), todo...)
			if !strings.HasPrefix(target, "/") {
				continue
			}
			name = "/"
		}
		next, err := openDir(int(dir.Fd()), name)
		dir.Close()
		if err != nil {
			return failed(err)
		}
		dir = next
	}
}

// maxNameLinks is how many links a name may have, as for the kernel.
const maxNameLinks = 40

// elements splits a path. One that ends with a slash is a directory.
func elements(path string) []string {
	list := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	if len(list) == 0 || strings.HasSuffix(path, "/") {
		list = append(list, ".")
	}
	return list
}

func isLink(st *unix.Stat_t) bool { return uint32(st.Mode)&unix.S_IFMT == unix.S_IFLNK }

// openDir opens a directory, not by a link, to find names in it.
func openDir(at int, name string) (*os.File, error) {
	fd, err := unix.Openat(at, name, searchOnly|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), name), nil
}

// ofOthers says what is wrong with an entry of a directory if it is somebody else's and
// everybody may write to the directory: the kernel's may_follow_link, of fs/namei.c.
func ofOthers(dir *os.File, st *unix.Stat_t) error {
	if st.Uid == uint32(os.Geteuid()) {
		return nil
	}
	var d unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &d); err != nil {
		return err
	}
	const shared = unix.S_ISVTX | unix.S_IWOTH
	if uint32(d.Mode)&shared != shared || d.Uid == st.Uid {
		return nil
	}
	what := "a file"
	if isLink(st) {
		what = "a link"
	}
	return fmt.Errorf("it is %s of user %d in a directory that everybody may write to, so that it is left alone; write to another directory, or remove it", what, st.Uid)
}

// check reports what keeps the destination from being written.
func (p *destination) check() error {
	switch {
	case p.old == nil || p.fd:
		return nil
	case uint32(p.old.Mode)&unix.S_IFMT == unix.S_IFDIR:
		return fmt.Errorf("%s is a directory", p.path)
	}
	if err := ofOthers(p.dir, p.old); err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return nil
}

// replaceable reports whether a new file may take the place; a pipe or a device stays.
func (p *destination) replaceable() bool {
	return !p.fd && (p.old == nil || uint32(p.old.Mode)&unix.S_IFMT == unix.S_IFREG)
}

// open opens a name in the directory.
func (p *destination) open(name string, flags int, mode uint32) (*os.File, error) {
	for {
		fd, err := unix.Openat(int(p.dir.Fd()), name, flags|unix.O_CLOEXEC, mode)
		switch {
		case err == nil:
			return os.NewFile(uintptr(fd), p.path), nil
		case !errors.Is(err, unix.EINTR):
			return nil, fmt.Errorf("%s: %w", p.path, err)
		}
	}
}

// IsStdout reports whether a path is one of the names of standard output.
func IsStdout(path string) bool {
	return slices.Contains([]string{"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"}, path)
}

// Write makes the file path from what f writes; "-" is stdout. A file
// appears whole or not at all, also if the machine stops: it is written beside its place,
// put on the disk and renamed. One that was there keeps its mode, and its content if f
// fails.
func Write(path string, stdout io.Writer, f func(io.Writer) error) error {
	if IsStdout(path) {
		return writeTo(stdout, f)
	}
	p, err := findWritable(path)
	if err != nil {
		return err
	}
	defer p.dir.Close()
	if p.replaceable() {
		return replace(p, f)
	}
	return writeThrough(p, f)
}

// WriteFile makes the file path of b, as Write does.
func WriteFile(path string, stdout io.Writer, b []byte) error {
	return Write(path, stdout, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// WriteProgram makes the file path, which can be executed, from what f writes. It appears as a file of Write does, and must not
// be anything but a file. One that runs goes on as it is.
func WriteProgram(path string, f func(io.Writer) error) error {
	p, err := findWritable(path)
	if err != nil {
		return err
	}
	defer p.dir.Close()
	if !p.replaceable() {
		return fmt.Errorf("%s is no regular file", path)
	}
	s, err := stage(p, 0o777, f)
	if err != nil {
		return err
	}
	return s.Commit()
}

// replace writes a new file beside its place and renames it.
func replace(p *destination, f func(io.Writer) error) error {
	s, err := stage(p, 0o666, f)
	if err != nil {
		return err
	}
	return s.Commit()
}

// A Staged is a file that is written, and not at its place yet.
type Staged struct {
	place *destination
	tmp   string
}

// Stage writes b beside the place that path leads to. What has the place must be a regular file or nothing.
// The caller ends with Commit or Drop.
func Stage(path string, b []byte) (*Staged, error) {
	p, err := findWritable(path)
	if err != nil {
		return nil, err
	}
	if !p.replaceable() {
		err = fmt.Errorf("%s is no regular file", path)
	}
	var s *Staged
	if err == nil {
		s, err = stage(p, 0o666, func(w io.Writer) error {
			_, err := w.Write(b)
			return err
		})
	}
	if err != nil {
		p.dir.Close()
	}
	return s, err
}

// Commit puts the file at its place, also if the machine stops.
func (s *Staged) Commit() error {
	if err := s.rename(); err != nil {
		return err
	}
	return s.place.onDisk()
}

// rename puts the file at its place.
func (s *Staged) rename() error {
	p := s.place
	dir := int(p.dir.Fd())
	if err := unix.Renameat(dir, s.tmp, dir, p.base); err != nil {
		unix.Unlinkat(dir, s.tmp, 0)
		return fmt.Errorf("%s: %w", p.path, err)
	}
	s.tmp = ""
	return nil
}

// onDisk waits until what names the directory has are on the disk.
func (p *destination) onDisk() error {
	d, err := p.open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil // not where it may not be read
	}
	defer d.Close()
	if err := onDisk(d); err != nil {
		return fmt.Errorf("%s: %w", p.path, fail.Cause(err))
	}
	return nil
}

// A File is one that is to be written.
type File struct {
	Path  string
	Bytes []byte
}

// WriteAll makes files, and the directories that they are in: all are written beside their places before the first
// gets there, so that where one cannot be written, there is none. Each appears whole, also if the machine stops. They may be
// more than files can be open: those of one directory share it.
func WriteAll(files []File) (err error) {
	var staged []*Staged
	dirs := map[string]*destination{}
	defer func() {
		for _, s := range staged {
			if s.tmp != "" {
				unix.Unlinkat(int(s.place.dir.Fd()), s.tmp, 0)
			}
		}
		for _, p := range dirs {
			p.dir.Close()
		}
	}()
	for _, f := range files {
		parent := filepath.Dir(f.Path)
		if err := os.MkdirAll(parent, 0o777); err != nil {
			return err
		}
		p, err := findDestination(f.Path)
		if err != nil {
			return err
		}
		switch shared := dirs[parent]; {
		case shared == nil:
			dirs[parent] = p
		case sameFile(shared.dir, p.dir):
			p.dir.Close()
			p.dir = shared.dir
		default: // it is a link to elsewhere
			dirs[f.Path] = p
		}
		if err := p.check(); err != nil {
			return err
		}
		if !p.replaceable() {
			return fmt.Errorf("%s is no regular file", f.Path)
		}
		s, err := stage(p, 0o666, func(w io.Writer) error {
			_, err := w.Write(f.Bytes)
			return err
		})
		if err != nil {
			return err
		}
		staged = append(staged, s)
	}
	for _, s := range staged {
		if err := s.rename(); err != nil {
			return err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(dirs)) {
		if err := dirs[name].onDisk(); err != nil {
			return err
		}
	}
	return nil
}

// sameFile reports whether two open files are one.
func sameFile(a, b *os.File) bool {
	var x, y unix.Stat_t
	return unix.Fstat(int(a.Fd()), &x) == nil && unix.Fstat(int(b.Fd()), &y) == nil && x.Dev == y.Dev && x.Ino == y.Ino
}

// Drop removes what was written, if it is not at its place, and lets go of the directory. It may follow Commit.
func (s *Staged) Drop() {
	if s.tmp != "" {
		unix.Unlinkat(int(s.place.dir.Fd()), s.tmp, 0)
		s.tmp = ""
	}
	s.place.dir.Close()
}

// staging is the name of a file that is not at its place yet.
var staging = regexp.MustCompile(`^\.(.+)\.[0-9a-f]{8}\.tmp$`)

// Sweep removes what writers of the file path that were killed have left beside it. Nobody may be writing it.
func Sweep(path string) {
	p, err := findDestination(path)
	if err != nil {
		return
	}
	defer p.dir.Close()
	d, err := p.open(".", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return
	}
	defer d.Close()
	names, _ := d.Readdirnames(-1)
	for _, name := range names {
		if m := staging.FindStringSubmatch(name); m != nil && m[1] == stagedAs(p.base) {
			unix.Unlinkat(int(p.dir.Fd()), name, 0)
		}
	}
}

// stagedAs is what of a name is in that of the file that is to replace it: a name has 255 bytes at most.
func stagedAs(base string) string { return base[:min(len(base), 200)] }

// stage writes a new file beside its place, with the mode of what has the place, and else with that of mode that the user lets
// files have. The directory of p stays open.
func stage(p *destination, mode uint32, f func(io.Writer) error) (s *Staged, err error) {
	file, tmp, err := p.create(mode)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			file.Close()
			unix.Unlinkat(int(p.dir.Fd()), tmp, 0)
		}
	}()
	if p.old != nil {
		old := uint32(p.old.Mode)
		if err := file.Chmod(fs.FileMode(old|old>>2&mode&0o111) & fs.ModePerm); err != nil { // who may read a program may run it
			return nil, fmt.Errorf("%s: %w", p.path, fail.Cause(err))
		}
	}
	if err := writeTo(file, f); err != nil {
		return nil, err
	}
	if err := onDisk(file); err != nil {
		return nil, fmt.Errorf("%s: %w", p.path, fail.Cause(err))
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("%s: %w", p.path, fail.Cause(err))
	}
	return &Staged{p, tmp}, nil
}

// onDisk waits until a file or directory is on the disk, if its filesystem knows of that.
func onDisk(f *os.File) error {
	err := f.Sync()
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.EROFS) {
		return nil
	}
	return err
}

// writeThrough writes to what has the place, without replacing it.
func writeThrough(p *destination, f func(io.Writer) error) error {
	flags := unix.O_WRONLY | unix.O_NOFOLLOW
	if p.fd {
		flags = unix.O_WRONLY | unix.O_TRUNC
	}
	file, err := p.open(p.base, flags, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	if st, err := file.Stat(); err != nil || !p.fd && st.Mode().IsRegular() {
		return fmt.Errorf("%s: it changed while it was opened", p.path)
	}
	if err := writeTo(file, f); err != nil {
		return err
	}
	return file.Close()
}

// writeTo runs f on w, buffered.
func writeTo(w io.Writer, f func(io.Writer) error) error {
	b := bufio.NewWriterSize(w, 1<<16)
	if err := f(b); err != nil {
		return err
	}
	return b.Flush()
}

// Check reports what would keep Write from making the file path, as far as that can be seen without making it. What has the place
// is not touched: where a new file would replace it, one is made beside it, and removed.
func Check(path string) error {
	if IsStdout(path) {
		return nil
	}
	p, err := findWritable(path)
	if err != nil {
		return err
	}
	defer p.dir.Close()
	if p.replaceable() {
		return p.checkNew()
	}
	if p.fd {
		return nil // it is open
	}
	// A pipe is not opened: that would wait for who reads it.
	if err := unix.Faccessat(int(p.dir.Fd()), p.base, unix.W_OK, unix.AT_EACCESS); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// CheckBelow is Check of a file whose directory is made with it, if there is none.
func CheckBelow(path string) error {
	for {
		dir := filepath.Dir(path)
		if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) || dir == path {
			return Check(path)
		}
		path = dir
	}
}

// checkNew makes a new file beside the place, and removes it.
func (p *destination) checkNew() error {
	file, tmp, err := p.create(0o600)
	if err != nil {
		return err
	}
	if err := errors.Join(file.Close(), unix.Unlinkat(int(p.dir.Fd()), tmp, 0)); err != nil {
		return fmt.Errorf("%s: %w", p.path, err)
	}
	return nil
}

// create makes a new file beside the place, of a name that Sweep knows.
func (p *destination) create(mode uint32) (file *os.File, name string, err error) {
	name = fmt.Sprintf(".%s.%08x.tmp", stagedAs(p.base), rand.Uint32())
	file, err = p.open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, mode)
	return file, name, err
}

// Append opens a file to append to, which is made if it is not there.
func Append(path string) (*os.File, error) {
	p, err := findWritable(path)
	if err != nil {
		return nil, err
	}
	defer p.dir.Close()
	if p.fd {
		return p.open(p.base, unix.O_WRONLY|unix.O_APPEND, 0)
	}
	if p.old == nil { // one that somebody makes meanwhile is not taken for ours
		return p.open(p.base, unix.O_WRONLY|unix.O_APPEND|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW, 0o644)
	}
	return p.open(p.base, unix.O_WRONLY|unix.O_APPEND|unix.O_NOFOLLOW, 0)
}

// Alone waits until no other process is alone in the directory dir, and keeps others from being so until the
// returned function is called.
func Alone(ctx context.Context, dir string) (func(), error) {
	d, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, fail.Cause(err))
	}
	const again = 100 * time.Millisecond
	for {
		switch err := unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB); {
		case err == nil:
			return func() { d.Close() }, nil
		case !errors.Is(err, unix.EWOULDBLOCK) && !errors.Is(err, unix.EINTR):
			d.Close()
			return nil, fmt.Errorf("%s: %w", dir, err)
		}
		select {
		case <-ctx.Done():
			d.Close()
			return nil, ctx.Err()
		case <-time.After(again):
		}
	}
}
