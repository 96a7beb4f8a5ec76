package feedback

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/pprof/profile"

	"backfeed/internal/testtool"
	"backfeed/sample"
)

// preprofiled returns the weights that the go command reads from a profile, by caller, line and callee.
func preprofiled(t *testing.T, dir, file string) map[string]float64 {
	t.Helper()
	testtool.Run(t, dir, "go", "tool", "preprofile", "-i", file, "-o", file+".txt")
	lines := strings.Split(strings.TrimSpace(testtool.Read(t, dir, file+".txt")), "\n")[1:]
	got := map[string]float64{}
	for c := range slices.Chunk(lines, 3) {
		var line int
		var n float64
		fmt.Sscan(c[2], &line, &n)
		got[fmt.Sprintf("%s %d %s", c[0], line, c[1])] = n
	}
	return got
}

// TestGoByName: of a profile of runtime/pprof without its addresses, the compiler reads what it reads of the profile.
func TestGoByName(t *testing.T) {
	testtool.Need(t, "go")
	if testing.Short() {
		t.Skip("samples a program for two seconds")
	}
	src, err := filepath.Abs("testdata/shapes")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	shapes := filepath.Join(dir, "shapes")
	testtool.Run(t, src, "go", "build", "-pgo=off", "-o", shapes, ".")
	testtool.Run(t, dir, shapes, "cpu.pprof")
	p, err := profile.Parse(strings.NewReader(testtool.Read(t, dir, "cpu.pprof")))
	if err != nil {
		t.Fatal(err)
	}
	// As Pyroscope keeps what its clients have named (clearAddresses in its pkg/pprof), and without what backfeed reads otherwise.
	p.Sample = slices.DeleteFunc(p.Sample, func(s *profile.Sample) bool {
		return strings.HasPrefix(s.Location[0].Line[0].Function.Name, "runtime.")
	})
	for _, m := range p.Mapping {
		m.Start, m.Limit, m.Offset = 0, 0, 0
	}
	for _, l := range p.Location {
		l.Address = 0
	}
	var stripped, out bytes.Buffer
	if err := p.Write(&stripped); err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, dir, "names.pprof", stripped.Bytes())
	_, err = sample.ReadPprof(&stripped)
	var named *sample.NoAddressError
	if !errors.As(err, &named) {
		t.Fatal(err)
	}
	stats, err := WriteGoNames(&out, named.Calls)
	if err != nil {
		t.Fatal(err)
	}
	testtool.Write(t, dir, "ours.pprof", out.Bytes())
	got, want := preprofiled(t, dir, "ours.pprof"), preprofiled(t, dir, "names.pprof")
	if len(got) != len(want) || len(got) != stats.Edges || len(got) < 2 {
		t.Errorf("%d edges, of the profile itself %d, %d said", len(got), len(want), stats.Edges)
	}
	for edge, n := range want {
		const step = 0.126 // of what is rounded to three bits
		if g := got[edge]; g < n*(1-step) || g > n*(1+step) {
			t.Errorf("%s: %v, of the profile itself %v", edge, g, n)
		}
	}
	again, err := profile.Parse(&out)
	if err != nil || !slices.Contains(again.Comments, namesOnly) {
		t.Errorf("%v; not marked as without inference: %q", err, again.Comments)
	}
}

// TestGoByNameRefuses: what go build would refuse or ignore is no profile.
func TestGoByNameRefuses(t *testing.T) {
	call := func(start, line int) *sample.NamedCalls {
		c := &sample.NamedCalls{Samples: 10, Go: 10, Calls: map[sample.NamedCall]uint64{}}
		c.Calls[sample.NamedCall{Caller: sample.NamedFunc{Name: "main.main", File: "a.go", Start: start}, Line: line, Callee: sample.NamedFunc{Name: "main.f", File: "a.go", Start: start}}] = 10
		return c
	}
	java := call(3, 4)
	java.Go = 4
	for _, tt := range []struct {
		name string
		c    *sample.NamedCalls
		want error
		says string
	}{
		{"fine", call(3, 4), nil, ""},
		{"no first lines", call(0, 4), ErrUnfit, "first line"},
		{"no lines", call(3, 0), ErrEmpty, "(calls from or to code without lines: 1)"},
		{"no calls", &sample.NamedCalls{Samples: 1, Go: 1}, ErrEmpty, "no calls"},
		{"not Go", java, ErrUnfit, "not of a Go program"},
	} {
		_, err := WriteGoNames(&bytes.Buffer{}, tt.c)
		if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}
