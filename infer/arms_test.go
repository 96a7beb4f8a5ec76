package infer

import (
	"math"
	"testing"

	"backfeed/infer/machine"
)

// An arm is what runs from where an indirect jump leads to the next one, as the exact counts have it.
type arm struct {
	samples, cycles float64
	insts           float64 // that ran, for each time that it was entered
}

// arms returns those of r that ran and have 50 samples or more.
func (s *set) arms(ip *ImageProfile, r *Result, model *machine.Model) (ran []arm) {
	f := newFlow(r.Proc, 0)
	if f == nil {
		return nil
	}
	heads := armsOf(r.Proc, f)
	n := f.nest(heads)
	arms := make([]arm, n.arms)
	for b := range r.Proc.Blocks {
		of := n.of[b]
		if len(of) == 0 || int(of[len(of)-1]) < n.loops {
			continue
		}
		a, block := &arms[int(of[len(of)-1])-n.loops], &r.Proc.Blocks[b]
		times := s.exact(ip, block)
		a.samples += float64(r.BlockSamples[b])
		a.cycles += times * outOfOrder.cycles(model.Expected(ip.Image, block))
		a.insts += times * float64(block.Insts)
	}
	for i, a := range arms {
		if entered := s.exact(ip, &r.Proc.Blocks[heads[i]]); a.samples >= 50 && entered > 0 {
			a.insts /= entered
			ran = append(ran, a)
		}
	}
	return ran
}

// TestArms: the arms of a procedure are off from each other by more than their blocks err by themselves, which is what
// armSD is for. With -v it prints, over the programs of -sets, the variance of the logarithm of samples over the cycles of
// the model by exact counts around the mean of the procedure, by their instructions.
func TestArms(t *testing.T) {
	all := loadSets(t)
	if len(all) == 0 {
		t.Skip("no -sets")
	}
	var squares, n [8]float64 // by the logarithm of the instructions, to base 2
	var own, sum, count float64
	for _, s := range all {
		p := s.infer(t, s.Rec, Options{})
		model, err := machine.ByName(p.Machine)
		if err != nil {
			t.Fatal(err)
		}
		for _, ip := range p.Images {
			for _, r := range ip.Procs {
				arms := s.arms(ip, r, model)
				if len(arms) < 4 {
					continue
				}
				logs := make([]float64, len(arms))
				for i, a := range arms {
					logs[i] = math.Log(a.samples / a.cycles)
				}
				mean := sumOf(logs) / float64(len(logs))
				for i, a := range arms {
					d := (logs[i] - mean) * (logs[i] - mean) * float64(len(logs)) / float64(len(logs)-1)
					k := min(len(n)-1, int(math.Log2(max(1, a.insts))))
					squares[k] += d
					n[k]++
					if a.insts >= 8 {
						sum, own, count = sum+d, own+outOfOrder.blockVar/a.insts+outOfOrder.leastVar, count+1
					}
				}
			}
		}
	}
	for k := range n {
		t.Logf("%3d instructions and more: variance %.2f (%.0f arms)", 1<<k, squares[k]/max(n[k], 1), n[k])
	}
	if count < 30 {
		return
	}
	t.Logf("%.0f arms of 8 instructions or more: variance %.2f, of which blocks by themselves have %.2f", count, sum/count, own/count)
	if beside := math.Sqrt(max(0, sum/count-own/count)); beside < outOfOrder.armSD/2 || beside > outOfOrder.armSD*2 {
		t.Errorf("arms are off by %.2f beside that; armSD is %.2f", beside, outOfOrder.armSD)
	}
}
