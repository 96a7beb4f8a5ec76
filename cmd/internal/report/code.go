package report

import (
	"cmp"
	"fmt"
	"html/template"
	slash "path"
	"slices"
	"strconv"
	"strings"

	"backfeed/infer"
	"backfeed/infer/explain"
	"backfeed/infer/image"
)

// A Code is the code of a procedure, annotated: where its time went, and what its
// instructions waited for.
type Code struct {
	Image  *infer.ImageProfile
	Of     *explain.Explanation
	Lines  Lines                              // nil if there are none
	Text   func(file string, line int) string // the text of a source line; "" is not known
	Prefix string                             // of ids, where a page has several procedures
	Rows   int                                // of instructions at most that are not folded away; 0 is maxListed
	Brief  bool                               // leave out what would be folded away
	Times  *LineTimes                         // of the LinePane beside it; nil if there is none
	Calls  map[image.Addr]string              // where calls lead, by the address of their instructions
	Names  Style
	Events []ListEvent // others than that of time; the first few have columns
}

const (
	maxListed   = 2000  // instructions shown
	fewFolded   = 6     // instructions that are not folded away
	maxFolded   = 8000  // instructions folded away; more are left out
	coldShare   = 0.001 // of a procedure's cycles: a block with less is folded away
	bubbleShare = 0.002 // of a procedure's cycles: a stall with less has no line of its own
	maxCulprits = 4     // named per stall
)

// A run is consecutive blocks that are shown, or folded away together.
type run struct {
	Folded  bool
	Left    bool // even the code is left out
	Summary string
	Blocks  []listedBlock
}

type listedBlock struct {
	ID, Addr    string
	Count       string
	Within      infer.Confidence
	Share       string // of the procedure's samples
	In, Out     []neighbour
	Exit        string
	Rows        []listedInst
	insts, n    int // of the block: how many instructions, the first of them
	cycles      float64
	samples     uint64
	start, last image.Addr
}

// A neighbour is a block that an edge leads from or to.
type neighbour struct{ Href, Addr, Count string }

type listedInst struct {
	Source  string // where it differs from that of the one before
	Line    string // the text there
	Key     string // names the line to the pane of lines; "" is none
	To      string // the page of the procedure that it calls; "" is none
	Addr    string
	Samples string
	Events  []string // of other events: the part of their samples
	Cycles  string   // per execution
	Least   string
	Class   int // how much of the procedure's time
	Text    string
	Bubble  *bubble
}

// A bubble is a stall: time in which nothing was done, before an instruction was.
type bubble struct {
	Cycles, Share string
	Class         int
	Width         float64 // of its bar, units
	Culprits      []string
	More          int
}

// HTML returns the listing as markup.
func (l *Code) HTML() (template.HTML, error) {
	blocks := l.blocks()
	runs := l.runs(blocks)
	for i := range runs {
		for k := range runs[i].Blocks {
			if b := &runs[i].Blocks[k]; !runs[i].Left {
				l.fill(b)
			}
		}
	}
	return markup("listing.tmpl", map[string]any{"Name": l.Names.NameOf(l.Of.Result.Proc.Name), "Runs": runs, "Units": barUnits, "Prefix": l.Prefix,
		"Events": l.eventHeads(), "Columns": codeColumns + len(l.eventHeads()), "Wide": codeColumns - 1 + len(l.eventHeads())})
}

// codeColumns is how many columns code has without those of events.
const codeColumns = 6

// An eventHeading is the head of a column: a name that has room, and all of it.
type eventHeading struct{ Name, Full string }

func (l *Code) eventHeads() (heads []eventHeading) {
	for _, e := range l.shownEvents() {
		heads = append(heads, eventHeading{e.head(), e.line()})
	}
	return heads
}

func (l *Code) shownEvents() []ListEvent { return l.Events[:min(listEvents, len(l.Events))] }

