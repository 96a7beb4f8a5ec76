package compare

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"backfeed/sample"
)

// TestHosts: of hosts that do the same, none is odd for chance; one that does something else, or has another clock or rate, is.
func TestHosts(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	host := func(name string, samples int, other float64, hour int) HostSet {
		s := HostSet{Name: name, Shares: map[Thing]uint64{}}
		for range samples {
			thing := int(rng.ExpFloat64() * 5) // a few hot images, many cold ones
			if rng.Float64() < other {
				thing += 1000
			}
			s.Shares[Thing{Image: fmt.Sprint(thing)}]++
		}
		for h := range 24 {
			s.Epochs = append(s.Epochs, sample.EpochAt(time.Unix(1e9, 0).Add(time.Duration(h+hour)*time.Hour), time.Hour))
		}
		return s
	}
	var usual []HostSet
	for i := range 40 {
		usual = append(usual, host(fmt.Sprintf("h%d", i), 200+50*(i%5), 0.02*float64(i%3), 0))
	}
	hosts, judged := Hosts(usual)
	for _, h := range hosts {
		if len(h.Odd) > 0 || !judged {
			t.Errorf("%s is odd: %+v", h.Name, h)
		}
	}
	odd := []HostSet{host("works on something else", 300, 0.5, 0), host("is fast", 30000, 0, 0), host("is slow", 20, 0, 0), host("is ahead", 300, 0, 30), host("is silent", 300, 0, -10)}
	hosts, _ = Hosts(append(slices.Clone(usual), odd...))
	want := map[string]string{"works on something else": "another workload", "is fast": "far more samples", "is slow": "far fewer samples",
		"is ahead": "its clock is ahead", "is silent": "silent, or its clock is behind"}
	for i, h := range hosts {
		if got := fmt.Sprint(h.Odd); (want[h.Name] != "" && got != "["+want[h.Name]+"]") || want[h.Name] == "" && got != "[]" {
			t.Errorf("%s: %s, %+v", h.Name, got, h)
		}
		if i < len(want) != (len(h.Odd) > 0) {
			t.Errorf("row %d is %s", i, h.Name)
		}
	}
	if _, judged := Hosts(usual[:4]); judged {
		t.Error("of four hosts one is said to be odd")
	}
	// Ten of 45 hosts that do something else, each its own: they are odd, the others are not.
	var hostile []HostSet
	for i := range 10 {
		h := host(fmt.Sprintf("x%d", i), 300, 0, 0)
		for thing, n := range h.Shares {
			delete(h.Shares, thing)
			h.Shares[Thing{Image: fmt.Sprint(i, "/", thing.Image)}] = n
		}
		hostile = append(hostile, h)
	}
	hosts, _ = Hosts(append(hostile, usual[:35]...))
	for _, h := range hosts {
		if (h.Name[0] == 'x') != (len(h.Odd) > 0) {
			t.Errorf("%s: %q, distance %.2f", h.Name, h.Odd, h.Distance)
		}
	}
	for _, sets := range [][]HostSet{nil, {{Name: "empty"}}, append(slices.Clone(usual), HostSet{Name: "empty"})} {
		hosts, _ := Hosts(sets)
		for _, h := range hosts {
			if h.Distance != h.Distance || h.Faster != h.Faster {
				t.Errorf("%+v", h)
			}
		}
	}
}
