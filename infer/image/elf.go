package image

import (
	"cmp"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"backfeed/sample"
	"backfeed/sample/bound"
)

// An Image is an open ELF file. Its methods may be called from several
// goroutines at once.
type Image struct {
	Path  string
	Build sample.BuildID // of the GNU build ID note; zero if there is none
	Arch  Arch
	Go    string // Go version that linked it, "go1.26.8"; "" if it is not a Go program

	file      io.ReaderAt
	elf       *elf.File
	debug     *elf.File   // the separate debug file; nil if there is none
	debugFile *os.File    // of debug
	root      string      // of the image's own machine, as in Options
	kernel    *kernelCode // nil of all that is no kernel
	shift     Addr        // from where a kernel's code ran to where its debug file has it linked
	openFile  func(path string) (*os.File, error)
	close     []io.Closer
	bound     *bound.Input // of what the file and the debug file may take of memory

	segments []*segment // loaded ones, by address
	regions  []region   // what holds code, by address; they do not overlap
	symbols  []Symbol
	starts   []Addr // of symbols: what Find searches
	exports  []Addr // of dynamic symbols that others can link with

	frames    []frame // of .eh_frame, by address
	stubSlots []stub  // of the procedure linkage table, by address

	data    []extent // data inside code, by address, where the symbol table marks it
	objects []object // named data, by address

	names  func() map[string]int
	goTab  func() (*goTable, error)
	probes func() ([]Probe, error)
	unwind func() []unwindEntry
	relocs func() *relocations
	lines  lineCache
	flow   flowCache
}

// Options say where Open may look for more than the file itself.
type Options struct {
	Root      string   // directory that the image's own machine called "/" (perf's --symfs); "" is "/"
	DebugDirs []string // where separate debug files lie; nil is usr/lib/debug below Root
	Debug     []string // files that may be the image's separate debug file, tried first

	// Kernel says that it is Linux or one of its modules, of which samples have offsets from where its
	// text starts, as the kernel has no file.
	Kernel bool

	// OpenFile opens a separate debug file other than those of Debug to read it; nil is
	// sample.OpenRegular.
	OpenFile func(path string) (*os.File, error)
}

// Open reads the headers and symbols of the ELF file at path.
func Open(path string, opt Options) (*Image, error) {
	h, err := OpenHeaders(path, opt)
	if err != nil {
		return nil, err
	}
	return h.Open()
}

// OpenFile reads the headers and symbols of an ELF file that is open, and stays so
// until the image is closed.
func OpenFile(f *os.File, opt Options) (*Image, error) {
	return opened(f, func(im *Image, size int64) error { return im.open(size, opt) })
}

// Headers are those of an ELF file, and which separate debug file it has. They say what Open makes known of the code, and of which
// build, before all of it is decoded to find procedures, as it is where there are no symbols.
type Headers struct {
	im   *Image
	size int64
	opt  Options
}

// OpenHeaders opens the ELF file at path, until Open has made an Image of it or Close is called.
func OpenHeaders(path string, opt Options) (*Headers, error) {
	f, err := sample.OpenRegular(path)
	if errors.Is(err, sample.ErrNotRegular) {
		err = fmt.Errorf("%w: %w", err, ErrUnsupported)
	}
	if err != nil {
		return nil, err
	}
	h := &Headers{opt: opt}
	h.im, err = opened(f, func(im *Image, size int64) error {
		h.size = size
		return im.openHeaders(opt)
	})
	if err != nil {
		f.Close()
		return nil, err
	}
	h.im.close = append(h.im.close, f)
	return h, nil
}

// Build returns the build ID of the file; 0 if it has none.
func (h *Headers) Build() sample.BuildID { return h.im.Build }

// Describes is that of the image.
func (h *Headers) Describes() Description { return h.im.Describes() }

// Close closes the file, and is for what Open is not called of.
func (h *Headers) Close() error { return h.im.Close() }

// Open reads the symbols.
func (h *Headers) Open() (*Image, error) {
	if err := h.im.readCode(h.size, h.opt); err != nil {
		h.im.Close()
		return nil, fmt.Errorf("%s: %w", h.im.Path, err)
	}
	return h.im, nil
}

// DebugFile opens the separate debug file of an ELF file; nil if it has none, or needs
// none. It reads headers, and all of a debug file where only its CRC tells whose it is.
func DebugFile(f *os.File, opt Options) (*os.File, error) {
	im, err := opened(f, func(im *Image, _ int64) error { return im.openHeaders(opt) })
	if err != nil {
		return nil, err
	}
	return im.debugFile, nil
}

