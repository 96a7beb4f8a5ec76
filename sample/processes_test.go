package sample

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestTellProcesses: a process counts for each image that it maps after its program began while recorded, once.
func TestTellProcesses(t *testing.T) {
	for _, tt := range []struct{ name, changes, want string }{
		{"program and library", "exec:1 map:1:a:1000-2000 map:1:b:3000-4000", "a 1, b 1"},
		{"several parts of one image", "exec:1 map:1:a:1000-2000 map:1:a:3000-4000", "a 1"},
		{"began by its time alone", "began:1:5000 map:1:a:1000-2000", "a 1"},
		{"ran before", "map:1:a:1000-2000 map:1:b:3000-4000", ""},
		{"child of what ran before", "map:1:a:1000-2000 fork:2:1 map:2:b:3000-4000", ""},
		{"two processes", "exec:1 map:1:a:1000-2000 exec:2 map:2:a:1000-2000", "a 2"},
		{"again in the same process", "exec:1 map:1:a:1000-2000 exec:1 map:1:a:1000-2000", "a 2"},
		{"child runs on", "exec:1 map:1:a:1000-2000 fork:2:1 map:2:a:5000-6000", "a 1"},
		{"child loads a library", "exec:1 map:1:a:1000-2000 fork:2:1 map:2:b:3000-4000", "a 1, b 1"},
		{"both load it", "exec:1 map:1:a:1000-2000 fork:2:1 map:2:b:3000-4000 map:1:b:3000-4000", "a 1, b 2"},
		{"child executes", "exec:1 map:1:a:1000-2000 fork:2:1 exec:2 map:2:a:1000-2000", "a 2"},
		{"no image", "exec:1 map:1:VDSO:1000-2000", ""},
		{"without samples", "exec:1 map:1:c:1000-2000", ""},
		{"outlives the recording, or ends", "exec:1 map:1:a:1000-2000 exit:1 exec:2 map:2:a:1000-2000", "a 2"},
	} {
		s := play(t, tt.changes)
		c, empty := NewCounts(CPU{}, Event{Name: "cycles"}), NewCounts(CPU{}, Event{Name: "faults"})
		for _, path := range []string{"a", "b"} {
			c.AddSample(c.Image(ImageID{Path: path}), 1, 1)
		}
		for range 2 { // the second has nothing more to tell
			s.TellProcesses(c, empty)
		}
		var got []string
		for _, ic := range c.Images {
			if ic.Processes > 0 {
				got = append(got, fmt.Sprint(ic.ID.Path, " ", ic.Processes))
			}
		}
		if got := strings.Join(got, ", "); got != tt.want {
			t.Errorf("%s: %s: %q, want %q", tt.name, tt.changes, got, tt.want)
		}
		if len(empty.Images) > 0 {
			t.Errorf("%s: images of an event without samples: %v", tt.name, empty.Images)
		}
	}
}

// TestProcessesWait: processes of an image wait for its first sample, though not without bound.
func TestProcessesWait(t *testing.T) {
	var s Spaces
	begin := func(pid int, path string) {
		s.Exec(pid)
		s.Map(pid, Mapping{Start: 1, End: 2, Image: ImageID{Path: path}})
		s.Exit(pid)
	}
	begin(1, "a")
	c := NewCounts(CPU{}, Event{})
	s.TellProcesses(c)
	c.AddSample(c.Image(ImageID{Path: "a"}), 1, 1)
	begin(2, "a")
	if s.TellProcesses(c); c.Images[0].Processes != 2 {
		t.Errorf("%d processes, want those of before the first sample, too", c.Images[0].Processes)
	}
	for i := range 3 * maxBegun {
		begin(3, fmt.Sprint("once ", i))
	}
	if len(s.begun) > maxBegun {
		t.Errorf("%d images are waited for", len(s.begun))
	}
}

// withProcesses is withPaths with processes.
func withProcesses() *Recording {
	r := withPaths()
	c := r.Counts[0]
	c.AddProcesses(c.Image(ImageID{Build: id(0xb1, 0xd0)}), 20)
	return r
}

// TestDumpProcesses pins what processes add to the format.
func TestDumpProcesses(t *testing.T) {
	r := withProcesses()
	check(t, r)
	checkDump(t, r, "testdata/processes.dump")
}

// TestScaleProcesses: processes are scaled as samples are.
func TestScaleProcesses(t *testing.T) {
	counts := func(r *Recording) (all []uint64) {
		for _, c := range r.Counts {
			for _, ic := range c.Images {
				if ic.Processes > 0 {
					all = append(all, ic.Processes)
				}
			}
		}
		return all
	}
	for w, want := range map[float64]uint64{0.25: 5, 1: 20, 3: 60} {
		if got := counts(withProcesses().Scale(w)); !slices.Equal(got, []uint64{want}) {
			t.Errorf("20 processes by %g: %d, want %d", w, got, want)
		}
	}
	if got := counts(Merge(withProcesses(), withPaths(), withProcesses())); !slices.Equal(got, []uint64{40}) {
		t.Errorf("merged: %d processes, want 40", got)
	}
}
