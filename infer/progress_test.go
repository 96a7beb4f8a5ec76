package infer

import (
	"context"
	"errors"
	"math"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"

	"backfeed/infer/image"
	"backfeed/sample"
)

// TestProgress: what is said rises from nothing to all, whoever does the steps, and nothing twice.
func TestProgress(t *testing.T) {
	var said []int
	p := newProgress(t.Context(), func(done, total int) {
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
	p, err := Infer(t.Context(), m.Rec, m.Open, Options{Progress: func(done, total int) { said = append(said, done) }})
	if err != nil {
		t.Fatal(err)
	}
	if len(said) < 10 || said[0] != 0 || said[len(said)-1] != progressSteps {
		t.Errorf("said %v", said)
	}
	quiet, err := Infer(t.Context(), m.Rec, m.Open, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(p.Images[0].Procs[0].Block, quiet.Images[0].Procs[0].Block) {
		t.Error("the profile is another")
	}
}

// An endingContext ends when it was looked at so many times. It counts looks, from any goroutine.
type endingContext struct {
	context.Context
	looks, last atomic.Int64
}

func (c *endingContext) Err() error {
	if c.looks.Add(1) > c.last.Load() {
		return context.Canceled
	}
	return nil
}

// TestInferEnds: Infer ends wherever its context does, with that error. It looks at it between procedures,
// and does nothing more afterwards.
func TestInferEnds(t *testing.T) {
	m := loadMix(t)
	opt := Options{Places: 3, Sites: 3, Probing: Probing{Window: 1e-3, Fixed: 1e-3, PerHit: 1e-6}}
	whole := &endingContext{Context: t.Context()}
	whole.last.Store(math.MaxInt64)
	p, err := Infer(whole, m.Rec, m.Open, opt)
	if err != nil {
		t.Fatal(err)
	}
	if n, procs := whole.looks.Load(), int64(len(p.Images[0].Procs)); n < procs {
		t.Fatalf("looked %d times, for %d procedures", n, procs)
	}
	for last := range int64(20) {
		ctx := &endingContext{Context: t.Context()}
		ctx.last.Store(last * whole.looks.Load() / 20)
		if p, err := Infer(ctx, m.Rec, m.Open, opt); !errors.Is(err, context.Canceled) || p != nil {
			t.Errorf("ended at look %d of %d: profile %v, error %v", ctx.last.Load(), whole.looks.Load(), p != nil, err)
		}
	}
}

// TestInferOpensNoMore: images are not opened after the context has ended.
func TestInferOpensNoMore(t *testing.T) {
	m := loadMix(t)
	ctx, cancel := context.WithCancel(t.Context())
	opened := 0
	rec := *m.Rec
	rec.Counts = []*sample.Counts{{Event: m.Rec.Counts[0].Event, Total: 2, Images: []*sample.ImageCounts{
		{ID: sample.ImageID{Path: "/a"}, At: map[sample.Offset]uint64{1: 1}},
		{ID: sample.ImageID{Path: "/b"}, At: map[sample.Offset]uint64{1: 1}},
	}}}
	_, err := Infer(ctx, &rec, func(id sample.ImageID) (*image.Image, error) {
		opened++
		cancel()
		return m.Open(m.Rec.Counts[0].Images[0].ID)
	}, Options{})
	if !errors.Is(err, context.Canceled) || opened != 1 {
		t.Errorf("%d images opened, error %v; want 1, and %v", opened, err, context.Canceled)
	}
}
