package gcov

import "testing"

// TestNamedAs: idents of gcc 12 say how -o spelled the name of an object, and only those of static functions do.
func TestNamedAs(t *testing.T) {
	extern := Function{Ident: 108032747, Name: "main", Source: "a.c"}
	for name, ident := range map[string]uint32{"a": 2068343452, "./o/a": 1511283919, "/src/o/b": 1592368359, "o/../o/c": 100928189} {
		n := &Notes{Functions: []Function{extern, {Ident: ident, Name: "f", Source: "a.c"}}}
		names := []string{"x", "a", "./o/a", "/src/o/b", "o/../o/c"}
		if got, ok := n.NamedAs(names); got != name || !ok {
			t.Errorf("an object named %q: %q, %v", name, got, ok)
		}
		if got, ok := n.NamedAs([]string{"o/a", "x"}); ok {
			t.Errorf("an object named %q is taken for %q", name, got)
		}
	}
	n := &Notes{Functions: []Function{extern}}
	if got, ok := n.NamedAs([]string{"a", "main"}); ok {
		t.Errorf("a function that others can call says that the object is %q", got)
	}
}
