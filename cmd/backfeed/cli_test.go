package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"backfeed/cmd/internal/fail"
	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestExit: every kind of failure has its exit code and says why, once, on
// standard error; nothing then goes to standard output.
func TestExit(t *testing.T) {
	dir := t.TempDir()
	text := testtool.Write(t, dir, "notes.txt", "these are not samples\n")
	good := recording(t, dir, "good.bfr", sample.ImageID{Path: "/nowhere/at/all"})
	for _, tt := range []struct {
		args string
		code int
		want string // part of the message
	}{
		{"", exitUsage, "no command given"},
		{"emti", exitUsage, "did you mean `emit`?"},
		{"zzzzzzzz", exitUsage, `there is no command "zzzzzzzz" (`},
		{"help emti", exitUsage, "did you mean `emit`?"},
		{"help calibrat", exitUsage, "there is no command or topic \"calibrat\"; did you mean `calibrate`?"},
		{"help store gcc", exitUsage, "did you mean `gc`?"},
		{"emit bold x", exitUsage, "did you mean `bolt`?"},
		{"help images b", exitUsage, "wrong number of arguments"},
		{"help store gcc", exitUsage, `store has no "gcc": want ls, stats, fsck, compact, gc`},
		{"store", exitUsage, "want ls, stats, fsck, compact, gc"},
		{"store gcc " + dir, exitUsage, `there is no "gcc": want ls, stats, fsck, compact, gc`},
		{"version now", exitUsage, "usage: backfeed version"},
		{"infer", exitUsage, "wrong number of arguments: want SRC...\nusage: backfeed infer SRC..."},
		{"infer --no-such-flag x", exitUsage, "unknown flag: --no-such-flag"},
		{"infer --format xml x", exitUsage, "want text or json"},
		{"import " + good, exitUsage, "-o FILE is missing"},
		{"emit icc " + good, exitUsage, `there is no "icc": want go, llvm, gcc, gcda, bolt, propeller`},
		{"emit gcc --gcc-version 11 " + good, exitUsage, "no --gcc-version 11"},
		{"emit llvm --gcc-version 12 " + good, exitUsage, "unknown flag: --gcc-version"},
		{"emit gcda -o x " + good, exitUsage, "--notes DIR is missing"},
		{"emit gcda --notes x " + good, exitUsage, "-o DIR is missing"},
		{"emit gcda --notes x -o - " + good, exitUsage, "standard output cannot hold"},
		{"emit gcda --notes x -o y --if-changed " + good, exitUsage, "unknown flag: --if-changed"},
		{"emit gcda --notes " + dir + "/absent -o y " + good, exitFailed, "absent: no such file"},
		{"emit gcda --notes " + dir + " -o y " + good, exitNothing, "no notes of gcc (*.gcno)"},
		{"emit gcda --notes " + text + " -o y " + good, exitNothing, "notes.txt: offset 0x0: magic"},
		{"emit go", exitUsage, "wrong number of arguments"},
		{"images --symfs " + text + " " + good, exitUsage, "is not a directory"},
		{"infer " + dir + "/absent", exitFailed, "no such file"},
		{"list " + good + " main", exitFailed, "the procedure comes before the recordings"},
		{"images --symfs " + dir + "/absent " + good, exitFailed, "no such file"},
		{"import " + good + " -o " + dir + "/absent/out", exitFailed, "no such file"},
		{"import " + good + " -o " + dir, exitFailed, "is a directory"},
		{"infer " + text, exitNothing, "notes.txt: "},
		{"infer " + good + " " + text, exitNothing, "notes.txt: "},
		{"infer " + dir, exitNothing, "a directory"},
		{"infer -", exitNothing, "standard input: "},
		{"infer " + good, exitNothing, "none of 3 samples of cpu-clock"},
		{"emit go " + good, exitNothing, "/nowhere/at/all, 100.0% of the samples: no such file; its samples are not used"},
	} {
		code, stdout, stderr := runCLI(t, strings.Fields(tt.args)...)
		if code != tt.code || !strings.Contains(stderr, tt.want) {
			t.Errorf("backfeed %s: exit code %d, want %d; message %q, want %q in it", tt.args, code, tt.code, stderr, tt.want)
		}
		if stdout != "" {
			t.Errorf("backfeed %s: failed, and printed %q", tt.args, stdout)
		}
		last := strings.LastIndex("\n"+stderr, "\nbackfeed: ")
		if last < 0 || strings.Contains(stderr, "backfeed: backfeed:") {
			t.Errorf("backfeed %s: message %q does not say backfeed: once", tt.args, stderr)
		}
	}
}

