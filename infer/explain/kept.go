package explain

import (
	"encoding/binary"
	"errors"
	"iter"
	"math"

	"backfeed/infer"
	"backfeed/sample/wire"
)

// A Stalled is an instruction with a stall.
type Stalled struct {
	At     int     // index into the Insts of its Explanation
	Block  int     // index into Proc.Blocks
	Cycles float64 // per execution, as Stall.Cycles
}

// A Keeper holds what the stalls of one Profile came to, for who asks for them again. That it is of the same recording, images
// and options is for it to see to.
type Keeper interface {
	Load() []byte // nil if there is nothing
	Store(b []byte)
}

// The stalls of procedures, one after the other by image and address, are kept as lists. Integers and lists are those of package
// wire; floats are their 64 bits, little-endian.
//
//	integer  index of the instruction, minus that after the entry before
//	float    cycles per execution

// errKept is wrapped by errors that blame the bytes.
var errKept = errors.New("malformed stalls")

// ProcStalls are the stalls of a procedure.
type ProcStalls struct {
	Image  *infer.ImageProfile
	Result *infer.Result
	Stalls []Stalled // by address
}

// Stalls has the stalls of all procedures with samples, by image and address, without their causes, which are most of the work.
// What Kept has of them is not looked for again.
func (x *Explainer) Stalls() iter.Seq[ProcStalls] {
	return func(yield func(ProcStalls) bool) {
		if x.Kept != nil {
			if all, err := x.restore(x.Kept.Load()); err == nil {
				for _, s := range all {
					if !yield(s) {
						return
					}
				}
				return
			}
		}
		var w wire.Writer
		for ip, e := range x.each(untilStalls) {
			s := ProcStalls{ip, e.Result, e.stalled()}
			s.keep(&w)
			if !yield(s) {
				return
			}
		}
		if x.Kept != nil {
			x.Kept.Store(w.B)
		}
	}
}

func (e *Explanation) stalled() (all []Stalled) {
	for i := range e.Insts {
		if t := &e.Insts[i]; t.Stall.Cycles > 0 {
			all = append(all, Stalled{i, t.Block, t.Stall.Cycles})
		}
	}
	return all
}

func (s *ProcStalls) keep(w *wire.Writer) {
	w.Int(len(s.Stalls))
	next := 0
	for _, t := range s.Stalls {
		w.Int(t.At - next)
		w.B = binary.LittleEndian.AppendUint64(w.B, math.Float64bits(t.Cycles))
		next = t.At + 1
	}
}

// restore reads what Stalls has kept.
func (x *Explainer) restore(b []byte) (all []ProcStalls, err error) {
	r := &wire.Reader{B: b, Format: errKept}
	for _, ip := range x.prof.Images {
		for _, of := range ip.Procs {
			if of.Samples > 0 {
				all = append(all, ProcStalls{ip, of, stallsKept(r, of)})
			}
		}
	}
	if r.Left() > 0 {
		r.Fail(r.Off, "end")
	}
	return all, r.Err
}

// stallsKept reads the stalls of one procedure.
func stallsKept(r *wire.Reader, of *infer.Result) []Stalled {
	n := r.Len(9, "stalls")
	if n == 0 {
		return nil
	}
	stalls := make([]Stalled, n)
	block, end, next := -1, 0, 0 // a block that reaches to an instruction, and the next instruction
	for i := range stalls {
		off := r.Off
		at := next + int(r.Uint(math.MaxInt32, "instruction"))
		for at >= end {
			if block++; block == len(of.Proc.Blocks) {
				r.Fail(off, "instruction")
				return nil
			}
			end += of.Proc.Blocks[block].Insts
		}
		cycles := r.Bytes(8, "cycles")
		if cycles == nil {
			return nil
		}
		stalls[i] = Stalled{at, block, math.Float64frombits(binary.LittleEndian.Uint64(cycles))}
		next = at + 1
	}
	return stalls
}
