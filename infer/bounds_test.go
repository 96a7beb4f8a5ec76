package infer

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"backfeed/infer/image"
	"backfeed/infer/machine"
	"backfeed/sample"
)

var sets = flag.String("sets", "", "also show the bounds of these `directories`, comma-separated, each with samples.txt (path, hex address, samples), symfs and truth.json.gz")

// A set is a recorded program with its exact counts.
type set struct {
	name    string
	rec     *sample.Recording
	open    func(sample.ImageID) (*image.Image, error)
	truth   *Truth
	samples SamplesByAddr
	opt     Options
}

// loadSet reads one of the directories of -sets.
func loadSet(t *testing.T, dir string) *set {
	t.Helper()
	images := map[string]*image.Image{}
	s := &set{name: filepath.Base(dir), samples: SamplesByAddr{}, opt: Options{Model: "intel-sapphirerapids"}}
	s.open = func(id sample.ImageID) (*image.Image, error) {
		if im := images[id.Path]; im != nil {
			return im, nil
		}
		return nil, errors.New("not in the set")
	}
	f, err := os.Open(filepath.Join(dir, "samples.txt"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	c := sample.NewCounts(sample.CPU{}, sample.Event{Name: "cpu-clock", Period: 100000, Unit: "ns"})
	for in := bufio.NewScanner(f); in.Scan(); {
		var path string
		var addr, n uint64
		if _, err := fmt.Sscanf(in.Text(), "%s %x %d", &path, &addr, &n); err != nil {
			t.Fatalf("%s: %q: %v", f.Name(), in.Text(), err)
		}
		im, ok := images[path]
		if !ok {
			// /lib may be a link to /usr/lib on the machine that recorded.
			for _, p := range []string{path, strings.TrimPrefix(path, "/usr")} {
				if im, err = image.Open(filepath.Join(dir, "symfs", p), image.Options{}); err == nil {
					t.Cleanup(func() { im.Close() })
					break
				}
			}
			images[path] = im
		}
		if s.samples[path] == nil {
			s.samples[path] = map[image.Addr]uint64{}
		}
		s.samples[path][image.Addr(addr)] += n
		if im == nil {
			c.Lose(LostNoImage, n)
		} else if off, ok := im.OffsetOf(image.Addr(addr)); ok {
			c.AddSample(c.Image(sample.ImageID{Path: path}), off, n)
		}
	}
	c.Weight = c.Total * c.Event.Period
	s.rec = &sample.Recording{Counts: []*sample.Counts{c}}
	g, err := os.Open(filepath.Join(dir, "truth.json.gz"))
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if s.truth, err = ReadCallgrind(g); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *set) infer(t *testing.T, rec *sample.Recording, known []Known, places int) *Profile {
	t.Helper()
	opt := s.opt
	opt.Known, opt.Places = known, places
	p, err := Infer(rec, s.open, opt)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// exact gives the true executions of block b of an image.
func (s *set) exact(ip *ImageProfile, b *image.Block) float64 {
	var n uint64
	for path, truth := range s.truth.Images {
		if samePath(path, ip.ID.Path) || len(s.truth.Images) == 1 {
			for a := b.Start; a < b.End; a++ {
				n = max(n, truth.Insts[a])
			}
		}
	}
	return float64(n)
}

// oracle gives p with one of two things right that were estimated: how often each
// procedure's blocks run among one another, or how often all of them together do.
func (s *set) oracle(p *Profile, shapes bool) *Profile {
	q := *p
	q.Images = nil
	for _, ip := range p.Images {
		jp := *ip
		jp.Procs = nil
		for _, r := range ip.Procs {
			o := *r
			o.Block, o.Edge = make([]Freq, len(r.Block)), make([]Freq, len(r.Edge))
			var truth, est float64
			for b := range r.Block {
				truth += s.exact(ip, &r.Proc.Blocks[b])
				est += r.Block[b].N
			}
			for b := range r.Block {
				o.Block[b] = r.Block[b]
				switch {
				case shapes && truth > 0:
					o.Block[b].N = 1e6 * s.exact(ip, &r.Proc.Blocks[b]) * est / truth
				case shapes:
					o.Block[b].N *= 1e6
				case est > 0:
					o.Block[b].N *= 1e6 * truth / est
				}
			}
			for e := range r.Edge {
				o.Edge[e] = r.Edge[e]
				if !shapes && est > 0 {
					o.Edge[e].N *= 1e6 * truth / est
				}
			}
			jp.Procs = append(jp.Procs, &o)
		}
		q.Images = append(q.Images, &jp)
	}
	return &q
}

// simulated gives as many samples as p used, of a world where the model of params is
// exactly true: the time of an execution is what the machine model says, times a
// log-normal variable for each block and one for each procedure.
func (s *set) simulated(p *Profile, seed uint64, blockVar, procSD float64) *sample.Recording {
	model, err := machine.ByName(p.Machine)
	if err != nil {
		panic(err)
	}
	rng := rand.New(rand.NewPCG(seed, 2))
	c := sample.NewCounts(sample.CPU{}, p.Event)
	type place struct {
		ip   *ImageProfile
		at   image.Addr
		time float64
	}
	var places []place
	var all float64
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			common := rng.NormFloat64() * procSD
			for i := range r.Proc.Blocks {
				b := &r.Proc.Blocks[i]
				own := rng.NormFloat64() * math.Sqrt(blockVar/float64(max(1, b.Insts)))
				time := s.exact(ip, b) * (fixedCycles + model.Schedule(ip.Image, b).Cycles) * math.Exp(common+own)
				places = append(places, place{ip, b.Start, time})
				all += time
			}
		}
	}
	for _, pl := range places {
		mean := pl.time / all * float64(p.Samples.Used)
		if n := math.Round(mean + math.Sqrt(mean)*rng.NormFloat64()); n > 0 {
			off, _ := pl.ip.Image.OffsetOf(pl.at)
			c.AddSample(c.Image(pl.ip.ID), off, uint64(n))
		}
	}
	c.Weight = c.Total * p.Event.Period
	return &sample.Recording{Counts: []*sample.Counts{c}}
}

// TestBounds shows what keeps inferred counts from the truth: each stage in turn is
// given what it estimates, or a world without what disturbs it. With -v it prints the
// scores; -sets adds programs to testdata/mix.
func TestBounds(t *testing.T) {
	m := loadMix(t)
	all := []*set{{"mix", m.rec, m.open, m.truth, m.samples, Options{}}}
	if *sets != "" {
		for _, dir := range strings.Split(*sets, ",") {
			all = append(all, loadSet(t, dir))
		}
	}
	for _, s := range all {
		score := func(what string, p *Profile) *Accuracy {
			a := Compare(NewDocument(p), s.truth, s.samples)
			t.Logf("%-8s %-34s block overlap %.3f, within 10 %% %.3f, edge overlap %.3f", s.name, what, a.BlockOverlap, a.Within10, a.EdgeOverlap)
			return a
		}
		p := s.infer(t, s.rec, nil, 0)
		plain := score("as inferred", p)
		scale := score("procedures right among one another", s.oracle(p, false))
		shape := score("blocks right in each procedure", s.oracle(p, true))
		for seed := range uint64(6) { // worlds differ by some hundredths
			score("a world as the model has it", s.infer(t, s.simulated(p, seed, outOfOrder.blockVar, outOfOrder.procSD), nil, 0))
		}
		certain := score("the same, and times certain", s.infer(t, s.simulated(p, 0, 0, 0), nil, 0))
		if scale.BlockOverlap < plain.BlockOverlap || shape.BlockOverlap < plain.BlockOverlap || certain.BlockOverlap < plain.BlockOverlap {
			t.Errorf("%s: to know more makes it worse", s.name)
		}
	}
}

// TestKnownSets gives each program of -sets the exact counts of 400 blocks that Infer
// asks for, in four rounds.
func TestKnownSets(t *testing.T) {
	if *sets == "" {
		t.Skip("no -sets")
	}
	var mean float64
	dirs := strings.Split(*sets, ",")
	for _, dir := range dirs {
		s := loadSet(t, dir)
		var known []Known
		for range 4 {
			for _, pl := range s.infer(t, s.rec, known, 100).Places {
				b := &pl.Proc.Proc.Blocks[pl.Block]
				known = append(known, Known{Image: pl.Image.ID, Addr: b.Start, N: s.exact(pl.Image, b), RelSD: 0.02})
			}
		}
		a := Compare(NewDocument(s.infer(t, s.rec, known, 0)), s.truth, s.samples)
		high, edges := a.BlockLevels[High].Samples, a.EdgeLevels[High].Executions
		t.Logf("%-8s %d known: block overlap %.3f, within 10 %% %.3f, edge overlap %.3f; high %.2f of the samples, %.3f within 10 %%; of edges %.2f, %.3f",
			s.name, len(known), a.BlockOverlap, a.Within10, a.EdgeOverlap, high.Weight, high.Within10, edges.Weight, edges.Within10)
		mean += a.BlockOverlap / float64(len(dirs))
	}
	if mean < 0.9 {
		t.Errorf("mean block overlap %.3f, want 0.90", mean)
	}
}