// blocks returns all blocks without their instructions.
func (l *Code) blocks() []listedBlock {
	r := l.Of.Result
	blocks := make([]listedBlock, len(r.Proc.Blocks))
	for b := range blocks {
		pb := &r.Proc.Blocks[b]
		blocks[b] = listedBlock{ID: blockID(l.Prefix, pb.Start), Addr: hex(pb.Start), Count: Count(r.Block[b].N), Within: r.Block[b].Within,
			Share: Share(r.BlockSamples[b], r.Samples), samples: r.BlockSamples[b], start: pb.Start, last: pb.Last}
		if r.Block[b].Conf == infer.None {
			blocks[b].Count = "-"
		}
		for _, e := range pb.In {
			blocks[b].In = append(blocks[b].In, l.neighbour(r.Proc.Edges[e].From, r.Edge[e].N))
		}
		for _, e := range pb.Out {
			blocks[b].Out = append(blocks[b].Out, l.neighbour(r.Proc.Edges[e].To, r.Edge[e].N))
		}
		blocks[b].In, blocks[b].Out = hottestNeighbours(blocks[b].In), hottestNeighbours(blocks[b].Out)
		blocks[b].Exit = exits[pb.Exit]
	}
	for b, t := range blockTimes(l.Of) {
		blocks[b].insts, blocks[b].n, blocks[b].cycles = t.insts, t.first, t.cycles
	}
	return blocks
}

// exits are words for how control leaves a procedure.
var exits = [...]string{image.NoExit: "", image.Return: "returns", image.TailCall: "jumps to another procedure",
	image.NoReturn: "does not return", image.Unresolved: "jumps to an unknown place", image.RunsOff: "decoding ends here"}

func blockID(prefix string, a image.Addr) string {
	return prefix + "b" + strconv.FormatUint(uint64(a), 16)
}

func (l *Code) neighbour(b int, n float64) neighbour {
	a := l.Of.Result.Proc.Blocks[b].Start
	return neighbour{"#" + blockID(l.Prefix, a), hex(a), Count(n)}
}

// maxNeighbours is how many neighbours of a block are listed.
const maxNeighbours = 6

// hottestNeighbours bounds a list of neighbours; those that are left out are counted.
func hottestNeighbours(all []neighbour) []neighbour {
	if len(all) > maxNeighbours {
		rest := len(all) - maxNeighbours
		all = append(all[:maxNeighbours:maxNeighbours], neighbour{Count: fmt.Sprintf("and %d more", rest)})
	}
	return all
}

// runs decides what is shown: the blocks with the most cycles, as many as there is room
// for, in the order of addresses.
func (l *Code) runs(blocks []listedBlock) []run {
	byHeat := make([]int, len(blocks))
	for i := range byHeat {
		byHeat[i] = i
	}
	slices.SortStableFunc(byHeat, func(a, b int) int { return cmp.Compare(blocks[b].cycles, blocks[a].cycles) })
	shown := make([]bool, len(blocks))
	room := cmp.Or(l.Rows, maxListed)
	for k, b := range byHeat {
		hot := blocks[b].cycles >= coldShare*l.Of.Cycles && blocks[b].cycles > 0
		if (hot || len(blocks) <= 3) && (room >= blocks[b].insts || k == 0) {
			room -= blocks[b].insts
			shown[b] = true
		}
	}
	for b := 0; b < len(blocks); { // what is not worth a fold of its own
		end, insts := b, 0
		for end < len(blocks) && !shown[end] {
			insts += blocks[end].insts
			end++
		}
		for ; b < end; b++ {
			shown[b] = insts <= min(fewFolded, room)
		}
		b++
	}
	var runs []run
	folded := 0
	for b := range blocks {
		if n := len(runs); n == 0 || runs[n-1].Folded == shown[b] {
			runs = append(runs, run{Folded: !shown[b]})
		}
		last := &runs[len(runs)-1]
		last.Blocks = append(last.Blocks, blocks[b])
	}
	for i := range runs {
		r := &runs[i]
		if !r.Folded {
			continue
		}
		insts, samples := 0, uint64(0)
		for k := range r.Blocks {
			insts += r.Blocks[k].insts
			samples += r.Blocks[k].samples
		}
		r.Left = l.Brief || folded+insts > maxFolded
		if !r.Left {
			folded += insts
		}
		r.Summary = fmt.Sprintf("%s, %s, %s: %s to %s", Plural(len(r.Blocks), "block"), Plural(insts, "instruction"),
			Plural(int(samples), "sample"), hex(r.Blocks[0].start), hex(r.Blocks[len(r.Blocks)-1].last))
	}
	return runs
}

