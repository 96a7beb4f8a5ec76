//go:build amd64 || arm64

package collect

import (
	"debug/buildinfo"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// tracingInstead returns the attempts with that of ptrace, and why that one is made: because opt asks for it, or
// because the kernel's events, which gave err, are refused.
func tracingInstead(opt Options, tried []Attempt, err error) ([]Attempt, *Unavailable) {
	if len(opt.Events) > 0 {
		return tried, nil
	}
	var u *Unavailable
	if !errors.As(err, &u) || len(u.Tried) == 0 {
		return tried, nil
	}
	switch errnoOf(u.Tried[len(u.Tried)-1].Err) {
	case unix.EPERM, unix.EACCES, unix.ENOSYS, unix.ENOENT, unix.EOPNOTSUPP:
		attempt := Attempt{Name: ptraceClock}
		if refused := traceRefusal(0); refused != nil {
			attempt.Err = errors.New(refused.Why)
		}
		tried = append(slices.Clone(u.Tried), attempt)
		tried[len(u.Tried)-1].Fix = u.Fix
		return tried, u
	}
	return tried, nil
}

// TryLongWalks returns why this process can make no long walks, not even of what it starts itself; nil if nothing is known that
// forbids them.
func TryLongWalks() *Unavailable {
	if u := LongWalks.Refusal(ThisHost()); u != nil {
		return u
	}
	return traceRefusal(0)
}

// traceRefusal says why this process may not trace another, or, if pid is 0, what it starts itself; nil if
// nothing is known that forbids it.
func traceRefusal(pid int) *Unavailable {
	tracing := func(why, fix string) *Unavailable { return &Unavailable{Why: why, Fix: fix} }
	// Nobody has the number 0: who may trace is told that.
	if err := ptraceCall(unix.PTRACE_SEIZE, 0, 0, 0); err == unix.EPERM || err == unix.ENOSYS || err == unix.EACCES {
		return tracing("a filter of system calls forbids ptrace too", "Run the container with a seccomp profile that allows ptrace or perf_event_open")
	}
	host := ThisHost()
	if refused := Ptrace.Refusal(host); refused != nil || pid == 0 {
		return refused
	}
	own, _ := os.ReadFile("/proc/self/status")
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return nil
	}
	status := string(b)
	var owner unix.Stat_t
	unix.Stat(fmt.Sprintf("/proc/%d", pid), &owner)
	uid, tracer := statusField(status, "Uid"), statusField(status, "TracerPid")
	switch {
	case tracer != 0:
		name, _ := threadName(tracer, tracer)
		return tracing(fmt.Sprintf("process %d is traced already, by process %d (%s), and a process can have one tracer only", pid, tracer, strings.TrimSpace(name)), "End that debugger or recorder first")
	case host.Capabilities&(1<<capSysPtrace) != 0:
		return nil
	case uid != os.Getuid() || uid != os.Geteuid():
		return tracing(fmt.Sprintf("process %d belongs to another user", pid), runAs(os.Geteuid() == 0, "CAP_SYS_PTRACE"))
	case int(owner.Uid) != uid:
		return tracing(fmt.Sprintf("process %d does not let itself be traced, as programs with privileges of their own do (prctl(2), PR_SET_DUMPABLE)", pid), "Run as root, or give this program CAP_SYS_PTRACE"+goFix(pid))
	case statusSet(status, "CapPrm")&^statusSet(string(own), "CapPrm") != 0:
		return tracing(fmt.Sprintf("process %d has capabilities that this one lacks", pid), "Run as root, or give this program CAP_SYS_PTRACE"+goFix(pid))
	case host.PtraceScope == 1:
		return tracing("kernel.yama.ptrace_scope is 1, which lets a program trace only what it starts", "Start the program with `record -- CMD`, or run `sysctl kernel.yama.ptrace_scope=0` as root"+goFix(pid))
	}
	return nil
}

// goFix is further advice for a process that runs a Go program; pid may be 0, which is none.
func goFix(pid int) string {
	if pid == 0 {
		return ""
	}
	if _, err := buildinfo.ReadFile(fmt.Sprintf("/proc/%d/exe", pid)); err != nil {
		return ""
	}
	return "; or, as it is a Go program, if it serves net/http/pprof, use `record --pprof http://ADDRESS`"
}

// statusSet reads a set of capabilities or signals of a /proc/PID/status.
func statusSet(status, name string) uint64 {
	_, line, _ := strings.Cut(status, "\n"+name+":")
	line, _, _ = strings.Cut(line, "\n")
	set, _ := strconv.ParseUint(strings.TrimSpace(line), 16, 64)
	return set
}
