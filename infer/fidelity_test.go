package infer

import (
	"bytes"
	"errors"
	"testing"

	"backfeed/infer/image"
	"backfeed/infer/truth"
	"backfeed/sample"
	"backfeed/testdata/sets"
)

// A set is a recorded program with its exact counts.
type set struct{ *sets.Set }

// loadSet reads the set in a directory.
func loadSet(tb testing.TB, dir string) *set { return &set{sets.Load(tb, dir)} }

// infer infers from rec, which is that of s or one made from it.
func (s *set) infer(tb testing.TB, rec *sample.Recording, opt Options) *Profile {
	tb.Helper()
	p, err := Infer(tb.Context(), rec, s.Open, opt)
	if err == nil {
		err = p.Check()
	}
	if err != nil {
		tb.Fatal(err)
	}
	return p
}

func (s *set) compare(p *Profile) *truth.Accuracy {
	return truth.Compare(NewDocument(p), s.Truth, s.Samples)
}

// mix is the set of testdata/mix, which make.sh there made.
type mix struct {
	*set
	image *image.Image
}

// mixRuns is how many times as many rounds of it were recorded as were counted.
const mixRuns = 60

func loadMix(tb testing.TB) *mix {
	tb.Helper()
	m := &mix{set: loadSet(tb, "../testdata/mix")}
	for _, im := range m.Images { // no other was kept
		m.image = im
	}
	return m
}

func (m *mix) infer(tb testing.TB) *Profile {
	tb.Helper()
	return m.set.infer(tb, m.Rec, Options{})
}

// remade is a copy of p with other results.
func remade(p *Profile, other func(*ImageProfile, *Result) *Result) *Profile {
	q := *p
	q.Images = nil
	for _, ip := range p.Images {
		jp := *ip
		jp.Procs = nil
		for _, r := range ip.Procs {
			jp.Procs = append(jp.Procs, other(ip, r))
		}
		q.Images = append(q.Images, &jp)
	}
	return &q
}

// naive is what tools without inference do: samples by instructions.
func naive(p *Profile) *Profile {
	return remade(p, func(_ *ImageProfile, r *Result) *Result {
		s := newResult(r.Proc)
		s.BlockSamples, s.Samples = r.BlockSamples, r.Samples
		for b, n := range r.BlockSamples {
			s.Block[b] = Freq{1e6 * float64(n) / float64(r.Proc.Blocks[b].Insts), Low, Low, Low}
		}
		return s
	})
}

// TestAccuracy: inference is worth its trouble on a program that it was not tuned on.
func TestAccuracy(t *testing.T) {
	m := loadMix(t)
	p := m.infer(t)
	got, plain := m.compare(p), m.compare(naive(p))
	t.Logf("block overlap %.3f, samples by instructions %.3f; edges %.3f", got.BlockOverlap, plain.BlockOverlap, got.EdgeOverlap)
	if got.BlockOverlap < plain.BlockOverlap+0.05 {
		t.Errorf("block overlap %.3f, samples by instructions reach %.3f", got.BlockOverlap, plain.BlockOverlap)
	}
	if got.Zero > 0.01 {
		t.Errorf("%.1f%% of the executed instructions have the count 0", 100*got.Zero)
	}
	if got.Cold > 0.01 || got.ColdUnrun < 0.1 {
		t.Errorf("called cold: %.2f%% of the executions, %.1f%% of the blocks that never ran", 100*got.Cold, 100*got.ColdUnrun)
	}
	// One loop, an interpreter's, is 2.3 times less often thought to run than it does.
	if k := got.BlockWithinProc[Medium].Samples; k.Weight < 0.3 || k.Within2x < 0.85 {
		t.Errorf("blocks of medium confidence: %.2f of all samples, %.3f of them within a factor 2", k.Weight, k.Within2x)
	}
}

// TestSameBytes: the document does not depend on the order of what was recorded,
// nor on whether it was recorded in parts.
func TestSameBytes(t *testing.T) {
	m := loadMix(t)
	document := func() []byte {
		var b bytes.Buffer
		if err := NewDocument(m.infer(t)).Write(&b); err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	want := document()
	c := m.Rec.Counts[0]
	odd, even := sample.NewCounts(c.CPU, c.Event), sample.NewCounts(c.CPU, c.Event)
	for _, ic := range c.Images {
		for off, n := range ic.At {
			for i, half := range []*sample.Counts{odd, even} {
				if k := (n + uint64(i)) / 2; k > 0 {
					half.AddSample(half.Image(ic.ID), off, k)
				}
			}
		}
	}
	for why, n := range c.Lost {
		odd.Lose(why, n)
	}
	odd.Weight, even.Weight = c.Weight/2, c.Weight-c.Weight/2
	m.Rec = sample.Merge(&sample.Recording{Counts: []*sample.Counts{even}}, &sample.Recording{Counts: []*sample.Counts{odd}})
	if got := document(); !bytes.Equal(got, want) {
		t.Errorf("a recording in two parts gives another document")
	}
}

// TestNothing: what cannot be used is an error, not an empty profile.
func TestNothing(t *testing.T) {
	m := loadMix(t)
	none := func(sample.ImageID) (*image.Image, error) { return nil, errors.New("gone") }
	for _, tt := range []struct {
		name string
		rec  *sample.Recording
		open func(sample.ImageID) (*image.Image, error)
		opt  Options
	}{
		{"no recording", &sample.Recording{}, m.Open, Options{}},
		{"no such event", m.Rec, m.Open, Options{Event: "branches"}},
		{"no image", m.Rec, none, Options{}},
	} {
		if _, err := Infer(t.Context(), tt.rec, tt.open, tt.opt); !errors.Is(err, ErrNothing) {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

// BenchmarkInfer reports accuracy beside speed, so that neither buys the other unseen.
func BenchmarkInfer(b *testing.B) {
	m := loadMix(b)
	var p *Profile
	for b.Loop() {
		p = m.infer(b)
	}
	blocks, code := 0, uint64(0)
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			blocks += len(r.Block)
			code += r.Proc.Size
		}
	}
	runs := float64(b.N) / b.Elapsed().Seconds()
	b.ReportMetric(runs*float64(blocks), "blocks/s")
	b.ReportMetric(runs*float64(code)/1e6, "MB/s") // of code
	b.ReportMetric(100*m.compare(p).BlockOverlap, "%overlap")
}
