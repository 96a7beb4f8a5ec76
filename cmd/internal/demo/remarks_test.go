package demo

import (
	"slices"
	"strings"
	"testing"
)

// From go1.26.8 build -gcflags=-m, with and without a profile.
const (
	remarksBase = `# demo
./main.go:36:6: can inline (*plain).peek
./main.go:382:24: inlining call to strconv.AppendInt
./main.go:400:18: s does not escape
`
	remarksPGO = `# demo
./main.go:382:24: inlining call to strconv.AppendInt
./main.go:157:21: PGO devirtualizing interface call s.in.peek to (*plain).peek
./main.go:157:21: inlining call to (*plain).peek
./main.go:157:21: inlining call to (*plain).peek
./main.go:90:5: PGO devirtualizing function call f to run.func1
../other.go:1:1: inlining call to x
`
)

func TestReadRemarks(t *testing.T) {
	base, err := readRemarks(strings.NewReader(remarksBase))
	if err != nil {
		t.Fatal(err)
	}
	pgo, err := readRemarks(strings.NewReader(remarksPGO))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name      string
		got, want []remark
	}{
		{"without a profile", base, []remark{{382, 24, inlined, "", "strconv.AppendInt"}}},
		{"newly inlined", only(inlined, pgo, base), []remark{{157, 21, inlined, "", "(*plain).peek"}}},
		{"no longer inlined", only(inlined, base, pgo), nil},
		{"newly devirtualised", only(devirtualized, pgo, base), []remark{
			{90, 5, devirtualized, "f", "run.func1"}, {157, 21, devirtualized, "s.in.peek", "(*plain).peek"},
		}},
	} {
		if !slices.Equal(tt.got, tt.want) {
			t.Errorf("%s: %v, want %v", tt.name, tt.got, tt.want)
		}
	}
}
