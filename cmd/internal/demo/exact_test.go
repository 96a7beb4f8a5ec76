package demo

import (
	"maps"
	"strings"
	"testing"
)

func TestExactCounts(t *testing.T) {
	const source = `package demo

type plain struct{}

func (p *plain) peek() int {
	if p == nil {
		return 0
	}
	return 1
}

func (p plain) line() int { return 2 }

func empty() {}

func main() {
	for range 3 {
		new(plain).peek()
	}
}
`
	// From go1.26.8, but for the counts.
	const cover = `mode: count
demo/main.go:9.2,9.10 1 26
demo/main.go:5.28,6.14 1 27
demo/main.go:6.14,8.3 1 1
demo/main.go:12.27,12.39 1 5
demo/main.go:16.13,17.14 1 1
demo/main.go:17.14,19.3 1 3
demo/other.go:5.28,6.14 1 99
`
	got, err := exactCounts(strings.NewReader(cover), "main.go", []byte(source))
	want := map[string]uint64{"(*plain).peek": 27, "plain.line": 5, "main": 1}
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("%v, %v; want %v", got, err, want)
	}
	for _, bad := range []string{"demo/main.go:9.2", "main.go:x", "main.go:1.1,2.2 3 -4"} {
		if _, err := exactCounts(strings.NewReader(bad), "main.go", []byte(source)); err == nil {
			t.Errorf("%q: no error", bad)
		}
	}
	if _, err := exactCounts(strings.NewReader(""), "main.go", []byte("package")); err == nil {
		t.Error("a source that does not parse: no error")
	}
}
