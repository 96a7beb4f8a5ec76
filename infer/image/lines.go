package image

import (
	"bytes"
	"cmp"
	"debug/elf"
	"errors"
	"fmt"
	"slices"
	"sort"
	"sync"
	"sync/atomic"
)

// Lines maps addresses to source lines and inlined call stacks. Its methods may
// be called from several goroutines at once, until the image is closed.
//
// Go code is answered for by pclntab, which is there even in stripped programs,
// all other code by DWARF 2 to 5 of the image or of its debug file. Compilation
// units whose DWARF lies in yet another file, a .dwo or .dwp of split DWARF that is not there, have lines and no
// more, and places inside calls to inlined functions whose names do (dwz) are unknown.
//
// A compilation unit is read when it is first asked about.
type Lines struct {
	im    *Image
	goTab *goTable // nil if there is none
	goErr error    // why there is none, though it is a Go program
	fs    bool

	once sync.Once // of what follows
	read atomic.Bool
	tab  *dwarfTab // nil if there is none
	err  error     // why
}

// A lineCache keeps the result of Lines.
type lineCache struct {
	once sync.Once
	ln   *Lines
	err  error
}

// Lines reads the line tables and inlined calls of the image. The result is
// kept: later calls are free.
func (im *Image) Lines() (*Lines, error) {
	im.lines.once.Do(func() { im.lines.ln, im.lines.err = im.readLines() })
	return im.lines.ln, im.lines.err
}

func (im *Image) readLines() (*Lines, error) {
	ln := &Lines{im: im, fs: im.hasFSDiscriminators()}
	goTab, err := im.goTab()
	if err == nil {
		// The DWARF may be large, and only matters for code that is not Go's:
		// it waits until somebody asks about such code.
		ln.goTab = goTab
		return ln, nil
	}
	if !errors.Is(err, errNoPclntab) {
		ln.goErr = err
	}
	if ln.dwarf() == nil {
		return nil, fmt.Errorf("%s: %w", im.Path, cmp.Or(ln.goErr, ln.err))
	}
	return ln, nil
}

// dwarf returns the DWARF, nil if there is none.
func (ln *Lines) dwarf() *dwarfTab {
	ln.once.Do(func() {
		ln.tab, ln.err = ln.im.readDWARF()
		ln.read.Store(true)
	})
	return ln.tab
}

// Err reports what could not be read of the line tables so far; Frames knows
// nothing of the places concerned.
func (ln *Lines) Err() error {
	errs := []error{ln.goErr}
	if ln.read.Load() {
		if ln.err != nil && !errors.Is(ln.err, ErrNoLines) {
			errs = append(errs, ln.err)
		}
		if ln.tab != nil {
			errs = append(errs, ln.tab.failures()...)
		}
	}
	return errors.Join(errs...)
}

// Unread reports what could not be read of the debug information that was asked for.
func (im *Image) Unread() error {
	if im.lines.ln == nil {
		return im.lines.err
	}
	return im.lines.ln.Err()
}

// Frames returns the inlined call stack at a, innermost frame first; the last one
// is the procedure that holds the code. It is nil where nothing is known.
func (ln *Lines) Frames(a Addr) []Frame {
	if ln.goTab != nil {
		if i := ln.goTab.find(a); i >= 0 {
			var out []Frame
			for _, f := range ln.goTab.frames(i, a) {
				out = append(out, f.Frame)
			}
			return out
		}
	}
	t := ln.dwarf()
	if t == nil {
		return nil
	}
	return t.frames(a)
}

// Traceback returns the frames at a that Go's tracebacks show there: all but
// method wrappers and other functions that the compiler made up. Profiles made by
// a Go program of itself have these. It may be empty, and is what Frames
// returns where the code is not Go.
func (ln *Lines) Traceback(a Addr) []Frame {
	if ln.goTab == nil || ln.goTab.find(a) < 0 {
		return ln.Frames(a)
	}
	var out []Frame
	callee := ""
	for _, f := range ln.goTab.frames(ln.goTab.find(a), a) {
		// A wrapper that panics, rather than call what it wraps, is shown
		// (runtime.elideWrapperCalling).
		panics := callee == "runtime.gopanic" || callee == "runtime.sigpanic" || callee == "runtime.panicwrap"
		if callee = f.Func; !f.wrapper || panics {
			out = append(out, f.Frame)
		}
	}
	return out
}

