package main

import (
	"cmp"
	"embed"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
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

var helpCmd = &command{
	name: "help", args: "[COMMAND|TOPIC]", short: "list the commands and topics, or explain one",
	long: `--man writes all of this as pages for man: one for each command in section 1, and the topics in section 7.
` + "`man -l FILE`" + ` shows one where it lies.`,
	examples: `backfeed help record
backfeed help store gc
backfeed help calibrate
backfeed help --man /usr/local/share/man`,
	run: runHelp,
}

func runHelp(c *cli, args []string) error {
	fs := c.flags()
	man := fs.String("man", "", "write pages for man below `dir`, into man1 and man7")
	if err := fs.Parse(args); err != nil || *man != "" && fs.NArg() > 0 {
		return c.usage(err)
	}
	if *man != "" {
		return c.writeMan(*man)
	}
	if fs.NArg() == 0 {
		c.list(c.stdout)
		return nil
	}
	name := strings.Join(fs.Args(), " ")
	cmd := find(c.commands, name)
	text, isTopic := topic(name)
	if cmd == nil && !isTopic {
		of := find(c.commands, fs.Arg(0))
		switch {
		case of == nil:
			return c.unknown(fs.Arg(0), true)
		case len(of.sub) == 0:
			return c.usage(nil)
		}
		return c.usage(fmt.Errorf("%s has no %q: want %s%s", of.name, fs.Arg(1), strings.Join(of.subNames(), ", "), didYouMean(fs.Arg(1), of.subNames())))
	}
	width, shown := c.helpWidth(), ""
	if cmd != nil {
		shown = helpText(cmd, flagsOf(cmd), width)
	}
	if isTopic {
		if shown != "" {
			shown += "\n"
		}
		shown += wrapMarkdown(text, width)
	}
	return c.page(shown)
}

// help explains the running command.
func (c *cli) help(w io.Writer) {
	io.WriteString(w, helpText(c.cmd, c.fs, c.helpWidth()))
}

// helpText explains a command that has these flags.
func helpText(cmd *command, flags *flagSet, width int) string {
	var b strings.Builder
	fillWords(&b, strings.ToUpper(cmd.short[:1])+cmd.short[1:]+".", "", "", width)
	b.WriteString("\n")
	var usage strings.Builder
	fillWords(&usage, bracketed(cmd.synopsis()), "Usage:", "    ", width)
	b.WriteString(strings.ReplaceAll(usage.String(), "\x00", " "))
	if cmd.long != "" {
		b.WriteString("\n" + wrapMarkdown(strings.TrimSpace(cmd.long), width))
	}
	if len(cmd.sub) > 0 {
		b.WriteString("\nCommands:\n")
		listCommands(&b, cmd.sub, 0, width)
	}
	if cmd.examples != "" {
		b.WriteString("\nExamples:\n")
		for line := range strings.Lines(cmd.examples) {
			b.WriteString("  " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	for _, group := range append([]string{""}, flagGroups...) {
		if part := flags.inGroup(group); part.HasAvailableFlags() {
			fmt.Fprintf(&b, "\n%s:\n", cmp.Or(group, "Flags"))
			if group == sourceFlags && cmd.reads != "" {
				b.WriteString(wrapMarkdown(cmd.reads, width) + "\n")
			}
			b.WriteString(part.FlagUsagesWrapped(width))
		}
	}
	return b.String()
}

// bracketed makes one word of what is in brackets: blanks there become \x00.
func bracketed(text string) string {
	b, depth := []byte(text), 0
	for i, c := range b {
		switch {
		case c == '[':
			depth++
		case c == ']':
			depth--
		case c == ' ' && depth > 0:
			b[i] = 0
		}
	}
	return string(b)
}

// synopsis is the usage line of a command.
func (cmd *command) synopsis() string {
	return strings.TrimSpace("backfeed " + cmd.name + " " + cmd.args)
}

// list prints the table of commands and topics.
func (c *cli) list(w io.Writer) {
	fmt.Fprint(w, "backfeed turns samples of running programs into profiles for compilers and\nlinkers.\n\nUsage: backfeed COMMAND [ARGUMENT...]\n")
	width := 0
	for _, cmd := range c.visible() {
		width = max(width, len(cmd.name))
	}
	visible := c.visible()
	for _, group := range c.groups {
		own := slices.DeleteFunc(slices.Clone(group.commands), func(cmd *command) bool { return !slices.Contains(visible, cmd) })
		if len(own) > 0 {
			fmt.Fprintf(w, "\n%s:\n", group.title)
			listCommands(w, own, width, c.helpWidth())
		}
	}
	fmt.Fprint(w, "\nTopics:\n")
	for _, name := range topics {
		text, _ := topic(name)
		fmt.Fprintf(w, "  %-*s  %s\n", width, name, topicTitle(text))
	}
	var b strings.Builder
	fillWords(&b, "`backfeed help COMMAND` explains a command and its flags, `backfeed help TOPIC` prints a topic.", "", "", c.helpWidth())
	b.WriteString("\n")
	fillWords(&b, exitHelp, "", "", c.helpWidth())
	io.WriteString(w, "\n"+b.String())
}

// listCommands prints a line or two for each command: its name, at least so wide, and what it does.
func listCommands(w io.Writer, all []*command, nameWidth, width int) {
	for _, cmd := range all {
		nameWidth = max(nameWidth, len(cmd.name))
	}
	var b strings.Builder
	for _, cmd := range all {
		fillWords(&b, cmd.short, fmt.Sprintf("  %-*s ", nameWidth, cmd.name), strings.Repeat(" ", nameWidth+4), width)
	}
	io.WriteString(w, b.String())
}

// helpWidth is the width of help: that of the terminal, of which long lines are hard to read, or 80.
func (c *cli) helpWidth() int {
	if width := c.width(); width > 0 {
		return min(max(width, 40), 100)
	}
	return 80
}

// page prints text, to a terminal through a pager.
func (c *cli) page(text string) error {
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
// aligned where they fit, and else printed row by row; so are definitions, which commands' help has: a term,
// two spaces or more, what it means, and further lines of that, which are indented. It is for the Markdown of
// help, not for any.
func wrapMarkdown(text string, width int) string {
	var b strings.Builder
	var para, table []string
	var defs []definition
	flush := func() {
		if len(para) > 0 {
			indent := ""
			if strings.HasPrefix(para[0], "- ") {
				indent = "  "
			}
			fillWords(&b, strings.Join(para, " "), "", indent, width)
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
		case strings.HasPrefix(line, "- "):
			flush()
		}
		if term, meaning, ok := defined(line, len(defs) > 0, all[i+1:]); ok {
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

// defined takes apart a line that begins a definition. Among others, one may be a term alone, if what it means
// follows.
func defined(line string, among bool, next []string) (term, meaning string, ok bool) {
	if strings.HasPrefix(line, "- ") {
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
			fillWords(b, d.meaning, indent, indent, width)
			continue
		}
		fillWords(b, d.meaning, fmt.Sprintf("%-*s ", column, d.term), indent, width)
	}
}

// fillWords writes the words of text in lines of at most width columns, of which only a longer word makes
// more. The first follows what first has, all others an indent.
func fillWords(b *strings.Builder, text, first, indent string, width int) {
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
