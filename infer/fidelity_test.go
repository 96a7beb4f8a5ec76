package infer

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
)

// mix is a recorded program with its exact counts; testdata/mix/make.sh made it.
type mix struct {
	rec     *sample.Recording
	image   *image.Image
	truth   *Truth
	samples SamplesByAddr
}

func loadMix(tb testing.TB) *mix {
	tb.Helper()
	const dir = "../testdata/mix/"
	b, err := os.ReadFile(dir + "samples.bfr")
	if err != nil {
		tb.Fatal(err)
	}
	m := &mix{}
	if m.rec, err = sample.Decode(b); err != nil {
		tb.Fatal(err)
	}
	if m.image, err = image.Open(dir+"mix", image.Options{}); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { m.image.Close() })
	f, err := os.Open(dir + "truth.json.gz")
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	if m.truth, err = ReadCallgrind(f); err != nil {
		tb.Fatal(err)
	}
	m.samples = SamplesByAddr{}
	for path := range m.truth.Images {
		at := map[image.Addr]uint64{}
		for _, ic := range m.rec.Counts[0].Images {
			if ic.ID.Build == m.image.Build {
				for off, n := range ic.At {
					if a, ok := m.image.AddrOf(off); ok {
						at[a] += n
					}
				}
			}
		}
		m.samples[path] = at
	}
	return m
}

func (m *mix) open(id sample.ImageID) (*image.Image, error) {
	if id.Build == m.image.Build {
		return m.image, nil
	}
	return nil, errors.New("not kept with the tests")
}

func (m *mix) infer(tb testing.TB) *Profile {
	tb.Helper()
	p, err := Infer(m.rec, m.open, Options{})
	if err != nil {
		tb.Fatal(err)
	}
	if err := p.Check(); err != nil {
		tb.Fatal(err)
	}
	return p
}

// naive is what tools without inference do: samples by instructions.
func naive(p *Profile) *Profile {
	q := *p
	q.Images = nil
	for _, ip := range p.Images {
		jp := *ip
		jp.Procs = nil
		for _, r := range ip.Procs {
			s := newResult(r.Proc)
			s.BlockSamples, s.Samples = r.BlockSamples, r.Samples
			for b, n := range r.BlockSamples {
				s.Block[b] = Freq{1e6 * float64(n) / float64(r.Proc.Blocks[b].Insts), Low, Low}
			}
			jp.Procs = append(jp.Procs, s)
		}
		q.Images = append(q.Images, &jp)
	}
	return &q
}

// TestAccuracy: inference is worth its trouble on a program that it was not tuned on.
func TestAccuracy(t *testing.T) {
	m := loadMix(t)
	p := m.infer(t)
	got := Compare(NewDocument(p), m.truth, m.samples)
	plain := Compare(NewDocument(naive(p)), m.truth, m.samples)
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
	if k := got.BlockShapes[Medium].Samples; k.Weight < 0.3 || k.Within2x < 0.85 {
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
	c := m.rec.Counts[0]
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
	m.rec = sample.Merge(&sample.Recording{Counts: []*sample.Counts{even}}, &sample.Recording{Counts: []*sample.Counts{odd}})
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
		{"no recording", &sample.Recording{}, m.open, Options{}},
		{"no such event", m.rec, m.open, Options{Event: "branches"}},
		{"no image", m.rec, none, Options{}},
	} {
		if _, err := Infer(tt.rec, tt.open, tt.opt); !errors.Is(err, ErrNothing) {
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
	b.ReportMetric(100*Compare(NewDocument(p), m.truth, m.samples).BlockOverlap, "%overlap")
}
