package source

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// Whoever built a program chose the file names in its line table, and #line lets them
// be any: a name is a wish, not a permission. A source file is read below a root
// only, as a regular file of text, and never by a path as it was recorded.

// A root is a directory that source files may be read below. The kernel holds to
// it: os.Root opens each element of a path from the directory before, so that neither
// ".." nor a link leads out, and takes the links of /proc for the text that they show.
type root struct {
	dir    string
	names  []string // absolute paths that recorded ones may begin with
	code   bool     // read files only that are named like code
	root   *os.Root // nil until the first file is asked for
	failed error    // why there is none
}

// A Withheld is why a file is not shown.
type Withheld string

// Error goes on from the name of the file: "is not here".
func (w Withheld) Error() string { return string(w) }

// Elsewhere reports whether the file may well be shown if it is looked up below another
// directory.
func (w Withheld) Elsewhere() bool {
	return w == notHere || w == notOurs || w == leadsOut || w == notCode
}

const (
	notHere    Withheld = "is not here"
	notOurs    Withheld = "is outside the directories that source is read from"
	notRegular Withheld = "is not a regular file"
	notText    Withheld = "is not text"
	notCode    Withheld = "is not named like a file of code"
	tooLarge   Withheld = "is larger than 64 MiB"
	leadsOut   Withheld = "is behind a link that leads out of the directory"
	dotFile    Withheld = "is hidden: files and directories whose names begin with a dot may hold credentials"
	ofKernel   Withheld = "is of /proc, /sys or /dev, whose files are not source"
)

// maxSource is the largest source file that is read, in bytes: the largest known to be
// compiled, amalgamations, have 10 MB.
const maxSource = 64 << 20

// newRoot makes the root of a directory, which recorded paths may have called by
// its name here, by the name without links, or by one of names.
func newRoot(dir string, names ...string) *root {
	r := &root{dir: dir, names: names}
	if abs, err := filepath.Abs(dir); err == nil {
		r.names = append(r.names, abs)
		if real, err := filepath.EvalSymlinks(abs); err == nil && real != abs {
			r.names = append(r.names, real)
		}
	}
	return r
}

// below returns the path below the root that a recorded one is. A relative one is of a
// build that left out where it ran (-trimpath, -ffile-prefix-map).
func (r *root) below(recorded string) (string, bool) {
	if !path.IsAbs(recorded) {
		return recorded, true
	}
	for _, name := range r.names {
		if rel, ok := strings.CutPrefix(recorded, strings.TrimSuffix(filepath.ToSlash(name), "/")+"/"); ok {
			return rel, true
		}
	}
	return "", false
}

// read reads a file by its path below the root.
func (r *root) read(rel string) ([]byte, error) {
	if r.root == nil && r.failed == nil {
		r.root, r.failed = os.OpenRoot(r.dir)
	}
	if r.failed != nil {
		return nil, notHere
	}
	rel, err := r.resolve(rel)
	switch {
	case err != nil:
		return nil, err
	case r.code && !codeNames[strings.ToLower(path.Ext(rel))]:
		return nil, notCode
	}
	// Not even opened unless it is a file: to open a device may change something, and a
	// pipe waits for whoever writes it.
	if st, err := r.root.Lstat(rel); err != nil || !st.Mode().IsRegular() {
		return nil, why(err)
	}
	f, err := r.root.OpenFile(rel, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, why(err)
	}
	defer f.Close()
	st, err := f.Stat() // another file may be there by now
	switch {
	case err != nil || !st.Mode().IsRegular():
		return nil, why(err)
	case st.Size() > maxSource:
		return nil, tooLarge
	case MadeByKernel(f):
		return nil, ofKernel
	}
	b, err := io.ReadAll(io.LimitReader(f, maxSource+1))
	switch {
	case err != nil:
		return nil, why(err)
	case len(b) > maxSource:
		return nil, tooLarge
	case bytes.IndexByte(b[:min(len(b), 8<<10)], 0) >= 0:
		return nil, notText
	}
	return b, nil
}

// maxLinks is how many links a path may have, as for the kernel.
const maxLinks = 40

// resolve returns the path below the root without links, so that what rules out a name
// rules out what a link of another name leads to.
func (r *root) resolve(rel string) (string, error) {
	todo := strings.Split(path.Clean(rel), "/")
	done := "."
	for links := 0; len(todo) > 0; {
		next := path.Join(done, todo[0])
		switch {
		case !filepath.IsLocal(filepath.FromSlash(next)):
			return "", leadsOut
		case strings.HasPrefix(todo[0], ".") && todo[0] != "." && todo[0] != "..":
			return "", dotFile
		case r.isKernels(next):
			return "", ofKernel
		}
		todo = todo[1:]
		st, err := r.root.Lstat(next)
		if err != nil {
			return "", why(err)
		}
		if st.Mode()&fs.ModeSymlink == 0 {
			done = next
			continue
		}
		to, err := r.root.Readlink(next)
		if links++; err != nil || links > maxLinks || path.IsAbs(to) {
			return "", leadsOut
		}
		todo = append(strings.Split(path.Clean(to), "/"), todo...)
	}
	return done, nil
}

