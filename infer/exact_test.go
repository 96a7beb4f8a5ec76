package infer

import (
	"math"
	"slices"
	"testing"

	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/sample"
)

// TestProbedMeans pins what is made of what probes counted.
func TestProbedMeans(t *testing.T) {
	in := &probedIn{Counts: sample.NewCounts(sample.CPU{}, sample.Event{Unit: "ns"}), weight: 60e9}
	for _, tt := range []struct {
		name             string
		p                sample.Probed
		n, sd, taken, sh float64
	}{
		{"nothing", sample.Probed{Windows: 3}, 0, 0, 0, 0},
		{"half of the recordings", sample.Probed{Windows: 100, Covered: 30e9, Runs: 1e6, Variance: sample.SquareOf(25e8)}, 2e6, 0.2063, 0, 0},
		{"sure beyond the floor", sample.Probed{Windows: 100, Covered: 60e9, Runs: 1e6}, 1e6, 0.2, 0, 0},
		{"two windows", sample.Probed{Windows: 2, Covered: 60e9, Runs: 1e6}, 0, 0, 0, 0},
		{"not seen in 0.4 s of 60", sample.Probed{Windows: 100, Covered: 60e9}, 0, 0, 0, 0},
		{"a third", sample.Probed{Windows: 100, Covered: 60e9, Runs: 1e6, Variance: sample.SquareOf(1e11)}, 1e6, 0.3768, 0, 0},
		{"unsure", sample.Probed{Windows: 100, Covered: 60e9, Runs: 1e6, Variance: sample.SquareOf(3e11)}, 0, 0, 0, 0},
		{"walks that were timed", sample.Probed{Windows: 1, Covered: 60e9, Timed: 60e9, Runs: 1e6, Variance: sample.SquareOf(1e8)}, 1e6, 0.051, 0, 0},
		{"half by walks", sample.Probed{Windows: 100, Covered: 60e9, Timed: 30e9, Runs: 1e6}, 1e6, 0.125, 0, 0},
		{"half", sample.Probed{Windows: 9, Outcomes: 98, Taken: 49}, 0, 0, 0.5, 0.0583},
		{"windows differ", sample.Probed{Windows: 99, Outcomes: 1000, Taken: 500, Spread: sample.SquareOf(10000)}, 0, 0, 0.5, 0.1049},
		{"never", sample.Probed{Windows: 9, Outcomes: 99}, 0, 0, 0.005, 0.00702},
		{"always", sample.Probed{Windows: 9, Outcomes: 99, Taken: 99}, 0, 0, 0.995, 0.00702},
		{"rarely, by walks", sample.Probed{Windows: 9, Outcomes: 1000, Taken: 4, Visits: 1000}, 0, 0, 0.004496, 0.004750},
		{"many", sample.Probed{Windows: 9, Outcomes: 1e12, Taken: 5e11}, 0, 0, 0.5, 0.03},
	} {
		n, sd := in.runs(tt.p)
		taken, sh := (&probedIn{each: 1}).shareOf(tt.p)
		for i, got := range []float64{n, sd, taken, sh} {
			if want := []float64{tt.n, tt.sd, tt.taken, tt.sh}[i]; math.Abs(got-want) > 0.01*want {
				t.Errorf("%s: %d: %.4g, want %.4g", tt.name, i, got, want)
			}
		}
	}
	in.Event.Unit = "cycles"
	if n, sd := in.runs(sample.Probed{Windows: 100, Covered: 60e9}); n != 0 || sd != 0 {
		t.Errorf("nothing seen in an unknown time: %g executions with %g", n, sd)
	}
	// Windows may all be off by more than each says; walks that are timed by no more.
	im, err := image.Open("../testdata/mix/mix", image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	for timed, want := range map[uint64]float64{0: windowsSD, 60e9: timedFloor} {
		counts := sample.NewCounts(sample.CPU{}, sample.Event{Unit: "ns"})
		id := sample.ImageID{Path: "/x"}
		off, _ := im.OffsetOf(im.Symbols()[0].Addr)
		counts.AddProbed(counts.Image(id), off, sample.Probed{Windows: 100, Covered: 60e9, Timed: timed, Runs: 1e6})
		x := exactCounts{probed: []probedIn{{counts, 60e9, 1}}}
		if known := x.known(id, im); len(known) != 1 || math.Abs(known[0].CommonSD-want) > 1e-9 {
			t.Errorf("timed for %d ns: %+v, want a common error of %g", timed, known, want)
		}
	}
}

// branches returns how often the branch at the end of block b was taken.
func (s *set) branches(ip *ImageProfile, b *image.Block) float64 {
	var n uint64
	for path, it := range s.Truth.Images {
		if truth.SamePath(path, ip.ID.Path) || len(s.Truth.Images) == 1 {
			for j, k := range it.Jumps {
				if j.From == b.Last {
					n += k
				}
			}
		}
	}
	return float64(n)
}

// withExact returns a copy of rec with what add adds.
func withExact(rec *sample.Recording, add func(c *sample.Counts)) *sample.Recording {
	out := sample.Merge(rec)
	add(out.Counts[0])
	return out
}

// TestRecordedExact: what probes and other runs counted is used, and counts stay
// executions of the recording.
func TestRecordedExact(t *testing.T) {
	m := loadMix(t)
	plain := m.infer(t)
	probed := withExact(m.Rec, func(c *sample.Counts) {
		for _, pl := range m.set.infer(t, m.Rec, Options{Places: 60}).Places {
			b := &pl.Proc.Proc.Blocks[pl.Block]
			off, _ := pl.Image.Image.OffsetOf(b.Last)
			n := m.exact(b)
			p := sample.Probed{Windows: 50, Covered: c.Weight / 4, Runs: uint64(n / 4), Variance: sample.SquareOf(n * n / 16 / 1000)}
			if taken := m.branches(pl.Image, b); taken > 0 {
				p.Outcomes, p.Taken = uint64(n/100), uint64(taken/100)
			}
			c.AddProbed(c.Image(pl.Image.ID), off, p)
		}
	})
	// counted has counts of another run that was 7 times as long, and of which ran says what of it was.
	counted := func(ran func(n uint64) bool) *sample.Recording {
		return withExact(m.Rec, func(c *sample.Counts) {
			for _, ip := range plain.Images {
				for _, truth := range m.Truth.Images {
					at, _, err := truth.Counted(ip.Image)
					if err != nil {
						continue // another image's
					}
					for off, n := range at {
						if !ran(n) {
							n = 0
						}
						c.AddCounted(c.Image(ip.ID), off, 7*n)
					}
				}
			}
		})
	}
	for _, tt := range []struct {
		name                 string
		rec                  *sample.Recording
		overlap, least, most float64
		counted              float64
	}{
		{"probed", probed, 0.9, 0.9, 1.1, 0},
		// Their scale is that of samples, which is not known well.
		{"counted", counted(func(uint64) bool { return true }), 0.99, m.compare(plain).Scale / 2, m.compare(plain).Scale * 2, 0.9},
		// It is no evidence that a block did not run where the other run went other ways.
		{"counted with other inputs", counted(func(n uint64) bool { return n%3 > 0 }), 0.945, 0, math.Inf(1), 0.1},
	} {
		p := m.set.infer(t, tt.rec, Options{})
		a := m.compare(p)
		t.Logf("%s: block overlap %.3f, within 10 %% %.3f, scale %.3f, %.2g where nothing ran", tt.name, a.BlockOverlap, a.Within10, a.Scale, m.never(p))
		if never := m.never(p); tt.name == "counted" && never > 2e-5 {
			t.Errorf("%s: %.2g of the executions are in blocks that the other run did not execute", tt.name, never)
		}
		if a.BlockOverlap < tt.overlap || a.Scale < tt.least || a.Scale > tt.most {
			t.Errorf("%s: block overlap %.3f, scale %.3f", tt.name, a.BlockOverlap, a.Scale)
		}
		if p.Counted < tt.counted || tt.counted == 0 && p.Counted > 0 {
			t.Errorf("%s: executions in %.3f of the samples are said to be of another run, want %.2f", tt.name, p.Counted, tt.counted)
		}
		if _, q := roundTrip(t, m.set.Set, p, Options{}); q.Counted != p.Counted {
			t.Errorf("%s: restored, they are in %.3f", tt.name, q.Counted)
		}
	}
}

// never is the share of all executions that are in blocks that did not run.
func (m *mix) never(p *Profile) float64 {
	var in, all float64
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			for b := range r.Proc.Blocks {
				n := r.Block[b].N
				if all += n; m.exact(&r.Proc.Blocks[b]) == 0 {
					in += n
				}
			}
		}
	}
	return in / all
}

