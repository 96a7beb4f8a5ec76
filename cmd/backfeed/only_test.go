package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/store"
)

// called adds to a recording a library that its only image calls and is called from, of which no file is here.
func called(alone *sample.Recording) *sample.Recording {
	of := alone.Counts[0].Images[0]
	c := sample.NewCounts(sample.CPU{}, alone.Counts[0].Event)
	lib := c.Image(sample.ImageID{Build: sample.BuildID{1}, Path: "/a/lib.so"})
	own := c.Image(of.ID)
	c.AddSample(lib, 0x1000, 1000)
	for off := range of.At {
		c.AddStack([]sample.Frame{{Image: lib, Off: 0x1000}, {Image: own, Off: off}, {Image: lib, Off: 0x2000}}, 1)
	}
	rec := &sample.Recording{}
	rec.Add(c)
	return sample.Merge(rec, alone)
}

// among adds to that what else a machine runs: mix, and another build of the program.
func among(t *testing.T, alone *sample.Recording) *sample.Recording {
	t.Helper()
	c := sample.NewCounts(sample.CPU{}, alone.Counts[0].Event)
	c.AddSample(c.Image(sample.ImageID{Build: sample.BuildID{2}, Path: alone.Counts[0].Images[0].ID.Path}), 0x1000, 300)
	rec := &sample.Recording{}
	rec.Add(c)
	mix := decode(t, filepath.Join(mixDir, "samples.bfr"))
	for _, c := range mix.Counts { // with as much time to a sample, or the mean of both would be another
		c.Event, c.Weight, c.Clocked, c.Cycles = alone.Counts[0].Event, 0, 0, 0
	}
	return sample.Merge(rec, mix, called(alone))
}

// TestImageAlone: what is written and judged of one image of many is what its own recording makes of it, and the
// others are not even looked for.
func TestImageAlone(t *testing.T) {
	path, program := programRecording(t)
	alone, dir := decode(t, path), t.TempDir()
	few := testtool.Write(t, dir, "few.bfr", string(called(alone).Encode()))
	many := testtool.Write(t, dir, "many.bfr", string(among(t, alone).Encode()))
	ownSamples := alone.Counts[0].Images[0].Samples()
	emit := func(src string, args ...string) (profile, errs string) {
		out := filepath.Join(dir, "out.pgo")
		code, _, errs := runCLI(t, append([]string{"emit", "go", src, "-o", out}, args...)...)
		if code != exitDone {
			t.Fatalf("%s %q: exit code %d: %s", src, args, code, errs)
		}
		return testtool.Read(t, out), errs
	}
	want, _ := emit(few)
	if got, errs := emit(few, "--image", program); got != want {
		t.Errorf("of the only image that is here, --image makes another profile: %s", errs)
	}
	for _, image := range []string{program, filepath.Base(program)} {
		got, errs := emit(many, "--image", image)
		if got != want {
			t.Errorf("--image %s: not the profile of its own recording", image)
		}
		for _, other := range []string{"/a/lib.so", "mix"} {
			if strings.Contains(errs, other) {
				t.Errorf("--image %s: %s was looked for: %s", image, other, errs)
			}
		}
		if !strings.Contains(errs, "300 samples are of other builds of "+program) {
			t.Errorf("--image %s does not tell of another build: %s", image, errs)
		}
	}

	// The samples are those of the image, the age is that of its newest, and the share of other builds is of all builds.
	s, err := store.Create(filepath.Join(dir, "store"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	put := func(days int, rec *sample.Recording) {
		if err := s.Put(sample.EpochAt(time.Now().AddDate(0, 0, -days), time.Hour), rec, nil); err != nil {
			t.Fatal(err)
		}
	}
	put(3, among(t, alone))
	put(0, decode(t, filepath.Join(mixDir, "samples.bfr")))
	for _, tt := range []struct {
		image string
		args  []string
		fails []string
	}{
		{program, []string{"--min-samples", "1", "--max-other-id", "1", "--max-age", "4d", "--min-known=0"}, nil},
		{program, []string{"--min-samples", "2000", "--max-other-id", "99%", "--max-age", "1d", "--min-known=0"}, []string{"samples", "age"}},
		{program, []string{"--min-samples", "1", "--max-other-id", "70%", "--max-age", "4d", "--min-known=0"}, []string{"other build ID"}},
		{filepath.Join(mixDir, "mix"), []string{"--max-age", "1d"}, nil},
	} {
		code, out, errs := runCLI(t, slices.Concat([]string{"check", filepath.Join(dir, "store"), "--image", tt.image, "--format", "csv"}, tt.args)...)
		var fails []string
		for _, row := range strings.Split(out, "\n") {
			if strings.Contains(row, ",false,") {
				fails = append(fails, strings.Split(row, ",")[0])
			}
		}
		if !slices.Equal(fails, tt.fails) || (code == exitGate) != (fails != nil) || code != exitDone && code != exitGate {
			t.Errorf("check --image %s %q: exit code %d, %q fail, want %q: %s\n%s", tt.image, tt.args, code, fails, tt.fails, errs, out)
		}
	}
	if ownSamples >= 2000 {
		t.Fatalf("%d samples: the limits above are for fewer", ownSamples)
	}
}

// TestImageAloneMissing: an image that no samples are of, or whose file is not here, is named.
func TestImageAloneMissing(t *testing.T) {
	path, _ := programRecording(t)
	many := testtool.Write(t, t.TempDir(), "many.bfr", string(among(t, decode(t, path)).Encode()))
	for image, says := range map[string]string{
		"/a/lib.so":                    "/a/lib.so: ",
		"nothing":                      "no samples of such an image",
		filepath.Join(mixDir, "mix.c"): "mix.c: no ELF file",
	} {
		code, _, errs := runCLI(t, "emit", "go", many, "--image", image, "-o", filepath.Join(t.TempDir(), "x"))
		if code != exitNothing || !strings.Contains(errs, says) {
			t.Errorf("--image %s: exit code %d: %s", image, code, errs)
		}
	}
}
