package input

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"backfeed/infer/image"
	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/store"
)

// Running finds the images of running processes where these may see them: here, in their
// own mount namespaces, or nowhere any more but as their executables, or because HoldImages opened them or they are Fresh.
type Running struct {
	Proc  string   // where /proc is mounted
	roots []string // of mount namespaces; nil is not looked for yet

	programs map[string][]string // links to what processes run, by its path

	held map[sample.BuildID]*os.File // of HoldImages; nil is not to be had
	open int                         // of them

	Fresh *Fresh // what was mapped lately; nil is nothing
}

// Fresh holds files of images open from when they are first seen to be mapped: a container may end before it is known that one of its
// has samples. Of too many, those that came first go. The zero Fresh holds none; nil holds none ever.
type Fresh struct {
	mu    sync.Mutex
	files []freshFile // those that came first, first
}

type freshFile struct {
	build sample.BuildID
	f     *os.File
}

// Add holds a file for as long as there is room.
func (h *Fresh) Add(id sample.ImageID, f *os.File) {
	if h == nil || id.Build.IsZero() {
		return
	}
	again, err := sample.Reopen(int(f.Fd()), id.Path)
	if err != nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.files) == MostHeld {
		h.files[0].f.Close()
		h.files = slices.Delete(h.files, 0, 1)
	}
	h.files = append(h.files, freshFile{id.Build, again})
}

// open opens the file of an image once more, if it is held.
func (h *Fresh) open(id sample.ImageID) (*os.File, error) {
	if h != nil {
		h.mu.Lock()
		defer h.mu.Unlock()
		for _, held := range h.files {
			if held.build == id.Build {
				return sample.Reopen(int(held.f.Fd()), id.Path)
			}
		}
	}
	return nil, errors.New("gone, or out of reach")
}

