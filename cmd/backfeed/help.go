package main

import (
	"embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"unicode/utf8"
)

//go:embed help/*.md
var helpFiles embed.FS

// topics are the pages of help that are about no single command, in the order in which help lists them.
var topics = []string{
	"commands", "go", "c", "layout", "agent", "ci", "calibrate", "compare", "slow", "stalls", "recordings", "accuracy", "json",
}

// topic returns the Markdown of a topic, and whether there is one of this name.
func topic(name string) (text string, ok bool) {
	b, err := helpFiles.ReadFile("help/" + name + ".md")
	return string(b), err == nil
}

// topicTitle returns the first heading of a topic.
func topicTitle(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimPrefix(line, "# ")
}

// showTopic prints a topic to the width of the terminal, or of 80 columns, after the help of the command
// of its name if there is one; to a terminal through a pager.
func (c *cli) showTopic(ofCommand, text string) error {
	width := c.width()
	if width == 0 {
		width = 80
	}
	text = ofCommand + wrapMarkdown(text, max(width, 40))
	if !isTerminal(c.stdout) {
		_, err := io.WriteString(c.stdout, text)
		return err
	}
	if pager := pagerCommand(); pager != nil {
		pager.Stdin, pager.Stdout, pager.Stderr = strings.NewReader(text), c.stdout, c.stderr
		if pager.Start() == nil {
			return pager.Wait()
		}
	}
	_, err := io.WriteString(c.stdout, text)
	return err
}

// pagerCommand returns what PAGER asks for, else less if it is there, else nil.
func pagerCommand() *exec.Cmd {
	if p := strings.TrimSpace(os.Getenv("PAGER")); p != "" {
		return exec.Command("sh", "-c", p)
	}
	if p, err := exec.LookPath("less"); err == nil {
		return exec.Command(p, "-FRX")
	}
	return nil
}

// wrapMarkdown fills the paragraphs and list items of text to width. Code stays as it is. Tables are
// aligned where they fit, and else printed row by row. It is for the Markdown of the topics, not for any.
func wrapMarkdown(text string, width int) string {
	var b strings.Builder
	var para, table []string
	flush := func() {
		if len(para) > 0 {
			indent := ""
			if strings.HasPrefix(para[0], "- ") {
				indent = "  "
			}
			fillWords(&b, strings.Join(para, " "), "", indent, width)
			para = nil
		}
		if len(table) > 0 {
			printTable(&b, table, width)
			table = nil
		}
	}
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "|"):
			table = append(table, line)
			continue
		case strings.HasPrefix(line, "<!--"):
			continue
		case line == "" || strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "#"):
			flush()
			b.WriteString(line + "\n")
			continue
		case strings.HasPrefix(line, "- "):
			flush()
		}
		para = append(para, strings.TrimSpace(line))
	}
	flush()
	return b.String()
}

// fillWords writes the words of text in lines of at most width columns, of which only a longer word makes more.
func fillWords(b *strings.Builder, text, first, indent string, width int) {
	line, empty := first, true
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
	b.WriteString(line + "\n")
}

// tableCells returns the cells of a row of a Markdown table.
func tableCells(line string) []string {
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
	var widths []int
	for i, line := range lines {
		if i == 1 {
			continue
		}
		cells := tableCells(line)
		rows = append(rows, cells)
		for k, cell := range cells {
			if k == len(widths) {
				widths = append(widths, 0)
			}
			widths[k] = max(widths[k], utf8.RuneCountInString(cell))
		}
	}
	total := -2
	for _, w := range widths {
		total += w + 2
	}
	if total <= width {
		for _, row := range rows {
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
		fillWords(b, row[0], "", "  ", width)
		for k, cell := range row[1:] {
			if len(row) > 2 && k+1 < len(rows[0]) {
				cell = rows[0][k+1] + ": " + cell
			}
			fillWords(b, cell, "    ", "      ", width)
		}
	}
}

// listTopics prints the names and titles of the topics.
func listTopics(w io.Writer, width int) {
	fmt.Fprint(w, "\nTopics:\n\n")
	for _, name := range topics {
		text, _ := topic(name)
		fmt.Fprintf(w, "  %-"+strconv.Itoa(width)+"s  %s\n", name, topicTitle(text))
	}
}
