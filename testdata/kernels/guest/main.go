// guest is /init of the kernels that the matrix boots: it mounts what Linux has to be asked for,
// runs the jobs of /jobs.json one after another, and switches the machine off. What they print goes
// to the console, between lines that begin with "@@".
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

// A job is a command that runs in the guest; as in ../main.go.
type job struct {
	Name    string
	Args    []string
	Dir     string
	Env     []string
	UID     uint32 // and group
	Sysctl  string // a setting before, as "kernel.x=1"; "" is none
	Seconds int    // after which it is killed
}

var mounts = []struct{ fs, at, options string }{
	{"proc", "/proc", ""},
	{"sysfs", "/sys", ""},
	{"devtmpfs", "/dev", ""},
	{"tmpfs", "/tmp", "mode=1777"},
	{"tracefs", "/sys/kernel/tracing", ""},
	{"bpf", "/sys/fs/bpf", ""},
	{"cgroup2", "/sys/fs/cgroup", ""},
}

func main() {
	fmt.Println() // the console may be anywhere
	for _, m := range mounts {
		os.MkdirAll(m.at, 0o755)
		if err := syscall.Mount(m.fs, m.at, m.fs, 0, m.options); err != nil {
			fmt.Printf("@@ mount %s: %v\n", m.at, err)
		}
	}
	if out, err := exec.Command("/bin/busybox", "--install", "-s", "/bin").CombinedOutput(); err != nil {
		fmt.Printf("@@ busybox: %v %s\n", err, out)
	}
	syscall.Sethostname([]byte("guest"))
	exec.Command("/bin/ifconfig", "lo", "up").Run()
	var jobs []job
	if b, err := os.ReadFile("/jobs.json"); err != nil {
		fmt.Printf("@@ %v\n", err)
	} else if err := json.Unmarshal(b, &jobs); err != nil {
		fmt.Printf("@@ jobs.json: %v\n", err)
	}
	for i := range jobs {
		run(&jobs[i])
	}
	fmt.Println("@@ done")
	time.Sleep(100 * time.Millisecond) // of the console's buffer
	syscall.Sync()
	syscall.Reboot(syscall.LINUX_REBOOT_CMD_POWER_OFF)
	select {}
}

func run(j *job) {
	fmt.Printf("@@ begin %s\n", j.Name)
	if name, value, ok := strings.Cut(j.Sysctl, "="); ok {
		if err := os.WriteFile("/proc/sys/"+strings.ReplaceAll(name, ".", "/"), []byte(value), 0); err != nil {
			fmt.Println(err)
		}
	}
	start := time.Now()
	cmd := exec.Command(j.Args[0], j.Args[1:]...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = j.Dir, os.Stdout, os.Stdout
	cmd.Env = append([]string{"PATH=/bin:/usr/bin", "HOME=/tmp", "TMPDIR=/tmp", "NO_COLOR=1"}, j.Env...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if j.UID != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: j.UID, Gid: j.UID}
	}
	err := cmd.Start()
	if err == nil {
		kill := time.AfterFunc(time.Duration(j.Seconds)*time.Second, func() {
			fmt.Printf("\n@@ killed %s\n", j.Name)
			syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		})
		err = cmd.Wait()
		kill.Stop()
	}
	status := "ok"
	if err != nil {
		status = strings.ReplaceAll(err.Error(), "\n", " ")
	}
	fmt.Printf("\n@@ end %s: %.1f s: %s\n", j.Name, time.Since(start).Seconds(), status)
}
