package infer

import (
	"math"
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
						cycles[b] = outOfOrder.cycles(model.Cycles(ip.Image, &r.Proc.Blocks[b]))
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
