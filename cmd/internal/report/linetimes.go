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

// Lines tell which lines of source an instruction is of: those of the innermost inlined function
// first. An image.Lines is one.
type Lines interface {
	Frames(image.Addr) []image.Frame
}

// LineTimes is the time of a procedure by line of source: its own lines and those of what
// is inlined in it, each of the innermost function.
type LineTimes struct {
	of    *explain.Explanation
	files []fileTime // most time first
	at    map[lineKey]*lineTime
}

type lineKey struct {
	file string
	line int
}

type fileTime struct {
	name   string
	cycles float64
	lines  []*lineTime // by number
}

type lineTime struct {
	lineKey
	file     int // index into files
	cycles   float64
	samples  uint64
	most     int // the instruction with the most time, index into Insts
	ran      float64
	within   infer.Confidence // of ran
	known    bool             // that it ran, or did not
	causes   map[explain.Cause]float64
	function string
}

// NewLineTimes sums e up by line; it returns nil if no instruction has one.
func NewLineTimes(e *explain.Explanation, lines Lines) *LineTimes {
	if lines == nil {
		return nil
	}
	l := &LineTimes{of: e, at: map[lineKey]*lineTime{}}
	files := map[string]int{}
	for i := range e.Insts {
		t := &e.Insts[i]
		frames := lines.Frames(t.Addr)
		if len(frames) == 0 || frames[0].File == "" || frames[0].Line == 0 {
			continue
		}
		key := lineKey{frames[0].File, frames[0].Line}
		line := l.at[key]
		if line == nil {
			k, seen := files[key.file]
			if !seen {
				k = len(l.files)
				files[key.file] = k
				l.files = append(l.files, fileTime{name: key.file})
			}
			line = &lineTime{lineKey: key, most: i}
			l.at[key] = line
			l.files[k].lines = append(l.files[k].lines, line)
		}
		line.add(e, i, frames)
		l.files[files[key.file]].cycles += t.Total
	}
	if len(l.files) == 0 {
		return nil
	}
	slices.SortStableFunc(l.files, func(a, b fileTime) int { return cmp.Or(cmp.Compare(b.cycles, a.cycles), cmp.Compare(a.name, b.name)) })
	for i := range l.files {
		slices.SortFunc(l.files[i].lines, func(a, b *lineTime) int { return cmp.Compare(a.line, b.line) })
		for _, line := range l.files[i].lines {
			line.file = i
		}
	}
	return l
}

// add adds instruction i.
func (l *lineTime) add(e *explain.Explanation, i int, frames []image.Frame) {
	t := &e.Insts[i]
	l.cycles += t.Total
	l.samples += t.Samples
	if t.Total > e.Insts[l.most].Total {
		l.most = i
	}
	if f := e.Result.Block[t.Block]; f.Conf != infer.None && (!l.known || f.N > l.ran) {
		l.ran, l.within, l.known = f.N, f.Within, true
	}
	if len(t.Stall.Culprits) > 0 {
		if l.causes == nil {
			l.causes = map[explain.Cause]float64{}
		}
		l.causes[t.Stall.Culprits[0].Cause] += t.Stall.Culprits[0].Most * t.N
	}
	if len(frames) > 1 {
		l.function = frames[0].Func
	}
}

// key names the line of an instruction in the attributes of a page: file and number.
func (l *LineTimes) key(file string, line int) string {
	if l == nil {
		return ""
	}
	t := l.at[lineKey{file, line}]
	if t == nil {
		return ""
	}
	return strconv.Itoa(t.file) + "-" + strconv.Itoa(t.line)
}

// A LinePane shows LineTimes: the lines that instructions are of, and, where their text is
// known, those between and around.
type LinePane struct {
	Times  *LineTimes
	Text   func(file string, line int) (string, bool) // nil if there is no source
	Prefix string                                     // of ids, as that of the Code
	Names  Style
}