// opened returns the image of a file after read, which gets its size.
func opened(f *os.File, read func(im *Image, size int64) error) (*Image, error) {
	im := &Image{Path: f.Name(), file: f, bound: &bound.Input{}}
	st, err := f.Stat()
	switch {
	case err == nil && !st.Mode().IsRegular():
		err = fmt.Errorf("not a regular file: %w", ErrUnsupported)
	case err == nil:
		im.bound.Grow(st.Size())
		err = read(im, st.Size())
	}
	if err != nil {
		im.Close()
		return nil, fmt.Errorf("%s: %w", im.Path, err)
	}
	return im, nil
}

// KeepsRelocations reports whether the linker left the relocations of code in the file
// (--emit-relocs), beside those that are applied where it is loaded.
func (im *Image) KeepsRelocations() bool {
	if im.elf == nil {
		return false
	}
	return slices.ContainsFunc(im.elf.Sections, func(s *elf.Section) bool {
		return (s.Type == elf.SHT_RELA || s.Type == elf.SHT_REL) && s.Flags&elf.SHF_ALLOC == 0 &&
			int(s.Info) < len(im.elf.Sections) && im.elf.Sections[s.Info].Flags&elf.SHF_EXECINSTR != 0
	})
}

// KeepsSymbols reports whether the file itself has a symbol table: that of a stripped one is in its debug file, if anywhere.
func (im *Image) KeepsSymbols() bool {
	return im.elf != nil && slices.ContainsFunc(im.elf.Sections, func(s *elf.Section) bool { return s.Type == elf.SHT_SYMTAB })
}

func (im *Image) readHeaders() (err error) {
	if im.Arch, err = checkHeader(im.file, elf.ET_EXEC, elf.ET_DYN); err != nil {
		return err
	}
	if im.elf, err = newFile(im.file, im.bound); err != nil {
		return err
	}
	im.Build, err = buildID(im.file)
	return err
}

// openHeaders reads headers, and finds the separate debug file.
func (im *Image) openHeaders(opt Options) error {
	if err := im.readHeaders(); err != nil {
		return err
	}
	im.root, im.openFile = opt.Root, opt.OpenFile
	im.openDebug(opt)
	return nil
}

// open reads headers and symbols; all else is read when it is asked for.
func (im *Image) open(size int64, opt Options) error {
	if err := im.openHeaders(opt); err != nil {
		return err
	}
	return im.readCode(size, opt)
}

// readCode reads symbols, and finds procedures where there are none, after openHeaders.
func (im *Image) readCode(size int64, opt Options) error {
	if err := im.load(size); err != nil {
		return err
	}
	im.Go = im.goVersion()
	im.names = sync.OnceValue(im.indexNames)
	im.relocs = sync.OnceValue(im.readRelocs)
	im.goTab = sync.OnceValues(im.readGoTable)
	im.probes = sync.OnceValues(im.readProbes)
	im.unwind = sync.OnceValue(func() []unwindEntry {
		entries, _ := im.readUnwind() // readSymbols tells of what is malformed
		return entries
	})
	if !opt.Kernel {
		return im.readSymbols()
	}
	if err := im.openKernel(); err != nil {
		return err
	}
	return cmp.Or(im.readSymbols(), im.readKernelTables())
}

// Close releases the file. Procs and Frames taken from the image stay valid.
func (im *Image) Close() error {
	var first error
	for _, c := range im.close {
		if err := c.Close(); err != nil && first == nil {
			first = err
		}
	}
	return first
}

// Fields of the ELF header, of the ELF specification's Elf64_Ehdr.
const (
	headerSize    = 64
	offsetClass   = 4
	offsetData    = 5
	offsetType    = 16
	offsetMachine = 18
)

