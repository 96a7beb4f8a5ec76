package report

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// shortest is how far any column of words may be shortened, in characters.
const shortest = 6

// fitting returns the table with the columns that have room in a line of so many characters, which
// columns those are, and the names of the others. 0 has room for all.
func (t *Table) fitting(fits int) (_ *Table, kept []int, hidden []string) {
	full := t.widths()
	need := -2 // characters at least
	for i, c := range t.columns {
		kept = append(kept, i)
		need += 2 + c.atLeast(full[i])
	}
	for fits > 0 && need > fits {
		first := -1
		for k, i := range kept {
			if drop := t.columns[i].drop; drop > 0 && (first < 0 || drop < t.columns[kept[first]].drop) {
				first = k
			}
		}
		if first < 0 {
			break
		}
		i := kept[first]
		need -= 2 + t.columns[i].atLeast(full[i])
		kept = slices.Delete(kept, first, first+1)
	}
	if len(kept) == len(t.columns) {
		return t, kept, nil
	}
	u := &Table{rows: make([][]string, len(t.rows))}
	for i, c := range t.columns {
		if !slices.Contains(kept, i) {
			hidden = append(hidden, Clean(c.Name))
			continue
		}
		u.columns = append(u.columns, c)
		for k, row := range t.rows {
			u.rows[k] = append(u.rows[k], row[i])
		}
	}
	return u, kept, hidden
}

// atLeast is the width that a column keeps while others can be left out.
func (c *Column) atLeast(full int) int {
	switch {
	case c.cut == nil:
		return full
	case c.main:
		return min(full, max(c.least, 24))
	}
	return min(full, c.least)
}

// fit makes columns of words narrower until all fit: down to what each should keep, then further,
// each time the widest first and the main one last.
func (t *Table) fit(width []int, fits int) {
	if fits <= 0 {
		return
	}
	over := 2*(len(width)-1) - fits
	for _, n := range width {
		over += n
	}
	full := slices.Clone(width)
	shrink := func(least func(i int) int) {
		for ; over > 0; over-- {
			widest := -1
			for i, n := range width {
				if t.columns[i].cut != nil && n > least(i) && (widest < 0 || n > width[widest]) {
					widest = i
				}
			}
			if widest < 0 {
				return
			}
			width[widest]--
		}
	}
	shrink(func(i int) int {
		if t.columns[i].wrap { // it loses nothing
			return t.columns[i].atLeast(full[i])
		}
		return width[i]
	})
	const roomy = 24
	shrink(func(i int) int { return max(roomy, t.columns[i].atLeast(full[i])+roomy/2) })
	shrink(func(i int) int {
		if t.columns[i].main {
			return width[i]
		}
		return t.columns[i].atLeast(full[i])
	})
	shrink(func(i int) int { return t.columns[i].atLeast(full[i]) })
	below := func(i int) int { return max(shortest, utf8.RuneCountInString(t.columns[i].Name)) }
	shrink(func(i int) int {
		if t.columns[i].main {
			return width[i]
		}
		return below(i)
	})
	shrink(below)
}

// hiddenLine says which columns a table lacks.
func hiddenLine(hidden []string, style Style) string {
	if len(hidden) == 0 {
		return ""
	}
	text := fmt.Sprintf("Hidden for want of room: %s.", strings.Join(hidden, ", "))
	if style.Color {
		return inkCodes[Dim] + text + "\x1b[0m\n"
	}
	return text + "\n"
}

// Cut takes what is too much for width characters out of the middle of s.
func Cut(s string, width int) string { return cutAt(s, width, width/2) }

// cutAt is Cut that keeps so many characters at the end.
func cutAt(s string, width, tail int) string {
	n := utf8.RuneCountInString(s)
	if n <= width || width < 1 {
		return s
	}
	r := []rune(s)
	return string(r[:width-1-tail]) + "…" + string(r[n-tail:])
}

// CutPath shortens a path to width characters: the names of directories go before the file's.
func CutPath(s string, width int) string {
	file := s[strings.LastIndexByte(s, '/')+1:]
	n := utf8.RuneCountInString(file)
	if n+2 > width && utf8.RuneCountInString(s) > width {
		return cutAt(file, width, width/3)
	}
	return cutAt(s, width, max(width/2, n+1))
}

// CutName shortens the name of a procedure to width characters. Template arguments and parameters
// go first, then scopes in the middle: a name is known by its end.
func CutName(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	s = withoutArguments(s)
	n := utf8.RuneCountInString(s)
	if n <= width {
		return s
	}
	tail := max(width/2, min(width-4, utf8.RuneCountInString(lastName(s))))
	return cutAt(s, width, min(tail, width-1))
}

// lastName is the end of a name from its last scope or package on.
func lastName(s string) string {
	last := 0
	for i := range len(s) - 1 {
		if s[i] == '/' || s[i:i+2] == "::" {
			last = i
		}
	}
	return s[last:]
}

// withoutArguments writes "…" for what stands in angle brackets, and leaves out the parameters of a
// name of C++ or Rust.
func withoutArguments(s string) string {
	var b strings.Builder
	depth := 0
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case strings.HasPrefix(s[i:], "operator<") || strings.HasPrefix(s[i:], "operator>") || strings.HasPrefix(s[i:], "operator-"):
			n := len("operator") + strings.IndexFunc(s[i+len("operator"):]+"x", func(r rune) bool { return !strings.ContainsRune("<>=-", r) })
			if depth == 0 {
				b.WriteString(s[i : i+n])
			}
			i += n - 1
		case c == '<':
			if depth == 0 {
				b.WriteString("<…>")
			}
			depth++
		case c == '>' && depth > 0:
			depth--
		case depth == 0:
			b.WriteByte(c)
		}
	}
	if depth != 0 { // no pairs: not template arguments
		return s
	}
	short := b.String()
	if i := strings.LastIndexByte(short, '('); i > 0 && strings.HasSuffix(short, ")") && short[i+1] != ')' && strings.Contains(short, "::") {
		return short[:i]
	}
	return short
}

// CutInstruction shortens an instruction to width characters: the name of what it refers to, then
// what stands behind its operands.
func CutInstruction(s string, width int) string {
	if utf8.RuneCountInString(s) <= width {
		return s
	}
	i, named := strings.IndexByte(s, '<'), strings.HasSuffix(s, ">")
	hash := strings.Index(s, "  # ")
	switch {
	case named && i > 0 && width-i-2 >= 8:
		return s[:i+1] + CutName(s[i+1:len(s)-1], width-i-2) + ">"
	case named && i > 0:
		return CutInstruction(strings.TrimRight(s[:i], " "), width)
	case hash > 0:
		return CutInstruction(s[:hash], width)
	}
	return Cut(s, width)
}
