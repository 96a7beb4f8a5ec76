//go:build amd64 || arm64

package collect

import (
	"errors"
	"fmt"
	"math/bits"
	"os"
	"sync"
	"time"
	"unsafe"

	"github.com/cilium/ebpf"
	kernelbtf "github.com/cilium/ebpf/btf"
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
	of      walkable
	opt     WalkOptions
	longest uint32 // as of WalkOptions

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
	nanoseconds() float64         // of a unit of the event of time
	shared() map[string]*ebpf.Map // by name
	kernelTypes() *kernelbtf.Cache
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
	walkerSpace struct {
		Born      uint64
		TGID, Pad uint32
	}
	walkerTotals struct {
		Walks, Steps, Spent, Earned uint64
		Ends                        [trace.Ends]uint64
		Walk, Lost                  uint64
	}
)

// NewWalker makes one of what s samples, which walks when it has images.
func NewWalker(s *System, opt WalkOptions) *Walker {
	w := &Walker{of: s.sampler, opt: opt, longest: opt.longest(), began: time.Now(), seen: opt.Seen, quit: make(chan struct{}), done: make(chan struct{})}
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

// SetShare says which share of the processor time of what is sampled walks may take from now on.
func (w *Walker) SetShare(share float64) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.opt.Share = share
	if w.code == nil {
		return nil
	}
	return w.bpf.Share.Set(shareUnits(share))
}

// shareUnits is a share as bpf/walker.c has it.
func shareUnits(share float64) uint32 { return uint32(min(max(share, 0), 1) * (1 << 20)) }

// SetImages says through which code walks go from now on.
func (w *Walker) SetImages(images []trace.Image) error {
	return w.SetCode(trace.NewCode(images), images)
}

// SetCode is SetImages with the code of images that others use too.
func (w *Walker) SetCode(code *trace.Code, images []trace.Image) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.code != nil && w.fits(code, images) {
		return w.refill(code, images)
	}
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
	for name, n := range map[string]int{walkerMapOps: len(code.Ops), walkerMapPages: len(code.Pages), walkerMapStarts: len(code.Starts)} {
		spec.Maps[name].MaxEntries = uint32(n + n/roomFor + leastRoom)
		spec.Maps[name].Flags |= unix.BPF_F_MMAPABLE // to be written at once
	}
	spec.Maps[walkerMapImages].MaxEntries = uint32(2*len(images) + 1)
	byPID, byCgroup := w.of.filtered()
	for name, value := range map[string]any{
		walkerVarByPid:     flag(byPID),
		walkerVarByCgroup:  flag(byCgroup),
		walkerVarLongest:   w.longest,
		walkerVarGuesses:   w.opt.guesses(),
		walkerVarUnit:      uint32(w.of.nanoseconds() * 1024),
		walkerVarShare:     shareUnits(w.opt.Share),
		walkerVarPageShift: uint32(bits.TrailingZeros(uint(os.Getpagesize()))),
	} {
		if err := spec.Variables[name].Set(value); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	var out walkerObjects
	if err := loadInto(&out, spec, w.of.shared(), w.of.kernelTypes(), Walks); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			out.Close()
		}
	}()
	if err := fill(&out, code, images); err != nil {
		return nil, err
	}
	return &out, nil
}

// What code there is may grow by a part of it, and some, before the program that walks has to be loaded anew: the kernel
// takes 0.02 s of processor time to verify it, and what is loaded has to be filled.
const roomFor, leastRoom = 2, 1 << 16

// fits reports whether there is room for other code.
func (w *Walker) fits(code *trace.Code, images []trace.Image) bool {
	return len(code.Ops) <= int(w.bpf.Ops.MaxEntries()) && len(code.Pages) <= int(w.bpf.Pages.MaxEntries()) &&
		len(code.Starts) <= int(w.bpf.Starts.MaxEntries()) && len(images) <= int(w.bpf.Images.MaxEntries())
}

// refill has walks go through other code, for which there is room.
func (w *Walker) refill(code *trace.Code, images []trace.Image) error {
	w.pause()
	w.seen.SetCode(code)
	w.code = code
	// What was found mapped where is of the code before.
	if err := errors.Join(clearMap[walkerFile](w.bpf.Images), clearMap[walkerSpace](w.bpf.Spaces), fill(&w.bpf, code, images)); err != nil {
		return err
	}
	return w.of.setNext(w.bpf.Walker)
}

// clearMap deletes what is in a map.
func clearMap[K any](m *ebpf.Map) error {
	var keys []K
	var key, next K
	for err := m.NextKey(nil, &next); err == nil; err = m.NextKey(&key, &next) {
		keys = append(keys, next)
		key = next
	}
	for i := range keys {
		if err := m.Delete(&keys[i]); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("%s: %w", m, err)
		}
	}
	return nil
}

// fill puts code into maps.
func fill(out *walkerObjects, code *trace.Code, images []trace.Image) error {
	ops := make([]trace.Op, len(code.Ops))
	for i, op := range code.Ops {
		ops[i] = op.Short()
	}
	if err := errors.Join(fillArray(out.Ops, ops), fillArray(out.Pages, code.Pages), fillArray(out.Starts, code.Starts)); err != nil {
		return err
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
			return fmt.Errorf("%s: %w", images[i].File, err)
		}
	}
	return nil
}

// fillArray sets the first values of an array, by its memory: half a million by calls take 0.6 s.
func fillArray[T any](m *ebpf.Map, values []T) error {
	if len(values) == 0 {
		return nil
	}
	mem, err := m.Memory()
	if err != nil {
		return fmt.Errorf("%s: %w", m, err)
	}
	size := int(unsafe.Sizeof(values[0]))
	b := unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), size*len(values))
	if stride := (size + 7) &^ 7; stride != size { // of an array, each value begins at 8 bytes
		wide := make([]byte, stride*len(values))
		for i := range values {
			copy(wide[i*stride:], b[i*size:][:size])
		}
		b = wide
	}
	if _, err := mem.WriteAt(b, 0); err != nil {
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

// pause ends walks, and takes in what they saw.
func (w *Walker) pause() {
	w.of.setNext(nil)
	time.Sleep(settle) // for walks that are under way
	w.gather()
}

// release lets go of the code.
func (w *Walker) release() {
	if w.code == nil {
		return
	}
	w.pause()
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
