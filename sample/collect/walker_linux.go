//go:build amd64 || arm64

package collect

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync"
	"time"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/ringbuf"
	"golang.org/x/sys/unix"

	"backfeed/sample"
	"backfeed/sample/trace"
)

// A Walker goes on from samples: where one interrupted a thread in user mode, it emulates
// in the kernel the instructions that the thread is about to run, a few hundred, with its
// registers and memory, and reports which branches they take. It reads and changes nothing, so
// that the thread notices no more than the time it takes. What branches do is thus seen
// exactly, of executions that follow upon moments of time, not upon one another; walks that
// begin in slow code weigh less (see package trace).
//
// Instructions that are not emulated leave what they write unknown; a walk ends where it
// depends on that.
type Walker struct {
	of  walkable
	opt WalkOptions

	mu     sync.Mutex
	bpf    walkerObjects
	code   *trace.Code
	trails *ringbuf.Reader
	began  time.Time
	spent  WalkTotals // of walkers before

	seen *trace.Walks
	quit chan struct{}
	done chan struct{}
}

// walkable is what a Walker goes on from: a sampler.
type walkable interface {
	filtered() (byPID, byCgroup bool)
	nanoseconds() float64                // of a unit of the event of time
	shared() map[string]*ebpf.Map        // by name
	setNext(program *ebpf.Program) error // runs it after each sample of the event of time; nil is none
}

// Layouts of bpf/walker.c, beside trace.Op.
type (
	walkerFile struct {
		Ino    uint64
		Dev, _ uint32
	}
	walkerImage struct {
		Lo, Hi, Delta, First uint64
		Pages, Many          uint32
	}
	walkerTotals struct {
		Walks, Steps, Spent, Earned uint64
		Ends                        [trace.Ends]uint64
		Walk, Lost                  uint64
	}
)

// NewWalker makes one of what s samples, which walks when it has images.
func NewWalker(s *System, opt WalkOptions) *Walker {
	w := &Walker{of: s.sampler, opt: opt, began: time.Now(), seen: opt.Seen, quit: make(chan struct{}), done: make(chan struct{})}
	if w.seen == nil {
		w.seen = new(trace.Walks)
	}
	if opt.Paths {
		w.seen.KeepPaths()
	}
	go w.tend()
	return w
}

// gatherEvery is how long trails stay in the ring of 2 MB, where there is room for 3000 of the
// longest.
const gatherEvery = time.Second

// tend takes the trails out of the ring.
func (w *Walker) tend() {
	defer close(w.done)
	tick := time.NewTicker(gatherEvery)
	defer tick.Stop()
	for {
		select {
		case <-w.quit:
			return
		case <-tick.C:
			w.mu.Lock()
			w.gather()
			w.mu.Unlock()
		}
	}
}

// SetImages says through which code walks go from now on.
func (w *Walker) SetImages(images []trace.Image) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	code := trace.NewCode(images)
	fresh, err := w.load(code, images)
	if err != nil {
		return err
	}
	trails, err := ringbuf.NewReader(fresh.Trails)
	if err != nil {
		fresh.Close()
		return fmt.Errorf("walks: %w", err)
	}
	w.release()
	w.seen.SetCode(code)
	w.bpf, w.code, w.trails = *fresh, code, trails
	return w.of.setNext(w.bpf.Walker)
}

