//go:build amd64 || arm64

package collect

import (
	"strings"
	"testing"
)

func TestMissingCapabilities(t *testing.T) {
	for _, tt := range []struct{ status, want string }{
		{"Name:\tx\nCapEff:\t0000000000000000\nCapBnd:\t0\n", "CAP_BPF CAP_PERFMON"},
		{"Name:\tx\nCapEff:\t0000004000000000\n", "CAP_BPF"},
		{"Name:\tx\nCapEff:\t0000008000000000\n", "CAP_PERFMON"},
		{"Name:\tx\nCapEff:\t000000c000000000\n", ""},
		{"Name:\tx\nCapEff:\t0000000000200000\n", ""},
		{"", ""},
	} {
		if got := strings.Join(missingCapabilities(tt.status), " "); got != tt.want {
			t.Errorf("%q: lacks %q, want %q", tt.status, got, tt.want)
		}
	}
}
