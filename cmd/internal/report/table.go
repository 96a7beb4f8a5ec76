package report

import (
	"html/template"
	"io"
	"strings"
	"unicode/utf8"
)

// A Column heads one column of a Table.
type Column struct {
	Name  string
	right bool
}

// Left is a column of words, Right one of numbers.
func Left(name string) Column  { return Column{Name: name} }
func Right(name string) Column { return Column{Name: name, right: true} }

// A Table is aligned text. Columns that may be long belong last, where their
// width costs nothing.
type Table struct {
	columns []Column
	rows    [][]string
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

// A Style says how text is printed.
type Style struct {
	Color    bool // for a terminal that takes colours
	Width    int  // characters that fit a line; 0 is any number
	Markdown bool // tables as GitHub's Markdown has them
}

// Write prints the table, its head in bold if color is set.
func (t *Table) Write(w io.Writer, color bool) error { return t.Print(w, Style{Color: color}) }

// Print prints the table in a style. Where it is too wide, words are cut in their middle.
func (t *Table) Print(w io.Writer, style Style) error {
	head := make([]string, len(t.columns))
	for i, c := range t.columns {
		head[i] = Clean(c.Name)
	}
	if style.Markdown {
		return t.markdown(w, head)
	}
	width := t.widths(head)
	if style.Width > 0 {
		t.fit(width, style.Width)
	}
	first := t.line(head, width)
	if style.Color {
		first = "\x1b[1m" + first + "\x1b[0m"
	}
	var b strings.Builder
	b.WriteString(first + "\n")
	for _, row := range t.rows {
		b.WriteString(t.line(row, width) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// markdown prints the table for GitHub, GitLab and what else reads their Markdown.
func (t *Table) markdown(w io.Writer, head []string) error {
	var b strings.Builder
	line := func(cells []string) {
		for _, cell := range cells {
			b.WriteString("| " + EscapeMarkdown(cell) + " ")
		}
		b.WriteString("|\n")
	}
	line(head)
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

// least is how far a column of words may be cut, in characters.
const least = 12

// fit makes columns of words narrower, the widest first, until all fit.
func (t *Table) fit(width []int, fits int) {
	over := 2*(len(width)-1) - fits
	for _, n := range width {
		over += n
	}
	for ; over > 0; over-- {
		widest := -1
		for i, n := range width {
			if !t.columns[i].right && n > least && (widest < 0 || n > width[widest]) {
				widest = i
			}
		}
		if widest < 0 {
			return
		}
		width[widest]--
	}
}

// Cut takes what is too much for width characters out of the middle of s.
func Cut(s string, width int) string {
	n := utf8.RuneCountInString(s)
	if n <= width || width < 1 {
		return s
	}
	r := []rune(s)
	head := (width - 1) / 2
	return string(r[:head]) + "…" + string(r[n-(width-1-head):])
}

// widths gives each column's width in characters.
func (t *Table) widths(head []string) []int {
	width := make([]int, len(t.columns))
	for i := range width {
		width[i] = utf8.RuneCountInString(head[i])
		for _, row := range t.rows {
			width[i] = max(width[i], utf8.RuneCountInString(row[i]))
		}
	}
	return width
}

// line aligns one row. No line ends in blanks.
func (t *Table) line(row []string, width []int) string {
	var b strings.Builder
	for i, cell := range row {
		cell = Cut(cell, width[i])
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

// HTML gives the table as markup. A first column of words heads its rows.
func (t *Table) HTML(caption string) (template.HTML, error) {
	type cell struct {
		Text        string
		Right, Head bool
	}
	var rows [][]cell
	for _, row := range t.rows {
		var cells []cell
		for i, text := range row {
			cells = append(cells, cell{text, t.columns[i].right, i == 0 && !t.columns[0].right})
		}
		rows = append(rows, cells)
	}
	var head []cell
	for _, c := range t.columns {
		head = append(head, cell{Clean(c.Name), c.right, true})
	}
	return markup("table.tmpl", map[string]any{"Caption": caption, "Head": head, "Rows": rows})
}
