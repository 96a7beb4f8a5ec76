package optimize

import (
	"math"
	"testing"
	"time"
)

// TestLoad: what other processes and the host took is what is left of all processors' time.
func TestLoad(t *testing.T) {
	const before, after = "cpu  1000 0 500 8000 100 0 10 90 77 0\ncpu0 1 2\n", "cpu  1300 100 550 8300 100 0 10 140 99 0\ncpu0 1 2\n"
	a, err := parseLoad(before)
	if err != nil {
		t.Fatal(err)
	}
	b, err := parseLoad(after)
	if err != nil {
		t.Fatal(err)
	}
	m := a.since(b, 2*time.Second) // of 8 s
	for name, v := range map[string][2]float64{"own": {m.Own, 0.25}, "idle": {m.Idle, 0.375}, "steal": {m.Steal, 0.0625}, "others": {m.Others, 0.3125}} {
		if math.Abs(v[0]-v[1]) > 1e-9 {
			t.Errorf("%s: %g, want %g", name, v[0], v[1])
		}
	}
	if m := a.since(a, 0); m != nil {
		t.Errorf("of no time: %+v", m)
	}
	if m := (load{}).since(b, 0); m != nil {
		t.Errorf("of what is not known: %+v", m)
	}
}

func FuzzParseLoad(f *testing.F) {
	f.Add("cpu  1000 0 500 8000 100 0 10 90 77 0\ncpu0 1 2\n")
	f.Add("cpu  99999999999999999999 0 500 8000 100 0 10 90")
	f.Fuzz(func(t *testing.T, text string) {
		if l, err := parseLoad(text); err == nil && (l.all < l.idle+l.steal || l.idle < 0 || l.steal < 0) {
			t.Errorf("%q: %+v", text, l)
		}
	})
}
