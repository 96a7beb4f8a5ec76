package collect

import (
	"os"
	"runtime"
	"strconv"
	"strings"
)

// initialPIDNamespace is the inode of the host's (PROC_PID_INIT_INO of include/linux/proc_ns.h).
const initialPIDNamespace = "pid:[4026531836]"

// ThisHost is what decides here.
func ThisHost() *Host {
	read := func(path string) string {
		b, _ := os.ReadFile(path)
		return strings.TrimSpace(string(b))
	}
	h := &Host{OS: runtime.GOOS, Arch: runtime.GOARCH, Release: read("/proc/sys/kernel/osrelease")}
	_, err := os.Stat("/sys/kernel/btf/vmlinux")
	h.BTF = err == nil
	h.Capabilities = capabilitiesOf(read("/proc/self/status"))
	h.Paranoid, _ = strconv.Atoi(read("/proc/sys/kernel/perf_event_paranoid"))
	h.KptrRestrict, _ = strconv.Atoi(read("/proc/sys/kernel/kptr_restrict"))
	h.PtraceScope, _ = strconv.Atoi(read("/proc/sys/kernel/yama/ptrace_scope")) // 0 where there is no Yama
	ns, err := os.Readlink("/proc/self/ns/pid")
	h.Contained = err == nil && ns != initialPIDNamespace
	return h
}
