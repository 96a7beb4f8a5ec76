package emit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"backfeed/cmd/internal/fail"
	"backfeed/cmd/internal/input"
	"backfeed/feedback"
	"backfeed/infer"
	"backfeed/infer/image"
	"backfeed/sample"
)

// TestWorth: a profile says what it is expected to bring, and if that is next to nothing, what takes the time.
func TestWorth(t *testing.T) {
	time := []feedback.GoTime{{Kind: feedback.GoAssembly, Samples: 600, Hottest: "crypto/sha256.blockSHANI"}, {Kind: feedback.GoRuntime, Samples: 300, Hottest: "runtime.mallocgc"}, {Kind: feedback.GoOwn, Samples: 100, Hottest: "main.main"}}
	for _, tt := range []struct {
		name  string
		calls float64
		built bool
		want  []string // parts; none is no sentence
	}{
		{"many calls", 1000, false, []string{"expected to save 1.5% to 12.0% of the program's instructions: of 1000 that ran, 10.0 are calls ", "time is not foretold"}},
		{"few calls", 50, false, []string{"not expected to save as much as 1 %", "of 1000 that ran, 0.5 are calls", "60.0% of its samples are in assembly, crypto/sha256.blockSHANI first", "30.0% of its samples are in Go's runtime, runtime.mallocgc first"}},
		{"built with a profile", 50, true, nil},
	} {
		got := strings.Join(worth(&feedback.GoWorth{Executed: 100000, Calls: tt.calls, Time: time}, tt.built), "\n")
		if (got != "") != (tt.want != nil) || strings.Contains(got, "main.main") {
			t.Errorf("%s: %q", tt.name, got)
		}
		for _, part := range tt.want {
			if !strings.Contains(got, part) {
				t.Errorf("%s: %q lacks %q", tt.name, got, part)
			}
		}
	}
}