// checkHeader refuses what is not an ELF64 executable or shared library of a
// known processor, before debug/elf reads any more of it.
func checkHeader(r io.ReaderAt, types ...elf.Type) (Arch, error) {
	h := make([]byte, headerSize)
	n, err := r.ReadAt(h, 0)
	if err != nil && err != io.EOF {
		return 0, err
	}
	if n < 4 || string(h[:4]) != elf.ELFMAG {
		return 0, fmt.Errorf("offset 0: magic: not an ELF file: %w", ErrFormat)
	}
	if n < headerSize {
		return 0, fmt.Errorf("offset %#x: header: file ends: %w", n, ErrFormat)
	}
	if c := elf.Class(h[offsetClass]); c != elf.ELFCLASS64 {
		return 0, fmt.Errorf("offset %#x: class: %v: %w", offsetClass, c, ErrUnsupported)
	}
	if d := elf.Data(h[offsetData]); d != elf.ELFDATA2LSB {
		return 0, fmt.Errorf("offset %#x: byte order: %v: %w", offsetData, d, ErrUnsupported)
	}
	if t := elf.Type(binary.LittleEndian.Uint16(h[offsetType:])); !slices.Contains(types, t) {
		return 0, fmt.Errorf("offset %#x: type: %v, not linked: %w", offsetType, t, ErrUnsupported)
	}
	switch m := elf.Machine(binary.LittleEndian.Uint16(h[offsetMachine:])); m {
	case elf.EM_X86_64:
		return X86_64, nil
	case elf.EM_AARCH64:
		return AArch64, nil
	default:
		return 0, fmt.Errorf("offset %#x: machine: %v: %w", offsetMachine, m, ErrUnsupported)
	}
}

// caught makes an error of a panic in what. debug/elf promises no more than
// basic checks, and a file that nobody vouches for must not end the program.
func caught(err *error, what string) {
	if recover() != nil { // its text is of Go's own checks
		*err = fmt.Errorf("%s: inconsistent: %w", what, ErrFormat)
	}
}

// newFile reads the headers of segments and sections.
func newFile(r io.ReaderAt, in *bound.Input) (f *elf.File, err error) {
	defer caught(&err, "section headers")
	if err := checkSections(r, in); err != nil {
		return nil, fmt.Errorf("section headers: %w", err)
	}
	if f, err = elf.NewFile(r); err != nil {
		return nil, fmt.Errorf("section headers: %v: %w", err, ErrFormat)
	}
	return f, nil
}

// A segment is a loaded part of the file. Its bytes are read when they are asked
// for, a chunk at a time, so that a large image costs what is looked at, and the last ones are kept.
type segment struct {
	lo, hi Addr // bytes that the file has; what follows in memory is zero
	off    sample.Offset
	exec   bool
	file   io.ReaderAt
	chunks []atomic.Pointer[[]byte]

	mu   sync.Mutex
	kept []int // chunks that are in memory, up to keptChunks of them
	next int   // of kept: the one that was read first, when there are so many
}

// Of a segment, 32 MB are kept: most have no more. Those of chromium have 290, of which a pass over all procedures looks at each
// but once.
const (
	chunkSize  = 1 << 18
	keptChunks = 128
)

func newSegment(file io.ReaderAt, lo Addr, size uint64, off sample.Offset, exec bool) *segment {
	return &segment{lo: lo, hi: lo + Addr(size), off: off, exec: exec, file: file, chunks: make([]atomic.Pointer[[]byte], (size+chunkSize-1)/chunkSize)}
}

// chunk returns the i-th chunk, or nil if the file cannot be read. Two goroutines
// may both read it: they read the same.
func (s *segment) chunk(i int) []byte {
	if b := s.chunks[i].Load(); b != nil {
		return *b
	}
	start := uint64(i) * chunkSize
	b := make([]byte, min(chunkSize, uint64(s.hi-s.lo)-start))
	if _, err := s.file.ReadAt(b, int64(uint64(s.off)+start)); err != nil {
		return nil
	}
	s.chunks[i].Store(&b)
	s.keep(i)
	return b
}

// keep lets the chunk go that was read first, where there are too many with chunk i. Who still has its bytes keeps them.
func (s *segment) keep(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.kept) < keptChunks {
		s.kept = append(s.kept, i)
		return
	}
	s.chunks[s.kept[s.next]].Store(nil)
	s.kept[s.next] = i
	s.next = (s.next + 1) % keptChunks
}

// bytes returns the n bytes at a, which the caller knows to be inside.
func (s *segment) bytes(a Addr, n int) []byte {
	at := uint64(a - s.lo)
	i, skip := int(at/chunkSize), int(at%chunkSize)
	if c := s.chunk(i); c != nil && skip+n <= len(c) {
		return c[skip : skip+n : skip+n]
	}
	b := make([]byte, 0, n)
	for ; len(b) < n; i, skip = i+1, 0 {
		c := s.chunk(i)
		if c == nil {
			return nil
		}
		b = append(b, c[skip:min(len(c), skip+n-len(b))]...)
	}
	return b
}

