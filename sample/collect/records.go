package collect

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// Records of the kernel's ring buffers, as events opened by this package write
// them (include/uapi/linux/perf_event.h). Integers have the processor's order.
//
//	offset  size  field
//	0       4     type
//	4       2     misc: processor mode and flags
//	6       2     size of the record, this header included
//	8       -     body
//
// Bodies of samples, in this order; the last two by what the event asked for
// (perf_output_sample of kernel/events/core.c):
//
//	8 ip, 4 process, 4 thread, 8 time, 8 period,
//	8 n, n * 8 call chain,
//	8 n, n * (8 from, 8 to, 8 flags) branches, newest first
//	8 n, n bytes from the stack pointer on, and if n > 0: 8 how many of them are valid
//
// All other bodies end in sample_id: 4 process, 4 thread, 8 time.
const (
	typeLost        = 2
	typeComm        = 3
	typeExit        = 4
	typeThrottle    = 5
	typeFork        = 7
	typeSample      = 9
	typeMmap2       = 10
	typeLostSamples = 13

	miscModeMask     = 7
	miscKernel       = 1
	miscUser         = 2
	miscGuestKernel  = 4
	miscGuestUser    = 5
	miscCommExec     = 1 << 13 // of COMM: the process began another program
	contextUser      = ^uint64(512 - 1)
	contextMax       = ^uint64(4095 - 1) // values from here on in a call chain mark a change of mode
	headerSize       = 8
	sampleIDSize     = 16
	branchMispredict = 1 << 0
	protExec         = 4
)

// errRecord is wrapped by errors that blame a record's bytes.
var errRecord = errors.New("malformed perf record")

// A record is a raw record and the time by which records of all rings are put in
// order.
type record struct {
	typ  uint32
	misc uint16
	time uint64 // ns of CLOCK_MONOTONIC
	body []byte // without header and sample_id
	side bool   // from a ring of mappings and tasks, not of samples
	cpu  int    // whose ring it is from
	id   uint64 // of the event, where rings hold samples of several
}

// A sampleRecord is the body of a sample.
type sampleRecord struct {
	ip, period uint64
	pid, tid   int
	cpu        int // -1 is unknown
	chain      []uint64
	branches   []branchRecord // newest first
	top        [2]uint64      // words at the stack pointer; 0 where they are not known
}

// A sampleLayout says which of the optional parts samples have.
type sampleLayout struct{ branches, link, top, bare bool }

type branchRecord struct{ from, to, flags uint64 }

const branchSize = 24 // bytes, of a branchRecord

// An mmapRecord is the body of an MMAP2 record.
type mmapRecord struct {
	pid                  int
	start, size, fileOff uint64
	maj, min             uint32
	inode, generation    uint64
	prot                 uint32
	path                 string
}

// A reader takes integers off a body. The first failure sticks.
type reader struct {
	b   []byte
	off int
	err error
}

func (r *reader) take(n int, field string) []byte {
	if r.err == nil && (n < 0 || len(r.b)-r.off < n) {
		r.err = fmt.Errorf("offset %#x: %s: %w", r.off, field, errRecord)
	}
	if r.err != nil {
		return make([]byte, min(max(n, 0), 8))
	}
	r.off += n
	return r.b[r.off-n : r.off]
}

func (r *reader) u32(field string) uint32 { return binary.NativeEndian.Uint32(r.take(4, field)) }
func (r *reader) u64(field string) uint64 { return binary.NativeEndian.Uint64(r.take(8, field)) }

// count reads the number of elements that follow and makes sure that they do.
func (r *reader) count(size int, field string) int {
	n := r.u64(field)
	if r.err == nil && n > uint64(len(r.b)-r.off)/uint64(size) {
		r.err = fmt.Errorf("offset %#x: %s: %d elements: %w", r.off-8, field, n, errRecord)
	}
	if r.err != nil {
		return 0
	}
	return int(n)
}

