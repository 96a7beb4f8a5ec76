//go:build amd64 || arm64

package collect

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"backfeed/sample"
	"backfeed/sample/kernel"
	"backfeed/sample/probe"
)

// A System samples all that runs on this machine: a sampler has the kernel count, and at each
// drain a resolver puts what it counted down to images.
//
// Methods may be called from several goroutines at once.
type System struct {
	sampler  *sampler
	resolver *resolver
	off      *offCPU // nil if time off the processor is not asked for
	close    sync.Once
	halt     sync.Once
	halted   error
	switches sync.Mutex // while what samples is switched on or off
	quit     chan struct{}
	tended   chan struct{}
	unwound  chan struct{} // closed once the unwinder has ended

	online func() ([]int, error) // which processors there are
	used   atomic.Int64          // processor time that sampling took since it was opened, in ns

	ended    bool       // Halt was called; under switches
	mu       sync.Mutex // of both, and of drains
	closed   bool
	last     Counters          // when it was closed
	leftover *sample.Recording // what Close drained

	moments []probe.Moments // that Moments has not returned
}

// addMoments takes in samples of windows.
func (s *System) addMoments(at []moment, n []uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range at {
		s.resolver.moments = append(s.resolver.moments, countedPC{sampledPC{IP: m.IP, Born: m.Born, PID: m.PID, Event: m.Number}, n[i]})
	}
}

// Moments returns those samples of windows that were attributed to images by Drain since the last call.
func (s *System) Moments() []probe.Moments {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := s.moments
	s.moments = nil
	return m
}

