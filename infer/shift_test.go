package infer

import (
	"backfeed/sample"
	"maps"
	"math"
	"slices"
	"testing"

	"backfeed/infer/image"
	"backfeed/infer/machine"
)

// A shifted is the time of the blocks of one procedure by the exact counts, as samples would show it that
// fall so many instructions behind where the time went, along the edges that were really taken.
type shifted struct {
	r    *Result
	n    []float64   // executions in the truth, by block
	next [][]float64 // share of them that goes on, by block and out-edge
	time []float64   // by block
}

// shifted prepares r, whose blocks have no time yet.
func (s *set) shifted(ip *ImageProfile, r *Result) *shifted {
	blocks := r.Proc.Blocks
	h := &shifted{r, make([]float64, len(blocks)), make([][]float64, len(blocks)), nil}
	for b := range blocks {
		blk := &blocks[b]
		h.n[b] = s.exact(ip, blk)
		h.next[b] = make([]float64, len(blk.Out))
		rest, all := h.n[b], 0.0
		for k, e := range blk.Out {
			if r.Proc.Edges[e].Kind != image.FallThrough {
				h.next[b][k] = s.Taken(ip.ID.Path, blk, blocks[r.Proc.Edges[e].To].Start)
				rest -= h.next[b][k]
			}
		}
		for k, e := range blk.Out {
			if r.Proc.Edges[e].Kind == image.FallThrough {
				h.next[b][k] = max(rest, 0)
			}
			all += h.next[b][k]
		}
		scale(1/max(all, 1), h.next[b])
	}
	return h
}

// put adds time so many instructions behind the start of block b, or where control goes from there.
func (h *shifted) put(b, behind int, time float64, blocks int) {
	insts := h.r.Proc.Blocks[b].Insts
	if behind < insts || len(h.next[b]) == 0 || blocks == 0 || time < 1e-6 {
		h.time[b] += time
		return
	}
	for k, e := range h.r.Proc.Blocks[b].Out {
		if share := h.next[b][k]; share > 0 {
			h.put(h.r.Proc.Edges[e].To, behind-insts, time*share, blocks-1)
		}
	}
}

// by sets the times for a shift, scaled to the samples.
func (h *shifted) by(shift int, cycles []float64) {
	h.time = make([]float64, len(h.n))
	for b, n := range h.n {
		if insts := h.r.Proc.Blocks[b].Insts; n > 0 {
			for i := range insts {
				h.put(b, i+shift, n*cycles[b]/float64(insts), 12)
			}
		}
	}
	scale(float64(h.r.Samples)/max(sumOf(h.time), 1e-300), h.time)
}

// TestShift: with the exact counts given, samples lie where the time of blocks is, and not some instructions
// behind it, across the ends of blocks. Retirement has little skid; what keeps samples from the executions is
// what an execution waits for. With -v it prints the standard deviation of the logarithm of samples over expected
// samples, of blocks that 20 are expected of, and the overlap of both, by shift.
func TestShift(t *testing.T) {
	all := loadSets(t)
	if len(all) == 0 {
		t.Skip("no -sets")
	}
	shifts := []int{0, 1, 2, 4, 8, 16}
	sd, overlap := make([]float64, len(shifts)), make([]float64, len(shifts))
	programs := 0.0
	for _, s := range all {
		p := s.infer(t, s.Rec, Options{})
		model, err := machine.ByName(p.Machine)
		if err != nil {
			t.Fatal(err)
		}
		squares, sums, both := make([]float64, len(shifts)), make([]float64, len(shifts)), make([]float64, len(shifts))
		blocks, samples := 0.0, 0.0
		for _, ip := range p.Images {
			for _, r := range ip.Procs {
				if h := s.shifted(ip, r); r.Samples >= 100 && sumOf(h.n) > 0 {
					cycles := make([]float64, len(h.n))
					for b := range cycles {
						cycles[b] = outOfOrder.cycles(model.Expected(ip.Image, &r.Proc.Blocks[b]))
					}
					h.by(0, cycles)
					unshifted := h.time
					samples += float64(r.Samples)
					for k, shift := range shifts {
						h.by(shift, cycles)
						for b, time := range h.time {
							seen := float64(r.BlockSamples[b])
							both[k] += min(seen, time)
							if unshifted[b] >= 20 {
								d := math.Log((seen + 0.5) / (time + 0.5))
								sums[k], squares[k] = sums[k]+d, squares[k]+d*d
								if k == 0 {
									blocks++
								}
							}
						}
					}
				}
			}
		}
		if blocks < 20 {
			continue
		}
		programs++
		for k := range shifts {
			sd[k] += math.Sqrt(squares[k]/blocks - sums[k]*sums[k]/blocks/blocks)
			overlap[k] += both[k] / samples
		}
	}
	for k, shift := range shifts {
		t.Logf("shift %2d: standard deviation %.3f, overlap %.3f (%.0f programs)", shift, sd[k]/programs, overlap[k]/programs, programs)
	}
	if programs > 0 && (sd[5] < sd[0] || sd[1] < 0.9*sd[0]) {
		t.Errorf("samples follow the time: standard deviations %.3f", sd)
	}
}

