package feedback

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// A program is an image, its lines, what was inferred and what was recorded, all
// made by hand. Its notation, a line each:
//
//	func NAME@LINE            declares an inlined function, which starts at LINE
//	proc NAME@LINE xN [FLAG]  a procedure with N entries, and its function
//	block xN [CONFIDENCE] [ends]
//	                          a block that ran N times; medium confidence; it ends in a call that does not return
//	[LABEL=]FRAMES [sN] [compares] [chooses] [computes] [stores] [readsN] [writesN] [jumps] [call|tail TARGET xN [CONFIDENCE]]
//	                          an instruction of 4 bytes with N samples: a comparison, a conditional move, an addition, a store, or a jump, else a fetch;
//	                          it reads and writes general registers by number
//	edge I>J KIND xN          between the last proc's blocks, counted from 0
//
// FRAMES are FUNC:LINE[.DISCRIMINATOR], innermost first, joined by "<"; "-" is
// none. TARGET is a procedure, or "?" for an indirect call. Procedures start at
// multiples of 0x100. FLAGs are local, incomplete, plt, wrapper.
type program struct {
	*view
	frames   map[image.Addr][]image.Frame
	insts    map[image.Addr]image.Inst
	starts   map[string]int
	labels   map[string]image.Addr
	targets  map[*image.Call]string
	wrappers map[string]bool
	operands map[image.Addr]image.Operands // by instruction
	producer string
	lang     string
	unit     string // the source file
	fs       bool

	syms   []image.Symbol
	counts *sample.Counts
	next   image.Addr
}

func newProgram(t testing.TB, text string) *program {
	t.Helper()
	p := &program{
		frames: map[image.Addr][]image.Frame{}, insts: map[image.Addr]image.Inst{}, starts: map[string]int{},
		labels: map[string]image.Addr{}, wrappers: map[string]bool{}, operands: map[image.Addr]image.Operands{}, next: 0x1000, producer: "clang version 19", lang: "c",
	}
	id := sample.ImageID{Path: "/bin/program", Build: sample.BuildID{1, 2}}
	p.counts = sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 1000000, Unit: "ns"})
	p.counts.Image(id)
	p.view = &view{ImageProfile: &infer.ImageProfile{ID: id}, code: p, lines: p, counts: []*sample.Counts{p.counts}}
	for _, pass := range []func(*program, []string) error{(*program).declare, (*program).define} {
		for i, line := range strings.Split(text, "\n") {
			if f := strings.Fields(line); len(f) > 0 {
				if err := pass(p, f); err != nil {
					t.Fatalf("line %d: %q: %v", i, line, err)
				}
			}
		}
	}
	p.finish()
	return p
}

// declare notes where functions start, and which symbols there are.
func (p *program) declare(f []string) error {
	if f[0] != "func" && f[0] != "proc" {
		return nil
	}
	name, line, _ := strings.Cut(f[1], "@")
	p.starts[name], _ = strconv.Atoi(line)
	if f[0] == "proc" {
		s := image.Symbol{Name: name, Addr: 0x1000 + 0x100*image.Addr(len(p.syms)), Size: 0x100, Local: slices.Contains(f, "local")}
		if slices.Contains(f, "plt") {
			s.Source = image.FromPLT
		}
		p.wrappers[name] = slices.Contains(f, "wrapper")
		p.syms = append(p.syms, s)
	}
	return nil
}

