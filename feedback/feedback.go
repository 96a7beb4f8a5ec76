package feedback

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

var (
	// ErrEmpty is wrapped where a profile would hold nothing.
	ErrEmpty = errors.New("nothing to write")
	// ErrUnfit is wrapped where the format cannot serve the image.
	ErrUnfit = errors.New("not for this format")
)

// A Reason says why something that was inferred is not in a profile.
type Reason string

// Skipped counts what was left out, by reason.
type Skipped map[Reason]int

// most returns the reason for which most was left out; "" if nothing was.
func (s Skipped) most() (most Reason) {
	for _, why := range sortedKeys(s, cmp.Compare) {
		if s[why] > s[most] {
			most = why
		}
	}
	return most
}

// An Empty is the error of a profile that would hold nothing; it wraps ErrEmpty.
type Empty struct {
	What string // what there is nothing of
	Why  Reason // why most was left out; "" if nothing was
	N    int    // how much that is
}

func (e *Empty) Error() string {
	why := ""
	if e.Why != "" {
		why = fmt.Sprintf(" (%s: %d)", e.Why, e.N)
	}
	return fmt.Sprintf("%s%s: %v", e.What, why, ErrEmpty)
}

func (e *Empty) Unwrap() error { return ErrEmpty }

// empty returns the error of a profile for which nothing was left by s.
func (s Skipped) empty(what string, args ...any) error {
	why := s.most()
	return &Empty{What: fmt.Sprintf(what, args...), Why: why, N: s[why]}
}

// A remainder is what a writer leaves out.
type remainder struct {
	skipped Skipped
	dropped map[Reason]float64 // executed instructions, by reason
	all     float64            // executed instructions of the images, what is left out included
}

func newRemainder() remainder { return remainder{skipped: Skipped{}, dropped: map[Reason]float64{}} }

// skip counts something that is left out, of so many executed instructions.
func (m *remainder) skip(why Reason, insts float64) {
	m.skipped[why]++
	m.dropped[why] += insts
}

// of adds the procedures of an image to all.
func (m *remainder) of(procs []*infer.Result) { m.all += executed(procs) }

// leave counts all procedures of an image as left out.
func (m *remainder) leave(why Reason, procs []*infer.Result) {
	m.of(procs)
	for _, r := range procs {
		m.skip(why, r.Instructions())
	}
}

// executed is how many instructions all of procs ran.
func executed(procs []*infer.Result) (insts float64) {
	for _, r := range procs {
		insts += r.Instructions()
	}
	return insts
}

// code is what the writers ask of an image.Image.
type code interface {
	AddrOf(sample.Offset) (image.Addr, bool)
	Symbols() []image.Symbol
	Find(image.Addr) int
	Proc(int) (*image.Proc, error)
	Insts(*image.Block) []image.Inst
	Operands(image.Inst) image.Operands
}

// lineTable is what they ask of its image.Lines.
type lineTable interface {
	Frames(image.Addr) []image.Frame
	Traceback(image.Addr) []image.Frame
	Unit(image.Addr) image.Unit
	FSDiscriminators() bool
}

// A view is an image, what was inferred for it and what was recorded of it.
type view struct {
	*infer.ImageProfile
	code   code
	lines  lineTable // nil in a format that needs no lines
	counts []*sample.Counts
}

func newView(ip *infer.ImageProfile, counts []*sample.Counts) *view {
	return &view{ImageProfile: ip, code: ip.Image, counts: counts}
}

// countsOf returns those counts of rec that p was inferred from, each with the
// stacks that p makes of its own.
func countsOf(p *infer.Profile, rec *sample.Recording) []*sample.Counts {
	if rec == nil {
		return nil
	}
	var cs []*sample.Counts
	for _, c := range rec.Counts {
		if c.Event.Name == p.Event.Name {
			whole := *c
			whole.Stacks = p.Stacks(c)
			cs = append(cs, &whole)
		}
	}
	return cs
}

// Largest returns the image with the most samples among those that fit, or else
// among all; nil if there are none.
func Largest(p *infer.Profile, fits func(*infer.ImageProfile) bool) *infer.ImageProfile {
	var best *infer.ImageProfile
	for _, ip := range p.Images {
		if best == nil || fits(ip) && !fits(best) || fits(ip) == fits(best) && ip.Samples > best.Samples {
			best = ip
		}
	}
	return best
}

// pick returns the image that want names by path or build ID; for "", the largest
// that fits, or else the largest: the caller says why that one does not.
func pick(p *infer.Profile, want string, fits func(*infer.ImageProfile) bool) (*infer.ImageProfile, error) {
	if want == "" {
		if ip := Largest(p, fits); ip != nil {
			return ip, nil
		}
		return nil, fmt.Errorf("no images: %w", ErrEmpty)
	}
	for _, ip := range p.Images {
		if ip.ID.Path == want || ip.ID.Build.String() == want {
			return ip, nil
		}
	}
	return nil, fmt.Errorf("no samples in an image %q: %w", want, ErrEmpty)
}

// symbolAt returns the symbol that starts at a.
func (v *view) symbolAt(a image.Addr) (image.Symbol, bool) {
	s, off, ok := v.place(a)
	return s, ok && off == 0
}

// place returns the symbol that holds a, and how far into it a lies.
func (v *view) place(a image.Addr) (s image.Symbol, off uint64, ok bool) {
	i := v.code.Find(a)
	if i < 0 {
		return image.Symbol{}, 0, false
	}
	s = v.code.Symbols()[i]
	return s, uint64(a - s.Addr), true
}

// whole returns n as the integer that formats want: rounded, within an int64.
func whole(n float64) uint64 {
	if !(n > 0) {
		return 0
	}
	return uint64(min(math.Round(n), 1<<62))
}

// known reports whether anything at all was learned about the blocks of r.
func known(r *infer.Result) bool {
	for _, f := range r.Block {
		if f.Conf != infer.None {
			return true
		}
	}
	return false
}

// sortedKeys returns the keys of m in order: maps must not order an output.
func sortedKeys[K comparable, V any](m map[K]V, compare func(a, b K) int) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compare)
	return keys
}
