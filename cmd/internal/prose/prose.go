package prose

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// item is what an item of a list begins with. A longer number is the end of a sentence.
var item = regexp.MustCompile(`^(-|[1-9][0-9]?\.) `)

// Wrap fills the paragraphs and list items of text to width. Code stays as it is. Tables are
// aligned where they fit, and else printed row by row; so are definitions, which commands' help has: a term,
// two spaces or more, what it means, and further lines of that, which are indented. It is for the Markdown of
// help, not for any.
func Wrap(text string, width int) string {
	var b strings.Builder
	var para, table []string
	var defs []definition
	flush := func() {
		if len(para) > 0 {
			Fill(&b, strings.Join(para, " "), "", strings.Repeat(" ", len(item.FindString(para[0]))), width)
		}
		if len(table) > 0 {
			printTable(&b, table, width)
		}
		printDefinitions(&b, defs, width)
		para, table, defs = nil, nil, nil
	}
	all := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	for i, line := range all {
		indented := strings.HasPrefix(line, " ")
		switch {
		case strings.HasPrefix(line, "|"):
			table = append(table, line)
			continue
		case strings.HasPrefix(line, "<!--"):
			continue
		case indented && len(defs) > 0:
			defs[len(defs)-1].add(line)
			continue
		case line == "" || strings.HasPrefix(line, "#") || indented && len(para) == 0 || strings.HasPrefix(line, "    "):
			flush()
			b.WriteString(line + "\n")
			continue
		case item.MatchString(line):
			flush()
		}
		if term, meaning, ok := Defined(line, len(defs) > 0, all[i+1:]); ok {
			if len(defs) == 0 {
				flush()
			}
			defs = append(defs, definition{term, meaning})
			continue
		}
		if len(defs) > 0 {
			flush()
		}
		para = append(para, strings.TrimSpace(line))
	}
	flush()
	return b.String()
}

// A definition is a term and what it means.
type definition struct{ term, meaning string }

func (d *definition) add(line string) {
	d.meaning = strings.TrimSpace(d.meaning + " " + strings.TrimSpace(line))
}

// Defined takes apart a line that begins a definition. Among others, one may be a term alone, if what it means
// follows.
func Defined(line string, among bool, next []string) (term, meaning string, ok bool) {
	if item.MatchString(line) || strings.HasPrefix(line, " ") { // an item of a list, and what goes on in one
		return "", "", false
	}
	if term, meaning, ok := strings.Cut(line, "  "); ok && len(term) < 24 && strings.TrimSpace(meaning) != "" {
		return term, strings.TrimSpace(meaning), true
	}
	return line, "", among && len(strings.Fields(line)) == 1 && len(next) > 0 && strings.HasPrefix(next[0], "  ")
}

// maxTerm is the width up to which a term shares its line with its meaning.
const maxTerm = 13

// printDefinitions prints terms and, beside or below them, what they mean.
func printDefinitions(b *strings.Builder, defs []definition, width int) {
	column := 0
	for _, d := range defs {
		if len(d.term) <= maxTerm {
			column = max(column, len(d.term))
		}
	}
	if column == 0 {
		column = 4
	}
	indent := strings.Repeat(" ", column+2)
	for _, d := range defs {
		if len(d.term) > column {
			b.WriteString(d.term + "\n")
			Fill(b, d.meaning, indent, indent, width)
			continue
		}
		Fill(b, d.meaning, fmt.Sprintf("%-*s ", column, d.term), indent, width)
	}
}

// Fill writes the words of text in lines of at most width columns, of which only a longer word makes
// more. The first follows what first has, all others an indent.
func Fill(b *strings.Builder, text, first, indent string, width int) {
	line, empty := first, strings.TrimSpace(first) == ""
	for _, word := range strings.Fields(text) {
		if !empty && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line, empty = indent, true
		}
		if !empty {
			line += " "
		}
		line += word
		empty = false
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

// cells returns the cells of a row of a Markdown table.
func cells(line string) []string {
	const bar = "\x00"
	line = strings.ReplaceAll(line, `\|`, bar)
	var cells []string
	for _, cell := range strings.Split(strings.Trim(line, "|"), "|") {
		cells = append(cells, strings.ReplaceAll(strings.TrimSpace(cell), bar, "|"))
	}
	return cells
}

// printTable prints a Markdown table whose second line is a rule.
func printTable(b *strings.Builder, lines []string, width int) {
	var rows [][]string
	for i, line := range lines {
		if i != 1 {
			rows = append(rows, cells(line))
		}
	}
	for _, heads := range [][][]string{rows[:1], headLines(rows)} {
		whole := slices.Concat(heads, rows[1:])
		widths := columnWidths(whole)
		total := -2
		for _, w := range widths {
			total += w + 2
		}
		if total > width {
			continue
		}
		for _, row := range whole {
			line := ""
			for k, cell := range row {
				line += cell + strings.Repeat(" ", widths[k]-utf8.RuneCountInString(cell)+2)
			}
			b.WriteString(strings.TrimRight(line, " ") + "\n")
		}
		return
	}
	// Too wide: each row is its first cell, and the others below it after the heads of their columns.
	for i, row := range rows[1:] {
		if i > 0 && len(row) > 2 {
			b.WriteString("\n")
		}
		Fill(b, row[0], "", "  ", width)
		for k, cell := range row[1:] {
			if len(row) > 2 && k+1 < len(rows[0]) {
				cell = rows[0][k+1] + ": " + cell
			}
			Fill(b, cell, "    ", "      ", width)
		}
	}
}

// columnWidths are those of the widest cells.
func columnWidths(rows [][]string) (widths []int) {
	for _, row := range rows {
		for k, cell := range row {
			if k == len(widths) {
				widths = append(widths, 0)
			}
			widths[k] = max(widths[k], utf8.RuneCountInString(cell))
		}
	}
	return widths
}

// headLines are the heads of columns, the first row, in as many rows as it takes to make no column wider than its cells or a word.
func headLines(rows [][]string) (heads [][]string) {
	widths, most := append(columnWidths(rows[1:]), make([]int, len(rows[0]))...), 0
	columns := make([][]string, len(rows[0]))
	for k, head := range rows[0] {
		line, words := "", strings.Fields(head)
		for _, word := range words {
			widths[k] = max(widths[k], utf8.RuneCountInString(word))
		}
		for _, word := range words {
			if line != "" && utf8.RuneCountInString(line+" "+word) > widths[k] {
				columns[k], line = append(columns[k], line), ""
			}
			line = strings.TrimSpace(line + " " + word)
		}
		columns[k] = append(columns[k], line)
		most = max(most, len(columns[k]))
	}
	for i := range most {
		row := make([]string, len(columns))
		for k, lines := range columns {
			if at := i - (most - len(lines)); at >= 0 { // the last words stand above the cells
				row[k] = lines[at]
			}
		}
		heads = append(heads, row)
	}
	return heads
}

// FillBracketed is Fill of a synopsis: what is in brackets stays on one line.
func FillBracketed(b *strings.Builder, text, first, next string, width int) {
	one, depth := []byte(text), 0
	for i, c := range one {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ' ' && depth > 0:
			one[i] = 0
		}
	}
	var filled strings.Builder
	Fill(&filled, string(one), first, next, width)
	b.WriteString(strings.ReplaceAll(filled.String(), "\x00", " "))
}
