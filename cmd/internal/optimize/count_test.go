package optimize

import (
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