// isKernels reports whether a path below the root is one of directories whose files the
// kernel makes up.
func (r *root) isKernels(rel string) bool {
	return slices.ContainsFunc(r.names, func(name string) bool { return kernelPath(path.Join(filepath.ToSlash(name), rel)) })
}

// cause returns an error of the file system without the path.
func cause(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

func kernelPath(name string) bool {
	for _, dir := range []string{"/proc", "/sys", "/dev"} {
		if name == dir || strings.HasPrefix(name, dir+"/") {
			return true
		}
	}
	return false
}

// why says why a file cannot be opened; nil is that it is no file.
func why(err error) error {
	switch {
	case err == nil:
		return notRegular
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return notHere
	}
	if cause(err).Error() == "path escapes from parent" { // os has no name for it
		return leadsOut
	}
	return Withheld("cannot be read: " + cause(err).Error())
}

// codeNames are the ends of names that files of code have. What else lies in a working
// directory may be keys and settings.
var codeNames = map[string]bool{}

func init() {
	for name := range strings.FieldsSeq(`.ada .adb .ads .asm .c .c++ .cc .cl .cp .cpp .cppm .cr .cu .cuh .cxx .d .def .di .f .f03 .f08 .f77 .f90 .f95 .for .ftn
		.gen .go .gperf .h .h++ .hh .hip .hpp .hs .hxx .i .icc .ii .inc .inl .ino .ipp .ispc .ixx .l .lex .ll .lpp .lxx .m .md5 .ml .mli .mm .nim .odin .pas .pp
		.proto .rl .rs .s .sx .swift .tbl .tcc .td .tpp .txx .v .x .y .yy .yacc .ypp .zig`) {
		codeNames[name] = true
	}
}

// workingRoot is the tree of the working directory; nil if that is the whole machine, or
// is not known.
func workingRoot() *root {
	dir, err := os.Getwd()
	if err != nil || filepath.Dir(dir) == dir || kernelPath(dir) {
		return nil
	}
	r := newRoot(".", dir)
	r.code = true
	return r
}

// toolchainRoots are where compilers, languages and distributions keep source, of this
// machine or of the copies of another's files below symfs.
func toolchainRoots(symfs []string) []*root {
	var roots []*root
	system := []string{"/usr/include", "/usr/local/include", "/usr/src", "/usr/lib/gcc", "/usr/lib/clang", "/usr/lib64/clang"}
	if llvm, err := filepath.Glob("/usr/lib/llvm-*/lib/clang"); err == nil {
		system = append(system, llvm...)
	}
	for _, top := range symfs {
		for _, dir := range system {
			roots = append(roots, newRoot(filepath.Join(top, dir), dir))
		}
	}
	home, _ := os.UserHomeDir()
	inHome := func(elem ...string) string {
		if home == "" {
			return ""
		}
		return filepath.Join(append([]string{home}, elem...)...)
	}
	dirs := append(system, goRoot(), moduleCache(inHome("go")))
	for _, d := range []struct{ env, fallback, sub string }{{"RUSTUP_HOME", inHome(".rustup"), "toolchains"}, {"CARGO_HOME", inHome(".cargo"), "registry/src"}} {
		if base := os.Getenv(d.env); base != "" {
			dirs = append(dirs, filepath.Join(base, d.sub))
		} else if d.fallback != "" {
			dirs = append(dirs, filepath.Join(d.fallback, d.sub))
		}
	}
	for _, dir := range dirs {
		if filepath.IsAbs(dir) {
			// Debian's GOROOT/src is a link to elsewhere; it is the directory that counts.
			roots = append(roots, newRoot(dir))
		}
	}
	return roots
}

// goRoot is where the source of Go's standard library is; "" if there is no Go.
func goRoot() string {
	if dir := os.Getenv("GOROOT"); dir != "" {
		return filepath.Join(dir, "src")
	}
	tool, err := exec.LookPath("go")
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(tool); err == nil {
		tool = real
	}
	return filepath.Join(filepath.Dir(filepath.Dir(tool)), "src")
}

// moduleCache is where the go command keeps modules.
func moduleCache(gopath string) string {
	if dir := os.Getenv("GOMODCACHE"); dir != "" {
		return dir
	}
	if list := filepath.SplitList(os.Getenv("GOPATH")); len(list) > 0 && list[0] != "" {
		gopath = list[0]
	}
	if gopath == "" {
		return ""
	}
	return filepath.Join(gopath, "pkg", "mod")
}
