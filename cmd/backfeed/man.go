package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/pflag"
)

// writeMan writes the pages of all commands and topics below dir, where man looks for them.
func (c *cli) writeMan(dir string) error {
	pages := map[string]string{"man1/backfeed.1": c.manList()}
	var add func(all []*command)
	add = func(all []*command) {
		for _, cmd := range all {
			if !cmd.hidden {
				pages["man1/"+manName(cmd)+".1"] = manCommand(cmd)
				add(cmd.sub)
			}
		}
	}
	add(c.commands)
	for _, name := range topics {
		text, _ := topic(name)
		pages["man7/backfeed-"+name+".7"] = manTopic(name, text)
	}
	for _, section := range []string{"man1", "man7"} {
		if err := os.MkdirAll(filepath.Join(dir, section), 0o755); err != nil {
			return err
		}
	}
	for name, text := range pages {
		err := c.write(filepath.Join(dir, name), func(w io.Writer) error {
			_, err := w.Write(md2man.Render([]byte(text)))
			return err
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// manName names the page of a command.
func manName(cmd *command) string { return "backfeed-" + strings.ReplaceAll(cmd.name, " ", "-") }

// manHead begins a page: its title, which has no date, so that equal versions have equal pages, and its name.
func manHead(name, section, short string) string {
	return fmt.Sprintf("%% %q %q \"\" \"backfeed\" \"backfeed\"\n\n# NAME\n\n%s - %s\n", strings.ToUpper(name), section, name, manText(short))
}

// manCommand is the page of a command as Markdown.
func manCommand(cmd *command) string {
	var b strings.Builder
	b.WriteString(manHead(manName(cmd), "1", cmd.short))
	fmt.Fprintf(&b, "\n# SYNOPSIS\n\n%s\n", manText(cmd.synopsis()))
	if cmd.long != "" {
		fmt.Fprintf(&b, "\n# DESCRIPTION\n\n%s\n", manBody(cmd.long))
	}
	if len(cmd.sub) > 0 {
		b.WriteString("\n# COMMANDS\n")
		for _, sub := range cmd.sub {
			fmt.Fprintf(&b, "\n**%s**(1)\n: %s\n", manName(sub), manText(sub.short))
		}
	}
	if cmd.examples != "" {
		fmt.Fprintf(&b, "\n# EXAMPLES\n\n```\n%s\n```\n", cmd.examples)
	}
	flags := flagsOf(cmd)
	for _, group := range append([]string{""}, flagGroups...) {
		part := flags.inGroup(group)
		if !part.HasAvailableFlags() {
			continue
		}
		title := "OPTIONS"
		if group != "" {
			title += " (" + strings.ToUpper(group) + ")"
		}
		fmt.Fprintf(&b, "\n# %s\n", title)
		if group == sourceFlags && cmd.reads != "" {
			b.WriteString("\n" + manBody(cmd.reads))
		}
		part.VisitAll(func(f *pflag.Flag) { b.WriteString(manFlag(f)) })
	}
	b.WriteString("\n# EXIT STATUS\n\n" + manBody(exitHelp) + "\n\n# SEE ALSO\n\n**backfeed**(1)\n")
	return b.String()
}

// manFlag is a flag as Markdown.
func manFlag(f *pflag.Flag) string {
	if f.Hidden {
		return ""
	}
	one := pflag.NewFlagSet("", pflag.ContinueOnError) // its usage is as in help
	one.AddFlag(f)
	flag, usage, _ := strings.Cut(strings.TrimSpace(one.FlagUsages()), "   ")
	return fmt.Sprintf("\n%s\n: %s\n", manText(flag), manText(strings.TrimSpace(usage)))
}

// manList is the page of backfeed itself as Markdown.
func (c *cli) manList() string {
	var b strings.Builder
	b.WriteString(manHead("backfeed", "1", "turn samples of running programs into profiles for compilers and linkers"))
	b.WriteString("\n# SYNOPSIS\n\nbackfeed COMMAND \\[ARGUMENT...]\n\n# COMMANDS\n")
	for _, cmd := range c.visible() {
		fmt.Fprintf(&b, "\n**%s**(1)\n: %s\n", manName(cmd), manText(cmd.short))
	}
	b.WriteString("\n# TOPICS\n")
	for _, name := range topics {
		text, _ := topic(name)
		fmt.Fprintf(&b, "\n**backfeed-%s**(7)\n: %s\n", name, manText(topicTitle(text)))
	}
	b.WriteString("\n# EXIT STATUS\n\n" + manBody(exitHelp))
	return b.String()
}

// manTopic is the page of a topic as Markdown.
func manTopic(name, text string) string {
	title, body, _ := strings.Cut(text, "\n")
	body = strings.ReplaceAll("\n"+body, "\n## ", "\n# ")
	return manHead("backfeed-"+name, "7", strings.TrimPrefix(title, "# ")) + "\n# DESCRIPTION\n" + manTables(body)
}

// manTables makes definitions of the rows of tables, which would be wider than a page.
func manTables(text string) string {
	var b strings.Builder
	var heads []string
	row := 0
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "|") {
			row = 0
			b.WriteString(line)
			continue
		}
		cells := tableCells(strings.TrimSuffix(line, "\n"))
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

// manBody is what a command says of itself as Markdown for any reader: definitions are marked as such.
func manBody(text string) string {
	var b strings.Builder
	defining := false
	all := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range all {
		switch {
		case defining && strings.HasPrefix(line, " "):
			b.WriteString("  " + manText(strings.TrimSpace(line)) + "\n")
			continue
		case strings.HasPrefix(line, " "): // as it is
			b.WriteString("    " + line + "\n")
			continue
		}
		term, meaning, ok := defined(line, defining, all[i+1:])
		switch {
		case ok && meaning == "":
			fmt.Fprintf(&b, "\n**%s**\n: ", manText(term))
		case ok:
			fmt.Fprintf(&b, "\n**%s**\n: %s\n", manText(term), manText(meaning))
		case defining:
			fmt.Fprintf(&b, "\n%s\n", manText(line))
		default:
			b.WriteString(manText(line) + "\n")
		}
		defining = ok
	}
	return b.String()
}

// manText escapes what would be Markdown, but for code.
func manText(text string) string {
	parts := strings.Split(text, "`")
	for i := range parts {
		if i%2 == 0 || i == len(parts)-1 {
			parts[i] = strings.NewReplacer("\\", "\\\\", "*", "\\*", "_", "\\_", "<", "\\<", "[", "\\[", "|", "\\|").Replace(parts[i])
		}
	}
	return strings.Join(parts, "`")
}
