package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/pflag"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/report"
)

// flags starts the flag set of the running command.
func (c *cli) flags() *flagset.Set {
	c.fs = flagset.New(c.cmd.name)
	c.fs.Warn, c.fs.Check = c.warn, c.bothNames
	return c.fs
}

// bothNames returns an error if documents that have both names of a procedure are asked for one.
func (c *cli) bothNames() error {
	for _, name := range []string{"format", "for"} {
		if f := c.fs.Lookup(name); f != nil && (f.Value.String() == "json" || f.Value.String() == "csv") {
			return c.fs.Refuse("JSON and CSV have both names of a procedure", "mangled")
		}
	}
	return nil
}

// unknownFlag is the error of a flag that is not there, with those it may have meant.
func unknownFlag(fs *flagset.Set, err *pflag.NotExistError) error {
	name := err.GetSpecifiedName()
	var near []string
	fs.VisitAll(func(f *pflag.Flag) {
		if !f.Hidden && len(name) > 1 && (strings.HasPrefix(f.Name, name) || len(name) > 3 && distance(f.Name, name) <= 2) {
			near = append(near, "--"+f.Name)
		}
	})
	if len(near) > 0 {
		return fmt.Errorf("%w; did you mean %s?", err, strings.Join(near, " or "))
	}
	return err
}

// flagsOf returns the flags of a command that does not run: it is asked for its help, which nobody reads.
func flagsOf(cmd *command) *flagset.Set {
	c := &cli{stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard, cmd: cmd}
	if err := cmd.run(c, []string{"--help"}); err != nil || c.fs == nil {
		return flagset.New(cmd.name)
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
	if unknown := (*pflag.NotExistError)(nil); errors.As(err, &unknown) {
		err = unknownFlag(c.fs, unknown)
	}
	if err == nil {
		err = errors.New("wrong number of arguments: want " + c.operands())
	}
	if hint := c.fs.Hint(); hint != "" {
		err = fmt.Errorf("%w; %s", err, hint)
	}
	return fail.Wrap(fail.Usage, fail.Lines(fmt.Errorf("%s: %w", c.cmd.name, err),
		fmt.Sprintf("usage: %s (`backfeed help %s` says more)", c.cmd.synopsis(), c.cmd.name)))
}

// Groups of flags that several commands have. Help shows them after a command's own.
const (
	sourceFlags    = "Sources"
	inferenceFlags = "Inference"
	outputFlags    = "Output"
	limitFlags     = "Limits" // of check
)

var flagGroups = []string{limitFlags, sourceFlags, inferenceFlags, outputFlags}

// choice defines a flag whose first word is the default.
func (c *cli) choice(name, usage string, of ...string) *flagset.Choice {
	v := &flagset.Choice{Value: of[0], Of: of}
	c.fs.Var(v, name, usage+": "+strings.Join(of, ", "))
	return v
}

// format defines the flag of commands that print a table.
func (c *cli) format() (v *flagset.Choice) {
	c.fs.Grouped(outputFlags, func() { v = c.choice("format", "how to print", "text", "json", "csv", "markdown") })
	return v
}

// names defines the flag of commands that name procedures.
func (c *cli) names() {
	c.fs.Grouped(outputFlags, func() {
		c.fs.BoolVar(&c.mangled, "mangled", false, "name procedures as the linker does")
	})
}

// print writes a result to file path in the format that was asked for: doc as JSON,
// rows (a struct or a slice of them) as CSV, and what text writes as text or Markdown.
func (c *cli) print(path string, format *flagset.Choice, doc, rows any, text func(io.Writer, report.Style) error) error {
	switch format.Value {
	case "json":
		return c.writeJSON(path, doc)
	case "csv":
		return c.write(path, func(w io.Writer) error { return report.WriteCSV(w, rows) })
	}
	style := c.style(path)
	if format.Value == "markdown" {
		style = report.Style{Markdown: true, Mangled: c.mangled}
	}
	return c.writeText(path, style, text)
}

// operands are what the running command needs, as its usage line has them.
func (c *cli) operands() string {
	needed, _, _ := strings.Cut(c.cmd.args, "[")
	if needed = strings.TrimSpace(needed); needed == "" {
		return "none"
	}
	return needed
}
