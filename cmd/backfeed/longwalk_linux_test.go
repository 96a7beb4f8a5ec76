package main

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"backfeed/infer/image"
	"backfeed/internal/testtool"
	"backfeed/sample"
	"backfeed/sample/collect"
	"backfeed/sample/trace"
)

// A longImages opens the images that long walks begin in or leave for, and gives them to the walker.
type longImages struct {
	t      *testing.T
	walker *collect.LongWalker
	seen   map[sample.ImageID]bool
	wanted chan sample.ImageID
	done   sync.WaitGroup
}

func newLongImages(t *testing.T, walker *collect.LongWalker) *longImages {
	l := &longImages{t: t, walker: walker, seen: map[sample.ImageID]bool{}, wanted: make(chan sample.ImageID, 100)}
	l.done.Go(func() {
		var images []trace.Image
		for id := range l.wanted {
			im, err := image.Open(id.Path, image.Options{})
			if err != nil {
				continue // as of vdso
			}
			one := walkImage(id.Path, im)
			im.Close()
			one.ID = id
			images = append(images, one)
			walker.SetImages(images)
		}
	})
	return l
}

// add has the images of a walk opened.
func (l *longImages) add(w *collect.LongWalk) {
	for _, m := range []sample.Mapping{w.At, w.Left} {
		if id := m.Image; id.Path != "" && m.Loss == "" && !l.seen[id.Key()] {
			l.seen[id.Key()] = true
			l.wanted <- id
		}
	}
}

func (l *longImages) close() {
	close(l.wanted)
	l.done.Wait()
}

// TestLongWalks: walks of real programs go on for ten thousand instructions and more, and the breakpoints are hit
// where the walks say that their threads will be.
func TestLongWalks(t *testing.T) {
	testtool.Live(t, "stops programs and walks")
	if runtime.GOARCH != "amd64" {
		t.Skip("long walks are of x86-64 only")
	}
	var text strings.Builder
	for i := range 500_000 {
		fmt.Fprintf(&text, "%d %x the quick brown fox %d\n", i, i*i*i, i%97)
	}
	input := testtool.Write(t, t.TempDir(), "text", text.String())
	for _, tt := range []struct {
		name    string
		command []string
		long    bool // most walks are
	}{
		{"bzip2", []string{"bzip2", "-c", input}, true},
		// Debian's library has no symbols, and jumps by tables that are not found.
		{"sqlite3", []string{"sqlite3", ":memory:", "with recursive c(x) as (select 1 union all select x+1 from c where x<4000000) select sum(x*x), count(distinct x%77), avg(x*0.5), group_concat(x) from c"}, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			testtool.Need(t, tt.name)
			var images *longImages
			var steps []int
			ends := map[string]int{}
			var timed []collect.Stretch
			var emulated, pages, late int
			var took time.Duration
			walker := collect.NewLongWalker(collect.LongWalkOptions{
				Options: collect.Options{Command: tt.command, MaxCPU: .2},
				Later:   4,
				Walked: func(w *collect.LongWalk) {
					images.add(w)
					if w.Long.End == trace.EndStart || w.Long.End == trace.EndOutside && len(steps) == 0 {
						ends[w.Long.End.String()]++
						return // its image is not known yet
					}
					steps = append(steps, w.Long.Steps)
					emulated, pages, took = emulated+w.Long.Steps, pages+w.Long.Pages, took+w.Took
					ends[w.Long.End.String()]++
					if w.Long.Late {
						late++
					}
					if len(steps) > 5 { // before, code was still being read, on the same processors
						w.Timed = func(s collect.Stretch) { timed = append(timed, s) }
					}
				},
			})
			images = newLongImages(t, walker)
			began := time.Now()
			_, stats, err := walker.Walk(t.Context())
			wall := time.Since(began)
			images.close()
			if err != nil {
				t.Fatal(err)
			}
			f, tr := stats.Followed, stats.Traced
			if len(steps) < 20 {
				t.Skipf("%d walks tell nothing: %v, %+v", len(steps), ends, f)
			}
			slices.Sort(steps)
			long := len(steps) - len(slices.DeleteFunc(slices.Clone(steps), func(n int) bool { return n >= 10_000 }))
			var hit, armed, instructions, later int
			var ns float64
			var watched time.Duration
			for _, s := range timed {
				switch s.End {
				case collect.StretchHit:
					hit++
					instructions, ns = instructions+s.Steps, ns+float64(s.Time.Nanoseconds())
					later, watched = later+len(s.Later), watched+s.Watched
					fallthrough
				case collect.StretchLimit, collect.StretchEvent:
					armed++
				}
			}
			t.Logf("%d walks in %v, %.0f a second; instructions: median %d, tenth %d; %.2f have 10,000 or more; %.0f million a second emulated, %d pages read by each; ended %v, %d of them late",
				len(steps), wall, float64(len(steps))/wall.Seconds(), steps[len(steps)/2], steps[len(steps)/10], float64(long)/float64(len(steps)), float64(emulated)/took.Seconds()/1e6, pages/len(steps), ends, late)
			t.Logf("stops: median %v, 99 %% %v, longest %v; they and the walker took %.3f of the time: %v and %v of %v", f.Median, f.P99, f.Longest, tr.Cost().Seconds()/wall.Seconds(), tr.Stopped, tr.Own, tr.Wall)
			t.Logf("%d of %d breakpoints were hit, after %d instructions in the mean, at %.3f ns each, and %d times more in %v; fixed costs %v ± %v, of each hit %v; %v",
				hit, armed, instructions/max(1, hit), ns/float64(max(1, instructions)), later, watched, f.Fixed, f.SD, f.HitCost, f.Ends)
			if tt.long && 2*long < len(steps) && late < len(steps)/4 {
				t.Errorf("%d of %d walks reached 10,000 instructions", long, len(steps))
			}
			if f.Refused != "" {
				t.Log(f.Refused)
			} else if armed >= 20 && 2*hit < armed {
				t.Errorf("%d of %d breakpoints were hit", hit, armed)
			}
		})
	}
}
