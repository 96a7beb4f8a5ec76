package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/report"
	"backfeed/sample/store"
)

// Exit codes, for scripts to tell apart. They are part of the interface.
const (
	exitDone    = 0
	exitFailed  = 1 // a file, a process or backfeed itself failed
	exitUsage   = 2 // the command line makes no sense
	exitGate    = 3 // a quality gate said no
	exitNothing = 4 // nothing usable in the input: no samples, no image, wrong build ID
	exitChanged = 5 // decisions changed, and --fail-on asked for that to fail
	exitMachine = 6 // this machine cannot do it
)

const exitHelp = `Exit codes: 0 done; 1 failed; 2 usage; 3 a quality gate said no; 4 nothing usable in the
input; 5 decisions changed under --fail-on; 6 this machine cannot do it.
`

// A command is one of backfeed's subcommands.
type command struct {
	name  string
	args  string // what follows the name in a usage line
	short string // one line, for the list of commands
	long  string // paragraphs, for its own help; may be empty
	run   func(c *cli, args []string) error
}

// A cli is one run of the program: its streams and the subcommand that runs.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	commands       []*command
	cmd            *command
	fs             *pflag.FlagSet // of cmd, once it has asked for them
	selection      selection      // of stores
	stores         []*store.Store // that were read
	covered        string         // the program that cover profiles are of; "" if none was named
	truths         []weighedTruth // exact counts that were read, and are to be put to images
	starts         []starts       // first touches of each path that was read
	stackDepth     int            // frames to read of the stacks of perf.data; 0 is the usual
	progressing    bool           // a progress line stands on the terminal
}

// codeOf maps the kind of an error to the exit code.
func codeOf(err error) int {
	switch fail.KindOf(err) {
	case fail.Usage:
		return exitUsage
	case fail.Gate:
		return exitGate
	case fail.Nothing:
		return exitNothing
	case fail.Changed:
		return exitChanged
	case fail.Machine:
		return exitMachine
	}
	return exitFailed
}

// flags starts the flag set of the running command.
func (c *cli) flags() *pflag.FlagSet {
	c.fs = pflag.NewFlagSet(c.cmd.name, pflag.ContinueOnError)
	c.fs.SortFlags = false
	c.fs.Usage = func() {}
	c.fs.SetOutput(io.Discard)
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
		fmt.Sprintf("usage: %s (`backfeed help %s` says more)", c.synopsis(), c.cmd.name)))
}

// synopsis is the usage line of the running command.
func (c *cli) synopsis() string {
	return strings.TrimSpace("backfeed " + c.cmd.name + " " + c.cmd.args)
}

// help explains the running command.
func (c *cli) help(w io.Writer) {
	short := strings.ToUpper(c.cmd.short[:1]) + c.cmd.short[1:]
	fmt.Fprintf(w, "%s.\n\nUsage: %s\n", short, c.synopsis())
	if c.cmd.long != "" {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(c.cmd.long))
	}
	if c.fs != nil && c.fs.HasFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s", c.fs.FlagUsagesWrapped(100))
	}
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

// format defines the flag of commands that print a table.
func (c *cli) format() *choice {
	return c.choice("format", "how to print", "text", "json", "csv", "markdown")
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
	return c.writeText(path, style.Color, func(w io.Writer) error { return text(w, style) })
}

// writeText writes text for people to file path.
func (c *cli) writeText(path string, color bool, f func(io.Writer) error) error {
	return c.write(path, func(w io.Writer) error { return through(report.Guard(w, color), f) })
}

// through runs f on an escaper.
func through(e *report.Escaper, f func(io.Writer) error) error {
	if err := f(e); err != nil {
		return err
	}
	return e.Flush()
}

func (v *choice) String() string { return v.value }
func (v *choice) Type() string   { return "word" }
func (v *choice) Set(s string) error {
	if !slices.Contains(v.of, s) {
		return fmt.Errorf("want %s", strings.Join(v.of, " or "))
	}
	v.value = s
	return nil
}

// warn prints a message for people, on its own line.
func (c *cli) warn(format string, args ...any) {
	c.clearProgress()
	report.Fprintf(c.stderr, report.Style{}, "backfeed: "+format+"\n", args...)
}

// progress replaces the one progress line. It prints nothing unless stderr is a
// terminal: a log has no use for it.
func (c *cli) progress(format string, args ...any) {
	if !isTerminal(c.stderr) {
		return
	}
	report.Fprintf(c.stderr, report.Style{}, "\r\x1b[K"+format, args...)
	c.progressing = true
}

// clearProgress takes the progress line away.
func (c *cli) clearProgress() {
	if c.progressing {
		fmt.Fprint(c.stderr, "\r\x1b[K")
		c.progressing = false
	}
}

// color tells whether standard output takes colours: a terminal does, unless
// the user set NO_COLOR (https://no-color.org).
func (c *cli) color() bool {
	return isTerminal(c.stdout) && os.Getenv("NO_COLOR") == ""
}

// width is how many characters fit a line of standard output; 0 where it is no
// terminal, and any number does.
func (c *cli) width() int {
	f, ok := c.stdout.(*os.File)
	if !ok || !isTerminal(f) {
		return 0
	}
	return terminalWidth(f)
}

// isTerminal tells whether w is a terminal that moves its cursor: a character
// device that is not the one where output goes to be forgotten.
func isTerminal(w any) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	st, err := f.Stat()
	if err != nil || st.Mode()&fs.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(st, null)
}

// writeJSON prints v as an indented document to file path.
func (c *cli) writeJSON(path string, v any) error {
	return c.writeAsJSON(path, func(w io.Writer) error {
		e := json.NewEncoder(w)
		e.SetEscapeHTML(false)
		e.SetIndent("", "  ")
		return e.Encode(v)
	})
}

// writeAsJSON writes to file path the JSON that f writes.
func (c *cli) writeAsJSON(path string, f func(io.Writer) error) error {
	return c.write(path, func(w io.Writer) error { return through(report.EscapeJSON(w), f) })
}