// OpenSystem starts to sample. The error is an *Unavailable where the machine or
// the privileges of this process do not allow it.
func OpenSystem(opt SystemOptions) (*System, error) {
	s, err := newSystem(opt)
	if err != nil {
		return nil, err
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	return s, nil
}

// newSystem returns a System that is not open yet.
func newSystem(opt SystemOptions) (*System, error) {
	if opt.Frequency == 0 {
		opt.Frequency = DefaultSystemFrequency
	}
	if opt.Drain == 0 {
		opt.Drain = DefaultDrain
	}
	if opt.Frequency < 1 || opt.Frequency > maxFrequency {
		return nil, fmt.Errorf("%d Hz: want 1 to %d", opt.Frequency, maxFrequency)
	}
	if opt.Frames < 0 || opt.Frames > MaxFrames || opt.Frames > 0 && opt.Callers != CallersOfAll {
		return nil, fmt.Errorf("%d frames: want 1 to %d, of the callers of all", opt.Frames, MaxFrames)
	}
	if opt.OffCPU && opt.Frames == 0 {
		return nil, errors.New("time off the processor: want frames of stacks, too")
	}
	r := newResolver()
	r.callersOf, r.origins, r.records.origins = opt.Callers, opt.Origins, opt.Origins
	r.files.opened, r.jits.keep = opt.Opened, opt.Maps
	if r.procs.some = len(opt.PIDs)+len(opt.Cgroups) > 0; len(opt.Cgroups) == 0 { // which processes a cgroup has is not known
		r.procs.asked = opt.PIDs
	}
	return &System{
		sampler: &sampler{opt: opt}, resolver: r,
		quit: make(chan struct{}), tended: make(chan struct{}), unwound: make(chan struct{}), online: cpus,
	}, nil
}

// begin opens s.
func (s *System) begin() error {
	if u := WholeMachine.lacks(ThisHost()); u != nil {
		return u
	}
	if err := s.open(); err != nil {
		s.release()
		return err
	}
	calmMonitor()
	go s.tend()
	go func() {
		defer close(s.unwound)
		if s.sampler.unwind != nil {
			s.sampler.unwind.run(s.quit, s.takes)
		}
	}()
	return nil
}

func (s *System) open() error {
	cpu, err := thisCPU()
	if err != nil {
		return err
	}
	online, err := s.online()
	if err != nil {
		return err
	}
	opt := &s.sampler.opt
	if u := steppedTick(); opt.Tick && u != nil {
		return u
	}
	var symbols kernel.Symbols
	if opt.Kernel || opt.Tick { // to read them takes as long as all else here
		if symbols, err = kernel.ReadSymbols(); err != nil {
			return err
		}
	}
	if symbols.Text == 0 && opt.Kernel || symbols.Tick == 0 && opt.Tick {
		return hiddenKernel()
	}
	s.resolver.begin(symbols)
	if err := s.sampler.load(cpu, online, symbols.Tick); err != nil {
		return err
	}
	// First the sampler learns of execs, then this process of mappings, then come
	// those there are already, and last the samples: each has what it needs.
	if err := s.sampler.follow(); err != nil {
		return err
	}
	for _, cpu := range online {
		if err := s.resolver.records.add(cpu); err != nil {
			return err
		}
	}
	if err := s.resolver.snapshot(); err != nil {
		return err
	}
	s.resolver.unwind = s.sampler.unwind
	s.sampler.unwind.prepare(opt.PIDs)
	if opt.OffCPU {
		if s.off, err = openOffCPU(s.sampler); err != nil {
			return err
		}
		if err := s.off.start(); err != nil {
			return err
		}
	}
	return s.sampler.start()
}

// Without says which parts of what was asked for the kernel refuses, and why. The others work.
func (s *System) Without() []*Unavailable { return s.sampler.without }

// Timer reports whether s samples by timers of its own and by nothing else, so that TimerRate is its rate at most.
func (s *System) Timer() bool {
	return !s.sampler.opt.Tick && !slices.ContainsFunc(s.sampler.kinds, func(w perfEvent) bool { return w.unit != "ns" })
}

// tendEvery is how often the rings of mappings are read and periods may change.
// By a timer: a thread that waits in poll keeps the Go runtime awake. Each time
// costs 0.1 ms in all on a busy machine, and what the Go runtime takes to wake and to sleep again as much: half
// as often, all of record -a took an eighth less there.
const tendEvery = 200 * time.Millisecond

// lookEvery is the time between two looks at which processors there are.
const lookEvery = time.Second

// tend does what must be done between two drains, until Close.
func (s *System) tend() {
	defer close(s.tended)
	tick := time.NewTicker(tendEvery)
	defer tick.Stop()
	var looked time.Time
	for {
		select {
		case <-s.quit:
			return
		case now := <-tick.C:
			took := s.takes()
			s.resolver.records.gather()
			s.resolver.jits.tend()
			if now.Sub(looked) >= lookEvery {
				looked = now
				s.plug()
			}
			s.switches.Lock()
			if s.sampler.pace != nil && !s.ended {
				s.sampler.pace.step(now)
				s.sampler.faults.step(now, s.sampler.pace.mean())
			}
			s.switches.Unlock()
			took()
		}
	}
}

// plug takes in processors that have come, and lets go those that have gone. What it
// can't open, as that of a processor which is about to go, is tried again at the
// next look.
func (s *System) plug() {
	online, err := s.online()
	if err != nil || slices.Equal(online, slices.Sorted(slices.Values(s.sampler.cpus))) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.switches.Lock()
	defer s.switches.Unlock()
	if s.ended {
		return
	}
	for i := len(s.sampler.cpus) - 1; i >= 0; i-- {
		if !slices.Contains(online, s.sampler.cpus[i]) {
			s.drop(i)
		}
	}
	for _, cpu := range online {
		if !slices.Contains(s.sampler.cpus, cpu) && s.resolver.records.add(cpu) == nil && !s.sampler.add(cpu) {
			s.drop(len(s.sampler.cpus) - 1)
		}
	}
}

// drop lets go the processor of index i.
func (s *System) drop(i int) {
	s.resolver.records.drop(i)
	s.sampler.drop(i)
}

// SetFrequency changes the samples per second and processor, up to the number
// that the System was opened with: the maps are full. Of more than TimerRate, timers take as many as that.
func (s *System) SetFrequency(hz int) error {
	opt := &s.sampler.opt
	if opt.Tick {
		return errors.New("the tick has a rate of its own")
	}
	if hz = s.sampler.rate(hz); hz < 1 || hz > opt.Frequency {
		return fmt.Errorf("%d Hz: want 1 to %d", hz, opt.Frequency)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return fs.ErrClosed
	}
	s.sampler.pace.set(hz)
	return nil
}

// Counters tell what became of all samples since s was opened.
func (s *System) Counters() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		c := s.last
		c.Unresolved = maps.Clone(c.Unresolved)
		return c
	}
	return s.counters()
}

