package collect

import (
	"fmt"
	"os"
	"sync"
	"time"

	"backfeed/sample"

	"golang.org/x/sys/unix"
)

// fileIDs finds the build IDs of mapped files, and which of them are of Go, and remembers them.
//
// The kernel would write build IDs into its records (attr.build_id, since Linux 5.12),
// but not without harm: perf_event_mmap_output of kernel/events/core.c marks a record
// for the event that asked and leaves the mark on it for the events of others after
// it, whose records have an inode there. perf then reads the device number as the
// length of a build ID, and crashes (perf 6.1 beside such an event, Linux 6.18). So
// nobody asks, and whoever finds the mark on a record knows that it means nothing.
type fileIDs struct {
	mu     sync.Mutex
	seen   map[fileVersion]fileContent
	mapped map[mappedFile]knownFile
	golang map[sample.ImageID]bool             // those of Go, by key
	opened func(id sample.ImageID, f *os.File) // see SystemOptions.Opened; nil is nobody
}

// A fileVersion is a file as long as nobody writes to it.
type fileVersion struct {
	dev, ino uint64
	ctime    time.Duration
}

// A mappedFile is a file as records of mappings name it.
type mappedFile struct {
	maj, min          uint32
	inode, generation uint64
}

// A fileContent is what is known of a file's content.
type fileContent struct {
	build sample.BuildID
	isGo  bool
}

// A knownFile is what a mappedFile was when it was last looked at.
type knownFile struct {
	fileContent
	checked time.Time
}

// maxFiles bounds what is remembered; mostFresh is how long a file is believed not to
// have been written to.
const (
	maxFiles  = 1 << 16
	mostFresh = time.Second
)

// identify returns the identity of a mapped file. The file is read, provided that it is
// certainly the one that was mapped; that of a process which has ended, in a mount
// namespace of its own, was mostly seen with another.
func (f *fileIDs) identify(m *mmapRecord) sample.ImageID {
	f.mu.Lock()
	defer f.mu.Unlock()
	key := mappedFile{m.maj, m.min, m.inode, m.generation}
	known, ok := f.mapped[key]
	if ok && time.Since(known.checked) < mostFresh {
		return f.image(m.path, known.fileContent)
	}
	if ok { // a look at it will mostly do
		version, looked := versionMapped(m)
		if content, seen := f.seen[version]; looked && seen {
			f.remember(key, version, content)
			return f.image(m.path, content)
		}
	}
	file := openMapped(m)
	switch {
	case file == nil && ok:
		return f.image(m.path, known.fileContent)
	case file == nil:
		return imageID(markReplaced(m.path, m.inode), sample.BuildID{})
	}
	defer file.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(file.Fd()), &st); err != nil {
		return imageID(m.path, sample.BuildID{})
	}
	version := versionOf(&st)
	content, ok := f.seen[version]
	if !ok {
		if e, err := sample.ReadELF(file); err == nil { // else no image, but code all the same: the path must do
			content = fileContent{e.Build, e.Go}
		}
		if f.opened != nil && !content.build.IsZero() {
			f.opened(imageID(m.path, content.build), file)
		}
	}
	f.remember(key, version, content)
	return f.image(m.path, content)
}

// remember notes what a mapped file is now.
func (f *fileIDs) remember(key mappedFile, version fileVersion, content fileContent) {
	if f.seen == nil || len(f.seen) >= maxFiles || len(f.mapped) >= maxFiles {
		f.seen, f.mapped = map[fileVersion]fileContent{}, map[mappedFile]knownFile{}
	}
	f.seen[version] = content
	f.mapped[key] = knownFile{content, time.Now()}
}

func versionOf(st *unix.Stat_t) fileVersion {
	return fileVersion{st.Dev, st.Ino, time.Duration(st.Ctim.Nano())}
}

// versionMapped looks at a mapped file without opening it, which takes 6 us in place of 19 (BenchmarkIdentify). It returns
// false if the process does not have it mapped any more, or the privilege to follow the link is lacking.
func versionMapped(m *mmapRecord) (fileVersion, bool) {
	var st unix.Stat_t
	if unix.Stat(mapFile(m), &st) != nil {
		return fileVersion{}, false
	}
	return versionOf(&st), true
}

// mapFile is the link of the kernel's that leads to a mapped file, deleted or not.
func mapFile(m *mmapRecord) string {
	return fmt.Sprintf("/proc/%d/map_files/%x-%x", m.pid, m.start, m.start+m.size)
}

// image returns the identity of a file with that content, and notes whether it is of Go. What runs
// is not looked at again: of too many images, any one is forgotten, not all.
func (f *fileIDs) image(path string, content fileContent) sample.ImageID {
	id := imageID(path, content.build)
	if content.isGo && !f.golang[id.Key()] {
		if f.golang == nil {
			f.golang = map[sample.ImageID]bool{}
		}
		for other := range f.golang {
			if len(f.golang) < maxFiles {
				break
			}
			delete(f.golang, other)
		}
		f.golang[id.Key()] = true
	}
	return id
}

// isGo reports whether an image that was identified is of Go.
func (f *fileIDs) isGo(id sample.ImageID) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.golang[id.Key()]
}
