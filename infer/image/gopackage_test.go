package image

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
		if got := GoPackage(name); got != want {
			t.Errorf("%s is of package %q, want %q", name, got, want)
		}
	}
}
