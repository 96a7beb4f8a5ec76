package collect

import (
	"cmp"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"
)

// A Feature is a part of what recordings can do, with what it needs. Features is the one list: messages
// that refuse one, doctor and the tables of the documentation are made from it, and testdata/kernels holds
// it to what Debian's kernels do.
//
// Linux is the oldest kernel on which the feature was seen to work; 5.15, which no release of Debian has, is the
// one that has what the feature takes by the kernel's own log. A part is tried on older ones too, since
// vendors bring parts of newer kernels to theirs; the release only says why one was refused.
type Feature struct {
	Name     string
	Phrase   string   // as messages have it; "" is Name
	Use      string   // the flags and commands that it is for, as Markdown
	Linux    Release  // or later
	Arch     []string // GOARCH; nil is any that Linux has
	Config   string   // what the kernel has to be built with; "" is nothing special
	Rights   Rights
	Hardware string // what only some processors have, or hosts lend; "" is nothing
}

// Rights say who may use a feature.
type Rights uint8

const (
	OwnRights    Rights = iota // everybody, if the kernel's settings allow it
	TraceRights                // likewise, for ptrace
	EitherRights               // either of the two
	BPFRights                  // CAP_BPF and CAP_PERFMON
	KernelRights               // and CAP_SYSLOG
)

func (r Rights) String() string {
	return [...]string{
		"`kernel.perf_event_paranoid` of 2 or less",
		"`kernel.yama.ptrace_scope` of 0, of 1 for a command, or CAP_SYS_PTRACE",
		"`kernel.perf_event_paranoid` of 2 or less, or else ptrace",
		"CAP_BPF, CAP_PERFMON, the host's PID namespace",
		"CAP_BPF, CAP_PERFMON, CAP_SYSLOG, the host's PID namespace",
	}[r]
}

// The features, by the names that tests and doctor have for them.
var (
	OwnProcesses = &Feature{Name: "own processes", Phrase: "recording", Use: "`record`, `pgo`", Linux: Release{5, 10}, Rights: EitherRights}
	Ptrace       = &Feature{Name: "ptrace", Phrase: "sampling by ptrace", Use: "`record`, `pgo` where perf events are refused; `--event ptrace-clock`", Linux: Release{5, 10}, Arch: bothArch, Rights: TraceRights}
	WholeMachine = &Feature{Name: "whole machine", Phrase: "sampling the whole machine", Use: "`record -a`, `agent`", Linux: Release{5, 10}, Arch: bothArch, Config: btf, Rights: BPFRights}
	// The registers of user mode are out of a program's reach before (bpf_task_pt_regs).
	Tick          = &Feature{Name: "tick", Phrase: "--tick", Use: "`--tick`", Linux: Release{5, 15}, Arch: bothArch, Config: btf, Rights: KernelRights}
	Callers       = &Feature{Name: "callers", Phrase: "--callers", Use: "`--callers`", Linux: Release{5, 10}, Arch: bothArch, Config: btf, Rights: BPFRights}
	OffCPU        = &Feature{Name: "time off the processor", Phrase: "--off-cpu", Use: "`--off-cpu`", Linux: Release{5, 10}, Arch: bothArch, Config: btf, Rights: BPFRights}
	KernelSymbols = &Feature{Name: "kernel symbols", Phrase: "--kernel", Use: "`--kernel`", Linux: Release{5, 10}, Arch: bothArch, Config: btf, Rights: KernelRights}
	// bpf_get_current_ancestor_cgroup_id is out of reach before.
	Cgroups = &Feature{Name: "cgroups", Phrase: "--cgroup", Use: "`--cgroup`", Linux: Release{5, 15}, Arch: bothArch, Config: btf, Rights: BPFRights}
	// bpf_loop and bpf_find_vma are there from 5.17 on; what lies between was not tried.
	Walks  = &Feature{Name: "walks", Use: "`--calibrate`", Linux: Release{6, 1}, Arch: bothArch, Config: btf, Rights: BPFRights}
	Probes = &Feature{Name: "probes", Use: "`--calibrate`", Linux: Release{6, 6}, Arch: bothArch, Config: btf + ", CONFIG_UPROBES", Rights: BPFRights}
	// Registers, memory and instructions are those of x86-64.
	LongWalks        = &Feature{Name: "long walks", Use: "`--calibrate` of a command or `-p`", Linux: Release{5, 10}, Arch: []string{"amd64"}, Rights: TraceRights}
	HardwareCounters = &Feature{Name: "hardware counters", Use: "`--event`", Linux: Release{5, 10},
		Hardware: "a PMU, which hosts lend to few virtual machines"}
	BranchRecords = &Feature{Name: "branch records", Use: "`--event branches`; `record` uses them where there are any", Linux: Release{5, 10}, Arch: bothArch, Config: btf, Rights: BPFRights,
		Hardware: "Intel LBR, AMD Zen 4 LbrExtV2 or Arm BRBE"}
)