// Close closes what is held.
func (h *Fresh) Close() {
	if h == nil {
		return
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, held := range h.files {
		held.f.Close()
	}
	h.files = nil
}

// MostHeld bounds the images that are held open at a time.
const MostHeld = 128

// HoldImages opens the files of images, those that come first up to MostHeld, each build at its first call: Open
// then finds them whatever becomes of their names, until Close.
func (p *Running) HoldImages(ids []sample.ImageID) {
	now := Running{Proc: p.Proc, Fresh: p.Fresh} // processes have come and gone since
	for _, id := range ids {
		_, tried := p.held[id.Build]
		if tried || p.open == MostHeld || id.Build.IsZero() || Fileless(id) != nil || id.OfKernel() {
			continue
		}
		if p.held == nil {
			p.held = map[sample.BuildID]*os.File{}
		}
		f, _, err := now.Open(id)
		if err == nil {
			p.open++
		}
		p.held[id.Build] = f
	}
}

// Close closes what is held.
func (p *Running) Close() {
	for _, f := range p.held {
		f.Close()
	}
	p.held, p.open = nil, 0
	p.Fresh.Close()
}

// Open opens the file of an image, under whatever name, and returns the root that the
// image's path is below. A file with another build ID is not opened. Of the kernel that runs, it makes one.
func (p *Running) Open(id sample.ImageID) (f *os.File, root string, err error) {
	if id.OfKernel() {
		f, err := liveKernel(id)
		return f, "/", err
	}
	path := strings.TrimSuffix(id.Path, " (deleted)")
	if f := withBuild(id.Build)(collect.OpenBelow("/", path)); f != nil {
		return f, "/", nil
	}
	if p.roots == nil { // which takes time, with many processes
		p.roots = mountRoots(p.Proc)
		p.programs = programs(p.Proc)
	}
	for _, root := range p.roots[1:] {
		if f := withBuild(id.Build)(collect.OpenBelow(root, path)); f != nil {
			return f, root, nil
		}
	}
	for _, link := range p.programs[path] {
		if f := withBuild(id.Build)(sample.OpenRegular(link)); f != nil {
			return f, filepath.Join(filepath.Dir(link), "root"), nil
		}
	}
	if held := p.held[id.Build]; held != nil {
		f, err := sample.Reopen(int(held.Fd()), path)
		return f, "/", err
	}
	f, err = p.Fresh.open(id)
	return f, "/", err
}

// programs returns the links to what processes run, by its path.
func programs(proc string) map[string][]string {
	all := map[string][]string{}
	links, _ := filepath.Glob(filepath.Join(proc, "[0-9]*/exe"))
	for _, link := range links {
		if to, err := os.Readlink(link); err == nil {
			to = strings.TrimSuffix(to, " (deleted)")
			all[to] = append(all[to], link)
		}
	}
	return all
}

// openBelow opens debug files: those of this machine in dirs, others below the root that the image's process has.
func openBelow(root string, dirs []string) func(path string) (*os.File, error) {
	return func(path string) (*os.File, error) {
		for _, dir := range dirs {
			if rel, err := filepath.Rel(dir, path); err == nil && filepath.IsLocal(rel) {
				return sample.OpenRegular(path)
			}
		}
		below, err := filepath.Rel(root, path)
		if err != nil {
			return nil, err
		}
		return collect.OpenInRoot(root, below)
	}
}

// Keep hands the file of a sampled image to put and, with debug, its separate debug file, if it has one.
func (p *Running) Keep(id sample.ImageID, debug bool, put func(f *os.File, kind store.Kind) error) error {
	held, err := p.Hold(id, debug)
	defer held.Close()
	if err != nil {
		return err
	}
	return held.Each(put)
}

// Held are the open files of an image: what they hold can be had until they are closed, whatever
// becomes of their names. The zero Held is of none.
type Held struct {
	file, debug *os.File // nil is none
}

// Hold opens the file of a sampled image and, with debug, its separate debug file, if it has one.
func (p *Running) Hold(id sample.ImageID, debug bool) (Held, error) {
	f, root, err := p.Open(id)
	if err != nil || !debug {
		return Held{file: f}, err
	}
	opt := image.Options{Root: root, OpenFile: openBelow(root, nil)}
	if id.OfKernel() {
		opt.Debug = vmlinux(id, "/")
	}
	g, err := image.DebugFile(f, opt)
	return Held{f, g}, err
}

// Each calls f with each file, until it fails.
func (h Held) Each(f func(file *os.File, kind store.Kind) error) error {
	if h.file != nil {
		if err := f(h.file, store.KindFile); err != nil {
			return err
		}
	}
	if h.debug != nil {
		return f(h.debug, store.KindDebug)
	}
	return nil
}

// Close closes the files.
func (h Held) Close() {
	h.Each(func(f *os.File, _ store.Kind) error {
		f.Close()
		return nil
	})
}

// withBuild returns a function that returns a file that was opened if it has that build
// ID, and nil if not. A path is opened once: what lies there can change at any time, and
// who can change it may have less privilege than this process.
func withBuild(build sample.BuildID) func(*os.File, error) *os.File {
	return func(f *os.File, err error) *os.File {
		if err != nil {
			return nil
		}
		if e, err := sample.ReadELF(f); err != nil || e.Build != build {
			f.Close()
			return nil
		}
		return f
	}
}

// mountRoots returns the roots of all mount namespaces that processes have, this
// one's first.
func mountRoots(proc string) []string {
	seen := map[string]bool{}
	if own, err := os.Readlink(filepath.Join(proc, "self/ns/mnt")); err == nil {
		seen[own] = true
	}
	roots := []string{"/"}
	all, _ := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	slices.Sort(all)
	for _, dir := range all {
		ns, err := os.Readlink(filepath.Join(dir, "ns/mnt"))
		if err == nil && !seen[ns] {
			seen[ns] = true
			roots = append(roots, filepath.Join(dir, "root"))
		}
	}
	return roots
}
