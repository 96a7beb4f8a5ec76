package layout

import "testing"

func TestInModule(t *testing.T) {
	modules := []string{"app", "example.com/lib"}
	for path, want := range map[string]bool{
		"main": true, "app": true, "app/x": true, "apple": false, "example.com/lib/y": true, "example.com/other": false, "runtime": false,
	} {
		if got := inModule(path, modules); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if !inModule("example.com/x", nil) || inModule("net/http", nil) {
		t.Error("without modules, a dot in the first element is what tells a package from the standard library's")
	}
}
