package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"backfeed/cmd/internal/calibrate"
	"backfeed/cmd/internal/report"
	"backfeed/sample/collect"
)

// Examine returns all findings about this machine. It tries what it can: for walks and
// probes, on a small program of its own.
func Examine() []report.Finding {
	tried, err := collect.Probe()
	found := samplingFindings(tried, err)
	for _, t := range tries {
		found = append(found, t.finding())
	}
	found = append(found, longWalksFinding(collect.TryLongWalks()))
	found = append(found, experimentFindings("/", found)...)
	found = append(found, kernelFindings("/", runtime.GOOS)...)
	return append(found, toolFindings(exec.LookPath, versionOf)...)
}

// yes is a finding that something is there, and of what use.
func yes(group, name, detail string) report.Finding {
	return report.Finding{Group: group, Name: name, OK: true, Detail: detail}
}

// no is a finding that something is missing; fix may be empty.
func no(group, name, detail, fix string) report.Finding {
	return report.Finding{Group: group, Name: name, Detail: detail, Fix: fix}
}

// rungs say what each event is good for, and what helps where it does not
// work. Probe stops at the first that works, and that is what is used.
var rungs = map[string]struct{ use, fix string }{
	"cycles with branch records": {
		"works, and is best: the last branches are recorded with each sample, so flow is known",
		"needs a processor with branch records (" + collect.BranchRecords.Hardware + ") and a host that lends them to guests; without, flow is inferred",
	},
	"precise instructions": {
		"works, and is used: samples count executions, of the very instruction; `--event cycles` of `agent` and `record -a` shows time instead",
		"needs a processor that samples what has retired (Intel PEBS) and a host that lends it to guests; without, executions are inferred from time",
	},
	"cycles": {
		"works, and is used: flow is inferred from where time is spent",
		"virtual machines often hide the counters: use one with a virtual PMU (metal or full-socket instances of clouds), or go on with cpu-clock",
	},
	"cpu-clock":    {"works, and is used: a timer, which every machine has; flow is inferred", ""},
	"ptrace-clock": {"works, and is used: threads are stopped by ptrace; flow is inferred", ""},
}

// A try is how a feature is tried.
type try struct {
	feature *collect.Feature
	use     string
	opt     collect.SystemOptions
	more    func(*collect.System) (use string, err error) // tries what comes on top; nil is nothing
}

// tries are the features that a System has, in the order of collect.Features: what each is good for
// where it works, and the options to try it with.
var tries = []try{
	{collect.WholeMachine, "`agent` and `record -a` work, with the best of the above", collect.SystemOptions{}, nil},
	{collect.Tick, "`--tick` works: it costs next to nothing, and does not see what is in step with the tick", collect.SystemOptions{Tick: true}, nil},
	{collect.Callers, "`--callers` works: samples have the caller", collect.SystemOptions{Callers: collect.CallersOfAll}, nil},
	{collect.KernelSymbols, "`--kernel` works: samples of the kernel have a place", collect.SystemOptions{Kernel: true}, nil},
	{collect.Cgroups, "`--cgroup` works: one service or container is sampled", collect.SystemOptions{Cgroups: []string{"/sys/fs/cgroup"}}, nil},
	{collect.Walks, "`--calibrate` sees where branches go", collect.SystemOptions{Probes: true}, tryWalks},
	{collect.Probes, "", collect.SystemOptions{Probes: true}, tryProbes},
}

// finding tries a feature.
func (t *try) finding() report.Finding {
	f := yes("sampling", t.feature.Name, t.use)
	if err := t.run(&f.Detail); err != nil {
		f.OK, f.Detail = false, err.Error()
		if u := (*collect.Unavailable)(nil); errors.As(err, &u) {
			f.Detail, f.Fix = u.Why, u.Fix
		}
	}
	return f
}

// run tries it. It may say more of its use.
func (t *try) run(use *string) error {
	s, err := collect.OpenSystem(t.opt)
	if err != nil {
		return err
	}
	defer s.Close()
	if lost := s.Without(); len(lost) > 0 {
		return lost[0]
	}
	if t.more != nil {
		more, err := t.more(s)
		if more != "" {
			*use = more
		}
		return err
	}
	return nil
}

