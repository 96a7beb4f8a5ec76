package infer

import (
	"fmt"
	"math"
	"slices"

	"backfeed/infer/image"
)

// Check reports the first promise that p breaks. Tests call it on every Profile.
func (p *Profile) Check() error {
	all := 0.0
	for _, ip := range p.Images {
		for _, r := range ip.Procs {
			for _, f := range r.Block {
				all += f.N
			}
		}
	}
	used := uint64(0)
	for _, ip := range p.Images {
		n := uint64(0)
		for i, r := range ip.Procs {
			if i > 0 && ip.Procs[i-1].Proc.Addr >= r.Proc.Addr {
				return fmt.Errorf("%s: procedures %s and %s are out of order", ip.ID.Path, ip.Procs[i-1].Proc.Name, r.Proc.Name)
			}
			if err := r.Check(); err != nil {
				return fmt.Errorf("%s: %w", ip.ID.Path, err)
			}
			for b, cold := range r.Cold {
				if n := r.Block[b].N; cold && n >= coldShare*all {
					return fmt.Errorf("%s: %s: block %d is cold with %g of %g executions", ip.ID.Path, r.Proc.Name, b, n, all)
				}
			}
			n += r.Samples
		}
		if n != ip.Samples {
			return fmt.Errorf("%s: %d samples, %d in its procedures", ip.ID.Path, ip.Samples, n)
		}
		used += n
	}
	lost := uint64(0)
	for _, n := range p.Samples.Lost {
		lost += n
	}
	if used != p.Samples.Used || used+lost != p.Samples.Total {
		return fmt.Errorf("%d samples, %d used (%d in images), %d lost", p.Samples.Total, p.Samples.Used, used, lost)
	}
	return nil
}

// Check reports the first promise that r breaks: what enters a block equals what
// runs and what leaves it, and every sample is in a block.
func (r *Result) Check() error {
	p := r.Proc
	samples := uint64(0)
	entry := make([]bool, len(p.Blocks))
	for _, b := range p.Entries {
		entry[b] = true
	}
	for _, b := range r.entered {
		entry[b] = true
	}
	for i := range p.Blocks {
		b := &p.Blocks[i]
		samples += r.BlockSamples[i]
		n := r.Block[i].N
		if n < 0 || n != math.Floor(n) || math.IsInf(n, 0) || n > 0 && r.Block[i].Conf == None {
			return fmt.Errorf("%s: block %#x: %g executions with confidence %v", p.Name, b.Start, n, r.Block[i].Conf)
		}
		if r.Block[i].Conf == None {
			continue
		}
		in, out := r.sum(b.In), r.sum(b.Out)
		if i == 0 {
			in += r.Entries.N
		}
		// More may come in where the graph does not show from where.
		if in > n || len(b.In) > 0 && !entry[i] && p.Complete && in < n {
			return fmt.Errorf("%s: block %#x: %g come in, %g executions", p.Name, b.Start, in, n)
		}
		if out > n || b.Exit == image.NoExit && len(b.Out) > 0 && !slices.Contains(r.trapped, int32(i)) && out < n {
			return fmt.Errorf("%s: block %#x: %g executions, %g go out", p.Name, b.Start, n, out)
		}
	}
	if samples != r.Samples {
		return fmt.Errorf("%s: %d samples, %d in its blocks", p.Name, r.Samples, samples)
	}
	return nil
}

func (r *Result) sum(edges []int) float64 {
	var t float64
	for _, e := range edges {
		t += r.Edge[e].N
	}
	return t
}
