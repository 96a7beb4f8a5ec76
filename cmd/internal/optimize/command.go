package optimize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"time"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/prose"
)

// A command is one of a shell, with what it needs to run.
type command struct {
	what   string // of the target: build, run, test, count; or a tool
	tool   bool
	text   string
	dir    string
	stdout string        // file that what it prints goes to; "" is nowhere
	said   io.Writer     // what a build that succeeds prints goes there, up to mostSaid; nil is nowhere
	limit  time.Duration // 0 is none
}

// A usage is what a command took.
type usage struct {
	processor time.Duration // of it and all that it waited for
	wall      time.Duration
}

// tailLines and tailBytes are how much of what a command that failed said is repeated.
const tailLines, tailBytes = 20, 4000

// mostSaid is how much of what a build printed is read: more than the warnings of 200,000 objects.
const mostSaid = 64 << 20

// errLeft is that a command ended and left processes running.
var errLeft = errors.New("it ended and left processes running, which were killed; stop what it starts, and wait for it: what it does not wait for is not measured")

// run runs a command in a process group of its own, which is gone when run returns, whatever is left of it.
func (c command) run(ctx context.Context) (usage, error) {
	whole := ctx
	if c.limit > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeout(ctx, c.limit)
		defer stop()
	}
	cmd := exec.CommandContext(ctx, "/bin/sh", "-c", c.text)
	cmd.Dir = c.dir
	errs, err := os.CreateTemp("", "backfeed-optimize-stderr-") // a file: who holds a pipe open would be waited for
	if err != nil {
		return usage{}, err
	}
	defer errs.Close()
	if err := os.Remove(errs.Name()); err != nil {
		return usage{}, err
	}
	cmd.Stderr = errs
	if c.stdout != "" {
		out, err := os.Create(c.stdout)
		if err != nil {
			return usage{}, err
		}
		defer out.Close()
		cmd.Stdout = out
	} else if c.what == "build" { // compilers' errors, and those of make, go either way
		cmd.Stdout = errs
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	start := time.Now()
	err = cmd.Run()
	u := usage{wall: time.Since(start)}
	left := cmd.Process != nil && syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) == nil
	switch {
	case whole.Err() != nil:
		return u, whole.Err()
	case ctx.Err() != nil:
		return u, fmt.Errorf("%s did not end in %v", c, c.limit.Round(time.Second))
	case err != nil:
		return u, fail.Lines(fmt.Errorf("%s: %w", c, err), tail(errs)...)
	case left && c.what != "build": // servers of compilers stay
		return u, fmt.Errorf("%s: %w", c, errLeft)
	}
	if c.said != nil {
		if _, err := io.Copy(c.said, io.NewSectionReader(errs, 0, mostSaid)); err != nil {
			return u, err
		}
	}
	u.processor = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return u, nil
}

// String names the command: one of a target by its text, a tool by its name.
func (c command) String() string {
	if c.tool {
		return c.what
	}
	return c.what + " `" + c.text + "`"
}

// tail returns the last lines of a file that is open.
func tail(f *os.File) []string {
	end, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil
	}
	b := make([]byte, min(end, tailBytes))
	n, _ := f.ReadAt(b, end-int64(len(b)))
	lines := strings.Split(string(bytes.TrimSpace(b[:n])), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines[max(0, len(lines)-tailLines):]
}

// plain are flags that mean nothing to a shell, in quotes and outside.
var plain = regexp.MustCompile(`^[A-Za-z0-9_./=,:+ -]*$`)

// filled puts the program and flags at their places in a command.
func filled(text, binary string, f flags) string {
	return strings.NewReplacer(binaryHere, prose.ShellWord(binary), flagsHere, f.compile, ldflagsHere, f.link).Replace(text)
}