func (s *System) counters() (c Counters) {
	s.sampler.count(&c)
	s.off.count(&c)
	s.resolver.count(&c)
	return c
}

// Halt stops sampling at once, whatever else s is at. What was sampled can be had from Drain, before Close or after.
func (s *System) Halt() error {
	s.halt.Do(func() {
		s.switches.Lock()
		defer s.switches.Unlock()
		s.ended = true
		s.halted = errors.Join(s.off.detach(), s.sampler.stop())
	})
	return s.halted
}

// StopOffCPU has time off the processor recorded no longer, and what it cost at switches of threads is not spent any more. What was recorded
// is in the next Drain.
func (s *System) StopOffCPU() error {
	s.switches.Lock()
	err := s.off.detach()
	s.switches.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.off.settle()
	}
	return err
}

// Close stops sampling. What was sampled since the last Drain can still be had
// from one more.
func (s *System) Close() error {
	err := errors.New("closed already")
	s.close.Do(func() {
		err = s.Halt()
		close(s.quit)
		<-s.tended
		<-s.unwound
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.off.settle() {
			s.off.asleep(s.sampler.opt.PIDs)
		}
		var drained []*sample.Recording
		for range 3 { // either buffer, and what waits for a mapping
			r, e := s.drain()
			err = errors.Join(err, e)
			if r != nil {
				drained = append(drained, r)
			}
		}
		s.leftover = sample.Merge(drained...)
		s.resolver.jits.close()
		s.last = s.counters()
		s.closed = true
		s.release()
	})
	return err
}

// release undoes everything.
func (s *System) release() {
	s.off.release()
	s.off = nil
	s.sampler.release()
	s.resolver.records.close()
}

// Drain returns what was sampled since the last Drain, attributed to images. A
// sample in code whose mapping is not known yet is in the next one.
func (s *System) Drain() (*sample.Recording, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		r := s.leftover
		s.leftover = nil
		if r == nil {
			return nil, fs.ErrClosed
		}
		return r, nil
	}
	defer s.takes()()
	return s.drain()
}

// Used is the processor time of this process that went into sampling since s was opened: about what other ways to sample take too.
func (s *System) Used() time.Duration {
	if s == nil {
		return 0
	}
	return time.Duration(s.used.Load())
}

// takes counts as Used what is done until what it returns is called.
func (s *System) takes() func() {
	runtime.LockOSThread()
	before := threadTime()
	return func() {
		s.used.Add(int64(threadTime() - before))
		runtime.UnlockOSThread()
	}
}

func (s *System) drain() (*sample.Recording, error) {
	if err := s.off.flip(); err != nil {
		return nil, err
	}
	t, err := s.sampler.take() // which waits for programs that are at work
	if err != nil {
		return nil, err
	}
	var off offTaken
	if s.off != nil {
		if off, err = s.off.take(); err != nil {
			return nil, err
		}
	}
	if err := s.resolver.catchUp(); err != nil {
		return nil, err
	}
	rec, err := s.resolver.resolve(s.sampler.newCounts(), t)
	if err != nil {
		return nil, err
	}
	for _, c := range rec.Counts {
		s.sampler.clock.weigh(c)
	}
	s.moments = append(s.moments, s.resolver.placeMoments()...)
	if s.off != nil {
		if rec.Off, err = s.off.resolve(s.resolver, s.sampler.cpu, off); err != nil {
			return nil, err
		}
	}
	return rec, nil
}