// Plural prints so many of what is named, in the plural by an s.
func Plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return strconv.Itoa(n) + " " + what + "s"
}

// fill lists the instructions of b.
func (l *Code) fill(b *listedBlock) {
	at := ""
	for i := b.n; i < b.n+b.insts; i++ {
		t := &l.Of.Insts[i]
		in := listedInst{Addr: hex(t.Addr), Class: timeClass(t.Total / max(l.Of.Cycles, 1e-300)), Text: l.Image.Image.Text(t.Addr)}
		if t.Samples > 0 {
			in.Samples = Integer(t.Samples)
		}
		for _, e := range l.shownEvents() {
			cell := ""
			if n := e.at[t.Addr]; n > 0 {
				cell = Share(n, e.Samples)
			}
			in.Events = append(in.Events, cell)
		}
		if t.N > 0 && t.Total > 0 {
			in.Cycles = Ratio(t.Time)
		}
		if t.Least > 0 {
			in.Least = Ratio(t.Least)
		}
		if s, line := l.source(t.Addr); s != at && s != "" {
			in.Source, in.Line, at = s, line, s
		}
		in.Key, in.To = l.key(t.Addr), l.Calls[t.Addr]
		if share := t.Stall.Cycles * t.N / max(l.Of.Cycles, 1e-300); share >= bubbleShare {
			in.Bubble = newBubble(t, share)
		}
		b.Rows = append(b.Rows, in)
	}
}

// source names the line that an instruction comes from, and returns its text.
func (l *Code) source(a image.Addr) (name, text string) {
	if l.Lines == nil {
		return "", ""
	}
	frames := l.Lines.Frames(a)
	if len(frames) == 0 || frames[0].File == "" || frames[0].Line == 0 {
		return "", ""
	}
	s := fmt.Sprintf("%s:%d", slash.Base(frames[0].File), frames[0].Line)
	if len(frames) > 1 {
		s += " in " + l.Names.NameOf(frames[0].Func)
	}
	if l.Text != nil {
		text = strings.TrimSpace(l.Text(frames[0].File, int(frames[0].Line)))
	}
	return s, text
}

// key names the line that an instruction comes from to the pane of lines.
func (l *Code) key(a image.Addr) string {
	if l.Lines == nil || l.Times == nil {
		return ""
	}
	if frames := l.Lines.Frames(a); len(frames) > 0 {
		return l.Times.key(frames[0].File, frames[0].Line)
	}
	return ""
}

func newBubble(t *explain.InstTime, share float64) *bubble {
	b := &bubble{Cycles: Ratio(t.Stall.Cycles), Share: Percent(share), Class: timeClass(share), Width: max(2, units(share))}
	for k, c := range t.Stall.Culprits {
		if k == maxCulprits {
			b.More = len(t.Stall.Culprits) - k
			break
		}
		b.Culprits = append(b.Culprits, culprit(t, &c))
	}
	if t.Stall.Unexplained >= 0.01*t.Stall.Cycles {
		b.Culprits = append(b.Culprits, "unexplained "+Ratio(t.Stall.Unexplained))
	}
	return b
}

// culprit tells a cause, what it explains and the instruction that it is about.
func culprit(t *explain.InstTime, c *explain.Culprit) string {
	least, most := Ratio(c.Least), Ratio(c.Most)
	s := c.Cause.String() + " "
	switch {
	case c.Least < 0.005*c.Most:
		s += "up to " + most
	case least == most:
		s += most
	default:
		s += least + " to " + most
	}
	if c.From != 0 && c.From != t.Addr {
		s += " (" + hex(c.From) + ")"
	}
	return s
}

// timeClass assigns a share of the time its class on the scale of heat: each class is
// twice the one below, the hottest from a third on.
func timeClass(share float64) int {
	class := 0
	for limit := 1.0 / 3; class < classes && share < limit/float64(int(1)<<class); class++ {
	}
	return classes - class
}