// TestPanic: a mistake of ours is reported as one.
func TestPanic(t *testing.T) {
	defer func(old []*command) { commands = old }(commands)
	commands = []*command{{name: "boom", short: "fail", run: func(*cli, []string) error {
		var none []int
		return fmt.Errorf("%d", none[len(commands)])
	}}}
	code, _, stderr := runCLI(t, "boom")
	if code != exitFailed || !strings.HasPrefix(stderr, "backfeed: internal error: runtime error: index out of range") || !strings.Contains(stderr, "BACKFEED_TRACE=1") {
		t.Errorf("exit code %d, message %q", code, stderr)
	}
	t.Setenv("BACKFEED_TRACE", "1")
	if _, _, stderr := runCLI(t, "boom"); !strings.Contains(stderr, "TestPanic") {
		t.Errorf("the trace does not show where: %q", stderr)
	}
}

// TestExitCodes: each kind of failure has an exit code of its own.
func TestExitCodes(t *testing.T) {
	seen := map[int]fail.Kind{exitDone: 0}
	for k := fail.Other; k <= fail.Machine; k++ {
		code := codeOf(fmt.Errorf("record: %w", fail.Errorf(k, "no counters")))
		if other, ok := seen[code]; ok {
			t.Errorf("kinds %d and %d both have the exit code %d", k, other, code)
		}
		seen[code] = k
	}
	if code := codeOf(io.EOF); code != exitFailed {
		t.Errorf("code of a plain error is %d, want %d", code, exitFailed)
	}
}

// TestWriteKeeps: a command that fails leaves the output of the last run alone.
func TestWriteKeeps(t *testing.T) {
	dir := t.TempDir()
	text := testtool.Write(t, dir, "notes.txt", "these are not samples\n")
	old := testtool.Write(t, dir, "default.pgo", "the last good profile")
	for _, args := range [][]string{
		{"import", text, "-o", old},
		{"infer", text, "-o", old},
		{"emit", "go", text, "-o", old},
		{"emit", "go", recording(t, dir, "lost.bfr", sample.ImageID{Path: "/nowhere"}), "-o", old},
	} {
		if code, _, stderr := runCLI(t, args...); code != exitNothing {
			t.Errorf("%s: exit code %d: %s", args[0], code, stderr)
		}
		if got := testtool.Read(t, old); got != "the last good profile" {
			t.Errorf("%s failed and overwrote its output with %q", args[0], got)
		}
	}
}

// TestMerge: recordings add up to the same bytes in any order, and a recording
// that came through import is the same.
func TestMerge(t *testing.T) {
	dir := t.TempDir()
	a := recording(t, dir, "a", sample.ImageID{Path: "/bin/a"})
	b := recording(t, dir, "b", sample.ImageID{Path: "/bin/b"})
	merge := func(args ...string) string {
		code, stdout, stderr := runCLI(t, append(args, "-o", "-")...)
		if code != exitDone {
			t.Errorf("%v: exit code %d: %s", args, code, stderr)
		}
		return stdout
	}
	ab, ba := merge("merge", a, b), merge("merge", b, a)
	if ab != ba || len(ab) <= len(testtool.Read(t, a)) {
		t.Errorf("a and b give %d bytes, b and a %d", len(ab), len(ba))
	}
	if again := merge("import", a); again != testtool.Read(t, a) {
		t.Error("importing a recording changed it")
	}
}

// TestStdin: "-" reads standard input.
func TestStdin(t *testing.T) {
	path := recording(t, t.TempDir(), "a", sample.ImageID{Path: "/bin/a"})
	var out, errs bytes.Buffer
	code := run([]string{"import", "-", "-o", "-"}, strings.NewReader(testtool.Read(t, path)), &out, &errs)
	if code != exitDone || out.String() != testtool.Read(t, path) {
		t.Errorf("exit code %d, %d bytes: %s", code, out.Len(), errs.String())
	}
}

// recording writes a recording of three samples in one image.
func recording(t *testing.T, dir, name string, id sample.ImageID) string {
	t.Helper()
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Period: 1000000, Unit: "ns"})
	c.AddSample(c.Image(id), 0x1000, 3)
	rec := &sample.Recording{}
	rec.Add(c)
	return testtool.Write(t, dir, name, string(rec.Encode()))
}

// self is the ELF image of this test; other systems have none.
func self(t *testing.T) string {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("this system's programs are not ELF files")
	}
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
