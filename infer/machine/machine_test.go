package machine

import (
	"slices"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
)

// TestModels: every embedded file parses, and there is one for each processor.
func TestModels(t *testing.T) {
	want := strings.Fields(`amd-zen2 amd-zen3 amd-zen4 amd-zen5 arm-cortex-a53 arm-cortex-a55 arm-neoverse-n1 arm-neoverse-v1 arm-neoverse-v2
		generic-aarch64 generic-x86_64 intel-icelake intel-sapphirerapids intel-skylake-x`)
	if got := Names(); !slices.Equal(got, want) {
		t.Errorf("Names() = %v, want %v", got, want)
	}
	for _, p := range processors {
		if !slices.Contains(want, p.model) {
			t.Errorf("a processor has the model %q, which there is not", p.model)
		}
	}
	for _, b := range brands {
		if !slices.Contains(want, b.model) {
			t.Errorf("%q is of the model %q, which there is not", b.word, b.model)
		}
	}
	for name, model := range models() {
		m := model()
		if m.Name != name {
			t.Errorf("models/%s.yaml names itself %q", name, m.Name)
		}
		for op := range image.NumOps {
			if c := m.ops[op]; !m.InOrder && c.latency > 50 && op != image.OpSystem && op != image.OpDiv64 {
				t.Errorf("%s: %s takes %g cycles", m.Name, op, c.latency)
			}
		}
	}
}

func TestFor(t *testing.T) {
	for _, tt := range []struct {
		cpu  sample.CPU
		want string
	}{
		{sample.CPU{Arch: "x86_64", Vendor: "GenuineIntel", Family: 6, Model: 85}, "intel-skylake-x"},
		{sample.CPU{Arch: "x86_64", Vendor: "GenuineIntel", Family: 6, Model: 106}, "intel-icelake"},
		{sample.CPU{Arch: "x86_64", Vendor: "GenuineIntel", Family: 6, Model: 207}, "intel-sapphirerapids"},
		{sample.CPU{Arch: "x86_64", Vendor: "AuthenticAMD", Family: 23, Model: 0x31}, "amd-zen2"},
		{sample.CPU{Arch: "x86_64", Vendor: "AuthenticAMD", Family: 25, Model: 1}, "amd-zen3"},
		{sample.CPU{Arch: "x86_64", Vendor: "AuthenticAMD", Family: 25, Model: 0x11}, "amd-zen4"},
		{sample.CPU{Arch: "x86_64", Vendor: "AuthenticAMD", Family: 26, Model: 2}, "amd-zen5"},
		{sample.CPU{Arch: "aarch64", Vendor: "0x41", Model: 0xd0c}, "arm-neoverse-n1"},
		{sample.CPU{Arch: "aarch64", Vendor: "0x41", Model: 0xd03}, "arm-cortex-a53"},
		{sample.CPU{Arch: "aarch64", Vendor: "0x41", Model: 0xd4f}, "arm-neoverse-v2"},
		{sample.CPU{Arch: "aarch64", Vendor: "0x48", Model: 0xd01}, "generic-aarch64"},
		{sample.CPU{Arch: "aarch64", Name: "Neoverse-V1"}, "arm-neoverse-v1"},
		{sample.CPU{Arch: "x86_64", Vendor: "GenuineIntel", Family: 6, Model: 23}, "generic-x86_64"},
		{sample.CPU{}, "generic-x86_64"},
	} {
		if got := For(tt.cpu).Name; got != tt.want {
			t.Errorf("For(%+v) = %s, want %s", tt.cpu, got, tt.want)
		}
	}
}

func TestByName(t *testing.T) {
	if m, err := ByName("amd-zen4"); err != nil || m.Name != "amd-zen4" {
		t.Errorf("ByName(amd-zen4) = %v, %v", m, err)
	}
	if _, err := ByName("z80"); err == nil || !strings.Contains(err.Error(), "amd-zen4, amd-zen5") {
		t.Errorf("ByName(z80): %v: does not list the names", err)
	}
}
