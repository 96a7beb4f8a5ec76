package input

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/fetch"
	"backfeed/cmd/internal/report"
	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/store"
)

// A finder looks up on this machine the images that a recording names. A file
// is taken for an image only if it has the image's build ID; where the
// recording knows none, the path must do.
type finder struct {
	symfs []string // directories that images and debug files are below first
	cache []string // directories with a .build-id tree, as perf and distributions lay it out

	servers   []*server // that are asked for what is not found here
	downloads BuildDir  // what they had
	fetcher   fetch.Fetcher
	ctx       context.Context // of downloads
	notify    report.Notify

	stores  []store.Store             // that may have kept copies
	running *Running                  // processes that may have what was replaced
	files   []*os.File                // of theirs, which are open
	given   map[sample.BuildID]string // files that the user named
	ids     map[sample.BuildID]string // files below symfs, once it was scanned
	lookup  map[sample.ImageID]lookup // what was asked for, and the answer

	beside *finder // of another session, which closes the images that this one has of it; nil is none
}

// A lookup is the answer to one open.
type lookup struct {
	im     *image.Image
	err    error
	others bool // it is another session's
}

// Why an image cannot be opened, beside what package image says.
var (
	ErrNotFound = errors.New("no such file")
	ErrOtherID  = errors.New("has another build ID")
)

// newFinder makes a finder for images below each of symfs, or that a server named there has; errors call these as the user does.
func newFinder(symfs []string, as string) (*finder, error) {
	f := &finder{given: map[sample.BuildID]string{}, lookup: map[sample.ImageID]lookup{}, running: &Running{Proc: "/proc"}, ctx: context.Background(), notify: report.Quiet{}}
	f.symfs, f.servers = splitSymfs(symfs)
	for _, dir := range f.symfs {
		st, err := os.Stat(dir)
		if err != nil {
			return nil, fmt.Errorf("%s: %s: %w", as, dir, fail.Cause(err))
		}
		if !st.IsDir() {
			return nil, fail.Errorf(fail.Usage, "%s: %s is not a directory; name the one that the recorded binaries lie in or below", as, dir)
		}
		f.cache = append(f.cache, dir, filepath.Join(dir, "usr/lib/debug"))
	}
	if home, err := os.UserHomeDir(); err == nil {
		f.cache = append(f.cache, filepath.Join(home, ".debug")) // perf buildid-cache
	}
	f.cache = append(f.cache, "/usr/lib/debug", "/usr/lib")
	if len(f.servers) > 0 {
		var err error
		if f.downloads, err = cacheDir(); err != nil {
			return nil, err
		}
		f.cache = append(f.cache, string(f.downloads))
	}
	return f, nil
}

// give says that the file at path, if it is an image, is one.
func (f *finder) give(path string) {
	if id, err := image.ReadBuildID(path); err == nil && !id.IsZero() {
		f.given[id] = path
	}
}

// open returns the image that id names. It is asked once per image: the answer,
// good or bad, is kept.
func (f *finder) open(id sample.ImageID) (*image.Image, error) {
	if l, ok := f.lookup[id]; ok {
		return l.im, l.err
	}
	var l lookup
	if im := f.beside.found(id.Build); im != nil {
		l.im, l.others = im, true
	} else if l.err = Fileless(id); l.err == nil {
		if l.im, l.err = f.find(id); l.err != nil && id.OfKernel() {
			l.err = fmt.Errorf("%w: %w", errKernel, l.err)
		}
	}
	f.lookup[id] = l
	return l.im, l.err
}

// found returns an image of that build that was opened; nil if there is none.
func (f *finder) found(build sample.BuildID) *image.Image {
	if f == nil || build.IsZero() {
		return nil
	}
	for id, l := range f.lookup {
		if l.im != nil && id.Build == build {
			return l.im
		}
	}
	return nil
}

// close closes all images.
func (f *finder) close() {
	for _, l := range f.lookup {
		if l.im != nil && !l.others {
			l.im.Close()
		}
	}
	for _, file := range f.files {
		file.Close()
	}
}

// find looks here, and then asks servers; also for the debug file of an image that lacks one.
func (f *finder) find(id sample.ImageID) (*image.Image, error) {
	im, err := f.findHere(id)
	if err != nil && !id.OfKernel() && f.download(id, store.KindFile) {
		im, err = f.try(f.downloads.path(id.Build, store.KindFile), id)
	}
	if err != nil || !im.LacksDebug() || !f.download(id, store.KindDebug) {
		return im, err
	}
	again := func() (*image.Image, error) { return f.try(im.Path, id) }
	if im.Path == id.Path { // it has no file
		again = func() (*image.Image, error) { return f.findRunning(id) }
	}
	if whole, err := again(); err == nil {
		im.Close()
		im = whole
	}
	return im, nil
}

