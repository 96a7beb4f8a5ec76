package collect

import (
	"os"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

func TestParseRelease(t *testing.T) {
	for _, tt := range []struct {
		text string
		want Release
	}{
		{"5.10.0-35-cloud-amd64", Release{5, 10}},
		{"6.12.48+deb13-cloud-amd64", Release{6, 12}},
		{"5.15.0-1053-aws", Release{5, 15}},
		{"7.2-rc1", Release{7, 2}},
		{"6.18.44-fc-v669", Release{6, 18}},
		{"4.18", Release{4, 18}},
	} {
		if got, err := ParseRelease(tt.text); err != nil || got != tt.want {
			t.Errorf("%s: %v, %v; want %v", tt.text, got, err, tt.want)
		}
	}
	for _, text := range []string{"", "6", "6.", "six.one", "-1.2", "99999999.1", ".5"} {
		if got, err := ParseRelease(text); err == nil {
			t.Errorf("%q was read as %v", text, got)
		}
	}
	for _, tt := range []struct {
		a, b Release
		want bool
	}{{Release{5, 10}, Release{5, 15}, true}, {Release{5, 15}, Release{5, 10}, false}, {Release{5, 15}, Release{6, 1}, true}, {Release{6, 1}, Release{6, 1}, false}, {Release{7, 0}, Release{6, 12}, false}} {
		if got := tt.a.Before(tt.b); got != tt.want {
			t.Errorf("%v before %v: %v", tt.a, tt.b, got)
		}
	}
}

// FuzzParseRelease: a release that is read is read again from how it is printed.
func FuzzParseRelease(f *testing.F) {
	f.Add("6.12.48+deb13-cloud-amd64")
	f.Add("7.2-rc1")
	f.Add("6.")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := ParseRelease(s)
		if err != nil {
			return
		}
		if again, err := ParseRelease(r.String()); err != nil || again != r {
			t.Errorf("%q: %v; again %v, %v", s, r, again, err)
		}
	})
}

func TestCapabilities(t *testing.T) {
	for _, tt := range []struct {
		status                 string
		bpf, perfmon, sysAdmin bool
	}{
		{"Name:\tx\nCapEff:\t0000000000000000\nCapBnd:\t0\n", false, false, false},
		{"Name:\tx\nCapEff:\t0000004000000000\n", false, true, false},
		{"Name:\tx\nCapEff:\t0000008000000000\n", true, false, false},
		{"Name:\tx\nCapEff:\t000000c000000000\n", true, true, false},
		{"Name:\tx\nCapEff:\t0000000000200000\n", true, true, true}, // has the others
		{"", true, true, true},
		{"Name:\tx\nCapEff:\tnonsense\n", true, true, true},
	} {
		h := Host{Capabilities: capabilitiesOf(tt.status)}
		if h.has(capBPF) != tt.bpf || h.has(capPerfmon) != tt.perfmon || h.has(capSysAdmin) != tt.sysAdmin {
			t.Errorf("%q: %#x", tt.status, h.Capabilities)
		}
	}
}

