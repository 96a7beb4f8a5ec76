//go:build amd64 || arm64

package collect

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/kernel"
)

// TestKernelMemory reads the kernel's notes from its memory, which it shows elsewhere, too, and code in pieces and as a
// whole.
func TestKernelMemory(t *testing.T) {
	testtool.Live(t, "reads the kernel's memory")
	c, err := kernel.ReadCode(sample.ImageID{Path: "[kernel]", Build: kernel.BuildID("")})
	if err != nil {
		t.Skipf("needs the kernel's symbols: %v", err)
	}
	var all []kernel.Memory
	if m, err := kernel.OpenKcore(); err == nil {
		defer m.Close()
		if err := c.Readable(m); err != nil {
			t.Errorf("kcore: %v", err)
		} else {
			all = append(all, m)
		}
	}
	m, err := openProgramMemory()
	if err != nil {
		t.Skipf("needs CAP_BPF and CAP_PERFMON: %v", err)
	}
	defer m.Close()
	all = append(all, m)
	list, err := os.ReadFile("/proc/kallsyms")
	if err != nil {
		t.Fatal(err)
	}
	notes, err := os.ReadFile("/sys/kernel/notes")
	if err != nil {
		t.Fatal(err)
	}
	var at uint64
	if before, _, ok := strings.Cut(string(list), " __start_notes\n"); ok {
		fmt.Sscanf(before[strings.LastIndexByte(before, '\n')+1:], "%x", &at)
	}
	text := c.Parts[0]
	whole := make([]byte, min(200_000, text.End-text.Start))
	if err := m.At(text.Start, whole); err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		if got := make([]byte, len(notes)); at == 0 {
			t.Log("the kernel does not list where its notes are")
		} else if err := m.At(at, got); err != nil || !bytes.Equal(got, notes) {
			t.Errorf("%T: notes are %x, %v; want %x", m, got, err, notes)
		}
		for _, n := range []int{1, 15, 4097, mostCopied - 1, mostCopied + 1} {
			if got := make([]byte, n); m.At(text.Start+3, got) != nil || !bytes.Equal(got, whole[3:3+n]) {
				t.Errorf("%T: %d bytes of code differ from the whole", m, n)
			}
		}
		if err := m.At(0x1000, make([]byte, 8)); err == nil {
			t.Errorf("%T: there is kernel memory at 0x1000", m)
		}
	}
}