func (f *Feature) phrase() string { return cmp.Or(f.Phrase, f.Name) }

// Features are all of them, in the order of tables.
var Features = []*Feature{OwnProcesses, Ptrace, WholeMachine, Tick, Callers, OffCPU, KernelSymbols, Cgroups, Walks, Probes, LongWalks, HardwareCounters, BranchRecords}

var bothArch = []string{"amd64", "arm64"}

const btf = "CONFIG_DEBUG_INFO_BTF"

// A Release is the version of a kernel, as far as it tells what a kernel has.
type Release struct{ Major, Minor int }

func (r Release) String() string { return fmt.Sprintf("%d.%d", r.Major, r.Minor) }

// Before reports whether r is older than s.
func (r Release) Before(s Release) bool {
	return r.Major < s.Major || r.Major == s.Major && r.Minor < s.Minor
}

// ParseRelease reads what uname calls the release of a kernel, such as 6.12.48+deb13-cloud-amd64 or 7.2-rc1.
func ParseRelease(s string) (Release, error) {
	major, rest, _ := strings.Cut(s, ".")
	digits := strings.IndexFunc(rest, func(c rune) bool { return c < '0' || c > '9' })
	if digits < 0 {
		digits = len(rest)
	}
	a, err1 := strconv.ParseUint(major, 10, 16)
	b, err2 := strconv.ParseUint(rest[:digits], 10, 16)
	if err1 != nil || err2 != nil {
		return Release{}, fmt.Errorf("kernel release %q: want two numbers such as 6.1", s)
	}
	return Release{int(a), int(b)}, nil
}

// A Host is what decides about features on a machine, beside its hardware.
type Host struct {
	OS, Arch     string // as Go has them
	Release      string // of the kernel, as uname has it
	BTF          bool   // the kernel describes its types
	Capabilities uint64 // in effect, by bit
	Paranoid     int    // kernel.perf_event_paranoid
	KptrRestrict int    // kernel.kptr_restrict
	Contained    bool   // in a PID namespace that is not the host's
	PtraceScope  int    // kernel.yama.ptrace_scope
}

// Capabilities (include/uapi/linux/capability.h).
const (
	capSysPtrace = 19
	capSysAdmin  = 21
	capSyslog    = 34
	capPerfmon   = 38
	capBPF       = 39
)

// capabilitiesOf reads those in effect from a /proc/PID/status. Where they are not said, the kernel will tell.
func capabilitiesOf(status string) uint64 {
	_, line, _ := strings.Cut(status, "\nCapEff:")
	line, _, _ = strings.Cut(line, "\n")
	held, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil {
		return math.MaxUint64
	}
	return held
}

// has reports whether a capability is in effect. That of the administrator contains the others here.
func (h *Host) has(bit int) bool { return h.Capabilities&(1<<bit|1<<capSysAdmin) != 0 }

// Refusal says why f does not work on h; nil if it should, hardware aside.
func (f *Feature) Refusal(h *Host) *Unavailable {
	if f.Rights >= BPFRights { // it begins with a System
		if u := WholeMachine.lacks(h); u != nil {
			return u
		}
	}
	if u := f.lacks(h); u != nil {
		return u
	}
	traced := f.Rights == TraceRights || f.Rights == EitherRights && slices.Contains(bothArch, h.Arch) && h.untraceable() == nil
	if h.Paranoid > 2 && h.Capabilities&(1<<capSysAdmin) == 0 && !traced {
		why, fix := tooParanoid(h.Paranoid)
		return &Unavailable{Why: why, Fix: fix}
	}
	return f.tooOld(h)
}

// tooOld is the refusal by a kernel older than f needs; nil of others.
func (f *Feature) tooOld(h *Host) *Unavailable {
	r, err := ParseRelease(h.Release)
	if err != nil || !r.Before(f.Linux) {
		return nil
	}
	return &Unavailable{Why: fmt.Sprintf("Linux %s or later is needed for %s: this is %s", f.Linux, f.phrase(), h.Release)}
}

