package perfdata

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"backfeed/sample"
)

// BranchStacks are what perf would have recorded of processes on a machine with branch records.
type BranchStacks struct {
	CPU       sample.CPU
	Processes []StackProcess
}

// A StackProcess is a process, and the samples of it.
type StackProcess struct {
	PID     int
	Name    string // of the program; perf calls it the command
	Maps    []StackMapping
	Samples []StackSample
}

// A StackMapping is a stretch of the file of an image in the memory of a process: of whole pages.
type StackMapping struct {
	ID         sample.ImageID // with the path that readers find the file by
	Addr, Size uint64
	Off        sample.Offset
}

// A StackSample is one sample: the instruction after the last branch, return addresses from the innermost
// on, if they are known, and the branches before, last one first. No more than MaxBranches of these fit
// into a record.
type StackSample struct {
	IP       uint64
	Callers  []uint64
	Branches []StackBranch
}

// A StackBranch is one branch record.
type StackBranch struct{ From, To uint64 }

// MaxBranches is how many branches a sample may have. The size of a record has 16 bits; half of it
// leaves room for callers.
const MaxBranches = 1 << 15 / branchEntrySize

// event is what samples are said to be of.
const stackEvent = "walks"

// featureBranchStack is written and not read.
const featureBranchStack = 15

// Write writes a perf.data file, as little-endian machines have it. perf report, perf
// script, perf2bolt, llvm-profgen and create_llvm_prof take it for that of perf record -b.
func (s *BranchStacks) Write(w io.Writer) error {
	chains := s.callers()
	head := s.head(chains)
	size := 0
	for part := range s.records(chains) {
		size += len(part)
	}
	attrSize := len(head)
	at := fileHeaderSize
	var e fields
	e.B = append(e.B, "PERFILE2"...)
	e.u64(fileHeaderSize, uint64(attrSize+sectionSize))
	e.u64(uint64(at), uint64(attrSize+sectionSize)) // attrs
	at += attrSize + sectionSize
	e.u64(uint64(at), uint64(size)) // data
	at += size
	e.u64(0, 0) // event types
	bits, table := s.features(at)
	e.u64(bits, 0, 0, 0)
	e.B = append(e.B, head...)
	e.u64(0, 0) // no IDs: there is one event
	out := bufio.NewWriter(w)
	out.Write(e.B)
	for part := range s.records(chains) {
		out.Write(part)
	}
	out.Write(table)
	return out.Flush()
}

// callers reports whether a sample has any.
func (s *BranchStacks) callers() bool {
	return slices.ContainsFunc(s.Processes, func(p StackProcess) bool {
		return slices.ContainsFunc(p.Samples, func(x StackSample) bool { return len(x.Callers) > 0 })
	})
}

// fields are parts of a file.
type fields struct{ B []byte }

func (f *fields) u64(vs ...uint64) {
	for _, v := range vs {
		f.B = binary.LittleEndian.AppendUint64(f.B, v)
	}
}

func (f *fields) u32(vs ...uint32) {
	for _, v := range vs {
		f.B = binary.LittleEndian.AppendUint32(f.B, v)
	}
}

// string appends s, a zero, and zeros up to a multiple of unit.
func (f *fields) string(s string, unit int) {
	f.B = append(f.B, s...)
	f.B = append(f.B, make([]byte, unit-len(s)%unit)...)
}

// head returns the perf_event_attr, as attr describes it.
func (s *BranchStacks) head(chains bool) []byte {
	const size, user = 128, 1
	kinds := uint64(hasIP | hasTID | hasTime | hasBranches)
	if chains {
		kinds |= hasCallchain
	}
	var f fields
	f.u32(typeSoftware, size)
	f.u64(swCPUClock, 1, kinds, 0, 0, 0, 0, 0, user|branchAny)
	return append(f.B, make([]byte, size-len(f.B))...)
}

// recordOf returns a record of a type, misc and body.
func recordOf(typ recordType, misc uint16, body []byte) []byte {
	b := binary.LittleEndian.AppendUint32(make([]byte, 0, recordHeaderSize+len(body)), uint32(typ))
	b = binary.LittleEndian.AppendUint16(b, misc)
	b = binary.LittleEndian.AppendUint16(b, uint16(recordHeaderSize+len(body)))
	return append(b, body...)
}

// records returns all, in the order of their time.
func (s *BranchStacks) records(chains bool) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for _, p := range s.Processes {
			pid := uint32(p.PID)
			var f fields
			f.u32(pid, pid)
			f.string(p.Name, 8)
			if !yield(recordOf(recordComm, miscExec, f.B)) {
				return
			}
			for _, m := range p.Maps {
				if !yield(recordOf(recordMmap2, modeUser, m.body(pid))) {
					return
				}
			}
		}
		time := uint64(0)
		for _, p := range s.Processes {
			for i := range p.Samples {
				time++
				if !yield(recordOf(recordSample, modeUser, p.Samples[i].body(uint32(p.PID), time, chains))) {
					return
				}
			}
		}
	}
}

