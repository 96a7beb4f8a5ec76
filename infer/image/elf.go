package image

import (
	"errors"

	"backfeed/sample"
)

// An Image is an open ELF file. Its methods may be called from several
// goroutines at once.
type Image struct {
	Path  string
	Build sample.BuildID // of the GNU build ID note; zero if there is none
	Arch  Arch
	Go    string // Go version that linked it, "go1.26.8"; "" if it is not a Go program
}

// Options say where Open may look for more than the file itself.
type Options struct {
	Root      string   // directory that debug file paths are below (perf's --symfs); "" is "/"
	DebugDirs []string // where separate debug files lie; nil is /usr/lib/debug
}

// Open reads the headers and symbols of the ELF file at path.
func Open(path string, opt Options) (*Image, error) { return nil, errors.New("not written yet") }

// Close releases the file. Procs and Frames taken from the image stay valid.
func (im *Image) Close() error { return nil }

// AddrOf gives the address at which the byte at file offset off was linked, if
// it is loaded at all. It and OffsetOf are the only places where the two meet.
func (im *Image) AddrOf(off sample.Offset) (Addr, bool) { return 0, false }

// OffsetOf is the inverse of AddrOf.
func (im *Image) OffsetOf(a Addr) (sample.Offset, bool) { return 0, false }

// Symbols are the procedures of the image by increasing address. Their ranges do
// not overlap. The slice is shared: do not change it.
func (im *Image) Symbols() []Symbol { return nil }

// Find gives the index of the symbol whose range contains a, or -1.
func (im *Image) Find(a Addr) int { return -1 }

// Lookup gives the index of the symbol called name (or with that alias), or -1.
func (im *Image) Lookup(name string) int { return -1 }
