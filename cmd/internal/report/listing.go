package report

import (
	"io"
	"slices"
	"strings"
	"unicode/utf8"
)

// An Ink is how a line of a Listing is drawn where there are colours.
type Ink uint8

const (
	Plain Ink = iota
	Dim       // what is beside the matter
	Loud      // what is the matter
)

var inkCodes = [...]string{Plain: "", Dim: "\x1b[2m", Loud: "\x1b[33m"}

// A Listing is aligned rows with lines of text between them, such as annotated code.
type Listing struct {
	table *Table
	notes map[int][]note // before a row, or after the last
}

// A note is a line of text that starts where a column does.
type note struct {
	ink    Ink
	column int
	text   string
}

// NewListing makes a listing without rows.
func NewListing(columns ...Column) *Listing {
	return &Listing{table: NewTable(columns...), notes: map[int][]note{}}
}

// Row appends a row, a cell per column. The last may be long.
func (l *Listing) Row(cells ...string) { l.table.Row(cells...) }

// Note appends a line of text that starts where a column does.
func (l *Listing) Note(ink Ink, column int, text string) {
	row := len(l.table.rows)
	l.notes[row] = append(l.notes[row], note{ink, column, Clean(text)})
}

// Print prints the listing. Where it is too wide, columns are left out, which is said below it, and
// words are shortened; notes lose their end. In Markdown it is code, for its columns to hold.
func (l *Listing) Print(w io.Writer, style Style) error {
	var b strings.Builder
	if style.Markdown {
		style.Color, style.Width = false, 0
		b.WriteString("```\n")
	}
	t, kept, hidden := l.table.fitting(style.Width)
	width := t.widths()
	t.fit(width, style.Width)
	start := make([]int, len(l.table.columns)) // of each column, also where that is not there
	for i, at := 0, 0; i < len(start); i++ {
		start[i] = at
		if k := slices.Index(kept, i); k >= 0 {
			at += width[k] + 2
		}
	}
	line := func(code, text string) {
		text = cutEnd(strings.TrimRight(text, " "), style.Width)
		if style.Color && code != "" {
			text = code + text + "\x1b[0m"
		}
		b.WriteString(text + "\n")
	}
	line("\x1b[1m", t.line(t.head(), width))
	for i := 0; i <= len(t.rows); i++ {
		for _, n := range l.notes[i] {
			for k, text := range n.lines(style.Width - start[n.column]) {
				line(inkCodes[n.ink], strings.Repeat(" ", start[n.column]+2*min(k, 1))+text)
			}
		}
		if i < len(t.rows) {
			line("", t.line(t.rows[i], width))
		}
	}
	b.WriteString(hiddenLine(hidden, style))
	if style.Markdown {
		b.WriteString("```\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// lines divides a note that is loud into what has room in lines of so many characters, between its
// parts. The others are source, which may lose its end.
func (n *note) lines(width int) []string {
	if n.ink != Loud || width < 20 {
		return []string{n.text}
	}
	var all []string
	for text := n.text; ; width = max(20, width-2) {
		at := -1
		if utf8.RuneCountInString(text) > width {
			at = strings.LastIndex(string([]rune(text)[:width]), ", ")
		}
		if at < 0 {
			return append(all, text)
		}
		all, text = append(all, text[:at+1]), text[at+2:]
		if len(all) > 1 {
			width += 2 // once is enough
		}
	}
}

// cutEnd takes what is too much for width characters off the end of s; 0 is any number.
func cutEnd(s string, width int) string {
	if width <= 0 || utf8.RuneCountInString(s) <= width {
		return s
	}
	return string([]rune(s)[:width-1]) + "…"
}
