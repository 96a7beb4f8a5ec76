package optimize

import (
	"path/filepath"
	"strings"
	"testing"

	"backfeed/internal/testtool"
)

// TestFailed: of what valgrind prints as it fails, the line that says why is repeated.
func TestFailed(t *testing.T) {
	for _, tt := range []struct{ log, want string }{
		{"", ""},
		{"==7== Process terminating with default action of signal 6 (SIGABRT)\n", ""}, // the program's own failure
		{"runtime.sigreturn__sigaction.abi0\nBB# 55594\n\nCallgrind: threads.c:247 (vgCallgrind_post_signal): Assertion 'sigNum == vgCallgrind_current_state.sig' failed.\n\nhost stacktrace:\n==7==    at 0x58020C4A: ??? (in callgrind-amd64-linux)\n",
			"Callgrind: threads.c:247 (vgCallgrind_post_signal): Assertion 'sigNum == vgCallgrind_current_state.sig' failed."},
		{"vex amd64->IR: unhandled instruction bytes: 0xF 0x1 0xF9\n==7== valgrind: Unrecognised instruction\n", "vex amd64->IR: unhandled instruction bytes: 0xF 0x1 0xF9"},
	} {
		dir := t.TempDir()
		testtool.Write(t, dir, "log.7", tt.log)
		if got := failed(dir); got != tt.want {
			t.Errorf("%q: %q, want %q", tt.log, got, tt.want)
		}
	}
}

// TestWithoutDebug: code of rustc, linked with relocations, refers to a section that objcopy takes for debug information.
func TestWithoutDebug(t *testing.T) {
	testtool.Need(t, "rustc")
	dir := t.TempDir()
	testtool.Write(t, dir, "main.rs", `fn main() { println!("{}", std::env::args().count()); }`)
	binary := filepath.Join(dir, "main")
	testtool.Output(t, dir, "rustc", "-g", "-Clink-arg=-Wl,--emit-relocs", "-o", binary, "main.rs")
	stripped, err := withoutDebug(t.Context(), binary)
	if err != nil {
		t.Fatal(err)
	}
	if out := testtool.Output(t, dir, stripped); strings.TrimSpace(out) != "1" {
		t.Errorf("%s prints %q", stripped, out)
	}
}
