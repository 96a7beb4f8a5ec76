package input

import (
	"fmt"
	"strings"
	"testing"

	"backfeed/cmd/internal/report"
	"backfeed/infer/compare"
	"backfeed/sample"
)

// heard remembers what is said.
type heard struct {
	report.Quiet
	text *strings.Builder
}

func (h heard) Warn(format string, args ...any) { fmt.Fprintf(h.text, format+"\n", args...) }

// setOf has samples written as image:n, of the kernel without a place as kernel:n, after what may be the event and the processor.
func setOf(name, event, cpu, samples string) *compare.Set {
	c := sample.NewCounts(sample.CPU{Arch: "x86_64", Name: cpu}, sample.Event{Name: event, Unit: map[string]string{"page-faults": "events"}[event]})
	for f := range strings.FieldsSeq(samples) {
		var n uint64
		what, number, _ := strings.Cut(f, ":")
		fmt.Sscan(number, &n)
		if what == "kernel" {
			c.Lose(sample.LostKernel, n)
			continue
		}
		c.AddSample(c.Image(sample.ImageID{Path: what}), 8, n)
	}
	return &compare.Set{Name: name, Recording: sample.Merge(&sample.Recording{Counts: []*sample.Counts{c}})}
}

// TestAlike: what one set does not have is compared of none, and it is said; what is only few is not taken for missing.
func TestAlike(t *testing.T) {
	const cpu = "Alpha"
	for _, tt := range []struct {
		name   string
		a, b   *compare.Set
		totals [2]uint64
		kernel [2]uint64 // lost, after
		says   []string  // and nothing else
		known  func(int, sample.ImageID) bool
	}{
		{"equal", setOf("a", "cycles", cpu, "/app:100 kernel:50"), setOf("b", "cycles", cpu, "/app:90 kernel:60"), [2]uint64{150, 150}, [2]uint64{50, 60}, nil, nil},
		{"no kernel", setOf("a", "cycles", cpu, "/app:100"), setOf("b", "cycles", cpu, "/app:90 [kernel]:40 kernel:20"), [2]uint64{100, 90}, [2]uint64{0, 0},
			[]string{"the kernel was not sampled in a: ", "60 of b (40.0%)"}, nil},
		{"no places", setOf("a", "cycles", cpu, "/app:100 kernel:50"), setOf("b", "cycles", cpu, "/app:90 [kernel]:40 kernel:20"), [2]uint64{150, 150}, [2]uint64{50, 60},
			[]string{"places in the kernel are not known in a: ", "40 of b have a place"}, nil},
		{"another build", setOf("a", "cycles", cpu, "/app:100 [kernel]:50"), setOf("b", "cycles", cpu, "/app:90 [kernel]:40 kernel:20"), [2]uint64{150, 150}, [2]uint64{50, 60},
			[]string{"the kernel of a is of another build", "compared as a whole: 40 of b have a place"}, func(set int, id sample.ImageID) bool { return set == 1 }},
		{"other builds", setOf("a", "cycles", cpu, "/app:100 [kernel]:50"), setOf("b", "cycles", cpu, "/app:90 [kernel]:60"), [2]uint64{150, 150}, [2]uint64{}, nil, func(int, sample.ImageID) bool { return false }},
		{"no names wanted", setOf("a", "cycles", cpu, "/app:100 [kernel]:50"), setOf("b", "cycles", cpu, "/app:90 [kernel]:60"), [2]uint64{150, 150}, [2]uint64{}, nil, nil},
		{"by chance", setOf("a", "cycles", cpu, "/app:20"), setOf("b", "cycles", cpu, "/app:900 kernel:100"), [2]uint64{20, 1000}, [2]uint64{0, 100}, nil, nil},
		{"processors", setOf("a", "cycles", cpu, "/app:100"), setOf("b", "cycles", "Beta", "/app:100"), [2]uint64{100, 100}, [2]uint64{}, []string{"a on Alpha, b on Beta"}, nil},
		{"images", setOf("a", "cycles", cpu, "/app:100"), setOf("b", "cycles", cpu, "/app:30 /other:70"), [2]uint64{100, 100}, [2]uint64{}, []string{"70.0% of the samples of b are of images that a has none of"}, nil},
	} {
		var h heard
		h.text = new(strings.Builder)
		sets := []*compare.Set{tt.a, tt.b}
		if _, err := Alike(sets, "", h, tt.known); err != nil {
			t.Fatal(err)
		}
		TellAlone(sets, compare.NamesOf(sets), h)
		for i, s := range sets {
			var lost uint64
			for _, c := range s.Counts {
				lost += c.Lost[sample.LostKernel]
			}
			if s.Total != tt.totals[i] || lost != tt.kernel[i] {
				t.Errorf("%s: %s has %d samples, %d of the kernel; want %d, %d", tt.name, s.Name, s.Total, lost, tt.totals[i], tt.kernel[i])
			}
		}
		for _, want := range tt.says {
			if !strings.Contains(h.text.String(), want) {
				t.Errorf("%s: no %q in %q", tt.name, want, h.text)
			}
		}
		if tt.says == nil && h.text.Len() > 0 {
			t.Errorf("%s: %q", tt.name, h.text)
		}
	}

	// Of events, that of time is compared which both have; if one has more of another, that is said.
	a, b := setOf("a", "cycles", cpu, "/app:100"), setOf("b", "cpu-clock", cpu, "/app:100")
	for _, s := range []*compare.Set{a, b} {
		s.Recording.Add(setOf("", "page-faults", cpu, "/app:70").Recording.Counts[0])
	}
	h := heard{text: new(strings.Builder)}
	if ev, err := Alike([]*compare.Set{a, b}, "", h, nil); err != nil || ev.Name != "page-faults" || !strings.Contains(h.text.String(), "samples of page-faults alone are compared; of other events there are more: 100 of cycles in a, 100 of cpu-clock in b") {
		t.Errorf("%v, %v, %q", ev, err, h.text)
	}
	b.Recording.Add(setOf("", "cycles", cpu, "/app:20").Recording.Counts[0])
	if ev, err := Alike([]*compare.Set{a, b}, "", h, nil); err != nil || ev.Name != "cycles" {
		t.Errorf("%v, %v", ev, err)
	}
	if _, err := Alike([]*compare.Set{a, b}, "nothing", h, nil); err == nil {
		t.Error("samples of an event that there are none of")
	}
}

// TestTellBuilds: that files of one name are several is said, if each has a share that counts.
func TestTellBuilds(t *testing.T) {
	for samples, want := range map[string]string{
		"/a/app:100 /b/app:50 /lib/libc.so:50": "2 builds or programs are named app: /a/app, 50.0% of the samples, /b/app, 25.0% of the samples",
		"/a/app:1000 /b/app:5":                 "",
		"/a/app:100 /b/other:100":              "",
	} {
		h := heard{text: new(strings.Builder)}
		s, err := New(Options{Notify: h})
		if err != nil {
			t.Fatal(err)
		}
		s.TellBuilds(setOf("", "cycles", "", samples).Recording.ByImage())
		if got := h.text.String(); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", samples, got, want)
		}
	}
}
