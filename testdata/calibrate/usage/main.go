// Usage runs a command and writes to a file what that and all that it waited for used of processors, in seconds:
//
//	usage FILE COMMAND [ARG...]
package main

import (
	"fmt"
	"log"
	"os"
	"os/exec"
)

func main() {
	if len(os.Args) < 3 {
		log.Fatal("usage FILE COMMAND [ARG...]")
	}
	cmd := exec.Command(os.Args[2], os.Args[3:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		log.Fatalf("%s: %v", os.Args[2], err)
	}
	used := cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime() // of wait4
	if err := os.WriteFile(os.Args[1], fmt.Appendf(nil, "%.3f\n", used.Seconds()), 0o644); err != nil {
		log.Fatal(err)
	}
}
