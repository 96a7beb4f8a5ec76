package image

import (
	"bufio"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// A line is one instruction as objdump shows it.
type line struct {
	addr     Addr
	len      int
	mnemonic string // prefixes left out
	operands string
	prefix   string
}

// prefixes are the words that objdump puts before a mnemonic.
var prefixes = map[string]bool{
	"notrack": true, "bnd": true, "lock": true, "rep": true, "repz": true, "repnz": true, "data16": true, "addr32": true,
	"cs": true, "ds": true, "es": true, "fs": true, "gs": true, "ss": true, "xacquire": true, "xrelease": true,
}

func parseLine(s string) (line, bool) {
	f := strings.SplitN(s, "\t", 3)
	if len(f) < 3 {
		return line{}, false
	}
	a, err := strconv.ParseUint(strings.TrimSuffix(strings.TrimSpace(f[0]), ":"), 16, 64)
	if err != nil {
		return line{}, false
	}
	n := len(strings.Fields(f[1]))
	if fs := strings.Fields(f[1]); n == 1 && len(fs[0]) == 8 {
		n = 4 // AArch64: one word
	}
	l := line{addr: Addr(a), len: n}
	for word, rest := "", strings.ReplaceAll(f[2], "\t", " "); ; {
		word, rest, _ = strings.Cut(strings.TrimSpace(rest), " ")
		if p, _, _ := strings.Cut(word, "."); !prefixes[word] && p != "rex" {
			l.mnemonic, l.operands = word, strings.TrimSpace(rest)
			return l, true
		}
		l.prefix += word + " "
	}
}

// objdump calls f for every instruction of the code of the file at path. The test
// is skipped where the tool or the file is missing.
func objdump(tb testing.TB, tool, path string, f func(line), flags ...string) {
	tb.Helper()
	if _, err := os.Stat(path); err != nil {
		tb.Skipf("no %s", path)
	}
	cmd := testtool.Command(tb, tool, slices.Concat([]string{"-d", "-w"}, flags, []string{path})...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	sc := bufio.NewScanner(out)
	sc.Buffer(make([]byte, 1<<16), 1<<20)
	for sc.Scan() {
		if l, ok := parseLine(sc.Text()); ok {
			f(l)
		}
	}
	io.Copy(io.Discard, out)
	if err := cmd.Wait(); err != nil {
		tb.Fatalf("%s %s: %v", tool, path, err)
	}
}