const (
	maxPaneLines = 1500 // lines shown
	maxPaneGap   = 8    // lines without code of the procedure that are shown between others
	paneAround   = 2    // before the first and behind the last of a stretch
)

type paneFile struct {
	Name, Base, Share string
	Rows              []paneRow
}

type paneRow struct {
	ID, Key, Href string // of a line with instructions
	N             int
	Gap           int // lines left out before it
	Class         int
	Share         string
	Ran           string
	Within        infer.Confidence
	Known         bool
	Cause         string
	Text          string
	In            string // the inlined function
}

// HTML returns the pane as markup.
func (p *LinePane) HTML() (template.HTML, error) {
	l := p.Times
	var files []paneFile
	room, left := maxPaneLines, 0
	for i := range l.files {
		f := &l.files[i]
		if room <= 0 {
			left++
			continue
		}
		out := paneFile{Name: f.name, Base: slash.Base(f.name), Share: share(f.cycles, l.of.Cycles)}
		last, in := int(0), ""
		for k, line := range f.lines {
			switch {
			case k == 0:
				p.around(&out, f.name, line.line-paneAround, line.line-1)
			case line.line-last <= maxPaneGap:
				p.around(&out, f.name, last+1, line.line-1)
			default:
				p.around(&out, f.name, last+1, last+paneAround)
				p.around(&out, f.name, line.line-paneAround, line.line-1)
			}
			row := p.row(line)
			if in, row.In = row.In, changed(in, row.In); row.Text != "" {
				row.Gap = out.gap(line.line)
			}
			out.Rows = append(out.Rows, row)
			last = line.line
			if room--; room == 0 && k+1 < len(f.lines) {
				left++
				break
			}
		}
		p.around(&out, f.name, last+1, last+paneAround)
		files = append(files, out)
	}
	return markup("lines.tmpl", map[string]any{"Files": files, "Left": left, "Name": p.Names.NameOf(l.of.Result.Proc.Name)})
}

// changed returns now if it is not before.
func changed(before, now string) string {
	if now == before {
		return ""
	}
	return now
}

// gap is how many lines are left out before line n.
func (f *paneFile) gap(n int) int {
	if len(f.Rows) == 0 {
		return 0
	}
	return n - f.Rows[len(f.Rows)-1].N - 1
}

// around appends the lines from one to another that have text.
func (p *LinePane) around(out *paneFile, file string, from, to int) {
	for n := max(1, from); n <= to; n++ {
		if text, ok := p.text(file, n); ok {
			out.Rows = append(out.Rows, paneRow{N: n, Text: text, Gap: out.gap(n)})
		}
	}
}

// text returns a line with its indentation, tabs as blanks.
func (p *LinePane) text(file string, line int) (string, bool) {
	if p.Text == nil {
		return "", false
	}
	text, ok := p.Text(file, line)
	return strings.ReplaceAll(strings.TrimRight(text, " \t\r\n"), "\t", "    "), ok
}

func (p *LinePane) row(line *lineTime) paneRow {
	e := p.Times.of
	key := p.Times.key(line.lineKey.file, line.line)
	row := paneRow{
		ID: p.Prefix + "l" + key, Key: key, N: line.line, Href: "#" + blockID(p.Prefix, e.Result.Proc.Blocks[e.Insts[line.most].Block].Start),
		Class: timeClass(line.cycles / max(e.Cycles, 1e-300)), Ran: "-", Within: line.within, Known: line.known,
	}
	if line.cycles > 0 {
		row.Share = share(line.cycles, e.Cycles)
	}
	if line.known {
		row.Ran = Count(line.ran)
	}
	if c, ok := foremost(line.causes); ok && line.cycles >= coldShare*e.Cycles {
		row.Cause = c.String()
	}
	row.Text, _ = p.text(line.lineKey.file, line.line)
	if line.function != "" {
		row.In = fmt.Sprintf("inlined: %s", p.Names.NameOf(line.function))
	}
	return row
}
