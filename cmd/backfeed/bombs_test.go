package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestBombsExit: a file that asks for more than its size justifies gives exit code 4 and an
// error that names the file and where in it. The formats' own packages have a test of each bomb.
func TestBombsExit(t *testing.T) {
	dir := t.TempDir()
	gz := func(name, head, text string, times int) string {
		var b bytes.Buffer
		z, _ := gzip.NewWriterLevel(&b, gzip.BestSpeed)
		z.Write([]byte(head + strings.Repeat(text, times)))
		z.Close()
		return testtool.Write(t, dir, name, b.String())
	}
	counts, empty := testtool.Write(t, dir, "counts.json", countsJSON), testtool.Write(t, dir, "empty", "")
	truth := gz("truth.json.gz", `{"/bin/app": {"insn": {"0x1000": 1}`, " ", 20<<20)
	callgrind := gz("callgrind.out.gz", "# callgrind format\npositions: instr\nevents: Ir\n", "#\n", 16<<20)
	const types = "\x0a\x04\x08\x01\x10\x02" // samples/count
	pprof := gz("cpu.pprof", types+types, "\x12\x06\x0a\x01\x01\x12\x01\x01", 1<<20)
	var text strings.Builder
	name := strings.Repeat("f", 2000)
	fmt.Fprintf(&text, "%s:1:1\n", name)
	for i := range 400 {
		fmt.Fprintf(&text, "%s1: %s:1\n", strings.Repeat(" ", i+1), name)
	}
	nested := testtool.Write(t, dir, "nested.sampleprof", text.String())
	for _, tt := range []struct {
		args  []string
		wants []string
	}{
		{[]string{"verify", counts, "--truth", truth}, []string{"truth.json.gz: offset 0x", "unpacked"}},
		{[]string{"import", callgrind, "-o", dir + "/out"}, []string{"callgrind.out.gz: line ", "unpacked"}},
		{[]string{"import", pprof, "-o", dir + "/out"}, []string{"cpu.pprof: pprof: offset 0x", "of memory"}},
		{[]string{"diff", empty, pprof}, []string{"cpu.pprof: go: offset 0x", "of memory"}},
		{[]string{"diff", "--for", "llvm", empty, nested}, []string{"nested.sampleprof: llvm: line ", "of memory"}},
		{[]string{"verify", testtool.Write(t, dir, "zero.json", strings.Replace(countsJSON, `"size": 8`, `"size": 0`, 1)), "--truth", truth}, []string{"zero.json: offset 0x142: images[0].procs[0].blocks[0].size: 0, want 1 or more"}},
	} {
		code, _, errs := runCLI(t, tt.args...)
		if code != exitNothing {
			t.Errorf("%s: exit code %d, want %d: %s", tt.args[0], code, exitNothing, errs)
		}
		for _, want := range tt.wants {
			if !strings.Contains(errs, want) {
				t.Errorf("%s: %s, want %q in it", tt.args[0], errs, want)
			}
		}
	}
}
