package feedback

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"backfeed/internal/testtool"
	"backfeed/sample/bound"
)

// nestedText is a sample profile of bodies that are inlined in each other, by long names.
func nestedText(depth, name int) []byte {
	var b bytes.Buffer
	long := strings.Repeat("f", name)
	fmt.Fprintf(&b, "%s:1:1\n", long)
	for i := range depth {
		fmt.Fprintf(&b, "%s1: %s:1\n", strings.Repeat(" ", i+1), long)
	}
	return b.Bytes()
}

// nestedBinary is the same in binary, which has the name once.
func nestedBinary(t *testing.T, depth, name int) []byte {
	names := append([]byte{1}, strings.Repeat("f", name)...)
	body := []byte{1, 0}                                                  // entries, name
	body = append(body, bytes.Repeat([]byte{1, 0, 1, 1, 0, 0}, depth)...) // total, no lines, one call: line, discriminator, name
	body = append(body, 1, 0, 0)
	return sectionsOf(t, llvmSection{secNames, 0, 0, append(names, 0)}, llvmSection{secBodies, 0, 1, body})
}

// TestInlinedBombs: the path of each inlined call has those of all around it.
func TestInlinedBombs(t *testing.T) {
	for _, tt := range []struct {
		name string
		b    []byte
		ok   bool
	}{
		{"binary", nestedBinary(t, 250, 3000), false},
		{"text", nestedText(1200, 2000), false},
		{"binary as compilers write", nestedBinary(t, 30, 300), true},
		{"text as compilers write", nestedText(30, 300), true},
		{"targets", []byte("f:1:1\n" + strings.Repeat(" 1: 1 g:1\n", 100_000)), true},
	} {
		var d *Decisions
		var err error
		used := testtool.Allocated(func() { d, err = DecideLLVM(bytes.NewReader(tt.b)) }) >> 20
		t.Logf("%s: %d bytes: %d MiB allocated: %v", tt.name, len(tt.b), used, err)
		switch {
		case used > 200:
			t.Errorf("%s: %d MiB allocated for %d bytes", tt.name, used, len(tt.b))
		case tt.ok && (err != nil || len(d.made) == 0):
			t.Errorf("%s: %v", tt.name, err)
		case !tt.ok && (!errors.Is(err, bound.ErrBeyond) || !errors.Is(err, ErrUnfit) || !strings.Contains(err.Error(), "path of an inlined call")):
			t.Errorf("%s: error %v, want one about proportions", tt.name, err)
		}
	}
}
