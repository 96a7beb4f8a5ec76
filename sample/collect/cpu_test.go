package collect

import (
	"strings"
	"testing"

	"backfeed/sample"
)

func TestParseCPU(t *testing.T) {
	const epyc = `processor	: 0
vendor_id	: AuthenticAMD
cpu family	: 26
model		: 2
model name	: AMD EPYC
stepping	: 1
cpu MHz		: 2596.120

processor	: 1
vendor_id	: AuthenticAMD
cpu MHz		: 1000.000
`
	// A Graviton 3, whose clock cpuinfo does not tell.
	const graviton = `processor	: 0
BogoMIPS	: 2100.00
Features	: fp asimd
CPU implementer	: 0x41
CPU architecture: 8
CPU variant	: 0x1
CPU part	: 0xd40
CPU revision	: 1

processor	: 1
CPU part	: 0xd41
`
	for _, tt := range []struct {
		name, info, arch string
		base             int
		want             sample.CPU
	}{
		{"AMD", epyc, "x86_64", 0, sample.CPU{Arch: "x86_64", Vendor: "AuthenticAMD", Family: 26, Model: 2, Stepping: 1, Name: "AMD EPYC", MHz: 2600}},
		{"nominal clock known", epyc, "x86_64", 3_400_000, sample.CPU{Arch: "x86_64", Vendor: "AuthenticAMD", Family: 26, Model: 2, Stepping: 1, Name: "AMD EPYC", MHz: 3400}},
		{"AArch64", graviton, "aarch64", 0, sample.CPU{Arch: "aarch64", Vendor: "0x41", Model: 0xd40, Stepping: 0x11}},
		{"other", epyc, "", 0, sample.CPU{MHz: 2600}},
		{"empty", "", "x86_64", 0, sample.CPU{Arch: "x86_64"}},
		{"nonsense", "cpu family: -3\nmodel: 99999999999\ncpu MHz: NaN\n", "x86_64", 0, sample.CPU{Arch: "x86_64"}},
	} {
		got, err := parseCPU(strings.NewReader(tt.info), tt.arch, tt.base)
		if err != nil || got != tt.want {
			t.Errorf("%s: %+v, %v; want %+v", tt.name, got, err, tt.want)
		}
	}
}