// lacks is the refusal of f for another reason than the kernel's age; nil if there is none.
func (f *Feature) lacks(h *Host) *Unavailable {
	if h.OS != "linux" || f.Arch != nil && !slices.Contains(f.Arch, h.Arch) {
		system := "Linux"
		if f.Arch != nil {
			system += " on " + strings.Join(f.Arch, " or ")
		}
		return &Unavailable{Why: fmt.Sprintf("%s is needed for %s: this is %s on %s", system, f.phrase(), h.OS, h.Arch)}
	}
	switch f.Rights {
	case TraceRights:
		return h.untraceable()
	case OwnRights, EitherRights:
		return nil
	}
	if !h.BTF {
		return &Unavailable{Why: "a kernel that describes its types is needed for " + f.phrase() + ": there is no /sys/kernel/btf/vmlinux here",
			Fix: "Use Linux " + f.Linux.String() + " or later with " + btf}
	}
	var missing []string
	if !h.has(capBPF) {
		missing = append(missing, "CAP_BPF")
	}
	if !h.has(capPerfmon) {
		missing = append(missing, "CAP_PERFMON")
	}
	if missing != nil {
		return &Unavailable{Why: "this process lacks " + strings.Join(missing, " and "), Fix: needPrivileges}
	}
	if h.Contained {
		return &Unavailable{Why: "this process sees only the processes of a container", Fix: "Run it in the PID namespace of the host: --pid=host"}
	}
	// kallsyms_show_value of kernel/ksyms_common.c.
	if f.Rights == KernelRights && (h.KptrRestrict > 1 || !h.has(capSyslog) && (h.KptrRestrict > 0 || h.Paranoid > 1)) {
		return hiddenKernel()
	}
	return nil
}

const needPrivileges = "Run as root, or give this program CAP_BPF, CAP_PERFMON and, for the kernel's addresses, CAP_SYSLOG"

// untraceable is the refusal of ptrace, even of what is started for it; nil if it is allowed
// (Documentation/admin-guide/LSM/Yama.rst of Linux).
func (h *Host) untraceable() *Unavailable {
	switch {
	case h.PtraceScope >= 3:
		return &Unavailable{Why: "kernel.yama.ptrace_scope is 3, which forbids ptrace until the machine is booted again",
			Fix: "Set it to 1 where it is set at boot (/etc/sysctl.d), and boot"}
	case h.PtraceScope == 2 && h.Capabilities&(1<<capSysPtrace) == 0:
		return &Unavailable{Why: "kernel.yama.ptrace_scope is 2, which forbids ptrace without CAP_SYS_PTRACE",
			Fix: "Run `sysctl kernel.yama.ptrace_scope=1` as root, or give this program CAP_SYS_PTRACE"}
	}
	return nil
}

// tooParanoid says why a setting of 3 or more, of Debian, Ubuntu and Android, keeps users from sampling.
func tooParanoid(paranoid int) (why, fix string) {
	return fmt.Sprintf("kernel.perf_event_paranoid is %d", paranoid),
		"Run `sysctl kernel.perf_event_paranoid=2` as root; above that, such kernels ask for CAP_SYS_ADMIN where others ask for CAP_PERFMON"
}

// hiddenKernel is the error where the kernel shows its addresses as zeros.
func hiddenKernel() *Unavailable {
	return &Unavailable{
		Why: "the kernel hides its addresses from this process",
		Fix: "Give it CAP_SYSLOG, and see that kernel.kptr_restrict is not 2",
	}
}

// unsupported is the refusal of f on systems that have no part of it.
func (f *Feature) unsupported() *Unavailable {
	return f.lacks(&Host{OS: runtime.GOOS, Arch: runtime.GOARCH})
}

// FeatureTable returns the table of features, as Markdown.
func FeatureTable() string {
	var b strings.Builder
	b.WriteString("| feature | for | Linux | processors | the kernel has | needs |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, f := range Features {
		arch := "all"
		if f.Arch != nil {
			arch = strings.NewReplacer("amd64", "x86-64", "arm64", "AArch64").Replace(strings.Join(f.Arch, ", "))
		}
		needs := f.Rights.String()
		if f.Hardware != "" {
			needs += "; " + f.Hardware
		}
		config := f.Config
		if config == "" {
			config = "-"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s | %s | %s |\n", f.Name, f.Use, f.Linux, arch, config, needs)
	}
	return b.String()
}
