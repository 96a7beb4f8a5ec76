package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	bolt "go.etcd.io/bbolt"

	"backfeed/sample"
)

// open makes a store whose warnings fail the test.
func open(t testing.TB) *Dir {
	t.Helper()
	s, err := CreateDir(t.TempDir(), Options{Warn: func(err error) { t.Errorf("warning: %v", err) }})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

var hour = sample.EpochAt(time.Date(2026, 11, 20, 16, 20, 0, 0, time.UTC), time.Hour)

// random returns a recording with everything that one can have, of images, events
// and places that others often have too.
func random(rnd *rand.Rand) *sample.Recording {
	r := &sample.Recording{}
	for range 1 + rnd.IntN(3) {
		c := sample.NewCounts(sample.CPU{Arch: "x86_64", Model: rnd.IntN(2)}, []sample.Event{{Name: "cycles", Unit: "cycles"}, {Name: "cpu-clock", Unit: "ns"}}[rnd.IntN(2)])
		var frames []sample.Frame
		for range 1 + rnd.IntN(5) {
			id := sample.ImageID{Path: fmt.Sprintf("/lib/%d", rnd.IntN(4))}
			if rnd.IntN(3) > 0 {
				id.Build[0] = byte(1 + rnd.IntN(4))
			}
			im := c.Image(id)
			for range rnd.IntN(20) {
				off := sample.Offset(rnd.IntN(64) | rnd.IntN(3)<<pageShift)
				n := 1 + rnd.Uint64N(300)
				c.AddSample(im, off, n)
				frames = append(frames, sample.Frame{Image: im, Off: off})
				if rnd.IntN(2) == 0 {
					c.AddStackTop([]sample.Frame{{Image: im, Off: off}, frames[rnd.IntN(len(frames))]}, sample.Frame{Image: sample.Unknown}, n)
				}
			}
		}
		frames = append(frames, sample.Frame{Image: sample.Unknown})
		any := func() sample.Frame { return frames[rnd.IntN(len(frames))] }
		for range rnd.IntN(6) {
			c.AddBranch(sample.Branch{From: any(), To: any()}, 2, rnd.Uint64N(3))
			if f := any(); f.Image != sample.Unknown {
				c.AddRange(sample.Range{Image: f.Image, First: f.Off, Last: f.Off + 8}, 3)
			}
		}
		for range rnd.IntN(2) * rnd.IntN(4) {
			p := sample.Path{Rank: rnd.Uint64N(8), Insts: rnd.Uint64N(99)}
			for range 1 + rnd.IntN(3) {
				p.Branches = append(p.Branches, sample.Branch{From: any(), To: any()})
			}
			c.AddPaths([]sample.Path{p})
		}
		for range rnd.IntN(2) * rnd.IntN(4) {
			c.AddTarget(sample.Branch{From: any(), To: any()}, 1+rnd.Uint64N(9))
		}
		for range rnd.IntN(2) * rnd.IntN(4) {
			if f := any(); f.Image != sample.Unknown {
				c.AddReplayed(f.Image, f.Off, sample.Replayed{Walks: 1, Branches: 9, Missed: rnd.Uint64N(9), Accesses: 9, Near: rnd.Uint64N(5), Far: rnd.Uint64N(5)})
			}
		}
		for range rnd.IntN(6) {
			if f := any(); f.Image != sample.Unknown {
				c.Touch(f.Image, f.Off, rnd.Uint64N(1e6))
			}
		}
		for range rnd.IntN(6) {
			if f := any(); f.Image != sample.Unknown {
				n := rnd.Uint64N(1e6)
				c.AddCounted(f.Image, f.Off, n)
				c.AddFaults(f.Image, f.Off, n/2)
				c.AddProbed(f.Image, f.Off+1, sample.Probed{Windows: 1, Covered: 1 + n, Runs: n, Variance: sample.SquareOf(float64(n)), Outcomes: n})
			}
		}
		if rnd.IntN(2) == 0 {
			c.AddProcesses(rnd.IntN(len(c.Images)), rnd.Uint64N(9))
		}
		if rnd.IntN(2) == 0 {
			c.Lose(sample.LostKernel, 5)
		}
		if c.Delivered() > 0 && rnd.IntN(5) > 0 {
			c.Weight = 1 + rnd.Uint64N(1e6)
		}
		if c.Delivered() > 0 && rnd.IntN(3) == 0 {
			c.Excess.Lo = rnd.Uint64N(1e6)
		}
		if c.Event.Unit == "ns" && rnd.IntN(2) == 0 {
			c.Clocked = 1 + rnd.Uint64N(1e6)
			c.Cycles = c.Clocked * (1 + rnd.Uint64N(5))
		}
		if c.Event.Unit == "ns" && rnd.IntN(2) == 0 {
			c.Returns = 1 + rnd.Uint64N(1e6)
			c.Held = c.Returns * rnd.Uint64N(5000)
		}
		r.Add(c)
	}
	for range rnd.IntN(2) * rnd.IntN(4) {
		r.AddOff(randomOff(rnd))
	}
	return r
}

// randomOff returns time off the processor.
func randomOff(rnd *rand.Rand) *sample.Counts {
	c := sample.NewCounts(sample.CPU{Arch: "x86_64", Model: rnd.IntN(2)}, sample.OffEvent(sample.OffReasons[rnd.IntN(len(sample.OffReasons))]))
	for range 1 + rnd.IntN(5) {
		id := sample.ImageID{Path: fmt.Sprintf("/lib/%d", rnd.IntN(6))}
		if rnd.IntN(3) > 0 {
			id.Build[0] = byte(1 + rnd.IntN(6))
		}
		f, n := sample.Frame{Image: c.Image(id), Off: sample.Offset(rnd.IntN(64))}, 1+rnd.Uint64N(1e6)
		c.AddSample(f.Image, f.Off, n)
		if rnd.IntN(3) > 0 {
			caller := sample.Frame{Image: c.Image(sample.ImageID{Path: "/lib/0"}), Off: 3}
			c.AddStack([]sample.Frame{f, caller}, 1+rnd.Uint64N(n))
		}
	}
	if rnd.IntN(2) == 0 {
		c.Lose(sample.LostDropped, 1+rnd.Uint64N(1e6))
		c.Lose(sample.LostKernel, 7)
	}
	c.Weight = c.Delivered() * sample.OffPeriod
	return c
}

// mustEqual compares recordings by what they hold. An image has one path in a
// store, whatever it has in each Counts.
func mustEqual(t *testing.T, what string, got, want *sample.Recording) {
	t.Helper()
	for _, c := range slices.Concat(got.Counts, got.Off) {
		if err := c.Check(); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	if g, w := onePath(got).Encode(), onePath(want).Encode(); !bytes.Equal(g, w) {
		t.Errorf("%s:\ngot:\n%s\nwant:\n%s", what, sample.Dump(g), sample.Dump(w))
	}
}

// stored adds up recordings without those Counts that are empty, if all of their
// recording are.
func stored(recs []*sample.Recording) *sample.Recording {
	var some []*sample.Recording
	for _, r := range recs {
		if len(r.Off) > 0 || slices.ContainsFunc(r.Counts, func(c *sample.Counts) bool { return c.Total > 0 || len(c.Branches)+len(c.Paths)+len(c.Targets) > 0 }) {
			some = append(some, r)
		}
	}
	return sample.Merge(some...)
}

// onePath takes away the paths of images with a build ID.
func onePath(r *sample.Recording) *sample.Recording {
	r = sample.Merge(r)
	for _, c := range slices.Concat(r.Counts, r.Off) {
		for _, ic := range c.Images {
			ic.ID = ic.ID.Key()
		}
	}
	return r
}

func TestPutAndRead(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 30 {
		s := open(t)
		var all []*sample.Recording
		for range 1 + rnd.IntN(5) {
			rec := random(rnd)
			if err := s.Put(hour, rec, nil); err != nil {
				t.Fatal(err)
			}
			all = append(all, rec)
		}
		got, err := s.Read(Query{})
		if err != nil {
			t.Fatal(err)
		}
		mustEqual(t, "all", got, stored(all))
		if t.Failed() {
			break
		}
	}
}

// TestReadEach: several queries are answered as one by one, also where what was listed for the first is merged or gone by the next.
func TestReadEach(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	fill := func() *Dir {
		s := open(t)
		for i := range 9 {
			e := hour
			e.Start += int64(i%3) * e.Length
			if err := s.Put(e, random(rnd), map[string]string{"role": []string{"a", "b"}[i%2]}); err != nil {
				t.Fatal(err)
			}
		}
		return s
	}
	for _, tt := range []struct {
		name   string
		change func(s *Dir) error // once the first query is answered
	}{
		{"as it was", func(*Dir) error { return nil }},
		{"merged", func(s *Dir) error { _, err := s.Compact(time.Time{}); return err }},
		{"gone", func(s *Dir) error {
			return os.Remove(filepath.Join(s.dir, segmentsDir, slices.Sorted(maps.Keys(contents(t, s)))[0]))
		}},
	} {
		s := fill()
		s.opts.Warn = func(error) {} // of what is gone
		qs := append(queries(), Query{}, Query{From: hour.To()})
		asked := 0
		err := s.ReadEach(qs, func(i int, rec *sample.Recording) error {
			if i != asked {
				t.Errorf("%s: query %d, want %d", tt.name, i, asked)
			}
			asked++
			want, err := s.Read(qs[i])
			if err == nil {
				mustEqual(t, fmt.Sprintf("%s: query %d", tt.name, i), rec, want)
			}
			if i == 0 {
				err = errors.Join(err, tt.change(s))
			}
			return err
		})
		if err != nil || asked != len(qs) {
			t.Errorf("%s: %d of %d queries, %v", tt.name, asked, len(qs), err)
		}
		end := errors.New("enough")
		if err := s.ReadEach(qs, func(i int, _ *sample.Recording) error { return end }); err != end {
			t.Errorf("%s: %v, want what f returned", tt.name, err)
		}
	}
}

// zeros returns that many bytes to be copied.
func zeros(n int) io.ReadSeeker { return bytes.NewReader(make([]byte, n)) }

// contents returns the bytes of all segments by name.
func contents(t *testing.T, s *Dir) map[string]string {
	t.Helper()
	names, err := s.names()
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	for _, name := range names {
		b, err := os.ReadFile(filepath.Join(s.dir, segmentsDir, name))
		if err != nil {
			t.Fatal(err)
		}
		all[name] = string(b)
	}
	return all
}

// TestOrder: what compaction makes of an epoch is the same to the byte, whatever
// the order of the segments, and however they were merged before.
func TestOrder(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 10 {
		var files map[string]string
		first := open(t)
		for range 2 + rnd.IntN(8) {
			rec := random(rnd)
			rec.Counts[0].Lose(sample.LostVDSO, 1) // not empty
			if err := first.Put(hour, rec, map[string]string{"host": "a"}); err != nil {
				t.Fatal(err)
			}
		}
		files = contents(t, first)
		if _, err := first.Compact(time.Time{}); err != nil {
			t.Fatal(err)
		}
		want := contents(t, first)
		if len(want) != 1 {
			t.Fatalf("%d segments after compaction", len(want))
		}
		for range 5 {
			s := open(t)
			for name, b := range files {
				if err := os.WriteFile(filepath.Join(s.dir, segmentsDir, name), []byte(b), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			for {
				l, err := s.list()
				if err != nil {
					t.Fatal(err)
				}
				if len(l.live) == 1 {
					break
				}
				rnd.Shuffle(len(l.live), func(i, j int) { l.live[i], l.live[j] = l.live[j], l.live[i] })
				if _, err := s.compact(l.live[:2+rnd.IntN(len(l.live)-1)]); err != nil {
					t.Fatal(err)
				}
			}
			if got := contents(t, s); !maps.Equal(got, want) {
				t.Fatalf("%d segments in other groups: other bytes", len(files))
			}
		}
	}
}

// TestSuperseded: a segment that was merged and could not be removed counts once.
func TestSuperseded(t *testing.T) {
	s := open(t)
	for range 3 {
		if err := s.Put(hour, three(), nil); err != nil {
			t.Fatal(err)
		}
	}
	parts := contents(t, s)
	if n, err := s.Compact(hour.To()); n != 3 || err != nil {
		t.Fatalf("%d segments merged, %v", n, err)
	}
	for name, b := range parts {
		if err := os.WriteFile(filepath.Join(s.dir, segmentsDir, name), []byte(b), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := samplesIn(t, s, Query{}), 3*three().Samples(); got != want {
		t.Errorf("%d samples, want %d", got, want)
	}
	if r, err := s.Fsck(true); err != nil || !r.Clean() || len(r.Superseded) != 3 || r.Removed != 3 {
		t.Errorf("fsck: %+v, %v", r, err)
	}
	if n := len(contents(t, s)); n != 1 {
		t.Errorf("%d segments left", n)
	}
}

// TestOverlap: of two segments with some of the same parts, one counts, and both
// reading and fsck tell.
func TestOverlap(t *testing.T) {
	s, warnings := quiet(t)
	for i := range 3 {
		drop(t, s, segmentOf(t, three(), nil, byte(1+i)), byte(1+i))
	}
	parts := contents(t, s)
	l, err := s.list()
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][]entry{l.live[:2], l.live[1:]} {
		if _, err := s.mergeFiles(pair); err != nil {
			t.Fatal(err)
		}
	}
	for name := range parts {
		os.Remove(filepath.Join(s.dir, segmentsDir, name))
	}
	if got, want := samplesIn(t, s, Query{}), 2*three().Samples(); got != want || *warnings != 1 {
		t.Errorf("%d samples, want %d; %d warnings", got, want, *warnings)
	}
	if r, err := s.Fsck(false); err != nil || len(r.Damaged) != 1 {
		t.Errorf("fsck: %+v, %v", r, err)
	}
}

func TestQuery(t *testing.T) {
	s := open(t)
	libc := sample.ImageID{Build: sample.BuildID{0xb9, 0x22}}
	app := sample.ImageID{Path: "/usr/bin/app"}
	next := sample.Epoch{Start: hour.Start + hour.Length, Length: hour.Length}
	for _, p := range []struct {
		e      sample.Epoch
		labels map[string]string
	}{{hour, map[string]string{"host": "a"}}, {hour, map[string]string{"host": "b"}}, {next, map[string]string{"host": "a", "app": "x"}}} {
		rec := three()
		rec.Counts[0].AddProbed(0, 0x1150, sample.Probed{Windows: 1, Covered: rec.Counts[0].Weight / 2, Runs: 70})
		if err := s.Put(p.e, rec, p.labels); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		q    Query
		want uint64
	}{
		{"all", Query{}, 3 * 312},
		{"one host", Query{Labels: map[string]string{"host": "a"}}, 2 * 312},
		{"a label that some have", Query{Labels: map[string]string{"app": "x"}}, 312},
		{"a label that none has", Query{Labels: map[string]string{"app": ""}}, 0},
		{"from the second epoch", Query{From: hour.To()}, 312},
		{"to the second epoch", Query{To: hour.To()}, 2 * 312},
		{"a second of both", Query{From: hour.To().Add(-1), To: hour.To().Add(1)}, 3 * 312},
		{"before all", Query{To: hour.From()}, 0},
		{"an image by its build ID", Query{Images: []sample.ImageID{{Build: libc.Build, Path: "/elsewhere"}}}, 3 * 307},
		{"an image by its path", Query{Images: []sample.ImageID{app}}, 3},
		{"both", Query{Images: []sample.ImageID{app, libc}}, 3 * 308},
		{"none of them", Query{Images: []sample.ImageID{{Path: "/bin/other"}}}, 0},
	} {
		rec, err := s.Read(tt.q)
		if err != nil {
			t.Fatal(err)
		}
		if got := rec.Samples(); got != tt.want {
			t.Errorf("%s: %d samples, want %d", tt.name, got, tt.want)
		}
		for _, c := range rec.Counts {
			if err := c.Check(); err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			if want := 5e6; c.Total > 0 && c.MeanPeriod() != want {
				t.Errorf("%s: mean period %v, want %v", tt.name, c.MeanPeriod(), want)
			}
		}
	}
	rec, err := s.Read(Query{Images: []sample.ImageID{libc}})
	if err != nil {
		t.Fatal(err)
	}
	c := rec.Counts[0]
	for _, ic := range c.Images { // of an image alone, the rate of its executions is what it was
		for off, p := range ic.Probed {
			if p.Runs != 3*70 || math.Abs(float64(p.Covered)/float64(c.Weight)-0.5) > 1e-6 {
				t.Errorf("probed at %#x: %+v, of a weight of %d", off, p, c.Weight)
			}
		}
	}
	if probed := rec.Observed(nil).Probed; probed != 1 {
		t.Errorf("%d places probed of an image alone, want 1", probed)
	}
	if len(c.Stacks) != 1 || c.Images[c.Stacks[0].Frames[1].Image].ID != app || c.Images[c.Stacks[0].Frames[0].Image].ID.Path != "/lib/libc.so.6" {
		t.Errorf("stacks of an image: %v in %v", c.Stacks, c.Images)
	}
}

// TestIndex: the index is a cache. Whatever is in it, the segments are believed.
func TestIndex(t *testing.T) {
	s := open(t)
	for range 5 {
		if err := s.Put(hour, three(), nil); err != nil {
			t.Fatal(err)
		}
	}
	check := func(what string) {
		t.Helper()
		if got, want := samplesIn(t, s, Query{}), 5*three().Samples(); got != want {
			t.Fatalf("%s: %d samples, want %d", what, got, want)
		}
	}
	check("no index")
	path := filepath.Join(s.dir, indexName)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	ix := s.openIndex()
	if len(ix.known) != 5 {
		t.Errorf("%d segments in the index", len(ix.known))
	}
	write := func(b []byte) {
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, n := range []int{0, 1, 100, 4096, 8192, 12288, len(good) - 1} {
		write(good[:min(n, len(good))])
		check(fmt.Sprintf("cut at %d", n))
	}
	rnd := rand.New(rand.NewPCG(5, 6))
	for i := range 50 {
		b := bytes.Clone(good)
		for range 1 + rnd.IntN(50) {
			b[rnd.IntN(len(b))] = byte(rnd.Uint32())
		}
		write(b)
		check(fmt.Sprintf("bytes changed, try %d", i))
	}
	os.Remove(path)
	if _, err := s.Fsck(true); err != nil {
		t.Fatal(err)
	}
	if n := len(s.openIndex().known); n != 5 {
		t.Errorf("%d segments in the index after fsck", n)
	}
}

// TestIndexHeld: neither writing nor reading waits for who has the index.
func TestIndexHeld(t *testing.T) {
	s := open(t)
	db, err := bolt.Open(filepath.Join(s.dir, indexName), 0o644, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := s.Put(hour, three(), nil); err != nil {
		t.Fatal(err)
	}
	if got, want := samplesIn(t, s, Query{}), three().Samples(); got != want {
		t.Errorf("%d samples, want %d", got, want)
	}
	if n, err := s.Compact(hour.To()); n != 0 || err != nil {
		t.Errorf("compaction: %d, %v", n, err)
	}
}

// TestClock: a clock that jumps puts samples into other epochs, and none away.
func TestClock(t *testing.T) {
	s := open(t)
	now := hour.From()
	total := three().Samples()
	var want uint64
	for _, jump := range []time.Duration{0, -time.Hour, -30 * 24 * time.Hour, 365 * 24 * time.Hour, 10 * time.Minute} {
		if err := s.Put(sample.EpochAt(now.Add(jump), time.Hour), three(), nil); err != nil {
			t.Fatal(err)
		}
		want += total
	}
	if err := s.Put(sample.EpochAt(time.Unix(-1, 0), time.Hour), three(), nil); err == nil {
		t.Error("an epoch before 1970 is stored")
	}
	if _, err := s.Compact(now); err != nil {
		t.Fatal(err)
	}
	if got := samplesIn(t, s, Query{}); got != want {
		t.Errorf("%d samples, want %d", got, want)
	}
	// Of a clock that is a hundred years ahead, the newest epoch knows better.
	if _, err := s.GC(Retention{MaxAge: 400 * 24 * time.Hour}, now.AddDate(100, 0, 0)); err != nil {
		t.Fatal(err)
	}
	if got := samplesIn(t, s, Query{}); got != want {
		t.Errorf("after GC: %d samples, want %d", got, want)
	}
}

func TestGC(t *testing.T) {
	const epochs = 10
	now := hour.From().Add(epochs * time.Hour)
	fresh := func() (*Dir, int64) {
		s := open(t)
		for i := range epochs {
			for range 2 {
				if err := s.Put(sample.EpochAt(hour.From().Add(time.Duration(i)*time.Hour), time.Hour), three(), nil); err != nil {
					t.Fatal(err)
				}
			}
		}
		st, err := s.Stats()
		if err != nil {
			t.Fatal(err)
		}
		return s, st.Bytes
	}
	for _, tt := range []struct {
		name string
		keep func(bytes int64) Retention
		want int // epochs left
	}{
		{"no bound", func(int64) Retention { return Retention{} }, epochs},
		{"by age", func(int64) Retention { return Retention{MaxAge: 4 * time.Hour} }, 5},
		{"half", func(n int64) Retention { return Retention{MaxBytes: n / 2} }, 5},
		{"just fits", func(n int64) Retention { return Retention{MaxBytes: n} }, epochs},
		{"a byte too many", func(n int64) Retention { return Retention{MaxBytes: n - 1} }, epochs - 1},
		{"nothing fits", func(int64) Retention { return Retention{MaxBytes: 1} }, minEpochs},
		{"all too old", func(int64) Retention { return Retention{MaxAge: 1} }, epochs},
		{"all too old, and may go", func(int64) Retention { return Retention{MaxAge: 1, Most: true} }, minEpochs},
		{"all too old, and too large", func(n int64) Retention { return Retention{MaxAge: 1, MaxBytes: n / 2} }, 5},
	} {
		s, size := fresh()
		keep := tt.keep(size)
		done, err := s.GC(keep, now)
		if keep.MaxAge == 1 && !keep.Most && errors.Is(err, ErrMost) {
			err = nil
		} else if err != nil {
			t.Fatal(err)
		}
		st, err := s.Stats()
		if err != nil {
			t.Fatal(err)
		}
		if st.Epochs != tt.want || done.Epochs != epochs-tt.want || done.Segments != 2*done.Epochs || st.Bytes+done.Bytes != size {
			t.Errorf("%s: %+v removed, left %+v", tt.name, done, st)
		}
		if st.To != now {
			t.Errorf("%s: the newest epoch ends at %v", tt.name, st.To)
		}
	}
}

func TestImages(t *testing.T) {
	s := open(t)
	libc := sample.ImageID{Build: sample.BuildID{0xb9, 0x22}, Path: "/lib/libc.so.6"}
	other := sample.ImageID{Build: sample.BuildID{1}}
	if _, err := s.OpenImage(libc, KindFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no copy: got error %v", err)
	}
	if err := s.KeepImage(t.Context(), sample.ImageID{Path: "/a"}, zeros(1), KindFile); err == nil {
		t.Error("a copy without build ID")
	}
	for range 2 {
		for _, id := range []sample.ImageID{libc, other} {
			if err := s.KeepImage(t.Context(), id, strings.NewReader("code"), KindFile); err != nil {
				t.Fatal(err)
			}
		}
	}
	path, err := s.OpenImage(libc, KindFile)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); string(b) != "code" || err != nil {
		t.Errorf("copy: %q, %v", b, err)
	}
	if _, err := s.OpenImage(libc, KindDebug); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no copy of the debug file: got error %v", err)
	}
	if err := s.Put(hour, three(), nil); err != nil {
		t.Fatal(err)
	}
	ims, err := s.Images()
	if err != nil {
		t.Fatal(err)
	}
	want := []Image{
		{ID: libc, Samples: 307, From: hour.From(), To: hour.To(), Kept: []Kind{KindFile}},
		{ID: sample.ImageID{Path: "/usr/bin/app"}, Samples: 1, From: hour.From(), To: hour.To()},
	}
	if !reflect.DeepEqual(ims, want) {
		t.Errorf("images: %+v, want %+v", ims, want)
	}

	// Long after, the copy of what no samples are of is removed.
	for _, days := range []int{0, 2} {
		done, err := s.GC(Retention{}, time.Now().AddDate(0, 0, days))
		if err != nil || done.Copies != days/2 {
			t.Errorf("%d days later: %+v, %v", days, done, err)
		}
	}
	if _, err := s.OpenImage(libc, KindFile); err != nil {
		t.Error(err)
	}

	// Half a copy is none, and is made whole.
	if err := os.Truncate(path, 2); err != nil {
		t.Fatal(err)
	}
	if _, err := s.OpenImage(libc, KindFile); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a copy: got error %v", err)
	}
	if r, err := s.Fsck(false); err != nil || !r.Clean() || len(r.Unfinished) != 1 {
		t.Errorf("fsck of half a copy: %+v, %v", r, err)
	}
	if err := s.KeepImage(t.Context(), libc, strings.NewReader("code"), KindFile); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("coda"), 0o644); err != nil {
		t.Fatal(err)
	}
	if r, err := s.Fsck(false); err != nil || r.Clean() {
		t.Errorf("fsck of another copy: %+v, %v", r, err)
	}
}

// TestBusy: one process at a time removes files.
func TestBusy(t *testing.T) {
	s := open(t)
	err := s.exclusive(func() error {
		_, err := s.Compact(time.Time{})
		return err
	})
	if !errors.Is(err, ErrBusy) {
		t.Errorf("got error %v, want %v", err, ErrBusy)
	}
}

// TestStill: a file that was taken for a leftover before it was locked is known.
func TestStill(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a")
	for i, replace := range []func() error{
		func() error { return nil },
		func() error { return os.Remove(path) },
		func() error { return errors.Join(os.Remove(path), os.WriteFile(path, nil, 0o644)) },
	} {
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if err := replace(); err != nil {
			t.Fatal(err)
		}
		if err := still(f, path); errors.Is(err, errGone) != (i > 0) {
			t.Errorf("case %d: got error %v", i, err)
		}
	}
}

// TestNothing: what holds nothing makes no segment.
func TestNothing(t *testing.T) {
	s := open(t)
	empty := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cycles"})
	for _, r := range []*sample.Recording{{}, {Counts: []*sample.Counts{empty}}} {
		if err := s.Put(hour, r, nil); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(contents(t, s)); n != 0 {
		t.Errorf("%d segments", n)
	}
}

// TestStoreTellsNobody: who ran, and what was run by which command, does not get into a store, whose samples are of all users.
func TestStoreTellsNobody(t *testing.T) {
	s := open(t)
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cycles"})
	im := c.Image(sample.ImageID{Path: "/bin/app"})
	c.AddSample(im, 8, 3)
	c.AddOrigin(sample.Origin{Process: "process-name", Thread: "thread-name"}, 3)
	c.AddProcessor(0, 3)
	c.AddStackAt([]sample.Frame{{Image: im, Off: 8}}, sample.Frame{Image: sample.Unknown}, c.SliceAt(1e18), 2)
	c.AddMoment(im, 8, c.SliceAt(1e18), 1)
	rec := &sample.Recording{Counts: []*sample.Counts{c}}
	rec.AddRun(sample.Run{Host: "host-name", Command: []string{"secret"}})
	if err := s.Put(hour, rec, nil); err != nil {
		t.Fatal(err)
	}
	got, err := s.Read(Query{})
	if err != nil {
		t.Fatal(err)
	}
	if n := len(got.Runs) + len(got.Counts[0].Origins) + len(got.Counts[0].Processors) + len(got.Counts[0].Slices); n != 0 || got.Samples() != 3 {
		t.Errorf("%d of 3 samples, with %+v", got.Samples(), got)
	}
}

func TestOpen(t *testing.T) {
	dir := t.TempDir()
	if _, err := OpenDir(dir, Options{}); !errors.Is(err, ErrNoStore) || Is(dir) {
		t.Errorf("an empty directory: got error %v", err)
	}
	if _, err := OpenDir(filepath.Join(dir, "none"), Options{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no directory: got error %v", err)
	}
	for range 2 {
		s, err := CreateDir(filepath.Join(dir, "a", "b"), Options{})
		if err != nil || !Is(s.dir) {
			t.Errorf("Create: %v", err)
		}
	}
}

// TestClockKept: what is read of a store has the clock and the dispersion of what was put into it, and of an image alone, too.
func TestClockKept(t *testing.T) {
	s := open(t)
	for _, cycles := range []uint64{30e6, 44e6} {
		c := sample.NewCounts(sample.CPU{Arch: "x86_64"}, sample.Event{Name: "cpu-clock", Period: 1e6, Unit: "ns"})
		c.AddSample(c.Image(sample.ImageID{Path: "/app"}), 0x40, 7)
		c.AddSample(c.Image(sample.ImageID{Path: "/lib"}), 0x40, 3)
		c.Weight, c.Clocked, c.Cycles, c.Excess.Lo = 10e6, 10e6, cycles, 100
		c.Returns, c.Held = 100, 100_000
		if err := s.Put(hour, &sample.Recording{Counts: []*sample.Counts{c}}, map[string]string{"host": fmt.Sprint(cycles)}); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		images  []sample.ImageID
		clocked uint64
		excess  float64
	}{{nil, 20e6, 200}, {[]sample.ImageID{{Path: "/lib"}}, 6e6, 60}} {
		rec, err := s.Read(Query{Images: tt.images})
		if err != nil {
			t.Fatal(err)
		}
		if c := rec.Counts[0]; c.Clocked != tt.clocked || math.Abs(c.Clock()-3.7) > 1e-6 {
			t.Errorf("of %v, %d ns have a clock of %g, want %d of 3.7", tt.images, c.Clocked, c.Clock(), tt.clocked)
		}
		if c := rec.Counts[0]; c.Returns != 200 || c.ReturnCycles() != 1000 {
			t.Errorf("of %v, %d returns hold interrupts up for %g cycles, want 200 for 1000", tt.images, c.Returns, c.ReturnCycles())
		}
		if got := rec.Counts[0].Excess.Float64(); got != tt.excess {
			t.Errorf("of %v, the variance exceeds the samples by %g, want %g", tt.images, got, tt.excess)
		}
	}
}
