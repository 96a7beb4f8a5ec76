package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// A screen is a pseudoterminal of this process: what is written to file comes up on it.
type screen struct {
	file *os.File
	read chan string
}

// newTerminal opens one with lines of so many characters.
func newTerminal(t *testing.T, columns int) *screen {
	t.Helper()
	t.Setenv("TERM", "xterm")
	t.Setenv("NO_COLOR", "1")
	master, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudoterminals: %v", err)
	}
	fd := int(master.Fd())
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: 25, Col: uint16(columns)})
	}
	if err != nil {
		t.Skipf("no pseudoterminals: %v", err)
	}
	slave, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("no pseudoterminals: %v", err)
	}
	read := make(chan string)
	go func() {
		var b bytes.Buffer
		io.Copy(&b, master) // until the other end is closed, which is an error
		master.Close()
		read <- strings.ReplaceAll(b.String(), "\r\n", "\n")
	}()
	return &screen{slave, read}
}

// written closes the terminal and returns all that was written to it.
func (m *screen) written() string {
	m.file.Close()
	return <-m.read
}

// onTerminal runs backfeed with standard output and error on a terminal. Lines are those that are left
// in the end: without the progress lines.
func onTerminal(t *testing.T, columns int, args ...string) (code int, lines []string) {
	t.Helper()
	m := newTerminal(t, columns)
	code = run(args, strings.NewReader(""), m.file, m.file)
	for _, line := range strings.Split(strings.TrimRight(m.written(), "\n"), "\n") {
		if i := strings.LastIndex(line, "\x1b[K"); i >= 0 {
			line = line[i+len("\x1b[K"):]
		}
		lines = append(lines, line)
	}
	return code, lines
}

var progressLines = regexp.MustCompile(`\r\x1b\[K([^\r\n]*)`)

// TestRecordLive: a recording says on a terminal how far it is, and nowhere else.
func TestRecordLive(t *testing.T) {
	exe, file := busy(t), filepath.Join(t.TempDir(), "a file")
	args := []string{"record", "-o", file, "-d", "900ms", "--", exe, "forever", "1"}

	m := newTerminal(t, 60)
	var out bytes.Buffer
	code := run(args, strings.NewReader(""), &out, m.file)
	text := m.written()
	var last string
	shown := 0
	for _, line := range progressLines.FindAllStringSubmatch(text, -1) {
		if n := utf8.RuneCountInString(line[1]); n >= 60 {
			t.Errorf("%d characters, which a terminal of 60 would break: %q", n, line[1])
		}
		if strings.HasPrefix(line[1], "recording:") {
			shown, last = shown+1, line[1]
		}
	}
	if code != exitDone || shown < 2 || !regexp.MustCompile(`^recording: [1-9][0-9]* samples, [0-9]+/s, .*[01]s left$`).MatchString(last) {
		t.Errorf("exit code %d, %d progress lines, the last %q; the terminal has %q", code, shown, last, text)
	}
	rest := regexp.MustCompile(`\r\x1b\[K(recording:[^\r\n]*)?`).ReplaceAllString(text, "")
	if strings.Contains(rest, "recording:") || !strings.Contains(rest, "wrote "+file) || !strings.Contains(strings.ReplaceAll(rest, "\n", " "), "backfeed prof '"+file+"'") {
		t.Errorf("what stays is %q; want the file, and the next step", rest)
	}
	if i := strings.LastIndex(text, "\x1b[K"); i < 0 || strings.HasPrefix(text[i:], "\x1b[Krecording") {
		t.Errorf("the progress line is not taken away: %q", text)
	}

	// A command that writes to the terminal has it alone.
	m = newTerminal(t, 60)
	if code := run(args, strings.NewReader(""), m.file, m.file); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	if text := m.written(); strings.Contains(text, "recording:") {
		t.Errorf("the command's terminal has %q", text)
	}

	// A log has no progress lines.
	var log bytes.Buffer
	if code := run(args, strings.NewReader(""), &out, &log); code != exitDone || strings.ContainsAny(log.String(), "\r\x1b") || strings.Contains(log.String(), "recording:") {
		t.Errorf("exit code %d, the log has %q", code, &log)
	}
}