// findHere looks in all places of this machine; the nearest miss makes the error. Of a build that was stripped there may be a
// copy that was not: as perf's cache has what was recorded, and the path what was built. Of all that are the image, only
// that which says most of its code is read whole, the first of equals.
func (f *finder) findHere(id sample.ImageID) (*image.Image, error) {
	worst := ErrNotFound
	miss := func(err error) {
		if !errors.Is(err, fs.ErrNotExist) && (worst == ErrNotFound || errors.Is(worst, ErrOtherID)) {
			worst = err
		}
	}
	var found []*image.Headers
	first := func() *image.Image { // of those that say most
		slices.SortStableFunc(found, func(a, b *image.Headers) int { return cmp.Compare(b.Describes(), a.Describes()) })
		for len(found) > 0 {
			im, err := found[0].Open()
			found = found[1:]
			if err == nil {
				for _, other := range found {
					other.Close()
				}
				return im
			}
			miss(err)
		}
		return nil
	}
	for path := range f.candidates(id, func() bool { return len(found) > 0 }) {
		h, err := f.headers(path, id)
		if err != nil {
			miss(err)
			continue
		}
		found = append(found, h)
		if h.Describes() == image.Whole || id.Build.IsZero() || path == f.given[id.Build] {
			if im := first(); im != nil {
				return im, nil
			}
		}
	}
	if im := first(); im != nil {
		return im, nil
	}
	im, err := f.findRunning(id)
	if err == nil {
		return im, nil
	}
	if id.OfKernel() {
		if im := f.findVmlinux(id); im != nil {
			return im, nil
		}
		if worst == ErrNotFound {
			worst = err
		}
	}
	return nil, worst
}

// findVmlinux opens an installed file of the kernel: code as it was linked, not as it ran. It is nil if there is none.
func (f *finder) findVmlinux(id sample.ImageID) *image.Image {
	for _, path := range append(f.byBuildID(id.Build, f.cache), vmlinux(id, f.roots()...)...) {
		if im, err := f.try(path, id); err == nil {
			return im
		}
	}
	return nil
}

// roots are the directories that files may be below as they were on the machine that was recorded.
func (f *finder) roots() []string { return append(slices.Clone(f.symfs), "/") }

// findRunning opens what a process still runs though its file was replaced or removed, or the kernel that runs.
func (f *finder) findRunning(id sample.ImageID) (*image.Image, error) {
	if id.Build.IsZero() {
		return nil, ErrNotFound
	}
	file, root, err := f.running.Open(id)
	if err != nil {
		return nil, err
	}
	opt := f.options(file.Name(), id)
	opt.OpenFile = openBelow(root, opt.DebugDirs)
	im, err := image.OpenFile(file, opt)
	if err == nil && im.Build != id.Build {
		im.Close()
		err = ErrOtherID
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	f.files = append(f.files, file)
	if id.OfKernel() {
		im.Path = id.Path // its file has no name
	}
	return im, nil
}

// try opens the file at path if it is the image that id names.
func (f *finder) try(path string, id sample.ImageID) (*image.Image, error) {
	h, err := f.headers(path, id)
	if err != nil {
		return nil, err
	}
	return h.Open()
}

// headers opens the file at path if it is the image that id names, and does not yet read its symbols.
func (f *finder) headers(path string, id sample.ImageID) (*image.Headers, error) {
	h, err := image.OpenHeaders(path, f.options(path, id))
	if err != nil {
		return nil, err
	}
	if build := h.Build(); !id.Build.IsZero() && build != id.Build {
		h.Close()
		if build.IsZero() {
			return nil, fmt.Errorf("%s has no build ID: %w", path, ErrOtherID)
		}
		return nil, fmt.Errorf("%s %w, %s", path, ErrOtherID, build)
	}
	return h, nil
}

// options say where the separate debug file of an image is.
func (f *finder) options(path string, id sample.ImageID) image.Options {
	opt := image.Options{Root: f.root(path), DebugDirs: f.debugDirs()}
	for _, s := range f.stores {
		if copied, err := s.OpenImage(id, store.KindDebug); err == nil {
			opt.Debug = append(opt.Debug, copied)
		}
	}
	if opt.Kernel = id.OfKernel(); opt.Kernel {
		opt.Debug = append(opt.Debug, vmlinux(id, f.roots()...)...)
	}
	return opt
}

// root is the directory of symfs that a file lies below, or else the first.
func (f *finder) root(path string) string {
	for _, dir := range f.symfs {
		if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
			return dir
		}
	}
	if len(f.symfs) > 0 {
		return f.symfs[0]
	}
	return ""
}

