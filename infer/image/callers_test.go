package image

import (
	"slices"
	"testing"
)

// TestCallers: direct calls and jumps to the start of a procedure count, and nothing else.
func TestCallers(t *testing.T) {
	// f: lea g(%rip),%rax; call h; ret   g: jmp h   h: ret
	im := codeImage(X86_64, []byte("\x48\x8d\x05\x06\x00\x00\x00\xe8\x03\x00\x00\x00\xc3\xeb\x00\xc3"), nil)
	im.setSymbols([]Symbol{
		{Name: "f", Addr: testBase, Size: 13}, {Name: "g", Addr: testBase + 13, Size: 2}, {Name: "h", Addr: testBase + 15, Size: 1},
	})
	for i, want := range [][]int32{nil, nil, {0, 1}} {
		if got := im.Callers(i); !slices.Equal(got, want) {
			t.Errorf("%s: called by %v, want %v", im.symbols[i].Name, got, want)
		}
	}
	for i, want := range []bool{false, true, false} {
		if got := im.AddressTaken(i); got != want {
			t.Errorf("%s: pointed to: %v, want %v", im.symbols[i].Name, got, want)
		}
	}
}

func TestRunsOnce(t *testing.T) {
	for name, want := range map[string]bool{
		"main": true, "main.main": true, "runtime.main": true, "_GLOBAL__sub_I_x.cc": true,
		"strings.init": true, "time.init.0": true, "golang.org/x/text/unicode/norm.init": true,
		"_ZN5hello4main17h0123456789abcdefE": true,
		"domain":                             false, "main.work": false, "bufio.(*Reader).init": false, "init": false, "time.initLocal": false,
		"_ZN5hello6domain17h0123456789abcdefE": false, "_ZN5hello3foo4main17h0123456789abcdefE": false,
	} {
		if got := runsOnce(name); got != want {
			t.Errorf("%s: runs once: %v, want %v", name, got, want)
		}
	}
}