// Protection and flags of mappings of code.
const (
	protReadExec = 1 | 4
	mapPrivate   = 2
)

func (m *StackMapping) body(pid uint32) []byte {
	var f fields
	f.u32(pid, pid)
	f.u64(m.Addr, m.Size, uint64(m.Off))
	f.u32(0, 0) // device
	f.u64(0, 0) // inode
	f.u32(protReadExec, mapPrivate)
	f.string(m.ID.Path, 8)
	return f.B
}

func (x *StackSample) body(pid uint32, time uint64, chains bool) []byte {
	var f fields
	f.u64(x.IP)
	f.u32(pid, pid)
	f.u64(time)
	if chains {
		f.u64(uint64(2+len(x.Callers)), contextUser, x.IP)
		f.u64(x.Callers...)
	}
	f.u64(uint64(len(x.Branches)))
	const predicted = 2
	for _, b := range x.Branches {
		f.u64(b.From, b.To, predicted)
	}
	return f.B
}

// features returns the bitmap of the features, and what follows the data, at an offset of the file:
// their table and what it lists.
func (s *BranchStacks) features(at int) (bitmap uint64, table []byte) {
	const stringUnit = 64
	text := func(f *fields, s string) {
		f.u32(uint32((len(s)/stringUnit + 1) * stringUnit))
		f.string(s, stringUnit)
	}
	var arch, command, event fields
	text(&arch, s.CPU.Arch)
	words := []string{"perf", "record", "-b"}
	command.u32(uint32(len(words)))
	for _, w := range words {
		text(&command, w)
	}
	head := s.head(s.callers())
	event.u32(1, uint32(len(head)))
	event.B = append(event.B, head...)
	event.u32(0)
	text(&event, stackEvent)
	all := map[int][]byte{featureBuildID: s.buildIDs(), featureArch: arch.B, featureCmdline: command.B, featureEventDesc: event.B, featureBranchStack: nil}
	if len(all[featureBuildID]) == 0 {
		delete(all, featureBuildID)
	}
	at += sectionSize * len(all)
	var list, bodies fields
	for _, id := range slices.Sorted(maps.Keys(all)) {
		bitmap |= 1 << id
		list.u64(uint64(at+len(bodies.B)), uint64(len(all[id])))
		bodies.B = append(bodies.B, all[id]...)
	}
	return bitmap, append(list.B, bodies.B...)
}

// buildIDs returns the feature of build IDs, as reader.buildID describes its entries.
func (s *BranchStacks) buildIDs() (b []byte) {
	seen := map[sample.ImageID]bool{}
	for _, p := range s.Processes {
		for _, m := range p.Maps {
			if m.ID.Build.IsZero() || seen[m.ID] {
				continue
			}
			seen[m.ID] = true
			var f fields
			f.u32(^uint32(0))
			f.B = append(f.B, m.ID.Build[:]...)
			f.u32(uint32(len(m.ID.Build.String()) / 2))
			f.string(m.ID.Path, 8)
			b = append(b, recordOf(0, modeUser|miscBuildIDSize, f.B)...)
		}
	}
	return b
}

// WriteScript writes what perf script -F ip,brstack --show-mmap-events prints of what Write writes: llvm-profgen
// --perfscript reads it. Paths of images that a line cannot hold are an error.
func (s *BranchStacks) WriteScript(w io.Writer) error {
	for _, p := range s.Processes {
		for _, m := range p.Maps {
			if !printable(m.ID.Path) {
				return fmt.Errorf("%q: text of perf script cannot hold such a path", m.ID.Path)
			}
		}
	}
	out := bufio.NewWriter(w)
	for _, p := range s.Processes {
		for _, m := range p.Maps {
			fmt.Fprintf(out, "PERF_RECORD_MMAP2 %d/%d: [%#x(%#x) @ %s 00:00 0 0]: r-xp %s\n", p.PID, p.PID, m.Addr, m.Size, offset(m.Off), m.ID.Path)
		}
	}
	chains := s.callers()
	for _, p := range s.Processes {
		for i := range p.Samples {
			p.Samples[i].script(out, chains)
		}
	}
	return out.Flush()
}

// printable reports whether text shows all of s, and nothing else.
func printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) })
}

// offset is one as perf prints it.
func offset(off sample.Offset) string {
	if off == 0 {
		return "0"
	}
	return fmt.Sprintf("%#x", uint64(off))
}

func (x *StackSample) script(out *bufio.Writer, chains bool) {
	if chains {
		fmt.Fprintf(out, "\t%16x\n", x.IP)
		for _, a := range x.Callers {
			fmt.Fprintf(out, "\t%16x\n", a)
		}
	} else {
		fmt.Fprintf(out, " %16x", x.IP)
	}
	for _, b := range x.Branches {
		fmt.Fprintf(out, " %#x/%#x/P/-/-/0/ ", b.From, b.To)
	}
	fmt.Fprint(out, "\n")
	if chains {
		fmt.Fprint(out, "\n")
	}
}
