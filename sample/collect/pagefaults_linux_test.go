//go:build amd64 || arm64

package collect

import (
	"os/exec"
	"strconv"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// faultsOf returns the page faults in a program, and how many of them are at its place with the most.
func faultsOf(rec *sample.Recording, exe string) (all, most uint64) {
	for _, c := range rec.Counts {
		for _, ic := range c.Images {
			for _, n := range ic.Faults {
				if ic.ID.Path == exe {
					all, most = all+n, max(most, n)
				}
			}
		}
	}
	return all, most
}

// heedFaults has page faults be looked at, whatever they take here.
func heedFaults(t *testing.T) {
	was := dearFault
	dearFault = 0
	t.Cleanup(func() { dearFault = was })
}

const faultPages, faultRounds = 1000, 40

// checkFaults holds what was seen of the program faults to what it did.
func checkFaults(t *testing.T, rec *sample.Recording, exe string) {
	t.Helper()
	for _, c := range rec.Counts {
		if err := c.Check(); err != nil {
			t.Error(err)
		}
		if c.Event.Name != cpuClock {
			t.Skipf("sampled by %s: no timer, beside which faults are", c.Event.Name)
		}
	}
	const want = faultPages * faultRounds
	all, most := faultsOf(rec, exe)
	t.Logf("%d faults, %d at one place, of %d", all, most, want)
	if most < want*6/10 || most > want*12/10 { // each takes longer while it is looked at, so that there are fewer for the time
		t.Errorf("%d faults at one place, want about %d", most, want)
	}
	if all-most > want/20 {
		t.Errorf("%d faults elsewhere", all-most)
	}
}

// TestRecordFaults: beside a timer, it is seen where pages fault, and how often, though not all faults are looked at.
func TestRecordFaults(t *testing.T) {
	testtool.Live(t, "samples")
	heedFaults(t)
	exe := program(t, "faults")
	rec, _, err := Record(t.Context(), Options{Command: []string{exe, strconv.Itoa(faultPages), strconv.Itoa(faultRounds)}})
	if err != nil {
		t.Fatal(err)
	}
	checkFaults(t, rec, exe)
}

// TestRecordFaultsSystem: likewise on the whole machine.
func TestRecordFaultsSystem(t *testing.T) {
	heedFaults(t)
	exe := program(t, "faults")
	s := system(t, SystemOptions{Frequency: 999})
	rec := &sample.Recording{}
	ended := make(chan error, 1)
	go func() {
		time.Sleep(faultPaceEvery + tendEvery) // a period by what there was before
		ended <- exec.Command(exe, strconv.Itoa(faultPages), strconv.Itoa(faultRounds)).Run()
	}()
	for done := false; !done; {
		select {
		case err := <-ended:
			if done = true; err != nil {
				t.Fatal(err)
			}
		case <-time.After(100 * time.Millisecond):
		}
		r, err := s.Drain()
		if err != nil {
			t.Fatal(err)
		}
		rec.AddAll(r)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	last, err := s.Drain()
	if err != nil {
		t.Fatal(err)
	}
	rec.AddAll(last)
	checkFaults(t, rec, exe)
}

// TestFaultTime: a first touch of a page takes some time.
func TestFaultTime(t *testing.T) {
	if took := faultTime(); took <= 0 || took > 10*time.Millisecond {
		t.Errorf("a page fault takes %v", took)
	} else {
		t.Log(took)
	}
}