// A region is a stretch of code: a section or, in a file without section
// headers, a segment.
type region struct {
	lo, hi Addr
	name   string
}

// load checks the segments against the size of the file and finds the code.
func (im *Image) load(size int64) error {
	const maxSegments = 1024 // linkers make a dozen
	for i, p := range im.elf.Progs {
		if p.Type != elf.PT_LOAD || p.Filesz == 0 {
			continue
		}
		if len(im.segments) == maxSegments {
			return fmt.Errorf("segment %d: more than %d are loaded: %w", i, maxSegments, ErrFormat)
		}
		if p.Off > uint64(size) || p.Filesz > uint64(size)-p.Off {
			return fmt.Errorf("offset %#x: segment %d: %#x bytes, file ends at %#x: %w", p.Off, i, p.Filesz, size, ErrFormat)
		}
		if p.Vaddr+p.Filesz < p.Vaddr {
			return fmt.Errorf("offset %#x: segment %d: address %#x wraps: %w", p.Off, i, p.Vaddr, ErrFormat)
		}
		im.segments = append(im.segments, newSegment(im.file, Addr(p.Vaddr), p.Filesz, sample.Offset(p.Off), p.Flags&elf.PF_X != 0))
	}
	slices.SortStableFunc(im.segments, func(a, b *segment) int { return cmp.Compare(a.lo, b.lo) })
	for i := 1; i < len(im.segments); i++ {
		if a, b := im.segments[i-1], im.segments[i]; b.lo < a.hi {
			return fmt.Errorf("offset %#x: segment at %#x: overlaps the one at %#x: %w", b.off, b.lo, a.lo, ErrFormat)
		}
	}
	im.findCode()
	if len(im.regions) == 0 {
		return fmt.Errorf("no code, a separate debug file perhaps: %w", ErrUnsupported)
	}
	return nil
}

// findCode finds the sections that hold code and whose bytes the file has.
func (im *Image) findCode() {
	for _, s := range im.elf.Sections {
		if s.Flags&elf.SHF_EXECINSTR == 0 || s.Type == elf.SHT_NOBITS || s.Size == 0 {
			continue
		}
		lo := Addr(s.Addr)
		if seg := im.segment(lo); seg != nil && seg.exec && s.Size <= uint64(seg.hi-lo) {
			im.regions = append(im.regions, region{lo, lo + Addr(s.Size), s.Name})
		}
	}
	if len(im.elf.Sections) == 0 {
		for _, s := range im.segments {
			if s.exec {
				im.regions = append(im.regions, region{s.lo, s.hi, ""})
			}
		}
	}
	slices.SortFunc(im.regions, func(a, b region) int {
		return cmp.Or(cmp.Compare(a.lo, b.lo), cmp.Compare(a.hi, b.hi), strings.Compare(a.name, b.name))
	})
	// Sections that overlap are a lie of the headers: the first one keeps the bytes.
	kept := im.regions[:0]
	for _, r := range im.regions {
		if len(kept) == 0 || r.lo >= kept[len(kept)-1].hi {
			kept = append(kept, r)
		}
	}
	im.regions = kept
}

// segment returns the segment whose file bytes contain a, or nil.
func (im *Image) segment(a Addr) *segment {
	for _, s := range im.segments {
		if s.lo <= a && a < s.hi {
			return s
		}
	}
	return nil
}

// region returns the code that contains a, or nil.
func (im *Image) region(a Addr) *region {
	i, ok := slices.BinarySearchFunc(im.regions, a, func(r region, a Addr) int { return cmp.Compare(r.lo, a) })
	if !ok {
		i--
	}
	if i < 0 || a >= im.regions[i].hi {
		return nil
	}
	return &im.regions[i]
}

// executable reports whether there is code at a.
func (im *Image) executable(a Addr) bool { return im.region(a) != nil }

// code returns the bytes of [lo, hi), or nil if they are not all code. Do not
// change them: they are shared.
func (im *Image) code(lo, hi Addr) []byte {
	r := im.region(lo)
	if r == nil || hi < lo || hi > r.hi {
		return nil
	}
	return im.read(lo, int(hi-lo))
}

