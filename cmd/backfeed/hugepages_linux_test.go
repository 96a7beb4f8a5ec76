package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"
)

// TestForHugePages: of the memory that the heap uses again, the kernel knows that it is to be in huge pages (proc_pid_smaps(5), "hg").
func TestForHugePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("the kernel has no transparent huge pages")
	}
	b := forHugePages(64 << 20)
	middle := uintptr(unsafe.Pointer(&b[len(b)/2]))
	maps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	within := false
	for line := range strings.Lines(string(maps)) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			within = from <= middle && middle < to
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && within {
			if !slices.Contains(strings.Fields(flags), "hg") {
				t.Errorf("flags of the heap at %#x: %s", middle, flags)
			}
			runtime.KeepAlive(b)
			return
		}
	}
	t.Fatalf("no mapping of %#x", middle)
}
