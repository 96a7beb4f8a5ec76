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

// TestMeasured: what a probe costs is measured again where a stepped one seems to cost nothing, and not for ever; a kind that seems
// to be stepped is timed once more.
func TestMeasured(t *testing.T) {
	failed := errors.New("no")
	exact := func(c time.Duration) probe.Cost { return probe.Cost{Cost: c, Exact: true} }
	for _, tt := range []struct {
		name        string
		kind        probe.Cost
		stepped     []time.Duration // of each try; -1 fails
		again       probe.Cost      // of the kind by itself; below 0 fails
		tries, ones int
		want        probe.Cost
		wantStepped time.Duration
		err         error
	}{
		{"cheap", exact(1), []time.Duration{20}, exact(0), 1, 0, exact(1), 20, nil},
		{"stepped seems free", exact(1), []time.Duration{0, 0, 30}, exact(0), 3, 0, exact(1), 30, nil},
		{"all fails", exact(1), []time.Duration{0, -1}, exact(0), 2, 0, exact(0), 0, failed},
		{"slow by chance", exact(18), []time.Duration{20}, exact(2), 1, 1, exact(2), 20, nil},
		{"slow for ever", exact(18), []time.Duration{20}, exact(19), 1, 1, exact(18), 20, nil},
		{"miscounted when timed again", exact(18), []time.Duration{20}, probe.Cost{Cost: 2}, 1, 1, probe.Cost{Cost: 2}, 20, nil},
		{"not counted: not timed again", probe.Cost{Cost: 18}, []time.Duration{20}, exact(2), 1, 0, probe.Cost{Cost: 18}, 20, nil},
		{"one fails", exact(18), []time.Duration{20}, exact(-1), 1, 1, exact(0), 0, failed},
		{"stepped stays free", exact(1), make([]time.Duration, 10), exact(1), triesOfAll, 0, exact(1), 0, nil},
	} {
		tries, ones := 0, 0
		costs, err := measured(probe.Host, func() ([]probe.Cost, error) {
			c := tt.stepped[tries]
			if tries++; c < 0 {
				return nil, failed
			}
			return []probe.Cost{tt.kind, exact(c)}, nil
		}, func(kind int) (probe.Cost, error) {
			if ones++; kind != 0 {
				t.Errorf("%s: kind %d was timed again", tt.name, kind)
			}
			if tt.again.Cost < 0 {
				return probe.Cost{}, failed
			}
			return tt.again, nil
		})
		if tries != tt.tries || ones != tt.ones || err != tt.err ||
			err == nil && (costs[0] != tt.want || costs[1] != exact(tt.wantStepped)) {
			t.Errorf("%s: %v after %d tries and %d of one, %v", tt.name, costs, tries, ones, err)
		}
	}
}
