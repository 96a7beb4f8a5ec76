package trace

import (
	"fmt"
	"strings"
	"testing"
)

// accessesOf writes the accesses of a walk: operation, branches before, line of memory; r or w, ? where it is not known.
func accessesOf(l *Long) string {
	var s strings.Builder
	l.Accesses(func(a Access) bool {
		how := "r"
		if a.Store {
			how = "w"
		}
		if !a.Known {
			how = "?"
		}
		fmt.Fprintf(&s, "%d.%d%s%x ", a.Op-1, a.After, how, a.Addr)
		return true
	})
	return s.String()
}

// TestAccesses: a walk tells what it read and wrote, line by line, and what it would have.
func TestAccesses(t *testing.T) {
	code, space := sums()
	st, m := start(2)
	machine := NewMachine(code)
	for range 2 {
		l, err := machine.Run(st, space, m, Limits{Steps: 1000, Accesses: true})
		if err != nil {
			t.Fatal(err)
		}
		machine.Load(0x1008, 8) // is none
		if got, want := accessesOf(l), "1.0r1000 2.0w4fe8 12.2r4fe8 1.4r1008 2.4w4fe8 12.6r4fe8 6.8w2ff8 "; got != want {
			t.Errorf("\n got %s\nwant %s", got, want)
		}
	}
	l, err := machine.Run(st, space, m, Limits{Steps: 1000})
	if err != nil || l.Steps == 0 || accessesOf(l) != "" {
		t.Errorf("accesses that nobody asked for: %s, %v", accessesOf(l), err)
	}

	repeated := reg(X86Moves, X86None, X86None, 0)
	repeated.Size, repeated.Ext = 1, 1
	forgets := reg(X86Clobber, X86None, X86None, 0)
	forgets.Imm = 1 << rax
	code, space = program(
		forgets,
		mem(X86Mov, rdx, X86Mem, rsi, 0x3c, moves),     // crosses a line
		mem(X86Lea, rdx, X86Mem, rsi, 0, X86WritesDst), // is none
		mem(X86Add, X86Mem, rdx, rsi, 0, modifies),     // reads and writes
		mem(X86Mov, rdx, X86Mem, rax, 0, moves),        // it is not known where
		repeated,                                       // 130 bytes
		mem(X86Clobber, X86None, X86Mem, rsi, 8, 0),    // reads, but the emulator does not
		mem(X86Mov, X86Mem, rdx, rdx, 0, moves),        // ends the walk: it is not known where to
	)
	st, m = start(0)
	st.Regs[rcx], st.Regs[rdi] = 130, 0x2000
	if l, err = NewMachine(code).Run(st, space, m, Limits{Steps: 1000, Accesses: true}); err != nil {
		t.Fatal(err)
	}
	if got, want := accessesOf(l), "1.0r103c 1.0r1040 3.0r1000 3.0w1000 4.0?0 5.0r1000 5.0w2000 5.0r1040 5.0w2040 5.0r1080 5.0w2080 6.0r108a "; got != want || l.End != EndAddress {
		t.Errorf("%v\n got %s\nwant %s", l.End, got, want)
	}
}
