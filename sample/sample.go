package sample

import (
	"bytes"
	"cmp"
	"encoding/hex"
	"fmt"
	"strings"
)

// An Event is what a counter counted, and how many of them passed between two
// samples.
type Event struct {
	Name   string // as perf names it: "cpu-clock", "cycles", "instructions"
	Period uint64 // nominal events per sample; 0 if it varied (a frequency was asked for)
	Unit   string // what is counted: "ns", "cycles", "instructions", "branches" or "events"
}

// A CPU is the processor that a recording was made on. The zero CPU is unknown.
type CPU struct {
	Arch     string // "x86_64" or "aarch64"
	Vendor   string // CPUID's: "GenuineIntel", "AuthenticAMD"; "0x41" style implementer on AArch64
	Family   int    // CPUID's, extended family added; 0 on AArch64
	Model    int    // CPUID's, extended model added; MIDR part number on AArch64
	Stepping int    // CPUID's; MIDR variant<<4|revision on AArch64
	Name     string // brand string
	MHz      int    // clock while sampled, in millions of cycles per second; 0 is unknown
}

// A BuildID names an image by its content: the descriptor of its GNU build ID
// note, cut or zero-padded to 20 bytes. The zero BuildID is unknown.
type BuildID [20]byte

// ParseBuildID reads the hexadecimal form of a build ID, of 1 to 20 bytes.
func ParseBuildID(s string) (BuildID, error) {
	var id BuildID
	b, err := hex.DecodeString(s)
	if err != nil || len(b) == 0 || len(b) > len(id) {
		return BuildID{}, fmt.Errorf("build ID %q: want 1 to %d bytes in hexadecimal", s, len(id))
	}
	copy(id[:], b)
	return id, nil
}

// String returns the usual hexadecimal form. Padding is not part of it: notes are
// 8 (lld's fast), 16 (md5, uuid) or 20 bytes (sha1) long.
func (id BuildID) String() string {
	s := hex.EncodeToString(id[:])
	for _, n := range []int{8, 16} {
		if strings.Trim(s[2*n:], "0") == "" {
			return s[:2*n]
		}
	}
	return s
}

// IsZero reports whether the build ID is unknown.
func (id BuildID) IsZero() bool { return id == BuildID{} }

// An Offset is a place in an image's file, in bytes.
type Offset uint64

// An ImageID says which file was mapped. Images of one build ID are one image
// wherever they lie; Path is then a hint where to look. Where the file had no
// build ID, Path is all there is and part of the key.
type ImageID struct {
	Build BuildID
	Path  string
}

func (id ImageID) String() string {
	if id.Build.IsZero() {
		return id.Path
	}
	return id.Path + " (" + id.Build.String() + ")"
}

// OfKernel reports whether id names the kernel or a module rather than a file.
func (id ImageID) OfKernel() bool {
	return strings.HasPrefix(id.Path, "[") && strings.HasSuffix(id.Path, "]") && id.Path != "[vdso]"
}

// Compare orders images by build ID, then path, as stored forms have them.
func (id ImageID) Compare(o ImageID) int {
	return cmp.Or(bytes.Compare(id.Build[:], o.Build[:]), cmp.Compare(id.Path, o.Path))
}

// A Loss is the reason why samples have no place in an image.
type Loss string

const (
	LostDropped   Loss = "dropped by the kernel" // never delivered: the buffer was full
	LostKernel    Loss = "kernel"                // taken in kernel mode
	LostUnmapped  Loss = "unmapped"              // no mapping known at that PC
	LostAnonymous Loss = "anonymous memory"      // JIT code, a stack, a deleted memfd
	LostVDSO      Loss = "vdso"
	LostGuest     Loss = "guest"        // taken in a virtual machine of this host
	LostStale     Loss = "changed code" // taken in an older build, at a place that the newer one lacks
)

// A Frame is a place in one of the images of a Counts.
type Frame struct {
	Image int // index into Counts.Images; Unknown if the place belongs to none
	Off   Offset
}

// String returns the index of the image and the offset: "1+0x1140", or "unknown".
func (f Frame) String() string {
	if f.Image == Unknown {
		return "unknown"
	}
	return fmt.Sprintf("%d+%#x", f.Image, uint64(f.Off))
}

// Unknown is the Image of a Frame that was mapped from no known image; its Off
// is 0.
const Unknown = -1

// A Stack is a call stack and the samples that had it. Frames[0] is the sampled
// instruction; the others are return addresses, innermost first: the place after
// the call, as the processor would return to it.
//
// Top is the place that the first of the two words at the stack pointer named that
// names code of an image, or, of AArch64, that of the link register. Where the sampled instruction runs without a frame of its
// own, or one that is just being set up, it is the return address that unwinding by
// frame pointers misses: a saved frame pointer, which may lie before it, names no
// code. Elsewhere it is whatever lay there. Only the code tells which: package
// image reads it.
type Stack struct {
	Frames []Frame
	Top    Frame    // Unknown where there is none, or no words were recorded
	N      uint64   // samples
	When   []Moment // of N, those whose time is known, by slice; nil if of none
}

