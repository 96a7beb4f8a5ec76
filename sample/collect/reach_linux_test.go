package collect

import (
	"fmt"
	"strings"
	"testing"
)

// TestReach: who is root is not told to be root.
func TestReach(t *testing.T) {
	status := func(caps uint64) string { return fmt.Sprintf("Name:\tx\nCapPrm:\t%016x\nCapEff:\t%016x\n", caps, caps) }
	const all = 1<<41 - 1
	for _, tt := range []struct {
		name       string
		of, own    uint64
		root       bool
		why, fix   string
		adviseToBe bool
	}{
		{"a user", 0, 0, false, "", "Run as its user or as root", true},
		{"root without capabilities", all, 0, true, "", "run as its user, or give this program CAP_PERFMON", false},
		{"init outside of the container", all, all &^ (1 << 24), true, "capabilities that this one lacks", "outside of this container", false},
		{"another user namespace", all, all, true, "", "another user namespace", false},
		{"a user with the capability", all, 1 << capSysPtrace, false, "capabilities that this one lacks", "outside of this container", false},
	} {
		why, fix := reach(status(tt.of), status(tt.own), tt.root)
		if !strings.Contains(why, tt.why) || (why == "") != (tt.why == "") || !strings.Contains(fix, tt.fix) || strings.Contains(fix, "or as root") != tt.adviseToBe {
			t.Errorf("%s: %q, %q", tt.name, why, fix)
		}
	}
}
