// Usage runs a command and writes to a file what that and all that it waited for used of processors, in seconds,
// and with -memory how much of the memory that of them had resident which had most, in MB:
//
//	usage [-memory] FILE COMMAND [ARG...]
package main

import (
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"syscall"
)

func main() {
	memory := flag.Bool("memory", false, "write the most resident memory, too")
	flag.Parse()
	if flag.NArg() < 2 {
		log.Fatal("usage [-memory] FILE COMMAND [ARG...]")
	}
	cmd := exec.Command(flag.Arg(1), flag.Args()[2:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		log.Fatalf("%s: %v", flag.Arg(1), err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // of wait4
	out := fmt.Appendf(nil, "%.3f", used.Seconds())
	if *memory {
		out = fmt.Appendf(out, " %d", cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss>>10) // of KB, getrusage(2)
	}
	if err := os.WriteFile(flag.Arg(0), append(out, '\n'), 0o644); err != nil {
		log.Fatal(err)
	}
}
