package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
)

// A flagSet is the flags of the command that runs.
type flagSet struct {
	*pflag.FlagSet
	interspersed bool // flags may follow arguments
}

// SetInterspersed says whether flags may follow arguments.
func (fs *flagSet) SetInterspersed(may bool) {
	fs.interspersed = may
	fs.FlagSet.SetInterspersed(may)
}

// flags starts the flag set of the running command.
func (c *cli) flags() *flagSet {
	c.fs = &flagSet{pflag.NewFlagSet(c.cmd.name, pflag.ContinueOnError), true}
	c.fs.SortFlags = false
	c.fs.Usage = func() {}
	c.fs.SetOutput(io.Discard)
	return c.fs
}

// flagsOf returns the flags of a command that does not run: it is asked for its help, which nobody reads.
func flagsOf(cmd *command) *flagSet {
	c := &cli{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, cmd: cmd}
	if err := cmd.run(c, []string{"--help"}); err != nil || c.fs == nil {
		return &flagSet{pflag.NewFlagSet(cmd.name, pflag.ContinueOnError), true}
	}
	return c.fs
}

// usage answers a command line that could not be parsed (err) or has the wrong
// number of arguments (nil). A request for help is no error.
func (c *cli) usage(err error) error {
	if errors.Is(err, pflag.ErrHelp) {
		c.help(c.stdout)
		return nil
	}
	if err == nil {
		err = errors.New("wrong number of arguments")
	}
	return fail.Wrap(fail.Usage, fail.Lines(fmt.Errorf("%s: %w", c.cmd.name, err),
		fmt.Sprintf("usage: %s (`backfeed help %s` says more)", c.cmd.synopsis(), c.cmd.name)))
}

// Groups of flags that several commands have. Help shows them after a command's own.
const (
	sourceFlags    = "Sources"
	inferenceFlags = "Inference"
	outputFlags    = "Output"
)

var flagGroups = []string{sourceFlags, inferenceFlags, outputFlags}

// groupKey is the annotation of a flag that names its group.
const groupKey = "backfeed_group"

// grouped puts the flags that define defines into a group.
func (fs *flagSet) grouped(group string, define func()) {
	known := map[string]bool{}
	fs.VisitAll(func(f *pflag.Flag) { known[f.Name] = true })
	define()
	fs.VisitAll(func(f *pflag.Flag) {
		if !known[f.Name] {
			fs.SetAnnotation(f.Name, groupKey, []string{group})
		}
	})
}

// inGroup returns the flags of a group, those of none for "".
func (fs *flagSet) inGroup(group string) *pflag.FlagSet {
	part := pflag.NewFlagSet(group, pflag.ContinueOnError)
	part.SortFlags = false
	fs.VisitAll(func(f *pflag.Flag) {
		if strings.Join(f.Annotations[groupKey], "") == group {
			part.AddFlag(f)
		}
	})
	return part
}

// A choice is a flag that takes one of a few words.
type choice struct {
	value string
	of    []string
}

// choice defines a flag whose first word is the default.
func (c *cli) choice(name, usage string, of ...string) *choice {
	v := &choice{value: of[0], of: of}
	c.fs.Var(v, name, usage+": "+strings.Join(of, ", "))
	return v
}

func (v *choice) words() []string { return v.of }
func (v *choice) String() string  { return v.value }
func (v *choice) Type() string    { return "word" }
func (v *choice) Set(s string) error {
	if !slices.Contains(v.of, s) {
		return fmt.Errorf("want %s", strings.Join(v.of, " or "))
	}
	v.value = s
	return nil
}

// format defines the flag of commands that print a table.
func (c *cli) format() (v *choice) {
	c.fs.grouped(outputFlags, func() { v = c.choice("format", "how to print", "text", "json", "csv", "markdown") })
	return v
}

// print writes a result to file path in the format that was asked for: doc as JSON,
// rows (a struct or a slice of them) as CSV, and what text writes as text or Markdown.
func (c *cli) print(path string, format *choice, doc, rows any, text func(io.Writer, report.Style) error) error {
	switch format.value {
	case "json":
		return c.writeJSON(path, doc)
	case "csv":
		return c.write(path, func(w io.Writer) error { return report.WriteCSV(w, rows) })
	}
	style := report.Style{Markdown: format.value == "markdown"}
	if !style.Markdown && path == "-" {
		style.Color, style.Width = c.color(), c.width()
	}
	return c.writeText(path, style.Color, func(w io.Writer) error {
		if style.Width == 0 {
			return text(w, style)
		}
		wrap := report.Wrap(w, style.Width) // tables have room, prose is divided
		if err := text(wrap, style); err != nil {
			return err
		}
		return wrap.Flush()
	})
}
