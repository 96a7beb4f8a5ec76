package terminal

import (
	"bytes"
	"os"
	"testing"
)

// TestIs: nothing but a terminal gets progress, colours or a refusal of
// binary data.
func TestIs(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	for name, w := range map[string]any{"a pipe": w, os.DevNull: null, "memory": &bytes.Buffer{}} {
		if Is(w) {
			t.Errorf("%s is taken for a terminal", name)
		}
	}
}
