package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/replay"
)

var replayedTo = flag.String("replayed", "", "TestReplay writes what it counted of each program of testdata/stalls to `DIR`")

// replayed runs a program, walks in it and returns what a Model counts. After enough walks it ends; 0 is never.
func replayed(t *testing.T, lasts time.Duration, enough int, command ...string) (*sample.Counts, int) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var images *longImages
	model, walks, spent := replay.New(), 0, time.Duration(0)
	instructions := 0
	walker := collect.NewLongWalker(collect.LongWalkOptions{
		Options:  collect.Options{Command: command, MaxCPU: .2, Duration: lasts},
		Accesses: func() bool { return true },
		Walked: func(w *collect.LongWalk) {
			if w.At.Image.Path == command[0] { // reading libraries takes long, and nothing waits there
				own := *w
				own.Left = sample.Mapping{}
				images.add(&own)
			}
			began := time.Now()
			model.Walk(w.Code, w.Long)
			if w.Long.Steps > 0 {
				if walks++; walks == enough {
					stop()
				}
				instructions += w.Long.Steps
				spent += time.Since(began)
			}
		},
	})
	images = newLongImages(t, walker)
	_, _, err := walker.Walk(ctx)
	images.close()
	if err != nil {
		t.Fatal(err)
	}
	c := sample.NewCounts(sample.CPU{}, sample.Executions)
	model.AddTo(c)
	t.Logf("%d walks of %d instructions, at %.1f M a second", walks, instructions/max(1, walks), float64(instructions)/spent.Seconds()/1e6)
	return c, walks
}

// TestReplay: of programs that wait for one known reason, models of predictor and caches say
// what misses, and what does not.
func TestReplay(t *testing.T) {
	testtool.Live(t, "stops programs and walks")
	if runtime.GOARCH != "amd64" {
		t.Skip("long walks are of x86-64 only")
	}
	program, err := filepath.Abs("../../testdata/stalls/stalls")
	if err != nil {
		t.Fatal(err)
	}
	im, err := image.Open(program, image.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer im.Close()
	// Parts of what was counted, and between what they have to be.
	type part struct {
		name     string
		of       func(r *sample.Replayed) (n, all uint64)
		from, to float64
	}
	missed := func(from, to float64) part {
		return part{"mispredicted", func(r *sample.Replayed) (n, all uint64) { return r.Missed, r.Branches }, from, to}
	}
	near := func(from, to float64) part {
		return part{"near", func(r *sample.Replayed) (n, all uint64) { return r.Near, r.Accesses }, from, to}
	}
	far := func(from, to float64) part {
		return part{"far", func(r *sample.Replayed) (n, all uint64) { return r.Far, r.Accesses }, from, to}
	}
	// How much of memory is touched before, and so known to be far, hangs on how many walks there are.
	farAgain := func(from, to float64) part {
		return part{"far, of what was touched before", func(r *sample.Replayed) (n, all uint64) { return r.Far, r.Near + r.Far }, from, to}
	}
	farPages := func(from, to float64) part {
		return part{"far pages", func(r *sample.Replayed) (n, all uint64) { return r.FarPages, r.Accesses }, from, to}
	}
	farCode := func(from, to float64) part {
		return part{"far code", func(r *sample.Replayed) (n, all uint64) { return r.FarFetches, r.Fetches }, from, to}
	}
	for _, tt := range []struct {
		kind, turns, proc string // "" is all of the program
		parts             []part
	}{
		{"chase", "30", "chase", []part{missed(0, .02), near(0, .02), farAgain(.9, 1), farPages(.5, 1), farCode(0, .01)}},
		{"pages", "30", "chase", []part{missed(0, .02), near(0, .02), farAgain(.9, 1), farPages(.5, 1), farCode(0, .01)}},
		{"branch", "800", "branch", []part{missed(.2, .3), near(.95, 1), far(0, .01), farPages(0, 0), farCode(0, .01)}}, // one branch of two
		{"divide", "500", "divide", []part{missed(0, .01), farCode(0, .01)}},
		{"multiply", "2500", "multiply", []part{missed(0, .01), farCode(0, .01)}},
		{"forward", "700", "forward", []part{missed(0, .01), near(.99, 1), farPages(0, 0), farCode(0, .01)}},
		{"alias", "4000", "alias", []part{missed(0, .01), near(.99, 1), farPages(0, 0), farCode(0, .01)}},
		{"code", "2000", "", []part{missed(0, .02), near(.9, 1), farCode(.2, 1)}},
		{"stores", "3000", "stores", []part{missed(0, .01), near(0, .1), far(.5, 1), farCode(0, .01)}},
		{"atomic", "1000", "atomic", []part{missed(0, .01), near(.99, 1), farPages(0, 0), farCode(0, .01)}},
		{"touch", "4", "touch", []part{missed(0, .02), near(0, .02), far(.5, 1), farPages(.5, 1), farCode(0, .01)}},
	} {
		t.Run(tt.kind, func(t *testing.T) {
			enough := 40
			if tt.kind == "code" { // a third of which is touched for the first time in so many
				enough = 80
			}
			if tt.proc == "chase" || *replayedTo != "" { // what is far is known of memory that a walk touched before
				enough = 0
			}
			c, walks := replayed(t, 5*time.Second, enough, program, tt.kind, tt.turns)
			if walks < 10 {
				t.Skipf("%d walks tell nothing", walks)
			}
			if *replayedTo != "" {
				for _, ic := range c.Images {
					ic.ID.Path = "testdata/stalls/" + filepath.Base(ic.ID.Path)
				}
				if err := os.WriteFile(filepath.Join(*replayedTo, tt.kind+".bfr"), (&sample.Recording{Counts: []*sample.Counts{c}}).Encode(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			var sum sample.Replayed
			for _, ic := range c.Images {
				for off, r := range ic.Replayed {
					if a, ok := im.AddrOf(off); filepath.Base(ic.ID.Path) == "stalls" && ok && (tt.proc == "" || nameAt(im, a) == tt.proc) {
						sum = sum.Plus(r)
					}
				}
			}
			t.Logf("%s: %+v", tt.kind, sum)
			for _, p := range tt.parts {
				n, all := p.of(&sum)
				if all < 1000 {
					t.Skipf("%s: of %d executions", p.name, all)
				}
				if got := float64(n) / float64(all); got < p.from || got > p.to {
					t.Errorf("%s: %.4f, want %g to %g", p.name, got, p.from, p.to)
				}
			}
		})
	}
}

// nameAt returns the procedure at an address; "" if there is none.
func nameAt(im *image.Image, a image.Addr) string {
	if i := im.Find(a); i >= 0 {
		return im.Symbols()[i].Name
	}
	return ""
}
