package infer

import (
	"math"
	"testing"

	"backfeed/sample"
)

// TestScaledAsSure: a recording that counts nine times has nine times the executions, and is as sure of them as it was. It
// is held to that on testdata/mix, and on the programs of -sets, also calibrated.
func TestScaledAsSure(t *testing.T) {
	all := append(loadSets(t), loadMix(t).set)
	for _, s := range all {
		scaledAsSure(t, s, s.Name, s.Rec)
		if s.Calibrated != nil {
			scaledAsSure(t, s, s.Name+", calibrated", s.Calibrated)
		}
	}
}

func scaledAsSure(t *testing.T, s *set, name string, rec *sample.Recording) {
	t.Helper()
	const times = 9
	once, often := s.infer(t, rec, Options{}), s.infer(t, rec.Scale(times), Options{})
	var off, all float64
	blocks, other := 0, 0
	for _, ip := range once.Images {
		for _, r := range ip.Procs {
			o := often.find(Known{Image: ip.ID, Addr: r.Proc.Addr})
			for b := range r.Block {
				all += times * r.Block[b].N
				blocks++
				if o == nil { // called less often than once
					off += times * r.Block[b].N
					continue
				}
				off += math.Abs(o.Block[b].N - times*r.Block[b].N)
				if r.Block[b].Within != o.Block[b].Within {
					other++
				}
			}
		}
	}
	t.Logf("%s: executions off by %.2g of all, %d of %d blocks with another confidence", name, off/all, other, blocks)
	if off > 0.02*all || float64(other) > 0.01*float64(blocks) {
		t.Errorf("%s: executions off by %.2g of all, %d of %d blocks with another confidence", name, off/all, other, blocks)
	}
}
