package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/cpuguy83/go-md2man/v2/md2man"
	"github.com/spf13/pflag"

	"backfeed/cmd/internal/prose"
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

// manCommand is the page of a command as Markdown.
func manCommand(cmd *command) string {
	var b strings.Builder
	b.WriteString(prose.ManHead(manName(cmd), "1", cmd.short))
	fmt.Fprintf(&b, "\n# SYNOPSIS\n\n%s\n", prose.Escape(cmd.synopsis()))
	if cmd.long != "" {
		fmt.Fprintf(&b, "\n# DESCRIPTION\n\n%s\n", prose.Man(cmd.long))
	}
	if len(cmd.sub) > 0 {
		b.WriteString("\n# COMMANDS\n")
		for _, sub := range cmd.sub {
			fmt.Fprintf(&b, "\n**%s**(1)\n: %s\n", manName(sub), prose.Escape(sub.short))
		}
	}
	if cmd.examples != "" {
		fmt.Fprintf(&b, "\n# EXAMPLES\n\n```\n%s\n```\n", cmd.examples)
	}
	flags := flagsOf(cmd)
	for _, group := range append([]string{""}, flagGroups...) {
		part := flags.InGroup(group)
		if !part.HasAvailableFlags() {
			continue
		}
		title := "OPTIONS"
		if group != "" {
			title += " (" + strings.ToUpper(group) + ")"
		}
		fmt.Fprintf(&b, "\n# %s\n", title)
		if group == sourceFlags && cmd.reads != "" {
			b.WriteString("\n" + prose.Man(cmd.reads))
		}
		part.VisitAll(func(f *pflag.Flag) { b.WriteString(manFlag(f)) })
	}
	b.WriteString("\n# EXIT STATUS\n\n" + prose.Man(exitHelp) + "\n\n# SEE ALSO\n\n**backfeed**(1)\n")
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
	return fmt.Sprintf("\n%s\n: %s\n", prose.Escape(flag), prose.Escape(strings.TrimSpace(usage)))
}

// manList is the page of backfeed itself as Markdown.
func (c *cli) manList() string {
	var b strings.Builder
	b.WriteString(prose.ManHead("backfeed", "1", "turn samples of running programs into profiles for compilers and linkers"))
	b.WriteString("\n# SYNOPSIS\n\nbackfeed COMMAND \\[ARGUMENT...]\n\n# COMMANDS\n")
	for _, cmd := range c.visible() {
		fmt.Fprintf(&b, "\n**%s**(1)\n: %s\n", manName(cmd), prose.Escape(cmd.short))
	}
	b.WriteString("\n# TOPICS\n")
	for _, name := range topics {
		text, _ := topic(name)
		fmt.Fprintf(&b, "\n**backfeed-%s**(7)\n: %s\n", name, prose.Escape(topicTitle(text)))
	}
	b.WriteString("\n# EXIT STATUS\n\n" + prose.Man(exitHelp))
	return b.String()
}

// manTopic is the page of a topic as Markdown.
func manTopic(name, text string) string {
	title, body, _ := strings.Cut(text, "\n")
	body = strings.ReplaceAll("\n"+body, "\n## ", "\n# ")
	return prose.ManHead("backfeed-"+name, "7", strings.TrimPrefix(title, "# ")) + "\n# DESCRIPTION\n" + prose.ManTables(body)
}
