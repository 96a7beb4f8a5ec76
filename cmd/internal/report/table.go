package report

import (
	"html/template"
	"io"
	"strings"
	"unicode/utf8"

	"backfeed/infer"
)

// A Column heads one column of a Table.
type Column struct {
	Name  string
	right bool
	cut   func(s string, width int) string // shortens a cell
	least int                              // characters that it keeps while there are columns to leave out
	main  bool
	drop  int    // 0 is never, 1 before 2
	wrap  bool   // a cell may have several lines; of the last column only
	about string // in pages, cells are confidences, which are badges about this
	less  bool   // left out of pages on narrow screens
}

// Left is a column of words, Right one of numbers, which are never shortened. Procedures, Paths and
// Instructions are columns of words that are shortened as what they are.
func Left(name string) Column         { return Column{Name: name, cut: Cut, least: 12} }
func Right(name string) Column        { return Column{Name: name, right: true} }
func Procedures(name string) Column   { return Column{Name: name, cut: CutName, least: 16} }
func Paths(name string) Column        { return Column{Name: name, cut: CutPath, least: 12} }
func Instructions(name string) Column { return Column{Name: name, cut: CutInstruction, least: 26} }

// Sentences is a last column of sentences, which go on in further lines where they have no room.
func Sentences(name string) Column { return Column{Name: name, cut: Cut, least: 30, wrap: true} }

// Main makes c the column that the table is about: it is the last to be shortened.
func (c Column) Main() Column {
	c.main = true
	return c
}

// Confidence is a column of confidences in pages; about says of what they are.
func Confidence(name, about string) Column {
	return Column{Name: name, cut: Cut, least: 6, about: about}
}

// Less has c left out on narrow screens.
func (c Column) Less() Column {
	c.less = true
	return c
}

// Drop has c left out where the table is too wide for its line, columns of low order first.
func (c Column) Drop(order int) Column {
	c.drop = order
	return c
}

// A Table is aligned text. Columns that may be long belong last, where their
// width costs nothing.
type Table struct {
	columns []Column
	rows    [][]string
	links   map[int]string // in pages, of the main column's cell, by row
}

// NewTable makes a table without rows.
func NewTable(columns ...Column) *Table { return &Table{columns: columns} }

// Row appends one row, a cell per column. Cells may come from files that nobody
// checked, so what a terminal would act on is escaped.
func (t *Table) Row(cells ...string) {
	row := make([]string, len(t.columns))
	for i := range row {
		if i < len(cells) {
			row[i] = Clean(cells[i])
		}
	}
	t.rows = append(t.rows, row)
}

// Link has the main column's cell of the last row lead somewhere in pages.
func (t *Table) Link(href string) {
	if t.links == nil {
		t.links = map[int]string{}
	}
	t.links[len(t.rows)-1] = href
}

// A Style says how text is printed.
type Style struct {
	Color    bool // for a terminal that takes colours
	Width    int  // characters that fit a line; 0 is any number
	Markdown bool // tables as GitHub's Markdown has them
	Mangled  bool // procedures have the names that the linker knows
}

// Write prints the table, its head in bold if color is set.
func (t *Table) Write(w io.Writer, color bool) error { return t.Print(w, Style{Color: color}) }

// Print prints the table in a style. Where it is too wide, columns are left out, which is said
// below it, and words are shortened.
func (t *Table) Print(w io.Writer, style Style) error {
	if style.Markdown {
		return t.markdown(w)
	}
	t, _, hidden := t.fitting(style.Width)
	width := t.widths()
	t.fit(width, style.Width)
	first := t.line(t.head(), width)
	if style.Color {
		first = "\x1b[1m" + first + "\x1b[0m"
	}
	var b strings.Builder
	b.WriteString(first + "\n")
	for _, row := range t.rows {
		for _, part := range t.parts(row, width) {
			b.WriteString(t.line(part, width) + "\n")
		}
	}
	b.WriteString(hiddenLine(hidden, style))
	_, err := io.WriteString(w, b.String())
	return err
}

// markdown prints the table for GitHub, GitLab and what else reads their Markdown.
func (t *Table) markdown(w io.Writer) error {
	var b strings.Builder
	line := func(cells []string) {
		for _, cell := range cells {
			b.WriteString("| " + EscapeMarkdown(cell) + " ")
		}
		b.WriteString("|\n")
	}
	line(t.head())
	for _, c := range t.columns {
		if c.right {
			b.WriteString("| ---: ")
		} else {
			b.WriteString("| --- ")
		}
	}
	b.WriteString("|\n")
	for _, row := range t.rows {
		line(row)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// head are the names of the columns.
func (t *Table) head() []string {
	head := make([]string, len(t.columns))
	for i, c := range t.columns {
		head[i] = Clean(c.Name)
	}
	return head
}

// widths returns each column's width in characters.
func (t *Table) widths() []int {
	width := make([]int, len(t.columns))
	for i, name := range t.head() {
		width[i] = utf8.RuneCountInString(name)
		for _, row := range t.rows {
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
	}
	return width
}

// parts divides a row whose last cell is a sentence that is too long for its column.
func (t *Table) parts(row []string, width []int) [][]string {
	last := len(row) - 1
	if last < 0 || !t.columns[last].wrap || utf8.RuneCountInString(row[last]) <= width[last] {
		return [][]string{row}
	}
	var text strings.Builder
	w := Wrap(&text, width[last])
	io.WriteString(w, row[last])
	w.Flush()
	var parts [][]string
	for i, line := range strings.Split(text.String(), "\n") {
		part := make([]string, len(row))
		if i == 0 {
			copy(part, row)
		}
		part[last] = line
		parts = append(parts, part)
	}
	return parts
}

// line aligns one row. No line ends in blanks.
func (t *Table) line(row []string, width []int) string {
	var b strings.Builder
	for i, cell := range row {
		if t.columns[i].cut != nil {
			cell = t.columns[i].cut(cell, width[i])
		}
		pad := strings.Repeat(" ", width[i]-utf8.RuneCountInString(cell))
		if i > 0 {
			b.WriteString("  ")
		}
		if t.columns[i].right {
			b.WriteString(pad + cell)
		} else {
			b.WriteString(cell + pad)
		}
	}
	return strings.TrimRight(b.String(), " ")
}

// HTML returns the table as markup. A first column of words heads its rows.
func (t *Table) HTML(caption string) (template.HTML, error) {
	type cell struct {
		Text              string
		Right, Head, Less bool
		Href              string
		Name              bool          // of code or a file, in which lines may end
		Badge             template.HTML // in place of Text
	}
	var rows [][]cell
	for n, row := range t.rows {
		var cells []cell
		for i, text := range row {
			col := t.columns[i]
			c := cell{Text: text, Right: col.right, Head: i == 0 && !t.columns[0].right, Less: col.less, Name: col.main}
			if col.main {
				c.Href = t.links[n]
			}
			if conf, ok := confidenceNamed(text); ok && col.about != "" {
				c.Badge = Badge(conf, col.about)
			}
			cells = append(cells, c)
		}
		rows = append(rows, cells)
	}
	var head []cell
	for _, c := range t.columns {
		head = append(head, cell{Text: Clean(c.Name), Right: c.right, Head: true, Less: c.less})
	}
	return markup("table.tmpl", map[string]any{"Caption": caption, "Head": head, "Rows": rows})
}

// confidenceNamed returns the confidence of that name.
func confidenceNamed(name string) (infer.Confidence, bool) {
	for _, c := range Confidences {
		if c.String() == name {
			return c, true
		}
	}
	return infer.None, false
}
