package collect

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCallLog: the first argument of a call is known where a thread waited in the same call before, with one alone.
func TestCallLog(t *testing.T) {
	dir := t.TempDir()
	var log callLog
	for _, text := range []string{
		"22 0x7 0x7f0000001000 0x1 0x4e20 0x0 0x8 0x7fff0000 0x400100\n",
		"22 0x7 0x7f0000001000 0x1 0x4e20 0x0 0x8 0x7fff0000 0x400100\n",
		"22 0x8 0x7f0000002000 0x1 0x4e20 0x0 0x8 0x7fff0000 0x400100\n",
		"22 0x9 0x7f0000002000 0x1 0x4e20 0x0 0x8 0x7fff0000 0x400100\n",
		"running\n",
		"-1 0x7fff0000 0x400100\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, "syscall"), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		log.note(dir)
	}
	at := func(second uint64) *registers {
		var r registers
		r.Regs[8], r.Regs[1], r.Regs[2], r.Regs[3], r.Regs[5], r.Sp, r.Pc = 22, second, 1, 0x4e20, 8, 0x7fff0000, 0x400100
		r.Regs[0] = ^uint64(3) // -EINTR
		return &r
	}
	r := at(0x7f0000001000)
	if !r.gaveUp() || !r.again(&log) || r.Regs[0] != 7 || r.Pc != 0x400100-callSize {
		t.Errorf("%+v", r)
	}
	r.notAgain()
	if *r != *at(0x7f0000001000) {
		t.Errorf("taken back: %+v", r)
	}
	for _, second := range []uint64{0x7f0000002000, 0x7f0000003000} {
		if r := at(second); r.again(&log) || *r != *at(second) {
			t.Errorf("a call that is ambiguous or unknown was made again: %+v", r)
		}
	}
}
