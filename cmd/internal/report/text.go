package report

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Recordings and images name things as they like: events, losses, images, symbols, source files,
// segments. Whatever of that reaches people goes through Clean, or through what is built on it: the
// cells of tables, Fprintf, EscapeMarkdown, WriteCSV and, for JSON, EscapeJSON. Guard stands behind
// them, for what was forgotten.

// Clean makes s safe and one line: what is no printable character, by strconv.IsPrint, appears as Go
// would write it. That is control characters with ESC and those of C1, line ends, marks that turn
// the direction of text, other characters without a shape, and bytes that are not UTF-8.
func Clean(s string) string {
	if utf8.ValidString(s) && strings.IndexFunc(s, hidden) < 0 {
		return s
	}
	q := strconv.Quote(s)
	return strings.ReplaceAll(q[1:len(q)-1], `\"`, `"`)
}

// hidden reports whether a terminal would show r as something else, or not at all.
func hidden(r rune) bool { return !strconv.IsPrint(r) }

// Text makes s safe to print in the style.
func (s Style) Text(text string) string {
	if s.Markdown {
		return EscapeMarkdown(text)
	}
	return Clean(text)
}

// Fprintf prints to w as fmt does, with each argument made safe; lines end where format has it.
func Fprintf(w io.Writer, style Style, format string, args ...any) (int, error) {
	return io.WriteString(w, Sprintf(style, format, args...))
}

// Sprintf is Fprintf into a string.
func Sprintf(style Style, format string, args ...any) string {
	safe := make([]any, len(args))
	for i, a := range args {
		safe[i] = argument{a, style}
	}
	return fmt.Sprintf(format, safe...)
}

// An argument is formatted, and then made safe.
type argument struct {
	v     any
	style Style
}

func (a argument) Format(f fmt.State, verb rune) {
	io.WriteString(f, a.style.Text(fmt.Sprintf(fmt.FormatString(f, verb), a.v)))
}

// linked is what forges make links or mentions of, also where their characters are escaped.
var linked = regexp.MustCompile(`(?i)://|www\.|@|mailto:|xmpp:`)

