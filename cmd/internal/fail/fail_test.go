package fail

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"testing"
)

func TestKind(t *testing.T) {
	inner := Errorf(Machine, "no counters: %w", io.EOF)
	outer := Wrap(Usage, fmt.Errorf("record: %w", inner))
	if k := KindOf(outer); k != Machine {
		t.Errorf("kind of %q is %d, want that of the cause, %d", outer, k, Machine)
	}
	if !errors.Is(outer, io.EOF) {
		t.Errorf("%q has lost its cause", outer)
	}
	if k := KindOf(io.EOF); k != Other {
		t.Errorf("kind of a plain error is %d, want %d", k, Other)
	}
	if Wrap(Other, nil) != nil {
		t.Error("no error got a kind")
	}
}

// TestText: names cannot make lines of their own, and what is meant to be lines is.
func TestText(t *testing.T) {
	evil := errors.New("a\nb\x1b[2J")
	for _, tt := range []struct {
		name string
		err  error
		want string
	}{
		{"a name", Errorf(Nothing, "%w: no samples", evil), `a\nb\x1b[2J: no samples`},
		{"joined", errors.Join(evil, io.EOF), "a\\nb\\x1b[2J\nEOF"},
		{"joined below a kind", Wrap(Machine, errors.Join(evil, io.EOF)), "a\\nb\\x1b[2J\nEOF"},
		{"lines", Wrap(Usage, Lines(evil, "usage: x\ny", "z")), "a\\nb\\x1b[2J\nusage: x\\ny\nz"},
		{"wrapped lines", fmt.Errorf("diff: %w\n.", Lines(evil, "more")), "diff: a\\nb\\x1b[2J\nmore\\n."},
	} {
		if got := Text(tt.err); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

func TestCause(t *testing.T) {
	if err := Cause(&fs.PathError{Op: "open", Path: "/x", Err: fs.ErrNotExist}); err != fs.ErrNotExist {
		t.Errorf("cause is %v", err)
	}
	if err := Cause(io.EOF); err != io.EOF {
		t.Errorf("cause is %v", err)
	}
}
