package image

import (
	"bytes"
	"cmp"
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"backfeed/sample"
	"backfeed/sample/bound"
)

// ReadBuildID reads the GNU build ID of the ELF file at path, of any class and
// byte order, and nothing else of it. It is zero if the file has none.
func ReadBuildID(path string) (sample.BuildID, error) {
	f, err := sample.OpenRegular(path)
	if err != nil {
		return sample.BuildID{}, err
	}
	defer f.Close()
	id, err := buildID(f)
	if err != nil {
		return sample.BuildID{}, fmt.Errorf("%s: %w", path, err)
	}
	return id, nil
}

// buildID reads the build ID of an ELF file; an error that blames its bytes wraps
// ErrFormat.
func buildID(r io.ReaderAt) (sample.BuildID, error) {
	e, err := sample.ReadELF(r)
	if errors.Is(err, sample.ErrELF) {
		err = fmt.Errorf("%w: %w", err, ErrFormat)
	}
	if err != nil {
		return sample.BuildID{}, err
	}
	return e.Build, nil
}

// Detail is how much a file tells of the code of its build. Files of one build ID differ: a kernel's build leaves vmlinux
// and, without symbols, what it compresses.
type Detail int

// Each has what those before have, too.
const (
	NoCode Detail = iota // no ELF file, or a debug file
	CodeAlone
	WithSymbols // of functions that no other image sees
	WithLines   // DWARF
)

// DetailOf reads the headers of the file at path.
func DetailOf(path string) Detail {
	f, err := sample.OpenRegular(path)
	if err != nil {
		return NoCode
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return NoCode
	}
	if _, err := checkHeader(f, elf.ET_EXEC, elf.ET_DYN); err != nil {
		return NoCode
	}
	ef, err := newFile(f, bound.Sized(st.Size()))
	switch {
	case err != nil || !hasCode(ef):
		return NoCode
	case !hasSymtab(ef):
		return CodeAlone
	case !hasDWARF(ef):
		return WithSymbols
	}
	return WithLines
}

// hasCode reports whether the file has the bytes of code: those of debug files have their place in memory only.
func hasCode(f *elf.File) bool {
	for _, s := range f.Sections {
		if s.Flags&elf.SHF_EXECINSTR != 0 && s.Type != elf.SHT_NOBITS && s.Size > 0 {
			return true
		}
	}
	if len(f.Sections) > 0 {
		return false
	}
	return slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_LOAD && p.Flags&elf.PF_X != 0 && p.Filesz > 0 })
}

// goVersion returns the version of Go that linked the image.
func (im *Image) goVersion() string {
	if im.elf.Section(".go.buildinfo") == nil {
		return "" // without the section, buildinfo would search all data
	}
	bi, err := buildinfo.Read(im.file)
	if err != nil {
		return ""
	}
	version, _, _ := strings.Cut(bi.GoVersion, " ") // "go1.26.8 X:nodwarf5" has experiments
	return version
}

// GoModules returns the paths of the modules that a Go program was built of, its own
// first; none if it does not say, or is not a Go program.
func (im *Image) GoModules() []string {
	bi := im.buildInfo()
	if bi == nil || bi.Main.Path == "" {
		return nil
	}
	modules := []string{bi.Main.Path}
	for _, m := range bi.Deps {
		modules = append(modules, m.Path)
	}
	return modules
}

// GoMain returns the import path of the main package of a Go program, "" if it does not
// say, or is not one. Its functions have the package main in their names.
func (im *Image) GoMain() string {
	if bi := im.buildInfo(); bi != nil {
		return bi.Path
	}
	return ""
}

// GoProfiled reports whether a Go program was built with a profile (-pgo).
func (im *Image) GoProfiled() bool {
	bi := im.buildInfo()
	return bi != nil && slices.ContainsFunc(bi.Settings, func(s debug.BuildSetting) bool { return s.Key == "-pgo" && s.Value != "" })
}

// Bolted reports whether llvm-bolt has rewritten the image, by the note that it leaves (BinaryFunction.h and
// RewriteInstance.cpp of LLVM: ".note.bolt_info").
func (im *Image) Bolted() bool { return im.elf.Section(".note.bolt_info") != nil }

// buildInfo returns what a Go program says of its build; nil if it does not, or is not one.
func (im *Image) buildInfo() *debug.BuildInfo {
	if im.Go == "" {
		return nil
	}
	bi, err := buildinfo.Read(im.file)
	if err != nil {
		return nil
	}
	return bi
}

