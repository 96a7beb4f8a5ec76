package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"backfeed/cmd/internal/report"
)

// warn prints a message for people, on its own line.
func (c *cli) warn(format string, args ...any) {
	c.say(report.Sprintf(report.Style{}, "backfeed: "+format+"\n", args...))
}

// say prints text on standard error, where the progress line is not in its way. On a terminal
// its lines end between words.
func (c *cli) say(text string) {
	c.clearProgress()
	if width := widthOf(c.stderr); width > 0 {
		w := report.Wrap(c.stderr, width)
		io.WriteString(w, text)
		w.Flush()
		return
	}
	io.WriteString(c.stderr, text)
}

// A progressLine is the one line that says how far a command is. It is on a terminal only, is
// replaced a few times a second at most, and is gone when the command ends.
type progressLine struct {
	mu     sync.Mutex
	stands bool
	format string // of what stands there
	last   time.Time
}

// progressEvery is the time between two progress lines that say the same of other numbers.
const progressEvery = 250 * time.Millisecond

// progress replaces the progress line. It prints nothing unless stderr is a terminal: a log has no
// use for it.
func (c *cli) progress(format string, args ...any) {
	if !isTerminal(c.stderr) {
		return
	}
	l := &c.line
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.stands && l.format == format && now.Sub(l.last) < progressEvery {
		return
	}
	text := report.Sprintf(report.Style{}, format, args...)
	if width := widthOf(c.stderr); width > 1 { // one that goes on in the next line could not be taken away
		text = report.Cut(text, width-1)
	}
	fmt.Fprint(c.stderr, "\r\x1b[K"+text)
	l.stands, l.format, l.last = true, format, now
}

// clearProgress takes the progress line away.
func (c *cli) clearProgress() {
	c.line.mu.Lock()
	defer c.line.mu.Unlock()
	if c.line.stands {
		fmt.Fprint(c.stderr, "\r\x1b[K")
		c.line.stands = false
	}
}

// color reports whether standard output takes colours: a terminal does, unless
// the user set NO_COLOR (https://no-color.org).
func (c *cli) color() bool {
	return isTerminal(c.stdout) && os.Getenv("NO_COLOR") == ""
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
func (c *cli) width() int { return widthOf(c.stdout) }

// widthOf is how many characters fit a line of w; 0 where it is no terminal.
func widthOf(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !isTerminal(f) {
		return 0
	}
	return terminalWidth(f)
}

// isTerminal reports whether w is a terminal that moves its cursor: a character
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