// EscapeMarkdown makes s text that stands as it is in a cell of a table: nothing in it
// is markup, HTML, a link or a mention.
func EscapeMarkdown(s string) string {
	s = Clean(s)
	if linked.MatchString(s) {
		return MarkdownCode(s)
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case strings.ContainsRune("\\`*_{}[]|~#$", r):
			b.WriteRune('\\')
			b.WriteRune(r)
		case r == '<':
			b.WriteString("&lt;")
		case r == '>':
			b.WriteString("&gt;")
		case r == '&':
			b.WriteString("&amp;")
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

var backquotes = regexp.MustCompile("`+")

// MarkdownCode makes s a code span, which nothing in it ends: its marks are longer than any run of
// them in s. It may stand in a table.
func MarkdownCode(s string) string {
	s = strings.ReplaceAll(Clean(s), "|", `\|`)
	mark := "`"
	for _, run := range backquotes.FindAllString(s, -1) {
		if len(run) >= len(mark) {
			mark = strings.Repeat("`", len(run)+1)
		}
	}
	if len(mark) > 1 || strings.TrimSpace(s) == "" {
		return mark + " " + s + " " + mark // a space at either end is taken off
	}
	return mark + s + mark
}

// formula begins a cell that a spreadsheet computes (OWASP, CSV Injection), also in the wide forms
// of these characters.
const formula = "=+-@\t\r＝＋－＠"

// csvText makes text a cell that is shown as it is: a formula is told to be text by a quote. Numbers
// stay: they compute to themselves.
func csvText(s string) string {
	clean := Clean(s)
	if first, _ := utf8.DecodeRuneInString(s); s == "" || !strings.ContainsRune(formula, first) {
		return clean
	}
	if _, err := strconv.ParseFloat(s, 64); err == nil {
		return clean
	}
	return "'" + clean
}

// EscapeJSON writes JSON on to w, in the same values, with what a terminal or a browser would not
// show escaped as \u and four digits. Flush it at the end.
func EscapeJSON(w io.Writer) *Escaper { return &Escaper{w: w, escape: escapeJSON} }

func escapeJSON(to, text []byte, r rune) ([]byte, int) {
	_, n := utf8.DecodeRune(text)
	switch {
	case r == utf8.RuneError && n == 1: // a byte that is not UTF-8
	case r < utf8.RuneSelf && r != 0x7f, !hidden(r):
		return append(to, text[:n]...), n
	case r > 0xffff:
		high, low := utf16.EncodeRune(r)
		return fmt.Appendf(to, `\u%04x\u%04x`, high, low), n
	}
	return fmt.Appendf(to, `\u%04x`, r), n
}

// Guard writes text on to w, with all escaped but what is printed, ends of lines, tabs and colours. It
// is the last resort: ends of lines within names pass it, and only Clean sees those. Flush it at the
// end.
func Guard(w io.Writer, color bool) *Escaper {
	return &Escaper{w: w, escape: func(to, text []byte, r rune) ([]byte, int) {
		if r == '\n' || r == '\t' {
			return append(to, byte(r)), 1
		}
		if m := colors.Find(text); color && r == '\x1b' && m != nil {
			return append(to, m...), len(m)
		}
		_, n := utf8.DecodeRune(text)
		return append(to, Clean(string(text[:n]))...), n
	}}
}

var colors = regexp.MustCompile(`^\x1b\[[0-9;]*m`)

// Wrap writes text on to w, in lines of at most width characters that end between words; colours
// have no width. A word that is longer, such as a path, keeps a line of its own. Flush it at the end.
func Wrap(w io.Writer, width int) *Wrapper { return &Wrapper{w: w, width: width} }

// A Wrapper breaks lines.
type Wrapper struct {
	w     io.Writer
	width int
	line  []byte
}

func (w *Wrapper) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		i := bytes.IndexByte(rest, '\n')
		if i < 0 {
			w.line = append(w.line, rest...)
			break
		}
		w.line = append(w.line, rest[:i+1]...)
		rest = rest[i+1:]
		if err := w.Flush(); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// Flush writes what is left: a line without its end.
func (w *Wrapper) Flush() error {
	text := string(w.line)
	w.line = w.line[:0]
	indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
	for {
		at := w.end(text, len(indent))
		if at < 0 {
			_, err := io.WriteString(w.w, text)
			return err
		}
		if _, err := io.WriteString(w.w, strings.TrimRight(text[:at], " ")+"\n"); err != nil {
			return err
		}
		text = indent + strings.TrimLeft(text[at:], " ")
	}
}

// end is where a line has to end, at a blank, or -1.
func (w *Wrapper) end(line string, indent int) int {
	n, blank := 0, -1
	for i := 0; i < len(line); {
		if c := colors.FindString(line[i:]); c != "" {
			i += len(c)
			continue
		}
		r, size := utf8.DecodeRuneInString(line[i:])
		switch {
		case r == '\n':
			return -1
		case r == ' ' && i >= indent && i > 0:
			if n >= w.width && blank < 0 {
				return i
			}
			blank = i
		}
		if n++; n > w.width && blank > 0 {
			return blank
		}
		i += size
	}
	return -1
}

// An Escaper rewrites the characters of a text.
type Escaper struct {
	w      io.Writer
	escape func(to, text []byte, r rune) (out []byte, n int) // appends the first n bytes of text, which begins with r, to to
	rest   []byte                                            // the beginning of a character
	out    []byte
}

func (e *Escaper) Write(p []byte) (int, error) {
	text := p
	if len(e.rest) > 0 {
		text = append(e.rest, p...)
	}
	e.out = e.out[:0]
	for len(text) > 0 && utf8.FullRune(text) {
		if plain := plainLen(text); plain > 0 {
			e.out, text = append(e.out, text[:plain]...), text[plain:]
			continue
		}
		r, _ := utf8.DecodeRune(text)
		var n int
		e.out, n = e.escape(e.out, text, r)
		text = text[n:]
	}
	e.rest = append([]byte(nil), text...)
	if _, err := e.w.Write(e.out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// plainLen returns how many bytes text begins with that are printable ASCII.
func plainLen(text []byte) (n int) {
	const low, high = 0x0101010101010101, 0x8080808080808080
	for ; len(text)-n >= 8; n += 8 {
		v := binary.LittleEndian.Uint64(text[n:])
		if below, above := v-' '*low, v+low; (below|above|v)&high != 0 { // borrows and carries come of what is not plain
			break
		}
	}
	for n < len(text) && text[n] >= ' ' && text[n] < 0x7f {
		n++
	}
	return n
}

// Flush writes what is left: bytes that begin a character and do not end it.
func (e *Escaper) Flush() error {
	var out []byte
	for len(e.rest) > 0 {
		var n int
		out, n = e.escape(out, e.rest, utf8.RuneError)
		e.rest = e.rest[n:]
	}
	_, err := e.w.Write(out)
	return err
}
