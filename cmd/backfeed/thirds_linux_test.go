package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
)

// TestThirds records two threads that work in different thirds of the time, in each way that recordings are made by the
// kernel's programs: samples have the name of their thread, and the slice of time in which they were taken; so have waits, of
// that in which they ended.
func TestThirds(t *testing.T) {
	testtool.Live(t, "records")
	exe := program(t, "waits")
	for _, tt := range []struct {
		name  string
		flags []string
		need  *collect.Feature
	}{
		{"a machine", []string{"-a"}, collect.WholeMachine},
		{"stacks", []string{"--callers"}, collect.WholeMachine},
		{"calibrated", []string{"--calibrate", "1%"}, collect.Walks},
		{"waits", []string{"--off-cpu"}, collect.OffCPU},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if u := tt.need.Refusal(collect.ThisHost()); u != nil {
				t.Skip(designed + u.Why)
			}
			if tt.flags[0] == "-a" && testtool.Prebuilt() != "" {
				t.Skip(designed + "on emulated processors, nobody knows when sampling begins")
			}
			rec, thirds := recordThirds(t, exe, tt.flags)
			checkThirds(t, rec, exe, thirds)
			if len(rec.Off) > 0 {
				checkWaits(t, rec, thirds)
			}
		})
	}
}

// recordThirds returns a recording of the program, and when each third began and the last one ended.
func recordThirds(t *testing.T, exe string, flags []string) (*sample.Recording, [4]uint64) {
	t.Helper()
	dir := t.TempDir()
	path, said := filepath.Join(dir, "thirds.bfr"), filepath.Join(dir, "said")
	args := append([]string{"record", "-o", path}, flags...)
	line := []string{"sh", "-c", `exec "$0" thirds >"$1"`, exe, said}
	if flags[0] == "-a" {
		cmd := testtool.Command(t, line[0], line[1:]...)
		time.AfterFunc(2*time.Second, func() { cmd.Start() })
		defer func() { cmd.Process.Kill(); cmd.Wait() }()
		args = append(args, "-d", "5")
	} else {
		args = append(append(args, "--"), line...)
	}
	code, _, errs := runCLI(t, args...)
	t.Log(errs)
	if code != exitDone {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	rec, err := sample.Decode([]byte(testtool.Read(t, path)))
	if err != nil {
		t.Fatal(err)
	}
	var third [4]uint64
	if _, err := fmt.Sscanf(testtool.Read(t, said), "thirds %d %d %d %d", &third[0], &third[1], &third[2], &third[3]); err != nil {
		t.Fatal(err)
	}
	return rec, third
}

// byThread adds up by name what is of the process.
func byThread(counts []*sample.Counts) map[string]uint64 {
	n := map[string]uint64{}
	for _, c := range counts {
		for o, k := range c.Origins {
			if o.Process == "waits" {
				n[o.Thread] += k
			}
		}
	}
	return n
}

// checkThirds holds samples to who ran when: half is of each thread, and nothing is of the middle third, give or take a slice.
func checkThirds(t *testing.T, rec *sample.Recording, exe string, third [4]uint64) {
	t.Helper()
	var all, timed, early, late uint64
	for _, c := range rec.Counts {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		length := uint64(c.SliceLength())
		in := func(ms []sample.Moment) {
			for _, m := range ms {
				from, to := m.Slice*length, (m.Slice+1)*length
				timed += m.N
				switch {
				case to > third[0] && from < third[1]:
					early += m.N
				case to > third[2] && from < third[3]:
					late += m.N
				default:
					t.Logf("%d samples %v after the start", m.N, time.Duration(from)-time.Duration(third[0]))
				}
			}
		}
		for i, ic := range c.Images {
			if !strings.HasSuffix(ic.ID.Path, "/"+filepath.Base(exe)) {
				continue
			}
			all += ic.Samples()
			for _, ms := range ic.When {
				in(ms)
			}
			for _, s := range c.Stacks {
				if s.Frames[0].Image == i {
					in(s.When)
				}
			}
		}
	}
	threads := byThread(rec.Counts)
	t.Logf("%d samples, %d of a known time, %d and %d in the thirds; by thread %v", all, timed, early, late, threads)
	if all == 0 || timed != all {
		t.Errorf("%d of %d samples of the program have a time", timed, all)
	}
	// The threads start a moment late, and are called otherwise for another; each third is of one of them alone. On emulated processors
	// much is of the start, and sampling goes on when it can.
	part, least := uint64(90), uint64(20)
	if testtool.Prebuilt() != "" {
		part, least = 0, 0
	}
	if early+late < all*max(part, 80)/100 || early <= all*least/100 || late <= all*least/100 {
		t.Errorf("of %d samples, %d are in the first third and %d in the last; want half in each", all, early, late)
	}
	sum := uint64(0)
	for _, n := range threads {
		sum += n
	}
	if threads["early"]+threads["late"] < sum*part/100 || threads["early"] <= sum*least/100 || threads["late"] <= sum*least/100 {
		t.Errorf("samples by thread %v; want half of each", threads)
	}
}

// checkWaits holds time off the processor to who waited until when.
func checkWaits(t *testing.T, rec *sample.Recording, third [4]uint64) {
	t.Helper()
	at := map[int]uint64{} // us, by third: 0 is before, 4 after
	for _, c := range rec.Off {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		for s, n := range c.BySlice() {
			end, i := (s+1)*uint64(c.SliceLength()), 0
			for i < len(third) && end > third[i] {
				i++
			}
			at[i] += n
		}
	}
	threads := byThread(rec.Off)
	wait := (third[2] - third[0]) / sample.OffPeriod // of each thread, when the other has its third
	t.Logf("us off the processor by third %v, by thread %v; each thread waits %d", at, threads, wait)
	for _, name := range []string{"early", "late"} {
		if n := threads[name]; n < wait*95/100 || n > 2*wait {
			t.Errorf("%s: %d us off the processor; it waits %d", name, n, wait)
		}
	}
	// A wait is of the slice in which it ended: that of the late thread, of the last third, of which the slice may begin before;
	// those of the early one and of the first, which waits for all, of its end.
	if at[2] > wait/4 || at[3] < wait*95/100 || at[3]+at[4] < wait*33/10 {
		t.Errorf("us off the processor by third %v; want none of the middle one, and %d, %d and %d at the end", at, wait, wait, wait*3/2)
	}
}