// TestKnownShare: the share of a branch moves its edges, and the other counts with
// them, however far from the middle it is. Branches whose share the code tells are left out.
func TestKnownShare(t *testing.T) {
	m := loadMix(t)
	p := m.infer(t)
	n := 0
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			q := newProblem(r.Proc, r.BlockSamples, func(*image.Block) float64 { return 1 }, &outOfOrder)
			trips := ip.Image.Trips(r.Proc)
			for b := range r.Proc.Blocks {
				counted := slices.ContainsFunc(trips, func(t image.Trip) bool { return t.Block == b })
				if q.takenOut(b) < 0 || r.Block[b].N < 1e6 || n > 12 || counted {
					continue
				}
				n++
				for _, taken := range []float64{0, 0.001, 0.3, 1} {
					known := []Known{{Image: ip.ID, Addr: r.Proc.Blocks[b].Last, Taken: taken, TakenSD: 0.0005}}
					with := m.set.infer(t, m.Rec, Options{Known: known})
					w := with.find(known[0])
					all, got := w.Block[b].N, 0.0
					for _, e := range w.Proc.Blocks[b].Out {
						if w.Proc.Edges[e].Kind == image.Taken {
							got = w.Edge[e].N / all
						}
					}
					if w.Proc.Blocks[b].Exit == image.TailCall {
						continue // its edge is none of the procedure's
					}
					if math.Abs(got-taken) > 0.02 { // the program took another share, and samples say so
						t.Errorf("%s: block %#x: %.4f of %.3g taken, want %.4f", r.Proc.Name, r.Proc.Blocks[b].Start, got, all, taken)
					}
				}
			}
		}
	}
	if n == 0 {
		t.Error("no branches")
	}
}

// TestSound: executions of a few procedures are of use where walks tell of the others.
func TestSound(t *testing.T) {
	few := &Profile{Samples: Samples{Used: 100}}
	runs := Known{Addr: 0x1000, N: 1e6, RelSD: 0.1}
	outcomes := Known{Addr: 0x1000, Taken: 0.5, TakenSD: 0.1}
	for _, tt := range []struct {
		name  string
		known []Known
		runs  int // whose executions are used
		all   int
	}{
		{"none", nil, 0, 0},
		{"runs of no sample", []Known{runs, outcomes}, 0, 1},
		{"with visits", []Known{runs, {Addr: 0x2000, Visits: 3}}, 1, 2},
	} {
		n, got := 0, few.sound(tt.known)
		for _, k := range got {
			if k.RelSD > 0 {
				n++
			}
		}
		if n != tt.runs || len(got) != tt.all {
			t.Errorf("%s: %+v", tt.name, got)
		}
	}
}