// debugDirs are where separate debug files lie.
func (f *finder) debugDirs() []string {
	var dirs []string
	for _, dir := range f.symfs {
		dirs = append(dirs, dir, filepath.Join(dir, "usr/lib/debug"))
	}
	if f.downloads != "" {
		dirs = append(dirs, string(f.downloads))
	}
	return append(dirs, "/usr/lib/debug")
}

// candidates are the files that may be the image, the best first. Scanning
// symfs costs most and comes after the places that the path suggests: places
// that cost much are left out if any was found.
func (f *finder) candidates(id sample.ImageID, found func() bool) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		if path := f.given[id.Build]; path != "" && !yield(path) {
			return
		}
		trees := f.cache
		if id.OfKernel() { // what is installed has code as it was linked; see findVmlinux
			trees = f.cache[:2*len(f.symfs)]
		}
		for _, path := range f.byBuildID(id.Build, trees) {
			if !yield(path) {
				return
			}
		}
		path, gone := strings.CutSuffix(id.Path, " (deleted)") // the kernel's mark in /proc/PID/maps
		if gone && id.Build.IsZero() {
			return // what lies there now is another file, or may be
		}
		for _, dir := range f.symfs {
			if path != "" && !yield(filepath.Join(dir, path)) {
				return
			}
		}
		if !found() {
			if scanned := f.scanned(id.Build); scanned != "" && !yield(scanned) {
				return
			}
		}
		copied := func(inBucket bool) bool {
			for _, s := range f.stores {
				if _, is := s.(*store.Bucket); is != inBucket {
					continue
				}
				if copied, err := s.OpenImage(id, store.KindFile); err == nil && !yield(copied) {
					return false
				}
			}
			return true
		}
		if !copied(false) || filepath.IsAbs(path) && !yield(path) {
			return
		}
		if !found() {
			copied(true) // which are got over the network
		}
	}
}

// keeps reports whether another file than the one at path has the image: below symfs, in a cache, or in a store. A bucket is taken to
// have it, and so is a server: they would be asked over the network.
func (f *finder) keeps(id sample.ImageID, path string) bool {
	if len(f.servers) > 0 {
		return true
	}
	own, err := os.Stat(path)
	is := func(other string) bool {
		st, errOther := os.Stat(other)
		if errOther != nil || err == nil && os.SameFile(own, st) {
			return false
		}
		build, errOther := image.ReadBuildID(other)
		return errOther == nil && build == id.Build
	}
	for _, s := range f.stores {
		if _, inBucket := s.(*store.Bucket); inBucket {
			return true
		}
		if copied, err := s.OpenImage(id, store.KindFile); err == nil && is(copied) {
			return true
		}
	}
	below := func(dir string) bool { return is(filepath.Join(dir, id.Path)) }
	return slices.ContainsFunc(f.byBuildID(id.Build, f.cache), is) || slices.ContainsFunc(f.symfs, below) || is(f.scanned(id.Build))
}

// byBuildID are the places of an image in trees of build IDs: perf's cache has
// a directory with the file elf, distributions have a link to the file.
func (f *finder) byBuildID(id sample.BuildID, trees []string) []string {
	if id.IsZero() {
		return nil
	}
	hex := id.String()
	var paths []string
	for _, dir := range trees {
		place := filepath.Join(dir, ".build-id", hex[:2], hex[2:])
		for _, path := range []string{filepath.Join(place, "elf"), place} {
			if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
				paths = append(paths, path)
			}
		}
	}
	return paths
}

// scanned is the file below symfs with that build ID, or "".
func (f *finder) scanned(id sample.BuildID) string {
	if len(f.symfs) == 0 || id.IsZero() {
		return ""
	}
	if f.ids == nil {
		f.ids = map[sample.BuildID]string{}
		for _, dir := range f.symfs {
			f.scan(dir)
		}
	}
	return f.ids[id]
}

// scan reads the build IDs of all files below dir. Debug files share the ID
// of their image and have no code, so those that are named as such stand back;
// of others of one ID the one that tells most is taken, and of equals the first
// in order of names.
func (f *finder) scan(dir string) {
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return nil // what cannot be read cannot be the image
		}
		if d.IsDir() && filepath.Dir(path) == filepath.Clean(dir) && slices.Contains([]string{"proc", "sys", "dev"}, d.Name()) {
			return fs.SkipDir // of a whole system's root
		}
		if !d.Type().IsRegular() || strings.HasSuffix(path, ".debug") || strings.HasPrefix(d.Name(), tempPrefix) {
			return nil
		}
		id, err := image.ReadBuildID(path)
		if err != nil || id.IsZero() {
			return nil
		}
		if first, known := f.ids[id]; !known || image.DetailOf(path) > image.DetailOf(first) {
			f.ids[id] = path
		}
		return nil
	})
}