// longWalksFinding says whether there are long walks: why is nil, or why not.
func longWalksFinding(why *collect.Unavailable) report.Finding {
	if why != nil {
		return no("sampling", collect.LongWalks.Name, why.Why, why.Fix)
	}
	return yes("sampling", collect.LongWalks.Name, "`--calibrate` of a command or of `-p` runs ahead of its threads; of a user's own processes it needs nothing else")
}

// tryWalks loads the program that walks, without code to walk through.
func tryWalks(s *collect.System) (string, error) {
	return "", calibrate.TryWalks(s)
}

// tryProbes tries what a probe costs.
func tryProbes(s *collect.System) (string, error) {
	p, err := collect.OpenProber(s)
	if err != nil {
		return "", err
	}
	defer p.Close()
	return fmt.Sprintf("`--calibrate` counts how often code runs: %v a hit, where the kernel emulates the instruction", p.HitCost()), nil
}

// samplingFindings turns what Probe said into findings.
func samplingFindings(tried []collect.Attempt, err error) []report.Finding {
	var found []report.Finding
	traced := slices.ContainsFunc(tried, func(a collect.Attempt) bool { return a.Name == "ptrace-clock" })
	for _, a := range tried {
		f := report.Finding{Group: "sampling", Name: a.Name, OK: a.Err == nil, Detail: rungs[a.Name].use}
		if a.Err != nil {
			f.Detail = a.Err.Error()
		}
		if a.Err != nil && err == nil && !traced { // otherwise something worse is to be mended first
			f.Fix = rungs[a.Name].fix
		}
		if a.Fix != "" {
			f.Fix = a.Fix
		}
		found = append(found, f)
	}
	var u *collect.Unavailable
	if errors.As(err, &u) {
		found = append(found, no("sampling", "record", u.Why, u.Fix))
	} else {
		found = append(found, report.Finding{Group: "sampling", Name: "record", OK: err == nil, Detail: "own processes, user mode"})
	}
	return found
}

// experimentFindings says which experiments of prof can be made of recordings of this
// machine, whose files are below root, by what was found of sampling.
func experimentFindings(root string, sampling []report.Finding) []report.Finding {
	works := func(name string) bool {
		return slices.ContainsFunc(sampling, func(f report.Finding) bool { return f.Name == name && f.OK })
	}
	timed := func(name, detail string) report.Finding {
		f := report.Finding{Group: "experiments", Name: name, OK: works("record"), Detail: detail}
		if !f.OK {
			f.Detail, f.Fix = "nothing can be sampled", "see record"
		}
		return f
	}
	usertime := "`record` keeps 8 frames, which code without frame pointers cuts off; whole stacks need what callers lacks"
	if works("callers") {
		usertime = "`record --callers` unwinds whole stacks, of code without frame pointers too; `record` keeps 8 frames, which such code cuts off"
	}
	found := []report.Finding{timed("pcsamp", "`record`, `prof`"), timed("usertime", usertime)}
	ideal := timed("ideal", "`record`, `prof --experiment ideal`: inferred, nothing is instrumented")
	if ideal.OK && works("precise instructions") {
		ideal.Detail = "with `--event cycles` of `record -a`: samples of instructions do not tell time"
	}
	found = append(found, ideal)
	hwc := report.Finding{Group: "experiments", Name: "hardware counters", OK: works("cycles with branch records") || works("precise instructions") || works("cycles"), Detail: "`record --event EVENT`, `prof --event EVENT`; assists of floating point too, where the processor counts them"}
	if !hwc.OK {
		hwc.Detail = "no counters here: no cache misses, mispredictions or assists of floating point by event"
		hwc.Fix = "use a machine with a PMU, or a virtual one whose host lends it; `topstalls` and `whatcg` tell what samples of time allow"
	}
	return append(found, hwc, fpeFinding(root))
}

