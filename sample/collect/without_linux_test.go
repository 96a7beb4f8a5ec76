//go:build amd64 || arm64

package collect

import (
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/cilium/ebpf/asm"
)

// TestWithout: a part that the kernel refuses is left out, and said; the others sample on.
func TestWithout(t *testing.T) {
	const branches, callers = 119, 112 // helpers: read_branch_records, probe_read_user
	for _, tt := range []struct {
		name    string
		unknown []int64 // helpers that the kernel does not have
		without []*Feature
		fails   bool
	}{
		{"nothing", nil, nil, false},
		{"branch records", []int64{branches}, []*Feature{BranchRecords}, false},
		{"both", []int64{branches, callers}, []*Feature{BranchRecords, Callers}, false},
		{"all", []int64{14}, nil, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if u := WholeMachine.lacks(ThisHost()); u != nil {
				t.Skip(u)
			}
			s := &sampler{opt: SystemOptions{Callers: CallersOfAll, PIDs: []int{os.Getpid()}}, kinds: []perfEvent{ladder[0]}}
			defer s.release()
			spec, err := loadSampler()
			if err != nil {
				t.Fatal(err)
			}
			for _, p := range spec.Programs {
				for i := range p.Instructions {
					for _, helper := range tt.unknown {
						if in := &p.Instructions[i]; in.IsBuiltinCall() && in.Constant == helper {
							in.Constant = int64(asm.FnRedirectPeer) * 1000
						}
					}
				}
			}
			err = s.loadPrograms(spec, 0)
			for err != nil && s.goWithout(err) {
				err = s.loadPrograms(spec, 0)
			}
			var u *Unavailable
			if (err != nil) != tt.fails || err != nil && (!errors.As(err, &u) || u.Log == "" || strings.Contains(u.Reason(), "\n")) {
				t.Fatalf("%v; want an error: %v", err, tt.fails)
			}
			if tt.fails {
				return
			}
			if len(s.without) != len(tt.without) {
				t.Fatalf("without %v", s.without)
			}
			for i, f := range tt.without {
				if u := s.without[i]; !strings.Contains(u.Why, f.phrase()) || u.Log == "" {
					t.Errorf("without %+v, want %s", u, f.Name)
				}
			}
			if s.bpf.Sample0 == nil || s.bpf.Tick != nil {
				t.Error("the programs on events are not there, or that of the tick is")
			}
		})
	}
}