// TestElsewhere: a profile about little of the time, or about less than another image has, says so, and where the time is,
// unless its image was asked for.
func TestElsewhere(t *testing.T) {
	app, lib := sample.ImageID{Path: "/bin/app", Build: sample.BuildID{1}}, sample.ImageID{Path: "/lib/libz.so", Build: sample.BuildID{2}}
	of := func(inApp, inLib, inKernel uint64) *input.Session {
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock"})
		c.AddSample(c.Image(app), 16, inApp)
		c.AddSample(c.Image(lib), 16, inLib)
		c.Lose(sample.LostKernel, inKernel)
		return &input.Session{Recording: &sample.Recording{Counts: []*sample.Counts{c}}, Profile: &infer.Profile{Event: sample.Event{Name: "cpu-clock"}}}
	}
	other := sample.ImageID{Path: "/bin/other", Build: sample.BuildID{3}}
	two := func(inApp, inOther uint64, appGo, otherGo string) *input.Session {
		s := of(inApp, 0, 0)
		c := s.Recording.Counts[0]
		c.AddSample(c.Image(other), 16, inOther)
		s.Profile.Images = []*infer.ImageProfile{{ID: app, Image: &image.Image{Go: appGo}}, {ID: other, Image: &image.Image{Go: otherGo}}}
		return s
	}
	const equal = "this profile is about 51.0% of the samples, and can save no more of the time; 49.0% are in /bin/other, of which --image /bin/other would have it"
	const little = "this profile is about 9.0% of the samples, and can save no more of the time; 60.0% are in the kernel; 31.0% are in /lib/libz.so, of which --image /lib/libz.so would have it"
	const less = "this profile is about 16.7% of the samples, and can save no more of the time; 57.4% are in /lib/libz.so, of which --image /lib/libz.so would have it; 25.9% are in the kernel"
	const library = "this profile is about 40.0% of the samples, and can save no more of the time; 31.0% are in /bin/app, of which --image /bin/app would have it; 29.0% are in the kernel"
	for _, tt := range []struct {
		name  string
		src   *input.Session
		image string
		about []sample.ImageID
		want  []string
	}{
		{"little", of(9, 31, 60), "", []sample.ImageID{app}, []string{little}},
		{"asked for", of(9, 31, 60), "/bin/app", []sample.ImageID{app}, nil},
		{"enough", of(9, 31, 60), "", []sample.ImageID{lib}, nil},
		{"both", of(9, 31, 60), "", []sample.ImageID{app, lib}, nil},
		{"less than another", of(9, 31, 14), "", []sample.ImageID{app}, []string{less}},
		{"a library alone", of(31, 40, 29), "", []sample.ImageID{lib}, []string{library}},
		{"more than another", of(40, 31, 0), "", []sample.ImageID{app}, nil},
		{"next to an equal program", two(51, 49, "go1.25", "go1.25"), "", []sample.ImageID{app}, []string{equal}},
		{"next to an equal program, in C", two(51, 49, "", ""), "", []sample.ImageID{app}, []string{equal}},
		{"next to a small program", two(75, 25, "go1.25", "go1.25"), "", []sample.ImageID{app}, nil},
		{"next to a program that is not in Go", two(51, 49, "go1.25", ""), "", []sample.ImageID{app}, nil},
	} {
		if got := elsewhere(tt.src, Options{Image: tt.image}, nil, tt.about...); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
	const chosen = "; /bin/app has 16.7% of the samples; 57.4% are in /lib/libz.so, of which --image /lib/libz.so would have it; 25.9% are in the kernel"
	if got := instead(of(9, 31, 14), Options{}, app); got != chosen {
		t.Errorf("nothing of an image that was chosen: %q, want %q", got, chosen)
	}
	if got := instead(of(9, 31, 14), Options{Image: "/bin/app"}, app) + instead(of(40, 31, 0), Options{}, app); got != "" {
		t.Errorf("nothing of an image that was meant: %q, want nothing", got)
	}
}

// TestFlush: of a profile that is refused, nothing is written, to standard output neither.
func TestFlush(t *testing.T) {
	no := errors.New("refused")
	for refused, want := range map[error]string{nil: "made", no: ""} {
		var w, made bytes.Buffer
		made.WriteString("made")
		if err := flush(&w, &made, refused); err != refused || w.String() != want {
			t.Errorf("%v: %q, %v, want %q", refused, w.String(), err, want)
		}
	}
}

// TestMissed: a profile of shared libraries alone is an error that says why the program is not in it, where that has more samples or as
// good as all are elsewhere, unless the library was asked for; what it says to do was tried.
func TestMissed(t *testing.T) {
	app, libc, ld := sample.ImageID{Path: "/bin/app", Build: sample.BuildID{1}}, sample.ImageID{Path: "/lib/libc.so.6", Build: sample.BuildID{2}}, sample.ImageID{Path: "/lib/ld-linux.so.2", Build: sample.BuildID{3}}
	of := func(inApp, inLib uint64) *input.Session {
		c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock"})
		c.AddSample(c.Image(app), 16, inApp)
		c.AddSample(c.Image(libc), 16, inLib)
		return &input.Session{Recording: &sample.Recording{Counts: []*sample.Counts{c}}, Profile: &infer.Profile{Event: sample.Event{Name: "cpu-clock"},
			Images: []*infer.ImageProfile{{ID: app, Image: &image.Image{}}, {ID: libc, Image: &image.Image{}}}}}
	}
	fits, unfit := func(string) error { return nil }, func(string) error { return fmt.Errorf("made by clang: %w", feedback.ErrUnfit) }
	for _, tt := range []struct {
		name  string
		src   *input.Session
		image string
		about []sample.ImageID
		again attempt
		want  string // "" is no error
	}{
		{"the program is of another compiler", of(998, 2), "", []sample.ImageID{libc}, unfit,
			"gcc: nothing was written, as it would be a profile of shared libraries alone, /lib/libc.so.6, with 0.2% of the samples; 99.8% are in /bin/app, of which there is no profile: made by clang: not for this format; --image /lib/libc.so.6 writes that of the library"},
		{"two libraries", of(60, 40), "", []sample.ImageID{libc, ld}, fits,
			"gcc: nothing was written, as it would be a profile of shared libraries alone, /lib/libc.so.6 and 1 more, with 40.0% of the samples; 60.0% are in /bin/app, of which --image /bin/app would have it; --image /lib/libc.so.6 writes that of the library"},
		{"the library was asked for", of(998, 2), "/lib/libc.so.6", []sample.ImageID{libc}, unfit, ""},
		{"the library has most", of(40, 60), "", []sample.ImageID{libc}, unfit, ""},
		{"the program is in it", of(2, 998), "", []sample.ImageID{libc, app}, fits, ""},
	} {
		err := missed(tt.src, Options{Image: tt.image}, "gcc", tt.again, tt.about...)
		if err == nil && tt.want == "" {
			continue
		}
		if err == nil || err.Error() != tt.want || fail.KindOf(err) != fail.Nothing {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
	}
}
