package perfdata

import (
	"bytes"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// twoStacks are samples of two processes, which have a library in common.
func twoStacks(callers bool) *BranchStacks {
	app := sample.ImageID{Build: sample.BuildID{0xb1, 0xd0, 7: 1}, Path: "/usr/bin/app"}
	lib := sample.ImageID{Build: sample.BuildID{0x1b, 19: 1}, Path: "/lib/libc.so.6"}
	other := sample.ImageID{Path: "/usr/bin/no build ID"}
	library := StackMapping{lib, 0x7f0000200000, 0x3000, 0}
	s := &BranchStacks{CPU: sample.CPU{Arch: "x86_64"}, Processes: []StackProcess{
		{1000, "app", []StackMapping{{app, 0x401000, 0x2000, 0x1000}, library}, []StackSample{
			{IP: 0x401010, Branches: []StackBranch{{0x401020, 0x401010}, {0x401020, 0x401010}, {0x7f0000200400, 0x401008}, {0x401004, 0x7f00002003f0}}},
			{IP: 0x401010, Branches: []StackBranch{{0x401020, 0x401010}}},
		}},
		{1001, "", []StackMapping{{other, 0x401000, 0x1000, 0}, library}, []StackSample{
			{IP: 0x7f00002003f0, Branches: []StackBranch{{0x401004, 0x7f00002003f0}, {0x401044, 0x401000}}},
		}},
	}}
	if callers {
		s.Processes[1].Samples[0].Callers = []uint64{0x401009}
	}
	return s
}

// TestWriteStacks: what is written is read again: each branch, and the code between each two of a sample.
func TestWriteStacks(t *testing.T) {
	for _, callers := range []bool{false, true} {
		var file bytes.Buffer
		if err := twoStacks(callers).Write(&file); err != nil {
			t.Fatal(err)
		}
		rec, err := Read(bytes.NewReader(file.Bytes()), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if len(rec.Counts) != 1 || rec.Counts[0].Check() != nil || rec.Counts[0].CPU.Arch != "x86_64" {
			t.Fatalf("%+v", rec.Counts)
		}
		c := rec.Counts[0]
		image := func(path string, build byte) int {
			id := sample.ImageID{Path: path, Build: sample.BuildID{build}}
			for i, ic := range c.Images {
				if ic.ID.Path == path && (ic.ID.Build[0] == build) {
					return i
				}
			}
			t.Fatalf("no %s in %v", id, c.Images)
			return 0
		}
		app, lib, other := image("/usr/bin/app", 0xb1), image("/lib/libc.so.6", 0x1b), image("/usr/bin/no build ID", 0)
		at := func(image int, off sample.Offset) sample.Frame { return sample.Frame{Image: image, Off: off} }
		branches := map[sample.Branch]sample.BranchCount{
			{From: at(app, 0x1020), To: at(app, 0x1010)}: {N: 3},
			{From: at(lib, 0x400), To: at(app, 0x1008)}:  {N: 1},
			{From: at(app, 0x1004), To: at(lib, 0x3f0)}:  {N: 1},
			{From: at(other, 4), To: at(lib, 0x3f0)}:     {N: 1},
			{From: at(other, 0x44), To: at(other, 0)}:    {N: 1},
		}
		if !maps.Equal(c.Branches, branches) {
			t.Errorf("branches %v, want %v", c.Branches, branches)
		}
		ranges := map[sample.Range]uint64{
			{Image: app, First: 0x1010, Last: 0x1020}: 1,
			{Image: app, First: 0x1008, Last: 0x1020}: 1,
			{Image: lib, First: 0x3f0, Last: 0x400}:   1,
			{Image: other, First: 0, Last: 4}:         1,
		}
		if !maps.Equal(c.Ranges, ranges) {
			t.Errorf("ranges %v, want %v", c.Ranges, ranges)
		}
		called := false
		for _, s := range c.Stacks {
			called = called || len(s.Frames) == 2 && s.Frames[1] == at(other, 9)
		}
		if called != callers {
			t.Errorf("stacks %v, want a caller: %t", c.Stacks, callers)
		}
	}
}

// TestMaxBranches: a sample of the most branches and frames fits into a record.
func TestMaxBranches(t *testing.T) {
	s := twoStacks(true)
	x := &s.Processes[0].Samples[0]
	x.Branches, x.Callers = make([]StackBranch, MaxBranches), make([]uint64, 127)
	if n := recordHeaderSize + len(x.body(1, 1, true)); n >= 1<<16 {
		t.Errorf("%d bytes", n)
	}
}

// TestScript pins the text, and holds that without callers to perf's: with callers, perf 6.1 prints offsets in
// files, where readers want addresses.
func TestScript(t *testing.T) {
	var script, chains bytes.Buffer
	if err := twoStacks(false).WriteScript(&script); err != nil {
		t.Fatal(err)
	}
	testtool.Golden(t, "testdata/stacks.script", script.Bytes())
	if err := twoStacks(true).WriteScript(&chains); err != nil {
		t.Fatal(err)
	}
	testtool.Golden(t, "testdata/chains.script", chains.Bytes())

	perf := testtool.Path(t, "perf")
	file := filepath.Join(t.TempDir(), "perf.data")
	var b bytes.Buffer
	if err := twoStacks(false).Write(&b); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	got := testtool.Output(t, "", perf, "script", "-i", file, "-F", "ip,brstack", "--show-mmap-events")
	if got != script.String() {
		t.Errorf("perf script prints\n%s\nwant\n%s", got, script.String())
	}
}

// TestScriptPaths: text of perf script is refused for images whose paths would make lines of their own.
func TestScriptPaths(t *testing.T) {
	for path, want := range map[string]bool{
		"/bin/a b": true, "/bin/é": true, "/bin/a\nPERF_RECORD_MMAP2": false, "/bin/\x1b[31m": false, "/bin/\xff": false, "/bin/\u202e": false,
	} {
		s := &BranchStacks{Processes: []StackProcess{{PID: 1, Maps: []StackMapping{{ID: sample.ImageID{Path: path}}}}}}
		if err := s.WriteScript(io.Discard); (err == nil) != want {
			t.Errorf("%q: %v", path, err)
		}
	}
}
