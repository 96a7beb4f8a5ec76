//go:build amd64 || arm64

package collect

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"backfeed/sample"
)

// Capabilities (include/uapi/linux/capability.h).
const (
	capSysAdmin = 21
	capPerfmon  = 38
	capBPF      = 39
)

const needPrivileges = "Run as root, or give this program CAP_BPF, CAP_PERFMON and, for the kernel's addresses, CAP_SYSLOG"

// initialPIDNamespace is the inode of the host's (PROC_PID_INIT_INO of
// include/linux/proc_ns.h).
const initialPIDNamespace = "pid:[4026531836]"

// checkSystem gives an *Unavailable error if something is missing that sampling
// the machine needs.
func checkSystem() error {
	if _, err := os.Stat("/sys/kernel/btf/vmlinux"); err != nil {
		return &Unavailable{Why: "this kernel does not describe its types: " + err.Error(), Fix: "Use a kernel of 5.15 or later with CONFIG_DEBUG_INFO_BTF"}
	}
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return err
	}
	if missing := missingCapabilities(string(status)); len(missing) > 0 {
		return &Unavailable{Why: "this process lacks " + strings.Join(missing, " and "), Fix: needPrivileges}
	}
	if ns, err := os.Readlink("/proc/self/ns/pid"); err == nil && ns != initialPIDNamespace {
		return &Unavailable{Why: "this process sees only the processes of a container", Fix: "Run it in the PID namespace of the host: --pid=host"}
	}
	return nil
}

// missingCapabilities names those that a process lacks, by its /proc/PID/status.
func missingCapabilities(status string) []string {
	_, line, _ := strings.Cut(status, "\nCapEff:")
	line, _, _ = strings.Cut(line, "\n")
	has, err := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	if err != nil || has&(1<<capSysAdmin) != 0 {
		return nil // unknown: the kernel will tell
	}
	var missing []string
	if has&(1<<capBPF) == 0 {
		missing = append(missing, "CAP_BPF")
	}
	if has&(1<<capPerfmon) == 0 {
		missing = append(missing, "CAP_PERFMON")
	}
	return missing
}

// hiddenKernel is the error where the kernel shows its addresses as zeros.
func hiddenKernel() error {
	return &Unavailable{
		Why: "the kernel hides its addresses from this process",
		Fix: "Give it CAP_SYSLOG, and see that kernel.kptr_restrict is not 2",
	}
}

func readKallsyms() (kernelSymbols, error) {
	f, err := os.Open("/proc/kallsyms")
	if errors.Is(err, os.ErrNotExist) {
		return kernelSymbols{}, nil // a kernel without
	} else if err != nil {
		return kernelSymbols{}, err
	}
	defer f.Close()
	s, err := parseKallsyms(f)
	if err != nil {
		return s, fmt.Errorf("%s: %w", f.Name(), err)
	}
	return s, nil
}

// A vdso is the code that the kernel maps into every process.
type vdso struct {
	id   sample.ImageID
	size uint64
}

// readVDSO finds this process's, which is that of all others of 64 bits. The
// zero vdso is unknown.
func readVDSO() vdso {
	f, err := os.Open("/proc/self/maps")
	if err != nil {
		return vdso{}
	}
	defer f.Close()
	maps, err := parseMaps(f, os.Getpid())
	if err != nil {
		return vdso{}
	}
	for _, m := range maps {
		if m.path != "[vdso]" {
			continue
		}
		mem, err := os.Open("/proc/self/mem")
		if err != nil {
			return vdso{}
		}
		defer mem.Close()
		b := make([]byte, m.size)
		if _, err := io.ReadFull(io.NewSectionReader(mem, int64(m.start), int64(m.size)), b); err != nil {
			return vdso{}
		}
		if e, err := sample.ReadELF(bytes.NewReader(b)); err == nil && !e.Build.IsZero() {
			return vdso{sample.ImageID{Build: e.Build, Path: m.path}, m.size}
		}
	}
	return vdso{}
}