// fpeFinding says whether the kernel can tell of SIGFPE. Where the file system of
// tracepoints is not mounted yet, perf mounts it.
func fpeFinding(root string) report.Finding {
	f := no("experiments", "fpe", "", "")
	filesystems, _ := os.ReadFile(filepath.Join(root, "proc/filesystems"))
	event := false
	for _, dir := range []string{"sys/kernel/tracing", "sys/kernel/debug/tracing"} {
		_, err := os.Stat(filepath.Join(root, dir, "events/signal/signal_generate"))
		event = event || err == nil
	}
	status, _ := os.ReadFile(filepath.Join(root, "proc/self/status"))
	held := slices.ContainsFunc(capabilityFindings(string(status)), func(f report.Finding) bool { return f.Name == "CAP_PERFMON" && f.OK })
	switch {
	case !event && !strings.Contains(string(filesystems), "\ttracefs\n"):
		f.Detail, f.Fix = "this kernel has no tracepoints", "needs a kernel with CONFIG_FTRACE"
	case !held:
		f.Detail, f.Fix = "this user may not use tracepoints", "record as root: perf record -e signal:signal_generate --filter 'sig == 8' -g -- CMD"
	default:
		f.OK, f.Detail = true, "`perf record -e signal:signal_generate`: where SIGFPE comes from; masked exceptions raise none"
	}
	return f
}

// Capabilities (include/uapi/linux/capability.h) that widen what can be recorded.
var capabilities = []struct {
	bit  int
	name string
	use  string
}{
	{38, "CAP_PERFMON", "sample other users' processes and the kernel"},
	{39, "CAP_BPF", "sample the whole machine with a BPF program"},
	{34, "CAP_SYSLOG", "see kernel addresses, for --kernel and --tick"},
	{19, "CAP_SYS_PTRACE", "identify what other users' processes have mapped already, and what is in other mount namespaces"},
	{2, "CAP_DAC_READ_SEARCH", "copy images that only their owners may read, for --keep-images"},
}

// capSysAdmin stands for most others.
const capSysAdmin = 21

// kernelFindings says what the kernel below root permits and offers.
func kernelFindings(root, goos string) []report.Finding {
	if goos != "linux" {
		return []report.Finding{no("kernel", "Linux", "this is "+goos, "recordings are made on Linux; everything else works here")}
	}
	read := func(path string) (string, bool) {
		b, err := os.ReadFile(filepath.Join(root, path))
		return strings.TrimSpace(string(b)), err == nil
	}
	exists := func(path string) bool {
		_, err := os.Stat(filepath.Join(root, path))
		return err == nil
	}
	release, _ := read("proc/sys/kernel/osrelease")
	found := []report.Finding{
		{Group: "kernel", Name: "release", OK: release != "", Detail: release},
		sysctl(read, "perf_event_paranoid", 2, "forbids no sampling of own processes", "`sysctl kernel.perf_event_paranoid=2` as root"),
		sysctl(read, "kptr_restrict", 0, "kernel addresses are visible", "`sysctl kernel.kptr_restrict=0` as root, only to name kernel code"),
		timersFinding(collect.SlowTimers(collect.DefaultFrequency), collect.TimerRate(collect.DefaultFrequency)),
		have("BTF", exists("sys/kernel/btf/vmlinux"), "BPF programs find kernel types", "needs a kernel with CONFIG_DEBUG_INFO_BTF"),
		have("uprobe_multi", contains(filepath.Join(root, "sys/kernel/btf/vmlinux"), "BPF_TRACE_UPROBE_MULTI"), "many places are probed at once", "needs Linux "+collect.Probes.Linux.String()+" or later, with BTF"),
		have("uprobes", exists("sys/bus/event_source/devices/uprobe"), "outcomes of single branches can be counted", "needs a kernel with CONFIG_UPROBE_EVENTS"),
	}
	cpuinfo, _ := read("proc/cpuinfo")
	if strings.Contains(cpuinfo, " hypervisor") {
		found = append(found, yes("kernel", "virtual machine", "the host decides about hardware counters"))
	}
	status, _ := read("proc/self/status")
	return append(found, capabilityFindings(status)...)
}

// timersFinding says how often timers fire: at any rate, or hz times a second, because they are slow.
func timersFinding(slow *collect.Unavailable, hz int) report.Finding {
	const name = "high-resolution timers"
	if slow == nil {
		return yes("kernel", name, "samples of cpu-clock come at the rate that is asked for")
	}
	return no("kernel", name, fmt.Sprintf("samples of cpu-clock come at the tick, %d a second at most", hz), slow.Fix)
}