// A Branch is a recorded transfer of control, from the branch instruction to its
// target. LBR is one source of them.
type Branch struct{ From, To Frame }

// A BranchCount says how often a branch was recorded.
type BranchCount struct {
	N            uint64 // records
	Mispredicted uint64 // records of them that were flagged as mispredicted
}

// A Range is code that ran straight through: from the target of one recorded
// branch to the next branch instruction recorded after it, both included.
type Range struct {
	Image       int // index into Counts.Images
	First, Last Offset
}

// ImageCounts are the samples of one image, and what was counted exactly in it.
type ImageCounts struct {
	ID        ImageID
	Processes uint64            // processes that began their program while recorded, and mapped the image; 0 if none did, or that is not known
	At        map[Offset]uint64 // samples by place
	First     map[Offset]uint64 // first touches by place, in us since the process began its program; nil if none is known
	Probed    map[Offset]Probed // what probes counted, by place of the probed instruction; nil if none
	// Replayed is what models of predictors and caches made of walks, by place of the instruction; nil if nothing.
	Replayed map[Offset]Replayed
	Counted  map[Offset]uint64 // executions by place of the instruction, counted exactly in runs whose length beside the sampled time is not known; nil if none
	// When is, of samples without a stack, those whose time is known, by place and slice; nil if of none.
	When map[Offset][]Moment
	// Faults are page faults by place of the instruction that faulted, where the recorder watched them: an estimate where it did so for a part
	// of the time; nil if none is known.
	Faults map[Offset]uint64
}

// MaxFirst bounds first touches, in us: what is not seen before is no part of
// starting up, and is not kept. 10 seconds is about as long as people wait for an
// answer before they turn to something else (Nielsen, Usability Engineering, 1993,
// chapter 5).
const MaxFirst = 10_000_000

// Samples is the sum over all places.
func (ic *ImageCounts) Samples() uint64 {
	var n uint64
	for _, c := range ic.At {
		n = addSamples(n, c)
	}
	return n
}

// Counts are the samples of one event on one kind of processor.
// Total = the samples of all images + those lost, always.
type Counts struct {
	CPU      CPU
	Event    Event
	Total    uint64 // samples taken, the lost ones included
	Weight   uint64 // sum of the periods of the samples delivered, in Event.Unit; 0 is unknown, or too large to hold
	Clocked  uint64 // of Weight, the ns in which it is known how many cycles passed; 0 if of none, and where Event.Unit is no time
	Cycles   uint64 // that passed in Clocked
	Enabled  uint64 // ns that the event was to be counted while code ran; 0 is unknown, as of events that need no counter of the processor
	Running  uint64 // of Enabled, those in which it was: less where events share a counter. Samples are of these alone
	Returns  uint64 // system calls that did next to nothing, of which it was measured how long their returns hold interrupts up; 0 if that is not known, as of events that are no timer's
	Held     uint64 // cycles of all Returns together
	Excess   Square // by how much more the variance of Total is than Total, which chance alone makes it: where samples count for several; see Dispersion
	Images   []*ImageCounts
	Lost     map[Loss]uint64 // samples by reason
	Stacks   []Stack         // of samples that are also in Images; use AddStack
	Branches map[Branch]BranchCount
	Ranges   map[Range]uint64
	Paths    []Path            // a sample of them, sorted; use AddPaths
	Targets  map[Branch]uint64 // executions of indirect calls and jumps that walks saw, by where they went; nil if none is known. Use AddTarget

	// Total by who ran, by processor and by time, as far as that is known. Scale leaves them out.
	Origins    map[Origin]uint64          // use AddOrigin
	Processors map[int]uint64             // by the number of the processor; use AddProcessor
	Step       uint8                      // slices are LeastSlice<<Step long
	Slices     map[uint64]map[Loss]uint64 // slices of time that have samples, by number, and of Lost those that were lost in each; use SliceAt

	// Indexes, rebuilt where they are missing.
	images  map[ImageID]int // of Images, by key
	stacks  map[string]int  // of Stacks, by stackKey
	scratch []byte          // of stackKey
}

// A Recording is what one or several runs of a recorder saw: Counts for each
// pair of processor and event, sorted by them.
type Recording struct {
	Counts   []*Counts
	Off      []*Counts // time that threads were off the processor, for each pair of processor and reason, sorted likewise: see OffCPU
	Runs     []Run     // that were recorded, the earliest first; use AddRun
	Unlisted uint64    // runs that are not in Runs, as it is full
}
