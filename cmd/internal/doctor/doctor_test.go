package doctor

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/internal/testtool"
	"backfeed/sample/collect"
)

// lines of findings: "name yes detail" or "name no detail | fix".
func findingLines(found []report.Finding) string {
	var b strings.Builder
	for _, f := range found {
		if f.OK {
			fmt.Fprintf(&b, "%s yes %s\n", f.Name, f.Detail)
		} else {
			fmt.Fprintf(&b, "%s no %s | %s\n", f.Name, f.Detail, f.Fix)
		}
	}
	return b.String()
}

func TestSamplingFindings(t *testing.T) {
	refused := errors.New("operation not permitted")
	for _, tt := range []struct {
		name  string
		tried []collect.Attempt
		err   error
		want  []string
	}{
		{"LBR", []collect.Attempt{{Name: "cycles with branch records"}}, nil, []string{"cycles with branch records yes", "record yes"}},
		{"virtual machine", []collect.Attempt{{Name: "cycles with branch records", Err: refused}, {Name: "precise instructions", Err: refused}, {Name: "cycles", Err: refused}, {Name: "cpu-clock"}}, nil,
			[]string{"cycles with branch records no operation not permitted | needs a processor with branch", "precise instructions no operation not permitted | needs a processor that", "cycles no operation not permitted | virtual machines", "cpu-clock yes", "record yes"}},
		{"container", []collect.Attempt{{Name: "cycles with branch records", Err: refused}, {Name: "cycles", Err: refused}, {Name: "cpu-clock", Err: refused}},
			&collect.Unavailable{Why: "a filter", Fix: "do this"}, []string{"cpu-clock no operation not permitted", "record no a filter | do this"}},
		{"another system", nil, &collect.Unavailable{Why: "no Linux"}, []string{"record no no Linux"}},
	} {
		got := findingLines(samplingFindings(tt.tried, tt.err))
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", tt.name, want, got)
			}
		}
	}
}

func TestKernelFindings(t *testing.T) {
	dir := t.TempDir()
	for path, text := range map[string]string{
		"proc/sys/kernel/osrelease":                "6.1.0\n",
		"proc/sys/kernel/perf_event_paranoid":      "3\n",
		"proc/sys/kernel/kptr_restrict":            "0\n",
		"proc/self/status":                         "Name:\tx\nCapEff:\t0000004000000000\nSeccomp:\t0\n",
		"proc/cpuinfo":                             "flags\t: fpu hypervisor lahf_lm\n",
		"sys/bus/event_source/devices/uprobe/type": "7\n",
		"sys/kernel/btf/vmlinux":                   "\x9f\xebBPF_TRACE_KPROBE_MULTI\x00BPF_TRACE_UPROBE_MULTI\x00",
	} {
		testtool.Put(t, filepath.Join(dir, path), text)
	}
	got := findingLines(kernelFindings(dir, "linux"))
	for _, want := range []string{
		"release yes 6.1.0\n",
		"perf_event_paranoid no 3, which is more than 2 | `sysctl",
		"kptr_restrict yes 0",
		"BTF yes",
		"uprobe_multi yes",
		"uprobes yes",
		"virtual machine yes",
		"CAP_PERFMON yes",
		"CAP_BPF no not held",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := findingLines(kernelFindings(dir, "darwin")); !strings.HasPrefix(got, "Linux no this is darwin") {
		t.Errorf("on darwin:\n%s", got)
	}
	if got := findingLines(kernelFindings(t.TempDir(), "linux")); !strings.Contains(got, "perf_event_paranoid no cannot be read") || !strings.Contains(got, "BTF no not in this kernel") {
		t.Errorf("with nothing to read:\n%s", got)
	}
}

func TestExperimentFindings(t *testing.T) {
	dir := t.TempDir()
	testtool.Put(t, filepath.Join(dir, "proc/filesystems"), "nodev\ttracefs\n\text4\n")
	testtool.Put(t, filepath.Join(dir, "proc/self/status"), "CapEff:\t0000004000000000\n")
	timer := []report.Finding{{Name: "cycles"}, {Name: "cpu-clock", OK: true}, {Name: "record", OK: true}}
	for _, tt := range []struct {
		name, root string
		sampling   []report.Finding
		want       []string
	}{
		{"a timer", dir, timer, []string{"pcsamp yes", "usertime yes `record` keeps 8 frames", "ideal yes", "hardware counters no", "fpe yes"}},
		{"counters", dir, []report.Finding{{Name: "cycles", OK: true}, {Name: "record", OK: true}}, []string{"hardware counters yes"}},
		{"callers", dir, append(timer[:3:3], report.Finding{Name: "callers", OK: true}), []string{"usertime yes `record --callers` unwinds whole stacks"}},
		{"nothing", t.TempDir(), nil, []string{"pcsamp no nothing can be sampled", "ideal no", "fpe no this kernel has no tracepoints"}},
	} {
		got := findingLines(experimentFindings(tt.root, tt.sampling))
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in\n%s", tt.name, want, got)
			}
		}
	}
	testtool.Put(t, filepath.Join(dir, "proc/self/status"), "CapEff:\t0000000000000000\n")
	if got := findingLines(experimentFindings(dir, timer)); !strings.Contains(got, "fpe no this user may not use tracepoints") {
		t.Errorf("without privileges:\n%s", got)
	}
}

func TestTimersFinding(t *testing.T) {
	slow := &collect.Unavailable{Why: "slow", Fix: "boot another"}
	got := findingLines([]report.Finding{timersFinding(nil, 997), timersFinding(slow, 250)})
	for _, want := range []string{"high-resolution timers yes samples of cpu-clock come at the rate", "high-resolution timers no samples of cpu-clock come at the tick, 250 a second at most"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}

func TestToolFindings(t *testing.T) {
	look := func(name string) (string, error) {
		if name == "go" || name == "perf" || name == "clang-19" || name == "clang-15" {
			return "/bin/" + name, nil
		}
		return "", os.ErrNotExist
	}
	version := func(path, args string) (string, error) {
		if path == "/bin/perf" {
			return "", errors.New("exit status 2")
		}
		return "1.2", nil
	}
	got := findingLines(toolFindings(look, version))
	for _, want := range []string{"go yes 1.2 /bin/go\n", "clang yes 1.2 /bin/clang-19\n", "perf no /bin/perf does not run: exit status 2", "gcc no not installed", "valgrind no not installed"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
}
