package infer

import (
	"reflect"
	"slices"
	"testing"
)

// TestProgress: what is said rises from nothing to all, whoever does the steps, and nothing twice.
func TestProgress(t *testing.T) {
	var said []int
	p := newProgress(func(done, total int) {
		if total != progressSteps {
			t.Errorf("%d of %d, want %d", done, total, progressSteps)
		}
		said = append(said, done)
	})
	p.stage(0.5, 3)
	for range 3 {
		p.done()
	}
	p.stage(0.6, 0)
	p.stage(1, 5000)
	parallel(6000, func(int) { p.done() }) // more than were announced
	if !slices.IsSorted(said) || len(slices.Compact(slices.Clone(said))) != len(said) || said[0] != 0 || said[len(said)-1] != progressSteps {
		t.Errorf("said %d times, from %v on: %v", len(said), said[0], said[:min(10, len(said))])
	}
	var none *progress
	none.stage(1, 1)
	none.done()
}

// TestInferProgress: Infer goes from nothing to all, and the profile is that of an Infer that says nothing.
func TestInferProgress(t *testing.T) {
	m := loadMix(t)
	var said []int
	p, err := Infer(m.Rec, m.Open, Options{Progress: func(done, total int) { said = append(said, done) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(said) < 10 || said[0] != 0 || said[len(said)-1] != progressSteps {
		t.Errorf("said %v", said)
	}
	quiet, err := Infer(m.Rec, m.Open, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p.Images[0].Procs[0].Block, quiet.Images[0].Procs[0].Block) {
		t.Error("the profile is another")
	}
}