func TestRefusal(t *testing.T) {
	const all, bpf, both = 1<<41 - 1, 1 << capBPF, 1<<capBPF | 1<<capPerfmon
	root := Host{OS: "linux", Arch: "amd64", Release: "6.12.48+deb13-cloud-amd64", BTF: true, Capabilities: all, Paranoid: 3}
	with := func(change func(h *Host)) *Host {
		h := root
		change(&h)
		return &h
	}
	old := func(release string) *Host { return with(func(h *Host) { h.Release = release }) }
	may := func(capabilities uint64) *Host {
		return with(func(h *Host) { h.Capabilities = capabilities })
	}
	scope := func(scope int, capabilities uint64) *Host {
		h := may(capabilities)
		h.PtraceScope = scope
		return h
	}
	for _, tt := range []struct {
		name string
		host *Host
		f    *Feature
		want string // Why; "" is no refusal
	}{
		{"root", &root, Probes, ""},
		{"root", &root, OwnProcesses, ""},
		{"old", old("5.10.0-35-cloud-amd64"), Tick, "Linux 5.15 or later is needed for --tick: this is 5.10.0-35-cloud-amd64"},
		{"old", old("5.10.0-35-cloud-amd64"), Walks, "Linux 6.1 or later is needed for walks: this is 5.10.0-35-cloud-amd64"},
		{"old", old("5.10.0-35-cloud-amd64"), Cgroups, "Linux 5.15 or later is needed for --cgroup: this is 5.10.0-35-cloud-amd64"},
		{"old", old("6.1.0-40-amd64"), Probes, "Linux 6.6 or later is needed for probes: this is 6.1.0-40-amd64"},
		{"old", old("6.1.0-40-amd64"), Walks, ""},
		{"older", old("4.18.0"), WholeMachine, "Linux 5.10 or later is needed for sampling the whole machine: this is 4.18.0"},
		{"nobody knows", old("?"), Probes, ""},
		{"AArch64", with(func(h *Host) { h.Arch = "arm64" }), Probes, ""},
		{"RISC-V", with(func(h *Host) { h.Arch = "riscv64" }), Probes, "Linux on amd64 or arm64 is needed for sampling the whole machine: this is linux on riscv64"},
		{"user on AArch64", with(func(h *Host) { h.Arch, h.Capabilities = "arm64", 0 }), Probes, "this process lacks CAP_BPF and CAP_PERFMON"},
		{"darwin", &Host{OS: "darwin", Arch: "arm64"}, WholeMachine, "Linux on amd64 or arm64 is needed for sampling the whole machine: this is darwin on arm64"},
		{"darwin", &Host{OS: "darwin", Arch: "arm64"}, OwnProcesses, "Linux is needed for recording: this is darwin on arm64"},
		{"user", may(0), OwnProcesses, ""}, // by ptrace
		{"user", may(0), Ptrace, ""},
		{"user, Yama", scope(1, 0), Ptrace, ""},
		{"user, Yama", scope(2, 0), Ptrace, "kernel.yama.ptrace_scope is 2, which forbids ptrace without CAP_SYS_PTRACE"},
		{"user, Yama", scope(2, 1<<capSysPtrace), Ptrace, ""},
		{"user, Yama", scope(3, all), Ptrace, "kernel.yama.ptrace_scope is 3, which forbids ptrace until the machine is booted again"},
		{"user, Yama", scope(2, 0), OwnProcesses, "kernel.perf_event_paranoid is 3"},
		{"user, Yama", with(func(h *Host) { h.PtraceScope, h.Paranoid, h.Capabilities = 2, 2, 0 }), OwnProcesses, ""},
		{"user", may(0), HardwareCounters, "kernel.perf_event_paranoid is 3"},
		{"user", may(0), Callers, "this process lacks CAP_BPF and CAP_PERFMON"},
		{"half", may(bpf), Callers, "this process lacks CAP_PERFMON"},
		{"no addresses", may(both), KernelSymbols, "the kernel hides its addresses from this process"},
		{"no addresses needed", with(func(h *Host) { h.Capabilities, h.Paranoid = both, 2 }), Callers, ""},
		{"on Debian", may(both), Callers, "kernel.perf_event_paranoid is 3"},
		{"hidden", with(func(h *Host) { h.KptrRestrict = 2 }), Tick, "the kernel hides its addresses from this process"},
		{"no types", with(func(h *Host) { h.BTF = false }), Walks, "a kernel that describes its types is needed for sampling the whole machine: there is no /sys/kernel/btf/vmlinux here"},
		{"container", with(func(h *Host) { h.Contained = true }), WholeMachine, "this process sees only the processes of a container"},
	} {
		got := ""
		if u := tt.f.Refusal(tt.host); u != nil {
			got = u.Why
		}
		if got != tt.want {
			t.Errorf("%s: %s: %q, want %q", tt.name, tt.f.Name, got, tt.want)
		}
	}
}

// TestFeatureTable holds the tables of the documentation to Features. -update writes them.
func TestFeatureTable(t *testing.T) {
	const begin, end = "<!-- features: from sample/collect/features.go -->\n", "<!-- end of features -->"
	for _, path := range []string{"../../testdata/kernels/README.md", "../../cmd/backfeed/help/recordings.md"} {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		before, rest, ok1 := strings.Cut(string(b), begin)
		table, after, ok2 := strings.Cut(rest, end)
		if !ok1 || !ok2 {
			t.Errorf("%s has no place for the table of features", path)
			continue
		}
		if want := "\n" + FeatureTable() + "\n"; table != want {
			if *testtool.Update {
				if err := os.WriteFile(path, []byte(before+begin+want+end+after), 0o644); err != nil {
					t.Fatal(err)
				}
				continue
			}
			t.Errorf("%s has not the table that features.go says; go test ./sample/collect -run TestFeatureTable -update writes it. It has\n%s", path, table)
		}
	}
}