func (p *program) define(f []string) error {
	switch f[0] {
	case "func":
	case "proc":
		s := p.syms[len(p.Procs)]
		p.next = s.Addr
		r := &infer.Result{Proc: &image.Proc{Symbol: s, Index: len(p.Procs), Complete: !slices.Contains(f, "incomplete")}, Seen: !slices.Contains(f, "called")}
		r.Entries = freq(f[2:])
		p.Procs = append(p.Procs, r)
	case "block":
		r := p.last()
		b := image.Block{Start: p.next, End: p.next}
		if slices.Contains(f, "ends") {
			b.Exit = image.NoReturn
		}
		r.Proc.Blocks = append(r.Proc.Blocks, b)
		r.Block = append(r.Block, freq(f[1:]))
	case "edge":
		var e image.Edge
		if _, err := fmt.Sscanf(f[1], "%d>%d", &e.From, &e.To); err != nil {
			return err
		}
		e.Kind = image.Kind(slices.Index([]string{"fallthrough", "taken", "indirect"}, f[2]))
		p.last().Proc.Edges = append(p.last().Proc.Edges, e)
		p.last().Edge = append(p.last().Edge, freq(f[3:]))
	default:
		return p.inst(f)
	}
	return nil
}

func (p *program) last() *infer.Result { return p.Procs[len(p.Procs)-1] }

func (p *program) inst(f []string) error {
	r := p.last()
	b := &r.Proc.Blocks[len(r.Proc.Blocks)-1]
	label, frames, found := strings.Cut(f[0], "=")
	if !found {
		frames = f[0]
	} else {
		p.labels[label] = p.next
	}
	if frames != "-" {
		for _, s := range strings.Split(frames, "<") {
			i := strings.LastIndex(s, ":")
			at, disc, _ := strings.Cut(s[i+1:], ".")
			line, err := strconv.Atoi(at)
			if err != nil {
				return err
			}
			d, _ := strconv.ParseUint(disc, 10, 32)
			p.frames[p.next] = append(p.frames[p.next], image.Frame{Func: s[:i], File: "f", Line: line, StartLine: p.starts[s[:i]], Disc: uint32(d)})
		}
	}
	in := image.Inst{Addr: p.next, Len: 4}
	for i, w := range f[1:] {
		switch {
		case w == "call" || w == "tail":
			c := image.Call{Block: len(r.Proc.Blocks) - 1, Site: p.next, Return: p.next + 4, Tail: w == "tail"}
			if to := f[i+2]; to != "?" {
				c.To, c.Target = p.start(to), to
			}
			r.Proc.Calls = append(r.Proc.Calls, c)
			r.Call = append(r.Call, freq(f[i+3:]))
		case w == "compares":
			in.Class |= image.Compare
		case w == "jumps": // within the procedure
			in.Class, in.Target = in.Class|image.Jump, r.Proc.Addr
		case w == "stores":
			in.Class |= image.Store
		case w == "chooses", w == "computes":
			o := p.operands[p.next]
			o.Op = map[string]image.Op{"chooses": image.OpSelect, "computes": image.OpALU}[w]
			p.operands[p.next] = o
		case strings.HasPrefix(w, "reads"), strings.HasPrefix(w, "writes"):
			o := p.operands[p.next]
			r, err := strconv.Atoi(strings.TrimLeft(w, "readswit"))
			if err != nil {
				return err
			}
			if w[0] == 'r' {
				o.Reads.General |= 1 << r
			} else {
				o.Writes.General |= 1 << r
			}
			p.operands[p.next] = o
		case w[0] == 's' && len(w) > 1:
			if n, err := strconv.ParseUint(w[1:], 10, 64); err == nil {
				p.counts.AddSample(0, sample.Offset(p.next), n)
				r.Samples += n
				p.Samples += n
			}
		}
	}
	p.insts[p.next] = in
	b.Insts, b.Last, b.End = b.Insts+1, p.next, p.next+4
	p.next += 4
	return nil
}

// start returns the address of a procedure; 0 if there is none of that name.
func (p *program) start(name string) image.Addr {
	for _, s := range p.syms {
		if s.Name == name {
			return s.Addr
		}
	}
	return 0
}

