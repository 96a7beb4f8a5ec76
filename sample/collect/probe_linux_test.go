//go:build amd64 || arm64

package collect

import (
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample/probe"
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
	testtool.Live(t, "probes")
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
	if len(costs) != len(probe.Host.Kinds)+1 {
		t.Fatalf("%d kinds tried, want %d", len(costs), len(probe.Host.Kinds)+1)
	}
	for i, c := range costs {
		t.Logf("%-16s %v", c.Kind, c.Cost)
		if !c.Exact {
			t.Errorf("%s: hits or outcomes were not all counted", c.Kind)
		}
		nop := strings.HasPrefix(c.Kind, "nop") // emulated from Linux 6.16 on, on AArch64 from 6.13
		if want := i < len(probe.Host.Kinds); c.Emulated != want && !nop {
			t.Errorf("%s: emulated: %v", c.Kind, c.Emulated)
		}
	}
	code, offs := probe.Host.LoopProgram()
	branch := code[offs[0]:]
	cond := probe.Host.Kinds[0].Condition(branch)
	if err := p.Allows(branch, cond); err != nil {
		t.Errorf("a branch: %v", err)
	}
	if err := p.Allows(branch, cond^1); err == nil {
		t.Error("a branch as the opposite: no error")
	}
}

// TestMeasured: what a probe costs is measured again where a stepped one seems to cost nothing, and not for ever.
func TestMeasured(t *testing.T) {
	failed := errors.New("no")
	for _, tt := range []struct {
		stepped []time.Duration // of each try; -1 fails
		tries   int
		want    time.Duration
		err     error
	}{
		{[]time.Duration{20}, 1, 20, nil},
		{[]time.Duration{0, 0, 30}, 3, 30, nil},
		{[]time.Duration{0, -1}, 2, 0, failed},
		{make([]time.Duration, 10), triesOfAll, 0, nil},
	} {
		tries := 0
		costs, err := measured(func() ([]probe.Cost, error) {
			c := tt.stepped[tries]
			if tries++; c < 0 {
				return nil, failed
			}
			return []probe.Cost{{Cost: 1}, {Cost: c}}, nil
		})
		if tries != tt.tries || err != tt.err || err == nil && costs[1].Cost != tt.want {
			t.Errorf("%v: %v after %d tries, %v", tt.stepped, costs, tries, err)
		}
	}
}
