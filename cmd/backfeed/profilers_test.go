package main

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// TestProfilers: what the topic says does the same as another profiler does work, where it reads a recording; the
// flags of the rest TestPageCommands checks.
func TestProfilers(t *testing.T) {
	text, _ := topic("profilers")
	symfs := []string{"--symfs", mixDir}
	rec, err := sample.Decode([]byte(testtool.Read(t, filepath.Join(mixDir, "samples.bfr"))))
	if err != nil {
		t.Fatal(err)
	}
	c := rec.Counts[0]
	c.AddOrigin(sample.Origin{Process: "mix", Thread: "mix"}, c.Total)
	for i, ic := range c.Images {
		for off := range ic.At {
			c.AddMoment(i, off, c.SliceAt(0), 1)
		}
	}
	rec.AddRun(sample.Run{Host: "host", Command: []string{"mix"}, Began: 1, Lasted: 1})
	file := testtool.Write(t, t.TempDir(), "app.bfr", string(rec.Encode()))
	others := "record agent serve optimize refresh pgo verify" // those that record, go on for ever or want more than a recording
	ran := 0
	for line := range strings.Lines(text) {
		_, here, ok := strings.Cut(line, " | ") // the second cell
		if !ok {
			continue
		}
		for _, m := range regexp.MustCompile("`backfeed ([^`]+)`").FindAllStringSubmatch(here, -1) {
			args := strings.Fields(m[1])
			if strings.Contains(others, args[0]) || args[0] == "store" {
				continue
			}
			for i, a := range args {
				if a == "app.bfr" {
					args[i] = file
				}
			}
			var refused string // what else the recording or the program would have to be
			switch {
			case strings.HasPrefix(m[1], "emit go"):
				refused = "not a Go program"
			case strings.HasPrefix(m[1], "emit propeller"):
				refused = ".llvm_bb_addr_map"
				args[len(args)-1] = filepath.Join(t.TempDir(), "order.txt")
			case strings.HasPrefix(m[1], "emit gcda"):
				refused = "no notes of gcc"
			case args[0] == "export":
				refused = "no paths of walks"
			case strings.Contains(m[1], "fpe"):
				refused = "signal:signal_generate"
			case args[0] == "layout" && len(args) == 3:
				refused = "not clearly better than that in which the image is linked"
			case args[0] == "stats" || args[0] == "diff" || args[0] == "verdict":
				args = append(args, "-n", "3")
			}
			code, out, errs := runCLI(t, append(args, symfs...)...)
			if ran++; refused != "" {
				if code != exitNothing && code != exitGate || !strings.Contains(errs, refused) {
					t.Errorf("backfeed %s: exit code %d, want it refused for %q: %s", m[1], code, refused, errs)
				}
			} else if code != 0 || strings.TrimSpace(out) == "" {
				t.Errorf("backfeed %s: exit code %d: %q %s", m[1], code, out[:min(len(out), 80)], errs)
			}
		}
	}
	if ran < 20 {
		t.Errorf("%d commands ran", ran)
	}
}