// read returns the n bytes that the file has for address a, or nil if it does not
// have them all. Do not change them: they are shared.
func (im *Image) read(a Addr, n int) []byte {
	s := im.segment(a)
	if s == nil || n < 0 || uint64(n) > uint64(s.hi-a) {
		return nil
	}
	return s.bytes(a, n)
}

// section returns a section by its name, of the file itself or of its debug
// file; nil if neither has its bytes.
func (im *Image) section(name string) *elf.Section {
	for _, f := range []*elf.File{im.elf, im.debug} {
		if f == nil {
			continue
		}
		if s := f.Section(name); s != nil && s.Type != elf.SHT_NOBITS {
			return s
		}
	}
	return nil
}

// Data returns the bounds of the section that holds the data at a; it is not ok where there is none.
func (im *Image) Data(a Addr) (lo, hi Addr, ok bool) {
	for _, s := range im.elf.Sections {
		if s.Flags&elf.SHF_ALLOC != 0 && s.Flags&(elf.SHF_EXECINSTR|elf.SHF_TLS) == 0 && uint64(a) >= s.Addr && uint64(a)-s.Addr < s.Size {
			return Addr(s.Addr), Addr(s.Addr) + Addr(s.Size), true
		}
	}
	return 0, 0, false
}

// AddrOf returns the address at which the byte at file offset off was linked, if
// it is loaded at all. It and OffsetOf are the only places where the two meet.
func (im *Image) AddrOf(off sample.Offset) (Addr, bool) {
	var a Addr
	found := false
	if k := im.kernel; k != nil {
		a = k.base + Addr(off)
		return a, a >= k.base && im.segment(a) != nil
	}
	for _, s := range im.segments {
		// Where segments share bytes of the file, samples are of the code.
		if off >= s.off && uint64(off-s.off) < uint64(s.hi-s.lo) && (!found || s.exec) {
			a, found = s.lo+Addr(off-s.off), true
		}
	}
	return a, found
}

// A CodeSegment is a loaded part of the file that may be executed.
type CodeSegment struct {
	Addr Addr
	Size uint64 // bytes that the file has
	Off  sample.Offset
}

// CodeSegments returns them by address.
func (im *Image) CodeSegments() (all []CodeSegment) {
	for _, s := range im.segments {
		if off, ok := im.OffsetOf(s.lo); ok && s.exec {
			all = append(all, CodeSegment{s.lo, uint64(s.hi - s.lo), off})
		}
	}
	return all
}

// Fixed reports whether the image runs at the addresses that it was linked for, and at no others.
func (im *Image) Fixed() bool { return im.elf.Type == elf.ET_EXEC }

// OffsetOf is the inverse of AddrOf.
func (im *Image) OffsetOf(a Addr) (sample.Offset, bool) {
	s := im.segment(a)
	if s == nil {
		return 0, false
	}
	if k := im.kernel; k != nil {
		return sample.Offset(a - k.base), a >= k.base
	}
	return s.off + sample.Offset(a-s.lo), true
}

// Symbols are the procedures of the image by increasing address. Their ranges do
// not overlap. The slice is shared: do not change it.
func (im *Image) Symbols() []Symbol { return im.symbols }

func (im *Image) setSymbols(symbols []Symbol) {
	im.symbols = symbols
	im.starts = make([]Addr, len(symbols))
	for i := range symbols {
		im.starts[i] = symbols[i].Addr
	}
}

// Find returns the index of the symbol whose range contains a, or -1.
func (im *Image) Find(a Addr) int {
	i, ok := slices.BinarySearch(im.starts, a)
	if !ok {
		i--
	}
	if i < 0 || uint64(a-im.symbols[i].Addr) >= im.symbols[i].Size {
		return -1
	}
	return i
}

// Lookup returns the index of the symbol called name (or with that alias), or -1.
// Of several local ones it returns the first in address order.
func (im *Image) Lookup(name string) int {
	if i, ok := im.names()[name]; ok {
		return i
	}
	return -1
}

func (im *Image) indexNames() map[string]int {
	m := make(map[string]int, len(im.symbols))
	for i := range im.symbols {
		if old, ok := m[im.symbols[i].Name]; !ok || im.symbols[old].Local && !im.symbols[i].Local {
			m[im.symbols[i].Name] = i
		}
	}
	for i := range im.symbols {
		for _, alias := range im.symbols[i].Aliases {
			if _, ok := m[alias]; !ok {
				m[alias] = i
			}
		}
	}
	return m
}