// Unit returns the compilation unit of a; the zero Unit where nothing is known.
// What pclntab answers for has the source file of the function as the unit's name.
func (ln *Lines) Unit(a Addr) Unit {
	if ln.goTab != nil {
		if i := ln.goTab.find(a); i >= 0 {
			return ln.goTab.unit(i)
		}
	}
	if t := ln.dwarf(); t != nil {
		if u := t.unit(a); u != nil {
			if u.split != nil {
				t.lockedCodeOf(u) // which reads what the unit is from its own file
			}
			return u.Unit
		}
	}
	return Unit{}
}

// Piece returns the code around a that a compilation unit has in one piece, by
// DWARF's ranges of the unit. Compilers give each section of an object file a range
// of its own: functions that share a piece shared a section, which is what linkers
// move. It is not ok where nothing is known.
func (ln *Lines) Piece(a Addr) (lo, hi Addr, ok bool) {
	t := ln.dwarf()
	if t == nil {
		return 0, 0, false
	}
	i, found := slices.BinarySearchFunc(t.ranges, a, func(x interval, a Addr) int { return cmp.Compare(x.lo, a) })
	if !found {
		i--
	}
	if i < 0 || a >= t.ranges[i].hi {
		return 0, 0, false
	}
	return t.ranges[i].lo, t.ranges[i].hi, true
}

// FSDiscriminators reports whether discriminators are clang's flow-sensitive ones,
// whose low 8 bits are the base (-enable-fs-discriminator).
func (ln *Lines) FSDiscriminators() bool { return ln.fs }

// hasFSDiscriminators looks for the variable by which clang marks the images
// that have them, as llvm-profgen does.
func (im *Image) hasFSDiscriminators() bool {
	for _, f := range []*elf.File{im.elf, im.debug} {
		if f == nil || f.Section(".strtab") == nil {
			continue
		}
		b, err := im.sectionData(f.Section(".strtab"))
		if err == nil && bytes.Contains(b, []byte("\x00__llvm_fs_discriminator__\x00")) {
			return true
		}
	}
	return false
}

// An interval is a range of addresses that belongs to something.
type interval struct {
	lo, hi Addr
	id     int32
}

// A piece is an interval that goes on to the start of the next piece.
type piece struct {
	lo Addr
	id int32 // -1 if it belongs to nothing
}

// flatten makes pieces of intervals that may overlap: an address belongs to the
// greatest id of the intervals around it.
func flatten(in []interval) []piece {
	slices.SortFunc(in, func(a, b interval) int { return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(a.id, b.id)) })
	var out []piece
	var open intervalHeap // those that started, greatest id first
	// emit adds pieces for the open intervals up to address end.
	emit := func(at, end Addr) {
		for at < end {
			for len(open) > 0 && open[0].hi <= at {
				open.pop()
			}
			id, next := int32(-1), end
			if len(open) > 0 {
				id, next = open[0].id, min(end, open[0].hi)
			}
			if len(out) == 0 || out[len(out)-1].id != id {
				out = append(out, piece{at, id})
			}
			if at = next; id < 0 {
				return
			}
		}
	}
	for i, v := range in {
		if i > 0 {
			emit(in[i-1].lo, v.lo)
		}
		open.push(v)
	}
	if len(in) > 0 {
		emit(in[len(in)-1].lo, ^Addr(0))
	}
	return out
}

// pieceAt returns the id at a, -1 if a belongs to nothing.
func pieceAt(pieces []piece, a Addr) int32 {
	i := sort.Search(len(pieces), func(i int) bool { return pieces[i].lo > a })
	if i == 0 {
		return -1
	}
	return pieces[i-1].id
}

// An intervalHeap has the greatest id first.
type intervalHeap []interval

func (h *intervalHeap) push(v interval) {
	s := append(*h, v)
	for i := len(s) - 1; i > 0 && s[(i-1)/2].id < s[i].id; i = (i - 1) / 2 {
		s[i], s[(i-1)/2] = s[(i-1)/2], s[i]
	}
	*h = s
}

func (h *intervalHeap) pop() {
	s := *h
	n := len(s) - 1
	s[0] = s[n]
	s = s[:n]
	for i := 0; ; {
		big := i
		for c := 2*i + 1; c <= 2*i+2 && c < n; c++ {
			if s[c].id > s[big].id {
				big = c
			}
		}
		if big == i {
			break
		}
		s[i], s[big] = s[big], s[i]
		i = big
	}
	*h = s
}
