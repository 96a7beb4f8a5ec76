// Package sets reads recorded programs with their exact counts, which tests hold inference to:
// testdata/mix, and those that -sets names.
package sets

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/sample"
)

var dirs = flag.String("sets", "", "also judge the programs in these `directories`, comma-separated, each with samples.bfr, symfs and truth.json.gz")

// A Set is a recorded program with its exact counts.
type Set struct {
	Name    string
	Dir     string // where it was read
	Rec     *sample.Recording
	Images  map[sample.ImageID]*image.Image // that were kept, by key
	Truth   *truth.Counts
	Samples truth.SamplesByAddr
	Runs    float64 // recorded for each run that was counted, of file runs; 0 is unknown

	Calibrated     *sample.Recording // calibrated.bfr: of record --calibrate; nil if there is none
	CalibratedRuns float64           // of it, of file calibrated.runs; 0 is unknown
	CalibratedOnce *sample.Recording // calibrated.once.bfr: likewise, of a single run

	Other *sample.Recording // other.bfr: of the same files on another processor; nil if there is none

	List string // dev, held or constructed: which of the lists beside the directory has its name; "" if none
}

// Load reads a directory with samples.bfr, truth.json.gz, and the images there or below symfs.
func Load(tb testing.TB, dir string) *Set {
	tb.Helper()
	s := &Set{Name: filepath.Base(dir), Dir: dir, Images: map[sample.ImageID]*image.Image{}, Samples: truth.SamplesByAddr{}}
	b, err := os.ReadFile(filepath.Join(dir, "samples.bfr"))
	if err != nil {
		tb.Fatal(err)
	}
	if s.Rec, err = sample.Decode(b); err != nil {
		tb.Fatal(err)
	}
	for _, ic := range s.Rec.Counts[0].Images {
		p := ic.ID.Path
		// /lib may be a link to /usr/lib on the machine that recorded.
		for _, file := range []string{"symfs" + p, "symfs" + strings.TrimPrefix(p, "/usr"), filepath.Base(p)} {
			im, err := image.Open(filepath.Join(dir, file), image.Options{})
			if err != nil {
				continue
			}
			tb.Cleanup(func() { im.Close() })
			s.Images[ic.ID.Key()] = im
			s.Samples.Add(ic, im)
			break
		}
	}
	s.Truth = Truth(tb, filepath.Join(dir, "truth.json.gz"))
	for _, ic := range s.Rec.Counts[0].Images {
		if im := s.Images[ic.ID.Key()]; im != nil {
			s.of(ic.ID.Path, func(it *truth.Image) {
				// It refuses libraries of which little but their stubs ran; TestSamplesRan finds other builds.
				_, _ = it.CountOnce(im)
			})
		}
	}
	s.Runs, s.CalibratedRuns = s.number(tb, "runs"), s.number(tb, "calibrated.runs")
	s.Calibrated, s.CalibratedOnce = s.recording(tb, "calibrated.bfr"), s.recording(tb, "calibrated.once.bfr")
	s.Other = s.recording(tb, "other.bfr")
	tell(s.Rec, s.Runs)
	tell(s.Calibrated, s.CalibratedRuns)
	tell(s.CalibratedOnce, 1)
	for _, list := range []string{"dev", "held", "constructed"} {
		b, _ := os.ReadFile(filepath.Join(dir, "..", list+".txt"))
		for _, d := range strings.Split(strings.TrimSpace(string(b)), ",") {
			if filepath.Base(d) == s.Name {
				s.List = list
			}
		}
	}
	return s
}

// recording reads a file; nil if there is none.
func (s *Set) recording(tb testing.TB, file string) *sample.Recording {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join(s.Dir, file))
	if err != nil {
		return nil
	}
	rec, err := sample.Decode(b)
	if err != nil {
		tb.Fatalf("%s: %s: %v", s.Name, file, err)
	}
	return rec
}

// tell adds to a recording that was made before recordings told it how many processes ran its images: one for
// each run.
func tell(rec *sample.Recording, runs float64) {
	if rec == nil {
		return
	}
	for _, c := range rec.Counts {
		if slices.ContainsFunc(c.Images, func(ic *sample.ImageCounts) bool { return ic.Processes > 0 }) {
			return
		}
	}
	for _, c := range rec.Counts {
		for i := range c.Images {
			c.AddProcesses(i, uint64(runs))
		}
	}
}

// number reads a file that holds one number; 0 if there is none.
func (s *Set) number(tb testing.TB, file string) float64 {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join(s.Dir, file))
	if err != nil {
		return 0
	}
	n, err := strconv.ParseFloat(strings.TrimSpace(string(b)), 64)
	if err != nil {
		tb.Fatalf("%s: %s: %v", s.Name, file, err)
	}
	return n
}

// Named reads the directories of -sets.
func Named(tb testing.TB) (all []*Set) {
	tb.Helper()
	if *dirs != "" {
		for _, dir := range strings.Split(*dirs, ",") {
			all = append(all, Load(tb, dir))
		}
	}
	return all
}

// Truth reads the exact counts in a file.
func Truth(tb testing.TB, path string) *truth.Counts {
	tb.Helper()
	f, err := os.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	exact, err := truth.Read(f)
	if err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
	return exact
}

// Open returns an image of the set.
func (s *Set) Open(id sample.ImageID) (*image.Image, error) {
	if im := s.Images[id.Key()]; im != nil {
		return im, nil
	}
	return nil, errors.New("not kept with the set")
}

// of calls f with the exact counts of the image at path: of the only one, whatever its path.
func (s *Set) of(path string, f func(*truth.Image)) {
	for p, it := range s.Truth.Images {
		if truth.SamePath(p, path) || len(s.Truth.Images) == 1 {
			f(it)
		}
	}
}

// Exact returns the true executions of block b of the image at path.
func (s *Set) Exact(path string, b *image.Block) float64 {
	var n uint64
	s.of(path, func(it *truth.Image) {
		for a := b.Start; a < b.End; a++ {
			n = max(n, it.Insts[a])
		}
	})
	return float64(n)
}

// Taken returns how often the jump at the end of b, of the image at path, led to an address.
func (s *Set) Taken(path string, b *image.Block, to image.Addr) float64 {
	n := uint64(0)
	s.of(path, func(it *truth.Image) { n = max(n, it.Jumps[truth.Transfer{From: b.Last, To: to}]) })
	return float64(n)
}

// Ran reports whether the instruction at a, of the image at path, ran while it was counted.
func (s *Set) Ran(path string, a image.Addr) (ran bool) {
	s.of(path, func(it *truth.Image) { ran = ran || it.Insts[a] > 0 })
	return ran
}