func freq(f []string) infer.Freq {
	r := infer.Freq{Conf: infer.Medium, Among: infer.Medium, Within: infer.Medium}
	for _, w := range f {
		switch {
		case w == "low":
			r.Conf, r.Among, r.Within = infer.Low, infer.Low, infer.Low
		case w == "none":
			r.Conf, r.Among, r.Within = infer.None, infer.None, infer.None
		case w[0] == 'x':
			r.N, _ = strconv.ParseFloat(w[1:], 64)
		}
	}
	return r
}

func (p *program) finish() {
	for _, r := range p.Procs {
		for i, e := range r.Proc.Edges {
			from, to := &r.Proc.Blocks[e.From], &r.Proc.Blocks[e.To]
			from.Out, to.In = append(from.Out, i), append(to.In, i)
		}
	}
}

// stack records n samples at a label, called from those that follow; "libc" is a
// call in another image.
func (p *program) stack(n uint64, labels ...string) {
	var frames []sample.Frame
	for i, label := range labels {
		if label == "libc" {
			libc := p.counts.Image(sample.ImageID{Path: "/lib/libc.so.6", Build: sample.BuildID{7}})
			frames = append(frames, sample.Frame{Image: libc, Off: 0x29d90})
			continue
		}
		a := p.labels[label]
		if a == 0 {
			panic("no label " + label)
		}
		if i > 0 {
			a += 4 // a return address
		}
		frames = append(frames, sample.Frame{Image: 0, Off: sample.Offset(a)})
	}
	p.counts.AddStack(frames, n)
	if r := p.Procs[p.Find(p.labels[labels[0]])]; r.Samples == 0 {
		r.Samples = n
	}
}

// branch records n branches from a label to a procedure.
func (p *program) branch(n, mispredicted uint64, label, to string) {
	p.counts.AddBranch(sample.Branch{
		From: sample.Frame{Off: sample.Offset(p.labels[label])},
		To:   sample.Frame{Off: sample.Offset(p.start(to))},
	}, n, mispredicted)
}

// walked records that walks saw a label go to a procedure n times; "libc" is another image.
func (p *program) walked(n uint64, label, to string) {
	f := sample.Frame{Off: sample.Offset(p.start(to))}
	if to == "libc" {
		f = sample.Frame{Image: p.counts.Image(sample.ImageID{Path: "/lib/libc.so.6", Build: sample.BuildID{7}}), Off: 0x29d90}
	}
	p.counts.AddTarget(sample.Branch{From: sample.Frame{Off: sample.Offset(p.labels[label])}, To: f}, n)
}

func (p *program) AddrOf(off sample.Offset) (image.Addr, bool) { return image.Addr(off), true }
func (p *program) Symbols() []image.Symbol                     { return p.syms }
func (p *program) Frames(a image.Addr) []image.Frame           { return p.frames[a] }
func (p *program) Proc(i int) (*image.Proc, error)             { return p.Procs[i].Proc, nil }
func (p *program) FSDiscriminators() bool                      { return p.fs }
func (p *program) Unit(image.Addr) image.Unit {
	return image.Unit{Producer: p.producer, Lang: p.lang, Name: p.unit}
}

// ofGo makes the program one of Go.
func (p *program) ofGo() *view {
	p.producer, p.lang = "Go cmd/compile", "go"
	return p.view
}

func (p *program) Find(a image.Addr) int {
	return slices.IndexFunc(p.syms, func(s image.Symbol) bool { return a >= s.Addr && a-s.Addr < image.Addr(s.Size) })
}

func (p *program) Insts(b *image.Block) []image.Inst {
	var ins []image.Inst
	for a := b.Start; a < b.End; a += 4 {
		ins = append(ins, p.insts[a])
	}
	return ins
}

func (p *program) Operands(in image.Inst) image.Operands { return p.operands[in.Addr] }

func (p *program) Traceback(a image.Addr) []image.Frame {
	return slices.DeleteFunc(slices.Clone(p.frames[a]), func(f image.Frame) bool { return p.wrappers[f.Func] })
}
