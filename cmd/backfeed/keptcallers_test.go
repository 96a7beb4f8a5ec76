package main

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/perfdata"
)

// TestKeptCallers: import and merge keep as many callers of perf.data as --callers says, and refuse it where there are none to choose from.
func TestKeptCallers(t *testing.T) {
	dir := t.TempDir()
	data, deep := filepath.Join(dir, "perf.data"), filepath.Join(dir, "deep.bfr")
	s := perfdata.BranchStacks{CPU: sample.CPU{Arch: "x86_64"}, Processes: []perfdata.StackProcess{{
		PID: 1, Name: "a", Maps: []perfdata.StackMapping{{ID: sample.ImageID{Build: sample.BuildID{1}, Path: "/bin/a"}, Addr: 0x1000, Size: 0x1000}},
		Samples: []perfdata.StackSample{{IP: 0x1000}},
	}}}
	const calls = 150
	for i := range uint64(calls) {
		s.Processes[0].Samples[0].Callers = append(s.Processes[0].Samples[0].Callers, 0x1010+i)
	}
	var b bytes.Buffer
	if err := s.Write(&b); err != nil {
		t.Fatal(err)
	}
	testtool.Put(t, data, b.String())
	for _, cmd := range []string{"import", "merge"} {
		for flag, want := range map[string]string{"": "[8]", "--callers": "[128]", "--callers=all": "[128]", "--callers=2": "[3]", "--callers=no": "[]"} {
			args := []string{cmd, data, "-o", deep}
			if flag != "" {
				args = append(args, flag)
			}
			must(t, args...)
			rec, err := sample.Decode([]byte(testtool.Read(t, deep)))
			if err != nil {
				t.Fatal(err)
			}
			frames := []int{}
			for _, st := range rec.Counts[0].Stacks {
				frames = append(frames, len(st.Frames))
			}
			if got := fmt.Sprint(frames); got != want || rec.Samples() != 1 {
				t.Errorf("%s: stacks of %s frames, want %s; %d samples", strings.Join(args, " "), got, want, rec.Samples())
			}
		}
		for _, args := range [][]string{{data, "--callers=go"}, {data, "--callers=128"}, {data, "--callers=0"}, {deep, "--callers=3"}, {deep, "--symfs", dir}} {
			if code, _, errs := runCLI(t, append([]string{cmd, "-o", filepath.Join(dir, "no.bfr")}, args...)...); code != exitUsage {
				t.Errorf("%s %s: exit code %d: %s", cmd, args, code, errs)
			}
		}
	}
}