// spread returns where the time of one execution of block b is seen that falls so many instructions behind, by block.
func (h *shifted) spread(b, shift int, to map[int]float64) {
	insts := h.r.Proc.Blocks[b].Insts
	h.time = make([]float64, len(h.n))
	for i := range insts {
		h.put(b, i+shift, 1/float64(insts), 12)
	}
	for c, t := range h.time {
		if t > 0 {
			to[c] = t
		}
	}
}

// inferredShift is shifted with what was inferred instead of the exact counts.
func inferredShift(_ *ImageProfile, r *Result) *shifted {
	blocks := r.Proc.Blocks
	h := &shifted{r, make([]float64, len(blocks)), make([][]float64, len(blocks)), nil}
	for b := range blocks {
		h.n[b] = r.Block[b].N
		h.next[b] = make([]float64, len(blocks[b].Out))
		for k, e := range blocks[b].Out {
			h.next[b][k] = r.Edge[e].N / max(1, h.n[b])
		}
	}
	return h
}

// A skidded is a procedure with what a kernel of skid is learnt from.
type skidded struct {
	ip   *ImageProfile
	h    *shifted
	time []float64           // by block: samples expected without skid
	to   [][]map[int]float64 // by shift and block: where they are seen
}

// skiddedOf prepares the procedures of p with 100 samples or more, of executions that shifted returns.
func skiddedOf(p *Profile, model *machine.Model, shifts []int, shifted func(*ImageProfile, *Result) *shifted) (all []*skidded) {
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			h := shifted(ip, r)
			if r.Samples < 100 || sumOf(h.n) == 0 || len(h.n) > 3000 {
				continue
			}
			k := &skidded{ip: ip, h: h, time: make([]float64, len(h.n)), to: make([][]map[int]float64, len(shifts))}
			for b, n := range h.n {
				k.time[b] = n * outOfOrder.cycles(model.Expected(ip.Image, &r.Proc.Blocks[b]))
			}
			scale(float64(r.Samples)/max(sumOf(k.time), 1e-300), k.time)
			for j, shift := range shifts {
				k.to[j] = make([]map[int]float64, len(h.n))
				for b, n := range h.n {
					if n > 0 {
						k.to[j][b] = map[int]float64{}
						h.spread(b, shift, k.to[j][b])
					}
				}
			}
			all = append(all, k)
		}
	}
	return all
}

// learnSkid returns the shares of the shifts that make the samples of all most probable (expectation maximization).
func learnSkid(all []*skidded, shifts int) []float64 {
	w := make([]float64, shifts)
	fillWith(w, 1/float64(shifts))
	for range 30 {
		next := make([]float64, shifts)
		for _, k := range all {
			seen := make([][]float64, shifts)
			sum := make([]float64, len(k.time))
			for j := range seen {
				seen[j] = make([]float64, len(k.time))
				for b, to := range k.to[j] {
					for c, part := range to {
						seen[j][c] += k.time[b] * part
						sum[c] += w[j] * k.time[b] * part
					}
				}
			}
			for c, n := range k.h.r.BlockSamples {
				if sum[c] > 0 {
					for j := range seen {
						next[j] += float64(n) * w[j] * seen[j][c] / sum[c]
					}
				}
			}
		}
		scale(1/max(sumOf(next), 1e-300), next)
		w = next
	}
	return w
}