// contains reports whether a file has text in it.
func contains(path, text string) bool {
	b, err := os.ReadFile(path)
	return err == nil && bytes.Contains(b, []byte(text))
}

func have(name string, ok bool, use, fix string) report.Finding {
	if ok {
		return yes("kernel", name, use)
	}
	return no("kernel", name, "not in this kernel", fix)
}

// sysctl checks that a setting of the kernel is at most best.
func sysctl(read func(string) (string, bool), name string, best int, use, fix string) report.Finding {
	text, ok := read("proc/sys/kernel/" + name)
	value, err := strconv.Atoi(text)
	switch {
	case !ok || err != nil:
		return no("kernel", name, "cannot be read", "")
	case value <= best:
		return yes("kernel", name, fmt.Sprintf("%d: %s", value, use))
	}
	return no("kernel", name, fmt.Sprintf("%d, which is more than %d", value, best), fix)
}

// capabilityFindings reads the effective capabilities in a /proc/PID/status.
func capabilityFindings(status string) []report.Finding {
	_, rest, _ := strings.Cut(status, "CapEff:")
	mask, err := strconv.ParseUint(strings.TrimSpace(strings.SplitN(rest, "\n", 2)[0]), 16, 64)
	if err != nil {
		return []report.Finding{no("kernel", "capabilities", "cannot be read", "")}
	}
	var found []report.Finding
	for _, c := range capabilities {
		f := yes("kernel", c.name, c.use)
		if mask&(1<<c.bit|1<<capSysAdmin) == 0 {
			f = no("kernel", c.name, "not held; it is needed to "+c.use, "run as root, or `setcap "+strings.ToLower(c.name)+"+ep` on the backfeed binary")
		}
		found = append(found, f)
	}
	return found
}

// A tool is a program that backfeed's output goes to or that checks it.
type tool struct {
	name    string
	version string // arguments that make it print its version, separated by spaces
	use     string
}

var tools = []tool{
	{"go", "version", "builds with emit go's profile"},
	{"clang", "--version", "builds with emit llvm's profile"},
	{"gcc", "--version", "builds C for the tests"},
	{"llvm-profdata", "show --version", "checks emit llvm's profile"},
	{"ld.lld", "--version", "links by layout's symbol order"},
	{"llvm-bolt", "--version", "rewrites binaries by emit bolt's profile"},
	{"perf", "--version", "makes recordings that backfeed reads"},
	{"valgrind", "--version", "counts exactly, for verify"},
}

// newestLLVM and oldestLLVM bound the versions that are looked for: Debian calls
// its binaries clang-19.
const newestLLVM, oldestLLVM = 25, 14

// toolFindings looks for the tools in the path.
func toolFindings(look func(string) (string, error), version func(path, args string) (string, error)) []report.Finding {
	var found []report.Finding
	for _, t := range tools {
		path, err := look(t.name)
		for v := newestLLVM; err != nil && v >= oldestLLVM; v-- {
			path, err = look(fmt.Sprintf("%s-%d", t.name, v))
		}
		if err != nil {
			found = append(found, no("tools", t.name, "not installed; it "+t.use, ""))
			continue
		}
		v, err := version(path, t.version)
		if err != nil {
			found = append(found, no("tools", t.name, path+" does not run: "+err.Error()+"; it "+t.use, ""))
			continue
		}
		found = append(found, yes("tools", t.name, strings.TrimSpace(v+" "+path)))
	}
	return found
}

var versionNumber = regexp.MustCompile(`\d+(\.\d+)+`)

// versionOf asks a tool for its version. Tools say much more; the number is all
// they have in common. It is an error if the tool neither prints one nor ends well.
func versionOf(path, args string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	// Old versions of llvm-profdata tell it with exit code 1.
	out, err := exec.CommandContext(ctx, path, strings.Fields(args)...).CombinedOutput()
	version := versionNumber.FindString(string(out))
	if version == "" && err != nil {
		return "", err
	}
	return version, nil
}
