//go:build amd64

package collect

import (
	"errors"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	BecomeProber()
	if os.Args[0] == holderName {
		os.Exit(hold())
	}
	os.Exit(m.Run())
}

// prober opens a prober of s; the test is skipped where that is not possible.
func prober(t *testing.T, s *System) *Prober {
	t.Helper()
	p, err := OpenProber(s)
	if unavailable := (*Unavailable)(nil); errors.As(err, &unavailable) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// TestProberTrial: what a prober finds out of this kernel is that branches, calls and
// pushes are emulated, counted exactly, and that a move is not emulated.
func TestProberTrial(t *testing.T) {
	p := prober(t, system(t, SystemOptions{Frequency: 97, Probes: true, PIDs: []int{os.Getpid()}}))
	costs := p.Costs()
	if len(costs) != len(probeKinds)+1 {
		t.Fatalf("%d kinds tried, want %d", len(costs), len(probeKinds)+1)
	}
	for i, c := range costs {
		t.Logf("%-16s %v", c.Kind, c.Cost)
		if !c.Exact {
			t.Errorf("%s: hits or outcomes were not all counted", c.Kind)
		}
		nop := i >= 7 // emulated from Linux 6.16 on
		if want := i < len(probeKinds); c.Emulated != want && !nop {
			t.Errorf("%s: emulated: %v", c.Kind, c.Emulated)
		}
	}
	if err := p.Allows([]byte{0x75, 0x10}, 5); err != nil {
		t.Errorf("jnz: %v", err)
	}
	if err := p.Allows([]byte{0x75, 0x10}, 4); err == nil {
		t.Error("jnz as jz: no error")
	}
}