// load puts code into the kernel.
func (w *Walker) load(code *trace.Code, images []trace.Image) (_ *walkerObjects, err error) {
	spec, err := loadWalker()
	if err != nil {
		return nil, err
	}
	spec.Maps[walkerMapOps].MaxEntries = uint32(len(code.Ops))
	spec.Maps[walkerMapPages].MaxEntries = uint32(max(1, len(code.Pages)))
	spec.Maps[walkerMapStarts].MaxEntries = uint32(len(code.Starts))
	spec.Maps[walkerMapImages].MaxEntries = uint32(max(1, len(images)))
	byPID, byCgroup := w.of.filtered()
	for name, value := range map[string]any{
		walkerVarByPid:     flag(byPID),
		walkerVarByCgroup:  flag(byCgroup),
		walkerVarLongest:   w.opt.longest(),
		walkerVarGuesses:   w.opt.guesses(),
		walkerVarUnit:      uint32(w.of.nanoseconds() * 1024),
		walkerVarShare:     uint32(w.opt.Share * (1 << 20)),
		walkerVarPageShift: uint32(bits.TrailingZeros(uint(os.Getpagesize()))),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	var out walkerObjects
	if err := loadInto(&out, spec, w.of.shared(), Walks); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			out.Close()
		}
	}()
	ops := make([]trace.Op, len(code.Ops))
	for i, op := range code.Ops {
		ops[i] = op.Short()
	}
	if err := fillArray(out.Ops, ops); err != nil {
		return nil, err
	}
	if err := errors.Join(fillArray(out.Pages, code.Pages), fillArray(out.Starts, code.Starts)); err != nil {
		return nil, err
	}
	for i, r := range code.Ranges {
		if r.Hi == 0 {
			continue
		}
		var st unix.Stat_t
		if err := unix.Stat(images[i].File, &st); err != nil {
			continue // it is gone: nothing runs it any more
		}
		// The kernel's own form of a device number has 20 bits for the minor one.
		file := walkerFile{Ino: st.Ino, Dev: unix.Major(st.Dev)<<20 | unix.Minor(st.Dev)}
		if err := out.Images.Put(file, walkerImage{Lo: uint64(r.Lo), Hi: uint64(r.Hi), Delta: r.Delta, First: r.First, Pages: r.Pages, Many: r.Many}); err != nil {
			return nil, fmt.Errorf("%s: %w", images[i].File, err)
		}
	}
	return &out, nil
}

// fillArray sets all values of an array.
func fillArray[T any](m *ebpf.Map, values []T) error {
	keys := make([]uint32, len(values))
	for i := range keys {
		keys[i] = uint32(i)
	}
	if len(keys) == 0 {
		return nil
	}
	if _, err := m.BatchUpdate(keys, values, nil); err != nil {
		return fmt.Errorf("%s: %w", m, err)
	}
	return nil
}

// gather adds what walks saw since it was last called.
func (w *Walker) gather() {
	if w.code == nil {
		return
	}
	batch := int(time.Since(w.began) / trace.BatchTime)
	// What cannot be read is missed, as what was dropped.
	readRing(w.trails, "walks", func(b []byte) error {
		w.seen.Add(b, batch)
		return nil
	})
}

// release lets go of the code.
func (w *Walker) release() {
	if w.code == nil {
		return
	}
	w.of.setNext(nil)
	time.Sleep(settle) // for walks that are under way
	w.gather()
	w.spent = w.totals()
	w.trails.Close()
	w.bpf.Close()
	w.code = nil
}

// Gather adds what walks saw so far to WalkOptions.Seen.
func (w *Walker) Gather() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gather()
}

// AddTo adds what walks saw to counts, the samples of the same processes. Rates are those of
// the time since the last Forget.
func (w *Walker) AddTo(counts *sample.Counts, rates []trace.Rate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gather()
	w.seen.AddTo(counts, rates)
}

// Left returns how many walks left the code of the images that SetImages told last, by where they
// went on to in one of these, and how many walks there were since.
func (w *Walker) Left() (left map[trace.Left]int, walks int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gather()
	return w.seen.Left()
}

// Totals tell what walks did since w was made.
func (w *Walker) Totals() WalkTotals {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.totals()
}

func (w *Walker) totals() WalkTotals {
	sum := w.spent
	if w.code == nil {
		return sum
	}
	var all []walkerTotals
	if w.bpf.Totals.Lookup(uint32(0), &all) != nil {
		return sum
	}
	for _, t := range all {
		sum.Walks += t.Walks
		sum.Steps += t.Steps
		sum.Lost += t.Lost
		sum.Time += time.Duration(t.Spent)
		for i, n := range t.Ends {
			sum.Ends[i] += n
		}
	}
	return sum
}

// Close ends all walks. What they saw can still be had.
func (w *Walker) Close() error {
	close(w.quit)
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	w.release()
	return nil
}
