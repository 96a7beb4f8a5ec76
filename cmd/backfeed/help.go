package main

import (
	"cmp"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/prose"
	"backfeed/cmd/internal/terminal"
)

//go:embed help/*.md
var helpFiles embed.FS

// topics are the pages of help that are about no single command, in the order in which help lists them.
var topics = []string{
	"commands", "optimize", "go", "c", "layout", "builds", "agent", "bucket", "ci", "calibrate", "compare", "slow", "stalls", "profilers", "recordings", "accuracy", "json",
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
		shown += prose.Wrap(text, width)
	}
	return terminal.Page(shown, c.stdout, c.stderr)
}

// help explains the running command.
func (c *cli) help(w io.Writer) {
	io.WriteString(w, helpText(c.cmd, c.fs, c.helpWidth()))
}

// helpText explains a command that has these flags.
func helpText(cmd *command, flags *flagset.Set, width int) string {
	var b strings.Builder
	prose.Fill(&b, strings.ToUpper(cmd.short[:1])+cmd.short[1:]+".", "", "", width)
	b.WriteString("\n")
	prose.FillBracketed(&b, cmd.synopsis(), "Usage:", "    ", width)
	if cmd.long != "" {
		b.WriteString("\n" + prose.Wrap(strings.TrimSpace(cmd.long), width))
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
		if part := flags.InGroup(group); part.HasAvailableFlags() {
			fmt.Fprintf(&b, "\n%s:\n", cmp.Or(group, "Flags"))
			if group == sourceFlags && cmd.reads != "" {
				b.WriteString(prose.Wrap(cmd.reads, width) + "\n")
			}
			b.WriteString(part.FlagUsagesWrapped(width))
		}
	}
	return b.String()
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
	prose.Fill(&b, "`backfeed help COMMAND` explains a command and its flags, `backfeed help TOPIC` prints a topic.", "", "", c.helpWidth())
	b.WriteString("\n")
	prose.Fill(&b, exitHelp, "", "", c.helpWidth())
	io.WriteString(w, "\n"+b.String())
}

// listCommands prints a line or two for each command: its name, at least so wide, and what it does.
func listCommands(w io.Writer, all []*command, nameWidth, width int) {
	for _, cmd := range all {
		nameWidth = max(nameWidth, len(cmd.name))
	}
	var b strings.Builder
	for _, cmd := range all {
		prose.Fill(&b, cmd.short, fmt.Sprintf("  %-*s ", nameWidth, cmd.name), strings.Repeat(" ", nameWidth+4), width)
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