// putBack returns the recording of s with the samples of all where a kernel of these weights says that their time
// was spent, by the exact counts.
func (s *set) putBack(all []*skidded, w []float64) *sample.Recording {
	old := s.Rec.Counts[0]
	c := sample.NewCounts(old.CPU, old.Event)
	for _, k := range all {
		blocks := k.h.r.Proc.Blocks
		sum, from := make([]float64, len(blocks)), make([]float64, len(blocks))
		each := func(f func(b, c int, n float64)) {
			for j := range k.to {
				for b, to := range k.to[j] {
					for c, part := range to {
						f(b, c, w[j]*k.time[b]*part)
					}
				}
			}
		}
		each(func(b, c int, n float64) { sum[c] += n })
		each(func(b, c int, n float64) {
			if sum[c] > 0 {
				from[b] += float64(k.h.r.BlockSamples[c]) * n / sum[c]
			}
		})
		for b, n := range k.h.r.BlockSamples {
			if sum[b] == 0 {
				from[b] += float64(n) // where nothing should be
			}
			if n := math.Round(from[b]); n > 0 {
				off, _ := k.ip.Image.OffsetOf(blocks[b].Start)
				c.AddSample(c.Image(k.ip.ID), off, uint64(n))
			}
		}
	}
	for _, ic := range old.Images {
		im := s.Images[ic.ID.Key()]
		if im == nil {
			continue
		}
		for off, n := range ic.At {
			a, ok := im.AddrOf(off)
			if !ok || slices.ContainsFunc(all, func(k *skidded) bool {
				return k.ip.ID.Key() == ic.ID.Key() && k.h.r.Proc.BlockAt(a) >= 0
			}) {
				continue
			}
			c.AddSample(c.Image(ic.ID), off, n)
		}
	}
	c.Weight = c.Total * old.Event.Period
	return &sample.Recording{Counts: []*sample.Counts{c}}
}

// TestSkidKernel learns a kernel of skid for each processor family of the programs of -sets, and uses it: samples are put
// back where it says that their time was spent. With -v it prints the kernel of each program, and block and edge overlaps
// as inferred, with samples put back by what was inferred and by the kernel of the other programs of the family, and, as
// an oracle, by the exact counts and by the program's own kernel. There is no such model in Infer, as that in the middle
// gains nothing; should it, this test fails.
func TestSkidKernel(t *testing.T) {
	all := loadSets(t)
	if len(all) == 0 {
		t.Skip("no -sets")
	}
	shifts := []int{0, 1, 2, 4, 8, 16, 32}
	type program struct {
		*set
		p      *Profile
		model  *machine.Model
		kernel []float64
		oracle []*skidded
	}
	families := map[string][]*program{}
	for _, s := range all {
		p := s.infer(t, s.Rec, Options{})
		model, err := machine.ByName(p.Machine)
		if err != nil {
			t.Fatal(err)
		}
		oracle := skiddedOf(p, model, shifts, s.shifted)
		families[p.Machine] = append(families[p.Machine], &program{s, p, model, learnSkid(oracle, len(shifts)), oracle})
	}
	var gain, programs float64
	for _, name := range slices.Sorted(maps.Keys(families)) {
		of := families[name]
		sum, kernel := make([]float64, 6), make([]float64, len(shifts))
		for _, s := range of {
			axpy(1/float64(len(of)), s.kernel, kernel)
		}
		for _, s := range of {
			others := slices.Clone(kernel)
			if n := float64(len(of)); n > 1 {
				axpy(-1/n, s.kernel, others)
				scale(n/(n-1), others)
			}
			plain := s.compare(s.p)
			back := s.compare(s.infer(t, s.putBack(skiddedOf(s.p, s.model, shifts, inferredShift), others), Options{}))
			oracle := s.compare(s.infer(t, s.putBack(s.oracle, s.kernel), Options{}))
			t.Logf("%-12s kernel %.2f; block overlap %.3f, put back %.3f, by exact counts %.3f; edges %.3f, %.3f, %.3f", s.Name, s.kernel,
				plain.BlockOverlap, back.BlockOverlap, oracle.BlockOverlap, plain.EdgeOverlap, back.EdgeOverlap, oracle.EdgeOverlap)
			axpy(1/float64(len(of)), []float64{plain.BlockOverlap, back.BlockOverlap, oracle.BlockOverlap, plain.EdgeOverlap, back.EdgeOverlap,
				oracle.EdgeOverlap}, sum)
		}
		t.Logf("%s, %d programs: shifts %v: kernel %.2f; block overlap, put back, by exact counts %.3f; edges %.3f", name, len(of), shifts, kernel, sum[:3], sum[3:])
		gain += (sum[1] - sum[0]) * float64(len(of))
		programs += float64(len(of))
	}
	if programs >= 20 && gain/programs > 0.01 {
		t.Errorf("samples put back by a kernel of skid gain %.3f of block overlap: it belongs into the model", gain/programs)
	}
}
