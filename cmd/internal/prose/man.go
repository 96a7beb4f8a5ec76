package prose

import (
	"fmt"
	"strings"
)

// ManTables makes definitions of the rows of tables, which would be wider than a page.
func ManTables(text string) string {
	var b strings.Builder
	var heads []string
	row := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			row = 0
			b.WriteString(line)
			continue
		}
		cells := cells(strings.TrimSuffix(line, "\n"))
		switch row++; {
		case row == 1:
			heads = cells
		case row > 2:
			fmt.Fprintf(&b, "\n**%s**\n: ", strings.Trim(cells[0], "`"))
			for i, cell := range cells[1:] {
				if len(cells) > 2 {
					cell = heads[i+1] + ": " + cell + ";"
				}
				b.WriteString(cell + " ")
			}
			b.WriteString("\n")
		}
	}
	return b.String()
}

// Man is what a command says of itself as Markdown for any reader: definitions are marked as such.
func Man(text string) string {
	var b strings.Builder
	defining := false
	all := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range all {
		switch {
		case defining && strings.HasPrefix(line, " "):
			b.WriteString("  " + Escape(strings.TrimSpace(line)) + "\n")
			continue
		case strings.HasPrefix(line, " "): // as it is
			b.WriteString("    " + line + "\n")
			continue
		}
		term, meaning, ok := Defined(line, defining, all[i+1:])
		switch {
		case ok && meaning == "":
			fmt.Fprintf(&b, "\n**%s**\n: ", Escape(term))
		case ok:
			fmt.Fprintf(&b, "\n**%s**\n: %s\n", Escape(term), Escape(meaning))
		case defining:
			fmt.Fprintf(&b, "\n%s\n", Escape(line))
		default:
			b.WriteString(Escape(line) + "\n")
		}
		defining = ok
	}
	return b.String()
}

// Escape escapes what would be Markdown, but for code.
func Escape(text string) string {
	parts := strings.Split(text, "`")
	for i := range parts {
		if i%2 == 0 || i == len(parts)-1 {
			parts[i] = strings.NewReplacer("\\", "\\\\", "*", "\\*", "_", "\\_", "<", "\\<", "[", "\\[", "|", "\\|").Replace(parts[i])
		}
	}
	return strings.Join(parts, "`")
}

// ManHead begins a page as Markdown: its title, which has no date, so that equal versions have equal pages, and its name.
func ManHead(name, section, short string) string {
	return fmt.Sprintf("%% %q %q \"\" \"backfeed\" \"backfeed\"\n\n# NAME\n\n%s - %s\n", strings.ToUpper(name), section, name, Escape(short))
}
