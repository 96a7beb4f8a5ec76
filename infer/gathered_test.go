package infer

import (
	"math"
	"slices"
	"testing"

	"backfeed/infer/image"
)

// TestGatheredLonger: of two procedures with the same samples and the same code, the one whose samples gather at one
// instruction is expected to take longer, however many times all samples are counted, and one with few hardly so.
func TestGatheredLonger(t *testing.T) {
	im, err := image.Open("../testdata/mix/mix", image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	i := slices.IndexFunc(im.Symbols(), func(s image.Symbol) bool { return s.Name == "main" })
	proc, err := im.Proc(i)
	if err != nil {
		t.Fatal(err)
	}
	model := modelNamed(t, "amd-zen4")
	longer := func(n, each uint64) (gathered, spread float64) {
		r, other := newResult(proc), newResult(proc)
		r.squares, other.squares = make([]float64, len(proc.Blocks)), make([]float64, len(proc.Blocks))
		for b := range r.Proc.Blocks {
			insts := uint64(r.Proc.Blocks[b].Insts)
			for _, r := range []*Result{r, other} {
				r.BlockSamples[b] = n * insts * each
				r.Samples += r.BlockSamples[b]
			}
			r.squares[b] = float64(n*insts*each) * float64(n*insts*each)
			other.squares[b] = float64(insts) * float64(n*each) * float64(n*each)
		}
		p := &Profile{Images: []*ImageProfile{{Image: im, Procs: []*Result{r, other}}}, dispersion: float64(each)}
		of := p.gathered(model, map[*Result]*image.Image{r: im, other: im})
		return of(r), of(other)
	}
	gathered, spread := longer(100, 1)
	if gathered < 1.1 || spread > 1/1.1 || math.Abs(gathered*spread-1) > 1e-9 {
		t.Errorf("%g where samples gather, %g where they do not, want each the inverse of the other", gathered, spread)
	}
	if g, s := longer(100, 7); math.Abs(g/gathered-1) > 0.01 || math.Abs(s/spread-1) > 0.01 {
		t.Errorf("samples that count for seven: %g and %g, want %g and %g", g, s, gathered, spread)
	}
	if g, _ := longer(1, 1); g <= 1 || g > 1+(gathered-1)/2 {
		t.Errorf("few samples: %g, want half of what %g is more than 1 at most", g, gathered)
	}
	if g, s := longer(0, 1); g != 1 || s != 1 {
		t.Errorf("no samples: %g and %g, want 1", g, s)
	}
}

// TestGathering measures, over the programs of -sets, what of the time of procedures the gathering of their samples tells:
// the logarithm of samples over those that the exact executions bring in the least time, and of inferred instructions over
// the true ones, each beside the mean of its program and weighed by samples.
func TestGathering(t *testing.T) {
	all := loadSets(t)
	if len(all) == 0 {
		t.Skip("no -sets")
	}
	var procs int
	var gg, gt, tt, gi, ii float64
	for _, s := range all {
		placed, err := PlaceSamples(t.Context(), s.Rec, s.Open, Options{})
		if err != nil {
			t.Fatal(err)
		}
		p := placed.Profile
		model := modelNamed(t, p.Machine)
		gathered := map[*Result]gathering{}
		for _, ip := range p.Images {
			for _, r := range ip.Procs {
				gathered[r] = r.gathering(ip.Image, model, p.each())
			}
		}
		if err := placed.Estimate(t.Context(), Options{}); err != nil {
			t.Fatal(err)
		}
		type proc struct{ weight, gathering, time, inferred float64 }
		var of []proc
		var mean proc
		for _, ip := range p.Images {
			for _, r := range ip.Procs {
				var exact, told, least float64
				for b := range r.Proc.Blocks {
					blk := &r.Proc.Blocks[b]
					n := s.exact(ip, blk)
					exact += n * float64(blk.Insts)
					told += r.Block[b].N * float64(blk.Insts)
					least += n * model.Expected(ip.Image, blk)
				}
				g := gathered[r]
				if r.Samples < 100 || g.samples == 0 || exact == 0 || told == 0 {
					continue
				}
				w := float64(r.Samples)
				c := proc{w, g.log, math.Log(w / least), math.Log(told / exact)}
				of = append(of, c)
				mean.weight += w
				mean.gathering += w * c.gathering
				mean.time += w * c.time
				mean.inferred += w * c.inferred
			}
		}
		for _, c := range of {
			w := c.weight / mean.weight
			g, time, told := c.gathering-mean.gathering/mean.weight, c.time-mean.time/mean.weight, c.inferred-mean.inferred/mean.weight
			gg += w * g * g
			gt += w * g * time
			tt += w * time * time
			gi += w * g * told
			ii += w * told * told
		}
		procs += len(of)
	}
	t.Logf("%d procedures of %d programs: time has a standard deviation of %.3f, correlation with gathering %.3f, slope %.3f; what is inferred is off by %.3f, %.3f, %.3f",
		procs, len(all), math.Sqrt(tt/float64(len(all))), gt/math.Sqrt(gg*tt), gt/gg, math.Sqrt(ii/float64(len(all))), gi/math.Sqrt(gg*ii), gi/gg)
	if procs >= 100 && gt <= 0 {
		t.Errorf("procedures whose samples gather take no longer: %.3f", gt/gg)
	}
}
