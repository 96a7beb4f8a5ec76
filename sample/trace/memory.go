package trace

import (
	"encoding/binary"
	"math/bits"
)

// Memory is that of a thread, as it is now.
type Memory interface {
	// Read fills p with what is at addr; false if it cannot. It is asked for whole pages.
	Read(addr uint64, p []byte) bool
}

// A page is one of the thread's memory as a walk found it, with what the walk would have written since.
type page struct {
	data    [pageSize]byte
	unknown *[pageSize / 64]uint64 // bit by byte; nil: all of them are known
}

// A near is a page by the low bits of its number.
type near struct {
	at uint64 // its number and 1
	p  *page
}

// nears is how many pages are found at once. A page is read in 500 ns and found in the table in 20.
const nears = 128

// A memory is what a walk has read and would have written.
type memory struct {
	from  Memory
	near  [nears]near
	table map[uint64]*page // by number
	pages []*page          // of table, then those of walks before
	used  int              // of pages
	most  int
	full  bool // there was no room for one more

	kept *accesses   // of the walk; nil: they are not kept
	slow [nears]near // in place of near where they are: what is found there is not noted
}

// begin forgets what was read.
func (m *memory) begin(from Memory, most int) {
	m.from, m.most, m.used, m.full = from, most, 0, false
	m.near, m.slow = [nears]near{}, [nears]near{}
	if m.table == nil {
		m.table = map[uint64]*page{}
	}
	clear(m.table)
}

// page returns the page with a number; nil if there is no room for it.
func (m *memory) page(n uint64) *page {
	e := &m.near[n%nears]
	if m.kept != nil {
		e = &m.slow[n%nears]
	}
	if e.at == n+1 {
		return e.p
	}
	p := m.table[n]
	if p == nil {
		if p = m.read(n); p == nil {
			m.full = true
			return nil
		}
	}
	*e = near{n + 1, p}
	return p
}

// read reads a page. Of what cannot be read nothing is known until it is written.
func (m *memory) read(n uint64) *page {
	if m.used >= m.most {
		return nil
	}
	if m.used == len(m.pages) {
		m.pages = append(m.pages, new(page))
	}
	p := m.pages[m.used]
	m.used++
	m.table[n] = p
	p.unknown = nil
	if !m.from.Read(n*pageSize, p.data[:]) {
		p.forget(0, pageSize)
	}
	return p
}

// forget makes bytes unknown.
func (p *page) forget(from, n uint64) {
	if p.unknown == nil {
		p.unknown = new([pageSize / 64]uint64)
	}
	for i := from; i < from+n; i++ {
		p.unknown[i/64%uint64(len(p.unknown))] |= 1 << (i % 64)
	}
}

// learn makes bytes known.
func (p *page) learn(from, n uint64) {
	if p.unknown == nil {
		return
	}
	for i := from; i < from+n; i++ {
		p.unknown[i/64%uint64(len(p.unknown))] &^= 1 << (i % 64)
	}
}

// knows reports whether all of n bytes are known.
func (p *page) knows(from, n uint64) bool {
	if p.unknown == nil {
		return true
	}
	for i := from; i < from+n; i++ {
		if p.unknown[i/64%uint64(len(p.unknown))]>>(i%64)&1 != 0 {
			return false
		}
	}
	return true
}

// ones returns the bits of so many bytes, at most 8.
func ones(size uint8) uint64 { return ^uint64(0) >> ((64 - 8*uint(size)) & 63) }

// fetch returns size bytes of memory, at most 8, and whether all are known.
func (m *memory) fetch(addr uint64, size uint8) (uint64, bool) {
	off := addr % pageSize
	e := &m.near[addr/pageSize%nears]
	if e.at == addr/pageSize+1 && off <= pageSize-8 && e.p.unknown == nil {
		return binary.LittleEndian.Uint64(e.p.data[off:off+8]) & ones(size), true
	}
	return m.fetchSlow(addr, size)
}

func (m *memory) fetchSlow(addr uint64, size uint8) (uint64, bool) {
	if m.kept != nil {
		m.kept.note(addr, size, false)
	}
	return m.fetchParts(addr, size)
}

func (m *memory) fetchParts(addr uint64, size uint8) (uint64, bool) {
	off := addr % pageSize
	if off+uint64(size) > pageSize {
		here := uint8(pageSize - off)
		low, known := m.fetchParts(addr, here)
		high, also := m.fetchParts(addr+uint64(here), size-here)
		return low | high<<(8*here), known && also
	}
	p := m.page(addr / pageSize)
	if p == nil {
		return 0, false
	}
	var b [8]byte
	copy(b[:], p.data[off:off+uint64(size)])
	return binary.LittleEndian.Uint64(b[:]), p.knows(off, uint64(size))
}

// store keeps what would be stored; false if there is no room for it.
func (m *memory) store(addr uint64, size uint8, v uint64, known bool) bool {
	off := addr % pageSize
	e := &m.near[addr/pageSize%nears]
	if e.at == addr/pageSize+1 && off <= pageSize-8 && e.p.unknown == nil && known {
		to := e.p.data[off : off+8]
		switch size {
		case 8:
			binary.LittleEndian.PutUint64(to, v)
		case 4:
			binary.LittleEndian.PutUint32(to, uint32(v))
		case 2:
			binary.LittleEndian.PutUint16(to, uint16(v))
		case 1:
			to[0] = byte(v)
		default:
			return m.storeSlow(addr, size, v, known)
		}
		return true
	}
	return m.storeSlow(addr, size, v, known)
}

func (m *memory) storeSlow(addr uint64, size uint8, v uint64, known bool) bool {
	if m.kept != nil {
		m.kept.note(addr, size, true)
	}
	return m.storeParts(addr, size, v, known)
}

func (m *memory) storeParts(addr uint64, size uint8, v uint64, known bool) bool {
	off := addr % pageSize
	if off+uint64(size) > pageSize {
		here := uint8(pageSize - off)
		return m.storeParts(addr, here, v, known) && m.storeParts(addr+uint64(here), size-here, v>>(8*here), known)
	}
	p := m.page(addr / pageSize)
	if p == nil {
		return false
	}
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], v)
	copy(p.data[off:], b[:size])
	if known {
		p.learn(off, uint64(size))
	} else {
		p.forget(off, uint64(size))
	}
	return true
}

// extend returns the low bytes of v with the sign that they have.
func extend(v uint64, size uint8) int64 {
	shift := (64 - 8*uint(size)) & 63
	return int64(v<<shift) >> shift
}

// swap returns the low bytes of v in reverse.
func swap(v uint64, size uint8) uint64 {
	return bits.ReverseBytes64(v) >> ((64 - 8*uint(size)) & 63)
}
