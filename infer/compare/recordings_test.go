package compare

import (
	"math"
	"testing"

	"backfeed/sample"
)

// TestUsed: what commands used stands beside their samples only where it is of the same.
func TestUsed(t *testing.T) {
	run := func(user, system uint64) sample.Run {
		return sample.Run{Usage: sample.Usage{User: user, System: system}}
	}
	for _, tt := range []struct {
		name     string
		runs     []sample.Run
		unlisted uint64
		used     float64
		ok       bool
	}{
		{"no run is known", nil, 0, 0, false},
		{"one command", []sample.Run{run(1e6, 5e5)}, 0, 1.5, true},
		{"two", []sample.Run{run(6e5, 1e5), run(5e5, 1e5)}, 0, 1.3, true},
		{"one of two is known", []sample.Run{run(1e6, 5e5), {}}, 0, 0, false},
		{"one of two is listed", []sample.Run{run(1e6, 5e5)}, 1, 0, false},
		{"a part of the run was sampled", []sample.Run{run(2e6, 5e5)}, 0, 0, false},
		{"more than the run was sampled", []sample.Run{run(5e5, 5e5)}, 0, 0, false},
	} {
		rec := &sample.Recording{Runs: tt.runs, Unlisted: tt.unlisted, Counts: []*sample.Counts{{Event: sample.Event{Name: "cpu-clock", Unit: "ns"}, Weight: 1e9}}}
		if used, ok := Used(rec, rec.Counts); ok != tt.ok || ok && math.Abs(used-tt.used) > 1e-9 {
			t.Errorf("%s: %g, %t, want %g, %t", tt.name, used, ok, tt.used, tt.ok)
		}
	}
}

// TestUserOnly: time is called that in user code only where the kernel would have been sampled and was not.
func TestUserOnly(t *testing.T) {
	cpu := sample.CPU{Arch: "x86_64", Vendor: "GenuineIntel"}
	counts := func(cpu sample.CPU, event, image string, lost sample.Loss) *sample.Counts {
		c := sample.NewCounts(cpu, sample.Event{Name: event, Unit: "ns"})
		c.AddSample(c.Image(sample.ImageID{Path: image}), 8, 5)
		c.Lose(lost, 1)
		return c
	}
	user := counts(cpu, "cpu-clock", "/bin/app", sample.LostVDSO)
	for _, tt := range []struct {
		name string
		more *sample.Counts
		want bool
	}{
		{"a timer's", counts(cpu, "cpu-clock:u", "/bin/app", sample.LostVDSO), true},
		{"with samples of the kernel", counts(cpu, "cpu-clock", "/bin/app", sample.LostKernel), false},
		{"with its places", counts(cpu, "task-clock", "[kernel]", sample.LostVDSO), false},
		{"a pprof profile's", counts(sample.CPU{}, "cpu-clock", "/bin/app", sample.LostVDSO), false},
		{"by ptrace", counts(cpu, "ptrace-clock", "/bin/app", sample.LostVDSO), false},
	} {
		if got := UserOnly([]*sample.Counts{user, tt.more}); got != tt.want {
			t.Errorf("%s: %t, want %t", tt.name, got, tt.want)
		}
	}
	if UserOnly(nil) {
		t.Error("no samples are of user code")
	}
}
