package main

import (
	"encoding/json"
	"io"
	"os"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/flagset"
	"backfeed/cmd/internal/output"
	"backfeed/cmd/internal/report"
	"backfeed/cmd/internal/terminal"
)

// Exit codes, for scripts to tell apart. They are part of the interface.
const (
	exitDone    = 0
	exitFailed  = 1 // a file, a process or backfeed itself failed
	exitUsage   = 2 // the command line makes no sense
	exitGate    = 3 // a quality gate said no
	exitNothing = 4 // nothing usable in the input: no samples, no image, wrong build ID
	exitChanged = 5 // what --fail-on names: decisions changed, or a build is worse
	exitMachine = 6 // this machine cannot do it
)

const exitHelp = `Exit codes: 0 done; 1 failed; 2 usage; 3 a quality gate said no; 4 nothing usable in the
input; 5 what --fail-on names; 6 this machine cannot do it.
`

// A command is one of backfeed's subcommands. Its flags are defined when it runs, and parsed there.
type command struct {
	name     string // from the first word after backfeed on: "store gc"
	args     string // what follows the name in a usage line
	short    string // one line, for the list of commands
	long     string // paragraphs, for its own help; may be empty
	reads    string // what its sources may be, which help has apart; may be empty
	examples string // command lines, each with a comment or none
	sub      []*command
	operands []string // words that complete its arguments; nil is names of files
	hidden   bool     // from lists and completion
	run      func(c *cli, args []string) error
}

// find returns the command of this name in all and below, or nil.
func find(all []*command, name string) *command {
	for _, cmd := range all {
		if cmd.name == name {
			return cmd
		}
		if below := find(cmd.sub, name); below != nil {
			return below
		}
	}
	return nil
}

// A cli is one run of the program: its streams and the subcommand that runs.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	commands       []*command
	groups         []commandGroup // of commands, for their list
	cmd            *command
	fs             *flagset.Set // of cmd, once it has asked for them
	line           terminal.Line
	told           func(text string) // what progress is told to besides; may be nil
	mangled        bool              // procedures have the names that the linker knows
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

// writeText writes text for people to file path.
func (c *cli) writeText(path string, style report.Style, text func(io.Writer, report.Style) error) error {
	return c.write(path, func(w io.Writer) error {
		return through(report.Guard(w, style.Color), func(w io.Writer) error {
			if style.Width == 0 {
				return text(w, style)
			}
			wrap := report.Wrap(w, style.Width) // tables have room, prose is divided
			if err := text(wrap, style); err != nil {
				return err
			}
			return wrap.Flush()
		})
	})
}

// through runs f on an escaper.
func through(e *report.Escaper, f func(io.Writer) error) error {
	if err := f(e); err != nil {
		return err
	}
	return e.Flush()
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

// write makes the file path from what f writes; "-" is standard output.
func (c *cli) write(path string, f func(io.Writer) error) error {
	if output.IsStdout(path) {
		c.clearProgress() // it may be on the same terminal
	}
	return output.Write(path, c.stdout, f)
}

// writeFile makes the file path of b.
func (c *cli) writeFile(path string, b []byte) error {
	return c.write(path, func(w io.Writer) error {
		_, err := w.Write(b)
		return err
	})
}

// warn prints a message for people, on its own line.
func (c *cli) warn(format string, args ...any) {
	c.say(report.Sprintf(report.Style{}, "backfeed: "+format+"\n", args...))
}

// say prints text on standard error.
func (c *cli) say(text string) { c.line.Say(c.stderr, text) }

// progress replaces the progress line, if standard error is a terminal.
func (c *cli) progress(format string, args ...any) {
	if c.told != nil {
		c.told(report.Sprintf(report.Style{}, format, args...))
	}
	c.line.Progress(c.stderr, format, args...)
}

// clearProgress takes the progress line away.
func (c *cli) clearProgress() { c.line.Clear(c.stderr) }

// color reports whether standard output takes colours: a terminal does, unless
// the user set NO_COLOR (https://no-color.org).
func (c *cli) color() bool {
	return terminal.Is(c.stdout) && os.Getenv("NO_COLOR") == ""
}

// style is that of text that is written to file path: on a terminal it has colours and a width.
func (c *cli) style(path string) report.Style {
	style := report.Style{Mangled: c.mangled}
	if path == "-" {
		style.Color, style.Width = c.color(), c.width()
	}
	return style
}

// width is how many characters fit a line of standard output; 0 where it is no
// terminal, and any number does.
func (c *cli) width() int { return terminal.Width(c.stdout) }