// splitRecord takes the header, the time and, if records have it, the number of the event off one record of the kernel.
func splitRecord(b []byte, ids bool) (record, error) {
	r := reader{b: b}
	rec := record{typ: r.u32("type")}
	rec.misc = binary.NativeEndian.Uint16(r.take(2, "misc"))
	r.take(2, "size")
	if rec.typ == typeSample {
		if ids {
			rec.id = r.u64("event id")
		}
		rec.body = b[min(r.off, len(b)):]
		r.take(8+8, "ip and thread")
		rec.time = r.u64("time")
		return rec, r.err
	}
	idSize := sampleIDSize
	if ids {
		idSize += 8
	}
	if len(b) < headerSize+idSize {
		return rec, fmt.Errorf("offset %#x: sample_id: %w", headerSize, errRecord)
	}
	end := len(b) - idSize
	if ids {
		rec.id = binary.NativeEndian.Uint64(b[end+sampleIDSize:])
	}
	rec.body = b[headerSize:end]
	rec.time = binary.NativeEndian.Uint64(b[end+8:])
	return rec, nil
}

// decodeSample reads the body of a sample. It appends to the slices of s, which
// are used again.
func decodeSample(b []byte, layout sampleLayout, s *sampleRecord) error {
	r := reader{b: b}
	s.ip = r.u64("ip")
	s.pid, s.tid = int(r.u32("process")), int(r.u32("thread"))
	r.take(8, "time")
	s.period = r.u64("period")
	s.chain, s.branches, s.top = s.chain[:0], s.branches[:0], [2]uint64{}
	if layout.bare {
		return r.err
	}
	for range r.count(8, "call chain") {
		s.chain = append(s.chain, r.u64("call chain"))
	}
	if layout.branches {
		for range r.count(24, "branches") {
			s.branches = append(s.branches, branchRecord{r.u64("from"), r.u64("to"), r.u64("flags")})
		}
	}
	if layout.link && r.u64("kind of registers") != 0 { // PERF_SAMPLE_REGS_ABI_NONE
		s.top[0] = r.u64("link register") & addressBits()
	}
	if layout.top {
		s.top = r.top()
	}
	return r.err
}

// top reads the words at the stack pointer off a dump of the stack.
func (r *reader) top() (words [2]uint64) {
	n := r.count(1, "stack")
	if n == 0 {
		return words
	}
	stack := r.take(n, "stack")
	valid := r.u64("valid part of the stack") // the rest was not in memory
	stack = stack[:min(valid, uint64(len(stack)))]
	for i := range words {
		if len(stack) >= 8 {
			words[i] = binary.NativeEndian.Uint64(stack)
			stack = stack[8:]
		}
	}
	return words
}

// decodeMmap reads the body of an MMAP2 record:
//
//	4 process, 4 thread, 8 start, 8 size, 8 file offset,
//	4 major, 4 minor, 8 inode, 8 inode generation,
//	4 protection, 4 flags, path ending in a zero byte
//
// PERF_RECORD_MISC_MMAP_BUILD_ID says nothing about it: see fileIDs.
func decodeMmap(b []byte) (mmapRecord, error) {
	r := reader{b: b}
	var m mmapRecord
	m.pid = int(r.u32("process"))
	r.take(4, "thread")
	m.start = r.u64("start")
	m.size = r.u64("size")
	m.fileOff = r.u64("file offset")
	m.maj, m.min = r.u32("major"), r.u32("minor")
	m.inode = r.u64("inode")
	m.generation = r.u64("inode generation")
	m.prot = r.u32("protection")
	r.take(4, "flags")
	path, _, _ := bytes.Cut(b[min(r.off, len(b)):], []byte{0})
	m.path = string(path)
	return m, r.err
}

// A task is the body of a FORK or EXIT record.
type task struct{ pid, parent, tid, parentTID int }

// decodeTask reads one: 4 process, 4 parent process, 4 thread, 4 parent thread, 8 time.
func decodeTask(b []byte) (task, error) {
	r := reader{b: b}
	return task{
		pid:       int(r.u32("process")),
		parent:    int(r.u32("parent process")),
		tid:       int(r.u32("thread")),
		parentTID: int(r.u32("parent thread")),
	}, r.err
}

// decodeComm reads the body of a COMM record: 4 process, 4 thread, name ending in a zero byte.
func decodeComm(b []byte) (pid, tid int, name string, err error) {
	r := reader{b: b}
	pid, tid = int(r.u32("process")), int(r.u32("thread"))
	text, _, _ := bytes.Cut(b[min(r.off, len(b)):], []byte{0})
	return pid, tid, string(text), r.err
}

// decodeLost reads how many records were lost: of LOST, 8 event id, 8 number; of
// LOST_SAMPLES, 8 number.
func decodeLost(b []byte, typ uint32) (uint64, error) {
	r := reader{b: b}
	if typ == typeLost {
		r.take(8, "event id")
	}
	n := r.u64("number lost")
	return n, r.err
}
