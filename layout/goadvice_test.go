package layout

import "testing"

func TestGoPackage(t *testing.T) {
	for name, want := range map[string]string{
		"main.main":                                 "main",
		"main.main.func1":                           "main",
		"runtime.(*mheap).alloc":                    "runtime",
		"example.com/a/b.(*T).Method":               "example.com/a/b",
		"example.com/a/b.F[example.com/c.T,int]":    "example.com/a/b",
		"gopkg.in/yaml%2ev3.(*parser).parse":        "gopkg.in/yaml.v3",
		"vendor/golang.org/x/net/idna.(*P).ToASCII": "vendor/golang.org/x/net/idna",
		"_rt0_amd64":                                "",
		"":                                          "",
	} {
		if got := goPackage(name); got != want {
			t.Errorf("%s is of package %q, want %q", name, got, want)
		}
	}
}

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