// openDebug looks for the separate debug file: what opt names, then by build ID, then
// by debug link, as gdb does. A file that is not this image's is passed over.
func (im *Image) openDebug(opt Options) {
	if hasSymtab(im.elf) && hasDWARF(im.elf) {
		return
	}
	for _, path := range opt.Debug {
		if im.tryDebug(sample.OpenRegular, path, 0) {
			return
		}
	}
	open := opt.OpenFile
	if open == nil {
		open = sample.OpenRegular
	}
	dirs := opt.DebugDirs
	if dirs == nil {
		dirs = []string{filepath.Join(opt.Root, "/usr/lib/debug")}
	}
	if !im.Build.IsZero() {
		id := im.Build.String()
		for _, dir := range dirs {
			if im.tryDebug(open, filepath.Join(dir, ".build-id", id[:2], id[2:]+".debug"), 0) {
				return
			}
		}
	}
	name, crc, ok := im.debugLink()
	if !ok {
		return
	}
	here := filepath.Dir(im.Path)
	candidates := []string{filepath.Join(here, name), filepath.Join(here, ".debug", name)}
	for _, dir := range dirs { // where somebody put them together, as for --symfs
		candidates = append(candidates, filepath.Join(dir, name))
	}
	// Debug directories mirror the tree: the image's directory as its own
	// machine named it, below Root.
	if inside, err := filepath.Rel(cmp.Or(opt.Root, "/"), here); err == nil && filepath.IsLocal(inside) {
		for _, dir := range dirs {
			candidates = append(candidates, filepath.Join(dir, inside, name))
		}
	}
	for _, c := range candidates {
		if im.tryDebug(open, c, crc) {
			return
		}
	}
}

// LacksDebug reports whether the image has no symbols or no DWARF, and no separate debug file was found.
func (im *Image) LacksDebug() bool { return im.Describes() < Whole }

// A Description is what a file, with its separate debug file, says of its code.
type Description int

const (
	Stripped Description = iota
	Named                // it has symbols
	Whole                // and DWARF
)

// Describes returns what the image says of its code.
func (im *Image) Describes() Description {
	switch {
	case im.debugFile != nil || hasSymtab(im.elf) && hasDWARF(im.elf):
		return Whole
	case hasSymtab(im.elf):
		return Named
	}
	return Stripped
}

func hasSymtab(f *elf.File) bool { return f.SectionByType(elf.SHT_SYMTAB) != nil }

func hasDWARF(f *elf.File) bool {
	return f.Section(".debug_info") != nil || f.Section(".zdebug_info") != nil
}

// debugLink reads .gnu_debuglink: the name of the debug file, zero-padded to a
// multiple of 4 bytes, and the CRC-32 of its bytes.
func (im *Image) debugLink() (name string, crc uint32, ok bool) {
	const maxLink = 4096 + 8 // PATH_MAX
	s := im.elf.Section(".gnu_debuglink")
	if s == nil || s.Size > maxLink {
		return "", 0, false
	}
	b, err := im.sectionData(s)
	if err != nil {
		return "", 0, false
	}
	n := bytes.IndexByte(b, 0)
	at := (n + 4) &^ 3
	// A link to another directory is none that a tool writes.
	if n <= 0 || at+4 > len(b) || strings.ContainsRune(string(b[:n]), '/') {
		return "", 0, false
	}
	return string(b[:n]), binary.LittleEndian.Uint32(b[at:]), true
}

// tryDebug takes the file at path for the debug file if it belongs to the
// image: its build ID is the same or, if neither has one, its CRC is that of
// the link.
func (im *Image) tryDebug(open func(string) (*os.File, error), path string, crc uint32) bool {
	f, err := open(path)
	if err != nil {
		return false
	}
	if ef := im.matchDebug(f, crc); ef != nil {
		im.debug, im.debugFile = ef, f
		im.close = append(im.close, f)
		return true
	}
	f.Close()
	return false
}

func (im *Image) matchDebug(f *os.File, crc uint32) *elf.File {
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil
	}
	if arch, err := checkHeader(f, elf.ET_EXEC, elf.ET_DYN); err != nil || arch != im.Arch {
		return nil
	}
	if id, err := buildID(f); err != nil || id != im.Build {
		return nil
	}
	in := bound.Sized(st.Size())
	ef, err := newFile(f, in)
	if err != nil || !hasSymtab(ef) && !hasDWARF(ef) {
		return nil
	}
	if im.Build.IsZero() {
		// Only then: a debug file can be gigabytes, and its build ID says more.
		h := crc32.NewIEEE()
		if _, err := io.Copy(h, f); err != nil || h.Sum32() != crc {
			return nil
		}
	}
	im.bound.Add(in)
	return ef
}
