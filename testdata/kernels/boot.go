package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"time"
)

// A job is a command that runs in a guest; as in guest/main.go.
type job struct {
	Name    string
	Args    []string
	Dir     string
	Env     []string
	UID     uint32
	Sysctl  string
	Seconds int
}

// A ran job is what the guest said of one.
type ran struct {
	Name   string
	Output string
	Status string // "ok", or what went wrong; "" if it did not end
}

// files are a guest's, by path without the first slash.
type files map[string]file

type file struct {
	mode uint32
	data []byte
}

// add takes in a file of this machine.
func (f files) add(name, from string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	f[name] = file{0o100000 | uint32(info.Mode().Perm()), b}
	return nil
}

// initramfs writes the archive that the kernel unpacks: "newc" of cpio
// (Documentation/driver-api/early-userspace/buffer-format.rst of Linux).
func (f files) initramfs(w io.Writer) error {
	all := make(map[string]file, len(f))
	for name, x := range f {
		all[name] = x
		for dir := path.Dir(name); dir != "."; dir = path.Dir(dir) {
			all[dir] = file{mode: 0o040755}
		}
	}
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names) // directories before what they hold
	out := bufio.NewWriter(w)
	n := 0
	pad := func() {
		for ; n%4 != 0; n++ {
			out.WriteByte(0)
		}
	}
	entry := func(ino int, name string, x file) {
		k, _ := fmt.Fprintf(out, "070701%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%08x%s\x00",
			ino, x.mode, 0, 0, 1, 0, len(x.data), 0, 0, 0, 0, len(name)+1, 0, name)
		n += k
		pad()
		k, _ = out.Write(x.data)
		n += k
		pad()
	}
	for i, name := range names {
		entry(i+1, name, all[name])
	}
	entry(0, "TRAILER!!!", file{})
	return out.Flush()
}

// A machine is how a kernel is booted.
type machine struct {
	name string
	qemu []string // command and arguments, beside kernel and memory
	boot string   // the kernel's command line
}

// machines by architecture. TCG everywhere: what is measured is whether it works, not how fast. Both
// processors take turns in one thread: with a thread each, one sees the other's changes of code too late now
// and then, and a kernel that switches a tracepoint on dies of the breakpoint. no_timer_check is for hosts
// that have other things to do: the kernel waits 40 ms for ten ticks, and panics. Debian's AArch64 kernels sign
// return addresses: Arm's own cipher, which QEMU before 10.0 has where nothing else is said, is slow to emulate;
// pauth-impdef is a quick one, such as a processor may have.
var machines = map[string]machine{
	"amd64": {qemu: []string{"qemu-system-x86_64", "-cpu", "max", "-smp", "2"}, boot: "console=ttyS0 no_timer_check"},
	"arm64": {qemu: []string{"qemu-system-aarch64", "-M", "virt", "-cpu", "max,pmu=on,pauth-impdef=on", "-smp", "2"}, boot: "console=ttyAMA0"},
}

// run runs jobs on the kernel of a guest, and returns what became of them, and the processor time that it took. The
// console's text goes to log.
func (f *fetched) run(ctx context.Context, content files, jobs []job, g guest, log io.Writer) ([]ran, time.Duration, error) {
	b, err := json.Marshal(jobs)
	if err != nil {
		return nil, 0, err
	}
	content["jobs.json"] = file{0o100644, b}
	archive, err := os.CreateTemp("", "initramfs-")
	if err != nil {
		return nil, 0, err
	}
	defer os.Remove(archive.Name())
	if err := content.initramfs(archive); err != nil {
		return nil, 0, err
	}
	if err := archive.Close(); err != nil {
		return nil, 0, err
	}
	m := machines[f.arch]
	args := append(slices.Clone(m.qemu[1:]), g.qemu...)
	args = append(args, "-m", "2G", "-accel", "tcg,thread=single", "-nodefaults", "-nographic", "-no-reboot", "-serial", "stdio",
		"-kernel", f.image, "-initrd", archive.Name(), "-append", m.boot+" "+g.boot+" quiet loglevel=4 panic=-1 oops=panic rdinit=/init")
	limit := 120 // to boot
	for _, j := range jobs {
		limit += 2 * j.Seconds // of a host that has other things to do; the guest ends them by its own clock
	}
	if g.counted() {
		limit *= 2 // it waits for guests beside it
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(limit)*time.Second)
	defer cancel()
	command := append([]string{m.qemu[0]}, args...)
	if g.counted() { // what it leaves to others is theirs
		command = append([]string{"nice", "-n", "19"}, command...)
	}
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var console bytes.Buffer
	cmd.Stdout = io.MultiWriter(&console, log)
	cmd.Stderr = cmd.Stdout
	err = cmd.Run()
	var used time.Duration
	if cmd.ProcessState != nil {
		used = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return parse(console.String()), used, err
}

// parse takes a console apart.
func parse(console string) []ran {
	var jobs []ran
	var now *ran
	for line := range strings.Lines(strings.ReplaceAll(console, "\r", "")) {
		switch rest, marked := strings.CutPrefix(line, "@@ "); {
		case marked && strings.HasPrefix(rest, "begin "):
			jobs = append(jobs, ran{Name: strings.TrimSpace(rest[len("begin "):])})
			now = &jobs[len(jobs)-1]
		case marked && strings.HasPrefix(rest, "end ") && now != nil:
			_, now.Status, _ = strings.Cut(strings.TrimSpace(rest), " s: ")
			now = nil
		case now != nil:
			now.Output += line
		}
	}
	return jobs
}
