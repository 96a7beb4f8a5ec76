package terminal

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"backfeed/cmd/internal/report"
)

// Say prints text on w, where the line is not in its way. On a terminal its lines end between
// words.
func (l *Line) Say(w io.Writer, text string) {
	l.Clear(w)
	if width := Width(w); width > 0 {
		wrapped := report.Wrap(w, width)
		io.WriteString(wrapped, text)
		wrapped.Flush()
		return
	}
	io.WriteString(w, text)
}

// A Line is the one line that says how far a command is. It is on a terminal only, is
// replaced a few times a second at most, and is gone when the command ends.
type Line struct {
	mu     sync.Mutex
	stands bool
	format string // of what stands there
	last   time.Time
}

// progressEvery is the time between two progress lines that say the same of other numbers.
const progressEvery = 250 * time.Millisecond

// Progress replaces the line on w. It prints nothing unless that is a terminal: a log has no use
// for it.
func (l *Line) Progress(w io.Writer, format string, args ...any) {
	if !Is(w) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	if l.stands && l.format == format && now.Sub(l.last) < progressEvery {
		return
	}
	text := report.Sprintf(report.Style{}, format, args...)
	if width := Width(w); width > 1 { // one that goes on in the next line could not be taken away
		text = report.Cut(text, width-1)
	}
	fmt.Fprint(w, "\r\x1b[K"+text)
	l.stands, l.format, l.last = true, format, now
}

// Clear takes the line away.
func (l *Line) Clear(w io.Writer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stands {
		fmt.Fprint(w, "\r\x1b[K")
		l.stands = false
	}
}

// Width is how many characters fit a line of w; 0 where it is no terminal.
func Width(w io.Writer) int {
	f, ok := w.(*os.File)
	if !ok || !Is(f) {
		return 0
	}
	return terminalWidth(f)
}

// Is reports whether w is a terminal that moves its cursor: a character
// device that is not the one where output goes to be forgotten.
func Is(w any) bool {
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
