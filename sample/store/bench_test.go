package store

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"backfeed/sample"
)

// many returns a recording with that many places in 20 images, each in clusters as
// the hot loops of real programs are.
func many(seed uint64, places int) *sample.Recording {
	rnd := rand.New(rand.NewPCG(seed, 7))
	c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Period: 5025125, Unit: "ns"})
	for i := range 20 {
		im := c.Image(sample.ImageID{Build: sample.BuildID{byte(i + 1)}, Path: "/usr/lib/image"})
		at := c.Images[im].At
		for len(at) < places/20 {
			off := sample.Offset(rnd.IntN(1 << 24))
			for range 16 {
				off += sample.Offset(1 + rnd.IntN(8))
				c.AddSample(im, off, 1+rnd.Uint64N(1<<(rnd.Uint64()%8)))
			}
		}
	}
	c.Weight = c.Total * c.Event.Period
	return &sample.Recording{Counts: []*sample.Counts{c}}
}

// placesIn is the number of places with samples.
func placesIn(r *sample.Recording) (n int) {
	for _, c := range r.Counts {
		for _, ic := range c.Images {
			n += len(ic.At)
		}
	}
	return n
}

func BenchmarkPut(b *testing.B) {
	rec := many(1, 1_000_000)
	s := open(b)
	for b.Loop() {
		if err := s.Put(hour, rec, nil); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*placesIn(rec))/b.Elapsed().Seconds(), "counts/s")
	st, err := s.Stats()
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(st.Bytes)/float64(st.Places), "B/count")
}

// filled returns a store of 12 recordings, and the number of places in them.
func filled(b *testing.B) (s *Dir, places int) {
	b.Helper()
	s = open(b)
	for i := range 12 {
		rec := many(uint64(i%3), 200_000)
		places += placesIn(rec)
		if err := s.Put(hour, rec, nil); err != nil {
			b.Fatal(err)
		}
	}
	return s, places
}

// BenchmarkCompact counts what goes in.
func BenchmarkCompact(b *testing.B) {
	s, n := filled(b)
	l, err := s.list()
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		e, err := s.mergeFiles(l.live)
		if err != nil {
			b.Fatal(err)
		}
		if err := os.Remove(filepath.Join(s.dir, segmentsDir, e.name)); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "counts/s")
}

func BenchmarkRead(b *testing.B) {
	s, n := filled(b)
	for b.Loop() {
		if _, err := s.Read(Query{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.N*n)/b.Elapsed().Seconds(), "counts/s")
}
